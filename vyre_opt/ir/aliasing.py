"""One buffer for two parameters of what reads and writes them: nothing orders the accesses of a launch or a named kernel."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .declarations import AccessMode
from .diagnostics import Diagnostic, Location, source_text, spelling_at

__all__ = ["check_aliasing"]


def check_aliasing(
    callee: str,
    buffers: Sequence[str],
    formals: Sequence[tuple[str, AccessMode | None]],
    loc: Location | None,
    diagnostics: list[Diagnostic],
) -> None:
    """Append an error for each of `buffers` passed for two parameters of which one is written.

    `formals`: name and access of each parameter of `callee`.
    """
    if len(set(buffers)) == len(buffers):
        return
    first: dict[str, tuple[str, AccessMode | None]] = {}
    for name, (formal, access) in zip(buffers, formals, strict=False):
        other, other_access = first.setdefault(name, (formal, access))
        if other != formal and (access, other_access) != (AccessMode.READ, AccessMode.READ):
            does = "read" if AccessMode.READ in (access, other_access) else "write"
            message = f"{callee} would {does} @{name} while it writes it, as its {other} and its {formal}"
            help = f"pass a second buffer in the place of {formal}"
            text = source_text(loc)
            if spelling_at(loc).name == "PYTHON" and text.count("(") and "\n" not in text:
                launch, _, rest = text.rpartition("(")
                there, back = (f"{launch}({_with(rest, name, n)}" for n in (1, 0))
                help += f", an argument of the pipeline's; or write t = vyre.zeros(len({name}), f32), {there} and {back}, which goes there and back"
            diagnostics.append(Diagnostic("error", message, loc.find(f"@{name}") if loc else None, help=help))


def _with(arguments: str, name: str, place: int) -> str:
    """Arguments of a launch with t in the first or the last place of a name."""
    places = [match.span() for match in re.finditer(rf"\b{re.escape(name)}\b", arguments)]
    start, end = places[-1 if place else 0]
    return f"{arguments[:start]}t{arguments[end:]}"
