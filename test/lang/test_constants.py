"""What kernels and pipelines know when they are translated: scalars of NumPy, `static` of any Python, very large numbers."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32

SCALE, COUNT, FLAG, PAIR = np.float32(1.5), np.int64(3), np.bool_(True), (np.uint8(2), np.float16(0.25))
WEIGHTS = np.array([0.5, 1.0, 2.0], np.float32)
BIG = 10**5000


def taps(count: int) -> list[tuple[int, float]]:
    return [(k, 1 / (k + 1)) for k in range(count)]


@vyre.program(workgroup=8)
def scalars(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.global_id(0)
    two, quarter = PAIR
    total = x[i] * SCALE + quarter
    for k in range(COUNT):
        if FLAG and i < two + COUNT:
            total += f32(k) * WEIGHTS[1]
    y[i] = total * two


@vyre.pipeline
def scaled(x: Read[f32], y: Write[f32]) -> None:
    t = vyre.buffer(f32, COUNT + 5)
    for _ in range(COUNT - 2):
        scalars[COUNT - 2](x, t)
    scalars[1](t, y)


def in_numpy(x: np.ndarray) -> np.ndarray:
    i = np.arange(8)
    return (x * SCALE + np.float32(0.25) + np.where(i < 5, np.float32(3), np.float32(0))) * np.float32(2)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_scalar_of_numpy_is_the_number_that_it_holds(target: str) -> None:
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    scalars.options(target=target)[1](x, y)
    assert np.array_equal(y, in_numpy(x))
    scaled.options(target=target)(x, y)
    assert np.array_equal(y, in_numpy(in_numpy(x)))


@vyre.program(workgroup=8)
def tabled(x: Read[f32], y: Write[f32]) -> None:
    tile = vyre.shared(f32, 8)
    i, total = vyre.local_id(0), 0.0
    tile[i] = x[i]
    vyre.barrier()
    for k, weight in vyre.static(taps(4)):
        total += tile[(i + k) % 8] * weight
    for k, weight in vyre.static(
        list(zip(range(len(tile) - 5), [w for w in WEIGHTS if w > 0.5], strict=False))
    ):
        total += tile[(i + k) % 8] * weight
    y[i] = total * vyre.static({"a": 2.0, "b": sum([1, 2])}["a"])


def test_static_is_any_python() -> None:
    x, y = np.arange(8, dtype=np.float32) ** 2, np.zeros(8, np.float32)
    tabled[1](x, y)
    expected = sum(np.roll(x, -k) * np.float32(w) for k, w in [*taps(4), (0, 1.0), (1, 2.0)]) * 2
    assert np.allclose(y, expected, rtol=1e-6)


@vyre.program(workgroup=8)
def computed(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.local_id(0)
    for k in vyre.static([0, i]):
        y[i] = x[k]


@vyre.program(workgroup=8)
def failing(x: Read[f32], y: Write[f32]) -> None:
    for k in vyre.static([1 // 0]):
        y[k] = x[k]


@vyre.program(workgroup=8)
def large(x: Read[f32], y: Write[f32]) -> None:
    i = vyre.local_id(0)
    y[i] = x[i] * BIG
    y[i] = x[i] * 10**400
    y[9**9**9] = 1.0
    if i < 1 << 10**9:
        y[i] = 1.0
    y[i] = pow(7, 10**9)
    y[len("ab" * 10**9)] = 1.0


@vyre.program(workgroup=8)
def untyped(x: Read[f32], y: Write[f32]) -> None:
    big, n = 5_000_000_000, 0
    while n < 4:
        n += 1
    if big > n:
        y[n] = x[n]


@vyre.func
def whole(a: f32) -> u32:
    return a + 1.0


@vyre.program(workgroup=8)
def wrong_result(x: Read[f32], y: Write[f32]) -> None:
    y[whole(x[0])] = 1.0


@vyre.program(workgroup=8)
def unrolled(n: u32, y: Write[f32]) -> None:
    for k in vyre.static(range(3)):
        y[k] = n


@pytest.mark.parametrize(
    ("kernel", "messages"),
    [
        (computed, [("i", "it is known when the kernel is translated")]),
        (failing, [("[1 // 0]", "integer division or modulo by zero")]),
        (
            large,
            [
                ("BIG", "a number of more than 4096 bits"),
                ("10**400", "a number of 1329 bits does not fit in f32"),
                ("9**9**9", "a number of more than 4096 bits"),
                ("1 << 10**9", "a number of more than 4096 bits"),
                ("pow(7, 10**9)", "a number of more than 4096 bits"),
                ('"ab" * 10**9', "more than 1,048,576 parts"),
            ],
        ),
        (untyped, [("big", "5000000000 does not fit in i32")]),
        (wrong_result, [("a + 1.0", "a + 1.0 is f32, and whole returns u32")]),
        (unrolled, [("n", "n is u32, where f32 is wanted")]),
    ],
    ids=lambda row: getattr(row, "__name__", ""),
)
def test_errors_are_at_their_places_once(kernel: vyre.lang.Kernel, messages: list[tuple[str, str]]) -> None:
    with pytest.raises(vyre.DiagnosticError) as caught:
        kernel.text()
    found = caught.value.diagnostics
    assert len(found) == len(messages), str(caught.value)
    for diagnostic, (place, message) in zip(found, messages, strict=True):
        assert message in diagnostic.message
        assert diagnostic.loc is not None
        assert diagnostic.loc.source.text[diagnostic.loc.start : diagnostic.loc.end] == place


def test_a_number_of_no_type_says_where_it_is_written() -> None:
    with pytest.raises(vyre.DiagnosticError) as caught:
        untyped.text()
    (error,) = caught.value.diagnostics
    assert error.help == "nothing says which type it has: write i64(5000000000)"
    (_, loc), *_ = error.notes
    assert loc is not None
    assert loc.source.text[loc.start : loc.end] == "5_000_000_000"
