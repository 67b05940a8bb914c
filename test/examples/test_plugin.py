"""The package in examples/plugin, built and installed as a user does: its own tests pass, and Python finds what it adds."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from support.packages import run_opt_with

SOURCE = Path(__file__).parents[2] / "examples" / "plugin"


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The environment of a process that finds the package, whose wheel is built from a copy without a network."""
    folder = tmp_path_factory.mktemp("plugin")
    shutil.copytree(SOURCE, folder / "source")
    pip = [sys.executable, "-m", "pip", "install", "-qq", "--no-build-isolation", "--no-deps", "--no-index"]
    subprocess.run([*pip, "--target", folder / "site", folder / "source"], check=True, timeout=120)
    return {**os.environ, "PYTHONPATH": str(folder / "site"), "NO_COLOR": "1"}


def run(environment: dict[str, str], *command: object) -> str:
    done = subprocess.run(
        [sys.executable, *map(str, command)], env=environment, cwd=SOURCE, timeout=120, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout
    return done.stdout


def test_its_own_tests_pass(installed: dict[str, str]) -> None:
    """By vyre-opt and vyre-run, on texts with the pass, the op and the kernel."""
    assert "FAIL" not in run(installed, "-c", "from lit.main import main; main()", "-v", "test")


def test_the_pass_is_listed(installed: dict[str, str]) -> None:
    ((code, listed),) = run_opt_with(Path(installed["PYTHONPATH"]), ["--list-passes"])
    assert code == 0
    assert "signal_average" in listed
    assert "Simplify averages." in listed


def test_the_op_is_the_mean_of_all_bytes(installed: dict[str, str]) -> None:
    """Against Python's integers, which do not overflow; folded, interpreted and compiled."""
    script = """
import numpy as np, vyre_opt
text = '''vyre 2
program @p workgroup(256) {
  buffer @x : T[256] read binding(0)
  buffer @r : T[65536] write binding(1) live_out
  %i = global_id x
  %row = workgroup_id x
  %column = local_id x
  %a = load @x[%row] : T
  %b = load @x[%column] : T
  %m = signal.average %a, %b : T
  store %m, @r[%i] : T
}'''
for name, dtype in (("u8", np.uint8), ("i8", np.int8)):
    x = np.arange(256).astype(np.uint8).view(dtype)
    expected = [(a + b) >> 1 for a in x.tolist() for b in x.tolist()]
    for target in ("ref", "cpu"):
        (r,) = vyre_opt.run(text.replace("T", name), {"x": x}, 256, target=target).values()
        assert r.tolist() == expected, (name, target)
"""
    run(installed, "-c", script)
