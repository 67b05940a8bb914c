"""PyCUDA loads every module and makes every launch but those of calls that repeat: on a GPU, and in main memory."""

from __future__ import annotations

import re
import struct
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from stand_ins.fake_gpu import Fake, cupy, install
from support.code_choices import forget_calls
from support.gpu_arrays import to_gpu
from support.smoothing import smooth, smoothed_twice

import vyre_opt
from vyre_opt import kernels
from vyre_opt.cli import run
from vyre_opt.execution import dispatcher as protocol
from vyre_opt.ir import Program
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import gpu, ptx_version
from vyre_opt.targets.cuda import CudaDispatcher, driver, launcher, libcuda
from vyre_opt.targets.cuda.loaded_kernel import LoadedKernel

TEXT = """vyre 2
program @double workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %g = global_id x
  %n = len @y
  %is_in = lt %g, %n : u32
  if %is_in {
    %v = load @x[%g]
    %w = add %v, %v : f32
    store %w, @y[%g]
  }
}
program @nothing workgroup(32) { }
pipeline @main {
  buffer @x : f32[?] read
  buffer @t : f32[100]
  buffer @t2 : f32[100]
  buffer @y : f32[?] write
  launch @double grid(2) (@x, @t)
  launch @double grid(2) (@t, @t2)
  launch @double grid(2) (@t2, @y)
}
"""
X = np.arange(100, dtype=np.float32)
Make = Callable[[Any], Any]
"""`make(array)`: the array on the GPU."""


class Counts(Counter[str]):
    """How often modules were loaded and functions launched, and how."""

    def of(self, call: Callable[[], Any]) -> dict[str, int]:
        """Those of a call."""
        self.clear()
        call()
        return dict(self)


