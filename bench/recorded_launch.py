"""The launches that a call of a function on arrays comes to, prepared: compiled, and bound to arrays of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vyre_opt.execution.plans.call_plan import CallPlan, Loaded
from vyre_opt.execution.plans.host_plan import array_at
from vyre_opt.execution.target import Target

__all__ = ["LaunchRecorder", "PreparedLaunch"]

Run = Callable[[], None]


@dataclass(frozen=True)
class PreparedLaunch:
    """`run()` launches once more; `output()` is a copy of the last output."""

    run: Run
    output: Callable[[], Any]


class LaunchRecorder(Target):
    """A dispatcher that records the last plan which ran, with the contents of its inputs."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name, self.workers, self.bounds = inner.name, inner.workers, inner.bounds
        self._last: tuple[CallPlan, list[Any], tuple[int, ...]] | None = None

    @property
    def architecture(self) -> str:
        return str(self.inner.architecture)

    def dispatch(self, *args: Any, **options: Any) -> list[Any]:
        """Nothing of it is recorded."""
        outputs: list[Any] = self.inner.dispatch(*args, **options)
        return outputs

    def load(self, call: CallPlan) -> Loaded:
        """See `CpuDispatcher.load`."""
        return _Recorded(self, call, self.inner.load(call), _host_copy)

    def load_on_gpu(self, call: CallPlan) -> Loaded:
        """See `CudaDispatcher.load_on_gpu`."""
        return _Recorded(self, call, self.inner.load_on_gpu(call), _gpu_copy)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def forget(self) -> None:
        """Drop the arrays of the last plan."""
        self._last = None

    def prepare(self, dispatcher: Any = None) -> PreparedLaunch | None:
        """The last plan, for another dispatcher of the same target if there is one; None before the first."""
        if self._last is None:
            return None
        call, arrays, values = self._last
        chosen = dispatcher or self.inner
        if self.name == "cuda":
            import torch

            loaded = chosen.load_on_gpu(call)
            pieces = torch.empty(max(1, loaded.piece_bytes), dtype=torch.uint8, device="cuda")
            first = pieces.data_ptr()
            more = [first, *(first + offset for offset in loaded.pieces)] if loaded.piece_bytes else []
            words = [*(array.data_ptr() for array in arrays), *more, *values]
            stream = torch.cuda.current_stream().cuda_stream
            kept = [*arrays, pieces]
            copy = arrays[-1].clone
        else:
            loaded, kept, stream = chosen.load(call), arrays, 0
            words = [*(array.ctypes.data for array in arrays), *values]
            copy = arrays[-1].copy

        def run() -> None:
            assert kept
            loaded.run(stream, *words)

        return PreparedLaunch(run, copy)


class _Recorded:
    """A loaded plan that tells a recorder what it runs on.  `copy(address, buffer)`: an array of the buffer's contents."""

    def __init__(self, recorder: LaunchRecorder, call: CallPlan, loaded: Loaded, copy: Any) -> None:
        self.recorder, self.call, self.loaded, self.copy = recorder, call, loaded, copy
        self.piece_bytes, self.pieces = loaded.piece_bytes, loaded.pieces
        self.kept_bytes, self.explain = loaded.kept_bytes, loaded.explain

    def run(self, stream: int, *words: int) -> int:
        call = self.call
        buffers = {number: call.plan.buffers[name] for name, number in call.copies.items()}
        buffers |= {number: call.plan.buffers[name] for name, number in call.slots.items()}
        arrays = [self.copy(words[number], buffers[number]) for number in sorted(buffers)]
        passed = len(words) - len(call.plan.pipeline.params)
        self.recorder._last = call, arrays, words[passed:]
        return self.loaded.run(stream, *words)

    def watched(self, watch: Any, stream: int, words: Sequence[int]) -> int:
        return self.loaded.watched(watch, stream, words)


def _host_copy(address: int, buffer: Any) -> Any:
    return array_at(address, buffer).copy()


def _gpu_copy(address: int, buffer: Any) -> Any:
    import torch

    from vyre_opt.execution.arrays import storage_type
    from vyre_opt.targets.cuda import libcuda

    stored = storage_type(buffer.dtype)
    assert stored is not None
    scalars = (buffer.count or 0) * buffer.dtype.lanes
    copied = torch.empty(scalars, dtype=getattr(torch, np.dtype(stored).name), device="cuda")
    libcuda.copy(copied.data_ptr(), address, copied.nbytes, torch.cuda.current_stream().cuda_stream)
    return copied
