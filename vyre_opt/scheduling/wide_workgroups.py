"""Wide workgroups: several workgroups of one subgroup each become one.

    program @p workgroup(32), over n workgroups        workgroup(256), over n / 8; it knows n
      body                                               %group = 8 * workgroup_id + subgroup_id
                                                         if %group < n { body as workgroup %group }

A GPU begins a workgroup of a launch every half nanosecond or so (H200), and a multiprocessor holds 32 at a time; so rows of a few
hundred elements, a subgroup each, are limited by that and not by memory.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.refusal import Refusal
from ..fusion.group_count import GroupCount
from ..fusion.halo_recompute import OpEmitter
from ..fusion.workgroup_ids import ids_of, replace_ids
from ..ir.builder import Builder
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Block, Program
from ..ir.rewrite import clone

__all__ = ["is_one_subgroup", "widen"]


def is_one_subgroup(program: Program) -> bool:
    """Whether a workgroup is a subgroup that shares nothing with others but the buffers of the launch."""
    if program.workgroup != (SUBGROUP_SIZE, 1, 1) or program.cluster:
        return False
    if any(buffer.is_on_chip for buffer in program.buffers.values()):
        return False
    return not any(
        op.definition.effects & {"wait", "workgroup", "print"}
        or op.attrs.get("scope", "subgroup") != "subgroup"
        for op in program.walk()
    )


def widen(program: Program, by: int, groups: GroupCount) -> Program | Refusal:
    """The program whose workgroups each do the work of so many neighbours along x.  `groups`: where it has their number from."""
    lanes = SUBGROUP_SIZE * by
    b = Builder.on(
        replace(program, workgroup=(lanes, 1, 1), grid=None, params=groups.params(program), body=Block())
    )
    b.loc = program.loc
    emit = OpEmitter(b.program.body.ops, program.loc)
    count = groups.emit(emit, program)
    if isinstance(count, Refusal):
        return count
    group = b.add(b.mul(b.workgroup_id("x"), by), b.subgroup_id())
    with b.if_(b.lt(group, count)) as branch:
        inner = OpEmitter(branch.blocks[0].ops, program.loc)
        local = b.lane_id()
        zero, one = b.const(0), b.const(1)
        ids = {
            **ids_of(inner, group, count, SUBGROUP_SIZE, local),
            ("local_id", "x"): local,
            ("subgroup_id", ""): zero,
            ("num_subgroups", ""): one,
            ("workgroup_size", "x"): b.const(SUBGROUP_SIZE),
        }
        body = Block((), clone(program.body.ops, {}))
        replace_ids(body, ids)
        branch.blocks[0].ops += body.ops
    return b.program
