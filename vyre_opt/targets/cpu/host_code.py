"""LLVM IR of programs for this machine, with the errors of what cannot be lowered."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...execution.dispatcher import ProgramError
from ...execution.faults import fault
from ...ir.diagnostics import DiagnosticError, spelling_at
from ...ir.ops import SUBGROUP_SIZE
from ...ir.program import Program
from ...lowering.host.abi import HostCode
from ...lowering.host.live_values import BUDGET, TooManyLive
from ...lowering.host.program import UnloweredKernel, lower
from ...lowering.host.segment_emitter import DivergentBarrier
from .host import Host

__all__ = ["host_code"]


def host_code(program: Program, specs: Mapping[str, Any], host: Host) -> HostCode:
    """The LLVM IR of a legal program, for encoded values of its specialization constants."""
    try:
        return lower(program, specs, host.triple, host.layout, host.features, host.debug_info)
    except UnloweredKernel as kernel:
        raise fault(
            "kernel",
            program,
            kernel.op,
            f"the named kernel {kernel.op.name} is not lowered as it is",
            help="run the pass expand_kernels first; it writes the kernel out at a schedule",
        ) from None
    except DiagnosticError as error:
        raise ProgramError("limit", error.diagnostics[0]) from None
    except TooManyLive as error:
        peak = error.peak
        at = peak.op or next(iter(program.body.ops))
        raise fault(
            "limit",
            program,
            at,
            f"the values that are live here take {peak.size} bytes for the {SUBGROUP_SIZE} lanes of a subgroup, "
            f"more than the {BUDGET} that the cpu target keeps beside those it can store",
            help="carry less around loops and out of branches, or keep it in "
            f"{spelling_at(at.loc).workgroup_memory}",
        ) from None
    except DivergentBarrier as barrier:
        raise fault(
            "divergence",
            program,
            barrier.op,
            f"this {barrier.op.name} has a barrier inside, and may go different ways for those that meet there",
            help="move the barrier out of it, or make all of the barrier's scope agree on the way",
        ) from None
