"""exp, exp2, log, log2, tanh, rsqrt, rcp and fmod as LLVM text, for float and double.

Each reduces its argument, evaluates a polynomial and reassembles the result, so that no target
needs a math library.  The polynomials are Taylor series on the reduced range, whose
coefficients are computed here.  The error bounds are those of the op table, which tests check
on every target.

    exp(x)  = 2^n * e^r,      n = round(x / ln 2),  |r| <= ln 2 / 2
    log(x)  = e ln 2 + 2 atanh(s),  x = 2^e m,  m in [sqrt(1/2), sqrt 2),  s = (m-1)/(m+1)
    tanh(x) = series for |x| < 1/2, else 1 - 2 / (e^2x + 1)
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from .lane_shape import LaneShape
from .llvm_text import Writer

__all__ = ["apply", "fmod"]


@dataclass(frozen=True)
class _Format:
    """A floating-point format, and its polynomials' lengths.

    ln 2 is split into `ln2_high` + `ln2_low` so that n * ln2_high is exact for every exponent n.
    """

    element: str
    ints: str
    fraction_bits: int
    bias: int
    ln2_high: float
    ln2_low: float
    exp_terms: int
    log_terms: int
    tanh_terms: int

    @property
    def bits(self) -> int:
        return 64 if self.element == "double" else 32


_LN2 = Fraction("0.69314718055994530941723212145817656807550013436025525412068")


def _split_ln2(bits: int) -> tuple[float, float]:
    """ln 2 as a number of `bits` significant bits, and the rest."""
    high = Fraction(math.floor(_LN2 * 2**bits), 2**bits)
    return float(high), float(_LN2 - high)


_FORMATS = {
    "float": _Format("float", "i32", 23, 127, *_split_ln2(14), exp_terms=7, log_terms=5, tanh_terms=8),
    "double": _Format("double", "i64", 52, 1023, *_split_ln2(40), exp_terms=14, log_terms=11, tanh_terms=16),
}


_SCALEF_LANES = 16
"""Floats that AVX-512 scales by powers of two with one instruction (VSCALEFPS)."""

_CURRENT_ROUNDING = "4"
"""That instruction's operand for the current rounding mode."""


def _tanh_series(terms: int) -> list[float]:
    """Coefficients of x, x^3, x^5, ... in tanh: tanh' = 1 - tanh^2, term by term."""
    series = [Fraction(1)]
    for k in range(1, terms):
        square = sum((series[i] * series[k - 1 - i] for i in range(k)), Fraction(0))
        series.append(-square / (2 * k + 1))
    return [float(c) for c in series]


def apply(
    w: Writer, shape: LaneShape, name: str, element: str, x: str, target: str, flushes: bool = False
) -> str:
    """The function `name` of `x`, in a shape of the LLVM type `element`, float or double.

    `flushes`: exp2 and rcp may take subnormals for zero, in `x` and in the result.
    """
    result: str = getattr(_Math(w, shape, _FORMATS[element], target, flushes), name)(x)
    return result


