"""Random pipelines over buffers of two and three dimensions.

A stage reads buffers at indices near its invocation's own and writes its own element, or one that is not: some texts
have races, accesses out of bounds and reads of what nobody wrote, which the interpreter tells apart.  What two stages
hand over, and what a stage keeps in workgroup memory, is read at other indices than it is written at.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["RandomPipeline", "random_pipeline"]

AXES = "xyz"
WORKGROUPS = ((8, 4, 1), (4, 4, 1), (32, 1, 1), (4, 2, 2), (16, 2, 1), (1, 1, 1))
TYPES = ("u32", "u32", "u32", "i32", "u64", "i64", "u16")


@dataclass(frozen=True)
class RandomPipeline:
    """`shape`: of @x, the only input; all buffers of the pipeline have it."""

    text: str
    shape: tuple[int, ...]


def random_pipeline(seed: int) -> RandomPipeline:
    rng = random.Random(f"dimensions {seed}")
    dimensions = rng.choice((2, 2, 2, 3))
    workgroup = rng.choice(WORKGROUPS)
    shape = tuple(
        rng.randint(1, 3) * workgroup[axis] + rng.randint(0, 2) for axis in reversed(range(dimensions))
    )
    programs = [_Program(rng, f"p{number}", dimensions, workgroup, shape).text() for number in range(2)]
    declared = ", ".join("?" if rng.random() < 0.5 else str(extent) for extent in shape)
    inner = ", ".join(rng.choice((str(extent), f"len(@x, {number})")) for number, extent in enumerate(shape))
    grid = ", ".join(
        f"ceil_div(len(@x, {dimensions - 1 - axis}), {workgroup[axis]})" for axis in range(dimensions)
    )
    lines = [
        "vyre 2",
        *programs,
        "pipeline @main {",
        f"  buffer @x : u32[{declared}] read",
        f"  buffer @mid : u32[{inner}]",
        f"  buffer @y : u32[{declared}] live_out",
        f"  launch @p0 grid({grid}) (@x, @mid)",
        f"  launch @p1 grid({grid}) (@mid, @y)",
        "}",
    ]
    return RandomPipeline("\n".join(lines) + "\n", shape)


class _Program:
    """A stage: reads @x near its own element, hands values over in a tile at times, and writes @y."""

    def __init__(
        self,
        rng: random.Random,
        name: str,
        dimensions: int,
        workgroup: tuple[int, int, int],
        shape: tuple[int, ...],
    ) -> None:
        self.rng, self.name, self.dimensions = rng, name, dimensions
        self.workgroup, self.shape = workgroup, shape
        self.lines: list[str] = []
        self.count = 0
        self.indent = "  "
        self.has_tile = rng.random() < 0.5

    def emit(self, op: str) -> str:
        self.count += 1
        self.lines.append(f"{self.indent}%v{self.count} = {op}")
        return f"%v{self.count}"

    def text(self) -> str:
        rng = self.rng
        axes = [AXES[axis] for axis in reversed(range(self.dimensions))]
        self.ids = [self.emit(f"global_id {axis}") for axis in axes]
        self.locals = [self.emit(f"local_id {axis}") for axis in axes]
        self.lengths = [self.emit(f"len @x, {number}") for number in range(self.dimensions)]
        guards = [self.emit(f"lt {i}, {n} : u32") for i, n in zip(self.ids, self.lengths, strict=True)]
        if rng.random() < 0.1:
            guards = guards[1:]  # which leaves one dimension without a bound
        inside = guards[0]
        for guard in guards[1:]:
            inside = self.emit(f"and {inside}, {guard} : bool")
        zero = self.emit("const 0 : u32")
        value = self.emit(f"if {inside} -> u32 {{")
        outer, self.indent = self.indent, "    "
        total = zero
        for _ in range(rng.randint(1, 3)):
            loaded = self.emit(f"load @x[{', '.join(self.place(self.ids))}] : u32")
            total = self.emit(f"{rng.choice(('add', 'xor', 'max'))} {total}, {loaded} : u32")
            if rng.random() < 0.3:
                again = self.emit(f"load @x[{', '.join(self.ids)}] : u32")
                total = self.emit(f"add {total}, {again} : u32")
        self.lines.append(f"    yield {total}")
        self.indent = outer
        self.lines += ["  } else {", f"    yield {zero}", "  }"]
        if self.has_tile:
            value = self.through_tile(value)
        self.lines.append(f"  if {inside} {{")
        self.indent = "    "
        place = self.place(self.ids) if rng.random() < 0.1 else self.ids
        self.lines.append(f"    store {value}, @y[{', '.join(place)}] : u32")
        if rng.random() < 0.3:  # what it has just stored, or an earlier store that this one overwrites
            more = self.emit(f"add {value}, {self.emit('const 7 : u32')} : u32")
            self.lines.append(f"    store {more}, @y[{', '.join(self.ids)}] : u32")
        self.lines.append("  }")
        return self.framed()

    def framed(self) -> str:
        shapes = [
            ", ".join("?" if self.rng.random() < 0.6 else str(extent) for extent in self.shape)
            for _ in range(2)
        ]
        tile = [self.workgroup[axis] + (axis == 0) for axis in reversed(range(self.dimensions))]
        sizes = ", ".join(map(str, self.workgroup))
        head = [
            f"program @{self.name} workgroup({sizes}) {{",
            f"  buffer @x : u32[{shapes[0]}] read binding(0)",
        ]
        head.append(f"  buffer @y : u32[{shapes[1]}] write binding(1)")
        if self.has_tile:
            head.append(f"  buffer @t : u32[{', '.join(map(str, tile))}] workgroup")
        return "\n".join([*head, *self.lines, "}"])

    def through_tile(self, value: str) -> str:
        """A value that another lane of the workgroup has stored, or the lane itself."""
        self.lines.append(f"  store {value}, @t[{', '.join(self.locals)}] : u32")
        mirrored = [
            self.emit(f"sub {self.emit(f'const {self.workgroup[axis] - 1} : u32')}, {own} : u32")
            if self.rng.random() < 0.5
            else own
            for axis, own in zip(reversed(range(self.dimensions)), self.locals, strict=True)
        ]
        is_own = mirrored == self.locals
        if (not is_own and self.rng.random() < 0.9) or self.rng.random() < 0.5:
            self.lines.append("  barrier workgroup")
        if self.rng.random() < 0.2:
            self.lines.append("  barrier workgroup")
        return self.emit(f"load @t[{', '.join(mirrored)}] : u32")

    def place(self, ids: list[str]) -> list[str]:
        """Indices near the own ones, most of them within the lengths."""
        return [self.near(own, self.lengths[number]) for number, own in enumerate(ids)]

    def near(self, own: str, length: str) -> str:
        rng, one = self.rng, "const 1 : u32"
        kind = rng.random()
        if kind < 0.4:
            index = own
        elif kind < 0.6:  # the neighbour, clamped at the edge
            last = self.emit(f"sub {length}, {self.emit(one)} : u32")
            index = self.emit(f"min {self.emit(f'add {own}, {self.emit(one)} : u32')}, {last} : u32")
        elif kind < 0.75:
            index = self.emit(f"sub_sat {own}, {self.emit(one)} : u32")
        elif kind < 0.85:  # from the other end
            last = self.emit(f"sub {length}, {self.emit(one)} : u32")
            index = self.emit(f"sub {last}, {own} : u32")
        elif kind < 0.97:
            index = self.emit(f"rem {own}, {length} : u32")
        else:
            index = self.emit(f"add {own}, {self.emit(one)} : u32")  # beyond the last one
        dtype = rng.choice(TYPES)
        return index if dtype == "u32" else self.emit(f"cast {index} : u32 -> {dtype}")
