"""Type checkers take what the documents show: mypy here, without settings; pyright by `make pyright`."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.python_blocks import write_modules

pytest.importorskip("mypy")

KERNELS = """\
# mypy: disallow-untyped-defs, disallow-any-generics, disallow-untyped-calls, disallow-untyped-decorators
# mypy: warn-return-any, no-implicit-reexport, strict-equality
from typing import Annotated, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.lang import Float, Int, Read, ReadWrite, Write, f32, u32

T = TypeVar("T", bound=Float)
Matrix = Annotated[f32, :, :]


@vyre.func
def clamp(x: f32, low: f32 = 0.0, high: f32 = 1) -> f32:
    return min(max(x, low), high)


@vyre.program(workgroup=(16, 16))
def scaled(
    x: Read[Matrix], y: Write[f32[:, 64]], mask: Read[Annotated[bool, :]], alpha: f32 = 1.0, n: u32 = 4
) -> None:
    i, j = vyre.global_id(0), vyre.global_id("y")
    total: Any = 0.0
    for k in range(-1, 2):
        total += x.vec(4)[i + k, j] * alpha
    half: f32 = 1
    if 0 <= i < len(x) and not mask[i]:
        y[i, j] = clamp(total[0], 0.5) + f32(n) + x.dtype(half)


@vyre.program
def rows(x: Read[T], y: Write[Annotated[T, :, :]], z: ReadWrite[Float[:, :]], n: Int = 1) -> None:
    row = z[vyre.workgroup_id(0), :]
    z[vyre.workgroup_id(0), :] = vyre.exp(row - vyre.max(row)) / vyre.sum(row, axis=0)


@vyre.pipeline
def both(x: Read[Matrix], y: Write[f32[:, 64]], mask: Read[Annotated[bool, :]]) -> None:
    t = vyre.buffer(f32, (len(x), x.shape[1]))
    vyre.math.softmax(x, t)
    scaled[vyre.ceil_div(len(x), 16), 4](t, y, mask, alpha=2)


x = np.zeros((2, 3), np.float32)
flat: NDArray[np.float32] = kernels.softmax(x[0])
product: NDArray[Any] = kernels.matmul(x, x.T)
octets: NDArray[np.uint8] = kernels.base64_decode("dnlyZQ==")
words: NDArray[np.uint32] = kernels.softmax_step([1, 3])
places: list[tuple[int, int]] = kernels.decode_scan("", [b"x"])
print(both.report(), scaled[1, 4].report, rows.ptx("sm_90"))
"""

MISTAKES = {
    "vyre.global_id(7)": "arg-type",
    "x.lenght": "attr-defined",
    "vyre.atomic_add(x, 0)": "call-arg",
    "scaled[1].run(x)": "attr-defined",
    "vyre.summ(x)": "attr-defined",
    "vyre.kernels.softmax(x, dtyp='bf16')": "call-arg",
    "vyre.kernels.softmx(x)": "attr-defined",
    "n: int = vyre.kernels.hex_decode('00')": "assignment",
}
"""Lines of a kernel that are wrong, and what mypy calls that."""


def mypy(root: Path, folder: Path, *arguments: object) -> str:
    """What mypy says of files and folders, with no settings but `arguments`."""
    cache = (
        root / ".mypy_cache/documents"
    )  # most of the time is for the package itself, and later runs have that
    command = [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir", cache, *arguments]
    environment = {"MYPYPATH": f"{root}:{folder}", "PATH": ""}
    done = subprocess.run(
        list(map(str, command)), cwd=folder, env=environment, capture_output=True, text=True, check=False
    )
    return done.stdout + done.stderr


def test_mypy_takes_examples_and_documents_and_finds_mistakes(root: Path, tmp_path: Path) -> None:
    blocks = write_modules(root / "docs/reference/python.md", tmp_path)
    assert len(blocks) > 15
    (tmp_path / "kernels.py").write_text(KERNELS)
    usual = ("--check-untyped-defs", "--ignore-missing-imports", "--follow-imports=silent")
    said = mypy(root, tmp_path, *usual, "--exclude", r"lit\.cfg", root / "examples", "kernels.py", *blocks)
    assert said.startswith("Success: no issues found"), said

    wrong = "".join(f"    {line}\n" for line in MISTAKES)
    (tmp_path / "mistakes.py").write_text(
        f"import vyre_opt as vyre\nfrom kernels import scaled\nfrom vyre_opt.lang import Read, f32\n\n"
        f"@vyre.program\ndef wrong(x: Read[f32]) -> None:\n{wrong}"
    )
    said = mypy(root, tmp_path, *usual, "mistakes.py")
    assert re.findall(r"^mistakes\.py:(\d+): error: .*\[([\w-]+)\]$", said, re.MULTILINE) == [
        (str(line), code) for line, code in enumerate(MISTAKES.values(), 7)
    ]
