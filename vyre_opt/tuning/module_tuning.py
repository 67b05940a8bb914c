"""Tunes the named kernels of a module, and writes their schedules into it as parameters.

    math.softmax(@x, @y) {columns = 1024}
    math.softmax(@x, @y) {columns = 1024, schedule_lanes = 32, schedule_rows = 4, ...}

A kernel that has a schedule already keeps it, since somebody chose it.  A buffer of open size needs a
count, since the best schedule depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..execution.dispatcher import BackendError, Dispatcher, shared_dispatcher
from ..ir.diagnostics import Location
from ..ir.kernel_rules import complete_params
from ..ir.ops import NAMED_KERNELS, SCHEDULE
from ..ir.pipeline import KernelStage
from ..ir.program import Buffer, Module
from ..kernels.expansion import is_of_plugin
from .result import Tuning
from .space import show_config
from .tuner import DEFAULT_STRATEGY, autotune
from .workload import KernelWorkload

__all__ = ["TuningOptions", "dispatcher_for", "tune_kernels"]

Remark = Callable[..., None]


@dataclass(frozen=True)
class TuningOptions:
    """`kernel`: tune only this one, all if empty; `retune`: those that have a schedule too.  The others are
    those of `autotune`; a `budget` of 0 is its default."""

    kernel: str = ""
    budget: int = 0
    rounds: int = 5
    seed: int = 0
    strategy: str = DEFAULT_STRATEGY
    reuse: bool = True
    retune: bool = False
    progress: bool = False


@dataclass(frozen=True)
class _KernelUse:
    """A kernel in a module.  `owns_grid`: see `KernelWorkload`; `write(params)`: replaces its parameters."""

    kernel: str
    buffers: tuple[Buffer, ...]
    params: dict[str, int]
    owns_grid: bool
    loc: Location | None
    write: Callable[[dict[str, int]], None]


def tune_kernels(
    module: Module,
    dispatcher: str | Dispatcher,
    options: TuningOptions,
    remark: Remark,
    counts: Mapping[str, Mapping[str, int]] | None = None,
) -> list[Tuning]:
    """Tune the named kernels of `module` and write the best schedules into it; returns the results in order.

    `counts`: elements of buffers of open size, by program or pipeline and by name; if it is given, only
    these programs and pipelines are tuned.  `remark(kind, message, loc, **facts)` is called for each kernel,
    `kind` being "applied" or "refused".
    """
    tunings = []
    for use in _kernel_uses(module, counts):
        if options.kernel not in ("", use.kernel):
            continue
        refusal, tuning = _tune(use, dispatcher, options)
        if tuning is None:
            remark("refused", f"{use.kernel} is not tuned: {refusal}", use.loc, kernel=use.kernel)
            continue
        params = {name: value for name, value in use.params.items() if not name.startswith(SCHEDULE)}
        use.write(params | {SCHEDULE + name: int(value) for name, value in tuning.config.items()})
        origin = "kept from before" if tuning.kept else f"{len(tuning.measured)} of {tuning.of} measured"
        message = f"{use.kernel} is tuned: {show_config(tuning.config)}, {tuning.gain:.2f} times the default's speed ({origin})"
        facts = {"cost": tuning.cost, "default_cost": tuning.default_cost, "device": tuning.device}
        remark("applied", message, use.loc, kernel=use.kernel, schedule=dict(tuning.config), **facts)
        tunings.append(tuning)
    return tunings


def dispatcher_for(target: str) -> Dispatcher:
    """The dispatcher of a target: cpu if empty; for a GPU's architecture, the GPU here if it is one.

    Raises BackendError for a target that is not available, BadInputs for a name that is no target.
    """
    if not target.startswith("sm_"):
        return shared_dispatcher(target or "cpu")
    backend: Any = shared_dispatcher("cuda")
    local_gpu = str(backend.facts.target.name)
    if local_gpu.rstrip("a") != target.rstrip("a"):
        raise BackendError(f"the GPU here is {local_gpu}, not {target}, so there is nothing to measure on")
    dispatcher: Dispatcher = backend
    return dispatcher


def _tune(use: _KernelUse, dispatcher: str | Dispatcher, options: TuningOptions) -> tuple[str, Tuning | None]:
    """The reason why it is not tuned, or the result."""
    if not options.retune and any(name.startswith(SCHEDULE) for name in use.params):
        return "it has a schedule", None
    if is_of_plugin(use.kernel):
        return "it is of another package, and nothing says which schedules to try", None
    open_sizes = [f"@{b.name}" for b in use.buffers if b.count is None]
    if open_sizes:
        return f"{', '.join(open_sizes)} is of open size, and what is best depends on it; give a count", None
    row = NAMED_KERNELS[use.kernel]
    unsaid = [name for name, default in row.params.items() if default is None and name not in use.params]
    if unsaid:
        return f"nothing says its {unsaid[0]}; write it, or give a buffer of several dimensions extents", None
    workload = KernelWorkload(use.kernel, use.buffers, row.semantic_params(use.params), use.owns_grid)
    try:
        return "", autotune(
            workload,
            dispatcher=dispatcher,
            budget=options.budget or None,
            reuse=options.reuse,
            progress=options.progress,
            rounds=options.rounds,
            seed=options.seed,
            strategy=options.strategy,
        )
    except (BackendError, ValueError) as error:
        return str(error), None


def _kernel_uses(module: Module, counts: Mapping[str, Mapping[str, int]] | None) -> Iterator[_KernelUse]:
    for program in module.programs.values():
        op = next((o for o in program.body.ops if o.definition.kernel is not None), None)
        if op is None or (counts is not None and program.name not in counts):
            continue
        sizes = (counts or {}).get(program.name, {})
        declared = [program.buffers[name] for name in op.attrs["buffers"]]
        params = complete_params(NAMED_KERNELS[op.name], declared, op.attrs["params"])
        buffers = tuple(_sized(buffer, sizes) for buffer in declared)

        # the default binds the op of this iteration; a closure would see the last one
        def write_op(params: dict[str, int], op: Any = op) -> None:
            op.attrs = {**op.attrs, "params": params}

        yield _KernelUse(op.name, buffers, params, False, op.loc, write_op)
    for pipeline in module.pipelines.values():
        if counts is not None and pipeline.name not in counts:
            continue
        sizes = (counts or {}).get(pipeline.name, {})
        for stage in pipeline.walk():
            if not isinstance(stage, KernelStage):
                continue
            declared = [pipeline.buffers[name] for name in stage.buffers]
            params = complete_params(NAMED_KERNELS[stage.kernel], declared, stage.attrs)
            buffers = tuple(_sized(buffer, sizes) for buffer in declared)

            def write_stage(params: dict[str, int], stage: Any = stage) -> None:
                stage.attrs = params

            yield _KernelUse(stage.kernel, buffers, params, True, stage.loc, write_stage)


def _sized(buffer: Buffer, sizes: Mapping[str, int]) -> Buffer:
    return replace(buffer, shape=(sizes.get(buffer.name, buffer.count),))
