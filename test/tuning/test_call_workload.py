"""Calls of programs and pipelines as workloads: each configuration is what it says, computes the same, and is chosen by its time."""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from support.quick import quick

import vyre_opt as vyre
from vyre_opt import (
    BadInputs,
    DiagnosticError,
    ProgramError,
    autotune,
    call_workload,
    compile,
    parse,
)
from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir import Launch
from vyre_opt.lang import Read, Write, f32
from vyre_opt.tuning import measure
from vyre_opt.tuning.call_workload import CallWorkload, passes_of

EXAMPLES = Path(__file__).parents[2] / "examples" / "pipelines"

CHAIN = """vyre 1

program @double workgroup(64) {
  buffer @in  : u32[?] read  binding(0)
  buffer @out : u32[?] write binding(1)
  %i = global_id x
  %v = load @in[%i] : u32
  %s = add %v, %v : u32
  store %s, @out[%i] : u32
}

pipeline @main {
  buffer @a : u32[256] read
  buffer @b : u32[256]
  buffer @c : u32[256]
  buffer @d : u32[256] write
  launch @double grid(4) (@a, @b)
  launch @double grid(4) (@b, @c)
  launch @double grid(4) (@c, @d)
}
"""


def call_of(path: Path, target: str = "cpu") -> CallWorkload:
    """A call on random arrays; what is of open size has 4,096 elements."""
    rng, signature = np.random.default_rng(0), compile(path).signature
    inputs, lengths = {}, {}
    for buffer in signature.buffers:
        stored, count = storage_type(buffer.dtype), buffer.count or 4096
        if buffer not in signature.read:
            lengths |= {} if buffer.count else {buffer.name: count}
        elif stored.kind == "f":
            inputs[buffer.name] = rng.standard_normal(count).astype(stored)
        else:
            inputs[buffer.name] = rng.integers(0, 64, count).astype(stored)
    return call_workload(path, inputs, lengths=lengths, target=target)


def launches(workload: CallWorkload, config: Any) -> list[str]:
    stages = workload.executable(config).pipeline.walk()
    return [stage.program for stage in stages if isinstance(stage, Launch)]


def _launch_count(path: Path) -> int:
    return path.read_text("utf-8").count("launch @")


# of many launches there are many configurations
@pytest.mark.parametrize(
    "path", quick(sorted(EXAMPLES.glob("*.vyre"), key=_launch_count), keep=7), ids=lambda path: path.stem
)
def test_every_configuration_computes_the_same(path: Path) -> None:
    """On the interpreter, of as many as differ in their launches; the default is what -O does."""
    workload = call_of(path, "ref")
    assert "level" not in workload.space("ref").factors
    assert passes_of(workload.default("ref")) == "default"
    for config in workload.space("ref").configs:
        assert workload.fault([np.asarray(each) for each in workload.call(config)()]) == ""


def test_cuts_are_launches() -> None:
    workload = call_workload(CHAIN, [np.arange(256, dtype=np.uint32)])
    assert workload.cuts == {1: 2048, 2: 2048}
    factors = {"cut_1": (0, 1), "cut_2": (0, 1), "threshold": ("default", 128), "level": (3, 2, 1)}
    assert {name: set(values) for name, values in workload.space("cpu").factors.items()} == {
        name: set(values) for name, values in factors.items()
    }
    assert len(launches(workload, {})) == 1
    assert launches(workload, {"cut_1": 1, "cut_2": 0}) == ["double", "double_then_double"]
    assert launches(workload, {"cut_1": 0, "cut_2": 1}) == ["double_then_double", "double"]
    assert launches(workload, {"cut_1": 1, "cut_2": 1}) == ["double"] * 3
    assert workload.executable({"level": 1}).dispatcher.level == 1
    assert (
        passes_of({"cut_1": 1, "cut_2": 1, "halo": "never"}).count("launch_fusion{cut=1+2 halo=never}") == 1
    )


