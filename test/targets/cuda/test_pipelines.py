"""Pipelines on the GPU: one graph between host reads, arrays that stay there, faults, grid barriers."""

from __future__ import annotations

import base64
import time

import numpy as np
import pytest
from support.dense_automaton import build_automaton

import vyre_opt
from vyre_opt import ProgramError
from vyre_opt.driver import executable
from vyre_opt.execution import BadLaunch
from vyre_opt.execution.plans.watch import Times, Watch
from vyre_opt.targets.cuda.host_arrays import UploadedPlan

pytestmark = pytest.mark.gpu

PIPELINE = """vyre 1

program @double workgroup(256) {
  buffer @x : u32[?] read  binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : u32
    %s = add %v, %v : u32
    store %s, @y[%i] : u32
  }
}

program @count workgroup(256) {
  buffer @x : u32[?] read       binding(0)
  buffer @n : u32[1] read_write binding(1) live_in live_out
  %i = global_id x
  %size = len @x
  %inside = lt %i, %size : u32
  if %inside {
    %zero = const 0 : u32
    %one = const 1 : u32
    %old = atomic_add<relaxed> @n[%zero], %one : u32
  }
}

pipeline @main {
  buffer @x : u32[?] read
  buffer @a : u32[?]
  buffer @b : u32[?]
  buffer @n : u32[1] live_in live_out
  buffer @y : u32[?] write
  launch @double grid(ceil_div(len(@x), 256)) (@x, @a)
  repeat 4 {
    launch @double grid(ceil_div(len(@a), 256)) (@a, @b)
    launch @double grid(ceil_div(len(@a), 256)) (@b, @a)
    launch @count grid(ceil_div(len(@a), 256)) (@a, @n)
  }
  host_read @a
  launch @double grid(ceil_div(len(@a), 256)) (@a, @y)
}
"""
N = 100_000
X = np.arange(N, dtype=np.uint32)
LENGTHS = {"a": N, "b": N, "y": N}


def runner_of(compiled):
    ((_, loaded),) = compiled._loaded.values()
    return loaded._walk if isinstance(loaded, UploadedPlan) else loaded


def test_numpy_in_and_out(cuda):
    """Equal to ref; a later call finds program, plan and graphs."""
    compiled = vyre_opt.compile(PIPELINE, target=cuda())
    expected = vyre_opt.run(PIPELINE, [X, np.zeros(1, np.uint32)], target="cpu", lengths=LENGTHS)
    seen = []
    for _ in range(3):
        outputs = compiled(
            [X, np.zeros(1, np.uint32)], lengths=LENGTHS, on_host_read=lambda name, array: seen.append(array)
        )
        assert list(outputs) == list(expected) == ["a", "n", "y"]
        for name, array in expected.items():
            assert np.array_equal(outputs[name], array), name
    assert len(seen) == 3
    assert all(np.array_equal(array, expected["a"]) for array in seen)
    for recording in runner_of(compiled).owned.recordings.values():
        assert len(recording.graphs) == 1  # of the repeat; the last launch is alone
        assert not recording.notes


def test_torch_stays_on_the_gpu(cuda):
    """On any stream; results are tensors, inputs are as they were, and graphs are used again."""
    torch = pytest.importorskip("torch")
    compiled = vyre_opt.compile(PIPELINE, target=cuda())
    x = torch.arange(N, dtype=torch.int32, device="cuda").view(torch.uint32)
    seen = []
    for stream in (torch.cuda.default_stream(), torch.cuda.Stream(), torch.cuda.default_stream()):
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            n = torch.zeros(1, dtype=torch.int32, device="cuda").view(torch.uint32)
            seen.clear()
            outputs = compiled([x, n], lengths=LENGTHS, on_host_read=lambda name, array: seen.append(array))
            assert all(array.is_cuda for array in (*outputs.values(), *seen))
            assert np.array_equal(outputs["y"].cpu().numpy(), X << 10)
            assert np.array_equal(seen[0].cpu().numpy(), X << 9)
            assert outputs["n"].item() == 4 * N
            assert n.item() == 0
    assert np.array_equal(x.cpu().numpy(), X)


def test_cupy_and_gpuarray(cuda):
    cupy = pytest.importorskip("cupy")
    compiled = vyre_opt.compile(PIPELINE, target=cuda())
    outputs = compiled([cupy.asarray(X), cupy.zeros(1, cupy.uint32)], lengths=LENGTHS)
    assert isinstance(outputs["y"], cupy.ndarray)
    assert np.array_equal(outputs["y"].get(), X << 10)
    from pycuda import gpuarray

    with compiled.dispatcher.device:
        arrays = [gpuarray.to_gpu(X), gpuarray.to_gpu(np.zeros(1, np.uint32))]
        outputs = compiled(arrays, lengths=LENGTHS)
        assert np.array_equal(outputs["y"].get(), X << 10)


BARRIER = """vyre 1
program @ring workgroup(64) {
  buffer @x : u32[?] read       binding(0)
  buffer @t : u32[?] read_write binding(1)
  buffer @y : u32[?] write      binding(2)
  %i = global_id x
  %n = global_size x
  %v = load @x[%i] : u32
  store %v, @t[%i] : u32
  barrier grid
  %one = const 1 : u32
  %next = add %i, %one : u32
  %at = rem %next, %n : u32
  %w = load @t[%at] : u32
  store %w, @y[%i] : u32
}
pipeline @main {
  buffer @x : u32[?] live_in live_out
  buffer @t : u32[?]
  buffer @y : u32[?]
  repeat 5 {
    launch @ring grid(div(len(@x), 64)) (@x, @t, @y)
    launch @ring grid(div(len(@x), 64)) (@y, @t, @x)
  }
}
"""


