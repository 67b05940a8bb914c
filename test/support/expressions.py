"""Random pure expressions of a given type, from every row of the op table that can produce it."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from vyre_opt.ir import OPS, Builder, DataType, Op, OpDef, Value
from vyre_opt.ir.ops import AXES, FASTMATH

from .sample import random_bits

SCALARS = tuple(DataType.of(name) for name in "bool u8 u16 u32 u64 i8 i16 i32 i64 f16 bf16 f32 f64".split())
INTEGERS = tuple(t for t in SCALARS if t.is_int)
LANES = (2, 3, 4, 8)
VECTORS = tuple(DataType.vec(scalar, lanes) for scalar in SCALARS for lanes in LANES)

_NOT_UNIFORM = {"global_id", "local_id", "lane_id", "subgroup_id"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What to generate.  `statements` is the length of a program, `depth` how deep its blocks nest.

    `bitcast_nan` lets the bits of a NaN, which may differ between backends, become an integer;
    `bitcast_shapes` lets a bitcast change the number of lanes, as from vec<4 x u8> to u32;
    `fastmath` puts flags on float ops, which allow passes and targets to change results.  `workgroup` and `grid` are random where they are None,
    the element types of buffers where `elements` is empty.  `dimensions`: the share of programs in which
    buffers have several dimensions.
    """

    statements: int = 10
    depth: int = 3
    expression_depth: int = 3
    sync: bool = True
    bitcast_nan: bool = False
    bitcast_shapes: bool = True
    fastmath: bool = False
    workgroup: tuple[int, ...] | None = None
    grid: tuple[int, ...] | None = None
    elements: tuple[DataType, ...] = ()
    dimensions: float = 0.25


