"""What colours texts: made from the grammar as it is, alike in Pygments and TextMate, and true to the parser's tokens."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import highlighters
import pytest
from support.each import each

from vyre_opt import __version__
from vyre_opt.syntax.parser.tables import grammar_text

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors/vscode"
TEXTS = sorted((ROOT / "examples").rglob("*.vyre"))

TOKENS = {
    "VALUE": "Name.Variable",
    "STRING": "String.Double",
    "COMMENT": "Comment.Single",
    "KERNEL": "Name.Function",
    "FLOAT": "Number.Float",
    "INT": "Number.Integer",
    "SHAPE": "Keyword.Type",
}
"""What Pygments makes of the terminals of the grammar that have one colour."""


@pytest.mark.parametrize("path", highlighters.HIGHLIGHTERS)
def test_files_are_up_to_date(path: str) -> None:
    written = (ROOT / path).read_text(encoding="utf-8")
    assert written == highlighters.HIGHLIGHTERS[path](), "run: python docs/highlighters.py"


def test_pygments_finds_the_lexer_by_its_entry_point() -> None:
    from pygments.lexers import find_lexer_class_for_filename, get_lexer_by_name

    assert type(get_lexer_by_name("vyre")).__name__ == "VyreLexer"
    assert find_lexer_class_for_filename("a.vyre") is type(get_lexer_by_name("vyre"))


def colored(text: str) -> list[tuple[int, str, str]]:
    """(offset, token, text) of what Pygments colours, spaces and punctuation left out."""
    from vyre_opt.syntax.pygments_lexer import VyreLexer

    rows = VyreLexer().get_tokens_unprocessed(text)
    named = [(at, re.sub(r"Token\.(Literal\.)?", "", str(token)), word) for at, token, word in rows]
    return [row for row in named if row[1] not in ("Text.Whitespace", "Punctuation")]


def test_tokens_are_those_of_the_parser() -> None:
    """Guards against a pattern that takes too much or too little: every token begins and ends where the parser's does."""
    from lark import Lark

    comments: list[Any] = []
    lark = Lark(grammar_text(), parser="lalr", lexer="basic", lexer_callbacks={"COMMENT": comments.append})
    each(TEXTS, lambda path: check_tokens(path, lark, comments))


def check_tokens(path: Path, lark: Any, comments: list[Any]) -> None:
    """`comments`: where the lexer puts them."""
    text = path.read_text(encoding="utf-8")
    seen = {(at, word): token for at, token, word in colored(text)}
    assert "Error" not in seen.values()
    comments.clear()
    for token in [*lark.lex(text), *comments]:
        if token.type == "RESULTS":
            for value in re.finditer(r"%[\w.$]+", token):
                assert seen[token.start_pos + value.start(), value[0]] == "Name.Variable"
        elif token.type in TOKENS:
            assert seen[token.start_pos, str(token)] == TOKENS[token.type]
        elif token.type == "SYMBOL":
            assert seen[token.start_pos, str(token)] in ("Name.Class", "Name.Variable.Global")
        elif re.match(r"\w", token):
            assert (token.start_pos, str(token)) in seen


def scoped(text: str) -> Iterator[tuple[int, str, str]]:
    """(offset, scope, text), as an editor applies the TextMate grammar: line by line, the earliest match, then the first."""
    grammar = json.loads((EXTENSION / "syntaxes/vyre.tmLanguage.json").read_text(encoding="utf-8"))
    patterns = [(re.compile(pattern["match"]), pattern) for pattern in grammar["patterns"]]
    start = 0
    for line in text.splitlines(keepends=True):
        at = 0
        while matches := [
            (m.start(), i, m) for i, (p, _) in enumerate(patterns) if (m := p.search(line, at))
        ]:
            _, number, match = min(matches, key=lambda found: found[:2])
            groups = patterns[number][1].get("captures", {"0": patterns[number][1]})
            for group, scope in groups.items():
                yield start + match.start(int(group)), scope["name"].removesuffix(".vyre"), match[int(group)]
            at = match.end()
        start += len(line)


