"""Programs and pipelines as functions that work on the caller's own arrays, and return nothing.

A call checks types, layout and places of the arrays once for all calls with like arrays; later ones take pointers and
launch.  Arrays that are read are not copied either, unless they share memory with one that is written: then the
program sees what they held before the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..ir.program import AccessMode, Buffer, Dim3
from ..runtime.array_backend import NOT_CONTIGUOUS, ArrayBackend, Operand
from ..runtime.cpu.fast_call import is_in_place, pointer_of
from ..runtime.dispatcher import BadInputs, Scratch
from ..runtime.inputs import Parameter, check_grid
from ..runtime.kernel_call import KernelCall, PlannedCall, planned_on_contiguous
from ..runtime.params import Words, value_as_passed, values_of_words
from ..runtime.pipelines.host_runner import HostMemory, HostRunner
from ..runtime.shapes import argument_shape, shape_in_elements
from ..runtime.signatures import SIGNATURES
from .placement import array_backend_of
from .planned_function import remember

if TYPE_CHECKING:
    from ..cuda.array_backend import GpuArrays
    from .executable import Executable
    from .pipeline import PipelineExecutable
    from .program import ProgramExecutable

__all__ = ["InPlacePipeline", "InPlaceProgram", "check_arrays"]

Plan = Callable[[Sequence[Any], Words], None]
Grid = int | tuple[int, ...]


class InPlaceProgram:
    """`call(arrays, grid, words)` runs a program on an array for each bound buffer, in binding order.

    `words`: of the runtime scalars (see runtime/params.py).  Arrays are NumPy's or torch's in main memory, or of any
    library on a GPU.  Raises BadInputs before anything runs, and ProgramError for a fault of the program.
    """

    def __init__(self, executable: ProgramExecutable) -> None:
        self.executable = executable
        self._plans: OrderedDict[Any, Plan] = OrderedDict()

    def __call__(self, arrays: Sequence[Any], grid: Grid, words: Words) -> None:
        key = _key(arrays, grid)
        plan = None if key is None else self._plans.get(key)
        if plan is None:
            plan = self._plan(arrays, grid)
            if key is not None:
                remember(self._plans, key, plan)
        plan(arrays, words)

    def _plan(self, arrays: Sequence[Any], grid: Grid) -> Plan:
        """What runs the program on arrays like these."""
        executable, program = self.executable, self.executable.program
        workgroups = check_grid(program, grid)
        backend, operands = _operands(executable, arrays)
        call = KernelCall(program, workgroups, tuple(range(len(arrays))), module=executable.module)
        fast = _planned(
            backend, operands, program.bound_buffers, lambda settled: backend.fast_call(call, settled, [])
        )
        if fast is not None:
            return fast
        return self._gpu_plan(workgroups) if backend.on_gpu else self._plain_plan(workgroups)

    def _plain_plan(self, grid: Dim3) -> Plan:
        """Looks at each call's arrays anew: for ref, and for arrays that are read but not used where they are."""
        executable, program = self.executable, self.executable.program
        dispatcher: Any = executable.dispatcher
        if not hasattr(dispatcher, "in_place"):
            message = f"{executable.name}: target {dispatcher.name} takes arrays on the GPU; these are in main memory"
            raise BadInputs(message)
        scratch = Scratch()

        def run(arrays: Sequence[Any], words: Words) -> None:
            memory = _memory(executable, arrays)
            dispatcher.in_place(program, memory, grid, executable.module, scratch, words)()

        return run

    def _gpu_plan(self, grid: Dim3) -> Plan:
        """Looks at each call's arrays anew: those that are copied before, and back after, are others each time."""
        executable, program = self.executable, self.executable.program

        def run(arrays: Sequence[Any], words: Words) -> None:
            backend, operands = _operands(executable, arrays)
            shared = _overlapping(backend, operands, program.bound_buffers)
            values, gpu = values_of_words(program, words), cast("GpuArrays", backend)
            gpu.run_in_place(program, operands, grid, shared, module=executable.module, params=values)

        return run


