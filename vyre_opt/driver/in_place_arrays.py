"""The arrays of calls that work on them where they are: which may be written, which only read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ..execution.array_backend import NOT_CONTIGUOUS, ArrayBackend, Operand, is_in_place, is_torch
from ..execution.arrays import storage_type
from ..execution.dispatcher import BadInputs, DispatcherLike
from ..execution.plans.call_plan import is_written
from ..ir.program import Buffer
from .binding import Signature
from .placement import array_backend_of

__all__ = ["all_wrong", "check_arrays", "in_place_operands"]


def in_place_operands(
    signature: Signature, name: str, dispatcher: DispatcherLike, arrays: Sequence[Any]
) -> tuple[ArrayBackend, list[Operand]]:
    """The backend for arrays, and these as it takes them, checked.  Raises BadInputs."""
    buffers = signature.parameters
    named = {buffer.name: array for buffer, array in zip(buffers, arrays, strict=True)}
    backend = array_backend_of(dispatcher, named)
    try:
        return backend, [_operand(backend, name, b, a) for b, a in zip(buffers, arrays, strict=True)]
    except BadInputs as error:
        check = partial(_operand, backend, name)
        raise all_wrong(error, [partial(check, b, a) for b, a in zip(buffers, arrays, strict=True)]) from None


def all_wrong(error: BadInputs, checks: Sequence[Callable[[], Any]]) -> BadInputs:
    """The error of a call, with those of its other arguments: `checks` raises one for each that is wrong."""
    messages: list[str] = []
    for check in checks:
        try:
            check()
        except BadInputs as other:
            messages += [str(other)] * (str(other) not in messages)
    return BadInputs("\n".join(messages)) if len(messages) > 1 else error


def check_arrays(
    signature: Signature, name: str, dispatcher: DispatcherLike, arrays: Mapping[str, Any]
) -> None:
    """Raises BadInputs for an array that a call would not take.  `arrays`: by the names of their buffers, all or some."""
    backend = array_backend_of(dispatcher, arrays)
    for buffer in signature.parameters:
        if buffer.name in arrays:
            _operand(backend, name, buffer, arrays[buffer.name])


def _operand(backend: ArrayBackend, program: str, buffer: Buffer, array: Any) -> Operand:
    """An array as the backend takes it, checked.  Raises BadInputs."""
    name = f"{program}: {buffer.name}"
    if isinstance(array, (np.generic, int, float, complex)):
        raise BadInputs(
            f"{name} is one number ({type(array).__name__}), where an array is wanted; pass the arguments in the order of the "
            f"head, or an array of one element"
        )
    operand = backend.take(array, name)
    stored = storage_type(buffer.dtype)
    own = f"{buffer.name}{8 * (stored.itemsize if stored is not None else 4)}"
    if isinstance(array, (list, tuple)) and stored is not None:
        converted = f"np.array({buffer.name}, np.{stored.name})"
        if is_written(buffer):
            raise BadInputs(
                f"{name} is written, which no {type(array).__name__} is; pass an array, {own} = {converted}, and read the result there"
            )
        if operand.array.dtype != stored:
            raise BadInputs(f"{name} is a {type(array).__name__}; pass {converted}")
    if stored is not None and is_written(buffer) and (to := _conversion(array, operand.array, stored)):
        raise BadInputs(
            f"{name}: {buffer.dtype} elements are {stored.name}, the array is {operand.array.dtype.name}, and it is written; "
            f"pass one of your own, {own} = {buffer.name}{to}, and read the result there"
        )
    backend.check(operand, buffer, name)
    if is_written(buffer):
        problem = _why_not_in_place(backend, operand, buffer.name)
        if problem:
            raise BadInputs(f"{name} is written, but the array {problem}")
    return operand


def _conversion(array: Any, taken: Any, stored: np.dtype[Any]) -> str:
    """The call that makes an array of the stored type of one of another type; "" for one that has it, or that none makes of."""
    if not isinstance(taken, np.ndarray) or str(getattr(array, "dtype", "")).endswith("bfloat16"):
        return ""
    dtype = taken.dtype.newbyteorder("=")
    if dtype == stored or not {dtype.kind, stored.kind} <= {*"biuf"}:
        return ""
    return f".to(torch.{stored.name})" if is_torch(array) else f".astype(np.{stored.name})"


def _why_not_in_place(backend: ArrayBackend, operand: Operand, name: str) -> str:
    """Why nothing can be written to an array where it is; "" if it can."""
    owner = operand.owner
    if not backend.on_gpu and not (hasattr(owner, "shape") and hasattr(owner, "dtype")):
        return f"is a {type(owner).__name__}; pass an array of NumPy or torch"
    if getattr(owner, "requires_grad", False):
        return f"requires a gradient; pass {name}.detach()"
    if backend.on_gpu:
        return "" if operand.array is owner else NOT_CONTIGUOUS
    flags = getattr(owner, "flags", None)
    if flags is not None and not flags.writeable:
        return f"is read-only; write {name} = np.array({name}), pass that, and read the result there"
    if is_in_place(operand):
        return ""
    is_contiguous = owner.is_contiguous() if flags is None else flags.c_contiguous
    return "is not aligned, or of another byte order; pass a copy" if is_contiguous else NOT_CONTIGUOUS
