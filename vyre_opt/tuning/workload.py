"""What is tuned: a kernel on buffers of known sizes, as a program at each configuration.

A workload gives, for a configuration, a Trial: the program, what it is dispatched on, and over which
grid; and says whether what came out is right.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..ir.ops import NAMED_KERNELS
from ..ir.program import AccessMode, Buffer, Program
from ..ir.types import DataType
from ..kernels.expansion import Expansion, Request, expand
from ..runtime.arrays import storage_type
from ..runtime.dispatcher import BadInputs, OutputAlloc
from .space import Config, Space

__all__ = ["KernelWorkload", "Trial", "Workload", "close", "kernel_workload"]

Array = np.ndarray[Any, Any]

# Of a result to the exact one, in the 2-norm.
TOLERANCES = {"f32": 1e-4, "f16": 4e-3, "bf16": 1e-2}
CHECKED_LOOKUPS = 4096


@dataclass(frozen=True, slots=True)
class Trial:
    """A program to dispatch.  `arguments` are those of `Dispatcher.dispatch`; those at `cleared` are
    zeros when it starts, which whoever runs it in place must see to."""

    program: Program
    arguments: Sequence[Any]
    grid: int
    cleared: tuple[int, ...] = ()


class Workload(Protocol):
    """`name`: of the kernel, and its sizes; what a result is kept under."""

    @property
    def name(self) -> str: ...

    def space(self, target: str) -> Space:
        """The configurations that are legal on a target."""

    def default(self, target: str) -> Config:
        """The one that is taken where nobody tunes; of the space or not."""

    def trial(self, config: Mapping[str, Any], target: str) -> Trial:
        """Raises ValueError where the configuration is none for the workload."""

    def fault(self, outputs: Sequence[Array]) -> str:
        """What is wrong with a trial's outputs; "" if nothing."""


