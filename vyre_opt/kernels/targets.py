"""The targets of schedules: `cpu`, `ref`, `cuda`, or the architecture of a GPU."""

from __future__ import annotations

from ..lowering.nvptx.targets import gpu
from ..slices.schedule import SliceMachine

__all__ = [
    "MULTIPROCESSORS",
    "REGISTERS",
    "clusters_at_once",
    "has_matrix_units",
    "is_gpu",
    "slice_machine",
    "widest_cluster",
    "workgroup_bytes",
]

MULTIPROCESSORS = 132
"""Multiprocessors of an H100 and an H200, taken for an unknown GPU."""

REGISTERS = 1 << 16
"""Registers of a multiprocessor."""


def is_gpu(target: str) -> bool:
    """Whether a schedule is for a GPU: for cuda, or an architecture such as sm_90."""
    return target == "cuda" or target.startswith("sm_")


def has_matrix_units(target: str) -> bool:
    """Whether a GPU is known to multiply matrices of f16 and bf16, and to copy beside that: from sm_80 on."""
    return target.startswith("sm_") and gpu(target).number >= 80


def workgroup_bytes(target: str) -> int:
    """The most workgroup memory of a workgroup on a GPU.  One that is not known has that of an H100."""
    return gpu("sm_90" if target == "cuda" else target).shared_bytes


def widest_cluster(target: str) -> int:
    """The workgroups of the largest cluster; 1 where there are none.  A GPU that is not known has those of an H100."""
    if not is_gpu(target):
        return 1
    return gpu("sm_90" if target == "cuda" else target).cluster


def slice_machine(target: str) -> SliceMachine:
    """Return the machine that slices are scheduled for on a target."""
    processors = MULTIPROCESSORS if widest_cluster(target) > 1 else 0
    if not has_matrix_units(target):
        return SliceMachine(processors, is_gpu=is_gpu(target))
    units = "warpgroups" if gpu(target).has_warpgroups else "subgroups"
    return SliceMachine(processors, units, workgroup_bytes(target), is_gpu=True)


def clusters_at_once(workgroups: int) -> int:
    """Clusters that a GPU runs at a time with one workgroup on a multiprocessor.  Of 16 an H200 runs 7."""
    return 7 * (16 // workgroups)