def test_a_cut_is_expected_to_cost_its_bytes_and_a_launch() -> None:
    workload = call_workload(CHAIN, [np.arange(256, dtype=np.uint32)])
    space = workload.space("cpu")
    seconds = {tuple(c.values()): s for c, s in zip(space.configs, workload.prior(space, "cpu"), strict=True)}
    none, first, second, both = ((0, 0, "default"), (1, 0, "default"), (0, 1, "default"), (0, 0, 128))
    assert seconds[*none, 3] < seconds[*first, 3] == seconds[*second, 3] < seconds[*both, 3]
    assert seconds[*first, 3] - seconds[*none, 3] == pytest.approx(2e-6 + 2048 / 1e10)


TWO_CHAINS = CHAIN.replace(
    "  launch @double grid(4) (@c, @d)",
    """  launch @double grid(4) (@c, @d)
  launch @double grid(1) (@x, @y)
  launch @double grid(1) (@y, @z)""",
).replace(
    "  buffer @d",
    """  buffer @x : u32[64] read
  buffer @y : u32[64]
  buffer @z : u32[64] write
  buffer @d""",
)


def test_the_threshold_of_fusion_pressure_is_a_choice() -> None:
    """It parts the chains of most pressure first, by the option of the pass; cuts say nothing that it says."""
    arrays = {"a": np.arange(256, dtype=np.uint32), "x": np.arange(64, dtype=np.uint32)}
    workload = call_workload(TWO_CHAINS, arrays, target="ref")
    assert list(workload.thresholds.items()) == [("default", set()), (64, {1, 2}), (32, {1, 2, 4})]
    assert "fusion_pressure{threshold=64.0}" in passes_of({"threshold": 64})
    space, parts = workload.space("ref"), set()
    for config in space.configs:
        parts.add(tuple(launches(workload, config)))
    assert len(parts) == len(space) == 2**3
    assert launches(workload, {"threshold": 64}) == ["double"] * 3 + ["double_then_double"]
    assert launches(workload, {"threshold": 32}) == ["double"] * 5


def test_halos_and_tiles_are_choices_where_they_matter() -> None:
    workload = call_of(EXAMPLES / "halo_beyond_the_tile.vyre")
    assert workload.space("cpu").factors["halo"] == ("cheap", "always")
    assert len(launches(workload, {"halo": "always"})) < len(launches(workload, {"halo": "cheap"}))
    assert "tile" in call_of(EXAMPLES / "softmax_of_scale.vyre").space("cpu").factors


class Rigged(measure.CallRunner):
    """Calls that take as long as a test says, which looks at the launches of the executable."""

    seconds_of: ClassVar[dict[int, float]] = {}

    def seconds(self) -> float:
        executable = self.call.__closure__[0].cell_contents  # type: ignore[union-attr]
        return self.seconds_of[sum(isinstance(stage, Launch) for stage in executable.pipeline.walk())]


CUTS = {"cut_1": (0, 1), "cut_2": (0, 1), "level": (3,)}
"""Of `CHAIN`: every way to join its launches."""


def test_the_fastest_is_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    """Three launches are faster than one, whatever was expected; and one is kept where nothing is faster."""
    monkeypatch.setattr(measure, "CallRunner", Rigged)
    workload = call_workload(CHAIN, [np.arange(256, dtype=np.uint32)])
    monkeypatch.setattr(Rigged, "seconds_of", {1: 3e-6, 2: 2e-6, 3: 1e-6})
    tuning = autotune(workload, CUTS, store=None)
    assert (tuning.config["cut_1"], tuning.config["cut_2"]) == (1, 1)
    assert tuning.gain == pytest.approx(3)
    monkeypatch.setattr(Rigged, "seconds_of", {1: 3e-6, 2: 3e-6, 3: 2.99e-6})
    again = autotune(workload, CUTS, store=None)
    assert again.config == again.default
    assert "not confirmed" in again.table()


