"""The steps of a planned call, and the launchers that enqueue them for the pointers of each call.

At the first run of a plan, `PyCudaLauncher` makes a call of PyCUDA for each step.  Later runs are one call of a function
that LLVM compiled (launcher.py).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ...ir.program import Dim3
from ...lowering.nvptx.abi import ALIGNMENT
from ...records import dataclass
from .queues import queue_of

if TYPE_CHECKING:
    from .device import Device
    from .loaded_kernel import LoadedKernel

__all__ = [
    "DRIVER_ERROR",
    "PENDING_FAULT",
    "UNALIGNED",
    "Argument",
    "Clear",
    "Copy",
    "KernelLaunch",
    "Launcher",
    "PyCudaLauncher",
    "Step",
    "slot",
]

PENDING_FAULT = 1
"""Nothing was launched, since an earlier call had a fault."""

UNALIGNED = 2
"""Nothing was launched, since a pointer is not aligned to 16 bytes."""

DRIVER_ERROR = 16
"""An error of the driver: this plus its code."""

Argument = int | str
"""Argument of a kernel: a constant, "call" for the number of the call, "p0", "p1", ... for a pointer, "v0", ... for a value."""


@dataclass(frozen=True, slots=True)
class KernelLaunch:
    """A kernel to launch."""

    kernel: LoadedKernel
    grid: Dim3
    arguments: Sequence[Argument]


@dataclass(frozen=True, slots=True)
class Clear:
    """Bytes behind a pointer, given by its number, to set to 0."""

    pointer: int
    size: int


@dataclass(frozen=True, slots=True)
class Copy:
    """Bytes to copy from behind one pointer to behind another, given by their numbers."""

    pointer: int
    source: int
    size: int


Step = KernelLaunch | Clear | Copy


class Launcher(Protocol):
    """Enqueues steps in order.  It makes the GPU's context current for the time of a call.

    Made of the device, the steps, how many pointers and values a call passes, and whether a step may fault.
    """

    def launch(self, stream: int, /, *words: int) -> int:
        """Enqueue the steps on the stream of a handle, for pointers and then values, which are words of 64 bits.

        Returns 0, or why nothing was launched: PENDING_FAULT, UNALIGNED, or DRIVER_ERROR and more.
        """


class PyCudaLauncher:
    """See `Launcher`.  An error of the driver is raised, as BackendError."""

    def __init__(
        self, device: Device, steps: Sequence[Step], pointers: int, may_fault: bool, values: int = 0
    ) -> None:
        self.device, self.steps, self.pointers, self.may_fault = device, steps, pointers, may_fault

    def launch(self, stream: int, /, *words: int) -> int:
        device = self.device
        if device.faults.pending:
            return PENDING_FAULT
        if any(pointer % ALIGNMENT for pointer in words[: self.pointers]):
            return UNALIGNED
        call = device.faults.next_call() if self.may_fault else 0
        with device:
            queue = queue_of(device, stream)
            for step in self.steps:
                if isinstance(step, Clear):
                    queue.zero(words[step.pointer], step.size)
                elif isinstance(step, Copy):
                    queue.copy(words[step.pointer], words[step.source], step.size)
                else:
                    values = [self._value(argument, words, call) for argument in step.arguments]
                    step.kernel.enqueue(queue, step.grid, values)
        return 0

    def _value(self, argument: Argument, words: Sequence[int], call: int) -> int:
        if isinstance(argument, int):
            return argument
        return call if argument == "call" else words[slot(argument, self.pointers)]


def slot(argument: str, pointers: int) -> int:
    """The number of a pointer or a value among all that a call passes."""
    return int(argument[1:]) + (pointers if argument.startswith("v") else 0)
