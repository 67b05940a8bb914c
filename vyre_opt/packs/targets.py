"""The targets of a pack's functions: the processor, and each GPU, by where the arrays of a call are."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cached_property
from typing import TYPE_CHECKING, Any

from ..driver.placement import any_on_gpu
from ..pack_files.format import Pack
from .ir_data import Decoder
from .target import PackedTarget

if TYPE_CHECKING:
    from .gpu import PackedGpu

__all__ = ["PackTargets"]


class PackTargets:
    """`of(arrays)`: the target of a call."""

    def __init__(self, pack: Pack, decoder: Decoder) -> None:
        self.pack, self.decoder = pack, decoder
        self._gpus: dict[int, PackedGpu] = {}

    @cached_property
    def cpu(self) -> PackedTarget:
        return PackedTarget(self.pack, self.decoder)

    def of(self, arrays: Iterable[Any]) -> PackedTarget | PackedGpu:
        listed = list(arrays)
        return self.gpu(listed) if any_on_gpu(listed) else self.cpu

    def gpu(self, arrays: list[Any]) -> PackedGpu:
        """The GPU that the first of the arrays on one is on."""
        from ..targets.cuda.array_backend import gpu_number
        from ..targets.cuda.device_arrays import is_on_gpu
        from .gpu import PackedGpu

        number = next(gpu_number(array) for array in arrays if is_on_gpu(array))
        target = self._gpus.get(number)
        if target is None:
            target = self._gpus[number] = PackedGpu(self.pack, self.decoder, number)
        return target
