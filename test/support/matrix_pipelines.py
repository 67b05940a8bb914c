"""Random pipelines whose launches hand over tiles by matrices, by lanes, and by copies to workgroup memory.

Each launch reads a tile, computes with it and writes a tile, as its *places* say:

    row, column    which tile: the subgroup's own, another one's of the workgroup or of the grid, all of a loop
    shift          moved by half a tile
    by             a matrix, one that is transposed, the lanes of the subgroup, or all lanes of the workgroup
    guard          only some subgroups or workgroups
    dtype          in which the index of the row is computed, and may wrap

A reader's place is mostly that of the buffer's writer with one part changed, so that what fusion must prove is nearly true.
What goes from lanes to a matrix, or back, goes through workgroup memory, with a barrier that may lack or be too narrow, and
with copies that nobody may wait for.  Some launches add a row, or a column, that a launch before them has written.

Nothing here decides which launches are valid: one is drawn anew until it runs without a fault on the interpreter.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from vyre_opt.driver.compile import compile_module
from vyre_opt.execution import DispatchError
from vyre_opt.ir import DiagnosticError, parse
from vyre_opt.targets.ref import RefDispatcher

__all__ = ["matrix_pipeline"]

MAX_CANDIDATES = 100
_REF = RefDispatcher(max_steps=20_000)

CHOICES: dict[str, tuple[Any, ...]] = {
    "row": ("own",) * 6 + ("mirror", "pair", "of_workgroup", "first", "next", "loop"),
    "column": ("grid",) * 4 + ("zero", "mirror", "loop"),
    "shift": (0, 0, 0, 0, 8),
    "by": ("matrix",) * 5 + ("transposed", "subgroup", "subgroup", "workgroup"),
    "guard": ("",) * 5 + ("subgroup", "workgroup", "column"),
    "dtype": ("u32",) * 5 + ("i32", "u16", "u8"),
}

VECTOR_PLACES = ("own", "own", "pair", "of_workgroup", "first", "moved")
"""Which part of @v a launch adds: that of a tile's number, or one moved to that of the tile before."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a launch reads or writes its tile; CHOICES has all values."""

    row: str
    column: str
    shift: int
    by: str
    guard: str
    dtype: str

    @staticmethod
    def any(rng: random.Random) -> _Place:
        return _Place(**{name: rng.choice(values) for name, values in CHOICES.items()})

    def changed(self, rng: random.Random) -> _Place:
        """This place, with a part of it changed at times."""
        place = self
        while rng.random() < 0.5:
            name = rng.choice(["row", "row", *CHOICES])
            place = replace(place, **{name: rng.choice(sorted(set(CHOICES[name])))})
        return place

    @property
    def by_lanes(self) -> bool:
        return self.by in ("subgroup", "workgroup")


@dataclass(frozen=True, slots=True)
class _Shape:
    """Of all launches: lanes of a workgroup, workgroups along x and y, rows and columns of a tile."""

    lanes: tuple[int, int]
    grid: tuple[int, int]
    tile: tuple[int, int]

    @property
    def subgroups(self) -> int:
        return self.lanes[0] * self.lanes[1] // 32

    @property
    def tiles(self) -> int:
        """Along the rows."""
        return self.subgroups * self.grid[0]

    @property
    def buffer(self) -> tuple[int, int]:
        return self.tiles * self.tile[0] + 8, self.grid[1] * self.tile[1]

    @property
    def vector(self) -> int:
        return self.tiles * max(self.tile)


def matrix_pipeline(seed: int) -> str:
    """The pipeline of a seed, over @x and @z."""
    rng = random.Random(f"matrices {seed}")
    while True:
        pipeline = _Pipeline(rng, _any_shape(rng))
        if all(pipeline.add_launch() for _ in range(rng.choice((2, 2, 3, 4)))):
            return pipeline.text()


def _any_shape(rng: random.Random) -> _Shape:
    return _Shape(
        rng.choice([(32, 1), (64, 1), (64, 1), (128, 1), (32, 2), (16, 4), (8, 8)]),
        rng.choice(((1, 1), (2, 1), (2, 1), (2, 2), (3, 1), (1, 2))),
        rng.choice([(16, 16), (16, 16), (16, 8), (32, 16)]),
    )


