"""Calls that share a plan: the same results as without one, and nothing of a caller's array in the plan."""

from __future__ import annotations

import gc
import sys
import threading
import weakref
from collections import OrderedDict
from typing import Any

import numpy as np
import pytest
from support.quick import quick

import vyre_opt
from vyre_opt import BadInputs, ProgramError, dispatcher, kernels
from vyre_opt.driver import numeric_kernels, planned_function, plans
from vyre_opt.driver.planned_function import PlannedFunction
from vyre_opt.driver.plans import MAX_PLANS
from vyre_opt.execution.bound_call import BoundCall
from vyre_opt.targets.cpu import compiler
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

RNG = np.random.default_rng(5)


@pytest.fixture
def scan(monkeypatch: pytest.MonkeyPatch) -> PlannedFunction:
    """The function behind kernels.prefix_scan, without plans."""
    function = PlannedFunction(
        "prefix_scan", numeric_kernels._prefix_scan.plan, numeric_kernels._prefix_scan.take
    )
    monkeypatch.setattr(numeric_kernels, "_prefix_scan", function)
    return function


@pytest.mark.parametrize("count", [1, 7, 1000, 300_000])
@pytest.mark.parametrize("dtype", [np.uint32, np.int32, np.float32])
def test_later_calls_are_right(count: int, dtype: Any) -> None:
    for _ in range(4):
        x = RNG.integers(0, 100, count).astype(dtype)
        y = kernels.prefix_scan(x)
        np.testing.assert_allclose(y, np.cumsum(x.astype(np.int64)), rtol=1e-5)
        assert y.dtype == dtype


def test_like_calls_share_a_plan(scan: PlannedFunction) -> None:
    for count in (100, 200, 100, 200, 100):
        kernels.prefix_scan(np.ones(count, np.uint32))
    assert len(scan._bound) == 2
    kernels.prefix_scan(np.ones((10, 10), np.uint32))
    kernels.prefix_scan(np.ones(100, np.float32))
    kernels.prefix_scan(np.ones(100, np.uint32), dispatcher="cpu")
    assert len(scan._bound) == 5


def test_a_plan_keeps_no_array(scan: PlannedFunction) -> None:
    x = np.ones(1 << 19, np.uint32)
    references = [weakref.ref(x), *(weakref.ref(kernels.prefix_scan(x)) for _ in range(3))]
    del x
    gc.collect()
    assert [reference() for reference in references] == [None] * 4


def test_plans_are_bounded(scan: PlannedFunction, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plans, "MAX_PLANS", 3)
    for count in range(1, 9):
        kernels.prefix_scan(np.ones(count, np.uint32))
    assert len(scan._bound) == len(scan._calls) == 3 < MAX_PLANS


def test_arrays_that_no_plan_fits() -> None:
    """Sequences, other byte orders, strides, what is not aligned, read-only memory: each as it is, before and after."""
    x = RNG.integers(0, 1000, 64).astype(np.uint32)
    raw = np.zeros(64 * 4 + 1, np.uint8)
    unaligned = raw[1:].view(np.uint32)
    unaligned[:] = x
    fixed = x.copy()
    fixed.flags.writeable = False
    expected = np.cumsum(x, dtype=np.uint32)
    for _ in range(3):
        for array in (x, x.astype(">u4"), np.repeat(x, 2)[::2], unaligned, fixed):
            np.testing.assert_array_equal(kernels.prefix_scan(array), expected)
        np.testing.assert_array_equal(kernels.softmax_step(list(map(int, x))), kernels.softmax_step(x))
        np.testing.assert_array_equal(kernels.softmax_step(x.astype(np.int64)), kernels.softmax_step(x))


def test_threads_share_a_plan() -> None:
    x = RNG.integers(0, 1000, 5000).astype(np.uint32)
    expected = np.cumsum(x, dtype=np.uint32)
    wrong: list[int] = []

    def work(number: int) -> None:
        results = (kernels.prefix_scan(x + np.uint32(0)) for _ in range(200))
        wrong.extend(number for result in results if not np.array_equal(result, expected))

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []


# --- out=


