"""Fault records of a GPU, and the errors that they stand for: those that the interpreter would have raised.

    launch --> record in GPU memory --> copy in the host's memory, and a flag for all records
    later  --> the flag is set: wait for the GPU, turn each record into an error, clear it

So nobody waits for a launch that may fault, and a look at one word tells whether one did.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ...execution.dispatcher import BadInputs, Invocation, ProgramError
from ...execution.faults import (
    asserted,
    bad_step,
    out_of_bounds,
    out_of_checked_bounds,
    outside_of_shape,
    signed,
    trapped,
)
from ...execution.plans.steps import LaunchStep
from ...execution.variables import value_of
from ...lowering.nvptx.abi import FILLED_BYTES, RECORD_BYTES, EntryPoint, Fault, read_record
from ...records import dataclass
from .driver import translated_errors

__all__ = ["CHECKS", "FaultRecord", "FaultRecords", "check_mode", "program_error"]

CHECKS = ("later", "now")
"""Times of a fault's report: a later call, or the call itself, which waits for the GPU."""

VARIABLE = "VYRE_FAULTS"
STRIDE = 128
RECORDS_A_PAGE = 64
assert RECORD_BYTES <= STRIDE


def check_mode(check: str | None) -> str:
    """One of CHECKS: `check`, or what the environment says.  Raises BadInputs."""
    mode = check if check is not None else value_of(VARIABLE) or CHECKS[0]
    if mode not in CHECKS:
        raise BadInputs(f"check is one of {', '.join(CHECKS)}, not {mode!r}")
    return mode


@dataclass(slots=True, eq=False)
class FaultRecord:
    """A fault record on the GPU, at `pointer`, and its copy in the host's memory.

    `error`: gives the error of a fault; None while no launch uses the record.
    """

    host: np.ndarray
    pointer: int
    error: Callable[[Fault], ProgramError] | None = None


class Gpu(Protocol):
    """Part of a GPU that records need; see `Device`."""

    @property
    def cuda(self) -> Any: ...

    def wait(self) -> None: ...

    def allocate(self, size: int) -> Any: ...


class FaultRecords:
    """The fault records of a GPU.  The context must be current for all but `pending`.

    `calls`: how many calls that may fault were made; the number of the latest, which its record will repeat.
    """

    def __init__(self, device: Gpu) -> None:
        self.device = device
        self.calls = ctypes.c_uint64()
        self._flag = ctypes.c_uint32()
        self._flag_pointer = 0
        self._records: list[FaultRecord] = []
        self._free: list[FaultRecord] = []
        self._pages: list[Any] = []
        """Pages of the records and the flag."""

    @property
    def pending(self) -> bool:
        """Whether a fault has been recorded that `take` has not given yet."""
        return self._flag.value != 0

    @property
    def flag_address(self) -> int:
        """The address of the flag in the host's memory."""
        if not self._pages:
            self._add_page()
        return ctypes.addressof(self._flag)

    def next_call(self) -> int:
        """The number of a call that begins now."""
        self.calls.value += 1
        return self.calls.value

    def new(self, error: Callable[[Fault], ProgramError]) -> FaultRecord:
        """A cleared record.  `error`: gives the error of a fault that it holds."""
        if not self._free:
            self._add_page()
        record = self._free.pop()
        record.error = error
        return record

    def free(self, record: FaultRecord) -> None:
        """Free a record that no launch uses any more; a fault that it holds is forgotten."""
        self._clear(record)
        record.error = None
        self._free.append(record)

    def take(self) -> ProgramError | None:
        """Wait for the GPU, and clear all records; gives the fault of the earliest call, if there is any.

        Later calls often fail because an earlier one did, so they are only counted in a note.
        """
        if not self.pending:
            return None
        with translated_errors("waiting for the GPU"):
            self.device.wait()
        self._flag.value = 0
        faults = [
            (record, fault) for record in self._records if (fault := read_record(record.host.tobytes()))
        ]
        for record, _ in faults:
            self._clear(record)
        errors = [(fault.call, record.error(fault)) for record, fault in faults if record.error is not None]
        if not errors:
            return None
        call, error = min(errors, key=lambda pair: pair[0])
        calls_since = self.calls.value - call
        if call and calls_since:
            which = (
                "the call before the latest"
                if calls_since == 1
                else f"the call before the latest {calls_since}"
            )
            error.diagnostic.note(
                f"this is of {which} that may fault; with {VARIABLE}=now, a call reports its own fault"
            )
        if len(errors) > 1:
            others = "another launch" if len(errors) == 2 else f"{len(errors) - 1} other launches"
            error.diagnostic.note(f"{others} had a fault, too")
        return error

    def _clear(self, record: FaultRecord) -> None:
        record.host[:] = 0
        with translated_errors("clearing a fault record"):
            # the addresses of the copy and the flag stay
            self.device.cuda.memset_d8(record.pointer, 0, FILLED_BYTES)

    def _add_page(self) -> None:
        """More records; the first page also has the flag, in the place of a record."""
        cuda = self.device.cuda
        flags = cuda.host_alloc_flags.DEVICEMAP | cuda.host_alloc_flags.PORTABLE
        with translated_errors("asking for a page of pinned memory"):
            page = cuda.pagelocked_zeros(RECORDS_A_PAGE * STRIDE, np.uint8, mem_flags=flags)
            base = int(page.base.get_device_pointer())
        memory = self.device.allocate(page.nbytes)
        self._pages.append((page, memory))
        starts = range(0, page.nbytes, STRIDE)
        if not self._flag_pointer:
            starts = starts[1:]
            self._flag_pointer = base
            self._flag = ctypes.c_uint32.from_buffer(page)
        contents = np.zeros(page.nbytes, np.uint8)
        for start in starts:
            addresses = np.array([base + start, self._flag_pointer], np.uint64)
            contents[start + FILLED_BYTES : start + FILLED_BYTES + 16] = addresses.view(np.uint8)
            record = FaultRecord(page[start : start + STRIDE], int(memory) + start)
            self._records.append(record)
            self._free.append(record)
        with translated_errors("setting up fault records"):
            cuda.memcpy_htod(int(memory), contents)


def program_error(kernel: EntryPoint, fault: Fault, step: LaunchStep | None = None) -> ProgramError:
    """The error, located at the op.  `step`: the launch, if it is one of a plan."""
    site, program = kernel.sites[fault.site - 1], kernel.program
    workgroup, local = fault.workgroup, fault.local
    ids = (workgroup, local) if step is None else step.written_ids(workgroup, local)
    op, invocation = site.op, Invocation(*ids)
    if site.kind == "trap" and "access" in op.attrs:
        opened = [extent for extent in op.attrs["shape"] if isinstance(extent, str)]
        extents = dict(zip(opened, fault.extents, strict=False))
        return outside_of_shape(program, op, fault.indices, extents, invocation)
    if site.kind == "trap":
        return trapped(program, op, invocation)
    if site.kind == "assert":
        return asserted(program, op, invocation)
    if site.kind == "step":
        return bad_step(program, op, signed(fault.index), invocation)
    if op.name == "check_bounds":
        return out_of_checked_bounds(program, op, fault.index, fault.length, invocation)
    # indices of signed types were sign-extended to 64 bits
    index = signed(fault.index) if op.index.type.is_signed else fault.index
    return out_of_bounds(program, op, (index,), site.width, (fault.length,), invocation)
