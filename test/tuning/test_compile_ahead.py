"""What is compiled ahead, by other processes, is found in the cache; what goes wrong there is left to this process."""

from __future__ import annotations

import gc
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from vyre_opt import DataType, OutputAlloc, kernel_workload, parse
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher, compile_into_cache
from vyre_opt.tuning import measure
from vyre_opt.tuning.compile_ahead import CompileAhead

TEXT = """vyre 1

program @p workgroup(8) {{
  buffer @y : u32[64] write binding(0)
  %i = global_id x
  %k = const {} : u32
  %v = mul %i, %k : u32
  store %v, @y[%i] : u32
}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache of this test's own, in the workers too."""
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))


def test_another_process_compiles() -> None:
    modules = [parse(TEXT.format(3 + k)) for k in range(3)]
    ahead = CompileAhead(partial(compile_into_cache, CpuDispatcher().level, False), 2)
    for number, module in enumerate(modules):
        ahead.submit(number, module)
    for future in list(ahead._futures.values()):
        future.result(timeout=60)
    backend = CpuDispatcher()
    for number, module in enumerate(modules):
        ahead.wait(number)
        assert backend.dispatch(module.programs["p"], [OutputAlloc(64)], 8, module=module)[0][9] == 9 * (
            3 + number
        )
    assert [each.cached for each in backend.compilations] == [True] * 3


@pytest.mark.parametrize("compiler", [int, sys.exit])
def test_what_goes_wrong_there_stays_there(compiler: Any) -> None:
    """An error, and a worker that dies: the next are answered, and this process compiles."""
    ahead = CompileAhead(compiler, 1)
    for number in range(3):
        ahead.submit(number, parse(TEXT.format(7)))
    for future in list(ahead._futures.values()):
        future.result(timeout=60)
    if compiler is sys.exit:
        assert ahead._processes[0].wait(60) == 1


@pytest.mark.parametrize("how", ["closed", "forgotten"])
def test_workers_end_with_it(how: str) -> None:
    ahead = CompileAhead(int, 2)
    ahead.submit(0, parse(TEXT.format(7)))
    ahead._futures[0].result(timeout=60)
    processes = list(ahead._processes)
    assert processes
    if how == "closed":
        ahead.close()
    del ahead
    gc.collect()
    deadline = time.monotonic() + 60
    while any(process.poll() is None for process in processes) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert all(process.poll() is not None for process in processes)


def test_measuring_uses_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """With workers all is compiled elsewhere, without them nothing is."""
    # of a width that no other test has: what this process has loaded is compiled nowhere
    softmax = kernel_workload("math.softmax", [13 * 52] * 2, [DataType.F32] * 2, {"columns": 52})
    # this process does not begin what they have not: it may be done before they have started
    monkeypatch.setattr(
        CompileAhead, "wait", lambda self, number: self._futures.pop(number).result(timeout=60)
    )
    space = softmax.space("cpu")
    for processors, picks in ((1, [0, 1, 2]), (0, [3, 4, 5])):
        monkeypatch.setattr(measure, "free_processors", lambda count=processors: count)
        backend = CpuDispatcher()
        bench = measure.DispatchBench(softmax, space, backend)
        bench.samples(picks, 1)
        bench.close()
        assert not bench.failures
        assert [each.cached for each in backend.compilations] == [processors > 0] * 3
