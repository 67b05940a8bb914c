"""Packs run arrays on a GPU by PTX, without the compiler: same bits, same errors.

Most tests take a GPU in main memory (see test/stand_ins), those marked `gpu` a real one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Fake, Numba, aligned, cupy, install, install_packs, numpy
from support.code_choices import forget_calls
from support.gpu_arrays import to_gpu, to_host
from support.packed_kernels import CALLS, FUNCTIONS, LEVEL, SHAPES, WRONG_CALLS, random

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.driver import numeric_kernels
from vyre_opt.driver.planned_function import PlannedFunction
from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.packs import PackError, load
from vyre_opt.targets.cuda import device

Function = Callable[[str], Any]

ROWS, NUMBERS = random(12, 50), np.arange(3000, dtype=np.uint32)
ARRAY_CALLS: dict[str, list[tuple[Any, ...]]] = {
    "softmax": [(ROWS,), (random(3, 5000),)],
    "softmax_step": [(NUMBERS,)],
    "prefix_scan": [(NUMBERS,), (ROWS,)],
    "matvec_fixed": [(np.ones((5, 9), np.int32), np.arange(9, dtype=np.int32))],
    "matmul": [(ROWS, random(50, 7)), (ROWS, random(50, 7), random(7), {"activation": "relu"})],
    "tt_contract_step": [(random(8), random(8, 6))],
    "tt_chain": [(random(4), [random(4, 8), random(8, 3)])],
}

PIPELINE = """vyre 1
program @twice workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %i = global_id x
  %n = len @x
  %in = lt %i, %n : u32
  if %in {
    %v = load @x[%i] : f32
    %w = add %v, %v : f32
    store %w, @y[%i] : f32
  }
}
pipeline @main {
  buffer @x : f32[?] read
  buffer @t : f32[len(@x)]
  buffer @y : f32[len(@x)] write live_out
  launch @twice grid(ceil_div(len(@x), 64)) (@x, @t)
  host_read @t
  repeat 2 {
    launch @twice grid(ceil_div(len(@x), 64)) (@t, @y)
  }
}
"""


class OnGpu:
    """A function whose arrays of NumPy go to a GPU, and are written back; its faults are told at once."""

    def __init__(self, function: Any, to: Callable[[Any], Any], back: Callable[[Any], np.ndarray]) -> None:
        self.function, self.to, self.back = function, to, back

    def __getitem__(self, grid: Any) -> OnGpu:
        return OnGpu(self.function[grid], self.to, self.back)

    def __call__(self, *args: Any, **options: Any) -> Any:
        moved = [[*map(self.to, arg)] if isinstance(arg, list) else self.to(arg) for arg in args]
        result = self.function(*moved, **options)
        vyre.synchronize()
        for before, after in zip(args, moved, strict=True):
            if isinstance(before, np.ndarray) and before.flags.writeable:
                before[...] = self.back(after)
        return result if result is None else self.back(result)


def compiled(name: str) -> Any:
    return next(function for function in FUNCTIONS if function.function.__name__ == name)


def options_of(call: tuple[Any, ...]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return (call[:-1], call[-1]) if isinstance(call[-1], dict) else (call, {})


# --- on a GPU in main memory


@pytest.fixture(scope="module")
def gpu() -> Iterator[Fake]:
    with pytest.MonkeyPatch.context() as monkeypatch:
        fake = install(monkeypatch)
        install_packs(monkeypatch, fake)
        monkeypatch.setattr(device, "_devices", {0: fake.gpu})
        for function in vars(numeric_kernels).values():
            if isinstance(function, PlannedFunction):
                monkeypatch.setattr(function, "_bound", OrderedDict())
        yield fake


@pytest.fixture(scope="module")
def packed(gpu: Fake, tmp_path_factory: pytest.TempPathFactory) -> Function:
    path = tmp_path_factory.mktemp("packs") / "kernels.vyrepack"
    vyre.pack(path, FUNCTIONS, [LEVEL, "sm_80"], SHAPES, opt=0, cubins=False)
    return load(path).__getitem__


def in_memory(array: Any) -> Any:
    return cupy(array) if isinstance(array, np.ndarray) else array


def test_calls_have_the_results_of_the_cpu(packed: Function) -> None:
    for name, call in CALLS.items():
        for _ in range(2):  # a first call, and one that is planned
            given = call(lambda name: OnGpu(packed(name), in_memory, numpy))
            assert given.tobytes() == call(packed).tobytes() == call(compiled).tobytes(), name


def test_faults_and_errors_are_those_of_the_compiler(packed: Function) -> None:
    for name in ("rows that are not there", "a false assert", "a short array", "in a launch of a pipeline"):
        told = []
        for function in (packed, compiled):
            with pytest.raises(Exception) as error:  # noqa: PT011  which one the compiler says
                WRONG_CALLS[name](lambda name, f=function: OnGpu(f(name), in_memory, numpy))
            told.append((type(error.value), str(error.value)))
        assert told[0] == told[1]
        assert "packed_kernels.py:" in told[0][1]  # the line of the source


def test_texts_and_functions_on_arrays(gpu: Fake, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    functions = [PIPELINE, *(getattr(kernels, name) for name in ARRAY_CALLS)]
    vyre.pack(tmp_path / "pack", functions, "sm_80", ARRAY_CALLS, cubins=False)
    pack, x = load(tmp_path / "pack"), random(100)
    reads: list[Any] = []
    outputs = pack["main"]({"x": cupy(x)}, on_host_read=lambda name, array: reads.append(numpy(array)))
    assert (numpy(outputs["y"]) == 4 * x).all()
    assert (reads[0] == 2 * x).all()
    assert (numpy(pack["twice"]([cupy(x)], 2, lengths={"y": 100})["y"])[:100] == 2 * x).all()
    for name, calls in ARRAY_CALLS.items():
        for call in calls:
            arrays, options = options_of(call)
            forget_calls(monkeypatch)
            own = OnGpu(getattr(kernels, name), in_memory, numpy)
            function = OnGpu(pack[name], in_memory, numpy)
            for _ in range(2):
                assert function(*arrays, **options).tobytes() == own(*arrays, **options).tobytes(), name
    with pytest.raises(BadInputs, match=r"packed for float32\[12, 50\].*this call has float32\[3, 50\]"):
        pack["softmax"](cupy(ROWS[:3]))
    with pytest.raises(BadInputs, match="holds uint32 for code of a pack, not int64"):
        pack["softmax_step"](cupy(NUMBERS.astype(np.int64)))
    with pytest.raises(PackError, match="softmax is packed for sm_80 and no CPU; pass arrays on such a GPU"):
        pack["softmax"](ROWS)


def test_the_newest_code_that_a_gpu_runs_is_taken(gpu: Fake, tmp_path: Path) -> None:
    """PTX serves newer GPUs, but for that of one architecture alone."""
    vyre.pack(tmp_path / "pack", FUNCTIONS[:1], "sm_70,sm_75,sm_90,sm_90a", cubins=False)
    pack, target = load(tmp_path / "pack"), "sm_75"
    x = cupy(random(10))
    assert pack["scale"].executable.of([x]).packed.part == f"plans/scale/{target}"


def test_a_gpu_without_code_is_told_what_there_is(gpu: Fake, tmp_path: Path) -> None:
    arrays = cupy(random(10)), cupy(random(10))
    vyre.pack(tmp_path / "pack", FUNCTIONS[:1], "sm_90,sm_100", cubins=False)
    with pytest.raises(PackError) as error:
        load(tmp_path / "pack")["scale"][1](*arrays)
    assert "scale is packed for sm_100, sm_90, and this GPU is sm_80" in str(error.value)
    assert "packed_kernels.py:" in str(error.value)
    assert "help: pack it for sm_80 or an older GPU, too" in str(error.value)
    vyre.pack(tmp_path / "cpu", FUNCTIONS[:1], LEVEL, opt=0)
    with pytest.raises(PackError, match="scale is packed for no GPU, and an array is on one"):
        load(tmp_path / "cpu")["scale"][1](*arrays)


def test_arrays_that_no_code_of_a_pack_can_take(packed: Function) -> None:
    x = cupy(random(10))
    with pytest.raises(BadInputs, match="is not on the GPU"):
        packed("scale")[1](x, np.zeros(10, np.float32))
    strided = Numba(aligned(random(20))[::2])
    with pytest.raises(BadInputs, match="is not contiguous"):
        packed("scale")[1](strided, x)
    y = cupy(np.zeros(10, np.float32))
    packed("scale")[1](CupyArray(aligned(random(20))[::2]), y)  # whose library copies it
    assert (numpy(y) == 2 * random(20)[::2] + 1).all()


# --- on a real one

USE = """
import sys, time
began = time.perf_counter()