def test_grid_barriers_within_a_graph(cuda):
    """The arrivals are cleared before each launch, in a graph too, or launches go one by one; both are right."""
    compiled = vyre_opt.compile(BARRIER, target=cuda())
    x = np.arange(1024, dtype=np.uint32)
    for _ in range(2):
        outputs = compiled([x], lengths={"t": 1024, "y": 1024})
        assert np.array_equal(outputs["x"], np.roll(x, -10))
    (recording,) = list(runner_of(compiled).owned.recordings.values())[:1]
    print("graph of cooperative launches:", "yes" if recording.graphs else recording.notes)


def test_a_grid_beyond_the_gpu_is_located(cuda):
    x = np.zeros(1 << 24, np.uint32)
    with pytest.raises(BadLaunch, match="grid barrier") as caught:
        vyre_opt.run(BARRIER, [x], target=cuda(), lengths={"t": len(x), "y": len(x)})
    assert [d.loc.line for d in caught.value.diagnostics] == [22, 23]


def test_a_fault_names_its_launch_and_the_next_call_works(cuda):
    text = PIPELINE.replace("repeat 4 {", "repeat 4 {\n    launch @wild grid(1) (@b)").replace(
        "program @count",
        """program @wild workgroup(32) {
  buffer @y : u32[?] write binding(0)
  %i = global_id x
  %far = const 70000 : u32
  %at = mul %i, %far : u32
  store %i, @y[%at] : u32
}

program @count""",
    )
    compiled = vyre_opt.compile(text, target=cuda())
    with pytest.raises(ProgramError) as caught:
        compiled([X, np.zeros(1, np.uint32)], lengths=LENGTHS)
    assert caught.value.kind == "bounds"
    assert "launched here by pipeline @main" in str(caught.value)
    assert "launch @wild" in str(caught.value)
    size = 70_000 * 32
    lengths = {"a": size, "b": size, "y": size}
    x = np.arange(size, dtype=np.uint32)
    assert np.array_equal(compiled([x, np.zeros(1, np.uint32)], lengths=lengths)["y"], x << 10)


def test_kernels_as_stages(cuda):
    """Expanded for this GPU at the lengths given; scratch is cleared in every round."""
    text = """vyre 1
    pipeline @main {
      buffer @text : u8[?] read
      buffer @table : u16[?] read
      buffer @accept : u32[?] read
      buffer @bytes : u8[?]
      buffer @hits : u32[?]
      buffer @sums : u32[?] write
      decode.base64(@text, @bytes)
      repeat 3 {
        scan.dfa(@bytes, @table, @accept, @hits) {warmup = 2}
        scan.prefix(@hits, @sums)
      }
    }"""
    automaton = build_automaton([b"abc", b"ca"])
    rng = np.random.default_rng(1)
    compiled = vyre_opt.compile(text, target=cuda())
    for size in (300_000, 1000):
        plain = bytes(rng.choice(list(b"abc"), size).astype(np.uint8))
        inputs = {
            "text": np.frombuffer(base64.b64encode(plain), np.uint8),
            "table": automaton.table,
            "accept": automaton.accept,
        }
        lengths = {"bytes": size, "hits": size, "sums": size}
        outputs = compiled(inputs, lengths=lengths)
        assert np.array_equal(outputs["sums"], vyre_opt.run(text, inputs, lengths=lengths)["sums"])


def test_long_pipelines(cuda):
    """10,000 launches in a text, and a million by a repeat: recorded once, submitted in graphs."""
    lines = ["  launch @double grid(1) (@a, @b)", "  launch @double grid(1) (@b, @a)"] * 5000
    head = PIPELINE.partition("pipeline")[0]
    buffers = "buffer @a : u32[8] live_in live_out\n  buffer @b : u32[8]\n"
    compiled = vyre_opt.compile(head + "pipeline @main {\n" + buffers + "\n".join(lines) + "}", target=cuda())
    ones = np.ones(8, np.uint32)
    compiled([ones])
    started = time.perf_counter()
    assert not compiled([ones])["a"].any()
    assert time.perf_counter() - started < 2
    count = "  repeat 1000000 { launch @count grid(1) (@a, @n) }\n"
    text = (
        head + "pipeline @main {\n  buffer @a : u32[8] read\n  buffer @n : u32[1] live_in live_out\n" + count
    )
    counted = vyre_opt.run(text + "}", [ones, np.zeros(1, np.uint32)], target=cuda())
    assert counted["n"].item() == 8_000_000


def test_times_are_of_graphs(cuda):
    compiled = vyre_opt.compile(PIPELINE, target=cuda())
    times = Times()
    arguments = compiled.arguments([X, np.zeros(1, np.uint32)], LENGTHS)
    compiled.run(arguments, watch=Watch(times=times))
    rows = list(times.rows.values())
    assert [row.what for row in rows] == ["a graph of 13 launches", "@double over 391 workgroups"]
    assert all(0 < row.seconds < 1 for row in rows)


def test_runners_give_their_memory_back(cuda, monkeypatch):
    """Many lengths one after the other do not pile up memory, records or graphs."""
    monkeypatch.setattr(executable, "MAX_LOADED", 4)
    compiled = vyre_opt.compile(PIPELINE, target=cuda())
    for size in range(1000, 20_000, 1000):
        x = np.arange(size, dtype=np.uint32)
        outputs = compiled([x, np.zeros(1, np.uint32)], lengths={"a": size, "b": size, "y": size})
        assert np.array_equal(outputs["y"], x << 10)
    assert len(compiled._loaded) <= 4
