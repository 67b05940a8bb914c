"""The list of planted mistakes: each has its place in the code, its test, and its row in docs/footprints.md."""

from __future__ import annotations

import importlib.util
import re
import sys
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture
def mutants(root: Path) -> ModuleType:
    """test/mutants.py, which is a tool and no test."""
    spec = importlib.util.spec_from_file_location("mutants", root / "test" / "mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["mutants"] = module
    spec.loader.exec_module(module)
    return module


def test_every_mistake_has_its_place_and_its_test(root: Path, mutants: ModuleType) -> None:
    for mutant in mutants.MUTANTS:
        text = (root / mutant.path).read_text(encoding="utf-8")
        assert text.count(mutant.old) == 1, mutant.title
        path, _, name = mutant.test.partition("::")
        assert f"def {name}(" in (root / path).read_text(encoding="utf-8"), mutant.title


def test_the_page_lists_them(root: Path, mutants: ModuleType) -> None:
    page = (root / "docs" / "footprints.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (.*) \| `(.*\.py)` \| `(\w+)` \|$", page, re.MULTILINE)
    expected = [
        (m.title, m.path.removeprefix("vyre_opt/"), m.test.partition("::")[2]) for m in mutants.MUTANTS
    ]
    assert rows == expected


@pytest.mark.slow
def test_a_mistake_is_noticed(mutants: ModuleType) -> None:
    """One of them, planted and run; `make mutants` does all."""
    (mutant,) = [m for m in mutants.MUTANTS if "transient" in m.title]
    assert mutants.notices(mutant)
