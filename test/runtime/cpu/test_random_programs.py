"""Random programs give the interpreter's bits."""

from __future__ import annotations

from typing import Any

import pytest

from vyre_opt.runtime.cpu import CpuDispatcher

PROGRAMS, BATCH = 240, 30


@pytest.mark.parametrize("start", range(0, PROGRAMS, BATCH))
def test_the_same_bits_as_ref(agree_at_random: Any, start: int) -> None:
    """Optimised; every sixth as it is written, too."""
    for seed in range(start, start + BATCH):
        agree_at_random(CpuDispatcher(), seed)
        if seed % 6 == 0:
            agree_at_random(CpuDispatcher(opt=0), seed)