class InPlacePipeline:
    """`call(arrays, words)` runs a pipeline on an array for each of its inputs and outputs, in order of declaration.

    Otherwise it is as `InPlaceProgram`; `words`: by the names of the params, in their order.
    """

    def __init__(self, executable: PipelineExecutable) -> None:
        self.executable = executable
        self._plans: OrderedDict[Any, Plan] = OrderedDict()

    def __call__(self, arrays: Sequence[Any], words: Mapping[str, int]) -> None:
        key = _key(arrays, self.executable.settled_words(words))
        plan = None if key is None else self._plans.get(key)
        if plan is None:
            plan = self._plan(arrays, words)
            if key is not None:
                remember(self._plans, key, plan)
        plan(arrays, tuple(words.values()))

    def _plan(self, arrays: Sequence[Any], words: Mapping[str, int]) -> Plan:
        executable = self.executable
        backend, operands = _operands(executable, arrays)
        buffers = executable.signature.parameters
        runner = executable.runner_for({b.name: a for b, a in zip(buffers, arrays, strict=True)}, words)
        plan = getattr(runner, "fast_call", None)
        if plan is not None:

            def planned(settled: Sequence[Operand]) -> PlannedCall | None:
                named = {b.name: operand for b, operand in zip(buffers, settled, strict=True)}
                call: PlannedCall | None = plan(named, {}, in_place=True)
                return call

            fast = _planned(backend, operands, buffers, planned)
            if fast is not None:
                return fast
        names = list(words)
        if not isinstance(runner, HostRunner):

            def run_and_copy(arrays: Sequence[Any], values: Words) -> None:
                backend, operands = _operands(executable, arrays)
                _overlapping(backend, operands, buffers)
                inputs = {b.name: array for b, array in zip(buffers, arrays, strict=True)}
                outputs = executable(inputs, params=_as_params(executable, names, values))
                for buffer, operand in zip(buffers, operands, strict=True):
                    if buffer.name in outputs:
                        backend.overwrite(operand, outputs[buffer.name])

            return run_and_copy

        def run(arrays: Sequence[Any], values: Words) -> None:
            flat = {name: held.array for name, held in _memory(executable, arrays).items()}
            runner.run_in_place(flat, dict(zip(names, values, strict=True)))

        return run


def _as_params(executable: PipelineExecutable, names: Sequence[str], words: Words) -> dict[str, Any]:
    declared = executable.signature.params
    return {name: value_as_passed(bits, declared[name]) for name, bits in zip(names, words, strict=True)}


def _key(arrays: Sequence[Any], *rest: Any) -> Any:
    """What a plan is for; None for arrays that no plan fits."""
    try:
        return (*rest, *[SIGNATURES[type(array)](array) for array in arrays])
    except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
        return None


def _operands(executable: Executable, arrays: Sequence[Any]) -> tuple[ArrayBackend, list[Operand]]:
    """The backend for arrays, and these as it takes them, checked.  Raises BadInputs."""
    buffers = executable.signature.parameters
    named = {buffer.name: array for buffer, array in zip(buffers, arrays, strict=True)}
    backend = array_backend_of(executable.dispatcher, named)
    return backend, [_operand(backend, executable.name, b, a) for b, a in zip(buffers, arrays, strict=True)]


def check_arrays(executable: Executable, arrays: Mapping[str, Any]) -> None:
    """Raises BadInputs for an array that a call would not take.  `arrays`: by the names of their buffers, all or some."""
    backend = array_backend_of(executable.dispatcher, arrays)
    for buffer in executable.signature.parameters:
        if buffer.name in arrays:
            _operand(backend, executable.name, buffer, arrays[buffer.name])


def _memory(executable: Executable, arrays: Sequence[Any]) -> dict[str, HostMemory]:
    """The memory of arrays, by the names of their buffers; a copy of those that share it with one that is written, or
    are not aligned."""
    backend, operands = _operands(executable, arrays)
    memory: dict[str, HostMemory] = {}
    buffers = executable.signature.parameters
    shared = _overlapping(backend, operands, buffers)
    for number, (buffer, operand) in enumerate(zip(buffers, operands, strict=True)):
        array = Parameter.of(buffer, f"{executable.name}: {buffer.name}").take(_shaped(operand))
        is_copied = number in shared or not array.flags.aligned
        shape = shape_in_elements(buffer, operand) if buffer.dimensions > 1 else None
        memory[buffer.name] = HostMemory(array.copy() if is_copied else array, shape=shape or ())
    return memory


def _shaped(operand: Operand) -> np.ndarray:
    """An array in main memory, in its shape."""
    array: np.ndarray = operand.array.reshape(operand.shape)
    return array


def _planned(
    backend: ArrayBackend,
    operands: Sequence[Operand],
    buffers: Sequence[Buffer],
    plan: Callable[[Sequence[Operand]], PlannedCall | None],
) -> Plan | None:
    """What runs `plan(operands)` on arrays that are contiguous or copied, and share no memory; None where it is None."""

    def apart(settled: Sequence[Operand]) -> _Apart | None:
        call = plan(settled)
        return None if call is None else _apart(call.run, backend, settled, buffers)

    fast = planned_on_contiguous(backend, operands, apart)
    return None if fast is None else fast.run


