"""Bytes that the buffers of a program take in each memory."""

from __future__ import annotations

from ..ir.program import Program
from .reduction_memory import reduction_bytes

__all__ = ["BufferLayout"]


class BufferLayout:
    """An analysis: bytes of a program's buffers by memory, including scratch memory of its reductions; an open size counts
    as none.

    `storage`: bound by launches.  `workgroup`: once for each workgroup.  `on_chip`: that and the memory of clusters.
    """

    name = "buffer_layout"

    def __init__(self, program: Program) -> None:
        self.storage = 0
        self.workgroup = self.on_chip = reduction_bytes(program)
        for buffer in program.buffers.values():
            size = buffer.size_bytes or 0
            if buffer.is_on_chip:
                self.on_chip += size
                self.workgroup += size if buffer.is_workgroup else 0
            else:
                self.storage += size
