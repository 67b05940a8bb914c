"""Launches as they are rewritten for a GPU, run on the cpu: the same results, and the grids and words that go with them."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np
import pytest
from support.neighbour_programs import NARROW, neighbour_program
from support.quick import quick
from support.rewritten_launches import rewritten_launches

import vyre_opt as vyre
from vyre_opt import Read, ReadWrite, Write, f32, global_id, u8, u32
from vyre_opt.driver import slice_lengths
from vyre_opt.driver.launch_rewrites import LaunchRewrites
from vyre_opt.execution import ProgramError
from vyre_opt.execution.dispatcher import DispatcherLike
from vyre_opt.execution.plans.neighbours import Neighbours
from vyre_opt.execution.plans.steps import LaunchStep
from vyre_opt.scheduling import launch_forms
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

Matrix = Annotated[f32, :, :]


class _AsGpu(CpuDispatcher):
    """The cpu, which says that it is a GPU of as many multiprocessors as it has threads."""

    architecture = "sm_90"


def decisions_on_gpu(text: str, inputs: dict[str, Any], grid: int) -> list[str]:
    """What is said of the first launch of a program's text."""
    report = vyre.compile(text, target=_AsGpu(2)).report(inputs, grid)
    return [form.message for form in report.launches[0].decisions]


@vyre.program(workgroup=(16, 8))
def add(a: Read[Matrix], b: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < a.shape[0] and j < a.shape[1]:
        y[i, j] = a[i, j] + b[i, j]


@vyre.program(workgroup=(16, 8))
def transpose(x: Read[Matrix], y: Write[Matrix]) -> None:
    j, i = global_id(0), global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[j, i] = x[i, j]


@vyre.program
def histogram(x: Read[u8], bins: ReadWrite[u32]) -> None:
    i = global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i], 1)


