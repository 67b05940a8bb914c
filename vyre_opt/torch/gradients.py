"""The gradients of the kernels, in torch's own operations, so that they can be differentiated once more.

Sums are in f32 for the shorter floats.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

__all__ = [
    "chain_gradients",
    "embedding_gradients",
    "multilinear_tangent",
    "scan_gradient",
    "softmax_gradient",
]

Tensor = Any
"""torch.Tensor; the package is type-checked where torch is not installed, too."""


def softmax_gradient(y: Tensor, g: Tensor) -> Tensor:
    """y * (g - sum(g * y)) over the last axis, in one launch.  `y`: the result; `g`: the gradient of it."""
    return torch.ops.aten._softmax_backward_data(g, y, -1, y.dtype)


def scan_gradient(g: Tensor, scan: Callable[[Tensor], Tensor]) -> Tensor:
    """Element i adds to the sums from i on, so the gradient is the scan of `g` from its end."""
    return scan(g.reshape(-1).flip(0)).flip(0).reshape(g.shape)


def multilinear_tangent(
    call: Callable[..., Tensor], tensors: Sequence[Tensor], tangents: Sequence[Tensor | None]
) -> Tensor:
    """The tangent of what is linear in each of its tensors, of which those without one have None."""
    terms = [
        call(*tensors[:k], tangent, *tensors[k + 1 :])
        for k, tangent in enumerate(tangents)
        if tangent is not None
    ]
    return sum(terms[1:], terms[0])


def chain_gradients(
    acc: Tensor, cores: Sequence[Tensor], g: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Of `acc` and of each core, None where it is not `needed`.

    With v_k, the vector before core k, and h_k, the gradient of v_k: the gradient of core k is the outer product
    of v_k and h_(k+1), and h_k = core_k h_(k+1).
    """
    vectors = [acc.reshape(-1)]
    for core in cores[:-1]:
        vectors.append(vectors[-1] @ core)
    gradients: list[Tensor | None] = []
    for core, vector, is_needed in zip(reversed(cores), reversed(vectors), reversed(needed), strict=False):
        gradients.append(torch.outer(vector, g) if is_needed else None)
        g = core @ g
    gradients.append(g.reshape(acc.shape) if needed[0] else None)
    return gradients[::-1]


def embedding_gradients(
    cores: Sequence[Tensor], indices: Tensor, g: Tensor, needed: Sequence[bool]
) -> list[Tensor | None]:
    """Of each core, None where it is not `needed`.

    A row is left * slice * right, for the slice of core k at digit i_k and the products of the slices on both
    sides of it.  The gradient of the slice is left^T g right^T; lookups with the same digit are added up.
    """
    digits = digits_of(indices.reshape(-1).long(), [core.shape[0] for core in cores])
    slices = [core.index_select(0, digit).float() for core, digit in zip(cores, digits, strict=True)]
    count = digits[0].shape[0]
    g = g.reshape(count, -1).float()
    lefts, rights = _partial_products(slices)
    gradients: list[Tensor | None] = []
    for k, core in enumerate(cores):
        if not needed[k]:
            gradients.append(None)
            continue
        left, right = lefts[k], rights[k]
        rows = g.reshape(count, left.shape[1], core.shape[2], right.shape[2])
        of_slices = torch.einsum("lar,laqb->lrqb", left, rows)
        of_slices = torch.einsum("lrqb,lsb->lrqs", of_slices, right)
        total = torch.zeros(core.shape, dtype=torch.float32, device=core.device)
        gradients.append(total.index_add(0, digits[k], of_slices).to(core.dtype))
    return gradients


def digits_of(indices: Tensor, p: Sequence[int]) -> list[Tensor]:
    """The digits of indices in the mixed radix `p`, the most significant first."""
    digits = []
    for size in reversed(p):
        digits.append(indices % size)
        indices = indices // size
    return digits[::-1]


def _partial_products(slices: Sequence[Tensor]) -> tuple[list[Tensor], list[Tensor]]:
    """For each core the product of the slices before it, [l, columns, r], and after it, [l, r, columns]."""
    count = slices[0].shape[0]
    one = slices[0].new_ones(count, 1, 1)
    lefts, rights = [one], [one]
    for each in slices[:-1]:
        product = torch.einsum("lar,lrqs->laqs", lefts[-1], each)
        lefts.append(product.reshape(count, lefts[-1].shape[1] * each.shape[2], each.shape[3]))
    for each in reversed(slices[1:]):
        product = torch.einsum("lrqs,lsb->lrqb", each, rights[-1])
        rights.append(product.reshape(count, each.shape[1], each.shape[2] * rights[-1].shape[2]))
    return lefts, rights[::-1]
