"""Fixtures that run programs on the cpu target beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from vyre_opt.ir.diagnostics import Source
from vyre_opt.ir.parser import parse_source
from vyre_opt.ir.program import Module, Program
from vyre_opt.runtime.arrays import bits_type
from vyre_opt.runtime.cpu import CpuDispatcher
from vyre_opt.runtime.dispatcher import ProgramError, dispatcher

Agree = Callable[..., list[np.ndarray]]


def read(text: str) -> tuple[Module, Program]:
    """The module of a text and its only program."""
    module = parse_source(Source(f"vyre 1\n{text}", "t.vyre"))
    (program,) = module.programs.values()
    return module, program


def same_bits(got: np.ndarray, wanted: np.ndarray, dtype: Any) -> np.ndarray:
    """Where two arrays in storage form agree bit for bit; one NaN is as good as another."""
    bits = bits_type(dtype.element)
    same: np.ndarray = got.view(bits) == wanted.view(bits)
    if dtype.element.name == "bf16":
        return same | (((got & 0x7FFF) > 0x7F80) & ((wanted & 0x7FFF) > 0x7F80))
    return same | (np.isnan(got) & np.isnan(wanted)) if dtype.element.is_float else same


@pytest.fixture
def agree() -> Agree:
    """Dispatch the only program of a text on both targets; the outputs, equal in every bit."""

    def run(text: str, inputs: list[Any], grid: Any = None, *, opt: int = 3, **more: Any) -> list[np.ndarray]:
        module, program = read(text)
        wanted = dispatcher("ref").dispatch(program, inputs, grid, module=module, **more)
        got = CpuDispatcher(opt=opt).dispatch(program, inputs, grid, module=module, **more)
        outputs = [b for b in program.bound_buffers if b.is_output]
        assert len(got) == len(wanted) == len(outputs)
        for buffer, mine, theirs in zip(outputs, got, wanted, strict=True):
            assert mine.shape == theirs.shape
            assert mine.dtype == theirs.dtype
            wrong = np.argwhere(~same_bits(mine, theirs, buffer.dtype))
            assert not len(wrong), (
                f"@{buffer.name}{list(wrong[0])}: {mine[tuple(wrong[0])]}, not {theirs[tuple(wrong[0])]}"
            )
        return got

    return run


@pytest.fixture
def faults() -> Callable[..., ProgramError]:
    """Both targets find the program at fault, in the same words."""

    def run(text: str, inputs: list[Any], grid: Any = None, **more: Any) -> ProgramError:
        module, program = read(text)
        found = []
        for target in ("ref", "cpu"):
            with pytest.raises(ProgramError) as caught:
                dispatcher(target).dispatch(program, inputs, grid, module=module, **more)
            found.append(caught.value)
        assert str(found[1]) == str(found[0])
        assert found[1].kind == found[0].kind
        return found[1]

    return run
