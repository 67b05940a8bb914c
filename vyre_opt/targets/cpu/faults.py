"""Turns a fault record that compiled code filled in into the error that the interpreter would raise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ...execution.dispatcher import Invocation, ProgramError
from ...execution.faults import (
    asserted,
    bad_step,
    out_of_bounds,
    out_of_checked_bounds,
    outside_of_shape,
    position_in,
    signed,
    trapped,
)
from ...execution.plans.steps import LaunchStep
from ...ir.access_extents import moved_type
from ...ir.program import Dim3, Op, Program

__all__ = ["error_of"]


def error_of(
    program: Program,
    op: Op,
    record: Sequence[int],
    grid: Dim3,
    counts: Mapping[str, int],
    words: Mapping[str, int],
    step: LaunchStep | None = None,
) -> ProgramError:
    """`record`: the words named in lowering.host.abi.FAULT_WORDS.  `program`: as it was lowered; `op`: the one of
    the record.  `counts`: elements of each buffer; `words`: of the runtime scalars, by name.
    `step`: the launch, if it is one of a plan."""
    _, _, group, lane, *indices = record
    workgroup, local = position_in(group, grid), position_in(lane, program.workgroup)
    ids = (workgroup, local) if step is None else step.written_ids(workgroup, local)
    invocation = Invocation(*ids)
    if op.name == "trap":
        if "access" in op.attrs:
            return outside_of_shape(program, op, indices, words, invocation)
        return trapped(program, op, invocation)
    if op.name == "assert":
        return asserted(program, op, invocation)
    if op.name == "check_bounds":
        return out_of_checked_bounds(program, op, indices[0], indices[1], invocation)
    index = indices[0]
    if op.name == "for":
        return bad_step(program, op, signed(index), invocation)
    name = op.attrs["buffer"]
    covered = moved_type(op).lanes // program.buffers[name].dtype.lanes
    # the record has 64 bits whatever the type: a u64 of 2^63 or more must not come out negative
    index = signed(index) if op.index.type.is_signed else index
    return out_of_bounds(program, op, (index,), covered, (counts[name],), invocation)
