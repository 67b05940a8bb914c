"""Neighbouring cores of a table made one, so that lookups have less to multiply.

A table of cores [p_0, 1, q_0, r_1], [p_1, r_1, q_1, r_2], ... is also one of the cores [p_0 p_1, 1, q_0 q_1, r_2], ...:
the slices of the first are the products of slices.  At large ranks that takes hardly more memory, since the product
lacks the rank between the two; at small ones it takes far more, which is what a tensor train is to save.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import lru_cache
from itertools import combinations, pairwise
from math import prod

from ..ir.builder import Builder
from ..ir.embedding_shape import EmbeddingShape
from ..ir.program import Program
from ..ir.types import DataType
from .collective import as_type

__all__ = ["MOST_GROWTH", "Group", "merge_pair", "merge_pair_grid", "merged_groups", "merged_shape"]

MOST_GROWTH = 4
"""Times the elements of the cores that those of merged cores may be."""

MAX_ELEMENTS = (1 << 32) - 1
LANES = 256

Group = tuple[int, int]
"""Cores `first` to `last` - 1."""


def merged_groups(
    shape: EmbeddingShape, is_wanted: Callable[[EmbeddingShape], bool] = lambda shape: True
) -> list[Group]:
    """The groups of cores to be made one each, two at least: those with the fewest multiplications a lookup, of the shapes
    that are wanted, or each core by itself."""
    fewest, best = None, None
    for groups in _groupings(len(shape.p)):
        if _elements(shape, groups) > min(MOST_GROWTH * shape.elements, MAX_ELEMENTS):
            continue
        if len(groups) < len(shape.p) and not is_wanted(merged_shape(shape, groups)):
            continue
        count = _multiplications(merged_shape(shape, groups))
        if fewest is None or count < fewest:
            fewest, best = count, groups
    assert best is not None, "the cores as they are"
    return best


def _groupings(cores: int) -> Iterator[list[Group]]:
    """The one that leaves all cores apart is the first."""
    for count in range(cores - 1, 0, -1):
        for cuts in combinations(range(1, cores), count):
            yield list(pairwise((0, *cuts, cores)))


def _elements(shape: EmbeddingShape, groups: list[Group]) -> int:
    sizes = (shape.ranks[a] * prod(shape.p[a:b]) * prod(shape.q[a:b]) * shape.ranks[b] for a, b in groups)
    return sum(sizes)


def merged_shape(shape: EmbeddingShape, groups: list[Group]) -> EmbeddingShape:
    p, q = (tuple(prod(sizes[first:last]) for first, last in groups) for sizes in (shape.p, shape.q))
    return EmbeddingShape(p, q, tuple(shape.ranks[last] for _, last in groups[:-1]))


def _multiplications(shape: EmbeddingShape) -> int:
    return sum(prod(shape.q[:k]) * shape.slice_size(k) for k in range(1, len(shape.p)))


@lru_cache(maxsize=64)
def merge_pair(left: tuple[int, int, int, int], right: tuple[int, int, int, int], dtype: DataType) -> Program:
    """The program `merge_cores`: @left of shape [p, r, q, s] and @right of shape [p', s, q', t] give @out of shape
    [p p', r, q q', t], summed in f32.  A lane does an element."""
    b = Builder("merge_cores", workgroup=LANES)
    (p, rank, q, inner), (other_p, _, other_q, last) = left, right
    b.buffer("left", dtype, prod(left), "read", 0)
    b.buffer("right", dtype, prod(right), "read", 1)
    b.buffer("out", dtype, p * other_p * rank * q * other_q * last, "write", 2, live_out=True)
    element = b.global_id("x")
    with b.if_(b.lt(element, b.len("out"))):
        digits, rest = [], element
        for size in (last, other_q, q, rank, other_p):
            digits.append(b.rem(rest, size))
            rest = b.div(rest, size)
        column, other_j, j, row, other_i = digits
        start = b.mul(b.add(b.mul(b.add(b.mul(rest, rank), row), q), j), inner)
        other_start = b.add(b.mul(other_i, inner * other_q * last), b.add(b.mul(other_j, last), column))
        with b.for_(0, inner, carry=[b.const(0.0, DataType.F32)], dtype=DataType.U32) as loop:
            x = b.load("left", b.add(start, loop.index))
            y = b.load("right", b.add(other_start, b.mul(loop.index, other_q * last)))
            factors = as_type(b, x, DataType.F32), as_type(b, y, DataType.F32)
            loop.yield_(b.fma(*factors, loop.args[0]))
        b.store(as_type(b, loop.result, dtype), "out", element)
    return b.finish(verify=False)


def merge_pair_grid(program: Program) -> int:
    return -(-(program.buffers["out"].count or 0) // LANES)
