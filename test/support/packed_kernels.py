"""Kernels and pipelines that tests pack, and calls of them, right and wrong ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f32, u32
from vyre_opt.packs.processors import levels_of_this_machine

__all__ = ["CALLS", "FUNCTIONS", "LEVEL", "SHAPES", "WRONG_CALLS", "random"]

LEVEL = levels_of_this_machine()[0]


@vyre.program
def scale(x: Read[f32], y: Write[f32], alpha: f32 = 2.0) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = alpha * x[i] + 1.0


@vyre.program(workgroup=(8, 8))
def transpose(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    i, j = vyre.global_id(0), vyre.global_id(1)
    if i < x.shape[1] and j < x.shape[0]:
        y[i, j] = x[j, i]


@vyre.program
def centred(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    row = x[vyre.workgroup_id(0), :]
    y[vyre.workgroup_id(0), :] = row - vyre.max(row)


@vyre.program
def counted(x: Read[u32], counts: ReadWrite[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        vyre.atomic_add(counts, x[i] % 8, 1)


@vyre.program
def asserted(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    assert x[i] >= 0.0, "negative"
    y[i] = x[i]


@vyre.pipeline
def both(x: Read[f32], y: Write[f32], alpha: f32) -> None:
    t = vyre.buffer(f32, len(x))
    scale[vyre.ceil_div(len(x), 256)](x, t, alpha)
    scale[vyre.ceil_div(len(x), 256)](t, y, 3.0)


@vyre.pipeline
def repeated(x: ReadWrite[f32], n: u32) -> None:
    t = vyre.buffer(f32, len(x))
    for _ in range(3):
        scale[vyre.ceil_div(n, 256)](x, t)
        scale[vyre.ceil_div(n, 256)](t, x)


@vyre.pipeline
def centred_twice(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    t = vyre.buffer(f32, (x.shape[0], x.shape[1]))
    centred[x.shape[0]](x, t)
    centred[x.shape[0]](t, y)


FUNCTIONS = [scale, transpose, centred, counted, asserted, both, repeated, centred_twice]

_X, _ROWS, _NARROW = np.zeros(10, np.float32), np.zeros((3, 100), np.float32), np.zeros((3, 8), np.float32)
SHAPES: dict[str, Any] = {
    "centred": [(_ROWS, _ROWS), (_NARROW, _NARROW)],
    "both": [(_X, _X)],
    "centred_twice": [(_ROWS, _ROWS), (_NARROW, _NARROW)],
}


def random(*shape: int) -> np.ndarray:
    return np.random.default_rng(shape).standard_normal(shape, dtype=np.float32)


def _whole(n: int) -> np.ndarray:
    return np.random.default_rng(n).integers(0, 1 << 30, n, np.uint32)


Call = Callable[[Callable[[str], Any]], Any]
"""A call of a function that it gets by name; what it gives, an array that was written."""


def _written(call: Callable[..., Any], *args: Any, at: int = 1, **options: Any) -> Any:
    arrays = [arg.copy() if isinstance(arg, np.ndarray) else arg for arg in args]
    call(*arrays, **options)
    return arrays[at]


CALLS: dict[str, Call] = {
    "elements": lambda f: _written(f("scale")[4], random(1000), np.zeros(1000, np.float32)),
    "a number": lambda f: _written(f("scale")[4], random(1000), np.zeros(1000, np.float32), 0.5),
    "by name": lambda f: _written(f("scale")[(4, 1)], random(1000), np.zeros(1000, np.float32), alpha=7),
    "not contiguous": lambda f: _written(f("scale")[4], random(2000)[::2], np.zeros(1000, np.float32)),
    "no elements": lambda f: _written(f("scale")[1], random(0), np.zeros(0, np.float32)),
    "dimensions": lambda f: _written(f("transpose")[2, 4], random(30, 13), np.zeros((13, 30), np.float32)),
    "rows as packed": lambda f: _written(f("centred")[5], random(5, 100), np.zeros((5, 100), np.float32)),
    "other rows": lambda f: _written(f("centred")[4], random(4, 77), np.zeros((4, 77), np.float32)),
    "narrow rows": lambda f: _written(f("centred")[7], random(7, 8), np.zeros((7, 8), np.float32)),
    "other narrow rows": lambda f: _written(f("centred")[1], random(1, 5), np.zeros((1, 5), np.float32)),
    "a pipeline's rows": lambda f: _written(f("centred_twice"), random(5, 8), np.zeros((5, 8), np.float32)),
    "its other rows": lambda f: _written(f("centred_twice"), random(6, 3), np.zeros((6, 3), np.float32)),
    "its long rows": lambda f: _written(f("centred_twice"), random(2, 300), np.zeros((2, 300), np.float32)),
    "atomics": lambda f: _written(f("counted")[40], _whole(10_000), np.zeros(8, np.uint32)),
    "joined": lambda f: _written(f("both"), random(999), np.zeros(999, np.float32), 0.25),
    "not joined": lambda f: _written(f("both"), random(300), np.zeros(400, np.float32), 0.25),
    "repeated": lambda f: _written(f("repeated"), random(600), 600, at=0),
}

WRONG_CALLS: dict[str, Call] = {
    "a short array": lambda f: f("scale")[4](random(1000), np.zeros(10, np.float32)),
    "another type": lambda f: f("scale")[4](random(10).astype(np.int64), np.zeros(10, np.float32)),
    "one dimension too many": lambda f: f("transpose")[1, 1](random(10), np.zeros((1, 10), np.float32)),
    "a number that is none": lambda f: f("scale")[4](random(10), np.zeros(10, np.float32), "two"),
    "a missing array": lambda f: f("scale")[4](random(10)),
    "an unknown name": lambda f: f("scale")[4](random(10), np.zeros(10, np.float32), beta=1),
    "a wrong grid": lambda f: f("scale")[2.5](random(10), np.zeros(10, np.float32)),
    "rows that are not there": lambda f: f("centred")[7](random(5, 100), np.zeros((5, 100), np.float32)),
    "narrow rows that are not there": lambda f: f("centred")[9](random(5, 8), np.zeros((5, 8), np.float32)),
    "a pipeline's rows of two lengths": lambda f: f("centred_twice")(
        random(5, 8), np.zeros((5, 7), np.float32)
    ),
    "a false assert": lambda f: f("asserted")[1](random(256), np.zeros(256, np.float32)),
    "a number for an array": lambda f: f("counted")[1](1, np.zeros(8, np.uint32)),
    "read-only": lambda f: f("scale")[1](random(4), np.frombuffer(bytes(16), np.float32)),
    "in a launch of a pipeline": lambda f: f("both")(random(300), np.zeros(10, np.float32), 1.0),
}
"""Those that raise."""
