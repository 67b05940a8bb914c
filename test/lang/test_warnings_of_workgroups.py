"""Launches whose workgroups touch elements of one another are told, and those that do what they look like are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from support.each import each
from support.warned import warned

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32, i32, u32


def told(call: Callable[[], object]) -> list[str]:
    """First lines of the warnings of a call."""
    return [each.splitlines()[0] for each in warned(call)]


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


@vyre.program(workgroup=64)
def compacted(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if x[i] > 0.5:
        y[vyre.local_id(0)] = x[i]


@vyre.program(workgroup=64)
def of_one_workgroup(chosen: Read[f32], x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if chosen[i] > 0.5:
        y[vyre.local_id(0)] = x[i]


def test_elements_of_all_workgroups_at_the_places_of_one() -> None:
    """Which invocations store may be chosen by another array, so that no two meet."""
    x = np.ones(128, np.float32)
    (message,) = told(lambda: compacted[2](x, np.zeros(128, np.float32)))
    assert message.startswith("workgroups 0 and 1 of this launch, and others, store to y[vyre.local_id(0)]")
    assert told(lambda: of_one_workgroup[2](x, x, np.zeros(128, np.float32))) == []


@vyre.program(workgroup=64)
def largest(group: Read[u32], v: Read[i32], best: ReadWrite[i32]) -> None:
    i = vyre.global_id(0)
    if i < len(v):
        g = group[i]
        if v[i] > best[g]:
            best[g] = v[i]


@vyre.program(workgroup=64)
def reversed_largest(place: Read[u32], v: Read[i32], best: ReadWrite[i32]) -> None:
    i = vyre.global_id(0)
    if i < len(v) and v[i] > best[place[i]]:
        best[place[i]] = v[i]


@vyre.program(workgroup=64)
def relaxed(start: Read[u32], end: Read[u32], w: Read[u32], far: ReadWrite[u32]) -> None:
    e = vyre.global_id(0)
    if e < len(start):
        d = far[start[e]] + w[e]
        if d < far[end[e]]:
            far[end[e]] = d


def test_elements_that_a_comparison_with_them_stores_to() -> None:
    """Two invocations may pass at once where the numbers of the caller lead both to one element, and then an atomic is meant."""
    own, v = np.arange(64, dtype=np.uint32), np.arange(64, dtype=np.int32)
    race = "several invocations may store to {} at once, each its own value: this is a race, and one of them stays"
    assert told(lambda: largest[1](own // 4, v, np.zeros(64, np.int32))) == [race.format("best[g]")]
    assert told(lambda: relaxed[1](own[::-1].copy() // 2, own // 4, own, own.copy())) == [
        race.format("far[end[e]]")
    ]
    assert told(lambda: reversed_largest[1](own[::-1].copy(), v, np.zeros(64, np.int32))) == []
