"""The processors that packs have code for: levels of x86-64, and aarch64, all with Linux."""

from __future__ import annotations

from ..targets.cpu.host import Host

__all__ = ["LEVELS", "host_of"]

_V2 = "+cmov,+cx16,+cx8,+fxsr,+mmx,+popcnt,+sahf,+sse,+sse2,+sse3,+sse4.1,+sse4.2,+ssse3"
_V3 = f"{_V2},+avx,+avx2,+bmi,+bmi2,+f16c,+fma,+lzcnt,+movbe,+xsave"
_V4 = f"{_V3},+avx512bw,+avx512cd,+avx512dq,+avx512f,+avx512vl"

_X86 = (
    "x86_64-unknown-linux-gnu",
    "e-m:e-p270:32:32-p271:32:32-p272:64:64-i64:64-i128:128-f80:128-n8:16:32:64-S128",
)
_AARCH64 = (
    "aarch64-unknown-linux-gnu",
    "e-m:e-p270:32:32-p271:32:32-p272:64:64-i8:8:32-i16:16:32-i64:64-i128:128-n32:64-S128-Fn32",
)
"""Triples, and the data layouts that LLVM has for them."""

LEVELS = {
    "x86-64-v2": ("x86-64-v2", _V2, _X86),
    "x86-64-v3": ("x86-64-v3", _V3, _X86),
    "x86-64-v4": ("x86-64-v4", _V4, _X86),
    "aarch64": ("generic", "+neon,+fp-armv8", _AARCH64),
}
"""Processors by the name that packs have: LLVM's name of the CPU, its features, and the system.  v2 runs on every x86-64 since 2009."""


def host_of(level: str, opt: int = 3) -> Host:
    """The machine to compile for."""
    name, attributes, system = LEVELS[level]
    return Host(name, attributes, opt, system=system)