class NoCompiler:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("llvmlite", "lark", "z3"):
            raise ImportError(f"{name} is not here")

sys.meta_path.insert(0, NoCompiler())
import numpy as np
from pycuda import driver, gpuarray
driver.init()
context = driver.Device(0).retain_primary_context()
context.push()
ready = time.perf_counter()
from vyre_opt.packs import load, synchronize
pack = load(sys.argv[1], trusted=sys.argv[2])
x = np.arange(300, dtype=np.float32)
gpu = gpuarray.to_gpu(x)
y = gpuarray.zeros(300, np.float32)
for _ in range(3):
    pack["scale"][2](gpu, y)
assert (y.get() == 2 * x + 1).all()
first = time.perf_counter()
rows = gpuarray.to_gpu(x.reshape(3, 100))
assert abs(pack["softmax"](rows).get().sum() - 3) < 1e-5
pack["both"](gpu, y, 1.0)
assert (y.get() == 3 * x + 4).all()
synchronize()
compiler = ("passes", "analysis", "slices", "syntax", "rewriting", "fusion", "scheduling", "lang", "certify")
loaded = [name for name in sys.modules if name.startswith("vyre_opt.") and name.split(".")[1] in compiler]
assert loaded == [], loaded
print(f"context {1000 * (ready - began):.0f} ms, first result {1000 * (first - ready):.0f} ms later")
"""


@pytest.fixture(scope="module")
def real(tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = tmp_path_factory.mktemp("packs") / "kernels.vyrepack"
    functions = [*FUNCTIONS, PIPELINE, *(getattr(kernels, name) for name in ARRAY_CALLS)]
    vyre.pack(path, functions, [LEVEL, "sm_80", "sm_90"], {**SHAPES, **ARRAY_CALLS}, opt=1)
    return load(path)


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["torch", "cupy"])
def test_bits_on_a_gpu(real: Any, name: str) -> None:
    library = pytest.importorskip(name)

    def on_gpu(f: Function) -> Function:
        return lambda name: OnGpu(f(name), lambda array: to_gpu(library, array), to_host)

    for call in CALLS:
        for _ in range(3):  # a first call, planned ones by PyCUDA and by the code of the pack
            given = CALLS[call](on_gpu(real.__getitem__))
            assert given.tobytes() == CALLS[call](on_gpu(compiled)).tobytes(), call
            assert given.tobytes() == CALLS[call](compiled).tobytes(), call
    for function, calls in ARRAY_CALLS.items():
        for each in calls:
            arrays, options = options_of(each)
            own = OnGpu(getattr(numeric_kernels, function), lambda array: to_gpu(library, array), to_host)
            packed = OnGpu(real[function], lambda array: to_gpu(library, array), to_host)
            for _ in range(3):
                assert packed(*arrays, **options).tobytes() == own(*arrays, **options).tobytes(), function


@pytest.mark.gpu
@pytest.mark.parametrize("what", WRONG_CALLS)
def test_errors_on_a_gpu(real: Any, what: str) -> None:
    torch = pytest.importorskip("torch")
    told = []
    for function in (real.__getitem__, compiled):
        with pytest.raises(Exception) as error:  # noqa: PT011  which one the compiler says
            WRONG_CALLS[what](lambda name, f=function: OnGpu(f(name), lambda a: to_gpu(torch, a), to_host))
        told.append((type(error.value), str(error.value)))
    assert told[0] == told[1]


@pytest.mark.gpu
def test_a_gpu_needs_no_compiler(tmp_path: Path) -> None:
    rows = np.zeros((3, 100), np.float32)
    functions = [*FUNCTIONS, kernels.softmax]
    digest = vyre.pack(tmp_path / "pack", functions, "sm_80,sm_90", {**SHAPES, "softmax": [(rows,)]})
    command = [sys.executable, "-c", USE, str(tmp_path / "pack"), digest]
    ran = subprocess.run(command, capture_output=True, text=True, env=dict(os.environ))
    assert ran.returncode == 0, ran.stderr
    print(ran.stdout)
