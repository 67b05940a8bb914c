"""Programs over another grid: each workgroup does the work of several, or of one that may not exist.

    program @p, over n workgroups          over a grid of at least ceil_div(n, 8)

      %w = workgroup_id x                    %w = workgroup_id x
      body                                   for %k = 0 to 8 {
                                               %id = 8 * %w + %k
                                               if %id < n { body as workgroup %id }
                                             }

Workgroups run in any order, so one may run eight of them in sequence, unless they wait for each other.  A workgroup
beyond n does nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ..analysis.refusal import Refusal
from ..ir.grids import Extent, show_extent
from ..ir.ops import OPS
from ..ir.program import Block, Buffer, Op, Program, Value
from ..ir.rewrite import clone
from ..ir.types import DataType
from ..records import dataclass
from .group_count import GroupCount
from .halo_recompute import OpEmitter
from .independence import order_refusal
from .workgroup_ids import ids_of, replace_ids

__all__ = ["Regrid", "regrid", "regrid_refusal"]


@dataclass(frozen=True, slots=True)
class Regrid:
    """Run of a launch over another grid than its own.

    `factor`: workgroups of the launch that one workgroup of the new grid runs, in sequence.  `extent`: the launch's own
    workgroups along x, over lengths of the pipeline's buffers.  `single`: its loops over all elements by `global_size`
    have one round.
    """

    factor: int
    extent: Extent
    single: bool = False

    def __str__(self) -> str:
        rounds = "one round of its loop" if self.single else ""
        groups = (
            f"{self.factor} of its {show_extent(self.extent)} workgroups in each" if self.factor > 1 else ""
        )
        return ", ".join(filter(None, (rounds, groups))) or f"its {show_extent(self.extent)} workgroups"


def regrid_refusal(program: Program) -> Refusal | None:
    """Why a workgroup of another grid may not do the work of several; None if it may."""
    name = program.name
    if program.workgroup[1:] != (1, 1):
        return Refusal("grid", f"the workgroup of @{name} has more than one dimension")
    matrix = next((b for b in program.buffers.values() if b.dimensions > 1), None)
    if matrix is not None:
        return Refusal("grid", f"@{matrix.name} of @{name} has several dimensions", matrix.name, matrix.loc)
    return order_refusal(program, "grid")


def regrid(program: Program, plan: Regrid, groups: Extent, lengths: Mapping[str, str]) -> Program | Refusal:
    """A program that does over `groups` workgroups the work of `program` over `plan.extent` workgroups.

    `lengths`: for each of the pipeline's buffers, the program's buffer that it is passed for.  The grid has one
    dimension, and no more than 2^32 invocations; `plan.factor` is 1, or at most half of the lanes of a workgroup, so
    that no number of a workgroup wraps.
    """
    outer = OpEmitter([], program.loc)
    count = GroupCount(plan.extent, lengths).emit(outer, program)
    if isinstance(count, Refusal):
        return count
    workgroup = outer.identity("workgroup_id", "workgroup")
    local = outer.identity("local_id", "local")
    inner, number, counter = outer, workgroup, None
    if plan.factor > 1:
        first = outer.op("mul", "first", workgroup, outer.const(plan.factor))
        inner, counter = OpEmitter([], program.loc), Value("turn", DataType.U32)
        number = inner.op("add", "workgroup", first, counter)
    exists = inner.op("lt", "exists", number, count, dtype=DataType.BOOL)
    ids = ids_of(inner, number, count, program.workgroup[0], local)
    body = Block((), clone(program.body.ops, {}))
    replace_ids(body, ids)
    if isinstance(groups, int) and groups * plan.factor == plan.extent:
        inner.ops += body.ops  # all workgroups exist
    else:
        inner.ops.append(Op(OPS["if"], (exists,), (), regions=(body,), loc=program.loc))
    ops = outer.ops
    if counter is not None:
        if any(buffer.is_workgroup for buffer in program.buffers.values()):
            # the next turn reuses the workgroup memory, so all copies and accesses to it must be complete
            if any(op.name == "copy_async" for op in program.walk()):
                inner.ops.append(Op(OPS["copy_wait"], attrs={"pending": 0}, loc=program.loc))
            inner.ops.append(Op(OPS["barrier"], attrs={"scope": "workgroup"}, loc=program.loc))
        limits = {"lower": 0, "upper": plan.factor, "step": 1}
        ops = [*ops, Op(OPS["for"], (), (), limits, (Block((counter,), inner.ops),), program.loc)]
    return _with_body(program, ops)


def _with_body(program: Program, ops: list[Op]) -> Program:
    buffers: dict[str, Buffer] = {name: replace(buffer) for name, buffer in program.buffers.items()}
    return replace(program, grid=None, buffers=buffers, body=Block((), ops))
