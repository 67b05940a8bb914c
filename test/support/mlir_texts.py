"""Modules to write as MLIR: the texts of this checkout, with their named kernels written out, the shipped kernels, and each op."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from pathlib import Path

from vyre_opt.ir import DiagnosticError, Module, Program, Source, errors_of, parse_source
from vyre_opt.passes import PassManager

from .kernel_cases import kernel_cases
from .op_programs import OpProgram, op_programs

__all__ = ["alone", "kernel_modules", "module_of_text", "op_cases", "texts"]

ROOT = Path(__file__).parents[2]
MARKER = "// -----"


@cache
def texts() -> list[tuple[str, str]]:
    """(name, text) of every part of every .vyre file of the examples and the tests that is a module without errors."""
    return list(_texts())


def _texts() -> Iterator[tuple[str, str]]:
    for folder in ("examples", "test"):
        for path in sorted((ROOT / folder).rglob("*.vyre")):
            whole = path.read_text(encoding="utf-8", errors="replace")
            for number, part in enumerate(whole.split(MARKER)):
                try:
                    module = parse_source(Source(part))
                    errors = errors_of(module)
                except DiagnosticError:
                    continue
                if module.programs and not errors:
                    yield f"{path.relative_to(ROOT)}:{number}", part


def module_of_text(text: str) -> Module:
    """The module, each of its named kernels as a program at its default schedule, and types in the place of parameters."""
    module = parse_source(Source(text))
    is_open = any(program.type_parameters for program in module.programs.values())
    PassManager("specialize,expand_kernels" if is_open else "expand_kernels").run(module)
    return module


def kernel_modules(step: int) -> list[Module]:
    """Every `step`-th case of the shipped kernels."""
    modules = []
    for case in kernel_cases()[::step]:
        module = Module()
        module.add(case.make().program)
        modules.append(module)
    return modules


def op_cases(*, is_first: bool = True) -> list[OpProgram]:
    """The programs of each op at the first of its types, or those at the others."""
    first = {case.name.split()[0]: case.name for case in reversed(op_programs())}
    return [case for case in op_programs() if (case.name in first.values()) == is_first]


def alone(module: Module, program: Program) -> Module:
    """A program with the functions of its module."""
    only = Module()
    for func in module.funcs.values():
        only.add(func)
    only.add(program)
    return only
