"""The operators torch.ops.vyre.*: softmax, prefix_scan, tt_chain, tt_embedding and base64_decode.

They are defined by `torch.library.Library` and not by `torch.library.custom_op` and `register_autograd`, whose
kernels in Python take twice the time of a small call where no gradient is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch

from .. import kernels
from ..runtime.dispatcher import BadInputs
from .gradients import Tensor, chain_gradients, embedding_gradients, scan_gradient, softmax_gradient

__all__ = ["OPERATORS"]

_LIBRARY = torch.library.Library("vyre", "FRAGMENT")
_is_grad_enabled = torch.is_grad_enabled
_BelowAutograd = torch._C._AutoDispatchBelowAutograd
"""In this context an operator goes to its kernel, not to autograd: torch's own way, as `register_autograd` does."""


def _define(schema: str, kernel: Callable[..., Tensor], fake: Callable[..., Tensor]) -> Any:
    """Define an operator; returns it.  `fake`: gives a result of the right shape and type without data."""
    name = schema.partition("(")[0]
    _LIBRARY.define(schema, tags=(torch.Tag.pt2_compliant_tag,))
    _LIBRARY.impl(name, kernel, "CompositeExplicitAutograd")
    torch.library.register_fake(f"vyre::{name}", fake, lib=_LIBRARY)
    return getattr(torch.ops.vyre, name).default


def _below_autograd(operator: Any, *arguments: Any) -> Tensor:
    with _BelowAutograd():
        return operator(*arguments)


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


softmax = _define("softmax(Tensor x) -> Tensor", _softmax, _softmax_fake)


class _Softmax(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        y = _below_autograd(softmax, x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return softmax_gradient(*ctx.saved_tensors, *gradients)


def _softmax_autograd(x: Tensor) -> Tensor:
    if x.requires_grad and _is_grad_enabled():
        return _Softmax.apply(x)
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


class _PrefixScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        return _below_autograd(prefix_scan, x)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        (g,) = gradients
        return scan_gradient(g, prefix_scan)


def _prefix_scan_autograd(x: Tensor) -> Tensor:
    if x.requires_grad and _is_grad_enabled():
        return _PrefixScan.apply(x)
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


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, acc: Tensor, *cores: Tensor) -> Tensor:
        ctx.save_for_backward(acc, *cores)
        return _below_autograd(tt_chain, acc, cores)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (g,), (acc, *cores) = gradients, ctx.saved_tensors
        return tuple(chain_gradients(acc, cores, g, ctx.needs_input_grad))


def _tt_chain_autograd(acc: Tensor, cores: Sequence[Tensor]) -> Tensor:
    if _is_grad_enabled() and any(tensor.requires_grad for tensor in (acc, *cores)):
        return _Chain.apply(acc, *cores)
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


tt_embedding = _define(
    "tt_embedding(Tensor[] cores, Tensor indices) -> Tensor", _tt_embedding, _tt_embedding_fake
)


class _Embedding(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, indices: Tensor, *cores: Tensor) -> Tensor:
        ctx.save_for_backward(indices, *cores)
        return _below_autograd(tt_embedding, cores, indices)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        (g,), (indices, *cores) = gradients, ctx.saved_tensors
        return None, *embedding_gradients(cores, indices, g, ctx.needs_input_grad[1:])


def _tt_embedding_autograd(cores: Sequence[Tensor], indices: Tensor) -> Tensor:
    if _is_grad_enabled() and any(core.requires_grad for core in cores):
        return _Embedding.apply(indices, *cores)
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
