"""Plans of one launch on a dispatcher of the caller's, which has `dispatch` and nothing else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..arrays import new_storage
from ..dispatcher import BackendError, Dispatcher, OutputAlloc
from ..params import values_of_words
from ..shapes import in_shape_of
from .call_plan import CallPlan
from .host_plan import array_at
from .steps import LaunchStep
from .watch import Watch

__all__ = ["DispatchedPlan"]


class DispatchedPlan:
    """See `vyre_opt.execution.plans.call_plan.Loaded`.  Raises BackendError for a pipeline."""

    piece_bytes, pieces, kept_bytes = 0, (), 0

    def __init__(self, dispatcher: Dispatcher, call: CallPlan) -> None:
        step = call.plan.steps[0] if len(call.plan.steps) == 1 else None
        if not isinstance(step, LaunchStep) or step.launch is not None:
            raise BackendError(f"target {dispatcher.name} runs programs, but no pipelines")
        self._dispatcher, self._call, self._step = dispatcher, call, step

    def run(self, stream: int, *words: int) -> int:
        call, step = self._call, self._step
        first_word = call.inputs + len(call.results)
        passed = dict(zip(sorted(call.plan.pipeline.params), words[first_word:], strict=True))
        arguments = [self._argument(name, words) for name in step.buffers]
        module = call.plan.module
        options: dict[str, Any] = {
            "module": module if module.order else None,
            "params": values_of_words(step.program, step.words(passed)),
        }
        given = {name: value for name, value in options.items() if value}
        grid = step.grid[0] if step.grid[1:] == (1, 1) else step.grid
        outputs = iter(self._dispatcher.dispatch(step.program, arguments, grid, **given))
        for name, formal in zip(step.buffers, step.program.bound_buffers, strict=True):
            if formal.is_output:
                output = next(outputs)
                slot = call.slots.get(name)
                if slot is not None:
                    array_at(words[slot], call.plan.buffers[name])[:] = np.asarray(output).reshape(-1)
        return 0

    def watched(self, watch: Watch, stream: int, words: Sequence[int]) -> int:
        return self.run(stream, *words)

    def explain(self, status: int) -> bool:
        raise AssertionError("a dispatch has no status")

    def _argument(self, name: str, words: Sequence[int]) -> Any:
        """The array of a buffer; `OutputAlloc` where it has no contents."""
        call, buffer = self._call, self._call.plan.buffers[name]
        number = call.copies.get(name, call.slots.get(name, call.inputs))
        if number < call.inputs:
            return in_shape_of(buffer, array_at(words[number], buffer))
        if name in call.zeroed:
            return new_storage(buffer, np.zeros)
        return OutputAlloc(buffer.count or 0, buffer.shape if buffer.dimensions > 1 else ())  # type: ignore[arg-type]
