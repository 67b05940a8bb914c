"""`--remarks-file`: remarks in the YAML of LLVM's optimization remarks, for opt-viewer and llvm-remarkutil.

--- !Missed
Pass:            decode_scan_fuse
Name:            OverBudget
DebugLoc:        { File: 'scan.vyre', Line: 12, Column: 3 }
Function:        scan
Args:
  - String:          '@'
  - Buffer:          'mid'
  - String:          ': its tile passes the budget'
...

The values of Args are the message in pieces, those of them that a program may ask for under their keys.  The readers
of LLVM take only what is written as LLVM writes it, so no YAML library does: they know no escapes.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from ..ir.diagnostics import printable

if TYPE_CHECKING:
    from ..passes.manager import Remark

__all__ = ["yaml_text"]

_KINDS = {"applied": "Passed", "refused": "Missed"}
"""All else is an Analysis."""

_NO_STRINGS = ("null", "true", "false", "yes", "no", "on", "off", "y", "n")
"""Words that YAML readers take for something else where they stand without quotes."""

MODULE = "module"
"""The Function of a remark that is about no item: the format wants one."""


def yaml_text(remarks: Iterable[Remark]) -> str:
    """One document for each remark."""
    return "".join(f"{line}\n" for remark in remarks for line in _document(remark))


def _document(remark: Remark) -> Iterator[str]:
    yield f"--- !{_KINDS.get(remark.kind, 'Analysis')}"
    yield _row("Pass", remark.pass_name)
    yield _row("Name", _name(remark))
    if remark.loc is not None:
        file = _quoted(remark.loc.source.name)
        place = f"File: {file}, Line: {remark.loc.line}, Column: {remark.loc.column}"
        yield f"{'DebugLoc:':<17}{{ {place} }}"
    yield _row("Function", remark.item or MODULE)
    yield "Args:"
    for key, text in _pieces(remark):
        yield f"  - {f'{key}:':<17}{_quoted(text)}"
    yield "..."


def _row(key: str, value: str) -> str:
    is_plain = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", value) and value.lower() not in _NO_STRINGS
    return f"{f'{key}:':<17}{value if is_plain else _quoted(value)}"


def _quoted(text: str) -> str:
    """A scalar on one line: older readers know no blocks."""
    lines = [
        printable(line).strip() if number else printable(line) for number, line in enumerate(text.split("\n"))
    ]
    return "'" + "; ".join(lines).replace("'", "''") + "'"


def _name(remark: Remark) -> str:
    """Kind of a remark among those of its pass: its reason or its claim, as `OverBudget`."""
    certificate = remark.certificate
    name = certificate.get("reason") if remark.kind != "applied" else certificate.get("claim")
    if not isinstance(name, str) or not re.fullmatch(r"\w+(?:[-_]\w+)*", name):
        name = remark.kind
    return "".join(word[:1].upper() + word[1:] for word in re.split(r"[-_]", name))


def _pieces(remark: Remark) -> Iterator[tuple[str, str]]:
    """The message, cut at the facts of the certificate that stand in it, each with its key."""
    message, at = remark.message, 0
    for start, end, key in sorted(_facts_in(remark)):
        if start < at:
            continue
        if start > at:
            yield "String", message[at:start]
        yield key, message[start:end]
        at = end
    if at < len(message) or not message:
        yield "String", message[at:]


def _facts_in(remark: Remark) -> Iterator[tuple[int, int, str]]:
    """Place of a fact in the message, as a name behind its @ or as a number, and its key, as `TileBytes`."""
    taken: set[int] = set()
    for key, value in remark.certificate.items():
        if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
            continue
        before = r"(?<=@)" if isinstance(value, str) else r"(?<![\w.@%-])"
        for match in re.finditer(rf"{before}{re.escape(str(value))}(?![\w$]|\.\w)", remark.message):
            if match.start() not in taken:
                taken.add(match.start())
                yield match.start(), match.end(), "".join(w.capitalize() for w in key.split("_"))
                break
