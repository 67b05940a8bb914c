"""Indices that are clamped at an edge: a form, and how far the value may be from it.

    max(%g, 1) - 1        global_id - 1 + d      d in [0, 1]
    min(%g + 1, 255)      global_id + 1 - d      d in [0, 1] if global_id is at most 255

`Forms` has no form for a minimum of a lane's value: it is not affine.  For the question of how far
a lane reaches this is enough: the distance is a value symbol of a small range.
"""

from __future__ import annotations

from collections.abc import Callable

from ..ir.program import Op, Value
from .affine import Affine, Range, Symbol, SymbolKind
from .congruence import fits
from .forms import Forms

__all__ = ["near_form"]

MAX_DISTANCE = 1 << 16
MAX_DEPTH = 32
"""Ops that are looked through, one behind the other."""


def near_form(forms: Forms, value: Value, depth: int = MAX_DEPTH) -> Affine | None:
    """A form that `value` is congruent to modulo 2^bits, with symbols for distances; None if there is none.

    Forms over a lane's own value are looked into as well, since its range may be much larger than the
    distance from what it was clamped from.
    """
    known = forms.known.get(value)
    form = known if isinstance(known, Affine) else None
    if form is not None and not form.part(SymbolKind.VALUE).terms:
        return form
    op = value.owner
    rule = _RULES.get(op.name) if isinstance(op, Op) and depth and value.type.is_int else None
    if rule is None or not isinstance(op, Op):
        return form
    return rule(forms, op, depth - 1) or form


def _exact(forms: Forms, value: Value, depth: int) -> tuple[Affine, Range] | None:
    """A near form that equals the value as an integer, and its range."""
    form = near_form(forms, value, depth)
    if form is None:
        return None
    values = form.range()
    return (form, values) if fits(values, value.type) else None


def _at_distance(form: Affine, value: Value, low: int, high: int) -> Affine | None:
    if low == high == 0:
        return form
    if high - low > MAX_DISTANCE:
        return None
    return form + Affine.of(Symbol(SymbolKind.VALUE, f"distance(%{value.name})", (low, high), identity=value))


def _sum(forms: Forms, op: Op, depth: int) -> Affine | None:
    a, b = (near_form(forms, operand, depth) for operand in op.operands)
    if a is None or b is None:
        return None
    return a - b if op.name == "sub" else a + b


def _larger(forms: Forms, op: Op, depth: int) -> Affine | None:
    """max(a, b) = a + d, d from 0 to what b may exceed a by; or the same from b."""
    return _clamp(forms, op, depth, lambda own, other: (0, max(0, other[1] - own[0])))


def _smaller(forms: Forms, op: Op, depth: int) -> Affine | None:
    return _clamp(forms, op, depth, lambda own, other: (min(0, other[0] - own[1]), 0))


def _clamp(forms: Forms, op: Op, depth: int, distance: Callable[[Range, Range], Range]) -> Affine | None:
    a, b = (_exact(forms, operand, depth) for operand in op.operands)
    if a is None or b is None:
        return None
    own, other = (b, a) if a[0].is_const else (a, b)
    return _at_distance(own[0], op.result, *distance(own[1], other[1]))


def _less_saturating(forms: Forms, op: Op, depth: int) -> Affine | None:
    """Unsigned: a - b, or 0 where b is larger."""
    a, b = (_exact(forms, operand, depth) for operand in op.operands)
    if a is None or b is None or op.result.type.is_signed:
        return None
    return _at_distance(a[0] - b[0], op.result, 0, max(0, b[1][1] - a[1][0]))


def _either(forms: Forms, op: Op, depth: int) -> Affine | None:
    a, b = (near_form(forms, operand, depth) for operand in op.operands[1:])
    if a is None or b is None:
        return None
    low, high = (b - a).range()
    return _at_distance(a, op.result, min(0, low), max(0, high))


def _cast(forms: Forms, op: Op, depth: int) -> Affine | None:
    source, target = op.operands[0].type, op.result.type
    if not source.is_int:
        return None
    if (target.bits or 0) <= (source.bits or 0):
        return near_form(forms, op.operands[0], depth)
    found = _exact(forms, op.operands[0], depth)
    return found[0] if found is not None else None


_RULES: dict[str, Callable[[Forms, Op, int], Affine | None]] = {
    "add": _sum, "sub": _sum, "max": _larger, "min": _smaller, "sub_sat": _less_saturating,
    "select": _either, "cast": _cast,
}  # fmt: skip
