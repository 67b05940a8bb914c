"""Workload of the tuner: a kernel on buffers of known sizes.

For each configuration a workload builds a Trial: a program, its arguments and its grid; and it checks the
outputs of a trial.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from ..execution.arrays import storage_type
from ..execution.dispatcher import BadInputs
from ..ir.ops import NAMED_KERNELS
from ..ir.program import AccessMode, Buffer, Program
from ..ir.types import DataType
from ..kernels.call import ScratchArgument, launch
from ..kernels.expansion import Expansion, ExpansionRequest, is_of_plugin
from ..kernels.named import expand, named_kernel
from .shape_class import size_class
from .space import Config, Space

__all__ = ["KernelWorkload", "Trial", "Workload", "close", "kernel_workload"]

Array = np.ndarray[Any, Any]

# The relative error that a result may have, in the 2-norm.
TOLERANCES = {"f32": 1e-4, "f16": 4e-3, "bf16": 1e-2}
CHECKED_LOOKUPS = 4096


@dataclass(frozen=True, slots=True)
class Trial:
    """A program to dispatch.  `arguments`: those of `Dispatcher.dispatch`; `cleared`: the indices of those
    that must be zeros when it starts, which a caller that runs it in place must clear before each run."""

    program: Program
    arguments: Sequence[Any]
    grid: int
    cleared: tuple[int, ...] = ()


class Workload(Protocol):
    """`name`: the kernel with its sizes and parameters.  `family`, `shape`: the kernel whatever its sizes, and the class of these
    (see result_cache), by which results are kept."""

    @property
    def name(self) -> str: ...
    @property
    def family(self) -> str: ...
    @property
    def shape(self) -> str: ...

    def space(self, target: str) -> Space:
        """The configurations that are legal on a target."""

    def default(self, target: str) -> Config:
        """The configuration that is used without tuning; it need not be in the space."""

    def trial(self, config: Mapping[str, Any], target: str) -> Trial:
        """The program of a configuration.  Raises ValueError if the configuration is not legal."""

    def fault(self, outputs: Sequence[Array]) -> str:
        """Mistake in the outputs of a trial; "" without one."""


@dataclass(frozen=True, eq=False)
class KernelWorkload:
    """A named kernel with its parameters, on `buffers`, one for each role, each with a count.

    `owns_grid`: True for a stage of a pipeline, which is launched over the grid that its schedule asks for;
    False for the body of a program, which must be right over any grid.
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

    @property
    def family(self) -> str:
        types = ", ".join(str(b.dtype) for b in self.buffers)
        return f"{self.kernel}({types})" + ("" if self.owns_grid else " over any grid")

    @property
    def shape(self) -> str:
        sizes = [size_class(b.count or 0) for b in self.buffers]
        return ", ".join([*sizes, *(f"{name} {size_class(value)}" for name, value in self.params.items())])

    def request(self, target: str, config: Mapping[str, Any]) -> ExpansionRequest:
        return ExpansionRequest(self.kernel, self.buffers, self.params, target, self.owns_grid, dict(config))

    def space(self, target: str) -> Space:
        def why_not(config: Config) -> str | None:
            try:
                self.expansion(config, target)
            except ValueError as error:
                return str(error)
            return None

        default = {name: (value,) for name, value in self.default(target).items()}
        return Space([*named_kernel(self.kernel).space(target), default], why_not)

    def default(self, target: str) -> Config:
        # `strided` follows from owns_grid, so it is no choice
        schedule = asdict(self.expansion({}, target).schedule)
        return {name: int(value) for name, value in schedule.items() if name != "strided"}

    def expansion(self, config: Mapping[str, Any], target: str) -> Expansion:
        return expand(self.request(target, config))

    def trial(self, config: Mapping[str, Any], target: str) -> Trial:
        expansion = self.expansion(config, target)
        assert isinstance(expansion.grid, int), "every buffer has a count"
        (written,) = (b for b, role in self.operands if role.access is not AccessMode.READ)
        call = launch(expansion.program, expansion.grid, (written.count or 0,), expansion.scratch)
        arguments: list[Any] = []
        for argument in call.arguments:
            if isinstance(argument, ScratchArgument):
                arguments.append(np.zeros(argument.count, storage_type(argument.dtype)))
            else:
                arguments.append(self.inputs[argument] if isinstance(argument, int) else argument)
        cleared = tuple(
            n for n, argument in enumerate(call.arguments) if isinstance(argument, ScratchArgument)
        )
        return Trial(expansion.program, arguments, expansion.grid, cleared)

    @property
    def operands(self) -> list[tuple[Buffer, Any]]:
        """The buffers, each with its role."""
        return NAMED_KERNELS[self.kernel].with_roles(self.buffers)

    @property
    def reads(self) -> list[Buffer]:
        return [b for b, role in self.operands if role.access is AccessMode.READ]

    @cached_property
    def inputs(self) -> list[Array]:
        """The contents of the buffers that the kernel reads, in storage types."""
        from ..targets.ref.registers import to_storage
        from ..targets.ref.rounding import narrow

        drawn = named_kernel(self.kernel).sample(np.random.default_rng(0), self.reads, self.params)
        return [
            np.ascontiguousarray(to_storage(narrow(x, b.dtype) if b.dtype.is_float else x, b.dtype))
            for x, b in zip(drawn, self.reads, strict=True)
        ]

    @cached_property
    def expected(self) -> tuple[Array, Any]:
        """The exact result, and the index (a slice or an array) of the output elements that it is for."""
        from ..targets.ref.registers import from_storage

        values = [from_storage(x, b.dtype) for x, b in zip(self.inputs, self.reads, strict=True)]
        reference = named_kernel(self.kernel).reference
        if self.kernel != "tt.embedding":
            result = reference(*values, **self.params)
            return result, slice(0, len(result))
        # the results of all lookups would take gigabytes: check some, spread over all of them
        cores, indices = values
        step = max(1, len(indices) // CHECKED_LOOKUPS)
        result = reference(cores, indices[::step], **self.params)
        # the result has a row of columns for each lookup; the index is that of the checked rows, flat
        columns = len(result) // max(1, len(indices[::step]))
        return result, (np.arange(0, len(indices), step)[:, None] * columns + np.arange(columns)).reshape(-1)

    def fault(self, outputs: Sequence[Array]) -> str:
        dtype = next(b.dtype for b, role in self.operands if role.access is not AccessMode.READ)
        expected, index = self.expected
        return close(np.asarray(outputs[0]).reshape(-1)[index], expected, dtype)


def kernel_workload(
    kernel: str,
    counts: Sequence[int],
    types: Sequence[DataType],
    params: Mapping[str, int] | None = None,
    owns_grid: bool = True,
) -> KernelWorkload:
    """A named kernel on buffers of `counts` elements of `types`, in the order of its roles.

    Raises BadInputs for an unknown kernel, and for buffers that it does not take.
    """
    row = NAMED_KERNELS.get(kernel)
    if row is None:
        from ..ir.suggestions import suggest

        hint = suggest(kernel, NAMED_KERNELS) or f"there are {', '.join(NAMED_KERNELS)}"
        raise BadInputs(f"unknown kernel {kernel!r}; {hint}")
    if is_of_plugin(kernel):
        raise BadInputs(f"{kernel} is of another package, and nothing says which schedules to try")
    if not row.takes(len(counts)) or len(types) != len(counts):
        raise BadInputs(f"{kernel} takes {row.numbers_of_buffers} buffers")
    for dtype, role in row.with_roles(types):
        if dtype not in role.types:
            raise BadInputs(f"{kernel}: {role.name} does not hold {dtype}")
    buffers = named_kernel(kernel).buffers(types, counts)
    missing = [name for name, default in row.params.items() if default is None and name not in (params or {})]
    if missing:
        raise BadInputs(f"{kernel} needs its parameter {missing[0]}")
    workload = KernelWorkload(kernel, buffers, row.semantic_params(params or {}), owns_grid)
    try:
        workload.expansion({}, "")
    except ValueError as error:
        raise BadInputs(f"{kernel}: {error}") from None
    return workload


def close(result: Array, expected: Array, dtype: DataType) -> str:
    """Difference of `result` from `expected`; "" without one.  Integers must be equal, floats near (TOLERANCES)."""
    from ..targets.ref.registers import from_storage

    if result.shape != expected.shape:
        return f"{result.size} elements came out, not {expected.size}"
    if not dtype.is_float:
        different = np.flatnonzero(result != expected)
        if not len(different):
            return ""
        first = different[0]
        return f"element {first} is {result[first]}, not {expected[first]}; {len(different)} of {result.size} differ"
    wide = from_storage(np.ascontiguousarray(result), dtype).astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = float(np.linalg.norm(wide - expected) / max(float(np.linalg.norm(expected)), 1e-300))
    tolerance = TOLERANCES[dtype.name]
    return "" if error <= tolerance else f"relative error {error:.2g} is more than {tolerance:g}"
