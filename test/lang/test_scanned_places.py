"""Elements that are stored at an inclusive scan of what is kept are told, and the remedy is right; places that are right are not."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.modules import written_module
from support.warned import check_silent, check_told

from vyre_opt import parse, verify

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def kernel(x: Read[f32], flags: Read[u32], y: ReadWrite[f32], ends: ReadWrite[u32], n: ReadWrite[u32]):
    l, i = vyre.local_id(0), vyre.global_id(0)
    v = x[i]
"""
KEPT = "at = vyre.workgroup_scan(u32(v > 0.0))\n"
STORED = "if v > 0.0:\n    y[at] = v"
TOLD = [
    # lines, words of the warning, and an edit that makes them right
    (f"{KEPT}{STORED}", "write y[at - 1]", ("y[at]", "y[at - 1]")),
    (f"{KEPT}{STORED}", "the first of y is never stored", ("(v > 0.0))", "(v > 0.0), 'exclusive')")),
    (f"keep = u32(1) if v > 0.0 else u32(0)\nat = vyre.workgroup_scan(keep)\n{STORED}", "write y[at - 1]", ("y[at]", "y[at - keep]")),
    ("keep = v > 0.0\nat = vyre.subgroup_scan(u32(keep))\nif i < len(y) and keep:\n    y[at] = v", "write y[at - 1]", ("y[at]", "y[at - 1]")),
    ("at = vyre.workgroup_scan(flags[i])\nif flags[i] == 1:\n    y[at] = v", "write y[at - 1]", ("y[at]", "y[at - 1]")),
    (f"{KEPT}b = vyre.workgroup_id(0) * 64\nif v > 0.0:\n    y[b + at] = v", "write y[b + at - 1]", ("y[b + at]", "y[b + at - 1]")),
]  # fmt: skip
SILENT = [
    f"{KEPT}{STORED}\nif l == 63:\n    y[0] = f32(at)",  # the first one counts them
    f"{KEPT}if v > 0.0:\n    y[at - u32(v > 0.0)] = v",
    f"{KEPT}y[i] = f32(at)",
    "at = vyre.workgroup_scan(u32(v))\nif v > 0.0:\n    y[at] = 1.0",  # begins of the next ones
    "at = vyre.workgroup_scan(flags[i])\nif v > 0.0:\n    y[at] = v",
    f"{KEPT}b = ends[0] - 1\nif v > 0.0:\n    y[b + at] = v",
    "at = vyre.workgroup_scan(u32(v > 0.0), 'exclusive')\nif v > 0.0:\n    y[at] = v",
]


def test_places_of_an_inclusive_scan_are_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    check_told(tmp_path, HEAD, TOLD, "up to itself")
    lines, _, (old, new) = TOLD[0]
    x, y = np.where(np.arange(64) % 3 == 0, np.arange(64), -1).astype(np.float32), np.zeros(64, np.float32)
    kernel = written_module(
        tmp_path,
        HEAD.replace(", flags: Read[u32]", "")
        .replace(", ends: ReadWrite[u32], n: ReadWrite[u32]", "")
        .replace("l, i = vyre.local_id(0), ", "i = ")
        + "".join(f"    {line}\n" for line in lines.replace(old, new).split("\n")),
        "run",
    ).kernel
    kernel[1](x, y)
    assert y[:21].tolist() == [k for k in x if k > 0]


def test_places_that_are_right_are_not_told(tmp_path: Path) -> None:
    check_silent(tmp_path, HEAD, SILENT, "up to itself")


TEXT = """vyre 2
program @compact workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = local_id x
  %v = load @x[%i] : f32
  %kept = gt %v, 0.0 : f32
  %one = cast %kept : bool -> u32
  %at = workgroup_scan<inclusive, add> %one : u32
  if %kept {
    store %v, @y[%at] : f32
  }
}
"""


def test_text() -> None:
    (warning,) = [each for each in verify(parse(TEXT)) if "up to itself" in each.message]
    assert warning.help == "subtract 1 from the place, or take workgroup_scan<exclusive, add>"
    assert not [
        each for each in verify(parse(TEXT.replace("inclusive", "exclusive"))) if "up to" in each.message
    ]
