"""The operators torch.ops.vyre.*: softmax, prefix_scan, tt_chain, tt_embedding and base64_decode.

They are defined by `torch.library.Library` and not by `torch.library.custom_op` and `register_autograd`, whose
kernels in Python take twice the time of a small call where no gradient is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from .. import kernels
from ..runtime.dispatcher import BadInputs
from .batching import BatchRule, rule_of
from .gradients import (
    Tensor,
    chain_gradients,
    embedding_gradients,
    multilinear_tangent,
    scan_gradient,
    softmax_gradient,
)

__all__ = ["OPERATORS"]

_LIBRARY = torch.library.Library("vyre", "FRAGMENT")
_is_grad_enabled = torch.is_grad_enabled
_is_forward_enabled = torch._C._is_fwd_grad_enabled
_BelowAutograd = torch._C._AutoDispatchBelowAutograd
"""In this context an operator goes to its kernel, not to autograd: torch's own way, as `register_autograd` does."""


def _define(
    schema: str, kernel: Callable[..., Tensor], fake: Callable[..., Tensor], rule: BatchRule | None = None
) -> Any:
    """Define an operator; returns it.

    `fake`: gives a result of the right shape and type without data.  `rule`: see batching.py.
    """
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"vyre::{name}", fake, lib=_LIBRARY)
    operator = getattr(torch.ops.vyre, name).default
    torch.library.register_vmap(operator.name(), rule_of(operator, rule), lib=_LIBRARY)
    return operator


def _recorded(function: Any, *arguments: Any) -> Tensor:
    """Have autograd record a function, a `_SingleLevelFunction`: at the level of transforms of torch.func where the operator is.

    torch has already taken it there when it comes to its kernel of autograd; `torch.autograd.Function` would start at the top.
    """
    with enable_single_level_autograd_function():
        return function.apply(*arguments)


def _below_autograd(operator: Any, *arguments: Any) -> Tensor:
    with _BelowAutograd():
        return operator(*arguments)


def _at_next_level(operator: Any, *arguments: Any) -> Tensor:
    """The same in `forward`, during which autograd is off, but not for the transforms around."""
    with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True):
        return _below_autograd(operator, *arguments)


def _is_followed(*tensors: Tensor) -> bool:
    """Whether autograd follows what is computed of tensors, backward or, while any have tangents, forward."""
    if forward_ad._current_level >= 0 and _is_forward_enabled():
        return True
    return _is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


def _plain(x: Tensor) -> Tensor:
    """The tensor as a kernel takes it: autograd has been here already."""
    return x.detach() if x.requires_grad else x


def _check_type(x: Tensor, name: str, *accepted: Any) -> None:
    """Raises BadInputs while a graph is traced, and not when it runs."""
    if x.dtype not in accepted:
        listed = ", ".join(str(dtype) for dtype in accepted)
        raise BadInputs(f"{name} holds {listed}, not {x.dtype}")


# --- softmax


def _softmax(x: Tensor) -> Tensor:
    y = kernels.softmax(_plain(x))
    return y if x.dim() else y.reshape(())


def _softmax_fake(x: Tensor) -> Tensor:
    _check_type(x, "x", torch.float32, torch.float16, torch.bfloat16)
    return x.new_empty(x.shape)


def _softmax_rule(in_dims: Any, x: Tensor) -> Tensor:
    rows = x.movedim(in_dims[0], 0)
    return softmax(rows) if rows.dim() > 1 else softmax(rows.unsqueeze(1)).squeeze(1)


softmax = _define("softmax(Tensor x) -> Tensor", _softmax, _softmax_fake, _softmax_rule)


