"""Runs delta passes until none of them makes the module smaller; texts that are no module lose lines, then words."""

from __future__ import annotations

import re
from collections.abc import Sequence

from ..ir.diagnostics import DiagnosticError, Source
from ..ir.program import Module
from ..ir.verifier import errors_of
from ..syntax.parser import parse_source
from ..syntax.printer import print_program
from .delta import minimise
from .delta_passes import DELTA_PASSES
from .oracle import Oracle, OutOfTests
from .variants import ModuleVariant, PartsVariant

__all__ = ["module_of", "reduce_lines", "reduce_module", "reduce_text"]

_WORD = re.compile(r"\s+|[\w.]+|.")
REPEATED = frozenset({"half-extents", "halves"})
"""Passes that drop the half of something.  Each runs again as long as it finds something to drop."""


def module_of(text: str) -> Module | None:
    """The module of a text; None if that has errors."""
    try:
        module = parse_source(Source(text))
    except DiagnosticError:
        return None
    return None if errors_of(module) else module


def reduce_text(text: str, oracle: Oracle, passes: Sequence[str] = tuple(DELTA_PASSES)) -> str:
    """The smallest text that is reached from `text`, which is taken for interesting.

    A text that is no module without errors, or is not interesting as it is printed, which leaves out comments, loses
    lines and then words.  Ends early where the oracle has no more tests.
    """
    try:
        module = module_of(text)
        if module is not None:
            printed = PartsVariant([print_program(module)])
            if printed.text == text or oracle.first(iter([printed])) is not None:
                reduce_module(module, oracle, passes)
                return oracle.best or text
        reduce_lines(text, oracle)
    except OutOfTests:
        pass
    return oracle.best or text


def reduce_module(module: Module, oracle: Oracle, passes: Sequence[str] = tuple(DELTA_PASSES)) -> Module:
    """A module from which no delta pass can drop a single feature.  The text of `module` must be interesting.

    Raises OutOfTests.
    """
    unchanged: set[str] = set()
    while len(unchanged) < len(passes):
        for name in passes:
            if name in unchanged:
                continue
            before = module
            module = _minimised(module, name, oracle)
            if module is before:
                unchanged.add(name)
            else:
                unchanged.clear()
    return module


def _minimised(module: Module, name: str, oracle: Oracle) -> Module:
    while True:
        smaller = minimise(ModuleVariant.of(module, DELTA_PASSES[name]), oracle).module
        if smaller is module or name not in REPEATED:
            return smaller
        module = smaller


def reduce_lines(text: str, oracle: Oracle) -> str:
    """A text from which no single line and no single word can be dropped.  Raises OutOfTests."""
    text = minimise(PartsVariant(text.splitlines(keepends=True)), oracle).text
    return minimise(PartsVariant(_WORD.findall(text)), oracle).text
