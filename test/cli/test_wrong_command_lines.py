"""Command lines that do what was not meant, and what they say to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.each import each
from support.tools_inside import call_opt, call_run

DOUBLE = """vyre 2
program @double workgroup(8) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
}
"""


def test_a_grid_along_an_axis_that_the_program_ignores_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))
    options = ["-", "--in", f"x={tmp_path / 'x.npy'}", "--len", "y=8"]
    wrong, right = (call_run(*options, f"--grid={grid}", text=DOUBLE) for grid in ("1,2", "1"))
    assert (wrong.returncode, right.returncode) == (0, 0)
    assert (
        "2:9: warning: all 2 workgroups along axis 1 do the same: double has no global_id y" in wrong.stderr
    )
    assert right.stderr == ""


def test_a_pass_is_no_option(tmp_path: Path) -> None:
    wrong = call_opt("-", "--cse", text=DOUBLE)
    assert wrong.returncode == 2
    assert "no such option --cse: a pass is run by --pass=cse" in wrong.stderr
    assert call_opt("-", "--pass=cse", text=DOUBLE).returncode == 0


def test_one_file_is_read() -> None:
    wrong = call_opt("a.vyre", "b.vyre")
    assert wrong.returncode == 2
    assert "one FILE is read, run it again for another" in wrong.stderr


def test_a_file_is_named_for_its_buffer() -> None:
    wrong = call_run("-", "--in", "folder/x.npy", text=DOUBLE)
    assert wrong.returncode == 2
    assert "'folder/x.npy' is not NAME=VALUE; write x=folder/x.npy" in wrong.stderr


TOLD: list[tuple[str, list[str], str, list[str]]] = [
    # the tool, options that are wrong, words that say what to write, and that
    ("opt", ["--passes=cse"], "no such option --passes: write --pass=cse", ["--pass=cse"]),
    ("opt", ["--pass-pipeline=cse;dce"], "write cse,dce", ["--pass-pipeline=cse,dce"]),
    ("run", ["--grid=1x1", "--len", "y=8"], "write 1,1", ["--grid=1,1", "--len", "y=8"]),
    ("run", ["--grid=1", "--len", "y=8x1"], "help: write --len y=8,1", []),
    ("run", ["--grid=1"], "pass --len y=8", ["--grid=1", "--len", "y=8"]),
    ("run", ["--grid=1", "--len", "y=8", "--spec", "n=2"], "it has none: leave it out", ["--grid=1", "--len", "y=8"]),
    ("run", ["--grid=1", "--len", "y=8", "--param", "n=2"], "it has none", ["--grid=1", "--len", "y=8"]),
]  # fmt: skip


def test_options_are_told_by_the_values_at_hand(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))

    def check(case: tuple[str, list[str], str, list[str]]) -> None:
        tool, wrong, words, right = case
        call, given = (call_opt, []) if tool == "opt" else (call_run, ["--in", f"x={tmp_path / 'x.npy'}"])
        told = call("-", *given, *wrong, text=DOUBLE)
        assert told.returncode in (1, 2)
        assert words in told.stderr
        assert not right or call("-", *given, *right, text=DOUBLE).returncode == 0

    each(TOLD, check)
    told = call_run("-", "--in", f"a={tmp_path / 'x.npy'}", "--grid=1", "--len", "y=8", text=DOUBLE)
    assert "it has @x, @y; pass it as x" in told.stderr
