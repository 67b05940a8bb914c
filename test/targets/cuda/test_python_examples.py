"""The kernels of examples/python on a GPU: the bits of the interpreter, at the sizes of their other tests."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from python_lines import ROWS
from support.gpu_arrays import to_gpu, to_host
from support.python_examples import CASES, Sizes, call_of
from support.python_programs import same_bits
from support.quick import quick

import vyre_opt as vyre

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@pytest.mark.parametrize(("name", "sizes"), quick(CASES, lambda case: case[0], 2), ids=str)
def test_an_example_gives_the_bits_of_the_interpreter(library: Any, name: str, sizes: Sizes) -> None:
    call = call_of(name, sizes)
    expected: np.ndarray = call.on("ref", call.copies())
    for _ in range(2):  # the second call has a plan
        actual = call.on(None, [to_gpu(library, argument) for argument in call.arguments])
        vyre.synchronize()
        assert same_bits(expected, to_host(actual)).all()


@pytest.mark.parametrize(
    ("name", "sizes"), quick([case for case in CASES if 0 not in case[1]], lambda case: case[0], 2), ids=str
)
def test_a_peer_gives_what_numpy_gives(name: str, sizes: Sizes) -> None:
    """Those of bench/python_peers, which times and lines are compared with."""
    library = pytest.importorskip("torch" if ROWS[name].language == "Triton" else "cupy")
    pytest.importorskip("triton" if library.__name__ == "torch" else "cupy")
    peer = importlib.import_module(f"python_peers.{name}")
    call = call_of(name, sizes)
    arguments = [to_gpu(library, argument) for argument in call.arguments]
    peer.run(*(a for a in arguments if not isinstance(a, int)))  # `run` finds lengths itself
    vyre.synchronize()
    actual = to_host(arguments[-1])
    if call.expected.dtype.kind == "f":  # a GPU's compiler contracts products and sums
        np.testing.assert_allclose(actual, call.expected, 1e-4, 1e-4)
    else:
        assert np.array_equal(actual, call.expected)
