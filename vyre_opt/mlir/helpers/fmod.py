"""C's fmod: exact, by shifting and subtracting significands as integers.

arith.remf would become a call of a library on one machine and an inexact sequence on another.
"""

from __future__ import annotations

from ...ir.types import DataType
from ...math_functions.expression import F32, F64, Format
from ...records import dataclass
from ..code import Code

__all__ = ["fmod"]

_FORMATS = {"f32": F32, "f64": F64}


def fmod(code: Code, dtype: DataType, x: str, y: str) -> str:
    """|x| modulo |y| with the sign of x; NaN for an infinite x, a zero y or a NaN."""
    return _Fmod(code, _FORMATS[dtype.name]).write(x, y)


@dataclass(slots=True)
class _Fmod:
    code: Code
    format: Format

    @property
    def ints(self) -> str:
        return f"i{self.format.bits}"

    def op(self, verb: str, *operands: str) -> str:
        return self.code.op(f"arith.{verb}i", self.ints, *operands)

    def number(self, value: int) -> str:
        return self.code.integer(value, self.ints)

    def test(self, predicate: str, a: str, b: str) -> str:
        return self.code.compare(predicate, self.ints, a, b)

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.code.select(condition, self.ints, a, b)

    def write(self, x: str, y: str) -> str:
        code, n = self.code, self.format
        kind, ints = n.name, self.ints
        infinity = ((1 << (n.bits - 1 - n.fraction_bits)) - 1) << n.fraction_bits
        xb, yb = (code.convert("arith.bitcast", kind, ints, value) for value in (x, y))
        magnitude = self.number((1 << (n.bits - 1)) - 1)
        sign = self.op("and", xb, self.number(1 << (n.bits - 1)))
        xa, ya = self.op("and", xb, magnitude), self.op("and", yb, magnitude)
        bad = self.test("uge", xa, self.number(infinity))
        bad = code.op("arith.ori", "i1", bad, self.test("ugt", ya, self.number(infinity)))
        bad = code.op("arith.ori", "i1", bad, self.test("eq", ya, self.number(0)))
        smaller = self.test("ult", xa, ya)
        none = code.op("arith.ori", "i1", bad, smaller)
        rest = code.fresh()
        code.open(f"{rest} = scf.if {none} -> ({ints})")
        nan = self.number(infinity | 1 << (n.fraction_bits - 1))
        code.line(f"scf.yield {self.choose(bad, nan, xb)} : {ints}")
        code.next_region("else")
        code.line(f"scf.yield {self.op('or', self.remainder(xa, ya), sign)} : {ints}")
        code.close()
        return code.convert("arith.bitcast", ints, kind, rest)

    def remainder(self, xa: str, ya: str) -> str:
        """The bits of |x| modulo |y|, for |x| >= |y| > 0 and both finite, as in musl: by one bit of the quotient a turn."""
        code, ints = self.code, self.ints
        mx, ex = self.unpacked(xa)
        my, ey = self.unpacked(ya)
        rest, last = code.fresh(), code.fresh()
        m, e = code.fresh(), code.fresh()
        # the remainder is below 2 my at the top of each turn
        code.open(
            f"{rest}, {last} = scf.while ({m} = {mx}, {e} = {ex}) : ({ints}, {ints}) -> ({ints}, {ints})"
        )
        fits = self.test("uge", m, my)
        left = self.choose(fits, self.op("sub", m, my), m)
        code.line(f"scf.condition({self.test('sgt', e, ey)}) {left}, {e} : {ints}, {ints}")
        left, exponent = code.fresh(), code.fresh()
        code.next_region("do", f"^bb0({left}: {ints}, {exponent}: {ints})")
        one = self.number(1)
        doubled, lower = self.op("shl", left, one), self.op("sub", exponent, one)
        code.line(f"scf.yield {doubled}, {lower} : {ints}, {ints}")
        code.close()
        return self.packed(rest, ey)

    def unpacked(self, value: str) -> tuple[str, str]:
        """(significand with its hidden bit, exponent) of a magnitude; the exponent of a subnormal is below 1."""
        n = self.format
        exponent = self.op("shru", value, self.number(n.fraction_bits))
        low = self.op("and", value, self.number((1 << n.fraction_bits) - 1))
        normal = self.test("ne", exponent, self.number(0))
        full = self.op("or", low, self.number(1 << n.fraction_bits))
        shifted, shift = self.normalised(low)
        below_one = self.op("sub", self.number(1), shift)
        return self.choose(normal, full, shifted), self.choose(normal, exponent, below_one)

    def normalised(self, significand: str) -> tuple[str, str]:
        """(`significand` shifted left until its highest bit is the hidden bit, the shift); 0 is not shifted."""
        n = self.format
        zeros = self.code.op("math.ctlz", self.ints, significand)
        shift = self.op("sub", zeros, self.number(n.bits - 1 - n.fraction_bits))
        # 0 has as many leading zeros as bits: no more than a shift may have
        shift = self.op("minu", shift, self.number(n.fraction_bits))
        return self.op("shl", significand, shift), shift

    def packed(self, rest: str, ey: str) -> str:
        n = self.format
        shifted, shift = self.normalised(rest)
        exponent = self.op("sub", ey, shift)
        is_normal = self.test("sgt", exponent, self.number(0))
        low = self.op("and", shifted, self.number((1 << n.fraction_bits) - 1))
        raised = self.op(
            "shl", self.choose(is_normal, exponent, self.number(0)), self.number(n.fraction_bits)
        )
        down = self.choose(is_normal, self.number(0), self.op("sub", self.number(1), exponent))
        # for a zero the shift may exceed the width, and does not matter
        down = self.op("minu", down, self.number(n.bits - 1))
        subnormal = self.op("shru", shifted, down)
        bits = self.choose(is_normal, self.op("or", raised, low), subnormal)
        return self.choose(self.test("eq", rest, self.number(0)), self.number(0), bits)
