"""Tiles of which a loop fills one half while it reads the other are told where a barrier or the first step is left out."""

from __future__ import annotations

from pathlib import Path

from support.each import each
from support.warned import kernel_warnings

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    t = vyre.shared(f32, (2, 64))
    l, n, s = vyre.local_id(0), len(x) // 64, 0.0
"""
FIRST, BARRIER = "t[0, l] = x[l]\n", "    vyre.barrier()\n"
LOOP, NEXT = "for k in range(n):\n", "    if k + 1 < n:\n        t[(k + 1) % 2, l] = x[(k + 1) * 64 + l]\n"
USE, END = "    s += t[k % 2, 63 - l]\n", "y[l] = s"
RIGHT = FIRST + LOOP + BARRIER + NEXT + USE + END
TURNED = "s = x[l]\nt[0, l] = s\nvyre.barrier()\nt[0, l] = t[0, 63 - l] * 2.0\nvyre.barrier()\ny[l] = t[0, l]"
TOLD = [
    # lines, words of the warning, and the same with the remedy
    (FIRST + LOOP + NEXT + USE + END, "help: put vyre.barrier()", RIGHT),
    (FIRST + LOOP + NEXT + BARRIER + USE + END, "other invocations read, and nothing orders the two", RIGHT),
    (LOOP + BARRIER + NEXT + USE + END, "before any invocation stores to them: they may hold anything", RIGHT),
    (
        LOOP + BARRIER + NEXT + USE + END,
        "store to them before the loop of line 8",
        "if n > 0:\n    t[0, l] = x[l]\n" + RIGHT.removeprefix(FIRST),
    ),
    ((LOOP + NEXT + BARRIER + USE + BARRIER + END).replace("n)", "8)").replace("< n", "< 8"), "its first round reads them", FIRST + LOOP + NEXT + BARRIER + USE + BARRIER + END),
    (
        TURNED,
        "write v = t[0, 63 - l] above this line, and v in it, with vyre.barrier() between the two",
        TURNED.replace("t[0, l] = t[0, 63 - l]", "v = t[0, 63 - l]\nvyre.barrier()\nt[0, l] = v"),
    ),
]  # fmt: skip
LATE = (
    FIRST
    + "for k in range(1, n):\n    t[k % 2, l] = x[k * 64 + l]\n"
    + BARRIER
    + "    s += t[(k + 1) % 2, 63 - l]\n"
    + BARRIER
)
TOLD.append(
    (
        LATE + END,
        "so x[k * 64 + l] of that round is in no result",
        f"{LATE}vyre.barrier()\ny[l] = s + t[(n + 1) % 2, 63 - l]",
    )
)
SILENT = [
    # the last round fetches what is not there, or what another has fetched, or is behind by one on purpose
    (FIRST + LOOP + BARRIER + USE + END).replace(
        USE, "    t[(k + 1) % 2, l] = x[min(k + 1, n - 1) * 64 + l]\n" + USE
    ),
    (FIRST + LOOP + BARRIER + USE + END).replace(
        USE, "    t[(k + 1) % 2, l] = x[(k + 1) * 64 + l] if k + 1 < n else 0.0\n" + USE
    ),
    f"t[0, l] = 0.0\n{LOOP}{BARRIER}    y[k * 64 + l] = t[0, 63 - l]\n{BARRIER}    t[0, l] = x[k * 64 + l]",
    f"{FIRST}for k in range(1, n):\n{BARRIER}    v = x[k * 64 + l]\n    s += abs(v - t[0, 63 - l])\n{BARRIER}    t[0, l] = v\n{END}",
    # read by a loop that has no round for few elements
    f"{FIRST}for k in range(1, n):\n{BARRIER}    s += t[0, 63 - l]\n{BARRIER}    t[0, l] = x[k * 64 + l]\nvyre.barrier()\nfor k in range(len(x) // 100000):\n    s += t[0, (l + k) % 64]\n{END}",
    FIRST + LOOP + BARRIER + USE + NEXT + END,
    FIRST + "vyre.barrier()\n" + LOOP + NEXT + USE + BARRIER + END,
    # the first rounds fill what later ones read
    f"{LOOP}    t[k % 2, l] = x[k * 64 + l]\n{BARRIER}    if k > 0:\n        s += t[(k + 1) % 2, 63 - l]\n{BARRIER}vyre.barrier()\ny[l] = s + t[(n + 1) % 2, 63 - l]",
    f"{LOOP}    v = t[(k + 1) % 2, l]\n    if k > 0:\n        s += v\n    t[k % 2, l] = x[k * 64 + l]\ny[l] = s + t[(n + 1) % 2, l]",
    # one half alone, and a loop whose rounds elements decide
    f"{FIRST}{LOOP}{BARRIER}    s += t[0, 63 - l]\n{BARRIER}    t[0, l] = x[k * 64 + l]\nvyre.barrier()\ny[l] = s + t[0, 63 - l]",
    f"if l < 16:\n    t[0, l] = x[l]\nfor k in range(0, u32(x[l])):\n    t[1, l] = x[k]\n    s += t[0, l]\n{END}",
]


def test_a_step_that_is_left_out_is_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    def check(case: tuple[int, tuple[str, str, str]]) -> None:
        number, (lines, words, right) = case
        (warning,) = kernel_warnings(tmp_path, HEAD, lines, f"told_{number}")
        assert words in warning
        assert kernel_warnings(tmp_path, HEAD, right, f"right_{number}") == []

    each(enumerate(TOLD), check)


def test_loops_that_fill_what_they_read_are_not_told(tmp_path: Path) -> None:
    def check(case: tuple[int, str]) -> None:
        assert kernel_warnings(tmp_path, HEAD, case[1], f"silent_{case[0]}") == []

    each(enumerate(SILENT), check)
