"""Calls of the functions on arrays as other libraries have them are told what to write, and that computes the same."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import kernels

Q = np.random.default_rng(0).random((2, 2, 8, 16), np.float32)
MASK = np.tril(np.ones((8, 8), bool))


def _help(call: str) -> str:
    with pytest.raises(TypeError) as caught:
        eval(call, {"kernels": kernels, "q": Q, "mask": MASK})
    return "\n".join(caught.value.__notes__)


@pytest.mark.parametrize(
    ("keyword", "words"),
    [
        ("is_causal=True", "it is causal here"),
        ("sm_scale=0.5", "it is scale here"),
        ("dropout_p=0.0", "leave it out"),
        ("enable_gqa=True", "as many heads of k and v as of q"),
    ],
)
def test_keywords_of_torch_are_told_by_the_names_here(keyword: str, words: str) -> None:
    assert words in _help(f"kernels.attention(q, q, q, {keyword})")


def test_a_mask_is_told_what_attention_has_and_how_another_is_written() -> None:
    help = _help("kernels.attention(q, q, q, attn_mask=mask)")
    assert "the one mask that it has is causal=True" in help
    written = help.partition("write ")[2].partition("\n")[0]
    result = eval(written, {"kernels": kernels, "np": np, "q": Q, "k": Q, "v": Q, "attn_mask": MASK})
    np.testing.assert_allclose(result, kernels.attention(Q, Q, Q, causal=True), rtol=1e-5)
