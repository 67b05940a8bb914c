"""Docstrings are plain English at first reading: they begin with a noun phrase or a verb, and end a sentence.

An editor shows a docstring alone, so it may not lean on a name beside it: "Of a kernel, the latest" says nothing there.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]

PACKAGES = sorted(str(path.parent.relative_to(ROOT)) for path in ROOT.glob("vyre_*/*/__init__.py"))

FUNCTION_WORDS = frozenset(
    "After Also And As At Because Before Behind Beside But By For From How If In Into It Of On Only Since So Such That "
    "Their Those To Until What When Where Which While Who With Within Without".split()
)
"""Words that begin neither a noun phrase nor a verb.  `Whether` begins the docstring of a condition."""

ENDS = re.compile(r"""[.!?:]['"`)\]]*\Z""")


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """The line and text of each docstring: of modules, classes, functions, and of the names that they define."""
    blocks: list[ast.AST] = [tree]
    while blocks:
        node = blocks.pop()
        for statement in getattr(node, "body", ()):
            if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                value = statement.value.value
                if isinstance(value, str):
                    yield statement.lineno, value.strip()
        for name in ("body", "orelse", "handlers", "finalbody", "cases"):  # expressions have none
            blocks += getattr(node, name, ())


def problem(text: str) -> str | None:
    """What is wrong with a docstring; None for a good one."""
    first = re.match(r"[\w'-]*", text)
    assert first is not None
    if first[0] in FUNCTION_WORDS or not text:
        return f"begins with {first[0]!r}, no noun phrase or verb"
    if not ENDS.search(text.partition("\n\n")[0].rstrip()):
        return "does not end a sentence"
    return None


@pytest.mark.parametrize("package", PACKAGES)
def test_docstrings_are_read_once(package: str) -> None:
    found = []
    for path in sorted((ROOT / package).rglob("*.py")):
        for line, text in docstrings(ast.parse(path.read_text(encoding="utf-8"))):
            wrong = problem(text)
            if wrong is not None:
                found.append(f"{path.relative_to(ROOT)}:{line}: {wrong}: {text[:70]!r}")
    assert found == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Of a kernel, the latest.", "begins with"),
        ("That of the call.", "begins with"),
        ("What is tuned.", "begins with"),
        ("", "begins with"),
        ("Number of lanes", "does not end"),
        ("Number of lanes\n\nA row takes them.", "does not end"),
        ("Number of lanes.", None),
        ("Return the tile of a buffer.", None),
        ("Whether a value is known.", None),
        ("Columns of a table:\n\n    name", None),
        ("`x`, or 0.", None),
    ],
)
def test_the_check_tells_them_apart(text: str, wrong: str | None) -> None:
    said = problem(text)
    assert said is None if wrong is None else wrong in str(said)
