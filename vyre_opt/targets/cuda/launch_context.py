"""Context of plans and graphs on a GPU: the parts of their dispatcher that they need."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from .device import Device
from .ptx_options import PtxOptions

if TYPE_CHECKING:
    from .kernels import KernelCache

__all__ = ["LaunchContext"]


class LaunchContext(Protocol):
    """A dispatcher of the cuda target; `check`: see `CudaDispatcher`."""

    options: PtxOptions
    check: str

    @property
    def device(self) -> Device: ...

    @property
    def kernels(self) -> KernelCache: ...

    def raise_fault(self) -> None:
        """Raise the ProgramError of a fault that is known by now; the context must be current."""
