"""Sums over whole parts of a row that leave the last elements out are told at a launch; those that have a tail, or a result a part, are not."""

from __future__ import annotations

from typing import Any

import numpy as np
from support.each import each
from support.warned import warned

import vyre_opt as vyre
from vyre_opt import parse
from vyre_opt.ir.warnings.launch_warnings import launch_warnings
from vyre_opt.ir.warnings.unreached_elements import LaunchedAt
from vyre_opt.lang import Read, ReadWrite, Write, f32


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


@vyre.program(workgroup=16)
def nested(a: Read[f32[:, :]], y: Write[f32]) -> None:
    r = vyre.global_id(0)
    if r < len(y):
        s = 0.0
        for t in range(a.shape[1] // 16):
            for k in range(16):
                s += a[r, t * 16 + k]
        y[r] = s


@vyre.program(workgroup=64)
def strided(x: Read[f32], y: Write[f32]) -> None:
    lane, s = vyre.local_id(0), 0.0
    for t in range(len(x) // 64):
        s += x[t * 64 + lane]
    s = vyre.workgroup_reduce(s, "add")
    if lane == 0:
        y[0] = s


@vyre.program(workgroup=(16, 16))
def tiled(a: Read[f32[:, :]], b: Read[f32[:, :]], c: Write[f32[:, :]]) -> None:
    ta, tb = vyre.shared(f32, (16, 16)), vyre.shared(f32, (16, 16))
    i, j, li, lj = vyre.global_id(1), vyre.global_id(0), vyre.local_id(1), vyre.local_id(0)
    s = 0.0
    for t in range(a.shape[1] // 16):
        ta[li, lj] = a[i, t * 16 + lj]
        tb[li, lj] = b[t * 16 + li, j]
        vyre.barrier()
        for k in range(16):
            s += ta[li, k] * tb[k, lj]
        vyre.barrier()
    c[i, j] = s


@vyre.program
def blocks(a: Read[f32[:, :]], b: Read[f32[:, :]], c: Write[f32[:, :]]) -> None:
    i, j = vyre.workgroup_id(0) * 32, vyre.workgroup_id(1) * 32
    total = vyre.zeros((32, 32), f32)
    for k in range(a.shape[1] // 16):
        total += a[i : i + 32, k * 16 : k * 16 + 16] @ b[k * 16 : k * 16 + 16, j : j + 32]
    c[i : i + 32, j : j + 32] = total


@vyre.program(workgroup=64)
def chunks(x: Read[f32], y: ReadWrite[f32]) -> None:
    i, s = vyre.global_id(0), 0.0
    chunk = len(x) // vyre.global_size(0)
    for k in range(chunk):
        s += x[i * chunk + k]
    vyre.atomic_add(y, 0, s)


@vyre.program(workgroup=64)
def with_a_tail(x: Read[f32], y: Write[f32]) -> None:
    lane, s = vyre.local_id(0), 0.0
    for t in range(len(x) // 64):
        s += x[t * 64 + lane]
    e = len(x) // 64 * 64
    if e + lane < len(x):
        s += x[e + lane]
    s = vyre.workgroup_reduce(s, "add")
    if lane == 0:
        y[0] = s


@vyre.program(workgroup=64)
def sums_of_parts(x: Read[f32], y: Write[f32]) -> None:
    lane = vyre.local_id(0)
    for t in range(len(x) // 64):
        s = vyre.workgroup_reduce(x[t * 64 + lane], "add")
        if lane == 0:
            y[t] = s


@vyre.program(workgroup=64)
def means_of_frames(x: Read[f32], y: Write[f32]) -> None:
    lane, s = vyre.local_id(0), 0.0
    for t in range(len(x) // 64):
        s += x[t * 64 + lane]
    y[lane] = s


@vyre.program(workgroup=1)
def power(x: Read[f32], y: Write[f32]) -> None:
    power = 0.0
    for t in range(len(x) // 64):
        frame = 0.0
        for k in range(64):
            frame += x[t * 64 + k]
        power += frame * frame
    y[0] = power


@vyre.program(workgroup=1)
def with_a_last_loop(x: Read[f32], y: Write[f32]) -> None:
    s = 0.0
    for t in range(len(x) // 64):
        for k in range(64):
            s += x[t * 64 + k]
    for k in range(len(x) // 64 * 64, len(x)):
        s += x[k]
    y[0] = s


@vyre.program(workgroup=64)
def rounded_up(x: Read[f32], y: Write[f32]) -> None:
    lane, s = vyre.local_id(0), 0.0
    for t in range(vyre.ceil_div(len(x), 64)):
        if t * 64 + lane < len(x):
            s += x[t * 64 + lane]
    s = vyre.workgroup_reduce(s, "add")
    if lane == 0:
        y[0] = s


@vyre.program(workgroup=1)
def pairs(x: Read[f32], w: Read[f32], y: Write[f32]) -> None:
    s = 0.0
    for t in range(len(x) // 2):
        s += abs(x[2 * t] - x[2 * t + 1]) * w[t]
    y[0] = s


@vyre.program(workgroup=1)
def four_a_round(x: Read[f32], w: Read[f32], y: Write[f32]) -> None:
    s = 0.0
    for t in range(len(x) // 4):
        s += x[4 * t] * w[0] + x[4 * t + 1] * w[1]
        s += x[4 * t + 2] * w[2]
        s = vyre.fma(x[4 * t + 3], w[3], s)
    y[0] = s


TOLD: list[tuple[Any, str, Any, list[np.ndarray]]] = [
    # a kernel, words of the warning, a grid, and arrays
    (
        nested,
        "a has 40 elements along dimension 1, and 2 rounds of 16 end at 32: the last 8 are not read",
        1,
        [ones(16, 40), ones(16)],
    ),
    (strided, "4 rounds of 64 end at 256: the last 44 are not read", 1, [ones(300), ones(1)]),
    (
        tiled,
        "write vyre.ceil_div(a.shape[1], 16) for the rounds",
        (2, 2),
        [ones(32, 40), ones(40, 32), ones(32, 32)],
    ),
    (
        blocks,
        "and a.filled(0) for a, which has 0 behind the end",
        (1, 1),
        [ones(32, 40), ones(40, 32), ones(32, 32)],
    ),
    (chunks, "2 rounds of 128 end at 256: the last 44 are not read", 2, [ones(300), ones(1)]),
    (strided, "0 rounds of 64 end at 0: the last 10 are not read", 1, [ones(10), ones(1)]),
]
TOLD.append(
    (four_a_round, "75 rounds of 4 end at 300: the last 2 are not read", 1, [ones(302), ones(4), ones(1)])
)
SILENT: list[tuple[Any, Any, list[np.ndarray]]] = [
    (nested, 1, [ones(16, 48), ones(16)]),
    (with_a_tail, 1, [ones(300), ones(1)]),
    (sums_of_parts, 1, [ones(300), ones(4)]),
    (means_of_frames, 1, [ones(300), ones(64)]),
    (power, 1, [ones(300), ones(1)]),
    (with_a_last_loop, 1, [ones(300), ones(1)]),
    (rounded_up, 1, [ones(300), ones(1)]),
    (pairs, 1, [ones(301), ones(301), ones(1)]),
    (tiled, (2, 2), [ones(32, 48), ones(48, 32), ones(32, 32)]),
    (chunks, 2, [ones(256), ones(1)]),
    (four_a_round, 1, [ones(300), ones(4), ones(1)]),
]


def said(kernel: Any, grid: Any, arrays: list[np.ndarray]) -> list[str]:
    return [text for text in warned(lambda: kernel._warn(grid, arrays, {})) if " rounds of " in text]


def test_elements_that_are_in_no_round_are_told() -> None:
    def check(case: tuple[Any, str, Any, list[np.ndarray]]) -> None:
        kernel, words, grid, arrays = case
        (warning,) = said(kernel, grid, arrays)
        assert words in warning

    each(TOLD, check)


def test_parts_that_are_whole_or_have_their_own_results_are_not_told() -> None:
    def check(case: tuple[Any, Any, list[np.ndarray]]) -> None:
        assert said(*case) == []

    each(SILENT, check)


TEXT = """vyre 2
program @total workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[1] write binding(1) live_out
  %l = local_id x
  %n = len @x
  %rounds = div %n, 64 : u32
  %s = for %t = 0 to %rounds step 1 iter(%a = 0.0 : f32) {
    %b = mul %t, 64 : u32
    %k = add %b, %l : u32
    %v = load @x[%k] : f32
    %c = add %a, %v : f32
    yield %c
  }
  %sum = workgroup_reduce<add> %s : f32
  %first = eq %l, 0 : u32
  if %first {
    store %sum, @y[0] : f32
  }
}
"""


def test_text() -> None:
    program = parse(TEXT).programs["total"]
    for count, expected in (
        (100, "go over the others behind the loop, or pass a multiple of 64 elements"),
        (128, ""),
    ):
        found = launch_warnings(program, (1, 1, 1), {"x": ones(count), "y": ones(1)}, {}, LaunchedAt(None))
        assert [each.help for each in found if " rounds of " in each.message] == [expected] * bool(expected)
