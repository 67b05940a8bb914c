"""Packs run arrays on a GPU as what is compiled here does, on a GPU in main memory (see test/stand_ins)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Fake, Numba, aligned, cupy, install, install_packs, numpy
from support.code_choices import forget_calls
from support.packed_kernels import CALLS, FUNCTIONS, LEVEL, SHAPES, WRONG_CALLS, random
from support.packed_on_gpu import ARRAY_CALLS, NUMBERS, PIPELINE, ROWS, OnGpu, compiled, options_of

import vyre_opt as vyre
from vyre_opt import kernels
from vyre_opt.driver import numeric_kernels
from vyre_opt.driver.planned_function import PlannedFunction
from vyre_opt.execution import BadInputs
from vyre_opt.packs import PackError, load
from vyre_opt.targets.cuda import device

Function = Callable[[str], Any]


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
