"""The array functions on GPU arrays, without a GPU: who allocates what where, and what is refused.

The driver is a stand-in (see test/stand_ins); all between the array functions and it is real.
"""

from __future__ import annotations

import base64
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Fake, Numba, aligned, cupy, numpy

import vyre_opt
from vyre_opt import BadInputs, ProgramError, dispatcher, kernels
from vyre_opt.execution import OutputAlloc
from vyre_opt.ir import AccessMode
from vyre_opt.targets.cuda import DeviceArray

# --- what comes back

rng = np.random.default_rng(7)
CORES = [rng.standard_normal(s).astype(np.float32) for s in ((3, 1, 2, 4), (4, 4, 2, 1))]
MATRICES = [rng.integers(0, 9, s, np.uint32) << 15 for s in ((5, 4), (4, 7))]
STACKS = [rng.integers(-9, 9, s).astype(np.float32) for s in ((2, 1, 5, 7), (3, 7, 4))]
NUMBERS = rng.integers(0, 1 << 20, (4, 6), np.uint32)
TEXT = np.frombuffer(base64.b64encode(bytes(range(100))), np.uint8)
CALLS: dict[str, Any] = {
    "softmax": lambda put: kernels.softmax(put(CORES[0])),
    "softmax of f16": lambda put: kernels.softmax(put(CORES[0].astype(np.float16))),
    "softmax of bf16 bits": lambda put: kernels.softmax(
        put(CORES[0].view(np.uint16)[..., 1::2].copy()), dtype="bf16"
    ),
    "softmax_step": lambda put: kernels.softmax_step(put(NUMBERS)),
    "softmax_step of i64": lambda put: kernels.softmax_step(put(NUMBERS.astype(np.int64))),
    "prefix_scan": lambda put: kernels.prefix_scan(put(NUMBERS)),
    "matvec_fixed": lambda put: kernels.matvec_fixed(put(MATRICES[0]), put(MATRICES[1][:, 0].copy())),
    "matmul of stacks that broadcast": lambda put: kernels.matmul(put(STACKS[0]), put(STACKS[1])),
    "matmul of a stack on the right": lambda put: kernels.matmul(put(STACKS[0][0, 0]), put(STACKS[1])),
    "tt_contract_step": lambda put: kernels.tt_contract_step(put(NUMBERS[0]), put(NUMBERS[:3].reshape(6, 3))),
    "tt_chain": lambda put: kernels.tt_chain(put(NUMBERS[0][:5].copy()), [put(m) for m in MATRICES]),
    "tt_embedding": lambda put: kernels.tt_embedding(
        [put(c) for c in CORES], put(np.array([[0, 11], [5, 5]]))
    ),
    "tt_embedding of u32": lambda put: kernels.tt_embedding(
        [put(c) for c in CORES], put(np.array([7], np.uint32))
    ),
    "base64_decode": lambda put: kernels.base64_decode(put(TEXT)),
    "hex_decode": lambda put: kernels.hex_decode(put(np.frombuffer(b"00fFa7", np.uint8))),
}
EMPTY: dict[str, Any] = {
    "softmax": lambda put: kernels.softmax(put(np.zeros((3, 0), np.float32))),
    "softmax_step": lambda put: kernels.softmax_step(put(np.zeros((0, 2), np.int64))),
    "prefix_scan": lambda put: kernels.prefix_scan(put(np.zeros(0, np.float32))),
    "matvec_fixed": lambda put: kernels.matvec_fixed(
        put(np.zeros((0, 2), np.uint32)), put(NUMBERS[0][:2].copy())
    ),
    "tt_embedding": lambda put: kernels.tt_embedding(
        [put(c) for c in CORES], put(np.zeros((2, 0), np.uint32))
    ),
    "base64_decode": lambda put: kernels.base64_decode(put(np.zeros(0, np.uint8))),
    "hex_decode": lambda put: kernels.hex_decode(put(np.frombuffer(b"", np.uint8))),
}


@pytest.mark.parametrize("name", [*CALLS, *(f"empty {name}" for name in EMPTY)])
@pytest.mark.parametrize("kind", [CupyArray, Numba])
def test_results_are_of_the_kind_of_the_arrays(gpu: Fake, kind: type, name: str) -> None:
    """As NumPy arrays give, in the same shape and type, on the GPU, by the same programs."""
    call = EMPTY[name[6:]] if name.startswith("empty ") else CALLS[name]
    expected = call(lambda array: array)
    uploads: list[tuple[np.ndarray, np.ndarray]] = []

    def put(array: np.ndarray) -> Any:
        there = aligned(array)
        uploads.append((there, there.copy()))
        return kind(there)

    result = call(put)
    assert type(result) is (CupyArray if kind is CupyArray else DeviceArray)
    assert result.shape == expected.shape
    assert result.dtype == expected.dtype
    assert np.allclose(numpy(result).astype(np.float64), expected.astype(np.float64), rtol=1e-5)
    assert all(np.array_equal(now, before, equal_nan=True) for now, before in uploads)
    assert bool(gpu.programs) == (name in CALLS)


