"""The shipped recordings, and the tuner on them."""

from __future__ import annotations

import re
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from recorded_costs import RECORDINGS, RecordedBench, load_recording, recordings
from support.search_workload import SearchWorkload

from vyre_opt import BadInputs, kernel_workload
from vyre_opt.ir import DataType
from vyre_opt.tuning.budget import Budget
from vyre_opt.tuning.tuner import DEFAULT_STRATEGY, search
from vyre_opt.tuning.workload import Workload

FILES = sorted(RECORDINGS.glob("*.json"))


def workload_of(name: str) -> Workload:
    """What a workload's name says."""
    sizes = re.findall(r"(\w+)\[(\d+)\]", name)
    if name.startswith("decode_scan"):
        return SearchWorkload(int(sizes[0][1]))
    kernel, _, rest = name.partition("(")
    params = {key: int(value) for key, value in re.findall(r"(\w+)=(\d+)", rest)}
    types = [DataType.of(written) for written, _ in sizes]
    return kernel_workload(kernel, [int(count) for _, count in sizes], types, params)


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_recording_is_whole(path: Path) -> None:
    """Every configuration has all rounds or a reason; the text is what `to_json` makes of it."""
    recording = load_recording(path)
    assert recording.to_json() == path.read_text()
    counts = {
        len(rounds) for place, rounds in enumerate(recording.samples) if place not in recording.failures
    }
    assert len(counts) == 1
    assert min(counts) >= 8
    assert recording.best > 0
    assert recording.truth[recording.default] < float("inf")


@pytest.mark.parametrize("path", FILES, ids=lambda p: p.stem)
def test_default_is_todays_and_near_the_best(path: Path) -> None:
    """A choice of schedule that has changed is told to the recordings, and is a good one there."""
    recording = load_recording(path)
    assert recording.space.configs[recording.default] == workload_of(recording.workload).default(
        recording.target
    )
    assert recording.truth[recording.default] <= 1.15 * recording.best


@pytest.mark.campaign
def test_default_strategy_ends_near_the_best() -> None:
    """Starts on each recording, with a quarter of the measurements, of a third of the configurations at
    most; one of ten may miss, by what the shown rounds do not tell.  Random search ends there from three of four."""
    near = {DEFAULT_STRATEGY: 0, "random": 0}
    seeds = range(500, 504)
    for recording, seed in product(recordings(), seeds):
        count, rounds = len(recording.space), recording.rounds
        for strategy in near:
            budget = Budget(RecordedBench(recording), count, count // 4 * rounds, rounds)
            search(budget, np.random.default_rng(seed), recording.space, strategy)
            assert budget.spent <= count // 4 * rounds
            assert len(budget.order) <= max(3, -(-count // 3))
            assert budget.best is not None
            assert len(budget.samples[budget.best]) == rounds
            near[strategy] += recording.truth[budget.best] <= 1.05 * recording.best
    assert len(FILES) >= 6
    assert near[DEFAULT_STRATEGY] >= 0.9 * len(FILES) * len(seeds), near
    assert near[DEFAULT_STRATEGY] > 1.05 * near["random"], near


def test_what_is_no_recording(tmp_path: Path) -> None:
    broken = tmp_path / "broken.json"
    for text in ("", "{}", '{"format": 2}', FILES[0].read_text()[:-9]):
        broken.write_text(text)
        with pytest.raises(BadInputs, match=r"broken\.json"):
            load_recording(broken)
