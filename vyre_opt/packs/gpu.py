"""The target of a pack's functions on arrays that are on a GPU: PTX, or machine code of that GPU, which the driver loads."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from ..execution.array_backend import NOT_CONTIGUOUS
from ..execution.dispatcher import BackendError, BadInputs
from ..execution.plans.call_plan import CallPlan
from ..ir.diagnostics import Diagnostic, Location, render
from ..ir.program import Module, Program
from ..linker.library import can_link
from ..lowering.nvptx.abi import EntryPoint, FaultSite, KernelParam
from ..pack_files.format import Pack, PackError
from ..targets.cuda import launcher
from ..targets.cuda.device import Device
from ..targets.cuda.device import device as open_device
from ..targets.cuda.device_arrays import Description
from ..targets.cuda.faults import check_mode
from ..targets.cuda.libraries import library_of
from ..targets.cuda.loaded_kernel import LoadedKernel, load_module
from ..targets.cuda.loaded_plan import GpuPlan, load
from ..targets.cuda.walk import GpuWalk
from .decoding import decoding, number, text, truth
from .ir_data import Decoder
from .pack_target import PackTarget, gpus_of
from .processors import levels_of_this_machine

__all__ = ["PackedGpu"]


class _Sites(Sequence[FaultSite]):
    """The ops of a kernel that may be at fault, which are read when one is."""

    def __init__(self, pack: Pack, name: str, decoder: Decoder) -> None:
        self._pack, self._name, self._decoder = pack, name, decoder

    @cached_property
    def _sites(self) -> list[FaultSite]:
        rows = self._pack.read_json(self._name)
        with decoding(self._pack, self._name):
            return [FaultSite(self._decoder.op(op), text(kind), number(width)) for op, kind, width in rows]

    def __len__(self) -> int:
        return len(self._sites)

    def __getitem__(self, number: Any) -> Any:
        with decoding(self._pack, self._name):
            return self._sites[number]


class _Kernel:
    """A kernel of a pack.  `source`: see `Form`."""

    def __init__(self, pack: Pack, key: str, decoder: Decoder) -> None:
        name = f"kernels/{key}"
        row = pack.read_json(name)
        self.key = key
        with decoding(pack, name):
            self.source = decoder.program(row["source"])
            self.entry = EntryPoint(
                decoder.program(row["legal"]),
                text(row["symbol"]),
                tuple(KernelParam(text(kind), text(name)) for kind, name in row["params"]),
                _Sites(pack, f"faults/{key}", decoder),
                number(row["dynamic_shared"]),
                truth(row["is_cooperative"]),
            )


class PackedGpu(PackTarget[_Kernel]):
    """Runs the programs of a pack on a GPU of this machine.

    When the fault of a kernel is told, VYRE_FAULTS says, as for kernels that are compiled.
    """

    name = "cuda"
    zero_memory = False

    def __init__(self, pack: Pack, decoder: Decoder, number: int) -> None:
        super().__init__(pack, decoder)
        self._number, self.check = number, check_mode(None)
        self._loaded: dict[str, LoadedKernel] = {}
        self._bring_launcher()

    def _bring_launcher(self) -> None:
        """Launches that repeat are made by code of the pack; where it has none for this machine, by PyCUDA."""
        if not can_link():
            return
        for level in levels_of_this_machine():
            if f"launchers/{level}" in self._pack:
                launcher.use_code(self._pack.read(f"launchers/{level}"))
                return

    @property
    def device(self) -> Device:
        """The GPU.  Raises BackendError if there is none."""
        return open_device(self._number)

    @property
    def workers(self) -> int:  # type: ignore[override]
        return self.device.facts.multiprocessors

    @property
    def architecture(self) -> str:
        return self.device.facts.target.name

    def plan_of(self, function: str, loc: Location | None = None) -> str:
        packed = gpus_of(self._pack, function)
        message = f"{self._pack.name}: {function} is packed for no GPU, and an array is on one"
        help = "pack it for that GPU or an older one, too, or pass arrays in main memory"
        if packed:
            major, minor = self.device.facts.capability
            runs = [name for name in packed if _runs(name, 10 * major + minor)]
            if runs:
                return f"plans/{function}/{max(runs, key=_age)}"
            own = f"sm_{major}{minor}"
            message = (
                f"{self._pack.name}: {function} is packed for {', '.join(packed)}, and this GPU is {own}"
            )
            help = f"pack it for {own} or an older GPU, too, or pass arrays in main memory"
        raise PackError(
            render(Diagnostic("error", message, loc, help=help)) if loc is not None else f"{message}; {help}"
        )

    def decoded(self, key: str) -> _Kernel:
        return _Kernel(self._pack, key, self._decoder)

    def kernels_of(self, programs: Sequence[Program], module: Module) -> dict[Program, LoadedKernel]:
        return {program: self._kernel(self.form_of(program)) for program in programs}

    def _kernel(self, kernel: _Kernel) -> LoadedKernel:
        loaded = self._loaded.get(kernel.key)
        if loaded is None:
            try:
                loaded = LoadedKernel(self.device, kernel.entry, self._module(kernel))
            except BackendError as error:
                raise PackError(f"{self._pack.name}: the part ptx/{kernel.key}: {error}") from None
            self._loaded[kernel.key] = loaded
        return loaded

    def _module(self, kernel: _Kernel) -> Any:
        """PyCUDA's module of a kernel: machine code of this GPU, if the pack has it and the driver takes it; else PTX."""
        name, cubin = f"@{kernel.entry.program.name}", f"cubins/{kernel.key}"
        major, minor = self.device.facts.capability
        if (
            cubin in self._pack
            and _number(str(self._pack.about_part(cubin).get("gpu"))) == 10 * major + minor
        ):
            try:
                return load_module(self.device, self._pack.read(cubin), None, name)
            except BackendError:  # made by a newer assembler
                pass
        return load_module(self.device, self._pack.read(f"ptx/{kernel.key}") + b"\0", None, name)

    def load(self, call: CallPlan) -> Any:
        raise BackendError("arrays in main memory are for the code of a pack for a CPU")

    def load_on_gpu(self, call: CallPlan) -> GpuPlan | GpuWalk:
        """The plan of a call on arrays on the GPU, loaded."""
        return load(self, call)

    def contiguous(self, array: Any, info: Description) -> Any:
        """The array, or the contiguous copy that its library makes.  Raises BadInputs for one of a library that makes none."""
        if info.contiguous:
            return array
        copy = library_of(array).contiguous
        if copy is None:
            raise BadInputs(f"an array {NOT_CONTIGUOUS}; a pack has no code that copies it")
        with self.device:
            return copy(array)

    def synchronize(self) -> None:
        """Wait for the GPU, and raise the ProgramError of a fault of earlier calls."""
        with self.device:
            self.device.wait()
            self.raise_fault()

    def raise_fault(self) -> None:
        error = self.device.faults.take()
        if error is not None:
            raise error


def _number(name: str) -> int:
    """90 for sm_90 and sm_90a; 0 for what is no GPU."""
    digits = name.removeprefix("sm_").removesuffix("a")
    return int(digits) if digits.isdecimal() else 0


def _runs(name: str, number: int) -> bool:
    """Whether a GPU of a number such as 90 runs code for another: sm_90a runs nowhere else, sm_90 on all that are newer."""
    own = _number(name)
    return own == number if name.endswith("a") else 0 < own <= number


def _age(name: str) -> tuple[int, bool]:
    return _number(name), name.endswith("a")
