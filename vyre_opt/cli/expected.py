"""`--verify-diagnostics`: compares diagnostics with the ones that comments in the text expect.

    %x = add %a, %b : u32  // expected-error {{type mismatch}}
    // expected-note @-1 {{defined here}}
    // expected-warning @below 2 {{nobody can observe it}}

The kind is error, warning, remark or note.  The place is this line, `@+N`, `@-N`,
`@above`, `@below`, or `@unknown` for a message without one or about another text.  The number says how
often (once; `2+` is twice or more).  The text between the braces is a part of the
message.  Every message must be expected, and every expectation met.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..ir.diagnostics import Diagnostic, Location, Source
from ..records import dataclass

__all__ = ["compare"]

KINDS = ("error", "warning", "remark", "note")

_DESIGNATOR = re.compile(
    r"expected-(?P<kind>\w+)(?P<form>"
    r"[ \t]*(?:@(?P<place>[+-]\d+|above|below|unknown))?"
    r"[ \t]*(?:(?P<count>\d+)(?P<more>\+)?)?"
    r"[ \t]*\{\{(?P<text>[^\n]*?)\}\})?"
)

_NEARBY = {"above": -1, "below": 1}

NO_LINE = 0
"""The line of a message without a location, or about another text; lines count from 1."""


Place = tuple[str, int]
"""Kind and line: what a message and its expectation have in common."""


@dataclass(slots=True, eq=False)
class _Expectation:
    place: Place
    text: str
    min_count: int
    has_more: bool
    loc: Location


def compare(source: Source, produced: list[Diagnostic]) -> list[Diagnostic]:
    """The differences between what `source` expects and what was produced, as errors."""
    errors: list[Diagnostic] = []
    expected: dict[Place, list[_Expectation]] = {}
    for expectation in _expectations(source, errors):
        expected.setdefault(expectation.place, []).append(expectation)
    messages: dict[Place, list[tuple[str, Location | None]]] = {}
    for kind, message, loc in _flat(produced):
        is_here = loc is not None and loc.source.name == source.name
        messages.setdefault((kind, loc.line if loc is not None and is_here else NO_LINE), []).append(
            (message, loc)
        )
    for place in {**messages, **expected}:
        errors += _differences(place[0], messages.get(place, []), expected.get(place, []))
    return sorted(errors, key=lambda d: d.loc.start if d.loc else -1)


def _differences(
    kind: str, messages: list[tuple[str, Location | None]], expected: list[_Expectation]
) -> Iterator[Diagnostic]:
    """Messages and expectations of one kind on one line that do not match."""
    # an expectation of N messages has N slots, each for one message; N is what a comment says, so it is
    # capped: one slot more than there are messages stays empty just as many would
    slots = [e for e in expected for _ in range(min(e.min_count, len(messages) + 1))]
    matching = _match([[i for i, e in enumerate(slots) if e.text in message] for message, _ in messages])
    matched = set(matching.values())
    for number, (message, loc) in enumerate(messages):
        # `N+` takes any further message that fits, beyond its N slots
        if number not in matched and not any(e.has_more and e.text in message for e in expected):
            yield Diagnostic("error", f"unexpected {kind}: {message}", loc)
    for expectation in expected:
        count = sum(slots[slot] is expectation for slot in matching)
        if count < expectation.min_count:
            times = "" if expectation.min_count == 1 else f", {count} of {expectation.min_count} times"
            text = f'expected {kind} "{expectation.text}" was not produced{times}'
            yield Diagnostic("error", text, expectation.loc)


def _match(choices: list[list[int]]) -> dict[int, int]:
    """Slot -> message: a maximum bipartite matching; `choices` are the slots that each message fits.

    Kuhn's algorithm: a message takes a free slot, or one whose message can move to another.
    """
    matching: dict[int, int] = {}

    def assign(message: int, tried: set[int]) -> bool:
        for slot in choices[message]:
            if slot not in tried:
                tried.add(slot)
                if slot not in matching or assign(matching[slot], tried):
                    matching[slot] = message
                    return True
        return False

    for message in range(len(choices)):
        assign(message, set())
    return matching


def _flat(produced: list[Diagnostic]) -> Iterator[tuple[str, str, Location | None]]:
    """Messages with their notes, each note as a message of its own."""
    for diagnostic in produced:
        yield diagnostic.severity, diagnostic.message, diagnostic.loc
        for message, loc in diagnostic.notes:
            yield "note", message, loc


def _expectations(source: Source, errors: list[Diagnostic]) -> Iterator[_Expectation]:
    for match in _DESIGNATOR.finditer(source.text):
        line_start = source.text.rfind("\n", 0, match.start()) + 1
        if "//" not in source.text[line_start : match.start()]:
            continue
        loc = Location(source, match.start(), match.end())
        if match["kind"] not in KINDS or match["form"] is None:
            help = "write expected-error @+1 {{part of the message}}; also -warning, -remark, -note"
            errors.append(Diagnostic("error", "not an expectation", loc, help=help))
            continue
        place = match["kind"], _line(match["place"] or "+0", loc.line)
        yield _Expectation(place, match["text"], int(match["count"] or 1), bool(match["more"]), loc)


def _line(place: str, current_line: int) -> int:
    if place == "unknown":
        return NO_LINE
    return current_line + (_NEARBY[place] if place in _NEARBY else int(place))
