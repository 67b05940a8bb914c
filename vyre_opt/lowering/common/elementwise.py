"""Arithmetic and comparison as LLVM text, the same for scalars and vectors of lanes.

Each function takes one op's operands, all in one shape, and returns the result's name.
Operands for which LLVM's instructions are undefined are guarded here: division by zero,
INT_MIN / -1, and shifts by the width or more.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field

from ...ir import arith
from ...ir.types import DataType
from ...records import dataclass
from . import fmod, math_functions
from .conversions import round_to_half, through_odd
from .lane_shape import SCALAR, LaneShape, carrier
from .llvm_text import Writer

__all__ = ["Elementwise", "apply", "compare", "identity", "select"]


def apply(
    w: Writer,
    shape: LaneShape,
    name: str,
    dtype: DataType,
    args: Sequence[str],
    target: str = "host",
    guarded: bool = True,
) -> str:
    """A unary, binary or ternary op of the table; see `Elementwise`."""
    return Elementwise(w, shape, dtype, target, guarded).apply(name, args)


def compare(w: Writer, shape: LaneShape, name: str, dtype: DataType, a: str, b: str) -> str:
    """eq, ne, lt, le, gt or ge; an i1 of the shape."""
    kind = shape.type(dtype)
    if dtype.is_float:
        predicate = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}[name]
        return w.emit(f"fcmp {predicate} {kind} {a}, {b}")
    predicate = name if name in ("eq", "ne") else ("s" if dtype.is_signed else "u") + name
    return w.emit(f"icmp {predicate} {kind} {a}, {b}")


def select(w: Writer, shape: LaneShape, dtype: DataType, predicate: str, a: str, b: str) -> str:
    """a where the predicate (an i1 of the shape) holds, else b."""
    kind = shape.type(dtype)
    return w.emit(f"select {shape.of('i1')} {predicate}, {kind} {a}, {kind} {b}")


def identity(combine: str, dtype: DataType) -> str:
    """The combiner's identity element, which an exclusive scan gives to lane 0."""
    value = arith.identity(combine, dtype)
    if dtype.is_float:
        return SCALAR.real(carrier(dtype), arith.decode_float(value, dtype))
    return SCALAR.const(value, dtype)


# --- ops on one type

_INT_BINARY = ("add", "sub", "mul", "and", "or", "xor")
_FLOAT_BINARY = {"add": "fadd", "sub": "fsub", "mul": "fmul", "div": "fdiv"}
_INT_CALLS = {"min": "min", "max": "max", "add_sat": "add.sat", "sub_sat": "sub.sat"}  # after s or u
_FLOAT_CALLS = {
    "min": "minimumnum", "max": "maximumnum", "abs": "fabs", "sqrt": "sqrt", "floor": "floor",
    "ceil": "ceil", "trunc": "trunc", "round_even": "roundeven",
}  # fmt: skip

# Ops that are one LLVM instruction or nearly.  The others expand to sequences (argument reduction, two-sums) whose exactness
# fastmath flags would break.
_FLAGGED = {"add", "sub", "mul", "div", "neg", "sqrt", "min", "max", "abs_diff", "fma"}
_FLOAT_OP = re.compile(r" = (fadd|fsub|fmul|fdiv|fneg|call(?= [^@]*@llvm\.))")
_HOST_FLAGS = frozenset({"contract"})


def _put_flags(lines: list[str], start: int, flags: Iterable[str]) -> None:
    """Put fastmath flags on the float instructions written since line `start`."""
    words = " ".join(flags)
    for number in range(start, len(lines) if words else start):
        lines[number] = _FLOAT_OP.sub(rf" = \1 {words}", lines[number])


