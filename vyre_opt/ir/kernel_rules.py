"""Checks the use of a named kernel: its buffers by role, its parameters by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from .diagnostics import Diagnostic, Location, spelling_at, suggest
from .ops import NAMED_KERNELS, SCHEDULE, Role
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

    kernel, before = NAMED_KERNELS[name], len(diagnostics)
    if not kernel.takes(len(buffers)):
        roles = ", ".join(f"@{role.name}" for role in kernel.roles)
        help = f"write {name}({roles})"
        optional = [f"@{role.name}" for role in kernel.roles if role.optional]
        if optional:
            help += f"; {', '.join(optional)} may be left out"
        error(f"{name} takes {kernel.numbers_of_buffers} buffers, {len(buffers)} given", help=help)
        return
    uses = [(declared[buffer_name], role) for buffer_name, role in kernel.with_roles(buffers)]
    types = {role.name: buffer.dtype.bound for buffer, role in uses if not holes.is_invalid(buffer)}
    for buffer_name, role in kernel.with_roles(buffers):
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
        elif role.like in types and buffer.dtype.bound not in (types[role.like], *role.also):
            names = " or ".join(dict.fromkeys(t.name for t in (types[role.like], *role.also)))
            diagnostic = error(
                f"{name}: {role.name} holds {names} where {role.like} holds {types[role.like]}, "
                f"@{buffer_name} holds {buffer.dtype}",
                where,
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
        elif key in params and key in kernel.ranges:
            least, most = kernel.ranges[key]
            if not least <= params[key] <= most:
                error(f"{name}: {key} is {least} to {most}, not {params[key]}")
        elif params.get(key, 1) < 0:
            error(f"{name}: {key} is at least 0")
    if len(diagnostics) == before:
        _check_sizes(name, uses, params, error, loc)


def _check_sizes(
    name: str,
    uses: Sequence[tuple[Buffer, Role]],
    params: Mapping[str, Any],
    error: Callable[..., Diagnostic],
    loc: Location | None,
) -> None:
    """Check the counts that are known against the shapes of the roles; a size that is no parameter follows from the
    first buffer that has it."""
    sizes = dict(params)
    for buffer, role in uses:
        if not role.shape or buffer.count is None:
            continue
        count = prod(sizes.get(size, 1) for size in role.shape)
        unknown = [size for size in role.shape if size not in sizes]
        if len(unknown) == 1 and buffer.count % count == 0:
            sizes[unknown[0]] = buffer.count // count
        elif unknown or buffer.count != count:
            shown = " x ".join(str(sizes.get(size, size)) for size in role.shape)
            where = loc.find(f"@{buffer.name}") if loc else None
            message = f"{name}: {role.name} has {' x '.join(role.shape)} elements, {shown}; @{buffer.name} has {buffer.count}"
            error(message, where).note(f"@{buffer.name} is declared here", buffer.loc)
