"""Makes workgroups and buffers small, and drops what says that a buffer is seen from outside."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ..ir.program import AccessMode, Buffer, Module
from .variants import Selection

__all__ = ["drop_liveness", "every_buffer", "halve_extents", "single_extents"]


def single_extents(module: Module, selection: Selection) -> None:
    """All of each extent of a buffer or workgroup but 1."""
    _change_extents(module, selection, lambda extent: 1)


def halve_extents(module: Module, selection: Selection) -> None:
    """Half of each extent of a buffer or workgroup."""
    _change_extents(module, selection, lambda extent: extent // 2)


def _change_extents(module: Module, selection: Selection, change: Callable[[int], int]) -> None:
    for program in module.programs.values():
        x, y, z = (change(n) if n > 1 and selection.drops() else n for n in program.workgroup)
        program.workgroup = (x, y, z)
    for buffer in every_buffer(module):
        shape = [change(n) if n is not None and n > 1 and selection.drops() else n for n in buffer.shape]
        buffer.shape = tuple(shape)


def drop_liveness(module: Module, selection: Selection) -> None:
    """The flags live_in and live_out, and one of reading and writing."""
    for buffer in every_buffer(module):
        if buffer.live_in and selection.drops():
            buffer.live_in = False
        if buffer.live_out and selection.drops():
            buffer.live_out = False
        for access in (AccessMode.READ, AccessMode.WRITE):
            if buffer.access is AccessMode.READ_WRITE and selection.drops():
                buffer.access = access
                buffer.live_in = buffer.live_out = False


def every_buffer(module: Module) -> Iterator[Buffer]:
    for program in module.programs.values():
        yield from program.buffers.values()
    for pipeline in module.pipelines.values():
        yield from pipeline.buffers.values()
