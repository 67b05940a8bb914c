"""Every kernel at every shape and schedule of the list, on every target, against NumPy and the library."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.kernel_cases import KernelCase, kernel_cases
from support.quick import quick

from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import OPS, Module, verify

CASES = kernel_cases()
ANYWHERE = [case for case in CASES if not case.waits]
WAITING = [case for case in CASES if case.waits]


SEARCHING = {
    "checked_base64",
    "checked_hex",
    "pattern_filter",
    "pattern_grams",
    "pattern_walk",
    "start_walk",
    "tiled_grams",
    "tiled_walk",
}
"""Programs that `Scanner` launches, which are no ops."""


def test_every_kernel_has_cases() -> None:
    """A kernel that is added to the op table cannot go untested; and names tell cases apart."""
    assert {case.kernel for case in CASES} == {
        *(name for name, row in OPS.items() if row.kernel is not None),
        "decode_scan",
        *SEARCHING,
    }
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", quick(ANYWHERE, lambda case: case.kernel), ids=lambda case: case.name)
def test_case(on: Callable[[str], Dispatcher], target: str, case: KernelCase) -> None:
    what = case.make().mismatch(on(target))
    assert not what, what


@pytest.mark.parametrize("case", quick(WAITING, lambda case: case.kernel, 4), ids=lambda case: case.name)
@pytest.mark.parametrize("target", ["ref", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_workgroups_that_wait_for_later_ones(
    on: Callable[[str], Dispatcher], target: str, case: KernelCase
) -> None:
    what = case.make().mismatch(on(target))
    assert not what, what


@pytest.mark.parametrize("case", quick(CASES, lambda case: case.kernel, 2), ids=lambda case: case.name)
def test_each_program_verifies(case: KernelCase) -> None:
    """The kernels do not verify what they build: that would take a third of their time."""
    module = Module()
    module.add(case.make().program)
    assert verify(module) == []


class WrongElement:
    """The right result, but for one element."""

    name = "wrong"

    def __init__(self, right: Dispatcher) -> None:
        self.right = right

    def dispatch(self, program, inputs, grid=None, **rest):
        (out,) = self.right.dispatch(program, inputs, grid)
        out[3] += out.dtype.type(1)
        return [out]


@pytest.mark.parametrize("name", ["math.softmax f32, rows of 33", "scan.prefix u32, 33, chunked"])
def test_a_wrong_result_is_noticed(on: Callable[[str], Dispatcher], name: str) -> None:
    """A mismatch that never reports anything would let every case pass."""
    (use,) = (case.make() for case in CASES if case.name == name)
    assert "[3] is" in use.mismatch(WrongElement(on("ref")))
