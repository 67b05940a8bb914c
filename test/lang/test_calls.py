"""Calls of ops in kernels: each argument is computed once, words may be named, masks choose lanes."""

from __future__ import annotations

import copy
import pickle
import re
from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs
from vyre_opt.lang import Read, ReadWrite, Write, f32, i32, u8, u16, u32


@vyre.program(workgroup=32)
def draws(counter: ReadWrite[u32], low: Write[u32], high: Write[u32]) -> None:
    i = vyre.local_id(0)
    low[i] = min(vyre.atomic_add(counter, 0, 1), 5)
    high[i] = max(10, vyre.atomic_add(counter, 1, 1))


@vyre.program(workgroup=32)
def dot(x: Read[f32], y: Read[f32], total: ReadWrite[f32], least: ReadWrite[f32]) -> None:
    i = vyre.global_id(0)
    vyre.atomic_add(total, 0, x[i] * y[i], fastmath="reassoc")
    vyre.atomic_min(least, 0, x[i])


@vyre.program(workgroup=32)
def largest(x: ReadWrite[i32]) -> None:
    i = vyre.local_id(0)
    x[i] = vyre.subgroup_scan(x[i], combine="max")


@vyre.program(workgroup=4)
def positive(x: ReadWrite[f32], limit: f32, all_lanes: u32) -> None:
    i = vyre.local_id(0)
    lanes = x.vec(2)[i]
    is_inside = (lanes > 0) & (lanes < vyre.splat(limit, 2))
    is_inside = (is_inside & True) | (vyre.splat(all_lanes != 0, 2) ^ False)
    x.vec(2)[i] = vyre.select(is_inside, lanes, -1)


DIGITS, TWICE, HIGH_LOW = b"0123456789abcdef", bytes(k // 2 for k in range(16)), (0, 1) * 8


@vyre.program(workgroup=32)
def hexadecimal(x: Read[u8], text: Write[u8], zeros: Write[u16]) -> None:
    i = vyre.global_id(0)
    amount = vyre.permute(b"\4\0", HIGH_LOW)
    digit = (vyre.permute(x.vec(8)[i], TWICE) >> amount) & 15
    text.vec(16)[i] = vyre.permute(DIGITS, digit)
    zeros[i] = vyre.movemask(digit == 0)


def test_bytes_and_tuples_are_tables_of_a_permute() -> None:
    x = np.random.default_rng(1).integers(0, 256, 256).astype(np.uint8)
    for target in ("ref", "cpu"):
        text, zeros = np.zeros(512, np.uint8), np.zeros(32, np.uint16)
        hexadecimal.options(target=target)[1](x, text, zeros)
        assert text.tobytes().decode() == x.tobytes().hex()
        is_zero = (text == ord("0")).reshape(32, 16)
        assert zeros.tolist() == [sum(1 << k for k in range(16) if row[k]) for row in is_zero]


def test_min_and_max_compute_their_arguments_once() -> None:
    """Each invocation draws one number of each counter; two would count twice as far."""
    for target in ("ref", "cpu"):
        counter, low, high = (np.zeros(n, np.uint32) for n in (2, 32, 32))
        draws.options(target=target)[1](counter, low, high)
        assert counter.tolist() == [32, 32]
        assert sorted(low) == [0, 1, 2, 3, 4] + [5] * 27
        assert sorted(high) == [10] * 11 + list(range(11, 32))


def test_words_may_be_named_without_those_before_them() -> None:
    x = np.array([3, -1, 7, 7, 2, 9] * 5 + [0, 50], np.int32)
    expected = np.maximum.accumulate(x)
    largest.options(target="ref")[1](x)
    assert x.tolist() == expected.tolist()


def test_masks_choose_lanes_and_meet_literals() -> None:
    for target in ("ref", "cpu"):
        for all_lanes in (0, 1):
            x = np.array([1.0, -2.0, 3.0, 9.0, -0.5, 0.5, 4.0, 100.0], np.float32)
            expected = x if all_lanes else np.where((x > 0) & (x < 5), x, np.float32(-1))
            positive.options(target=target)[1](x, 5.0, all_lanes)
            assert x.tolist() == expected.tolist()


@vyre.program(workgroup=32)
def scaled(a: f32, x: Read[f32], y: Write[f32]) -> None:
    y[vyre.global_id(0)] = a * x[vyre.global_id(0)]


@vyre.pipeline
def twice_scaled(a: f32, x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, len(x))
    scaled[1](a, x, t)
    scaled[1](a, t, y)


@vyre.func
def halved(v: f32) -> f32:
    return v / 2


@pytest.mark.parametrize("decorated", [scaled, twice_scaled, halved], ids=repr)
def test_copies_and_what_is_pickled_are_the_object_itself(decorated: Any) -> None:
    again = [pickle.loads(pickle.dumps(decorated)), copy.copy(decorated), copy.deepcopy([decorated])[0]]
    assert all(other is decorated for other in again)


@pytest.mark.parametrize("decorated", [scaled, twice_scaled], ids=repr)
def test_options_are_pickled(decorated: Any) -> None:
    other = pickle.loads(
        pickle.dumps(decorated.options(target="ref", passes=None).options(target="cpu", passes="dce"))
    )
    assert (other._options.target, other._options.passes) == ("cpu", "dce")
    x, y = np.arange(32, dtype=np.float32), np.zeros(32, np.float32)
    (other if decorated is twice_scaled else other[1])(2.0, x, y)
    assert np.array_equal(y, x * (4 if decorated is twice_scaled else 2))


@vyre.pipeline
def drawn(counter: ReadWrite[u32], low: Write[u32], high: Write[u32]) -> None:
    draws[1](counter, low, high)


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize("decorated", [draws, drawn], ids=["kernel", "pipeline"])
def test_two_written_arrays_may_not_overlap(decorated: Any, target: str) -> None:
    counter, low = np.zeros(2, np.uint32), np.zeros(40, np.uint32)
    call = decorated.options(target=target)
    for high in (low[:32], low[8:]):
        with pytest.raises(BadInputs, match="low and high share memory, and the kernel writes both"):
            (call[1] if decorated is draws else call)(counter, low[:32], high)
    assert not counter.any()


@pytest.mark.parametrize("grid", [1.0, True, (1.0,), slice(1, 2), slice(None)])
def test_what_equals_a_number_of_workgroups_is_no_grid(grid: Any) -> None:
    for _ in range(2):  # neither is it remembered for the number, nor the number for it
        with pytest.raises((BadInputs, TypeError), match="whole"):
            scaled.options(target="ref")[grid](1.0, X, np.zeros(32, np.float32))
    kernel, y = scaled.options(target="ref"), np.zeros(32, np.float32)
    with pytest.raises((BadInputs, TypeError), match="whole"):
        kernel[grid](1.0, X, y)
    for right in (1, (1,), [1], np.int64(1), np.array([1])):
        kernel[right](1.0, X + 1, y)
        assert y.all()
        y[:] = 0


X = np.zeros(32, np.float32)


def test_text_takes_some_of_the_arguments_of_a_call() -> None:
    assert scaled.text() == scaled.text(2, X) == scaled.text(y=X, a=1.5)
    with pytest.raises(TypeError, match=r"scaled\(\): got an unexpected keyword argument 'z'"):
        scaled.text(z=X)


READ_ONLY = X.copy()
READ_ONLY.flags.writeable = False


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"x": X.astype(np.float64)}, "float32, the array is float64"),
        ({"y": X.reshape(4, 8)[:, :2]}, "is not contiguous"),
        ({"y": [1.0, 2.0]}, "y is written, which no list is"),
        ({"y": READ_ONLY}, "read-only"),
        ({"a": "2"}, "a is f32"),
        ({"a": 1.0, "x": 3}, "x"),
    ],
)
def test_text_refuses_what_a_call_refuses(arguments: dict[str, Any], said: str) -> None:
    with pytest.raises(BadInputs, match=said) as of_text:
        scaled.text(**arguments)
    with pytest.raises(BadInputs) as of_call:
        scaled[1](**({"a": 1.0, "x": X, "y": X.copy()} | arguments))
    assert str(of_text.value) == str(of_call.value)


