"""Legalization for the cpu."""

from __future__ import annotations

from ...ir.program import Module, Program
from ..common.legalization import (
    EXPAND_OPS,
    LOWER_SLICES,
    PRINT_RECORDS,
    RECIPROCALS,
    ROW_MAJOR,
    WORKGROUP_REDUCTIONS,
    Legality,
    Rewrite,
    legalize,
)
from ..common.matrix_fragments import ROWS, with_fragments
from .flatten import flatten

__all__ = ["LEGALIZATION", "legal_program"]

LEGALIZATION = (
    EXPAND_OPS,
    LOWER_SLICES,
    WORKGROUP_REDUCTIONS,
    RECIPROCALS,
    ROW_MAJOR,
    Rewrite("matrix_fragments", lambda program, module, _: (with_fragments(program, ROWS), module)),
    Rewrite("flatten", lambda program, module, _: (flatten(program, module.funcs if module else {}), None)),
    PRINT_RECORDS,
)


def legal_program(program: Program, module: Module | None) -> Program:
    """The program as it is lowered for the cpu, which calls nothing.  Raises DiagnosticError if it gets too large."""
    return legalize(LEGALIZATION, program, module, Legality("cpu"))[0]
