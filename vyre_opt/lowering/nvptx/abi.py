"""What is compiled and how it is called: parameters in order, and the record that a fault leaves.

    buffers     a pointer each, 16-byte aligned: the bound ones in binding order, then the
                storage that the program keeps to itself
    lengths     u64, of the buffers of open size, in the same order
    status      a pointer to a fault record, if the program may fault
    arrivals    a pointer to a zeroed u32, if the program has a grid barrier

Whoever launches a kernel walks `EntryPoint.params` and passes one argument for each.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ...ir.program import Buffer, Dim3, Module, Op, Program

__all__ = [
    "ALIGNMENT",
    "BOUNDS",
    "Fault",
    "FaultSite",
    "EntryPoint",
    "Param",
    "RECORD_BYTES",
    "Unit",
    "read_record",
    "storage_buffers",
]

ALIGNMENT = 16
"""Of every buffer, in bytes: wide accesses count on it."""

BOUNDS = ("none", "clamp", "trap")
"""What an access does that is not proven in bounds: anything; the nearest element; fault."""

RECORD_BYTES = 48
_RECORD = struct.Struct("<8I2Q")  # site, workgroup x y z, local x y z, 0, index, length


@dataclass(frozen=True, slots=True)
class Unit:
    """A program to compile, with the functions it calls and the values of its constants, encoded."""

    program: Program
    module: Module | None = None
    specs: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Param:
    """`kind`: buffer, length, status or arrivals; `buffer`: of the first two, its name."""

    kind: str
    buffer: str = ""


@dataclass(frozen=True, slots=True)
class FaultSite:
    """A place where a program may fault.  `kind` is that of a ProgramError: bounds, trap or step.

    `width`: elements that the access touches.
    """

    op: Op
    kind: str
    width: int = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """A fault record: where (a number of a site, counted from 1), by whom, and with what.

    `index` and `length` are in elements; for a step fault `index` is the step.
    """

    site: int
    workgroup: Dim3
    local: Dim3
    index: int
    length: int


@dataclass(slots=True)
class EntryPoint:
    """A kernel of a compiled module.

    `symbol`: its name there.  `dynamic_shared`: bytes of workgroup memory to ask for at
    the launch.  `is_cooperative`: all workgroups must be resident at once.
    """

    program: Program
    symbol: str
    params: tuple[Param, ...] = ()
    sites: list[FaultSite] = field(default_factory=list)
    dynamic_shared: int = 0
    is_cooperative: bool = False


def storage_buffers(program: Program) -> list[Buffer]:
    """The buffers that a kernel takes pointers to, in the order of its parameters."""
    unbound = [b for b in program.buffers.values() if b.binding is None and not b.is_workgroup]
    return [*program.bound_buffers, *unbound]


def read_record(raw: bytes) -> Fault | None:
    """The fault that a record holds; None if its first word is 0."""
    site, wx, wy, wz, lx, ly, lz, _, index, length = _RECORD.unpack(raw[:RECORD_BYTES])
    return Fault(site, (wx, wy, wz), (lx, ly, lz), index, length) if site else None
