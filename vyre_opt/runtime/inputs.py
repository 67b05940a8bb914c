"""What a caller passes to a dispatch, checked against the program before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.diagnostics import suggest
from ..ir.program import AccessMode, Block, Buffer, Dim3, Module, Program
from .arrays import encode_spec, storage_type
from .dispatcher import BackendError, BadInputs, OutputAlloc

MAX_GLOBAL_SIZE = 1 << 32
_AXES = "xyz"
Empty = Callable[[int, np.dtype[Any]], np.ndarray]


@dataclass(frozen=True, slots=True)
class Checked:
    """A call that fits its program.

    `arrays`: for each bound buffer its storage, flat over scalars; the caller's own
    memory, never to be written, but for those of `fresh`, which are the dispatch's own and
    hold anything.  `specs`: every constant of the program, encoded.
    """

    grid: Dim3
    arrays: dict[str, np.ndarray]
    specs: dict[str, Any]
    fresh: frozenset[str] = frozenset()

    @property
    def workgroups(self) -> int:
        x, y, z = self.grid
        return x * y * z


@dataclass(frozen=True, slots=True)
class Parameter:
    """What a buffer takes of its caller: whatever does not depend on the array.

    `where`: how messages begin.  `stored`: its scalars' type.  `why_read`: why contents are needed,
    if they are.  `owner`: what declares it, a program or a pipeline.
    """

    buffer: Buffer
    where: str
    stored: np.dtype[Any]
    lanes: int
    count: int | None
    why_read: str
    owner: str

    @staticmethod
    def of(buffer: Buffer, where: str, owner: str = "program") -> Parameter:
        stored = storage_type(buffer.dtype)
        assert stored is not None
        why = (
            ""
            if not is_initialised(buffer)
            else "only read"
            if buffer.access is AccessMode.READ
            else "live_in"
        )
        return Parameter(buffer, where, stored, buffer.dtype.lanes, buffer.count, why, owner)

    def take(self, given: Any, empty: Empty = np.empty) -> np.ndarray:
        """The storage of an argument, flat over scalars; `empty` makes that of a `OutputAlloc`.  Raises BadInputs."""
        if isinstance(given, np.ndarray):
            flat = self._array(given)
        elif isinstance(given, OutputAlloc):
            flat = self._room(given, empty)
        elif isinstance(given, (bytes, bytearray, memoryview)):
            flat = self._bytes(given)
        elif hasattr(given, "__array__") and not hasattr(given, "__cuda_array_interface__"):
            flat = self._array(np.asarray(given))
        else:
            raise BadInputs(f"{self.where}: expected a NumPy array or bytes, got {type(given).__name__}")
        if self.count is not None and flat.size != self.count * self.lanes:
            count = flat.size // self.lanes
            raise BadInputs(f"{self.where}: {count} elements given, the {self.owner} declares {self.count}")
        return flat

    def _array(self, given: np.ndarray) -> np.ndarray:
        stored, lanes = self.stored, self.lanes
        if given.dtype != stored and given.dtype.newbyteorder("=") != stored:
            raise BadInputs(
                f"{self.where}: {self.buffer.dtype} elements are {stored.name}, "
                f"the array is {given.dtype.name}{self._conversion(given)}"
            )
        if lanes > 1 and (given.shape[-1] != lanes if given.ndim > 1 else given.size % lanes):
            raise BadInputs(
                f"{self.where}: shape {given.shape} does not divide into {self.buffer.dtype} elements; "
                f"pass shape (count, {lanes}) or a flat array of count * {lanes}"
            )
        return np.ascontiguousarray(given, dtype=stored).reshape(-1)

    def _conversion(self, given: np.ndarray) -> str:
        """How an array of another type is made one that fits."""
        if self.buffer.dtype.element.name == "bf16":
            return "; pass the bits of bf16 elements as uint16"
        return f"; convert it with .astype(np.{self.stored.name})" if given.dtype.kind in "biufc" else ""

    def _bytes(self, given: bytes | bytearray | memoryview) -> np.ndarray:
        size = given.nbytes if isinstance(given, memoryview) else len(given)
        element_bytes = self.stored.itemsize * self.lanes
        if size % element_bytes:
            raise BadInputs(
                f"{self.where}: {size} bytes are not a multiple of {self.buffer.dtype}'s {element_bytes}"
            )
        flat = np.frombuffer(bytes(given) if isinstance(given, memoryview) else given, dtype=self.stored)
        # a bool array that holds other bytes than 0 and 1 is undefined in NumPy
        return flat.view(np.uint8) != 0 if self.stored == np.bool_ else flat

    def _room(self, given: OutputAlloc, empty: Empty) -> np.ndarray:
        """Memory that the system gives only when it is written."""
        count = given.count
        if self.why_read:
            raise BadInputs(
                f"{self.where}: the program may read what @{self.buffer.name} holds, "
                f"which is {self.why_read}; pass an array"
            )
        if not is_count(count):
            raise BadInputs(f"{self.where}: room for {count!r} elements")
        make = np.zeros if self.stored == np.bool_ else empty  # see `_bytes`
        try:
            made: np.ndarray = make(int(count) * self.lanes, self.stored)
        except (MemoryError, ValueError) as short:
            raise BackendError(f"{self.where}: no memory for @{self.buffer.name}: {short}") from None
        return made


def is_count(given: Any) -> bool:
    """Whether a `OutputAlloc` may have so many elements."""
    if type(given) is not int and (isinstance(given, bool) or not isinstance(given, (int, np.integer))):
        return False
    return bool(given >= 0)


def input_name(program: Program, buffer: Buffer) -> str:
    """How a message about the input for a buffer begins."""
    return f"program @{program.name}: input for @{buffer.name} (binding {buffer.binding})"


def parameters_of(program: Program) -> tuple[Parameter, ...]:
    """Of the bound buffers, in binding order."""
    return tuple(Parameter.of(b, input_name(program, b)) for b in program.bound_buffers)


def check_call(
    program: Program,
    inputs: Sequence[Any],
    grid: int | Sequence[int] | None,
    module: Module | None,
    specs: Mapping[str, Any] | None,
) -> Checked:
    """Raises BadInputs for the first thing that does not fit, BackendError for a type without storage."""
    checked_grid, values = check_program(program, grid, module, specs)
    parameters = parameters_of(program)
    check_inputs(program, inputs)
    arrays = {p.buffer.name: p.take(given) for p, given in zip(parameters, inputs, strict=True)}
    fresh = [
        p.buffer.name for p, given in zip(parameters, inputs, strict=True) if isinstance(given, OutputAlloc)
    ]
    return Checked(checked_grid, arrays, values, frozenset(fresh))


def check_inputs(program: Program, inputs: Any) -> None:
    """There is an argument for each bound buffer."""
    bound = program.bound_buffers
    if isinstance(inputs, (np.ndarray, bytes, bytearray, str, Mapping)) or not isinstance(inputs, Sequence):
        raise BadInputs(
            f"program @{program.name}: inputs is a list with an array for each bound buffer "
            f"({_names(bound)}), not {type(inputs).__name__}"
        )
    if len(inputs) != len(bound):
        raise BadInputs(
            f"program @{program.name} binds {len(bound)} buffers ({_names(bound)}), "
            f"{len(inputs)} inputs given; outputs count too, since their arrays give their length"
        )


def check_program(
    program: Program,
    grid: int | Sequence[int] | None,
    module: Module | None,
    specs: Mapping[str, Any] | None,
) -> tuple[Dim3, dict[str, Any]]:
    """The grid and the constants of a dispatch, all but its arrays checked; raises as `check_call` does."""
    values = check_form(program, module, specs)
    return check_grid(program, grid), values


def check_form(program: Program, module: Module | None, specs: Mapping[str, Any] | None) -> dict[str, Any]:
    """The constants of a program that could run; raises as `check_call` does."""
    if program.type_parameters:
        name = program.type_parameters[0].name
        raise BadInputs(
            f"program @{program.name} is open in its type @{name}; run the pass specialize, or compile it"
        )
    for buffer in program.buffers.values():
        _check_buffer(program, buffer)
    values = _check_specs(program, specs or {})
    _check_calls(program, module)
    return values


def _names(buffers: Sequence[Buffer]) -> str:
    return ", ".join(f"@{b.name}" for b in buffers) or "none"


def _check_buffer(program: Program, buffer: Buffer) -> None:
    if storage_type(buffer.dtype) is None:
        raise BackendError(f"program @{program.name}: buffer @{buffer.name}: no array holds {buffer.dtype}")
    if buffer.binding is None and buffer.count is None:
        raise BadInputs(
            f"program @{program.name}: buffer @{buffer.name} has an open size and no binding, "
            "so nothing says how long it is; give it a count or a binding"
        )
    if buffer.is_workgroup and buffer.binding is not None:
        raise BadInputs(f"program @{program.name}: workgroup buffer @{buffer.name} has a binding")


# --- the grid


def check_grid(program: Program, grid: int | Sequence[int] | None) -> Dim3:
    """The workgroups along x, y, z.  Raises BadInputs."""
    if grid is None:
        if program.grid is None:
            raise BadInputs(
                f"program @{program.name} does not fix its grid; pass the workgroups along x, y, z"
            )
        grid = program.grid
    dims = grid if isinstance(grid, (tuple, list, np.ndarray)) else (grid,)
    if not 1 <= len(dims) <= 3:
        raise BadInputs(f"a grid has 1 to 3 dimensions, not {len(dims)}")
    full: list[int] = []
    for axis, extent in zip(_AXES, [*dims, 1, 1], strict=False):
        if isinstance(extent, (bool, np.bool_)) or not isinstance(extent, (int, np.integer)):
            raise BadInputs(f"grid {axis} is {extent!r}; a grid is counted in whole workgroups")
        if extent < 1:
            raise BadInputs(f"grid {axis} is {extent}; a dispatch has at least one workgroup along each axis")
        full.append(int(extent))
    result = (full[0], full[1], full[2])
    if program.grid is not None and result != tuple(program.grid):
        raise BadInputs(f"program @{program.name} fixes its grid at {program.grid}, {result} given")
    for axis, extent, size in zip(_AXES, result, program.workgroup, strict=True):
        if extent * size > MAX_GLOBAL_SIZE:
            raise BadInputs(
                f"{extent} workgroups of {size} along {axis} are more than the 2^32 invocations that ids count"
            )
    return result


# --- specialization constants and calls


def _check_specs(program: Program, given: Mapping[str, Any]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in given.items():
        plain = name.removeprefix("@")
        spec = program.specs.get(plain)
        if spec is None:
            hint = suggest(plain, program.specs, "@")
            known = ", ".join(f"@{s}" for s in program.specs) or "none"
            raise BadInputs(
                f"program @{program.name} has no spec @{plain}; it has {known}"
                + (f"; {hint}" if hint else "")
            )
        try:
            values[plain] = encode_spec(value, spec.dtype)
        except ValueError as wrong:
            raise BadInputs(f"program @{program.name}: spec @{plain}: {wrong}") from None
    for name, spec in program.specs.items():
        if name not in values and spec.default is None:
            raise BadInputs(
                f"program @{program.name}: spec @{name} has no default; pass specs={{{name!r}: ...}}"
            )
        values.setdefault(name, spec.default)
    return values


def _check_calls(program: Program, module: Module | None) -> None:
    funcs = module.funcs if module is not None else {}
    waiting = _callees(program.body)
    seen: set[str] = set()
    while waiting:
        callee = waiting.pop()
        if callee in seen:
            continue
        seen.add(callee)
        if module is None:
            raise BadInputs(f"program @{program.name} calls @{callee}; pass module= with that function")
        if callee not in funcs:
            hint = suggest(callee, funcs, "@")
            raise BadInputs(
                f"program @{program.name} calls @{callee}, which is not in the module"
                + (f"; {hint}" if hint else "")
            )
        waiting += _callees(funcs[callee].body)


def _callees(body: Block) -> list[str]:
    """The functions that a body calls; a walk in order would take longer."""
    found: list[str] = []
    blocks = [body]
    while blocks:
        for op in blocks.pop().ops:
            if op.regions:
                blocks += op.regions
            elif op.definition.name == "call":
                found.append(op.attrs["callee"])
    return found


def is_initialised(buffer: Buffer) -> bool:
    """Whether the caller's contents of a bound buffer may be read before anything is written."""
    return buffer.binding is not None and (buffer.access is AccessMode.READ or buffer.live_in)
