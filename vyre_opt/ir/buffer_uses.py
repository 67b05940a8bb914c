"""First use of each buffer by a program, and the buffers that it may write."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field

from ..records import dataclass
from .program import AccessMode, Block, Op, Program

__all__ = ["NO_USES", "BufferUses", "buffer_uses"]


@dataclass(slots=True)
class BufferUses:
    """`first_reads`: the first op that reads a buffer, where no store to the buffer can come before it.

    `written`: the buffers that ops write; an atomic does so, too.
    """

    first_reads: dict[str, Op] = field(default_factory=dict)
    written: set[str] = field(default_factory=set)


NO_USES = BufferUses()


Running = Callable[[Op], Sequence[Block]]
"""The blocks of an op that may run."""


def buffer_uses(program: Program, running: Running = lambda op: op.regions) -> BufferUses:
    """The uses of the buffers of a program, in the blocks that may run."""
    uses = BufferUses()
    _visit(program.body, uses, set(), running)
    return uses


def _visit(
    block: Block, uses: BufferUses, stored: set[str], running: Running, is_repeated: bool = False
) -> None:
    """`stored`: the buffers to which ops before may have stored.  `is_repeated`: the block is in a loop, all of whose stores
    are among them, since an earlier round may have done them."""
    for op in block.ops:
        is_loop = op.name in ("for", "while")
        regions = running(op) if op.regions else ()
        if is_loop and not is_repeated:
            stored.update(name for region in regions for inner in region.walk() for name in _stores(inner))
        for region in regions:
            _visit(region, uses, stored, running, is_repeated or is_loop)
        for name in _reads(op):
            if name not in stored:
                uses.first_reads.setdefault(name, op)
        for name in _stores(op):
            stored.add(name)
            uses.written.add(name)
        if "atomic" in op.definition.effects:
            uses.written.add(op.attrs["buffer"])


def _stores(op: Op) -> Iterator[str]:
    """The buffers to which an op stores; an atomic, which adds to what is there, does not."""
    kernel = op.definition.kernel
    if kernel is not None:
        pairs = kernel.with_roles(op.attrs["buffers"])
        yield from (name for name, role in pairs if role.access is not AccessMode.READ)
    elif "write" in op.definition.effects and ("atomic" not in op.definition.effects or _is_store(op)):
        yield op.attrs["buffer"]


def _reads(op: Op) -> Iterator[str]:
    """The buffers whose contents an op takes."""
    kernel = op.definition.kernel
    if kernel is not None:
        pairs = kernel.with_roles(op.attrs["buffers"])
        yield from (name for name, role in pairs if role.access is not AccessMode.WRITE)
    elif "read" in op.definition.effects and not _is_store(op):
        yield op.attrs["buffer"]


def _is_store(op: Op) -> bool:
    """Whether it is an exchange, which stores whatever was there."""
    return op.name == "atomic_exchange"