@pytest.mark.parametrize("extents", [f32, 1.0, True, 0, (), (1, 2, 3, 4), "32", (32, np.float32(1))])
def test_a_workgroup_is_one_to_three_whole_numbers(extents: Any) -> None:
    with pytest.raises(ValueError, match="workgroup is one to three whole numbers"):
        vyre.program(workgroup=extents)(scaled.function)
    for right in (np.int64(32), (np.uint8(32), 1), [32]):
        assert vyre.program(workgroup=right)(scaled.function).workgroup == (32, 1, 1)


def test_options_that_are_asked_for_again_are_the_same_kernel() -> None:
    for decorated in (scaled, twice_scaled):
        first = decorated.options(target="cpu")
        assert decorated.options(target="cpu") is first is first.options(target="cpu")
        assert decorated.options(target="cpu", passes=None) is not first
        assert decorated.options() is not decorated.options(target="ref")


def test_a_sum_that_may_be_regrouped() -> None:
    """By workgroups, of enough integers in floats for a call to do so."""
    x, y = (np.random.default_rng(seed).integers(1, 9, 1 << 15).astype(np.float32) for seed in (1, 2))
    total, least = np.zeros(1, np.float32), np.full(1, np.nan, np.float32)
    dot[1 << 10](x, y, total, least)
    assert (total[0], least[0]) == (np.dot(x, y), 1.0)


def test_a_program_gives_flags_to_its_arithmetic_on_floats() -> None:
    """To each op those that it takes; a call has its own, also none; integers have none."""

    def kernel(x: ReadWrite[f32], total: ReadWrite[f32], n: u32) -> None:
        i = vyre.global_id(0) + n
        x[i] = vyre.tanh(x[i]) * 2.0 + vyre.exp(x[i], fastmath=()) - vyre.log(x[i], fastmath="nnan")
        vyre.atomic_add(total, 0, x[i])

    text = vyre.program(fastmath={"afn", "reassoc", "contract"})(kernel).text()
    found = dict(re.findall(r"= (\w+)[^\n]*?(?: fastmath<(.*?)>)? : ", text))
    every = "contract, reassoc, afn"
    expected = {
        "tanh": every,
        "mul": every,
        "sub": every,
        "exp": "",
        "log": "nnan",
        "atomic_add": "reassoc",
        "load": "",
    }
    assert expected.items() <= found.items()
    assert (
        vyre.program(fastmath="afn, contract")(kernel).options(target="ref").text().count("<contract, afn>")
        == 4
    )
    assert vyre.program(kernel).text().count("fastmath") == 1


@pytest.mark.parametrize(("flags", "wrong"), [("fast", "'fast'"), (("afn", 3), "3"), (1, "1")])
def test_a_program_takes_no_other_flags(flags: Any, wrong: str) -> None:
    with pytest.raises(ValueError, match=f"fastmath takes contract, .*, afn, not {wrong}"):
        vyre.program(fastmath=flags)