class _Math:
    def __init__(self, w: Writer, shape: LaneShape, numbers: _Format, target: str, flushes: bool) -> None:
        self.w = w
        self.shape = shape
        self.n = numbers
        self.target = target
        self.has_hardware = target == "nvptx" and numbers.element == "float"
        """Whether there are instructions for exp2 and rcp."""
        self.flushes = flushes
        self.kind = shape.of(numbers.element)
        self.ints = shape.of(numbers.ints)
        self.flags = shape.of("i1")

    # --- shorthands

    def const(self, value: float) -> str:
        return self.shape.real(self.n.element, value)

    def whole(self, value: int) -> str:
        return self.shape.integer(self.n.ints, value)

    def op(self, verb: str, a: str, b: str) -> str:
        return self.w.emit(f"{verb} {self.kind} {a}, {b}")

    def iop(self, verb: str, a: str, b: str) -> str:
        return self.w.emit(f"{verb} {self.ints} {a}, {b}")

    def call(self, stem: str, *args: str) -> str:
        name = f"llvm.{stem}.{self.shape.suffix(self.n.element)}"
        return self.w.call(name, self.kind, [(self.kind, a) for a in args])

    def fma(self, a: str, b: str, c: str) -> str:
        return self.call("fma", a, b, c)

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.w.emit(f"select {self.flags} {condition}, {self.kind} {a}, {self.kind} {b}")

    def ichoose(self, condition: str, a: str, b: str) -> str:
        return self.w.emit(f"select {self.flags} {condition}, {self.ints} {a}, {self.ints} {b}")

    def test(self, predicate: str, a: str, b: str) -> str:
        return self.w.emit(f"fcmp {predicate} {self.kind} {a}, {b}")

    def bits(self, a: str) -> str:
        return self.w.emit(f"bitcast {self.kind} {a} to {self.ints}")

    def value(self, bits: str) -> str:
        return self.w.emit(f"bitcast {self.ints} {bits} to {self.kind}")

    def polynomial(self, x: str, coefficients: Sequence[float]) -> str:
        """c0 + c1 x + c2 x^2 + ..., by Horner's rule with fused steps."""
        total = self.const(coefficients[-1])
        for c in reversed(coefficients[:-1]):
            total = self.fma(total, x, self.const(c))
        return total

    # --- exponentials

    def exp(self, x: str) -> str:
        x = self.within(x, (self.n.bias + self.n.fraction_bits + 2) * math.log(2))
        n = self.call("roundeven", self.op("fmul", x, self.const(1 / math.log(2))))
        minus = self.w.emit(f"fneg {self.kind} {n}")
        r = self.fma(minus, self.const(self.n.ln2_high), x)
        r = self.fma(minus, self.const(self.n.ln2_low), r)
        return self.scale(self.exp_reduced(r), n)

    def exp2(self, x: str) -> str:
        if self.has_hardware:
            # without .ftz the driver's compiler scales arguments and results around the instruction
            return self.call_named(f"llvm.nvvm.ex2.approx{'.ftz' if self.flushes else ''}.f", x)
        if not self.has_scale:
            x = self.within(x, self.n.bias + self.n.fraction_bits + 2.0)
        n = self.call("roundeven", x)
        f = self.op("fsub", x, n)
        return self.scale(self.exp_reduced(self.op("fmul", f, self.const(math.log(2)))), n)

    def call_named(self, name: str, x: str) -> str:
        return self.w.call(name, self.kind, [(self.kind, x)])

    def exp_reduced(self, r: str) -> str:
        return self.polynomial(r, [1 / math.factorial(k) for k in range(self.n.exp_terms + 1)])

    def within(self, x: str, limit: float) -> str:
        """x clamped to [-limit, limit], beyond which the result is 0 or inf anyway; a NaN stays one."""
        high, low = self.const(limit), self.const(-limit)
        x = self.choose(self.test("ogt", x, high), high, x)
        return self.choose(self.test("olt", x, low), low, x)

    def scale(self, value: str, n: str) -> str:
        """value * 2^n in two steps, so that subnormal results are rounded once and 2^128 is reached."""
        if self.has_scale:
            return self.scale_at_once(value, n)
        # fptosi of a NaN is poison
        safe = self.choose(self.test("uno", n, n), self.const(0.0), n)
        exponent = self.w.emit(f"fptosi {self.kind} {safe} to {self.ints}")
        half = self.iop("ashr", exponent, self.whole(1))
        remainder = self.iop("sub", exponent, half)
        for piece in (half, remainder):
            value = self.op("fmul", value, self.power(piece))
        return self.choose(self.test("uno", n, n), n, value)

    @property
    def has_scale(self) -> bool:
        """Whether one instruction (VSCALEFPS) multiplies 16 floats by 2^n for any n.

        For n = inf and -inf it gives inf and 0, even for NaN * 2^n.
        """
        return self.target == "avx512" and self.n.element == "float" and self.shape.lanes % _SCALEF_LANES == 0

    def scale_at_once(self, value: str, n: str) -> str:
        """value * 2^n by that instruction, in pieces of 16 lanes."""
        piece_type = f"<{_SCALEF_LANES} x float>"
        pieces = []
        for start in range(0, self.shape.lanes, _SCALEF_LANES):
            lanes = range(start, start + _SCALEF_LANES)
            a, b = (self.shuffled(x, "poison", self.kind, lanes) for x in (value, n))
            operands = [
                (piece_type, a),
                (piece_type, b),
                (piece_type, "zeroinitializer"),
                ("i16", "-1"),
                ("i32", _CURRENT_ROUNDING),
            ]
            pieces.append(self.w.call("llvm.x86.avx512.mask.scalef.ps.512", piece_type, operands))
        while len(pieces) > 1:
            width = self.shape.lanes // len(pieces)
            kind = f"<{width} x float>"
            pieces = [
                self.shuffled(a, b, kind, range(2 * width))
                for a, b in zip(pieces[::2], pieces[1::2], strict=True)
            ]
        return pieces[0]

    def shuffled(self, a: str, b: str, kind: str, lanes: range) -> str:
        mask = ", ".join(f"i32 {lane}" for lane in lanes)
        return self.w.emit(f"shufflevector {kind} {a}, {kind} {b}, <{len(lanes)} x i32> <{mask}>")

    def power(self, exponent: str) -> str:
        """2^exponent of an integer in the normal range."""
        biased = self.iop("add", exponent, self.whole(self.n.bias))
        return self.value(self.iop("shl", biased, self.whole(self.n.fraction_bits)))

    # --- logarithms

    def log(self, x: str) -> str:
        e, s = self.reduced(x)
        tail = self.fma(e, self.const(self.n.ln2_low), self.log_mantissa(s))
        return self.log_special(x, self.fma(e, self.const(self.n.ln2_high), tail))

    def log2(self, x: str) -> str:
        e, s = self.reduced(x)
        return self.log_special(x, self.fma(self.log_mantissa(s), self.const(1 / math.log(2)), e))

    def reduced(self, x: str) -> tuple[str, str]:
        """(e as a float, s = (m-1)/(m+1)) where x = 2^e m, and m is in [sqrt(1/2), sqrt 2)."""
        # A subnormal has no hidden bit: it is scaled to a normal number, and e is corrected below
        tiny = self.test("olt", x, self.const(2.0 ** (1 - self.n.bias)))
        shift = self.n.fraction_bits + 1
        x = self.choose(tiny, self.op("fmul", x, self.const(2.0**shift)), x)
        # Subtracting the bits of sqrt(1/2) puts the cut between exponents there
        cut = self.iop("sub", self.bits(x), self.whole(_bits(math.sqrt(0.5), self.n)))
        exponent = self.iop("ashr", cut, self.whole(self.n.fraction_bits))
        mantissa = self.iop("sub", self.bits(x), self.iop("shl", exponent, self.whole(self.n.fraction_bits)))
        m = self.value(mantissa)
        adjustment = self.ichoose(tiny, self.whole(shift), self.whole(0))
        e = self.w.emit(f"sitofp {self.ints} {self.iop('sub', exponent, adjustment)} to {self.kind}")
        one = self.const(1.0)
        return e, self.op("fdiv", self.op("fsub", m, one), self.op("fadd", m, one))

    def log_mantissa(self, s: str) -> str:
        """2 atanh(s) = 2 s (1 + s^2/3 + s^4/5 + ...)."""
        square = self.op("fmul", s, s)
        series = self.polynomial(square, [2 / (2 * k + 3) for k in range(self.n.log_terms)])
        cube = self.op("fmul", self.op("fmul", square, s), series)
        return self.op("fadd", self.op("fadd", s, s), cube)

    def log_special(self, x: str, result: str) -> str:
        """The special cases of a logarithm: -inf for zero, NaN for a negative, inf and NaN for themselves."""
        zero, inf = self.const(0.0), self.const(math.inf)
        result = self.choose(self.test("oeq", x, inf), x, result)
        result = self.choose(self.test("oeq", x, zero), self.const(-math.inf), result)
        result = self.choose(self.test("olt", x, zero), self.const(math.nan), result)
        return self.choose(self.test("uno", x, x), x, result)

    # --- the rest

    def tanh(self, x: str) -> str:
        square = self.op("fmul", x, x)
        # Taylor's series of tanh is slow near 1/2; only |x| < 1/2 uses it
        near = self.op("fmul", x, self.polynomial(square, _tanh_series(self.n.tanh_terms)))
        magnitude = self.call("fabs", x)
        # Where this overflows, 2 / inf = 0 gives 1
        exponential = self.exp(self.op("fadd", magnitude, magnitude))
        quotient = self.op("fdiv", self.const(2.0), self.op("fadd", exponential, self.const(1.0)))
        far = self.call("copysign", self.op("fsub", self.const(1.0), quotient), x)
        return self.choose(self.test("olt", magnitude, self.const(0.5)), near, far)

    def rsqrt(self, x: str) -> str:
        return self.op("fdiv", self.const(1.0), self.call("sqrt", x))

    def rcp(self, x: str) -> str:
        if self.has_hardware and self.flushes:  # within 1 ulp
            return self.call_named("llvm.nvvm.rcp.approx.ftz.f", x)
        return self.op("fdiv", self.const(1.0), x)


