"""Time of pipelines on this machine's CPU, before and after the passes: `vyre-opt --measure`.

Both run on the same inputs, in turns, so that drift of the machine is the same for both; the medians count.  Inputs are random, or
zeros where the pipeline faults on those, as one that takes indices from a buffer may.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from statistics import median
from typing import Any

import numpy as np

from ..driver.binding import PYTHON
from ..driver.compile import compile_module
from ..driver.pipeline import PipelineExecutable
from ..execution.arrays import storage_type
from ..execution.dispatcher import BadInputs, DispatchError, ProgramError
from ..execution.plans.watch import Times, Watch
from ..ir.diagnostics import DiagnosticError
from ..ir.program import Buffer, Module
from ..records import dataclass

__all__ = ["RunTimes", "measure"]

ROUNDS, SECONDS = 21, 1.0
"""Rounds that are measured of a pipeline, or as many as begin within so many seconds."""

_DECLARED = "declare it with a count: buffer @{name} : f32[4096]; or measure it with vyre-run --time --len {name}=4096"
_LENGTHS = replace(PYTHON, give_length=_DECLARED, length_alone=_DECLARED)
"""The command that measures takes no lengths."""

Each = Mapping[str, float]
"""Seconds of a stage by where it was written: of all its runs, and of all launches that it became."""


@dataclass(frozen=True, slots=True)
class RunTimes:
    """Median seconds of a run before and after; `refusal`: why there are none.  `stages_before`, `stages_after`: of each stage."""

    before: float = 0.0
    after: float = 0.0
    rounds: int = 0
    inputs: str = ""
    stages_before: Each = field(default_factory=dict)
    stages_after: Each = field(default_factory=dict)
    refusal: str = ""


def measure(before: Module, after: Module) -> dict[str, RunTimes]:
    """Each pipeline that both modules have, by name."""
    return {name: _measure(name, before, after) for name in before.pipelines if name in after.pipelines}


def _measure(name: str, before: Module, after: Module) -> RunTimes:
    for inputs, kind in ((_random, "random inputs"), (_zeros, "inputs of zeros")):
        try:
            return _in_turns(_TimedRun(before, name, inputs), _TimedRun(after, name, inputs), kind)
        except ProgramError as fault:
            refusal = f"with {kind} the program faults: {_first_line(fault)}"
        except (DispatchError, DiagnosticError) as error:
            return RunTimes(refusal=_first_line(error))
        except MemoryError:
            return RunTimes(refusal="its buffers do not fit the memory of this machine")
    return RunTimes(refusal=refusal)


def _in_turns(before: _TimedRun, after: _TimedRun, inputs: str) -> RunTimes:
    runs = (before, after)
    for run in runs:
        run()  # compiles
        run.forget()
    end = time.perf_counter() + SECONDS
    while len(before.seconds) < ROUNDS and (not before.seconds or time.perf_counter() < end):
        for run in runs:
            run()
    old, new = (median(run.seconds) for run in runs)
    return RunTimes(old, new, len(before.seconds), inputs, before.of_stages(), after.of_stages())


class _TimedRun:
    """A pipeline with its inputs.  `seconds`: of each run; `stages`: of each run, those of its stages."""

    def __init__(self, module: Module, name: str, inputs: Callable[[Buffer, int], Any]) -> None:
        executable = compile_module(module, name, "cpu", {}, syntax=_LENGTHS)
        assert isinstance(executable, PipelineExecutable)
        self.executable = executable
        signature = executable.signature
        arrays = {b.name: inputs(b, number) for number, b in enumerate(signature.read)}
        self.arguments: Sequence[Any] = executable.arguments(arrays, {}, executable.param_words({}))
        self.forget()

    def forget(self) -> None:
        self.seconds: list[float] = []
        self.stages: list[dict[str, float]] = []

    def __call__(self) -> None:
        times, started = Times(), time.perf_counter()
        self.executable.run(self.arguments, watch=Watch(None, times))
        self.seconds.append(time.perf_counter() - started)
        stages: dict[str, float] = {}
        for row in times.rows.values():
            if row.loc is not None:
                stages[str(row.loc)] = stages.get(str(row.loc), 0.0) + row.seconds
        self.stages.append(stages)

    def of_stages(self) -> Each:
        measured = self.stages[0]
        return {stage: median(stages.get(stage, 0.0) for stages in self.stages) for stage in measured}


def _zeros(buffer: Buffer, number: int) -> Any:
    dtype = storage_type(buffer.dtype.element)
    if buffer.count is None or dtype is None:
        message = f"@{buffer.name} is an input of open size, so nobody knows how much to measure with"
        raise BadInputs(f"{message}; {_LENGTHS.length_alone.format(name=buffer.name)}")
    shape = [extent or 0 for extent in buffer.shape]
    return np.zeros([*shape[:-1], shape[-1] * buffer.dtype.lanes], dtype)


def _random(buffer: Buffer, number: int) -> Any:
    array = _zeros(buffer, number)
    rng = np.random.default_rng(number)
    if array.dtype.kind == "f":
        array[:] = rng.standard_normal(array.shape)
    elif buffer.dtype.element.is_float:
        array[:] = rng.integers(0x3F00, 0x3F80, array.shape)  # bf16 from 0.5 to 1
    elif array.dtype.kind in "ui":
        array[:] = rng.integers(0, 128, array.shape)
    return array


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0]
