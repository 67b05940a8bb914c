"""GPU architectures, and the PTX versions that architectures, LLVM and drivers take.

A PTX text states its version and its architecture.  Each architecture was introduced by some
PTX version; a driver loads versions up to its own.  So the lowest version that knows the
architecture loads on the most drivers, and it is the default.

Sources: PTX ISA 9.0, section "Release notes"; CUDA C++ programming guide, "Compute
capabilities" (shared memory).
"""

from __future__ import annotations

from collections.abc import Iterable

from ...records import dataclass
from ...worker import import_module

__all__ = [
    "GPUS",
    "GpuTarget",
    "OBJECT_BYTES",
    "PtxVersion",
    "STATIC_SHARED_BYTES",
    "TargetError",
    "VERSIONS",
    "driver_version",
    "gpu",
    "gpu_of_device",
    "parse_version",
    "ptx_version",
]

PtxVersion = tuple[int, int]
"""(8, 6) is PTX 8.6."""

STATIC_SHARED_BYTES = 48 * 1024
"""Workgroup memory that a kernel may declare statically, on every architecture."""

OBJECT_BYTES = 8
"""Bytes of an mbarrier object."""


class TargetError(ValueError):
    """An architecture or PTX version that does not exist, or two that do not go together."""


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """An architecture.  `first_ptx`: the first PTX version that knows it.

    `shared_bytes`: the most workgroup memory that a workgroup may have (the opt-in maximum).
    `specific`: the code runs on exactly this architecture (sm_90a), not on later ones.
    """

    name: str
    first_ptx: PtxVersion
    shared_bytes: int

    @property
    def number(self) -> int:
        """90 for sm_90 and sm_90a."""
        return int(self.name[3:].rstrip("a"))

    @property
    def specific(self) -> bool:
        return self.name.endswith("a")

    @property
    def cluster(self) -> int:
        """Workgroups that can form a cluster, of a function that is allowed more than 8; 1 where there are no clusters."""
        return 16 if 90 <= self.number < 120 else 1

    @property
    def has_warpgroups(self) -> bool:
        """Four subgroups multiply by a matrix in workgroup memory by one instruction, wgmma, which no other GPUs have."""
        return self.name == "sm_90a"

    @property
    def rounds_to_bf16(self) -> bool:
        """One instruction rounds a float to bf16."""
        return self.number >= 80

    @property
    def has_redux(self) -> bool:
        """Reductions of 32-bit integers over a subgroup in one instruction."""
        return self.number >= 80


#        name: (first PTX version, KiB of workgroup memory)
_TABLE: dict[int, tuple[PtxVersion, int]] = {
    70: ((6, 0), 96),
    72: ((6, 1), 96),
    75: ((6, 5), 64),  # 6.3 knows it too, but not its matrix instructions
    80: ((7, 0), 163),
    86: ((7, 1), 99),
    87: ((7, 4), 163),
    89: ((7, 8), 99),
    90: ((8, 1), 227),  # 7.8 knows it too, but not all that clusters have
    100: ((8, 6), 227),
    101: ((8, 6), 227),
    103: ((8, 8), 227),
    110: ((9, 0), 227),
    120: ((8, 7), 99),
    121: ((8, 8), 99),
}

GPUS: dict[str, GpuTarget] = {
    (name := f"sm_{number}{suffix}"): GpuTarget(name, first_ptx, kib * 1024)
    for number, (first_ptx, kib) in _TABLE.items()
    for suffix in (("", "a") if number >= 90 else ("",))  # sm_90a: with what later GPUs may not have
}
"""Name -> architecture, oldest first."""

VERSIONS: tuple[PtxVersion, ...] = (
    *((6, minor) for minor in range(6)),
    *((7, minor) for minor in range(9)),
    *((8, minor) for minor in range(9)),
    (9, 0),
)
"""The PTX versions that LLVM 22 writes.  It silently ignores a version that it does not know."""

# CUDA release -> the newest PTX version that its driver loads, where that is not (major - 4, minor)
_DRIVERS: dict[PtxVersion, PtxVersion] = {
    (9, 0): (6, 0),
    (9, 1): (6, 1),
    (9, 2): (6, 2),
    (10, 0): (6, 3),
    (10, 1): (6, 4),
    (10, 2): (6, 5),
    (12, 6): (8, 5),
    (12, 7): (8, 6),
    (12, 8): (8, 7),
    (12, 9): (8, 8),
}


def gpu(name: str) -> GpuTarget:
    """The architecture called `name`.  Raises TargetError, with a list of all, for an unknown name."""
    if not isinstance(name, str):
        raise TargetError(f"a GPU has a name, such as sm_90, and not {name!r}")
    target = GPUS.get(name)
    if target is None:
        import_module("vyre_opt.syntax.synonyms")
        from ...syntax.synonyms import advice

        names, hint = ", ".join(GPUS), advice(name, "target", GPUS)
        raise TargetError(f"unknown GPU {name!r}; there are {names}" + (f"; {hint}" if hint else ""))
    return target


def gpu_of_device(major: int, minor: int) -> GpuTarget:
    """The architecture to compile for on a device of this compute capability: the newest that it runs, or its own
    one where that has instructions for it (sm_90a)."""
    number = 10 * major + minor
    runs = [
        g
        for g in GPUS.values()
        if (g.has_warpgroups and g.number == number if g.specific else g.number <= number)
    ]
    if not runs:
        raise TargetError(f"a device of compute capability {major}.{minor} is too old; sm_70 is the oldest")
    return max(runs, key=lambda g: (g.number, g.specific))


def parse_version(text: str) -> PtxVersion:
    """The version `8.6` or `86`.  Raises TargetError for one that LLVM cannot write."""
    digits = text.replace(".", "", 1)
    if digits.isascii() and digits.isdigit() and len(digits) == 2:
        version = (int(digits[0]), int(digits[1]))
        if version in VERSIONS:
            return version
    raise TargetError(f"unknown PTX version {text!r}; there are {_listed(VERSIONS)}")


def ptx_version(target: GpuTarget, version: PtxVersion | None = None) -> PtxVersion:
    """The PTX version to write for `target`: `version`, or by default the lowest it takes.

    Raises TargetError, naming the versions that `target` takes, for one below those.
    """
    if version is None:
        return target.first_ptx
    if version < target.first_ptx:
        accepted = _listed(v for v in VERSIONS if v >= target.first_ptx)
        raise TargetError(f"{target.name} does not exist in PTX {show(version)}; it takes {accepted}")
    return version


def driver_version(cuda: PtxVersion) -> PtxVersion:
    """The newest PTX version that the driver of a CUDA release (13, 0) loads."""
    if cuda in _DRIVERS:
        return _DRIVERS[cuda]
    return max((6, 0), (cuda[0] - 4, cuda[1]))


def show(version: PtxVersion) -> str:
    return f"{version[0]}.{version[1]}"


def _listed(versions: Iterable[PtxVersion]) -> str:
    return ", ".join(show(v) for v in versions)