class _Pipeline:
    """Grows by a launch at a time, each of which runs without a fault behind those before it."""

    def __init__(self, rng: random.Random, shape: _Shape) -> None:
        self.rng, self.shape = rng, shape
        self.has_vector = shape.grid[1] == 1 and rng.random() < 0.6
        self.grid = f"grid({shape.grid[0]}, {shape.grid[1]})"
        self.programs = [_vector_program(shape, rng)] if self.has_vector else []
        self.launches = [f"  launch @vector {self.grid} (@z, @v)"] if self.has_vector else []
        self.writers = {"x": _Place.any(rng)}
        self.outputs: list[str] = []

    def add_launch(self) -> bool:
        """Whether one of MAX_CANDIDATES launches runs behind those before it."""
        rng, number = self.rng, len(self.writers)
        before = self.programs, self.launches, self.writers
        for _ in range(MAX_CANDIDATES):
            source = rng.choice([*self.writers, *list(self.writers)[-1:] * 2])
            read, target = self.writers[source].changed(rng), f"b{number}"
            write = read.changed(rng) if rng.random() < 0.3 else _Place.any(rng)
            vector = rng.choice(VECTOR_PLACES) if self.has_vector and rng.random() < 0.7 else ""
            program = _Launch(rng, f"p{number}", self.shape, read, write, vector).text()
            arguments = ", ".join(f"@{name}" for name in (source, target, *(["v"] if vector else [])))
            self.programs = [*before[0], program]
            self.launches = [*before[1], f"  launch @p{number} {self.grid} ({arguments})"]
            self.writers = {**before[2], target: write}
            if self.is_valid():
                self.outputs += [target] if rng.random() < 0.2 else []
                return True
        return False

    def is_valid(self) -> bool:
        inputs = {"x": np.zeros(self.shape.buffer, np.int32), "z": np.zeros(self.shape.vector, np.int32)}
        try:
            compile_module(parse(self.text()), "main", _REF, {})(inputs)
        except (DispatchError, DiagnosticError):
            return False
        return True

    def text(self) -> str:
        extents = ", ".join(map(str, self.shape.buffer))
        _, *written = self.writers
        declared = [f"  buffer @x : i32[{extents}] read", f"  buffer @z : i32[{self.shape.vector}] read"]
        if self.has_vector:
            declared.append(f"  buffer @v : i32[{self.shape.vector}]")
        for name in written:
            flag = " live_out" if name in (*self.outputs, written[-1]) else ""
            declared.append(f"  buffer @{name} : i32[{extents}]{flag}")
        return "\n".join(["vyre 2", *self.programs, "pipeline @main {", *declared, *self.launches, "}", ""])


def _vector_program(shape: _Shape, rng: random.Random) -> str:
    """Each subgroup writes as many elements of a vector as its tile has rows or columns, or each lane its own."""
    body = _Body()
    ids = body.ids(shape)
    span = body.emit(f"const {max(shape.tile)} : u32")
    start = body.emit(f"mul {ids['own']}, {span} : u32")
    inside = body.emit(f"lt {ids['lane']}, {span} : u32")
    body.open(f"if {inside}")
    index = body.emit(f"add {start}, {ids['lane']} : u32")
    value = body.emit(f"load @z[{index}] : i32")
    body.line(f"store {value}, @v[{index}] : i32")
    body.close()
    open_size = rng.choice(("?", str(shape.vector)))
    return "\n".join(
        [
            f"program @vector workgroup({shape.lanes[0]}, {shape.lanes[1]}) {{",
            f"  buffer @z : i32[{open_size}] read binding(0)",
            f"  buffer @v : i32[{open_size}] write binding(1)",
            *body.lines,
            "}",
        ]
    )


