"""LLVM IR as z3 terms: what a straight-line function computes, and where LLVM leaves it undefined.

The rules are those of LLVM's language reference.  A function is read by LLVM itself, then instruction
by instruction.  An instruction on vectors acts on each lane alone, so one lane is followed, which
stands for all; what moves values between lanes, loops and calls of other functions are not read.

    undefined behaviour   a division by zero, of the least value by -1, or by poison: a condition under which
                          the whole function means nothing
    poison                a shift by the width or more: it spreads to what is computed from it
    a new NaN             what arithmetic gives for a NaN: any quiet one, or an operand's as it is
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import llvmlite.binding as llvm
import z3

__all__ = ["LlvmResult", "Unreadable", "read"]


class Unreadable(Exception):
    """A function with an instruction that has no term here."""


@dataclass(frozen=True, slots=True)
class LlvmResult:
    """`value`: of a lane, a bit-vector; floats as their bits.  `poison`, `undefined`: conditions on the arguments."""

    value: z3.BitVecRef
    poison: z3.BoolRef
    undefined: z3.BoolRef


@dataclass(frozen=True, slots=True)
class _Lane:
    """`kind`: the LLVM type of one lane: i8, float."""

    kind: str
    bits: z3.BitVecRef
    poison: z3.BoolRef = field(default_factory=lambda: z3.BoolVal(False))


_FORMATS = {"half": (5, 11), "bfloat": (8, 8), "float": (8, 24), "double": (11, 53)}
_TYPE = r"(?:<\d+ x (?P<{0}v>\w+)>|(?P<{0}s>\w+))"


def _width(kind: str) -> int:
    return sum(_FORMATS[kind]) if kind in _FORMATS else int(kind[1:])


def read(text: str, arguments: Sequence[z3.BitVecRef]) -> LlvmResult:
    """What `@f` of a module returns for arguments of the widths of its parameters.  Raises Unreadable."""
    module = llvm.parse_assembly(text)
    module.verify()
    function = module.get_function("f")
    blocks = list(function.blocks)
    if len(blocks) != 1:
        raise Unreadable("more than one block")
    names = [f"%{argument.name}" for argument in function.arguments]
    kinds = [_element(str(argument.type)) for argument in function.arguments]
    lanes = {n: _Lane(k, bits) for n, k, bits in zip(names, kinds, arguments, strict=True)}
    reader = _Reader(lanes)
    for instruction in blocks[0].instructions:
        line = str(instruction).strip()
        if line.startswith("ret "):
            result = reader.typed(line.removeprefix("ret "))
            return LlvmResult(result.bits, result.poison, z3.Or(reader.undefined))
        reader.instruction(line)
    raise Unreadable("no ret")


def _element(kind: str) -> str:
    match = re.fullmatch(_TYPE.format("t"), kind.strip())
    if match is None:
        raise Unreadable(kind)
    return _known(match["tv"] or match["ts"])


def _known(kind: str) -> str:
    """A type; a flag that stands where a type would (`nsw`) makes poison, and is not read."""
    if kind not in _FORMATS and not re.fullmatch(r"i\d+", kind):
        raise Unreadable(kind)
    return kind


def _split(text: str) -> list[str]:
    """At the commas outside of brackets."""
    pieces, depth = [""], 0
    for character in text:
        depth += (character in "(<[") - (character in ")>]")
        if character == "," and not depth:
            pieces.append("")
        else:
            pieces[-1] += character
    return [piece.strip() for piece in pieces if piece.strip()]


class _Reader:
    def __init__(self, lanes: dict[str, _Lane]) -> None:
        self.lanes = lanes
        self.undefined: list[z3.BoolRef] = []
        self.nans = 0

    # --- operands

    def typed(self, text: str) -> _Lane:
        """`i8 %x`, `<32 x float> splat (float 1.0)`."""
        match = re.fullmatch(_TYPE.format("t") + r" (?P<value>.+)", text)
        if match is None:
            raise Unreadable(text)
        return self.operand(_known(match["tv"] or match["ts"]), match["value"])

    def operand(self, kind: str, text: str) -> _Lane:
        if text.startswith("%"):
            return self.lanes[text]
        splat = re.fullmatch(r"splat \(\w+ (.+)\)", text)
        return _Lane(kind, z3.BitVecVal(_constant(kind, splat[1] if splat else text), _width(kind)))

    def new_nan(self, kind: str, operands: Sequence[z3.BitVecRef] = ()) -> z3.BitVecRef:
        """What LLVM may give for a NaN: any quiet one, or that of an operand as it is, which may be signalling.

        `operands`: the bits of those of the result's type.
        """
        self.nans += 1
        bits, choice = z3.BitVec(f"nan{self.nans}", _width(kind)), z3.BitVec(f"which{self.nans}", 2)
        exponent_bits, precision = _FORMATS[kind]
        result = bits | ((1 << (exponent_bits + 1)) - 1 << (precision - 2))
        for number, operand in enumerate(operands):
            copied = z3.And(choice == number + 1, z3.fpIsNaN(z3.fpBVToFP(operand, _sort(kind))))
            result = z3.If(copied, operand, result)
        return result

    def rounded(self, kind: str, number: z3.FPRef, *operands: z3.BitVecRef) -> z3.BitVecRef:
        """A float computed from `operands`."""
        return z3.If(z3.fpIsNaN(number), self.new_nan(kind, operands), z3.fpToIEEEBV(number))

    # --- instructions

    def instruction(self, line: str) -> None:
        match = re.fullmatch(r"(%[\w.]+) = (\w+(?:\.\w+)*) (.+)", line)
        if match is None:
            raise Unreadable(line)
        name, verb, rest = match.groups()
        for verbs, write in _FORMS:
            if verb in verbs:
                self.lanes[name] = write(self, verb, rest)
                return
        raise Unreadable(line)

    def pair(self, rest: str) -> tuple[_Lane, _Lane]:
        """`i8 %a, %b`."""
        first, second = _split(rest)
        a = self.typed(first)
        return a, self.operand(a.kind, second)

    def integer_binary(self, verb: str, rest: str) -> _Lane:
        a, b = self.pair(rest)
        return _Lane(a.kind, _INT_BINARY[verb](a.bits, b.bits), z3.Or(a.poison, b.poison))

    def shift(self, verb: str, rest: str) -> _Lane:
        a, b = self.pair(rest)
        beyond = z3.UGE(b.bits, z3.BitVecVal(_width(a.kind), _width(a.kind)))
        return _Lane(a.kind, _SHIFTS[verb](a.bits, b.bits), z3.Or(a.poison, b.poison, beyond))

    def division(self, verb: str, rest: str) -> _Lane:
        a, b = self.pair(rest)
        self.undefined += [b.poison, b.bits == 0]
        if verb[0] == "s":
            least = z3.BitVecVal(1 << (_width(a.kind) - 1), _width(a.kind))
            # poison may be the least value
            self.undefined.append(z3.And(b.bits == -1, z3.Or(a.poison, a.bits == least)))
        return _Lane(a.kind, _DIVISIONS[verb](a.bits, b.bits), a.poison)

    def float_binary(self, verb: str, rest: str) -> _Lane:
        a, b = self.pair(rest)
        number = _FLOAT_BINARY[verb](z3.RNE(), _float(a), _float(b))
        return _Lane(a.kind, self.rounded(a.kind, number, a.bits, b.bits), z3.Or(a.poison, b.poison))

    def negation(self, verb: str, rest: str) -> _Lane:
        a = self.typed(rest)
        return _Lane(a.kind, a.bits ^ (1 << (_width(a.kind) - 1)), a.poison)

    def integer_compare(self, verb: str, rest: str) -> _Lane:
        predicate, _, operands = rest.partition(" ")
        a, b = self.pair(operands)
        return _Lane("i1", _flag(_INT_PREDICATES[predicate](a.bits, b.bits)), z3.Or(a.poison, b.poison))

    def float_compare(self, verb: str, rest: str) -> _Lane:
        predicate, _, operands = rest.partition(" ")
        a, b = self.pair(operands)
        x, y = _float(a), _float(b)
        unordered = z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y))
        if predicate in ("ord", "uno"):
            holds = unordered if predicate == "uno" else z3.Not(unordered)
        else:
            ordered = z3.And(z3.Not(unordered), _FLOAT_PREDICATES[predicate[1:]](x, y))
            holds = ordered if predicate[0] == "o" else z3.Or(unordered, ordered)
        return _Lane("i1", _flag(holds), z3.Or(a.poison, b.poison))

    def select(self, verb: str, rest: str) -> _Lane:
        c, a, b = (self.typed(piece) for piece in _split(rest))
        holds = c.bits == 1
        return _Lane(a.kind, z3.If(holds, a.bits, b.bits), z3.Or(c.poison, z3.If(holds, a.poison, b.poison)))

    def conversion(self, verb: str, rest: str) -> _Lane:
        source, _, target = rest.rpartition(" to ")
        a, kind = self.typed(source), _element(target)
        return _Lane(kind, _CONVERSIONS[verb](self, a, kind), a.poison)

    def call(self, verb: str, rest: str) -> _Lane:
        match = re.fullmatch(_TYPE.format("t") + r" @(?P<name>[\w.]+)\((?P<args>.*)\)(?: #\d+)?", rest)
        if match is None:
            raise Unreadable(f"call {rest}")
        kind = match["tv"] or match["ts"]
        arguments = [self.typed(piece) for piece in _split(match["args"])]
        stem = re.sub(r"(\.(v\d+)?[ifp]\d+)+$", "", match["name"].removeprefix("llvm."))
        if not match["name"].startswith("llvm.") or stem not in _INTRINSICS:
            raise Unreadable(match["name"])
        value = _INTRINSICS[stem](self, kind, *arguments)
        return _Lane(kind, value, z3.Or([a.poison for a in arguments]))


# --- constants


def _constant(kind: str, text: str) -> int:
    """The bits of a literal."""
    if text in ("zeroinitializer", "false", "true"):
        return int(text == "true")
    if kind not in _FORMATS:
        return int(text)
    if text.startswith("0xH"):
        return int(text[3:], 16)
    # LLVM writes a float by its value, or by the bits of the double that is equal to it
    number = z3.FPVal(float(text), z3.Float64())
    if text.startswith("0x"):
        number = z3.fpBVToFP(z3.BitVecVal(int(text, 16), 64), z3.Float64())
        if z3.is_true(z3.simplify(z3.fpIsNaN(number))):
            bits = int(text, 16)
            return bits if kind == "double" else (bits >> 32 & 1 << 31) | 0x7F800000 | (bits >> 29 & 0x7FFFFF)
    bits = z3.simplify(z3.fpToIEEEBV(z3.fpToFP(z3.RNE(), number, _sort(kind))))
    return int(bits.as_long())


def _sort(kind: str) -> z3.FPSortRef:
    return z3.FPSort(*_FORMATS[kind])


def _float(lane: _Lane) -> z3.FPRef:
    return z3.fpBVToFP(lane.bits, _sort(lane.kind))


def _flag(holds: z3.BoolRef) -> z3.BitVecRef:
    return z3.If(holds, z3.BitVecVal(1, 1), z3.BitVecVal(0, 1))


# --- instructions by verb

_INT_BINARY: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
}
_SHIFTS: dict[str, Callable[..., Any]] = {
    "shl": lambda a, b: a << b,
    "lshr": z3.LShR,
    "ashr": lambda a, b: a >> b,
}
_DIVISIONS: dict[str, Callable[..., Any]] = {
    "udiv": z3.UDiv, "urem": z3.URem, "sdiv": lambda a, b: a / b, "srem": z3.SRem,
}  # fmt: skip
_FLOAT_BINARY = {"fadd": z3.fpAdd, "fsub": z3.fpSub, "fmul": z3.fpMul, "fdiv": z3.fpDiv}
_INT_PREDICATES: dict[str, Callable[..., Any]] = {
    "eq": lambda a, b: a == b, "ne": lambda a, b: a != b,
    "slt": lambda a, b: a < b, "sle": lambda a, b: a <= b, "sgt": lambda a, b: a > b, "sge": lambda a, b: a >= b,
    "ult": z3.ULT, "ule": z3.ULE, "ugt": z3.UGT, "uge": z3.UGE,
}  # fmt: skip
_FLOAT_PREDICATES: dict[str, Callable[..., Any]] = {
    "eq": z3.fpEQ, "ne": lambda x, y: z3.Not(z3.fpEQ(x, y)),
    "lt": z3.fpLT, "le": z3.fpLEQ, "gt": z3.fpGT, "ge": z3.fpGEQ,
}  # fmt: skip


def _same_bits(reader: _Reader, a: _Lane, kind: str) -> z3.BitVecRef:
    if _width(a.kind) != _width(kind):
        raise Unreadable("a bitcast between vectors")
    return a.bits


def _resized(reader: _Reader, a: _Lane, kind: str) -> z3.BitVecRef:
    """To a wider or narrower float; a NaN may keep the upper bits of its fraction, quiet or not."""
    (_, old), (new_exponent, new) = _FORMATS[a.kind], _FORMATS[kind]
    fraction = z3.Extract(old - 2, 0, a.bits)
    carried = z3.Concat(fraction, z3.BitVecVal(0, new - old)) if new > old else fraction
    if new < old:
        carried = z3.Extract(old - 2, old - new, fraction)
    sign = z3.Extract(_width(a.kind) - 1, _width(a.kind) - 1, a.bits)
    as_it_is = z3.Concat(sign, z3.BitVecVal((1 << new_exponent) - 1, new_exponent), carried)
    # where that is an infinity, for it is all of the fraction that was lost, it is no choice
    return reader.rounded(kind, z3.fpToFP(z3.RNE(), _float(a), _sort(kind)), as_it_is)


_CONVERSIONS: dict[str, Callable[[_Reader, _Lane, str], z3.BitVecRef]] = {
    "trunc": lambda r, a, kind: z3.Extract(_width(kind) - 1, 0, a.bits),
    "zext": lambda r, a, kind: z3.ZeroExt(_width(kind) - _width(a.kind), a.bits),
    "sext": lambda r, a, kind: z3.SignExt(_width(kind) - _width(a.kind), a.bits),
    "bitcast": _same_bits,
    "fpext": _resized,
    "fptrunc": _resized,
    "sitofp": lambda r, a, kind: z3.fpToIEEEBV(z3.fpSignedToFP(z3.RNE(), a.bits, _sort(kind))),
    "uitofp": lambda r, a, kind: z3.fpToIEEEBV(z3.fpUnsignedToFP(z3.RNE(), a.bits, _sort(kind))),
}

_FORMS: tuple[tuple[Any, Callable[[_Reader, str, str], _Lane]], ...] = (
    (_INT_BINARY, _Reader.integer_binary),
    (_SHIFTS, _Reader.shift),
    (_DIVISIONS, _Reader.division),
    (_FLOAT_BINARY, _Reader.float_binary),
    (("fneg",), _Reader.negation),
    (("icmp",), _Reader.integer_compare),
    (("fcmp",), _Reader.float_compare),
    (("select",), _Reader.select),
    (_CONVERSIONS, _Reader.conversion),
    (("call",), _Reader.call),
)


# --- intrinsics: each takes the reader, the result's type and the arguments


def _saturating(signed: bool, compute: Callable[..., Any]) -> Callable[..., z3.BitVecRef]:
    """`uadd.sat` and its like: the result in two bits more, cut off at the ends of the range."""

    def clamp(reader: _Reader, kind: str, a: _Lane, b: _Lane) -> z3.BitVecRef:
        width = _width(kind)
        extend = z3.SignExt if signed else z3.ZeroExt
        exact = compute(extend(2, a.bits), extend(2, b.bits))
        low, high = (-(1 << (width - 1)), (1 << (width - 1)) - 1) if signed else (0, (1 << width) - 1)
        clamped = z3.If(exact < low, z3.BitVecVal(low, width + 2), exact)
        clamped = z3.If(exact > high, z3.BitVecVal(high, width + 2), clamped)
        return z3.Extract(width - 1, 0, clamped)

    return clamp


def _funnel(left: bool) -> Callable[..., z3.BitVecRef]:
    """fshl and fshr: a and b joined, shifted by c modulo the width; the upper or the lower half."""

    def shift(reader: _Reader, kind: str, a: _Lane, b: _Lane, c: _Lane) -> z3.BitVecRef:
        width = _width(kind)
        amount = z3.ZeroExt(width, z3.URem(c.bits, z3.BitVecVal(width, width)))
        joined = z3.Concat(a.bits, b.bits)
        if left:
            return z3.Extract(2 * width - 1, width, joined << amount)
        return z3.Extract(width - 1, 0, z3.LShR(joined, amount))

    return shift


def _absolute(reader: _Reader, kind: str, a: _Lane, is_least_poison: _Lane) -> z3.BitVecRef:
    _must_be_false(is_least_poison)
    return z3.If(a.bits < 0, -a.bits, a.bits)


def _zeros(leading: bool) -> Callable[..., z3.BitVecRef]:
    def count(reader: _Reader, kind: str, a: _Lane, is_zero_poison: _Lane) -> z3.BitVecRef:
        _must_be_false(is_zero_poison)
        width = _width(kind)
        # by halves: where the half looked at is zero, its width counts, and the other is looked at
        total, rest = z3.BitVecVal(0, width), a.bits
        places = range(width - 1, -1, -1) if leading else range(width)
        running = z3.BoolVal(True)
        for place in places:
            running = z3.And(running, z3.Extract(place, place, rest) == 0)
            total = total + z3.If(running, z3.BitVecVal(1, width), z3.BitVecVal(0, width))
        return total

    return count


def _must_be_false(flag: _Lane) -> None:
    if not z3.is_true(z3.simplify(flag.bits == 0)):
        raise Unreadable("an intrinsic whose flag makes poison")


def _population(reader: _Reader, kind: str, a: _Lane) -> z3.BitVecRef:
    width = _width(kind)
    total = z3.BitVecVal(0, width)
    for place in range(width):
        total = total + (z3.LShR(a.bits, place) & 1)
    return total


def _mirrored(reader: _Reader, kind: str, a: _Lane) -> z3.BitVecRef:
    width = _width(kind)
    result = z3.BitVecVal(0, width)
    for place in range(width):
        result = result | ((z3.LShR(a.bits, place) & 1) << (width - 1 - place))
    return result


def _extremum(smaller: bool) -> Callable[..., z3.BitVecRef]:
    """minimumnum and maximumnum: a number before a NaN, -0.0 below 0.0."""

    def choose(reader: _Reader, kind: str, a: _Lane, b: _Lane) -> z3.BitVecRef:
        x, y = _float(a), _float(b)
        below = z3.Or(z3.fpLT(x, y), z3.And(z3.fpIsZero(x), z3.fpIsZero(y), z3.fpIsNegative(x)))
        first = (
            below
            if smaller
            else z3.Not(z3.Or(below, z3.And(z3.fpIsZero(x), z3.fpIsZero(y), z3.fpIsNegative(x))))
        )
        number = z3.If(first, a.bits, b.bits)
        one_nan = z3.If(z3.fpIsNaN(x), b.bits, a.bits)
        both = z3.And(z3.fpIsNaN(x), z3.fpIsNaN(y))
        either = z3.Or(z3.fpIsNaN(x), z3.fpIsNaN(y))
        return z3.If(both, reader.new_nan(kind, (a.bits, b.bits)), z3.If(either, one_nan, number))

    return choose


def _to_integer(signed: bool) -> Callable[..., z3.BitVecRef]:
    """fptosi.sat and fptoui.sat: truncates and saturates; NaN gives 0."""

    def convert(reader: _Reader, kind: str, a: _Lane) -> z3.BitVecRef:
        width, number = _width(kind), _float(a)
        low, high = (-(1 << (width - 1)), 1 << (width - 1)) if signed else (0, 1 << width)
        whole = z3.fpRoundToIntegral(z3.RTZ(), number)
        format_ = z3.FPSort(*_FORMATS[a.kind])
        inside = (z3.fpToSBV if signed else z3.fpToUBV)(z3.RTZ(), whole, z3.BitVecSort(width))
        result = z3.If(z3.fpGEQ(whole, z3.FPVal(high, format_)), z3.BitVecVal(high - 1, width), inside)
        result = z3.If(z3.fpLT(whole, z3.FPVal(low, format_)), z3.BitVecVal(low, width), result)
        return z3.If(z3.fpIsNaN(number), z3.BitVecVal(0, width), result)

    return convert


def _float_unary(compute: Callable[[z3.FPRef], z3.FPRef]) -> Callable[..., z3.BitVecRef]:
    return lambda reader, kind, a: reader.rounded(kind, compute(_float(a)), a.bits)


_INTRINSICS: dict[str, Callable[..., z3.BitVecRef]] = {
    "abs": _absolute,
    "smin": lambda r, k, a, b: z3.If(a.bits < b.bits, a.bits, b.bits),
    "smax": lambda r, k, a, b: z3.If(a.bits > b.bits, a.bits, b.bits),
    "umin": lambda r, k, a, b: z3.If(z3.ULT(a.bits, b.bits), a.bits, b.bits),
    "umax": lambda r, k, a, b: z3.If(z3.UGT(a.bits, b.bits), a.bits, b.bits),
    "uadd.sat": _saturating(False, lambda a, b: a + b),
    "sadd.sat": _saturating(True, lambda a, b: a + b),
    "usub.sat": _saturating(False, lambda a, b: a - b),
    "ssub.sat": _saturating(True, lambda a, b: a - b),
    "fshl": _funnel(True),
    "fshr": _funnel(False),
    "ctpop": _population,
    "ctlz": _zeros(True),
    "cttz": _zeros(False),
    "bitreverse": _mirrored,
    "fabs": lambda r, k, a: a.bits & ((1 << (_width(k) - 1)) - 1),
    "fma": lambda r, k, a, b, c: r.rounded(
        k, z3.fpFMA(z3.RNE(), _float(a), _float(b), _float(c)), a.bits, b.bits, c.bits
    ),
    "sqrt": _float_unary(lambda x: z3.fpSqrt(z3.RNE(), x)),
    "floor": _float_unary(lambda x: z3.fpRoundToIntegral(z3.RTN(), x)),
    "ceil": _float_unary(lambda x: z3.fpRoundToIntegral(z3.RTP(), x)),
    "trunc": _float_unary(lambda x: z3.fpRoundToIntegral(z3.RTZ(), x)),
    "roundeven": _float_unary(lambda x: z3.fpRoundToIntegral(z3.RNE(), x)),
    "minimumnum": _extremum(True),
    "maximumnum": _extremum(False),
    "fptosi.sat": _to_integer(True),
    "fptoui.sat": _to_integer(False),
    # PTX: cvt.rn.bf16.f32 rounds to nearest even
    "nvvm.f2bf16.rn": lambda r, k, a: _resized(r, a, "bfloat"),
}
