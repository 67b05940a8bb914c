"""What colours .vyre texts, made from grammar/vyre.lark and the op table:  python docs/highlighters.py

vyre_opt/syntax/pygments_lexer.py                    for Pygments: Sphinx, web sites, terminals
editors/vscode/syntaxes/vyre.tmLanguage.json     a TextMate grammar, for VS Code and other editors

Both are the same rules in the same order; of those that match at a place, the first wins.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from vyre_opt.ir.ops import COMBINERS, FASTMATH, LAYOUTS, OPS, ORDERS, SCOPES
from vyre_opt.ir.types import MATRIX_USES, DataType
from vyre_opt.syntax.parser.tables import grammar_text

__all__ = ["HIGHLIGHTERS", "Rule", "pygments_lexer", "rules", "textmate_grammar"]


@dataclass(frozen=True)
class Rule:
    """A regular expression; for each of its groups, or the whole if it has none, a token of Pygments and a scope."""

    pattern: str
    tokens: tuple[str, ...]
    scopes: tuple[str, ...]


DEFINITIONS = ("program_head", "func_head", "pipeline_head", "buffer", "spec", "param", "region_head")
"""Rules of the grammar that begin with a keyword and the name that they define."""
FLAGS = ("program_flag", "buffer_flag", "access_mode", "word")
"""Rules of the grammar whose keywords modify something."""


@cache
def _grammar() -> Any:
    from lark import Lark

    return Lark(grammar_text(), parser="lalr", lexer="basic")


def _patterns() -> dict[str, str]:
    """The regular expression of each terminal; a keyword's is the keyword."""
    return {terminal.name: terminal.pattern.value for terminal in _grammar().terminals}


def _keywords(*rules: str) -> set[str]:
    """The first keyword of each of the rules of the grammar that has one."""
    patterns = _patterns()
    texts = [
        [patterns.get(symbol.name, "") for symbol in rule.expansion]
        for rule in _grammar().rules
        if rule.origin.name in rules
    ]
    return {next(filter(str.isidentifier, text), "") for text in texts} - {""}


def rules() -> Iterator[Rule]:
    """The rules, in order.  Together they match every character that is no space and no punctuation."""
    terminals = _patterns()
    keywords = {text for text in terminals.values() if text.isidentifier()}
    definitions = _keywords(*DEFINITIONS)
    choices = {word for row in OPS.values() for attr in row.attrs for word in attr.choices or ()}
    modifiers = choices.union(_keywords(*FLAGS), SCOPES, ORDERS, COMBINERS, FASTMATH, LAYOUTS, MATRIX_USES)
    ops = {name for name in OPS if name.isidentifier()}
    constants = {"true", "false"}

    yield _rule(_of(terminals, "COMMENT"), "Comment.Single", "comment.line.double-slash")
    yield _rule(_of(terminals, "STRING"), "String.Double", "string.quoted.double")
    yield Rule(
        rf"\b({'|'.join(sorted(definitions))})(\s+)({_of(terminals, 'SYMBOL')})",
        ("Keyword.Declaration", "Whitespace", "Name.Class"),
        ("keyword.declaration", "", "entity.name.type"),
    )
    yield _rule(_of(terminals, "SYMBOL"), "Name.Variable.Global", "variable.other.global")
    yield _rule(_of(terminals, "VALUE"), "Name.Variable", "variable.other")
    yield _rule(_of(terminals, "SHAPE"), "Keyword.Type", "storage.type")
    yield _rule(_of(terminals, "FLOAT"), "Number.Float", "constant.numeric.float")
    yield _rule(_of(terminals, "INT"), "Number.Integer", "constant.numeric.integer")
    yield _rule(_of(terminals, "KERNEL"), "Name.Function", "entity.name.function.kernel")
    yield _words({"dtype", *DataType.all_names()}, "Keyword.Type", "storage.type")
    yield _words(constants, "Keyword.Constant", "constant.language")
    # an op that is also a modifier, such as the `add` of a subgroup_reduce, is an op
    yield _words(ops - keywords, "Name.Builtin", "support.function.op")
    yield _words(keywords - modifiers - constants, "Keyword", "keyword.control")
    yield _words(modifiers, "Keyword.Pseudo", "storage.modifier")
    yield _rule(_of(terminals, "NAME"), "Name.Attribute", "entity.other.attribute-name")


def _of(terminals: dict[str, str], name: str) -> str:
    return terminals[name].replace("\n", r"\n")


def _rule(pattern: str, token: str, scope: str) -> Rule:
    return Rule(pattern, (token,), (scope,))


def _words(words: Iterable[str], token: str, scope: str) -> Rule:
    return _rule(rf"\b(?:{'|'.join(sorted(words))})\b", token, scope)


# --- the files


def textmate_grammar() -> str:
    """The TextMate grammar."""

    def pattern(rule: Rule) -> dict[str, Any]:
        scopes = [f"{scope}.vyre" if scope else "" for scope in rule.scopes]
        if len(scopes) == 1:
            return {"name": scopes[0], "match": rule.pattern}
        captures = {str(group): {"name": scope} for group, scope in enumerate(scopes, 1) if scope}
        return {"match": rule.pattern, "captures": captures}

    grammar = {
        "comment": "Made by docs/highlighters.py from grammar/vyre.lark and the op table.",
        "name": "vyre",
        "scopeName": "source.vyre",
        "fileTypes": ["vyre"],
        "patterns": [pattern(rule) for rule in rules()],
    }
    return json.dumps(grammar, indent=2) + "\n"


_LEXER = '''\
"""The lexer of .vyre for Pygments, which finds it by its entry point.

Made by `python docs/highlighters.py` from grammar/vyre.lark and the op table.
"""

from pygments.lexer import RegexLexer, bygroups
from pygments.token import Comment, Keyword, Name, Number, Punctuation, String, Whitespace

__all__ = ["VyreLexer"]


class VyreLexer(RegexLexer):
    """The text language of vyre-opt."""

    name = "vyre"
    aliases = ("vyre",)
    filenames = ("*.vyre",)
    mimetypes = ("text/x-vyre",)

    # fmt: off
    tokens = {{  # noqa: RUF012 - as Pygments declares it
        "root": [
{rules}
        ],
    }}
    # fmt: on
'''


def pygments_lexer() -> str:
    """The module of the lexer."""
    lines = [r'            (r"\s+", Whitespace),']
    for rule in rules():
        tokens = rule.tokens[0] if len(rule.tokens) == 1 else f"bygroups({', '.join(rule.tokens)})"
        quote = "'" if '"' in rule.pattern else '"'
        lines.append(f"            (r{quote}{rule.pattern}{quote}, {tokens}),")
    lines.append(r'            (r"->|[{}()\[\]<>,:=?^*+/.-]", Punctuation),')
    return _LEXER.format(rules="\n".join(lines))


HIGHLIGHTERS = {
    "vyre_opt/syntax/pygments_lexer.py": pygments_lexer,
    "editors/vscode/syntaxes/vyre.tmLanguage.json": textmate_grammar,
}
"""The path in the checkout, and what makes its text."""


if __name__ == "__main__":
    for path, make in HIGHLIGHTERS.items():
        (Path(__file__).resolve().parents[1] / path).write_text(make(), encoding="utf-8")
