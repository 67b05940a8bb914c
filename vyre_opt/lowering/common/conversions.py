"""Conversions between types, to and from bits, and to and from memory, as LLVM text.

The same code serves scalars and vectors of lanes.  A value is held in the carrier of its type
(see `lane_shape.carrier`), f16 and bf16 exactly as a float.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...ir.arith import int_range
from ...ir.types import DataType
from .lane_shape import SCALAR, LaneShape, carrier
from .llvm_text import Writer

__all__ = [
    "bits_of",
    "convert",
    "from_bits",
    "load_value",
    "memory_type",
    "of_word",
    "round_to_half",
    "store_value",
    "through_odd",
    "to_word",
]

_MEMORY = {"bool": "i8", "f16": "half", "bf16": "i16", "f32": "float", "f64": "double"}


def convert(w: Writer, shape: LaneShape, source: DataType, target: DataType, value: str) -> str:
    """The op `cast`: wraps between integers, rounds once to a float, saturates from a float to an
    integer with NaN -> 0."""
    if source is target:
        return value
    if source.is_float:
        return _from_float(w, shape, source, target, value)
    kind = shape.type(source)
    if target.is_float:
        return _int_to_float(w, shape, source, target, value)
    if target.is_bool:
        return w.emit(f"icmp ne {kind} {value}, {shape.integer(carrier(source), 0)}")
    old, new = 1 if source.is_bool else source.bits or 0, target.bits or 0
    if old == new:
        return value
    verb = "trunc" if old > new else "sext" if source.is_signed else "zext"
    return w.emit(f"{verb} {kind} {value} to {shape.type(target)}")


def to_word(w: Writer, dtype: DataType, value: str) -> str:
    """A scalar integer as an i64; a negative one stays negative."""
    return convert(w, SCALAR, dtype, DataType.I64 if dtype.is_signed else DataType.U64, value)


def _from_float(w: Writer, shape: LaneShape, source: DataType, target: DataType, value: str) -> str:
    source_kind, kind = carrier(source), shape.type(source)
    if target.is_bool:
        return w.emit(f"fcmp une {kind} {value}, {shape.real(source_kind, 0.0)}")
    if target.is_float:
        if source_kind == "double" and carrier(target) == "float":
            if target.name == "f32":
                return w.emit(f"fptrunc {kind} {value} to {shape.of('float')}")
            # Rounding to f32 and then to f16 would round twice
            return round_to_half(w, shape, target, through_odd(w, shape, value))
        if carrier(target) == "double":
            return w.emit(f"fpext {kind} {value} to {shape.of('double')}")
        # f16 and bf16 values are carried as float already
        return value if target.name == "f32" else round_to_half(w, shape, target, value)
    if shape is not SCALAR and (target.bits or 0) <= 32:
        return _lanes_to_int(w, shape, source, target, value)
    verb = "fptosi" if target.is_signed else "fptoui"
    element = carrier(target)
    name = f"llvm.{verb}.sat.{shape.suffix(element)}.{shape.suffix(source_kind)}"
    return w.call(name, shape.of(element), [(kind, value)])


def _lanes_to_int(w: Writer, shape: LaneShape, source: DataType, target: DataType, value: str) -> str:
    """Convert by instructions of vector units, after bringing the numbers into range: LLVM takes lanes apart where it
    saturates itself."""
    element, kind, flags = carrier(source), shape.type(source), shape.of("i1")
    low, high = int_range(target)
    top = (
        float(high)
        if element == "double" or high < 1 << 24
        else float(high + 1 - (1 << (7 if target.is_signed else 8)))
    )

    def limited(number: str, compare: str, limit: float) -> str:
        inside = w.emit(f"fcmp {compare} {kind} {number}, {shape.real(element, limit)}")
        return w.emit(f"select {flags} {inside}, {kind} {number}, {kind} {shape.real(element, limit)}")

    number = limited(limited(value, "ogt", float(low)), "olt", top)
    is_number = w.emit(f"fcmp ord {kind} {value}, {value}")
    number = w.emit(f"select {flags} {is_number}, {kind} {number}, {kind} {shape.real(element, 0.0)}")
    wide = shape.of("i32")
    verb = "fptoui" if target.name == "u32" else "fptosi"
    result = w.emit(f"{verb} {kind} {number} to {wide}")
    if top != high:
        beyond = w.emit(f"fcmp ogt {kind} {value}, {shape.real(element, top)}")
        most = shape.integer("i32", high)
        result = w.emit(f"select {flags} {beyond}, {wide} {most}, {wide} {result}")
    return result if target.bits == 32 else w.emit(f"trunc {wide} {result} to {shape.type(target)}")


def _int_to_float(w: Writer, shape: LaneShape, source: DataType, target: DataType, value: str) -> str:
    """Rounds once: an integer that f32 may not hold goes to bf16 through a double, rounded to odd."""
    kind, target_kind = shape.type(source), carrier(target)
    verb = "sitofp" if source.is_signed else "uitofp"
    wide = (source.bits or 0) > 16
    if target.name == "bf16" and wide:
        if source.bits == 64:
            value = _sticky(w, shape, value, source.is_signed)
        double = w.emit(f"{verb} {kind} {value} to {shape.of('double')}")
        return round_to_half(w, shape, target, through_odd(w, shape, double))
    # An integer that f32 rounds is beyond the largest f16, so rounding twice does no harm there
    result = w.emit(f"{verb} {kind} {value} to {shape.of(target_kind)}")
    return round_to_half(w, shape, target, result) if target.name in ("f16", "bf16") else result


def _sticky(w: Writer, shape: LaneShape, value: str, signed: bool) -> str:
    """An i64 that a double holds exactly: its low 11 bits are cleared and or-ed into bit 11, a sticky bit.

    Values that a double holds as they are (below 2^53 in magnitude) are left alone.
    """
    kind, flags, zero = shape.of("i64"), shape.of("i1"), shape.integer("i64", 0)
    low = w.emit(f"and {kind} {value}, {shape.integer('i64', 0x7FF)}")
    inexact = w.emit(f"icmp ne {kind} {low}, {zero}")
    bit = w.emit(f"select {flags} {inexact}, {kind} {shape.integer('i64', 0x800)}, {kind} {zero}")
    high = w.emit(f"and {kind} {value}, {shape.integer('i64', -0x800)}")
    odd = w.emit(f"or {kind} {high}, {bit}")
    # -2^53 <= value < 2^53 by one unsigned comparison
    reach, span = (1 << 53, 1 << 54) if signed else (0, 1 << 53)
    shifted = w.emit(f"add {kind} {value}, {shape.integer('i64', reach)}")
    small = w.emit(f"icmp ult {kind} {shifted}, {shape.integer('i64', span)}")
    return w.emit(f"select {flags} {small}, {kind} {value}, {kind} {odd}")


# --- rounding a float to f16 or bf16: by an instruction or integer arithmetic, no target needs a library call


def round_to_half(w: Writer, shape: LaneShape, dtype: DataType, value: str) -> str:
    """A float rounded to nearest even in f16 or bf16, still carried as float."""
    floats = shape.of("float")
    if dtype.name == "f16":
        half = w.emit(f"fptrunc {floats} {value} to {shape.of('half')}")
        return w.emit(f"fpext {shape.of('half')} {half} to {floats}")
    ints = shape.of("i32")
    if w.module.rounds_to_bf16:  # which NaN comes of a NaN is not specified
        short = w.call("llvm.nvvm.f2bf16.rn", "bfloat", [(floats, value)])
        return from_bits(w, shape, dtype, w.emit(f"bitcast bfloat {short} to i16"))
    bits = w.emit(f"bitcast {floats} {value} to {ints}")
    # Add half a unit less one, plus the lowest bit kept: ties go to even, a carry to the exponent
    shifted = w.emit(f"lshr {ints} {bits}, {shape.integer('i32', 16)}")
    lowest = w.emit(f"and {ints} {shifted}, {shape.integer('i32', 1)}")
    bias = w.emit(f"add {ints} {lowest}, {shape.integer('i32', 0x7FFF)}")
    up = w.emit(f"add {ints} {bits}, {bias}")
    cut = w.emit(f"and {ints} {up}, {shape.integer('i32', -65536)}")
    rounded = w.emit(f"bitcast {ints} {cut} to {floats}")
    # The addition above may carry a NaN over into the sign bit
    is_nan = w.emit(f"fcmp uno {floats} {value}, {value}")
    quiet = w.emit(f"bitcast {ints} {shape.integer('i32', 0x7FC00000)} to {floats}")
    return w.emit(f"select {shape.of('i1')} {is_nan}, {floats} {quiet}, {floats} {rounded}")


def through_odd(w: Writer, shape: LaneShape, value: str) -> str:
    """A double as a float rounded to odd: rounding that again to 22 bits or fewer equals rounding once.

    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.)
    """
    doubles, floats, ints, flags = shape.of("double"), shape.of("float"), shape.of("i32"), shape.of("i1")
    rounded = w.emit(f"fptrunc {doubles} {value} to {floats}")
    back = w.emit(f"fpext {floats} {rounded} to {doubles}")
    bits = w.emit(f"bitcast {floats} {rounded} to {ints}")
    magnitude = w.call(f"llvm.fabs.{shape.suffix('double')}", doubles, [(doubles, back)])
    exact_magnitude = w.call(f"llvm.fabs.{shape.suffix('double')}", doubles, [(doubles, value)])
    inexact = w.emit(f"fcmp one {doubles} {back}, {value}")
    odd = w.emit(f"trunc {ints} {bits} to {flags}")
    even = w.emit(f"xor {flags} {odd}, {shape.splat('i1', 'true')}")
    adjust = w.emit(f"and {flags} {inexact}, {even}")
    # An even neighbour is replaced by the odd one on the other side of the exact value
    above = w.emit(f"fcmp ogt {doubles} {magnitude}, {exact_magnitude}")
    down, up = shape.integer("i32", -1), shape.integer("i32", 1)
    step = w.emit(f"select {flags} {above}, {ints} {down}, {ints} {up}")
    moved = w.emit(f"add {ints} {bits}, {step}")
    result = w.emit(f"select {flags} {adjust}, {ints} {moved}, {ints} {bits}")
    return w.emit(f"bitcast {ints} {result} to {floats}")


# --- bits and memory


def memory_type(dtype: DataType) -> str:
    """The LLVM type of one element of a scalar type in memory."""
    return _MEMORY.get(dtype.name) or f"i{dtype.bits}"


def round_pairs_to_bf16(w: Writer, values: Sequence[str]) -> list[str]:
    """An even number of floats rounded to bf16, still carried as float: two by one instruction.

    For where `rounds_to_bf16`; which NaN comes of a NaN is not specified.
    """
    rounded = []
    for low, high in zip(values[::2], values[1::2], strict=True):
        pair = w.call("llvm.nvvm.ff2bf16x2.rn", "<2 x bfloat>", [("float", high), ("float", low)])
        bits = w.emit(f"bitcast <2 x bfloat> {pair} to i32")
        halves = w.emit(f"shl i32 {bits}, 16"), w.emit(f"and i32 {bits}, -65536")
        rounded += [w.emit(f"bitcast i32 {half} to float") for half in halves]
    return rounded


def bits_of(w: Writer, shape: LaneShape, dtype: DataType, value: str) -> str:
    """The value's bit pattern as an integer of its width (a bool: 0 or 1 in 8 bits)."""
    kind = shape.type(dtype)
    if dtype.is_bool:
        return w.emit(f"zext {kind} {value} to {shape.of('i8')}")
    if dtype.name == "bf16":
        bits = w.emit(f"bitcast {kind} {value} to {shape.of('i32')}")
        high = w.emit(f"lshr {shape.of('i32')} {bits}, {shape.integer('i32', 16)}")
        return w.emit(f"trunc {shape.of('i32')} {high} to {shape.of('i16')}")
    if dtype.name == "f16":
        half = w.emit(f"fptrunc {kind} {value} to {shape.of('half')}")
        return w.emit(f"bitcast {shape.of('half')} {half} to {shape.of('i16')}")
    if dtype.is_float:
        return w.emit(f"bitcast {kind} {value} to {shape.of(f'i{dtype.bits}')}")
    return value


