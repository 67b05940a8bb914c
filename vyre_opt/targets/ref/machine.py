"""The interpreter: runs the blocks of a program over the batches of a dispatch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from ...execution.arrays import POISON, storage_type, transient_storage
from ...execution.dispatcher import Invocation, ProgramError, Scratch
from ...execution.faults import as_launched, describe, fault, invocation_at, place_in
from ...execution.inputs import CheckedCall, is_initialised
from ...execution.shapes import unravel_index
from ...ir.author_words import VYRE
from ...ir.diagnostics import spelling_at
from ...ir.joined_locations import declared_buffer
from ...ir.program import AccessMode, Block, Buffer, Module, Op, Program
from .copies import CopiesInFlight
from .frame import Frame, WorkgroupBatch
from .memory import Storage
from .prints import PrintLog
from .races import Collision, LogicalClock, Shadow

if TYPE_CHECKING:
    from ...execution.plans.host_plan import HostMemory

Array = np.ndarray
Handler = Callable[["Machine", Frame, Op], None]
"""Runs an op: reads its operands from the frame and puts its results there."""


class Observer(Protocol):
    """Observer of running programs: a debugger.  Runs are deterministic, so observers of two runs get the same calls.

    `before` and `after` are called around each op that the lanes of a frame run together, terminators of blocks left out.
    """

    def order(self, machine: Machine) -> Sequence[range]:
        """The workgroups of a dispatch, all of them, in the order in which they run; called before the first of them."""
        ...

    def before(self, machine: Machine, frame: Frame, op: Op) -> None: ...

    def access(
        self, machine: Machine, frame: Frame, op: Op, storage: Storage, offsets: Array, kind: str
    ) -> None:
        """The op is about to read or write: a row of `offsets`, of scalars in `storage.data`, for each lane, or one row for a whole
        workgroup or dispatch.  `kind`: read, write or atomic."""
        ...

    def after(self, machine: Machine, frame: Frame, op: Op) -> None: ...


def _observed(table: Mapping[str, Handler], observer: Observer) -> dict[str, Handler]:
    """The handlers of ops with an observer around them."""

    def around(handler: Handler) -> Handler:
        def run(machine: Machine, frame: Frame, op: Op) -> None:
            observer.before(machine, frame, op)
            handler(machine, frame, op)
            observer.after(machine, frame, op)

        return run

    return {name: around(handler) for name, handler in table.items()}


MAX_LANES = 1 << 16
MAX_VALUE_BYTES = 1 << 28  # of all SSA values of a batch
MAX_WORKGROUP_SCALARS = 1 << 20


class Machine:
    """One dispatch of one program.

    `table`: the handlers of ops by name.  `memory`: storage of bound buffers that are not in the
    call, to be used in place.
    """

    def __init__(
        self,
        program: Program,
        call: CheckedCall,
        module: Module | None,
        scratch: Scratch,
        table: dict[str, Handler],
        checks: bool,
        max_steps: int | None = None,
        memory: Mapping[str, HostMemory] | None = None,
        observer: Observer | None = None,
    ) -> None:
        self.program = program
        self.observer = observer
        self.memory = memory or {}
        self.call = call
        self.funcs = module.funcs if module is not None else {}
        self.table = table if observer is None else _observed(table, observer)
        self.checks = checks
        self.max_steps = max_steps
        self.steps = 0
        self.clock = LogicalClock()
        self.copies = CopiesInFlight(0)
        self.ops: list[Op] = []
        self.op_numbers: dict[int, int] = {}
        self.invocations = call.workgroups * program.lanes
        bodies = [program.walk(), *(f.walk() for f in self.funcs.values())]
        ops = [op for body in bodies for op in body]
        # no register takes more than 8 bytes a lane; batches are cut so that all of them fit
        self.value_bytes = sum(8 * result.type.lanes for op in ops for result in op.results)
        # a grid barrier and a named kernel wait for all workgroups, so all of them must run in lock step; a cluster's must, too
        self.in_one_batch = program.cluster is not None or any(
            op.definition.kernel is not None or op.attrs.get("scope") == "grid" for op in ops
        )
        self.has_slices = any(value.type.is_slice for op in ops for value in op.results)
        """Whether values are slices: their extents may differ from workgroup to workgroup, and their arrays have no room for several."""
        self.written_buffers = _written_buffers(ops)
        self.prints = PrintLog(program)
        self.storages: dict[str, Storage] = {}
        for buffer in program.buffers.values():
            if not buffer.is_on_chip:
                self.storages[buffer.name] = self._storage(buffer, scratch)

    # --- buffers

    def _storage(self, buffer: Buffer, scratch: Scratch) -> Storage:
        array = self.call.arrays.get(buffer.name)
        memory = self.memory.get(buffer.name)
        if memory is not None:
            data = memory.array
        elif array is None:
            data = transient_storage(buffer, scratch)
        elif buffer.name in self.call.fresh:
            data = array
            data.view(np.uint8).fill(POISON)
        else:
            changes = buffer.name in self.written_buffers or buffer.is_output
            data = array.copy() if changes else array
        shape = self.call.shapes.get(buffer.name) or ()
        if memory is not None and buffer.dimensions > 1:
            shape = memory.shape
        if not shape:
            count = len(data) // buffer.dtype.lanes
            shape = (count,) if buffer.dimensions == 1 else tuple(extent or 0 for extent in buffer.shape)
        storage = Storage(buffer, data, shape)
        self._track(storage, initialised=is_initialised(buffer))
        if self.checks and memory is not None and is_initialised(buffer):
            storage.written = memory.written
        return storage

    def _on_chip_storage(self, buffer: Buffer, batch: WorkgroupBatch) -> Storage:
        scalars = (buffer.count or 0) * buffer.dtype.lanes
        rows = self.program.cluster or 1 if buffer.is_cluster else 1
        data = np.zeros(scalars * -(-batch.rows // rows), storage_type(buffer.dtype))
        storage = Storage(buffer, data, tuple(extent or 0 for extent in buffer.shape), rows)
        self._track(storage, initialised=False)
        return storage

    def _track(self, storage: Storage, initialised: bool) -> None:
        """Set up what the checks need."""
        if not self.checks:
            return
        if not initialised:
            storage.written = np.zeros(len(storage.data), np.bool_)
        if storage.buffer.name in self.written_buffers:
            storage.shadow = Shadow(len(storage.data), self.clock, self.invocations)

    def writer(self, array: Array, scalar: int) -> str | None:
        """The invocation that has stored a scalar of the buffer whose memory an array is; None if none has, or if that
        is not tracked."""
        for storage in self.storages.values():
            if storage.shadow is not None and np.may_share_memory(storage.data, array):
                invocation = storage.shadow.writer(scalar)
                if invocation is not None:
                    return str(self.invocation(invocation))
        return None

    # --- running

    def run(self, workgroups: Sequence[range]) -> None:
        """Run the workgroups of these linear numbers.  Raises ProgramError if the program is at fault."""
        rows = self._rows_per_batch()
        tiles = [b for b in self.program.buffers.values() if b.is_on_chip]
        with np.errstate(all="ignore"):
            for first, count in ((at, min(rows, w.stop - at)) for w in workgroups for at in w[::rows]):
                batch = WorkgroupBatch(first, count, self.program.workgroup, self.call.grid)
                self.clock.enter(batch, self.program.cluster or 1)
                self.copies = CopiesInFlight(batch.lanes)
                for tile in tiles:
                    self.storages[tile.name] = self._on_chip_storage(tile, batch)
                self.run_block(Frame(batch), self.program.body)

    def _rows_per_batch(self) -> int:
        if self.has_slices:
            return 1
        if self.in_one_batch:
            return self.call.workgroups
        lanes = min(MAX_LANES, MAX_VALUE_BYTES // max(1, self.value_bytes))
        rows = lanes // self.program.lanes
        tiles = [b for b in self.program.buffers.values() if b.is_workgroup]
        scalars = sum((b.count or 0) * b.dtype.lanes for b in tiles)
        return max(1, min(rows, MAX_WORKGROUP_SCALARS // max(1, scalars)))

    def run_block(self, frame: Frame, block: Block) -> list[Array]:
        """Run the ops of a block; gives the operands of its terminator."""
        table = self.table
        self.steps += len(block.ops)
        if self.max_steps is not None and self.steps > self.max_steps and block.ops:
            raise self.fault("limit", block.ops[0], f"more than {self.max_steps} ops were run")
        for op in block.ops:
            if op.definition.is_terminator:
                return [frame.get(value) for value in op.operands]
            table[op.definition.name](self, frame, op)
        return []

    def number(self, op: Op) -> int:
        """A number for `op`, by which the race detector records it; `ops[number]` is the op."""
        number = self.op_numbers.get(id(op))
        if number is None:
            number = self.op_numbers[id(op)] = len(self.ops)
            self.ops.append(op)
        return number

    # --- faults

    def invocation_at(self, frame: Frame, lane: int) -> Invocation:
        """The invocation of a lane of the frame."""
        return self.invocation(int(frame.invocations[lane]))

    def invocation(self, linear: int) -> Invocation:
        """An invocation, by its linear id in the dispatch."""
        return invocation_at(linear, self.program.workgroup, self.call.grid)

    def fault(self, kind: str, op: Op, message: str, **more: Any) -> ProgramError:
        return fault(kind, self.program, op, message, **more)

    def uninitialised(
        self, storage: Storage, frame: Frame, op: Op, indices: tuple[int, ...], lane: int
    ) -> ProgramError:
        buffer = storage.buffer
        help, by = (
            "store to every element before it is read",
            as_launched(op, self.invocation_at(frame, lane)),
        )
        name = (declared_buffer(self.program, op) or buffer).name
        spelling = spelling_at(op.loc)
        if buffer.live_in:
            help += ", or fill the buffer that is passed for it, before this launch"
        if buffer.binding is not None and not (
            buffer.live_in and spelling is VYRE
        ):  # where it is declared so
            help += f", or {spelling.input(name, 'live_in')} if the caller's contents are meant"
        return self.fault(
            "uninitialised",
            op,
            f"{op.name} of @{name}, {place_in(indices, storage.shape)}, which nothing has written, by {by}",
            help=help,
            by=by,
        )

    def race(self, storage: Storage, frame: Frame, op: Op, collision: Collision) -> ProgramError:
        buffer, other = storage.buffer, self.ops[collision.op]
        by = as_launched(op, self.invocation_at(frame, collision.lane))
        other_by = as_launched(other, self.invocation(collision.invocation))
        name = (declared_buffer(self.program, op) or buffer).name
        index = collision.element % max(1, storage.scalars) // buffer.dtype.lanes
        scope = "grid"
        if buffer.is_workgroup or self._is_within(1, frame, collision):
            scope = "workgroup"
        elif buffer.is_cluster or self._is_within(self.program.cluster or 1, frame, collision):
            scope = "cluster"
        return self.fault(
            "race",
            op,
            f"data race on @{name}, {place_in(unravel_index(index, storage.shape), storage.shape)}: "
            f"{describe(self.program, op)} by {by} and {describe(self.program, other)} by {other_by} are not ordered",
            other=other,
            help=self._race_help(op, other, scope),
            by=by,
        )

    def _race_help(self, op: Op, other: Op, scope: str) -> str:
        spelling = spelling_at(op.loc)
        if (
            op.loc is not None
            and other.loc is not None
            and (op.loc.start, op.loc.end) == (other.loc.start, other.loc.end)
        ):
            # one statement that loads and stores, `bins[k] += 1`, or one that several do to one element
            return f"use an atomic, {spelling.atomic}, or give each invocation its own element"
        return f"put `{spelling.barrier(scope)}` between them, use atomics, or give each invocation its own element"

    def unfinished(
        self, storage: Storage, frame: Frame, op: Op, copying: np.ndarray, offsets: np.ndarray
    ) -> ProgramError:
        """The error of an access to what is being copied.  `copying`: as `Storage.in_flight` has it, at `offsets`."""
        buffer, first = storage.buffer, np.unravel_index(int(np.argmax(copying > 0)), copying.shape)
        other = self.ops[int(copying[first]) - 1]
        element = (
            int(np.broadcast_to(offsets, copying.shape)[first])
            % max(1, storage.scalars)
            // buffer.dtype.lanes
        )
        lane = int(first[0]) if len(copying) == frame.size else 0
        by = as_launched(op, self.invocation_at(frame, lane))
        return self.fault(
            "race",
            op,
            f"{describe(self.program, op)} by {by} touches {place_in(unravel_index(element, storage.shape), storage.shape)}, "
            "which is being copied",
            other=other,
            help=f"the invocation that copies waits by a {spelling_at(op.loc).copy_wait} first; others then wait for a barrier, too",
            by=by,
        )

    def _is_within(self, rows: int, frame: Frame, collision: Collision) -> bool:
        """Whether both invocations are of the same group of so many workgroups."""
        lanes = frame.batch.lanes_per_row * rows
        return int(frame.invocations[collision.lane]) // lanes == collision.invocation // lanes


def _written_buffers(ops: list[Op]) -> set[str]:
    """The buffers that some op writes; the others cannot have races."""
    written: set[str] = set()
    for op in ops:
        kernel = op.definition.kernel
        if kernel is not None:
            named = zip(op.attrs["buffers"], kernel.roles, strict=False)
            written |= {name for name, role in named if role.access is not AccessMode.READ}
        elif "write" in op.definition.effects:
            written.add(op.attrs["buffer"])
    return written
