"""Random programs give the interpreter's bits."""

from __future__ import annotations

import pytest

from vyre_opt.ir.ops import OPS
from vyre_opt.testing.generator import random_program
from vyre_opt.testing.properties import check_backend
from vyre_opt.testing.sample import Sample

PROGRAMS, BATCH = 200, 25


def exact(seed: int) -> Sample:
    """A random program whose approximate ops have become `neg`, so that every bit counts."""
    sample = random_program(seed)
    for item in (sample.program, *sample.module.funcs.values()):
        for op in item.walk():
            if op.definition.ulp:
                op.definition = OPS["neg"]
    return sample


@pytest.mark.parametrize("start", range(0, PROGRAMS, BATCH))
def test_the_same_bits_as_ref(start: int) -> None:
    for seed in range(start, start + BATCH):
        check_backend(exact(seed), "cpu", seed)
