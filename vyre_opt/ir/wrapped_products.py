"""Products of 32 bits that are made wider only behind the multiplication, which wraps before.

%p = mul %a, %b : u32             elements of arrays, which may be any: told of the text
%w = cast %p : u32 -> u64

u64(n * n), u64(i * n + j)        with what a call passes: told of the launch where a product surely wraps
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence

from .diagnostics import Diagnostic, Location, spelling_at
from .grids import Extent
from .program import Op, Program, Value
from .rewrite import constant_value
from .unordered_accesses import MOST_STEPS, Lanes, Run, Supposed

__all__ = ["product_of_elements", "wrapped_products"]

_MOST_TERMS = 50
"""Ops of a number that are looked at."""


def product_of_elements(op: Op) -> Iterator[Diagnostic]:
    """The warning of a cast of the product of two elements of arrays."""
    product = op.operands[0].owner
    is_product = isinstance(product, Op) and product.name == "mul"
    if is_product and _is_widening(op) and all(_is_loaded(each) for each in product.operands):  # type: ignore[union-attr]
        yield _warning(op, product, "")  # type: ignore[arg-type]


def _is_loaded(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "load"


def wrapped_products(
    program: Program,
    grid: Sequence[Extent],
    shapes: Mapping[str, Sequence[int]],
    params: Mapping[str, int],
    loc: Location | None,
    told: Collection[Location | None] = (),
) -> Iterator[Diagnostic]:
    """Warnings of products that wrap in a launch at `loc`, by the ids, the lengths and the numbers that it has."""
    extents = tuple(extent for extent in grid if isinstance(extent, int) and extent > 0)
    casts = {op for op in program.walk() if op.name == "cast" and _is_widening(op) and _products(op)}
    if not casts or len(extents) < len(grid):
        return
    last = (*(extent - 1 for extent in extents), 0, 0)[:3]
    run = _Products(program, casts, Supposed(extents, tuple({(0, 0, 0): 0, last: 0}), None, shapes, params))
    run.left = MOST_STEPS // 2  # a call waits for it
    run.run()
    for op, (product, number) in run.wrapped.items():
        if op.loc not in told:
            yield _warning(op, product, f"{number} in this launch").note("it is launched here", loc)


def _is_widening(op: Op) -> bool:
    before, after = op.operands[0].type, op.results[0].type
    return before.is_int and before.bits == 32 and not before.is_slice and (after.bits or 0) == 64


def _products(cast: Op) -> list[Op]:
    """The products in what a cast makes wider, of which sums may be made."""
    found: list[Op] = []
    pending = [cast.operands[0]]
    for _ in range(_MOST_TERMS):
        if not pending:
            break
        op = pending.pop().owner
        if isinstance(op, Op) and op.name in ("mul", "add"):
            found += [op] * (op.name == "mul")
            pending += op.operands
    return found


class _Products(Run):
    """A run that computes the products in casts without wrapping.  `wrapped`: by cast, one that is too large, and what it would be."""

    def __init__(self, program: Program, casts: set[Op], supposed: Supposed) -> None:
        super().__init__(program, supposed)
        self.casts, self.wrapped = casts, dict[Op, tuple[Op, int]]()

    def op(self, op: Op, lanes: Lanes) -> None:
        super().op(op, lanes)
        if op in self.casts and lanes and op not in self.wrapped:
            largest = (1 << 32) if op.operands[0].type.kind == "uint" else (1 << 31)
            for product in _products(op):
                for lane in (lanes[0], lanes[-1]):
                    number = self.exact(product.result, lane)
                    if number is not None and number >= largest:
                        self.wrapped[op] = (product, number)

    def exact(self, value: Value, lane: int, depth: int = 8) -> int | None:
        """What a value would be if no number wrapped."""
        op, column = value.owner, self.column(value)
        if isinstance(op, Op) and op.name in ("mul", "add") and depth:
            parts = [self.exact(operand, lane, depth - 1) for operand in op.operands]
            if None in parts:
                return None
            return parts[0] * parts[1] if op.name == "mul" else parts[0] + parts[1]  # type: ignore[operator]
        return column[lane] if isinstance(column, list) else column


def _warning(op: Op, product: Op, number: str) -> Diagnostic:
    spelling, narrow, wide = spelling_at(op.loc), product.result.type, op.result.type
    text = _text(product)
    factor = next((each for each in product.operands if constant_value(each) is None), product.operands[0])
    bits = 32 if narrow.kind == "uint" else 31
    shown = text if spelling.name == "PYTHON" and text else "this product"
    would = f"{shown} is {number}, and wraps" if number else f"{shown} wraps"
    message = f"{would} at 2^{bits} in {narrow}, before it is made a {wide}"
    inside, source = product.loc is not None and op.loc is not None and product.loc in op.loc, _text(op)
    whole = re.fullmatch(r"[\w.]+\((.*)\)", source, re.DOTALL) if inside else None
    help = spelling.widened(whole[1] if whole else text, str(wide), "", factor.name)
    if spelling.name == "PYTHON" and not inside:
        help += f" for {text}"
    return Diagnostic("warning", message, op.loc, help=help)


def _text(op: Op) -> str:
    return "" if op.loc is None else op.loc.source.text[op.loc.start : op.loc.end]
