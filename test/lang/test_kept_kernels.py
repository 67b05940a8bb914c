"""What is kept from call to call is taken for equal calls only: not for another kernel, device, choice or kind of number."""

from __future__ import annotations

import importlib
import linecache
import random
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.quick import quick

import vyre_opt as vyre
from vyre_opt import BadInputs
from vyre_opt.execution import signatures
from vyre_opt.lang import Kernel, Read, ReadWrite, Write, f32, i32, u32
from vyre_opt.lang.tunable_call import shape_of
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher


def adder(number: int) -> Kernel:
    @vyre.program(workgroup=32)
    def add(x: ReadWrite[u32]) -> None:
        i = vyre.global_id(0)
        if i < len(x):
            x[i] = x[i] + number

    return add


class Adding:
    """Its kernel is a new one each time that somebody asks."""

    def __init__(self, number: int) -> None:
        self.number = number

    @property
    def kernel(self) -> Kernel:
        return adder(self.number)


one, ten, hundred = Adding(1), Adding(10), Adding(100)


@vyre.pipeline
def adding(x: ReadWrite[u32]) -> None:
    one.kernel[1](x)
    ten.kernel[1](x)
    hundred.kernel[1](x)


def test_kernels_that_expressions_make_are_different_ones() -> None:
    """Though the first is gone when the second is made, perhaps at its address."""
    x = np.arange(8, dtype=np.uint32)
    adding(x)
    assert x.tolist() == [n + 111 for n in range(8)]


def test_a_grid_that_equals_an_earlier_one_is_no_grid_if_it_is_of_another_kind() -> None:
    kernel, x = adder(1), np.zeros(4, np.uint32)
    for good, bad in ((1, (True, 1.0)), ((1, 1), ((True, 1), (1, 1.0)))):
        kernel[good](x)
        for grid in bad:
            with pytest.raises(BadInputs, match="a grid is counted in whole workgroups"):
                kernel[grid](x)
    kernel[np.int64(1)](x)
    kernel[[1, 1]](x)
    assert x.tolist() == [4] * 4


def test_a_dispatcher_of_a_kernel_need_have_no_hash() -> None:
    class Other(CpuDispatcher):
        __hash__ = None  # type: ignore[assignment]

    x = np.zeros(8, np.uint32)
    for _ in range(2):
        adder(1).options(target=Other())[1](x)
        adding.options(target=Other())(x)
    assert x.tolist() == [2 * 112] * 8


@vyre.tunable(by=(2, 0.0), rows=(1, 2))
def scaled(by: float, rows: int) -> Any:
    assert type(rows) is int

    @vyre.program(workgroup=32, grid=1)
    def scale(y: Write[f32]) -> None:
        for k in range(rows):
            y[vyre.local_id(0) * rows + k] = 1.0 / f32(by)

    return scale


def test_a_choice_is_that_of_the_space_that_equals_it() -> None:
    """Whichever comes first: 2.0 and True are the values 2 and 1 of the space, and -0.0 is its 0.0."""
    y = np.zeros(32, np.float32)
    for by, rows in ((-0.0, True), (0.0, 1)):
        scaled.at(by=by, rows=rows)(y)
        assert np.isposinf(y).all()
    assert scaled.at(by=2.0, rows=1.0) is scaled.at(by=2, rows=1)


def test_a_tuned_choice_is_for_its_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """Arrays of one library, sizes and types may be in main memory or on a GPU."""

    class Tensor:
        __module__ = "torch"
        dtype, shape, requires_grad = "torch.float32", (64,), False

        def __init__(self, device: int) -> None:
            self.is_cuda, self.number = device >= 0, device

        def get_device(self) -> int:
            return self.number

        def is_contiguous(self) -> bool:
            return True

        def is_neg(self) -> bool:
            return False

    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(Tensor=Tensor, is_grad_enabled=lambda: True))
    monkeypatch.setattr(Tensor, "__torch_dispatch__", None, raising=False)
    tunable = vyre.tunable(**scaled.variants.factors)(scaled.variants.factory)
    tuned = {"by": 0.0, "rows": 2}
    tunable._choices["cuda", shape_of((Tensor(0),))] = tuned
    default = tunable.variants.default
    for device, expected in ((-1, default), (0, tuned), (-1, default), (1, tuned)):
        assert tunable._config_for((Tensor(device),), {}) == expected


