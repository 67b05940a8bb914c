"""The operators torch.ops.vyre.*: softmax, prefix_scan, tt_chain, tt_embedding and base64_decode.

Each is the function of that name in `vyre_opt.kernels`, under autograd, torch.compile and FakeTensors; the kernel's
declaration (see `vyre_opt.kernels.named`) has its tensors, the shape of its result, its gradient and its rule for torch.vmap.
Autograd is registered under its own key, and only records where there is a gradient to compute.

They are defined by `torch.library.Library` and not by `torch.library.custom_op` and `register_autograd`, whose
kernels in Python take twice the time of a small call where no gradient is needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
from torch._functorch.utils import enable_single_level_autograd_function
from torch.autograd import forward_ad

from .. import kernels
from ..execution.dispatcher import BadInputs
from ..ir.ops import NAMED_KERNELS
from ..kernels.named import named_kernel
from ..kernels.named.kernel import NamedKernel, Tensor
from .batching import rule_of
from .element_types import torch_type

__all__ = ["OPERATORS", "Operator"]

_LIBRARY = torch.library.Library("vyre", "FRAGMENT")
_is_grad_enabled = torch.is_grad_enabled
_is_forward_enabled = torch._C._is_fwd_grad_enabled
_BelowAutograd = torch._C._AutoDispatchBelowAutograd
"""Context in which an operator goes to its kernel, not to autograd, as torch's `register_autograd` does."""


class Operator:
    """The operator of a named kernel, to be called with its tensors one after the other.

    `overload`: the operator as torch has it, whose lists are lists.
    """

    def __init__(self, kernel: NamedKernel) -> None:
        self.kernel = kernel
        self.name, _, parameters = kernel.operator.rstrip(")").partition("(")
        self.parameters = parameters.split(", ")
        lists = [index for index, name in enumerate(self.parameters) if name.endswith("[]")]
        self.first = lists[0] if lists else None
        """The index of the parameter that is a list, if there is one."""
        self.behind = len(self.parameters) - 1 - (self.first or 0)
        """Parameters behind the list."""
        typed = (f"Tensor[] {n[:-2]}" if n.endswith("[]") else f"Tensor {n}" for n in self.parameters)
        _LIBRARY.define(f"{self.name}({', '.join(typed)}) -> Tensor", tags=(torch.Tag.pt2_compliant_tag,))
        _LIBRARY.impl(self.name, self._run, "CompositeExplicitAutograd")
        torch.library.register_fake(f"vyre::{self.name}", self._fake, lib=_LIBRARY)
        if kernel.keeps:
            _LIBRARY.impl(self.name, self._recorded, "Autograd")
        self.overload = getattr(torch.ops.vyre, self.name).default
        rule = rule_of(self.overload, partial(kernel.batch, self))
        torch.library.register_vmap(self.overload.name(), rule, lib=_LIBRARY)

    def __call__(self, *tensors: Tensor) -> Tensor:
        return self.overload(*self._grouped(tensors))

    def _grouped(self, tensors: Sequence[Tensor]) -> Sequence[Any]:
        """Tensors one after the other as the arguments of the operator."""
        if self.first is None:
            return tensors
        last = len(tensors) - self.behind
        return (*tensors[: self.first], list(tensors[self.first : last]), *tensors[last:])

    def _flat(self, arguments: Sequence[Any]) -> Sequence[Tensor]:
        """The arguments of the operator as tensors one after the other."""
        if self.first is None:
            return arguments
        return (*arguments[: self.first], *arguments[self.first], *arguments[self.first + 1 :])

    def _shape(self, tensors: Sequence[Tensor]) -> tuple[int, ...] | None:
        try:
            return self.kernel.shape(*tensors)
        except ValueError as error:
            raise BadInputs(str(error)) from None

    def _run(self, *arguments: Any) -> Tensor:
        """Its kernel, for which autograd has been here already."""
        result = getattr(kernels, self.name)(*map(_plain, arguments))
        if all(map(_is_ordinary, arguments)):
            return result
        shape = self._shape(self._flat(arguments))
        return result if shape is None else result.reshape(shape)

    def _fake(self, *arguments: Any) -> Tensor:
        """A result of the right shape and type without data.  Raises BadInputs while a graph is traced, not when it runs."""
        shape = self._shape(self._flat(arguments))
        accepted = [torch_type(dtype) for dtype in self.kernel.row.roles[0].types]
        head = arguments[0] if self.first == 0 else arguments[:1]
        for number, tensor in enumerate(head):
            if tensor.dtype not in accepted:
                name = f"core {number}" if self.first == 0 else self.parameters[0]
                listed = ", ".join(map(str, accepted))
                raise BadInputs(f"{name} holds {listed}, not {tensor.dtype}")
        return head[0].new_empty(torch.library.get_ctx().new_dynamic_size() if shape is None else shape)

    def _recorded(self, *arguments: Any) -> Tensor:
        """Its kernel of autograd, which goes on below where nothing is recorded.

        torch has taken the tensors to the level of transforms of torch.func where the operator is;
        `torch.autograd.Function` would start at the top.
        """
        tensors = self._flat(arguments)
        if _is_followed(tensors):
            with enable_single_level_autograd_function():
                return _Recorded.apply(self, *tensors)
        with _BelowAutograd():
            return self.overload(*arguments)


def _plain(argument: Any) -> Any:
    if isinstance(argument, list):
        return [tensor.detach() if tensor.requires_grad else tensor for tensor in argument]
    return argument.detach() if argument.requires_grad else argument


def _is_ordinary(argument: Any) -> bool:
    """Whether a function takes an argument as it is: it has no tensors without dimensions, and results for no empty list."""
    return bool(argument if isinstance(argument, list) else argument.dim())


def _is_followed(tensors: Sequence[Tensor]) -> bool:
    """Whether autograd follows what is computed of tensors, backward or, while any have tangents, forward."""
    if forward_ad._current_level >= 0 and _is_forward_enabled():
        return True
    return _is_grad_enabled() and any(tensor.requires_grad for tensor in tensors)


class _Recorded(torch.autograd.function._SingleLevelFunction):
    @staticmethod
    def forward(ctx: Any, operator: Operator, *tensors: Tensor) -> Tensor:
        # autograd is off here, but not for the transforms around
        with torch.enable_grad(), forward_ad._set_fwd_grad_enabled(True), _BelowAutograd():
            result = operator(*tensors)
        ctx.operator = operator
        kept = {"inputs": tensors, "result": (result,), "nothing": ()}[operator.kernel.keeps]
        ctx.save_for_backward(*kept)
        ctx.save_for_forward(*kept)
        return result

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> Tensor:
        return ctx.operator.kernel.tangent(ctx.operator, ctx.saved_tensors, tangents)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Any:
        operator, needed = ctx.operator, ctx.needs_input_grad[1:]
        return None, *operator.kernel.gradient(operator, ctx.saved_tensors, *gradients, needed)


_KERNELS = map(named_kernel, sorted(NAMED_KERNELS))
OPERATORS = {
    operator.name: operator for operator in (Operator(kernel) for kernel in _KERNELS if kernel.operator)
}
"""Operators by the names of the functions in `vyre_opt.kernels`."""
