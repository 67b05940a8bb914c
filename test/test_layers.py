"""Packages stand in layers and no files import each other in a circle, as pyproject.toml declares for import-linter."""

import os
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


@pytest.mark.parametrize(
    ("file", "planted", "broken"),
    [
        ("analysis/ranges.py", "def f():\n    from ..passes import registry\n", "Packages stand in layers"),
        ("cuda/timing.py", "from ..kernels import scan\n", "Packages stand in layers"),
        ("certify/op_terms.py", "from ..analysis import ranges\n", "Packages stand in layers"),
        ("certify/op_terms.py", "from ..ir import arith\n", "Proofs share no arithmetic"),
        ("ir/types.py", "def f():\n    from . import program\n", "No files and no packages import"),
        ("ir/types.py", "if TYPE_CHECKING:\n    from . import program\n", None),
    ],
    ids=[
        "upward, in a function",
        "between neighbours",
        "from an analysis to a proof",
        "from the arithmetic to a proof",
        "a circle of files",
        "for types only",
    ],
)
def test_a_planted_import_is_noticed(tmp_path: Path, file: str, planted: str, broken: str | None) -> None:
    """Guards against contracts that cannot fail: each kind of import that they forbid breaks one."""
    shutil.copytree(ROOT / "vyre_opt", tmp_path / "vyre_opt", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    target = tmp_path / "vyre_opt" / file
    target.write_text(target.read_text() + "\nfrom typing import TYPE_CHECKING\n\n" + planted)
    done = lint_imports(tmp_path)
    assert (done.returncode != 0) == (broken is not None), done.stdout
    if broken is not None:
        assert f"{broken}" in done.stdout.split("Broken contracts")[1]
