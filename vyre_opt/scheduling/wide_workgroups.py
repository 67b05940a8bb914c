"""Wide workgroups: several workgroups of a subgroup or a part of one become one workgroup.

    program @p workgroup(32), over n workgroups        workgroup(256), over n / 8; it knows n
      body                                               %group = 8 * workgroup_id + subgroup_id
                                                         if %group < n { body as workgroup %group }

    program @p workgroup(8), over n workgroups         workgroup(8, 32), over n / 32; it knows n
      body                                               %group = 32 * workgroup_id + local_id y
                                                         body as workgroup min(%group, n - 1), each store if %group < n

A GPU begins a workgroup about every half nanosecond (H200), and a multiprocessor holds 32 at a time.  That, not memory, limits
launches with a subgroup for each row of a few hundred elements.  Shorter rows leave lanes of a subgroup idle.  The lanes of a
subgroup must stay converged, since they shuffle: parts that are no workgroup repeat the last one, and store nothing.
"""

from __future__ import annotations

from dataclasses import replace

from ..analysis.refusal import Refusal
from ..fusion.group_count import GroupCount
from ..fusion.halo_recompute import OpEmitter
from ..fusion.workgroup_ids import ids_of, replace_ids
from ..ir.builder import Builder
from ..ir.ops import OPS, SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import clone, constant_value
from ..ir.uniformity import Level, Uniformity
from ..rewriting.walker import Walker

__all__ = ["is_in_subgroup", "of_whole_subgroups", "widen"]


def is_in_subgroup(program: Program) -> bool:
    """Whether a workgroup is a subgroup or a part of one, and shares only the buffers of the launch with others."""
    lanes = program.lanes
    if program.workgroup != (lanes, 1, 1) or SUBGROUP_SIZE % lanes or program.cluster:
        return False
    if any(buffer.is_on_chip for buffer in program.buffers.values()):
        return False
    if any(
        op.definition.effects & {"wait", "workgroup", "print"}
        or op.attrs.get("scope", "subgroup") != "subgroup"
        for op in program.walk()
    ):
        return False
    if lanes == SUBGROUP_SIZE:
        return True
    # a branch that one workgroup takes is not taken by the lanes of others
    uniform_ops, uniformity = set(program.body.ops), Uniformity(program)
    return all(_is_of_part(op, lanes, op in uniform_ops, uniformity) for op in program.walk())


def _is_of_part(op: Op, lanes: int, is_uniform: bool, uniformity: Uniformity) -> bool:
    """Whether a part of a subgroup can run an op: one that combines its lanes, or that an `if` can skip."""
    effects = op.definition.effects
    if "subgroup" in effects:
        distance = constant_value(op.operands[1]) if op.name == "subgroup_shuffle" else None
        is_near = isinstance(distance, int) and op.attrs["mode"] == "xor" and distance < lanes
        return is_uniform and (is_near or op.name == "subgroup_reduce")
    if op.name == "assert":
        return is_uniform and uniformity.level(op.operands[0]) is Level.GRID
    return not effects & {"atomic", "sync", "trap"} and ("write" not in effects or not op.results)


def widen(program: Program, by: int, groups: GroupCount) -> Program | Refusal:
    """A program whose workgroups do the work of `by` neighbours along x.  `groups`: source of their number."""
    lanes, is_whole = program.lanes, program.lanes == SUBGROUP_SIZE
    workgroup = (lanes * by, 1, 1) if is_whole else (lanes, by, 1)
    b = Builder.on(
        replace(program, workgroup=workgroup, grid=None, params=groups.params(program), body=Block())
    )
    b.loc = program.loc
    emit = OpEmitter(b.program.body.ops, program.loc)
    count = groups.emit(emit, program)
    if isinstance(count, Refusal):
        return count
    number = b.subgroup_id() if is_whole else b.local_id("y")
    group = b.add(b.mul(b.workgroup_id("x"), by), number)
    exists = b.lt(group, count)
    local = b.lane_id() if is_whole else b.local_id("x")
    constants = {
        ("subgroup_id", ""): b.const(0),
        ("num_subgroups", ""): b.const(1),
        ("workgroup_size", "x"): b.const(lanes),
        ("local_id", "y"): b.const(0),
        ("workgroup_size", "y"): b.const(1),
        ("global_id", "y"): b.workgroup_id("y"),
        ("global_size", "y"): b.num_workgroups("y"),
    }
    body = Block((), clone(program.body.ops, {}))
    if is_whole:
        with b.if_(exists) as branch:
            pass
        ops = branch.blocks[0].ops
    else:
        ops, group = b.program.body.ops, b.min(group, b.sub(count, 1))
        _PartRewriter(exists, lanes).walk_block(body)
    ids = {
        **ids_of(OpEmitter(ops, program.loc), group, count, lanes, local),
        ("local_id", "x"): local,
        ("lane_id", ""): local,
        **constants,
    }
    replace_ids(body, ids)
    ops += body.ops
    return b.program


def of_whole_subgroups(program: Program) -> tuple[Program, int]:
    """A program whose workgroups are of a subgroup at least, and of how many workgroups each does the work.  It is told their number."""
    by = SUBGROUP_SIZE // program.lanes
    if by > 1 and is_in_subgroup(program):
        wide = widen(program, by, GroupCount(None, {}))
        if not isinstance(wide, Refusal):
            return wide, by
    return program, 1


class _PartRewriter(Walker):
    """Lets parts of a subgroup, of `lanes` lanes each, act as workgroups; parts that are no workgroup store nothing."""

    def __init__(self, exists: Value, lanes: int) -> None:
        super().__init__()
        self.exists, self.lanes = exists, lanes

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.name == "subgroup_reduce":
            self.replace(op.results, [self.butterfly(op, OpEmitter(out, op.loc))])
        elif "write" in op.definition.effects:
            out.append(Op(OPS["if"], (self.exists,), (), regions=(Block((), [op]),), loc=op.loc))
        else:
            out.append(op)

    def butterfly(self, op: Op, emit: OpEmitter) -> Value:
        """The reduction of a part, in the order that language.md fixes."""
        (value,), distance = op.operands, self.lanes // 2
        while distance:
            shuffled = Op(
                OPS["subgroup_shuffle"],
                (value, emit.const(distance)),
                (Value(op.result.name, value.type),),
                {"mode": "xor"},
                loc=op.loc,
            )
            emit.ops.append(shuffled)
            value = emit.op(op.attrs["combine"], op.result.name, value, shuffled.result)
            distance //= 2
        return value