def test_a_signature_tells_what_a_call_in_place_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    """A tensor that requires a gradient is written by none, also while none is recorded."""
    core = SimpleNamespace(_are_functorch_transforms_active=lambda: False)
    recording = SimpleNamespace(is_grad_enabled=lambda: False, _C=core)
    monkeypatch.setitem(sys.modules, "torch", recording)

    def tensor(requires_grad: bool) -> Any:
        return SimpleNamespace(
            dtype="torch.float32",
            shape=(4,),
            requires_grad=requires_grad,
            get_device=lambda: -1,
            is_contiguous=lambda: True,
            is_neg=lambda: False,
        )

    found = {signatures._of_torch(tensor(False)), signatures._of_torch(tensor(True))}
    recording.is_grad_enabled = lambda: True
    found.add(signatures._of_torch(tensor(True)))
    assert len(found) == 3
    assert signatures._of_torch(tensor(False)) in found


ROWS = """vyre 2
program @p workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?, ?] write binding(1) live_out
  %i = global_id x
  %inside = lt %i, 4 : u32
  if %inside {
    %v = load @x[%i] : u32
    store %v, @y[%i, 0]
  }
}
"""


class Pair(tuple[int, int]):
    """As a named tuple is."""


def test_numbers_that_equal_those_of_an_earlier_call_are_checked() -> None:
    program, x = vyre.compile(ROWS, target="cpu"), np.arange(4, dtype=np.uint32)
    grids: list[Any] = [1, (1, 1), Pair((1, 1))]
    for grid in grids:
        y = program([x], grid, lengths={"y": (4, 1)})["y"]
        assert y.tolist() == x.reshape(4, 1).tolist()

    def refused(case: tuple[Any, Any]) -> None:
        with pytest.raises(BadInputs):
            program([x], case[0], lengths={"y": case[1]})

    bad = [True, 1.0, (True, 1), Pair((1, True)), Pair((1.0, 1))]
    each(
        [*[(grid, (4, 1)) for grid in bad], *[(g, n) for g in grids for n in ((4, True), (4.0, 1))]], refused
    )


def test_a_line_of_python_is_that_of_the_file_as_it_is_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "from vyre_opt.ir.builder import Builder\ndef built():\n    return Builder('p', 32).buffer('x', 'f32', 4, 'read', 0)\n"
    path = tmp_path / "kept_lines.py"
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    path.write_text(text)
    module = importlib.import_module("kept_lines")
    for indent in ("", " "):
        path.write_text(text.replace("'p'", f"'p'{indent * 7}"))
        linecache.checkcache()
        importlib.reload(module)
        loc = module.built().loc
        assert loc.source.text[loc.start : loc.end] == path.read_text().splitlines()[2].strip()


@vyre.pipeline
def doubled(x: Read[u32], y: Write[u32]) -> None:
    twice[vyre.ceil_div(len(x), 32)](x, y)


