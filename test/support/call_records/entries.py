"""What a call calls, by its name: functions of the package with the dispatchers and the GPU of one process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

import numpy as np

import vyre_opt
from vyre_opt import kernels
from vyre_opt.execution import dispatcher as protocol
from vyre_opt.targets.cuda import DeviceArray

from .kernels import PIPELINES, PROGRAMS
from .texts import TEXTS

__all__ = ["Process"]

Entry = Callable[..., Any]


class Process:
    """The dispatchers and the GPU of this process, in which nothing ran before.

    `is_real`: whether the GPU is this machine's; else it is one in main memory, as of test/stand_ins.
    """

    def __init__(self, is_real: bool = False) -> None:
        self.is_real = is_real
        self._objects: dict[str, Any] = {}
        if not is_real:
            self._install_stand_in()

    def _install_stand_in(self) -> None:
        import fake_gpu
        import pytest

        from vyre_opt.targets.cuda import device

        self._stand_in = fake_gpu
        self._gpu = fake_gpu.install(pytest.MonkeyPatch())
        protocol._shared["cuda"] = self._gpu
        device._devices[0] = self._gpu.gpu

    def use_stream(self) -> None:
        """Another stream than the default one, for all arrays on the GPU."""
        if self.is_real:
            import torch

            torch.cuda.set_stream(torch.cuda.Stream())
        else:
            cupy: Any = sys.modules["cupy"]
            cupy.cuda = SimpleNamespace(get_current_stream=lambda *number: SimpleNamespace(ptr=7))

    @property
    def compilations(self) -> int:
        """How many programs were compiled, or found in a cache, by all dispatchers."""
        dispatchers = {id(each): each for each in (*protocol._shared.values(), *self._objects.values())}
        logged = sum(len(getattr(each, "compilations", ())) for each in dispatchers.values())
        return logged if self.is_real else logged + len(self._gpu.gpu.cuda.images)

    def dispatcher(self, name: str) -> Any:
        """An object for a target, the same in all turns of a call."""
        if name not in self._objects:
            is_stand_in = name == "cuda" and not self.is_real
            self._objects[name] = self._gpu if is_stand_in else vyre_opt.dispatcher(name)
        return self._objects[name]

    def to_gpu(self, array: np.ndarray, library: str) -> Any:
        """The array on the GPU, with the same layout where its library has such."""
        if not self.is_real:
            memory = self._stand_in.aligned(array if array.flags.c_contiguous else np.asarray(array))
            if array.flags.c_contiguous:
                placed = memory
            else:  # the same strides, in memory of its own
                wide = np.zeros((*array.shape[:-1], array.shape[-1] * 2), array.dtype)
                placed = self._stand_in.aligned(wide)[..., ::2]
                placed[...] = array
            if library == "interface":
                return self._stand_in.Numba(placed)
            return self._stand_in.CupyArray(placed)
        import torch

        from ..gpu_arrays import to_gpu

        tensor = to_gpu(torch, np.ascontiguousarray(array))
        if not array.flags.c_contiguous:
            wide = torch.zeros((*array.shape[:-1], array.shape[-1] * 2), dtype=tensor.dtype, device="cuda")
            wide[..., ::2] = tensor
            tensor = wide[..., ::2]
        if library == "interface":
            return SimpleNamespace(__cuda_array_interface__=tensor.__cuda_array_interface__, owner=tensor)
        return tensor

    def to_host(self, value: Any) -> tuple[str, np.ndarray] | None:
        """The library and the elements of an array; None for what is none."""
        if isinstance(value, (np.ndarray, np.generic)):
            return type(value).__module__.partition(".")[0], np.asarray(value)
        library = type(value).__module__.partition(".")[0]
        if library == "torch":
            from ..gpu_arrays import to_host

            return f"torch {value.device.type}", to_host(value)
        if isinstance(value, DeviceArray):
            return "DeviceArray", value.to_host()
        if not self.is_real and isinstance(value, self._stand_in.Numba):
            return type(value).__name__, value.array
        if isinstance(value, SimpleNamespace):
            return self.to_host(value.owner)
        if isinstance(value, memoryview):
            return "memoryview", np.asarray(value)
        return None

    def entry(self, name: str, options: Mapping[str, Any]) -> Entry:
        """The function of a call, made once for all of its turns.  `options`: what makes it, such as a target."""
        way, _, which = name.partition(".")
        make: Callable[[str, dict[str, Any]], Entry] = getattr(self, f"_{way}")
        return make(which, dict(options))

    def _kernels(self, which: str, options: dict[str, Any]) -> Entry:
        function: Entry = getattr(kernels, which)
        if not isinstance(function, type):
            return function

        def prepared(first: Any, /, *rest: Any, **named: Any) -> Any:
            """TTTable and TTChain: what they are made of first, then what they are called with."""
            made = {name: named.pop(name) for name in ("dtype", "dispatcher") if name in named}
            return function(first, **made)(*rest, **named)

        return prepared

    def _program(self, which: str, options: dict[str, Any]) -> Entry:
        kernel = PROGRAMS[which].options(**options)

        def run(grid: Any, /, *arguments: Any, **named: Any) -> Any:
            return (kernel if grid is None else kernel[grid])(*arguments, **named)

        return run

    def _pipeline(self, which: str, options: dict[str, Any]) -> Entry:
        pipeline: Entry = PIPELINES[which].options(**options)
        return pipeline

    def _compile(self, which: str, options: dict[str, Any]) -> Entry:
        compile: Entry = vyre_opt.compile
        executable: Entry = compile(TEXTS[which], **options)
        return executable

    def _run(self, which: str, options: dict[str, Any]) -> Entry:
        run: Entry = vyre_opt.run
        return lambda *args, **named: run(TEXTS[which], *args, **named, **options)

    def _dispatch(self, which: str, options: dict[str, Any]) -> Entry:
        program = next(iter(vyre_opt.parse(TEXTS[which]).programs.values()))
        target = options["target"]
        dispatcher = self.dispatcher(target) if isinstance(target, str) else target
        return lambda *args, **named: dispatcher.dispatch(program, *args, **named)

    def _scan(self, which: str, options: dict[str, Any]) -> Entry:
        scanner = vyre_opt.Scanner(**options)

        def scan(data: Any, /) -> Any:
            found = getattr(scanner, which)(data)
            return [found.starts, found.ends, found.patterns]

        return scan
