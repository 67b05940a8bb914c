"""Checks the use of a named kernel: its buffers by role, its parameters by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any

from .diagnostics import Diagnostic, Location, spelling_at, suggest
from .ops import NAMED_KERNELS, SCHEDULE, KernelDef, Role
from .parse_holes import NO_HOLES, ParseHoles
from .program import AccessMode, Buffer

Report = Callable[[str, Location | None, str | None], Diagnostic]
"""Adds an error: its message, where it is, and help; gives it, for notes."""


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
    uses = kernel.with_roles([declared[buffer_name] for buffer_name in buffers])
    valid = [(buffer, role) for buffer, role in uses if not holes.is_invalid(buffer)]
    _check_buffers(name, valid, error, loc)
    _check_params(name, kernel, params, error, loc)
    if len(diagnostics) == before:
        _check_sizes(name, uses, params, error, loc)


def _check_buffers(
    name: str, uses: Sequence[tuple[Buffer, Role]], error: Report, loc: Location | None
) -> None:
    types = {role.name: buffer.dtype.bound for buffer, role in uses}
    for buffer, role in uses:
        where = loc.find(f"@{buffer.name}") if loc else None

        def wrong(
            message: str, help: str | None = None, buffer: Buffer = buffer, where: Location | None = where
        ) -> None:
            error(message, where, help).note(f"@{buffer.name} is declared here", buffer.loc)

        if buffer.dimensions > 1:
            message = f"{name} takes a buffer of one dimension, @{buffer.name} has {buffer.dimensions}"
            count = "?" if buffer.count is None else str(buffer.count)
            wrong(
                message,
                f"declare @{buffer.name} : {buffer.dtype}[{count}]: its elements are the same, row by row",
            )
        if buffer.dtype.bound not in role.types:
            names = " or ".join(t.name for t in role.types)
            wrong(f"{name}: {role.name} holds {names}, @{buffer.name} holds {buffer.dtype}")
        elif role.like in types and buffer.dtype.bound not in (types[role.like], *role.also):
            names = " or ".join(dict.fromkeys(t.name for t in (types[role.like], *role.also)))
            wrong(
                f"{name}: {role.name} holds {names} where {role.like} holds {types[role.like]}, "
                f"@{buffer.name} holds {buffer.dtype}"
            )
        if buffer.access is AccessMode.READ and role.access is not AccessMode.READ:
            wrong(f"{name} writes its {role.name}, @{buffer.name} is read-only")


def _check_params(
    name: str, kernel: KernelDef, params: Mapping[str, Any], error: Report, loc: Location | None
) -> None:
    fields = [SCHEDULE + f for f in kernel.schedule]
    for key in params:
        if key.startswith(SCHEDULE) and key not in fields:
            field = key.removeprefix(SCHEDULE)
            help = suggest(field, kernel.schedule, SCHEDULE) or f"it has {', '.join(fields)}"
            error(f"the schedule of {name} has no {field}", loc.find(key) if loc else None, help)
        elif key not in kernel.params and key not in fields:
            error(f"{name} has no parameter {key}", loc, suggest(key, [*kernel.params, *fields]))
    unknown = params.keys() - kernel.params.keys() - set(fields)
    for key, default in kernel.params.items():
        if key not in params and default is None:
            if not unknown:  # else one of the unknown parameters may be this one, misspelt
                error(f"{name} needs its parameter {key}", loc, f"write {spelling_at(loc).parameter(key)}")
        elif key in params and key in kernel.ranges:
            least, most = kernel.ranges[key]
            if not least <= params[key] <= most:
                error(f"{name}: {key} is {least} to {most}, not {params[key]}", loc, None)
        elif params.get(key, 1) < 0:
            error(f"{name}: {key} is at least 0", loc, None)


def _check_sizes(
    name: str,
    uses: Sequence[tuple[Buffer, Role]],
    params: Mapping[str, Any],
    error: Report,
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
            error(message, where, None).note(f"@{buffer.name} is declared here", buffer.loc)
