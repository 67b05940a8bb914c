"""Context of plans and graphs on a GPU: the parts of their dispatcher that they need."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol

from ...ir.program import Module, Program
from .device import Device

if TYPE_CHECKING:
    from .loaded_kernel import LoadedKernel

__all__ = ["LaunchContext"]


class LaunchContext(Protocol):
    """A dispatcher whose plans run on a GPU.  `check`: see `CudaDispatcher`."""

    check: str

    @property
    def device(self) -> Device: ...

    @property
    def zero_memory(self) -> bool:
        """Whether memory that no program wrote is zeroed."""

    def kernels_of(self, programs: Sequence[Program], module: Module) -> dict[Program, LoadedKernel]:
        """The programs as loaded kernels; the context must be current.  Raises what compiling and loading them raises."""

    def raise_fault(self) -> None:
        """Raise the ProgramError of a fault that is known by now; the context must be current."""
