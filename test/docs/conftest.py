"""Where the documents are."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def root() -> Path:
    """The checkout."""
    return ROOT


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """A test that takes `document` runs for every Markdown file of the project."""
    if "document" in metafunc.fixturenames:
        paths = [
            path
            for pattern in ("*.md", "docs/*.md", "examples/*.md", "examples/*/*.md", "editors/*/*.md")
            for path in sorted(ROOT.glob(pattern))
        ]
        metafunc.parametrize("document", paths, ids=lambda path: str(path.relative_to(ROOT)))
