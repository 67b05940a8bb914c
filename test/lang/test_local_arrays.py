"""Arrays of an invocation's own, at indices that are computed, compared with lists of Python."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.modules import written_module

import vyre_opt
import vyre_opt as vyre
from vyre_opt.lang import Int, Kernel, Read, ReadWrite, Write, f32, i32, u8, u32, u64

TARGETS = ("cpu", "ref")


@vyre.program(workgroup=32)
def histograms(x: Read[u8[:, :]], y: Write[u32[:, :]]) -> None:
    """Each invocation counts the bytes of its row."""
    i = vyre.global_id(0)
    if i < len(x):
        bins = vyre.local(u32, 7)
        for k in range(x.shape[1]):
            bins[x[i, k] % 7] += 1
        for k in range(7):
            y[i, k] = bins[k]


@pytest.mark.parametrize("target", TARGETS)
def test_a_histogram_of_each_invocation(target: str) -> None:
    x, y = np.random.default_rng(1).integers(0, 256, (40, 60)).astype(np.uint8), np.zeros((40, 7), np.uint32)
    histograms.options(target=target)[2](x, y)
    assert y.tolist() == [np.bincount(row % 7, minlength=7).tolist() for row in x]


@cache
def shuffled(count: int) -> Kernel:
    """Writes to and reads from an array of so many elements, in one invocation."""

    @vyre.program(workgroup=1)
    def kernel(at: Read[Int], values: Read[i32], y: Write[i32]) -> None:
        a = vyre.local(i32, count)
        for k in range(len(at)):
            a[at[k]] = values[k] - a[at[k]]
        for k in range(count):
            y[k] = a[k]

    return kernel


@pytest.mark.parametrize("count", [1, 2, 7, 64])
def test_reads_and_writes_at_indices_of_each_type(count: int) -> None:
    rng = np.random.default_rng(count)
    types = (np.uint8, np.int8, np.uint16, np.int32, np.uint32, np.int64, np.uint64)
    for dtype in types if count < 64 else (np.int8, np.uint64):
        at, values = rng.integers(0, count, 50).astype(dtype), rng.integers(-99, 99, 50).astype(np.int32)
        expected = [0] * count
        for index, value in zip(at.tolist(), values.tolist(), strict=True):
            expected[index] = value - expected[index]
        for target in TARGETS:
            y = np.zeros(count, np.int32)
            shuffled(count).options(target=target)[1](at, values, y)
            assert y.tolist() == expected, (target, dtype)


@vyre.func
def ramp(step: f32) -> Any:
    a = vyre.local(f32, 4)
    for k in range(4):
        a[k] = step * f32(k)
    return a


@vyre.func
def total(a: Any) -> f32:
    result = 0.0
    for k in range(len(a)):
        result += a[k]
    return result


@vyre.program(workgroup=1, grid=1)
def of_several_kinds(n: u32, counter: ReadWrite[u32], y: Write[f32]) -> None:
    block = vyre.local(f32, (2, 3))
    rows, columns = block.shape
    for r in range(rows):
        for c in range(columns):
            block[r, c] = f32(10 * r + c)
    at = (n - 1, n)
    block[at] += 100.0
    if n > 1:
        block[0, n - 1] = -1.0
    else:
        block[0, 0] = -2.0
    y[0] = block[0, 0]
    y[1] = block[0, 1]
    y[2] = block[1, 2]
    flags = vyre.local(bool, 3)
    flags[n] = True
    y[3] = 1.0 if flags[2] and not flags[0] else 0.0
    b = ramp(2.0)
    b[vyre.atomic_add(counter, 0, 1)] += 0.5
    b[n] = 7.0
    y[4] = total(b)
    k = 0
    while b[k] < 5.0:
        b[k] = b[k] + 3.0
        k += 1
    y[5] = b[0] + 10.0 * b[1] + 100.0 * b[2]


@pytest.mark.parametrize("target", TARGETS)
def test_dimensions_branches_loops_and_functions(target: str) -> None:
    counter, y = np.zeros(1, np.uint32), np.zeros(6, np.float32)
    of_several_kinds.options(target=target)(2, counter, y)
    # block is [[0, -1, 2], [10, 11, 112]]; b is [0.5, 2, 7, 6], then [3.5, 5, 7, 6]
    assert y.tolist() == [0, -1, 112, 1, 15.5, 3.5 + 50 + 700]
    assert counter[0] == 1, "the index of += is computed once"


def test_elements_are_in_registers() -> None:
    assert histograms.text().count("buffer") == 2
    assert ".local" not in histograms.ptx("sm_90")


@vyre.program(workgroup=1, grid=1)
def inside(n: u32, x: Read[u8], y: Write[f32]) -> None:
    a = vyre.local(f32, 8)
    for k in range(8):
        a[k] = f32(k)
    for k in range(7, -1, -1):
        a[k] += a[7 - k]
    for k in range(min(n, 8)):
        a[k] += a[n % 8] + a[x[k] & 7] + a[min(n, 7)]
    y[0] = a[u32(x[0]) // 32]


@vyre.program(workgroup=1, grid=1)
def perhaps_outside(n: u32, m: i32, x: Read[u8], y: Write[f32]) -> None:
    a = vyre.local(f32, 8)
    for k in range(9):
        a[k] = f32(k)
    for k in range(-1, 8):
        a[k] += 1.0
    for k in range(n):
        a[k] += a[m % 8] + a[x[k] & 8] + a[m & 7]
    y[0] = a[7 - n % 9]
    assert m < 8, "m is small"


def test_an_index_that_is_surely_inside_costs_no_check() -> None:
    assert inside.text().count("assert") == 0
    assert perhaps_outside.text().count("assert") == 6
    assert histograms.text().count("assert") == 0


@vyre.program(workgroup=1, grid=1)
def at_signed(n: i32, y: Write[i32]) -> None:
    a = vyre.local(i32, 5)
    a[1] = 1
    y[0] = a[n]


@vyre.program(workgroup=1, grid=1)
def at_wide(n: u64, y: Write[i32]) -> None:
    a = vyre.local(i32, (2, 3))
    a[1, n] = 1
    y[0] = a[1, 0]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("passes", ["default", None])
def test_an_index_outside_is_a_fault_at_its_place(target: str, passes: str | None) -> None:
    y = np.zeros(1, np.int32)
    for number in (5, -1, 2**31 - 1, -(2**31)):
        with pytest.raises(vyre_opt.ProgramError, match=r"y\[0\] = a\[n\]") as caught:
            at_signed.options(target=target, passes=passes)(number, y)
        assert "n is an index of a: 0 to 4" in str(caught.value)
    for number in (3, 2**32, 2**63):
        with pytest.raises(vyre_opt.ProgramError, match="n is an index of a: 0 to 2"):
            at_wide.options(target=target, passes=passes)(number, y)
    at_signed.options(target=target, passes=passes)(1, y)
    assert y[0] == 1


WRONG = {
    "a = vyre.local(f32, 65)\ny[0] = a[n]": ("a local array has at most 64 elements", "write vyre.shared"),
    "a = vyre.local(f32, n)\ny[0] = a[n]": (
        "the size of a local array is known when the kernel is translated",
        "",
    ),
    "a = vyre.local(f32, 0)\ny[0] = a[n]": ("1 or more elements along a dimension, not 0", ""),
    "a = vyre.local(f32, (1, 1, 1, 1))\ny[0] = 0.0": ("1 to 3 dimensions, not 4", ""),
    "a = vyre.local(3, 4)\ny[0] = a[n]": ("the elements of a local array have a type such as f32", ""),
    "a = vyre.local(f32)\ny[0] = a[n]": ("vyre.local needs size", "it is vyre.local(dtype, size)"),
    "a = vyre.local(f32, 4)\ny[0] = a[4]": ("4 is no index of a, which has 0 to 3 here", ""),
    "a = vyre.local(f32, 4)\ny[0] = a[-1]": ("-1 is no index of a", ""),
    "a = vyre.local(f32, 4)\ny[0] = a[1.5]": ("an index is an integer, not 1.5", ""),
    "a = vyre.local(f32, 4)\ny[0] = a[y_of(1.0)]": ("an index is an integer, not f32", "write u32("),
    "a = vyre.local(f32, 4)\ny[0] = a[n, n]": ("a takes 1 indices, not 2", ""),
    "a = vyre.local(f32, 4)\na[n] = n\ny[0] = a[n]": ("n is u32, where f32 is wanted", "write f32(n)"),
    "a = vyre.local(f32, 4)\nb = a\ny[0] = b[n]": (
        "a local array has one name",
        "copy its elements in a loop",
    ),
    "a = vyre.local(f32, 4)\nt = (a, n)\ny[0] = t[0][n]": (
        "a local array has one name",
        "copy its elements in a loop",
    ),
    "a = vyre.local(f32, 4)\nb = same(a)\ny[0] = b[n]": ("same returns a local array that it was given", ""),
    "a = vyre.local(f32, 4)\nchange(a)\ny[0] = a[n]": (
        "a is an argument, and a function gets what a local array holds",
        "return what",
    ),
    "a = vyre.local(f32, 4)\ny[0] = a": ("a local array of 4 is no value", ""),
    "a = vyre.local(f32, 4)\ny[0] = (a + a)[0]": ("+ takes no local arrays", "in a loop"),
    "a = vyre.local(u32, 4)\ny[a] = 1.0": ("a local array of 4 is no value", ""),
    "a = vyre.local(f32, 4)\ny[0] = a[0:2]": ("a is a local array, and has no slices", "write a loop"),
    "a = vyre.local(f32, 4)\nfor k in range(n):\n    a = vyre.local(f32, 3)\ny[0] = a[n]": (
        "a is a tuple of another length",
        "",
    ),
    "a = vyre.local(f32, (2, 3))\nif n > 1:\n    a = vyre.local(f32, (3, 2))\ny[0] = a[1, 1]": (
        "a has another type in each branch of this if:",
        "",
    ),
}
"""Bodies, and what is said of each: a part of the first message, and of its help."""

HEAD = """\
import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.func
def same(a):
    return a

@vyre.func
def y_of(a) -> f32:
    return a

@vyre.func
def change(a):
    a[0] = 1.0
"""


def test_what_is_wrong_is_told_with_a_remedy(tmp_path: Path) -> None:
    text = HEAD
    for number, body in enumerate(WRONG):
        lines = "".join(f"    {line}\n" for line in body.split("\n"))
        text += f"\n@vyre.program\ndef wrong_{number}(y: Write[f32], n: u32):\n{lines}"
    module = written_module(tmp_path, text, "wrong")

    def check(body: str) -> None:
        message, help = WRONG[body]
        with pytest.raises(vyre_opt.DiagnosticError) as caught:
            getattr(module, f"wrong_{[*WRONG].index(body)}").text()
        diagnostic = caught.value.diagnostics[0]
        assert message in diagnostic.message
        assert help in (diagnostic.help or "")

    each(WRONG, check)
