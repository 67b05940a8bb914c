"""The Program IR: values, ops, blocks, programs, functions, modules, and what programs declare.

Control flow is structured: an op owns its regions, and a region is one block.
There are no use lists; a pass walks forward and carries a substitution, which
keeps an op small and a rewrite linear.

    Module -> Program -> Block -> Op -> Block (of a for, if, while, region) -> Op
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import TYPE_CHECKING, Any, cast

from ..records import dataclass
from .declarations import MAX_DIMENSIONS, MAX_EXTENT, AccessMode, Buffer, Dim3, Param, Shape, Spec
from .literals import show
from .pipeline import Pipeline
from .text_form import TextForm
from .types import DTYPE, DataType

if TYPE_CHECKING:
    from .diagnostics import Location, Source
    from .ops import OpDef

__all__ = [
    "MAX_DIMENSIONS",
    "MAX_EXTENT",
    "MAX_GRID",
    "MAX_INVOCATIONS",
    "DEFAULT_WORKGROUP",
    "MAX_LANES",
    "MAX_WORKGROUP",
    "MAX_NESTING",
    "NO_ATTRS",
    "AccessMode",
    "Block",
    "Buffer",
    "Dim3",
    "Func",
    "Module",
    "Op",
    "Param",
    "Program",
    "Shape",
    "Spec",
    "Unnamed",
    "Value",
]

MAX_GRID: Dim3 = (2**31 - 1, 65535, 65535)
"""The most workgroups along each axis: what every GPU from compute capability 3.0 on takes."""

MAX_INVOCATIONS = 1 << 32
"""Most invocations of a launch along an axis, since ids are u32."""

MAX_LANES = 1024
"""The most invocations of a workgroup."""

MAX_WORKGROUP: Dim3 = (MAX_LANES, MAX_LANES, 64)
"""Most invocations of a workgroup along each axis."""

DEFAULT_WORKGROUP: Dim3 = (256, 1, 1)
"""Workgroup of kernels in Python that name none."""

MAX_NESTING = 200
"""The most levels that blocks may nest, so that passes can walk them recursively."""

NO_ATTRS: dict[str, Any] = {}
"""The attributes of an op without any.  Shared, so never written to."""


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
        """Name in messages."""
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
        if format in ("load", "matrix_load", "slice_gather"):
            return self.operands
        if format == "slice_load":
            return self.operands[:-1] if self.attrs["edge"] == "filled" else self.operands
        if format in ("store", "matrix_store", "slice_store"):
            return self.operands[1:]
        return self.operands[: -self.definition.atomic_values]

    def walk(self) -> Iterator[Op]:
        """Yield this op, then every op inside its regions, in program order."""
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
        """Ops of the block at any depth in program order, in linear time however deep they nest."""
        pending = [iter(self.ops)]
        while pending:
            for op in pending[-1]:
                yield op
                if op.regions:
                    pending += [iter(block.ops) for block in reversed(op.regions)]
                    break
            else:
                pending.pop()

    @property
    def terminator(self) -> Op | None:
        return self.ops[-1] if self.ops and self.ops[-1].definition.is_terminator else None


@dataclass(slots=True, eq=False)
class Program(TextForm):
    """One GPU program: run by every invocation of every workgroup of a dispatch.

    `grid` is the number of workgroups where the text fixes it, else None.  `prefer_shared`: the percentage of a GPU
    multiprocessor's L1 cache that should be workgroup memory; a hint, which changes no result.  `cluster`: how many
    workgroups, neighbours along x, share cluster memory and meet at cluster barriers; None where none do.  `lowered_for`:
    the target that alone can read it (see lowered_ops.py); None for a program of the language.
    """

    name: str
    workgroup: Dim3
    grid: Dim3 | None = None
    prefer_shared: int | None = field(default=None, kw_only=True)
    cluster: int | None = field(default=None, kw_only=True)
    lowered_for: str | None = field(default=None, kw_only=True)
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
