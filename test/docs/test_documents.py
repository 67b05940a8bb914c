"""What the documents show is true: programs verify, commands print what is shown, links lead somewhere."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from vyre_opt import parse
from vyre_opt.ir.verifier import verify

BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.MULTILINE | re.DOTALL)

CODE = re.compile(r"`[^`\n]*`")


def blocks(document: Path, language: str) -> list[str]:
    """The fenced blocks of a language."""
    matches = BLOCK.findall(document.read_text(encoding="utf-8"))
    return [text for name, text in matches if name == language]


def test_programs_verify_without_a_warning(document: Path) -> None:
    """A block marked `vyre` is a whole module that a reader can paste."""
    for text in blocks(document, "vyre"):
        assert verify(parse(text, document.name)) == []


def test_commands_print_what_is_shown(document: Path, root: Path, tmp_path: Path) -> None:
    """A block marked `console` is a command after `$ ` and all that it prints, both streams.

    `cat FILE` in one makes that file for the commands after it.  With VYRE_BLESS=1 the
    document is rewritten to show what the commands print now.
    """
    written = document.read_text(encoding="utf-8")
    current = written
    for text in blocks(document, "console"):
        printed = text
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            if command.startswith("cat "):
                (tmp_path / command[4:]).write_text(shown, encoding="utf-8")
                continue
            now = _run(command, root, tmp_path)
            printed = printed.replace(f"$ {command}\n{shown}", f"$ {command}\n{now}")
        current = current.replace(text, printed)
    if os.environ.get("VYRE_BLESS"):
        document.write_text(current, encoding="utf-8")
    else:
        assert current == written, "to accept the new output: VYRE_BLESS=1 pytest test/docs"


def _run(command: str, root: Path, folder: Path) -> str:
    """What a command prints in a folder that has the examples, with this environment's tools."""
    if not (folder / "examples").exists():
        (folder / "examples").symlink_to(root / "examples")
    search = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    ran = subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": search, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )
    return ran.stdout


def test_links_lead_somewhere(document: Path) -> None:
    """Relative links name files of the checkout, and headings that they have."""
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", BLOCK.sub("", text))):
        if "://" in target:
            continue
        name, _, anchor = target.partition("#")
        path = document.parent / name if name else document
        assert path.exists(), f"{document.name} links to {target}"
        if anchor:
            assert anchor in anchors(path), f"{document.name} links to {target}"


def test_named_files_exist(document: Path, root: Path) -> None:
    """A path in backticks that begins at the top of the checkout is there; a Python file may be named in short."""
    tops = {path.name for path in root.iterdir() if path.is_dir()}
    files = [
        f"/{path.relative_to(root)}"
        for top in ("vyre_opt", "test", "bench", "docs")
        for path in root.glob(f"{top}/**/*.py")
    ]
    text = document.read_text(encoding="utf-8")
    for span in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
        if span.split("/")[0] in tops and "NAME" not in span:
            assert (root / span).exists(), f"{document.name} names {span}"
    for span in re.findall(r"`([\w/]+\.py)`", text):
        assert "NAME" in span or any(file.endswith(f"/{span}") for file in files), (
            f"{document.name} names {span}"
        )


def anchors(document: Path) -> set[str]:
    """The names of a page's headings, as Markdown renderers make them."""
    headings = re.findall(r"^#+ (.*)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_readme_has_two_commands(root: Path) -> None:
    """Install and run, then test; .ci/run takes them from the README's `sh` blocks and runs them."""
    install, test = (text.strip() for text in blocks(root / "README.md", "sh"))
    assert install.startswith("python3 -m venv .venv && .venv/bin/pip install . && .venv/bin/vyre-opt ")
    assert test == ".venv/bin/pip install '.[test]' && .venv/bin/pytest -n auto"


@pytest.mark.parametrize(
    "target", ["help", "install", "check", "test", "lint", "types", "docs", "bench", "ci"]
)
def test_makefile_explains_its_targets(root: Path, target: str) -> None:
    """`make help` prints the text after ## of each target."""
    assert re.search(rf"^{target}:.*## \w", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
