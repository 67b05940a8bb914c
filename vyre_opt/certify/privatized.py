"""The claim of `privatize`: workgroups count in memory of their own, and take turns.

The program after has to be the one that is written here, of the program before and the grids:

    @private = neutral element       each element by one lane
    barrier
    for %g = workgroup_id to n by num_workgroups, or from workgroup_id * e to that + e
      the body as workgroup %g       its atomics on @private, with a check of the bounds that they had
    barrier
    atomic @bins[%k], @private[%k]   each element by one lane

That does the same: nothing else touches the buffer, nobody takes the old values of its atomics, and these commute and can
be grouped in any way, of floats a minimum and a maximum, and a sum if it says `reassoc`.  Workgroups run in any order, so in turn; each of them is run in one turn, which z3 proves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

import z3

from ..ir.loops import BOUND_NAMES, bounds
from ..ir.program import AccessMode, Block, Buffer, Op, Program, Value
from ..ir.rewrite import clone
from ..ir.types import DataType
from ..records import dataclass
from .expected_ops import OpSequence, emit_extent, ids_of, without_ids
from .frame_condition import is_rest_unchanged
from .independence import check_workgroups
from .mismatch import Mismatch
from .obligations import Obligation, not_seen
from .op_terms import FLOAT_FORMATS
from .points import MOST_INVOCATIONS, Nesting, type_range
from .relaunched import Relaunched

__all__ = ["privatized"]

U32 = DataType.U32

NEUTRAL: dict[str, Callable[[int, int], int]] = {
    "atomic_add": lambda low, high: 0,
    "atomic_or": lambda low, high: 0,
    "atomic_xor": lambda low, high: 0,
    "atomic_and": lambda low, high: -1 if low < 0 else high,
    "atomic_min": lambda low, high: high,
    "atomic_max": lambda low, high: low,
}
"""Operand that changes no element, for integers from `low` to `high`, of atomics that commute and can be grouped in any way."""


def _neutral(kind: str, dtype: DataType) -> int:
    """The encoded value that changes no bit of an element: -0.0 of a sum of floats, a NaN of their minimum or maximum."""
    bits = dtype.bits or 0
    if dtype.is_int:
        return NEUTRAL[kind](*type_range(dtype))
    if dtype.name not in FLOAT_FORMATS or kind not in ("atomic_add", "atomic_min", "atomic_max"):
        raise Mismatch(f"nothing is known of {kind} of {dtype}")
    ones = FLOAT_FORMATS[dtype.name][0] + 1
    return 1 << (bits - 1) if kind == "atomic_add" else ((1 << ones) - 1) << (bits - 1 - ones)


@dataclass(frozen=True)
class _Counted:
    """A buffer that each workgroup has a copy of, `private`: the `kind` of its atomics, and its elements."""

    shared: Buffer
    private: Buffer
    kind: str
    count: int

    @property
    def expected(self) -> Buffer:
        """Declaration that the private buffer must have."""
        return Buffer(self.private.name, self.shared.dtype, (self.count,), AccessMode.WORKGROUP)

    @property
    def neutral(self) -> int:
        return _neutral(self.kind, self.shared.dtype)

    @property
    def fastmath(self) -> dict[str, tuple[str, ...]]:
        """The flags by which an element may be added to the buffer at any time."""
        return {"fastmath": ("reassoc",)} if _is_float_sum(self.kind, self.shared.dtype) else {}


def privatized(of: Relaunched) -> Iterator[Obligation]:
    """All that has to hold."""
    what = f"workgroups of @{of.after.name} count for themselves what @{of.program.name} counts"
    try:
        of.check("x")
        check_workgroups(of.program)
        if of.launch.grid[1:] != (1, 1):
            raise Mismatch("the grid has several dimensions")
        counted = [
            _counted(of, buffer)
            for name, buffer in of.after.buffers.items()
            if buffer.is_workgroup and name not in of.program.buffers
        ]
        if not counted or len({each.shared.name for each in counted}) < len(counted):
            raise Mismatch("each buffer that is counted has one copy")
        in_order = _runs_in_order(of.after)
        expected = _expected(of, counted, in_order)
        turns = list(_turns(of, in_order))
    except Mismatch as mismatch:
        yield not_seen(what, str(mismatch), mismatch.ops)
        return
    yield is_rest_unchanged(expected, of.after, {}, ())
    yield from turns


def _runs_in_order(after: Program) -> bool:
    """Whether a workgroup runs neighbours in sequence: a guess, which `_expected` verifies."""
    return any(op.name == "for" and bounds(op)[2] == 1 for op in after.body.ops)


# --- what is counted ------------------------------------------------------------------------


def _counted(of: Relaunched, private: Buffer) -> _Counted:
    """Buffer to which the elements of a workgroup's buffer are added.  Raises Mismatch."""
    for op in of.after.walk():
        source = op.operands[-1].owner if op.name in NEUTRAL else None
        if isinstance(source, Op) and source.name == "load" and source.attrs["buffer"] == private.name:
            break
    else:
        raise Mismatch(f"the elements of @{private.name} are not added to a buffer")
    shared = of.program.buffers.get(op.attrs["buffer"])
    if shared is None or shared.binding is None or shared.dimensions > 1:
        raise Mismatch(f"@{op.attrs['buffer']} is no buffer of one dimension", op)
    actual = of.names[shared.name]
    count = of.pipeline.static_lengths[actual]
    if count is None:
        raise Mismatch(f"how long @{actual} is, is not known")
    used = {value for each in of.program.walk() for value in each.operands}
    for access in of.program.walk():
        if access.attrs.get("buffer") == shared.name and access.name != "len":
            _check_access(access, op.name, used)
    return _Counted(shared, private, op.name, count)


