"""Legalization: what a target does to a program before it writes LLVM IR, as a tuple of named rewrites in their order.

    cpu     lowering/host/legalization.py      reductions of subgroups alone, few quotients, buffers of one dimension, no matrices, no calls,
                                               prints as records
    cuda    lowering/nvptx/legalization.py     the same with calls, and products of warpgroups

Each rewrite is also a pass of its name (see passes/legalize.py).  A rewrite gives the program itself where it has nothing
to do, so that to legalize a legal program changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from ...ir.program import Module, Program
from ...ir.shapes import has_rows, has_slices
from ...records import dataclass
from ...rewriting.core_form import core_form
from ...slices.lowering import lower_slices
from ...slices.schedule import slice_schedule
from .matrix_fragments import has_matrices
from .print_records import with_print_records
from .reciprocals import with_reciprocals
from .row_major import has_strides, row_major
from .workgroup_reductions import with_subgroup_reductions

__all__ = [
    "EXPAND_OPS",
    "LOWERING",
    "LOWER_SLICES",
    "PRINT_RECORDS",
    "RECIPROCALS",
    "REFUSED",
    "ROW_MAJOR",
    "WORKGROUP_REDUCTIONS",
    "Feature",
    "Legality",
    "Rewrite",
    "legalize",
]


@dataclass(frozen=True, slots=True)
class Legality:
    """Target and options that a program is made legal for.

    `target`: cpu or cuda.  `bounds`: what becomes of an access that is not proven in bounds: none, clamp or trap.
    `has_warpgroups`: whether the target multiplies by warpgroups.  `zero_memory`: whether workgroup memory that no
    invocation wrote is zeroed.
    """

    target: str
    bounds: str = "trap"
    has_warpgroups: bool = False
    zero_memory: bool = False


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of programs that a rewrite may not take.  `help`: what to do about it, of the rewrite."""

    name: str
    is_in: Callable[[Program], bool]
    help: str


_DIMENSIONS = Feature("buffers of several dimensions", has_rows, "run row_major before it")
_MATRICES = Feature("matrices", has_matrices, "run matrix_fragments before it")
_STRIDES = Feature("matrices in buffers that row_major has flattened", has_strides, "run it before row_major")

REFUSED: Mapping[str, tuple[Feature, ...]] = {
    "warpgroups": (_STRIDES,),
    "matrix_fragments": (_DIMENSIONS,),
    "zero_tiles": (_DIMENSIONS, _MATRICES),
}
"""Features that a program may not have when a rewrite runs; all rewrites take calls, regions and prints."""

LOWERING = frozenset({"warpgroups", "row_major", "matrix_fragments"})
"""The rewrites that leave what no text has (see ir/lowered_ops.py)."""


@dataclass(frozen=True, slots=True)
class Rewrite:
    """A rewrite.  `apply` gives a program and the module of the functions that it calls; the originals stay as they are.

    `is_for`: whether there is anything to do for such a target.
    """

    name: str
    apply: Callable[[Program, Module | None, Legality], tuple[Program, Module | None]]
    is_for: Callable[[Legality], bool] = lambda legality: True

    def refusal(self, program: Program, legality: Legality) -> str | None:
        """Why the rewrite does not take a program, in words; None if it does."""
        refused = (
            each for each in REFUSED.get(self.name, ()) if self.is_for(legality) and each.is_in(program)
        )
        feature = next(refused, None)
        return None if feature is None else f"{self.name} takes no {feature.name}; {feature.help}"

    def run(
        self, program: Program, module: Module | None, legality: Legality
    ) -> tuple[Program, Module | None]:
        """Run `apply`, and note in the program for which target it is lowered."""
        if not self.is_for(legality):
            return program, module
        legal, module = self.apply(program, module, legality)
        if self.name in LOWERING and legal is not program:
            legal.lowered_for = legality.target
        return legal, module


EXPAND_OPS = Rewrite("expand_ops", lambda program, module, _: core_form(program, module))
LOWER_SLICES = Rewrite("lower_slices", lambda program, module, _: (_without_slices(program), module))
WORKGROUP_REDUCTIONS = Rewrite(
    "workgroup_reductions", lambda program, module, _: (with_subgroup_reductions(program), module)
)
RECIPROCALS = Rewrite("reciprocals", lambda program, module, _: (with_reciprocals(program), module))
ROW_MAJOR = Rewrite(
    "row_major", lambda program, module, legality: (row_major(program, legality.bounds), module)
)
PRINT_RECORDS = Rewrite("print_records", lambda program, module, _: (with_print_records(program), module))


def _without_slices(program: Program) -> Program:
    return lower_slices(program, slice_schedule(program)) if has_slices(program) else program


def legalize(
    rewrites: Sequence[Rewrite], program: Program, module: Module | None, legality: Legality
) -> tuple[Program, Module | None]:
    """The program after all rewrites, and the module of the functions that it calls."""
    for rewrite in rewrites:
        program, module = rewrite.run(program, module, legality)
    return program, module
