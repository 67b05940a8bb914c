"""What vyre-run says of outputs: a summary line, and how two backends compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from blake3 import blake3

from ..ir.literals import show
from ..ir.program import Buffer, Program
from ..ir.types import DataType
from ..runtime.arrays import bits_type
from .conduct import ToolError

__all__ = ["compare", "summary"]

SHOWN_VALUES = 8
CHECKSUM_DIGITS = 16


def summary(buffer: Buffer, array: np.ndarray) -> str:
    """`@y : f32[4] = 0.0 1.0 2.0 3.0 (blake3 1f3870be274f6c49)`; the checksum is of the raw bytes."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    checksum = blake3(little.tobytes()).hexdigest()[:CHECKSUM_DIGITS]
    values = [_text(element, buffer.dtype) for element in array[:SHOWN_VALUES]]
    if len(array) > SHOWN_VALUES:
        values.append("...")
    return f"@{buffer.name} : {buffer.dtype}[{len(array)}] = {' '.join(values)} (blake3 {checksum})"


def _text(element: np.ndarray, dtype: DataType) -> str:
    if dtype.is_vec:
        return f"[{', '.join(_text(lane, dtype.element) for lane in element)}]"
    if dtype.kind in ("bool", "uint", "int"):
        return show(int(element), dtype)
    bits = int(np.asarray(element).reshape(1).view(bits_type(dtype))[0])
    return show(bits, dtype) if dtype.kind == "float" else f"0x{bits:02x}"


def compare(
    program: Program, outputs: Sequence[np.ndarray], expected: Sequence[np.ndarray], tolerance: float
) -> None:
    """Raises ToolError that shows the first difference of each output beyond the tolerance."""
    differences = []
    buffers = [b for b in program.bound_buffers if b.is_output]
    for buffer, got, wanted in zip(buffers, outputs, expected, strict=True):
        wrong = np.flatnonzero(_differ(got.reshape(-1), wanted.reshape(-1), buffer.dtype.element, tolerance))
        if wrong.size:
            at = int(wrong[0])
            element, lane = divmod(at, buffer.dtype.lanes)
            place = f"[{element}]" + (f"[{lane}]" if buffer.dtype.is_vec else "")
            scalars = (_text(a.reshape(-1)[at], buffer.dtype.element) for a in (got, wanted))
            differences.append(
                f"@{buffer.name}: {wrong.size} of {got.size} values differ, first {place}: "
                "{} here, {} there".format(*scalars)
            )
    if differences:
        raise ToolError("the outputs differ\n  " + "\n  ".join(differences))


def _differ(got: np.ndarray, wanted: np.ndarray, dtype: DataType, tolerance: float) -> np.ndarray:
    bits = bits_type(dtype)
    different: np.ndarray = got.view(bits) != wanted.view(bits)
    if dtype.kind != "float" or not different.any():
        return different
    a, b = _as_float(got, dtype), _as_float(wanted, dtype)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.abs(b)
    both_nan = np.isnan(a) & np.isnan(b)
    return different & ~both_nan & ~(near if tolerance else np.zeros_like(near))


def _as_float(array: np.ndarray, dtype: DataType) -> np.ndarray:
    if dtype.name == "bf16":
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)
