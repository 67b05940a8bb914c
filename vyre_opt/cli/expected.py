"""`--verify-diagnostics`: what a text says of its own diagnostics, in comments.

    %x = add %a, %b : u32  // expected-error {{type mismatch}}
    // expected-note @-1 {{defined here}}
    // expected-warning @below 2 {{nobody can observe it}}

The kind is error, warning, remark or note.  The place is this line, `@+N`, `@-N`,
`@above`, `@below`, or `@unknown` for a message without one.  The number says how
often (once; `2+` is twice or more).  The text between the braces is a part of the
message.  Every message must be expected, and every expectation met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from ..ir.diagnostics import Diagnostic, Location, Source

__all__ = ["compare"]

KINDS = ("error", "warning", "remark", "note")

_DESIGNATOR = re.compile(
    r"expected-(?P<kind>\w+)(?P<form>"
    r"[ \t]*(?:@(?P<place>[+-]\d+|above|below|unknown))?"
    r"[ \t]*(?:(?P<count>\d+)(?P<more>\+)?)?"
    r"[ \t]*\{\{(?P<text>[^\n]*?)\}\})?"
)

_NEARBY = {"above": -1, "below": 1}

UNPLACED = 0
"""The line of a message without a place; lines count from 1."""


@dataclass(slots=True, eq=False)
class _Expectation:
    kind: str
    line: int
    text: str
    least: int
    most: float
    loc: Location
    met: int = 0

    def takes(self, kind: str, line: int, message: str) -> bool:
        return self.met < self.most and (self.kind, self.line) == (kind, line) and self.text in message


def compare(source: Source, produced: list[Diagnostic]) -> list[Diagnostic]:
    """The differences between what `source` expects and what was produced, as errors."""
    wrong: list[Diagnostic] = []
    expected = list(_expectations(source, wrong))
    for kind, message, loc in _flat(produced):
        line = UNPLACED if loc is None else loc.line
        takers = [e for e in expected if e.takes(kind, line, message)]
        taker = min(takers, key=_urgency, default=None)
        if taker is None:
            wrong.append(Diagnostic("error", f"unexpected {kind}: {message}", loc))
        else:
            taker.met += 1
    for missed in expected:
        if missed.met < missed.least:
            times = "" if missed.least == 1 else f", {missed.met} of {missed.least} times"
            message = f'expected {missed.kind} "{missed.text}" was not produced{times}'
            wrong.append(Diagnostic("error", message, missed.loc))
    return wrong


def _urgency(expectation: _Expectation) -> tuple[bool, int]:
    """Orders expectations of one message: one that is still owed first, then the most precise."""
    return expectation.met >= expectation.least, -len(expectation.text)


def _flat(produced: list[Diagnostic]) -> Iterator[tuple[str, str, Location | None]]:
    """Messages and, each as one of its own, their notes."""
    for diagnostic in produced:
        yield diagnostic.severity, diagnostic.message, diagnostic.loc
        for message, loc in diagnostic.notes:
            yield "note", message, loc


def _expectations(source: Source, wrong: list[Diagnostic]) -> Iterator[_Expectation]:
    for match in _DESIGNATOR.finditer(source.text):
        line_start = source.text.rfind("\n", 0, match.start()) + 1
        if "//" not in source.text[line_start : match.start()]:
            continue
        loc = Location(source, match.start(), match.end())
        if match["kind"] not in KINDS or match["form"] is None:
            help = "write expected-error @+1 {{part of the message}}; also -warning, -remark, -note"
            wrong.append(Diagnostic("error", "not an expectation", loc, help=help))
            continue
        least = int(match["count"] or 1)
        most = float("inf") if match["more"] else least
        yield _Expectation(
            match["kind"], _line(match["place"] or "+0", loc.line), match["text"], least, most, loc
        )


def _line(place: str, here: int) -> int:
    if place == "unknown":
        return UNPLACED
    return here + (_NEARBY[place] if place in _NEARBY else int(place))
