"""A GPU that others use, break or fill up, and processes that are killed: an error in words, or the right result."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import vyre_opt
from vyre_opt.execution import BackendError

pytestmark = pytest.mark.gpu

DOUBLE = """vyre 1
program @double workgroup(128) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %n = len @y
  %in = lt %g, %n : u32
  if %in {
    %v = load @x[%g] : u32
    %w = add %v, %v : u32
    store %w, @y[%g] : u32
  }
}
"""

ENDLESS = """vyre 1
program @endless workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %zero = const 0 : u32
  %last = while iter(%a = %zero : u32) {
    %v = load @x[%zero] : u32
    %go = eq %v, %zero : u32
    condition %go
  } do {
    %c = add %a, %g : u32
    yield %c
  }
  store %last, @y[%g] : u32
}
"""

PIPELINE = (
    DOUBLE.replace("%n = len @y", "%n = len @y : u64\n  %wide = cast %g : u32 -> u64").replace(
        "lt %g, %n : u32", "lt %wide, %n : u64"
    )
    + """
pipeline @main {
  buffer @x : u32[?] read
  buffer @a : u32[?]
  buffer @y : u32[?] write
  launch @double grid(8) (@x, @a)
  launch @double grid(8) (@a, @y)
}
"""
)

SETUP = f"""
import os, sys
import numpy as np
import vyre_opt
from vyre_opt.execution.dispatcher import BackendError
TEXT = '''{DOUBLE}'''
x = np.arange(1000, dtype=np.uint32)
double = vyre_opt.compile(TEXT, target="cuda")
def right():
    return bool(np.array_equal(double([x], 8, lengths={{"y": 1000}})["y"], 2 * x))
"""


def python(text: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", SETUP + text], capture_output=True, text=True, timeout=timeout, check=False
    )


def is_right() -> bool:
    x = np.arange(1000, dtype=np.uint32)
    y = vyre_opt.compile(DOUBLE, target="cuda")([x], 8, lengths={"y": 1000})["y"]
    return bool(np.array_equal(y, 2 * x))


def vyre_run(folder: Path, *options: str) -> subprocess.Popen[str]:
    """vyre-run of the endless program, whose output file exists."""
    (folder / "endless.vyre").write_text(ENDLESS)
    np.save(folder / "x.npy", np.zeros(32, np.uint32))
    (folder / "y.npy").write_bytes(b"as it was")
    text = (
        "import sys; from vyre_opt.cli.start import vyre_run; sys.argv[0] = 'vyre-run'; sys.exit(vyre_run())"
    )
    given = ["endless.vyre", "--target=cuda", "--grid=1", "--in=x=x.npy", "--len=y=32", "--out=y=y.npy"]
    command = [sys.executable, "-c", text, *given, *options]
    return subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def check_left_behind(folder: Path) -> None:
    """The output file is what it was, and the GPU is free for others."""
    assert (folder / "y.npy").read_bytes() == b"as it was"
    assert sorted(p.name for p in folder.iterdir()) == ["endless.vyre", "x.npy", "y.npy"]
    assert is_right()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_process_killed_in_a_launch(tmp_path: Path, number: int) -> None:
    with vyre_run(tmp_path) as process:
        time.sleep(6)
        assert process.poll() is None, process.stderr.read() if process.stderr else ""
        process.send_signal(number)
        process.wait(30)
    check_left_behind(tmp_path)


def test_an_interrupt_ends_an_endless_launch(tmp_path: Path) -> None:
    with vyre_run(tmp_path) as process:
        time.sleep(6)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=30)
    assert process.returncode == 130, said
    assert "Traceback" not in said
    check_left_behind(tmp_path)


def test_a_timeout_ends_an_endless_launch(tmp_path: Path) -> None:
    with vyre_run(tmp_path, "--timeout=6") as process:
        _, said = process.communicate(timeout=60)
    assert process.returncode == 1
    assert said == "error: not done after 6 s\n"
    check_left_behind(tmp_path)


def test_an_interrupt_in_python(tmp_path: Path) -> None:
    """It is raised, and the process ends although the GPU is still at work."""
    done = python(
        f"""