def _check_access(op: Op, kind: str, used: set[Value]) -> None:
    """Raises Mismatch unless nobody can tell when an access is made."""
    if op.name != kind or op.attrs["order"] != "relaxed":
        raise Mismatch(f"this is no relaxed {kind}", op)
    if _is_float_sum(kind, op.result.type) and "reassoc" not in op.attrs.get("fastmath", ()):
        raise Mismatch("this sum of floats depends on its order", op)
    if op.result in used:
        raise Mismatch("what this atomic gives is used", op)
    if op.index.type.is_signed or op.result.type.is_vec:
        raise Mismatch("this index may be negative, or of several elements", op)


def _is_float_sum(kind: str, dtype: DataType) -> bool:
    return kind == "atomic_add" and dtype.is_float


# --- the program after ----------------------------------------------------------------------


def _expected(of: Relaunched, counted: Sequence[_Counted], in_order: bool) -> Program:
    program, top = of.program, OpSequence(of.program)
    lane = _lane(top)
    for each in counted:
        _each_element(top, lane, each, _fill)
    top.statement("barrier", scope="workgroup")
    count = emit_extent(top, of.extents("x")[0], of.names)
    turn, ops = Value("turn", U32), OpSequence(program)
    ids = ids_of(ops, turn, count, ops.op("local_id", U32, axis="x"))
    private = {each.shared.name: each for each in counted}
    ops.ops += _redirected(without_ids(clone(program.body.ops, {}), ids), private, program)
    if any(op.name == "copy_async" for op in program.walk()):
        ops.statement("copy_wait", pending=0)
    if in_order or any(buffer.is_workgroup for buffer in program.buffers.values()):
        ops.statement("barrier", scope="workgroup")
    _loop(top, Block((turn,), ops.ops), *_turn_bounds(top, count, in_order))
    top.statement("barrier", scope="workgroup")
    for each in counted:
        _each_element(top, lane, each, _flush)
    private_buffers = {each.private.name: each.expected for each in counted}
    return replace(program, grid=None, buffers=program.buffers | private_buffers, body=Block((), top.ops))


def _lane(ops: OpSequence) -> Value:
    """The linear local id."""
    width, height, depth = ops.program.workgroup
    lane = ops.op("local_id", U32, axis="x")
    for axis, size, stride in (("y", height, width), ("z", depth, width * height)):
        if size > 1:
            along = ops.op("local_id", U32, axis=axis)
            lane = ops.op("add", U32, lane, ops.op("mul", U32, along, ops.number(stride)))
    return lane


def _turn_bounds(ops: OpSequence, count: Value, in_order: bool) -> tuple[Value, Value, Value | int]:
    """The first workgroup that one runs, where it ends, and the step."""
    number, groups = ops.op("workgroup_id", U32, axis="x"), ops.op("num_workgroups", U32, axis="x")
    if not in_order:
        return number, count, groups
    less = ops.op("sub", U32, groups, ops.number(1))
    each = ops.op("div", U32, ops.op("add", U32, count, less), groups)
    first = ops.op("mul", U32, number, each)
    return first, ops.op("min", U32, ops.op("add", U32, first, each), count), 1


def _loop(ops: OpSequence, body: Block, *bounds: Value | int) -> None:
    numbers = [bound if isinstance(bound, int) else None for bound in bounds]
    values = [bound for bound in bounds if isinstance(bound, Value)]
    ops.statement("for", *values, blocks=[body], **dict(zip(BOUND_NAMES, numbers, strict=True)))


