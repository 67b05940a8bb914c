"""What a target makes of random programs, and of programs with matrices, verifies after every rewrite and can be printed."""

from __future__ import annotations

import pytest
from support.dimension_programs import random_pipeline
from support.generator import random_program
from support.matrix_pipelines import matrix_pipeline
from support.quick import quick
from support.warpgroup_programs import SharedFactor

from vyre_opt.ir import Module, parse, print_program
from vyre_opt.lowering.nvptx.abi import BOUNDS
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.cloning import copy_module

SEEDS, SHARE = 200, 20
GPUS = ("sm_90a", "sm_80")


def modules(seed: int) -> list[Module]:
    shared = Module()
    shared.add(SharedFactor(seed).program())
    texts = (random_pipeline(seed).text, matrix_pipeline(seed))
    return [random_program(seed).module, *map(parse, texts), shared]


@pytest.mark.parametrize("first", quick(range(0, SEEDS, SHARE)))
def test_every_rewrite_leaves_a_form_that_verifies(first: int) -> None:
    """The pass manager verifies after each, and that a form whose passes claim a change has another text."""
    for seed in range(first, first + SHARE):
        bounds = [*BOUNDS][seed % len(BOUNDS)]
        on_gpu = f"legalize{{target=cuda bounds={bounds} zero_memory=true}}"
        for module in modules(seed):
            for passes, gpu in (("legalize", ""), (on_gpu, GPUS[seed % len(GPUS)])):
                legal = copy_module(module)
                PassManager(passes, target=gpu).run(legal)
                assert print_program(legal, generic=True) != print_program(legal)