import signal, threading
endless = vyre_opt.compile('''{ENDLESS}''', target="cuda")
threading.Timer(6, lambda: signal.raise_signal(signal.SIGINT)).start()
try:
    endless([np.zeros(32, np.uint32)], 1, lengths={{"y": 32}})
except KeyboardInterrupt:
    print("interrupted")
"""
    )
    assert (done.stdout, done.returncode) == ("interrupted\n", 0), done.stderr
    assert is_right()


@pytest.mark.parametrize("on_gpu", [False, True])
def test_a_pipeline_that_does_not_fit_into_memory(on_gpu: bool) -> None:
    torch = pytest.importorskip("torch")
    pipeline = vyre_opt.compile(PIPELINE, target="cuda")
    x = torch.arange(1000, device="cuda").to(torch.uint32) if on_gpu else np.arange(1000, dtype=np.uint32)
    with pytest.raises((BackendError, torch.OutOfMemoryError), match=r"(?i)out of (GPU )?memory"):
        pipeline([x], lengths={"a": 1 << 36, "y": 1000})
    y = pipeline([x], lengths={"a": 1000, "y": 1000})["y"]
    assert np.array_equal(y.cpu().numpy() if on_gpu else y, 4 * np.arange(1000))


def test_a_context_that_another_library_broke() -> None:
    """Each later call says so, and the process ends as it should."""
    done = python(
        """
import cupy
assert right()
cupy.RawKernel('extern "C" __global__ void bad(int *p) { *p = 1; }', "bad")((1,), (1,), (np.uint64(64),))
for _ in range(3):
    try:
        right()
        print("no error")
    except BackendError as error:
        print(error)
"""
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 3, (done.stdout, done.stderr)
    assert all("broke the CUDA context" in line and "start a new one" in line for line in lines), lines
    assert "vyre" not in done.stderr.lower(), "only the other library may complain at the end"
    assert done.returncode == 0
    assert is_right(), "this process has a context of its own"


def test_processes_share_a_gpu() -> None:
    text = "print(all([right() for _ in range(300)]))"
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: python(text), range(3)))
    assert [(r.returncode, r.stdout.strip()) for r in results] == [(0, "True")] * 3, results


@pytest.mark.parametrize("on_gpu", [False, True])
def test_threads_share_a_program(on_gpu: bool) -> None:
    torch = pytest.importorskip("torch")
    double = vyre_opt.compile(DOUBLE, target="cuda")

    def call(seed: int) -> bool:
        x = np.random.default_rng(seed).integers(0, 1 << 20, 1000 + seed % 3).astype(np.uint32)
        if not on_gpu:
            return bool(np.array_equal(double([x], 9, lengths={"y": len(x)})["y"], 2 * x))
        with torch.cuda.stream(torch.cuda.Stream()):
            tensor = torch.from_numpy(x).cuda()
            y = double([tensor], 9, lengths={"y": len(x)})["y"]
            return bool(np.array_equal(y.cpu().numpy(), 2 * x))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(call, range(400)))


def test_a_fork_after_use() -> None:
    """The child gets an error in words; the parent goes on."""
    done = python(
        """
assert right()
child = os.fork()
if child == 0:
    try:
        right()
        print("no error", flush=True)
    except BackendError as error:
        print(error, flush=True)
    os._exit(0)
os.waitpid(child, 0)
print(right())
"""
    )
    said, after = done.stdout.splitlines()
    assert "forked after it had used a GPU" in said
    assert after == "True"
    assert done.returncode == 0, done.stderr


def test_nothing_is_lost_over_many_calls() -> None:
    done = python(
        """
import torch
tensor = torch.arange(1000, device="cuda").to(torch.uint32)
def on_gpu():
    return torch.cuda.memory_allocated() + vyre_opt.dispatcher("cuda").device.pool.managed_bytes
def resident():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
def calls(count):
    for _ in range(count):
        double([tensor], 8, lengths={"y": 1000})
        double([x], 8, lengths={"y": 1000})
    torch.cuda.synchronize()
calls(500)
before, memory = on_gpu(), resident()
calls(10_000)
print(on_gpu() - before, resident() - memory)
"""
    )
    assert done.returncode == 0, done.stderr
    on_gpu, in_main = map(int, done.stdout.split())
    assert on_gpu == 0
    assert in_main < 4 << 20
