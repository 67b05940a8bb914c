"""Compiles and loads programs as kernels, and caches them in the process."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from typing import Any

from ...execution.cache.compilations import Compilation, fetch, new_log
from ...execution.cache.keys import called_fingerprints, locations_digest
from ...execution.cache.store import Store, default_store
from ...execution.dispatcher import BackendError, BadInputs
from ...ir.diagnostics import DiagnosticError
from ...ir.program import Module, Program
from ...ir.snapshot import Snapshot
from ...lowering.common.print_records import records_of
from ...lowering.nvptx.abi import EntryPoint, Unit
from ...lowering.nvptx.legalization import legal_unit
from ...lowering.nvptx.targets import GpuTarget, PtxVersion, TargetError, ptx_version, show
from ...rewriting.core_form import core_form
from ...syntax.fingerprint import exact_fingerprint
from ...worker import import_module
from . import ptx_cache
from .device import Device
from .loaded_kernel import LoadedKernel, load_module
from .print_records import PrintBuffer
from .ptx_options import PtxOptions

__all__ = ["KernelCache", "LoadedKernel", "compile_into_cache", "unit_of"]

MAX_RECENT = 256


class KernelCache:
    """The loaded kernels of one device, by their programs.

    `store`: where PTX is cached between processes.  `compilations`: a log of what was compiled or found there.
    """

    def __init__(
        self, device: Device, options: PtxOptions, store: Store | None, compilations: deque[Compilation]
    ) -> None:
        self.device = device
        self.options = options
        self.store = store
        self.compilations = compilations
        self._loaded: dict[tuple[Any, ...], LoadedKernel] = {}
        self._recent: dict[Program, tuple[Unit, Snapshot, LoadedKernel]] = {}

    def get(self, unit: Unit) -> LoadedKernel:
        """The kernel of a program; the context must be current.  See `load`."""
        return self.get_all([unit])[0]

    def get_all(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """The kernels of many programs; those that are not loaded yet are loaded as one module."""
        recent = [self._recent_kernel(unit) for unit in units]
        keys = {k: _key(units[k]) for k, kernel in enumerate(recent) if kernel is None}
        missing = {key: units[k] for k, key in keys.items() if key not in self._loaded}
        if missing:
            self.load(list(missing.values()))
        others = {k: self._remembered(units[k], self._loaded[key]) for k, key in keys.items()}
        return [kernel or others[k] for k, kernel in enumerate(recent)]

    def _recent_kernel(self, unit: Unit) -> LoadedKernel | None:
        """The kernel of a program that was asked for lately and did not change since: no hash of it is made."""
        recent = self._recent.get(unit.program)
        return recent[2] if recent is not None and recent[0] == unit and recent[1].holds() else None

    def _remembered(self, unit: Unit, kernel: LoadedKernel) -> LoadedKernel:
        if len(self._recent) >= MAX_RECENT:
            del self._recent[next(iter(self._recent))]
        self._recent[unit.program] = (unit, Snapshot(unit.program, unit.module), kernel)
        return kernel

    def load(self, units: Sequence[Unit]) -> list[LoadedKernel]:
        """Compile programs into one module and load it, which is faster than one by one.

        Raises BadInputs for a program that no GPU can run, and BackendError for PTX that
        the driver does not take.
        """
        facts, options = self.device.facts, self.options
        keys = list(map(_key, units))
        programs = [unit.program for unit in units]
        # here and not in `lower` alone: the ops of fault sites are those of these units
        units = _as_compiled(units, facts.target, options)
        try:
            version = ptx_version(facts.target, options.ptx)
            if version > facts.ptx:
                raise BackendError(
                    f"{facts.name} needs PTX {show(version)}, the driver (CUDA {facts.cuda[0]}.{facts.cuda[1]}) "
                    f"takes up to {show(facts.ptx)}; update the driver"
                    + ("" if options.ptx is None else ", or ask for an older version")
                )
            kernels, ptx = _compile(units, facts.target, version, options, self.store, self.compilations)
        except DiagnosticError as error:
            raise BackendError(str(error)) from None
        except TargetError as error:
            raise BadInputs(str(error)) from None
        names = ", ".join(f"@{unit.program.name}" for unit in units[:3])
        # At levels 0 and 1 the driver is not to optimise either: its optimiser is known to crash on
        # code that LLVM did not optimise.
        level = options.level if options.level < 2 else None
        module = load_module(self.device, ptx, level, names, options.debug_info)
        loaded = [
            LoadedKernel(self.device, kernel, module, self._records(program))
            for kernel, program in zip(kernels, programs, strict=True)
        ]
        self._loaded.update(zip(keys, loaded, strict=True))
        return loaded

    def _records(self, printing: Program) -> PrintBuffer | None:
        """Memory for the records of a program that prints, which its kernel has as records only."""
        return PrintBuffer(self.device, printing) if records_of(printing) else None


def compile_into_cache(target: GpuTarget, options: PtxOptions, module: Module) -> None:
    """Compile the programs of a module, each for itself, so that other processes find their PTX; needs no GPU."""
    version = ptx_version(target, options.ptx)
    for program in module.programs.values():
        units = _as_compiled([unit_of(program, module, {})], target, options)
        _compile(units, target, version, options, default_store(), new_log())


def _as_compiled(units: Sequence[Unit], target: GpuTarget, options: PtxOptions) -> list[Unit]:
    """The units as they are lowered."""
    return [legal_unit(unit, target, options.bounds, options.zero_memory) for unit in units]


def _compile(
    units: Sequence[Unit],
    target: GpuTarget,
    version: PtxVersion,
    options: PtxOptions,
    store: Store | None,
    log: deque[Compilation],
) -> tuple[Sequence[EntryPoint], bytes]:
    """The kernels and their PTX, from the store or compiled now."""

    def compile() -> tuple[bytes, tuple[Sequence[EntryPoint], bytes]]:
        # heavy imports, not needed when all is in the cache
        import_module("vyre_opt.lowering.nvptx.kernel")
        import_module("vyre_opt.lowering.nvptx.ptx")
        from ...lowering.nvptx.kernel import lower
        from ...lowering.nvptx.ptx import emit_ptx

        lowered = lower(units, target, options.bounds, options.debug_info)
        ptx = emit_ptx(lowered, target, version, options.level).encode() + b"\0"
        return ptx_cache.encode(lowered.kernels, units, ptx), (lowered.kernels, ptx)

    return fetch(
        store,
        "ptx",
        lambda: ptx_cache.key_of(units, target, version, options),
        lambda payload: ptx_cache.decode(payload, units),
        compile,
        log,
        ", ".join(f"@{unit.program.name}" for unit in units),
    )


def _key(unit: Unit) -> tuple[Any, ...]:
    """Key of a loaded kernel: its code, and the locations that its faults name, which fingerprints leave out."""
    specs = tuple(sorted((name, repr(value)) for name, value in unit.specs.items()))
    called = called_fingerprints(unit.program, unit.module)
    return exact_fingerprint(unit.program), *called, specs, locations_digest(unit.program, unit.module)


def unit_of(program: Program, module: Module | None, specs: Mapping[str, Any]) -> Unit:
    """A unit with a value for every constant, so that a default and the same value passed share a kernel."""
    program, module = core_form(program, module)
    full = {name: specs.get(name, spec.default) for name, spec in program.specs.items()}
    return Unit(program, module, full)
