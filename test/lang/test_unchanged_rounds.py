"""Loops all of whose rounds add the same are told, and the remedy is right; those that repeat on purpose, or come nearer, are not."""

from __future__ import annotations

from pathlib import Path

from support.warned import check_silent, check_told, kernel_warnings

from vyre_opt import parse, verify

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def kernel(x: Read[f32], p: Read[u32], rows: Read[f32[:, :]], n: u32, y: ReadWrite[f32], z: Write[u32], w: Write[f32[:, :]]):
    i = vyre.global_id(0)
"""
TOLD = [
    # lines, words of the warning, and an edit that makes them right
    ("s = 0.0\nfor k in range(n):\n    s += x[i]\ny[i] = s", "nothing in it goes by k", ("+= x[i]", "+= x[k]")),
    ("s = 0.0\nfor k in range(n):\n    s += x[i]\ny[i] = s", "name it _", ("for k", "for _")),
    ("for k in range(n):\n    y[i] += x[i]", "reads x[i] again", ("+= x[i]", "+= x[k]")),
    ("s = 0.0\nfor j in range(rows.shape[1]):\n    for k in range(3):\n        s += rows[i, j]\ny[i] = s", "goes by k", ("[i, j]", "[j, k]")),
    ("s = 0.0\nfor j in range(rows.shape[1]):\n    for k in range(3):\n        s += rows[i, k]\ny[i] = s", "goes by j", ("[i, k]", "[j, k]")),
    ("s = u32(0)\nfor j in range(len(x)):\n    if x[i] > 0.5:\n        s += 1\nz[i] = s", "reads x[i] again", ("x[i] >", "x[j] >")),
    ("s = 0.0\nfor k in range(rows.shape[1]):\n    s = vyre.fma(rows[i, 0], x[0], s)\ny[i] = s", "reads rows[i, 0] again", ("x[0]", "x[k]")),
    ("low = x[0]\nfor k in range(len(x)):\n    low = min(low, x[i])\ny[i] = low", "reads x[i] again", ("low, x[i]", "low, x[k]")),
]  # fmt: skip
TOLD += [
    (
        "k, s = u32(0), 0.0\nwhile k < n:\n    s += x[i]\n    k += 1\ny[i] = s",
        "take k for an index",
        ("+= x[i]", "+= x[k]"),
    ),
    (
        "k = u32(0)\nwhile k < n:\n    y[i] += x[i]\n    k += 1",
        "nothing in it goes by k",
        ("+= x[i]", "+= x[k]"),
    ),
]
SILENT = [
    "v, k = 100.0, u32(0)\nwhile v > 1.0:\n    v -= x[i]\n    k += 1\nz[i] = k",
    "k, s = i, 0.0\nwhile k < len(x):\n    s += x[k]\n    k += vyre.global_size(0)\ny[i] = s",
    "at, k = i, u32(0)\nwhile p[at] != at:\n    at = p[at]\n    k += 1\nz[i] = k",
    "k, s = 1, 0.0\nwhile k < 100:\n    s += x[i] * f32(k)\n    k *= 2\ny[i] = s",
    "k, s = 0, 0.0\nwhile k < 100:\n    s += x[i]\n    if s > 10.0:\n        break\n    k += 1\ny[i] = s",
    "s = 0.0\nfor k in range(n):\n    at = p[i]\n    while at > 0:\n        s += x[at]\n        at //= 2\ny[i] = s",
    "v = 1.0\nfor k in range(n):\n    v = 0.5 * (v + x[i] / v)\ny[i] = v",
    "v = 1.0\nfor k in range(n):\n    v *= x[i]\ny[i] = v",
    "v = 0.0\nfor k in range(n):\n    v = v * v + x[i]\ny[i] = v",
    "for k in range(n):\n    y[i] = y[i] * 0.5 + x[i]",
    "at = i\nfor k in range(n):\n    at = p[at]\nz[i] = at",
    "at, s = i, 0.0\nfor k in range(n):\n    s += x[at]\n    at += 64\ny[i] = s",
    "s = 0.0\nfor k in range(1):\n    s += x[i]\ny[i] = s",
    "count = u32(0)\nfor k in range(n):\n    count += 1\nz[i] = count",
    "s = 0.0\nfor k in range(n):\n    s += x[i] * f32(k)\ny[i] = s",
    "s = 0.0\nfor k in range(n):\n    s += x[i]\n    if s > 100.0:\n        s -= 100.0\ny[i] = s",
]  # fmt: skip


def test_loops_that_add_the_same_are_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    check_told(tmp_path, HEAD, TOLD, "each round")


def test_loops_that_repeat_are_not_told(tmp_path: Path) -> None:
    check_silent(tmp_path, HEAD, SILENT, "each round")


def test_rows_of_slices(tmp_path: Path) -> None:
    head = HEAD.replace("(workgroup=64)", "").replace("global_id", "workgroup_id")
    lines = "total = vyre.zeros((16, 16), f32)\nfor k in range(rows.shape[1] // 16):\n    total += rows[0:16, 0:16] @ rows[0:16, i:i + 16]\nw[0:16, 0:16] = total"
    (warning,) = [each for each in kernel_warnings(tmp_path, head, lines, "slices") if "each round" in each]
    assert "reads rows[0:16, 0:16] again" in warning
    right = lines.replace("rows[0:16, 0:16] @", "rows[0:16, k * 16 : k * 16 + 16] @")
    assert not [each for each in kernel_warnings(tmp_path, head, right, "right") if "each round" in each]


TEXT = """vyre 2
program @total workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %n = len @x
  %zero = const 0.0 : f32
  %s = for %k = 0 to %n step 1 iter(%a = %zero : f32) {
    %v = load @x[%i] : f32
    %b = add %a, %v : f32
    yield %b
  }
  store %s, @y[%i] : f32
}
"""


def test_text() -> None:
    (warning,) = [each for each in verify(parse(TEXT)) if "each round" in each.message]
    assert (
        warning.message
        == "each round of this loop reads @x again and adds the same: nothing in it goes by %k"
    )
    assert warning.help == "take %k for an index; where the same is to be added several times, name it %_k"
    for old, new in (("@x[%i]", "@x[%k]"), ("%k =", "%_k ="), ("add %a", "mul %a")):
        assert not [each for each in verify(parse(TEXT.replace(old, new))) if "each round" in each.message]
