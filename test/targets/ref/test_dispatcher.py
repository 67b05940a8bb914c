"""The dispatcher protocol: what a caller may pass, what comes back, and the errors before anything runs."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.each import each

from vyre_opt import dispatcher
from vyre_opt.execution import BackendError, BadInputs, DispatchError, ProgramError, Scratch
from vyre_opt.execution.dispatcher import TARGETS
from vyre_opt.ir import Source, parse_source

SCALE = """
program @scale workgroup(4) {
  buffer @y : f32[?] write binding(7) live_out
  buffer @x : f32[8] read  binding(2)
  spec @k : f32 = 2.0
  %g = global_id x
  %k = spec @k : f32
  %x = load @x[%g] : f32
  %r = mul %x, %k : f32
  store %r, @y[%g] : f32
}"""
X = np.arange(8, dtype=np.float32)


def output(count: int = 8) -> np.ndarray:
    return np.full(count, -1.0, np.float32)


def test_inputs_and_outputs_are_in_binding_order(ref: Any) -> None:
    """By binding, not by place in the text; outputs are fresh, and the caller's arrays stay as they are."""
    y = output(10)
    x = X.copy()
    x.setflags(write=False)
    (out,) = ref(SCALE, [x, y], 2)
    assert list(out) == [*(X * 2), -1.0, -1.0]  # unwritten elements keep what was passed
    assert (y == -1.0).all()
    out[0] = 5.0  # the caller's own


def test_bytes_and_odd_arrays(ref: Any) -> None:
    """Bytes, memoryviews, strided and byte-swapped arrays and any shape of the right size."""
    strided = np.zeros((8, 2), np.float32)
    strided[:, 1] = X
    swapped = X.astype(">f4")
    for array in (X.tobytes(), memoryview(X), strided[:, 1], swapped, X.reshape(2, 4)):
        (out,) = ref(SCALE, [array, bytes(32)], (2, 1, 1))
        assert list(out) == list(X * 2)


def test_specs(ref: Any) -> None:
    for value in (3, 3.0, np.float32(3.0)):
        (out,) = ref(SCALE, [X, output()], [2], specs={"k": value})
        assert list(out) == list(X * 3)


class _OnlyLength:
    """Has a length and nothing else."""

    def __len__(self) -> int:
        return 8


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "too few inputs": (lambda ref: ref(SCALE, [X], 2), "binds 2 buffers (@x, @y), 1 inputs given"),
    "too many inputs": (lambda ref: ref(SCALE, [X, output(), output()], 2), "3 inputs given"),
    "an array in place of the list": (lambda ref: ref(SCALE, np.zeros((2, 8)), 2), "not ndarray"),
    "wrong type": (
        lambda ref: ref(SCALE, [X.astype(np.float64), output()], 2),
        "float32, the array is float64",
    ),
    "same size, other type": (lambda ref: ref(SCALE, [X.view(np.int32), output()], 2), ".astype(np.float32)"),
    "wrong length": (
        lambda ref: ref(SCALE, [X[:7], output()], 2),
        "7 elements given, the program declares 8",
    ),
    "odd bytes": (lambda ref: ref(SCALE, [bytes(33), output()], 2), "33 bytes are not a multiple of f32's 4"),
    "a list of numbers": (lambda ref: ref(SCALE, [list(X), output()], 2), "got list"),
    "no array": (lambda ref: ref(SCALE, [_OnlyLength(), output()], 2), "got _OnlyLength"),
    "no grid": (lambda ref: ref(SCALE, [X, output()]), "does not fix its grid"),
    "grid below zero": (lambda ref: ref(SCALE, [X, output()], (2, -3, 1)), "grid y is -3"),
    "negative grid": (lambda ref: ref(SCALE, [X, output()], -1), "grid x is -1"),
    "grid of four": (lambda ref: ref(SCALE, [X, output()], (1, 1, 1, 1)), "1 to 3 dimensions, not 4"),
    "fractional grid": (lambda ref: ref(SCALE, [X, output()], 2.0), "grid x is 2.0"),
    "huge grid": (lambda ref: ref(SCALE, [X, output()], (1 << 30) + 1), "more than the 2^32 invocations"),
    "long grid": (lambda ref: ref(SCALE, [X, output()], 1 << 31), "at most 2147483647 workgroups along x"),
    "wide grid": (lambda ref: ref(SCALE, [X, output()], (1, 65536)), "at most 65535 workgroups along y"),
    "other grid": (
        lambda ref: ref("program @p workgroup(1) grid(3) { }", [], 2),
        "fixes its grid at (3, 1, 1)",
    ),
    "unknown spec": (lambda ref: ref(SCALE, [X, output()], 2, specs={"kk": 1}), "did you mean @k?"),
    "spec of the wrong type": (
        lambda ref: ref(SCALE, [X, output()], 2, specs={"k": "2"}),
        "'2' is not a number",
    ),
    "spec out of range": (
        lambda ref: ref("program @p workgroup(1) { spec @s : u8 }", [], 1, specs={"s": 256}),
        "256 is not a u8 (0 to 255)",
    ),
    "spec without a value": (
        lambda ref: ref("program @p workgroup(1) { spec @s : u8 }", [], 1),
        "spec @s has no default",
    ),
    "open size without a binding": (
        lambda ref: ref("program @p workgroup(1) { buffer @t : u8[?] read_write }", [], 1),
        "an open size and no binding",
    ),
    "bf16 as floats": (
        lambda ref: ref("program @p workgroup(1) { buffer @t : bf16[?] read binding(0) }", [output()], 1),
        "pass the bits of bf16 elements as uint16",
    ),
    "vector lanes": (
        lambda ref: ref(
            "program @p workgroup(1) { buffer @t : vec<4 x f32>[?] read binding(0) }", [output(6)], 1
        ),
        "pass shape (count, 4)",
    ),
}