def test_out_gets_the_result() -> None:
    x = RNG.normal(size=(5, 33)).astype(np.float32)
    expected = kernels.softmax(x)
    out = np.zeros_like(x)
    for _ in range(3):
        out[:] = 0
        assert kernels.softmax(x, out=out) is out
        np.testing.assert_array_equal(out, expected)


def test_out_may_be_an_input_or_strided() -> None:
    x = RNG.integers(0, 100, (8, 8)).astype(np.uint32)
    expected = kernels.prefix_scan(x)
    for _ in range(3):
        same = x.copy()
        assert kernels.prefix_scan(same, out=same) is same
        np.testing.assert_array_equal(same, expected)
        wide = np.zeros((8, 16), np.uint32)
        kernels.prefix_scan(x, out=wide[:, ::2])
        np.testing.assert_array_equal(wide[:, ::2], expected)
        assert not wide[:, 1::2].any()
        memory = np.zeros(100, np.uint32)
        memory[:64] = x.reshape(-1)
        kernels.prefix_scan(memory[:64].reshape(8, 8), out=memory[30:94].reshape(8, 8))
        np.testing.assert_array_equal(memory[30:94].reshape(8, 8), expected)


@pytest.mark.parametrize(
    ("out", "message"),
    [
        (np.zeros(64, np.uint32), r"out has shape \(64,\) of uint32, the result \(8, 8\) of uint32"),
        (np.zeros((8, 8), np.int32), r"of int32, the result \(8, 8\) of uint32"),
        ([0] * 64, "out is list, the result ndarray"),
    ],
)
def test_out_that_does_not_fit(out: Any, message: str) -> None:
    x = np.ones((8, 8), np.uint32)
    for _ in range(2):
        with pytest.raises(BadInputs, match=message):
            kernels.prefix_scan(x, out=out)


# --- compiled programs

INCREMENT = """vyre 1
program @increment workgroup(4) {
  buffer @x : u32[?] read binding(0)
  buffer @total : u32[?] read_write binding(1) live_in live_out
  buffer @y : vec<2 x u32>[?] write binding(2) live_out
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : u32
    %t = load @total[%i] : u32
    %s = add %v, %t : u32
    store %s, @total[%i] : u32
    %pair = splat %v : vec<2 x u32>
    store %pair, @y[%i] : vec<2 x u32>
  }
}
"""