def test_nothing_but_a_length_or_a_limit_goes_through_the_host(gpu: Fake) -> None:
    """No array is copied: base64 asks for its last two characters, numbers that are checked have a limit."""
    allowed = {"base64_decode": 2, "softmax_step of i64": 8}
    for name, call in CALLS.items():
        gpu.gpu.cuda.copied = 0
        call(lambda array: CupyArray(aligned(array)))
        assert gpu.gpu.cuda.copied == allowed.get(name, 0), name


@pytest.mark.parametrize("shape", [(2, 70_001), (8, 66_000), (100, 64), (5, 11), (1, 1)])
def test_rows_that_workgroups_share_get_cleared_words(gpu: Fake, shape: tuple[int, int]) -> None:
    """By the schedule of this GPU, call after call; rows that a workgroup has alone need none."""
    draw = np.random.default_rng(shape[0])
    m, x = (draw.integers(0, 1 << 32, size, np.uint32) for size in (shape, shape[1]))
    products = m.view(np.int32).astype(np.int64) * x.view(np.int32)
    for _ in range(2):
        sums = kernels.matvec_fixed(cupy(m), cupy(x))
        assert np.array_equal(numpy(sums), ((products >> 16).sum(1) % 2**32).astype(np.uint32))
    assert ("sums" in gpu.programs[-1].buffers) == (shape[1] > 60_000)


