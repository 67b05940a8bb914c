"""Tiles of workgroup memory with more elements than there are invocations, of which each takes one.

buffer @t : u32[256] workgroup      in a workgroup of 64
store 0, @t[%l]                     192 elements begin with anything
atomic_add @t[%v], 1                and each of them may be counted on
%n = load @t[%l]                    192 sums are lost
"""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Diagnostic, spelling_at
from ..program import Buffer, Op, Program, Value

__all__ = ["parts_of_tiles"]


def parts_of_tiles(program: Program) -> Iterator[Diagnostic]:
    """The warnings of stores and loads at a local_id alone, of buffers that atomics change at other places."""
    accesses: dict[str, list[Op]] = {}
    for op in program.walk():
        if "buffer" in op.attrs and program.buffers[op.attrs["buffer"]].is_on_chip:
            accesses.setdefault(op.attrs["buffer"], []).append(op)
    for name, ops in accesses.items():
        buffer = program.buffers[name]
        count = buffer.count or 0
        atomics = [op for op in ops if op.definition.format == "atomic" and not _is_local_id(op.indices[0])]
        is_line = buffer.dimensions == 1 and program.workgroup[1:] == (1, 1) and not buffer.is_cluster
        if not atomics or not is_line or count <= program.lanes:
            continue
        for kind, verb in (("store", "sets"), ("load", "reads")):
            own = [op for op in ops if op.name == kind]
            if own and all(_is_local_id(op.indices[0]) for op in own):
                yield _part(program, buffer, own[0], verb, atomics[0])


def _is_local_id(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "local_id"


def _part(program: Program, buffer: Buffer, op: Op, verb: str, atomic: Op) -> Diagnostic:
    spelling, count, lanes = spelling_at(op.loc), buffer.count or 0, program.lanes
    shown, id = spelling.buffer(buffer.name), spelling.id("local_id", 0)
    message = f"this {verb} the first {lanes} of the {count} elements of {shown}, one for each invocation, and all of them are counted on"
    help = f"go over all of them, for k in range({id}, {count}, {lanes}): with k for the index"
    if spelling.name != "PYTHON":
        help = f"go over all of them, for %k = %l to {count} step {lanes}"
    return Diagnostic("warning", message, op.loc, help=help).note("it is counted on here", atomic.loc)
