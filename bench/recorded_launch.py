"""The launch that a call of a function on arrays comes to, prepared: checked, compiled and bound to its arrays."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vyre_opt.ir.program import AccessMode, Buffer, Module, Program
from vyre_opt.runtime.arrays import array_shape
from vyre_opt.runtime.dispatcher import OutputAlloc, Scratch
from vyre_opt.runtime.inputs import check_params

__all__ = ["LaunchRecorder", "PreparedLaunch"]

Run = Callable[[], None]
Params = Mapping[str, Any] | None


@dataclass(frozen=True)
class PreparedLaunch:
    """`run()` launches once more, in place; `output()` is a copy of the last output."""

    run: Run
    output: Callable[[], Any]


class LaunchRecorder:
    """A dispatcher that records its last dispatch: that of the first call with arrays of a shape.

    It does not have `prepared` and `fast_call`, by which functions avoid to dispatch.
    """

    def __init__(self, inner: Any) -> None:
        self.inner = inner
        self.name: str = inner.name
        self._last: tuple[Program, Sequence[Any], Any, Module | None, Params] | None = None

    def dispatch(
        self,
        program: Program,
        inputs: Sequence[Any],
        grid: int | Sequence[int] | None = None,
        *,
        module: Module | None = None,
        specs: Any = None,
        params: Params = None,
        scratch: Scratch | None = None,
    ) -> list[Any]:
        self._last = (program, list(inputs), grid, module, params)
        outputs: list[Any] = self.inner.dispatch(
            program, inputs, grid, module=module, specs=specs, params=params, scratch=scratch
        )
        return outputs

    def __getattr__(self, name: str) -> Any:
        if name in ("prepared", "fast_call"):
            raise AttributeError(name)
        return getattr(self.inner, name)

    def forget(self) -> None:
        """Drop the arrays of the last dispatch, since plans of functions refer to their dispatcher."""
        self._last = None

    def prepare(self, dispatcher: Any = None) -> PreparedLaunch | None:
        """The last dispatch, for another dispatcher of the same target if there is one; None before the first.

        Storage that the program reads and writes is zeroed before each run, as functions do.
        """
        if self._last is None:
            return None
        program, inputs, grid, module, params = self._last
        prepare = _on_gpu if self.name == "cuda" else _on_host
        return prepare(dispatcher or self.inner, program, inputs, grid, module, params)


def _on_gpu(
    gpu: Any, program: Program, inputs: Sequence[Any], grid: Any, module: Module | None, params: Params
) -> PreparedLaunch:
    import torch

    from vyre_opt.cuda.device_arrays import View, new_output

    pairs = list(zip(program.bound_buffers, inputs, strict=True))
    leader, dtype = next((array, buffer.dtype) for buffer, array in pairs if buffer.access is AccessMode.READ)
    arrays = []
    with gpu.device as device:
        for buffer, array in pairs:
            is_new = isinstance(array, OutputAlloc)
            arrays.append(new_output(leader, dtype, buffer, array.count, device)[0] if is_new else array)
    zeroed = [a.owner for (b, a) in pairs if isinstance(a, View) and b.access is not AccessMode.READ]
    bound = gpu.bind(program, arrays, grid, module=module, params=params)
    stream = torch.cuda.current_stream()

    def run() -> None:
        for array in zeroed:
            array.zero_()
        bound.run(stream)

    output = _last_output(program, arrays)
    memory = output.owner if isinstance(output, View) else output
    return PreparedLaunch(run, memory.clone)


def _on_host(
    cpu: Any, program: Program, inputs: Sequence[Any], grid: Any, module: Module | None, params: Params
) -> PreparedLaunch:
    launch, scratch = cpu.prepared(program, module), Scratch()
    pairs = list(zip(program.bound_buffers, inputs, strict=True))
    arrays = [_host_array(buffer, array) for buffer, array in pairs]
    zeroed = [
        array
        for array, (b, given) in zip(arrays, pairs, strict=True)
        if not isinstance(given, OutputAlloc) and b.access is not AccessMode.READ
    ]
    workgroups = launch.prepare(grid)
    words = tuple(check_params(program, params).values())

    def run() -> None:
        for array in zeroed:
            array.fill(0)
        launch.in_place(arrays, workgroups, scratch, words)

    return PreparedLaunch(run, _last_output(program, arrays).copy)


def _host_array(buffer: Buffer, given: Any) -> np.ndarray:
    """Flat; a copy of what the program writes."""
    if isinstance(given, OutputAlloc):
        shape, stored = array_shape(buffer, given.count)
        return np.empty(shape, stored).reshape(-1)
    array = np.asarray(given).reshape(-1)
    return array if buffer.access is AccessMode.READ else array.copy()


def _last_output(program: Program, arrays: Sequence[Any]) -> Any:
    pairs = zip(program.bound_buffers, arrays, strict=True)
    return [array for buffer, array in pairs if buffer.is_output][-1]
