"""Compiled programs and pipelines as operators of torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from keyword import iskeyword
from typing import Any, Protocol

import torch

from ..execution.dispatcher import BadInputs
from ..execution.shapes import result_shape
from ..ir.program import Buffer
from ..kernels.named.kernel import Tensor
from .batching import rule_of
from .element_types import torch_type

__all__ = ["register"]


class ProgramSignature(Protocol):
    """The part of a program's or pipeline's signature that an operator needs."""

    @property
    def owner(self) -> str: ...

    @property
    def title(self) -> str: ...

    @property
    def read(self) -> Sequence[Buffer]: ...

    @property
    def outputs(self) -> Sequence[Buffer]: ...


class CompiledProgram(Protocol):
    """Result of `vyre_opt.compile`, as far as an operator needs it."""

    @property
    def signature(self) -> Any: ...  # a ProgramSignature, which checkers do not see in a cached_property

    def __call__(self, *args: Any, **options: Any) -> Mapping[str, Any]: ...


def register(
    name: str,
    executable: CompiledProgram,
    *,
    grid: int | Sequence[int] | Callable[..., Any] | None = None,
    lengths: Mapping[str, int | Sequence[int] | Callable[..., Any]] | None = None,
) -> Any:
    """Register what `vyre_opt.compile` returned as the operator `name`, "library::operator".

    It takes a tensor for each buffer that is read, in the order of bindings, and returns a tensor for each output,
    as the executable does: of the buffer's shape, with one dimension more for the lanes of vectors.
    `grid` is as for a call of a program, and `lengths` has the elements of outputs of open size, or the extents of
    those of several dimensions (for a pipeline, of its own buffers, too).  Both may be functions of the tensors:
    `lengths={"y": lambda x: x.numel(), "z": lambda x: (x.shape[0], 64)}`.

    Returns the `torch.library.CustomOpDef`, whose `register_autograd` gives the operator a gradient.  torch.vmap
    calls it for each item of a batch; `register_vmap` of the result gives it another rule.
    Raises BadInputs for an output without a length.
    """
    signature: ProgramSignature = executable.signature
    lengths = dict(lengths or {})
    if not signature.read or not signature.outputs:
        raise BadInputs(f"{signature.title} has no input or no output, so it is no operator of torch")
    for buffer in signature.outputs:
        if buffer.count is None and buffer.name not in lengths and buffer not in signature.read:
            length = (
                "n" if buffer.dimensions == 1 else f"({', '.join(f'n{k}' for k in range(buffer.dimensions))})"
            )
            raise BadInputs(
                f"buffer @{buffer.name} has an open size: pass lengths={{{buffer.name!r}: {length}}}, "
                f"or a function of the tensors for {length}"
            )
    is_program = signature.owner == "program"

    def call(*tensors: Tensor) -> Any:
        launch = {"grid": grid(*tensors) if callable(grid) else grid} if is_program else {}
        counts = {key: _value(length, tensors) for key, length in lengths.items()}
        outputs = executable([tensor.detach() for tensor in tensors], lengths=counts, **launch)
        return _one_or_all([outputs[buffer.name] for buffer in signature.outputs])

    def fake(*tensors: Tensor) -> Any:
        return _one_or_all([output(buffer, tensors) for buffer in signature.outputs])

    def output(buffer: Buffer, tensors: Sequence[Tensor]) -> Tensor:
        if buffer in signature.read:
            return torch.empty_like(
                tensors[signature.read.index(buffer)], memory_format=torch.contiguous_format
            )
        length = _value(lengths[buffer.name], tensors) if buffer.count is None else None
        shape = result_shape(buffer, length)
        return tensors[0].new_empty(shape, dtype=torch_type(buffer.dtype))

    results = ", ".join(["Tensor"] * len(signature.outputs))
    results = results if len(signature.outputs) == 1 else f"({results})"
    parameters = ", ".join(f"Tensor {_parameter(buffer)}" for buffer in signature.read)
    operator = torch.library.custom_op(name, call, mutates_args=(), schema=f"({parameters}) -> {results}")
    operator.register_fake(fake)
    operator.register_vmap(rule_of(operator))
    return operator


def _value(length: Any, tensors: Sequence[Tensor]) -> Any:
    return length(*tensors) if callable(length) else length


def _one_or_all(tensors: list[Tensor]) -> Any:
    return tensors[0] if len(tensors) == 1 else tuple(tensors)


def _parameter(buffer: Buffer) -> str:
    return buffer.name if buffer.name.isidentifier() and not iskeyword(buffer.name) else f"_{buffer.binding}"
