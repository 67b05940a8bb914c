"""vyre-run --autotune: what it tunes, what it says, and that the outputs are those of a run without it."""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from support.tools_inside import call_run

from vyre_opt.cli.errors import ToolError
from vyre_opt.cli.run_tune import check_plot
from vyre_opt.tuning import module_tuning, tuner

pytestmark = pytest.mark.usefixtures("own_cache")  # in which no results of an earlier run are

DIAMOND = Path(__file__).parents[2] / "examples" / "pipelines" / "diamond.vyre"

ROWS = """vyre 1

pipeline @main {
  buffer @x : f32[?] read
  buffer @y : f32[?] write

  math.softmax(@x, @y) {columns = 64}
}
"""


@pytest.fixture(autouse=True)
def few_measurements(monkeypatch: pytest.MonkeyPatch) -> None:
    """Most of the time goes into compiling configurations, and none of these tests is about the best of them."""
    monkeypatch.setattr(module_tuning, "TuningOptions", partial(module_tuning.TuningOptions, budget=4))
    monkeypatch.setitem(tuner.autotune.__kwdefaults__, "budget", 4)


@pytest.fixture
def numbers(tmp_path: Path) -> Path:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).integers(0, 99, 1024).astype(np.int32))
    return tmp_path / "x.npy"


def test_a_pipeline_is_tuned_and_computes_the_same(numbers, tmp_path):
    plain = call_run(str(DIAMOND), "--in", f"in={numbers}")
    args = [str(DIAMOND), "--in", f"in={numbers}", "--autotune", f"--plot={tmp_path / 'cost.svg'}"]
    tuned = call_run(*args, "--check-against=ref")
    assert (tuned.returncode, tuned.stdout) == (0, plain.stdout)
    first, heads, *rows = tuned.stderr.splitlines()
    assert first.startswith("pipeline @main(in: int32[1024], out: int32[1024]) on cpu ")
    assert heads.split() == ["cost", "of", "the", "best", "configuration"]
    assert sum("*" in row.split()[0] for row in rows) == 1
    assert "cut_1=" in rows[0]
    assert "<svg" in (tmp_path / "cost.svg").read_text()
    again = call_run(*args)
    assert "(kept from before)" in again.stderr.splitlines()[0]


def test_kernels_are_tuned_before_the_call(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(4096, np.float32))
    args = ("-", "--in", f"x={tmp_path / 'x.npy'}", "--len", "y=4096")
    tuned = call_run(*args, "--autotune", text=ROWS)
    assert tuned.returncode == 0
    kernel, call = (line for line in tuned.stderr.splitlines() if " on cpu " in line)
    assert kernel.startswith("math.softmax(f32[4096], f32[4096]) columns=64 on cpu")
    assert call.startswith("pipeline @main(x: float32[4096], y: float32[4096]) on cpu")
    assert tuned.stdout == call_run(*args, text=ROWS).stdout


def test_limits_of_fusion_are_left_as_they_are(numbers):
    ran = call_run(str(DIAMOND), "--in", f"in={numbers}", "-O", "--fusion-threshold=8", "--autotune")
    assert (ran.returncode, ran.stderr) == (
        0,
        "how launches are joined is not tuned: limits of fusion are given\n",
    )


def test_a_fault_is_shown_at_its_place(numbers):
    text = (
        DIAMOND.read_text()
        .replace("load @in[%i]", "load @in[%far]")
        .replace("%i = global_id x", "%i = global_id x\n  %k = const 900 : u32\n  %far = add %i, %k : u32")
    )
    ran = call_run("-", "--in", f"in={numbers}", "--autotune", text=text)
    assert ran.returncode == 1
    assert "out of bounds" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_plot_that_cannot_be_drawn_is_refused_before_measuring(numbers, monkeypatch):
    wrong = call_run(str(DIAMOND), "--in", f"in={numbers}", "--autotune", "--plot=cost.jpg2")
    assert (wrong.returncode, wrong.stdout) == (2, "")
    assert "'cost.jpg2' does not end in .svg, .png or .pdf" in wrong.stderr
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ToolError, match=r"plots need matplotlib: pip install 'vyre-opt\[plot\]'"):
        check_plot("cost.svg")
