"""Legalization: what a target does to a program before it writes LLVM IR, as a tuple of named rewrites in their order.

    cpu     lowering/host/legalization.py      buffers of one dimension, no matrices, no calls, prints as records
    cuda    lowering/nvptx/legalization.py     the same with calls, and products of warpgroups

Each rewrite is also a pass of its name (see passes/legalize.py).  A rewrite gives the program itself where it has nothing
to do, so that to legalize a legal program changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...ir.program import Module, Program
from ...rewriting.core_form import core_form
from .print_records import with_print_records
from .row_major import row_major

__all__ = ["EXPAND_OPS", "PRINT_RECORDS", "ROW_MAJOR", "Legality", "Rewrite", "legalize"]


@dataclass(frozen=True, slots=True)
class Legality:
    """What a program is made legal for.

    `bounds`: what becomes of an access that is not proven in bounds: none, clamp or trap.  `has_warpgroups`: whether
    the target multiplies by warpgroups.  `zero_memory`: whether workgroup memory that no invocation wrote is zeroed.
    """

    bounds: str = "trap"
    has_warpgroups: bool = False
    zero_memory: bool = False


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite: `apply` gives a program and the module of the functions that it calls; the originals stay as they are."""

    name: str
    apply: Callable[[Program, Module | None, Legality], tuple[Program, Module | None]]


EXPAND_OPS = Rewrite("expand_ops", lambda program, module, _: core_form(program, module))
ROW_MAJOR = Rewrite(
    "row_major", lambda program, module, legality: (row_major(program, legality.bounds), module)
)
PRINT_RECORDS = Rewrite("print_records", lambda program, module, _: (with_print_records(program), module))


def legalize(
    rewrites: Sequence[Rewrite], program: Program, module: Module | None, legality: Legality
) -> tuple[Program, Module | None]:
    """The program after all rewrites, and the module of the functions that it calls."""
    for rewrite in rewrites:
        program, module = rewrite.apply(program, module, legality)
    return program, module
