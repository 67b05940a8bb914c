"""The lengths of a pipeline's buffers as terms of z3, which are one term if they are written alike.

A size that is an expression stands for the length wherever that is used, so `len(@y)` of `buffer @y : f32[len(@x)]` is
the term of `len(@x)`.  Functions of numbers are computed, others are not looked into.
"""

from __future__ import annotations

from collections import defaultdict

import z3

from ..ir.grids import FUNCTIONS, Extent, GridError, length_key
from ..ir.pipeline import Pipeline

__all__ = ["LengthTerms"]


class LengthTerms:
    """`of(extent)`: the term of an expression over the lengths of a pipeline."""

    def __init__(self, pipeline: Pipeline) -> None:
        self._lengths: dict[str, z3.ArithRef] = {}
        for name, buffer in pipeline.buffers.items():
            for place, extent in enumerate(buffer.extents):
                key = length_key(name, place if buffer.dimensions > 1 else None)
                self._lengths[key] = z3.Int(f"len {key}") if extent is None else self.of(extent)

    def of(self, extent: Extent) -> z3.ArithRef:
        if isinstance(extent, int):
            return z3.IntVal(extent)
        if extent.name in ("len", "param"):
            name, *dimension = extent.args
            key = length_key(str(name), *dimension)
            known = self._lengths.get(key) if extent.name == "len" else None
            return z3.Int(f"{extent.name} {key}") if known is None else known
        x, y = (self.of(arg) for arg in extent.args if not isinstance(arg, str))
        if z3.is_int_value(x) and z3.is_int_value(y):
            try:
                return z3.IntVal(FUNCTIONS[extent.name](x.as_long(), y.as_long()))
            except GridError:
                pass
        of_two = z3.Function(extent.name, z3.IntSort(), z3.IntSort(), z3.IntSort())
        term: z3.ArithRef = of_two(x, y)
        return term

    def agree(self, one: Extent | None, other: Extent | None) -> bool:
        """Whether two extents are the same, or both said by the caller."""
        if one is None or other is None:
            return one is other
        return bool(self.of(one).eq(self.of(other)))

    def equal(self) -> dict[str, list[str]]:
        """For each length all that are equal to it, by their keys (see ir/grids.py)."""
        same: dict[int, list[str]] = defaultdict(list)
        for key, term in self._lengths.items():
            same[term.get_id()].append(key)
        return {key: keys for keys in same.values() for key in keys}
