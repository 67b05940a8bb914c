"""Checks the use of a named kernel: its buffers by role, its parameters by name, and what their extents say of these.

A buffer of several dimensions has its elements row by row, and its last extent may be a parameter's value:

    buffer @x : f32[8, 64] read     math.softmax(@x, @y)     columns is 64

The number of elements of a buffer is the product that its role's `shape` says, of which one factor may follow from it:

    acc: rows    core: rows columns    out: >= columns       of 64, 4096 and 70 elements: rows is 64, columns is 64
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from math import prod
from typing import Any

from ..records import dataclass
from .aliasing import check_aliasing
from .diagnostics import Diagnostic, Location, Replacement, spelling_at
from .fixes import with_access
from .grids import MAX_LENGTH
from .ops import NAMED_KERNELS, SCHEDULE, KernelDef, Role
from .parse_holes import NO_HOLES, ParseHoles
from .program import AccessMode, Buffer
from .suggestions import suggest_later

__all__ = ["MisfitError", "check_kernel", "complete_params"]


@dataclass(frozen=True, slots=True)
class Misfit:
    """A size that does not fit: what is wrong and what to do; without a buffer, of the parameters."""

    buffer: Buffer | None
    message: str
    help: str


class MisfitError(ValueError):
    """A size that does not fit, in the sizes of a call.  `help`: what to do."""

    def __init__(self, problem: Misfit) -> None:
        super().__init__(problem.message)
        self.help = problem.help


Report = Callable[[str, Location | None, str | None], Diagnostic]
"""Adds an error: its message, where it is, and help; gives it, for notes."""


def complete_params(
    kernel: KernelDef, buffers: Sequence[Buffer], params: Mapping[str, int]
) -> dict[str, int]:
    """The parameters, and those that are left out as the extents of `buffers`, which are known, say them.

    Raises MisfitError where an extent contradicts a parameter, or another extent, and for sizes that do not fit together.
    """
    uses = kernel.with_roles(buffers)
    completed = {**_said_by_rows(uses), **params}
    for problem in (*_contradictions(uses, completed), *_misfits(kernel, uses, completed)):
        raise MisfitError(problem)
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

    def misfit(problem: Misfit) -> None:
        buffer = problem.buffer
        where = loc.find(f"@{buffer.name}") if loc and buffer else loc
        found = error(f"{name}: {problem.message}", where, problem.help)
        if buffer is not None:
            found.note(f"@{buffer.name} is declared here", buffer.loc)

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
    _check_buffers(name, valid, error, loc, is_stage)
    check_aliasing(name, buffers, [(role.name, role.access) for role in kernel.roles], loc, diagnostics)
    known = {**_said_by_rows(valid), **params}
    open_rows = {
        role.row for buffer, role in valid if is_stage and _row_of(buffer) is None
    } & kernel.params.keys()
    _check_params(name, kernel, params, known, open_rows, error, loc)
    if len(diagnostics) == before:
        for problem in _contradictions(uses, known):
            misfit(problem)
    if len(diagnostics) == before and open_rows <= known.keys():
        for problem in _misfits(kernel, uses, known):
            misfit(problem)


def _row_of(buffer: Buffer) -> int | None:
    """The elements of a row; 0 of one dimension, and None of an open extent."""
    return buffer.shape[-1] if buffer.dimensions > 1 else 0


def _said_by_rows(uses: Sequence[tuple[Buffer, Role]]) -> dict[str, int]:
    """Parameters that the last extents of buffers determine; the first buffer that determines one decides."""
    said: dict[str, int] = {}
    others = {role.name for _, role in uses}
    for buffer, role in uses:
        row = _row_of(buffer)
        if buffer.dimensions > 1 and row is not None and role.row and role.row not in others:
            said.setdefault(role.row, row)
    return said


def _contradictions(uses: Sequence[tuple[Buffer, Role]], params: Mapping[str, int]) -> Iterator[Misfit]:
    """The buffers whose last extent is not the one that their role has."""
    sizes = {**{role.name: buffer.count for buffer, role in uses}, **params}
    for buffer, role in uses:
        row, size = _row_of(buffer), sizes.get(role.row)
        if buffer.dimensions > 1 and row is not None and size is not None and row != size:
            has = f"{role.row} is {size}" if role.row in params else f"{role.row} has {size} elements"
            help = f"give rows of @{buffer.name} {size} elements"
            yield Misfit(buffer, f"{has}, and a row of @{buffer.name} has {row}", help)


def _check_buffers(
    name: str, uses: Sequence[tuple[Buffer, Role]], error: Report, loc: Location | None, is_stage: bool
) -> None:
    """`is_stage`: what a pipeline gives its caller, a stage may read, since an earlier one may have written it."""
    types = {role.name: buffer.dtype.bound for buffer, role in uses}
    for buffer, role in uses:
        where = loc.find(f"@{buffer.name}") if loc else None

        def wrong(
            message: str, help: str | None = None, buffer: Buffer = buffer, where: Location | None = where
        ) -> Diagnostic:
            return error(message, where, help).note(f"@{buffer.name} is declared here", buffer.loc)

        if buffer.dtype.bound not in role.types:
            names = " or ".join(t.name for t in role.types)
            wrong(
                f"{name}: {role.name} holds {names}, @{buffer.name} holds {buffer.dtype}",
                f"declare it {names}",
            )
        elif role.like in types and buffer.dtype.bound not in (types[role.like], *role.also):
            names = " or ".join(dict.fromkeys(t.name for t in (types[role.like], *role.also)))
            wrong(
                f"{name}: {role.name} holds {names} where {role.like} holds {types[role.like]}, "
                f"@{buffer.name} holds {buffer.dtype}",
                f"declare it {names}",
            )
        lacks = ""
        if buffer.access is AccessMode.READ and role.access is not AccessMode.READ:
            lacks = f"{name} writes its {role.name}, @{buffer.name} is read-only"
        elif buffer.access is AccessMode.WRITE and role.access is AccessMode.READ and not is_stage:
            lacks = f"{name} reads its {role.name}, @{buffer.name} is write-only"
        if lacks:
            wrong(lacks, "declare it read_write").add_fix(with_access(buffer, "read_write"))
        if buffer.is_on_chip:
            help = "declare it in storage: read, write or read_write, with a binding"
            wrong(f"{name} takes buffers in storage, @{buffer.name} is {buffer.access} memory", help)


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
                help = f"it has {', '.join(fields)}"
            wrong = error(f"the schedule of {name} has no {field}", loc.find(key) if loc else None, help)
            if field not in kernel.renamed:
                wrong.suggestion = suggest_later(field, kernel.schedule, SCHEDULE)
        elif key not in kernel.params and key not in fields:
            wrong = error(f"{name} has no parameter {key}", loc, None)
            wrong.suggestion = suggest_later(key, [*kernel.params, *fields])
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
                error(
                    f"{name}: {key} is {least} to {most}, not {known[key]}",
                    loc,
                    f"choose {key} in that range",
                )
        elif known.get(key, 1) < 0:
            error(f"{name}: {key} is at least 0", loc, None)


def _misfits(
    kernel: KernelDef, uses: Sequence[tuple[Buffer, Role]], params: Mapping[str, Any]
) -> Iterator[Misfit]:
    """The counts, of those that are known, that do not fit the shapes of the roles; a size that is no parameter follows
    from the first buffer that has no other unknown one."""
    sizes = kernel.semantic_params(params)
    for buffer, _ in uses:
        if (buffer.count or 0) > MAX_LENGTH:
            message = f"@{buffer.name} has {buffer.count} elements; a named kernel takes {MAX_LENGTH} at most"
            yield Misfit(buffer, message, "use several buffers, one after the other")
            return
    waiting = [(buffer, role) for buffer, role in uses if role.shape and buffer.count is not None]
    while True:
        try:
            _add_sizes(kernel, sizes)
        except ValueError as error:
            yield Misfit(None, str(error), "choose parameters that fit together")
            return
        ready = [use for use in waiting if len(_unknown(use[1], sizes)) < 2]
        if not ready:
            return
        buffer, role = ready[0]
        waiting.remove(ready[0])
        problem = _misfit(kernel, buffer, role, sizes)
        if problem is not None:
            yield problem
            return


def _add_sizes(kernel: KernelDef, sizes: dict[str, int]) -> None:
    """Add the sizes that are functions of others.  Raises ValueError where those do not fit together."""
    for name, rule in kernel.sizes.items():
        try:
            sizes.setdefault(name, rule(sizes))
        except KeyError:  # of a buffer that is open
            continue


def _unknown(role: Role, sizes: Mapping[str, int]) -> list[str]:
    return [size for size in role.shape if size not in sizes and not size.isdecimal()]


def _misfit(kernel: KernelDef, buffer: Buffer, role: Role, sizes: dict[str, int]) -> Misfit | None:
    """Whether a count is not the one of its role, of which one size at most is unknown; that one is added to `sizes`."""
    count = buffer.count or 0
    known = prod(int(size) if size.isdecimal() else sizes.get(size, 1) for size in role.shape)
    shown = " x ".join(str(sizes.get(size, size)) for size in role.shape)
    needs = f"{role.name} has {' x '.join(role.shape)} elements, {shown}; @{buffer.name} has {count}"
    unknown = _unknown(role, sizes)
    if not unknown:
        if count == known or (role.may_be_longer and count > known):
            return None
        wanted = f"at least {known}" if role.may_be_longer else known
        return Misfit(buffer, needs, f"give @{buffer.name} {wanted} elements")
    if known == 0 or (count % known and not role.may_be_longer):
        return Misfit(buffer, needs, f"give @{buffer.name} a multiple of {known} elements")
    if not role.may_be_longer:
        (solved,) = unknown
        value = sizes[solved] = count // known
        least, most = kernel.ranges.get(solved, (0, MAX_LENGTH))
        if not least <= value <= most:
            message = (
                f"{solved} is {least} to {most}, not {value}, which follows from @{buffer.name} of {count}"
            )
            return Misfit(buffer, message, f"give @{buffer.name} {least * known} to {most * known} elements")
    return None
