"""`vyre_opt.compile(..., limits=)`: results as without limits, and each limit that a program breaks names itself."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.interrupts import has_ended
from support.quick import quick
from support.slow_compile import slow_to_compile

import vyre_opt
from vyre_opt import (
    BackendError,
    BadInputs,
    DiagnosticError,
    LimitedExecutable,
    LimitError,
    Limits,
    ProgramError,
    parse,
)

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits need Linux")

SCALE = """vyre 1

program @scale workgroup(4) {
  buffer @y : f32[?] write binding(7) live_out
  buffer @x : f32[?] read  binding(2)
  spec @k : f32 = 2.0
  %g = global_id x
  %k = spec @k : f32
  %x = load @x[%g] : f32
  %r = mul %x, %k : f32
  store %r, @y[%g] : f32
}
"""
STEPS = """vyre 1

program @add workgroup(4) {
  buffer @x : u32[4] read_write binding(0) live_in live_out
  %g = global_id x
  %v = load @x[%g] : u32
  %one = const 1 : u32
  %w = add %v, %one : u32
  store %w, @x[%g] : u32
}

pipeline @main {
  buffer @x : u32[4] live_in live_out
  repeat 3 {
    launch @add grid(1) (@x)
    host_read @x
  }
}
"""
TYPES = """vyre 1

program @p workgroup(1) grid(2) {
  buffer @b : bool[2] write binding(0) live_out
  buffer @h : bf16[2] write binding(1) live_out
  buffer @v : vec<2 x f16>[2] write binding(2) live_out
  buffer @e : f64[?] write binding(3) live_out
  %g = global_id x
  %zero = const 0 : u32
  %t = eq %g, %zero : u32
  store %t, @b[%g] : bool
  %h = const 1.5 : bf16
  store %h, @h[%g] : bf16
  %v = const 0.5 : vec<2 x f16>
  store %v, @v[%g] : vec<2 x f16>
}
"""
ENDLESS = """vyre 1

