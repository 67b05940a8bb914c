"""What a caller passes to a dispatch, checked against the program before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..ir.diagnostics import suggest
from ..ir.program import Access, Block, Buffer, Dim3, Module, Program
from .arrays import encode_spec, storage_type
from .dispatcher import BackendError, BadInputs, Room

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


def check_call(
    program: Program,
    inputs: Sequence[Any],
    grid: int | Sequence[int] | None,
    module: Module | None,
    specs: Mapping[str, Any] | None,
    empty: Empty = np.empty,
) -> Checked:
    """Raises BadInputs for the first thing that does not fit, BackendError for a type without storage.

    `empty` makes the array of a `Room`.
    """
    checked_grid, values = check_program(program, grid, module, specs)
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
    arrays = {
        b.name: check_array(
            f"program @{program.name}: input for @{b.name} (binding {b.binding})", b, given, empty=empty
        )
        for b, given in zip(bound, inputs, strict=True)
    }
    fresh = frozenset(b.name for b, given in zip(bound, inputs, strict=True) if isinstance(given, Room))
    return Checked(checked_grid, arrays, values, fresh)


def check_program(
    program: Program,
    grid: int | Sequence[int] | None,
    module: Module | None,
    specs: Mapping[str, Any] | None,
) -> tuple[Dim3, dict[str, Any]]:
    """The grid and the constants of a dispatch, all but its arrays checked; raises as `check_call` does."""
    if program.type_parameters:
        name = program.type_parameters[0].name
        raise BadInputs(
            f"program @{program.name} is open in its type @{name}; run the pass specialize, or compile it"
        )
    for buffer in program.buffers.values():
        _check_buffer(program, buffer)
    checked_grid = _check_grid(program, grid)
    values = _check_specs(program, specs or {})
    _check_calls(program, module)
    return checked_grid, values


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


def _check_grid(program: Program, grid: int | Sequence[int] | None) -> Dim3:
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


# --- arrays


def check_array(
    where: str, buffer: Buffer, given: Any, owner: str = "program", empty: Empty = np.empty
) -> np.ndarray:
    """The storage of an argument, flat over scalars.  Raises BadInputs, beginning with `where`.

    `owner`: what declares the buffer, a program or a pipeline.
    """
    stored = storage_type(buffer.dtype)
    assert stored is not None
    element_bytes = stored.itemsize * buffer.dtype.lanes
    if isinstance(given, Room):
        flat = _room(where, buffer, stored, given, empty)
    elif isinstance(given, (bytes, bytearray, memoryview)):
        size = given.nbytes if isinstance(given, memoryview) else len(given)
        if size % element_bytes:
            raise BadInputs(f"{where}: {size} bytes are not a multiple of {buffer.dtype}'s {element_bytes}")
        flat = np.frombuffer(bytes(given) if isinstance(given, memoryview) else given, dtype=stored)
        if stored == np.bool_:
            flat = flat.view(np.uint8) != 0  # a bool array that holds other bytes is undefined in NumPy
    else:
        flat = _check_ndarray(where, buffer, stored, given)
    count = flat.size // buffer.dtype.lanes
    if buffer.count is not None and count != buffer.count:
        raise BadInputs(f"{where}: {count} elements given, the {owner} declares {buffer.count}")
    return flat


def _room(where: str, buffer: Buffer, stored: np.dtype[Any], given: Room, empty: Empty) -> np.ndarray:
    """Memory that the system gives only when it is written."""
    if is_initialised(buffer):
        why = "only read" if buffer.access is Access.READ else "live_in"
        raise BadInputs(
            f"{where}: the program may read what @{buffer.name} holds, which is {why}; pass an array"
        )
    if isinstance(given.count, bool) or not isinstance(given.count, (int, np.integer)) or given.count < 0:
        raise BadInputs(f"{where}: room for {given.count!r} elements")
    # what an empty array of bools holds may be neither 0 nor 1, which NumPy does not define
    make = np.zeros if stored == np.bool_ else empty
    try:
        made: np.ndarray = make(int(given.count) * buffer.dtype.lanes, stored)
    except (MemoryError, ValueError) as short:
        raise BackendError(f"{where}: no memory for @{buffer.name}: {short}") from None
    return made


def _check_ndarray(where: str, buffer: Buffer, stored: np.dtype[Any], given: Any) -> np.ndarray:
    if not isinstance(given, np.ndarray):
        if not hasattr(given, "__array__") or hasattr(given, "__cuda_array_interface__"):
            raise BadInputs(f"{where}: expected a NumPy array or bytes, got {type(given).__name__}")
        given = np.asarray(given)
    native = given.dtype.newbyteorder("=")
    if native != stored:
        advice = ""
        if buffer.dtype.element.name == "bf16":
            advice = "; pass the bits of bf16 elements as uint16"
        elif given.dtype.kind in "biufc":
            advice = f"; convert it with .astype(np.{stored.name})"
        raise BadInputs(
            f"{where}: {buffer.dtype} elements are {stored.name}, the array is {given.dtype.name}{advice}"
        )
    lanes = buffer.dtype.lanes
    if lanes > 1 and (given.shape[-1] != lanes if given.ndim > 1 else given.size % lanes):
        raise BadInputs(
            f"{where}: shape {given.shape} does not divide into {buffer.dtype} elements; "
            f"pass shape (count, {lanes}) or a flat array of count * {lanes}"
        )
    return np.ascontiguousarray(given, dtype=stored).reshape(-1)


def is_initialised(buffer: Buffer) -> bool:
    """Whether the caller's contents of a bound buffer may be read before anything is written."""
    return buffer.binding is not None and (buffer.access is Access.READ or buffer.live_in)
