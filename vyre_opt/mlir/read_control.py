"""Control flow of MLIR as ours: scf, calls, traps and asserts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..ir.loops import BOUND_NAMES
from ..ir.ops import OPS
from ..ir.program import Block, Value
from ..ir.types import DataType, TypeNameError
from .helpers.table import signature
from .read_memory import read_atomic_helper
from .read_ops import named_type
from .reader import Callee, Reader, fastmath, text_attribute
from .typed_values import Index, NotReadable, Number, Plain, Rounds, Turn

__all__ = ["READ_CONTROL"]

I64, U32 = DataType.I64, DataType.U32
RunBlock = Callable[[Reader, Any, Block], None]
"""(reader, block of MLIR, block of ours): reads the ops but for the terminator."""


def _only_block(region: Any) -> Any:
    blocks = list(region.blocks)
    if len(blocks) != 1:
        raise NotReadable(
            "a region of several blocks is not structured",
            "make it structured first: mlir-opt --lift-cf-to-scf",
        )
    return blocks[0]


def _terminator(block: Any) -> Any:
    """The last op of a block, if it ends one."""
    last = block.last_op
    return last if last is not None and last.name in ("scf.yield", "scf.condition") else None


def _outer_type(r: Reader, operand: Any) -> DataType:
    """The type in which a value is carried: an index as a word."""
    return I64 if str(operand.type) == "index" else r.likely_type(operand)


def _initial(r: Reader, operand: Any, dtype: DataType) -> Value:
    return r.value(operand, dtype)


def _bind(r: Reader, theirs: Sequence[Any], ours: Sequence[Value]) -> None:
    """Results or arguments of MLIR as values of ours."""
    for result, value in zip(theirs, ours, strict=True):
        if result.name_hint:
            value.name = result.name_hint
        r.values[result] = Index(value) if str(result.type) == "index" else Plain(value)


def _inside(r: Reader, block: Block, write: Callable[[], None]) -> None:
    """Let `write` add ops to `block`."""
    outer, r.block = r.block, block
    try:
        write()
    finally:
        r.block = outer


def _yield_op(r: Reader, name: str, operands: Sequence[Value]) -> None:
    r.add(name, operands)


# --- if and region


def _if(r: Reader, op: Any, run: RunBlock) -> None:
    condition = r.value(op.operands[0])
    regions = [region for region in op.regions if list(region.blocks)]
    blocks = [_only_block(region) for region in regions]
    ours = [Block() for _ in blocks]
    loc = r.loc
    for theirs, block in zip(blocks, ours, strict=True):
        run(r, theirs, block)
    yields = [list(end.operands) if (end := _terminator(b)) is not None else [] for b in blocks]
    types = [_merged_type(r, column) for column in zip(*yields, strict=True)]
    for values, block in zip(yields, ours, strict=True):
        if values:
            _inside(r, block, lambda v=values: _yield_op(r, "yield", _all(r, v, types)))  # type: ignore[misc]
    r.loc = loc
    results = [Value("r", dtype) for dtype in types]
    r.add("if", (condition,), results, regions=ours)
    _bind(r, op.results, results)


def _all(r: Reader, operands: Sequence[Any], types: Sequence[DataType]) -> list[Value]:
    return [_initial(r, operand, dtype) for operand, dtype in zip(operands, types, strict=True)]


def _merged_type(r: Reader, column: Sequence[Any]) -> DataType:
    """The type of a result that several blocks yield: the type of the first value that has one."""
    if str(column[0].type) == "index":
        return I64
    return r.likely_type(*column)


def _region(r: Reader, op: Any, run: RunBlock) -> None:
    theirs, block = _only_block(op.regions[0]), Block()
    run(r, theirs, block)
    end = _terminator(theirs)
    operands = list(end.operands) if end is not None else []
    types = [_outer_type(r, operand) for operand in operands]
    if operands:
        _inside(r, block, lambda: _yield_op(r, "yield", _all(r, operands, types)))
    results = [Value("r", dtype) for dtype in types]
    label = text_attribute(op, "vyre.region") or "execute_region"
    r.add("region", (), results, {"label": label}, [block])
    _bind(r, op.results, results)


# --- loops


def _for(r: Reader, op: Any, run: RunBlock) -> None:
    lower, upper, step, *initial = op.operands
    theirs = _only_block(op.regions[0])
    rounds = r.get(upper)
    if isinstance(rounds, Rounds):
        if r.number(lower) != 0 or r.number(step) != 1:
            raise NotReadable("a loop over vyre.trip_count counts from 0 in steps of 1")
        dtype = rounds.dtype
        limits = [_limit(r, bound, dtype) for bound in rounds.bounds]
    else:
        dtype = _counter_type(r, op, lower, upper, step)
        limits = [_limit(r, bound, dtype) for bound in (lower, upper, step)]
    types = [_outer_type(r, operand) for operand in initial]
    starts = _all(r, initial, types)
    counter = Value("k", dtype)
    args = [Value("x", t) for t in types]
    block = Block((counter, *args))
    index, *arguments = theirs.args
    if isinstance(rounds, Rounds):
        r.values[index] = Turn(counter, rounds.bounds[0], rounds.bounds[2])
    else:
        r.values[index] = Index(counter) if str(index.type) == "index" else Plain(counter)
    name = index.name_hint
    counter.name = name.removesuffix(".index") if name else "k"
    _bind(r, arguments, args)
    run(r, theirs, block)
    end = _terminator(theirs)
    if types:
        _inside(r, block, lambda: _yield_op(r, "yield", _all(r, list(end.operands), types)))
    results = [Value("r", t) for t in types]
    attrs = {n: b if isinstance(b, int) else None for n, b in zip(BOUND_NAMES, limits, strict=True)}
    operands = [bound for bound in limits if isinstance(bound, Value)]
    r.add("for", (*operands, *starts), results, attrs, [block])
    _bind(r, op.results, results)


def _counter_type(r: Reader, op: Any, lower: Any, upper: Any, step: Any) -> DataType:
    """Type of a counter: that of its hint if all bounds have it; otherwise u32 if all have that; otherwise a signed type."""
    if str(lower.type) != "index":
        return r.type_of(lower)
    text = text_attribute(op, "vyre.type")
    try:
        declared = named_type(text) if text is not None else None
    except TypeNameError:
        declared = None
    bounds = [r.get(bound) for bound in (lower, upper, step)]
    for dtype in (declared, U32):
        if dtype is not None and dtype.is_int and all(_is_of(bound, dtype) for bound in bounds):
            return dtype
    return I64


def _is_of(bound: Any, dtype: DataType) -> bool:
    if isinstance(bound, Number):
        low = -(1 << ((dtype.bits or 0) - 1)) if dtype.is_signed else 0
        return low <= bound.number < low + (1 << (dtype.bits or 0))
    return isinstance(bound, Index) and bound.value.type is dtype


def _limit(r: Reader, operand: Any, dtype: DataType) -> int | Value:
    typed = r.get(operand)
    if isinstance(typed, Number):
        number = typed.number
        if not dtype.is_signed:
            number %= 1 << (dtype.bits or 0)
        return number
    if isinstance(typed, Index) and typed.value.type is dtype:
        return typed.value
    return r.value(operand, dtype)


def _while(r: Reader, op: Any, run: RunBlock) -> None:
    before, after = (_only_block(region) for region in op.regions)
    end = _terminator(before)
    if list(end.operands)[1:] != list(before.args):
        _rotated_while(r, op, run)
        return
    types = [_outer_type(r, operand) for operand in op.operands]
    starts = _all(r, op.operands, types)
    condition, body = (Block(tuple(Value("x", t) for t in types)) for _ in range(2))
    _bind(r, before.args, condition.args)
    run(r, before, condition)
    _inside(r, condition, lambda: _yield_op(r, "condition", [r.value(end.operands[0])]))
    _bind(r, after.args, body.args)
    run(r, after, body)
    latch = _terminator(after)
    if types:
        _inside(r, body, lambda: _yield_op(r, "yield", _all(r, list(latch.operands), types)))
    results = [Value("r", t) for t in types]
    r.add("while", starts, results, regions=[condition, body])
    _bind(r, op.results, results)


def _rotated_while(r: Reader, op: Any, run: RunBlock) -> None:
    """A loop whose condition region passes on other values than its arguments: it carries these values and the condition.

    before(a) -> c, f;  while c { after(f) -> a;  before(a) -> c, f };  the results are f
    """
    before, after = (_only_block(region) for region in op.regions)
    flag, *passed = _terminator(before).operands

    def round_of(starts: Sequence[Value], block: Block) -> list[Value]:
        _bind(r, before.args, starts)
        run(r, before, block)
        values: list[Value] = []

        def hand_on() -> None:
            types = [_outer_type(r, operand) for operand in passed]
            values.extend([r.value(flag), *_all(r, passed, types)])

        _inside(r, block, hand_on)
        return values

    starts = [_initial(r, operand, _outer_type(r, operand)) for operand in op.operands]
    initial = round_of(starts, r.block)
    types = [value.type for value in initial]
    condition, body = (Block(tuple(Value("x", t) for t in types)) for _ in range(2))
    _inside(r, condition, lambda: _yield_op(r, "condition", [condition.args[0]]))
    _bind(r, after.args, body.args[1:])
    run(r, after, body)
    again: list[Value] = []
    latch = list(_terminator(after).operands)
    _inside(r, body, lambda: again.extend(_all(r, latch, [value.type for value in starts])))
    yielded = round_of(again, body)
    _inside(
        r,
        body,
        lambda: _yield_op(r, "yield", [r.with_type(v, t) for v, t in zip(yielded, types, strict=True)]),
    )
    results = [Value("r", t) for t in types]
    r.add("while", initial, results, regions=[condition, body])
    _bind(r, op.results, results[1:])


# --- calls


def _callee(r: Reader, op: Any) -> Callee:
    reference = op.properties.get("callee") or op.attributes.get("callee")
    name = reference.root_reference.data
    if name not in r.callees:
        raise NotReadable(f"@{name} is called, and is no function of this gpu.module")
    return r.callees[name]()


def _call(r: Reader, op: Any, run: RunBlock) -> None:
    callee = _callee(r, op)
    if callee.key is not None:
        _helper(r, op, callee)
        return
    operands = [r.value(operand, dtype) for operand, dtype in zip(op.operands, callee.params, strict=True)]
    results = [Value("r", dtype) for dtype in callee.results]
    r.add("call", operands, results, {"callee": callee.name})
    _bind(r, op.results, results)


def _helper(r: Reader, op: Any, callee: Callee) -> None:
    key = callee.key
    assert key is not None
    if key.name == "trip_count":
        r.values[op.results[0]] = Rounds(key.types[0], tuple(op.operands))
        return
    if key.name == "counter":
        turn = r.get(op.operands[1])
        if not isinstance(turn, Turn) or [turn.lower, turn.step] != [op.operands[0], op.operands[2]]:
            raise NotReadable("vyre.counter is of the bounds and the index of its loop")
        r.set(op.results[0], turn.counter)
        return
    row = OPS[key.name]
    if row.format == "atomic":
        read_atomic_helper(r, op, key.name, key.modifiers[0])
        return
    types = signature(key)
    operands = [r.value(o, t) for o, t in zip(op.operands, types.operands, strict=True)]
    attrs: dict[str, Any] = {a.name: w for a, w in zip(_words(key.name), key.modifiers, strict=False)}
    if key.name in ("assert", "trap"):
        attrs["message"] = text_attribute(op, "vyre.message") or "an assert of an MLIR kernel"
    if key.name == "check_bounds":
        attrs["of"] = text_attribute(op, "vyre.of") or "memory"
    attrs |= fastmath(op)
    if types.result is None:
        r.add(key.name, operands, attrs=attrs)
    else:
        r.set(op.results[0], r.emit(key.name, operands, types.result, attrs))


def _words(name: str) -> list[Any]:
    return [attr for attr in OPS[name].attrs if attr.kind == "word"]


# --- traps


def _trap(r: Reader, op: Any, run: RunBlock) -> None:
    r.add("trap", attrs={"message": text_attribute(op, "vyre.message") or "a trap of an MLIR kernel"})


def _assert(r: Reader, op: Any, run: RunBlock) -> None:
    message = text_attribute(op, "msg") or "an assert of an MLIR kernel"
    r.add("assert", (r.value(op.operands[0]),), attrs={"message": message})


READ_CONTROL: dict[str, Callable[[Reader, Any, RunBlock], None]] = {
    "scf.if": _if,
    "scf.for": _for,
    "scf.while": _while,
    "scf.execute_region": _region,
    "func.call": _call,
    "llvm.intr.trap": _trap,
    "cf.assert": _assert,
}
"""Readers by the name of MLIR's op."""