class _Softmax(torch.autograd.function._SingleLevelFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = _at_next_level(softmax, x)
        ctx.save_for_backward(y)
        ctx.save_for_forward(y)
        return y

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        (y,) = ctx.saved_tensors
        return softmax_gradient(y, tangent)  # the matrix of derivatives is symmetric

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return softmax_gradient(*ctx.saved_tensors, *gradients)


def _softmax_autograd(x: Tensor) -> Tensor:
    if _is_followed(x):
        return _recorded(_Softmax, x)
    return _below_autograd(softmax, x)


_LIBRARY.impl("softmax", _softmax_autograd, "Autograd")


# --- prefix_scan


def _prefix_scan(x: Tensor) -> Tensor:
    y = kernels.prefix_scan(_plain(x))
    return y if x.dim() else y.reshape(())


def _prefix_scan_fake(x: Tensor) -> Tensor:
    narrow, wide = (torch.uint32, torch.int32, torch.float32), (torch.uint64, torch.int64, torch.float64)
    _check_type(x, "x", *narrow, *wide)
    return x.new_empty(x.shape)


prefix_scan = _define("prefix_scan(Tensor x) -> Tensor", _prefix_scan, _prefix_scan_fake)


class _PrefixScan(torch.autograd.function._SingleLevelFunction):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _at_next_level(prefix_scan, x)

    @staticmethod
    def jvp(ctx: Any, tangent: Tensor) -> Tensor:
        return prefix_scan(tangent)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (g,) = gradients
        return scan_gradient(g, prefix_scan)


def _prefix_scan_autograd(x: Tensor) -> Tensor:
    if _is_followed(x):
        return _recorded(_PrefixScan, x)
    return _below_autograd(prefix_scan, x)


_LIBRARY.impl("prefix_scan", _prefix_scan_autograd, "Autograd")


# --- tt_chain


def _tt_chain(acc: Tensor, cores: Sequence[Tensor]) -> Tensor:
    if not cores:
        raise BadInputs("a chain has at least one core")
    return kernels.tt_chain(_plain(acc), [_plain(core) for core in cores])


def _tt_chain_fake(acc: Tensor, cores: Sequence[Tensor]) -> Tensor:
    if not cores:
        raise BadInputs("a chain has at least one core")
    _check_type(acc, "acc", torch.uint32, torch.int32, torch.float32)
    return acc.new_empty(cores[-1].shape[1:])


tt_chain = _define("tt_chain(Tensor acc, Tensor[] cores) -> Tensor", _tt_chain, _tt_chain_fake)


class _Chain(torch.autograd.function._SingleLevelFunction):
    @staticmethod
    def forward(ctx: Any, acc: Tensor, *cores: Tensor) -> Tensor:
        ctx.save_for_backward(acc, *cores)
        ctx.save_for_forward(acc, *cores)
        return _at_next_level(tt_chain, acc, cores)

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor | None) -> Tensor:
        return multilinear_tangent(lambda acc, *cores: tt_chain(acc, cores), ctx.saved_tensors, tangents)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (g,), (acc, *cores) = gradients, ctx.saved_tensors
        return tuple(chain_gradients(acc, cores, g, ctx.needs_input_grad))


def _tt_chain_autograd(acc: Tensor, cores: Sequence[Tensor]) -> Tensor:
    if _is_followed(acc, *cores):
        return _recorded(_Chain, acc, *cores)
    return _below_autograd(tt_chain, acc, cores)


_LIBRARY.impl("tt_chain", _tt_chain_autograd, "Autograd")


# --- tt_embedding


def _tt_embedding(cores: Sequence[Tensor], indices: Tensor) -> Tensor:
    rows = kernels.tt_embedding([_plain(core) for core in cores], indices)
    return rows if indices.dim() else rows.reshape(-1)


def _tt_embedding_fake(cores: Sequence[Tensor], indices: Tensor) -> Tensor:
    for k, core in enumerate(cores):
        _check_type(core, f"core {k}", torch.float32, torch.bfloat16)
    return cores[0].new_empty((*indices.shape, prod(core.shape[2] for core in cores)))


def _tt_embedding_rule(in_dims: Any, cores: Sequence[Tensor], indices: Tensor) -> Tensor | None:
    of_cores, of_indices = in_dims
    if any(dim is not None for dim in of_cores):
        return None
    return tt_embedding(cores, indices.movedim(of_indices, 0))


tt_embedding = _define(
    "tt_embedding(Tensor[] cores, Tensor indices) -> Tensor",
    _tt_embedding,
    _tt_embedding_fake,
    _tt_embedding_rule,
)


class _Embedding(torch.autograd.function._SingleLevelFunction):
    @staticmethod
    def forward(ctx: Any, indices: Tensor, *cores: Tensor) -> Tensor:
        ctx.save_for_backward(indices, *cores)
        ctx.save_for_forward(indices, *cores)
        return _at_next_level(tt_embedding, cores, indices)

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Tensor:
        indices, *cores = ctx.saved_tensors
        return multilinear_tangent(lambda *cores: tt_embedding(cores, indices), cores, tangents)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (g,), (indices, *cores) = gradients, ctx.saved_tensors
        return None, *embedding_gradients(cores, indices, g, ctx.needs_input_grad[1:])


def _tt_embedding_autograd(cores: Sequence[Tensor], indices: Tensor) -> Tensor:
    if _is_followed(*cores):
        return _recorded(_Embedding, indices, *cores)
    return _below_autograd(tt_embedding, cores, indices)


_LIBRARY.impl("tt_embedding", _tt_embedding_autograd, "Autograd")


# --- base64_decode


def _base64_fake(text: Tensor) -> Tensor:
    """The length depends on the padding, which is data."""
    _check_type(text, "text", torch.uint8)
    return text.new_empty(torch.library.get_ctx().new_dynamic_size())


base64_decode = _define(
    "base64_decode(Tensor text) -> Tensor", lambda text: kernels.base64_decode(text), _base64_fake
)


OPERATORS: dict[str, Callable[..., Tensor]] = {
    "softmax": softmax,
    "prefix_scan": prefix_scan,
    "tt_chain": lambda acc, *cores: tt_chain(acc, cores),
    "tt_embedding": lambda indices, *cores: tt_embedding(cores, indices),
    "base64_decode": base64_decode,
}
"""By the names of the functions in `vyre_opt.kernels`; each takes its tensors one after the other."""
