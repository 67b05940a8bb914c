"""Ops across the 32 lanes of a subgroup, which is a warp.

A shuffle moves 32 bits, so a value is moved as one word or two.  In a partial last subgroup
the member mask has the lanes that exist, and no lane reads from one that does not.

Values are combined in the five steps that the language fixes; those of integers are one
instruction where the GPU has one.
"""

from __future__ import annotations

from collections.abc import Callable

from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Op
from ...ir.types import DataType
from ..common import conversions, elementwise
from ..common.lane_shape import SCALAR, carrier
from .function_emitter import FunctionEmitter
from .values import lane, subgroup_lanes, words_of

__all__ = ["SUBGROUP_OPS", "WHOLE", "ShuffleReduction", "lane_mask", "move"]

STEPS = (16, 8, 4, 2, 1)
WHOLE = "-1"


def lane_mask(emitter: FunctionEmitter) -> str:
    """The member mask of this subgroup: a bit for each lane that exists, as i32."""
    lanes = subgroup_lanes(emitter)
    if lanes == str(SUBGROUP_SIZE):
        return WHOLE
    if not lanes.startswith("%"):
        return str((1 << int(lanes)) - 1)
    is_whole = emitter.w.emit(f"icmp eq i32 {lanes}, {SUBGROUP_SIZE}")
    remainder = emitter.context.program.lanes % SUBGROUP_SIZE
    return emitter.w.emit(f"select i1 {is_whole}, i32 -1, i32 {(1 << remainder) - 1}")


# --- words


def _element(emitter: FunctionEmitter, dtype: DataType, words: list[str]) -> str:
    """The scalar that `words_of` took apart."""
    w = emitter.w
    if carrier(dtype) == "float":
        return w.emit(f"bitcast i32 {words[0]} to float")
    if dtype.is_bool:
        return w.emit(f"icmp ne i32 {words[0]}, 0")
    if dtype.bits == 32:
        bits = words[0]
    elif dtype.bits != 64:
        bits = w.emit(f"trunc i32 {words[0]} to i{dtype.bits}")
    else:
        low, high = (w.emit(f"zext i32 {word} to i64") for word in words)
        moved = w.emit(f"shl i64 {high}, 32")
        bits = w.emit(f"or i64 {low}, {moved}")
    return conversions.from_bits(w, SCALAR, dtype, bits)


# The c operand of shfl.sync: the lane that bounds the move (PTX ISA, "shfl.sync")
_CLAMPS = {"up": 0, "down": 31, "bfly": 31, "idx": 31}


def move(emitter: FunctionEmitter, dtype: DataType, element: str, mode: str, operand: str, mask: str) -> str:
    """A scalar from another lane, by shfl.sync in `mode`; the lane that `operand` (i32) leads to must exist."""
    name, clamp = f"llvm.nvvm.shfl.sync.{mode}.i32", str(_CLAMPS[mode])
    args = [[("i32", x) for x in (mask, word, operand, clamp)] for word in words_of(emitter, dtype, element)]
    return _element(emitter, dtype, [emitter.w.call(name, "i32", arg) for arg in args])


# --- shuffle


def _shuffle(emitter: FunctionEmitter, op: Op) -> None:
    """A lane whose source does not exist keeps its own value."""
    value, amount = emitter.get(op.operands[0]), emitter.scalar(op.operands[1])
    dtype, mode = op.results[0].type.element, op.attrs["mode"]
    mask, lanes = lane_mask(emitter), subgroup_lanes(emitter)
    if lanes == str(SUBGROUP_SIZE) and not amount.startswith("%") and 0 <= int(amount) < SUBGROUP_SIZE:
        # The hardware keeps the own value where the source is beyond its clamp
        hardware, operand = {"xor": "bfly"}.get(mode, mode), amount
    else:
        hardware, operand = "idx", _source(emitter, mode, amount, lanes)
    emitter.set(op, *(move(emitter, dtype, element, hardware, operand, mask) for element in value))


def _source(emitter: FunctionEmitter, mode: str, amount: str, lanes: str) -> str:
    """The lane to read from as i32: this lane itself where the wanted one does not exist."""
    w, this_lane = emitter.w, lane(emitter)
    if mode == "idx":
        source = amount
        inside = w.emit(f"icmp ult i32 {source}, {lanes}")
    else:
        verb = {"up": "sub", "down": "add", "xor": "xor"}[mode]
        source = w.emit(f"{verb} i32 {this_lane}, {amount}")
        exists = w.emit(f"icmp ult i32 {source}, {lanes}")
        # An amount of 2^32 - 1 would wrap to lane - 1, which exists, though no lane is that far away
        near = w.emit(f"icmp ult i32 {amount}, {SUBGROUP_SIZE}")
        inside = w.emit(f"and i1 {exists}, {near}")
    return w.emit(f"select i1 {inside}, i32 {source}, i32 {this_lane}")