def test_textmate_and_pygments_see_the_same() -> None:
    token_of = {
        scope: token
        for rule in highlighters.rules()
        for token, scope in zip(rule.tokens, rule.scopes, strict=True)
    }

    def check(path: Path) -> None:
        text = path.read_text(encoding="utf-8")
        assert [(at, token_of[scope], word) for at, scope, word in scoped(text)] == colored(text)

    each(TEXTS, check)


def test_words_have_the_colours_of_their_kinds() -> None:
    text = "program @p workgroup(64) {\n  %v = subgroup_reduce<add> %a : u32\n  math.softmax(@x) {columns = 4}\n}"
    kinds = {word: token for _, token, word in colored(text)}
    assert kinds == {
        "program": "Keyword.Declaration", "@p": "Name.Class", "workgroup": "Keyword.Pseudo",
        "64": "Number.Integer", "%v": "Name.Variable", "subgroup_reduce": "Name.Builtin", "add": "Name.Builtin",
        "%a": "Name.Variable", "u32": "Keyword.Type", "math.softmax": "Name.Function",
        "@x": "Name.Variable.Global", "columns": "Name.Attribute", "4": "Number.Integer",
    }  # fmt: skip


# --- the extension of VS Code: what its packager asks of a manifest


def manifest() -> dict[str, Any]:
    return dict(json.loads((EXTENSION / "package.json").read_text(encoding="utf-8")))


def test_the_manifest_is_one_that_packages() -> None:
    fields = manifest()
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", fields["name"])
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", fields["publisher"])
    assert fields["version"] == __version__
    assert re.fullmatch(r"\^\d+\.\d+\.\d+", fields["engines"]["vscode"])
    assert fields["displayName"]
    assert fields["description"]
    assert len(fields["keywords"]) <= 30
    assert fields["repository"]["url"].endswith(".git")


def test_the_extension_starts_the_server_by_what_the_manifest_declares() -> None:
    """Its code is one file, which `make vscode` bundles with the client library."""
    fields = manifest()
    code = (EXTENSION / "extension.js").read_text(encoding="utf-8")
    assert fields["main"] == "./dist/extension.js"
    assert "dist" in fields["files"]
    assert fields["activationEvents"] == [f"onLanguage:{fields['contributes']['languages'][0]['id']}"]
    declared = fields["contributes"]["configuration"]["properties"]
    assert {f"vyre.{name}" for name in re.findall(r'\.get\("([\w.]+)"\)', code)} <= declared.keys()
    commands = {command["command"] for command in fields["contributes"]["commands"]}
    assert set(re.findall(r'registerCommand\("([\w.]+)"', code)) == commands
    assert set(re.findall(r'require\("(vscode-[\w-]+)', code)) == fields["dependencies"].keys()


@pytest.mark.skipif(shutil.which("node") is None, reason="no Node.js")
def test_the_extension_is_javascript() -> None:
    subprocess.run(["node", "--check", EXTENSION / "extension.js"], check=True, timeout=60)


def test_files_that_the_manifest_names_are_there_and_packaged() -> None:
    fields = manifest()
    (language,) = fields["contributes"]["languages"]
    grammars = fields["contributes"]["grammars"]
    for named in (language["configuration"], *(grammar["path"] for grammar in grammars)):
        path = EXTENSION / named
        assert json.loads(path.read_text(encoding="utf-8"))
        assert path.relative_to(EXTENSION).parts[0] in fields["files"]
    for grammar in grammars:
        content = json.loads((EXTENSION / grammar["path"]).read_text(encoding="utf-8"))
        assert content["scopeName"] == grammar["scopeName"]
    assert [g["language"] for g in grammars if "language" in g] == [language["id"]]
    assert language["extensions"] == [".vyre"]
    assert re.match(language["firstLine"], "vyre 2")


def test_the_configuration_agrees_with_the_grammar() -> None:
    configuration = json.loads((EXTENSION / "language-configuration.json").read_text(encoding="utf-8"))
    assert configuration["comments"]["lineComment"] == "//"
    word = re.compile(configuration["wordPattern"])
    for text in ("%v", "@decode.part", "math.softmax", "$"):
        assert word.fullmatch(text)
    indents = configuration["indentationRules"]
    assert re.search(indents["increaseIndentPattern"], "if %a {  // then")
    assert re.search(indents["decreaseIndentPattern"], "  } else {")