@vyre.program
def scale(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = x[i] * 2.0 + 1.0


@vyre.program
def hyperbolic(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(x):
        y[i] = vyre.tanh(x[i])


@vyre.pipeline
def twice(x: Read[f32], y: Write[f32]) -> None:
    mid = vyre.buffer(f32, len(x))
    scale[vyre.ceil_div(len(x), 256)](x, mid)
    scale[vyre.ceil_div(len(x), 256)](mid, y)


@pytest.fixture
def launched(monkeypatch: pytest.MonkeyPatch) -> list[LaunchStep]:
    """Small launches are rewritten too; the list gets each as it is then."""
    return rewritten_launches(monkeypatch, MIN_COUNTS=0, MIN_INVOCATIONS=0)


@pytest.mark.parametrize("seeds", quick([range(k, k + 10) for k in range(0, 500, 10)], keep=2), ids=str)
def test_random_programs(seeds: range, launched: list[LaunchStep]) -> None:
    target = _AsGpu(2)
    for seed in seeds:
        sample = neighbour_program(seed)
        names = ("x", "y", "z", "bins_add", "bins_max", "bins_xor")
        inputs = dict(zip(names, sample.arrays, strict=True))
        expected = vyre.compile(sample.text, target="ref")(inputs, sample.grid)
        found = vyre.compile(sample.text, target=target)(inputs, sample.grid)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, f"seed {seed} @{name}\n{sample.text}")
    assert any(step.neighbours.count > 1 for step in launched)
    assert any(step.takes_turns for step in launched)


@pytest.mark.parametrize("target", [_AsGpu(2), "cpu"], ids=["gpu", "cpu"])
@pytest.mark.parametrize("seeds", quick([range(k, k + 10) for k in range(0, 500, 10)], keep=1), ids=str)
def test_random_programs_of_narrow_workgroups(
    seeds: range, target: DispatcherLike, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Several are one, whatever ids a program asks for, before other passes replace these."""
    widened: list[LaunchStep] = []
    wide = LaunchRewrites._wide

    def watched(*args: Any) -> LaunchStep:
        widened.append(wide(*args))
        return widened[-1]

    monkeypatch.setattr(LaunchRewrites, "_wide", watched)
    for seed in seeds:
        sample = neighbour_program(seed, NARROW)
        names = ("x", "y", "z", "bins_add", "bins_max", "bins_xor")
        inputs = dict(zip(names, sample.arrays, strict=True))
        expected = vyre.compile(sample.text, target="ref")(inputs, sample.grid)
        found = vyre.compile(sample.text, target=target)(inputs, sample.grid)
        for name, array in expected.items():
            np.testing.assert_array_equal(found[name], array, f"seed {seed} @{name}\n{sample.text}")
    assert any(step.program.workgroup[1] > 1 for step in widened)


@pytest.mark.parametrize(("rows", "columns", "by"), [(5, 64, 4), (33, 100, 4), (8, 70, 2), (1, 3, 1)])
def test_rows_of_open_length(rows: int, columns: int, by: int, launched: list[LaunchStep]) -> None:
    """They are vectors where the call's rows are whole vectors."""
    rng = np.random.default_rng(rows)
    a, b = (rng.random((rows, columns), np.float32) for _ in range(2))
    y = np.zeros_like(a)
    add.options(target=_AsGpu(2))[-(-columns // 16), -(-rows // 8)](a, b, y)
    np.testing.assert_array_equal(y, a + b)
    assert launched[-1].neighbours == Neighbours(by)


@pytest.mark.parametrize(("count", "blocks"), [(60_001, 1), (140_001, 2), (270_001, 4)])
def test_blocks_of_neighbours_where_much_is_computed(
    count: int, blocks: int, launched: list[LaunchStep]
) -> None:
    """As many as leave enough workgroups, and one where memory sets the pace."""
    x = np.random.default_rng(count).standard_normal(count).astype(np.float32)
    y, expected = np.zeros_like(x), np.zeros_like(x)
    groups = -(-count // 256)
    hyperbolic.options(target="cpu")[groups](x, expected)
    hyperbolic.options(target=_AsGpu(2))[groups](x, y)
    np.testing.assert_array_equal(y, expected)
    assert launched[-1].neighbours == Neighbours(4, blocks=blocks)
    scale.options(target=_AsGpu(2))[groups](x, y)
    assert launched[-1].neighbours == Neighbours(4)


@pytest.mark.parametrize(("target", "by"), [(_AsGpu(2), 8), ("cpu", 1)], ids=["gpu", "cpu"])
def test_a_histogram_of_any_length(target: DispatcherLike, by: int, launched: list[LaunchStep]) -> None:
    kernel = histogram.options(target=target)
    for count in (1, 256, 5_000, 100_003):
        x = np.random.default_rng(count).integers(0, 256, count).astype(np.uint8)
        bins = np.arange(256, dtype=np.uint32)
        kernel[-(-count // 256)](x, bins)
        np.testing.assert_array_equal(bins, np.bincount(x, minlength=256) + np.arange(256))
    assert all(step.takes_turns and step.neighbours == Neighbours(by) for step in launched)


@pytest.mark.parametrize("target", [_AsGpu(2), "cpu"], ids=["gpu", "cpu"])
def test_a_fault_is_that_of_the_program(target: DispatcherLike, launched: list[LaunchStep]) -> None:
    """It names what is known of the invocation."""
    x = np.full(40_000, 200, np.uint8)
    with pytest.raises(
        ProgramError,
        match="atomic_add out of bounds of @bins: index 200, length 100, by a workgroup local id",
    ):
        histogram.options(target=target)[157](x, np.zeros(100, np.uint32))
    with pytest.raises(ProgramError, match=r"store out of bounds of @y: .* by workgroup \(3,0,0\) local id"):
        scale.options(target=target)[4](np.zeros(1024, np.float32), np.zeros(1000, np.float32))


def test_a_pipeline_of_several_lengths(launched: list[LaunchStep]) -> None:
    pipeline = twice.options(target=_AsGpu(2), passes=None)
    for count in (1, 1023, 1024, 100_001):
        x = np.random.default_rng(count).random(count, np.float32)
        y = np.zeros_like(x)
        pipeline(x, y)
        np.testing.assert_array_equal(y, (x * np.float32(2) + np.float32(1)) * np.float32(2) + np.float32(1))
    assert {step.neighbours for step in launched} == {Neighbours(4)}


@pytest.mark.parametrize(
    ("shape", "by"),
    [
        ((64, 48), Neighbours(1, 4, (8, 4))),
        ((66, 48), Neighbours(4, 1, (4, 8))),
        ((67, 43), Neighbours(1, 1, (4, 8))),
    ],
)
def test_lanes_of_a_transpose_stand_in_tiles(
    shape: tuple[int, int], by: Neighbours, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Along both axes elements beside each other are for lanes beside each other; vectors are where rows are whole ones."""
    monkeypatch.setattr(launch_forms, "INVOCATIONS", 0)
    forms: list[Neighbours] = []
    best = launch_forms.LaunchForms.coarse

    def watched(self: launch_forms.LaunchForms, *args: Any) -> Any:
        found = best(self, *args)
        forms.append(found.by)
        return found

    monkeypatch.setattr(launch_forms.LaunchForms, "coarse", watched)
    x = np.random.default_rng(0).random(shape, np.float32)
    y = np.zeros(shape[::-1], np.float32)
    transpose.options(target=_AsGpu(2))[-(-shape[1] // 16), -(-shape[0] // 8)](x, y)
    np.testing.assert_array_equal(y, x.T)
    assert forms == [by]


@vyre.program(workgroup=(32, 8))
def biased(x: Read[Matrix], bias: Read[f32], y: Write[Matrix]) -> None:
    j, i = vyre.global_id(0), vyre.global_id(1)
    if i < x.shape[0] and j < x.shape[1]:
        y[i, j] = vyre.tanh(vyre.tanh(x[i, j] + bias[j]))


def test_vectors_of_much_arithmetic_lie_below_each_other_where_they_share_a_row(
    launched: list[LaunchStep], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(launch_forms, "INVOCATIONS", 0)
    for shape in ((64, 48), (31, 132)):
        x = np.random.default_rng(0).random(shape, np.float32)
        bias, y = x[0].copy(), np.zeros_like(x)
        biased.options(target=_AsGpu(2))[-(-shape[1] // 32), -(-shape[0] // 8)](x, bias, y)
        expected = np.zeros_like(x)
        biased.options(target="ref")[-(-shape[1] // 32), -(-shape[0] // 8)](x, bias, expected)
        np.testing.assert_array_equal(y, expected)
    assert {step.neighbours for step in launched} == {Neighbours(4, 4)}


def test_small_launches_stay(launched: list[LaunchStep], monkeypatch: pytest.MonkeyPatch) -> None:
    """One that would leave multiprocessors idle is not made smaller, and the next smaller factor is tried."""
    monkeypatch.setattr(launch_forms, "INVOCATIONS", 1024)
    kernel = scale.options(target=_AsGpu(2))
    for count, by in ((2048, 1), (4096, 2), (8192, 4)):
        x = np.ones(count, np.float32)
        kernel[count // 256](x, np.zeros_like(x))
        assert launched[-1].neighbours == Neighbours(by)


def test_programs_of_named_kernels_stay(launched: list[LaunchStep]) -> None:
    """They have the schedule that was chosen for them."""
    text = """vyre 2
program @p workgroup(64) {
  buffer @x : f32[65536] read binding(0)
  buffer @y : f32[65536] write binding(1)
  math.softmax(@x, @y) {columns = 4}
}
"""
    x = np.random.default_rng(0).random(65536, np.float32)
    (y,) = vyre.compile(text, target=_AsGpu(2))({"x": x}, 64).values()
    assert np.allclose(y.reshape(-1, 4).sum(1), 1)
    assert launched == []


@vyre.program
def normalized(x: Read[Matrix], y: Write[Matrix], counts: Write[u32]) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :]
    y[r, :] = row / vyre.sum(row)
    counts[r] = vyre.num_workgroups(0) * 1000 + vyre.workgroup_id(0)


@pytest.mark.parametrize("target", [_AsGpu(2), "cpu"], ids=["gpu", "cpu"])
def test_rows_of_the_length_of_a_call(target: DispatcherLike, monkeypatch: pytest.MonkeyPatch) -> None:
    """Several rows a workgroup where they are short, and after two lengths a form for all others."""
    monkeypatch.setattr(slice_lengths, "MOST_LENGTHS", 2)
    kernel = normalized.options(target=target)
    for rows, columns in ((70, 100), (35, 33), (7, 1000), (20, 5000), (70, 100), (1, 1)):
        x = np.random.default_rng(rows).integers(1, 9, (rows, columns)).astype(np.float32)
        y, counts = np.zeros_like(x), np.zeros(rows, np.uint32)
        kernel[rows](x, y, counts)
        np.testing.assert_array_equal(y, x / x.sum(1, keepdims=True))
        np.testing.assert_array_equal(counts, rows * 1000 + np.arange(rows))


SHORT = [(3, 4), (41, 8), (16, 2), (129, 32), (7, 4), (32, 4), (100, 16), (1, 1), (8, 1), (64, 8), (128, 16)]


@pytest.mark.parametrize(("columns", "lanes"), quick(SHORT, keep=4))
def test_short_rows_are_parts_of_a_subgroup(columns: int, lanes: int) -> None:
    """With the same bits, also where the last rows do not fill one."""
    for rows in (1, 67):
        x = np.random.default_rng(rows).standard_normal((rows, columns)).astype(np.float32)
        found = []
        for target in ("cpu", _AsGpu(2)):
            y, counts = np.zeros_like(x), np.zeros(rows, np.uint32)
            normalized.options(target=target)[rows](x, y, counts)
            found.append((y.tobytes(), counts.tobytes()))
        assert found[0] == found[1]
    inputs = {"x": x, "y": y, "counts": counts}
    said = decisions_on_gpu(normalized.text(), inputs, rows)
    assert any(each.endswith(f" workgroups of {lanes} invocations are one") for each in said)


@pytest.mark.parametrize("target", [_AsGpu(2), "cpu"], ids=["gpu", "cpu"])
def test_a_fault_in_a_row_names_its_workgroup(target: DispatcherLike) -> None:
    x = np.ones((70, 100), np.float32)
    y, counts = np.zeros_like(x[:69]), np.zeros(70, np.uint32)
    with pytest.raises(ProgramError, match=r"out of bounds of @y: .* by workgroup \(69,0,0\)"):
        normalized.options(target=target)[70](x, y, counts)


@vyre.program
def centred(x: Read[Matrix], y: Write[Matrix]) -> None:
    r = vyre.workgroup_id(0)
    row = x[r, :]
    y[r, :] = row - vyre.sum(row) / f32(len(row))


@pytest.mark.parametrize("columns", [20_000, 20_001, 70_003])
def test_wide_rows_are_shared_by_workgroups(columns: int) -> None:
    """With the same bits, and a fault is told as it is where they are not."""
    x = np.random.default_rng(columns).standard_normal((3, columns)).astype(np.float32)
    found = []
    for target in ("cpu", _AsGpu(2)):
        y = np.zeros_like(x)
        centred.options(target=target)[3](x, y)
        found.append(y.tobytes())
    assert found[0] == found[1]
    inputs = {"x": x, "y": np.zeros_like(x)}
    assert any("share a row" in each for each in decisions_on_gpu(centred.text(), inputs, 3))
    with pytest.raises(ProgramError, match=r"out of bounds of @x: .* by workgroup \(3,0,0\)"):
        centred.options(target=_AsGpu(2))[4](x, np.zeros_like(x))


WIDE = """vyre 2
program @p workgroup(32) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %g = workgroup_id x
  %n = num_workgroups x
  %l = local_id x
  %i = global_id x
  %all = global_size x
  %w = workgroup_size x
  %s = subgroup_id
  %v = load @x[%i]
  %sum = subgroup_reduce<add> %v
  %a = mul %g, %n
  %b = add %a, %l
  %c = add %b, %all
  %d = mul %c, %w
  %e = add %d, %s
  %f = cast %e : u32 -> f32
  %r = add %sum, %f
  store %r, @y[%i]
}
"""


@pytest.mark.parametrize("groups", [1, 15, 16, 64, 77])
def test_workgroups_of_a_subgroup_become_one(groups: int) -> None:
    """They are told what they would be each by itself."""
    x = np.random.default_rng(groups).integers(0, 9, 32 * groups).astype(np.float32)
    found = [
        vyre.compile(WIDE, target=target)({"x": x, "y": np.zeros_like(x)}, groups)["y"]
        for target in ("ref", _AsGpu(2))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    by = max((each for each in (8, 4, 2) if groups >= each * 8), default=1)
    forms = [each for each in decisions_on_gpu(WIDE, {"x": x, "y": x}, groups) if "are one" in each]
    assert forms == ([f"{by} workgroups of 32 invocations are one"] if by > 1 else [])


PART = """vyre 2
program @p workgroup(8) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %g = workgroup_id x
  %n = num_workgroups x
  %l = local_id x
  %lane = lane_id
  %s = subgroup_id
  %i = global_id x
  %all = global_size x
  %w = workgroup_size x
  %v = load @x[%i]
  %sum = subgroup_reduce<add> %v
  %near = subgroup_shuffle<xor> %v, 2
  %most = subgroup_reduce<max> %near
  %a = mul %g, %n
  %b = add %a, %l
  %c = add %b, %all
  %d = mul %c, %w
  %e = add %d, %lane
  %h = add %e, %s
  %f = cast %h : u32 -> f32
  %r = add %sum, %f
  %q = mul %r, %most
  %is_even = eq %l, 2
  if %is_even {
    store %sum, @y[%i]
  } else {
    store %q, @y[%i]
  }
}
"""


@pytest.mark.parametrize("groups", [1, 3, 4, 77, 512])
def test_parts_of_a_subgroup_become_workgroups(groups: int) -> None:
    """Those that fill the last subgroup store nothing, and the order of sums stays."""
    x = np.random.default_rng(groups).standard_normal(8 * groups).astype(np.float32)
    found = [
        vyre.compile(PART, target=target)({"x": x, "y": np.zeros_like(x)}, groups)["y"]
        for target in ("ref", _AsGpu(2))
    ]
    np.testing.assert_array_equal(found[0], found[1])
    by = next((each for each in (32, 16, 8) if groups >= each * 8), 4)
    assert f"{by} workgroups of 8 invocations are one" in decisions_on_gpu(PART, {"x": x, "y": x}, groups)


@pytest.mark.parametrize(
    "op", ["subgroup_shuffle<xor> %v, 8", "subgroup_shuffle<down> %v, 1", "subgroup_scan<inclusive, add> %v"]
)
def test_parts_of_a_subgroup_that_are_told_apart_stay(op: str) -> None:
    text = PART.replace("subgroup_shuffle<xor> %v, 2", op)
    x = np.arange(800, dtype=np.float32)
    assert not any("are one" in each for each in decisions_on_gpu(text, {"x": x, "y": x}, 100))