def from_bits(w: Writer, shape: LaneShape, dtype: DataType, bits: str) -> str:
    """The value of a bit pattern."""
    if dtype.is_bool:
        return w.emit(f"icmp ne {shape.of('i8')} {bits}, {shape.integer('i8', 0)}")
    if dtype.name == "bf16":
        wide = w.emit(f"zext {shape.of('i16')} {bits} to {shape.of('i32')}")
        high = w.emit(f"shl {shape.of('i32')} {wide}, {shape.integer('i32', 16)}")
        return w.emit(f"bitcast {shape.of('i32')} {high} to {shape.of('float')}")
    if dtype.name == "f16":
        half = w.emit(f"bitcast {shape.of('i16')} {bits} to {shape.of('half')}")
        return w.emit(f"fpext {shape.of('half')} {half} to {shape.of('float')}")
    if dtype.is_float:
        return w.emit(f"bitcast {shape.of(f'i{dtype.bits}')} {bits} to {shape.type(dtype)}")
    return bits


def of_word(w: Writer, dtype: DataType, word: str) -> str:
    """The scalar whose bits are the low ones of an i64."""
    bits = word if dtype.bits == 64 else w.emit(f"trunc i64 {word} to i{dtype.bits}")
    return from_bits(w, SCALAR, dtype, bits)


def load_value(w: Writer, shape: LaneShape, dtype: DataType, raw: str) -> str:
    """A loaded value, of the memory type, as its carrier."""
    if dtype.name == "f16":
        return w.emit(f"fpext {shape.of('half')} {raw} to {shape.of('float')}")
    return from_bits(w, shape, dtype, raw) if dtype.name in ("bool", "bf16") else raw


def store_value(w: Writer, shape: LaneShape, dtype: DataType, value: str) -> str:
    """A value's carrier as the memory type, ready to be stored."""
    if dtype.name == "f16":
        return w.emit(f"fptrunc {shape.of('float')} {value} to {shape.of('half')}")
    return bits_of(w, shape, dtype, value) if dtype.name in ("bool", "bf16") else value
