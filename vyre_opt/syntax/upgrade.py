"""A text of version 1 in version 2: its constants in place, and the rest as its author wrote it, comments too.

    %c16 = const 16 : u32           %n = mul %w, 16 : u32
    %n = mul %w, %c16 : u32

A constant stays where its name is needed: as the bound of a loop, as an index of another type than u32, where no type is
written that a number could have, and as a list of lanes that is used more than once.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..ir.diagnostics import Location, Source
from ..ir.program import Func, Op, Program, Value
from ..ir.verifier import check
from .fingerprint import fingerprint
from .inline_constants import constants_in_place, fixed_type, role_in
from .parser import parse_source

__all__ = ["upgrade"]

_SKIPPED = r"(?:\s+|//[^\n]*)"
_VERSION = re.compile(rf"{_SKIPPED}*+vyre{_SKIPPED}++(?P<number>1)\b")
_TOKEN = re.compile(r"\"(?:[^\"\\\n]|\\.)*\"|//[^\n]*|%[\w.$]+|:", re.ASCII)
"""Tokens that may hold the name of a value, or look as if they did, and the sign before a type."""
_CONSTANT = re.compile(r"= ?const ?(?P<literal>.+?) ?:|\{ ?value ?= ?(?P<attribute>.+?) ?\}")
"""Its value, in either form of the op."""
_SPACE = re.compile(rf"{_SKIPPED}+")
_STATEMENT = re.compile(r"(//[^\n]*|\s+)|.")

_REMOVED = "\0"
"""Mark in the place of each character of a statement that is removed; no text has it."""
_GAPS = (
    (re.compile(r"^[ \t]*(?:\0[ \t]*)+(?:\r?\n|\Z)", re.MULTILINE), ""),  # the whole line
    (re.compile(r"^([ \t]*)(?:\0[ \t]*)+", re.MULTILINE), r"\1"),  # a statement or a comment follows
    (re.compile(r"[ \t]*\0"), ""),
)

Edit = tuple[int, int, str]
"""Replacement of the text between two offsets."""


def upgrade(source: Source) -> str:
    """The text of `source` in version 2, of the same fingerprint; one of version 2 as it is.

    Raises DiagnosticError for the errors that the text has.
    """
    module = parse_source(source)
    check(module)
    if module.version > 1:
        return source.text
    version = _VERSION.match(source.text)
    assert version is not None, "a text without errors begins with its version"
    edits: list[Edit] = [(*version.span("number"), "2")]
    for item in module.order:
        if isinstance(item, Program | Func):
            edits += _edits(item, source)
    text = _edited(source.text, edits)
    upgraded = parse_source(Source(text, source.name))
    check(upgraded)
    assert fingerprint(upgraded) == fingerprint(module), "the text upgraded is another program"
    return text


def _edits(item: Program | Func, source: Source) -> Iterator[Edit]:
    """Changes in the text of an item."""
    # what the text locates elsewhere has no place in it that could be edited
    elsewhere = {op for op in item.walk() if op.loc is None or op.loc.source is not source}
    refused = {value for op in item.walk() for value in (*op.operands, *op.results) if op in elsewhere}
    refused.update(value for op in item.walk() if op not in elsewhere for value in _untyped(op))
    chosen = set(constants_in_place(item.body, lambda value: value not in refused))
    for op in item.walk():
        if op in elsewhere:
            continue
        assert op.loc is not None
        if op.definition.format == "const" and op.result in chosen:
            statement = op.loc.text
            # the comments in it stay
            yield op.loc.start, op.loc.end, _STATEMENT.sub(lambda part: part[1] or _REMOVED, statement)
            continue
        literals = {f"%{value.name}": _literal(value) for value in op.operands if value in chosen}
        for start, end, token in _tokens(op.loc) if literals else ():
            if token in literals:
                yield start, end, literals[token]


def _untyped(op: Op) -> list[Value]:
    """The operands of `op` whose types its text leaves to them."""
    if op.definition.is_terminator or op.name in ("for", "while"):
        return []
    assert op.loc is not None
    text = op.loc.text
    is_typed = '"' in text.partition("(")[0] or any(token == ":" for _, _, token in _tokens(op.loc))
    indices = range(0 if is_typed else len(op.operands))
    return [op.operands[index] for index in indices if fixed_type(role_in(op, index)) is None]


def _tokens(loc: Location) -> Iterator[tuple[int, int, str]]:
    """The names of values and the colons at a place, with their offsets."""
    for match in _TOKEN.finditer(loc.source.text, loc.start, loc.end):
        if match[0][0] in "%:":
            yield match.start(), match.end(), match[0]


def _literal(value: Value) -> str:
    """A constant as its author wrote it, so that 0xff stays that."""
    owner = value.owner
    assert isinstance(owner, Op)
    assert owner.loc is not None
    written = _CONSTANT.search(_SPACE.sub(" ", owner.loc.text))
    assert written is not None
    return written["literal"] or written["attribute"]


def _edited(text: str, edits: list[Edit]) -> str:
    parts, at = [], 0
    for start, end, written in sorted(edits):
        parts += [text[at:start], written]
        at = end
    edited = "".join([*parts, text[at:]])
    for pattern, rest in _GAPS:
        edited = pattern.sub(rest, edited)
    return edited
