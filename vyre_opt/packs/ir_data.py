"""Declarations of programs and pipelines as plain values, and back.

Of a program's body there are the ops alone that a run may find at fault, and those that take a length: a program from a pack is run,
and never compiled.  docs/packs.md has each form.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from blake3 import blake3

from ..ir.author_words import PYTHON, VYRE
from ..ir.diagnostics import Location, Source
from ..ir.grids import Extent, GridCall
from ..ir.joined_locations import IDS, MemberLocation
from ..ir.pipeline import HostRead, Launch, Pipeline, Repeat, Stage
from ..ir.program import AccessMode, Block, Buffer, Dim3, Op, Param, Program, Value
from ..ir.types import DataType
from ..ir.written_elements import WholeWrite, WrittenDimension
from ..pack_files.format import canonical
from .decoding import number, numbers, text, texts, truth

__all__ = ["Decoder", "Encoder", "Unpackable", "decoded_source", "encoded_text", "source_row"]

_SPELLINGS = {"vyre": VYRE, "python": PYTHON}
_FAULTING = ("trap", "assert", "check_bounds", "for")
_ATTRIBUTES = ("access", "buffer", "covers", "dimension", "edge", "layout", "message", "of", "shape")
"""The attributes that messages of faults take."""


KEY_DIGITS = 16
"""Hexadecimal digits of the key of a source."""


def source_row(source: Source) -> dict[str, Any]:
    """Facts that places need of a source besides its text."""
    return {
        "column": source.first_column,
        "line": source.first_line,
        "name": source.name,
        "spelling": source.spelling.name.lower(),
    }


def encoded_text(source: Source) -> bytes:
    return source.text.encode("utf-8", "surrogatepass")


def decoded_source(row: Mapping[str, Any], content: bytes) -> Source:
    """A source, of its row and its text."""
    spelling, line, column = _SPELLINGS[row["spelling"]], number(row["line"], 1), number(row["column"])
    return Source(content.decode("utf-8", "surrogatepass"), text(row["name"]), line, spelling, column)


class Unpackable(ValueError):
    """Error for an object without a form in a pack."""


class Encoder:
    """`sources`: the texts that places are in, by their keys."""

    def __init__(self) -> None:
        self.sources: dict[str, Source] = {}

    def place(self, loc: Location | None) -> list[Any] | None:
        if loc is None:
            return None
        key = blake3(canonical(source_row(loc.source)) + encoded_text(loc.source)).hexdigest()[:KEY_DIGITS]
        self.sources.setdefault(key, loc.source)
        return [key, loc.start, loc.end]

    def dtype(self, dtype: DataType) -> Any:
        if dtype is DataType.TF32:
            return "tf32"
        if dtype.is_open:
            raise Unpackable(f"the type {dtype} is open")
        params = [self.dtype(each) if isinstance(each, DataType) else each for each in dtype.params]
        return [dtype.name.partition("<")[0], *params] if params else dtype.name

    def extent(self, extent: Any) -> Any:
        return [extent.name, *map(self.extent, extent.args)] if isinstance(extent, GridCall) else extent

    def buffer(self, buffer: Buffer) -> dict[str, Any]:
        return {
            "access": buffer.access and str(buffer.access),
            "binding": buffer.binding,
            "live_in": buffer.live_in,
            "live_out": buffer.live_out,
            "name": buffer.name,
            "place": self.place(buffer.loc),
            "shape": list(buffer.shape),
            "sizes": [self.extent(size) for size in buffer.sizes],
            "type": self.dtype(buffer.dtype),
        }

    def param(self, param: Param) -> dict[str, Any]:
        return {
            "default": None if param.default is None else int(param.default),
            "name": param.name,
            "place": self.place(param.loc),
            "type": self.dtype(param.dtype),
        }

    def program(self, program: Program) -> dict[str, Any]:
        """Program without its ops."""
        return {
            "buffers": [self.buffer(buffer) for buffer in program.buffers.values()],
            "cluster": program.cluster,
            "grid": program.grid and list(program.grid),
            "name": program.name,
            "params": [self.param(param) for param in program.params.values()],
            "place": self.place(program.loc),
            "prefer_shared": program.prefer_shared,
            "workgroup": list(program.workgroup),
        }

    def declared(self, program: Program, forms: Mapping[str, Sequence[WholeWrite]]) -> dict[str, Any]:
        """Facts of a program that plans ask for: its declarations, the lengths that it takes, and the buffers that it writes whole."""
        lengths = {
            op.attrs["buffer"]: op
            for op in program.walk()
            if op.name == "len" and (op.result.type.bits or 0) <= 32
        }
        return {
            "declared": self.program(program),
            "lengths": [self.op(op) for op in lengths.values()],
            "whole_writes": self.whole_writes(forms),
        }

    def signature(self, item: Program | Pipeline) -> dict[str, Any]:
        """Facts of a program or a pipeline that its callers see, the same for all targets."""
        buffers, reads, grid = list(item.buffers.values()), list[str](), None
        if isinstance(item, Program):
            buffers, grid = item.bound_buffers, item.grid and list(item.grid)
        else:
            reads = [stage.buffer for stage in item.walk() if isinstance(stage, HostRead)]
        return {
            "buffers": [self.buffer(buffer) for buffer in buffers],
            "grid": grid,
            "name": item.name,
            "params": [self.param(param) for param in item.params.values()],
            "place": self.place(item.loc),
            "reads": reads,
        }

    def faults(self, program: Program) -> list[Any]:
        """The ops that may be at fault, each with its number in the program."""
        return [
            [number, self.op(op)]
            for number, op in enumerate(program.walk())
            if op.name in _FAULTING or ("buffer" in op.attrs and op.name != "len")
        ]

    def op(self, op: Op) -> dict[str, Any]:
        attributes = {
            name: {"op": self.op(value)} if isinstance(value, Op) else value
            for name, value in op.attrs.items()
            if name in _ATTRIBUTES
        }
        return {
            "attributes": attributes,
            "member": self.member(op.loc),
            "name": op.name,
            "operands": [[value.name, self.dtype(value.type)] for value in op.operands],
            "place": self.place(op.loc),
            "results": [self.dtype(value.type) for value in op.results],
        }

    def member(self, loc: Location | None) -> dict[str, Any] | None:
        """Facts of the program that an op of a joined one was written in."""
        if not isinstance(loc, MemberLocation):
            return None
        return {
            "argument": loc.argument,
            "buffer": loc.buffer and self.buffer(loc.buffer),
            "ids": loc.ids,
            "path": list(loc.path),
            "program": loc.program,
        }

    def whole_writes(self, forms: Mapping[str, Sequence[WholeWrite]]) -> dict[str, Any]:
        return {
            name: [
                [
                    {
                        "axis": dimension.axis,
                        "bounds": sorted(
                            (list(b) if isinstance(b, tuple) else b for b in dimension.bounds), key=repr
                        ),
                        "invocations": dimension.invocations,
                    }
                    for dimension in form.dimensions
                ]
                for form in each
            ]
            for name, each in forms.items()
        }

    def pipeline(self, pipeline: Pipeline) -> dict[str, Any]:
        """Raises Unpackable for stages of named kernels."""
        return {
            "buffers": [self.buffer(buffer) for buffer in pipeline.buffers.values()],
            "name": pipeline.name,
            "params": [self.param(param) for param in pipeline.params.values()],
            "place": self.place(pipeline.loc),
            "removed": [self.buffer(buffer) for buffer in pipeline.removed.values()],
            "stages": [self.stage(stage) for stage in pipeline.stages],
        }

    def stage(self, stage: Stage) -> dict[str, Any]:
        if isinstance(stage, Repeat):
            stages = [self.stage(each) for each in stage.stages]
            return {"place": self.place(stage.loc), "stages": stages, "times": stage.times}
        if isinstance(stage, HostRead):
            return {"place": self.place(stage.loc), "read": stage.buffer}
        if not isinstance(stage, Launch):
            raise Unpackable("its launches depend on the lengths of a call")
        return {
            "buffers": list(stage.buffers),
            "grid": [self.extent(extent) for extent in stage.grid],
            "members": [self.stage(member) for member in stage.members],
            "params": {
                name: value if isinstance(value, str) else list(value) for name, value in stage.params.items()
            },
            "place": self.place(stage.loc),
            "program": stage.program,
        }


class _LateBlock(Block):
    """A body whose ops are made for each walk, since few calls ask for them."""

    __slots__ = ("_make",)

    def __init__(self, make: Callable[[], Iterable[Op]]) -> None:
        super().__init__()
        self._make = make

    def walk(self) -> Iterator[Op]:
        yield from self._make()


class Decoder:
    """`source_of`: gives a source by its key."""

    def __init__(self, source_of: Callable[[str], Source]) -> None:
        self._source_of = source_of
        self._sources: dict[str, Source] = {}

    def place(self, place: Sequence[Any] | None) -> Location | None:
        if place is None:
            return None
        key, start, end = place
        source = self._sources.get(text(key))
        if source is None:
            source = self._sources[key] = self._source_of(key)
        if not 0 <= number(start) <= number(end) <= len(source.text):
            raise ValueError(f"{source.name} has no characters {start} to {end}")
        return Location(source, start, end)

    def dtype(self, dtype: Any) -> DataType:
        if dtype == "tf32":
            return DataType.TF32
        if isinstance(dtype, str):
            return DataType.of(dtype)
        name, *params = dtype
        uses = ("a", "b", "acc")  # of a matrix, and no types
        return DataType.of(name, *(p if isinstance(p, int) or p in uses else self.dtype(p) for p in params))

    def extent(self, extent: Any) -> Extent:
        if isinstance(extent, int):
            return number(extent)
        name, *args = extent
        return GridCall(name, tuple(arg if isinstance(arg, str) else self.extent(arg) for arg in args))

    def buffer(self, row: Mapping[str, Any]) -> Buffer:
        return Buffer(
            text(row["name"]),
            self.dtype(row["type"]),
            [None if extent is None else number(extent) for extent in row["shape"]],
            row["access"] and AccessMode(row["access"]),
            None if row["binding"] is None else number(row["binding"]),
            truth(row["live_in"]),
            truth(row["live_out"]),
            self.place(row["place"]),
            sizes=tuple(None if size is None else self.extent(size) for size in row["sizes"]),
        )

    def buffers(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Buffer]:
        return {row["name"]: self.buffer(row) for row in rows}

    def params(self, rows: Iterable[Mapping[str, Any]]) -> dict[str, Param]:
        return {
            text(row["name"]): Param(
                row["name"],
                self.dtype(row["type"]),
                None if row["default"] is None else number(row["default"]),
                self.place(row["place"]),
            )
            for row in rows
        }

    def program(self, row: Mapping[str, Any]) -> Program:
        """The declarations of a program."""
        x, y, z = numbers(row["workgroup"], 1)
        buffers, params = self.buffers(row["buffers"]), self.params(row["params"])
        return Program(
            text(row["name"]),
            (x, y, z),
            _grid(row),
            buffers=buffers,
            params=params,
            loc=self.place(row["place"]),
            cluster=None if row["cluster"] is None else number(row["cluster"], 1),
            prefer_shared=None if row["prefer_shared"] is None else number(row["prefer_shared"]),
        )

    def body(self, rows: Sequence[Mapping[str, Any]]) -> Block:
        """A body of ops, which are made when somebody asks for them."""
        return _LateBlock(lambda: map(self.op, rows))

    def op(self, row: Mapping[str, Any]) -> Op:
        attributes = {name: self._attribute(value) for name, value in row["attributes"].items()}
        operands = tuple(Value(text(name), self.dtype(dtype)) for name, dtype in row["operands"])
        results = tuple(Value("", self.dtype(dtype)) for dtype in row["results"])
        loc = self.place(row["place"])
        if loc is not None and row["member"] is not None:
            loc = self._in_member(loc, row["member"])
        return Op(_definition(row["name"]), operands, results, attributes, (), loc)

    def _in_member(self, loc: Location, row: Mapping[str, Any]) -> MemberLocation:
        return MemberLocation(
            loc,
            tuple(numbers(row["path"])),
            text(row["program"]),
            None if row["buffer"] is None else self.buffer(row["buffer"]),
            None if row["argument"] is None else number(row["argument"]),
            IDS[IDS.index(text(row["ids"]))],
        )

    def _attribute(self, value: Any) -> Any:
        if isinstance(value, dict):
            return self.op(value["op"])
        return tuple(value) if isinstance(value, list) else value

    def whole_writes(self, row: Mapping[str, Any]) -> dict[str, list[WholeWrite]]:
        return {name: [self._whole_write(form) for form in forms] for name, forms in row.items()}

    def _whole_write(self, form: Iterable[Mapping[str, Any]]) -> WholeWrite:
        return WholeWrite(
            tuple(
                WrittenDimension(
                    each["axis"],
                    frozenset(b if isinstance(b, int) else (b[0], b[1]) for b in each["bounds"]),
                    each["invocations"],
                )
                for each in form
            )
        )

    def pipeline(self, row: Mapping[str, Any]) -> Pipeline:
        return Pipeline(
            text(row["name"]),
            buffers=self.buffers(row["buffers"]),
            params=self.params(row["params"]),
            stages=[self.stage(stage) for stage in row["stages"]],
            loc=self.place(row["place"]),
            removed=self.buffers(row["removed"]),
        )

    def signature(self, row: Mapping[str, Any], is_program: bool) -> Program | Pipeline:
        """A program or a pipeline of which `Signature.of` gives that of its callers."""
        buffers, params, loc = (
            self.buffers(row["buffers"]),
            self.params(row["params"]),
            self.place(row["place"]),
        )
        if is_program:
            return Program(text(row["name"]), (1, 1, 1), _grid(row), buffers=buffers, params=params, loc=loc)
        stages: list[Stage] = [HostRead(name, loc) for name in texts(row["reads"])]
        return Pipeline(text(row["name"]), buffers=buffers, params=params, stages=stages, loc=loc)

    def stage(self, row: Mapping[str, Any]) -> Stage:
        if "stages" not in row and "read" not in row:
            return self.launch(row)
        loc = self.place(row["place"])
        if "stages" in row:
            return Repeat(number(row["times"]), [self.stage(stage) for stage in row["stages"]], loc)
        return HostRead(text(row["read"]), loc)

    def launch(self, row: Mapping[str, Any]) -> Launch:
        x, y, z = map(self.extent, row["grid"])
        params = {n: v if isinstance(v, str) else (v[0], v[1]) for n, v in row["params"].items()}
        members, loc = tuple(map(self.launch, row["members"])), self.place(row["place"])
        buffers = tuple(texts(row["buffers"]))
        return Launch(text(row["program"]), (x, y, z), buffers, loc, params=params, members=members)


def _grid(row: Mapping[str, Any]) -> Dim3 | None:
    if row["grid"] is None:
        return None
    x, y, z = numbers(row["grid"])
    return x, y, z


def _definition(name: str) -> Any:
    from ..ir.lowered_ops import LOWERED_OPS
    from ..ir.ops import OPS

    return OPS.get(name) or LOWERED_OPS[name]
