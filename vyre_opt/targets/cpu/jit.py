"""LLVM IR -> machine code in this process, by llvmlite."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, lru_cache
from itertools import count
from typing import TYPE_CHECKING

from ...lowering.common.llvm_passes import run_passes
from ...lowering.common.llvm_worker import LLVM, on_llvm
from ...lowering.host.function_builder import SimdFeatures

if TYPE_CHECKING:
    import llvmlite.binding as llvm

__all__ = ["Host", "Library", "LoadedFunction", "assembly", "compile_object", "link", "load"]

_NUMBERS = count()
LINKS_PER_JIT = 64


QUICK_PASSES = ("sroa", "instruction_combine", "simplify_cfg")
"""What level 1 does to the IR, before machine code is made as at level 0: a third of the time of level 2."""


@dataclass(frozen=True)
class Host:
    """The machine to compile for: `name` of its CPU and `attributes` (features) as LLVM writes them.

    `opt`: LLVM's optimisation level; at 0 no passes over the IR are run, at 1 a few (see `QUICK_PASSES`).
    `debug_info`: whether code has line tables.
    """

    name: str
    attributes: str
    opt: int = 3
    debug_info: bool = False

    @staticmethod
    def this(opt: int = 3, debug_info: bool = False) -> Host:
        return Host(*_this_machine(), opt, debug_info)

    @property
    def passes(self) -> tuple[str, ...] | None:
        """The passes over the IR, by llvmlite's names; None for LLVM's own pipeline of the level."""
        return {0: (), 1: QUICK_PASSES}.get(self.opt)

    @property
    def codegen_level(self) -> int:
        """The level at which machine code is made of IR."""
        return self.opt if self.opt > 1 else 0

    @property
    def triple(self) -> str:
        return _triple()

    @property
    def layout(self) -> str:
        return _layout(self)

    @property
    def features(self) -> SimdFeatures:
        """Which vector instructions the lowering may count on: see `SimdFeatures`."""
        has = {word[1:] for word in self.attributes.split(",") if word.startswith("+")}
        none, wide = frozenset[int](), frozenset({32, 64})
        gathers = wide if has & {"avx2", "avx512f"} else none
        masked = gathers | {8, 16} if "avx512bw" in has else gathers
        scatters = wide if "avx512f" in has else none
        half = not self.triple.startswith(("x86", "i686")) or "f16c" in has
        arithmetic = "avx512" if "avx512f" in has else "host"
        shuffles = {"ssse3": 16, "avx2": 32, "avx512bw": 64}
        shuffled = max([0, *(width for word, width in shuffles.items() if word in has)])
        registers = max([16, *(width for word, width in shuffles.items() if word in has)])
        vpermb = {"avx512vbmi", "avx512bw"} <= has
        tbl = self.triple.startswith(("aarch64-", "arm64-"))
        return SimdFeatures(masked, gathers, scatters, half, arithmetic, shuffled, vpermb, tbl, registers)


class Library:
    """Code in memory: addresses by symbol.  It is unloaded with this object."""

    def __init__(self, addresses: Mapping[str, int]) -> None:
        self._addresses = addresses

    def __getitem__(self, symbol: str) -> int:
        return self._addresses[symbol]


class LoadedFunction:
    """A function of a library, which stays loaded with it.  For its parameters see lowering.host."""

    def __init__(self, library: Library, symbol: str) -> None:
        self.library = library
        self.address = library[symbol]
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
        )
        self.call: Callable[..., None] = signature(self.address)


@cache
def _initialize() -> None:
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@cache
@on_llvm
def _triple() -> str:
    import llvmlite.binding as llvm

    return str(llvm.get_process_triple())


@cache
@on_llvm
def _this_machine() -> tuple[str, str]:
    import llvmlite.binding as llvm

    _initialize()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@lru_cache(maxsize=8)
def _machine(host: Host, is_jit: bool = True) -> llvm.TargetMachine:
    import llvmlite.binding as llvm

    _initialize()
    target = llvm.Target.from_triple(host.triple)
    return target.create_target_machine(
        cpu=host.name,
        features=host.attributes,
        opt=host.codegen_level,
        reloc="pic",
        codemodel="small",
        jit=is_jit,
    )


@lru_cache(maxsize=8)
@on_llvm
def _layout(host: Host) -> str:
    return str(_machine(host).target_data)


def _optimised(text: str, host: Host, machine: llvm.TargetMachine) -> llvm.ModuleRef:
    import llvmlite.binding as llvm

    module = llvm.parse_assembly(text)
    module.verify()
    options = llvm.create_pipeline_tuning_options(speed_level=host.opt)
    options.slp_vectorization = False  # lanes are vectors already
    run_passes(module, machine, options, host.passes)
    return module


@on_llvm
def compile_object(text: str, host: Host) -> bytes:
    """An object file.  Raises RuntimeError if the text is not LLVM IR, which is a bug of the lowering."""
    machine = _machine(host)
    with _optimised(text, host, machine) as module:
        object_file: bytes = machine.emit_object(module)
        return object_file


@on_llvm
def assembly(text: str, host: Host) -> str:
    """The same as text."""
    machine = _machine(host, is_jit=False)
    with _optimised(text, host, machine) as module:
        return str(machine.emit_assembly(module))


@lru_cache(maxsize=1)
def _linker(generation: int) -> llvm.LLJIT:
    """The JIT for `LINKS_PER_JIT` object files.

    What is unloaded leaves 7 KB in its JIT.  An old JIT goes when the last of its functions is unloaded; one for each
    object file would take a millisecond and 150 KB.
    """
    import llvmlite.binding as llvm

    _initialize()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # JITLink puts the sections of an object side by side; the older linker does not, and aborts the
    # process where they come to lie more than 2 GiB apart.
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


@on_llvm
def link(object_file: bytes, *symbols: str) -> Library:
    """Link an object file into this process."""
    import llvmlite.binding as llvm

    number = next(_NUMBERS)
    builder = llvm.JITLibraryBuilder().add_object_img(object_file).add_current_process()
    for symbol in symbols:
        builder.export_symbol(symbol)
    tracker = builder.link(_linker(number // LINKS_PER_JIT), f"vyre.{number}")
    library = Library({symbol: tracker[symbol] for symbol in symbols})
    LLVM.own(library, tracker)
    return library


def load(object_file: bytes, symbol: str) -> LoadedFunction:
    """A function of an object file."""
    return LoadedFunction(link(object_file, symbol), symbol)
