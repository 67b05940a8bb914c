"""What leaves guards out: ranges of results, and divisions and shifts whose operands have ranges."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np

from vyre_opt.analysis.ranges import result_range
from vyre_opt.certify import op_terms
from vyre_opt.ir import DataType, Op

from .evaluate import evaluate
from .graphs import Node, build, var
from .values import INTS, edges, encoded

__all__ = ["BoundedProgram", "RANGED", "bounded_programs", "wrong_ranges"]

RANGED = ("and", "or", "xor", "add", "sub", "mul", "min", "max", "shr", "rem", "div")


def wrong_ranges(name: str, dtype: DataType, step: int = 1) -> tuple[int, list[object]]:
    """How many pairs of ranges were tried, and those with a result outside of the range that they give.

    `dtype`: of 8 bits.  The ranges are all between two edge values, or two of each `step`-th; each pair is looked at for all operands in it.
    """
    low = -128 if dtype.is_signed else 0
    values = np.arange(low, low + 256)
    columns = [grid & 0xFF for grid in np.meshgrid(values, values, indexing="ij")]
    variables = [op_terms.variable(n, dtype) for n in "ab"]
    bits = evaluate(op_terms.term(name, dtype, variables), dict(zip("ab", columns, strict=True)))
    results = np.where(bits >= 128, bits - 256, bits) if dtype.is_signed else bits
    value = build(Node(name, dtype, (var("a", dtype), var("b", dtype))), {})
    op = value.owner
    assert isinstance(op, Op)
    limits = edges(dtype)[::step]
    ranges = [(a, b) for a in limits for b in limits if a <= b]
    wrong: list[object] = []
    for (a, b), (c, d) in product(ranges, repeat=2):
        least, most = result_range(op, {op.operands[0]: (a, b), op.operands[1]: (c, d)})
        box = results[a - low : b - low + 1, c - low : d - low + 1]
        if box.min() < least or box.max() > most:
            wrong.append(((a, b), (c, d)))
    return len(ranges) ** 2, wrong


@dataclass(frozen=True, slots=True)
class BoundedProgram:
    """A division or shift by an operand in some range; `lines` as `program_text` takes them."""

    type: DataType
    lines: str


def bounded_programs(types: list[DataType] = INTS) -> Iterator[BoundedProgram]:
    """Divisions and shifts by constants and by what bounds its operand, and of bounded dividends by -1."""
    for dtype in types:
        limits = [encoded(v, dtype) for v in (0, 1, 2, 3, (dtype.bits or 0) - 1, dtype.bits or 0, -1, -2)]
        for name, limit in product(("div", "rem", "shl", "shr"), dict.fromkeys(limits)):
            bound = f"  %c = const {limit} : {dtype}\n"
            yield BoundedProgram(dtype, f"{bound}  %r = {name} %a, %c : {dtype}")
            for inner in RANGED:
                yield BoundedProgram(
                    dtype, f"{bound}  %d = {inner} %b, %c : {dtype}\n  %r = {name} %a, %d : {dtype}"
                )
                if name in ("div", "rem"):
                    minus = (
                        f"  %m = const -1 : {dtype}\n" if dtype.is_signed else f"  %m = const 0 : {dtype}\n"
                    )
                    yield BoundedProgram(
                        dtype,
                        f"{bound}{minus}  %d = {inner} %b, %c : {dtype}\n  %r = {name} %d, %m : {dtype}",
                    )