def test_a_program_that_writes_its_inputs_gets_copies() -> None:
    program = vyre_opt.compile(INCREMENT)
    for count in (8, 16, 8, 16, 8):
        x, total = (RNG.integers(0, 100, count).astype(np.uint32) for _ in range(2))
        before = total.copy()
        for inputs in ({"x": x, "@total": total}, [x, total]):
            outputs = program(inputs, grid=count // 4, lengths={"y": count})
            np.testing.assert_array_equal(outputs["total"], x + total)
            np.testing.assert_array_equal(outputs["y"], np.stack([x, x], axis=1))
            np.testing.assert_array_equal(total, before)
    assert len(program._bound) == 4  # type: ignore[union-attr]


def test_another_grid_or_length_is_another_plan() -> None:
    program = vyre_opt.compile(INCREMENT)
    x = np.arange(8, dtype=np.uint32)
    for _ in range(2):
        for grid in (1, 2):
            for length in (8, 9):
                outputs = program([x, x], grid=grid, lengths={"y": length})
                assert outputs["y"].shape == (length, 2)
                np.testing.assert_array_equal(outputs["total"][: 4 * grid], 2 * x[: 4 * grid])
                np.testing.assert_array_equal(outputs["total"][4 * grid :], x[4 * grid :])
    with pytest.raises(BadInputs, match="does not fix its grid"):
        program([x, x], lengths={"y": 8})
    with pytest.raises(BadInputs, match="no bound buffer @z"):
        program({"x": x, "z": x}, grid=2, lengths={"y": 8})


def test_a_fault_of_a_planned_call_is_the_programs() -> None:
    program = vyre_opt.compile(INCREMENT.replace("if %inside {", "%yes = ge %n, %n : u32\n  if %yes {"))
    x = np.arange(8, dtype=np.uint32)
    program([x, x], grid=2, lengths={"y": 8})
    for _ in range(3):
        with pytest.raises(ProgramError, match="index 8, length 8, by workgroup"):
            program([x, x], grid=3, lengths={"y": 8})
    outputs = program([x, x], grid=2, lengths={"y": 8})
    np.testing.assert_array_equal(outputs["total"], 2 * x)


def test_other_dispatchers_have_no_plans() -> None:
    """ref runs as it always does."""
    ref = dispatcher("ref")
    x = np.arange(8, dtype=np.uint32)
    for _ in range(2):
        np.testing.assert_array_equal(kernels.prefix_scan(x, dispatcher=ref), np.cumsum(x))


# --- what a plan is not for


@pytest.mark.parametrize("calls", [1, 3])
def test_a_name_with_and_without_its_sign_is_refused(calls: int) -> None:
    program = vyre_opt.compile(INCREMENT)
    x = np.arange(8, dtype=np.uint32)
    for _ in range(calls):
        program({"x": x, "@total": x}, grid=2, lengths={"y": 8})
        with pytest.raises(BadInputs, match="@x is passed twice, with and without @"):
            program({"x": x, "@x": x, "total": x}, grid=2, lengths={"y": 8})
        with pytest.raises(BadInputs, match="@y is passed twice"):
            program([x, x], grid=2, lengths={"y": 8, "@y": 9})


@pytest.mark.parametrize(
    ("inputs", "grid", "length"),
    [
        (None, 2.0, 8),
        (None, True, 8),
        (None, (2.0, 1, 1), 8),
        (None, np.array(2), 8),
        (None, 2, 8.0),
        (None, 2, np.float32(8)),
        ("array", 2, 8),
        ("generator", 2, 8),
        ("number as a name", 2, 8),
    ],
)
def test_what_is_refused_at_first_is_refused_later(inputs: str | None, grid: Any, length: Any) -> None:
    """Numbers that equal others share no plan with them; nor do arrays and iterators with lists."""
    program = vyre_opt.compile(INCREMENT)
    x = np.arange(8, dtype=np.uint32)
    for _ in range(3):
        wrong: Any = {
            None: [x, x],
            "array": np.stack([x, x]),
            "generator": (array for array in (x, x)),
            "number as a name": {1: x, "total": x},
        }[inputs]
        with pytest.raises(BadInputs):
            program(wrong, grid=grid, lengths={"y": length})
        program([x, x], grid=2, lengths={"y": 8})
        program([x, x], grid=(2, 1, 1), lengths={"y": 8})
        program([x, x], grid=1, lengths={"y": 8})


def test_options_and_outputs_of_wrong_kinds_are_refused() -> None:
    x = np.ones((4, 4), np.float32)
    fixed = np.zeros_like(x)
    fixed.flags.writeable = False
    for _ in range(2):
        with pytest.raises(BadInputs, match="out is read-only"):
            kernels.softmax(x, out=fixed)
        with pytest.raises(BadInputs, match="an option is of no type"):
            kernels.softmax(x, dtype=["f16"])  # type: ignore[arg-type]
        with pytest.raises(BadInputs, match="not a dispatcher"):
            kernels.softmax(x, dispatcher=3)  # type: ignore[arg-type]
        assert kernels.prefix_scan(np.uint32(4)).tolist() == 4
        assert kernels.tt_chain(x[0], (core for core in (x, x))).tolist() == [16] * 4  # type: ignore[arg-type]


PIPELINE = """vyre 1
program @copy workgroup(4) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : u32
    store %v, @y[%i] : u32
  }
}
pipeline @main {
  buffer @x : u32[?] read
  buffer @y : u32[?] write
  launch @copy grid(ceil_div(len(@x), 4)) (@x, @y)
}
"""


def test_threads_share_a_pipeline_of_many_lengths() -> None:
    pipeline = vyre_opt.compile(PIPELINE)
    errors: list[object] = []

    def work(first: int) -> None:
        try:
            for count in range(first, first + 40):
                x = np.arange(count, dtype=np.uint32)
                if not np.array_equal(pipeline([x], lengths={"y": count})["y"], x):
                    errors.append(count)
        except Exception as error:
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(first,)) for first in (1, 11, 21, 31)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []


