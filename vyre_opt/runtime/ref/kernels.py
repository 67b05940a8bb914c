"""The named kernels, computed directly on whole arrays.

Each takes the buffers that it reads in the order of its roles, and its parameters by name.  It returns
the elements that it writes, from the first on, or raises ValueError if sizes or contents do not fit.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from math import erf, sqrt

import numpy as np

Array = np.ndarray

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SEXTETS = np.zeros(256, np.uint32)
_SEXTETS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)
_NIBBLES = np.zeros(256, np.uint8)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _NIBBLES[np.frombuffer(_digits, np.uint8)] = np.arange(16)


def base64(text: Array) -> Array:
    """RFC 4648; up to two '=' at the very end are padding, other characters count as 0 bits.

    A last group of 2 or 3 characters gives 1 or 2 bytes, a single character none.
    """
    last = text[-2:] == ord("=")
    padding = 0 if not last[-1:].any() else 2 if len(last) == 2 and last[0] else 1
    sextets = _SEXTETS[text[: len(text) - padding]]
    count = len(sextets) * 6 // 8
    groups = np.concatenate((sextets, np.zeros(-len(sextets) % 4, np.uint32))).reshape(-1, 4)
    word = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
    decoded = np.stack((word >> 16, word >> 8, word), axis=1) & 0xFF
    return decoded.astype(np.uint8).reshape(-1)[:count]


def hex(text: Array) -> Array:
    """Two digits a byte, in either case; other characters count as 0, and an odd last one is ignored."""
    digits = _NIBBLES[text[: len(text) // 2 * 2]]
    decoded: Array = (digits[0::2] << np.uint8(4)) | digits[1::2]
    return decoded


def dfa(text: Array, table: Array, accept: Array, warmup: int) -> Array:
    """The accepting number of the state after each byte, 0 if that state accepts nothing.

    For each byte the DFA starts in state 0, `warmup` bytes before it; `table[state * 256 + byte]` is the
    next state.
    """
    if warmup < 0:
        raise ValueError(f"warmup is {warmup}, not a number of bytes")
    states = len(table) // 256
    if len(table) % 256 or states == 0 or len(accept) < states:
        raise ValueError(
            f"a table of {len(table)} entries and {len(accept)} accepting numbers; there are 256 entries and "
            "one number for each state"
        )
    if len(table) and int(table.max()) >= states:
        raise ValueError(f"the table leads to state {int(table.max())}, there are {states}")
    state = np.zeros(len(text), np.int64)
    for back in range(min(warmup, max(0, len(text) - 1)), -1, -1):
        state[back:] = table[state[back:] * 256 + text[: len(text) - back]]
    numbers: Array = accept[state]
    return numbers


def prefix(x: Array) -> Array:
    """Integers wrap; f32 is summed in f64 and rounded once, f64 in f64."""
    if x.dtype == np.float32:
        return np.cumsum(x, dtype=np.float64).astype(np.float32)
    return np.cumsum(x, dtype=x.dtype)


def softmax(x: Array, columns: int) -> Array:
    """exp(x - max) / sum(exp(x - max)) of each row; computed in f64."""
    if columns < 1 or len(x) % columns:
        raise ValueError(f"{len(x)} elements are not rows of {columns}")
    rows = x.astype(np.float64).reshape(-1, columns)
    powers = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
    shares: Array = (powers / powers.sum(axis=1, keepdims=True)).reshape(-1)
    return shares


def softmax_step(x: Array) -> Array:
    """floor((x_i << 16) / max(sum x, 1)) in u64, which holds the sum of 2^32 elements."""
    wide = x.astype(np.uint64)
    total = max(int(wide.sum()), 1)
    return ((wide << np.uint64(16)) // np.uint64(total)).astype(np.uint32)


def _signed(x: Array) -> Array:
    return x.view(np.int32).astype(np.int64)


def _fixed_sum(products: Array, axis: int, like: Array) -> Array:
    """The sum modulo 2^32 of products of 16.16 numbers, each shifted back to 16.16."""
    total: Array = (products >> 16).sum(axis=axis)
    return total.astype(np.uint32).view(like.dtype)


def matvec_fixed(m: Array, x: Array) -> Array:
    """y_i = sum_j m_ij * x_j in 16.16, m row-major."""
    if len(x) == 0 or len(m) % len(x):
        raise ValueError(f"a matrix of {len(m)} elements has no rows of {len(x)}")
    return _fixed_sum(_signed(m).reshape(-1, len(x)) * _signed(x), 1, m)


def matmul(
    a: Array, b: Array, bias: Array | None = None, *, depth: int, columns: int, activation: int = 0
) -> Array:
    """activation(A B + bias), A in rows of `depth`, B in rows of `columns`; in f64."""
    if depth < 1 or len(a) % depth:
        raise ValueError(f"{len(a)} elements are not rows of {depth}")
    if len(b) != depth * columns:
        raise ValueError(f"B has {len(b)} elements; {depth} rows of {columns} have {depth * columns}")
    if bias is not None and len(bias) != columns:
        raise ValueError(f"a bias of {len(bias)} elements for {columns} columns")
    with np.errstate(all="ignore"):
        total = a.astype(np.float64).reshape(-1, depth) @ b.astype(np.float64).reshape(depth, columns)
        if bias is not None:
            total += bias
        activated: Array = _ACTIVATIONS[activation](total)
    return activated.reshape(-1)


_erf = np.vectorize(erf, otypes=[np.float64])
_ACTIVATIONS: tuple[Callable[[Array], Array], ...] = (
    lambda x: x,
    lambda x: np.where(x < 0, 0.0, x),
    lambda x: x / 2 * (1 + _erf(x * sqrt(0.5))),
    lambda x: x / (1 + np.exp(-x)),
)


def contract_step(acc: Array, core: Array) -> Array:
    """out_j = sum_i acc_i * core_ij, core row-major; f32 is summed in f64 and rounded once."""
    if len(acc) == 0 or len(core) % len(acc):
        raise ValueError(f"a core of {len(core)} elements has no {len(acc)} rows")
    rows = core.reshape(len(acc), -1)
    if acc.dtype == np.float32:
        return (acc.astype(np.float64) @ rows.astype(np.float64)).astype(np.float32)
    return _fixed_sum(_signed(acc)[:, None] * _signed(rows), 0, core)


def chain(acc: Array, cores: Array, steps: int, rank: int, first: int = 0, last: int = 0) -> Array:
    """acc times `steps` matrices, which follow one another in `cores`; f32 is computed in f64 and rounded once."""
    if steps < 1:
        raise ValueError("a chain has at least one core")
    ranks = [first or rank, *[rank] * (steps - 1), last or rank]
    shapes = list(pairwise(ranks))
    cells = sum(rows * columns for rows, columns in shapes)
    if len(acc) != ranks[0] or len(cores) != cells:
        raise ValueError(
            f"an accumulator of {len(acc)} and cores of {len(cores)} elements; "
            f"ranks {ranks[0]} to {ranks[-1]} take {ranks[0]} and {cells}"
        )
    start, out = 0, acc.astype(np.float64) if acc.dtype == np.float32 else acc
    for rows, columns in shapes:
        core = cores[start : start + rows * columns]
        start += rows * columns
        out = (
            out @ core.astype(np.float64).reshape(rows, columns)
            if acc.dtype == np.float32
            else contract_step(out, core)
        )
    return out.astype(acc.dtype)


def embedding(cores: Array, indices: Array, **shape: int) -> Array:
    """Row of each index: the product of core_k[i_k], i_k its digits in radix p_k; in f64, rounded once."""
    count = max((k + 1 for k in range(4) if shape.get(f"p{k}")), default=0)
    p, q = ([shape[f"{n}{k}"] for k in range(count)] for n in "pq")
    r = [1, *(shape[f"r{k}"] for k in range(1, count)), 1]
    sizes = [p[k] * r[k] * q[k] * r[k + 1] for k in range(count)]
    if count < 2 or min((*p, *q, *r)) < 1 or any(v for n, v in shape.items() if int(n[1:]) >= count):
        raise ValueError("2 to 4 cores, each with its p, q and ranks, all at least 1")
    if len(cores) != sum(sizes):
        raise ValueError(f"cores of {len(cores)} elements; these shapes take {sum(sizes)}")
    rows = int(np.prod(p, dtype=np.int64))
    if len(indices) and int(indices.max()) >= rows:
        raise ValueError(f"index {int(indices.max())} of a table of {rows} rows")
    digits = np.unravel_index(indices.astype(np.int64), p)
    table, start = np.ones((len(indices), 1, 1)), 0
    for k in range(count):
        core = cores[start : start + sizes[k]].astype(np.float64).reshape(p[k], r[k], -1)
        start += sizes[k]
        table = (table @ core[digits[k]]).reshape(len(indices), -1, r[k + 1])
    return table.reshape(-1)


KERNELS: dict[str, Callable[..., Array]] = {
    "decode.base64": base64,
    "decode.hex": hex,
    "scan.dfa": dfa,
    "scan.prefix": prefix,
    "math.softmax": softmax,
    "math.softmax_step": softmax_step,
    "math.matvec_fixed": matvec_fixed,
    "math.matmul": matmul,
    "tt.contract_step": contract_step,
    "tt.chain": chain,
    "tt.embedding": embedding,
}
