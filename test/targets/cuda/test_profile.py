"""Profiles on a GPU: each launch by itself and by events, beside the clock; code with line tables is loaded and computes the same."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.gpu_arrays import to_gpu, to_host

import vyre_opt as vyre
from vyre_opt import Read, Write, f32, global_id
from vyre_opt.driver.profile import Profile

pytestmark = pytest.mark.gpu

CHAIN = Path(__file__).parents[3] / "examples" / "pipelines" / "elementwise_chain.vyre"
RAW = np.linspace(-1, 2, 2048, dtype=np.float32)
STAGES = ["@gain", "@bias", "@clamp"]


@vyre.program
def twice(x: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = x[i] + x[i]


@vyre.pipeline
def four_times(x: Read[f32], y: Write[f32]) -> None:
    middle = vyre.buffer(f32, len(x))
    twice[vyre.ceil_div(len(x), 256)](x, middle)
    twice[vyre.ceil_div(len(x), 256)](middle, y)


def counts(taken: Profile) -> list[tuple[str, int]]:
    return [(launch.name, launch.count) for launch in taken.launches]


def test_launches_that_are_one_graph_are_seen_apart(cuda: Any) -> None:
    chain = vyre.compile(CHAIN, target=cuda())
    expected = chain({"raw": RAW})["pixels"]
    with vyre.profile() as taken:
        for _ in range(3):
            assert np.array_equal(chain({"raw": RAW})["pixels"], expected)
    assert np.array_equal(chain({"raw": RAW})["pixels"], expected)
    assert counts(taken) == [(stage, 3) for stage in STAGES]
    for launch in taken.launches:
        assert launch.target == chain.dispatcher.device_name
        assert launch.moved == 2 * RAW.nbytes
        assert 1e-7 < launch.seconds / launch.count < 1e-2
    assert taken.launches[0].timing.share.endswith("of a copy")
    assert chain.dispatcher.device_name in str(taken)


def test_events_agree_with_the_clock(cuda: Any) -> None:
    """Of a launch that takes long: 2 GiB through memory, some 0.6 ms on an H200."""
    torch = pytest.importorskip("torch")
    x = torch.rand(1 << 28, device="cuda")
    y = torch.empty_like(x)
    grid = vyre.ceil_div(len(x), 256)
    twice[grid](x, y)
    with vyre.profile():
        twice[grid](x, y)  # sets up what runs launches apart
    vyre.synchronize()
    start = time.perf_counter()
    with vyre.profile() as taken:
        for _ in range(10):
            twice[grid](x, y)
    whole = time.perf_counter() - start
    (launch,) = taken.launches
    assert launch.count == 10
    assert 0 < launch.seconds < whole  # others may use the GPU at the same time
    assert launch.moved == 2 * x.numel() * 4
    assert float(launch.timing.share.split()[0]) > 0
    assert torch.equal(y, x + x)


@pytest.mark.parametrize("library", ["torch", "cupy"])
def test_kernels_and_pipelines_on_arrays_of_a_gpu(library: str) -> None:
    arrays = pytest.importorskip(library)
    x = np.arange(1000, dtype=np.float32)
    given, result = to_gpu(arrays, x), to_gpu(arrays, np.zeros_like(x))
    rows = to_gpu(arrays, np.ones((64, 64), np.float32))
    whole = four_times.options(passes=None)
    with vyre.profile() as taken:
        twice[4](given, result)
        whole(given, result)
        vyre.kernels.softmax(rows)
    vyre.synchronize()
    assert np.array_equal(to_host(result), 4 * x)
    assert sum(count for name, count in counts(taken) if name == "@twice") == 3
    assert any("softmax" in name for name, _ in counts(taken))
    assert sum(span.kind == "call" for span in taken.spans) == 3


def test_what_torch_records_into_a_graph_is_recorded(cuda: Any) -> None:
    """Nothing waits then, and nothing is listed but the call."""
    torch = pytest.importorskip("torch")
    x = torch.rand(1000, device="cuda")
    y = torch.zeros_like(x)
    for _ in range(3):
        twice[4](x, y)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with vyre.profile() as taken, torch.cuda.graph(graph):
        twice[4](x, y)
    assert not taken.launches
    assert [span.name for span in taken.spans if span.kind == "call"]
    y.zero_()
    graph.replay()
    torch.cuda.synchronize()
    assert torch.equal(y, x + x)


def test_a_fault_is_the_same_under_a_profile(cuda: Any) -> None:
    text = """vyre 2
    program @beyond workgroup(1) {
      buffer @y : u32[?] write binding(0)
      store 1, @y[4] : u32
    }
    """
    beyond = vyre.compile(text, target=cuda())
    messages = []
    for _ in range(2):
        with pytest.raises(vyre.ProgramError) as caught, vyre.profile():
            beyond({"y": np.zeros(2, np.uint32)}, 1)
        messages.append(str(caught.value))
    with pytest.raises(vyre.ProgramError) as caught:
        beyond({"y": np.zeros(2, np.uint32)}, 1)
    assert {*messages} == {str(caught.value)}


def test_a_trace_has_a_row_for_the_gpu(cuda: Any, tmp_path: Path) -> None:
    chain = vyre.compile(CHAIN, target=cuda(cache=False))
    with vyre.profile() as taken:
        chain({"raw": RAW})
    kinds = [span.kind for span in taken.spans]
    assert {"compile", "load", "call"} <= {*kinds}
    taken.trace(tmp_path / "trace.json")
    events = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    rows = {event["args"]["name"]: event["tid"] for event in events if event["ph"] == "M"}
    launches = [event for event in events if event.get("cat") == "launch"]
    assert [event["name"] for event in launches] == STAGES
    assert {event["tid"] for event in launches} == {rows[chain.dispatcher.device_name]}


def test_code_with_line_tables_computes_the_same(cuda: Any) -> None:
    target = cuda(cache=False)
    plain = vyre.compile(CHAIN, target=target, passes="default")
    marked = vyre.compile(CHAIN, target=target, passes="default", debug_info=True)
    assert np.array_equal(plain({"raw": RAW})["pixels"], marked({"raw": RAW})["pixels"])
    assert marked.dispatcher.has_debug_info
    torch = pytest.importorskip("torch")
    x = torch.rand(1000, device="cuda")
    y = torch.zeros_like(x)
    twice.options(debug_info=True)[4](x, y)
    torch.cuda.synchronize()
    assert torch.equal(y, x + x)
