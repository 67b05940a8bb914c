"""Products, sums and differences of 32 bits that wrap before they are made wider, or floats.

%p = mul %a, %b : u32             elements of arrays, which may be any: told of the text
%w = cast %p : u32 -> u64

u64(n * n), f32(i - len(x) // 2)   with what a call passes: told of the launch where a number surely wraps
"""

from __future__ import annotations

import operator
import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from ..diagnostics import Diagnostic, Location, source_text, spelling_at
from ..grids import Extent
from ..program import Op, Program, Value
from ..rewrite import constant_value
from ..types import with_article
from .invocation_runs import MOST_STEPS, Lanes, Run, Supposed

__all__ = ["product_of_elements", "wrapped_numbers"]

_MOST_TERMS = 50
"""Ops of a number that are looked at."""


def product_of_elements(op: Op) -> Iterator[Diagnostic]:
    """The warning of a cast of the product of two elements of arrays."""
    product = op.operands[0].owner
    is_product = isinstance(product, Op) and product.name == "mul"
    if is_product and _is_widening(op) and all(_is_loaded(each) for each in product.operands):  # type: ignore[union-attr]
        yield _warning(op, product)  # type: ignore[arg-type]


def _is_loaded(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "load"


def wrapped_numbers(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    loc: Location | None,
    told: Collection[Location | None] = (),
) -> Iterator[Diagnostic]:
    """Warnings of numbers that wrap in a launch at `loc`, by the ids, the lengths and the numbers that it has."""
    extents = tuple(extent for extent in grid if isinstance(extent, int) and extent > 0)
    casts = {op for op in program.walk() if op.name == "cast" and _is_computed(op)}
    if casts:
        users = _users(program)
        casts = {op for op in casts if not _is_chosen(op, users)}
    if not casts or len(extents) < len(grid):
        return
    last = (*(extent - 1 for extent in extents), 0, 0)[:3]
    run = _Exact(program, casts, Supposed(extents, tuple({(0, 0, 0): 0, last: 0}), None, shapes, params))
    run.left = MOST_STEPS // 2  # a call waits for it
    run.run()
    for op, (computed, number) in run.wrapped.items():
        if op.loc not in told:
            yield _warning(op, computed, number).note("it is launched here", loc)


def _is_widening(op: Op) -> bool:
    before, after = op.operands[0].type, op.results[0].type
    return before.is_int and before.bits == 32 and not before.is_slice and (after.bits or 0) == 64


def _is_computed(op: Op) -> bool:
    """Whether a cast is of a sum, a difference or a product of 32 bits, to a float or to 64 bits.  One by a large constant is a hash, which
    wraps on purpose."""
    before, computed = op.operands[0].type, op.operands[0].owner
    is_changed = op.results[0].type.is_float or _is_widening(op)
    if not is_changed or not before.is_int or before.bits != 32 or before.is_slice or before.is_vec:
        return False
    return (
        isinstance(computed, Op)
        and computed.name in _EXACT
        and all(
            not isinstance(known := constant_value(operand), int) or known < 1 << 16
            for each in _terms(computed)
            for operand in each.operands
        )
    )


_EXACT = {"mul": operator.mul, "add": operator.add, "sub": operator.sub}


def _terms(op: Op) -> list[Op]:
    """An op and those of its operands that compute exact numbers, too."""
    found, pending = [op], [*op.operands]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        inner = pending.pop().owner
        if isinstance(inner, Op) and inner.name in _EXACT:
            found.append(inner)
            pending += inner.operands
    return found


def _users(program: Program) -> dict[Value, list[Op]]:
    users: dict[Value, list[Op]] = {}
    for op in program.walk():
        for operand in op.operands:
            users.setdefault(operand, []).append(op)
    return users


def _is_chosen(op: Op, users: Mapping[Value, Sequence[Op]]) -> bool:
    """Whether what is computed from a cast is only used where a condition chooses it: `f32(i - 1) if i > 0 else 0.0`."""
    pending = [op.results[0]]
    for _ in range(_MOST_TERMS):
        if not pending:
            return True
        for user in users.get(pending.pop(), ()):
            if user.name in ("select", "min", "max"):
                continue
            if not user.definition.is_pure or user.regions or not user.results:
                return False
            pending += user.results
    return False


class _Exact(Run):
    """A run that computes the numbers in casts without wrapping.  `wrapped`: by cast, what wraps in it, and what that would be."""

    def __init__(self, program: Program, casts: set[Op], supposed: Supposed) -> None:
        super().__init__(program, supposed)
        self.casts, self.wrapped = casts, dict[Op, tuple[Op, int]]()

    def op(self, op: Op, lanes: Lanes) -> None:
        super().op(op, lanes)
        computed = op.operands[0].owner if op in self.casts else None
        if not isinstance(computed, Op) or not lanes or op in self.wrapped:
            return
        bits = 32 - op.operands[0].type.is_signed
        least = -(1 << bits) if op.operands[0].type.is_signed else 0
        for lane in (lanes[0], lanes[-1]):
            number = self.exact(computed.result, lane)
            terms = [computed] if number is not None else [t for t in _terms(computed) if t.name == "mul"]
            for term in terms:  # of a sum with what is not known, its products
                number = self.exact(term.result, lane)
                if number is not None and not least <= number < 1 << bits:
                    self.wrapped.setdefault(op, (term, number))

    def exact(self, value: Value, lane: int, depth: int = 8) -> int | None:
        """Number that a value would be if none wrapped."""
        op, column = value.owner, self.column(value)
        if isinstance(op, Op) and op.name in _EXACT and depth:
            first, second = (self.exact(operand, lane, depth - 1) for operand in op.operands)
            return None if first is None or second is None else _EXACT[op.name](first, second)
        return column[lane] if isinstance(column, list) else column


def _warning(op: Op, computed: Op, number: int | None = None) -> Diagnostic:
    spelling, narrow, wide = spelling_at(op.loc), computed.result.type, op.result.type
    text = source_text(computed.loc)
    factor = next((each for each in computed.operands if constant_value(each) is None), computed.operands[0])
    bits = 32 - narrow.is_signed
    shown = text if spelling.name == "PYTHON" and text else "this number"
    would = f"{shown} wraps" if number is None else f"{shown} is {number} in this launch, and wraps"
    below = " below 0" if number is not None and number < 0 and not narrow.is_signed else ""
    message = f"{would}{below} at 2^{bits} in {narrow}, before it is made {with_article(wide)}"
    inside, source = (
        computed.loc is not None and op.loc is not None and computed.loc in op.loc,
        source_text(op.loc),
    )
    whole = re.fullmatch(r"[\w.]+\((.*)\)", source, re.DOTALL) if inside else None
    exact = ("i32" if below else "i64") if wide.is_float and wide.bits != 64 else str(wide)
    behind = str(wide) if exact != str(wide) and whole else ""
    help = spelling.widened(whole[1] if whole else text, exact, behind, factor.name)
    if spelling.name == "PYTHON" and not inside:
        help += f" for {text}"
    return Diagnostic("warning", message, op.loc, help=help)
