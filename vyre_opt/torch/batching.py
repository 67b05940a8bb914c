"""torch.vmap: one call where a kernel takes a batch as rows of its own, and otherwise a call for each item.

Under a transform of torch.func, arrays are wrappers without memory.  torch takes them apart, level by level, and asks a rule
for the results of a batch.  Operators have theirs by `rule_of`; `call_under_transforms` is for functions that are none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_unflatten

from ..execution.dispatcher import BadInputs
from ..kernels.named.kernel import Tensor

__all__ = ["BatchRule", "call_under_transforms", "rule_of"]

BatchRule = Callable[..., Tensor | None]
"""`rule(in_dims, *arguments)`, see `NamedKernel.batch`."""


def rule_of(operator: Callable[..., Any], rule: BatchRule | None = None) -> Callable[..., Any]:
    """Return the vmap rule of an operator for `torch.library.register_vmap`: a rule, or a call for each item where there is none."""

    def batched(info: Any, in_dims: Any, *arguments: Any) -> Any:
        results = None if rule is None else rule(in_dims, *arguments)
        return (results, 0) if results is not None else _each_item(operator, info, in_dims, arguments)

    return batched


def _each_item(call: Callable[..., Any], info: Any, in_dims: Any, arguments: Sequence[Any]) -> Any:
    """The results of `call` for each item of a batch, a tensor or several, and which of their axes is the batch.

    Raises BadInputs for no items, whose results have no known shape, and for results of several shapes.
    """
    if not info.batch_size:
        raise BadInputs("torch.vmap of a kernel over an axis of length 0: there is no item to call it on")
    leaves, structure = tree_flatten(list(arguments))
    dims, _ = tree_flatten(list(in_dims))

    def item(number: int) -> Any:
        parts = (
            leaf if dim is None else leaf.select(dim, number) for leaf, dim in zip(leaves, dims, strict=True)
        )
        return tree_unflatten(list(parts), structure)

    results = [call(*item(number)) for number in range(info.batch_size)]
    if isinstance(results[0], tuple):
        return tuple(map(_stacked, zip(*results, strict=True))), (0,) * len(results[0])
    return _stacked(results), 0


def _stacked(results: Sequence[Tensor]) -> Tensor:
    shapes = sorted({tuple(result.shape) for result in results})
    if len(shapes) > 1:
        listed = ", ".join(map(str, shapes))
        raise BadInputs(f"results under torch.vmap have one shape, and these have {listed}: call it on each")
    return torch.stack(tuple(results))


def call_under_transforms(call: Callable[..., Tensor], arrays: Sequence[Any]) -> Tensor:
    """`call(*arrays)`, where some are wrapped by transforms of torch.func.  It has no gradient."""
    return _Call.apply(call, *arrays)


class _Call(torch.autograd.Function):
    @staticmethod
    def forward(call: Callable[..., Tensor], *arrays: Any) -> Tensor:
        return call(*arrays)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.mark_non_differentiable(output)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Tensor:
        raise BadInputs(
            "a kernel that is no operator of torch has no derivative, forward or backward: pass x.detach()"
        )

    @staticmethod
    def vmap(info: Any, in_dims: Any, call: Callable[..., Tensor], *arrays: Any) -> Any:
        return _each_item(call, info, in_dims[1:], arrays)
