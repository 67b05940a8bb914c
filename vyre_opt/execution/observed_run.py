"""Runs of plans of which the observers of the process hear, launch by launch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import get_ident
from time import perf_counter
from typing import TYPE_CHECKING

from ..ir.program import Dim3, Program
from ..observers import OBSERVERS, span
from ..records import dataclass
from .params import Words
from .plans.call_plan import CallPlan, Loaded, launch_plan, pipeline_call
from .plans.steps import LaunchStep
from .plans.watch import Times, Watch
from .target import Target

if TYPE_CHECKING:
    import numpy as np

__all__ = ["TimedLaunch", "observed_launch", "observed_run"]


@dataclass(frozen=True, slots=True)
class TimedLaunch:
    """A launch of a call that ended at `end`, by `time.perf_counter`, and took `seconds` on its target.

    `words`: of the runtime scalars of the call.
    """

    step: LaunchStep
    call: CallPlan
    target: Target
    words: Sequence[int]
    seconds: float
    end: float
    thread: int


class _Told(Times):
    """Times that observers of the process get."""

    def __init__(self, call: CallPlan, target: Target, words: Sequence[int]) -> None:
        super().__init__()
        count = len(call.plan.pipeline.params)
        self._made_of = call, target, words[len(words) - count :]

    def add(self, key: object, what: str, seconds: float, steps: Sequence[LaunchStep]) -> None:
        (step,) = steps
        launch = TimedLaunch(step, *self._made_of, seconds, perf_counter(), get_ident())
        for observer in tuple(OBSERVERS):
            if observer.times_launches:
                observer.launch(launch)


def observed_run(
    call: CallPlan, target: Target, loaded: Loaded, is_recording: Callable[[], bool]
) -> Callable[..., int]:
    """`loaded.run`, of which the observers of the process hear."""

    def run(stream: int, *words: int) -> int:
        with span("call", call.plan.title):
            times_launches = any(observer.times_launches for observer in tuple(OBSERVERS))
            if not times_launches or is_recording():  # nothing may wait for what is recorded
                return loaded.run(stream, *words)
            return loaded.watched(Watch(times=_Told(call, target, words), apart=True), stream, words)

    return run


@contextmanager
def observed_launch(
    program: Program, arrays: Sequence[np.ndarray], grid: Dim3, params: Words, target: Target
) -> Iterator[None]:
    """Around a launch, in place on arrays in main memory, that is no plan's; `params`: words of all runtime scalars."""
    bound = zip(program.bound_buffers, arrays, strict=True)
    shapes = [(array.size // buffer.dtype.lanes,) for buffer, array in bound]
    plan = launch_plan(program, grid, None, shapes, params)
    (step,) = plan.steps
    assert isinstance(step, LaunchStep)
    call = pipeline_call(plan, list(plan.buffers), in_place=True)
    with span("call", plan.title), _Told(call, target, ()).of(step):
        yield
