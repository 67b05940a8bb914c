"""Arrays of a call as rows, and results that are like them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any, TypeVar

from ..driver.operands import ArrayBackend, DispatcherLike, Operand, array_backend_of
from ..driver.torch_calls import is_recorded, record
from ..execution.dispatcher import BadInputs
from ..lang import bf16, f16, f32
from ..lang.functions import Kernel

__all__ = ["Element", "RowsCall", "as_line", "as_rows"]

Element = TypeVar("Element", f16, bf16, f32)
"""Elements of rows; sums of all of them are of f32."""
TYPES = {"float16": "f16", "bfloat16": "bf16", "float32": "f32"}


class RowsCall:
    """A call of the function `name` on arrays, of which the first one has the rows.

    Raises BadInputs for arrays on several sides, for one that is no array of f16, bf16 or f32 with an axis at least, and for tensors that
    need a gradient.
    """

    def __init__(self, name: str, arrays: Mapping[str, Any], dispatcher: DispatcherLike | None) -> None:
        if any(map(is_recorded, arrays.values())):
            record(name, None, [*arrays.values()], dispatcher, None)
        self.name, self.dispatcher = name, dispatcher
        self.backend: ArrayBackend = array_backend_of(dispatcher, arrays)
        self.operands: dict[str, Operand] = {
            each: self.backend.take(array, each) for each, array in arrays.items()
        }
        for each, array in arrays.items():
            if not hasattr(array, "shape"):
                kind = type(array).__name__
                help = f"pass np.asarray({each})"
                if isinstance(array, (tuple, int)) and each not in list(arrays)[:1]:
                    help = (
                        f"leave {array} out, rows lie along the last axis: write {name}({', '.join(arrays)})"
                    )
                raise BadInputs(f"{name}: {each} is {kind}, no array: {help}")
        self.first, self.rows_name = next(iter(self.operands.values())), next(iter(arrays))
        if self.first.kind not in TYPES:
            raise BadInputs(
                f"{name}: {self.rows_name} holds {', '.join(TYPES.values())}, not {self.first.kind}"
            )
        if not self.first.shape:
            raise BadInputs(f"{name}: {self.rows_name} is a single number; it has rows along its last axis")
        self.columns = self.first.shape[-1]
        self.shape = self.first.shape[:-1]
        self.rows = prod(self.shape)

    def need(self, name: str, shape: Sequence[int], of_kind: bool = True) -> None:
        """Raise BadInputs for an array of another shape or type than what goes with the rows."""
        operand = self.operands[name]
        own, wanted = list(operand.shape), list(shape)
        if own != wanted:
            axes = [axis for axis, (has, want) in enumerate(zip(own, wanted, strict=False)) if has != want]
            swapped = [own[axis] for axis in axes[::-1]] == [wanted[axis] for axis in axes] and len(axes) == 2
            help = f": pass {name}.swapaxes({', '.join(map(str, axes))})"
            raise BadInputs(
                f"{self.name}: {name} is of shape {tuple(own)}, and {tuple(wanted)} goes with "
                f"{self.rows_name} of shape {tuple(self.first.shape)}{help if swapped and len(own) == len(wanted) else ''}"
            )
        if of_kind and operand.kind != self.first.kind:
            raise BadInputs(
                f"{self.name}: {name} holds {operand.kind}, and {self.rows_name} {self.first.kind}: convert one of them"
            )

    def result(self, shape: Sequence[int], kind: str = "", out: Any = None) -> Any:
        """An array of a shape, by default of the type of the rows, that gets a result: `out`, or a new one.  Raises BadInputs for an `out`
        of another shape or type."""
        kind = kind or self.first.kind
        if out is not None:
            given = self.backend.take(out, "out")
            if tuple(given.shape) != tuple(shape) or given.kind != kind:
                raise BadInputs(
                    f"{self.name}: out is of {given.kind} and shape {tuple(given.shape)}, and the result of {kind} and shape {tuple(shape)}"
                )
            if self.backend.is_in_place(given):
                return out
        return self.backend.new_result(tuple(shape), kind, self.first.owner)

    def given(self, result: Any, out: Any) -> Any:
        """The result, or `out` with its elements."""
        return result if out is None or result is out else self.backend.copy_to(out, result)

    def run(self, kernel: Kernel, grid: Any, *arguments: Any) -> None:
        """Launch a kernel, unless there is nothing to do."""
        if self.rows and self.columns:
            chosen = kernel if self.dispatcher is None else kernel.options(target=self.dispatcher)
            chosen[grid](*arguments)


def as_rows(array: Any) -> Any:
    """An array of two dimensions on the same memory."""
    return array if len(array.shape) == 2 else array.reshape(-1, array.shape[-1])


def as_line(array: Any) -> Any:
    """An array of one dimension on the same memory."""
    return array if len(array.shape) == 1 else array.reshape(-1)
