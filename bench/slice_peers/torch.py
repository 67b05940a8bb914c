"""By torch's operators."""

from __future__ import annotations

import torch
import torch.nn.functional as F  # noqa: N812
from slice_kernels import EPS, KEPT


def softmax(x, y):
    return torch.softmax(x, 1)


def layernorm(x, w, b, y):
    return F.layer_norm(x, w.shape, w, b, EPS)


def layernorm_backward(dy, x, w, mean, scale, dx):
    means, scales = mean[:, None].to(x.dtype), scale[:, None].to(x.dtype)
    if x.dtype is torch.float32:  # the statistics of other types are kept in theirs
        means, scales = mean[:, None], scale[:, None]
    return torch.ops.aten.native_layer_norm_backward(
        dy, x, list(w.shape), means, scales, w, None, [True, False, False]
    )[0]


def rms_norm(x, w, y):
    return F.rms_norm(x, w.shape, w, EPS)


def cross_entropy(x, wanted, loss):
    return F.cross_entropy(x, wanted.long(), reduction="none").float()


def cumsum(x, y):
    return torch.cumsum(x, 1)


def matmul_gelu(a, b, bias, c):
    return F.gelu(torch.addmm(bias, a, b))


def batched_matmul(a, b, c):
    return torch.bmm(a, b)


def attention(q, k, v, y):
    return F.scaled_dot_product_attention(q[None], k[None], v[None])[0]


def attention_causal(q, k, v, y):
    return F.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=True)[0]


def argmax(x, y):
    return torch.argmax(x, 1)


def dropout(x, y, seed):
    return F.dropout(x, 1 - KEPT)
