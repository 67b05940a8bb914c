"""The affine form of an op's result from those of its operands, None if it has none of its own; by op."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from ..ir import arith
from ..ir.ops import AXES, SUBGROUP_SIZE
from ..ir.program import Op
from .affine import Affine, Symbol, SymbolKind

if TYPE_CHECKING:
    from .forms import Forms

__all__ = ["FORM_RULES"]

GROUP = SymbolKind.GROUP


def _const(forms: Forms, op: Op) -> Affine | None:
    value = op.attrs["value"]
    return Affine(value) if isinstance(value, int) else None


def _local_id(forms: Forms, op: Op) -> Affine:
    return forms.local[op.attrs["axis"]]


def _workgroup_id(forms: Forms, op: Op) -> Affine:
    axis = AXES.index(op.attrs["axis"])
    grid, lanes = forms.program.grid, forms.program.workgroup[axis]
    most = grid[axis] if grid else (1 << 32) // lanes
    name = f"workgroup_id.{op.attrs['axis']}"
    return Affine.of(Symbol(GROUP, name, (0, most - 1))) if most > 1 else Affine(0)


def _global_id(forms: Forms, op: Op) -> Affine:
    lanes = forms.program.workgroup[AXES.index(op.attrs["axis"])]
    return _workgroup_id(forms, op).scaled(lanes) + forms.local[op.attrs["axis"]]


def _workgroup_size(forms: Forms, op: Op) -> Affine:
    return Affine(forms.program.workgroup[AXES.index(op.attrs["axis"])])


def _num_workgroups(forms: Forms, op: Op) -> Affine | None:
    grid = forms.program.grid
    return Affine(grid[AXES.index(op.attrs["axis"])]) if grid else None


def _global_size(forms: Forms, op: Op) -> Affine | None:
    grid, axis = forms.program.grid, AXES.index(op.attrs["axis"])
    return Affine(grid[axis] * forms.program.workgroup[axis]) if grid else None


def _lane_id(forms: Forms, op: Op) -> Affine | None:
    return _part(forms.split(_linear(forms), SUBGROUP_SIZE), 1)


def _subgroup_id(forms: Forms, op: Op) -> Affine | None:
    return _part(forms.split(_linear(forms), SUBGROUP_SIZE), 0)


def _linear(forms: Forms) -> Affine:
    width, height, _ = forms.program.workgroup
    x, y, z = forms.local.values()
    return x + y.scaled(width) + z.scaled(width * height)


def _part(parts: tuple[Affine, Affine] | None, place: int) -> Affine | None:
    return parts[place] if parts else None


def _len(forms: Forms, op: Op) -> Affine | None:
    count = forms.program.buffers[op.attrs["buffer"]].count
    return Affine(count) if count is not None and count <= arith.int_range(op.results[0].type)[1] else None


def _pair(forms: Forms, op: Op) -> tuple[Affine, Affine] | None:
    a, b = (forms.known.get(operand) for operand in op.operands)
    return (a, b) if isinstance(a, Affine) and isinstance(b, Affine) else None


def _add(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    return pair[0] + pair[1] if pair else None


def _sub(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    return pair[0] - pair[1] if pair else None


def _mul(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    if pair is None:
        return None
    a, b = pair
    return a.scaled(b.const) if b.is_const else b.scaled(a.const) if a.is_const else None


def _shl(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    if pair is None or not pair[1].is_const:
        return None
    return pair[0].scaled(1 << (pair[1].const % (op.results[0].type.bits or 1)))


def _neg(forms: Forms, op: Op) -> Affine | None:
    form = forms.known.get(op.operands[0])
    return -form if isinstance(form, Affine) else None


def _cast(forms: Forms, op: Op) -> Affine | None:
    """Wrapping to as many or fewer bits keeps the congruence; widening needs the exact value."""
    source, target = op.operands[0].type, op.results[0].type
    if not (source.is_int and target.is_int):
        return None
    if (target.bits or 0) > (source.bits or 0):
        return forms.exact(op.operands[0])
    form = forms.known.get(op.operands[0])
    return form if isinstance(form, Affine) else None


def _divide(forms: Forms, op: Op) -> tuple[Affine, Affine] | None:
    a, divisor = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or divisor is None or not divisor.is_const or divisor.const < 1 or a.range()[0] < 0:
        return None
    return forms.split(a, divisor.const)


def _div(forms: Forms, op: Op) -> Affine | None:
    return _part(_divide(forms, op), 0)


def _rem(forms: Forms, op: Op) -> Affine | None:
    return _part(_divide(forms, op), 1)


def _shr(forms: Forms, op: Op) -> Affine | None:
    a, amount = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or amount is None or not amount.is_const or a.range()[0] < 0:
        return None
    return _part(forms.split(a, 1 << (amount.const % (op.results[0].type.bits or 1))), 0)


def _naturals(forms: Forms, op: Op) -> tuple[Affine, Affine] | None:
    """The exact operands of a bitwise op if they are not negative, a constant one last."""
    a, b = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or b is None or min(a.range()[0], b.range()[0]) < 0:
        return None
    return (b, a) if a.is_const else (a, b)


def _and(forms: Forms, op: Op) -> Affine | None:
    """Masking with 2^k - 1 is a remainder."""
    pair = _naturals(forms, op)
    if pair is None or not pair[1].is_const or pair[1].const & (pair[1].const + 1):
        return None
    return _part(forms.split(pair[0], pair[1].const + 1), 1)


def _or(forms: Forms, op: Op) -> Affine | None:
    """A sum, where one operand lies below the lowest bit of the other."""
    pair = _naturals(forms, op)
    for a, b in (pair, pair[::-1]) if pair else ():
        unit = math.gcd(a.const, *a.terms.values())
        if b.range()[1] < (unit & -unit):
            return a + b
    return None


def _xor(forms: Forms, op: Op) -> Affine | None:
    """A constant flips bits, if each of them is a digit: b becomes 1 - b."""
    pair = _naturals(forms, op)
    if pair is None or not pair[1].is_const:
        return None
    flipped, mask = pair[0], pair[1].const
    for place in range(mask.bit_length()):
        if mask >> place & 1:
            upper = forms.split(pair[0], 1 << place)
            bit = _part(forms.split(upper[0], 2), 1) if upper else None
            if bit is None:
                return None
            flipped += (Affine(1) - bit.scaled(2)).scaled(1 << place)
    return flipped


FORM_RULES: dict[str, Callable[[Forms, Op], Affine | None]] = {
    "const": _const, "local_id": _local_id, "workgroup_id": _workgroup_id, "global_id": _global_id,
    "workgroup_size": _workgroup_size, "num_workgroups": _num_workgroups, "global_size": _global_size,
    "lane_id": _lane_id, "subgroup_id": _subgroup_id, "len": _len, "add": _add, "sub": _sub, "mul": _mul,
    "shl": _shl, "neg": _neg, "cast": _cast, "div": _div, "rem": _rem, "shr": _shr, "and": _and, "or": _or,
    "xor": _xor,
}  # fmt: skip
