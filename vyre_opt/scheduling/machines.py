"""Peak bytes and operations a second of machines, and the peak that limits a launch.

Figures are from NVIDIA's data sheets, without sparsity; the bandwidth of a CPU is that of a copy, and it has no other peak.
"""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from ..records import dataclass

__all__ = ["MACHINES", "Limit", "Machine", "copying_machine", "limit_of", "machine_named", "machine_of"]


@dataclass(frozen=True, slots=True)
class Machine:
    """`bytes_per_s`: bandwidth of memory.  `operations_per_s`: by unit, see `LaunchWork`; a fused multiply-add counts as two.

    `pattern`: matches the driver's name of the machine.  `source`: source of the figures.
    """

    name: str
    pattern: str
    architecture: str
    processors: int
    bytes_per_s: float
    operations_per_s: Mapping[str, float]
    source: str

    @property
    def is_measured(self) -> bool:
        """Whether its peaks were measured, not tabulated; caches may exceed them."""
        return not self.pattern


def _units(f32: float, f64: float | None, f16: float) -> dict[str, float]:
    """Peaks in 10^12 a second of f32, f64, and matrices of f16 and bf16; f16 and bf16 outside of matrices compute as f32."""
    peaks = {"f32": f32, "f16": f32, "bf16": f32, "matrix f16": f16, "matrix bf16": f16}
    return {unit: peak * 1e12 for unit, peak in (peaks | ({} if f64 is None else {"f64": f64})).items()}


_H100 = "NVIDIA H100 Tensor Core GPU data sheet, 2024"
_H200 = "NVIDIA H200 Tensor Core GPU data sheet, 2024"
_A100 = "NVIDIA A100 Tensor Core GPU data sheet, 2021"
_V100 = "NVIDIA V100 Tensor Core GPU data sheet, 2020"

MACHINES = (
    Machine("H200 NVL", "NVIDIA H200 NVL*", "sm_90", 132, 4.8e12, _units(60, 30, 835.5), _H200),
    Machine("H200 SXM", "NVIDIA H200*", "sm_90", 132, 4.8e12, _units(67, 34, 989.5), _H200),
    Machine("H100 PCIe", "NVIDIA H100 PCIe*", "sm_90", 114, 2.0e12, _units(51, 26, 756.5), _H100),
    Machine("H100 NVL", "NVIDIA H100 NVL*", "sm_90", 132, 3.9e12, _units(60, 30, 835.5), _H100),
    Machine("H100 SXM", "NVIDIA H100*", "sm_90", 132, 3.35e12, _units(67, 34, 989.5), _H100),
    Machine("A100 40GB", "*A100*40GB*", "sm_80", 108, 1.555e12, _units(19.5, 9.7, 312), _A100),
    Machine("A100 80GB PCIe", "*A100 80GB PCIe*", "sm_80", 108, 1.935e12, _units(19.5, 9.7, 312), _A100),
    Machine("A100 80GB SXM", "*A100*", "sm_80", 108, 2.039e12, _units(19.5, 9.7, 312), _A100),
    Machine(
        "L40S", "*L40S*", "sm_89", 142, 0.864e12, _units(91.6, None, 362.05), "NVIDIA L40S data sheet, 2023"
    ),
    Machine("L4", "*L4", "sm_89", 58, 0.3e12, _units(30.3, None, 121), "NVIDIA L4 data sheet, 2023"),
    Machine("V100 PCIe", "*V100-PCIE*", "sm_70", 80, 0.9e12, _units(14, 7, 112), _V100),
    Machine("V100 SXM2", "*V100-SXM2*", "sm_70", 80, 0.9e12, _units(15.7, 7.8, 125), _V100),
)
"""A name denotes the first machine whose pattern matches."""

_OF_ARCHITECTURE = {"sm_70": "V100 SXM2", "sm_80": "A100 80GB SXM", "sm_89": "L40S"}
_DEFAULT = "H100 SXM"


def machine_named(name: str) -> Machine | None:
    """The machine of a driver's name, such as `NVIDIA H100 80GB HBM3`; None if unknown, or for a MIG slice of one."""
    if " MIG " in name:
        return None
    return next((each for each in MACHINES if fnmatchcase(name, each.pattern)), None)


def machine_of(architecture: str) -> Machine:
    """The largest machine of an architecture; an H100 for an architecture that is not in the table."""
    name = _OF_ARCHITECTURE.get(architecture, _DEFAULT)
    return next(each for each in MACHINES if each.name == name)


def copying_machine(bytes_per_s: float, threads: int) -> Machine:
    """A CPU whose copies move `bytes_per_s`, reads and writes together."""
    return Machine("this CPU", "", "cpu", threads, bytes_per_s, {}, "a copy")


@dataclass(frozen=True, slots=True)
class Limit:
    """Lower bound of a launch's time on a machine: `unit`, memory or a unit that computes, is busy for `seconds`."""

    unit: str
    seconds: float


def limit_of(traffic: int, operations: Mapping[str, int], machine: Machine) -> Limit:
    """The larger of the times for bytes and for operations, which overlap."""
    times = {"memory": traffic / machine.bytes_per_s}
    for unit, count in operations.items():
        if unit in machine.operations_per_s:
            times[unit] = count / machine.operations_per_s[unit]
    unit = max(times, key=lambda each: times[each])
    return Limit(unit, times[unit])
