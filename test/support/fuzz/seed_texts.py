"""Texts to start from: the repository's own, and small ones of each random generator."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from vyre_opt.ir import DiagnosticError, Module, parse, print_program

from ..bound_programs import bound_pipeline
from ..expressions import Settings
from ..generator import random_program
from ..handoff import handoff_program
from ..kernel_cases import kernel_cases
from ..launch_pipelines import launch_pipeline
from ..op_programs import op_programs

__all__ = ["any_texts", "runnable_texts"]

ROOT = Path(__file__).parents[3]
LONGEST = 3000
"""Characters of a seed: a mutation of a short text is fast, and more likely to matter."""

SMALL = Settings(statements=2, depth=2, expression_depth=1, fastmath=True)
EXACT = Settings(statements=1, depth=1, expression_depth=1)


@cache
def any_texts() -> tuple[str, ...]:
    """Right and wrong ones, short and generic form, programs and pipelines."""
    paths = [*ROOT.glob("examples/**/*.vyre"), *ROOT.glob("test/lit/**/*.vyre")]
    paths += ROOT.glob("test/conformance/**/*.vyre")
    texts = [part for path in sorted(paths) for part in path.read_text("utf-8").split("// -----\n")]
    texts += _kernel_texts()
    modules = [random_program(seed, SMALL).module for seed in range(24)]
    texts += [print_program(module, generic=seed % 3 == 0) for seed, module in enumerate(modules)]
    texts += [print_program(handoff_program(seed).module) for seed in range(6)]
    texts += [launch_pipeline(seed) for seed in range(0, 12, 2)]
    texts += [print_program(module, generic=True) for module in _modules(texts)[::7]]
    return tuple(dict.fromkeys(text for text in texts if text.strip() and len(text) < LONGEST))


@cache
def runnable_texts() -> tuple[str, ...]:
    """Programs and pipelines that run clean on arrays of any contents."""
    texts = [print_program(case.module) for case in list(op_programs())[::8]]
    texts += [print_program(random_program(seed, EXACT).module) for seed in range(100, 130)]
    texts += [print_program(handoff_program(seed).module) for seed in range(12)]
    texts += [launch_pipeline(seed) for seed in range(0, 24, 2)]
    texts += [bound_pipeline(seed, all_given=True) for seed in range(1, 16, 2)]
    return tuple(text for text in texts if len(text) < LONGEST)


def _kernel_texts() -> list[str]:
    """The programs of the named kernels, one of each kind."""
    first = {case.kernel: case for case in reversed(kernel_cases())}
    texts = []
    for case in first.values():
        module = Module()
        module.add(case.make().program)
        texts.append(print_program(module))
    return texts


def _modules(texts: list[str]) -> list[Module]:
    modules = []
    for text in texts:
        try:
            modules.append(parse(text))
        except DiagnosticError:
            pass
    return modules
