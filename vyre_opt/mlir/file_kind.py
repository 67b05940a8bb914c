"""Texts of either language: which one it is, and its module.  The reader of MLIR is imported for MLIR alone."""

from __future__ import annotations

from ..ir.diagnostics import Source
from ..ir.program import Module
from ..syntax.parser import ReadOriginal, parse_source

__all__ = ["is_mlir", "parse_either"]

_OPENINGS = ("module", "builtin.module", "gpu.module", '"builtin.module"', '"gpu.module"', "#")


def is_mlir(source: Source) -> bool:
    """Whether a source is MLIR: by the end of its name or, of a text without a file, by its first word."""
    if source.name.endswith(".mlir"):
        return True
    if not source.name.startswith("<"):
        return False
    lines = (line.strip() for line in source.text.splitlines())
    first = next((line for line in lines if line and not line.startswith("//")), "")
    return first.startswith(_OPENINGS)


def parse_either(
    source: Source, read_original: ReadOriginal = lambda name: None, parser: str = "tables"
) -> Module:
    """The module of a text of ours or of MLIR, not yet verified.  Raises DiagnosticError.

    `read_original`, `parser`: of a text of ours, see `parse_source`.
    """
    if not is_mlir(source):
        return parse_source(source, read_original, parser)
    from .read import read_mlir

    return read_mlir(source)
