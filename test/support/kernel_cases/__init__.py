"""Every shipped kernel, at schedules and shapes that exercise each of its parts: one list for all tests.

    for case in kernel_cases():
        use = case.make()
        assert not use.mismatch(dispatcher("cpu")), case.name

What must come out is from NumPy or the standard library, never from this project.
"""

from __future__ import annotations

from .case import KernelCase, Use
from .contractions import contraction_cases
from .decode_and_search import decode_and_search_cases
from .embedding import embedding_cases
from .matmul import matmul_cases
from .pattern_search import pattern_search_cases
from .scan import prefix_cases
from .softmax import softmax_cases
from .tiled_search import tiled_search_cases

__all__ = ["KernelCase", "Use", "kernel_cases"]

_PARTS = (
    softmax_cases,
    contraction_cases,
    matmul_cases,
    embedding_cases,
    prefix_cases,
    decode_and_search_cases,
    pattern_search_cases,
    tiled_search_cases,
)


def kernel_cases() -> list[KernelCase]:
    """All of them, grouped by kernel.  Names tell them apart."""
    return [case for part in _PARTS for case in part()]
