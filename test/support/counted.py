"""Kernels that need memory which begins as zeros: one counts by atomics, one adds to what is there."""

from __future__ import annotations

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, u32

__all__ = ["SIXTEEN", "add", "count"]

SIXTEEN = 16


@vyre.program(workgroup=64)
def count(x: Read[u32], bins: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i] % SIXTEEN, 1)


@vyre.program(workgroup=64)
def add(x: Read[u32], y: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = y[i] + x[i]
