"""Hand-offs within clusters, by replicas and by fences."""

from __future__ import annotations

import numpy as np
import pytest
from support.cluster_programs import WAYS, HandOff, Mail

from vyre_opt.cuda import CudaDispatcher

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(
    "seed", [*range(40), *(pytest.param(n, marks=pytest.mark.campaign) for n in range(40, 400))]
)
@pytest.mark.parametrize("kind", [HandOff, Mail])
def test_what_is_handed_on_arrives(kind: type[HandOff] | type[Mail], seed: int) -> None:
    gpu = CudaDispatcher(bounds="none" if seed % 2 else "trap")
    for how in WAYS:
        program, arrays, expected = kind(seed).case(how)
        for _ in range(3):
            out = gpu.dispatch(program, arrays, program.grid)[0]
            np.testing.assert_array_equal(out, expected)
