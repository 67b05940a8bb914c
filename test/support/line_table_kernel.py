"""A kernel that calls a function; each line with a comment has code of its own."""

from __future__ import annotations

import vyre_opt as vyre
from vyre_opt import Read, Write, f32, global_id

__all__ = ["kernel"]


@vyre.func
def shade(v: f32) -> f32:
    root: f32 = vyre.sqrt(v)  # a
    shaded: f32 = root / v  # b
    return shaded


@vyre.program
def kernel(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = shade(
            x[i]  # c
        )
