"""Workloads: their spaces hold the default, every trial is right, and a wrong one is seen."""

from __future__ import annotations

import numpy as np
import pytest
from support.quick import quick
from support.search_workload import SearchWorkload

from vyre_opt import BadInputs, dispatcher, kernel_workload
from vyre_opt.ir import DataType as D
from vyre_opt.ir import Module, verify

SMALL = {
    "softmax": ("math.softmax", [12 * 64] * 2, [D.F32] * 2, {"columns": 64}),
    "softmax bf16": ("math.softmax", [4 * 300] * 2, [D.BF16] * 2, {"columns": 300}),
    "softmax_step": ("math.softmax_step", [1000] * 2, [D.U32] * 2, {}),
    "matvec": ("math.matvec_fixed", [33 * 70, 70, 33], [D.U32] * 3, {}),
    "prefix": ("scan.prefix", [5000] * 2, [D.F32] * 2, {}),
    "dfa": ("scan.dfa", [3000, 256 * 8, 8, 3000], [D.U8, D.U16, D.U32, D.U32], {"warmup": 5}),
    "contract": ("tt.contract_step", [40, 40 * 70, 70], [D.I32] * 3, {}),
    "chain": ("tt.chain", [32, 4 * 32 * 32, 32], [D.F32] * 3, {"steps": 4, "rank": 32}),
    "embedding": (
        "tt.embedding",
        [5 * 2 * 8 + 6 * 8 * 2 * 8 + 7 * 8 * 2, 90, 90 * 8],
        [D.F32, D.U32, D.F32],
        {"p0": 5, "q0": 2, "r1": 8, "p1": 6, "q1": 2, "r2": 8, "p2": 7, "q2": 2},
    ),
    "base64": ("decode.base64", [4000, 3000], [D.U8] * 2, {}),
    "hex": ("decode.hex", [4000, 2000], [D.U8] * 2, {}),
}


BOTH = [(name, True) for name in SMALL] + [("softmax", False), ("prefix", False), ("chain", False)]


@pytest.mark.parametrize(
    ("name", "owns_grid"),
    quick(BOTH),
    ids=lambda v: v if isinstance(v, str) else ["body", "stage"][v],
)
def test_default_is_a_candidate_and_trials_are_right(name: str, owns_grid: bool) -> None:
    """Three configurations of each space run and are right: the default, the first and the last."""
    workload = kernel_workload(*SMALL[name], owns_grid=owns_grid)
    for target in ("cpu", "cuda"):
        assert workload.space(target).find(workload.default(target)) is not None
    space = workload.space("cpu")
    for config in (workload.default("cpu"), space.configs[0], space.configs[-1]):
        trial = workload.trial(config, "cpu")
        outputs = dispatcher("cpu").dispatch(trial.program, trial.arguments, trial.grid)
        assert workload.fault(outputs) == "", config
        spoiled = outputs[0].copy()
        spoiled[len(spoiled) // 2 :] = spoiled[: len(spoiled) - len(spoiled) // 2][::-1]
        assert workload.fault([spoiled]), config


@pytest.mark.parametrize(("target", "most"), quick([("cpu", 4), ("cpu", 1000), ("sm_90", 1000)]))
@pytest.mark.parametrize("name", SMALL)
def test_each_program_of_a_space_verifies(name: str, target: str, most: int) -> None:
    """A tuner compiles whatever a space holds, and the kernels do not verify what they build."""
    workload = kernel_workload(*SMALL[name])
    configs = workload.space(target).configs
    for config in configs[:: -(-len(configs) // most)]:
        module = Module()
        module.add(workload.trial(config, target).program)
        assert verify(module) == [], config


@pytest.mark.campaign
def test_search_workload_has_a_fusion_threshold() -> None:
    """Fused up to the threshold, in storage at 0; both find the same matches."""
    workload = SearchWorkload(40_000)
    fused = workload.default("cpu")
    assert fused["threshold"] > 0
    assert workload.space("cpu").find(fused) is not None
    for config, is_tile in ((fused, True), ({**fused, "threshold": 0}, False)):
        trial = workload.trial(config, "cpu")
        assert trial.program.buffers["decoded"].is_workgroup == is_tile
        outputs = dispatcher("cpu").dispatch(trial.program, trial.arguments, trial.grid)
        assert workload.fault(outputs) == ""
        assert "matches" in workload.fault([outputs[0], np.zeros(1, np.uint64)])
    tight = {**fused, "threshold": 64}
    with pytest.raises(ValueError, match="does not fit"):
        workload.trial(tight, "cpu")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("math.sofmax", [1], [D.F32]), "did you mean math.softmax"),
        (("math.softmax", [64, 64], [D.F32] * 2), "needs its parameter columns"),
        (("math.softmax", [65, 65], [D.F32] * 2, {"columns": 64}), "rows x 64; @x has 65"),
        (("math.softmax", [64, 64], [D.U8] * 2, {"columns": 64}), "does not hold u8"),
        (("math.softmax", [64], [D.F32]), "takes 2 buffers"),
    ],
)
def test_what_is_no_workload(arguments, message) -> None:
    with pytest.raises(BadInputs, match=message):
        kernel_workload(*arguments)
