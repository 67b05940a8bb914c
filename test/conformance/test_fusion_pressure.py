"""The contract of fusion_pressure and should_fuse_chain: values, dispatches, errors."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre_opt import BadInputs, dispatcher, fusion_pressure, kernels, pressure_of, should_fuse_chain
from vyre_opt.ir import Program

CASES = json.loads((Path(__file__).parent / "fusion_pressure.json").read_text())


class Recorder:
    """A dispatcher with the contract's three arguments and nothing more; passes on to the interpreter."""

    def __init__(self) -> None:
        self.calls: list[tuple[Program, list[np.ndarray], Any]] = []

    def dispatch(self, program: Program, inputs: Sequence[Any], grid: Any) -> list[np.ndarray]:
        self.calls.append((program, [np.array(each) for each in inputs], grid))
        return dispatcher("ref").dispatch(program, inputs, grid)


def case_id(case: dict[str, Any]) -> str:
    return "-".join(map(str, case["ranks"])) or "none"


@pytest.mark.parametrize("case", CASES["fusion_pressure"], ids=case_id)
@pytest.mark.parametrize("as_array", [False, True], ids=["ints", "u32"])
def test_pressure(case: dict[str, Any], as_array: bool) -> None:
    ranks = np.array(case["ranks"], np.uint32) if as_array else case["ranks"]
    recorder = Recorder()
    if "error" in case:
        with pytest.raises(BadInputs, match="shard the chain or lower the ranks"):
            fusion_pressure(ranks, dispatcher=recorder)
        assert recorder.calls == []
        return
    for target in ("cpu", "ref", dispatcher("cpu")):
        assert fusion_pressure(ranks, dispatcher=target) == case["pressure"]
    pressure = fusion_pressure(ranks)
    assert isinstance(pressure, float)
    assert pressure == case["pressure"] == pressure_of(ranks)
    if "dispatches" in case:
        fusion_pressure(ranks, dispatcher=recorder)
        assert len(recorder.calls) == case["dispatches"]


@pytest.mark.parametrize("columns", [1, 256, 257, 1500])
def test_one_contraction_is_one_dispatch(columns: int) -> None:
    """Signed: what is 2^31 and more is negative."""
    recorder = Recorder()
    one = 1 << 16
    acc = np.array([one, 2**32 - 3 * one], np.uint32)
    core = np.stack([np.arange(columns) * one, np.full(columns, 2**32 - one)]).astype(np.uint32)
    out = kernels.tt_contract_step(acc, core, dispatcher=recorder)
    assert out.tolist() == [(column + 3) * one for column in range(columns)]
    ((program, _, grid),) = recorder.calls
    assert (program.name, program.workgroup) == ("contract_step", (256, 1, 1))
    assert grid == max(1, -(-columns // 256))


@pytest.mark.parametrize("case", CASES["should_fuse_chain"], ids=lambda c: f"{c['threshold_per_link']}")
def test_should_fuse_chain(case: dict[str, Any]) -> None:
    for target in (None, "ref", Recorder()):
        decision = should_fuse_chain(case["ranks"], case["threshold_per_link"], dispatcher=target)
        assert decision is case["fuse"]


@pytest.mark.parametrize("ranks", [[], [0], [0, 0], [7], [0, 3, 0, 300, 1], [257, 256, 1025]])
def test_dispatches(ranks: list[int]) -> None:
    """One a nonzero rank and a last one to rank 1, each with the core, grid and accumulator it says."""
    recorder = Recorder()
    pressure = fusion_pressure(ranks, dispatcher=recorder)
    nonzero = [rank for rank in ranks if rank]
    assert pressure == (float(np.prod(nonzero, dtype=np.uint64)) if ranks else 0.0)
    bonds = [1, *nonzero, 1] if ranks else []
    assert len(recorder.calls) == max(0, len(bonds) - 1)
    product = 1
    for (program, inputs, grid), rows, columns in zip(recorder.calls, bonds, bonds[1:], strict=False):
        accumulator, core, out = inputs
        assert program.name == "contract_step"
        assert program.workgroup == (256, 1, 1)
        assert grid == (max(1, -(-columns // 256)), 1, 1)
        assert [a.dtype for a in inputs] == [np.uint32] * 3
        assert accumulator.tolist() == [product] * rows
        assert core.tolist() == [1 << 16] * (rows * columns)
        assert len(out) == columns
        product *= rows
