"""What the documents show is true: programs verify, commands print what is shown, links lead somewhere."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import click
import pytest
from man_pages import command_of
from support.each import each
from support.tool_server import serving

from vyre_opt import PassManager, parse
from vyre_opt.ir import verify
from vyre_opt.syntax.parser.tables import grammar_text

BLOCK = re.compile(r"^```([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)

KINDS = (
    "console", "console measured", "json", "lisp", "lua", "pycon", "python", "sh", "text", "toml", "vyre", "vyre fragment",
)  # fmt: skip
"""What a fenced block may be marked as.  `text` is a picture or a formula; test_python.py runs pycon and python, but not a file that is
shown, which a command of the page runs."""

SHOWN_FILE = re.compile(r"# (examples/\S+\.py)\n")
"""First line of a block that shows a file."""

TOOLS = ("vyre-cache", "vyre-lsp", "vyre-opt", "vyre-pack", "vyre-reduce", "vyre-run", "vyre-scan")


CODE = re.compile(r"`[^`\n]*`")

MEASURED = re.compile(r"\d+\.\d+|\d+(?= ?(?:ms|s|%)\b)")
"""Numbers in a block marked `console measured`: whatever they are, they are as on the page."""


def blocks(document: Path, kind: str) -> list[str]:
    """The fenced blocks of a kind."""
    matches = BLOCK.findall(document.read_text(encoding="utf-8"))
    return [text for name, text in matches if name == kind]


def test_blocks_say_what_they_are(documents: list[Path]) -> None:
    """So that each is held to it: code by the tests below, a picture by being no code that hides from them.

    Indented blocks, which have no language, are not used.
    """

    def check(document: Path) -> None:
        text = document.read_text(encoding="utf-8")
        for kind, block in BLOCK.findall(text):
            assert kind in KINDS, f"{document.name}: a block is marked {kind!r}"
            if kind == "text":
                assert not re.search(
                    r"^(\$ |vyre \d|vyre-\w+ |import |from \w+ import )", block, re.MULTILINE
                ), block
        lists = r"^(?:[-*+]|\d+\.) .*\n(?:(?: +.*)?\n)*"
        rest = re.sub(lists, "", BLOCK.sub("", text), flags=re.MULTILINE)
        assert not re.search(r"\n\n {4}\S", rest), f"{document.name} has an indented block"

    each(documents, check)


def test_programs_verify_without_a_warning(documents: list[Path]) -> None:
    """A block marked `vyre` is a whole module that a reader can paste."""

    def check(document: Path) -> None:
        for text in blocks(document, "vyre"):
            assert verify(parse(text, document.name)) == []

    each(documents, check)


def test_fragments_are_of_the_language(documents: list[Path]) -> None:
    """A block marked `vyre fragment` has ops, or stages of a pipeline, whose values and buffers are elsewhere."""

    def check(document: Path) -> None:
        for text in blocks(document, "vyre fragment"):
            around = ("pipeline @p" if text.startswith("launch ") else "program @p", text)
            _grammar().parse("vyre 2 {} {{ {} }}".format(*around))

    each(documents, check)


@cache
def _grammar() -> Any:
    from lark import Lark

    return Lark(grammar_text(), parser="lalr", lexer="basic")


def test_objects_of_json_are_json(documents: list[Path]) -> None:
    def check(document: Path) -> None:
        for text in blocks(document, "json"):
            json.loads(text)

    each(documents, check)


@pytest.mark.parametrize("kind", ["lisp", "lua", "toml"])
def test_settings_of_editors_start_a_command_that_there_is(documents: list[Path], kind: str) -> None:
    """Each block names a script of this project, and what it opens it closes."""

    def check(document: Path) -> None:
        scripts = re.compile(rf'"({"|".join(TOOLS)})"')
        for text in blocks(document, kind):
            assert scripts.search(text), document.name
            for pair in ("()", "[]", "{}"):
                assert text.count(pair[0]) == text.count(pair[1]), document.name
            if kind == "toml":
                tomllib.loads(text)

    each(documents, check)


def test_commands_print_what_is_shown(document: Path, root: Path, tmp_path: Path, tools: Path) -> None:
    """A block marked `console` is a command after `$ ` and all that it prints, both streams.

    `cat FILE` in one makes that file for the commands after it.  In a block marked `console measured` times may differ.
    With VYRE_BLESS=1 the document is rewritten to show what the commands print now.
    """
    written = document.read_text(encoding="utf-8")
    current = written
    for kind, text in BLOCK.findall(written):
        if not kind.startswith("console"):
            continue
        printed = text
        for command, shown in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE):
            if command.startswith("cat "):
                (tmp_path / command[4:]).write_text(shown, encoding="utf-8")
                continue
            now = _run(command, root, tmp_path, tools).stdout
            if kind == "console measured" and _unmeasured(now) == _unmeasured(shown):
                now = shown
            printed = printed.replace(f"$ {command}\n{shown}", f"$ {command}\n{now}")
        current = current.replace(text, printed)
    if os.environ.get("VYRE_BLESS"):
        document.write_text(current, encoding="utf-8")
    else:
        assert current == written, "to accept the new output: VYRE_BLESS=1 pytest test/docs"


def test_files_are_shown_as_they_are(document: Path, root: Path) -> None:
    """A block marked `python` whose first line is `# examples/...` is that file from its second line on, so that lines have its numbers.

    With VYRE_BLESS=1 the document is rewritten to show what the files hold now.
    """
    written = document.read_text(encoding="utf-8")
    current = written
    for kind, text in BLOCK.findall(written):
        if kind == "python" and (named := SHOWN_FILE.match(text)) is not None:
            content = (root / named[1]).read_text(encoding="utf-8")
            without = re.sub(r'\A"""(?s:.*?)"""\n', "", content)
            current = current.replace(text, f"{named[0]}{without}")
    if os.environ.get("VYRE_BLESS"):
        document.write_text(current, encoding="utf-8")
    else:
        assert current == written, "to show the files as they are: VYRE_BLESS=1 pytest test/docs"


def test_a_pass_and_an_op_take_few_lines(root: Path) -> None:
    """All files of the package that docs/guides/writing-passes.md builds, its test among them."""
    text = "".join(blocks(root / "docs/guides/writing-passes.md", "console"))
    files = dict(re.findall(r"^\$ cat (\S+)\n((?:(?!\$ ).*\n)*)", text[: text.index("$ pip")], re.MULTILINE))
    assert [*files] == ["pyproject.toml", "mylib.py", "strength.test", "lit.cfg.py"]
    assert sum(len(content.splitlines()) for content in files.values()) < 80


def _unmeasured(text: str) -> list[str]:
    """The words of a text, with one for all numbers that are measured."""
    return MEASURED.sub("N", text).split()


def test_commands_could_be_run(document: Path, root: Path, tmp_path: Path, tools: Path) -> None:
    """A block marked `sh` has commands whose output is not shown.  Those on files of examples/ are run; of the others, which need
    a reader's file, a GPU or an hour, each word that this project defines exists: options, passes, targets, scripts, extras.
    """
    for line in "".join(blocks(document, "sh")).splitlines():
        for command in re.split(r" && | \| |; ", line.partition("  #")[0]):
            words = [word.removeprefix(".venv/bin/") for word in shlex.split(command, comments=True)]
            while words and re.match(r"[A-Z_]+=", words[0]):
                del words[0]
            if words and any(word.startswith("examples/") for word in words) and words[0] != "pip":
                ran = _run(shlex.join(words), root, tmp_path, tools)
                assert ran.returncode == 0, ran.stdout
            elif words:
                check_command(words, root)


def check_command(words: list[str], root: Path) -> None:
    """Raises an error if the command names what this project does not have."""
    tool, *args = words
    if tool in TOOLS:
        _check_options(tool, args)
    elif tool == "make":
        targets = [word for word in args if "=" not in word]
        makefile = (root / "Makefile").read_text(encoding="utf-8")
        assert all(re.search(rf"^{target}:", makefile, re.MULTILINE) for target in targets), words
    elif tool in ("python", "python3"):
        assert args[0] == "-m" or (root / args[0]).exists(), words
    elif tool == "pip":
        extras = set(re.findall(r"\w+", "".join(re.findall(r"\[([\w,]+)\]", " ".join(args)))))
        project = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        assert extras <= project["optional-dependencies"].keys(), words
    else:
        assert tool in ("cd", "code", "dask", "eval", "git", "mlir-opt", "perf", "pre-commit", "pytest"), (
            words
        )


def _check_options(tool: str, args: list[str]) -> None:
    command = command_of(tool)
    if isinstance(command, click.Group):
        tool, *args = args
        command = command.commands[tool]
    redirects = [number for number, word in enumerate(args) if word.startswith(">")]
    with command.make_context(tool, args[: min(redirects, default=len(args))]) as context:
        PassManager(context.params.get("passes", ()))


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with this project's commands."""
    with serving(tmp_path_factory.mktemp("tools")) as commands:
        yield commands


