"""Programs whose invocations may run in rows, along x and across workgroups, without a mask or a check.

A program whose invocations share nothing, but for elements that they count in and nobody looks at, and know themselves by
`global_id` alone, may run them in any order as long as none is at fault.  Its body is cut into conditions and the rest:

    if %j < @~x.1 and %i < @~x.0 {            guards     %j < @~x.1, %i < @~x.0
      if %j >= @~y.1 { trap }           ->    checks     %j < @~y.1
      store %v, @y[%i * @~y.1 + %j]           body       store %v, @y[%i * @~y.1 + %j]
    }

Along x each condition holds for an interval of invocations, so these are found once for a row (see row_emitter.py).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ...analysis.bounds import BoundsProofs
from ...analysis.regrouping import counted_buffers
from ...ir import arith
from ...ir.loops import bounds
from ...ir.ops import AXES, OPS, SUBGROUP_SIZE
from ...ir.program import Block, Op, Param, Program, Value
from ...ir.rewrite import clone, constant, constant_value
from ...ir.types import DataType
from ...records import dataclass
from .lane_facts import LaneFacts
from .legalization import legal_program
from .loop_tiles import LoopTiles, loop_tiles
from .row_blocks import may_repeat

__all__ = [
    "FIRST_IDS",
    "Condition",
    "InBounds",
    "RowRuns",
    "counts_in_registers",
    "is_pure_slice",
    "row_runs",
]

MAX_OPS, MAX_OPS_TWICE = 256, 64
"""Most ops of a program that is also compiled for rows, which takes as long again; and of one whose body is then written with a mask and without."""

_FORMATS = frozenset(
    "unary binary ternary compare select convert const spec param len load store splat vector extract insert".split()
)
"""Ops that an invocation may have, besides `global_id`, `if`, `for` and accesses that trap out of bounds."""


FIRST_IDS = tuple(f"~id.{axis}" for axis in AXES)
"""Names of the params that are the ids along each axis, along x of the first invocation; no text has such names."""


@dataclass(frozen=True, slots=True)
class Condition:
    """A boolean that is to be `holds`."""

    value: Value
    holds: bool


@dataclass(frozen=True, slots=True)
class InBounds:
    """The index of an access, which is to be below the length of its buffer."""

    index: Value
    buffer: str


@dataclass(frozen=True, slots=True)
class RowRuns:
    """`program`: of one subgroup along x, with the body; an invocation has work where all of `guards` hold, and then is not at
    fault where all of `checks` do.  `facts`, `tiles`: of the program; `totals`: its atomics, each on one element."""

    program: Program
    facts: LaneFacts
    tiles: LoopTiles
    totals: Sequence[Op]
    guards: Sequence[Condition]
    checks: Sequence[Condition | InBounds]


def row_runs(program: Program, specs: Mapping[str, Any] | None, proven: Container[Op]) -> RowRuns | None:
    """Rows of a flat program; None where it may not run so.  `proven`: accesses in bounds."""
    ops = [*program.walk()]
    if len(ops) > (MAX_OPS if _gains_much(ops) or may_repeat(ops) else MAX_OPS_TWICE):
        return None
    counted = counted_buffers(program)
    if not all(_is_independent(op, counted) for op in ops) or any(
        buffer.is_on_chip for buffer in program.buffers.values()
    ):
        return None
    body = Block((), clone(program.body.ops, {}))
    for op, copy in zip(ops, body.walk(), strict=True):
        if op in proven:
            copy.attrs = {**copy.attrs, "in_bounds": True}
    _name_ids(body)
    cut = _Cut()
    if not cut.take_guards(body) or not cut.take_checks(body, {}):
        return None
    ids = {name: Param(name, DataType.U32) for name in FIRST_IDS}
    rows = replace(program, workgroup=(SUBGROUP_SIZE, 1, 1), body=body, params=program.params | ids)
    facts = LaneFacts(rows, specs)
    moves = [op for op in rows.walk() if op.definition.format in ("load", "store")]
    totals = [op for op in rows.walk() if op.definition.format == "atomic"]
    tiles = loop_tiles(rows, facts)
    tiled = {op for several in tiles.values() for tile in several for op in tile.moves}
    if not all(op in tiled or facts.stride(op.index) in (0, 1) for op in moves):
        return None
    if not all(_is_one_for_all(op.index) for op in totals):
        return None
    conditions = [*cut.guards, *(check for check in cut.checks if isinstance(check, Condition))]
    indices = [check.index for check in cut.checks if isinstance(check, InBounds)]
    if not all(has_interval(facts, c.value) for c in conditions):
        return None
    if not all(_is_known(facts, index) for index in indices):
        return None
    _sweep(body, Counter(operand for op in body.walk() for operand in op.operands))
    return RowRuns(rows, facts, tiles, totals, cut.guards, cut.checks)


def counts_in_registers(program: Program) -> bool:
    """Whether a program, not legalized yet, runs in rows and does its atomics once for all invocations of some rows."""
    ops, counted = [*program.walk()], counted_buffers(program)
    if len(ops) > MAX_OPS or not counted or not all(_is_independent(op, counted) for op in ops):
        return False
    legal = legal_program(program, None)
    return row_runs(legal, None, BoundsProofs(legal).proven) is not None


def _gains_much(ops: Sequence[Op]) -> bool:
    """Whether workgroups have rows, or invocations may have."""
    return any(op.name == "for" or (op.name == "global_id" and op.attrs["axis"] != "x") for op in ops)


def _is_independent(op: Op, counted: Container[str]) -> bool:
    if op.definition.format == "atomic":
        return op.attrs["buffer"] in counted
    if op.definition.format in _FORMATS:
        return op.definition.is_pure or op.definition.format in ("load", "store")
    return op.name in ("global_id", "if", "for", "trap", "yield")


def _name_ids(block: Block) -> None:
    """Put the ids of FIRST_IDS in the place of global ids: rows begin anywhere, and not at a multiple of workgroups."""
    named: list[Op] = []
    for op in block.ops:
        for region in op.regions:
            _name_ids(region)
        if op.name != "global_id":
            named.append(op)
            continue
        axis = AXES.index(op.attrs["axis"])
        first, result = {"param": FIRST_IDS[axis]}, op.result
        if axis:
            named.append(Op(OPS["param"], (), (result,), first, loc=op.loc))
            continue
        start, lane = (Value(name, DataType.U32) for name in ("start", "lane"))
        named.append(Op(OPS["param"], (), (start,), first, loc=op.loc))
        named.append(Op(OPS["local_id"], (), (lane,), {"axis": "x"}, loc=op.loc))
        named.append(Op(OPS["add"], (start, lane), (result,), loc=op.loc))
    block.ops = named


class _Cut:
    """Takes conditions out of a body, whose ops it changes in place."""

    def __init__(self) -> None:
        self.guards: list[Condition] = []
        self.checks: list[Condition | InBounds] = []

    def take_guards(self, body: Block) -> bool:
        """Put the inside of a branch around all that has an effect in its place, as often as there is one."""
        while True:
            effects = [op for op in body.ops if not op.definition.is_pure]
            if len(effects) == 2 and _is_nested(body, *effects):
                _nest(body, *effects)
                continue
            if [op.name for op in effects] != ["if"] or _traps(effects[0]):
                return True
            (branch,) = effects
            if branch.results or len(branch.regions) != 1:
                return True
            self.guards += _conjuncts(branch.operands[0], True)
            at = body.ops.index(branch)
            body.ops[at : at + 1] = [op for op in branch.regions[0].ops if not op.definition.is_terminator]

    def take_checks(self, block: Block, loops: Mapping[Value, Op]) -> bool:
        """Take out what would end in a fault; False where there is another fault than of an access.

        `loops`: those around, by their counters.
        """
        remaining: list[Op] = []
        for op in block.ops:
            if op.name == "trap" or (op.name == "for" and isinstance(bounds(op)[2], Value)):
                return False
            if op.name == "if" and _traps(op):
                self.checks += [
                    _in_all_rounds(c, loops, remaining) for c in _conjuncts(op.operands[0], False)
                ]
                continue
            inner = {**loops, op.regions[0].args[0]: op} if op.name == "for" else loops
            if not all(self.take_checks(region, inner) for region in op.regions):
                return False
            if op.definition.format in ("load", "store", "atomic") and not op.attrs.get("in_bounds"):
                if (op.result if op.results else op.operands[0]).type.is_vec:
                    return False
                self.checks.append(InBounds(op.index, op.attrs["buffer"]))
                op.attrs = {**op.attrs, "in_bounds": True}
            remaining.append(op)
        block.ops = remaining
        return True


def _is_nested(body: Block, first: Op, second: Op) -> bool:
    """Whether a branch is taken only where another one is, which yields for nothing but this whether it is."""
    if first.name != "if" or second.name != "if" or len(first.results) != 1 or len(second.regions) != 1:
        return False
    otherwise = first.regions[1]
    is_false = len(otherwise.ops) == 2 and constant_value(otherwise.ops[1].operands[0]) == 0
    uses = [operand for op in body.walk() for operand in op.operands].count(first.result)
    return is_false and second.operands == first.results and uses == 1


def _nest(body: Block, first: Op, second: Op) -> None:
    """Move a branch into the one that yields whether it is taken.

    %c = if %a -> bool { ... yield %b } else { yield false }
    if %c { ... }                                               ->    if %a { ... if %b { ... } }
    """
    *ops, end = first.regions[0].ops
    inner = Op(second.definition, end.operands, (), second.attrs, second.regions, second.loc)
    outer = Op(first.definition, first.operands, (), first.attrs, (Block((), [*ops, inner]),), first.loc)
    body.ops = [*(op for op in body.ops if op not in (first, second)), outer]


def _in_all_rounds(condition: Condition, loops: Mapping[Value, Op], ops: list[Op]) -> Condition:
    """A condition that says enough before a loop where one speaks of its counter: `%c < n` in all rounds if the upper bound is
    at most n.  What it needs is appended to `ops`."""
    op = condition.value.owner
    if condition.holds or not isinstance(op, Op) or op.name != "ge" or op.operands[0] not in loops:
        return condition
    counter, limit = op.operands
    upper = bounds(loops[counter])[1]
    if isinstance(upper, int):
        ops.append(constant(arith.wrap(upper, counter.type), counter.type, "upper", op))
        upper = ops[-1].result
    ops.append(Op(OPS["gt"], (upper, limit), (Value("beyond", DataType.BOOL),), loc=op.loc))
    return Condition(ops[-1].result, False)


def _sweep(block: Block, uses: Counter[Value]) -> None:
    """Remove pure ops without uses: those of conditions that were taken out, mostly."""
    remaining: list[Op] = []
    for op in reversed(block.ops):
        for region in op.regions:
            _sweep(region, uses)
        if op.definition.is_pure and not any(uses[result] for result in op.results):
            uses.subtract(op.operands)
        else:
            remaining.append(op)
    block.ops = remaining[::-1]


def _traps(op: Op) -> bool:
    """Whether a branch ends in a fault, and does nothing else."""
    *body, end = op.regions[0].ops or [op]
    return len(op.regions) == 1 and end.name == "trap" and all(o.definition.is_pure for o in body)


def _conjuncts(value: Value, holds: bool) -> list[Condition]:
    """Conditions that all hold where `value` is `holds`, and only there."""
    op = value.owner
    if isinstance(op, Op) and op.name == "not":
        return _conjuncts(op.operands[0], not holds)
    if isinstance(op, Op) and op.name == ("and" if holds else "or"):
        return [c for operand in op.operands for c in _conjuncts(operand, holds)]
    return [Condition(value, holds)]


def has_interval(facts: LaneFacts, condition: Value) -> bool:
    """Whether a condition can be told before the body, and holds for an interval of a row's invocations."""
    op = condition.owner
    if facts.is_uniform(condition):
        return is_pure_slice(condition)
    if not isinstance(op, Op) or op.definition.format != "compare" or op.name in ("eq", "ne"):
        return False
    return all(_is_known(facts, operand) for operand in op.operands) and any(
        map(facts.is_uniform, op.operands)
    )


def _is_known(facts: LaneFacts, value: Value) -> bool:
    """Whether an integer can be told before the body, and grows by 0 or 1 along a row."""
    stride = facts.stride(value)
    return (stride == 0 or (stride == 1 and value.type.bits == 32)) and is_pure_slice(value)


def is_pure_slice(value: Value) -> bool:
    """Whether a value follows from ids, sizes and constants alone."""
    return _slice(value) is not None


def _is_one_for_all(value: Value) -> bool:
    """Whether a value follows from sizes and constants alone, so that it is the same in all invocations."""
    ops = _slice(value)
    return ops is not None and not any(
        op.definition.format == "id" or op.attrs.get("param") in FIRST_IDS for op in ops
    )


def _slice(value: Value) -> list[Op] | None:
    """The ops that a value follows from; None where not all of them are pure."""
    ops, pending = [], [value]
    for each in pending:
        op = each.owner
        if not isinstance(op, Op) or op.regions or not op.definition.is_pure or op.name == "load":
            return None
        ops.append(op)
        pending += op.operands
    return ops