def test_what_computes_something_else_has_no_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pass that is wrong is found by the outputs."""
    workload = call_workload(CHAIN, [np.arange(256, dtype=np.uint32)])
    wrong = parse(CHAIN.replace("add %v, %v", "mul %v, %v"))
    right = CallWorkload._compiled

    def compiled(self: CallWorkload, backend: Any, passes: str | None) -> Any:
        if passes and "cut=1+2" in passes:
            return compile(wrong, target=backend)
        return right(self, backend, passes)

    monkeypatch.setattr(CallWorkload, "_compiled", compiled)
    tuning = autotune(workload, CUTS, store=None)
    failed = {tuple(m.config.items())[:2]: m.failure for m in tuning.measured if m.failure}
    assert set(failed) == {(("cut_1", 1), ("cut_2", 1))}
    assert "wrong result: @d: element 1 is 1, not 8" in next(iter(failed.values()))


def test_results_are_kept_by_module_and_sizes(tmp_path: Path) -> None:
    from vyre_opt.execution.cache.store import Store

    store = Store(tmp_path)
    first = autotune(call_workload(CHAIN, [np.arange(256, dtype=np.uint32)]), store=store, budget=3, rounds=1)
    assert not first.kept
    assert autotune(call_workload(CHAIN, [np.ones(256, np.uint32)]), store=store, budget=3, rounds=1).kept
    other = CHAIN.replace("add %v, %v", "mul %v, %v")
    assert not autotune(
        call_workload(other, [np.arange(256, dtype=np.uint32)]), store=store, budget=3, rounds=1
    ).kept


def test_a_program_has_levels() -> None:
    x = np.arange(256, dtype=np.uint32)
    workload = call_workload(CHAIN, {"in": x, "out": np.zeros_like(x)}, entry="double", grid=4)
    assert dict(workload.space("cpu").factors) == {"level": (3, 2, 1)}
    tuning = autotune(workload, store=None)
    assert np.array_equal(workload.executable(tuning.config)({"in": x, "out": x}, 4)["out"], 2 * x)


@vyre.program(workgroup=64)
def twice(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = x[i] + x[i]


@vyre.pipeline
def four_times(x: Read[f32], y: Write[f32]) -> None:
    between = vyre.buffer(f32, len(x))
    twice[vyre.ceil_div(len(x), 64)](x, between)
    twice[vyre.ceil_div(len(x), 64)](between, y)


def test_functions_of_python() -> None:
    """A pipeline that `@pipeline` made is tuned, and called as the result says by its options."""
    x = np.arange(1000, dtype=np.float32)
    workload = call_workload(four_times, {"x": x, "y": np.zeros_like(x)})
    assert "cut_1" in workload.space("cpu").factors
    tuning = autotune(workload, store=None)
    y = np.zeros_like(x)
    four_times.options(passes=passes_of(tuning.config), target=workload.dispatcher_of(tuning.config))(x, y)
    assert np.array_equal(y, 4 * x)


def test_wrong_arguments() -> None:
    x = np.arange(256, dtype=np.uint32)
    with pytest.raises(BadInputs, match="it has @a, @d"):
        call_workload(CHAIN, {"z": x})
    with pytest.raises(BadInputs, match="7 elements given"):
        autotune(call_workload(CHAIN, [x[:7]]), store=None)
    with pytest.raises(DiagnosticError):
        call_workload(CHAIN.replace("add %v", "ad %v"), [x])


def test_a_program_that_faults_is_told_so() -> None:
    """By its own error, with its place, and not as that of each configuration."""
    text = CHAIN.replace("load @in[%i]", "load @in[%far]").replace(
        "%i = global_id x", "%i = global_id x\n  %k = const 900 : u32\n  %far = add %i, %k : u32"
    )
    with pytest.raises(ProgramError, match="out of bounds"):
        autotune(call_workload(text, [np.arange(256, dtype=np.uint32)]), store=None)


def test_choices_that_the_call_does_not_have() -> None:
    """A space of the caller's may leave some out; what is no choice is told, not run."""
    call = call_workload(EXAMPLES / "diamond.vyre", [np.arange(1024, dtype=np.int32)])
    tuning = autotune(call, {"level": (3, 1)}, store=None)
    assert set(tuning.config) == {"level"}
    for config in ({"cut_1": 9}, {"zz": 1}, {"level": "x"}):
        with pytest.raises(BadInputs, match="is no choice of"):
            call.executable(config)
    with pytest.raises(BadInputs, match="the call has no choice cut_1 of 'x'"):
        autotune(call, {"cut_1": ("x",)}, store=None)
