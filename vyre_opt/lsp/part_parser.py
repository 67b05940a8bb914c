"""A part of a text, parsed with the token that follows it where an error speaks of that."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..syntax.parser.fragment import Excerpt, Parsed, Scope

__all__ = ["Parse", "ParsedPart", "parse_part"]

Parse = Callable[[Excerpt, Scope | None], Parsed]


class ParsedPart(NamedTuple):
    """`following`: the token behind the part, and the space before it, if what came of the part depends on it."""

    excerpt: Excerpt
    parsed: Parsed
    following: str | None


def parse_part(
    parse: Parse, name: str, lead: str, part: str, closing: str, following: str, scope: Scope | None = None
) -> ParsedPart:
    """What comes of a part between a `lead` and what closes it."""
    excerpt = Excerpt(lead, part, closing, name)
    parsed = parse(excerpt, scope)
    end = excerpt.lead + excerpt.length
    if not following or all(d.loc is None or d.loc.start < end for d in parsed.diagnostics):
        return ParsedPart(excerpt, parsed, None)
    # what is wrong is that something else follows, so that has to stand there
    longer = Excerpt(lead, part, f"{following}\n{closing}", name, len(following))
    known = parse(longer, scope)
    token = end + len(following) - len(following.lstrip())
    known.diagnostics[:] = [d for d in known.diagnostics if d.loc is None or d.loc.start <= token]
    if known.diagnostics:
        return ParsedPart(longer, known, following)
    return ParsedPart(excerpt, parsed, following)
