"""Attention beside NumPy in f64: heads of several sizes, with and without keys left out, and what is wrong about its arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import BadInputs, kernels

Array = np.ndarray[Any, Any]

SHAPES = [
    ((2, 33, 16), 40), ((3, 2, 20, 24), 70), ((1, 1, 7), 5), ((4, 16), 16), ((2, 130, 64), 100), ((1, 70, 128), 64),
]  # fmt: skip
TYPES = {"f32": (np.float32, 2e-6), "f16": (np.float16, 3e-3)}


def drawn(shape: tuple[int, ...], keys: int, dtype: Any) -> tuple[Array, Array, Array]:
    draw, size = np.random.default_rng(sum(shape)), (*shape[:-2], keys, shape[-1])
    q, k, v = (draw.standard_normal(each).astype(dtype) for each in (shape, size, size))
    return q, k, v


def expected(q: Array, k: Array, v: Array, causal: bool, scale: float) -> Array:
    q, k, v = (each.astype(np.float64) for each in (q, k, v))
    scores = q @ np.swapaxes(k, -1, -2) * scale
    if causal:
        scores = np.where(np.tril(np.ones(scores.shape[-2:], bool)), scores, -np.inf)
    powers = np.exp(scores - scores.max(-1, keepdims=True))
    found: Array = powers / powers.sum(-1, keepdims=True) @ v
    return found


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize(("shape", "keys"), quick(SHAPES, keep=1), ids=str)
def test_heads_beside_numpy(shape: tuple[int, ...], keys: int, dtype: str) -> None:
    kind, tolerance = TYPES[dtype]
    q, k, v = drawn(shape, keys, kind)
    out = np.zeros_like(q)
    for causal, scale in ((False, None), (True, 0.7)):
        found = kernels.attention(q, k, v, causal=causal, scale=scale, out=out)
        assert found is out
        wanted = expected(q, k, v, causal, shape[-1] ** -0.5 if scale is None else scale)
        np.testing.assert_allclose(found.astype(np.float64), wanted, rtol=tolerance, atol=tolerance)


Q = np.zeros((2, 4, 8), np.float32)
WRONG: dict[str, Callable[[], Any]] = {
    "attention: q is of shape (8,), and has the axes (..., queries, size)": lambda: kernels.attention(
        Q[0, 0], Q[0, 0], Q[0, 0]
    ),
    "attention: k is of shape (4, 8), and (2, 4, 8) goes with q": lambda: kernels.attention(Q, Q[0], Q),
    "k is of shape (2, 8, 4), and (2, 4, 8) goes with q of shape (2, 4, 8): pass k.swapaxes(1, 2)": lambda: (
        kernels.attention(Q, Q.swapaxes(1, 2), Q)
    ),
    "attention: v is of shape (2, 4, 7), and (2, 4, 8) goes with q": lambda: kernels.attention(
        Q, Q, Q[..., 1:]
    ),
    "attention: v holds float16, and q float32": lambda: kernels.attention(Q, Q, Q.astype(np.float16)),
    "attention: k has no keys; pass one at least": lambda: kernels.attention(Q, Q[:, :0], Q[:, :0]),
    "attention: scale is greater than 0, not 0": lambda: kernels.attention(Q, Q, Q, scale=0),
    "a head of q has 600 elements, and may have 1 to 512": lambda: kernels.attention(
        *[np.zeros((2, 600), np.float32)] * 3
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arrays(message: str) -> None:
    with pytest.raises(BadInputs) as error:
        WRONG[message]()
    assert message in str(error.value)


@pytest.mark.gpu
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    ("shape", "keys"), [((3, 300, 64), 500), ((2, 2, 129, 128), 129), ((5, 77, 40), 65), ((1, 1, 128), 3000)]
)
def test_tensors_of_torch_on_a_gpu(shape: tuple[int, ...], keys: int, causal: bool) -> None:
    torch = pytest.importorskip("torch")
    for kind, tolerance in ((torch.float16, 4e-3), (torch.bfloat16, 3e-2), (torch.float32, 1e-5)):
        wide = [torch.from_numpy(each).cuda() for each in drawn(shape, keys, np.float32)]
        q, k, v = (each.to(kind) for each in wide)
        found = kernels.attention(q, k, v, causal=causal)
        assert (found.dtype, found.shape) == (q.dtype, q.shape)
        arrays = [each.double().cpu().numpy() for each in (q, k, v)]
        wanted = expected(*arrays, causal, shape[-1] ** -0.5)
        np.testing.assert_allclose(found.double().cpu().numpy(), wanted, rtol=tolerance, atol=tolerance)
