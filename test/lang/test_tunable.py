"""`@tunable`: every choice computes the same, the fastest is taken for such sizes, and what is wrong is told."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs, ProgramError
from vyre_opt.execution.cache.store import Store
from vyre_opt.lang import Read, ReadWrite, Write, f32, u32
from vyre_opt.tuning import measure


@vyre.tunable(lanes=(64, 128, 256), rows=(1, 2, 4), constraints=[lambda at: at["lanes"] * at["rows"] <= 512])
def scaling(lanes: int, rows: int) -> Any:
    @vyre.program(workgroup=lanes)
    def scale(x: Read[f32], y: Write[f32]) -> None:
        for k in range(rows):
            i = vyre.workgroup_id(0) * (lanes * rows) + k * lanes + vyre.local_id(0)
            if i < len(x):
                y[i] = 3 * x[i]

    @vyre.pipeline
    def run(x: Read[f32], y: Write[f32]) -> None:
        scale[vyre.ceil_div(len(x), lanes * rows)](x, y)

    return run


@vyre.tunable(rows=(1, 2, 4))
def adding(rows: int) -> Any:
    @vyre.program(workgroup=64)
    def add(a: u32, y: ReadWrite[u32]) -> None:
        for k in range(rows):
            i = vyre.global_id(0) * rows + k
            if i < len(y):
                y[i] = y[i] + a

    return add


def rig(monkeypatch: pytest.MonkeyPatch, cost: Any) -> None:
    """Costs by a function of the configuration."""

    def prepare(self: Any, pick: int) -> Any:
        config = self.space.configs[pick]
        runner = measure.CallRunner(self.workload.call(config), self.clock, self.workload.wait)
        monkeypatch.setattr(runner, "seconds", lambda: cost(config))
        return runner

    monkeypatch.setattr(measure.DispatchBench, "_prepare", prepare)


def test_choices() -> None:
    assert len(scaling.space) == 8
    assert scaling.variants.default == {"lanes": 64, "rows": 1}
    assert repr(scaling) == "<tunable scaling>"
    x = np.arange(1000, dtype=np.float32)
    for config in scaling.space.configs:
        y = np.zeros_like(x)
        scaling.at(**config)(x, y)
        assert np.array_equal(y, 3 * x), config
    y = np.zeros_like(x)
    scaling(x, y)
    assert np.array_equal(y, 3 * x)


def test_the_best_is_taken_for_such_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    tunable = vyre.tunable(**scaling.variants.factors)(scaling.variants.factory)
    used: list[Any] = []
    at = tunable.variants.at
    x, y = np.arange(1024, dtype=np.float32), np.zeros(1024, np.float32)
    rig(monkeypatch, lambda config: 1.0 / (config["lanes"] * config["rows"]))
    tuning = tunable.autotune(x, y, store=None)
    assert tuning.config == {"lanes": 256, "rows": 4}
    assert not y.any(), "the caller's arrays are left alone"
    monkeypatch.setattr(tunable.variants, "at", lambda **config: used.append(config) or at(**config))
    for count in (1024, 1984, 2048, 1024):
        x, y = np.arange(count, dtype=np.float32), np.zeros(count, np.float32)
        tunable(x, y=y)
        assert np.array_equal(y, 3 * x)
    best, first = {"lanes": 256, "rows": 4}, {"lanes": 64, "rows": 1}
    assert [config for config in used if config in (best, first)][-1] == best
    assert first in used


def test_programs_have_grids(monkeypatch: pytest.MonkeyPatch) -> None:
    """A grid may be a function of the choice; what is written in place is counted once."""
    y = np.arange(1000, dtype=np.uint32)
    rig(monkeypatch, lambda config: float(config["rows"] != 2) + 1)

    def grid(config: Any) -> int:
        return vyre.ceil_div(len(y), 64 * config["rows"])

    adding[grid](5, y)
    assert np.array_equal(y, np.arange(1000, dtype=np.uint32) + 5)
    tuning = adding.autotune(5, y, grid=grid, store=None)
    assert tuning.config == {"rows": 2}
    assert not [each.failure for each in tuning.measured if each.failure]
    adding[grid](7, y)
    assert np.array_equal(y, np.arange(1000, dtype=np.uint32) + 12)


def test_results_are_kept(tmp_path: Any) -> None:
    x, y = np.arange(512, dtype=np.float32), np.zeros(512, np.float32)
    store = Store(tmp_path)
    first = scaling.autotune(x, y, store=store, rounds=1)
    assert first.kernel.startswith("scaling(float32 512+/64, float32 512+/64)")
    assert scaling.autotune(x, y, store=store, rounds=1).kept


def test_a_choice_that_computes_something_else_has_no_cost() -> None:
    @vyre.tunable(by=(3, 4))
    def wrong(by: int) -> Any:
        @vyre.program(workgroup=64, grid=1)
        def scale(x: Read[u32], y: Write[u32]) -> None:
            i = vyre.global_id(0)
            y[i] = by * x[i]

        return scale

    x = np.arange(64, dtype=np.uint32)
    tuning = wrong.autotune(x, np.zeros_like(x), store=None)
    assert tuning.config == {"by": 3}
    assert [each.failure for each in tuning.measured if each.failure] == [
        "wrong result: y: element 1 is 4, not 3; 63 of 64 differ"
    ]


def test_what_is_wrong_is_told() -> None:
    x = np.arange(64, dtype=np.float32)
    with pytest.raises(TypeError, match=r"scaling\(\) takes lanes, rows, and is tuned by lanes"):
        vyre.tunable(lanes=(1, 2))(scaling.variants.factory)
    with pytest.raises(TypeError, match="@tunable is for a function written with def, not int"):
        vyre.tunable(lanes=(1, 2))(3)  # type: ignore[arg-type]
    with pytest.raises(BadInputs, match="scaling: lanes=1024, rows=1 is no legal choice"):
        scaling.at(lanes=1024, rows=1)
    with pytest.raises(TypeError, match="run is a pipeline, whose launches have their own grids"):
        scaling[4](x, x)
    with pytest.raises(TypeError, match=r"run\(\): missing a required argument: 'y'"):
        scaling.autotune(x)
    with pytest.raises(BadInputs, match="no legal configuration"):
        _ = vyre.tunable(a=(1, 2), constraints=[lambda at: at["a"] > 2])(lambda_of_a).space
    with pytest.raises(TypeError, match=r"lambda_of_a\(\) returns a program or a pipeline, not int"):
        vyre.tunable(a=(1, 2))(lambda_of_a)(x)
    with pytest.raises(TypeError, match="how many workgroups run"):
        adding(5, x)


def lambda_of_a(a: int) -> int:
    return a


def test_a_fault_is_raised() -> None:
    @vyre.tunable(shift=(900, 901))
    def far(shift: int) -> Any:
        @vyre.program(workgroup=64, grid=1)
        def read(x: Read[u32], y: Write[u32]) -> None:
            i = vyre.global_id(0)
            y[i] = x[i + shift]

        return read

    x = np.arange(64, dtype=np.uint32)
    with pytest.raises(ProgramError, match="out of bounds"):
        far.autotune(x, np.zeros_like(x), store=None)


def test_a_kept_choice_that_computes_something_else_now_is_not_taken(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The result is found by the code of the default, which has not changed."""
    rig(monkeypatch, lambda config: 3.0 - config["rows"])
    mistakes = [0, 0, 0]

    def stepped(rows: int) -> Any:
        added = mistakes[rows]

        @vyre.program(workgroup=64, grid=1)
        def step(x: Read[u32], y: Write[u32]) -> None:
            for k in range(rows):
                i = vyre.local_id(0) * rows + k
                if i < len(x):
                    y[i] = x[i] + added

        return step

    x, y, store = np.arange(64, dtype=np.uint32), np.zeros(64, np.uint32), Store(tmp_path)
    for mistakes[2], rows, kept in ((0, 2, False), (0, 2, True), (1, 1, False)):
        tunable = vyre.tunable(rows=(1, 2))(stepped)
        tuning = tunable.autotune(x, y, store=store, rounds=1)
        assert (tuning.config, tuning.kept) == ({"rows": rows}, kept)
        tunable(x, y)
        assert np.array_equal(y, x)
