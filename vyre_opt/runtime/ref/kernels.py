# mypy: no-warn-return-any
"""The named kernels, computed directly on whole arrays.

Each takes its buffers in the order of its roles and its parameters by name, and
returns what it writes, from the first element on.  ValueError says why sizes or
contents do not fit.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

Array = np.ndarray

_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_SEXTETS = np.zeros(256, np.uint32)
_SEXTETS[np.frombuffer(_ALPHABET, np.uint8)] = np.arange(64)
_NIBBLES = np.zeros(256, np.uint8)
for _digits in (b"0123456789abcdef", b"0123456789ABCDEF"):
    _NIBBLES[np.frombuffer(_digits, np.uint8)] = np.arange(16)


def base64(text: Array) -> Array:
    """RFC 4648 up to the first '='; any other character that is not of the alphabet counts as 0 bits.

    Of a last group of 2 or 3 characters come 1 or 2 bytes, of a single one none.
    """
    padding = np.flatnonzero(text == ord("="))
    sextets = _SEXTETS[text[: padding[0]] if len(padding) else text]
    count = len(sextets) * 6 // 8
    groups = np.concatenate((sextets, np.zeros(-len(sextets) % 4, np.uint32))).reshape(-1, 4)
    word = (groups[:, 0] << 18) | (groups[:, 1] << 12) | (groups[:, 2] << 6) | groups[:, 3]
    decoded = np.stack((word >> 16, word >> 8, word), axis=1) & 0xFF
    return decoded.astype(np.uint8).reshape(-1)[:count]


def hex(text: Array) -> Array:
    """Two digits a byte, either case; another character counts as 0, a last odd one is left out."""
    digits = _NIBBLES[text[: len(text) // 2 * 2]]
    return (digits[0::2] << np.uint8(4)) | digits[1::2]


def dfa(text: Array, table: Array, accept: Array, warmup: int) -> Array:
    """For each byte the accepting number of the state after it, 0 for none.

    The DFA starts in state 0, `warmup` bytes before; `table[state * 256 + byte]` is the next.
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
    return accept[state]


def prefix(x: Array) -> Array:
    """Integers wrap; f32 is summed in f64 and rounded once."""
    if x.dtype == np.float32:
        return np.cumsum(x, dtype=np.float64).astype(np.float32)
    return np.cumsum(x, dtype=x.dtype)


def softmax(x: Array, columns: int) -> Array:
    """exp(x - max) / sum of them, over rows; computed in f64."""
    if columns < 1 or len(x) % columns:
        raise ValueError(f"{len(x)} elements are not rows of {columns}")
    rows = x.astype(np.float64).reshape(-1, columns)
    powers = np.exp(rows - rows.max(axis=1, keepdims=True, initial=-np.inf))
    return (powers / powers.sum(axis=1, keepdims=True)).reshape(-1)


def softmax_step(x: Array) -> Array:
    """floor((x_i << 16) / max(sum x, 1)) in u64, which holds the sum of 2^32 elements."""
    wide = x.astype(np.uint64)
    total = max(int(wide.sum()), 1)
    return ((wide << np.uint64(16)) // np.uint64(total)).astype(np.uint32)


def _signed(x: Array) -> Array:
    return x.view(np.int32).astype(np.int64)


def _fixed_sum(products: Array, axis: int, like: Array) -> Array:
    """16.16 products, each shifted back, summed modulo 2^32."""
    return (products >> 16).sum(axis=axis).astype(np.uint32).view(like.dtype)


def matvec_fixed(m: Array, x: Array) -> Array:
    """y_i = sum_j m_ij * x_j, m in rows."""
    if len(x) == 0 or len(m) % len(x):
        raise ValueError(f"a matrix of {len(m)} elements has no rows of {len(x)}")
    return _fixed_sum(_signed(m).reshape(-1, len(x)) * _signed(x), 1, m)


def contract_step(acc: Array, core: Array) -> Array:
    """out_j = sum_i acc_i * core_ij, core in rows; f32 is summed in f64 and rounded once."""
    if len(acc) == 0 or len(core) % len(acc):
        raise ValueError(f"a core of {len(core)} elements has no {len(acc)} rows")
    rows = core.reshape(len(acc), -1)
    if acc.dtype == np.float32:
        return (acc.astype(np.float64) @ rows.astype(np.float64)).astype(np.float32)
    return _fixed_sum(_signed(acc)[:, None] * _signed(rows), 0, core)


KERNELS: dict[str, Callable[..., Array]] = {
    "decode.base64": base64,
    "decode.hex": hex,
    "scan.dfa": dfa,
    "scan.prefix": prefix,
    "math.softmax": softmax,
    "math.softmax_step": softmax_step,
    "math.matvec_fixed": matvec_fixed,
    "tt.contract_step": contract_step,
}
