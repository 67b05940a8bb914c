"""Numbers that a pipeline passes to a launch: constants, its own numbers, and sizes that are known; no computed ones."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import DiagnosticError
from vyre_opt.lang import Read, Write, f32, u32


@vyre.program(workgroup=32)
def first(n: u32, source: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < n:
        y[i] = source[i] + 1


@vyre.pipeline
def known(n: u32, x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, 8)
    first[1](len(t), x, t)
    first[1](len(t) // 4 + 1, t, y)
    first[1](n, x, y)
    if t.shape[0] - 1 > min(len(t), 6):
        first[max(1, len(t) - 8)](t.size // 2 - 3, t, y)


def test_sizes_that_are_known() -> None:
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    known(1, x, y)
    assert y[:4].tolist() == [2, 3, 4, 0]


def test_what_to_write_in_place_of_a_computed_number() -> None:
    @vyre.pipeline
    def computed(n: u32, x: Read[f32], y: Write[f32]) -> None:
        t = vyre.buffer(f32, len(x))
        first[1](len(x) // 2, x, t)
        first[1](len(x), t, y)
        first[1](n + 1, t, y)

    with pytest.raises(DiagnosticError) as caught:
        computed.text()
    assert [(d.message, d.help) for d in caught.value.diagnostics] == [
        (
            f"a launch passes constants and numbers of the pipeline, and {text} is computed",
            help,
        )
        for text, help in [
            ("len(x) // 2", "take n out of first, and compute it there, from len(source)"),
            ("len(x)", "take a number as an argument of the pipeline, and pass that for n"),
            ("n + 1", "take a number as an argument of the pipeline, and pass that for n"),
        ]
    ]
