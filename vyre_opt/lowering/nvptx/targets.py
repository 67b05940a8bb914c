"""GPU architectures, and the PTX versions that they, LLVM and a driver take.

A PTX text states its version and its architecture.  An architecture needs a version
that knows it; a driver loads versions up to its own.  So the lowest version that will
do is the one that loads on most drivers, and it is the default.

Sources: PTX ISA 9.0, section "Release notes"; CUDA C++ programming guide, "Compute
capabilities" (shared memory).
"""

from __future__ import annotations

from dataclasses import dataclass

from ...ir.diagnostics import suggest

__all__ = [
    "GPUS",
    "GpuTarget",
    "PtxVersion",
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


class TargetError(ValueError):
    """An architecture or PTX version that does not exist, or two that do not go together."""


@dataclass(frozen=True, slots=True)
class GpuTarget:
    """An architecture.  `least`: the first PTX version that knows it.

    `shared_bytes`: workgroup memory that a workgroup may have, the opt-in maximum.
    `specific`: the code runs on exactly this architecture (sm_90a), not on later ones.
    """

    name: str
    least: PtxVersion
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
        """Workgroups that can form a cluster on any such GPU, 1 where there are no clusters."""
        return 8 if 90 <= self.number < 120 else 1

    @property
    def has_redux(self) -> bool:
        """Reductions of 32-bit integers over a subgroup in one instruction."""
        return self.number >= 80


#        name: (first PTX version, KiB of workgroup memory)
_TABLE: dict[str, tuple[PtxVersion, int]] = {
    "70": ((6, 0), 96),
    "72": ((6, 1), 96),
    "75": ((6, 3), 64),
    "80": ((7, 0), 163),
    "86": ((7, 1), 99),
    "87": ((7, 4), 163),
    "89": ((7, 8), 99),
    "90": ((8, 0), 227),  # 7.8 knows it too, but not all of its cluster barriers
    "90a": ((8, 0), 227),
    "100": ((8, 6), 227),
    "100a": ((8, 6), 227),
    "101": ((8, 6), 227),
    "101a": ((8, 6), 227),
    "103": ((8, 8), 227),
    "103a": ((8, 8), 227),
    "110": ((9, 0), 227),
    "110a": ((9, 0), 227),
    "120": ((8, 7), 99),
    "120a": ((8, 7), 99),
    "121": ((8, 8), 99),
    "121a": ((8, 8), 99),
}

GPUS: dict[str, GpuTarget] = {
    f"sm_{arch}": GpuTarget(f"sm_{arch}", least, kib * 1024) for arch, (least, kib) in _TABLE.items()
}
"""Name -> architecture, oldest first."""

VERSIONS: tuple[PtxVersion, ...] = (
    *((6, minor) for minor in range(6)),
    *((7, minor) for minor in range(9)),
    *((8, minor) for minor in range(9)),
    (9, 0),
)
"""What LLVM 22 writes.  It takes a version it does not know for none, without a word."""

# The newest PTX that the driver of a CUDA release loads, where it is not (major - 4, minor)
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
    """The architecture called `name`.  Raises TargetError that lists them."""
    found = GPUS.get(name)
    if found is None:
        hint = suggest(name, GPUS)
        raise TargetError(
            f"unknown GPU {name!r}; there are {', '.join(GPUS)}" + (f"; {hint}" if hint else "")
        )
    return found


def gpu_of_device(major: int, minor: int) -> GpuTarget:
    """The architecture to compile for on a device: its own, or the newest that it still runs."""
    number = 10 * major + minor
    runs = [g for g in GPUS.values() if not g.specific and g.number <= number]
    if not runs:
        raise TargetError(f"a device of compute capability {major}.{minor} is too old; sm_70 is the oldest")
    return max(runs, key=lambda g: g.number)


def parse_version(text: str) -> PtxVersion:
    """`8.6` or `86` as a version.  Raises TargetError for one that cannot be written."""
    digits = text.replace(".", "", 1)
    if digits.isascii() and digits.isdigit() and len(digits) == 2:
        version = (int(digits[0]), int(digits[1]))
        if version in VERSIONS:
            return version
    raise TargetError(f"unknown PTX version {text!r}; there are {_listed(VERSIONS)}")


def ptx_version(target: GpuTarget, wanted: PtxVersion | None = None) -> PtxVersion:
    """The PTX version to write for `target`: `wanted`, or the lowest.

    Raises TargetError that names the versions which `target` takes.
    """
    if wanted is None:
        return target.least
    if wanted < target.least:
        taken = _listed(v for v in VERSIONS if v >= target.least)
        raise TargetError(f"{target.name} does not exist in PTX {show(wanted)}; it takes {taken}")
    return wanted


def driver_version(cuda: PtxVersion) -> PtxVersion:
    """The newest PTX version that the driver of a CUDA release (13, 0) loads."""
    if cuda in _DRIVERS:
        return _DRIVERS[cuda]
    return max((6, 0), (cuda[0] - 4, cuda[1]))


def show(version: PtxVersion) -> str:
    return f"{version[0]}.{version[1]}"


def _listed(versions: object) -> str:
    return ", ".join(show(v) for v in versions)  # type: ignore[attr-defined]
