"""Advice about a buffer that an op of a text names and nothing declares."""

from __future__ import annotations

from collections.abc import Mapping

from .ops import OpDef
from .program import AccessMode, Buffer
from .types import UNKNOWN, DataType

__all__ = ["declaration_help"]


def declaration_help(
    row: OpDef, name: str, buffers: Mapping[str, Buffer], dtype: DataType | None, dimensions: int
) -> str:
    """The declared buffers that an op may mean, and the line that declares the one it names.

    `dtype`: of what the op moves, None or UNKNOWN where nobody says it.
    """
    reads, writes = "read" in row.effects, "write" in row.effects
    wrong = {AccessMode.READ} if writes else set()
    wrong |= {AccessMode.WRITE} if reads else set()
    known = [f"@{buffer.name}" for buffer in buffers.values() if buffer.access not in wrong]
    element = DataType.F32 if dtype is None or dtype is UNKNOWN else dtype.element
    access = "read_write" if reads and writes else "write" if writes else "read"
    flags = " live_in live_out" if access == "read_write" else ""
    binding = sum(not buffer.is_on_chip for buffer in buffers.values())
    shape = ", ".join("?" * max(1, dimensions))
    line = f"buffer @{name} : {element}[{shape}] {access} binding({binding}){flags}"
    return f"write {' or '.join(known[:3])}, or declare it: {line}" if known else f"declare it: {line}"
