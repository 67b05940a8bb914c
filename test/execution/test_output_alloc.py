"""OutputAlloc in the place of an input: a length without contents, on every target that runs here."""

from __future__ import annotations

import numpy as np
import pytest

from vyre_opt import dispatcher, parse
from vyre_opt.execution import BackendError, BadInputs, OutputAlloc, ProgramError

HEAD = "vyre 1\nprogram @p workgroup(4) {\n"
SOME = (
    HEAD
    + """
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %v = load @x[%g] : u32
  store %v, @y[%g] : u32
}"""
)
OWN = (
    HEAD
    + """
  buffer @x : u32[?] read binding(0)
  buffer @y : vec<2 x u32>[?] read_write binding(1) live_out
  %g = global_id x
  %v = load @y[%g] : vec<2 x u32>
  store %v, @y[%g] : vec<2 x u32>
}"""
)
KEPT = (
    HEAD
    + """
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
}"""
)
X = np.arange(4, dtype=np.uint32)


def run(text: str, inputs: list, target: str = "ref", grid: int = 1) -> np.ndarray:
    (program,) = parse(text).programs.values()
    (y,) = dispatcher(target).dispatch(program, inputs, grid)
    return y


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_gives_the_length(target: str) -> None:
    """What is written is there; what is not may be anything, and is not 0 on ref."""
    y = run(SOME, [X, OutputAlloc(6)], target)
    assert y.shape == (6,)
    np.testing.assert_array_equal(y[:4], X)
    if target == "ref":
        assert (y[4:] == 0x01010101).all()


def test_its_elements_count_as_unwritten() -> None:
    with pytest.raises(ProgramError) as caught:
        run(OWN, [X, OutputAlloc(4)])
    assert caught.value.kind == "uninitialised"


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_bounds_are_those_of_the_allocation(target: str) -> None:
    with pytest.raises(ProgramError, match="out of bounds of @y: index 3, length 3"):
        run(SOME, [X, OutputAlloc(3)], target)


@pytest.mark.parametrize(
    ("text", "inputs", "said"),
    [
        (SOME, [OutputAlloc(4), OutputAlloc(4)], "may read what @x holds, which is only read; pass an array"),
        (KEPT, [X, OutputAlloc(4)], "may read what @y holds, which is live_in; pass an array"),
        (SOME, [X, OutputAlloc(-1)], "room for -1 elements"),
        (SOME, [X, OutputAlloc(True)], "room for True elements"),
        (SOME, [X, OutputAlloc(1.5)], "room for 1.5 elements"),  # type: ignore[arg-type]
        (
            SOME.replace("u32[?] write", "u32[9] write"),
            [X, OutputAlloc(4)],
            "4 elements given, the program declares 9",
        ),
    ],
)
def test_bad_counts(text: str, inputs: list, said: str) -> None:
    with pytest.raises(BadInputs, match=said):
        run(text, inputs)


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_no_memory_for_it(target: str) -> None:
    with pytest.raises(BackendError, match="no memory for @y"):
        run(SOME, [X, OutputAlloc(1 << 61)], target)


def test_nothing_is_copied() -> None:
    """An OutputAlloc of 4 GiB, of which a few elements are written, takes no time and hardly any memory."""
    y = run(SOME, [X, OutputAlloc(1 << 30)], "cpu")
    assert y.shape == (1 << 30,)
    np.testing.assert_array_equal(y[:4], X)
