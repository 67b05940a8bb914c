"""Hand-offs within clusters, by replicas and by fences."""

from __future__ import annotations

import numpy as np
import pytest
from support.cluster_programs import WAYS, HandOff, Mail
from support.quick import quick

from vyre_opt.targets.cuda import CudaDispatcher

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize("seed", quick(range(400), keep=10))
@pytest.mark.parametrize("kind", [HandOff, Mail])
def test_what_is_handed_on_arrives(kind: type[HandOff] | type[Mail], seed: int) -> None:
    gpu = CudaDispatcher(bounds="none" if seed % 2 else "trap")
    for how in WAYS:
        program, arrays, expected = kind(seed).case(how)
        for _ in range(3):
            out = gpu.dispatch(program, arrays, program.grid)[0]
            np.testing.assert_array_equal(out, expected)
