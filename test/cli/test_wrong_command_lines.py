"""Command lines that do what was not meant, and what they say to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
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
