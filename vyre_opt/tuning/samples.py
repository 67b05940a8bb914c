"""Random inputs to measure a named kernel on, in the types that the interpreter computes with.

The time depends little on numbers, but much on the cells that a lookup or an automaton reads; indices are
drawn over the whole table.  No number is NaN, so that the result can be checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from math import prod, sqrt
from typing import Any

import numpy as np

from ..ir.types import DataType

__all__ = ["sample_inputs"]

Array = np.ndarray[Any, Any]
Draw = Callable[[np.random.Generator, Sequence[int], Sequence[DataType], Mapping[str, int]], list[Array]]


def sample_inputs(
    kernel: str, counts: Sequence[int], types: Sequence[DataType], params: Mapping[str, int], seed: int = 0
) -> list[Array]:
    """An array for each buffer that a kernel reads, of `counts` elements of `types`.

    Floats are not rounded to their type yet.  Raises ValueError if there are no valid inputs of these sizes.
    """
    return _DRAWS[kernel](np.random.default_rng(seed), counts, types, params)


def _numbers(rng: np.random.Generator, count: int, dtype: DataType, scale: float = 1.0) -> Array:
    """Integers uniform over all bit patterns; floats normal with a standard deviation of `scale`."""
    if dtype.is_float:
        return (rng.standard_normal(count) * scale).astype(np.float32)
    words = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    return words.view(np.int32) if dtype is DataType.I32 else words


def _each(
    rng: Any, counts: Sequence[int], types: Sequence[DataType], params: Mapping[str, int]
) -> list[Array]:
    return [_numbers(rng, count, dtype) for count, dtype in zip(counts, types, strict=True)]


def _terms(
    rng: Any, counts: Sequence[int], types: Sequence[DataType], params: Mapping[str, int]
) -> list[Array]:
    """Floats of 0 and above, so that sums do not cancel."""
    return [np.abs(x) if x.dtype.kind == "f" else x for x in _each(rng, counts, types, params)]


def _chain(
    rng: Any, counts: Sequence[int], types: Sequence[DataType], params: Mapping[str, int]
) -> list[Array]:
    from ..kernels.chain import uniform_ranks

    ranks = uniform_ranks(**params)
    if list(counts) != [ranks[0], sum(x * y for x, y in pairwise(ranks))]:
        raise ValueError(f"ranks {ranks[0]} to {ranks[-1]} do not take buffers of {counts} elements")
    # so scaled, the values neither grow nor vanish along the chain
    cores = [_numbers(rng, x * y, types[1], 1 / sqrt(x)) for x, y in pairwise(ranks)]
    return [_numbers(rng, counts[0], types[0]), np.concatenate(cores)]


def _lookups(
    rng: Any, counts: Sequence[int], types: Sequence[DataType], params: Mapping[str, int]
) -> list[Array]:
    rows = prod(params[f"p{k}"] for k in range(4) if params.get(f"p{k}"))
    return [_numbers(rng, counts[0], types[0]), rng.integers(0, rows, counts[1], dtype=np.uint32)]


def _text(alphabet: bytes) -> Draw:
    codes = np.frombuffer(alphabet, np.uint8)
    return lambda rng, counts, types, params: [codes[rng.integers(0, len(codes), counts[0])]]


def _automaton(
    rng: Any, counts: Sequence[int], types: Sequence[DataType], params: Mapping[str, int]
) -> list[Array]:
    """An automaton whose next state depends on the byte alone, and is the root for three bytes of four."""
    text, states = rng.integers(0, 256, counts[0], dtype=np.uint8), counts[1] // 256
    if counts[1] % 256 or not states or counts[2] < states:
        raise ValueError(f"a table of {counts[1]} entries and {counts[2]} numbers is no automaton")
    bytes_ = np.arange(256)
    after = np.where(bytes_ < 64, bytes_ % states, 0) if params["warmup"] else np.zeros(256, np.int64)
    table = np.tile(after, states).astype(np.uint16 if types[1] is DataType.U16 else np.uint32)
    return [text, table, np.arange(counts[2], dtype=np.uint32)]


_DRAWS: dict[str, Draw] = {
    "decode.base64": _text(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"),
    "decode.hex": _text(b"0123456789abcdefABCDEF"),
    "scan.dfa": _automaton,
    "scan.prefix": _terms,
    "math.softmax": _each,
    "math.softmax_step": _each,
    "math.matvec_fixed": _each,
    "math.matmul": _each,
    "tt.contract_step": _each,
    "tt.chain": _chain,
    "tt.embedding": _lookups,
}