@dataclass(slots=True)
class Elementwise:
    """Writes unary, binary and ternary ops of the op table on one scalar type in one shape.

    `target`: host, avx512 or nvptx; on each, results are within the op table's error bounds.
    `guarded`: an integer division or shift may meet operands that LLVM leaves undefined (see
    `needs_guard`).  `fastmath`: the op's flags.
    """

    w: Writer
    shape: LaneShape
    dtype: DataType
    target: str
    guarded: bool = True
    fastmath: Sequence[str] = ()
    element: str = field(init=False)
    kind: str = field(init=False)

    def __post_init__(self) -> None:
        self.element, self.kind = carrier(self.dtype), self.shape.type(self.dtype)

    def apply(self, name: str, args: Sequence[str]) -> str:
        if self.dtype.is_float:
            start = len(self.w.lines)
            result = self.float(name, args)
            if self.fastmath and name in _FLAGGED and self.dtype.bits != 16 and not self.is_short(name):
                allowed = self.fastmath if self.target == "nvptx" else _HOST_FLAGS.intersection(self.fastmath)
                _put_flags(self.w.lines, start, allowed)
            return result
        if name in _INT_BINARY:
            return self.emit(f"{name} {self.kind} {args[0]}, {args[1]}")
        if name in _INT_CALLS:
            return self.call(f"{self.sign}{_INT_CALLS[name]}", args)
        return _INT_RULES[name](self, *args)

    # --- shorthands

    @property
    def sign(self) -> str:
        return "s" if self.dtype.is_signed else "u"

    @property
    def bits(self) -> int:
        return 1 if self.dtype.is_bool else self.dtype.bits or 0

    def emit(self, text: str) -> str:
        return self.w.emit(text)

    def int(self, value: int) -> str:
        return self.shape.integer(self.element, value)

    def call(self, stem: str, args: Sequence[str], *flags: str) -> str:
        """An intrinsic overloaded on this type; `flags` are i1 constants."""
        name = f"llvm.{stem}.{self.shape.suffix(self.element)}"
        return self.w.call(name, self.kind, [*((self.kind, a) for a in args), *(("i1", f) for f in flags)])

    def choose(self, condition: str, a: str, b: str) -> str:
        return self.emit(f"select {self.shape.of('i1')} {condition}, {self.kind} {a}, {self.kind} {b}")

    # --- floats

    def is_short(self, name: str) -> bool:
        return math_functions.is_approximated(name, self.element, self.fastmath)

    def float(self, name: str, args: Sequence[str]) -> str:
        w, shape, kind = self.w, self.shape, self.kind
        if self.is_short(name):
            return self.rounded(math_functions.apply(w, shape, name, self.element, args, self.target, True))
        if name == "neg":
            return self.emit(f"fneg {kind} {args[0]}")
        if name == "fma":
            return self.fma(args)
        if name in _FLOAT_BINARY:
            result = self.emit(f"{_FLOAT_BINARY[name]} {kind} {args[0]}, {args[1]}")
        elif name in ("min", "max") and self.target != "nvptx":
            return self.extremum(name, *args)
        elif name in _FLOAT_CALLS:
            result = self.call(_FLOAT_CALLS[name], args)
            if name in ("min", "max", "abs", "floor", "ceil", "trunc", "round_even"):
                return result  # already a value of the type
        elif name == "abs_diff":
            difference = self.emit(f"fsub {kind} {args[0]}, {args[1]}")
            result = self.call("fabs", [difference])
        elif name == "rem":
            result = fmod.fmod(w, shape, self.element, args[0], args[1])
        else:
            result = math_functions.apply(w, shape, name, self.element, args, self.target)
        return self.rounded(result)

    def rounded(self, value: str) -> str:
        if self.dtype.name in ("f16", "bf16"):
            return round_to_half(self.w, self.shape, self.dtype, value)
        return value

    def extremum(self, name: str, a: str, b: str) -> str:
        """min or max without llvm.minimumnum, which LLVM 22 miscompiles on AVX-512.

        (Where it knows one operand to be no NaN, it may return a NaN of the other.)  Operands that
        compare equal differ in the sign of zero at most: or-ing their bits gives -0.0, and-ing 0.0.
        """
        flags, ints = self.shape.of("i1"), self.shape.of(f"i{64 if self.element == 'double' else 32}")
        a_wins = self.emit(f"fcmp {'olt' if name == 'min' else 'ogt'} {self.kind} {a}, {b}")
        b_is_nan = self.emit(f"fcmp uno {self.kind} {b}, {b}")
        result = self.choose(b_is_nan, a, self.choose(a_wins, a, b))
        if "nsz" in self.fastmath:
            return result
        equal = self.emit(f"fcmp oeq {self.kind} {a}, {b}")
        x, y = (self.emit(f"bitcast {self.kind} {value} to {ints}") for value in (a, b))
        combined_bits = self.emit(f"{'or' if name == 'min' else 'and'} {ints} {x}, {y}")
        zero = self.emit(f"bitcast {ints} {combined_bits} to {self.kind}")
        return self.emit(f"select {flags} {equal}, {self.kind} {zero}, {self.kind} {result}")

    def fma(self, args: Sequence[str]) -> str:
        """fma of f16 and bf16: their product is exact in double, so one addition rounded to odd is enough."""
        if self.dtype.name not in ("f16", "bf16"):
            return self.call("fma", args)
        w, shape = self.w, self.shape
        double, ints, flags = shape.of("double"), shape.of("i64"), shape.of("i1")
        a, b, c = (w.emit(f"fpext {self.kind} {x} to {double}") for x in args)
        product = w.emit(f"fmul {double} {a}, {b}")
        total = w.emit(f"fadd {double} {product}, {c}")
        # the error of the addition (Knuth's two-sum), which makes an inexact sum odd
        back = w.emit(f"fsub {double} {total}, {product}")
        left = w.emit(f"fsub {double} {total}, {back}")
        lost_of_product = w.emit(f"fsub {double} {product}, {left}")
        lost_of_c = w.emit(f"fsub {double} {c}, {back}")
        error = w.emit(f"fadd {double} {lost_of_product}, {lost_of_c}")
        zero = shape.real("double", 0.0)
        inexact = w.emit(f"fcmp one {double} {error}, {zero}")
        bits = w.emit(f"bitcast {double} {total} to {ints}")
        odd = w.emit(f"trunc {ints} {bits} to {flags}")
        even = w.emit(f"xor {flags} {odd}, {shape.splat('i1', 'true')}")
        adjust = w.emit(f"and {flags} {inexact}, {even}")
        # towards the error: away from zero where error and sum agree in sign, else towards it
        above = w.emit(f"fcmp ogt {double} {error}, {zero}")
        positive = w.emit(f"fcmp ogt {double} {total}, {zero}")
        away = w.emit(f"icmp eq {flags} {above}, {positive}")
        one, minus = shape.integer("i64", 1), shape.integer("i64", -1)
        step = w.emit(f"select {flags} {away}, {ints} {one}, {ints} {minus}")
        stepped = w.emit(f"add {ints} {bits}, {step}")
        result = w.emit(f"select {flags} {adjust}, {ints} {stepped}, {ints} {bits}")
        value = w.emit(f"bitcast {ints} {result} to {double}")
        return round_to_half(w, shape, self.dtype, through_odd(w, shape, value))

    # --- integers

    def divisor(self, a: str, b: str) -> str:
        """b, or 1 where dividing by b is undefined: x/1 = x and x%1 = 0 are the results that the language
        defines."""
        if not self.guarded:
            return b
        is_undefined = self.emit(f"icmp eq {self.kind} {b}, {self.int(0)}")
        if self.dtype.is_signed:
            is_lowest = self.emit(f"icmp eq {self.kind} {a}, {self.int(arith.int_range(self.dtype)[0])}")
            minus = self.emit(f"icmp eq {self.kind} {b}, {self.int(-1)}")
            flags = self.shape.of("i1")
            overflow = self.emit(f"and {flags} {is_lowest}, {minus}")
            is_undefined = self.emit(f"or {flags} {is_undefined}, {overflow}")
        return self.choose(is_undefined, self.int(1), b)

    def div(self, a: str, b: str) -> str:
        return self.emit(f"{self.sign}div {self.kind} {a}, {self.divisor(a, b)}")

    def rem(self, a: str, b: str) -> str:
        return self.emit(f"{self.sign}rem {self.kind} {a}, {self.divisor(a, b)}")

    def neg(self, a: str) -> str:
        return self.emit(f"sub {self.kind} {self.int(0)}, {a}")

    def abs(self, a: str) -> str:
        return self.call("abs", [a], "false") if self.dtype.is_signed else a

    def abs_diff(self, a: str, b: str) -> str:
        larger = self.call(f"{self.sign}max", [a, b])
        smaller = self.call(f"{self.sign}min", [a, b])
        return self.emit(f"sub {self.kind} {larger}, {smaller}")

    def not_(self, a: str) -> str:
        ones = self.shape.splat("i1", "true") if self.dtype.is_bool else self.int(-1)
        return self.emit(f"xor {self.kind} {a}, {ones}")

    def amount(self, b: str) -> str:
        if not self.guarded:
            return b
        # The language takes the amount modulo the width, a power of two; in LLVM the result would be poison
        return self.emit(f"and {self.kind} {b}, {self.int(self.bits - 1)}")

    def shl(self, a: str, b: str) -> str:
        return self.emit(f"shl {self.kind} {a}, {self.amount(b)}")

    def shr(self, a: str, b: str) -> str:
        verb = "ashr" if self.dtype.is_signed else "lshr"
        return self.emit(f"{verb} {self.kind} {a}, {self.amount(b)}")

    def widened(self, value: str) -> str:
        verb = "sext" if self.dtype.is_signed else "zext"
        return self.emit(f"{verb} {self.kind} {value} to {self.shape.of(f'i{2 * self.bits}')}")

    def product(self, a: str, b: str) -> str:
        """The double-width product."""
        left, right = self.widened(a), self.widened(b)
        return self.emit(f"mul {self.shape.of(f'i{2 * self.bits}')} {left}, {right}")

    def mul_hi(self, a: str, b: str) -> str:
        element = f"i{2 * self.bits}"
        wide = self.shape.of(element)
        high = self.emit(f"lshr {wide} {self.product(a, b)}, {self.shape.integer(element, self.bits)}")
        return self.emit(f"trunc {wide} {high} to {self.kind}")

    def mul_sat(self, a: str, b: str) -> str:
        element = f"i{2 * self.bits}"
        wide = self.shape.of(element)
        low, high = arith.int_range(self.dtype)
        value = self.product(a, b)
        suffix = self.shape.suffix(element)
        # A product of unsigned numbers is never too small
        for stem, limit in (("min", high), ("max", low)) if self.dtype.is_signed else (("min", high),):
            bound = self.shape.integer(element, limit)
            value = self.w.call(f"llvm.{self.sign}{stem}.{suffix}", wide, [(wide, value), (wide, bound)])
        return self.emit(f"trunc {wide} {value} to {self.kind}")


_INT_RULES: dict[str, Callable[..., str]] = {
    "div": Elementwise.div,
    "rem": Elementwise.rem,
    "neg": Elementwise.neg,
    "abs": Elementwise.abs,
    "abs_diff": Elementwise.abs_diff,
    "not": Elementwise.not_,
    "shl": Elementwise.shl,
    "shr": Elementwise.shr,
    "mul_hi": Elementwise.mul_hi,
    "mul_sat": Elementwise.mul_sat,
    "rotl": lambda e, a, b: e.call("fshl", [a, a, b]),
    "rotr": lambda e, a, b: e.call("fshr", [a, a, b]),
    "popcount": lambda e, a: e.call("ctpop", [a]),
    "clz": lambda e, a: e.call("ctlz", [a], "false"),
    "ctz": lambda e, a: e.call("cttz", [a], "false"),
    "reverse_bits": lambda e, a: e.call("bitreverse", [a]),
}
