"""Whether invocations and workgroups of a program run in any order, so that some may do the work of others."""

from __future__ import annotations

from ..ir.ops import BEYOND_WORKGROUP
from ..ir.program import Program
from .mismatch import Mismatch

__all__ = ["check_invocations", "check_workgroups"]


def check_workgroups(program: Program) -> None:
    """Raises Mismatch for a program whose workgroups may wait for each other."""
    has_while = any(op.name == "while" for op in program.walk())
    if program.cluster is not None:
        raise Mismatch(f"workgroups of @{program.name} share memory of a cluster")
    for op in program.walk():
        is_ordered = "atomic" in op.definition.effects and op.attrs["order"] != "relaxed"
        if is_ordered or (has_while and "atomic" in op.definition.effects):
            raise Mismatch(f"workgroups of @{program.name} may wait for each other", op)
        if "print" in op.definition.effects:
            raise Mismatch(f"lines of @{program.name} come in the order of its workgroups", op)
        if op.name == "barrier" and op.attrs["scope"] in BEYOND_WORKGROUP:
            raise Mismatch(f"workgroups of @{program.name} wait for each other", op)


def check_invocations(program: Program) -> None:
    """Raises Mismatch for a program whose invocations may meet, or wait for each other."""
    check_workgroups(program)
    if any(buffer.is_workgroup for buffer in program.buffers.values()):
        raise Mismatch(f"invocations of @{program.name} share memory of a workgroup")
    for op in program.walk():
        if op.definition.effects & {"sync", "wait", "subgroup"} or op.name in ("lane_id", "subgroup_id"):
            raise Mismatch(f"invocations of @{program.name} meet", op)
        if op.definition.kernel is not None:
            raise Mismatch(f"what @{program.name} runs here is not in it", op)
