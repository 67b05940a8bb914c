"""A named kernel in a program's body: runs once for the whole dispatch, as if between two grid barriers."""

from __future__ import annotations

import numpy as np

from ...ir.kernel_rules import complete_params
from ...ir.program import AccessMode, Op
from ...kernels.named import named_kernel
from .frame import Frame
from .machine import Machine
from .memory import Storage
from .registers import from_storage, to_storage
from .rounding import narrow


def kernel(machine: Machine, frame: Frame, op: Op) -> None:
    row = op.definition.kernel
    assert row is not None
    # such a program runs in one batch (see `Machine.in_one_batch`), whose lanes are all there are
    if frame.size != frame.batch.lanes:
        raise machine.fault("divergence", op, f"{op.name} is reached by only part of the grid")
    storages = [machine.storages[name] for name in op.attrs["buffers"]]
    uses = row.with_roles(storages)
    read = [s for s, role in uses if role.access is AccessMode.READ]
    (written,) = (s for s, role in uses if role.access is not AccessMode.READ)
    for storage in storages:
        if storage.rows is not None:
            raise machine.fault("kernel", op, f"{op.name} takes no workgroup memory: @{storage.buffer.name}")
    for storage in read:
        _check_written(machine, op, storage)
    values = [from_storage(s.data, s.buffer.dtype) for s in read]
    try:
        params = complete_params(row, [storage.buffer for storage in storages], op.attrs["params"])
        result = named_kernel(op.name).reference(*values, **row.semantic_params(params))
    except ValueError as error:
        raise machine.fault("kernel", op, f"{op.name}: {error}") from None
    if len(result) > len(written.data):
        raise machine.fault(
            "bounds",
            op,
            f"{op.name} out of bounds of @{written.buffer.name}: {len(result)} elements to write, "
            f"length {written.count}",
        )
    if machine.observer is not None:
        machine.observer.access(machine, frame, op, written, np.arange(len(result))[None], "write")
    dtype = written.buffer.dtype
    rounded = narrow(result, dtype) if dtype.is_float else result
    written.data[: len(result)] = to_storage(rounded.view(rounded.dtype), dtype)
    if written.written is not None:
        written.written[: len(result)] = True
    machine.clock.barrier("grid", frame)


def _check_written(machine: Machine, op: Op, storage: Storage) -> None:
    if storage.written is not None and not storage.written.all():
        first = int(np.argmin(storage.written))
        raise machine.fault(
            "uninitialised",
            op,
            f"{op.name} reads @{storage.buffer.name}, index {first}, length {storage.count}, "
            "which nothing has written",
        )
