"""Fixtures that run programs on the cpu target beside the interpreter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from support.generator import random_program
from support.op_programs.maker import differs
from support.sample import random_inputs

from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Module, Program, Source, parse_source
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

Agree = Callable[..., list[np.ndarray]]


def read(text: str) -> tuple[Module, Program]:
    """The module of a text and its only program."""
    module = parse_source(Source(f"vyre 1\n{text}", "t.vyre"))
    (program,) = module.programs.values()
    return module, program


def compare(program: Program, got: list[np.ndarray], expected: list[np.ndarray], what: str = "") -> None:
    """All outputs of two runs are equal in every bit."""
    outputs = [b for b in program.bound_buffers if b.is_output]
    assert len(got) == len(expected) == len(outputs)
    for buffer, mine, theirs in zip(outputs, got, expected, strict=True):
        assert (mine.shape, mine.dtype) == (theirs.shape, theirs.dtype)
        wrong = np.argwhere(differs(mine, theirs, buffer.dtype.element))
        if len(wrong):
            place = tuple(int(i) for i in wrong[0])
            raise AssertionError(f"{what}@{buffer.name}{list(place)} is {mine[place]}, not {theirs[place]}")


@pytest.fixture
def agree_at_random() -> Callable[[CpuDispatcher, int], None]:
    """A random program gives the interpreter's bits."""

    def run(cpu: CpuDispatcher, seed: int) -> None:
        sample = random_program(seed)
        inputs = random_inputs(sample.program, sample.grid, seed)
        expected, got = (
            target.dispatch(sample.program, inputs, sample.grid, module=sample.module)
            for target in (dispatcher("ref"), cpu)
        )
        compare(sample.program, got, expected, f"seed {seed}: ")

    return run


@pytest.fixture
def agree() -> Agree:
    """Dispatch the only program of a text on both targets; the outputs, equal in every bit."""

    def run(
        text: str, inputs: list[Any], grid: Any = None, *, opt: int | None = None, **more: Any
    ) -> list[np.ndarray]:
        module, program = read(text)
        expected = dispatcher("ref").dispatch(program, inputs, grid, module=module, **more)
        got = CpuDispatcher(opt=opt).dispatch(program, inputs, grid, module=module, **more)
        compare(program, got, expected)
        return got

    return run


@pytest.fixture
def faults() -> Callable[..., ProgramError]:
    """Both targets find the program at fault, in the same words."""

    def run(text: str, inputs: list[Any], grid: Any = None, **more: Any) -> ProgramError:
        module, program = read(text)
        errors = []
        for target in ("ref", "cpu"):
            with pytest.raises(ProgramError) as caught:
                dispatcher(target).dispatch(program, inputs, grid, module=module, **more)
            errors.append(caught.value)
        assert str(errors[1]) == str(errors[0])
        assert errors[1].kind == errors[0].kind
        return errors[1]

    return run
