"""A kernel's fault record, as the error that the interpreter would have raised."""

from __future__ import annotations

from ..ir.diagnostics import Diagnostic
from ..lowering.nvptx.abi import EntryPoint, Fault, FaultSite, read_record
from ..runtime.dispatcher import ProgramError
from .device import Record

__all__ = ["program_error", "take_fault"]


def take_fault(record: Record) -> Fault | None:
    """The fault in a record, if any; clears the record."""
    fault = read_record(record.host.tobytes())
    if fault is not None:
        record.host[:] = 0
    return fault


def program_error(kernel: EntryPoint, fault: Fault) -> ProgramError:
    """The error, located at the op."""
    site = kernel.sites[fault.site - 1]
    op, name = site.op, site.op.attrs.get("buffer", "")
    invocation = f"workgroup {_triple(fault.workgroup)} local id {_triple(fault.local)}"
    message, help = _MESSAGES[site.kind](site, fault, invocation)
    diagnostic = Diagnostic("error", f"program @{kernel.program.name}: {message}", op.loc, help=help)
    buffer = kernel.program.buffers.get(name)
    if buffer is not None:
        diagnostic.note(f"@{buffer.name} is declared here", buffer.loc)
    return ProgramError(site.kind, diagnostic)


def _bounds(site: FaultSite, fault: Fault, invocation: str) -> tuple[str, str | None]:
    index, name = _index(site, fault.index), site.op.attrs["buffer"]
    what = f"index {index}" if site.width == 1 else f"elements {index} to {index + site.width - 1}"
    return (
        f"{site.op.name} out of bounds of @{name}: {what}, length {fault.length}, by {invocation}",
        f"guard the access with a comparison against len @{name}",
    )


def _trap(site: FaultSite, fault: Fault, invocation: str) -> tuple[str, str | None]:
    return f"trap: {site.op.attrs['message']}; reached by {invocation}", None


def _step(site: FaultSite, fault: Fault, invocation: str) -> tuple[str, str | None]:
    return (
        f"the step of this for is {_signed(fault.index)}, by {invocation}",
        "a for counts up: its step is at least 1",
    )


_MESSAGES = {"bounds": _bounds, "trap": _trap, "step": _step}


def _index(site: FaultSite, word: int) -> int:
    """The index by its type; signed ones were sign-extended to 64 bits."""
    return _signed(word) if site.op.index.type.is_signed else word


def _signed(word: int) -> int:
    return word - (1 << 64) if word >> 63 else word


def _triple(ids: tuple[int, int, int]) -> str:
    return f"({','.join(map(str, ids))})"
