"""The Program IR: values, ops, blocks, buffers, programs, functions, pipelines, modules.

Control flow is structured: an op owns its regions, and a region is one block.
There are no use lists; a pass walks forward and carries a substitution, which
keeps an op small and a rewrite linear.

    Module -> Program -> Block -> Op -> Block (of a for, if, while, region) -> Op
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, cast

from .grids import GridCall
from .literals import show
from .pipeline import Pipeline
from .text_form import TextForm
from .types import DTYPE, DataType

if TYPE_CHECKING:
    from .diagnostics import Location, Source
    from .grids import Extent
    from .ops import OpDef

Dim3 = tuple[int, int, int]

MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
"""The most workgroups along each axis: what every GPU from compute capability 3.0 on takes."""

MAX_LANES = 1024
"""The most invocations of a workgroup."""

MAX_NESTING = 200
"""The most levels that blocks may nest, so that passes can walk them recursively."""

NO_ATTRS: dict[str, Any] = {}
"""The attributes of an op without any.  Shared, so never written to."""


class AccessMode(StrEnum):
    """The accesses that a program may make to a buffer; `workgroup` and `cluster` also name its memory tier."""

    READ = "read"
    WRITE = "write"
    READ_WRITE = "read_write"
    WORKGROUP = "workgroup"
    CLUSTER = "cluster"


class Unnamed(str):
    """The name of a constant that no author named: it is written in place, and has the name where it has to have one."""

    __slots__ = ()


class Value:
    """An SSA value: the result of an op, or an argument of a block.  Identity is equality."""

    __slots__ = ("name", "type", "owner")

    def __init__(self, name: str, type: DataType, owner: Op | Block | None = None) -> None:
        self.name = name
        self.type = type
        self.owner = owner

    @property
    def is_unnamed_constant(self) -> bool:
        """Whether a `const` defines it that no author named."""
        owner = self.owner
        return type(self.name) is Unnamed and isinstance(owner, Op) and owner.definition.format == "const"

    def __str__(self) -> str:
        """What a message calls it."""
        if self.is_unnamed_constant:
            return show(cast(Op, self.owner).attrs["value"], self.type)
        return f"%{self.name}"

    def __repr__(self) -> str:
        return f"%{self.name}: {self.type}"


class Op:
    """One operation.  `definition` is its row in the op table; `attrs` is read-only if shared."""

    __slots__ = ("definition", "operands", "results", "attrs", "regions", "loc")

    def __init__(
        self,
        definition: OpDef,
        operands: tuple[Value, ...] = (),
        results: tuple[Value, ...] = (),
        attrs: dict[str, Any] = NO_ATTRS,
        regions: tuple[Block, ...] = (),
        loc: Location | None = None,
    ) -> None:
        self.definition = definition
        self.operands = operands
        self.results = results
        self.attrs = attrs
        self.regions = regions
        self.loc = loc
        for result in results:
            result.owner = self

    @property
    def name(self) -> str:
        return self.definition.name

    @property
    def result(self) -> Value:
        """The single result of an op that has one."""
        return self.results[0]

    @property
    def index(self) -> Value:
        """The element index of a load, store or atomic of a buffer of one dimension."""
        (index,) = self.indices
        return index

    @property
    def indices(self) -> tuple[Value, ...]:
        """The indices of a load, store or atomic, one for each dimension of its buffer."""
        format = self.definition.format
        if format in ("load", "matrix_load"):
            return self.operands
        if format in ("store", "matrix_store"):
            return self.operands[1:]
        return self.operands[: -self.definition.atomic_values]

    def walk(self) -> Iterator[Op]:
        """This op, then every op inside its regions, in program order."""
        yield self
        for block in self.regions:
            yield from block.walk()

    def __repr__(self) -> str:
        return f"<{self.name} {', '.join(map(repr, self.results))}>"


class Block:
    """Arguments and ops; a block that yields values ends in a terminator."""

    __slots__ = ("args", "ops")

    def __init__(self, args: tuple[Value, ...] = (), ops: list[Op] | None = None) -> None:
        self.args = args
        self.ops: list[Op] = [] if ops is None else ops
        for arg in args:
            arg.owner = self

    def walk(self) -> Iterator[Op]:
        for op in self.ops:
            yield op
            if op.regions:
                for block in op.regions:
                    yield from block.walk()

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].definition.is_terminator else None


Shape = tuple[int | None, ...]
"""Extents of 1 to `MAX_DIMENSIONS` dimensions, in elements, the last one contiguous; None for an open one (`?`)."""

MAX_DIMENSIONS = 3

MAX_EXTENT = (1 << 31) - 1
"""Of each dimension of a buffer that has several.  So an index that is in bounds is a number of 31 bits, whatever its
type, and what is known of an index modulo 2^32 says which one it is."""


@dataclass(slots=True, init=False)
class Buffer:
    """A buffer of a program or a pipeline.

    `shape`: in elements, row-major.  `sizes`: in a pipeline, for each dimension of open extent its extent as an
    expression of params and the lengths of buffers before it, or None; empty where there are none.  `access` is None only in a
    pipeline, where it may be left out.  A `read_write` buffer with neither live flag
    is transient: undefined on entry, unobservable after.
    """

    name: str
    dtype: DataType
    shape: Shape
    access: AccessMode | None
    binding: int | None = None
    live_in: bool = False
    live_out: bool = False
    loc: Location | None = field(default=None, compare=False)
    sizes: tuple[Extent | None, ...] = ()

    def __init__(
        self,
        name: str,
        dtype: DataType,
        shape: int | Sequence[int | None] | None,
        access: AccessMode | None,
        binding: int | None = None,
        live_in: bool = False,
        live_out: bool = False,
        loc: Location | None = None,
        size: Extent | None = None,
        sizes: tuple[Extent | None, ...] = (),
    ) -> None:
        """`shape`: a number or None stands for one dimension, and so does `size`."""
        self.name = name
        self.dtype = dtype
        self.shape = (shape,) if shape is None or isinstance(shape, int) else tuple(shape)
        self.access = access
        self.binding = binding
        self.live_in = live_in
        self.live_out = live_out
        self.loc = loc
        self.sizes = sizes if size is None else (size,)

    @property
    def dimensions(self) -> int:
        return len(self.shape)

    @property
    def count(self) -> int | None:
        """All elements; None where an extent is open."""
        total = 1
        for extent in self.shape:
            if extent is None:
                return None
            total *= extent
        return total

    @count.setter
    def count(self, count: int | None) -> None:
        """Make it a buffer of one dimension."""
        self.shape = (count,)

    def extent(self, dimension: int | None) -> int | None:
        """What `len` gives: elements along a dimension, of None those of the only one; None where it is open."""
        return self.shape[0 if dimension is None else dimension]

    @property
    def extents(self) -> tuple[Extent | None, ...]:
        """The extent along each dimension as it is declared: a number, the expression of its size, or None where it is open."""
        sizes = self.sizes or (None,) * self.dimensions
        return tuple(size if known is None else known for known, size in zip(self.shape, sizes, strict=True))

    def length(self, dimension: int) -> GridCall:
        """The expression of what `len` gives along a dimension."""
        return GridCall("len", (self.name, dimension) if self.dimensions > 1 else (self.name,))

    @property
    def size(self) -> Extent | None:
        """The expression of the extent of a buffer of one dimension."""
        return self.sizes[0] if len(self.sizes) == 1 else None

    @property
    def size_bytes(self) -> int | None:
        """Bytes of the whole buffer; None where the count or the element size is open."""
        if self.count is None or self.dtype.element_bytes is None:
            return None
        return self.count * self.dtype.element_bytes

    @property
    def is_transient(self) -> bool:
        """True for storage whose contents are not visible outside of the program."""
        return self.access is AccessMode.READ_WRITE and not (self.live_in or self.live_out)

    @property
    def is_workgroup(self) -> bool:
        return self.access is AccessMode.WORKGROUP

    @property
    def is_cluster(self) -> bool:
        return self.access is AccessMode.CLUSTER

    @property
    def is_on_chip(self) -> bool:
        """Whether it is in memory that workgroups bring with them, not in storage."""
        return self.is_workgroup or self.is_cluster

    @property
    def is_output(self) -> bool:
        """True for a bound buffer whose contents the caller gets back."""
        return self.binding is not None and (self.live_out or self.access is AccessMode.WRITE)


@dataclass(slots=True)
class Spec:
    """A specialization constant; `default` is encoded as a `const` value is, None if unset.

    A type parameter has the dtype DTYPE and a DataType as its default.
    """

    name: str
    dtype: DataType
    default: Any = None
    loc: Location | None = field(default=None, compare=False)


@dataclass(slots=True)
class Param:
    """A runtime scalar of a program or a pipeline: each launch or call has a value for it.

    `default` is encoded as a `const` value is, None where a value has to be passed.
    """

    name: str
    dtype: DataType
    default: int | None = None
    loc: Location | None = field(default=None, compare=False)


@dataclass(slots=True, eq=False)
class Program(TextForm):
    """One GPU program: run by every invocation of every workgroup of a dispatch.

    `grid` is the number of workgroups where the text fixes it, else None.  `prefer_shared`: the percentage of a GPU
    multiprocessor's L1 cache that should be workgroup memory; a hint, which changes no result.  `cluster`: how many
    workgroups, neighbours along x, share cluster memory and meet at cluster barriers; None where none do.
    """

    name: str
    workgroup: Dim3
    grid: Dim3 | None = None
    prefer_shared: int | None = field(default=None, kw_only=True)
    cluster: int | None = field(default=None, kw_only=True)
    buffers: dict[str, Buffer] = field(default_factory=dict)
    specs: dict[str, Spec] = field(default_factory=dict)
    params: dict[str, Param] = field(default_factory=dict)
    body: Block = field(default_factory=Block)
    loc: Location | None = None

    @property
    def lanes(self) -> int:
        """Invocations of one workgroup."""
        x, y, z = self.workgroup
        return x * y * z

    @property
    def type_parameters(self) -> list[Spec]:
        """The constants that stand for types; a program runs when it has none left."""
        return [spec for spec in self.specs.values() if spec.dtype is DTYPE]

    @property
    def spec_defaults(self) -> dict[str, Any]:
        """The default of each specialization constant, encoded; None where it has none."""
        return {name: spec.default for name, spec in self.specs.items()}

    @property
    def bound_buffers(self) -> list[Buffer]:
        """The buffers a caller passes, in binding order."""
        bound = [b for b in self.buffers.values() if b.binding is not None]
        return sorted(bound, key=lambda b: b.binding or 0)

    def walk(self) -> Iterator[Op]:
        return self.body.walk()


@dataclass(slots=True, eq=False)
class Func(TextForm):
    """A pure function of values, called by `call` and inlined by `inline`."""

    name: str
    results: tuple[DataType, ...]
    body: Block
    loc: Location | None = None

    @property
    def params(self) -> tuple[Value, ...]:
        return self.body.args

    def walk(self) -> Iterator[Op]:
        return self.body.walk()


@dataclass(slots=True, eq=False)
class Module(TextForm):
    """The contents of one `.vyre` text.  `order` keeps the items as they were written.

    `version`: of the text's format.  In version 2, constants without a name are printed in place.
    """

    programs: dict[str, Program] = field(default_factory=dict)
    funcs: dict[str, Func] = field(default_factory=dict)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    order: list[Program | Func | Pipeline] = field(default_factory=list)
    source: Source | None = None
    version: int = 1

    def add(self, item: Program | Func | Pipeline) -> None:
        """Append `item`; a later item of the same kind and name does not replace the first."""
        self.of_kind(item).setdefault(item.name, item)
        self.order.append(item)

    @property
    def parametric(self) -> list[Program | Pipeline]:
        """The items that may have type parameters, of one name in all that `specs` binds together."""
        return [*self.programs.values(), *self.pipelines.values()]

    def of_kind(self, item: Program | Func | Pipeline) -> dict[str, Any]:
        """The items of the kind of `item` by name, of each name the first."""
        tables: dict[type, dict[str, Any]] = {
            Program: self.programs,
            Func: self.funcs,
            Pipeline: self.pipelines,
        }
        return tables[type(item)]

    def add_before_pipelines(self, program: Program) -> None:
        """Add `program` in front of the first pipeline, as programs stand before those that launch them."""
        self.add(program)
        first = next(i for i, item in enumerate(self.order) if isinstance(item, Pipeline))
        self.order.insert(first, self.order.pop())
        self.programs = {item.name: item for item in self.order if isinstance(item, Program)}

    def remove(self, item: Program | Func | Pipeline) -> None:
        """Take `item` out of the module."""
        for table in (self.programs, self.funcs, self.pipelines):
            if table.get(item.name) is item:
                del table[item.name]
        self.order = [other for other in self.order if other is not item]
