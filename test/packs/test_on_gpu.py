"""Packs run arrays on a GPU by PTX or machine code, without the compiler: same bits, same errors as what is compiled here."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.code_choices import forget_calls
from support.gpu_arrays import to_gpu, to_host
from support.packed_kernels import CALLS, FUNCTIONS, LEVEL, SHAPES, WRONG_CALLS
from support.packed_on_gpu import ARRAY_CALLS, PIPELINE, OnGpu, compiled, options_of

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.packs import load

Function = Callable[[str], Any]

INVOCATION = re.compile(r"index \d+|elements \([^)]*\) to \([^)]*\)|workgroup \([^)]*\) local id \([^)]*\)")

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
import atexit
atexit.register(driver.Context.pop)
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
def test_bits_on_a_gpu(real: Any, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
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
            forget_calls(monkeypatch)
            own = OnGpu(getattr(kernels, function), lambda array: to_gpu(library, array), to_host)
            packed = OnGpu(real[function], lambda array: to_gpu(library, array), to_host)
            for _ in range(3):
                assert packed(*arrays, **options).tobytes() == own(*arrays, **options).tobytes(), function


@pytest.mark.gpu
@pytest.mark.parametrize("what", [what for what in WRONG_CALLS if what != "read-only"])
def test_errors_on_a_gpu(real: Any, what: str) -> None:
    """Of several invocations at fault any may be the first, so which it is does not count."""
    torch = pytest.importorskip("torch")
    told = []
    for function in (real.__getitem__, compiled):
        with pytest.raises(Exception) as error:  # noqa: PT011  which one the compiler says
            WRONG_CALLS[what](lambda name, f=function: OnGpu(f(name), lambda a: to_gpu(torch, a), to_host))
        told.append((type(error.value), INVOCATION.sub("", str(error.value))))
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