@dataclass(slots=True)
class Pool:
    """The values in scope by type; `uniform`: those that are equal in all lanes of a workgroup."""

    by_type: dict[DataType, list[Value]] = field(default_factory=dict)
    uniform: set[Value] = field(default_factory=set)

    def add(self, value: Value, uniform: bool = False) -> Value:
        self.by_type.setdefault(value.type, []).append(value)
        if uniform:
            self.uniform.add(value)
        return value

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Values added inside go out of scope at its end."""
        before = {dtype: len(values) for dtype, values in self.by_type.items()}
        try:
            yield
        finally:
            for dtype, values in self.by_type.items():
                del values[before.get(dtype, 0) :]


class Expressions:
    """Adds expressions where the builder stands; in a function, without ids and buffers."""

    def __init__(self, b: Builder, rng: random.Random, settings: Settings, in_function: bool = False) -> None:
        self.b = b
        self.rng = rng
        self.settings = settings
        self.in_function = in_function
        self.pool = Pool()

    # --- any value ----------------------------------------------------------------------

    def any_type(self) -> DataType:
        """A type; half of the time that of a value in scope."""
        in_scope = [t for t, values in self.pool.by_type.items() if values]
        if in_scope and self.rng.random() < 0.5:
            return self.rng.choice(in_scope)
        return self.rng.choice(SCALARS if self.rng.random() < 0.75 else VECTORS)

    def value(self, dtype: DataType, depth: int = 0) -> Value:
        """A value of `dtype`: one in scope, or a new one."""
        in_scope = self.pool.by_type.get(dtype)
        if in_scope and self.rng.random() < 0.6:
            return self.rng.choice(in_scope[-6:] if self.rng.random() < 0.5 else in_scope)
        if depth >= self.settings.expression_depth:
            return self.const(dtype)
        return self.fresh(dtype, depth)

    def fresh(self, dtype: DataType, depth: int = 0) -> Value:
        """A new value of `dtype`, by an op chosen among all that give it."""
        rows = [row for row in _PRODUCERS[dtype] if self.available(row, dtype)]
        row = self.rng.choice(rows)
        return self.note(_MAKERS[row.format](self, row, dtype, depth + 1))

    def available(self, row: OpDef, dtype: DataType) -> bool:
        format = row.format
        if format == "call":
            return any(dtype in func.results for func in self.b.module.funcs.values())
        if format in ("id", "size"):
            return not self.in_function
        if format == "len":
            return not self.in_function and bool(self.b.program.buffers)
        if format == "spec":
            return not self.in_function and any(s.dtype is dtype for s in self.b.program.specs.values())
        if format == "param":
            return not self.in_function and any(p.dtype is dtype for p in self.b.program.params.values())
        return True

    def note(self, value: Value) -> Value:
        """Put a value in scope; it is uniform if its op is and its operands are."""
        op = value.owner
        uniform = (
            isinstance(op, Op)
            and op.definition.is_pure
            and op.name not in _NOT_UNIFORM
            and all(operand in self.pool.uniform for operand in op.operands)
        )
        return self.pool.add(value, uniform)

    def const(self, dtype: DataType) -> Value:
        lanes = tuple(random_bits(dtype.element, self.rng) for _ in range(dtype.lanes))
        value = lanes[0] if len(set(lanes)) == 1 else lanes
        return self.note(self.b.emit(OPS["const"], (), (dtype,), {"value": value}).result)

    # --- values with a property -----------------------------------------------------------

    def below(self, count: int, dtype: DataType = DataType.U32) -> Value:
        """A value of an integer type that is at least 0 and less than `count`."""
        b, rng = self.b, self.rng
        if rng.random() < 0.2:
            return b.const(rng.randrange(count), dtype)
        source = self.value(DataType.U32, 1)
        if count & (count - 1) == 0 and rng.random() < 0.5:
            result = b.and_(source, count - 1)
        elif rng.random() < 0.3:
            result = b.min(source, count - 1)
        else:
            result = b.rem(source, count)
        return result if dtype is DataType.U32 else b.cast(result, dtype)

    def small(self, dtype: DataType, most: int) -> Value:
        """An integer below `most` in magnitude, 0 or more where `dtype` is unsigned."""
        return self.note(self.b.rem(self.value(dtype, 1), most))

    def uniform(self, dtype: DataType) -> Value:
        """A value of u32 or bool that is equal in all lanes of a workgroup."""
        b, rng = self.b, self.rng
        in_scope = [v for v in self.pool.by_type.get(dtype, ()) if v in self.pool.uniform]
        if in_scope and rng.random() < 0.5:
            return rng.choice(in_scope)
        if dtype.is_bool:
            compare = rng.choice([row for row in OPS.values() if row.format == "compare"])
            result = getattr(b, compare.name)(self.uniform(DataType.U32), rng.randrange(4))
        elif rng.random() < 0.4:
            result = b.const(rng.randrange(5))
        else:
            result = getattr(b, rng.choice(("workgroup_id", "num_workgroups")))(rng.choice(AXES))
        return self.pool.add(result, True)


# --- makers: one op of a format that gives `dtype`


Maker = Callable[[Expressions, OpDef, DataType, int], Value]


def _elementwise(count: int) -> Maker:
    def make(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
        flags: Sequence[str] = ()
        if e.settings.fastmath and dtype.element.is_float and e.rng.random() < 0.5:
            flags = [f for f in FASTMATH if e.rng.random() < 0.4]
        operands = [e.value(dtype, depth) for _ in range(count)]
        result: Value = getattr(e.b, row.name)(*operands, fastmath=flags)
        return result

    return make


def _compare(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    elements = [t for t in SCALARS if row.accepts(t)]
    operand = dtype.with_element(e.rng.choice(elements))
    result: Value = getattr(e.b, row.name)(e.value(operand, depth), e.value(operand, depth))
    return result


def _select(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    shape = DataType.BOOL if e.rng.random() < 0.6 else dtype.with_element(DataType.BOOL)
    return e.b.select(e.value(shape, depth), e.value(dtype, depth), e.value(dtype, depth))


def _convert(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    if row.name == "cast":
        return e.b.cast(e.value(dtype.with_element(e.rng.choice(SCALARS)), depth), dtype)
    sources = [t for t in _SAME_BITS[dtype] if e.settings.bitcast_shapes or t.lanes == dtype.lanes]
    source = e.value(e.rng.choice(sources), depth)
    element = source.type.element
    if element.is_float and element is not dtype.element and not e.settings.bitcast_nan:
        source = e.b.select(e.b.eq(source, source), source, e.b.const(0.0, source.type))
    return e.b.bitcast(source, dtype)


def _const(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    return e.const(dtype)


def _spec(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    names = [s.name for s in e.b.program.specs.values() if s.dtype is dtype]
    return e.b.spec(e.rng.choice(names), dtype)


def _param(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    names = [p.name for p in e.b.program.params.values() if p.dtype is dtype]
    return e.b.param(e.rng.choice(names), dtype)


def _id(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    result: Value = getattr(e.b, row.name)(e.rng.choice(AXES))
    return result


def _size(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    result: Value = getattr(e.b, row.name)()
    return result


def _len(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    buffer = e.rng.choice(list(e.b.program.buffers.values()))
    if buffer.dimensions == 1:
        return e.b.len(buffer, dtype)
    return e.b.len(buffer, dtype, dimension=e.rng.randrange(buffer.dimensions))


def _splat(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    return e.b.splat(e.value(dtype.element, depth), dtype.lanes)


def _vector(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    return e.b.vector(*[e.value(dtype.element, depth) for _ in range(dtype.lanes)])


def _extract(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    vector = e.value(DataType.vec(dtype, e.rng.choice(LANES)), depth)
    return e.b.extract(vector, e.rng.randrange(vector.type.lanes))


def _insert(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    lane = e.rng.randrange(dtype.lanes)
    return e.b.insert(e.value(dtype.element, depth), e.value(dtype, depth), lane)


def _permute(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    """Often with an index that may be a lane of the table: random bytes seldom are."""
    table = e.value(DataType.vec(DataType.U8, e.rng.choice(LANES)), depth)
    index = e.value(dtype, depth)
    if e.rng.random() < 0.7:
        index = e.b.and_(index, e.rng.choice((3, 7, 15)))
    return e.b.permute(table, index)


def _movemask(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    return e.b.movemask(e.value(DataType.vec(DataType.BOOL, dtype.bits or 8), depth))


def _call(e: Expressions, row: OpDef, dtype: DataType, depth: int) -> Value:
    func = e.rng.choice([f for f in e.b.module.funcs.values() if dtype in f.results])
    results = e.b.call(func, *[e.value(param.type, depth) for param in func.params])
    return e.rng.choice([r for r in results if r.type is dtype])


_MAKERS: dict[str, Maker] = {
    "unary": _elementwise(1),
    "binary": _elementwise(2),
    "ternary": _elementwise(3),
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "const": _const,
    "spec": _spec,
    "param": _param,
    "id": _id,
    "size": _size,
    "len": _len,
    "splat": _splat,
    "vector": _vector,
    "extract": _extract,
    "insert": _insert,
    "permute": _permute,
    "movemask": _movemask,
    "call": _call,
}

PURE_FORMATS = frozenset(_MAKERS)

_SAME_BITS = {
    t: [s for s in (*SCALARS, *VECTORS) if s.bits == t.bits and not s.element.is_bool]
    for t in (*SCALARS, *VECTORS)
}


def _can_produce(row: OpDef, dtype: DataType) -> bool:
    """Whether some op of `row` has a result of `dtype`."""
    format = row.format
    if format in ("unary", "binary", "ternary"):
        return row.accepts(dtype)
    if format == "compare":
        return dtype.element.is_bool
    if row.name == "bitcast":
        return not dtype.element.is_bool and bool(_SAME_BITS[dtype])
    if format in ("splat", "vector", "insert"):
        return dtype.is_vec
    if format == "permute":
        return dtype.is_vec and dtype.element is DataType.U8
    if format == "movemask":  # of the lanes that are drawn here
        return dtype is DataType.U8
    if format in ("extract", "spec", "param"):
        return not dtype.is_vec
    if format in ("id", "size"):
        return dtype is DataType.U32
    if format == "len":
        return dtype in (DataType.U32, DataType.U64)
    return True


_PRODUCERS = {
    dtype: [row for row in OPS.values() if row.is_pure and row.format in _MAKERS and _can_produce(row, dtype)]
    for dtype in (*SCALARS, *VECTORS)
}
