"""Calls on arrays in main memory whose checks, code and memory were settled by an earlier call with like arrays.

What remains is to allocate the results, to ask for addresses, and to run the workgroups.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from operator import methodcaller
from typing import TYPE_CHECKING, Any

import numpy as np

from ..array_backend import HostArrays, Operand, is_torch
from ..arrays import storage_type
from ..dispatcher import OutputAlloc
from ..kernel_call import Copied, Fresh, KernelCall, OutFit, Zeros
from ..params import Words
from ..signatures import signature_of
from . import output_memory, threads
from .launch_sequence import LaunchSequence

if TYPE_CHECKING:
    from .launch import CompiledLaunch

__all__ = ["CpuCall", "fast_call", "is_in_place", "maker_of", "pointer_of"]

MAX_KEPT_BYTES = 1 << 18
"""More memory than this is not kept from call to call."""

Pointer = Callable[[Any], int]
_torch_pointer: Pointer = methodcaller("data_ptr")


def fast_call(
    launch: CompiledLaunch,
    call: KernelCall,
    backend: HostArrays,
    operands: Sequence[Operand],
    results: Sequence[Any],
) -> CpuCall | None:
    """See `ArrayBackend.fast_call`."""
    if launch.prints or not all(map(is_in_place, operands)):
        return None
    return CpuCall(launch, call, backend, operands, results)


def is_in_place(operand: Operand) -> bool:
    """Whether code can work on an operand where the caller has it."""
    address = pointer_of(operand.owner)(operand.owner)
    # the address of an empty array may be anything
    in_place = address == output_memory.address(operand.array) or not operand.count
    return in_place and bool(operand.array.flags.aligned)


def pointer_of(array: Any) -> Pointer:
    """What gives the address of such arrays."""
    return _torch_pointer if is_torch(array) else output_memory.address


def maker_of(backend: HostArrays, result: Any, cleared: bool) -> Callable[[], Any]:
    """A function that allocates arrays like a result, of zeros if they are to be `cleared`."""
    if result.nbytes < output_memory.MIN_BYTES:
        library = sys.modules["torch"] if is_torch(result) else np
        function = library.zeros if cleared else library.empty
        return partial(function, tuple(result.shape), dtype=result.dtype)
    flat = backend.take(result, "a result")
    small = result.new_empty(0) if is_torch(result) else np.empty(0, result.dtype)
    count, stored, shape = flat.count, flat.array.dtype, tuple(result.shape)
    like = Operand(np.empty(0, stored), shape, flat.kind, small)

    def make() -> Any:
        array = output_memory.empty(count, stored)
        if cleared:
            threads.clear_new(array, backend.workers)
        return backend.result(array, shape, like)

    return make


@dataclass(slots=True)
class _Run:
    """What one call at a time uses: a runner, of whose arguments `storage` has some, of so many bytes; `sequence` zeroes
    some of these and runs it."""

    runner: threads.GridRunner
    storage: list[np.ndarray]
    storage_bytes: int
    sequence: LaunchSequence


class CpuCall:
    """See `vyre_opt.runtime.kernel_call.FastCall`.  Several threads may call it at the same time.

    Without results the program works on its inputs alone, and may write them.
    `_inputs`, `_results`: for each argument of the code that is one, its place there and its number.
    `_copies`: the inputs that are copied first: number of the result, number and bytes of the input.
    """

    __slots__ = (
        "_copies",
        "_count",
        "_counts",
        "_idle",
        "_inputs",
        "_launch",
        "_makers",
        "_pointers",
        "_results",
        "_storage",
        "_touched",
        "_words",
        "_workers",
        "fits",
    )

    def __init__(
        self,
        launch: CompiledLaunch,
        call: KernelCall,
        backend: HostArrays,
        operands: Sequence[Operand],
        results: Sequence[Any],
    ) -> None:
        self._launch = (launch, launch.prepare(call.grid))
        self._words = call.words
        self._workers = backend.workers
        self._pointers = [pointer_of(operand.owner) for operand in operands]
        copies: list[tuple[Callable[[], Any], Pointer]] = []
        self._inputs: list[tuple[int, int]] = []
        self._results: list[tuple[int, int]] = []
        self._storage: list[tuple[int, Zeros | Fresh]] = []
        self._copies: list[tuple[int, int, int]] = []
        self._counts: list[int] = []
        numbers = {place: number for number, place in enumerate(call.allocated_results)}
        for at, item in enumerate(launch.code_arguments):
            if not isinstance(item, int):
                self._storage.append((at, Zeros(item.count or 0, item.dtype)))
                self._counts.append(item.count or 0)
                continue
            argument, lanes = call.arguments[item], call.program.bound_buffers[item].dtype.lanes
            if isinstance(argument, int):
                self._inputs.append((at, argument))
                self._counts.append(operands[argument].count // lanes)
                continue
            if isinstance(argument, (Zeros, Fresh)):
                self._storage.append((at, argument))
                self._counts.append(argument.count)
                continue
            if isinstance(argument, Copied):
                source = operands[argument.input]
                if not argument.is_result:  # it goes to a further array, which is not returned
                    numbers[item] = len(results) + len(copies)
                    copies.append((maker_of(backend, source.array, False), output_memory.address))
                self._copies.append((numbers[item], argument.input, source.array.nbytes))
            self._results.append((at, numbers[item]))
            self._counts.append(source.count // lanes if isinstance(argument, Copied) else argument.count)
        cleared = self._cleared(call)
        self._makers = [
            (maker_of(backend, result, place in cleared), pointer_of(result))
            for place, result in zip(call.allocated_results, results, strict=True)
        ]
        self._makers += copies
        sizes = [operand.array.nbytes for operand in operands]
        self._touched = max([0, *sizes, *(result.nbytes for result in results)])
        self._count = len(results)
        self._idle: list[_Run] = []
        if results:
            out = results[0]
            self.fits = OutFit(signature_of(out), tuple(sizes), out.nbytes, self._makers[0][1]).fits

    def _cleared(self, call: KernelCall) -> set[int]:
        """The places of the arguments that are new results, and to be zeroed."""
        if not call.clears:
            return set()
        launch, grid = self._launch
        whole = launch.wholly_written(grid, self._counts, self._words)
        arguments = zip(call.arguments, call.program.bound_buffers, strict=True)
        return {
            place
            for place, (argument, buffer) in enumerate(arguments)
            if isinstance(argument, OutputAlloc) and buffer.name not in whole
        }

    def may_plan(self) -> bool:
        """See `FastCall`."""
        return True

    def run(self, arrays: Sequence[Any], params: Words = ()) -> list[Any]:
        return self._run(arrays, [make() for make, _ in self._makers], params)

    def into(self, arrays: Sequence[Any], out: Any) -> list[Any]:
        return self._run(arrays, [out, *[make() for make, _ in self._makers[1:]]])

    def _run(self, arrays: Sequence[Any], results: list[Any], params: Words = ()) -> list[Any]:
        # taken off the list: another thread must not write its addresses into the same arguments meanwhile
        run = self._idle.pop() if self._idle else self._new_run()
        args, pointers = run.runner.args, self._pointers
        for at, number in self._inputs:
            args[at] = pointers[number](arrays[number])
        for at, number in self._results:
            args[at] = self._makers[number][1](results[number])
        for number, source, size in self._copies:
            target = self._makers[number][1](results[number])
            threads.copy_bytes(target, pointers[source](arrays[source]), size, self._workers)
        if self._words:
            params = (*params, *self._words)
        if params:
            self._launch[0].set_params(run.runner, params)
        fault = run.sequence.run()
        if fault is not None:  # the run is dropped, since nothing clears its fault records
            launch, grid = self._launch
            raise launch.error(fault[1], grid, self._counts, params)
        if run.runner.kept_bytes + run.storage_bytes <= MAX_KEPT_BYTES:
            self._idle.append(run)
        del results[self._count :]
        return results

    def _new_run(self) -> _Run:
        launch, grid = self._launch
        runner = launch.new_runner(self._counts, grid, self._touched)
        storage: list[np.ndarray] = []
        zeros: list[np.ndarray] = []
        for at, kind in self._storage:
            array = np.zeros(kind.count * kind.dtype.lanes, storage_type(kind.dtype))
            runner.args[at] = output_memory.address(array)
            storage.append(array)
            if isinstance(kind, Zeros):
                zeros.append(array)
        storage_bytes = sum(array.nbytes for array in storage)
        return _Run(runner, storage, storage_bytes, LaunchSequence([*zeros, runner], self._workers))
