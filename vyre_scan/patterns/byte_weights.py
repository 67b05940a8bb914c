"""Weights of bytes: how often each is expected in searched data."""

from __future__ import annotations

import numpy as np

from ..arrays import Array

__all__ = ["WEIGHTS"]


def _weights() -> Array:
    """Expected frequency of each byte: half as in English text and programs, half as in random bytes."""
    text = np.full(256, 0.2)
    text[128:] = 0.02
    text[list(b"abcdefghijklmnopqrstuvwxyz")] = 2.5
    text[list(b"etaoinsr")] = 6.0
    text[list(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.,()\"'=-/:")] = 0.7
    text[ord(" ")] = 15.0
    text[ord("\n")] = 3.0
    return np.asarray(0.5 * text / text.sum() + 0.5 / 256)


WEIGHTS = _weights()
"""f64[256], the share of each byte."""