def test_a_long_scan_gets_cleared_storage(gpu: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    """The look-back needs zeros: memory that nobody cleared would be read as finished tiles."""
    from vyre_opt.driver import numeric_kernels as arrays
    from vyre_opt.driver.planned_function import PlannedFunction
    from vyre_opt.kernels import scan

    look_back = scan.ScanSchedule(32, 1, 1)
    unplanned = PlannedFunction("prefix_scan", arrays._prefix_scan.plan, arrays._prefix_scan.take)
    monkeypatch.setattr(arrays, "_prefix_scan", unplanned)
    monkeypatch.setattr(scan, "prefix_schedule", lambda *_, **rest: look_back)
    for _ in range(2):
        sums = kernels.prefix_scan(cupy(NUMBERS))
        assert np.array_equal(sums.array, np.cumsum(NUMBERS, dtype=np.uint32).reshape(NUMBERS.shape))
    assert any(b.name == "state" for b in gpu.programs[-1].bound_buffers)


def test_arrays_that_are_not_contiguous(gpu: Fake) -> None:
    """The library copies them where it can, else the dispatcher does, which also copies a view at an odd place."""
    x = rng.standard_normal((6, 4)).astype(np.float32)
    expected = kernels.softmax(x.T.copy())
    assert np.allclose(kernels.softmax(CupyArray(aligned(x).T)).array, expected)
    assert np.allclose(kernels.softmax(CupyArray(aligned(x)[1:])).array, kernels.softmax(x[1:]))
    assert np.allclose(kernels.softmax(Numba(aligned(x).T)).to_host(), expected)


X = np.ones((2, 3), np.float32)
REFUSED: dict[str, tuple[Any, str]] = {
    "two sides": (
        lambda: kernels.tt_chain(cupy(np.ones(2, np.float32)), [X]),
        "core 0 is not on the GPU, acc is; pass all arrays on one side",
    ),
    "the cpu by name": (
        lambda: kernels.softmax(cupy(X), dispatcher="cpu"),
        "x is on the GPU, where cpu does not run",
    ),
    "ref": (lambda: kernels.softmax(cupy(X), dispatcher=dispatcher("ref")), "where ref does not run"),
    "a wrong type": (lambda: kernels.softmax(cupy(X.astype(int))), "x holds f32, f16, bf16, not int64"),
    "text of floats": (lambda: kernels.hex_decode(cupy(X)), "an array of uint8, not of float32"),
    "numbers that are none": (lambda: kernels.softmax_step(cupy(X)), "x holds float32, not integers"),
    "a negative number": (
        lambda: kernels.softmax_step(cupy(np.array([3, -1]))),
        "x: number out of range is not a u32",
    ),
    "a large number": (
        lambda: kernels.softmax_step(cupy(np.array([1 << 32]))),
        "x: number out of range is not a u32",
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_refused(gpu: Fake, case: str) -> None:
    call, said = REFUSED[case]
    with pytest.raises(BadInputs) as caught:
        call()
    assert said in str(caught.value)


def test_an_index_out_of_range_is_a_fault(gpu: Fake) -> None:
    table = kernels.TTTable([cupy(core) for core in CORES])
    assert (table.rows, table.columns) == (12, 4)
    for wrong in (12, 1 << 31):
        table(cupy(np.array([3, wrong], np.uint32)))
        with pytest.raises(ProgramError, match="trap: an index is out of range: the table has 12 rows"):
            gpu.synchronize()
    whole = numpy(table(cupy(np.arange(12)))).reshape(12, 4)
    assert np.allclose(numpy(table(cupy(np.array([[3], [11]])))), whole[[[3], [11]]])


def test_a_dispatcher_of_the_caller(gpu: Fake) -> None:
    """It is used, by name too; host arrays go to it through the host."""
    mine = Fake(gpu.gpu, bounds="none")
    kernels.softmax(cupy(X), dispatcher=mine)
    assert (len(mine.programs), len(gpu.programs)) == (1, 0)
    kernels.softmax(cupy(X), dispatcher="cuda")
    assert len(gpu.programs) == 1


# --- the dispatcher and `run` beneath

SCALE = """vyre 1
program @scale workgroup(4) grid(2) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  buffer @n : vec<2 x u16>[8] write binding(2)
  %g = global_id x
  %v = load @x[%g] : f32
  %r = add %v, %v : f32
  store %r, @y[%g] : f32
  %k = cast %g : u32 -> u16
  %s = splat %k : vec<2 x u16>
  store %s, @n[%g] : vec<2 x u16>
}
"""


def test_output_alloc_on_the_gpu(gpu: Fake) -> None:
    """The output for an OutputAlloc is like the first array; a launch in place takes none."""
    program = vyre_opt.parse(SCALE).programs["scale"]
    x = cupy(np.arange(8, dtype=np.float32))
    y, n = gpu.dispatch(program, [x, OutputAlloc(8), OutputAlloc(8)])
    assert (type(y), y.dtype, y.shape) == (CupyArray, np.float32, (8,))
    assert (type(n), n.dtype, n.shape) == (CupyArray, np.uint16, (8, 2))
    assert np.array_equal(y.array, 2 * x.array)
    assert n.array[:, 1].tolist() == list(range(8))
    for alloc, said in (
        (OutputAlloc(-1), "room for -1 elements"),
        (OutputAlloc(True), "room for True elements"),
    ):
        with pytest.raises(BadInputs, match=said):
            gpu.dispatch(program, [x, alloc, OutputAlloc(8)])
    with pytest.raises(BadInputs, match="7 elements given, the program declares 8"):
        gpu.dispatch(program, [x, OutputAlloc(8), OutputAlloc(7)])
    with pytest.raises(BadInputs, match="pass an array"):
        gpu.dispatch(program, [OutputAlloc(8), x, OutputAlloc(8)])
    with pytest.raises(BadInputs, match="launch takes arrays on the GPU"):
        gpu.bind(program, [x, OutputAlloc(8), OutputAlloc(8)])
    assert [b.access for b in program.bound_buffers] == [AccessMode.READ, AccessMode.WRITE, AccessMode.WRITE]


def test_run_on_the_gpu(gpu: Fake) -> None:
    """`vyre_opt.run` finds the GPU by the arrays; what is given for an output is not written."""
    x = cupy(np.arange(8, dtype=np.float32))
    outputs = vyre_opt.run(SCALE, [x], target="cuda", lengths={"y": 8})
    assert {name: type(array) for name, array in outputs.items()} == {"y": CupyArray, "n": CupyArray}
    assert np.array_equal(outputs["y"].array, 2 * x.array)
    template = cupy(np.full((2, 5), 9.0, np.float32))
    y = vyre_opt.run(SCALE, {"x": x, "y": template}, target=gpu)["y"]
    assert y.array.tolist() == [[0, 2, 4, 6, 8], [10, 12, 14, 9, 9]]
    assert (template.array == 9).all()
    with pytest.raises(BadInputs, match="y is not on the GPU, x is"):
        vyre_opt.run(SCALE, {"x": x, "y": np.zeros(8, np.float32)}, target="cuda")
    with pytest.raises(BadInputs, match="x is on the GPU, where cpu does not run"):
        vyre_opt.run(SCALE, {"x": x}, lengths={"y": 8})
