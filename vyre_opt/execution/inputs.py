"""Checks what a caller passes to a dispatch against the program, before anything runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from ..ir.literals import show_number
from ..ir.program import MAX_GRID, AccessMode, Block, Buffer, Dim3, Module, Program
from ..ir.suggestions import suggest
from ..records import dataclass
from .arrays import encode_spec, storage_type
from .dispatcher import BackendError, BadInputs, OutputAlloc
from .limits import check_workgroups
from .params import param_words
from .shapes import argument_shape

MAX_GLOBAL_SIZE = 1 << 32
_AXES = "xyz"
Empty = Callable[[int, np.dtype[Any]], np.ndarray]


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """The checked arguments of a dispatch.

    `arrays`: the storage of each bound buffer, flat over scalars.  It is the caller's own memory,
    never to be written, except for the buffers in `fresh`, whose storage is new and uninitialised.
    `specs`: every specialization constant of the program, encoded.  `params`: a word for each of its runtime
    scalars, by name (see params.py).  `shapes`: the extents of each buffer of several dimensions.
    """

    grid: Dim3
    arrays: dict[str, np.ndarray]
    specs: dict[str, Any]
    fresh: frozenset[str] = frozenset()
    params: dict[str, int] = field(default_factory=dict)
    shapes: dict[str, tuple[int, ...]] = field(default_factory=dict)

    @property
    def workgroups(self) -> int:
        x, y, z = self.grid
        return x * y * z


@dataclass(frozen=True, slots=True)
class Parameter:
    """Requirements of a bound buffer on its argument.

    `where`: how messages begin.  `stored`: the type of its scalars.  `why_read`: why the contents are
    needed, empty if they are not.  `owner`: what declares the buffer, a program or a pipeline.
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
        why = "only read" if buffer.access is AccessMode.READ else "live_in"
        why_read = why if is_initialised(buffer) else ""
        return Parameter(buffer, where, stored, buffer.dtype.lanes, buffer.count, why_read, owner)

    def take(self, arg: Any, empty: Empty = np.empty) -> np.ndarray:
        """The storage of an argument, flat over scalars; `empty` allocates an `OutputAlloc`.  Raises BadInputs."""
        if self.buffer.dimensions > 1:
            self.shape_of(arg)
        if isinstance(arg, np.ndarray):
            flat = self._array(arg)
        elif isinstance(arg, OutputAlloc):
            flat = self._allocate(arg, empty)
        elif isinstance(arg, (bytes, bytearray, memoryview)):
            flat = self._bytes(arg)
        elif hasattr(arg, "__array__") and not hasattr(arg, "__cuda_array_interface__"):
            flat = self._array(np.asarray(arg))
        else:
            raise BadInputs(f"{self.where}: expected a NumPy array or bytes, got {type(arg).__name__}")
        self._check_count(flat.size // self.lanes)
        return flat

    def _check_count(self, count: int) -> None:
        if self.count is not None and count != self.count:
            raise BadInputs(f"{self.where}: {count} elements given, the {self.owner} declares {self.count}")

    def shape_of(self, arg: Any) -> tuple[int, ...]:
        """The extents of an argument for a buffer of several dimensions, checked.  Raises BadInputs."""
        return argument_shape(self.buffer, arg, self.where)

    def _array(self, arg: np.ndarray) -> np.ndarray:
        stored, lanes = self.stored, self.lanes
        if arg.dtype != stored and arg.dtype.newbyteorder("=") != stored:
            raise BadInputs(
                f"{self.where}: {self.buffer.dtype} elements are {stored.name}, "
                f"the array is {arg.dtype.name}{self._conversion(arg)}"
            )
        if lanes > 1 and (arg.shape[-1] != lanes if arg.ndim > 1 else arg.size % lanes):
            raise BadInputs(
                f"{self.where}: shape {arg.shape} does not divide into {self.buffer.dtype} elements; "
                f"pass shape (count, {lanes}) or a flat array of count * {lanes}"
            )
        return np.ascontiguousarray(arg, dtype=stored).reshape(-1)

    def _conversion(self, arg: np.ndarray) -> str:
        """A hint how to convert an array of another type."""
        if self.buffer.dtype.element.name == "bf16":
            return "; pass the bits of bf16 elements as uint16"
        return f"; convert it with .astype(np.{self.stored.name})" if arg.dtype.kind in "biufc" else ""

    def _bytes(self, arg: bytes | bytearray | memoryview) -> np.ndarray:
        size = arg.nbytes if isinstance(arg, memoryview) else len(arg)
        element_bytes = self.stored.itemsize * self.lanes
        if size % element_bytes:
            raise BadInputs(
                f"{self.where}: {size} bytes are not a multiple of {self.buffer.dtype}'s {element_bytes}"
            )
        flat = np.frombuffer(bytes(arg) if isinstance(arg, memoryview) else arg, dtype=self.stored)
        # a bool array that holds other bytes than 0 and 1 is undefined in NumPy
        return flat.view(np.uint8) != 0 if self.stored == np.bool_ else flat

    def alloc(self, arg: OutputAlloc) -> OutputAlloc:
        """An `OutputAlloc`, checked.  Raises BadInputs."""
        count = arg.count
        if self.buffer.dimensions > 1:
            self.shape_of(arg)
        if self.why_read:
            raise BadInputs(
                f"{self.where}: the program may read what @{self.buffer.name} holds, "
                f"which is {self.why_read}; pass an array"
            )
        if not is_count(count):
            raise BadInputs(f"{self.where}: room for {count!r} elements")
        self._check_count(int(count))
        return arg

    def _allocate(self, arg: OutputAlloc, empty: Empty) -> np.ndarray:
        """Uninitialised storage."""
        count = self.alloc(arg).count
        make = np.zeros if self.stored == np.bool_ else empty  # see `_bytes`
        try:
            array: np.ndarray = make(int(count) * self.lanes, self.stored)
        except (MemoryError, ValueError) as error:  # ValueError: beyond the address space
            raise BackendError(f"{self.where}: no memory for @{self.buffer.name}: {error}") from None
        return array


def is_count(value: Any) -> bool:
    """Whether it may be the `count` of an `OutputAlloc`: an integer from 0, no bool."""
    if type(value) is not int and (isinstance(value, bool) or not isinstance(value, (int, np.integer))):
        return False
    return bool(value >= 0)


def input_name(program: Program, buffer: Buffer) -> str:
    """Beginning of a message about the input for a buffer."""
    return f"program @{program.name}: input for @{buffer.name} (binding {buffer.binding})"


def parameters_of(program: Program) -> tuple[Parameter, ...]:
    """The parameters of a program, in binding order."""
    return tuple(Parameter.of(b, input_name(program, b)) for b in program.bound_buffers)


def check_call(
    program: Program,
    inputs: Sequence[Any],
    grid: int | Sequence[int] | None,
    module: Module | None,
    specs: Mapping[str, Any] | None,
    params: Mapping[str, Any] | None = None,
) -> CheckedCall:
    """Raises BadInputs for the first thing that does not fit, BackendError for a type without storage."""
    call = check_program(program, grid, module, specs, params)
    parameters = parameters_of(program)
    check_inputs(program, inputs)
    arrays = {p.buffer.name: p.take(arg) for p, arg in zip(parameters, inputs, strict=True)}
    fresh = [p.buffer.name for p, arg in zip(parameters, inputs, strict=True) if isinstance(arg, OutputAlloc)]
    shapes = {
        p.buffer.name: p.shape_of(arg)
        for p, arg in zip(parameters, inputs, strict=True)
        if p.buffer.dimensions > 1
    }
    return CheckedCall(call.grid, arrays, call.specs, frozenset(fresh), call.params, shapes)


def check_inputs(program: Program, inputs: Any) -> None:
    """Raises BadInputs unless `inputs` is a list with an item for each bound buffer."""
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
    params: Mapping[str, Any] | None = None,
) -> CheckedCall:
    """The checked grid, constants and scalars of a dispatch, without arrays; raises what `check_call` does."""
    values = check_declarations(program, module, specs)
    words = check_params(program, params)
    return CheckedCall(check_grid(program, grid), {}, values, params=words)


