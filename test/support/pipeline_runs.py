"""Random pipelines before and after passes, on a target, against the interpreter.

Half of them hand buffers on in ways that may be joined or may not (`launch_pipeline`), half are
generated programs with buffers bound at random (`bound_pipeline`).  Or all of them aim at the proofs
(`adversarial_pipeline`), or have buffers of two and three dimensions (`sound_pipeline`), or hand over tiles by matrices
(`matrix_pipeline`).  Each is run three times:

    as it is, on ref             what it means; a fault would be reported here
    as it is, on the target      the same
    after the passes, there      the same again; on ref, without a fault

The passes are `default`, or drawn anew for each pipeline.

Compared are the outputs and what the host reads on the way, bit by bit but for NaNs: no program
here has fast maths.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from vyre_opt import dispatcher
from vyre_opt.driver.binding import Signature
from vyre_opt.driver.compile import compile_module
from vyre_opt.execution import DispatchError, ProgramError
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import DiagnosticError, KernelStage, Launch, Module, Pipeline, parse
from vyre_opt.passes.manager import PassFailure

from .adversarial import adversarial_pipeline
from .bound_programs import bound_pipeline
from .differential import OPTIONS, distribute
from .dimension_programs import sound_pipeline
from .launch_pipelines import launch_pipeline
from .matrix_pipelines import matrix_pipeline
from .properties import bits, ordinary_passes, random_pipeline, with_options
from .sample import random_array

__all__ = [
    "PASSES",
    "RANDOM",
    "Kind",
    "PipelineRuns",
    "Observation",
    "any_inputs",
    "check_example",
    "compare_pipelines",
    "difference",
    "pipeline_text",
    "plain_inputs",
    "random_passes",
    "observe",
    "seed_pipeline",
]

Arrays = Mapping[str, np.ndarray[Any, Any]]
Kind = Literal["mixed", "adversarial", "shaped", "matrices"]
"""Of the pipelines of seeds: see above."""

PASSES = "default"
RANDOM = "random"
BATCH = 16
"""Pipelines of one task."""


@dataclass(frozen=True, slots=True)
class Observation:
    """What a caller observes: (name, element type, array) of host reads in order, then of outputs."""

    arrays: tuple[tuple[str, str, np.ndarray[Any, Any]], ...]
    launches: int
    """Of the pipeline after the passes; one in a repeat counts once."""
    tiles: int
    """Workgroup buffers of the programs that it launches."""


@dataclass(slots=True)
class PipelineRuns:
    """`pipelines` run, their `launches` before and how many were `joined` away, and what differs.

    `changed`: pipelines with fewer launches than before.  `tiles`: buffers that became workgroup memory.
    `failures`: seed, what differs, and the text of the pipeline.
    """

    pipelines: int = 0
    launches: int = 0
    joined: int = 0
    changed: int = 0
    tiles: int = 0
    failures: list[tuple[int, str, str]] = field(default_factory=list)

    def add(self, other: PipelineRuns) -> None:
        self.pipelines += other.pipelines
        self.launches += other.launches
        self.joined += other.joined
        self.changed += other.changed
        self.tiles += other.tiles
        self.failures += other.failures

    def summary(self, target: str, passes: str = PASSES) -> str:
        return (
            f"{self.pipelines} pipelines on {target} before and after {passes} against ref:"
            f" {self.joined} of {self.launches} launches joined away in {self.changed} of them,"
            f" {self.tiles} buffers became tiles, {len(self.failures)} differ"
        )


def compare_pipelines(
    target: str,
    seeds: Sequence[int],
    *,
    jobs: int | None = None,
    kind: Kind = "mixed",
    passes: str = PASSES,
    progress: Callable[[PipelineRuns], None] | None = None,
) -> PipelineRuns:
    """The pipelines of `seeds` on a target, with its OPTIONS in turn.

    `jobs`: processes, one for each CPU by default.  `passes`: a pipeline, or RANDOM.  `progress` is
    called with the totals so far after every BATCH of them.
    """
    batches = [(target, list(seeds[at : at + BATCH]), kind, passes) for at in range(0, len(seeds), BATCH)]
    total = PipelineRuns()
    for part in distribute(_run_batch, batches, jobs):
        total.add(part)
        if progress is not None:
            progress(total)
    return total


def seed_pipeline(seed: int, kind: Kind = "mixed") -> tuple[str, Module, Arrays]:
    """The pipeline of a seed, which runs clean on ref, as text and in memory, and its inputs."""
    if kind == "adversarial":
        pipeline = adversarial_pipeline(seed)
        return pipeline.text, pipeline.module, pipeline.inputs
    texts = {"shaped": lambda seed: sound_pipeline(seed).text, "matrices": matrix_pipeline}
    text = texts.get(kind, pipeline_text)(seed)
    return text, parse(text), any_inputs(text, seed)


def pipeline_text(seed: int) -> str:
    """The pipeline of a seed; one that runs clean on ref."""
    if seed % 2 == 0:
        return launch_pipeline(seed)
    text = bound_pipeline(seed)
    try:
        observe(text, "ref", any_inputs(text, seed))
    except ProgramError:  # a launch reads what nobody wrote
        return bound_pipeline(seed, all_given=True)
    return text


def any_inputs(text: str, seed: int) -> Arrays:
    """An array for each buffer of @main that takes one: edge values first, then anything.

    Outputs are among them, so that what a pipeline does not write is known.
    """
    rng = random.Random(seed)
    parameters = Signature.of(parse(text).pipelines["main"]).parameters
    return {b.name: random_array(b.dtype, [extent or 0 for extent in b.shape], rng) for b in parameters}


def plain_inputs(text: str, seed: int) -> Arrays:
    """The same of any integers, and of normally distributed floats, for pipelines that compute with them."""
    rng = np.random.default_rng(seed)
    return {
        name: np.asarray(rng.normal(size=array.shape), array.dtype)
        if array.dtype.kind == "f"
        else rng.integers(0, 256, array.nbytes, np.uint8).view(array.dtype).reshape(array.shape)
        for name, array in any_inputs(text, seed).items()
    }


def observe(source: str | Module, target: Dispatcher | str, inputs: Arrays, passes: str = "") -> Observation:
    """Run @main on a target after `passes`, which work on a copy.

    Raises DispatchError, DiagnosticError or PassFailure.
    """
    module = parse(source) if isinstance(source, str) else source
    compiled: Any = compile_module(module, "main", target, {}, passes)
    types = {b.name: b.dtype.element.name for b in compiled.signature.buffers}
    arrays: list[tuple[str, str, np.ndarray[Any, Any]]] = []
    outputs = compiled(
        inputs, on_host_read=lambda name, array: arrays.append((f"host_read {name}", types[name], array))
    )
    arrays += [(name, types[name], array) for name, array in outputs.items()]
    return Observation(tuple(arrays), launches(compiled.pipeline), _tiles(compiled.module, compiled.pipeline))


def _tiles(module: Module, pipeline: Pipeline) -> int:
    launched = {stage.program for stage in pipeline.walk() if isinstance(stage, Launch)}
    return sum(b.is_workgroup for name in launched for b in module.programs[name].buffers.values())


def launches(pipeline: Pipeline) -> int:
    """Launches of the text, named kernels among them; one in a repeat counts once."""
    return sum(isinstance(stage, (Launch, KernelStage)) for stage in pipeline.walk())


def difference(expected: Observation, actual: Observation) -> str:
    """Where two runs differ first, in words; "" if nowhere."""
    names = [[name for name, _, _ in run.arrays] for run in (expected, actual)]
    if names[0] != names[1]:
        return f"gives {', '.join(names[1])}, not {', '.join(names[0])}"
    for (name, element, a), (_, _, b) in zip(expected.arrays, actual.arrays, strict=True):
        if a.shape != b.shape or a.dtype != b.dtype:
            return f"@{name} is {b.dtype}{list(b.shape)}, not {a.dtype}{list(a.shape)}"
        wrong = np.argwhere(bits(a, element) != bits(b, element))
        if len(wrong):
            at = tuple(int(i) for i in wrong[0])
            return f"@{name}{list(at)} is {b[at]}, not {a[at]} ({len(wrong)} of {a.size} differ)"
    return ""


def check_example(text: str, target: Dispatcher | str, seed: int) -> tuple[Observation, Observation]:
    """A pipeline before and after the default passes on a target, with `plain_inputs`.

    The two agree bit by bit, since no pass may change what an op gives.  With ref before they agree
    bit by bit too, or to 1 in 10^5 where an op has fast maths: a few ulp, summed over a row.
    Raises AssertionError.
    """
    inputs = plain_inputs(text, seed)
    before, after = observe(text, target, inputs), observe(text, target, inputs, PASSES)
    if what := difference(before, after):
        raise AssertionError(f"after {PASSES}, {what}")
    reference = observe(text, "ref", inputs)
    ops = (op for program in parse(text).programs.values() for op in program.walk())
    if any(op.attrs.get("fastmath") for op in ops):
        for (name, _, a), (_, _, b) in zip(reference.arrays, after.arrays, strict=True):
            np.testing.assert_allclose(b, a, rtol=1e-5, atol=1e-6, err_msg=name)
    elif what := difference(reference, after):
        raise AssertionError(f"against ref, {what}")
    return before, after


# --- in a process of the pool


def _run_batch(target: str, seeds: list[int], kind: Kind, passes: str) -> PipelineRuns:
    options = OPTIONS[target]
    dispatchers = [dispatcher(target, **choice) for choice in options]
    totals = PipelineRuns()
    for seed in seeds:
        # half the seed, so that pipelines of both kinds meet all options
        at = seed // 2 % len(options)
        seed_passes = random_passes(seed) if passes == RANDOM else passes
        _run_seed(totals, seed, kind, seed_passes, dispatchers[at], options[at])
    return totals


def random_passes(seed: int) -> str:
    """Every pass alone in turn, and a random sequence of passes as often."""
    names, rng = ordinary_passes(), random.Random(seed)
    return with_options(names[seed // 2 % len(names)], rng) if seed % 2 else random_pipeline(rng)


def _run_seed(
    totals: PipelineRuns,
    seed: int,
    kind: Kind,
    passes: str,
    target: Dispatcher,
    options: dict[str, Any],
) -> None:
    """Run the pipeline of one seed, and add the result to `totals`."""
    text, module, inputs = seed_pipeline(seed, kind)
    totals.pipelines += 1
    runs: list[Observation] = []
    steps: list[tuple[str, Dispatcher | str, str]] = [("", "ref", "ref"), (passes, target, target.name)]
    if target.name != "ref":
        steps.insert(1, ("", target, target.name))
    for step_passes, runner, name in steps:
        try:
            runs.append(observe(module, runner, inputs, step_passes))
            what = difference(runs[0], runs[-1])
        except (DispatchError, DiagnosticError, PassFailure) as failed:
            what = str(failed)
        if what:
            step = f"after {step_passes}" if step_passes else "as it is"
            where = f"{name} {options}" if runner is target else name
            totals.failures.append((seed, f"{step} on {where}: {what}", text))
            return
    before, after = runs[0], runs[-1]
    totals.launches += before.launches
    totals.joined += before.launches - after.launches
    totals.changed += after.launches < before.launches
    totals.tiles += max(0, after.tiles - before.tiles)
