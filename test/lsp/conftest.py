"""Texts that the tests of the language server type, cut and spoil, and an editor that is connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lsp_client import Editor
from support.quick import quick

from vyre_opt import parse
from vyre_opt.ir import DiagnosticError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.vyre"))
LIT = sorted((ROOT / "test" / "lit").rglob("*.vyre"))


@pytest.fixture(scope="package")
def editor() -> Iterator[Editor]:
    """One server for all tests; each opens texts of its own."""
    with Editor() as editor:
        yield editor


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    # here and not at the fixture: this file may be read before it is known whether the run is a campaign
    if "texts" in metafunc.fixturenames:
        metafunc.parametrize("texts", quick(range(3)), indirect=True, scope="package")


@pytest.fixture(scope="package")
def texts(request: pytest.FixtureRequest) -> list[str]:
    """Texts of the language: a third of all examples, and of lit tests with and without errors."""
    return [path.read_text(encoding="utf-8") for path in (*EXAMPLES, *LIT)[request.param :: 3]]


@pytest.fixture(scope="package")
def valid_texts(texts: list[str]) -> list[str]:
    """Those of them without errors."""

    def is_valid(text: str) -> bool:
        try:
            parse(text)
        except DiagnosticError:
            return False
        return True

    return [text for text in texts if is_valid(text)]
