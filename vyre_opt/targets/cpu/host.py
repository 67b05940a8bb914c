"""The machine that code is compiled for, and what LLVM calls it.

LLVM is asked once after each start of the system, since it takes longer to load than a call of code from the cache does.
"""

from __future__ import annotations

import os
from dataclasses import astuple, fields
from typing import TYPE_CHECKING

from ...execution.cache.keys import llvm_version
from ...execution.cache.store import Store
from ...records import dataclass
from ...specialization.digest import digest_of
from ...worker import import_module

if TYPE_CHECKING:
    from ...lowering.host.function_builder import SimdFeatures

__all__ = ["Host"]

QUICK_PASSES = ("sroa", "instruction_combine", "simplify_cfg")
"""Passes of level 1 on the IR, before machine code is made as at level 0: a third of the time of level 2."""


@dataclass(frozen=True)
class Host:
    """The machine to compile for: `name` of its CPU and `attributes` (features) as LLVM writes them.

    `opt`: LLVM's optimisation level; at 0 no passes over the IR are run, at 1 a few (see `QUICK_PASSES`).
    `debug_info`: whether code has line tables.  `system`: the triple and the data layout of another machine; None for this one.
    """

    name: str
    attributes: str
    opt: int = 3
    debug_info: bool = False
    system: tuple[str, str] | None = None

    @staticmethod
    def this(opt: int = 3, debug_info: bool = False, store: Store | None = None) -> Host:
        """This machine.  `store`: where LLVM's names for it are kept."""
        names = _names(store)
        return Host(names.cpu, names.features, opt, debug_info)

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
        return _names().triple if self.system is None else self.system[0]

    @property
    def layout(self) -> str:
        return _names().layout if self.system is None else self.system[1]

    @property
    def features(self) -> SimdFeatures:
        """Vector instructions that the lowering may count on: see `SimdFeatures`."""
        from ...lowering.host.function_builder import SimdFeatures

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


KIND = "host"
_MOST_OF_CPUINFO = 1 << 14
"""Bytes of /proc/cpuinfo that describe one processor; the whole file takes long to read where there are hundreds."""
_VARYING = ("processor", "cpu MHz", "bogomips", "BogoMIPS", "apicid", "initial apicid", "core id")


@dataclass(frozen=True, slots=True)
class _Names:
    """LLVM's name for this machine, and its data layout."""

    cpu: str
    features: str
    triple: str
    layout: str


_known: list[_Names] = []


def _names(store: Store | None = None) -> _Names:
    """LLVM's names for this machine, asked for once in a process."""
    if not _known:
        _known.append(_names_of_llvm() if store is None else _stored_names(store))
    return _known[0]


def _stored_names(store: Store) -> _Names:
    """The same from a store; from LLVM where it has none for this machine."""
    identity = _identity()
    if identity is None:
        return _names_of_llvm()
    key = digest_of([("llvm", "version", llvm_version().encode()), ("machine", "identity", identity)])
    payload = store.get(key, KIND)
    parts = payload.decode(errors="replace").split("\n") if payload is not None else []
    if len(parts) == len(fields(_Names)):
        return _Names(*parts)
    names = _names_of_llvm()
    store.put(key, KIND, "\n".join(astuple(names)).encode())
    return names


def _names_of_llvm() -> _Names:
    import_module(f"{__package__}.llvm_names")
    from .llvm_names import this_machine

    return _Names(*this_machine())


def _identity() -> bytes | None:
    """Key of this machine until it starts again: a cache may be taken to another one, and a machine may get
    another CPU or kernel.  None where the system does not tell."""
    try:
        with open("/proc/sys/kernel/random/boot_id", "rb") as file:
            boot = file.read(64)
        with open("/proc/cpuinfo", "rb", buffering=0) as file:
            cpu = file.read(_MOST_OF_CPUINFO)
    except OSError:
        return None
    first = cpu.partition(b"\n\n")[0].decode(errors="replace").split("\n")
    lines = [line for line in first if line.partition(":")[0].strip() not in _VARYING]
    return repr((boot, os.uname().machine, lines)).encode() if boot else None
