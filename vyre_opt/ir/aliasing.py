"""One buffer for two parameters of what reads and writes them: nothing orders the accesses of a launch or a named kernel."""

from __future__ import annotations

from collections.abc import Sequence

from .declarations import AccessMode
from .diagnostics import Diagnostic, Location

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
            diagnostics.append(Diagnostic("error", message, loc.find(f"@{name}") if loc else None, help=help))
