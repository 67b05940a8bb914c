"""Texts that the tests of the language server type, cut and spoil, and an editor that is connected to it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.lsp_client import Editor

from vyre_opt import parse
from vyre_opt.ir.diagnostics import DiagnosticError

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES = sorted((ROOT / "examples").rglob("*.vyre"))
LIT = sorted((ROOT / "test" / "lit").rglob("*.vyre"))


@pytest.fixture(scope="package")
def editor() -> Iterator[Editor]:
    """One server for all tests; each opens texts of its own."""
    with Editor() as editor:
        yield editor


@pytest.fixture(scope="package")
def texts() -> list[str]:
    """Texts of the language: all examples, and lit tests with and without errors."""
    return [path.read_text(encoding="utf-8") for path in (*EXAMPLES, *LIT)]


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
