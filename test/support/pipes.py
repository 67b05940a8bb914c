"""Passes in one process, and each in a process of its own that reads what the one before has printed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

from vyre_opt.ir import DiagnosticError, parse, print_program, verify
from vyre_opt.passes import PassManager
from vyre_opt.passes.pipeline_text import parse_pipeline

from .adversarial import adversarial_pipeline
from .bound_programs import bound_pipeline
from .dimension_programs import random_pipeline
from .features.composition import compose
from .generator import random_program
from .handoff import handoff_program
from .launch_pipelines import launch_pipeline
from .matrix_pipelines import matrix_pipeline
from .natural_pipelines import natural_pipeline

__all__ = ["RANDOM_TEXTS", "in_one_process", "piped", "written_files", "written_texts"]

ROOT = Path(__file__).parents[2]


def in_one_process(text: str, passes: str) -> str:
    """The text after passes, or that of the error which ends them."""
    return _after(text, [passes])


def piped(text: str, passes: str) -> str:
    """The same where each pass gets the text that the one before has printed."""
    return _after(text, [str(each) for each in parse_pipeline(passes)])


def _after(text: str, runs: list[str]) -> str:
    try:
        for passes in runs:
            module = parse(text)
            PassManager(passes, verify_each=False).run(module)
            text = print_program(module)
    except DiagnosticError as error:
        return "\n".join(diagnostic.message for diagnostic in error.diagnostics)
    return text


def written_files() -> list[str]:
    """The files of examples/ and of the lit tests, from the root."""
    paths = [*(ROOT / "examples").rglob("*.vyre"), *(ROOT / "test/lit").rglob("*.vyre")]
    return sorted(path.relative_to(ROOT).as_posix() for path in paths)


def written_texts(path: str) -> Iterator[str]:
    """The valid modules of a file."""
    whole = (ROOT / path).read_text(encoding="utf-8")
    for text in re.split(r"(?m)^// -----$", whole) if "--split-input-file" in whole else [whole]:
        try:
            is_valid = all(diagnostic.severity != "error" for diagnostic in verify(parse(text)))
        except DiagnosticError:
            continue
        if is_valid:
            yield text


def _features(seed: int) -> str:
    while (composed := compose(seed)).is_python:
        seed += 1_000_000
    return composed.text()


RANDOM_TEXTS: dict[str, Callable[[int], str]] = {
    "launches": launch_pipeline,
    "program": lambda seed: print_program(random_program(seed).module),
    "handoff": lambda seed: print_program(handoff_program(seed).module),
    "bound": bound_pipeline,
    "dimensions": lambda seed: random_pipeline(seed).text,
    "natural": lambda seed: natural_pipeline(seed).text,
    "features": _features,
    "matrices": matrix_pipeline,
    "adversarial": lambda seed: adversarial_pipeline(seed).text,
}
"""Random modules by seed."""
