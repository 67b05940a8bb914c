"""Maxima and minima that begin with a 0 which counts in them are told, with the number to begin with."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from support.modules import written_module
from support.warned import kernel_warnings, warned

from vyre_opt import parse, verify

HEAD = """import math
import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def kernel(x: Read[f32], c: Read[u32], s: Read[i8], y: Write[f32], z: Write[u32], w: Write[i8], rows: Read[f32[:, :]]):
    i = vyre.global_id(0)
"""
LOOP = "for j in range(len(x)):"
TOLD = [
    # lines, words of the warning, and edits that make them right
    (f"best = 0.0\n{LOOP}\n    best = max(best, x[j])\ny[i] = best", "where all of x[j] are below it", [("0.0", "-math.inf")]),
    (f"best = 0.0\n{LOOP}\n    best = max(best, x[j])\ny[i] = best", "write best = -math.inf", [("max(best, x[j])", "max(best, max(x[j], 0.0))")]),
    (f"best = 0.0\n{LOOP}\n    if j > 2:\n        best = max(max(best, x[j]), x[0])\ny[i] = best", "write best = -math.inf", [("0.0", "-math.inf")]),
    (f"best = 0.0\n{LOOP}\n    for k in range(2):\n        best = max(best, x[j + k])\ny[i] = best", "write best = -math.inf", [("0.0", "-math.inf")]),
    (f"low = u32(0)\n{LOOP}\n    if c[j] < low:\n        low = c[j]\nz[i] = low", "begins with 0, and no u32 is below it", [("u32(0)", "u32(4294967295)")]),
    (f"low = u32(0)\n{LOOP}\n    low = min(low, c[j])\nz[i] = low", "write low = u32(4294967295)", [("u32(0)", "u32(4294967295)")]),
    (f"most = i8(0)\n{LOOP}\n    if most < s[j]:\n        most = s[j]\nw[i] = most", "write most = i8(-128)", [("i8(0)", "i8(-128)")]),
    (f"near = vyre.local(f32, 2)\n{LOOP}\n    d = abs(x[i] - x[j])\n    if d < near[0]:\n        near[1] = near[0]\n        near[0] = d\ny[i] = near[0]",
     "write for k in range(2): near[k] = math.inf", [("2)\n", "2)\nfor k in range(2): near[k] = math.inf\n")]),
    ("b = x[i] if i < len(x) else 0.0\ny[i] = vyre.workgroup_reduce(b, 'max')", "a 0 counts in this maximum", [("0.0", "-math.inf")]),
    ("b = 0.0\nif i < len(x):\n    b = x[i]\ny[i] = vyre.workgroup_reduce(b, 'min')", "write b = math.inf", [("0.0", "math.inf")]),
]  # fmt: skip
SILENT = [
    f"best = 0.0\n{LOOP}\n    best = max(best, abs(x[j]))\ny[i] = best",
    f"best = 0.0\n{LOOP}\n    best = max(best, x[j] * x[j])\ny[i] = best",
    f"best = 0.0\n{LOOP}\n    best = max(best, vyre.exp(x[j]))\ny[i] = best",
    f"best = u32(0)\n{LOOP}\n    best = max(best, c[j])\nz[i] = best",
    f"best = 0.0\nhere = 0.0\n{LOOP}\n    here = max(0.0, here + x[j])\n    best = max(best, here)\ny[i] = best",
    f"low = 0.0\ntotal = 0.0\n{LOOP}\n    total += x[j]\n    low = min(low, total)\ny[i] = low",
    f"best = 0.0\n{LOOP}\n    best = max(best, x[j] - x[i])\ny[i] = best",
    "y[i] = max(x[i], 0.0)",
    "b = abs(x[i]) if i < len(x) else 0.0\ny[i] = vyre.workgroup_reduce(b, 'max')",
    "b = x[i] if i < len(x) else 0.0\ny[i] = vyre.workgroup_reduce(b, 'add')",
    f"low = u32(0)\n{LOOP}\n    if low == 0 or c[j] < low:\n        low = c[j]\nz[i] = low",
]  # fmt: skip


def _warned(tmp_path: Path, lines: str, name: str) -> list[str]:
    given = kernel_warnings(tmp_path, HEAD, lines, name)
    return [each for each in given if " 0" in each.partition("\n")[0]]


def test_a_zero_that_counts_is_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    for number, (lines, words, edits) in enumerate(TOLD):
        (warning,) = _warned(tmp_path, lines, f"told_{number}")
        assert words in warning, lines
        for old, new in edits:
            assert old in lines
            lines = lines.replace(old, new, 1)
        assert _warned(tmp_path, lines, f"right_{number}") == [], lines


def test_a_zero_that_is_right_is_not_told(tmp_path: Path) -> None:
    for number, lines in enumerate(SILENT):
        assert _warned(tmp_path, lines, f"silent_{number}") == [], lines


TEXT = """vyre 2
program @top workgroup(1) {{
  buffer @x : {type}[?] read binding(0)
  buffer @m : {type}[1] write binding(1)
  %n = len @x
  %best = for %k = 0 to %n step 1 iter(%b = {zero} : {type}) {{
    %v = load @x[%k] : {type}
    %c = {op} %b, %v : {type}
    yield %c
  }}
  store %best, @m[0] : {type}
}}
"""


def test_a_text_is_told_the_number_of_its_type() -> None:
    for type, op, number in (("f32", "max", "-inf"), ("f32", "min", "inf"), ("i16", "max", "-32768"), ("u8", "min", "255")):  # fmt: skip
        zero = "0.0" if type == "f32" else "0"
        (warning,) = verify(parse(TEXT.format(type=type, op=op, zero=zero)))
        assert warning.help == f"write {number} for the 0"
        assert verify(parse(TEXT.format(type=type, op=op, zero=number))) == []
    assert verify(parse(TEXT.format(type="u8", op="max", zero="0"))) == []


LAUNCHED = """import math
import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def keep(x: Read[{type}], m: ReadWrite[{type}]):
    i = vyre.global_id(0)
    if i < len(x):
        vyre.atomic_{op}(m, 0, {value})

