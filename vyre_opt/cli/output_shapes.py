"""The shape of an output that `vyre-run --out` writes: where a buffer has one dimension, a .npy file may have more."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from ..ir.program import Buffer

if TYPE_CHECKING:
    import numpy as np

    from ..driver.binding import Signature

__all__ = ["output_shape"]

Shape = tuple[int, ...]


def output_shape(
    signature: Signature, name: str, output: np.ndarray, inputs: Mapping[str, np.ndarray]
) -> Shape:
    """The shape to write the output called `name` in: of scalars, those of a vector last.

    If its contents before the run were read from a file, that of the file.  Otherwise that of the inputs that are
    declared with the same count, `?` or a number, and have as many elements: if they are of one shape.  Where
    they are of several, or there are none, the output keeps its one dimension.
    """
    buffers = {buffer.name: buffer for buffer in signature.buffers}
    declared = buffers[name]
    if declared.dimensions > 1:
        return output.shape
    lanes: Shape = (declared.dtype.lanes,) if declared.dtype.is_vec else ()
    shapes = {
        _shape_of_elements(buffers[other], array)
        for other, array in inputs.items()
        if (other == name or name not in inputs)
        and buffers[other].shape == declared.shape
        and array.size // buffers[other].dtype.lanes == len(output)
    }
    shape = shapes.pop() if len(shapes) == 1 else None
    return output.shape if shape is None else (*shape, *lanes)


def _shape_of_elements(buffer: Buffer, array: np.ndarray) -> Shape | None:
    """The shape of an array without the dimension of the lanes; None if the lanes have no dimension of their own."""
    if not buffer.dtype.is_vec:
        return array.shape
    return array.shape[:-1] if array.shape[-1:] == (buffer.dtype.lanes,) else None
