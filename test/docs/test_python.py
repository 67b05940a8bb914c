"""What the documents show of Python is true: sessions print what is shown, scripts run."""

from __future__ import annotations

import doctest
import re
from collections.abc import Iterator
from pathlib import Path
from types import CodeType

import pytest

BLOCK = re.compile(r"^```(pycon|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_sessions_print_what_is_shown(document: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks marked `pycon` are one session a document; `...` on a line stands for anything."""
    monkeypatch.chdir(root)
    session = "\n".join(text for language, text in BLOCK.findall(document.read_text()) if language == "pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, document.name, str(document), 0)
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append)
    assert not failed, "".join(said)


def scripts(root: Path, document: Path, *, on_gpu: bool) -> Iterator[CodeType]:
    """The blocks marked `python`; those that name cuda are for a GPU."""
    for language, script in BLOCK.findall(document.read_text()):
        is_file = script.startswith("# examples/")  # which is shown; see test_documents.py
        if language == "python" and not is_file and ("cuda" in script) == on_gpu:
            yield compile(script, str(document.relative_to(root)), "exec")


def test_scripts_run(document: Path, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    for script in scripts(root, document, on_gpu=False):
        exec(script, {"__name__": "__main__"})


@pytest.mark.gpu
def test_scripts_run_on_a_gpu(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(root)
    for name in (
        "docs/guides/gpu.md",
        "docs/reference/python.md",
        "docs/guides/packs.md",
        "docs/guides/scanner.md",
    ):
        for script in scripts(root, root / name, on_gpu=True):
            exec(script, {"__name__": "__main__"})


def test_scripts_for_a_gpu_are_known(documents: list[Path], root: Path) -> None:
    """That the test above names every document that has some."""
    having = {document.name for document in documents if [*scripts(root, document, on_gpu=True)]}
    assert having == {"gpu.md", "packs.md", "python.md", "scanner.md"}