def check_params(program: Program, params: Mapping[str, Any] | None) -> dict[str, int]:
    """The words of a program's runtime scalars; raises what `param_words` does."""
    return param_words(f"program @{program.name}", program.params, params) if program.params or params else {}


def check_declarations(
    program: Program, module: Module | None, specs: Mapping[str, Any] | None
) -> dict[str, Any]:
    """The constants of a program, after checks that need no grid; raises what `check_call` does."""
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
    if buffer.is_on_chip and buffer.binding is not None:
        raise BadInputs(f"program @{program.name}: {buffer.access} buffer @{buffer.name} has a binding")


# --- the grid


def check_grid(program: Program, grid: int | Sequence[int] | None) -> Dim3:
    """The workgroups along x, y, z.  Raises BadInputs, and LimitError for more than this process may run."""
    if grid is None:
        if program.grid is None:
            raise BadInputs(
                f"program @{program.name} does not fix its grid; pass the workgroups along x, y, z"
            )
        grid = program.grid
    is_sequence = isinstance(grid, (tuple, list)) or (isinstance(grid, np.ndarray) and grid.ndim == 1)
    dims: Any = grid if is_sequence else (grid,)
    if not 1 <= len(dims) <= 3:
        kept = tuple(dims[:3]) if len(dims) > 3 else 1
        why = " and multiply the others in" if len(dims) > 3 and any(e != 1 for e in dims[3:]) else ""
        raise BadInputs(f"a grid has 1 to 3 dimensions, not {len(dims)}; pass {kept}{why}")
    full: list[int] = []
    for axis, extent in zip(_AXES, [*dims, 1, 1], strict=False):
        if isinstance(extent, (bool, np.bool_)) or not isinstance(extent, (int, np.integer)):
            raise BadInputs(f"grid {axis} is {extent!r}; a grid is counted in whole workgroups")
        if extent < 0:
            raise BadInputs(
                f"grid {axis} is {extent}; a grid has 0 or more workgroups along each axis: count them by ceil_div(n, {program.workgroup[_AXES.index(axis)]}) of n elements"
            )
        full.append(int(extent))
    result = (full[0], full[1], full[2])
    if program.grid is not None and result != tuple(program.grid):
        raise BadInputs(f"program @{program.name} fixes its grid at {program.grid}, {result} given")
    for axis, extent, size, most in zip(_AXES, result, program.workgroup, MAX_GRID, strict=True):
        if extent > most:
            raise BadInputs(f"a grid has at most {most} workgroups along {axis}, not {show_number(extent)}")
        if extent * size > MAX_GLOBAL_SIZE:
            raise BadInputs(
                f"{show_number(extent)} workgroups of {size} along {axis} are more than the 2^32 invocations that ids count"
            )
    broken = broken_cluster(program, result)
    if broken is not None:
        raise BadInputs(broken)
    check_workgroups(program.name, result)
    return result


