"""Buffers from files, and files from buffers."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from ..ir.diagnostics import suggest
from ..ir.program import Access, Buffer, Dim3, Program
from ..runtime.arrays import storage_type
from .conduct import ToolError, write_stdout_bytes
from .text_files import read_bytes, write_file

__all__ = ["arrays", "check_outputs", "default_grid", "write"]

Pairs = Sequence[tuple[str, str]]
MAX_COUNT = 1 << 48


def arrays(program: Program, inputs: Pairs, lengths: Pairs) -> list[np.ndarray]:
    """An array for each bound buffer, in binding order: from a file, or zeros.

    Raises ToolError for a name that is no buffer, and for what is missing.
    """
    bound = program.bound_buffers
    files = _by_name(program, inputs, bound, "--in")
    counts = {name: _count(name, text) for name, text in _by_name(program, lengths, bound, "--len").items()}
    missing = [b for b in bound if b.name not in files and _is_input(b)]
    if missing:
        names = ", ".join(f"@{b.name} : {b.dtype}[{'?' if b.count is None else b.count}]" for b in missing)
        pass_them = " ".join(f"--in {b.name}=FILE" for b in missing)
        raise ToolError(f"program @{program.name} reads {names}, which nothing gives; pass {pass_them}")
    return [_array(b, files.get(b.name), counts.get(b.name)) for b in bound]


def check_outputs(program: Program, outputs: Pairs) -> None:
    """Raises ToolError for an `--out` of what the program does not give back."""
    _by_name(program, outputs, [b for b in program.bound_buffers if b.is_output], "--out")


def default_grid(program: Program, given: Sequence[np.ndarray]) -> Dim3:
    """The grid that the program fixes.  Raises ToolError that says how to find one."""
    if program.grid is not None:
        return program.grid
    x, y, z = program.workgroup
    advice = ""
    outputs = [a for b, a in zip(program.bound_buffers, given, strict=True) if b.is_output]
    if outputs and program.lanes == x:
        elements = max(len(array) for array in outputs)
        advice = (
            f"; --grid={max(1, -(-elements // x))} is an invocation for each of {elements} output elements"
        )
    raise ToolError(
        f"program @{program.name} does not fix its grid: pass --grid=X[,Y,Z], "
        f"counts of workgroups of {x}x{y}x{z} invocations{advice}"
    )


def write(array: np.ndarray, path: str) -> None:
    """Write an output: as .npy by that suffix, else as raw little-endian elements."""
    if path.endswith(".npy"):
        memory = io.BytesIO()
        np.save(memory, array, allow_pickle=False)
        content = memory.getvalue()
    else:
        content = array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes()
    if path == "-":
        write_stdout_bytes(content)
    else:
        write_file(content, path)


def _by_name(program: Program, given: Pairs, buffers: Sequence[Buffer], option: str) -> dict[str, str]:
    known = [b.name for b in buffers]
    found: dict[str, str] = {}
    for name, value in given:
        if name in found:
            raise ToolError(f"{option} {name}: given twice")
        if name not in known:
            hint = suggest(name, known, "@")
            kind = "output" if option == "--out" else "bound buffer"
            listed = ", ".join(f"@{n}" for n in known) or "none"
            raise ToolError(
                f"{option} {name}: program @{program.name} has no {kind} @{name}; it has {listed}"
                + (f"; {hint}" if hint else "")
            )
        found[name] = value
    return found


def _is_input(buffer: Buffer) -> bool:
    """Whether the program may read what the caller puts into a buffer."""
    return buffer.access is Access.READ or buffer.live_in


def _count(name: str, text: str) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 20 and int(text) <= MAX_COUNT):
        raise ToolError(f"--len {name}: {text!r} is not a count of elements")
    return int(text)


def _array(buffer: Buffer, path: str | None, length: int | None) -> np.ndarray:
    stored = storage_type(buffer.dtype)
    if stored is None:
        raise ToolError(f"buffer @{buffer.name}: no file format here holds {buffer.dtype}")
    if path is not None:
        made = _read(buffer, path, stored)
        if length is not None and len(made) != length:
            raise ToolError(f"--len {buffer.name}={length}, but {path} holds {len(made)} elements")
        return made
    if length is not None and buffer.count not in (None, length):
        raise ToolError(f"--len {buffer.name}={length}: the program declares {buffer.count} elements")
    count = buffer.count if length is None else length
    if count is None:
        raise ToolError(
            f"buffer @{buffer.name} has an open size: pass --len {buffer.name}=N, or its contents with --in"
        )
    lanes = buffer.dtype.lanes
    return np.zeros((count, lanes) if lanes > 1 else count, stored)


def _read(buffer: Buffer, path: str, stored: np.dtype) -> np.ndarray:
    raw = read_bytes(path)
    lanes = buffer.dtype.lanes
    if path.endswith(".npy"):
        try:
            loaded = np.load(io.BytesIO(raw), allow_pickle=False)
        except (ValueError, EOFError, OSError, SyntaxError) as wrong:
            raise ToolError(f"--in {buffer.name}: {path} is not a .npy file of numbers: {wrong}") from None
        if loaded.dtype.newbyteorder("=") != stored:
            raise ToolError(
                f"--in {buffer.name}: {path} holds {loaded.dtype}, @{buffer.name} is {buffer.dtype}{_stored_as(buffer, stored)}"
            )
        flat = np.ascontiguousarray(loaded, dtype=stored).reshape(-1)
        if flat.size % lanes:
            raise ToolError(
                f"--in {buffer.name}: {path} has {flat.size} scalars, which no count of {buffer.dtype} has"
            )
    else:
        size = stored.itemsize * lanes
        if len(raw) % size:
            raise ToolError(
                f"--in {buffer.name}: {path} has {len(raw)} bytes, not a multiple of {buffer.dtype}'s {size}"
            )
        is_bool = stored == np.bool_
        flat = np.frombuffer(raw, np.uint8) != 0 if is_bool else np.frombuffer(raw, stored.newbyteorder("<"))
        flat = flat.astype(stored, copy=False)
    return flat.reshape(-1, lanes) if lanes > 1 else flat


def _stored_as(buffer: Buffer, stored: np.dtype) -> str:
    return "" if buffer.dtype.element.name == str(stored) else f", stored as {stored}"
