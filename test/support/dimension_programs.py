"""Random pipelines over buffers of two and three dimensions.

A stage reads buffers at indices near its invocation's own, a stencil or a vector along the last dimension, and writes
its own element.  What stages hand over, and what a stage keeps in workgroup memory, is read at other indices than it
is written at.  Of those that need not be sound some have races, accesses out of bounds and reads of what nobody wrote,
which the interpreter tells apart.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

__all__ = ["RandomPipeline", "random_pipeline", "sound_pipeline"]

AXES = "xyz"
WORKGROUPS = ((8, 4, 1), (4, 4, 1), (32, 1, 1), (4, 2, 2), (16, 2, 1), (1, 1, 1))
TYPES = ("u32", "u32", "u32", "i32", "u64", "i64", "u16")
VECTOR = 4


@dataclass(frozen=True)
class RandomPipeline:
    """`inputs`: the names of the buffers that the caller passes; `shape`: of all buffers of the pipeline."""

    text: str
    inputs: tuple[str, ...]
    shape: tuple[int, ...]

    def arrays(self, seed: int) -> dict[str, np.ndarray]:
        rng = np.random.default_rng(seed)
        return {name: rng.integers(0, 1 << 32, self.shape, np.uint32) for name in self.inputs}


def random_pipeline(seed: int) -> RandomPipeline:
    """Any pipeline; @x and @y have open extents at times."""
    return _pipeline(random.Random(f"dimensions {seed}"), is_sound=False)


def sound_pipeline(seed: int) -> RandomPipeline:
    """A pipeline without a fault, whose buffers have fixed extents; those of its programs may be open."""
    return _pipeline(random.Random(f"sound dimensions {seed}"), is_sound=True)


def _pipeline(rng: random.Random, is_sound: bool) -> RandomPipeline:
    dimensions = rng.choice((2, 2, 2, 3))
    # lanes along an axis that no dimension has would write the same elements
    workgroup = rng.choice([size for size in WORKGROUPS if not is_sound or dimensions == 3 or size[2] == 1])
    shape = tuple(
        rng.randint(1, 3) * workgroup[axis] + rng.randint(0, 2) for axis in reversed(range(dimensions))
    )
    programs = [
        _Program(rng, f"p{number}", dimensions, workgroup, shape, is_sound)
        for number in range(rng.choice((2, 2, 3)))
    ]
    texts = [program.text() for program in programs]
    opened = 0.0 if is_sound else 0.5
    declared = ", ".join("?" if rng.random() < opened else str(extent) for extent in shape)
    grid = ", ".join(
        f"ceil_div(len(@x, {dimensions - 1 - axis}), {workgroup[axis]})" for axis in range(dimensions)
    )
    buffers, launches = ["x"], list[str]()
    for number, program in enumerate(programs):
        written = "y" if number == len(programs) - 1 else f"mid{number}"
        read = [buffers[-1], *(rng.choice(buffers) for _ in program.inputs[1:])]
        buffers.append(written)
        arguments = ", ".join(f"@{name}" for name in (*dict.fromkeys(read), written))
        if len(set(read)) < len(read):  # no two arguments of a launch are the same buffer
            arguments = ", ".join(f"@{name}" for name in (read[0], "z", written))
        launch = f"launch @p{number} grid({grid}) ({arguments})"
        launches.append(f"  repeat 2 {{ {launch} }}" if rng.random() < 0.1 else f"  {launch}")
    lines = ["vyre 2", *texts, "pipeline @main {", f"  buffer @x : u32[{declared}] read"]
    takes_z = any("@z" in launch for launch in launches)
    if takes_z:
        lines.append(f"  buffer @z : u32[{', '.join(map(str, shape))}] read")
    for name in buffers[1:-1]:
        inner = ", ".join(
            rng.choice((str(extent), f"len(@x, {number})")) for number, extent in enumerate(shape)
        )
        lines.append(f"  buffer @{name} : u32[{inner}]")
    lines += [f"  buffer @y : u32[{declared}] live_out", *launches, "}"]
    return RandomPipeline("\n".join(lines) + "\n", ("x", "z") if takes_z else ("x",), shape)


class _Program:
    """A stage: reads @x near its own element, hands values over in a tile at times, and writes @y."""

    def __init__(
        self,
        rng: random.Random,
        name: str,
        dimensions: int,
        workgroup: tuple[int, int, int],
        shape: tuple[int, ...],
        is_sound: bool,
    ) -> None:
        self.rng, self.name, self.dimensions, self.is_sound = rng, name, dimensions, is_sound
        self.inputs = ["x", "z"] if rng.random() < 0.25 else ["x"]
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
        if self.errs(0.1):
            guards = guards[1:]  # which leaves one dimension without a bound
        inside = guards[0]
        for guard in guards[1:]:
            inside = self.emit(f"and {inside}, {guard} : bool")
        zero = self.emit("const 0 : u32")
        value = self.emit(f"if {inside} -> u32 {{")
        outer, self.indent = self.indent, "    "
        total = zero
        for _ in range(rng.randint(1, 3)):
            loaded = self.read(rng.choice(self.inputs))
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
        place = self.place(self.ids) if self.errs(0.1) else self.ids
        self.lines.append(f"    store {value}, @y[{', '.join(place)}] : u32")
        if rng.random() < 0.3:  # what it has just stored, or an earlier store that this one overwrites
            more = self.emit(f"add {value}, {self.emit('const 7 : u32')} : u32")
            self.lines.append(f"    store {more}, @y[{', '.join(self.ids)}] : u32")
        self.lines.append("  }")
        return self.framed()

    def errs(self, share: float) -> bool:
        """Whether to do what may be a fault."""
        return not self.is_sound and self.rng.random() < share

    def read(self, buffer: str) -> str:
        """An element near the own one; or a stencil of neighbours, or a vector of the row."""
        kind = self.rng.random()
        if kind < 0.2:
            return self.stencil(buffer)
        if kind < 0.35 and self.shape[-1] >= VECTOR:
            width = self.emit(f"const {VECTOR} : u32")
            last = self.emit(
                f"min {self.ids[-1]}, {self.emit(f'sub {self.lengths[-1]}, {width} : u32')} : u32"
            )
            row = ", ".join([*self.place(self.ids)[:-1], last])
            vector = self.emit(f"load @{buffer}[{row}] : vec<{VECTOR} x u32>")
            return self.emit(f"extract {vector}[{self.rng.randrange(VECTOR)}] : vec<{VECTOR} x u32>")
        return self.emit(f"load @{buffer}[{', '.join(self.place(self.ids))}] : u32")

    def stencil(self, buffer: str) -> str:
        """The sum of the neighbours on both sides along some dimensions, clamped at the edges."""
        one, total = self.emit("const 1 : u32"), ""
        for number in sorted(self.rng.sample(range(self.dimensions), self.rng.randint(1, self.dimensions))):
            own = self.ids[number]
            last = self.emit(f"sub {self.lengths[number]}, {one} : u32")
            after = self.emit(f"min {self.emit(f'add {own}, {one} : u32')}, {last} : u32")
            for index in (self.emit(f"sub_sat {own}, {one} : u32"), after):
                place = ", ".join([*self.ids[:number], index, *self.ids[number + 1 :]])
                loaded = self.emit(f"load @{buffer}[{place}] : u32")
                total = self.emit(f"add {total}, {loaded} : u32") if total else loaded
        return total

    def framed(self) -> str:
        shapes = [
            ", ".join("?" if self.rng.random() < 0.6 else str(extent) for extent in self.shape)
            for _ in range(3)
        ]
        tile = [self.workgroup[axis] + (axis == 0) for axis in reversed(range(self.dimensions))]
        sizes = ", ".join(map(str, self.workgroup))
        head = [
            f"program @{self.name} workgroup({sizes}) {{",
            *(f"  buffer @{name} : u32[{shapes[k]}] read binding({k})" for k, name in enumerate(self.inputs)),
            f"  buffer @y : u32[{shapes[2]}] write binding({len(self.inputs)})",
        ]
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
        if (not is_own and not self.errs(0.1)) or self.rng.random() < 0.5:
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
        elif kind < 0.97 or self.is_sound:
            index = self.emit(f"rem {own}, {length} : u32")
        else:
            index = self.emit(f"add {own}, {self.emit(one)} : u32")  # beyond the last one
        dtype = rng.choice(TYPES)
        return index if dtype == "u32" else self.emit(f"cast {index} : u32 -> {dtype}")