def broken_cluster(program: Program, grid: Dim3) -> str | None:
    """Why a grid is not one of whole clusters; None where it is."""
    if not program.cluster or grid[0] % program.cluster == 0:
        return None
    size = program.cluster
    return f"program @{program.name} runs in clusters of {size} workgroups along x, and {grid[0]} is no multiple of {size}"


# --- specialization constants and calls


def check_names_of_specs(specs: Any) -> None:
    """Raises BadInputs for specs that are no values by name."""
    if not isinstance(specs, Mapping):
        raise BadInputs(f"specs are values by name, not {type(specs).__name__}")
    for name in specs:
        if not isinstance(name, str):
            raise BadInputs(f"specs are values by name, and {name!r} is no name")


def _check_specs(program: Program, specs: Mapping[str, Any]) -> dict[str, Any]:
    check_names_of_specs(specs)
    values: dict[str, Any] = {}
    for name, value in specs.items():
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
        except ValueError as error:
            raise BadInputs(f"program @{program.name}: spec @{plain}: {error}") from None
    unset = [name for name, spec in program.specs.items() if name not in values and spec.default is None]
    if unset:
        names, verb = ", ".join(f"@{name}" for name in unset), "has" if len(unset) == 1 else "have"
        advice = ", ".join(f"{name!r}: ..." for name in unset)
        raise BadInputs(f"program @{program.name}: spec {names} {verb} no default; pass specs={{{advice}}}")
    return {name: values.get(name, spec.default) for name, spec in program.specs.items()}


def _check_calls(program: Program, module: Module | None) -> None:
    funcs = module.funcs if module is not None else {}
    worklist = _callees(program.body)
    seen: set[str] = set()
    while worklist:
        callee = worklist.pop()
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
        worklist += _callees(funcs[callee].body)


def _callees(body: Block) -> list[str]:
    """The functions that a body calls, in no order: `Block.walk` would be slower."""
    callees: list[str] = []
    blocks = [body]
    while blocks:
        for op in blocks.pop().ops:
            if op.regions:
                blocks += op.regions
            elif op.definition.name == "call":
                callees.append(op.attrs["callee"])
    return callees


def is_initialised(buffer: Buffer) -> bool:
    """Whether the caller's contents of a bound buffer may be read before anything is written."""
    return buffer.binding is not None and (buffer.access is AccessMode.READ or buffer.live_in)
