"""Launches whose workgroups touch elements of one another are told, and those that do what they look like are not."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from support.each import each

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32


def told(call: Callable[[], object]) -> list[str]:
    """First lines of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message).splitlines()[0] for warning in caught]


@vyre.program
def shifted(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    y[r, :] = x[r + 1, :]


@vyre.program
def blurred(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    y[r, 0:16] = x[r, 0:16] + x.filled(0)[r + 1, 0:16]


@vyre.program
def moved_up(x: ReadWrite[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    x[r, :] = x[r + 1, :]


@vyre.program
def turned(x: ReadWrite[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    x[r, :] = x[(r + 1) % x.shape[0], :]


@vyre.program
def doubled(x: ReadWrite[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    x[r, :] = x[r, :] * 2.0


@vyre.program
def halves(x: ReadWrite[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    x[r, :] = x[r + 4, :]


def rows() -> np.ndarray:
    return np.ones((9, 16), np.float32)


def test_rows_that_are_left_out_on_purpose() -> None:
    """One workgroup less than there are rows is all there is where each reads the next row; what is filled beyond the edge may be read."""
    assert told(lambda: shifted[8](rows(), rows())) == []
    (message,) = told(lambda: shifted[7](rows(), rows()))
    assert message.startswith("this launch has 7 workgroups for the 9 rows of y")
    (message,) = told(lambda: blurred[8](rows(), rows()))
    assert message.startswith("this launch has 8 workgroups for the 9 rows of y")


MOVED: list[tuple[Callable[[], object], list[str]]] = [
    (
        lambda: moved_up[8](rows()),
        ["workgroup 1 stores to elements of x that workgroup 0 reads, and nothing orders the two"],
    ),
    (
        lambda: turned[9](rows()),
        ["workgroup 0 stores to elements of x that workgroup 8 reads, and nothing orders the two"],
    ),
    (lambda: doubled[9](rows()), []),
    (lambda: halves[4](rows()[:8]), []),
]


def test_rows_that_are_moved_in_place() -> None:
    def check(case: tuple[Callable[[], object], list[str]]) -> None:
        call, wanted = case
        assert told(call) == wanted

    each(MOVED, check)
