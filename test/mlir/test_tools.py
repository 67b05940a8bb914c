"""vyre-opt and vyre-run with MLIR, written and read; and without the package that parses it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


def run(*arguments: object, text: str | None = None, hidden: str = "") -> subprocess.CompletedProcess[str]:
    """A tool of this project.  `hidden`: a package that it does not find."""
    tool, *rest = map(str, arguments)
    code = f"import sys; sys.modules[{hidden!r}] = None; " if hidden else "import sys; "
    code += f"from vyre_opt.cli.start import {tool}; sys.argv = ['{tool}', *sys.argv[1:]]; sys.exit({tool}())"
    return subprocess.run(
        [sys.executable, "-c", code, *rest], input=text, capture_output=True, text=True, check=False
    )


def test_there_and_back() -> None:
    pytest.importorskip("xdsl")
    there = run("vyre_opt", EXAMPLES / "hex_sum.vyre", "--emit=mlir", "--pass=expand_kernels")
    assert there.returncode == 0, there.stderr
    back = run("vyre_opt", "-", text=there.stdout)
    assert back.returncode == 0, back.stderr
    assert "program @" in back.stdout


VECADD = """gpu.module @m {
  gpu.func @double(%x: memref<?xf32>, %y: memref<?xf32>) kernel attributes {known_block_size = array<i32: 32, 1, 1>} {
    %i = gpu.global_id x
    %v = memref.load %x[%i] : memref<?xf32>
    %s = arith.addf %v, %v : f32
    memref.store %s, %y[%i] : memref<?xf32>
    gpu.return
  }
}
"""


def test_a_kernel_runs(tmp_path: Path) -> None:
    pytest.importorskip("xdsl")
    (tmp_path / "double.mlir").write_text(VECADD)
    np.save(tmp_path / "x.npy", np.arange(64, dtype=np.float32))
    done = run(
        "vyre_run", tmp_path / "double.mlir", "--in", f"x={tmp_path / 'x.npy'}", "--out", f"y={tmp_path / 'y.npy'}",
        "--len", "y=64", "--grid", "2", "--check",
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert np.array_equal(np.load(tmp_path / "y.npy"), 2 * np.arange(64, dtype=np.float32))


def test_without_xdsl_the_extra_is_named(tmp_path: Path) -> None:
    path = tmp_path / "double.mlir"
    path.write_text(VECADD)
    done = run("vyre_opt", path, hidden="xdsl")
    assert done.returncode == 1
    assert "reading MLIR needs the package xdsl" in done.stderr
    assert "pip install 'vyre-opt[mlir]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_writing_needs_no_xdsl() -> None:
    done = run(
        "vyre_opt", EXAMPLES / "softmax_rows.vyre", "--pass=expand_kernels", "--emit=mlir", hidden="xdsl"
    )
    assert done.returncode == 0, done.stderr
    assert "gpu.func @" in done.stdout


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--emit=mlir", "--bounds=trap"], "--bounds"),
        (["--emit=ptx", "--bare-pointers"], "--bare-pointers"),
    ],
)
def test_options_that_do_not_go_together(options: list[str], message: str) -> None:
    done = run("vyre_opt", EXAMPLES / "hex_sum.vyre", *options)
    assert done.returncode == 2
    assert message in done.stderr