# --- reduce and scan


class ShuffleReduction:
    """Combines the values of one type across the `lanes` of a subgroup, those of `mask`."""

    def __init__(self, emitter: FunctionEmitter, name: str, dtype: DataType, mask: str, lanes: str) -> None:
        self.emitter = emitter
        self.w = emitter.w
        self.dtype = dtype
        self.name = name
        self.kind = SCALAR.type(dtype)
        self.mask = mask
        self.lanes = lanes
        self.identity = elementwise.identity(name, dtype)

    def both(self, a: str, b: str) -> str:
        return elementwise.apply(self.w, SCALAR, self.name, self.dtype, [a, b], target="nvptx")

    def move(self, value: str, mode: str, operand: str) -> str:
        return move(self.emitter, self.dtype, value, mode, operand, self.mask)

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.w.emit(f"select i1 {condition}, {self.kind} {a}, {self.kind} {b}")

    # --- reduce: all lanes

    def reduce(self, value: str) -> str:
        redux = self.redux(value)
        if redux is not None:
            return redux
        if self.lanes == str(SUBGROUP_SIZE):
            for distance in STEPS:
                value = self.both(value, self.move(value, "bfly", str(distance)))
            return value
        return self.reduce_to_first_lane(value)

    def reduce_to_first_lane(self, value: str) -> str:
        """A tree into lane 0 over the lanes that exist; lane 0's total is then broadcast."""
        here = lane(self.emitter)
        for distance in STEPS:
            source = self.w.emit(f"add i32 {here}, {distance}")
            exists = self.w.emit(f"icmp ult i32 {source}, {self.lanes}")
            other = self.move(value, "idx", self.w.emit(f"select i1 {exists}, i32 {source}, i32 {here}"))
            value = self.choose(exists, self.both(value, other), value)
        return self.move(value, "idx", "0")

    def redux(self, value: str) -> str | None:
        """redux.sync, for integers of up to 32 bits where the GPU has it; None otherwise."""
        w, dtype = self.w, self.dtype
        narrow = dtype.is_bool or (dtype.is_int and (dtype.bits or 64) <= 32)
        if not (narrow and self.emitter.context.target.has_redux and self.name != "mul"):
            return None
        verb = f"u{self.name}" if self.name in ("min", "max") and not dtype.is_signed else self.name
        word = value
        if self.kind != "i32":
            word = w.emit(f"{'sext' if dtype.is_signed else 'zext'} {self.kind} {value} to i32")
        word = w.call(f"llvm.nvvm.redux.sync.{verb}", "i32", [("i32", word), ("i32", self.mask)])
        return word if self.kind == "i32" else w.emit(f"trunc i32 {word} to {self.kind}")

    # --- scan: the lanes up to each one

    def scan(self, value: str, is_exclusive: bool) -> str:
        this_lane = lane(self.emitter)
        for distance in reversed(STEPS):
            earlier = self.both(self.move(value, "up", str(distance)), value)
            exists = self.w.emit(f"icmp uge i32 {this_lane}, {distance}")
            value = self.choose(exists, earlier, value)
        if not is_exclusive:
            return value
        before = self.move(value, "up", "1")
        is_first = self.w.emit(f"icmp eq i32 {this_lane}, 0")
        return self.choose(is_first, self.identity, before)


def _reduction(emitter: FunctionEmitter, op: Op) -> ShuffleReduction:
    name, dtype = op.attrs["combine"], op.results[0].type.element
    return ShuffleReduction(emitter, name, dtype, lane_mask(emitter), subgroup_lanes(emitter))


def _reduce(emitter: FunctionEmitter, op: Op) -> None:
    emitter.set(op, _reduction(emitter, op).reduce(emitter.scalar(op.operands[0])))


def _scan(emitter: FunctionEmitter, op: Op) -> None:
    value = emitter.scalar(op.operands[0])
    emitter.set(op, _reduction(emitter, op).scan(value, op.attrs["mode"] == "exclusive"))


def _ballot(emitter: FunctionEmitter, op: Op) -> None:
    args = [("i32", lane_mask(emitter)), ("i1", emitter.scalar(op.operands[0]))]
    emitter.set(op, emitter.w.call("llvm.nvvm.vote.ballot.sync", "i32", args))


SUBGROUP_OPS: dict[str, Callable[[FunctionEmitter, Op], None]] = {
    "shuffle": _shuffle,
    "reduce": _reduce,
    "scan": _scan,
    "ballot": _ballot,
}