def _each_element(
    top: OpSequence, lane: Value, of: _Counted, write: Callable[[OpSequence, _Counted, Value], None]
) -> None:
    """Effect of one lane on each element of a private buffer."""
    element, ops = Value("element", U32), OpSequence(top.program)
    write(ops, of, element)
    _loop(top, Block((element,), ops.ops), lane, of.count, top.program.lanes)


def _fill(ops: OpSequence, of: _Counted, element: Value) -> None:
    ops.statement("store", ops.number(of.neutral, of.shared.dtype), element, buffer=of.private.name)


def _flush(ops: OpSequence, of: _Counted, element: Value) -> None:
    dtype, inner = of.shared.dtype, OpSequence(ops.program)
    value = ops.op("load", dtype, element, buffer=of.private.name)
    bits = DataType.of(f"u{dtype.bits}")
    untouched = ops.number(of.neutral % (1 << (dtype.bits or 0)), bits)
    differs = ops.op("ne", DataType.BOOL, ops.op("bitcast", bits, value), untouched)
    inner.op(of.kind, dtype, element, value, order="relaxed", buffer=of.shared.name, **of.fastmath)
    ops.statement("if", differs, blocks=[Block((), inner.ops)])


def _redirected(ops: Sequence[Op], private: Mapping[str, _Counted], program: Program) -> list[Op]:
    """The ops with atomics in private buffers, behind checks of the bounds that they had."""
    out: list[Op] = []
    for op in ops:
        for block in op.regions:
            block.ops = _redirected(block.ops, private, program)
        of = private.get(op.attrs.get("buffer", ""))
        if of is not None and op.name != "len":
            check, u64 = OpSequence(program), DataType.U64
            index = check.op("cast", u64, op.index)
            check.statement(
                "check_bounds", index, check.number(of.count, u64), access=op.name, of=of.shared.name
            )
            out += check.ops
            op.attrs = {**op.attrs, "buffer": of.private.name}
        out.append(op)
    return out


# --- turns ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Turn:
    """Terms: turn `number` of workgroup `id`, in which it runs workgroup `runs` of the old launch."""

    id: z3.ArithRef
    number: z3.ArithRef
    runs: z3.ArithRef
    last: z3.ArithRef | None
    step: z3.ArithRef

    @staticmethod
    def any(name: str, groups: z3.ArithRef, share: z3.ArithRef | None) -> _Turn:
        """`share`: the workgroups that each runs, one after the other; None where they run every `groups`-th."""
        id, number = z3.Int(f"{name}.workgroup"), z3.Int(f"{name}.turn")
        if share is None:
            return _Turn(id, number, id + groups * number, None, groups)
        return _Turn(id, number, id * share + number, share, z3.IntVal(1))

    def exists(self, groups: z3.ArithRef, count: z3.ArithRef) -> z3.BoolRef:
        return z3.And(self.id >= 0, self.id < groups, self.is_turn, self.runs < count)

    @property
    def is_turn(self) -> z3.BoolRef:
        return z3.And(self.number >= 0, *([self.number < self.last] if self.last is not None else []))


def _turns(of: Relaunched, in_order: bool) -> Iterator[Obligation]:
    """Each workgroup of the old launch is run once, and no number wraps."""
    workgroups = of.workgroups(of.point(Nesting(of.after)), "x")
    count, groups, share = workgroups.count, workgroups.groups, z3.Int("share")
    if not z3.is_int_value(groups):
        raise Mismatch("how many workgroups there are is not known")
    rounded_up = [share * groups >= count, (share - 1) * groups < count] if in_order else []
    one, other = (_Turn.any(name, groups, share if in_order else None) for name in ("one", "other"))
    given = [*workgroups.premises, *rounded_up, groups >= 1]
    shown = {"workgroups": groups, "workgroups before": count, "workgroup": one.runs}
    # any number is a multiple of the divisor plus a remainder
    divided = one.is_turn if in_order else z3.And(one.id >= 0, one.id < groups)
    yield Obligation(
        f"each workgroup of @{of.program.name} has a turn",
        [],
        [],
        [*given, one.runs >= 0, one.runs < count, divided],
        one.exists(groups, count),
        shown,
    )
    yield Obligation(
        f"no workgroup of @{of.program.name} has two turns",
        [],
        [],
        [*given, one.exists(groups, count), other.exists(groups, count), one.runs == other.runs],
        z3.And(one.id == other.id, one.number == other.number),
        shown,
    )
    yield Obligation(
        f"numbers of workgroups of @{of.program.name} do not wrap",
        [],
        [],
        [*given, one.exists(groups, count)],
        z3.And(
            one.runs + one.step < MOST_INVOCATIONS,
            count + groups <= MOST_INVOCATIONS,
            *(z3.And(part >= 0, part < 1 << 63) for part in workgroups.parts),
        ),
        shown,
    )
