"""Checks the use of a named kernel: its buffers by role, its parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .diagnostics import Diagnostic, Location, spelling_at, suggest
from .ops import NAMED_KERNELS, SCHEDULE
from .parse_holes import NO_HOLES, ParseHoles
from .program import AccessMode, Buffer


def check_kernel(
    name: str,
    buffers: tuple[str, ...],
    params: Mapping[str, Any],
    declared: Mapping[str, Buffer],
    loc: Location | None,
    diagnostics: list[Diagnostic],
    holes: ParseHoles = NO_HOLES,
) -> None:
    """Append the errors of `name(@buffers) {params}`; all of `buffers` are in `declared`."""

    def error(message: str, where: Location | None = loc, help: str | None = None) -> Diagnostic:
        diagnostics.append(Diagnostic("error", message, where, help=help))
        return diagnostics[-1]

    kernel = NAMED_KERNELS[name]
    if len(buffers) != len(kernel.roles):
        roles = ", ".join(f"@{role.name}" for role in kernel.roles)
        help = f"write {name}({roles})"
        error(f"{name} takes {len(kernel.roles)} buffers, {len(buffers)} given", help=help)
        return
    for buffer_name, role in zip(buffers, kernel.roles, strict=True):
        buffer = declared[buffer_name]
        if holes.is_invalid(buffer):
            continue
        where = loc.find(f"@{buffer_name}") if loc else None
        if buffer.dimensions > 1:
            message = f"{name} takes a buffer of one dimension, @{buffer_name} has {buffer.dimensions}"
            count = "?" if buffer.count is None else str(buffer.count)
            help = f"declare @{buffer_name} : {buffer.dtype}[{count}]: its elements are the same, row by row"
            error(message, where, help).note(f"@{buffer_name} is declared here", buffer.loc)
        if buffer.dtype.bound not in role.types:
            names = " or ".join(t.name for t in role.types)
            diagnostic = error(
                f"{name}: {role.name} holds {names}, @{buffer_name} holds {buffer.dtype}", where
            )
            diagnostic.note(f"@{buffer_name} is declared here", buffer.loc)
        if buffer.access is AccessMode.READ and role.access is not AccessMode.READ:
            diagnostic = error(f"{name} writes its {role.name}, @{buffer_name} is read-only", where)
            diagnostic.note(f"@{buffer_name} is declared here", buffer.loc)
    fields = [SCHEDULE + f for f in kernel.schedule]
    for key in params:
        if key.startswith(SCHEDULE) and key not in fields:
            field = key.removeprefix(SCHEDULE)
            help = suggest(field, kernel.schedule, SCHEDULE) or f"it has {', '.join(fields)}"
            error(f"the schedule of {name} has no {field}", loc.find(key) if loc else None, help)
        elif key not in kernel.params and key not in fields:
            error(f"{name} has no parameter {key}", help=suggest(key, [*kernel.params, *fields]))
    unknown = params.keys() - kernel.params.keys() - set(fields)
    for key, default in kernel.params.items():
        if key not in params and default is None:
            if not unknown:  # else one of the unknown parameters may be this one, misspelt
                error(f"{name} needs its parameter {key}", help=f"write {spelling_at(loc).parameter(key)}")
        elif params.get(key, 1) < 0:
            error(f"{name}: {key} is at least 0")
