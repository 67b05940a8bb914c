"""`vyre_opt.profile`: what ran, how often and for how long, counted by hand; as a table, as a trace, and as ranges of NVTX."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Annotated, Any

import numpy as np
import pytest
from fake_gpu import cupy, numpy

import vyre_opt as vyre
from vyre_opt import Read, Write, f32, global_id
from vyre_opt.driver.profile import Profile
from vyre_opt.execution.plans.watch import Times, Watch
from vyre_opt.observers import OBSERVERS, PROFILERS, annotated
from vyre_opt.targets.cpu import compiler

CHAIN = Path(__file__).parents[2] / "examples" / "pipelines" / "elementwise_chain.vyre"
RAW = {"raw": np.ones(2048, np.float32)}

REPEATED = """vyre 2

program @add_one workgroup(64) {
  buffer @x : u32[?] read       binding(0)
  buffer @y : u32[?] write      binding(1)
  buffer @t : u32[64] read_write
  %i = local_id x
  %v = load @x[%i] : u32
  store %v, @t[%i] : u32
  %w = load @t[%i] : u32
  %s = add %w, 1 : u32
  store %s, @y[%i] : u32
}

pipeline @main {
  buffer @x : u32[64] read
  buffer @a : u32[64]
  buffer @b : u32[64] write
  launch @add_one grid(1) (@x, @a)
  repeat 3 {
    launch @add_one grid(1) (@a, @b)
  }
}
"""


@vyre.program
def twice(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = x[i] + x[i]


@vyre.program
def scaled(x: Read[Annotated[f32, :, :]], y: Write[Annotated[f32, :, :]], by: f32) -> None:
    i = global_id(0)
    if i < y.shape[0]:
        for j in range(y.shape[1]):
            y[i, j] = x[i, j] * by


def counts(taken: Profile) -> dict[str, int]:
    found: dict[str, int] = {}
    for launch in taken.launches:
        found[launch.name] = found.get(launch.name, 0) + launch.count
    return found


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_each_launch_of_a_pipeline_is_counted_with_its_bytes(target: str) -> None:
    chain = vyre.compile(CHAIN, target=target)
    with vyre.profile() as taken:
        for _ in range(3):
            chain(RAW)
    assert [(each.name, each.grid, each.count) for each in taken.launches] == [
        ("@gain", (8, 1, 1), 3),
        ("@bias", (8, 1, 1), 3),
        ("@clamp", (8, 1, 1), 3),
    ]
    assert [each.moved for each in taken.launches] == [2 * 2048 * 4] * 3
    assert [each.loc.line for each in taken.launches if each.loc] == [43, 44, 45]
    assert all(each.target == target for each in taken.launches)


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_rounds_of_a_repeat_are_launches_and_clearing_is_none(target: str) -> None:
    """The program has a buffer of its own, which the CPU clears before each launch."""
    repeated = vyre.compile(REPEATED, target=target)
    arguments = {"x": np.zeros(64, np.uint32)}
    with vyre.profile() as taken:
        assert (repeated(arguments)["b"] == 2).all()
    assert counts(taken) == {"@add_one": 4}
    times = Times()
    repeated.run(repeated.arguments(arguments, {}), watch=Watch(None, times))
    assert [row.count for row in times.rows.values()] == [1, 3]


def test_what_launches_take_is_within_what_their_calls_take() -> None:
    x = np.random.default_rng(1).random((2000, 1000), np.float32)
    vyre.kernels.softmax(x)
    start = time.perf_counter()
    with vyre.profile() as taken:
        for _ in range(5):
            vyre.kernels.softmax(x)
    whole = time.perf_counter() - start
    (softmax,) = taken.launches
    calls = [span for span in taken.spans if span.kind == "call"]
    assert (softmax.count, len(calls)) == (5, 5)
    assert 0 < softmax.seconds <= sum(span.seconds for span in calls) <= whole
    assert softmax.moved == 2 * x.nbytes
    assert softmax.timing.moved / softmax.timing.seconds == pytest.approx(
        softmax.moved / np.median([run.seconds for run in softmax.runs])
    )


def test_all_ways_to_call_are_seen() -> None:
    x = np.ones(256, np.float32)
    y = np.empty_like(x)
    program = twice.program()
    with vyre.profile() as taken:
        twice[1](x, y)
        twice[1](x, y)
        vyre.run(program, {"x": x}, 1, lengths={"y": 256})
        vyre.dispatcher("cpu").dispatch(program, [x, y], 1)
    assert counts(taken) == {"@twice": 4}
    assert {each.moved for each in taken.launches} == {2 * x.nbytes}


def test_arrays_of_several_dimensions_have_all_their_bytes() -> None:
    x = np.ones((100, 30), np.float32)
    with vyre.profile() as taken:
        for array in (x, np.ones((100, 60), np.float32)[:, ::2]):
            scaled[1](array, np.empty_like(x), 2.0)
    assert [(launch.moved, launch.count) for launch in taken.launches] == [(2 * x.nbytes, 2)]


def test_searches_are_seen() -> None:
    scanner = vyre.Scanner([b"needle"])
    text = b"hay" * 2_000_000 + b"needle"
    with vyre.profile() as taken:
        assert len(scanner.scan(text)) == 1
    assert taken.launches
    # the text is read once; there is room in lists, and 8 bytes for a hit, at each byte, though little is written
    assert any(len(text) <= launch.moved <= 16 * len(text) for launch in taken.launches), taken


def test_bytes_follow_the_numbers_that_a_call_passes() -> None:
    text = """vyre 2
    program @some workgroup(64) {
      buffer @y : f32[?] write binding(0)
      param @n : u32
      %i = global_id x
      %n = param @n
      %inside = lt %i, %n : u32
      if %inside {
        store 1.0, @y[%i] : f32
      }
    }
    """
    some = vyre.compile(text)
    with vyre.profile() as taken:
        for n in (64, 10):
            some({"y": np.zeros(64, np.float32)}, 1, params={"n": n})
    assert [launch.moved for launch in taken.launches] == [64 * 4, 10 * 4]


def test_a_block_without_parentheses_is_told_where_it_stands() -> None:
    with (
        pytest.raises(
            TypeError, match=r"profile is named, not called: write with vyre_opt\.profile\(\) as p:"
        ) as error,
        vyre.profile,
    ):  # type: ignore[attr-defined]
        pass
    assert [frame.path for frame in error.traceback][-1] == Path(__file__)


def test_passes_and_compilation_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler, "_LOADED", OrderedDict())  # what other tests compiled
    target = vyre.dispatcher("cpu", cache=False)
    with vyre.profile() as taken:
        vyre.compile(CHAIN, target=target, passes="default")(RAW)
    kinds = {(span.kind, span.name) for span in taken.spans}
    assert {("pass", "launch_fusion"), ("compile", "@gain_then_bias_then_clamp")} <= kinds
    assert counts(taken) == {"@gain_then_bias_then_clamp": 1}
    table = str(taken)
    assert "compile @gain_then_bias_then_clamp" in table
    assert "pass launch_fusion" in table
    assert "@gain_then_bias_then_clamp over 8 workgroups" in table


def test_inner_profiles_have_their_part_and_outer_ones_all() -> None:
    chain = vyre.compile(CHAIN)
    with vyre.profile() as outer:
        chain(RAW)
        with vyre.profile() as inner:
            chain(RAW)
    chain(RAW)
    assert counts(outer) == dict.fromkeys(("@gain", "@bias", "@clamp"), 2)
    assert counts(inner) == dict.fromkeys(("@gain", "@bias", "@clamp"), 1)


def test_threads_are_seen_and_ends_may_cross() -> None:
    chain = vyre.compile(CHAIN)
    chain(RAW)
    with vyre.profile() as taken:
        threads = [threading.Thread(target=lambda: [chain(RAW) for _ in range(20)]) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert counts(taken) == dict.fromkeys(("@gain", "@bias", "@clamp"), 80)
    assert len({run.thread for run in taken.runs}) > 1
    first, second = vyre.profile(), vyre.profile()
    first.__enter__()
    still = second.__enter__()
    first.__exit__(None, None, None)
    chain(RAW)
    second.__exit__(None, None, None)
    assert counts(still) == dict.fromkeys(("@gain", "@bias", "@clamp"), 1)


def test_an_error_ends_a_profile_and_is_the_same() -> None:
    faulty = vyre.compile(
        'vyre 2\nprogram @p workgroup(1) {\n  buffer @y : u32[1] write binding(0)\n  trap "no"\n}\n'
    )

    def error() -> str:
        with pytest.raises(vyre.ProgramError) as caught:
            faulty({"y": np.zeros(1, np.uint32)}, 1)
        return str(caught.value)

    before, observers = error(), [*OBSERVERS]
    with pytest.raises(vyre.ProgramError) as caught, vyre.profile() as taken:
        faulty({"y": np.zeros(1, np.uint32)}, 1)
    assert str(caught.value) == before
    assert observers == OBSERVERS
    assert counts(taken) == {"@p": 1}
    assert error() == before


def test_a_profile_may_go_on_and_is_taken_once_at_a_time() -> None:
    chain = vyre.compile(CHAIN)
    taken = vyre.profile()
    with pytest.warns(UserWarning, match="write with"):
        assert taken.launches == []
    for _ in range(2):
        with taken:
            chain(RAW)
        chain(RAW)
    assert counts(taken) == dict.fromkeys(("@gain", "@bias", "@clamp"), 2)
    with taken, pytest.raises(RuntimeError, match="being taken already"), taken:
        pass
    assert not OBSERVERS


def test_nothing_is_a_profile_too(tmp_path: Path) -> None:
    with vyre.profile() as taken:
        pass
    assert str(taken) == "nothing was launched or compiled"
    assert json.loads(taken.trace_text())["traceEvents"] == []
    with pytest.raises(OSError, match="nowhere"):
        taken.trace(tmp_path / "nowhere" / "trace.json")


def test_a_trace_has_launches_within_their_calls(tmp_path: Path) -> None:
    chain = vyre.compile(CHAIN)
    with vyre.profile() as taken:
        chain(RAW)
        chain(RAW)
    taken.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    assert all(event["ph"] == "X" and event["ts"] >= 0 and event["dur"] >= 0 for event in events)

    def of(kind: str) -> list[dict[str, Any]]:
        return [event for event in events if event["cat"] == kind]

    calls, launches = of("call"), of("launch")
    assert (len(calls), len(launches)) == (2, 6)
    assert [event["name"] for event in launches] == ["@gain", "@bias", "@clamp"] * 2
    for launch in launches:
        assert launch["args"]["grid"] == [8, 1, 1]
        assert launch["args"]["bytes"] == 2 * 2048 * 4
        assert any(
            call["tid"] == launch["tid"]
            and call["ts"] - 0.01 <= launch["ts"]
            and launch["ts"] + launch["dur"] <= call["ts"] + call["dur"] + 0.01
            for call in calls
        )


# --- on a GPU in main memory (see test/stand_ins), where each launch takes a millisecond by its events

SCALED = """vyre 2

