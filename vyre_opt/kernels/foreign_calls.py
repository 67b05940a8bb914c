"""Calls of the functions on arrays as other libraries have them, and what to write: `softmax(x, axis=0)`, `layer_norm(x, (16,))`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["helps"]

_ALONG_LAST = "rows lie along the last axis: leave it out for that one, and for the first of two write kernels.{name}(x.T.copy()).T"

_WORDS: dict[str, tuple[tuple[str, ...], str]] = {
    "axis dim": (("softmax",), _ALONG_LAST),
    "axis dim keepdim keepdims": (("log_sum_exp", "layer_norm", "rms_norm", "cross_entropy"), "rows lie along the last axis, which has no name here: leave it out"),
    "axis dim ": (("prefix_scan",), "it goes over all elements; for each row write np.stack([kernels.prefix_scan(row) for row in x]), or y[r, :] = vyre.cumsum(x[r, :]) in a kernel"),
    "exclusive": (("prefix_scan",), "write kernels.prefix_scan(x) - x, the sums before each element"),
    "reverse": (("prefix_scan",), "write kernels.prefix_scan(x[::-1].copy())[::-1]"),
    "initial": (("prefix_scan",), "write kernels.prefix_scan(x) + initial"),
    "transpose_b trans_b transb transB b_transposed": (("matmul",), "write kernels.matmul(a, b.T)"),
    "transpose_a trans_a transa transA a_transposed": (("matmul",), "write kernels.matmul(a.T, b)"),
    "out_dtype dtype_out output_dtype": (("matmul",), 'write result="f32" for f32 of narrower matrices'),
    "c C output": (("matmul", "softmax", "layer_norm", "rms_norm", "prefix_scan"), "the array for the result is out="),
    "normalized_shape": (("layer_norm", "rms_norm"), "leave it out: rows lie along the last axis"),
    "gamma scale w": (("layer_norm", "rms_norm"), "it is weight here"),
    "beta b": (("layer_norm",), "it is bias here"),
    "epsilon": (("layer_norm", "rms_norm"), "it is eps here"),
    "target targets y_true": (("cross_entropy",), "it is labels here"),
    "reduction": (("cross_entropy",), "write kernels.cross_entropy(x, labels).mean()"),
    "ignore_index": (("cross_entropy",), "leave it out, and leave out such rows: rows = labels >= 0, kernels.cross_entropy(x[rows], labels[rows])"),
    "attn_mask mask attn_bias bias_mask attention_mask": (("attention",), "the one mask that it has is causal=True, of query i and keys 0 to i; for another of bools write "
        "kernels.softmax(np.where({word}, q @ k.swapaxes(-1, -2) / q.shape[-1] ** 0.5, -np.inf)) @ v"),
    "is_causal": (("attention",), "it is causal here"),
    "sm_scale softmax_scale": (("attention",), "it is scale here"),
    "dropout_p dropout": (("attention",), "leave it out: it drops nothing"),
    "enable_gqa": (("attention",), "pass as many heads of k and v as of q, np.repeat(k, q.shape[1] // k.shape[1], axis=1)"),
    "url_safe urlsafe altchars": (("base64_decode",), "write kernels.base64_decode(text.replace('-', '+').replace('_', '/'))"),
    "stream device": (("",), 'it runs where its arrays are: leave it out, or write dispatcher="cuda"'),
    "target backend": (("",), 'write dispatcher="cpu", "cuda" or "ref"'),
    "inplace in_place": (("",), "write out=x, which may be an argument"),
    "dtype": (("",), "leave it out: the result has the type of the argument"),
}  # fmt: skip
"""Keywords of other libraries, the functions that they are given to ("" for all), and what to write."""

_LACKS = {
    "bias": "pass np.zeros(x.shape[-1], np.float32) for none",
    "weight": "pass np.ones(x.shape[-1], np.float32) for none",
}
"""Arguments that other libraries let one leave out."""


def _instead(name: str, word: str) -> str | None:
    rows = [row for words, row in _WORDS.items() if word in words.split()]
    texts = [text for names, text in rows if name in names] + [text for names, text in rows if names == ("",)]
    return texts[0].format(name=name, word=word) if texts else None


def helps(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Name what to write in place of a call that does not fit a function, each a line."""
    import inspect  # which takes 10 ms to import

    name, parameters = function.__name__, inspect.signature(function).parameters
    found = [
        f"{word}: {help}"
        for word in kwargs
        if word not in parameters and (help := _instead(name, word)) is not None
    ]
    required = [each.name for each in parameters.values() if each.default is each.empty]
    given = [*required[: len(args)], *kwargs]
    found += [f"{word}: {_LACKS[word]}" for word in required if word not in given and word in _LACKS]
    shapes = [number for number, each in enumerate(args[1:], 1) if isinstance(each, (tuple, int))]
    if name in ("layer_norm", "rms_norm") and shapes:
        found.insert(0, f"leave {args[shapes[0]]} out: rows lie along the last axis")
    shown = ", ".join(
        each.name if each.default is each.empty else f"{each.name}={each.default!r}"
        for each in parameters.values()
    )
    return [*found, f"it is kernels.{name}({shown})"]
