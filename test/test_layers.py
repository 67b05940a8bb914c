"""Packages stand in layers and no files import each other in a circle, as pyproject.toml declares for import-linter."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


def lint_imports(root: Path) -> subprocess.CompletedProcess[str]:
    """import-linter on the package and the contracts in `root`."""
    command = [str(Path(sys.executable).parent / "lint-imports"), "--no-cache"]
    # import-linter finds the package by importing it, and the tree's own must come first
    environment = {**os.environ, "PYTHONPATH": str(root)}
    return subprocess.run(
        command, cwd=root, env=environment, capture_output=True, text=True, check=False, timeout=60
    )


def test_the_tree_keeps_its_contracts() -> None:
    """Guards against an import that makes a package depend on one above it."""
    done = lint_imports(ROOT)
    assert done.returncode == 0, done.stdout + done.stderr


PLANTED = [
    # file, code, the contract that it breaks, how import-linter shows that
    ("analysis/ranges.py", "def f():\n    from ..passes import registry\n",
     "Packages stand in layers", "vyre_opt.analysis.ranges -> vyre_opt.passes.registry"),
    ("kernels/scan.py", "from ..execution import shapes\n",
     "Packages stand in layers", "vyre_opt.kernels.scan -> vyre_opt.execution.shapes"),
    ("certify/op_terms.py", "from ..analysis import ranges\n",
     "Packages stand in layers", "vyre_opt.certify.op_terms -> vyre_opt.analysis.ranges"),
    ("certify/op_terms.py", "from ..ir import arith\n",
     "Proofs share no arithmetic with what they check", "vyre_opt.certify.op_terms -> vyre_opt.ir.arith"),
    ("ir/arith.py", "from typing import TYPE_CHECKING\n\nif TYPE_CHECKING:\n    from ..syntax import printer\n",
     "Packages stand in layers", "vyre_opt.ir.arith -> vyre_opt.syntax.printer"),
    ("rewriting/walker.py", "from ..syntax import printer\n",
     "Packages stand in layers", "vyre_opt.rewriting.walker -> vyre_opt.syntax.printer"),
    ("ir/types.py", "def f():\n    from . import program\n",
     "No files and no packages import each other in a circle", ".types -> .program"),
    ("driver/compile.py", "from vyre_scan import Scanner\n",
     "The compiler knows nothing of the search", "vyre_opt.driver.compile -> vyre_scan"),
]  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the package and the contracts."""
    for package in ("vyre_opt", "vyre_scan"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(tree: Path, file: str, code: str) -> None:
    target = tree / "vyre_opt" / file
    target.write_text(f"{target.read_text()}\n{code}")


def test_planted_imports_are_noticed(tree: Path) -> None:
    """Guards against contracts that cannot fail: each kind of import that they forbid breaks one."""
    for file, code, _, _ in PLANTED:
        plant(tree, file, code)
    done = lint_imports(tree)
    assert done.returncode != 0
    report = done.stdout.split("Broken contracts")[1]
    _, *pieces = re.split(r"\n(\S.*)\n---+\n", report)
    broken = dict(zip(pieces[::2], pieces[1::2], strict=True))
    for *_, contract, shown in PLANTED:
        assert shown in broken[contract], done.stdout
