"""Pipelines on a GPU in main memory (see test/stand_ins): what is submitted, copied, kept and given back."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Fake, Graph, Numba, aligned, cupy, numpy

import vyre_opt
from vyre_opt import BadInputs, Diagnostic, ProgramError
from vyre_opt.execution import BadLaunch
from vyre_opt.execution.plans.steps import HostReadStep, LaunchStep, RepeatStep
from vyre_opt.execution.plans.watch import Times, Watch
from vyre_opt.targets.cuda import loaded_kernel
from vyre_opt.targets.cuda.submissions import MAX_UNROLLED, LaunchBatch, RepeatedParts, parts_of

PIPELINE = """vyre 1

program @double workgroup(64) {
  buffer @x : u32[?] read  binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : u32
    %bad = const 4242 : u32
    %is_bad = eq %v, %bad : u32
    if %is_bad {
      trap "no such number"
    }
    %s = add %v, %v : u32
    store %s, @y[%i] : u32
  }
}

pipeline @main {
  buffer @x : u32[?] read
  buffer @a : u32[?]
  buffer @b : u32[?]
  buffer @y : u32[?] write
  buffer @z : u32[?] live_in live_out
  launch @double grid(ceil_div(len(@x), 64)) (@x, @a)
  repeat 3 {
    launch @double grid(2) (@a, @b)
    launch @double grid(2) (@b, @a)
  }
  host_read @a
  launch @double grid(2) (@z, @a)
  launch @double grid(2) (@a, @y)
}
"""
X = np.arange(100, dtype=np.uint32)


@vyre_opt.program
def negated(x: vyre_opt.Read[vyre_opt.f32], y: vyre_opt.Write[vyre_opt.f32]) -> None:
    i = vyre_opt.global_id(0)
    if i < len(x):
        y[i] = -x[i]


LENGTHS = {"a": 100, "b": 100, "y": 100}


def test_from_main_memory(gpu: Fake) -> None:
    """Two submissions around the host read, one load of the programs, inputs and outputs copied once."""
    compiled = vyre_opt.compile(PIPELINE, target=gpu)
    seen = []
    for _ in range(2):
        outputs = compiled(
            [X, X], lengths=LENGTHS, on_host_read=lambda name, array: seen.append((name, array))
        )
    assert list(outputs) == ["a", "y", "z"]
    assert np.array_equal(outputs["a"], X << 7)
    assert np.array_equal(outputs["y"], X << 2)
    assert np.array_equal(outputs["z"], X)
    assert [name for name, _ in seen] == ["a", "a"]
    assert all(np.array_equal(array, X << 7) for _, array in seen)
    assert Graph.submitted == [7, 2, 7, 2]
    assert gpu.loads == [1]
    copied = gpu.gpu.cuda.copied
    compiled([X, X], lengths=LENGTHS)
    assert gpu.gpu.cuda.copied - copied == 5 * X.nbytes, "two arrays in, three out"


def test_on_the_gpu(gpu: Fake) -> None:
    """Nothing crosses to main memory; results are of the caller's library, and no input is written."""
    x, z = cupy(X), cupy(X)
    seen = []
    compiled = vyre_opt.compile(PIPELINE, target="cuda")
    outputs = compiled([x, z], lengths=LENGTHS, on_host_read=lambda name, array: seen.append(array))
    assert gpu.gpu.cuda.copied == 0
    assert all(type(array) is CupyArray for array in (*outputs.values(), *seen))
    assert np.array_equal(numpy(outputs["a"]), X << 7)
    assert np.array_equal(numpy(outputs["y"]), X << 2)
    assert np.array_equal(numpy(seen[0]), X << 7)
    assert np.array_equal(numpy(outputs["z"]), X)
    numpy(outputs["z"])[:] = 0
    assert np.array_equal(numpy(z), X), "what is given back is a copy"
    template = cupy(np.full((11, 10), 9, np.uint32))
    shaped = compiled({"x": x, "y": template, "z": z}, lengths={"a": 100, "b": 100})["y"]
    assert shaped.shape == (11, 10)
    assert numpy(shaped).reshape(-1)[99:].tolist() == [396, *[9] * 10]
    assert (numpy(template) == 9).all()
    with pytest.raises(BadInputs, match="z is not on the GPU, x is"):
        compiled({"x": x, "z": X}, lengths=LENGTHS)