class _Body:
    """Lines of a program, with names for their values."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.count = 0
        self.indent = "  "

    def line(self, text: str) -> None:
        self.lines.append(self.indent + text)

    def emit(self, op: str) -> str:
        self.count += 1
        self.line(f"%v{self.count} = {op}")
        return f"%v{self.count}"

    def open(self, head: str) -> None:
        self.line(head + " {")
        self.indent += "  "

    def close(self) -> None:
        self.indent = self.indent[:-2]
        self.line("}")

    def const(self, number: int) -> str:
        return self.emit(f"const {number} : u32")

    def binary(self, name: str, one: str, other: str | int) -> str:
        return self.emit(f"{name} {one}, {self.const(other) if isinstance(other, int) else other} : u32")

    def ids(self, shape: _Shape) -> dict[str, str]:
        """The numbers of the workgroup, of the subgroup and of its tile, and of the lane in the subgroup."""
        ids = {
            "w": self.emit("workgroup_id x"),
            "v": self.emit("workgroup_id y"),
            "s": self.emit("subgroup_id"),
            "lane": self.emit("lane_id"),
        }
        ids["own"] = self.binary("add", self.binary("mul", ids["w"], shape.subgroups), ids["s"])
        return ids


class _Launch(_Body):
    """A program that reads a tile of @from, and writes one of @to.  `vector`: which part of @v it adds; "" for none."""

    def __init__(
        self, rng: random.Random, name: str, shape: _Shape, read: _Place, write: _Place, vector: str
    ) -> None:
        super().__init__()
        self.rng, self.name, self.shape, self.read, self.write = rng, name, shape, read, write
        self.vector = vector
        self.tiles: list[str] = []
        self.type = f"matrix<{shape.tile[0]}x{shape.tile[1]}xi32, acc>"
        self.turn = ""

    def text(self) -> str:
        self.numbers = self.ids(self.shape)
        guard = self.read.guard if self.rng.random() < 0.8 else ""
        if guard:
            self.open(f"if {self.condition(guard)}")
        extents = [("row", self.shape.tiles), ("column", self.shape.grid[1])]
        ends = [n for part, n in extents if "loop" in (getattr(p, part) for p in (self.read, self.write))]
        if ends:
            self.open(f"for %turn = 0 to {max(ends)} step 1")
            self.turn = "%turn"
        value = self.loaded()
        value = self.emit(f"add {value}, {value} : {self.type}")
        if self.vector:
            start = self.binary("mul", self.number(self.vector), max(self.shape.tile))
            if self.vector == "moved":
                start = self.binary("sub_sat", start, 8)
            layout = self.rng.choice(("", "<column_major>"))
            more = self.emit(f"matrix_load{layout} @v[{start}] : {self.type}")
            value = self.emit(f"add {value}, {more} : {self.type}")
        self.stored(value)
        if ends:
            if self.tiles and self.rng.random() < 0.8:
                self.line("barrier workgroup")
            self.close()
        if guard:
            self.close()
        sizes = [", ".join("?" for _ in range(2)), ", ".join(map(str, self.shape.buffer))]
        return "\n".join(
            [
                f"program @{self.name} workgroup({self.shape.lanes[0]}, {self.shape.lanes[1]}) {{",
                f"  buffer @from : i32[{self.rng.choice(sizes)}] read binding(0)",
                f"  buffer @to : i32[{self.rng.choice(sizes)}] write binding(1)",
                *([f"  buffer @v : i32[{self.shape.vector}] read binding(2)"] if self.vector else []),
                *self.tiles,
                *self.lines,
                "}",
            ]
        )

    # --- where

    def condition(self, guard: str) -> str:
        value = {"subgroup": self.numbers["s"], "workgroup": self.numbers["w"], "column": self.numbers["v"]}[
            guard
        ]
        return self.emit(f"{self.rng.choice(('eq', 'ge'))} {value}, {self.const(0)} : u32")

    def number(self, row: str) -> str:
        """Of a tile along the rows."""
        own, last = self.numbers["own"], self.shape.tiles - 1
        if row in ("own", "moved"):
            return own
        if row == "mirror":
            return self.binary("sub", self.const(last), own)
        if row == "pair":
            return self.binary("min", self.binary("xor", own, 1), last)
        if row == "of_workgroup":  # as many from the last subgroup as the own one is from the first
            mirrored = self.binary("sub", self.const(self.shape.subgroups - 1), self.numbers["s"])
            return self.binary("add", self.binary("mul", self.numbers["w"], self.shape.subgroups), mirrored)
        if row == "next":
            return self.binary("min", self.binary("add", own, 1), last)
        if row == "loop" and self.turn:
            return self.turn
        return self.const(0)

    def start(self, place: _Place) -> tuple[str, str]:
        """The first element of the tile."""
        rows, columns = self.shape.tile
        of_lanes = place.by == "workgroup"
        number = (
            self.binary("mul", self.numbers["w"], self.shape.subgroups)
            if of_lanes and place.row != "loop"
            else self.number(place.row)
        )
        row = self.binary("mul", number, rows)
        if place.shift:
            row = self.binary("add", row, place.shift)
        if place.dtype != "u32":
            row = self.emit(f"cast {row} : u32 -> {place.dtype}")
        column = self.numbers["v"]
        if place.column == "mirror":
            column = self.binary("sub", self.const(self.shape.grid[1] - 1), column)
        elif place.column == "zero":
            column = self.const(0)
        elif place.column == "loop" and self.turn:
            column = self.binary("min", self.turn, self.shape.grid[1] - 1)
        return row, self.binary("mul", column, columns)

    # --- what

    def loaded(self) -> str:
        row, column = self.start(self.read)
        if not self.read.by_lanes:
            return self.emit(f"matrix_load{self.layout(self.read)} @from[{row}, {column}] : {self.type}")
        own = self.tile()
        copies = self.rng.random() < 0.5
        with_copies = "copy_async" if copies else "store"
        self.elements(
            self.read, f"@from[{row}, {column}]", lambda at, place: self.move(with_copies, own, at, place)
        )
        if copies and self.rng.random() < 0.9:
            self.line(self.rng.choice(("copy_wait", "copy_wait", "copy_wait 1")))
        self.barrier()
        tile_row = self.binary(
            "mul", self.rng.choice((self.numbers["s"],) * 5 + (self.const(0),)), self.shape.tile[0]
        )
        return self.emit(f"matrix_load @{own}[{tile_row}, {self.const(0)}] : {self.type}")

    def stored(self, value: str) -> None:
        row, column = self.start(self.write)
        if not self.write.by_lanes:
            self.line(f"matrix_store{self.layout(self.write)} {value}, @to[{row}, {column}] : {self.type}")
            return
        own = self.tile()
        tile_row = self.binary("mul", self.numbers["s"], self.shape.tile[0])
        self.line(f"matrix_store {value}, @{own}[{tile_row}, {self.const(0)}] : {self.type}")
        self.barrier()
        self.elements(self.write, f"@to[{row}, {column}]", lambda at, place: self.move_out(own, at, place))

    def layout(self, place: _Place) -> str:
        return "<column_major>" if place.by == "transposed" and len(set(self.shape.tile)) == 1 else ""

    def tile(self) -> str:
        name = f"t{len(self.tiles)}"
        self.tiles.append(
            f"  buffer @{name} : i32[{self.shape.tile[0] * self.shape.subgroups}, {self.shape.tile[1]}] workgroup"
        )
        return name

    def barrier(self) -> None:
        scope = self.rng.choice(("workgroup",) * 6 + ("subgroup",) * 3 + ("",))
        if scope:
            self.line(f"barrier {scope}")

    def elements(self, place: _Place, start: str, move: Any) -> None:
        """Each lane moves some elements of its subgroup's tile, or of all of its workgroup's: `move` is given the element in
        the buffer and in workgroup memory."""
        rows, columns = self.shape.tile
        buffer, _, indices = start.rstrip("]").partition("[")
        row, column = indices.split(", ")
        lane, lanes, all_rows = self.numbers["lane"], 32, rows
        if place.by == "workgroup":
            lane = self.binary("add", self.binary("mul", self.numbers["s"], 32), lane)
            lanes, all_rows = 32 * self.shape.subgroups, rows * self.shape.subgroups
        self.open(f"for %i{self.count} = 0 to {all_rows * columns // lanes} step 1")
        counter = self.lines[-1].split()[1]
        number = self.binary("add", self.binary("mul", counter, lanes), lane)
        r, c = self.binary("div", number, columns), self.binary("rem", number, columns)
        own_row = r
        if place.by == "subgroup":
            own_row = self.binary("add", r, self.binary("mul", self.numbers["s"], rows))
        if place.dtype != "u32":
            r = self.emit(f"cast {r} : u32 -> {place.dtype}")
        at = f"{buffer}[{self.emit(f'add {row}, {r} : {place.dtype}')}, {self.binary('add', column, c)}]"
        move(at, f"[{own_row}, {c}]")
        self.close()

    def move(self, by: str, tile: str, at: str, place: str) -> None:
        value = self.emit(f"load {at} : i32")
        self.line(f"{by} {value}, @{tile}{place} : i32")

    def move_out(self, tile: str, at: str, place: str) -> None:
        value = self.emit(f"load @{tile}{place} : i32")
        self.line(f"store {value}, {at} : i32")