# --- code for one length, and for all


@pytest.fixture
def cpu(monkeypatch: pytest.MonkeyPatch) -> CpuDispatcher:
    """A dispatcher that finds no code, in its process or on disk."""
    monkeypatch.setattr(compiler, "_LOADED", OrderedDict())
    return CpuDispatcher(cache=False)


@pytest.fixture
def softmax(monkeypatch: pytest.MonkeyPatch) -> PlannedFunction:
    """The function behind kernels.softmax, as in a new process."""
    known = numeric_kernels._softmax
    function = PlannedFunction(known.name, known.plan, known.take)
    monkeypatch.setattr(numeric_kernels, "_softmax", function)
    return function


def check_softmax(cpu: CpuDispatcher, rows: int, columns: int, dtype: Any = np.float32) -> None:
    x = (RNG.standard_normal((rows, columns)) * 4).astype(dtype)
    powers = np.exp(x.astype(np.float64) - x.max(axis=1, keepdims=True))
    expected = powers / powers.sum(axis=1, keepdims=True)
    rtol = 1e-5 if dtype is np.float32 else 2e-3
    for out in (None, np.empty_like(x)):
        y = kernels.softmax(x, out=out, dispatcher=cpu)
        np.testing.assert_allclose(y, expected, rtol=rtol, atol=1e-7)


@pytest.mark.parametrize("dtype", quick([np.float32, np.float16]))
def test_twenty_widths_in_turn_share_code(softmax: PlannedFunction, cpu: CpuDispatcher, dtype: Any) -> None:
    for _ in range(3):
        for columns in (*range(3, 13), 17, 31, 64, 100, 255, 1000, 1001, 5000, 33_000, 50_257):
            check_softmax(cpu, 3, columns, dtype)
    assert len(cpu.compilations) <= 3


def test_a_width_that_comes_often_gets_its_own_code(softmax: PlannedFunction, cpu: CpuDispatcher) -> None:
    for columns in (48, 49):
        for _ in range(12):
            check_softmax(cpu, 5, columns)
    assert len(cpu.compilations) == 3, "that of 48, the general one, that of 49"
    for _ in range(planned_function.CALLS_IN_ALL + 2):
        for columns in (50, 51):
            kernels.softmax(np.ones((2, columns), np.float32), dispatcher=cpu)
    assert len(cpu.compilations) == 5
    check_softmax(cpu, 7, 51)


def test_pattern_lengths_share_code(cpu: CpuDispatcher) -> None:
    text = b"the quick brown fox jumps over the lazy dog " * 30
    for length in range(1, 21):
        word = text[7 : 7 + length]
        expected = [(k + length - 1, 0) for k in range(len(text)) if text.startswith(word, k)]
        assert kernels.decode_scan(text, [word], "raw", dispatcher=cpu) == expected
    # two walks, a filter, and looks at every second byte, every third, and so on up to every eighth
    assert len(cpu.compilations) <= 10


def test_lengths_of_a_pipeline_share_code(cpu: CpuDispatcher) -> None:
    scan = vyre_opt.compile(
        """vyre 1
        pipeline @main {
          buffer @x : u32[?] read
          buffer @sums : u32[?] write live_out
          scan.prefix(@x, @sums)
        }
        """,
        target=cpu,
    )
    for count in range(1000, 21_000, 1000):
        x = RNG.integers(0, 100, count).astype(np.uint32)
        np.testing.assert_array_equal(scan({"x": x}, lengths={"sums": count})["sums"], np.cumsum(x))
    assert len(cpu.compilations) <= 3


