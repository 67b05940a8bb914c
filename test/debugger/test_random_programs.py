"""Random programs under the debugger: whatever is asked on the way, they compute what they compute without it, and steps back
are the steps in reverse."""

from __future__ import annotations

import io
import random
import re
from typing import Any

import numpy as np
import pytest
from support.generator import random_program
from support.properties import named_inputs, run
from support.quick import quick
from support.sample import Sample

import vyre_opt as vyre
from vyre_opt import print_program
from vyre_opt.debugger.prompt import Prompt
from vyre_opt.debugger.session import Quit
from vyre_opt.driver.compile import compile_module

PLACE = re.compile(r"^> .*\((\d+)\)(@\w+)(  workgroup .*)?$")
ASKED = ("locals", "args", "where", "list", "lanes 1", "p 1 + 1")


def debugged(
    sample: Sample, commands: list[str], workgroup: int | None = None
) -> tuple[list[str], dict[str, Any] | None]:
    """What the debugger writes, and the outputs; None of a run that was left."""
    module = vyre.parse(print_program(sample.module))
    out = io.StringIO()
    prompt = Prompt(module, io.StringIO("".join(f"{command}\n" for command in commands)), out)
    session = prompt.session
    session.workgroup = workgroup
    executable = compile_module(module, sample.program.name, session.dispatcher, {})
    arguments = executable.arguments(named_inputs(sample, sample.seed), {})
    try:
        results = session.run(lambda: executable.run(arguments, sample.grid, None, session.watch))
    except Quit:
        return out.getvalue().splitlines(), None
    return out.getvalue().splitlines(), executable.outputs(results)


def stops(lines: list[str]) -> list[str]:
    return [line for line in lines if PLACE.match(line)]


@pytest.mark.parametrize("seed", quick(range(100), keep=3))
def test_random_programs_compute_alike_under_the_debugger(seed: int) -> None:
    """Bit by bit, after some steps, questions, conditions and steps back."""
    sample = random_program(seed)
    expected = run(sample.program, sample.module, sample.grid, named_inputs(sample, sample.seed))
    rng = random.Random(seed)
    outputs = [
        b for b in sample.program.bound_buffers if b.is_output and b.dimensions == 1 and (b.count or 1) > 0
    ]
    elements = [f"@{b.name}[0]" for b in outputs]
    commands: list[str] = []
    for _ in range(16):
        moves = ["s", "s", "n", "r", "si", "back", "back", "backi", f"until {rng.randrange(3)} == 0"]
        commands.append(rng.choice([*moves, *ASKED, *(f"who {each}" for each in elements)]))
    row = rng.randrange(sample.grid[0] * sample.grid[1] * sample.grid[2])
    lines, results = debugged(sample, [*commands, "c", "c", "c"], rng.choice((None, row)))
    assert results is not None, "\n".join(lines)
    assert not any("Traceback" in line or "object at 0x" in line for line in lines)
    for name, array in expected.items():
        same = np.asarray(results[name]).tobytes() == np.ascontiguousarray(array).tobytes()
        assert same, f"{name}\n{print_program(sample.module)}\n{commands}"


@pytest.mark.parametrize("seed", quick(range(100), keep=3))
def test_steps_back_are_the_steps_in_reverse(seed: int) -> None:
    sample = random_program(seed)
    rng = random.Random(seed)
    forward, back = rng.choice((("s", "back"), ("si", "backi")))
    count = rng.randint(3, 30)
    there = stops(debugged(sample, [forward] * count)[0])
    count = len(there) - 1
    both = stops(debugged(sample, [forward] * count + [back] * count)[0])
    assert both[: count + 1] == there
    assert both[count + 1 :] == there[:count][::-1], print_program(sample.module)
