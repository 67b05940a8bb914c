"""LLVM IR -> machine code in this process, by llvmlite."""

from __future__ import annotations

import ctypes
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from itertools import count

import llvmlite.binding as llvm

from ...lowering.common.llvm_passes import run_passes
from ...lowering.common.native_calls import interruptible
from ...lowering.host.function_builder import SimdFeatures

__all__ = ["Host", "LoadedFunction", "compile_object", "link", "load"]

# One thread compiles at a time: neither llvmlite nor LLVM's JIT promises to be thread-safe, and
# where LLVM aborts, the process ends.
_LOCK = threading.Lock()
_NUMBERS = count()
LINKS_PER_JIT = 64

# a child must not find what another thread of its parent was just changing
if hasattr(os, "register_at_fork"):
    _LLVM_LOCK = llvm.ffi.lib._lock  # llvmlite's own, around each of its calls
    # what is registered last is called first before a fork: who compiles has _LOCK, and asks for the other again and again
    for enter, leave in ((_LLVM_LOCK.__enter__, _LLVM_LOCK.__exit__), (_LOCK.acquire, _LOCK.release)):
        os.register_at_fork(before=enter, after_in_parent=leave, after_in_child=leave)


QUICK_PASSES = ("sroa", "instruction_combine", "simplify_cfg")
"""What level 1 does to the IR, before machine code is made as at level 0: a third of the time of level 2."""


@dataclass(frozen=True)
class Host:
    """The machine to compile for: `name` of its CPU and `attributes` (features) as LLVM writes them.

    `opt`: LLVM's optimisation level; at 0 no passes over the IR are run, at 1 a few (see `QUICK_PASSES`).
    """

    name: str
    attributes: str
    opt: int = 3

    @staticmethod
    def this(opt: int = 3) -> Host:
        return Host(*_this_machine(), opt)

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
        return str(llvm.get_process_triple())

    @property
    def layout(self) -> str:
        return str(_machine(self).target_data)

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


@lru_cache(maxsize=1)
def _initialize() -> None:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()


@lru_cache(maxsize=1)
def _this_machine() -> tuple[str, str]:
    _initialize()
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


@lru_cache(maxsize=8)
def _machine(host: Host) -> llvm.TargetMachine:
    _initialize()
    target = llvm.Target.from_triple(host.triple)
    return target.create_target_machine(
        cpu=host.name,
        features=host.attributes,
        opt=host.codegen_level,
        reloc="pic",
        codemodel="small",
        jit=True,
    )


@lru_cache(maxsize=1)
def _linker(generation: int) -> llvm.LLJIT:
    """The JIT for `LINKS_PER_JIT` object files.

    What is unloaded leaves 7 KB in its JIT.  An old JIT goes when the last of its functions is unloaded; one for each
    object file would take a millisecond and 150 KB.
    """
    _initialize()
    machine = llvm.Target.from_triple(llvm.get_process_triple()).create_target_machine(jit=True)
    # JITLink puts the sections of an object side by side; the older linker does not, and aborts the
    # process where they come to lie more than 2 GiB apart.
    return llvm.create_lljit_compiler(machine, use_jit_link=True)


class LoadedFunction:
    """A function in memory, which is unloaded with this object.  For its parameters see lowering.host."""

    def __init__(self, tracker: llvm.ResourceTracker, address: int) -> None:
        self.tracker = tracker
        self.address = address
        signature = ctypes.CFUNCTYPE(
            None, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64, ctypes.c_void_p, ctypes.c_void_p
        )
        self.call: Callable[..., None] = signature(address)


def compile_object(text: str, host: Host) -> bytes:
    """An object file.  Raises RuntimeError if the text is not LLVM IR, which is a bug of the lowering."""
    return interruptible(lambda: _compile_object(text, host))


def _compile_object(text: str, host: Host) -> bytes:
    with _LOCK:
        machine = _machine(host)
        with llvm.parse_assembly(text) as module:
            module.verify()
            options = llvm.create_pipeline_tuning_options(speed_level=host.opt)
            options.slp_vectorization = False  # lanes are vectors already
            run_passes(module, machine, options, host.passes)
            object_file: bytes = machine.emit_object(module)
            return object_file


def link(object_file: bytes, *symbols: str) -> llvm.ResourceTracker:
    """Link an object file into this process; the result gives addresses by symbol, and keeps the code loaded."""
    with _LOCK:
        number = next(_NUMBERS)
        library = llvm.JITLibraryBuilder().add_object_img(object_file).add_current_process()
        for symbol in symbols:
            library.export_symbol(symbol)
        return library.link(_linker(number // LINKS_PER_JIT), f"vyre.{number}")


def load(object_file: bytes, symbol: str) -> LoadedFunction:
    """A function of an object file."""
    tracker = link(object_file, symbol)
    return LoadedFunction(tracker, tracker[symbol])