def test_arrays_that_must_be_copied(gpu: Fake) -> None:
    """A view that is not aligned or not contiguous is copied, and used so."""
    compiled = vyre_opt.compile(PIPELINE, target="cuda")
    shifted = CupyArray(aligned(np.concatenate([[0], X]).astype(np.uint32))[1:])
    wide = CupyArray(aligned(np.stack([X, X], axis=1))[:, 0])
    outputs = compiled({"x": shifted, "z": wide}, lengths=LENGTHS)
    assert np.array_equal(numpy(outputs["a"]), X << 7)
    assert np.array_equal(numpy(outputs["y"]), X << 2)
    outputs = compiled({"x": Numba(wide.array), "z": wide}, lengths=LENGTHS)
    assert np.array_equal(numpy(outputs["y"]), X << 2)


def test_graphs_are_kept_for_addresses(gpu: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call with the arrays of an earlier one records nothing; others do, and old graphs are dropped."""
    from vyre_opt.targets.cuda import walk

    recorded: list[Any] = []
    record = walk.GpuWalk._record
    monkeypatch.setattr(walk.GpuWalk, "_record", lambda me, s, p: recorded.append(s) or record(me, s, p))
    text = PIPELINE.replace("@y : u32[?] write\n", "@y : u32[?]\n").replace(" live_out", "")
    compiled = vyre_opt.compile(text, target="cuda")
    arrays = [(cupy(X), cupy(X)) for _ in range(6)]
    for x, z in arrays:
        for _ in range(3):
            assert np.array_equal(numpy(compiled([x, z], lengths=LENGTHS)["a"]), X << 7)
    assert len(recorded) == 6
    ((_, runner),) = compiled._loaded.values()
    assert len(runner.owned.recordings) == walk.MAX_RECORDINGS
    records = gpu.gpu.faults._records
    (kernel,) = gpu.kernels._loaded.values()
    used = 5 * walk.MAX_RECORDINGS + 1
    assert sum(record.error is not None for record in records) == used, (
        "those of dropped graphs are used again"
    )
    owned = runner.owned
    del runner, compiled
    import gc

    gc.collect()
    assert not owned.recordings
    assert not owned.memory
    assert [record for record in records if record.error is not None] == [kernel.status]


def test_a_fault_on_gpu_arrays_is_raised_later(gpu: Fake) -> None:
    """By the next call, or by `synchronize`; the calls since are counted; `check="now"` has it at once."""
    compiled = vyre_opt.compile(PIPELINE, target=gpu)
    bad = X.copy()
    bad[1] = 4242

    def call(x: np.ndarray) -> np.ndarray:
        return numpy(compiled([cupy(x), cupy(X)], lengths=LENGTHS)["y"])

    call(bad)
    with pytest.raises(ProgramError, match="launched here by pipeline @main"):
        call(X)
    assert np.array_equal(call(X), X << 2)
    call(bad)
    with pytest.raises(ProgramError):
        gpu.synchronize()
    gpu.synchronize()
    gpu.check = "now"
    with pytest.raises(ProgramError):
        call(bad)
    gpu.synchronize()


def test_the_earliest_fault_is_raised(gpu: Fake) -> None:
    """With notes of the calls since, and of the other faults; then all records are clear."""
    faults = gpu.gpu.faults
    errors = [ProgramError("trap", Diagnostic("error", f"call {number}")) for number in range(3)]
    with gpu.gpu:
        records = [faults.new(lambda _, error=error: error) for error in errors]
        for number in (0, 1, 2):
            call = faults.next_call()
            if number:
                words = np.zeros(7, np.uint64)
                words[0], words[6] = 1, call
                records[number].host[:56] = words.view(np.uint8)
        assert faults.take() is None, "the flag tells of a fault, not the records"
        faults._flag.value = 1
        assert faults.take() is errors[1]
        assert faults.take() is None
        assert not any(record.host.any() for record in records)
    notes = "; ".join(message for message, _ in errors[1].diagnostic.notes)
    assert "the call before the latest that may fault" in notes
    assert "another launch had a fault" in notes


def test_a_fault_names_its_launch(gpu: Fake) -> None:
    """Each launch has a record of its own; after a fault the next call is as if nothing had been."""
    compiled = vyre_opt.compile(PIPELINE, target=gpu)
    for place, value, line in ((0, 4242, 27), (0, 2121, 29), (1, 4242, 33), (1, 2121, 34)):
        x, z = X.copy(), X.copy()
        (x, z)[place][1] = value
        with pytest.raises(ProgramError) as caught:
            compiled([x, z], lengths=LENGTHS)
        assert caught.value.kind == "trap"
        assert caught.value.diagnostic.loc is not None
        assert caught.value.diagnostic.loc.line == 14
        assert f"<string>:{line}:" in str(caught.value)
        assert "launched here by pipeline @main" in str(caught.value)
        assert np.array_equal(compiled([X, X], lengths=LENGTHS)["y"], X << 2)
    seen: list[Any] = []
    with pytest.raises(ProgramError):
        compiled(
            [np.full(100, 4242, np.uint32), X], lengths=LENGTHS, on_host_read=lambda n, a: seen.append(a)
        )
    assert not seen, "nobody is shown what a launch at fault left"


def test_without_graphs_launches_go_one_by_one(gpu: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The results are the same; the times say so, and are those of each launch."""
    monkeypatch.setattr(Graph, "refuses", "cooperative launches are not recorded here")
    compiled = vyre_opt.compile(PIPELINE, target=gpu)
    times = Times()
    arguments = compiled.arguments([X, X], LENGTHS)
    outputs = compiled.outputs(compiled.run(arguments, watch=Watch(times=times)))
    assert np.array_equal(outputs["a"], X << 7)
    assert [row.count for row in times.rows.values()] == [1, 3, 3, 1, 1]
    (note,) = dict.fromkeys(times.notes)
    assert note == "no CUDA graph, launches go one by one: cooperative launches are not recorded here"


def test_times_are_of_graphs(gpu: Fake) -> None:
    compiled = vyre_opt.compile(PIPELINE, target=gpu)
    times = Times()
    compiled.run(compiled.arguments([X, X], LENGTHS), watch=Watch(times=times))
    assert [(row.what, row.count) for row in times.rows.values()] == [
        ("a graph of 7 launches", 1),
        ("a graph of 2 launches", 1),
    ]


def test_speeds_are_of_graphs(gpu: Fake) -> None:
    """A graph moves what its launches do, repeats each time, also where buffers have several dimensions."""
    report = vyre_opt.compile(PIPELINE, target=gpu).time([X, X], lengths=LENGTHS)
    assert [launch.times for launch in report.launches] == [1, 3, 3, 1, 1]
    assert [(timing.what, timing.moved) for timing in report.timings] == [
        ("a graph of 7 launches", 7 * 800),
        ("a graph of 2 launches", 2 * 800),
    ]
    assert all(launch.resident for launch in report.launches)


def test_arrays_on_a_gpu_are_of_that_one(gpu: Fake) -> None:
    x, y = cupy(np.ones(1000, np.float32)), cupy(np.zeros(1000, np.float32))
    report = negated[4].time(x, y)
    assert report.title == "program @negated on main memory"
    assert [timing.moved for timing in report.timings] == [8000]
    assert (numpy(y) == 0).all()
    with pytest.raises(BadInputs, match="arrays on a GPU are of that one"):
        negated[4].report(x, y, machine="H100 SXM")


def test_a_grid_beyond_the_gpu_is_located(gpu: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """All launches that the GPU refuses are named, before anything is copied."""
    monkeypatch.setattr(loaded_kernel, "MAX_GRID", (1, 1, 1))
    with pytest.raises(BadLaunch, match="2 workgroups along x; a GPU takes 1") as caught:
        vyre_opt.run(PIPELINE, [X, X], target=gpu, lengths=LENGTHS)
    assert [d.loc.line for d in caught.value.diagnostics if d.loc] == [27, 29, 30, 33, 34]
    assert gpu.gpu.cuda.copied == 0


# --- submissions


def shape(parts: list[Any]) -> list[Any]:
    """`3` for a batch of three launches, `"read"`, and `(times, parts)`."""
    named: list[Any] = []
    for part in parts:
        if isinstance(part, LaunchBatch):
            named.append(len(part.steps))
        else:
            named.append((part.times, shape(part.parts)) if isinstance(part, RepeatedParts) else "read")
    return named


A, B = (LaunchStep(None, None, (1, 1, 1), ()) for _ in range(2))
READ = HostReadStep(None)


@pytest.mark.parametrize(
    ("steps", "parts"),
    [
        ([A, B, RepeatStep(3, [A]), B], [6]),
        ([A, READ, READ, B], [1, "read", "read", 1]),
        ([RepeatStep(2, [A, READ]), B], [(2, [1, "read"]), 1]),
        ([RepeatStep(2, [RepeatStep(3, [A, B]), A])], [14]),
        ([A, RepeatStep(10**6, [B]), A], [1, (244, [4096]), 577]),
        ([RepeatStep(1000, [RepeatStep(1000, [A])])], [(250, [4000])]),
        ([RepeatStep(5, [A] * 5000)], [(5, [5000])]),
        ([RepeatStep(10**6, [A, RepeatStep(10**6, [B])])], [(10**6, [1, (244, [4096]), 576])]),
        ([A] * 20_000, [20_000]),
        ([], []),
    ],
)
def test_steps_become_few_submissions(steps: list[Any], parts: list[Any]) -> None:
    """Repeats are unrolled as far as MAX_UNROLLED; nothing is lost or put in another order."""
    assert MAX_UNROLLED == 4096
    result = parts_of(steps)
    assert shape(result) == parts


def order(parts: list[Any]) -> list[Any]:
    steps: list[Any] = []
    for part in parts:
        if isinstance(part, LaunchBatch):
            steps += part.steps
        else:
            steps += order(part.parts) * part.times if isinstance(part, RepeatedParts) else [part]
    return steps


def test_submissions_keep_the_order() -> None:
    steps = [A, RepeatStep(3, [B, RepeatStep(2, [A, READ]), RepeatStep(5000, [B, A])]), A]
    expected = [A, *([B, A, READ, A, READ, *([B, A] * 5000)] * 3), A]
    assert order(parts_of(steps)) == expected


@pytest.mark.parametrize(("count", "submitted"), [(100, [7, 2]), (0, [6, 2])])
def test_launches_over_no_workgroups_are_not_submitted(gpu: Fake, count: int, submitted: list[int]) -> None:
    compiled = vyre_opt.compile(PIPELINE, target=gpu)
    compiled({"x": cupy(X[:count]), "z": cupy(X)}, lengths=LENGTHS)
    assert Graph.submitted == submitted


def test_a_pipeline_of_no_launches(gpu: Fake) -> None:
    text = PIPELINE.replace("grid(2)", "grid(ceil_div(len(@x), 64))")
    compiled = vyre_opt.compile(text, target=gpu)
    for _ in range(2):
        outputs = compiled({"x": cupy(X[:0]), "z": cupy(X)}, lengths=LENGTHS)
    assert Graph.submitted == []
    assert np.array_equal(numpy(outputs["z"]), X)
