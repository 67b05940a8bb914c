"""LALR(1) tables from grammar/vyre.lark, computed by Lark.

Importing Lark and computing the tables takes longer than parsing a small file, so the result is
cached in the user's cache folder, in a file named by the hash of the grammar and of this file, and sealed as an
entry of the compile cache is.  A cache that is missing, unwritable or damaged costs time, never a wrong answer.
"""

from __future__ import annotations

import json
import os
import re
from functools import cache
from typing import Any

from blake3 import blake3

from ...cache_files.entry import MAX_ENTRY_BYTES, pack, unpack
from ...cache_files.location import cache_folder
from ...cache_files.secret import open_cache
from ...records import dataclass

END = "$END"
FLAGS = re.ASCII
"""Flags of the regular expressions of the grammar, wherever they are compiled."""

_HERE = os.path.realpath(__file__)
_PACKAGE = os.path.dirname(os.path.dirname(os.path.dirname(_HERE)))
_PACKAGED = os.path.join(_PACKAGE, "grammar", "vyre.lark")
_CHECKOUT = os.path.join(os.path.dirname(_PACKAGE), "grammar", "vyre.lark")


@dataclass(slots=True)
class Rule:
    """`lhs -> size symbols`; on its reduction the method `action` gets the parts named by `args`.

    `args` are indices into the right-hand side, and -1 for an optional part that is absent.
    An `action` of "" is the value of its only argument; "*" starts a list, "+" appends to one.
    """

    lhs: int
    size: int
    action: str
    args: list[int]


@dataclass(slots=True, eq=False)
class Tables:
    """`actions[state][terminal]` is next state + 1 to shift, -(rule + 1) to reduce; absent is an error.

    Terminals have the numbers of their groups in `pattern`, END and $BAD (any other character) among
    them; the keywords, which match as NAME, come after.
    """

    pattern: re.Pattern[str]
    terminals: list[str]  # names; the index is the terminal's number, 0 unused
    keywords: dict[str, int]
    actions: list[dict[int, int]]
    gotos: list[dict[int, int]]
    rules: list[Rule]
    start: int
    accept: int

    def number(self, terminal: str) -> int:
        return self.terminals.index(terminal)


def grammar_text() -> str:
    """The grammar: in the package if it was installed from a wheel, at the root of a checkout."""
    with open(_PACKAGED if os.path.exists(_PACKAGED) else _CHECKOUT, encoding="utf-8") as file:
        return file.read()


def table_key(text: str) -> bytes:
    """Hash of a grammar's tables, and of the code that computes and reads them."""
    with open(_HERE, "rb") as file:
        parts = file.read(), text.encode()
    return blake3(b"".join(len(part).to_bytes(8, "little") + part for part in parts)).digest()


@cache
def load() -> Tables:
    """The tables, from the cache if they are in it, else computed and put there."""
    text = grammar_text()
    key = table_key(text)
    name = f"grammar-{key.hex()}.tables"
    try:
        with open_cache(cache_folder()) as (folder, secret):
            content = folder.read(name, MAX_ENTRY_BYTES)
        return _decode(json.loads(unpack(secret, content, key)[1]))
    except Exception:  # a damaged cache may raise anything
        encoded = json.dumps(compile_grammar(text), separators=(",", ":"))
    try:
        with open_cache(cache_folder(), create=True) as (folder, secret):
            folder.replace(name, pack(secret, key, "parser", encoded.encode()))
    except OSError:
        pass
    # Lark's own names compare in Python, where what a signal's handler raises passes for a missing attribute
    return _decode(json.loads(encoded))


def _decode(encoded: dict[str, Any]) -> Tables:
    for name, kind in (("terminals", list), ("keywords", dict), ("start", int), ("accept", int)):
        if type(encoded[name]) is not kind:
            raise TypeError(f"{name} of the tables is {encoded[name]!r}")
    return Tables(
        pattern=re.compile(encoded["pattern"], FLAGS),
        terminals=encoded["terminals"],
        keywords=encoded["keywords"],
        actions=[{int(k): v for k, v in row.items()} for row in encoded["actions"]],
        gotos=[{int(k): v for k, v in row.items()} for row in encoded["gotos"]],
        rules=[Rule(*row) for row in encoded["rules"]],
        start=encoded["start"],
        accept=encoded["accept"],
    )


