"""The affine expression of an op's result from those of its operands: a rule for each op that has one.

Expressions are modulo 2^bits of a value's type; a rule asks for an exact one where a wrap would break it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import field
from functools import lru_cache
from itertools import pairwise

from ..ir import arith
from ..ir.ops import AXES, SUBGROUP_SIZE
from ..ir.program import MAX_EXTENT, MAX_INVOCATIONS, Op, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from .affine import AffineExpr, ByLane, Digit, Symbol, SymbolKind
from .congruence import fits

__all__ = ["IdSplit", "OperandForms", "length", "local_ids", "near_zero", "result_form"]

MAX_TERMS = 32
"""Most terms of an expression; indices have few, and a sum of all elements would have one each."""

IdSplit = tuple[str, int]
"""An axis and a divisor: the local id of the axis is expressed by its quotient and its remainder."""

LocalIds = Mapping[str, AffineExpr]
"""The local id along each axis, as the sum of its digits."""


@dataclass(frozen=True, slots=True)
class OperandForms:
    """Questions of rules to a program and to the operands.

    `form(value)`: its expression modulo 2^bits of its type; `exact(value)`: one that is equal to it as an integer.
    None where there is none.  `lanes`: of the workgroup, or those of its last subgroup beyond it too.
    `specs`: values of specialization constants, where they are fixed.
    `missing_splits`: collects the splits of local ids by which more results would have an expression.
    """

    program: Program
    lanes: int
    local: LocalIds
    form: Callable[[Value], AffineExpr | None]
    exact: Callable[[Value], AffineExpr | None]
    specs: Mapping[str, object] = field(default_factory=dict)
    missing_splits: set[IdSplit] = field(default_factory=set)

    def split(self, expr: AffineExpr, divisor: int) -> tuple[AffineExpr, AffineExpr] | None:
        """Affine q and r with `expr = divisor * q + r` and r in [0, divisor), if there are such."""
        quotient = AffineExpr(
            expr.const // divisor, {s: c // divisor for s, c in expr.terms.items() if c % divisor == 0}
        )
        remainder = expr - quotient.scaled(divisor)
        # the remainder must stay below the divisor for all values of the symbols: in (8*a + 3*b) / 8 with b up
        # to 3, 3*b reaches 9 and carries into the quotient
        low, high = remainder.range()
        if 0 <= low and high < divisor:
            return quotient, remainder
        # a digit that reaches over the divisor, as in local_id / 16, would do if it were cut there
        for symbol, coefficient in remainder.terms.items():
            digit, (at, uneven) = symbol.digit, divmod(divisor, abs(coefficient))
            if digit is not None and not uneven and at < digit.radix and digit.radix % at == 0:
                self.missing_splits.add((digit.axis, digit.stride * at))
        return None


def result_form(op: Op, forms: OperandForms) -> AffineExpr | None:
    """The expression of the result of an op without regions, modulo 2^bits of its type; None if its op gives none, or
    one of so many terms that sums of sums would take long."""
    rule = _RULES.get(op.name)
    form = rule(forms, op) if rule is not None else None
    return near_zero(form, op.results[0].type) if form is not None and len(form.terms) <= MAX_TERMS else None


def near_zero(form: AffineExpr, dtype: DataType) -> AffineExpr:
    """The form modulo 2^bits whose constant is nearest to zero, unless it is equal to its value as it is.

    So `%i + 4294967295` is `%i - 1`, and differences of what wraps have one form.
    """
    half = 1 << ((dtype.bits or 1) - 1)
    if -half <= form.const < half or not dtype.is_int or fits(form.range(), dtype):
        return form
    return AffineExpr((form.const + half) % (2 * half) - half, form.terms)


# --- ids, sizes and constants


def local_ids(program: Program, lanes: int, splits: Iterable[IdSplit] = ()) -> LocalIds:
    """Local ids of `lanes` lanes, each divided into digits by `splits`, whose divisors are multiples of one another."""
    return {
        axis: _digits_of(program, lanes, axis, sorted(at for name, at in splits if name == axis))
        for axis in AXES
    }


def _digits_of(program: Program, lanes: int, axis: str, strides: list[int]) -> AffineExpr:
    terms: dict[Symbol, int] = {}
    dimension = AXES.index(axis)
    size, inner = program.workgroup[dimension], math.prod(program.workgroup[:dimension])
    if size > 1 and inner * size == program.lanes:
        size = -(-lanes // inner)  # lanes beyond the workgroup go on along its outermost axis
    for stride, end in pairwise([1, *strides, size]):
        name = f"local_id.{axis}"
        if stride > 1:
            name += f" / {stride}"
        if end < size:
            name += f" % {end // stride}"
        radix = end // stride
        digit = Digit(axis, stride, radix, size)
        by_lane = _digit_by_lane(lanes, inner, size, stride, radix)
        name = f"({name})" if strides else name
        terms[Symbol(SymbolKind.LOCAL, name, (0, radix - 1), digit=digit, by_lane=by_lane)] = stride
    return AffineExpr(0, terms if size > 1 else None)


@lru_cache(maxsize=256)
def _digit_by_lane(lanes: int, inner: int, size: int, stride: int, radix: int) -> ByLane:
    """A digit of each lane's local id along an axis; `inner`: lanes of which the id is the same."""
    return tuple(lane // inner % size // stride % radix for lane in range(lanes))


def length(program: Program, buffer: str, bits: int, dimension: int | None = None) -> AffineExpr:
    """The result of `len` in a type of `bits`: the count modulo 2^bits."""
    buffer_of_len, mask = program.buffers[buffer], (1 << bits) - 1
    count = buffer_of_len.extent(dimension)
    if buffer_of_len.dimensions > 1 and count is None:
        limits, identity = (0, MAX_EXTENT), ("len", buffer, dimension)
        symbol = Symbol(SymbolKind.GROUP, f"len({buffer}, {dimension})", limits, identity=identity)
        return AffineExpr.of(symbol)
    if count is not None:
        return AffineExpr(count & mask)
    return AffineExpr.of(
        Symbol(SymbolKind.GROUP, f"len({buffer})", (0, mask), identity=("len", buffer, bits))
    )


def _const(forms: OperandForms, op: Op) -> AffineExpr | None:
    value = op.attrs["value"]
    return AffineExpr(value) if isinstance(value, int) else None


def _local_id(forms: OperandForms, op: Op) -> AffineExpr:
    return forms.local[op.attrs["axis"]]


def _workgroup_id(forms: OperandForms, op: Op) -> AffineExpr:
    axis = AXES.index(op.attrs["axis"])
    grid, lanes = forms.program.grid, forms.program.workgroup[axis]
    count = grid[axis] if grid else MAX_INVOCATIONS // lanes
    name = f"workgroup_id.{op.attrs['axis']}"
    return AffineExpr.of(Symbol(SymbolKind.GROUP, name, (0, count - 1))) if count > 1 else AffineExpr(0)


def _global_id(forms: OperandForms, op: Op) -> AffineExpr:
    lanes = forms.program.workgroup[AXES.index(op.attrs["axis"])]
    return _workgroup_id(forms, op).scaled(lanes) + forms.local[op.attrs["axis"]]


def _workgroup_size(forms: OperandForms, op: Op) -> AffineExpr:
    return AffineExpr(forms.program.workgroup[AXES.index(op.attrs["axis"])])


def _num_workgroups(forms: OperandForms, op: Op) -> AffineExpr | None:
    grid = forms.program.grid
    return AffineExpr(grid[AXES.index(op.attrs["axis"])]) if grid else None


def _global_size(forms: OperandForms, op: Op) -> AffineExpr | None:
    """None for 2^32 invocations, too, which are 0 as a u32."""
    grid, axis = forms.program.grid, AXES.index(op.attrs["axis"])
    size = grid[axis] * forms.program.workgroup[axis] if grid else 0
    return AffineExpr(size) if 0 < size < 1 << 32 else None


def _subgroup(forms: OperandForms, op: Op) -> AffineExpr:
    """The lane or subgroup id: remainder and quotient of the linear local id."""
    width, height, _ = forms.program.workgroup
    x, y, z = forms.local.values()
    is_lane = op.name == "lane_id"
    form = _item(forms.split(x + y.scaled(width) + z.scaled(width * height), SUBGROUP_SIZE), int(is_lane))
    if form is not None:
        return form
    by_lane = _subgroup_by_lane(forms.lanes)[is_lane]
    symbol = Symbol(SymbolKind.VALUE, op.name, (0, max(by_lane)), identity=op.name, by_lane=by_lane)
    return AffineExpr.of(symbol)


@lru_cache(maxsize=64)
def _subgroup_by_lane(lanes: int) -> tuple[ByLane, ByLane]:
    """The subgroup and the lane in it of each lane of a workgroup."""
    subgroup_lanes = [divmod(lane, SUBGROUP_SIZE) for lane in range(lanes)]
    return tuple(subgroup for subgroup, _ in subgroup_lanes), tuple(lane for _, lane in subgroup_lanes)


def _subgroup_size(forms: OperandForms, op: Op) -> AffineExpr:
    return AffineExpr(SUBGROUP_SIZE)


def _num_subgroups(forms: OperandForms, op: Op) -> AffineExpr:
    return AffineExpr(-(-forms.program.lanes // SUBGROUP_SIZE))


def _item(pair: tuple[AffineExpr, AffineExpr] | None, index: int) -> AffineExpr | None:
    return pair[index] if pair else None


def _len(forms: OperandForms, op: Op) -> AffineExpr:
    return length(forms.program, op.attrs["buffer"], op.result.type.bits or 32, op.attrs.get("dimension"))


def _param(forms: OperandForms, op: Op) -> AffineExpr:
    name, dtype = op.attrs["param"], op.result.type
    return AffineExpr.of(
        Symbol(SymbolKind.GROUP, f"param({name})", arith.int_range(dtype), identity=("param", name))
    )


def _spec(forms: OperandForms, op: Op) -> AffineExpr | None:
    constant = forms.specs.get(op.attrs["spec"])
    return AffineExpr(constant) if isinstance(constant, int) else None


# --- linear ops


def _operands(forms: OperandForms, op: Op) -> tuple[AffineExpr, AffineExpr] | None:
    a, b = (forms.form(operand) for operand in op.operands)
    return (a, b) if a is not None and b is not None else None


def _sum(forms: OperandForms, op: Op) -> AffineExpr | None:
    pair = _operands(forms, op)
    if pair is None:
        return None
    return pair[0] - pair[1] if op.name == "sub" else pair[0] + pair[1]


def _mul(forms: OperandForms, op: Op) -> AffineExpr | None:
    pair = _operands(forms, op)
    if pair is None:
        return None
    a, b = pair
    return a.scaled(b.const) if b.is_const else b.scaled(a.const) if a.is_const else None


def _shl(forms: OperandForms, op: Op) -> AffineExpr | None:
    pair = _operands(forms, op)
    if pair is None or not pair[1].is_const:
        return None
    return pair[0].scaled(1 << (pair[1].const % (op.results[0].type.bits or 1)))


def _neg(forms: OperandForms, op: Op) -> AffineExpr | None:
    expr = forms.form(op.operands[0])
    return -expr if expr is not None else None


def _cast(forms: OperandForms, op: Op) -> AffineExpr | None:
    """Wrapping to as many or fewer bits keeps the congruence; widening a wrapped value would not."""
    source, target = op.operands[0].type, op.results[0].type
    if not (source.is_int and target.is_int):
        return None
    widens = (target.bits or 0) > (source.bits or 0)
    return (forms.exact if widens else forms.form)(op.operands[0])


def _divide(forms: OperandForms, op: Op) -> AffineExpr | None:
    # `split` rounds down, div and rem round to zero: they agree for dividends that are not negative
    a, divisor = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or divisor is None or not divisor.is_const or divisor.const < 1 or a.range()[0] < 0:
        return None
    return _item(forms.split(a, divisor.const), 1 if op.name == "rem" else 0)


def _shr(forms: OperandForms, op: Op) -> AffineExpr | None:
    a, amount = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or amount is None or not amount.is_const or a.range()[0] < 0:
        return None
    return _item(forms.split(a, 1 << (amount.const % (op.results[0].type.bits or 1))), 0)


def _nonnegative_operands(forms: OperandForms, op: Op) -> tuple[AffineExpr, AffineExpr] | None:
    """The exact operands of a bitwise op if neither is negative, a constant one last."""
    a, b = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or b is None or min(a.range()[0], b.range()[0]) < 0:
        return None
    return (b, a) if a.is_const else (a, b)


def _and(forms: OperandForms, op: Op) -> AffineExpr | None:
    """Masking with 2^k - 1 is a remainder."""
    pair = _nonnegative_operands(forms, op)
    if pair is None or not pair[1].is_const or pair[1].const & (pair[1].const + 1):
        return None
    return _item(forms.split(pair[0], pair[1].const + 1), 1)


def _or(forms: OperandForms, op: Op) -> AffineExpr | None:
    """A sum, where one operand is less than the largest power of two that divides the other."""
    pair = _nonnegative_operands(forms, op)
    for a, b in (pair, pair[::-1]) if pair else ():
        unit = math.gcd(a.const, *a.terms.values())
        if b.range()[1] < (unit & -unit):
            return a + b
    return None


def _xor(forms: OperandForms, op: Op) -> AffineExpr | None:
    """A constant flips bits: where each flipped bit b is a digit of its own, it becomes 1 - b."""
    pair = _nonnegative_operands(forms, op)
    if pair is None or not pair[1].is_const:
        return None
    flipped, mask = pair[0], pair[1].const
    for position in range(mask.bit_length()):
        if mask >> position & 1:
            upper = forms.split(pair[0], 1 << position)
            bit = _item(forms.split(upper[0], 2), 1) if upper else None
            if bit is None:
                return None
            flipped += (AffineExpr(1) - bit.scaled(2)).scaled(1 << position)
    return flipped


_RULES: dict[str, Callable[[OperandForms, Op], AffineExpr | None]] = {
    "const": _const, "spec": _spec, "param": _param, "len": _len, "local_id": _local_id, "workgroup_id": _workgroup_id,
    "global_id": _global_id, "workgroup_size": _workgroup_size, "num_workgroups": _num_workgroups,
    "global_size": _global_size, "lane_id": _subgroup, "subgroup_id": _subgroup, "subgroup_size": _subgroup_size,
    "num_subgroups": _num_subgroups, "add": _sum, "sub": _sum, "mul": _mul, "shl": _shl, "neg": _neg, "cast": _cast,
    "div": _divide, "rem": _divide, "shr": _shr, "and": _and, "or": _or, "xor": _xor,
}  # fmt: skip
