"""Norms and losses of rows beside NumPy in f64, on arrays of several shapes, types and libraries; and what is wrong about them."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt import BadInputs, kernels

Array = np.ndarray[Any, Any]

SHAPES = [(5, 100), (3, 7, 33), (300, 130), (4,), (1, 1)]
TYPES = {"f32": (np.float32, 1e-5), "f16": (np.float16, 4e-3)}
EPS = 1e-3


def drawn(shape: tuple[int, ...], dtype: Any, seed: int) -> Array:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def expected_norm(x: Array, w: Array, b: Array, dy: Array, is_centred: bool) -> list[Array]:
    x, w, b, dy = (each.astype(np.float64) for each in (x, w, b, dy))
    centred = x - x.mean(-1, keepdims=True) if is_centred else x
    scale = 1 / np.sqrt((centred**2).mean(-1, keepdims=True) + EPS)
    normed, g = centred * scale, dy * w
    level = g.mean(-1, keepdims=True) if is_centred else 0
    dx = (g - level - normed * (g * normed).mean(-1, keepdims=True)) * scale
    columns = x.shape[-1]
    return [
        normed * w + b,
        dx,
        (dy * normed).reshape(-1, columns).sum(0),
        dy.reshape(-1, columns).sum(0),
    ]


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", quick(SHAPES, keep=2, one_parameter=True), ids=str)
def test_norms_and_their_gradients(shape: tuple[int, ...], dtype: str) -> None:
    kind, tolerance = TYPES[dtype]
    x, dy = (drawn(shape, kind, seed) for seed in (1, 2))
    w, b = (drawn(shape[-1:], kind, seed) for seed in (3, 4))
    zeros = np.zeros_like(b)
    found = [kernels.layer_norm(x, w, b, EPS), *kernels.layer_norm_backward(dy, x, w, EPS)]
    found += [kernels.rms_norm(x, w, EPS), *kernels.rms_norm_backward(dy, x, w, EPS)]
    expected = expected_norm(x, w, b, dy, True) + expected_norm(x, w, zeros, dy, False)[:3]
    for one, other in zip(found, expected, strict=True):
        assert (one.dtype, one.shape) == (x.dtype, other.shape)
        size = 1 + np.abs(other).max(initial=0)
        np.testing.assert_allclose(one.astype(np.float64), other, rtol=tolerance, atol=tolerance * size)


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", quick(SHAPES, keep=2, one_parameter=True), ids=str)
def test_losses(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, TYPES[dtype][0], 5)
    wide = x.astype(np.float64)
    total = np.log(np.exp(wide).sum(-1))
    for kind in (np.int32, np.int64, np.uint8):
        labels = np.random.default_rng(6).integers(0, shape[-1], shape[:-1]).astype(kind)
        picked = np.take_along_axis(wide, labels[..., None].astype(np.int64), -1)[..., 0]
        found = kernels.cross_entropy(x, labels)
        assert found.dtype == np.float32
        np.testing.assert_allclose(found, total - picked, rtol=1e-6, atol=2e-6)
    np.testing.assert_allclose(kernels.log_sum_exp(x), total, rtol=1e-6, atol=1e-6)


def test_infinities_and_nans() -> None:
    i = np.inf
    x = np.array([[-i, -i], [i, 1], [np.nan, 1], [3e38, 3e38], [-3e38, -i]], np.float32)
    np.testing.assert_array_equal(kernels.log_sum_exp(x), np.array([-i, i, np.nan, 3e38, -3e38], np.float32))


def test_out_and_torch() -> None:
    torch = pytest.importorskip("torch")
    x, w = drawn((2, 3, 8), np.float32, 7), np.ones(8, np.float32)
    expected = kernels.rms_norm(x, w)
    assert isinstance(kernels.rms_norm(torch.from_numpy(x), torch.from_numpy(w)), torch.Tensor)
    turned = np.zeros((8, 3, 2), np.float32).T
    for out in (np.zeros_like(x), turned, x):
        assert kernels.rms_norm(x, w, out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_no_rows() -> None:
    x, w = np.zeros((0, 4), np.float32), np.ones(4, np.float32)
    dx, dw, db = kernels.layer_norm_backward(x, x, w)
    assert dx.shape == (0, 4)
    assert dw.tolist() == db.tolist() == [0] * 4
    assert kernels.log_sum_exp(x).shape == (0,)


X, W = np.ones((2, 3), np.float32), np.ones(3, np.float32)
WRONG: dict[str, Callable[[], Any]] = {
    "cross_entropy: labels is list, no array: pass np.asarray(labels)": lambda: kernels.cross_entropy(
        X, [0, 1]
    ),
    "layer_norm_of_rows: eps is f32: 'a' is not a number": lambda: kernels.layer_norm(X, W, W, "a"),
    "layer_norm: weight is of shape (2,), and (3,) goes with x of shape (2, 3)": lambda: kernels.layer_norm(
        X, W[:2], W
    ),
    "layer_norm: bias holds float64, and x float32: convert one of them": lambda: kernels.layer_norm(
        X, W, W.astype(float)
    ),
    "rms_norm: x holds f16, bf16, f32, not float64": lambda: kernels.rms_norm(X.astype(float), W),
    "rms_norm: x is a single number; it has rows along its last axis": lambda: kernels.rms_norm(
        np.float32(1), W
    ),
    "rms_norm_backward: dy is of shape (3,), and (2, 3) goes with x": lambda: kernels.rms_norm_backward(
        W, X, W
    ),
    "rms_norm: out is of float64 and shape (2, 3), and the result of float32": lambda: kernels.rms_norm(
        X, W, out=X.astype(float)
    ),
    "log_sum_exp: x has rows without elements": lambda: kernels.log_sum_exp(X[:, :0]),
    "cross_entropy: labels is of shape (3,), and (2,) goes with x": lambda: kernels.cross_entropy(X, W),
    "cross_entropy: labels holds int32, int64, uint8, uint16, uint32, not float32": lambda: (
        kernels.cross_entropy(X, W[:2])
    ),
}


@pytest.mark.parametrize("message", WRONG)
def test_wrong_arrays(message: str) -> None:
    with pytest.raises(BadInputs) as caught:
        WRONG[message]()
    assert message in str(caught.value)


def test_a_label_that_no_column_has() -> None:
    with pytest.raises(BadInputs, match="label 3 of row 1 is no column, which are 0 to 2"):
        kernels.cross_entropy(X, np.array([0, 3], np.int32))


@pytest.mark.gpu
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_gpu_gives_the_same_bits(shape: tuple[int, ...]) -> None:
    import cupy

    x, dy, w = drawn(shape, np.float32, 1), drawn(shape, np.float32, 2), drawn(shape[-1:], np.float32, 3)
    on_gpu = [cupy.asarray(each) for each in (dy, x, w)]
    for one, other in zip(
        kernels.layer_norm_backward(dy, x, w), kernels.layer_norm_backward(*on_gpu), strict=True
    ):
        np.testing.assert_array_equal(cupy.asnumpy(other), one)
    np.testing.assert_array_equal(cupy.asnumpy(kernels.log_sum_exp(on_gpu[1])), kernels.log_sum_exp(x))


@pytest.mark.gpu
def test_bf16_of_torch_on_a_gpu() -> None:
    import torch

    x, w = torch.randn(50, 300, device="cuda").bfloat16(), torch.randn(300, device="cuda").bfloat16()
    found, wide = kernels.layer_norm(x, w, w), x.double()
    expected = torch.nn.functional.layer_norm(wide, (300,), w.double(), w.double())
    assert found.dtype == torch.bfloat16
    torch.testing.assert_close(found.double(), expected, rtol=1e-2, atol=1e-2)


def test_later_calls_do_what_the_first_did() -> None:
    """A plan is for like arrays alone, and holds none of them."""
    w = np.ones(8, np.float32)
    calls = [drawn((rows, 8), np.float32, rows) for rows in (3, 4, 3)]
    for x in (*calls, *calls):
        out = np.zeros_like(x)
        expected = x / np.sqrt((x.astype(np.float64) ** 2).mean(-1, keepdims=True) + 1e-5)
        for found in (kernels.rms_norm(x, w), kernels.rms_norm(x, w, out=out), out):
            np.testing.assert_allclose(found, expected, rtol=1e-6)
        turned = np.zeros((8, len(x)), np.float32).T
        assert kernels.rms_norm(x, w, out=turned) is turned
        np.testing.assert_array_equal(turned, out)
    held = weakref.ref(x := drawn((5, 8), np.float32, 9))
    kernels.rms_norm(x, w)
    kernels.rms_norm(x, w)
    del x
    gc.collect()
    assert held() is None


def test_each_call_looks_at_its_labels() -> None:
    for _ in range(2):
        kernels.cross_entropy(X, np.array([0, 2], np.int32))
        with pytest.raises(BadInputs, match="label 3 of row 1 is no column"):
            kernels.cross_entropy(X, np.array([0, 3], np.int32))


def test_memory_that_nobody_has_written_gives_no_warning() -> None:
    signalling = np.full((3, 11), 0x7FA00001, np.uint32).view(np.float32)
    x, w = drawn((3, 11), np.float32, 2), np.ones(11, np.float32)
    np.testing.assert_array_equal(kernels.rms_norm(x, w, out=signalling), kernels.rms_norm(x, w))