def test_no_code_is_made_while_a_graph_is_recorded(
    softmax: PlannedFunction, cpu: CpuDispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A length that is due gets its code by the first call after that."""
    x = np.ones((4, 90), np.float32)
    kernels.softmax(np.ones((4, 80), np.float32), dispatcher=cpu)
    with monkeypatch.context() as recording:
        recording.setattr(BoundCall, "may_plan", lambda call: False)
        for _ in range(20):
            kernels.softmax(x, dispatcher=cpu)
        assert len(cpu.compilations) == 2
    kernels.softmax(x, dispatcher=cpu)
    assert len(cpu.compilations) == 3


def test_arrays_of_no_dimensions_keep_them() -> None:
    cores = [np.ones((3, 1, 2, 2), np.float32), np.ones((3, 2, 2, 1), np.float32)]
    for _ in range(3):
        assert kernels.softmax(np.array(1, np.float32)).shape == ()
        assert kernels.prefix_scan(np.array(7, np.uint32)).shape == ()
        for index in (5, np.int64(5), np.array(5)):
            assert kernels.tt_embedding(cores, index).shape == (4,)
            assert kernels.TTTable(cores)(index).shape == (4,)
        out = np.array(0, np.float32)
        assert kernels.softmax(np.array(3, np.float32), out=out) is out
        assert out == 1


@pytest.mark.parametrize(
    "call",
    [
        lambda x: kernels.decode_scan(b"a", [2], "raw"),
        lambda x: kernels.decode_scan(b"a", [None], "raw"),
        lambda x: kernels.decode_scan(b"a", None, "raw"),
        lambda x: kernels.decode_scan(b"a", [b"a"], {}),
        lambda x: kernels.decode_scan(b"a", [np.array([98])], "raw"),
        lambda x: kernels.tt_chain(x, None),
        lambda x: kernels.tt_embedding(3, [0]),
        lambda x: kernels.tt_embedding([x.reshape(2, 1, 1, 2), x.reshape(2, 2, 1, 1)], [0], dispatcher=[]),
        lambda x: kernels.TTTable(None),
        lambda x: kernels.softmax(x, dispatcher=[]),
        lambda x: kernels.softmax(x, dispatcher=""),
        lambda x: kernels.softmax(x, dispatcher=x),
        lambda x: kernels.softmax(x, dtype=""),
        lambda x: kernels.softmax(x[:0], dtype="bf16"),
        lambda x: kernels.tt_embedding([x.reshape(1, 1, 2, 2), x.reshape(2, 2, 1, 1)], [0], dtype=[]),
        lambda x: kernels.TTTable([x.reshape(1, 1, 2, 2), x.reshape(2, 2, 1, 1)], dtype=np.zeros(3)),
        lambda x: kernels.tt_embedding([x[:0].reshape(0, 1, 2, 2), x.reshape(1, 2, 2, 1)], [0]),
    ],
)
def test_what_is_no_list_no_pattern_and_no_target(call: Any) -> None:
    with pytest.raises(BadInputs):
        call(np.ones(4, np.float32))


def test_a_chain_of_no_cores_is_a_copy() -> None:
    acc = np.ones(3, np.float32)
    result = kernels.tt_chain(acc, [])
    result[:] = 2
    assert acc.tolist() == [1, 1, 1]


def test_text_with_strides() -> None:
    text = bytes(reversed(b"aGVsbG8="))
    assert kernels.base64_decode(memoryview(text)[::-1]).tobytes() == b"hello"


def test_an_iterator_of_cores() -> None:
    cores = [np.ones((3, 1, 2, 2), np.float32), np.ones((3, 2, 2, 1), np.float32)]
    assert kernels.tt_embedding(iter(cores), [0]).shape == kernels.TTTable(iter(cores))([0]).shape == (1, 4)


def test_a_plan_is_for_its_dispatcher() -> None:
    """Of two that have one name and as many threads, one may take what the other does not; they need have no hash."""

    class Other(CpuDispatcher):
        __hash__ = None  # type: ignore[assignment]

    seen: list[Any] = []

    def plan(backend: Any, operands: Any) -> Any:
        seen.append(backend.dispatcher)
        return numeric_kernels._prefix_scan.plan(backend, operands)

    function = PlannedFunction("prefix_scan", plan, numeric_kernels._prefix_scan.take)
    targets = [Other(workers=2), Other(workers=2)]
    x = np.arange(8, dtype=np.uint32)
    for _ in range(3):
        for target in targets:
            assert np.array_equal(function((x,), ("x",), target, None), x.cumsum())
    assert [id(target) for target in seen] == [id(target) for target in targets]
