"""Edits that diagnostics offer of declarations, heads and launches in the text language."""

from __future__ import annotations

import re
from collections.abc import Container, Sequence
from itertools import chain, count

from .diagnostics import Edit, Fix, Location
from .pipeline import Launch
from .program import Block, Buffer, Program, Value
from .types import DataType

__all__ = [
    "conversion",
    "next_binding",
    "with_access",
    "with_arguments",
    "with_constant",
    "with_declaration",
    "with_flag",
    "with_head_flag",
    "with_stage",
    "without_flag",
]

# compiled when they are needed: a text without mistakes needs none
_ACCESS = r"\s(read|write|read_write|workgroup|cluster)\b"
_ARGUMENTS = r"\)\s*(\((?:\s*@[\w.$]+\s*,?)*\s*\))"


def with_access(buffer: Buffer, access: str) -> Fix | None:
    """Declare a buffer with this access."""
    loc = buffer.loc
    if loc is None:
        return None
    match = re.compile(_ACCESS, re.ASCII).search(loc.source.text, loc.start, loc.end)
    if match is None:
        at = _behind_size(loc)
        return None if at is None else Fix(f"add {access}", (Edit(at, f" {access}"),))
    edit = Edit(Location(loc.source, *match.span(1)), access)
    return Fix(f"declare @{buffer.name} {access}", (edit,))


def with_flag(buffer: Buffer, flag: str) -> Fix | None:
    """Add a flag to the declaration of a buffer."""
    loc = buffer.loc
    if loc is None or _behind_size(loc) is None:
        return None
    end = Location(loc.source, loc.end, loc.end)
    return Fix(f"declare @{buffer.name} {flag}", (Edit(end, f" {flag}"),))


def without_flag(buffer: Buffer, flag: str) -> Fix | None:
    """Remove a flag, and what stands in parentheses behind it, from the declaration of a buffer."""
    loc = buffer.loc
    if loc is None:
        return None
    match = re.compile(rf"\s+{flag}\b(?:\s*\([^)]*\))?").search(loc.source.text, loc.start, loc.end)
    if match is None:
        return None
    return Fix(f"remove {match[0].strip()}", (Edit(Location(loc.source, *match.span()), ""),))


def conversion(value: Value, wanted: DataType) -> str | None:
    """Text of the op that gives a value another type; None where none does."""
    name, has = f"%{value.name}", value.type
    if not (has.has_arithmetic and wanted.has_arithmetic) or wanted.is_bool:
        return None
    if wanted.is_matrix and not has.is_matrix:
        return (
            f"begin with a matrix: iter({name} = 0.0 : {wanted})" if isinstance(value.owner, Block) else None
        )
    if has is wanted.element:
        op = (
            "slice_broadcast"
            if wanted.is_slice and None not in wanted.extents
            else "splat"
            if wanted.is_vec
            else ""
        )
        return f"write it before: {name}_all = {op} {name} : {wanted}" if op else None
    if has.is_bool or has.with_element(wanted.element) is not wanted:
        return None
    return f"convert it before: {name}_{wanted.element} = cast {name} : {has} -> {wanted}"


def next_binding(program: Program) -> str:
    """The flag with the first number behind those of all other buffers."""
    taken = [buffer.binding for buffer in program.buffers.values() if buffer.binding is not None]
    return f"binding({max(taken, default=-1) + 1})"


def with_stage(stage: Location | None, text: str) -> Fix | None:
    """Add a stage of a pipeline before one."""
    if stage is None:
        return None
    source, start = stage.source, stage.start
    line = source.text.rfind("\n", 0, start) + 1
    before = source.text[line:start]
    indent = f"\n{before}" if before.isspace() else " "
    return Fix(f"add {text}", (Edit(Location(source, start, start), text + indent),))


def with_head_flag(name: Location | None, flag: str) -> Fix | None:
    """Add a flag to a program behind its name."""
    if name is None:
        return None
    return Fix(f"add {flag}", (Edit(Location(name.source, name.end, name.end), f" {flag}"),))


def with_declaration(name: Location | None, declaration: str) -> Fix | None:
    """Declare something at the start of the program or the pipeline of this name."""
    brace = -1 if name is None else name.source.text.find("{", name.end)
    if name is None or brace < 0:
        return None
    at = Location(name.source, brace + 1, brace + 1)
    return Fix(f"declare {declaration}", (Edit(at, f"\n  {declaration}"),))


def with_arguments(launch: Launch, buffers: Sequence[str]) -> Fix | None:
    """Pass these buffers to a launch."""
    loc = launch.loc
    if loc is None:
        return None
    match = re.compile(_ARGUMENTS, re.ASCII).search(loc.source.text, loc.start, loc.end)
    if match is None:
        return None
    written = f"({', '.join(f'@{name}' for name in buffers)})"
    return Fix(f"pass {written}", (Edit(Location(loc.source, *match.span(1)), written),))


def with_constant(number: Location, taken: Container[str], value: str, dtype: str) -> Fix:
    """Give a constant among operands a name, in a line before: the first of %c, %c1 and so on that is not `taken`."""
    text = number.source.text
    name = next(name for name in chain(["%c"], map("%c{}".format, count(1))) if name not in taken)
    start = text.rfind("\n", 0, number.start) + 1
    line = text[start : number.start]
    constant = f"{name} = const {value} : {dtype}"
    above = Edit(
        Location(number.source, start, start), f"{line[: len(line) - len(line.lstrip())]}{constant}\n"
    )
    return Fix(f"write {constant} before", (above, Edit(number, name)))


def _behind_size(loc: Location) -> Location | None:
    """The place behind the size in a declaration of the text language."""
    if not loc.source.text.startswith("buffer", loc.start):
        return None
    bracket = loc.source.text.find("]", loc.start, loc.end)
    return None if bracket < 0 else Location(loc.source, bracket + 1, bracket + 1)