def test_wrong_calls(ref: Any) -> None:
    """Each is BadInputs, which is a ValueError and a DispatchError, and says what is wrong."""

    def check(case: str) -> None:
        call, said = WRONG[case]
        with pytest.raises(BadInputs) as caught:
            call(ref)
        assert isinstance(caught.value, ValueError)
        assert isinstance(caught.value, DispatchError)
        assert said in str(caught.value)

    each(WRONG, check)


def test_nothing_is_allocated_for_a_wrong_call(ref: Any) -> None:
    """A transient buffer too large for any machine matters only once the inputs are right."""
    text = """program @p workgroup(1) {
      buffer @t : u8[4611686018427387904] read_write
      buffer @x : f32[8] read binding(0)
    }"""
    with pytest.raises(BadInputs):
        ref(text, [output(7)], 1)
    for dtype in ("u8", "u64"):  # more than the machine has, more than an address can say
        with pytest.raises(BackendError, match="not enough memory"):
            ref(text.replace("u8", dtype), [X], 1)


def test_a_call_needs_its_module() -> None:
    text = """vyre 1
    func @f(%a : u32) -> u32 { yield %a }
    program @p workgroup(1) {
      %g = global_id x
      %r = call @f(%g) : (u32) -> u32
    }"""
    module = parse_source(Source(text))
    program = module.programs["p"]
    with pytest.raises(BadInputs, match="pass module="):
        dispatcher("ref").dispatch(program, [], 1)
    assert dispatcher("ref").dispatch(program, [], 1, module=module) == []


def test_targets() -> None:
    """A name that is no target is the caller's mistake."""
    with pytest.raises(BadInputs, match="did you mean cuda"):
        dispatcher("cuda0")
    assert dispatcher("ref").name == "ref"


@pytest.mark.parametrize(
    ("module", "why"),
    [("vyre_opt.absent", "this build does not have it"), ("no_such_package", "no_such_package")],
)
def test_a_target_that_is_not_here(monkeypatch: pytest.MonkeyPatch, module: str, why: str) -> None:
    """It says why, and which targets there are."""
    monkeypatch.setitem(TARGETS, "cuda", (module, "Nothing"))
    with pytest.raises(BackendError, match=rf"target cuda is not available: .*{why}; available: ref"):
        dispatcher("cuda")


def test_element_types_without_arrays(ref: Any) -> None:
    """Formats of one byte pass as bytes; packed and aggregate ones are refused, with their name."""
    text = """program @p workgroup(1) {
      buffer @a : f8e4m3[3] read binding(0)
      buffer @b : f8e4m3[3] write binding(1) live_out
      %g = global_id x
      %v = load @a[%g] : f8e4m3
      store %v, @b[%g] : f8e4m3
    }"""
    (out,) = ref(text, [bytes([1, 2, 3]), np.zeros(3, np.uint8)], 3)
    assert list(out) == [1, 2, 3]
    with pytest.raises(BackendError, match="no array holds i4"):
        ref("program @p workgroup(1) { buffer @a : i4[3] read binding(0) }", [bytes(2)], 1)


def test_scratch_is_reused_and_leaks_nothing(ref: Any) -> None:
    """The same storage serves the next dispatch, which still must not see what the first one left."""
    text = """program @p workgroup(1) {
      buffer @t : u32[4] read_write
      buffer @y : u32[1] write binding(0) live_out
      spec @write : bool
      %zero = const 0 : u32
      %one = const 1 : u32
      %w = spec @write : bool
      if %w { store %one, @t[%zero] : u32 }
      %v = load @t[%zero] : u32
      store %v, @y[%zero] : u32
    }"""
    scratch, y = Scratch(), np.zeros(1, np.uint32)
    assert ref(text, [y], 1, specs={"write": True}, scratch=scratch)[0][0] == 1
    storage = scratch.storage["t"]
    with pytest.raises(ProgramError):
        ref(text, [y], 1, specs={"write": False}, scratch=scratch)
    assert ref(text, [y], 1, specs={"write": False}, scratch=scratch, checks=False)[0][0] == 0
    assert scratch.storage["t"] is storage


def test_program_errors_pickle(faulty: Any) -> None:
    """They cross process boundaries, as test runners and tuners need."""
    error = faulty("trap", 2, 'program @p workgroup(1) { trap "x" }', [], 1)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