@vyre.program(workgroup=1)
def copy(m: Read[{type}], y: Write[{type}]):
    y[0] = m[0]

@vyre.pipeline
def kernel(x: Read[{type}], y: Write[{type}]):
    m = vyre.zeros(1, {type})
    {fill}
    keep[vyre.ceil_div(len(x), 64)](x, m)
    copy[1](m, y)
"""
LAUNCHES = [
    # the type, the op, the value, the fill that is right; whether 0 is wrong
    ("f32", "max", "x[i]", "vyre.fill(m, -math.inf)", True),
    ("u32", "min", "x[i]", "vyre.fill(m, 4294967295)", True),
    ("i32", "max", "x[i]", "vyre.fill(m, -2147483648)", True),
    ("f32", "max", "abs(x[i])", "vyre.fill(m, 0)", False),
    ("u32", "max", "x[i]", "vyre.fill(m, 0)", False),
]


def test_a_buffer_of_zeros_is_told_where_a_launch_keeps_a_maximum_in_it(tmp_path: Path) -> None:
    for number, (type, op, value, fill, is_wrong) in enumerate(LAUNCHES):
        dtype = {"f32": np.float32, "u32": np.uint32, "i32": np.int32}[type]
        x = np.array([-3, -2], np.int64).astype(dtype) if type != "u32" else np.array([3, 2], dtype)
        for text, expected in (("", is_wrong), (fill, False)):
            module = written_module(
                tmp_path,
                LAUNCHED.format(type=type, op=op, value=value, fill=text),
                f"filled_{number}_{len(text)}",
            )
            given = warned(partial(module.kernel._warn, None, (x, np.ones(1, dtype)), {}))
            told = [each for each in given if "begins with 0" in each]
            assert [fill in each for each in told] == [True] * expected, (type, op, value)


def test_an_array_of_zeros_is_told_where_numbers_are_below_it(tmp_path: Path) -> None:
    text = LAUNCHED.format(type="f32", op="max", value="x[i]", fill="")
    x = np.array([1, 2], np.float32)
    for number, (read, start, expected) in enumerate(((x, 0, False), (-x, 0, True), (-x, -np.inf, False))):
        keep = written_module(tmp_path, text, f"zeros_{number}").keep
        given = warned(partial(keep._warn, 1, (read, np.full(1, start, np.float32)), {}))
        assert ["fill m with -math.inf" in each for each in given] == [True] * expected
