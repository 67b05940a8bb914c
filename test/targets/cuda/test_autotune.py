"""The tuner on a GPU: it measures by events, tunes its own kernels, and walks the same path."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.search_workload import SearchWorkload

from vyre_opt import Space, autotune, dispatcher, kernel_workload, pick_config_pre_exp_fixed
from vyre_opt import natural_config_gradient_pre_exp_fixed as natural
from vyre_opt.ir import DataType as D
from vyre_opt.tuning.measure import DispatchBench
from vyre_opt.tuning.measure_cuda import CudaRunner

pytestmark = pytest.mark.gpu


def test_fixed_point_agrees_with_ref(cuda):
    weights = np.random.default_rng(0).integers(0, 2**32, 500, dtype=np.uint32)
    matrix = np.random.default_rng(1).integers(0, 2**32, 500 * 500, dtype=np.uint32)
    gpu = cuda()
    assert np.array_equal(pick_config_pre_exp_fixed(weights, gpu), pick_config_pre_exp_fixed(weights, "ref"))
    assert np.array_equal(natural(weights, matrix, gpu), natural(weights, matrix, "ref"))


def test_same_path_as_ref(cuda):
    space = Space({"a": tuple(range(12)), "b": tuple(range(8))})
    tunings = [
        autotune("bowl", space, lambda c: 1 + (c["a"] - 4) ** 2 + abs(c["b"] - 5), dispatcher=d, store=None)
        for d in (cuda(), dispatcher("ref"))
    ]
    assert replace(tunings[0], device="") == replace(tunings[1], device="")


@pytest.mark.parametrize(
    "workload",
    [
        kernel_workload("math.softmax_step", [5000] * 2, [D.U32] * 2),
        kernel_workload("math.matvec_fixed", [512 * 512, 512, 512], [D.U32] * 3),
        kernel_workload("scan.prefix", [1 << 20] * 2, [D.U32] * 2),
        kernel_workload("math.softmax", [256 * 1024] * 2, [D.BF16] * 2, {"columns": 1024}),
        SearchWorkload(1 << 20),
    ],
    ids=lambda w: w.name.partition("(")[0],
)
def test_tunes_in_place(cuda, workload):
    """The default and a few others run, are right (the look-back's state is cleared), and are timed."""
    gpu = cuda(bounds="none")
    tuning = autotune(workload, dispatcher=gpu, rounds=3, budget=6, store=None)
    assert not any("wrong" in m.failure for m in tuning.measured)
    assert 0 < tuning.cost <= tuning.default_cost
    space = workload.space("cuda")
    bench = DispatchBench(workload, space, gpu)
    place = space.find(tuning.config)
    (samples,) = bench.samples([place], 3)
    assert all(0 < sample < 1 for sample in samples)
    assert isinstance(bench._runners[place], CudaRunner)
