"""Building programs in Python, with the ops of the table as methods.

    b = Builder("scale", workgroup=256)
    x = b.buffer("x", DataType.F32, None, "read", binding=0)
    y = b.buffer("y", DataType.F32, None, "write", binding=1, live_out=True)
    i = b.global_id("x")
    with b.if_(b.lt(i, b.len(x))):
        b.store(b.mul(b.load(x, i), 2.0), y, i)
    program = b.finish()

A method is called as its op, with an underscore after a Python keyword (`and_`);
what it takes follows from the op's format (see op_builders.py).  A number among the
operands becomes a constant of the other operands' type.  Every method takes
`name=`, the value's name in the text, and gives the value, which has Python's operators
(see value_operators.py).  A type may be given by its name: "f32".
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast

from . import arith
from .caller import caller_location, is_own_caller
from .diagnostics import Location
from .loops import BOUND_NAMES, Bound
from .op_methods import OpMethods
from .ops import OPS, OpDef
from .plugin_ops import find_op
from .program import (
    NO_ATTRS,
    AccessMode,
    Block,
    Buffer,
    Dim3,
    Func,
    Module,
    Op,
    Param,
    Program,
    Spec,
    Unnamed,
    Value,
)
from .suggestions import suggest
from .types import DataType, as_type
from .value_operators import BuiltValue, Number, Operand

__all__ = ["Branch", "Builder", "Function", "Loop", "Nest", "Operand", "encode_constant"]


class Builder(OpMethods):
    """Builds one program, and the functions it calls, in a module.

    `workgroup` and `grid` are one to three extents.  `prefer_shared` and `cluster`: see `Program`.  `loc` becomes the location of
    every op built after it is set; without it, a program's ops and declarations are located at the lines that build
    them, if these are outside of this package.  Methods raise TypeError or ValueError for operands that no op
    takes; `finish` runs the verifier for the rest.
    """

    def __init__(
        self,
        name: str,
        workgroup: int | Sequence[int] = 256,
        grid: int | Sequence[int] | None = None,
        module: Module | None = None,
        *,
        prefer_shared: int | None = None,
        cluster: int | None = None,
    ) -> None:
        self.module = Module() if module is None else module
        self.loc: Location | None = None
        self._is_traced = not is_own_caller()
        self.program = Program(
            name,
            _dims(workgroup),
            None if grid is None else _dims(grid),
            prefer_shared=prefer_shared,
            cluster=cluster,
            loc=self._location(),
        )
        self._block = self.program.body
        self._insertion_index: int | None = None
        self._count = 0

    @classmethod
    def on(cls, program: Program, module: Module | None = None) -> Builder:
        """A builder that adds to a finished program; see `at`."""
        builder = cls(program.name, program.workgroup, program.grid, module)
        builder.program, builder._block, builder._is_traced = program, program.body, False
        return builder

    def _location(self) -> Location | None:
        return caller_location(2) if self.loc is None and self._is_traced else self.loc

    def finish(self, verify: bool = True) -> Program:
        """The program, now in its module.  Raises DiagnosticError if the module does not verify."""
        if self.program not in self.module.order:
            self.module.add(self.program)
        if verify:
            from .verifier import check

            check(self.module)
        return self.program

    # --- declarations -----------------------------------------------------------------

    def buffer(
        self,
        name: str,
        dtype: DataType | str,
        count: int | Sequence[int | None] | None,
        access: str,
        binding: int | None = None,
        *,
        live_in: bool = False,
        live_out: bool = False,
    ) -> Buffer:
        """Declare a buffer; `count` is in elements, None for an open size; several are a row-major shape."""
        if name in self.program.buffers:
            raise ValueError(f"program @{self.program.name} has a buffer @{name} already")
        element, loc = as_type(dtype), self._location()
        declared = Buffer(name, element, count, AccessMode(access), binding, live_in, live_out, loc)
        self.program.buffers[name] = declared
        return declared

    def spec(
        self, name: str, dtype: DataType | str, default: Number | None = None, *, result: str | None = None
    ) -> BuiltValue:
        """Read a specialization constant; the first use of its name declares it."""
        dtype = as_type(dtype)
        declared = self.program.specs.get(name)
        if declared is None:
            value = None if default is None else encode_constant(default, dtype)
            self.program.specs[name] = Spec(name, dtype, value, self._location())
        elif declared.dtype is not dtype:
            raise ValueError(f"spec @{name} is {declared.dtype}, not {dtype}")
        op = self.emit(OPS["spec"], (), (dtype,), {"spec": name}, name=result)
        return cast(BuiltValue, op.result)

    def param(
        self, name: str, dtype: DataType | str, default: Number | None = None, *, result: str | None = None
    ) -> BuiltValue:
        """Read a runtime scalar; the first use of its name declares it."""
        dtype = as_type(dtype)
        declared = self.program.params.get(name)
        if declared is None:
            value = None if default is None else encode_constant(default, dtype)
            self.program.params[name] = Param(name, dtype, value, self._location())
        elif declared.dtype is not dtype:
            raise ValueError(f"param @{name} is {declared.dtype}, not {dtype}")
        op = self.emit(OPS["param"], (), (dtype,), {"param": name}, name=result)
        return cast(BuiltValue, op.result)

    # --- ops --------------------------------------------------------------------------

    def const(
        self,
        value: Number | Sequence[Number],
        dtype: DataType | str = DataType.U32,
        *,
        name: str | None = None,
    ) -> BuiltValue:
        """A constant; a sequence gives the lanes of a vector, a number all of them."""
        dtype = as_type(dtype)
        encoded = encode_constant(value, dtype)
        return cast(BuiltValue, self.emit(OPS["const"], (), (dtype,), {"value": encoded}, name=name).result)

    def store(self, value: Operand, buffer: Buffer | str, index: Operand | Sequence[Operand]) -> None:
        """Write an element, or a vector to consecutive ones; `index`: one for each dimension of the buffer."""
        self._store("store", value, buffer, index)

    def copy_async(self, value: Operand, buffer: Buffer | str, index: Operand | Sequence[Operand]) -> None:
        """Store to workgroup memory what was just loaded, by the `copy_wait` that waits for it."""
        self._store("copy_async", value, buffer, index)

    def copy_wait(self, pending: int = 0) -> None:
        """Wait for all copies but those since the last `pending` waits before this one."""
        self.emit(OPS["copy_wait"], (), (), {"pending": pending})

    def _store(
        self, name: str, value: Operand, buffer: Buffer | str, index: Operand | Sequence[Operand]
    ) -> None:
        target = self.find_buffer(buffer)
        operands = self.as_value(value, target.dtype), *self.as_indices(index)
        self.emit(OPS[name], operands, (), {"buffer": target.name})

    def matrix_store(
        self,
        value: Value,
        buffer: Buffer | str,
        index: Operand | Sequence[Operand],
        layout: str = "row_major",
    ) -> None:
        """Write a matrix; its first element is at the indices."""
        attrs = {"layout": layout, "buffer": self.find_buffer(buffer).name}
        self.emit(OPS["matrix_store"], (value, *self.as_indices(index)), (), attrs)

    def slice_store(
        self, value: Value, buffer: Buffer | str, index: Operand | Sequence[Operand], edge: str = "checked"
    ) -> None:
        """Write a row or block; its first element is at the indices."""
        attrs = {"edge": edge, "buffer": self.find_buffer(buffer).name}
        self.emit(OPS["slice_store"], (value, *self.as_indices(index)), (), attrs)

    def barrier(self, scope: str = "workgroup") -> None:
        self.emit(OPS["barrier"], (), (), {"scope": scope})

    def trap(self, message: str) -> None:
        self.emit(OPS["trap"], (), (), {"message": message})

    def assert_(self, condition: Operand, message: str) -> None:
        """Stop the dispatch with a message unless a bool holds."""
        self.emit(OPS["assert"], (self.as_value(condition, DataType.BOOL),), (), {"message": message})

    def check_bounds(self, access: str, buffer: str, index: Value, length: Operand) -> None:
        """End in the fault of an access (load, store, ...) of a buffer unless its index is below the length."""
        attrs = {"access": access, "of": buffer}
        self.emit(OPS["check_bounds"], (index, self.as_value(length, index.type)), (), attrs)

    def debug_print(self, format: str, *values: Value) -> None:
        """Print a line; see `vyre_opt.ir.print_format`."""
        self.emit(OPS["debug_print"], values, (), {"format": format})

    def breakpoint(self) -> None:
        """Stop a debugger here; other runs pass over it."""
        self.emit(OPS["breakpoint"], ())

    def call(self, func: Func | str, *args: Operand) -> tuple[Value, ...]:
        """Call a function of the module; gives its results."""
        name = func if isinstance(func, str) else func.name
        callee = self.module.funcs.get(name)
        if callee is None:
            raise ValueError(f"the module has no func @{name}")
        if len(args) != len(callee.params):
            raise TypeError(f"@{name} takes {len(callee.params)} operands, {len(args)} given")
        operands = tuple(self.as_value(a, p.type) for a, p in zip(args, callee.params, strict=True))
        return self.emit(OPS["call"], operands, callee.results, {"callee": name}).results

    def op(self, name: str, *operands: Any, **options: Any) -> Value:
        """An op by its name, for one of another package: `b.op("mylib.square", x)`."""
        value: Value = getattr(self, name)(*operands, **options)
        return value

    def kernel(self, name: str, *buffers: Buffer | str, **params: int) -> None:
        """A named kernel, which stands alone in its program."""
        row = find_op(name)
        if row is None or row.kernel is None:
            raise ValueError(f"there is no kernel {name}")
        names = tuple(self.find_buffer(b).name for b in buffers)
        self.emit(row, (), (), {"buffers": names, "params": params})

    def emit(
        self,
        row: OpDef,
        operands: tuple[Value, ...] = (),
        types: Sequence[DataType] = (),
        attrs: dict[str, Any] = NO_ATTRS,
        regions: tuple[Block, ...] = (),
        name: str | None = None,
    ) -> Op:
        """Insert an op of `row` at the insertion point (see `at`)."""
        results = tuple(self.fresh(dtype) for dtype in types)
        if name is not None and results:
            results[0].name = name
        elif row.format == "const":
            results[0].name = Unnamed(results[0].name)
        op = Op(row, operands, results, attrs, regions, self._location())
        if self._insertion_index is None:
            self._block.ops.append(op)
        else:
            self._block.ops.insert(self._insertion_index, op)
            self._insertion_index += 1
        return op

    def as_value(self, operand: Operand, dtype: DataType) -> Value:
        """`operand`, or the constant of `dtype` that it is."""
        return operand if isinstance(operand, Value) else self.const(operand, dtype)

    def as_indices(self, index: Operand | Sequence[Operand]) -> tuple[Value, ...]:
        """The index, or those of several dimensions, as values."""
        indices = index if isinstance(index, Sequence) else (index,)
        return tuple(self.as_value(each, DataType.U32) for each in indices)

    def fresh(self, dtype: DataType) -> Value:
        """A new value, named by a number, for a result or a block argument."""
        self._count += 1
        return BuiltValue(str(self._count - 1), dtype, self)

    def find_buffer(self, buffer: Buffer | str) -> Buffer:
        """The buffer of the program that `buffer` is or names.  Raises ValueError."""
        name = buffer if isinstance(buffer, str) else buffer.name
        declared = self.program.buffers.get(name)
        if declared is None:
            hint = suggest(name, self.program.buffers, "@")
            raise ValueError(
                f"program @{self.program.name} has no buffer @{name}" + (f"; {hint}" if hint else "")
            )
        return declared

    # --- the insertion point, and ops with blocks -----------------------------------------

    @contextmanager
    def at(self, block: Block, index: int | None = None) -> Iterator[Block]:
        """Set the insertion point inside the with block: the end of `block`, or before its op number `index`."""
        before = self._block, self._insertion_index
        self._block, self._insertion_index = block, index
        try:
            yield block
        finally:
            self._block, self._insertion_index = before

    @contextmanager
    def for_(
        self,
        lower: Operand,
        upper: Operand,
        step: Operand = 1,
        *,
        carry: Sequence[Value] = (),
        dtype: DataType | str | None = None,
    ) -> Iterator[Loop]:
        """A counted loop: `with b.for_(0, n, carry=[zero]) as loop: loop.yield_(...)`.

        `loop.index` counts, `loop.args` are the carried values inside, `loop.results` after.
        """
        limits: list[Bound] = []
        for bound in (lower, upper, step):
            if not isinstance(bound, Value) and not (isinstance(bound, int) and not isinstance(bound, bool)):
                raise TypeError(f"a loop's bound is an integer or a value, not {bound!r}")
            limits.append(bound)
        values = [b for b in limits if isinstance(b, Value)]
        given = None if dtype is None else as_type(dtype)
        counter = self.fresh(given or (values[0].type if values else DataType.U32))
        block = Block((counter, *(self.fresh(v.type) for v in carry)))
        attrs = {n: None if isinstance(b, Value) else b for n, b in zip(BOUND_NAMES, limits, strict=True)}
        loop = Loop(self, [block], block.args[1:])
        with self.at(block):
            yield loop
        types = [v.type for v in carry]
        loop.op = self.emit(OPS["for"], (*values, *carry), types, attrs, (block,))

    @contextmanager
    def while_(self, carry: Sequence[Value] = ()) -> Iterator[Loop]:
        """`with b.while_([x]) as loop:`, the condition, `loop.condition(c)`, the body, `loop.yield_(...)`."""
        condition = Block(tuple(self.fresh(v.type) for v in carry))
        body = Block(tuple(BuiltValue(v.name, v.type, self) for v in condition.args))
        loop = Loop(self, [condition, body], condition.args)
        with self.at(condition):
            yield loop
        if condition.terminator is None:
            raise ValueError("a while needs loop.condition(...) before its body")
        loop.op = self.emit(OPS["while"], tuple(carry), [v.type for v in carry], NO_ATTRS, (condition, body))

    @contextmanager
    def if_(self, condition: Operand) -> Iterator[Branch]:
        """`with b.if_(c) as branch: ...`, then perhaps `with branch.else_(): ...`."""
        value = self.as_value(condition, DataType.BOOL)
        branch = Branch(self, [Block()])
        with self.at(branch.blocks[0]):
            yield branch
        branch.op = self.emit(OPS["if"], (value,), branch.yielded, NO_ATTRS, tuple(branch.blocks))

    @contextmanager
    def region(self, label: str) -> Iterator[Nest]:
        """A named group of ops."""
        nest = Nest(self, [Block()])
        with self.at(nest.blocks[0]):
            yield nest
        nest.op = self.emit(OPS["region"], (), nest.yielded, {"label": label}, tuple(nest.blocks))

    @contextmanager
    def func(self, name: str, *params: DataType | str) -> Iterator[Function]:
        """A function of the module: `with b.func("f", DataType.U32) as f: f.yield_(b.add(f.args[0], 1))`."""
        block = Block(tuple(self.fresh(as_type(dtype)) for dtype in params))
        function = Function(self, [block], block.args)
        with self.at(block):
            yield function
        self.module.add(Func(name, tuple(function.yielded), block, self._location()))


class Nest:
    """An op with blocks while it is built: `args` exist inside the with block, `results` after it."""

    def __init__(self, builder: Builder, blocks: list[Block], args: tuple[Value, ...] = ()) -> None:
        self.builder = builder
        self.blocks = blocks
        self.args = args
        self.op: Op | None = None

    def yield_(self, *values: Value) -> None:
        """End the block with a yield of `values`."""
        self.builder.emit(OPS["yield"], values)

    @property
    def yielded(self) -> list[DataType]:
        """The types of the values that the first block yields."""
        end = self.blocks[0].terminator
        return [v.type for v in end.operands] if end is not None else []

    @property
    def results(self) -> tuple[BuiltValue, ...]:
        if self.op is None:
            raise ValueError("the results exist after the with block")
        return cast("tuple[BuiltValue, ...]", self.op.results)

    @property
    def result(self) -> BuiltValue:
        """The single result."""
        return self.results[0]


class Function(Nest):
    """A function while it is built; `args` are its parameters."""


class Loop(Nest):
    """A `for` or a `while`."""

    @property
    def index(self) -> BuiltValue:
        """The counter of a `for`."""
        return cast(BuiltValue, self.blocks[0].args[0])

    def condition(self, value: Value) -> None:
        """End the condition of a `while`; what follows is its body, with `args` of its own."""
        self.builder.emit(OPS["condition"], (value,))
        body = self.blocks[1]
        self.args = body.args
        self.builder._block = body


class Branch(Nest):
    """An `if`."""

    @contextmanager
    def else_(self) -> Iterator[Branch]:
        """The other block, after the first."""
        if self.op is None or len(self.blocks) == 2:
            raise ValueError("an if has one else, after its first block")
        self.blocks.append(Block())
        with self.builder.at(self.blocks[1]):
            yield self
        self.op.regions = tuple(self.blocks)


def _dims(extents: int | Sequence[int]) -> Dim3:
    dims = (extents,) if isinstance(extents, int) else tuple(extents)
    if not 1 <= len(dims) <= 3:
        raise ValueError(f"1 to 3 extents, not {len(dims)}")
    x, y, z = (*dims, 1, 1)[:3]
    return x, y, z


def encode_constant(value: Number | Sequence[Number], dtype: DataType) -> Any:
    """The encoded constant of a Python value.  Raises ValueError for one that `dtype` cannot represent."""
    if isinstance(value, Sequence):
        if len(value) != dtype.lanes or not dtype.is_vec:
            raise ValueError(f"{dtype} does not have {len(value)} lanes")
        lanes = tuple(_encode_scalar(lane, dtype.element) for lane in value)
        return lanes[0] if len(set(lanes)) == 1 else lanes
    return _encode_scalar(value, dtype.element)


def _encode_scalar(value: Number, dtype: DataType) -> int:
    if hasattr(value, "item"):  # a NumPy scalar
        value = value.item()
    if dtype.is_bool and isinstance(value, bool):
        return int(value)
    if dtype.is_float and isinstance(value, float):
        return arith.encode_float(value, dtype)
    if isinstance(value, int) and not isinstance(value, bool):
        if dtype.is_float:
            return arith.convert(value, DataType.I64, dtype)
        if dtype.is_int:
            low, high = arith.int_range(dtype)
            if low <= value <= high:
                return value
            raise ValueError(f"{value} does not fit in {dtype} ({low} to {high})")
    raise ValueError(f"{value!r} is not a constant of {dtype}")
