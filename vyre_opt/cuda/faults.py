"""Turns a kernel's fault record into the error that the interpreter would have raised."""

from __future__ import annotations

from ..lowering.nvptx.abi import EntryPoint, Fault, read_record
from ..runtime.dispatcher import ProgramError
from ..runtime.faults import bad_step, out_of_bounds, signed, trapped
from .device import FaultRecord

__all__ = ["program_error", "take_fault"]


def take_fault(record: FaultRecord) -> Fault | None:
    """The fault in a record, if any; clears the record."""
    fault = read_record(record.host.tobytes())
    if fault is not None:
        record.host[:] = 0
    return fault


def program_error(kernel: EntryPoint, fault: Fault) -> ProgramError:
    """The error of `fault` in a run of `kernel`, located at the op."""
    site, program = kernel.sites[fault.site - 1], kernel.program
    op, invocation = site.op, f"workgroup {_triple(fault.workgroup)} local id {_triple(fault.local)}"
    if site.kind == "trap":
        return trapped(program, op, invocation)
    if site.kind == "step":
        return bad_step(program, op, signed(fault.index), invocation)
    # indices of signed types were sign-extended to 64 bits
    index = signed(fault.index) if op.index.type.is_signed else fault.index
    return out_of_bounds(program, op, index, site.width, fault.length, invocation)


def _triple(ids: tuple[int, int, int]) -> str:
    return f"({','.join(map(str, ids))})"
