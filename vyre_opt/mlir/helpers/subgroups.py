"""Bodies of helpers for ops across the 32 lanes of a subgroup, which is a warp: by the nvvm dialect.

A shuffle moves 32 bits.  In a partial last subgroup the member mask has the lanes that exist, and no lane reads from
one that does not.  Values are combined in the five steps of our own lowering.
"""

from __future__ import annotations

from ...ir import arith
from ...ir.ops import SUBGROUP_SIZE
from ...ir.types import DataType
from ..code import Code
from ..helper_key import HelperKey
from ..spelling import constant, mlir_type
from .arithmetic import scalar_op

__all__ = ["ballot", "barrier", "reduce", "scan", "shuffle"]

_STEPS = (16, 8, 4, 2, 1)

_CLAMPS = {"up": 0, "down": 31, "bfly": 31, "idx": 31}
"""The c operand of shfl.sync: the lane that bounds the move (PTX ISA, "shfl.sync")."""


def _lane(code: Code) -> str:
    return code.call(HelperKey("lane_id"), [], "i32")


def _subgroup_lanes(code: Code) -> int | str:
    """The invocations of this subgroup: a number, or a name where the last one is partial."""
    lanes = code.helpers.program.lanes
    remainder = lanes % SUBGROUP_SIZE
    if not remainder:
        return SUBGROUP_SIZE
    if lanes < SUBGROUP_SIZE:
        return remainder
    last = code.integer(lanes // SUBGROUP_SIZE, "i32")
    is_last = code.compare("eq", "i32", code.call(HelperKey("subgroup_id"), [], "i32"), last)
    return code.select(is_last, "i32", code.integer(remainder, "i32"), code.integer(SUBGROUP_SIZE, "i32"))


def _mask(code: Code, lanes: int | str) -> str:
    """The member mask: a bit for each lane that exists."""
    if isinstance(lanes, int):
        return code.integer((1 << lanes) - 1, "i32")
    remainder = code.helpers.program.lanes % SUBGROUP_SIZE
    is_whole = code.compare("eq", "i32", lanes, code.integer(SUBGROUP_SIZE, "i32"))
    return code.select(is_whole, "i32", code.integer(-1, "i32"), code.integer((1 << remainder) - 1, "i32"))


def _word(code: Code, lanes: int | str) -> str:
    return code.integer(lanes, "i32") if isinstance(lanes, int) else lanes


# --- moving values


def _words(code: Code, dtype: DataType, value: str) -> list[str]:
    """The bits of a scalar as one i32 or two, the low one first."""
    kind, bits = mlir_type(dtype), 1 if dtype.is_bool else dtype.bits or 0
    ints = f"i{bits}"
    if dtype.is_float:
        value = code.convert("arith.bitcast", kind, ints, value)
    if bits == 32:
        return [value]
    if bits < 32:
        return [code.convert("arith.extui", ints, "i32", value)]
    high = code.op("arith.shrui", "i64", value, code.integer(32, "i64"))
    return [code.convert("arith.trunci", "i64", "i32", half) for half in (value, high)]


def _value(code: Code, dtype: DataType, words: list[str]) -> str:
    """The scalar that `_words` took apart."""
    bits = 1 if dtype.is_bool else dtype.bits or 0
    ints, value = f"i{bits}", words[0]
    if bits < 32:
        value = code.convert("arith.trunci", "i32", ints, value)
    elif bits == 64:
        low, high = (code.convert("arith.extui", "i32", "i64", word) for word in words)
        value = code.op("arith.ori", "i64", low, code.op("arith.shli", "i64", high, code.integer(32, "i64")))
    return code.convert("arith.bitcast", ints, mlir_type(dtype), value) if dtype.is_float else value


def _move(code: Code, dtype: DataType, value: str, mode: str, operand: str, mask: str) -> str:
    """A scalar from another lane; the lane that `operand` leads to must exist."""
    clamp = code.integer(_CLAMPS[mode], "i32")
    words = [
        code.emit(
            f'"nvvm.shfl.sync"({mask}, {word}, {operand}, {clamp}) {{kind = #nvvm<shfl_kind {mode}>}} '
            ": (i32, i32, i32, i32) -> i32"
        )
        for word in _words(code, dtype, value)
    ]
    return _value(code, dtype, words)


def shuffle(code: Code, key: HelperKey, args: list[str]) -> str:
    """A lane whose source does not exist keeps its own value."""
    (dtype,), (mode,), (value, amount) = key.types, key.modifiers, args
    lanes, this_lane = _subgroup_lanes(code), _lane(code)
    source = amount
    if mode != "idx":
        verb = {"up": "arith.subi", "down": "arith.addi", "xor": "arith.xori"}[mode]
        source = code.op(verb, "i32", this_lane, amount)
    exists = code.compare("ult", "i32", source, _word(code, lanes))
    # An amount of 2^32 - 1 would wrap to lane - 1, which exists, though no lane is that far away
    near = code.compare("ult", "i32", amount, code.integer(SUBGROUP_SIZE, "i32"))
    exists = code.op("arith.andi", "i1", exists, near)
    source = code.select(exists, "i32", source, this_lane)
    if not dtype.is_vec:
        return _move(code, dtype, value, "idx", source, _mask(code, lanes))
    kind, element = mlir_type(dtype), dtype.element
    for number in range(dtype.lanes):
        index = code.integer(number, "index")
        lane = code.emit(f"vector.extractelement {value}[{index} : index] : {kind}")
        shuffled = _move(code, element, lane, "idx", source, _mask(code, lanes))
        value = code.emit(f"vector.insertelement {shuffled}, {value}[{index} : index] : {kind}")
    return value


# --- combining


class _Combine:
    """Combines the values of one scalar type across a subgroup."""

    def __init__(self, code: Code, combine: str, dtype: DataType) -> None:
        self.code, self.combine, self.dtype = code, combine, dtype
        self.kind = mlir_type(dtype)
        self.lanes = _subgroup_lanes(code)
        self.mask = _mask(code, self.lanes)

    def both(self, a: str, b: str) -> str:
        return scalar_op(self.code, self.combine, self.dtype, [a, b])

    def number(self, value: int) -> str:
        return self.code.integer(value, "i32")

    def move(self, value: str, mode: str, operand: str) -> str:
        return _move(self.code, self.dtype, value, mode, operand, self.mask)

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.code.select(condition, self.kind, a, b)

    def reduce(self, value: str) -> str:
        if self.lanes == SUBGROUP_SIZE:
            for distance in _STEPS:
                value = self.both(value, self.move(value, "bfly", self.number(distance)))
            return value
        return self.reduce_to_first_lane(value)

    def reduce_to_first_lane(self, value: str) -> str:
        """A tree into lane 0 over the lanes that exist; its total is then broadcast."""
        this_lane = _lane(self.code)
        for distance in _STEPS:
            source = self.code.op("arith.addi", "i32", this_lane, self.number(distance))
            exists = self.code.compare("ult", "i32", source, _word(self.code, self.lanes))
            other = self.move(value, "idx", self.code.select(exists, "i32", source, this_lane))
            value = self.choose(exists, self.both(value, other), value)
        return self.move(value, "idx", self.number(0))

    def scan(self, value: str, is_exclusive: bool) -> str:
        this_lane = _lane(self.code)
        for distance in reversed(_STEPS):
            earlier = self.both(self.move(value, "up", self.number(distance)), value)
            exists = self.code.compare("uge", "i32", this_lane, self.number(distance))
            value = self.choose(exists, earlier, value)
        if not is_exclusive:
            return value
        before = self.move(value, "up", self.number(1))
        is_first = self.code.compare("eq", "i32", this_lane, self.number(0))
        first = self.code.literal(constant(arith.identity(self.combine, self.dtype), self.dtype), self.kind)
        return self.choose(is_first, first, before)


def reduce(code: Code, key: HelperKey, args: list[str]) -> str:
    return _Combine(code, key.modifiers[0], key.types[0]).reduce(args[0])


def scan(code: Code, key: HelperKey, args: list[str]) -> str:
    mode, combine = key.modifiers
    return _Combine(code, combine, key.types[0]).scan(args[0], mode == "exclusive")


def ballot(code: Code, key: HelperKey, args: list[str]) -> str:
    mask = _mask(code, _subgroup_lanes(code))
    return code.emit(f'"nvvm.vote.ballot.sync"({mask}, {args[0]}) : (i32, i1) -> i32')


def barrier(code: Code, key: HelperKey, args: list[str]) -> None:
    """A barrier of the subgroup."""
    mask = _mask(code, _subgroup_lanes(code))
    code.line(f'"nvvm.bar.warp.sync"({mask}) : (i32) -> ()')
