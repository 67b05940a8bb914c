"""A text read with the parser's fast path, without it, and by Lark alone: what comes out must be the same to the last attribute."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from typing import Any
from unittest.mock import patch

from vyre_opt.ir import Block, DataType, DiagnosticError, Location, Op, Source, Value
from vyre_opt.ir.diagnostics import render
from vyre_opt.ir.literals import Written
from vyre_opt.ir.program import NO_ATTRS
from vyre_opt.syntax import parser

from .fuzz.text_mutations import TOKEN

__all__ = ["by_fast_path", "by_tables", "difference", "difference_from_lark", "respaced"]


def by_fast_path(text: str) -> Any:
    """The module of a text, or its errors, as plain values that compare."""
    return _outcome(text, 0)


def by_tables(text: str) -> Any:
    return _outcome(text, len(text) + 1)


def difference_from_lark(text: str) -> str | None:
    """Where the tables and Lark alone differ, in words: of a text with errors, whether it has any."""
    slow = by_tables(text)
    try:
        by_lark = _plain(parser.parse_source(Source(text, "text.vyre"), parser="lark"), {})
    except DiagnosticError:
        return None if slow[0] == "errors" else "only Lark finds an error"
    if slow[0] == "errors":
        return "Lark finds no error"
    return None if by_lark == slow else _first_difference(by_lark, slow)


def difference(text: str) -> str | None:
    """Where the two ways differ, in words; None if they do not."""
    fast, slow = by_fast_path(text), by_tables(text)
    return None if fast == slow else _first_difference(fast, slow)


def respaced(text: str, rng: random.Random) -> str:
    """The tokens of a text with other space between some of them: none, much, line breaks, comments."""
    often = rng.choice((0.02, 0.1, 0.5))
    return "".join(
        rng.choice(
            ("", " ", "  ", "\t", "\n", "\r\n", "\n\n  ", " // a: b\n", "//\n", "\f", "\v", "\x85", "\xa0")
        )
        if token.isspace() and rng.random() < often
        else token + rng.choice(("", "", " ", "\n")) * (rng.random() < often / 4)
        for token in TOKEN.findall(text)
    )


def _outcome(text: str, long_text: int) -> Any:
    source = Source(text, "text.vyre")
    with patch.object(parser, "LONG_TEXT", long_text):
        try:
            module = parser.parse_source(source)
        except DiagnosticError as error:
            return ["errors", *((render(d), _plain(d, {})) for d in error.diagnostics)]
    return _plain(module, {})


def _plain(part: Any, numbers: dict[Value, int]) -> Any:
    """A part of the IR as lists of plain values: a value is its number in the order of definition."""
    match part:
        case Value():
            return "value", numbers.setdefault(part, len(numbers)), part.name, id(part.type)
        case Op():
            parts = [part.definition.name, part.results, part.operands, part.attrs, part.regions, part.loc]
            is_owner = all(result.owner is part for result in part.results)
            return [is_owner, part.attrs is NO_ATTRS, *(_plain(p, numbers) for p in parts)]
        case Block():
            is_owner = all(arg.owner is part for arg in part.args)
            return [is_owner, _plain(part.args, numbers), _plain(part.ops, numbers)]
        case Location():
            return part.start, part.end
        case Written():
            return "written", int(part), part.literal
        case DataType() | Source():
            return type(part).__name__, part.name
        case list() | tuple():
            return [type(part).__name__, *(_plain(p, numbers) for p in part)]
        case dict():
            return [(key, _plain(value, numbers)) for key, value in part.items()]
        case _ if is_dataclass(part):
            return [(f.name, _plain(getattr(part, f.name), numbers)) for f in fields(part)]
    return type(part).__name__, part


def _first_difference(fast: Any, slow: Any) -> str:
    if type(fast) is type(slow) and isinstance(fast, list | tuple) and len(fast) == len(slow):
        pairs: list[tuple[Any, Any]] = [(a, b) for a, b in zip(fast, slow, strict=True) if a != b]
        return _first_difference(*pairs[0])
    shown: Callable[[Any], str] = lambda part: str(part)[:500]  # noqa: E731
    return f"fast path: {shown(fast)}\ntables:    {shown(slow)}"
