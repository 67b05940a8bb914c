"""The ABI of a GPU kernel: its parameters in order, and the record that a fault leaves.

    buffers     a pointer each, 16-byte aligned: the bound buffers in binding order, then the
                transient ones
    lengths     u64 element counts of the buffers of open size, in the same order
    scalars     u64, the bits of each param of the program, in the order of their names
    status      a pointer to a fault record in GPU memory, if the program may fault
    call        u64, repeated in that record: it tells the fault of one launch from that of another
    arrivals    a pointer to a zeroed u32, if the program has a grid barrier

A launcher walks `EntryPoint.params` and passes one argument for each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from ...ir.program import Buffer, Dim3, Module, Op, Program
from ...records import dataclass

__all__ = [
    "ALIGNMENT",
    "BOUNDS",
    "Fault",
    "FaultSite",
    "EntryPoint",
    "KernelParam",
    "FILLED_BYTES",
    "RECORD_BYTES",
    "Unit",
    "read_record",
    "storage_buffers",
]

ALIGNMENT = 16
"""The alignment of every buffer in bytes; 16-byte vector accesses rely on it."""

BOUNDS = ("none", "clamp", "trap")
"""Effects of an out-of-bounds access, in this order: undefined behaviour, access to the nearest element, fault."""

FILLED_BYTES = 72
RECORD_BYTES = 88
"""Bytes of a fault record: the part that a fault writes, and the whole with the copy for the host.

     0  site, 0 if there is no fault     32  index     56  three open extents
     4  workgroup x y z, local x y z     40  length    68  nothing
    28  third index                      48  call      72  address of a copy of the bytes before it, or 0
                                                       80  address of a word that is set to 1 with the copy

Of an access to a buffer of several dimensions, the place of the length has the second index, and the third one is the
low half of that.  Its extents that are open come in the order of the dimensions.
"""

_RECORD = struct.Struct("<8I3Q3I")


@dataclass(frozen=True, slots=True)
class Unit:
    """A program to compile, the module with the functions it calls, and encoded values of its specs."""

    program: Program
    module: Module | None = None
    specs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelParam:
    """A kernel parameter.  `kind`: buffer, length, scalar, status, call or arrivals; `name`: of the buffer, or of the
    scalar's param, for the first three."""

    kind: str
    name: str = ""


@dataclass(frozen=True, slots=True)
class FaultSite:
    """An op that may fault.  `kind`: the kind of its ProgramError: bounds, trap, assert or step.

    `width`: the number of elements that the access touches.
    """

    op: Op
    kind: str
    width: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault record: the number of the fault site, counted from 1, and the invocation that faulted.

    `index` and `length` (of the buffer) are in elements; for a step fault `index` is the step.
    `call`: the number that the launch was passed.
    """

    site: int
    workgroup: Dim3
    local: Dim3
    index: int
    length: int
    call: int = 0
    third: int = 0
    extents: tuple[int, ...] = ()
    """The open extents of the buffer of several dimensions that such a trap is of, and zeros."""

    @property
    def indices(self) -> tuple[int, int, int]:
        """The words of the indices of a trap that is an access out of bounds (see row_major.py)."""
        return self.index, self.length, self.third


@dataclass(slots=True)
class EntryPoint:
    """A kernel of a compiled module.

    `symbol`: its name there.  `sites`: what the site numbers of fault records mean.
    `dynamic_shared`: bytes of workgroup memory to request at the launch.  `is_cooperative`: it needs a
    cooperative launch, with all workgroups resident at once.
    """

    program: Program
    symbol: str
    params: tuple[KernelParam, ...] = ()
    sites: Sequence[FaultSite] = ()
    dynamic_shared: int = 0
    is_cooperative: bool = False


def storage_buffers(program: Program) -> list[Buffer]:
    """The buffers that a kernel takes pointers to, in the order of its parameters."""
    unbound = [b for b in program.buffers.values() if b.binding is None and not b.is_on_chip]
    return [*program.bound_buffers, *unbound]


def read_record(raw: bytes) -> Fault | None:
    """The fault that a record holds; None if its first word is 0."""
    words = _RECORD.unpack(raw[: _RECORD.size])
    site, wx, wy, wz, lx, ly, lz, third, index, length, call, *extents = words
    if not site:
        return None
    return Fault(site, (wx, wy, wz), (lx, ly, lz), index, length, call, third, tuple(extents))
