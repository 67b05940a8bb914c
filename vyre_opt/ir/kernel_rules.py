"""Checks the use of a named kernel: its buffers by role, its parameters by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .diagnostics import Diagnostic, Location, suggest
from .ops import NAMED_KERNELS, SCHEDULE
from .parse_holes import NO_HOLES, ParseHoles
from .program import AccessMode, Buffer


def check_kernel(
    name: str,
    buffers: tuple[str, ...],
    params: Mapping[str, Any],
    declared: Mapping[str, Buffer],
    loc: Location | None,
    found: list[Diagnostic],
    holes: ParseHoles = NO_HOLES,
) -> None:
    """Append what is wrong with `name(@buffers) {params}`, whose buffers are all declared."""
    kernel = NAMED_KERNELS[name]
    roles = ", ".join(f"@{role.name}" for role in kernel.roles)
    if len(buffers) != len(kernel.roles):
        message = f"{name} takes {len(kernel.roles)} buffers, {len(buffers)} given"
        found.append(Diagnostic("error", message, loc, help=f"write {name}({roles})"))
        return
    for given, role in zip(buffers, kernel.roles, strict=True):
        buffer = declared[given]
        if holes.is_invalid(buffer):
            continue
        where = loc.find(f"@{given}") if loc else None
        if buffer.dtype.bound not in role.types:
            names = " or ".join(t.name for t in role.types)
            message = f"{name}: {role.name} holds {names}, @{given} holds {buffer.dtype}"
            found.append(Diagnostic("error", message, where).note(f"@{given} is declared here", buffer.loc))
        if buffer.access is AccessMode.READ and role.access is not AccessMode.READ:
            message = f"{name} writes its {role.name}, @{given} is read-only"
            found.append(Diagnostic("error", message, where).note(f"@{given} is declared here", buffer.loc))
    fields = [SCHEDULE + field for field in kernel.schedule]
    for key in params:
        if key.startswith(SCHEDULE) and key not in fields:
            wrong = key.removeprefix(SCHEDULE)
            message = f"the schedule of {name} has no {wrong}"
            help = suggest(wrong, kernel.schedule, SCHEDULE) or f"it has {', '.join(fields)}"
            found.append(Diagnostic("error", message, loc.find(key) if loc else None, help=help))
        elif key not in kernel.params and key not in fields:
            message = f"{name} has no parameter {key}"
            found.append(Diagnostic("error", message, loc, help=suggest(key, [*kernel.params, *fields])))
    unknown = params.keys() - kernel.params.keys() - set(fields)
    for key, default in kernel.params.items():
        if key not in params and default is None and unknown:
            continue  # it may be one that is misspelt
        if key not in params and default is None:
            found.append(
                Diagnostic("error", f"{name} needs its parameter {key}", loc, help=f"write {{{key} = N}}")
            )
        elif params.get(key, 1) < 0:
            found.append(Diagnostic("error", f"{name}: {key} is at least 0", loc))