@dataclass(frozen=True, eq=False)
class KernelWorkload:
    """A named kernel on `buffers`, one a role, each with a count; `params` say what it computes.

    `owns_grid`: as a stage of a pipeline it has the grid that it asks for; as a program's body it must
    be right for any.
    """

    kernel: str
    buffers: tuple[Buffer, ...]
    params: Mapping[str, int]
    owns_grid: bool = True

    @property
    def name(self) -> str:
        sizes = ", ".join(f"{b.dtype}[{b.count}]" for b in self.buffers)
        params = "".join(f" {name}={value}" for name, value in self.params.items())
        return f"{self.kernel}({sizes}){params}" + ("" if self.owns_grid else " over any grid")

    def request(self, target: str, config: Mapping[str, Any]) -> Request:
        return Request(self.kernel, self.buffers, self.params, target, self.owns_grid, dict(config))

    def space(self, target: str) -> Space:
        from .spaces import products

        def why_not(config: Config) -> str | None:
            try:
                self.expansion(config, target)
            except ValueError as refusal:
                return str(refusal)
            return None

        default = {name: (value,) for name, value in self.default(target).items()}
        return Space([*products(self.kernel, target), default], why_not)

    def default(self, target: str) -> Config:
        schedule = asdict(self.expansion({}, target).schedule)
        return {name: int(value) for name, value in schedule.items() if name != "strided"}

    def expansion(self, config: Mapping[str, Any], target: str) -> Expansion:
        return expand(self.request(target, config))

    def trial(self, config: Mapping[str, Any], target: str) -> Trial:
        made = self.expansion(config, target)
        assert made.grid is not None, "every buffer has a count"
        reads = iter(self.inputs)
        arguments: list[Any] = [
            OutputAlloc(b.count or 0) if role.access is not AccessMode.READ else next(reads)
            for b, role in zip(self.buffers, self.roles, strict=True)
        ]
        extra = made.program.bound_buffers[len(arguments) :]
        cleared = tuple(range(len(arguments), len(arguments) + len(extra)))
        for buffer in extra:
            assert made.scratch is not None
            arguments.append(np.zeros(made.scratch[buffer.name], storage_type(buffer.dtype)))
        return Trial(made.program, arguments, made.grid, cleared)

    @property
    def roles(self) -> Sequence[Any]:
        return NAMED_KERNELS[self.kernel].roles

    @cached_property
    def inputs(self) -> list[Array]:
        """What the kernel reads, as it is stored."""
        from ..runtime.ref.registers import to_storage
        from ..runtime.ref.rounding import narrow
        from .samples import sample_inputs

        reads = [
            b for b, role in zip(self.buffers, self.roles, strict=True) if role.access is AccessMode.READ
        ]
        types = [b.dtype for b in reads]
        drawn = sample_inputs(self.kernel, [b.count or 0 for b in reads], types, self.params)
        return [
            np.ascontiguousarray(to_storage(narrow(x, t) if t.is_float else x, t))
            for x, t in zip(drawn, types, strict=True)
        ]

    @cached_property
    def expected(self) -> tuple[Array, Any]:
        """The exact result, and which elements of the output it is."""
        from ..runtime.ref.kernels import KERNELS
        from ..runtime.ref.registers import from_storage

        reads = [
            b for b, role in zip(self.buffers, self.roles, strict=True) if role.access is AccessMode.READ
        ]
        held = [from_storage(x, b.dtype) for x, b in zip(self.inputs, reads, strict=True)]
        if self.kernel != "tt.embedding":
            found = KERNELS[self.kernel](*held, **self.params)
            return found, slice(0, len(found))
        # all lookups would take gigabytes; these are spread over all of them
        cores, indices = held
        step = max(1, len(indices) // CHECKED_LOOKUPS)
        found = KERNELS[self.kernel](cores, indices[::step], **self.params)
        columns = len(found) // max(1, len(indices[::step]))
        return found, (np.arange(0, len(indices), step)[:, None] * columns + np.arange(columns)).reshape(-1)

    def fault(self, outputs: Sequence[Array]) -> str:
        out = next(
            b for b, r in zip(self.buffers, self.roles, strict=True) if r.access is not AccessMode.READ
        )
        expected, where = self.expected
        return close(np.asarray(outputs[0]).reshape(-1)[where], expected, out.dtype)


def kernel_workload(
    kernel: str,
    counts: Sequence[int],
    types: Sequence[DataType],
    params: Mapping[str, int] | None = None,
    owns_grid: bool = True,
) -> KernelWorkload:
    """A named kernel on buffers of `counts` elements of `types`, in the order of its roles.

    Raises BadInputs for a kernel that is none, and buffers that it does not take.
    """
    row = NAMED_KERNELS.get(kernel)
    if row is None:
        from ..ir.diagnostics import suggest

        hint = suggest(kernel, NAMED_KERNELS) or f"there are {', '.join(NAMED_KERNELS)}"
        raise BadInputs(f"unknown kernel {kernel!r}; {hint}")
    if len(counts) != len(row.roles) or len(types) != len(row.roles):
        raise BadInputs(f"{kernel} takes {len(row.roles)} buffers")
    for role, dtype in zip(row.roles, types, strict=True):
        if dtype not in role.types:
            raise BadInputs(f"{kernel}: {role.name} does not hold {dtype}")
    buffers = tuple(
        Buffer(role.name, dtype, count, role.access, binding=place)
        for place, (role, dtype, count) in enumerate(zip(row.roles, types, counts, strict=True))
    )
    missing = [name for name, default in row.params.items() if default is None and name not in (params or {})]
    if missing:
        raise BadInputs(f"{kernel} needs its parameter {missing[0]}")
    workload = KernelWorkload(kernel, buffers, row.semantic_params(params or {}), owns_grid)
    try:
        workload.expansion({}, "")
    except ValueError as wrong:
        raise BadInputs(f"{kernel}: {wrong}") from None
    return workload


def close(found: Array, expected: Array, dtype: DataType) -> str:
    """Where a result is not the expected one; "" if it is.  Integers agree in every bit."""
    from ..runtime.ref.registers import from_storage

    if found.shape != expected.shape:
        return f"{found.size} elements came out, not {expected.size}"
    if not dtype.is_float:
        wrong = np.flatnonzero(found != expected)
        if not len(wrong):
            return ""
        at = wrong[0]
        return f"element {at} is {found[at]}, not {expected[at]}; {len(wrong)} of {found.size} differ"
    wide = from_storage(np.ascontiguousarray(found), dtype).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = float(np.linalg.norm(wide - expected) / max(float(np.linalg.norm(expected)), 1e-300))
    allowed = TOLERANCES[dtype.name]
    return "" if error <= allowed else f"relative error {error:.2g} is more than {allowed:g}"