@vyre.program(workgroup=32)
def twice(x: Read[u32], y: Write[u32]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        y[i] = 2 * x[i]


def test_a_pipeline_takes_arrays_of_each_length_and_layout() -> None:
    """Bit by bit against NumPy: lengths that are swapped, strides, byte orders, arrays of which one is a part."""
    base = np.arange(96, dtype=np.uint32)
    arrays = [base[:40], base[:80:2], base[::-1][:40], base[:33], base[:40].astype(">u4"), base[:40].copy()]
    for _ in range(3):
        for x in arrays:
            y = np.zeros(len(x), np.uint32)
            doubled(x, y)
            assert np.array_equal(y, 2 * x)


def make() -> tuple[Any, Any]:
    """A program and a pipeline that nobody has called."""

    @vyre.program(workgroup=32)
    def divide(x: Read[f32], y: ReadWrite[f32], by: f32, n: i32) -> None:
        i = vyre.global_id(0)
        if i < len(x) and i < len(y):
            y[i] = y[i] + x[i] / by + f32(n)

    @vyre.pipeline
    def twice_divided(x: Read[f32], y: ReadWrite[f32], by: f32, g: u32) -> None:
        divide[g](x, y, by, 1)
        divide[vyre.ceil_div(len(y), 32)](x, y, 1.0, 2)

    return divide, twice_divided


NUMBERS: list[Any] = [
    2,
    True,
    1.0,
    -0.0,
    0.0,
    np.float32(3),
    np.int8(-3),
    np.array(2.0),
    float("nan"),
    "a",
    2**31,
]
GRIDS: list[Any] = [
    1,
    2,
    True,
    1.0,
    (1,),
    (1, 1, 1),
    (1.0, 1),
    (2, True),
    np.int64(2),
    [1, 1],
    0,
    -1,
    "1",
    None,
]
ARRAYS: list[Any] = [
    lambda a, n: a[:n],
    lambda a, n: a[: 2 * n : 2],
    lambda a, n: a[::-1][:n],
    lambda a, n: a[:n].astype(">f4"),
    lambda a, n: a[:n].astype(np.float64),
    lambda a, n: a[:n].view(np.uint32),
    lambda a, n: a[:n].reshape(1, n),
    lambda a, n: a[:n].tolist(),
    lambda a, n: memoryview(a[:n]),  # type: ignore[arg-type]
    lambda a, n: np.ma.masked_array(a[:n]),
    lambda a, n: np.lib.stride_tricks.as_strided(a, (n,), (0,)),
    lambda a, n: np.frombuffer(a[:n].tobytes(), np.float32),
    lambda a, n: np.frombuffer(bytearray(b"0" + a[:n].tobytes()), np.uint8)[1:].view(np.float32),
]


@pytest.mark.parametrize("seed", quick(range(40), keep=1))
def test_a_call_is_what_it_would_be_as_the_first(seed: int) -> None:
    """Results bit by bit, and messages, of one kernel that is called again and again, and of a new one for each call."""
    rng = random.Random(seed)
    kept = make()
    kinds: set[bool] = set()

    def pick(usual: Any, all_of_them: list[Any]) -> Any:
        return usual if rng.random() < 0.6 else rng.choice(all_of_them)

    for _ in range(60):
        layouts, counts = [pick(ARRAYS[0], ARRAYS) for _ in "xy"], [rng.choice([4, 8, 33]) for _ in "xy"]
        overlap = rng.choice([None, None, None, 0, 1, 40])
        by, number = pick(rng.choice([2.0, 0.0, -0.0]), NUMBERS), pick(rng.choice([1, 2]), NUMBERS)
        grid, is_pipeline = pick(rng.choice([1, 2]), GRIDS), rng.random() < 0.5
        found = []
        for program, pipeline in (kept, make()):
            x, y = (np.arange(1, 100, dtype=np.float32) for _ in "xy")
            if overlap is not None:
                y = x[overlap:]
            arrays = [layout(a, n) for layout, a, n in zip(layouts, (x, y), counts, strict=True)]
            try:
                (pipeline if is_pipeline else program[grid])(*arrays, by, number)
                found.append([np.asarray(array).tobytes() for array in arrays])
            except Exception as error:
                found.append([type(error), str(error)])
        assert found[0] == found[1]
        kinds.add(type(found[0][0]) is bytes)
    assert len(kinds) == 2, "calls of both kinds"
