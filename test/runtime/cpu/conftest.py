"""Fixtures that run programs on the cpu target beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.generator import random_program
from support.sample import random_inputs

from vyre_opt.ir.diagnostics import Source
from vyre_opt.ir.ops import OPS
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


def compare(program: Program, got: list[np.ndarray], wanted: list[np.ndarray], what: str = "") -> None:
    """All outputs of two runs are equal in every bit."""
    outputs = [b for b in program.bound_buffers if b.is_output]
    assert len(got) == len(wanted) == len(outputs)
    for buffer, mine, theirs in zip(outputs, got, wanted, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        wrong = np.argwhere(~same_bits(mine, theirs, buffer.dtype))
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            raise AssertionError(f"{what}@{buffer.name}{list(place)} is {mine[place]}, not {theirs[place]}")


@pytest.fixture
def agree_at_random() -> Callable[[CpuDispatcher, int], None]:
    """A random program, in which approximate ops have become `neg`, gives the interpreter's bits."""

    def run(cpu: CpuDispatcher, seed: int) -> None:
        sample = random_program(seed)
        for item in (sample.program, *sample.module.funcs.values()):
            for op in item.walk():
                if op.definition.ulp:
                    op.definition = OPS["neg"]
        inputs = random_inputs(sample.program, sample.grid, seed)
        wanted, got = (
            target.dispatch(sample.program, inputs, sample.grid, module=sample.module)
            for target in (dispatcher("ref"), cpu)
        )
        compare(sample.program, got, wanted, f"seed {seed}: ")

    return run


@pytest.fixture
def agree() -> Agree:
    """Dispatch the only program of a text on both targets; the outputs, equal in every bit."""

    def run(text: str, inputs: list[Any], grid: Any = None, *, opt: int = 3, **more: Any) -> list[np.ndarray]:
        module, program = read(text)
        wanted = dispatcher("ref").dispatch(program, inputs, grid, module=module, **more)
        got = CpuDispatcher(opt=opt).dispatch(program, inputs, grid, module=module, **more)
        compare(program, got, wanted)
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
