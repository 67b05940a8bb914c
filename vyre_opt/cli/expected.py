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


ArrayBackend = tuple[str, int]
"""Kind and line: what a message and its expectation have in common."""


@dataclass(slots=True, eq=False)
class _Expectation:
    place: ArrayBackend
    text: str
    least: int
    has_more: bool
    loc: Location


def compare(source: Source, produced: list[Diagnostic]) -> list[Diagnostic]:
    """The differences between what `source` expects and what was produced, as errors."""
    wrong: list[Diagnostic] = []
    expected: dict[ArrayBackend, list[_Expectation]] = {}
    for expectation in _expectations(source, wrong):
        expected.setdefault(expectation.place, []).append(expectation)
    messages: dict[ArrayBackend, list[tuple[str, Location | None]]] = {}
    for kind, message, loc in _flat(produced):
        messages.setdefault((kind, UNPLACED if loc is None else loc.line), []).append((message, loc))
    for place in {**messages, **expected}:
        wrong += _differences(place[0], messages.get(place, []), expected.get(place, []))
    return sorted(wrong, key=lambda d: d.loc.start if d.loc else -1)


def _differences(
    kind: str, messages: list[tuple[str, Location | None]], expected: list[_Expectation]
) -> Iterator[Diagnostic]:
    """What does not fit among the messages and expectations of one kind on one line."""
    owed = [e for e in expected for _ in range(min(e.least, len(messages) + 1))]
    taken = _pair([[i for i, e in enumerate(owed) if e.text in message] for message, _ in messages])
    paired = set(taken.values())
    for number, (message, loc) in enumerate(messages):
        if number not in paired and not any(e.has_more and e.text in message for e in expected):
            yield Diagnostic("error", f"unexpected {kind}: {message}", loc)
    for expectation in expected:
        met = sum(owed[slot] is expectation for slot in taken)
        if met < expectation.least:
            times = "" if expectation.least == 1 else f", {met} of {expectation.least} times"
            text = f'expected {kind} "{expectation.text}" was not produced{times}'
            yield Diagnostic("error", text, expectation.loc)


def _pair(choices: list[list[int]]) -> dict[int, int]:
    """Slot -> message, as many pairs as there can be; `choices` are the slots of each message.

    A message takes a free slot, or one whose holder can move on (Kuhn's matching).
    """
    holder: dict[int, int] = {}

    def seat(message: int, tried: set[int]) -> bool:
        for slot in choices[message]:
            if slot not in tried:
                tried.add(slot)
                if slot not in holder or seat(holder[slot], tried):
                    holder[slot] = message
                    return True
        return False

    for message in range(len(choices)):
        seat(message, set())
    return holder


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
        place = match["kind"], _line(match["place"] or "+0", loc.line)
        yield _Expectation(place, match["text"], int(match["count"] or 1), bool(match["more"]), loc)


def _line(place: str, here: int) -> int:
    if place == "unknown":
        return UNPLACED
    return here + (_NEARBY[place] if place in _NEARBY else int(place))
