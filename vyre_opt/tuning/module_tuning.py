"""The kernels of a text, tuned, and their schedules written into it as parameters.

    math.softmax(@x, @y) {columns = 1024}
    math.softmax(@x, @y) {columns = 1024, schedule_lanes = 32, schedule_rows = 4, ...}

A kernel that has a schedule already keeps it: somebody chose it.  A size that is open in the text has
to be given, since what is best depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from ..ir.diagnostics import Location
from ..ir.ops import NAMED_KERNELS, SCHEDULE
from ..ir.pipeline import KernelStage
from ..ir.program import Buffer, Module
from ..runtime.dispatcher import BackendError, Dispatcher
from .result import Tuning
from .space import show_config
from .tuner import DEFAULT_STRATEGY, autotune
from .workload import KernelWorkload

__all__ = ["Settings", "dispatcher_for", "tune_kernels"]

Remark = Callable[..., None]


@dataclass(frozen=True)
class Settings:
    """`kernel`: only that one, all if empty; `retune`: those with a schedule too.  The rest is `autotune`'s,
    a `budget` of 0 being its own."""

    kernel: str = ""
    budget: int = 0
    rounds: int = 5
    seed: int = 0
    strategy: str = DEFAULT_STRATEGY
    reuse: bool = True
    retune: bool = False
    progress: bool = False


@dataclass(frozen=True)
class _Use:
    """A kernel in a text: its buffers, its parameters, and how to write new ones."""

    kernel: str
    buffers: tuple[Buffer, ...]
    params: dict[str, int]
    owns_grid: bool
    loc: Location | None
    write: Callable[[dict[str, int]], None]


def tune_kernels(
    module: Module,
    dispatcher: str | Dispatcher,
    settings: Settings,
    remark: Remark,
    counts: Mapping[str, Mapping[str, int]] | None = None,
) -> list[Tuning]:
    """Tune every named kernel of `module` and write the choices; what was tuned, in order.

    `counts`: elements of buffers of open size, by program or pipeline and by name; with it, only those
    items are looked at.  `remark(kind, message, loc, **facts)` hears what was applied or refused.
    """
    found = []
    for use in _uses(module, counts):
        if settings.kernel not in ("", use.kernel):
            continue
        refusal, tuning = _tune(use, dispatcher, settings)
        if tuning is None:
            remark("refused", f"{use.kernel} is not tuned: {refusal}", use.loc, kernel=use.kernel)
            continue
        plain = {name: value for name, value in use.params.items() if not name.startswith(SCHEDULE)}
        use.write(plain | {SCHEDULE + name: int(value) for name, value in tuning.config.items()})
        how = "kept from before" if tuning.kept else f"{len(tuning.measured)} of {tuning.of} measured"
        message = f"{use.kernel} is tuned: {show_config(tuning.config)}, {tuning.gain:.2f} times the default's speed ({how})"
        facts = {"cost": tuning.cost, "default_cost": tuning.default_cost, "device": tuning.device}
        remark("applied", message, use.loc, kernel=use.kernel, schedule=dict(tuning.config), **facts)
        found.append(tuning)
    return found


def dispatcher_for(target: str) -> Dispatcher:
    """The dispatcher of a target: cpu if empty; for a GPU's architecture, the GPU here if it is one.

    Raises BackendError where there is none, BadInputs for what is no target.
    """
    from ..runtime.dispatcher import shared_dispatcher

    if not target.startswith("sm_"):
        return shared_dispatcher(target or "cpu")
    backend: Any = shared_dispatcher("cuda")
    here = str(backend.facts.target.name)
    if here.rstrip("a") != target.rstrip("a"):
        raise BackendError(f"the GPU here is {here}, not {target}, so there is nothing to measure on")
    found: Dispatcher = backend
    return found


def _tune(use: _Use, dispatcher: str | Dispatcher, settings: Settings) -> tuple[str, Tuning | None]:
    """Why not, or the result."""
    if not settings.retune and any(name.startswith(SCHEDULE) for name in use.params):
        return "it has a schedule", None
    open_sizes = [f"@{b.name}" for b in use.buffers if b.count is None]
    if open_sizes:
        return f"{', '.join(open_sizes)} is of open size, and what is best depends on it; give a count", None
    row = NAMED_KERNELS[use.kernel]
    workload = KernelWorkload(use.kernel, use.buffers, row.semantic_params(use.params), use.owns_grid)
    options: dict[str, Any] = {
        "rounds": settings.rounds,
        "seed": settings.seed,
        "strategy": settings.strategy,
    }
    try:
        return "", autotune(
            workload,
            dispatcher=dispatcher,
            budget=settings.budget or None,
            reuse=settings.reuse,
            progress=settings.progress,
            **options,
        )
    except (BackendError, ValueError) as refusal:
        return str(refusal), None


def _uses(module: Module, counts: Mapping[str, Mapping[str, int]] | None) -> Iterator[_Use]:
    for program in module.programs.values():
        op = next((o for o in program.body.ops if o.definition.kernel is not None), None)
        if op is None or (counts is not None and program.name not in counts):
            continue
        sizes = (counts or {}).get(program.name, {})
        buffers = tuple(_sized(program.buffers[name], sizes) for name in op.attrs["buffers"])

        def write(params: dict[str, int], op: Any = op) -> None:
            op.attrs = {**op.attrs, "params": params}

        yield _Use(op.name, buffers, dict(op.attrs["params"]), False, op.loc, write)
    for pipeline in module.pipelines.values():
        if counts is not None and pipeline.name not in counts:
            continue
        sizes = (counts or {}).get(pipeline.name, {})
        for stage in pipeline.walk():
            if not isinstance(stage, KernelStage):
                continue
            buffers = tuple(_sized(pipeline.buffers[name], sizes) for name in stage.buffers)

            def put(params: dict[str, int], stage: Any = stage) -> None:
                stage.attrs = params

            yield _Use(stage.kernel, buffers, dict(stage.attrs), True, stage.loc, put)


def _sized(buffer: Buffer, sizes: Mapping[str, int]) -> Buffer:
    return replace(buffer, count=sizes.get(buffer.name, buffer.count))
