"""Kernels and pipelines in Python, whose calls are recorded.  Messages name their lines: an edit asks for a new record."""

from __future__ import annotations

from typing import Annotated, Any

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

__all__ = ["PIPELINES", "PROGRAMS"]

Matrix = Annotated[f32, :, :]
Narrow = Annotated[i32, :, 4]
Volume = Annotated[u16, :, :, :]


@vyre.program(workgroup=64)
def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(y) and i < len(x):
        y[i] = a * x[i] + y[i]


@vyre.program(workgroup=32)
def unguarded(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] + 1.0


@vyre.program(workgroup=(8, 8))
def transpose(x: Read[Matrix], y: Write[Matrix]) -> None:
    row, column = vyre.global_id(1), vyre.global_id(0)
    if row < len(x) and column < x.shape[1] and column < len(y) and row < y.shape[1]:
        y[column, row] = x[row, column]


@vyre.program(workgroup=(4, 4))
def narrow(k: i32, x: Read[Narrow], y: ReadWrite[Narrow]) -> None:
    i, j = vyre.global_id(0), vyre.global_id(1)
    if i < len(y) and i < len(x) and j < 4:
        y[i, j] += k * x[i, j]


@vyre.program(workgroup=(4, 2, 2))
def volume(x: Read[Volume], y: Write[Volume]) -> None:
    i, j, k = vyre.global_id(2), vyre.global_id(1), vyre.global_id(0)
    planes, rows, columns = x.shape
    if i < planes and j < rows and k < columns and i < len(y) and j < y.shape[1] and k < y.shape[2]:
        y[i, j, k] = x[i, j, k] + u16(k)


@vyre.program(workgroup=16, grid=2)
def alone(first: u32, y: Write[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = first + i


@vyre.program(workgroup=1)
def integers(a: u8, b: i8, c: u16, d: i16, e: u32, f: i32, g: u64, h: i64, y: Write[i64]) -> None:
    y[0] = i64(a) + i64(b) + i64(c) + i64(d) + i64(e) + i64(f) + i64(g) + h


@vyre.program(workgroup=1)
def others(a: f16, b: bf16, c: f32, d: f64, flag: bool, y: Write[f64]) -> None:
    y[0] = f64(a) + f64(b) + f64(c) + d if flag else d


@vyre.program(workgroup=32)
def halves(x: Read[f16], y: Write[f16]) -> None:
    i = vyre.global_id(0)
    if i < len(x) and i < len(y):
        y[i] = x[i] * 0.5


@vyre.program(workgroup=32)
def short_floats(x: Read[bf16], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x) and i < len(y):
        y[i] = f32(x[i])


@vyre.program(workgroup=32)
def quads(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x) // 4 and i < len(y) // 4:
        y.vec(4)[i] = x.vec(4)[i] * 2.0


@vyre.program(workgroup=32)
def tally(data: Read[u8], bins: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(data) and len(bins) > 0:
        vyre.atomic_add(bins, u32(data[i]) % len(bins), 1)


@vyre.program(workgroup=32)
def turned(x: Read[i64], y: Write[i64]) -> None:
    tile = vyre.shared(i64, 32)
    at, i = vyre.local_id(0), vyre.global_id(0)
    tile[at] = x[i] if i < len(x) else 0
    vyre.barrier()
    if i < len(y):
        y[i] = tile[31 - at]


@vyre.program(workgroup=8)
def stepped(step: i32, y: ReadWrite[f64]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        for _ in range(0, 8, step):
            y[i] += 1.0


@vyre.program(workgroup=32)
def flags(x: Read[f32], y: Write[bool]) -> None:
    i = vyre.global_id(0)
    if i < len(x) and i < len(y):
        y[i] = x[i] > 0.0


@vyre.program(workgroup=32)
def scale(k: f32, x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x) and i < len(y):
        y[i] = k * x[i]


@vyre.program(workgroup=32)
def smooth(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    n = len(x)
    if i < n and i < len(y):
        y[i] = 0.5 * (x[i] + x[i + 1]) if i + 1 < n else x[i]


@vyre.pipeline
def smoothed(x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    smooth[vyre.ceil_div(len(x), 32)](x, t)
    smooth[vyre.ceil_div(len(x), 32)](t, y)


@vyre.pipeline
def heat(x: ReadWrite[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    smooth[vyre.ceil_div(len(x), 32)](x, t)
    smooth[vyre.ceil_div(len(x), 32)](t, x)


@vyre.pipeline
def heated(k: f32, x: ReadWrite[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    for _ in range(3):
        smooth[vyre.ceil_div(len(x), 32)](x, t)
        smooth[vyre.ceil_div(len(x), 32)](t, x)
    scale[vyre.ceil_div(len(x), 32)](k, x, y)


@vyre.pipeline
def two(k: f32, x: Read[f32], y: Write[f32], z: Write[f32]) -> None:
    scale[vyre.ceil_div(len(x), 32)](k, x, y)
    smooth[vyre.ceil_div(len(x), 32)](x, z)


@vyre.pipeline
def counted(text: Read[u8], bins: Write[u32]) -> None:
    decoded = vyre.buffer(u8, len(text) // 2)
    vyre.decode.hex(text, decoded)
    vyre.fill(bins, 0)
    tally[vyre.ceil_div(len(decoded), 32)](decoded, bins)


@vyre.pipeline
def ranks(x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    scale[vyre.ceil_div(len(x), 32)](2.0, x, t)
    vyre.scan.prefix(t, y)


@vyre.pipeline
def prefixes(n: u32, x: Read[f32], y: Write[f32]) -> None:
    scale[vyre.ceil_div(n, 32)](0.5, x, y)


@vyre.pipeline
def sheets(x: Read[Matrix], y: Write[Matrix]) -> None:
    t = vyre.buffer(f32, (x.shape[1], len(x)))
    transpose[vyre.ceil_div(x.shape[1], 8), vyre.ceil_div(len(x), 8)](x, t)
    transpose[vyre.ceil_div(len(x), 8), vyre.ceil_div(x.shape[1], 8)](t, y)


_NUMBERS = (saxpy, unguarded, transpose, narrow, volume, alone, integers, others, halves, short_floats)
_MORE = (quads, tally, turned, stepped, flags, scale, smooth)
PROGRAMS: dict[str, Any] = {kernel.function.__name__: kernel for kernel in (*_NUMBERS, *_MORE)}
PIPELINES: dict[str, Any] = {
    each.function.__name__: each for each in (smoothed, heat, heated, two, counted, ranks, prefixes, sheets)
}
