"""Where the documents are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


def _documents() -> list[Path]:
    patterns = ("*.md", "docs/*/*.md", "examples/*.md", "examples/*/*.md", "editors/*/*.md")
    made = ("_build", "generated")
    return [p for pattern in patterns for p in sorted(ROOT.glob(pattern)) if p.parent.name not in made]


@pytest.fixture
def documents() -> list[Path]:
    """Every Markdown file of the project, for tests that take no time about one."""
    return _documents()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `document` runs for every Markdown file of the project."""
    if "document" in metafunc.fixturenames:
        metafunc.parametrize("document", _documents(), ids=lambda path: str(path.relative_to(ROOT)))
