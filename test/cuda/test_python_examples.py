"""The kernels of examples/python on a GPU: the bits of the interpreter, at the sizes of their other tests."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.gpu_arrays import to_gpu, to_host
from support.python_examples import CASES, Sizes, call_of
from support.python_programs import same_bits

import vyre_opt as vyre

pytestmark = pytest.mark.gpu


@pytest.fixture(params=["torch", "cupy"])
def library(request: pytest.FixtureRequest) -> Any:
    return pytest.importorskip(request.param)


@pytest.mark.parametrize(("name", "sizes"), CASES, ids=str)
def test_an_example_gives_the_bits_of_the_interpreter(library: Any, name: str, sizes: Sizes) -> None:
    call = call_of(name, sizes)
    expected: np.ndarray = call.on("ref", call.copies())
    for _ in range(2):  # the second call has a plan
        actual = call.on(None, [to_gpu(library, argument) for argument in call.arguments])
        vyre.synchronize()
        assert same_bits(expected, to_host(actual)).all()
