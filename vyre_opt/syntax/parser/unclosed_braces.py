"""Search for the brace of a text that has no partner."""

from __future__ import annotations

import re

__all__ = ["unclosed_brace"]

_TOKEN = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|(?P<newline>\n[ \t]*)|(?P<brace>[{}])')


def unclosed_brace(text: str, start: int, end: int) -> int | None:
    """The offset of the `{` between two offsets that most likely lacks its `}`; None if all are closed.

    A `}` that begins a line closes the block whose first line is indented as it is.  Braces in between that a
    plain count would take for closed are the ones that are not; where indentation says nothing, it is the
    innermost brace that is open at the end.
    """
    opened: list[tuple[int, str]] = []  # (offset, indentation of its line)
    suspect: int | None = None
    indentation = text[text.rfind("\n", 0, start) + 1 : start]
    indentation = indentation[: len(indentation) - len(indentation.lstrip())]
    at_line_start = True
    last = start
    for match in _TOKEN.finditer(text, start, end):
        at_line_start &= not text[last : match.start()].strip()
        if match["newline"]:
            indentation, at_line_start = match["newline"][1:], True
        elif match["brace"] == "{":
            opened.append((match.start(), indentation))
            at_line_start = False
        elif match["brace"] and opened:
            partner = len(opened) - 1
            if at_line_start and len(opened[-1][1]) > len(indentation):
                alike = [k for k, (_, indent) in enumerate(opened) if indent == indentation]
                partner = alike[-1] if alike else partner
            if partner < len(opened) - 1 and suspect is None:
                suspect = opened[partner + 1][0]
            del opened[partner:]
            at_line_start = False
        last = match.end()
    if suspect is not None:
        return suspect
    return opened[-1][0] if opened else None
