"""Calls on tensors like those of the call before take the same plan; tensors that differ in anything do not."""

from __future__ import annotations

from typing import Any

import pytest

import vyre_opt as vyre
from vyre_opt import BadInputs, ProgramError, Read, Write, f32, global_id
from vyre_opt.driver import numeric_kernels

torch = pytest.importorskip("torch")

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)]


@vyre.program
def add(a: Read[f32], b: Read[f32], y: Write[f32]) -> None:
    i = global_id(0)
    if i < len(y):
        y[i] = a[i] + b[i]


@pytest.fixture(params=DEVICES)
def tensors(request: Any) -> list[Any]:
    """Of a kernel that was called several times on such."""
    made = [torch.rand(1000, device=request.param) for _ in range(3)]
    for _ in range(3):
        add[4](*made)
    latest = add.in_place._latest
    assert latest is not None
    assert latest[1](*made)
    return made


def test_tensors_that_differ(tensors: list[Any]) -> None:
    """In length, layout, sign, type and gradients; each between two calls that are like the first."""
    a, b, y = tensors
    longer, out = torch.rand(1024, device=a.device), torch.zeros(1024, device=a.device)
    others = {
        "longer": (longer, longer, out),
        "a view": (longer[:1000], b, y),
        "another one": (b.clone(), a.clone(), torch.zeros_like(y)),
        "a stride": (torch.rand(2000, device=a.device)[::2], b, y),
    }
    for name, (left, right, result) in others.items():
        add[4](a, b, y)
        assert torch.equal(y, a + b), name
        add[4](left, right, result)
        assert torch.equal(result, left + right), name
    for wrong, error in (
        ((a.double(), b, y), BadInputs),
        ((a, b, y.clone().requires_grad_()), BadInputs),
    ):
        add[4](a, b, y)
        with pytest.raises(error):
            add[4](*wrong)
    add[4](a, b, y)
    assert torch.equal(y, a + b)


def test_a_shorter_tensor_is_at_fault(tensors: list[Any]) -> None:
    """On a GPU the next call that waits for this one says so."""
    a, b, y = tensors

    def call_and_wait() -> None:
        add[4](a, b[:900], y)
        if y.is_cuda:
            torch.cuda.synchronize()
            add[4](a, b, y)

    with pytest.raises(ProgramError, match="out of bounds of @b"):
        call_and_wait()
    add[4](a, b, y)
    assert torch.equal(y, a + b)


def test_a_negated_view(tensors: list[Any]) -> None:
    """Its sign stands beside its memory, so it is refused, or negated."""
    a, b, y = tensors
    try:
        add[4](torch._neg_view(a), b, y)
    except BadInputs:
        return
    assert torch.equal(y, b - a)


@pytest.mark.filterwarnings("ignore:.*launch")
def test_another_grid(tensors: list[Any]) -> None:
    a, b, y = tensors
    y.zero_()
    add[1](a, b, y)
    assert torch.equal(y[:256], (a + b)[:256])
    assert not y[256:].any()


def test_memory_that_is_shared(tensors: list[Any]) -> None:
    """What is read holds what it held before the call, also where it overlaps with what is written."""
    a, _, _ = tensors
    memory = torch.rand(1004, device=a.device)
    expected = memory[4:] + a
    add[4](memory[4:], a, memory[:1000])
    assert torch.equal(memory[:1000], expected)


@pytest.mark.parametrize("device", DEVICES)
def test_calls_with_more_tensors(device: str) -> None:
    """A chain of so many cores takes its plan again, after chains of fewer."""
    made = []
    for count in (2, 4, 3, 4, 2):
        start, cores = torch.rand(8, device=device), [torch.rand(8, 8, device=device) for _ in range(count)]
        for _ in range(2):
            result = vyre.kernels.tt_chain(start, cores)
        expected = start
        for core in cores:
            expected = expected @ core
        torch.testing.assert_close(result, expected)
        made.append(numeric_kernels._chain._latest[3])
    assert made[1] is made[3] is not made[0]
    assert made[0] is made[4]
