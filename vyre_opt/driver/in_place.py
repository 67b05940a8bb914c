"""A program as a function that works on the caller's own arrays, and returns nothing.

A call checks types, layout and places of the arrays once for all calls with like arrays; later ones take pointers and
launch.  Arrays that are read are not copied either, unless they share memory with one that is written: then the
program sees what they held before the call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..ir.program import AccessMode, Buffer, Dim3
from ..runtime.array_backend import ArrayBackend, Operand
from ..runtime.cpu.fast_call import is_in_place, pointer_of
from ..runtime.dispatcher import BadInputs, Scratch
from ..runtime.inputs import Parameter, check_grid
from ..runtime.kernel_call import KernelCall
from ..runtime.params import Words, values_of_words
from ..runtime.pipelines.host_runner import HostMemory
from ..runtime.signatures import SIGNATURES
from .placement import array_backend_of
from .planned_function import remember

if TYPE_CHECKING:
    from .program import ProgramExecutable

__all__ = ["InPlaceProgram"]

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
        try:
            key: Any = (grid, *[SIGNATURES[type(array)](array) for array in arrays])
            plan = self._plans.get(key)
        except (KeyError, TypeError, RuntimeError, AttributeError, ValueError):
            key = plan = None
        if plan is None:
            plan = self._plan(arrays, grid)
            if key is not None:
                remember(self._plans, key, plan)
        plan(arrays, words)

    def _plan(self, arrays: Sequence[Any], grid: Grid) -> Plan:
        """What runs the program on arrays like these."""
        executable, program = self.executable, self.executable.program
        buffers = program.bound_buffers
        named = {buffer.name: array for buffer, array in zip(buffers, arrays, strict=True)}
        workgroups = check_grid(program, grid)
        backend = array_backend_of(executable.dispatcher, named)
        operands = [_operand(backend, program.name, b, a) for b, a in zip(buffers, arrays, strict=True)]
        if backend.on_gpu:
            return self._gpu_plan(backend, operands, workgroups)
        call = KernelCall(program, workgroups, tuple(range(len(arrays))), module=executable.module)
        fast = backend.fast_call(call, operands, [])
        if fast is None:
            return self._plain_plan(workgroups)
        pointers = [pointer_of(operand.owner) for operand in operands]
        sizes = [operand.array.nbytes for operand in operands]
        return _Apart(fast.run, pointers, sizes, buffers).run

    def _plain_plan(self, grid: Dim3) -> Plan:
        """Looks at each call's arrays anew: for ref, and for arrays that are read but not used where they are."""
        executable, program = self.executable, self.executable.program
        dispatcher: Any = executable.dispatcher
        scratch = Scratch()
        parameters = [Parameter.of(b, f"{program.name}: {b.name}") for b in program.bound_buffers]

        def run(arrays: Sequence[Any], words: Words) -> None:
            backend = array_backend_of(dispatcher, dict(enumerate(arrays)))  # type: ignore[arg-type]
            flat = [
                p.take(backend.take(a, p.buffer.name).array) for p, a in zip(parameters, arrays, strict=True)
            ]
            for place, array in enumerate(flat):
                if program.bound_buffers[place].access is AccessMode.READ:
                    flat[place] = np.require(array.copy(), requirements="A")
            memory = {p.buffer.name: HostMemory(a) for p, a in zip(parameters, flat, strict=True)}
            dispatcher.in_place(program, memory, grid, executable.module, scratch, words)()

        return run

    def _gpu_plan(self, backend: ArrayBackend, operands: Sequence[Operand], grid: Dim3) -> Plan:
        executable, program = self.executable, self.executable.program
        dispatcher: Any = executable.dispatcher
        call = KernelCall(program, grid, tuple(range(len(operands))), module=executable.module)
        fast = backend.fast_call(call, operands, [])
        if fast is not None:
            from ..cuda.libraries import library_of

            access = library_of(operands[0].owner).fast
            assert access is not None
            sizes = [int(operand.owner.nbytes) for operand in operands]
            return _Apart(fast.run, [access.pointer] * len(sizes), sizes, program.bound_buffers).run

        def run(arrays: Sequence[Any], words: Words) -> None:
            values = values_of_words(program, words)
            dispatcher.launch(program, list(arrays), grid, module=executable.module, params=values)

        return run


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
        self._written = [k for k, b in enumerate(buffers) if b.access is not AccessMode.READ]

    def run(self, arrays: Sequence[Any], words: Words) -> None:
        spans = [(p(a), size) for p, a, size in zip(self._pointers, arrays, self._sizes, strict=True)]
        for written in self._written:
            start, size = spans[written]
            for other, (at, length) in enumerate(spans):
                if other != written and at < start + size and start < at + length:
                    arrays = self._copied(arrays, written, other)
        self._run(arrays, words)

    def _copied(self, arrays: Sequence[Any], written: int, other: int) -> Sequence[Any]:
        """The arrays, with a copy in place of one that shares memory with one that is written."""
        if other in self._written:
            names = [self._buffers[place].name for place in (written, other)]
            raise BadInputs(f"{names[0]} and {names[1]} share memory, and the kernel writes both")
        array = arrays[other]
        copy = array.clone() if hasattr(array, "clone") else array.copy()
        return [*arrays[:other], copy, *arrays[other + 1 :]]


def _operand(backend: ArrayBackend, program: str, buffer: Buffer, array: Any) -> Operand:
    """An array as the backend takes it, checked.  Raises BadInputs."""
    name = f"{program}: {buffer.name}"
    operand = backend.take(array, name)
    if backend.on_gpu:
        from ..cuda.device_arrays import take

        dispatcher: Any = backend.dispatcher
        take(operand.array, buffer, name, dispatcher.device.number)
    else:
        Parameter.of(buffer, name).take(operand.array)
    if buffer.access is not AccessMode.READ:
        problem = _why_not_in_place(backend, operand)
        if problem:
            raise BadInputs(f"{name} is written, but the array {problem}")
    return operand


def _why_not_in_place(backend: ArrayBackend, operand: Operand) -> str:
    """Why nothing can be written to an array where it is; "" if it can."""
    owner = operand.owner
    if not hasattr(owner, "shape") or not (backend.on_gpu or hasattr(owner, "dtype")):
        return f"is a {type(owner).__name__}; pass an array of NumPy or torch"
    if getattr(owner, "requires_grad", False):
        return "requires a gradient; pass x.detach()"
    if backend.on_gpu:
        return "" if operand.array is owner else "is not contiguous"
    flags = getattr(owner, "flags", None)
    if flags is not None and not flags.writeable:
        return "is read-only"
    return "" if is_in_place(operand) else "is not contiguous, or not aligned"
