"""Attention: rows of values, weighted by how well their keys match a query.

    softmax(q k^T * scale) v

A workgroup has a block of queries and goes along the keys, block by block.  It keeps the largest score of each query so far, and the sums of
powers and of weighted values as if that were the largest of all; a larger one scales them.  So scores are never in memory.
"""

from __future__ import annotations

import functools
from math import e, log2, prod
from typing import Annotated, Any

import vyre_opt as vyre

from ..driver.operands import A, DispatcherLike
from ..execution.dispatcher import BadInputs
from ..lang import Read, Write, f32
from ..lang.functions import Kernel
from .on_rows import Element, RowsCall, on_rows

__all__ = ["attention"]

NOTHING = float("-inf")
QUERIES, KEYS = 128, 64
"""Queries and keys of a block (64 heads of 4,096 x 128 bf16 on an H200: 1,400 us by 128 x 64, 1,435 by 128 x 128, 1,549 by 64 x 64; of
4,096 x 64: 801, 939, 911)."""
FEW = 32
"""The same where no matrix unit multiplies: of f32, and on the cpu."""
LEAST_SIZE, MOST_SIZE, WIDE = 16, 512, 64
"""Elements of a head in a block: powers of two up to `WIDE`, then multiples of it."""


@functools.cache
def attention_of(size: int, queries: int, keys: int, is_causal: bool) -> Kernel:
    """The program for heads of up to `size` elements, in blocks of so many queries and keys."""

    @vyre.program(fastmath=("afn", "contract"))
    def attention(
        q: Read[Annotated[Element, :, :, :]],
        k: Read[Annotated[Element, :, :, :]],
        v: Read[Annotated[Element, :, :, :]],
        y: Write[Annotated[Element, :, :, :]],
        scale: f32,
    ) -> None:
        blocks = (q.shape[1] + (queries - 1)) // queries
        # the last blocks first: where keys are left out they take longest
        h, i = vyre.workgroup_id(0) // blocks, (blocks - 1 - vyre.workgroup_id(0) % blocks) * queries
        query = q.filled(0)[h, i : i + queries, 0:size]
        most = vyre.full((queries,), NOTHING, f32)
        total = vyre.zeros((queries,), f32)
        weighted = vyre.zeros((queries, size), f32)
        end = k.shape[1]
        if is_causal:
            end = vyre.min(i + queries, end)
        for j in range(0, end, keys):
            score = query @ k.filled(0)[h, j : j + keys, 0:size].T
            place = j + vyre.arange(keys)
            is_key = (place < k.shape[1])[None, :]
            if is_causal:
                is_key = is_key & (place[None, :] <= (i + vyre.arange(queries))[:, None])
            score = vyre.where(is_key, score, NOTHING)
            largest = vyre.max(most, vyre.max(score, axis=1) * scale)
            power = vyre.exp2(score * scale - largest[:, None])
            fading = vyre.exp2(most - largest)
            total = total * fading + vyre.sum(power, axis=1)
            weighted = weighted * fading[:, None] + y.dtype(power) @ v.filled(0)[h, j : j + keys, 0:size]
            most = largest
        y[h, i : i + queries, 0:size] = y.dtype(weighted / total[:, None])

    return attention


@on_rows("attention", "q", "k", "v")
def _attention(call: RowsCall, is_causal: bool, scale: float | None) -> None:
    shape, size = tuple(call.first.shape), call.columns
    if len(shape) < 2:
        raise BadInputs(f"attention: q is of shape {shape}, and has the axes (..., queries, size)")
    rows = [call[name].shape for name in ("k", "v")]
    keys = next((each for each in rows if each[-1:] == (size,)), rows[0])[-2:-1]
    for name in ("k", "v"):
        call.need(name, (*shape[:-2], *keys, size))
    if not 1 <= size <= MOST_SIZE:
        raise BadInputs(f"attention: a head of q has {size} elements, and may have 1 to {MOST_SIZE}")
    if not prod(keys):
        raise BadInputs("attention: k has no keys; pass one at least")
    scale = size**-0.5 if scale is None else scale
    if not scale > 0:
        raise BadInputs(f"attention: scale is greater than 0, not {scale}; multiply q by it instead")
    block = max(LEAST_SIZE, 1 << (size - 1).bit_length()) if size <= WIDE else -(-size // WIDE) * WIDE
    is_small = call.first.kind == "float32" or not call.is_for_gpu
    queries, across = (FEW, FEW) if is_small else (QUERIES, KEYS)
    heads, y = prod(shape[:-2]), call.result(shape)
    arrays = [each.reshaped(heads, each.shape[-2], size) for each in (call["q"], call["k"], call["v"], y)]
    kernel = attention_of(block, queries, across, is_causal)
    call.launch(kernel, -(-shape[-2] // queries) * heads, *arrays, scale * log2(e))


def attention(
    q: A,
    k: A,
    v: A,
    *,
    causal: bool = False,
    scale: float | None = None,
    dispatcher: DispatcherLike | None = None,
    out: Any = None,
) -> A:
    """Values weighted by the softmax of the products of queries and keys: softmax(q k^T * scale) v, for each head.

    Args:
        q: (..., queries, size) of f16, bf16 or f32, with a size of up to 512; sums are of f32.
        k: (..., keys, size), of the type of `q`, as many heads and one key at least.
        v: (..., keys, size), likewise.
        causal: query i is matched with keys 0 to i alone.
        scale: of the products, greater than 0; left out, 1 / sqrt(size).
        dispatcher: a target's name or a dispatcher; left out, cpu for arrays in main memory and cuda for those on a GPU.
        out: an array that gets the result, and is returned.

    Returns:
        An array like `q`, of its shape, type, library and memory.  Weights are rounded to its type before values are multiplied by them.

    Raises:
        BadInputs: for other types or shapes, before anything runs.

    Example:
        >>> q, v = np.zeros((1, 2, 2), np.float32), np.array([[[2, 4], [6, 8]]], np.float32)
        >>> kernels.attention(q, q, v, causal=True).tolist()
        [[[2.0, 4.0], [4.0, 6.0]]]
    """
    y: A = _attention((q, k, v), dispatcher, out, causal, scale)[0]
    return y