def _bits(value: float, numbers: _Format) -> int:
    import struct

    if numbers.element == "double":
        return int.from_bytes(struct.pack("<d", value), "little")
    return int.from_bytes(struct.pack("<f", value), "little")


# --- fmod: exact, by shifting and subtracting, one lane at a time in a function of its own


def fmod(w: Writer, shape: LaneShape, element: str, x: str, y: str, target: str) -> str:
    """C's fmod, exactly.  LLVM's frem would be a library call on the host, and is inexact on nvptx."""
    name = f"vyre.fmod.{element}"
    if not w.module.defines(name):
        w.module.define(name, _fmod_text(name, _FORMATS[element], w))
    if shape.lanes == 1:
        return w.emit(f"call {element} @{name}({element} {x}, {element} {y})")
    result = "poison"
    for lane in range(shape.lanes):
        a = w.emit(f"extractelement {shape.of(element)} {x}, i32 {lane}")
        b = w.emit(f"extractelement {shape.of(element)} {y}, i32 {lane}")
        r = w.emit(f"call {element} @{name}({element} {a}, {element} {b})")
        result = w.emit(f"insertelement {shape.of(element)} {result}, {element} {r}, i32 {lane}")
    return result


def _normalised(w: Writer, n: _Format, significand: str) -> tuple[str, str]:
    """(`significand` shifted left until its highest bit is the hidden bit, the shift)."""
    zeros = w.call(f"llvm.ctlz.{n.ints}", n.ints, [(n.ints, significand), ("i1", "false")])
    shift = w.emit(f"sub {n.ints} {zeros}, {n.bits - 1 - n.fraction_bits}")
    return w.emit(f"shl {n.ints} {significand}, {shift}"), shift