program @scale workgroup(64) {
  buffer @x : f32[?] read  binding(0)
  buffer @y : f32[?] write binding(1)
  buffer @t : f32[64] read_write
  param @by : f32
  %i = local_id x
  %v = load @x[%i] : f32
  %by = param @by : f32
  %s = mul %v, %by : f32
  store %s, @t[%i] : f32
  %w = load @t[%i] : f32
  store %w, @y[%i] : f32
}

pipeline @main {
  buffer @x : f32[64] read
  buffer @m : f32[64]
  buffer @y : f32[64] write
  param @by : f32
  launch @scale grid(1) (@x, @m) params(@by = @by)
  launch @scale grid(1) (@m, @y) params(@by = @by)
}
"""


@pytest.mark.parametrize("on_gpu", [False, True])
def test_launches_of_a_gpu_are_timed_by_events_and_get_what_they_got(gpu: Any, on_gpu: bool) -> None:
    """A plan has pieces of memory there between its pointers and the numbers that a call passes."""
    chain = vyre.compile(SCALED, target=gpu)
    x = np.arange(64, dtype=np.float32)
    given = {"x": cupy(x) if on_gpu else x}
    results = [chain(given, params={"by": 3.0})["y"] for _ in range(2)]
    with vyre.profile() as taken:
        results.append(chain(given, params={"by": 3.0})["y"])
    for result in results:
        assert np.array_equal(numpy(result) if on_gpu else result, 9 * x)
    (launch, other) = taken.launches
    assert (launch.name, launch.count, launch.seconds) == ("@scale", 1, 1e-3)
    assert launch.target == gpu.device_name
    assert launch.moved == other.moved == 4 * x.nbytes  # @t is memory of a GPU too


# --- ranges of NVTX, by a module that notes them


class _Nvtx(ModuleType):
    """A stand-in for the package: `ranges` has what begins, and what ends with a -."""

    def __init__(self) -> None:
        super().__init__("nvtx")
        self.ranges: list[str] = []

    @contextmanager
    def annotate(self, message: str, domain: str, category: str) -> Iterator[None]:
        assert (domain, message.split()[0]) == ("vyre", category)
        self.ranges.append(message)
        yield
        self.ranges.append(f"-{message}")


@pytest.fixture
def nvtx(monkeypatch: pytest.MonkeyPatch) -> _Nvtx:
    for name in (*PROFILERS, "VYRE_NVTX"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setitem(sys.modules, "nvtx", stand_in := _Nvtx())
    return stand_in


def test_ranges_of_nvtx_nest(nvtx: _Nvtx, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_NVTX", "1")
    monkeypatch.setattr(compiler, "_LOADED", OrderedDict())
    observer = annotated()
    assert observer is not None
    OBSERVERS.append(observer)
    try:
        chain = vyre.compile(CHAIN, target=vyre.dispatcher("cpu", cache=False), passes="default")
        chain(RAW)
        chain(RAW)
    finally:
        OBSERVERS.remove(observer)
    assert nvtx.ranges.count("call pipeline @main") == 2
    assert {"pass launch_fusion", "compile @gain_then_bias_then_clamp"} <= {*nvtx.ranges}
    begun: list[str] = []
    for each in nvtx.ranges:
        if each.startswith("-"):
            assert begun.pop() == each[1:]
        else:
            begun.append(each)
    assert not begun


@pytest.mark.parametrize(
    ("variables", "wanted"),
    [
        ({}, False),
        ({"VYRE_NVTX": "1"}, True),
        ({"NSYS_PROFILING_SESSION_ID": "3"}, True),
        ({"NVTX_INJECTION64_PATH": "/lib/injected.so"}, True),
        ({"NSYS_PROFILING_SESSION_ID": "3", "VYRE_NVTX": "0"}, False),
    ],
)
def test_when_there_are_ranges(
    variables: dict[str, str], wanted: bool, nvtx: _Nvtx, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert (annotated() is not None) is wanted


def test_a_missing_package_is_told_only_where_it_was_asked_for(
    nvtx: _Nvtx, monkeypatch: pytest.MonkeyPatch, recwarn: pytest.WarningsRecorder
) -> None:
    monkeypatch.setitem(sys.modules, "nvtx", None)
    monkeypatch.setenv("NSYS_PROFILING_SESSION_ID", "3")
    assert annotated() is None
    assert not recwarn.list
    monkeypatch.setenv("VYRE_NVTX", "1")
    with pytest.warns(UserWarning, match="pip install nvtx"):
        assert annotated() is None


def test_a_process_that_is_watched_has_ranges_from_the_start(tmp_path: Path) -> None:
    (tmp_path / "nvtx.py").write_text("annotate = None")
    code = (
        "import sys; from vyre_opt.observers import OBSERVERS; print(len(OBSERVERS), 'nvtx' in sys.modules)"
    )
    environment = {name: value for name, value in os.environ.items() if name not in (*PROFILERS, "VYRE_NVTX")}
    environment["PYTHONPATH"] = os.pathsep.join([str(tmp_path), *sys.path])

    def printed(**variables: str) -> str:
        command = [sys.executable, "-c", code]
        return subprocess.run(
            command, env={**environment, **variables}, capture_output=True, text=True, check=True
        ).stdout

    assert printed() == "0 False\n"
    assert printed(CUDA_INJECTION64_PATH="/lib/injected.so") == "1 True\n"
