"""What the documents show of Python is true: sessions print what is shown, scripts run."""

from __future__ import annotations

import doctest
import re
from pathlib import Path

import pytest

BLOCK = re.compile(r"^```(pycon|python)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def test_sessions_print_what_is_shown(document: Path) -> None:
    """Blocks marked `pycon` are one session a document; `...` on a line stands for anything."""
    session = "\n".join(text for language, text in BLOCK.findall(document.read_text()) if language == "pycon")
    test = doctest.DocTestParser().get_doctest(session, {}, document.name, str(document), 0)
    said: list[str] = []
    failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS, verbose=False).run(test, out=said.append)
    assert not failed, "".join(said)


@pytest.mark.parametrize("name", ["README.md", "docs/python.md", "docs/search.md"])
def test_scripts_run(root: Path, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks marked `python` run in the checkout; those for a GPU are run by test/cuda."""
    monkeypatch.chdir(root)
    scripts = [text for language, text in BLOCK.findall((root / name).read_text()) if language == "python"]
    assert scripts
    for script in scripts:
        code = compile(script, name, "exec")
        if "cuda" not in script:
            exec(code, {"__name__": "__main__"})