def compile_grammar(text: str) -> dict[str, Any]:
    """The fields of Tables as JSON values.  Raises Lark's GrammarError if the grammar is not LALR(1)."""
    from lark import Lark

    lark: Any = Lark(text, parser="lalr", lexer="basic", maybe_placeholders=True, g_regex_flags=FLAGS)
    pattern, terminals, keywords = _lexer(lark)
    numbers = {name: number for number, name in enumerate(terminals)}
    table = lark.parser.parser._parse_table
    rules = list(lark.rules)
    rule_numbers = {rule: number for number, rule in enumerate(rules)}
    lhs_names = list(dict.fromkeys(rule.origin.name for rule in rules))
    lhs_numbers = {name: number for number, name in enumerate(lhs_names)}
    actions: list[dict[int, int]] = [{} for _ in table.states]
    gotos: list[dict[int, int]] = [{} for _ in table.states]
    for state, row in table.states.items():
        for symbol, (action, target) in row.items():
            if action.name == "Reduce":
                actions[state][numbers[symbol]] = -(rule_numbers[target] + 1)
            elif symbol in numbers:
                actions[state][numbers[symbol]] = target + 1
            else:
                gotos[state][lhs_numbers[symbol]] = target
    return {
        "pattern": pattern,
        "terminals": terminals,
        "keywords": keywords,
        "actions": actions,
        "gotos": gotos,
        "rules": [[lhs_numbers[r.origin.name], len(r.expansion), *_action(r)] for r in rules],
        "start": table.start_states["start"],
        "accept": table.end_states["start"],
    }


def _lexer(lark: Any) -> tuple[str, list[str], dict[str, int]]:
    """The token pattern, the names of the terminals, and the numbers of the keywords.

    The pattern skips what is ignored and then has one group per terminal.  The last two groups match
    the end of the text and any other character, so that the matches cover the whole text.
    """
    ignored = set(lark.ignore_tokens)
    by_name = {t.name: t for t in lark.terminals}
    name_pattern = re.compile(by_name["NAME"].pattern.to_regexp(), FLAGS)
    regexes = [t for t in lark.terminals if t.pattern.type == "re" and t.name not in ignored]
    strings = [t for t in lark.terminals if t.pattern.type == "str"]
    words = [t for t in strings if name_pattern.fullmatch(t.pattern.value)]
    # The longest first: a regular expression takes the first alternative that matches.
    signs = sorted((t for t in strings if t not in words), key=lambda t: -len(t.pattern.value))
    groups = [*regexes, *signs]
    skip = "|".join(by_name[name].pattern.to_regexp() for name in sorted(ignored))
    body = "|".join(f"({t.pattern.to_regexp()})" for t in groups)
    terminals = ["", *(t.name for t in groups), END, "$BAD"]
    keywords = {}
    for word in words:
        keywords[word.pattern.value] = len(terminals)
        terminals.append(word.name)
    return rf"(?:{skip})*+(?:{body}|(\Z)|([\s\S]))", terminals, keywords


def _action(rule: Any) -> tuple[str, list[int]]:
    """`Rule.action` and `Rule.args` of Lark's rule, as Lark's own tree builder would shape its tree."""
    symbols = enumerate(rule.expansion)
    parts = [index for index, symbol in symbols if not (symbol.is_term and symbol.filter_out)]
    origin = rule.origin.name
    if origin.startswith("__"):  # Lark's name for a repetition: of one item, or recursive
        if rule.expansion and rule.expansion[0].name == origin:
            return "+", parts
        return "*", parts
    args: list[int] = []
    index = 0
    for absent in rule.options.empty_indices or [False] * len(rule.expansion):
        if absent:
            args.append(-1)
        else:
            if index in parts:
                args.append(index)
            index += 1
    if rule.alias is None and rule.options.expand1 and len(args) == 1:
        return "", args
    return rule.alias or origin, args
