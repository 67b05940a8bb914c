"""Rounding a float to f16 or bf16 by integer arithmetic, so that no target needs a library call."""

from __future__ import annotations

from ...ir.types import DataType
from .lane_shape import LaneShape
from .llvm_text import Writer

__all__ = ["round_to_half", "through_odd"]


def round_to_half(w: Writer, shape: LaneShape, dtype: DataType, value: str) -> str:
    """A float rounded to nearest even in f16 or bf16, still carried as float."""
    floats = shape.of("float")
    if dtype.name == "f16":
        half = w.emit(f"fptrunc {floats} {value} to {shape.of('half')}")
        return w.emit(f"fpext {shape.of('half')} {half} to {floats}")
    ints = shape.of("i32")
    bits = w.emit(f"bitcast {floats} {value} to {ints}")
    # Add half a unit less one, plus the lowest bit kept: ties go to even, a carry to the exponent
    shifted = w.emit(f"lshr {ints} {bits}, {shape.integer('i32', 16)}")
    lowest = w.emit(f"and {ints} {shifted}, {shape.integer('i32', 1)}")
    bias = w.emit(f"add {ints} {lowest}, {shape.integer('i32', 0x7FFF)}")
    up = w.emit(f"add {ints} {bits}, {bias}")
    cut = w.emit(f"and {ints} {up}, {shape.integer('i32', -65536)}")
    rounded = w.emit(f"bitcast {ints} {cut} to {floats}")
    is_nan = w.emit(f"fcmp uno {floats} {value}, {value}")
    quiet = w.emit(f"bitcast {ints} {shape.integer('i32', 0x7FC00000)} to {floats}")
    return w.emit(f"select {shape.of('i1')} {is_nan}, {floats} {quiet}, {floats} {rounded}")


def through_odd(w: Writer, shape: LaneShape, value: str) -> str:
    """A double as a float rounded to odd: a second rounding to 22 bits or fewer is then the only one.

    (Boldo and Melquiond, "Emulation of FMA and correctly rounded sums", 2008.)
    """
    doubles, floats, ints, flags = shape.of("double"), shape.of("float"), shape.of("i32"), shape.of("i1")
    near = w.emit(f"fptrunc {doubles} {value} to {floats}")
    back = w.emit(f"fpext {floats} {near} to {doubles}")
    bits = w.emit(f"bitcast {floats} {near} to {ints}")
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
    chosen = w.emit(f"select {flags} {adjust}, {ints} {moved}, {ints} {bits}")
    return w.emit(f"bitcast {ints} {chosen} to {floats}")