program @p workgroup(1) grid(1) {
  buffer @x : u32[1] read_write binding(0) live_in live_out
  %zero = const 0 : u32
  %one = const 1 : u32
  %r = while iter(%a = %zero : u32) {
    %v = load @x[%zero] : u32
    %go = ne %v, %zero : u32
    condition %go
  } do {
    %b = add %a, %one : u32
    yield %b
  }
  store %r, @x[%zero] : u32
}
"""
X = np.arange(8, dtype=np.float32)


@pytest.fixture(scope="module")
def scale() -> Iterator[LimitedExecutable]:
    """A process that all tests use which leave it well, or replace it."""
    limits = Limits(time=60, memory=256 << 20, output=1000, grid=100)
    with vyre_opt.compile(SCALE, limits=limits) as executable:
        yield executable


def outcome(call: Callable[[], Any]) -> tuple[type, Any]:
    """What a call gives: the arrays as their types, shapes and bytes, or the error as its type and message."""
    try:
        result = call()
    except Exception as error:
        return type(error), str(error)
    return dict, {name: (a.dtype, a.shape, a.tobytes()) for name, a in result.items()}


def pid_of(executable: LimitedExecutable) -> int:
    assert executable._child is not None
    return executable._child._process.pid


# --- what holds within the limits


@pytest.mark.parametrize(
    "arguments",
    [
        {"inputs": {"x": X}, "grid": 2, "lengths": {"y": 8}},
        {"inputs": [X], "grid": (2, 1), "lengths": {"y": 8}},
        {"inputs": {"x": X[::2], "y": np.full((2, 2), -1, np.float32)}, "grid": 1},
        {"inputs": {"x": X.tobytes()}, "grid": 2, "lengths": {"y": 8}},
        {"inputs": {"x": memoryview(X.tobytes())}, "grid": 2, "lengths": {"y": 8}},
        {"inputs": [X], "grid": 2, "lengths": {"y": 7}},
        {"inputs": [X], "grid": 2},
        {"inputs": {"xs": X}, "grid": 2},
        {"inputs": [X.astype(np.float64)], "grid": 2, "lengths": {"y": 8}},
        {"inputs": [X], "grid": 0, "lengths": {"y": 8}},
        {"inputs": [X], "lengths": {"y": 8}},
        {"inputs": 7, "grid": 1},
        {"inputs": [X], "grid": 2, "lengths": [8]},
    ],
)
def test_a_call_is_as_without_limits(scale: LimitedExecutable, arguments: dict[str, Any]) -> None:
    """Outputs to the bit, and the words of each mistake; no mistake costs the process."""
    pid = pid_of(scale)
    plain = vyre_opt.compile(SCALE)
    assert outcome(lambda: scale(**arguments)) == outcome(lambda: plain(**arguments))
    assert pid_of(scale) == pid


def test_an_output_is_the_callers_own(scale: LimitedExecutable) -> None:
    y = scale([X], 2, lengths={"y": 8})["y"]
    y += 1
    assert y.tolist() == (2 * X + 1).tolist()


def test_faults_are_located_as_without_limits(scale: LimitedExecutable) -> None:
    with pytest.raises(ProgramError, match="store out of bounds of @y") as caught:
        scale([X], 2, lengths={"y": 7})
    assert caught.value.kind == "bounds"
    loc = caught.value.diagnostic.loc
    assert loc is not None
    assert (loc.line, loc.source.text) == (11, SCALE)


@pytest.mark.parametrize("target", quick(["ref", "cpu"]))
def test_element_types(target: str) -> None:
    arguments: dict[str, Any] = {"target": target, "entry": "p", "passes": ["canonicalize", "dce"]}
    with vyre_opt.compile(parse(TYPES), **arguments, limits=Limits()) as limited:
        plain = vyre_opt.compile(TYPES, **arguments)
        inputs = {"e": np.zeros((3, 0))}
        assert outcome(lambda: limited(inputs)) == outcome(lambda: plain(inputs))


@pytest.mark.campaign
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_one_call_with_constants(target: str) -> None:
    specs = {"k": 3}
    y = vyre_opt.run(SCALE, [X], 2, lengths={"y": 8}, specs=specs, target=target, limits=Limits())["y"]
    assert y.tolist() == (3 * X).tolist()


@pytest.mark.parametrize("target", quick(["ref", "cpu"]))
def test_a_pipeline_and_its_host_reads(target: str) -> None:
    with vyre_opt.compile(STEPS, target=target, limits=Limits(output=64)) as steps:
        reads: list[list[int]] = []
        outputs = steps([np.zeros(4, np.uint32)], on_host_read=lambda name, a: reads.append(a.tolist()))
        assert outputs["x"].tolist() == [3] * 4
        assert reads == [[k] * 4 for k in (1, 2, 3)]
        with pytest.raises(ZeroDivisionError):  # what the caller's function raises comes through
            steps([np.zeros(4, np.uint32)], on_host_read=lambda name, a: 1 // 0)
        x = [np.ones(4, np.uint32)]
        with pytest.raises(
            BadInputs, match="a handler of host reads or prints may not call or close the executable"
        ):
            steps(x, on_host_read=lambda name, a: steps(x))
        assert steps(x)["x"].tolist() == [4] * 4


@pytest.mark.parametrize(
    ("source", "options"),
    quick(
        [
            (SCALE.replace("mul", "mull").replace("load @x", "load @z").rstrip().removesuffix("}"), {}),
            (SCALE, {"specs": {"kk": 1}}),
            (SCALE.rstrip().removesuffix("}"), {}),  # an error at the very end
            (SCALE.replace("mul", "mull").replace("load @x", "load @z"), {}),
            (SCALE.replace("f32", "float"), {}),
            (SCALE, {"passes": "no_such_pass"}),
            (SCALE, {"entry": "skale"}),
        ],
        keep=2,
    ),
)
def test_mistakes_of_compile_are_as_without_limits(source: str, options: dict[str, Any]) -> None:
    limited, plain = (
        outcome(lambda limits=limits: vyre_opt.compile(source, limits=limits, **options))  # type: ignore[misc]
        for limits in (Limits(), None)
    )
    assert limited == plain
    assert issubclass(plain[0], (DiagnosticError, BadInputs))


def test_sources_and_targets_that_are_none(tmp_path: Path) -> None:
    """Before any process is started."""
    limits = Limits()
    with pytest.raises(BadInputs, match="limits hold for the targets ref and cpu, not for 'cuda'"):
        vyre_opt.compile(SCALE, target="cuda", limits=limits)
    with pytest.raises(BadInputs, match=r"limits is a vyre_opt\.Limits, not str"):
        vyre_opt.compile(SCALE, limits="time=1")  # type: ignore[call-overload]
    with pytest.raises(BadInputs, match=r"pass pathlib\.Path"):
        vyre_opt.compile("a.vyre", limits=limits)
    with pytest.raises(FileNotFoundError):
        vyre_opt.compile(tmp_path / "a.vyre", limits=limits)


class OfThisTest:
    """A class that the child process cannot import."""


OfThisTest.__module__ = "a_module_that_is_nowhere"


def test_what_cannot_be_passed_is_said(scale: LimitedExecutable) -> None:
    pid = pid_of(scale)
    for value in (lambda: 1, OfThisTest()):
        with pytest.raises(BadInputs, match="an argument cannot be passed to a process of its own"):
            scale({"x": value}, 2)
    with pytest.raises(BadInputs, match="on_host_read is of pipelines"):
        scale([X], 2, on_host_read=print)
    assert scale([X], 2, lengths={"y": 8})["y"][1] == 2
    assert pid_of(scale) == pid


def test_calls_of_several_threads(scale: LimitedExecutable) -> None:
    results: dict[int, list[float]] = {}

    def work(k: int) -> None:
        for _ in range(5):
            results[k] = scale([X + k], 2, lengths={"y": 8})["y"].tolist()

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert results == {k: (2 * (X + k)).tolist() for k in range(4)}


# --- what breaks a limit


def test_a_grid_beyond_the_limit(scale: LimitedExecutable) -> None:
    pid = pid_of(scale)
    with pytest.raises(
        LimitError, match=r"^grid=100: program @scale is to run over 102 workgroups$"
    ) as caught:
        scale([X], (51, 2), lengths={"y": 8})
    assert (caught.value.limit, caught.value.value) == ("grid", 100)
    assert pid_of(scale) == pid


def test_output_beyond_the_limit(scale: LimitedExecutable) -> None:
    with pytest.raises(LimitError, match=r"^output=1000: outputs, host reads and prints take 1024 bytes$"):
        scale([np.zeros(256, np.float32)], 64, lengths={"y": 256})
    assert scale([X], 2, lengths={"y": 8})["y"][1] == 2


def test_inputs_beyond_the_memory(scale: LimitedExecutable) -> None:
    # more than stacks of threads on many CPUs are allowed beside the limit
    with pytest.raises(LimitError, match=r"^memory=256M: the inputs take \d+ bytes$"):
        scale([np.zeros(1 << 30, np.float32)], 1, lengths={"y": 4})
    assert scale([X], 2, lengths={"y": 8})["y"][1] == 2


def test_outputs_beyond_the_memory(scale: LimitedExecutable) -> None:
    with pytest.raises(LimitError, match=r"^memory=256M: .*Unable to allocate 4.00 GiB"):
        scale([X], 1, lengths={"y": 1 << 30})
    assert scale([X], 2, lengths={"y": 8})["y"][1] == 2


def test_inputs_beyond_the_limit(scale: LimitedExecutable, tmp_path: Path) -> None:
    """Arrays are not sent, and a file is not read to its end."""
    object.__setattr__(scale.limits, "input", 1 << 20)
    try:
        with pytest.raises(LimitError, match=r"^input=1M: the inputs take \d+ bytes$"):
            scale([np.zeros(1 << 18, np.float32)], 1, lengths={"y": 8})
        assert scale([X], 2, lengths={"y": 8})["y"][1] == 2
    finally:
        object.__setattr__(scale.limits, "input", None)
    path = tmp_path / "scale.vyre"
    path.write_text(SCALE)
    with pytest.raises(LimitError, match=rf"^input=100: {path} has more bytes$"):
        vyre_opt.compile(path, limits=Limits(input=100))


@pytest.mark.parametrize("target", ["cpu", pytest.param("ref", marks=pytest.mark.campaign)])
def test_time_ends_endless_code(target: str) -> None:
    with vyre_opt.compile(ENDLESS, target=target, limits=Limits(time=60)) as warm:
        object.__setattr__(warm.limits, "time", 0.1)  # so that loading does not count on a slow machine
        with pytest.raises(LimitError, match=r"^time=0\.1: not done after 0\.1 s$"):
            warm([np.ones(1, np.uint32)])
        assert warm._child is None


def test_the_compile_limit_ends_a_compile() -> None:
    with (
        vyre_opt.compile(slow_to_compile(), limits=Limits(compile=0.5, time=60)) as slow,
        pytest.raises(LimitError, match=r"^compile=0\.5: not compiled after 0\.5 s$"),
    ):
        slow([np.zeros((64, 64))], 1, lengths={"y": 32})


@pytest.mark.campaign
def test_the_compile_limit_counts_compiles_only() -> None:
    with (
        vyre_opt.compile(ENDLESS, limits=Limits(compile=2, time=4)) as endless,
        pytest.raises(LimitError, match=r"^time=4: "),
    ):
        endless([np.ones(1, np.uint32)])


@pytest.mark.campaign
def test_llvm_out_of_memory() -> None:
    """LLVM ends the process where it finds none."""
    with (
        vyre_opt.compile(slow_to_compile(), limits=Limits(memory=1 << 20)) as slow,
        pytest.raises(BackendError, match=r"memory=1M|the limit of memory may be too low"),
    ):
        slow([np.zeros((64, 64))], 1, lengths={"y": 32})


def plugin(folder: Path) -> None:
    """A package with a pass, as an installer leaves it."""
    (folder / "other_pass.py").write_text(
        "from vyre_opt.passes.registry import Pass, register\n"
        "@register\nclass Other(Pass):\n    name = 'other'\n    summary = 'nothing'\n"
        "    def run(self, module, ctx):\n        return False\n"
    )
    info = folder / "other_pass-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: other-pass\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[vyre_opt.passes]\nother = other_pass\n")


def test_plugins_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plugin(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(LimitError, match=r"^plugins=false: pass other is of another package$"):
        vyre_opt.compile(SCALE, passes="other", limits=Limits())
    vyre_opt.compile(SCALE, passes="other", limits=Limits(plugins=True)).close()


@pytest.mark.campaign
def test_the_cache_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VYRE_CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.chdir(tmp_path)
    for name in ("json", "numpy"):  # nor is code run that lies in the current folder
        (tmp_path / f"{name}.py").write_text("raise SystemExit('from the current folder')")
    arguments: dict[str, Any] = {"inputs": [X], "grid": 2, "lengths": {"y": 8}}

    def entries() -> list[Path]:
        return [path for path in tmp_path.glob("cache/compiled-1/*/*") if path.stat().st_size]

    vyre_opt.run(SCALE, **arguments, limits=Limits())
    assert entries() == []
    vyre_opt.run(SCALE, **arguments, limits=Limits(cache=True))
    assert entries() != []


# --- the process


def test_a_process_that_is_killed_is_replaced(scale: LimitedExecutable) -> None:
    first = pid_of(scale)
    os.kill(first, signal.SIGKILL)
    with pytest.raises(BackendError, match="ended by SIGKILL") as caught:
        scale([X], 2, lengths={"y": 8})
    assert not isinstance(caught.value, LimitError)
    assert scale([X], 2, lengths={"y": 8})["y"][1] == 2
    assert pid_of(scale) != first


def test_the_process_holds_no_privilege_of_size(scale: LimitedExecutable) -> None:
    """What the kernel enforces: no core files, no files, and an address space that ends."""
    limits = Path(f"/proc/{pid_of(scale)}/limits").read_text().splitlines()
    rows = {line[:26].strip(): line[26:].split()[:2] for line in limits}
    assert rows["Max core file size"] == ["0", "0"]
    assert rows["Max file size"] == ["0", "0"]
    assert "unlimited" not in rows["Max address space"]


@pytest.mark.campaign
def test_the_process_ends_with_its_parent(tmp_path: Path) -> None:
    """Also one that is in endless code, and whose parent could say nothing at its end."""
    script = tmp_path / "parent.py"
    script.write_text(
        "import sys, threading, numpy as np, vyre_opt\n"
        "endless = vyre_opt.compile(sys.argv[1], limits=vyre_opt.Limits())\n"
        "threading.Thread(target=lambda: endless([np.ones(1, np.uint32)]), daemon=True).start()\n"
        "print(endless._child._process.pid, flush=True)\n"
        "sys.stdin.read()\n"
    )
    command = [sys.executable, str(script), ENDLESS]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(1.0)
        assert Path(f"/proc/{pid}").exists()
        parent.kill()
    assert has_ended(pid)


def test_the_process_ends_with_its_executable() -> None:
    executable = vyre_opt.compile(SCALE, limits=Limits())
    pid = pid_of(executable)
    del executable
    assert has_ended(pid)
