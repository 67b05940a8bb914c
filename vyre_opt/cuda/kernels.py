"""Programs as loaded kernels: compiled, cached in the process, launched on pointers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.diagnostics import DiagnosticError
from ..ir.fingerprint import fingerprint
from ..ir.program import Dim3, Program
from ..lowering.abi import Kernel
from ..lowering.backend import emit_ptx
from ..lowering.nvptx import Unit, lower
from ..lowering.targets import PtxVersion, TargetError, ptx_version, show
from ..runtime.dispatcher import BackendError, BadInputs
from . import bindings
from .device import Device, Record
from .driver import told_plainly
from .queues import PyCudaQueue, Queue
from .snapshot import Snapshot

__all__ = ["KernelCache", "LoadedKernel", "Options"]

MAX_RECENT = 256
MAX_GRID = ((1 << 31) - 1, 65535, 65535)


@dataclass(frozen=True, slots=True)
class Options:
    """How to compile: see `vyre_opt.lowering.nvptx.BOUNDS`; `level` is 0 to 3."""

    bounds: str = "trap"
    level: int = 2
    ptx: PtxVersion | None = None


class LoadedKernel:
    """A kernel on a device.  `ptx` is the text of the module that it is in."""

    def __init__(self, device: Device, kernel: Kernel, module: Any, ptx: bytes) -> None:
        self.device = device
        self.kernel = kernel
        self.ptx = ptx
        self.module = module
        kinds = [param.kind for param in kernel.params]
        with told_plainly(f"setting up @{kernel.program.name}"):
            self.function = module.get_function(kernel.symbol)
            self.function.prepare("".join("Q" if kind == "length" else "P" for kind in kinds))
            if kernel.dynamic_shared:
                attribute = device.cuda.function_attribute.MAX_DYNAMIC_SHARED_SIZE_BYTES
                self.function.set_attribute(attribute, kernel.dynamic_shared)
        self.status: Record | None = device.record() if "status" in kinds else None
        self.arrivals: Any = device.allocate(16) if "arrivals" in kinds else None
        self._raw: Any = None

    @property
    def may_fault(self) -> bool:
        return self.status is not None

    def launch(
        self, queue: Queue, grid: Dim3, pointers: Mapping[str, int], counts: Mapping[str, int]
    ) -> None:
        """Enqueue one run; the context must be current.

        `pointers`: of each storage buffer, by name, 16-byte aligned; `counts`: its elements.
        """
        self.enqueue(queue, grid, self.arguments(pointers, counts))

    def arguments(self, pointers: Mapping[str, int], counts: Mapping[str, int]) -> list[int]:
        """The kernel's arguments in order."""
        return [self._argument(p.kind, p.buffer, pointers, counts) for p in self.kernel.params]

    def enqueue(self, queue: Queue, grid: Dim3, arguments: list[int]) -> None:
        """Enqueue one run with all arguments given; the context must be current."""
        kernel = self.kernel
        self._check_grid(grid)
        block, shared = kernel.program.workgroup, kernel.dynamic_shared
        if self.arrivals is not None:
            queue.zero_word(int(self.arrivals))
        if isinstance(queue, PyCudaQueue) and not kernel.is_cooperative:
            with told_plainly(f"launching @{kernel.program.name}"):
                self.function.prepared_async_call(grid, block, queue.stream, *arguments, shared_size=shared)
            return
        function = self._raw_function()
        if kernel.is_cooperative:
            self._check_residents(function, grid)
        bindings.launch(
            function, grid, block, shared, queue.handle, arguments, kernel.is_cooperative, kernel.symbol
        )

    def _argument(
        self, kind: str, buffer: str, pointers: Mapping[str, int], counts: Mapping[str, int]
    ) -> int:
        if kind == "buffer":
            return pointers[buffer]
        if kind == "length":
            return counts[buffer]
        if kind == "status":
            assert self.status is not None
            return self.status.pointer
        return int(self.arrivals)

    def _raw_function(self) -> Any:
        """The function as cuda-bindings knows it: of a second load of the same PTX."""
        if self._raw is None:
            self._raw = bindings.load_function(self.ptx, self.kernel.symbol)
            if self.kernel.dynamic_shared:
                bindings.allow_shared(self._raw[1], self.kernel.dynamic_shared, self.kernel.symbol)
        return self._raw[1]

    def _check_grid(self, grid: Dim3) -> None:
        for axis, extent, most in zip("xyz", grid, MAX_GRID, strict=True):
            if extent > most:
                raise BackendError(
                    f"program @{self.kernel.program.name}: {extent} workgroups along {axis}; a GPU takes {most}"
                )

    def _check_residents(self, function: Any, grid: Dim3) -> None:
        kernel = self.kernel
        each = bindings.resident_workgroups(
            function, kernel.program.lanes, kernel.dynamic_shared, kernel.symbol
        )
        most = each * self.device.facts.multiprocessors
        wanted = grid[0] * grid[1] * grid[2]
        if wanted > most:
            raise BackendError(
                f"program @{kernel.program.name} has a grid barrier, for which all its {wanted} workgroups must "
                f"run at once; {self.device.facts.name} holds {most} of them"
            )