class Place:
    """A dispatcher of the test's own, whose kernels nobody has loaded, on a GPU or in main memory."""

    def __init__(self, library: str, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_real = library != "stand-in"
        if self.is_real:
            self.put: Make = partial(to_gpu, pytest.importorskip(library))
            self.gpu: Any = CudaDispatcher(check="later")
        else:
            self.put, self.gpu = cupy, Fake(install(monkeypatch).gpu)
        self.counts = Counts()
        cuda = driver.load()
        for owner, name in (
            (cuda, "module_from_buffer"),
            (cuda.Function, "prepared_async_call"),
            (libcuda, "launch"),
            (launcher, "CompiledLauncher"),
        ):
            monkeypatch.setattr(owner, name, self._counted(getattr(owner, name), name))
        read = LoadedKernel._read_handle

        def uncounted(kernel: LoadedKernel) -> int:
            """What is recorded to read a handle is no launch."""
            before = self.counts.copy()
            handle = read(kernel)
            self.counts.clear()
            self.counts.update(before)
            return handle

        monkeypatch.setattr(LoadedKernel, "_read_handle", uncounted)
        monkeypatch.setitem(protocol._shared, "cuda", self.gpu)
        forget_calls(monkeypatch)

    def _counted(self, function: Callable[..., Any], name: str) -> Callable[..., Any]:
        def call(*args: Any, **named: Any) -> Any:
            self.counts[name] += 1
            return function(*args, **named)

        return call


LIBRARIES = ["stand-in", *(pytest.param(name, marks=pytest.mark.gpu) for name in ("torch", "cupy"))]


@pytest.fixture(params=LIBRARIES)
def place(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    place = Place(request.param, monkeypatch)
    yield place
    place.gpu.synchronize()


def program(name: str = "double") -> Program:
    return vyre_opt.parse(TEXT).programs[name]


def call_of(what: str, place: Place, folder: Path) -> Callable[[], Any]:
    """A call that has not been made yet."""
    gpu, put = place.gpu, place.put
    x, y = put(X), put(np.zeros_like(X))
    table = put(np.arange(700, dtype=np.float32).reshape(100, 7))
    if what == "dispatch":
        return lambda: gpu.dispatch(program(), [X, X], 2)
    if what == "dispatch without arguments":
        return lambda: gpu.dispatch(program("nothing"), [], 1)
    if what == "dispatch on the GPU":
        return lambda: gpu.dispatch(program(), [x, y], 2)
    if what == "program":
        double = vyre_opt.compile(TEXT, entry="double", target=gpu)
        return lambda: double([x], 2, lengths={"y": 100})
    if what == "pipeline":
        pipeline = vyre_opt.compile(TEXT, entry="main", target=gpu)
        return lambda: pipeline([x], lengths={"y": 100})
    if what == "kernel in Python":
        smoothed = smooth.options(target=gpu)[1]
        return lambda: smoothed(x, y)
    if what == "pipeline in Python":
        changing = smoothed_twice.options(target=gpu)
        return lambda: changing(x)
    if what == "softmax":
        return lambda: kernels.softmax(table, dispatcher=gpu)
    if what == "TT contraction":
        return lambda: kernels.tt_contract_step(x, table, dispatcher=gpu)
    np.save(folder / "x.npy", X)
    (folder / "main.vyre").write_text(TEXT)
    shown = [f"--in=x={folder / 'x.npy'}", "--len=y=100", f"--out=y={folder / 'y.npy'}"]
    arguments = [str(folder / "main.vyre"), "--target=cuda", "--entry=main", *shown]
    return lambda: run.main(arguments)


LAUNCHES = {"pipeline": 3, "pipeline in Python": 2, "vyre-run": 3}
PLANNED = ("program", "pipeline", "kernel in Python", "pipeline in Python", "softmax", "TT contraction")


@pytest.mark.parametrize(
    "what", ["dispatch", "dispatch without arguments", "dispatch on the GPU", "vyre-run", *PLANNED]
)
def test_a_first_call_is_loaded_and_launched_by_pycuda(what: str, place: Place, tmp_path: Path) -> None:
    call = call_of(what, place, tmp_path)
    launches = LAUNCHES.get(what, 1)
    assert place.counts.of(call) == {"module_from_buffer": 1, "prepared_async_call": launches}
    if what == "vyre-run":
        assert np.array_equal(np.load(tmp_path / "y.npy"), 8 * X)


@pytest.mark.parametrize("what", PLANNED)
def test_calls_that_repeat_have_a_launcher_from_the_third_on(what: str, place: Place, tmp_path: Path) -> None:
    """At the latest: where a plan is all that a call needs, from the second on."""
    call = call_of(what, place, tmp_path)
    call()
    assert place.counts.of(lambda: (call(), call()))["CompiledLauncher"] == 1
    repeated = place.counts.of(call)
    assert not repeated.keys() & {"module_from_buffer", "CompiledLauncher", "launch"}
    if place.is_real:
        assert not repeated
    place.gpu.synchronize()


SCALARS = ("u8", "i8", "u16", "i16", "u32", "i32", "u64", "i64", "f16", "bf16", "f32", "f64", "bool")


def test_what_pycuda_packs_are_the_words_that_a_kernel_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Pointers, lengths and scalars of all types are 64 bits each, so no parameter is padded."""
    params = "".join(f"param @p{number} : {name}\n" for number, name in enumerate(SCALARS))
    text = f"""vyre 2
program @p workgroup(32) {{
  buffer @x : f16[?] read binding(0)
  buffer @y : f16[?] write binding(1)
  buffer @own : vec<4 x f32>[7] read_write
  {params}
  %g = global_id x
  %v = load @x[%g]
  store %v, @y[%g]
}}
"""
    unit = Unit(vyre_opt.parse(text).programs["p"])
    target = gpu("sm_90")
    lowered = lower([unit], target, "trap")
    (kernel,) = lowered.kernels
    ptx = emit_ptx(lowered, target, ptx_version(target, None), 2)
    declared = re.findall(r"\.param\s+\.(\w+)", ptx.partition(".entry")[2].partition("{")[0])
    assert set(declared) <= {"u64", "b64"}
    assert len(declared) == len(kernel.params) == 3 + 2 + len(SCALARS) + 2
    loaded = install(monkeypatch).prepare(unit.program)
    words = [(1 << 64) - 1 - number for number in range(len(declared))]
    assert struct.pack(loaded.function.arg_format, *words) == np.array(words, np.uint64).tobytes()


@pytest.mark.gpu
def test_a_graph_of_torch_records_the_second_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a stream of its own, on which nothing has run before; nothing can be compiled or loaded then."""
    torch = pytest.importorskip("torch")
    place = Place("torch", monkeypatch)
    x = torch.rand(100, 300, device="cuda")
    for warm_up in (1, 2, 3):
        for _ in range(warm_up):
            kernels.softmax(x, dispatcher=place.gpu)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = kernels.softmax(x, dispatcher=place.gpu)
        x.copy_(torch.rand(100, 300, device="cuda"))
        graph.replay()
        assert torch.allclose(y, torch.softmax(x, -1), 1e-4, 1e-6)
