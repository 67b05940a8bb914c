"""Checks the use of a named kernel: its buffers by role, its parameters by name, and what their extents say of these.

A buffer of several dimensions has its elements row by row, and its last extent may be a parameter's value:

    buffer @x : f32[8, 64] read     math.softmax(@x, @y)     columns is 64
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from .diagnostics import Diagnostic, Location, Replacement, spelling_at, suggest
from .ops import NAMED_KERNELS, SCHEDULE, KernelDef, Role
from .parse_holes import NO_HOLES, ParseHoles
from .program import AccessMode, Buffer

__all__ = ["check_kernel", "complete_params"]

Report = Callable[[str, Location | None, str | None], Diagnostic]
"""Adds an error: its message, where it is, and help; gives it, for notes."""


def complete_params(
    kernel: KernelDef, buffers: Sequence[Buffer], params: Mapping[str, int]
) -> dict[str, int]:
    """The parameters, and those that are left out as the extents of `buffers`, which are known, say them.

    Raises ValueError where an extent contradicts a parameter, or another extent.
    """
    uses = kernel.with_roles(buffers)
    completed = {**_said_by_rows(uses), **params}
    for _, message in _contradictions(uses, completed):
        raise ValueError(message)
    return completed


def check_kernel(
    name: str,
    buffers: tuple[str, ...],
    params: Mapping[str, Any],
    declared: Mapping[str, Buffer],
    loc: Location | None,
    diagnostics: list[Diagnostic],
    holes: ParseHoles = NO_HOLES,
    is_stage: bool = False,
) -> None:
    """Append the errors of `name(@buffers) {params}`; all of `buffers` are in `declared`.

    `is_stage`: extents that are open are looked at once more when a plan is made for their values.
    """

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
    known = {**_said_by_rows(valid), **params}
    open_rows = {
        role.row for buffer, role in valid if is_stage and _row_of(buffer) is None
    } & kernel.params.keys()
    _check_params(name, kernel, params, known, open_rows, error, loc)
    if len(diagnostics) == before:
        for buffer, message in _contradictions(uses, known):
            where = loc.find(f"@{buffer.name}") if loc else None
            error(f"{name}: {message}", where).note(f"@{buffer.name} is declared here", buffer.loc)
    if len(diagnostics) == before and open_rows <= known.keys():
        _check_sizes(name, uses, known, error, loc)


def _row_of(buffer: Buffer) -> int | None:
    """The elements of a row; 0 of one dimension, and None of an open extent."""
    return buffer.shape[-1] if buffer.dimensions > 1 else 0


def _said_by_rows(uses: Sequence[tuple[Buffer, Role]]) -> dict[str, int]:
    """What the last extents of buffers say of parameters; of several that say one, the first."""
    said: dict[str, int] = {}
    others = {role.name for _, role in uses}
    for buffer, role in uses:
        row = _row_of(buffer)
        if buffer.dimensions > 1 and row is not None and role.row and role.row not in others:
            said.setdefault(role.row, row)
    return said


def _contradictions(
    uses: Sequence[tuple[Buffer, Role]], params: Mapping[str, int]
) -> Iterator[tuple[Buffer, str]]:
    """The buffers whose last extent is not the one that their role has, each with what is wrong."""
    sizes = {**{role.name: buffer.count for buffer, role in uses}, **params}
    for buffer, role in uses:
        row, size = _row_of(buffer), sizes.get(role.row)
        if buffer.dimensions > 1 and row is not None and size is not None and row != size:
            has = f"{role.row} is {size}" if role.row in params else f"{role.row} has {size} elements"
            yield buffer, f"{has}, and a row of @{buffer.name} has {row}"


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
    name: str,
    kernel: KernelDef,
    params: Mapping[str, Any],
    known: Mapping[str, Any],
    open_rows: Container[str],
    error: Report,
    loc: Location | None,
) -> None:
    """`known`: the parameters, and those that extents say; `open_rows`: those that open extents will say."""
    fields = [SCHEDULE + f for f in kernel.schedule]
    for key in params:
        if key.startswith(SCHEDULE) and key not in fields:
            field = key.removeprefix(SCHEDULE)
            help: str | None
            if field in kernel.renamed:
                new = SCHEDULE + kernel.renamed[field]
                help = Replacement.of(f"{key} is called {new} now", key, new)
            else:
                help = suggest(field, kernel.schedule, SCHEDULE) or f"it has {', '.join(fields)}"
            error(f"the schedule of {name} has no {field}", loc.find(key) if loc else None, help)
        elif key not in kernel.params and key not in fields:
            error(f"{name} has no parameter {key}", loc, suggest(key, [*kernel.params, *fields]))
    unknown = params.keys() - kernel.params.keys() - set(fields)
    for key, default in kernel.params.items():
        if key not in known and default is None:
            if (
                not unknown and key not in open_rows
            ):  # else one of the unknown parameters may be this one, misspelt
                error(f"{name} needs its parameter {key}", loc, f"write {spelling_at(loc).parameter(key)}")
        elif key in known and key in kernel.ranges:
            least, most = kernel.ranges[key]
            if not least <= known[key] <= most:
                error(f"{name}: {key} is {least} to {most}, not {known[key]}", loc, None)
        elif known.get(key, 1) < 0:
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