def _unpacked(w: Writer, n: _Format, value: str) -> tuple[str, str]:
    """(significand with its hidden bit, exponent) of a magnitude; the exponent of a subnormal is below 1."""
    i, hidden = n.ints, 1 << n.fraction_bits
    exponent = w.emit(f"lshr {i} {value}, {n.fraction_bits}")
    low = w.emit(f"and {i} {value}, {hidden - 1}")
    normal = w.emit(f"icmp ne {i} {exponent}, 0")
    full = w.emit(f"or {i} {low}, {hidden}")
    shifted, shift = _normalised(w, n, low)
    low_exponent = w.emit(f"sub {i} 1, {shift}")
    significand = w.emit(f"select i1 {normal}, {i} {full}, {i} {shifted}")
    return significand, w.emit(f"select i1 {normal}, {i} {exponent}, {i} {low_exponent}")


def _fmod_text(name: str, n: _Format, outer: Writer) -> str:
    """fmod as in musl: |x| mod |y| on integer significands, by one bit of the quotient per iteration."""
    w = Writer(outer.module)
    i, f, bits = n.ints, n.element, n.bits
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
    mx, ex = _unpacked(w, n, xa)
    my, ey = _unpacked(w, n, ya)
    smaller = w.emit(f"icmp ult {i} {xa}, {ya}")
    w.branch_if(smaller, "same", "loop")
    w.start("same")
    w.line(f"ret {f} %x")
    w.start("loop")  # m < 2 my at the top of each iteration
    w.lines.append(f"  %m = phi {i} [ {mx}, %valid ], [ %next, %again ]")
    w.lines.append(f"  %e = phi {i} [ {ex}, %valid ], [ %lower, %again ]")
    fits = w.emit(f"icmp uge {i} %m, {my}")
    less = w.emit(f"sub {i} %m, {my}")
    rest = w.emit(f"select i1 {fits}, {i} {less}, {i} %m")
    more = w.emit(f"icmp sgt {i} %e, {ey}")
    w.branch_if(more, "again", "done")
    w.start("again")
    w.lines.append(f"  %next = shl {i} {rest}, 1")
    w.lines.append(f"  %lower = sub {i} %e, 1")
    w.branch("loop")
    w.start("done")
    shifted, shift = _normalised(w, n, rest)
    exponent = w.emit(f"sub {i} {ey}, {shift}")
    is_normal = w.emit(f"icmp sgt {i} {exponent}, 0")
    low = w.emit(f"and {i} {shifted}, {hidden - 1}")
    normal = w.emit(f"or {i} {w.emit(f'shl {i} {exponent}, {fraction}')}, {low}")
    subnormal = w.emit(f"lshr {i} {shifted}, {w.emit(f'sub {i} 1, {exponent}')}")
    packed = w.emit(f"select i1 {is_normal}, {i} {normal}, {i} {subnormal}")
    is_zero = w.emit(f"icmp eq {i} {rest}, 0")
    magnitude_bits = w.emit(f"select i1 {is_zero}, {i} 0, {i} {packed}")
    signed = w.emit(f"or {i} {magnitude_bits}, {sign}")
    w.line(f"ret {f} {w.emit(f'bitcast {i} {signed} to {f}')}")
    return f"define internal {f} @{name}({f} %x, {f} %y) noinline {{\nentry:\n" + "\n".join(w.lines) + "\n}"