class KernelCache:
    """Loaded kernels of one device, by what they were compiled from."""

    def __init__(self, device: Device, options: Options) -> None:
        self.device = device
        self.options = options
        self._known: dict[tuple[Any, ...], LoadedKernel] = {}
        self._recent: dict[int, tuple[Unit, Snapshot, LoadedKernel]] = {}

    def get(self, unit: Unit) -> LoadedKernel:
        """The kernel of a program; the context must be current.  See `load`."""
        recent = self._recent.get(id(unit.program))
        if recent is not None and recent[0] == unit and recent[1].holds():
            return recent[2]
        key = _key(unit)
        found = self._known.get(key)
        if found is None:
            (found,) = self.load([unit])
        if len(self._recent) >= MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[id(unit.program)] = (unit, Snapshot(unit), found)
        return found

    def load(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """Compile programs into one module, and load it: many at once cost less than one by one.

        Raises BadInputs for a program that no GPU can run, and BackendError for PTX that
        the driver does not take.
        """
        facts, options = self.device.facts, self.options
        try:
            version = ptx_version(facts.target, options.ptx)
            if version > facts.ptx:
                raise BackendError(
                    f"{facts.name} needs PTX {show(version)}, the driver (CUDA {facts.cuda[0]}.{facts.cuda[1]}) "
                    f"takes up to {show(facts.ptx)}; update the driver"
                    + ("" if options.ptx is None else ", or ask for an older version")
                )
            lowered = lower(units, facts.target, options.bounds)
            ptx = emit_ptx(lowered.text, facts.target, version, options.level).encode() + b"\0"
        except DiagnosticError as refused:
            raise BackendError(str(refused)) from None
        except TargetError as unknown:
            raise BadInputs(str(unknown)) from None
        names = ", ".join(f"@{unit.program.name}" for unit in units[:3])
        with told_plainly(f"loading {names}"):
            module = self.device.cuda.module_from_buffer(ptx)
        loaded = [LoadedKernel(self.device, kernel, module, ptx) for kernel in lowered.kernels]
        self._known.update(zip(map(_key, units), loaded, strict=True))
        return loaded


def _key(unit: Unit) -> tuple[Any, ...]:
    program = unit.program
    called = _called(program, unit)
    specs = tuple(sorted((name, repr(value)) for name, value in unit.specs.items()))
    return (fingerprint(program), *(fingerprint(unit.module.funcs[c]) for c in called if unit.module), specs)


def _called(program: Program, unit: Unit) -> list[str]:
    """Names of the functions that a program calls, directly or not."""
    found: list[str] = []
    waiting = [op.attrs["callee"] for op in program.walk() if op.name == "call"]
    while waiting and unit.module is not None:
        name = waiting.pop()
        if name not in found:
            found.append(name)
            waiting += [op.attrs["callee"] for op in unit.module.funcs[name].walk() if op.name == "call"]
    return sorted(found)
