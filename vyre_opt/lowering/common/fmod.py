"""C's fmod as LLVM text: exact, by shifting and subtracting, one lane at a time in a function of its own."""

from __future__ import annotations

from ...math_functions.expression import F32, F64, Format
from .lane_shape import LaneShape
from .llvm_text import Writer

__all__ = ["fmod"]

_FORMATS = {"float": F32, "double": F64}


def _ints(n: Format) -> str:
    return f"i{n.bits}"


def fmod(w: Writer, shape: LaneShape, element: str, x: str, y: str) -> str:
    """C's fmod, exactly.  LLVM's frem would be a library call on the host, and is inexact on nvptx."""
    name = f"vyre.fmod.{element}"
    if not w.module.defines(name):
        w.module.define(name, _fmod_text(name, element, w))
    if shape.lanes == 1:
        return w.emit(f"call {element} @{name}({element} {x}, {element} {y})")
    result = "poison"
    for lane in range(shape.lanes):
        a = w.emit(f"extractelement {shape.of(element)} {x}, i32 {lane}")
        b = w.emit(f"extractelement {shape.of(element)} {y}, i32 {lane}")
        r = w.emit(f"call {element} @{name}({element} {a}, {element} {b})")
        result = w.emit(f"insertelement {shape.of(element)} {result}, {element} {r}, i32 {lane}")
    return result


def _normalised(w: Writer, n: Format, significand: str) -> tuple[str, str]:
    """(`significand` shifted left until its highest bit is the hidden bit, the shift)."""
    zeros = w.call(f"llvm.ctlz.{_ints(n)}", _ints(n), [(_ints(n), significand), ("i1", "false")])
    shift = w.emit(f"sub {_ints(n)} {zeros}, {n.bits - 1 - n.fraction_bits}")
    return w.emit(f"shl {_ints(n)} {significand}, {shift}"), shift


def _unpack(w: Writer, n: Format, value: str) -> tuple[str, str]:
    """(significand with its hidden bit, exponent) of a magnitude; the exponent of a subnormal is below 1."""
    i, hidden = _ints(n), 1 << n.fraction_bits
    exponent = w.emit(f"lshr {i} {value}, {n.fraction_bits}")
    low = w.emit(f"and {i} {value}, {hidden - 1}")
    normal = w.emit(f"icmp ne {i} {exponent}, 0")
    full = w.emit(f"or {i} {low}, {hidden}")
    shifted, shift = _normalised(w, n, low)
    low_exponent = w.emit(f"sub {i} 1, {shift}")
    significand = w.emit(f"select i1 {normal}, {i} {full}, {i} {shifted}")
    return significand, w.emit(f"select i1 {normal}, {i} {exponent}, {i} {low_exponent}")


def _fmod_text(name: str, element: str, outer: Writer) -> str:
    """fmod as in musl: |x| mod |y| on integer significands, by one bit of the quotient per iteration."""
    w, n = Writer(outer.module), _FORMATS[element]
    i, f, bits = _ints(n), element, n.bits
    fraction = n.fraction_bits
    hidden, top = 1 << fraction, (1 << (bits - 1 - fraction)) - 1
    magnitude = (1 << (bits - 1)) - 1
    infinity = top << fraction

    xb = w.emit(f"bitcast {f} %x to {i}")
    yb = w.emit(f"bitcast {f} %y to {i}")
    sign = w.emit(f"and {i} {xb}, {-1 << (bits - 1)}")
    xa = w.emit(f"and {i} {xb}, {magnitude}")
    ya = w.emit(f"and {i} {yb}, {magnitude}")
    bad_x = w.emit(f"icmp uge {i} {xa}, {infinity}")
    bad_y = w.emit(f"icmp ugt {i} {ya}, {infinity}")
    zero_y = w.emit(f"icmp eq {i} {ya}, 0")
    bad = w.emit(f"or i1 {w.emit(f'or i1 {bad_x}, {bad_y}')}, {zero_y}")
    w.branch_if(bad, "invalid", "valid")
    w.start("invalid")
    nan = w.emit(f"bitcast {i} {infinity | (hidden >> 1)} to {f}")
    w.line(f"ret {f} {nan}")
    w.start("valid")
    mx, ex = _unpack(w, n, xa)
    my, ey = _unpack(w, n, ya)
    smaller = w.emit(f"icmp ult {i} {xa}, {ya}")
    w.branch_if(smaller, "same", "loop")
    w.start("same")
    w.line(f"ret {f} %x")
    w.start("loop")  # m < 2 my at the top of each iteration
    w.lines.append(f"  %m = phi {i} [ {mx}, %valid ], [ %next, %again ]")
    w.lines.append(f"  %e = phi {i} [ {ex}, %valid ], [ %lower, %again ]")
    fits = w.emit(f"icmp uge {i} %m, {my}")
    less = w.emit(f"sub {i} %m, {my}")
    remainder = w.emit(f"select i1 {fits}, {i} {less}, {i} %m")
    more = w.emit(f"icmp sgt {i} %e, {ey}")
    w.branch_if(more, "again", "done")
    w.start("again")
    w.lines.append(f"  %next = shl {i} {remainder}, 1")
    w.lines.append(f"  %lower = sub {i} %e, 1")
    w.branch("loop")
    w.start("done")
    shifted, shift = _normalised(w, n, remainder)
    exponent = w.emit(f"sub {i} {ey}, {shift}")
    is_normal = w.emit(f"icmp sgt {i} {exponent}, 0")
    low = w.emit(f"and {i} {shifted}, {hidden - 1}")
    normal = w.emit(f"or {i} {w.emit(f'shl {i} {exponent}, {fraction}')}, {low}")
    subnormal = w.emit(f"lshr {i} {shifted}, {w.emit(f'sub {i} 1, {exponent}')}")
    packed = w.emit(f"select i1 {is_normal}, {i} {normal}, {i} {subnormal}")
    is_zero = w.emit(f"icmp eq {i} {remainder}, 0")
    magnitude_bits = w.emit(f"select i1 {is_zero}, {i} 0, {i} {packed}")
    signed = w.emit(f"or {i} {magnitude_bits}, {sign}")
    w.line(f"ret {f} {w.emit(f'bitcast {i} {signed} to {f}')}")
    return f"define internal {f} @{name}({f} %x, {f} %y) noinline {{\nentry:\n" + "\n".join(w.lines) + "\n}"