def _apart(
    run: Callable[..., Any], backend: ArrayBackend, operands: Sequence[Operand], buffers: Sequence[Buffer]
) -> _Apart:
    """A plan that looks for arrays that share memory before it runs."""
    if backend.on_gpu:
        from ..cuda.libraries import library_of

        access = library_of(operands[0].owner).fast
        assert access is not None
        sizes = [int(operand.owner.nbytes) for operand in operands]
        return _Apart(run, [access.pointer] * len(sizes), sizes, buffers)
    pointers = [pointer_of(operand.owner) for operand in operands]
    return _Apart(run, pointers, [operand.array.nbytes for operand in operands], buffers)


class _Apart:
    """Runs a plan, and looks for arrays that share memory first."""

    def __init__(
        self,
        run: Callable[..., Any],
        pointers: Sequence[Callable[[Any], int]],
        sizes: Sequence[int],
        buffers: Sequence[Buffer],
    ) -> None:
        self._run, self._pointers, self._sizes, self._buffers = run, pointers, sizes, buffers
        self._written = [k for k, b in enumerate(buffers) if _is_written(b)]

    def run(self, arrays: Sequence[Any], words: Words) -> None:
        starts = [pointer(array) for pointer, array in zip(self._pointers, arrays, strict=True)]
        for written in self._written:
            start = starts[written]
            end = start + self._sizes[written]
            for other, at in enumerate(starts):
                if at < end and start < at + self._sizes[other] and other != written:
                    arrays = self._copied(arrays, written, other)
        self._run(arrays, words)

    def _copied(self, arrays: Sequence[Any], written: int, other: int) -> Sequence[Any]:
        """The arrays, with a copy in place of one that shares memory with one that is written."""
        if other in self._written:
            raise _both_written(self._buffers[written], self._buffers[other])
        array = arrays[other]
        copy = array.clone() if hasattr(array, "clone") else array.copy()
        return [*arrays[:other], copy, *arrays[other + 1 :]]


def _overlapping(backend: ArrayBackend, operands: Sequence[Operand], buffers: Sequence[Buffer]) -> set[int]:
    """The numbers of the operands that are only read and share memory with one that is written.

    Raises BadInputs for two that are written.
    """
    spans = [backend.span(operand) for operand in operands]
    overlapping = set()
    for one, other in combinations(range(len(spans)), 2):
        (start, size), (at, length) = spans[one], spans[other]
        written = [k for k in (one, other) if _is_written(buffers[k])]
        if written and start < at + length and at < start + size:
            if len(written) == 2:
                raise _both_written(buffers[one], buffers[other])
            overlapping |= {one, other} - {*written}
    return overlapping


def _both_written(one: Buffer, other: Buffer) -> BadInputs:
    return BadInputs(f"{one.name} and {other.name} share memory, and the kernel writes both")


def _is_written(buffer: Buffer) -> bool:
    """Whether a call may write the array for a buffer of a program or a pipeline."""
    return buffer.live_out or buffer.access in (AccessMode.WRITE, AccessMode.READ_WRITE)


def _operand(backend: ArrayBackend, program: str, buffer: Buffer, array: Any) -> Operand:
    """An array as the backend takes it, checked.  Raises BadInputs."""
    name = f"{program}: {buffer.name}"
    if isinstance(array, np.generic):
        raise BadInputs(f"{name} is one number ({type(array).__name__}), where an array is wanted")
    operand = backend.take(array, name)
    if backend.on_gpu:
        from ..cuda.device_arrays import take

        dispatcher: Any = backend.dispatcher
        take(operand.array, buffer, name, dispatcher.device.number)
        if buffer.dimensions > 1:
            argument_shape(buffer, operand, name)
    else:
        Parameter.of(buffer, name).take(_shaped(operand))
    if _is_written(buffer):
        problem = _why_not_in_place(backend, operand)
        if problem:
            raise BadInputs(f"{name} is written, but the array {problem}")
    return operand


def _why_not_in_place(backend: ArrayBackend, operand: Operand) -> str:
    """Why nothing can be written to an array where it is; "" if it can."""
    owner = operand.owner
    if not backend.on_gpu and not (hasattr(owner, "shape") and hasattr(owner, "dtype")):
        return f"is a {type(owner).__name__}; pass an array of NumPy or torch"
    if getattr(owner, "requires_grad", False):
        return "requires a gradient; pass x.detach()"
    if backend.on_gpu:
        return "" if operand.array is owner else NOT_CONTIGUOUS
    flags = getattr(owner, "flags", None)
    if flags is not None and not flags.writeable:
        return "is read-only"
    if is_in_place(operand):
        return ""
    is_contiguous = owner.is_contiguous() if flags is None else flags.c_contiguous
    return "is not aligned, or of another byte order; pass a copy" if is_contiguous else NOT_CONTIGUOUS