def _run(command: str, root: Path, folder: Path, tools: Path) -> subprocess.CompletedProcess[str]:
    """A command in a folder that has the examples, with this environment's tools."""
    for name in ("examples", "README.md"):
        if not (folder / name).exists():
            (folder / name).symlink_to(root / name)
    search = os.pathsep.join([str(tools), str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return subprocess.run(
        ["sh", "-c", command],
        cwd=folder,
        env={**os.environ, "PATH": search, "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=120,
    )


def test_links_lead_somewhere(documents: list[Path]) -> None:
    """Relative links name files of the checkout, and headings that they have."""

    def check(document: Path) -> None:
        text = document.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)\s]+)\)", CODE.sub("", BLOCK.sub("", text))):
            if "://" in target:
                continue
            name, _, anchor = target.partition("#")
            path = document.parent / name if name else document
            assert path.exists(), f"{document.name} links to {target}"
            if anchor:
                assert anchor in anchors(path), f"{document.name} links to {target}"

    each(documents, check)


def test_named_files_exist(documents: list[Path], root: Path) -> None:
    """A path in backticks that begins at the top of the checkout is there; a Python file may be named in short."""
    tops = {path.name for path in root.iterdir() if path.is_dir()}
    files = [
        f"/{path.relative_to(root)}"
        for top in ("vyre_opt", "vyre_scan", "test", "bench", "docs", "examples")
        for path in root.glob(f"{top}/**/*.py")
    ]

    def check(document: Path) -> None:
        text = document.read_text(encoding="utf-8")
        for span in re.findall(r"`([\w.-]+/[\w./-]*)`", text):
            if span.split("/")[0] in tops and "NAME" not in span:
                assert (root / span).exists(), f"{document.name} names {span}"
        for span in re.findall(r"`([\w/]+\.py)`", text):
            assert "NAME" in span or any(file.endswith(f"/{span}") for file in files), (
                f"{document.name} names {span}"
            )

    each(documents, check)


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
    "target",
    ["help", "install", "check", "test", "lint", "types", "docs", "pages", "man", "vscode", "bench", "ci"],
)
def test_makefile_explains_its_targets(root: Path, target: str) -> None:
    """`make help` prints the text after ## of each target."""
    assert re.search(rf"^{target}:.*## \w", (root / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
