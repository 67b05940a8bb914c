"""Random programs whose invocations do not meet: branches that some take, loops of equal and other lengths, atomics.

    sample = neighbour_program(seed)      sample.text, sample.grid, sample.arrays

Written as text by rules of the language alone.  Each invocation stores to elements of its own, and reads only what
nobody writes, so that there is no race.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

__all__ = ["NARROW", "NeighbourProgram", "neighbour_pipeline", "neighbour_program"]

BINARY = ("add", "sub", "mul", "min", "max", "and", "or", "xor", "div", "rem", "shl", "shr")
COMPARISONS = ("lt", "le", "eq", "ne", "gt", "ge")
WORKGROUPS = ("8", "32", "16, 2", "4, 3, 2")
NARROW = ("1", "2", "4", "8", "16")
"""Workgroups of less than a subgroup."""
FACTORS = (2, 4)


@dataclass(frozen=True, slots=True)
class NeighbourProgram:
    text: str
    grid: tuple[int, int, int]
    arrays: list[np.ndarray]


class _Text:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines, self.count = rng, list[str](), 0

    def name(self) -> str:
        self.count += 1
        return f"%v{self.count}"

    def line(self, depth: int, text: str) -> None:
        self.lines.append("  " * depth + text)

    def value(self, depth: int, scope: list[str]) -> str:
        """A new u32 of some in scope."""
        rng, result = self.rng, self.name()
        kind = rng.random()
        if kind < 0.2:
            index = self.name()
            self.line(depth, f"{index} = rem {rng.choice(scope)}, 64 : u32")
            self.line(depth, f"{result} = load @x[{index}] : u32")
        elif kind < 0.3:
            self.line(depth, f"{result} = load @x[%i] : u32")
        elif kind < 0.4:
            condition = self.condition(depth, scope)
            self.line(depth, f"{result} = select {condition}, {rng.choice(scope)}, {rng.choice(scope)} : u32")
        else:
            other = rng.choice([*scope, str(rng.randrange(9))])
            self.line(depth, f"{result} = {rng.choice(BINARY)} {rng.choice(scope)}, {other} : u32")
        return result

    def condition(self, depth: int, scope: list[str]) -> str:
        result = self.name()
        other = self.rng.choice([*scope, str(self.rng.randrange(9))])
        self.line(depth, f"{result} = {self.rng.choice(COMPARISONS)} {self.rng.choice(scope)}, {other} : u32")
        return result

    def block(self, depth: int, outer: list[str], length: int) -> list[str]:
        """Some statements; gives the values in scope at their end."""
        scope = list(outer)
        for _ in range(length):
            self.statement(depth, scope)
        return scope

    def statement(self, depth: int, scope: list[str]) -> None:
        rng = self.rng
        kind = rng.random() if depth < 4 else 0.0
        if kind < 0.5:
            scope.append(self.value(depth, scope))
        elif kind < 0.6:
            self.line(depth, f"store {rng.choice(scope)}, @{rng.choice('yz')}[%i] : u32")
        elif kind < 0.68:
            cell, old = self.name(), self.name()
            op = rng.choice(("atomic_add", "atomic_max", "atomic_xor"))
            self.line(depth, f"{cell} = rem {rng.choice(scope)}, 8 : u32")
            self.line(depth, f"{old} = {op} @bins_{op[7:]}[{cell}], {rng.choice(scope)} : u32")
        elif kind < 0.86:
            self.branch(depth, scope)
        else:
            self.loop(depth, scope)

    def branch(self, depth: int, scope: list[str]) -> None:
        condition = self.condition(depth, scope)
        results = [self.name() for _ in range(self.rng.randrange(3))]
        types = f" -> ({', '.join('u32' for _ in results)})" if results else ""
        self.line(depth, f"{', '.join(results)}{' = ' if results else ''}if {condition}{types} {{")
        for last in (False, True):
            inner = self.block(depth + 1, scope, self.rng.randrange(1, 4))
            if results:
                self.line(depth + 1, f"yield {', '.join(self.rng.choice(inner) for _ in results)}")
            self.line(depth, "}" if last else "} else {")
            if not last and not results and self.rng.random() < 0.5:
                self.lines[-1] = "  " * depth + "}"
                break
        scope += results

    def loop(self, depth: int, scope: list[str]) -> None:
        rng, counter = self.rng, self.name()
        results = [self.name() for _ in range(rng.randrange(3))]
        upper = str(rng.randrange(1, 4))
        if rng.random() < 0.5:
            upper = self.name()
            self.line(depth, f"{upper} = rem {rng.choice(scope)}, 4 : u32")
        carried = [self.name() for _ in results]
        begins = ", ".join(f"{name} = {rng.choice(scope)} : u32" for name in carried)
        head = f"{', '.join(results)}{' = ' if results else ''}for {counter} = 0 to {upper} step 1"
        self.line(depth, f"{head}{f' iter({begins})' if results else ''} {{")
        inner = self.block(depth + 1, [*scope, counter, *carried], rng.randrange(1, 4))
        if results:
            self.line(depth + 1, f"yield {', '.join(rng.choice(inner) for _ in results)}")
        self.line(depth, "}")
        scope += results


def neighbour_program(seed: int, workgroups: Sequence[str] = WORKGROUPS) -> NeighbourProgram:
    rng = random.Random(seed)
    workgroup, text = rng.choice(workgroups), _Text(rng)
    grid = (rng.randrange(1, 6), rng.randrange(1, 3), 1)
    extents = [*map(int, workgroup.split(", ")), 1, 1][:3]
    width, height, depth = (a * b for a, b in zip(extents, grid, strict=True))
    count = width * height * depth
    length = count - rng.randrange(0, width)
    for axis in "xyz":
        text.line(1, f"%g{axis} = global_id {axis}")
    text.line(1, f"%row = mul %gz, {height}\n  %line = add %row, %gy\n  %begin = mul %line, {width}")
    text.line(1, "%i = add %begin, %gx\n  %l = local_id x\n  %w = workgroup_id x\n  %s = global_size x")
    text.line(1, "%n = len @y\n  %m = num_workgroups x\n  %inside = lt %i, %n\n  if %inside {")
    scope = text.block(2, ["%i", "%gx", "%gy", "%l", "%w", "%s", "%m", "%n"], rng.randrange(4, 12))
    text.line(2, f"store {scope[-1]}, @y[%i] : u32\n  }}")
    bins = "".join(
        f"  buffer @bins_{name} : u32[8] read_write binding({k}) live_in live_out\n"
        for k, name in enumerate(("add", "max", "xor"), 3)
    )
    declared = (
        f"  buffer @x : u32[{max(64, count)}] read binding(0)\n"
        "  buffer @y : u32[?] read_write binding(1) live_in live_out\n"
        f"  buffer @z : u32[{count}] read_write binding(2) live_in live_out\n{bins}"
    )
    body = "\n".join(text.lines)
    values = np.random.default_rng(seed)
    shapes = (max(64, count), length, count, 8, 8, 8)
    arrays = [values.integers(0, 1 << 32, n, np.uint32) >> np.uint32(values.integers(0, 32)) for n in shapes]
    return NeighbourProgram(
        f"vyre 2\nprogram @p workgroup({workgroup}) {{\n{declared}{body}\n}}\n", grid, arrays
    )


def neighbour_pipeline(seed: int) -> str:
    """A text with one launch of the program of a seed.  Of every third, the grid depends on a length that is open."""
    program = neighbour_program(seed)
    width, height, _ = program.grid
    lengths: list[int | str] = [array.size for array in program.arrays]
    columns = str(width)
    if seed % 3 == 0:
        lengths[1], columns = "?", "ceil_div(len(@y), 7)"
    names = ("x", "y", "z", "bins_add", "bins_max", "bins_xor")
    buffers = "".join(
        f"  buffer @{name} : u32[{length}] {'read' if name == 'x' else 'live_in live_out'}\n"
        for name, length in zip(names, lengths, strict=True)
    )
    passed = ", ".join(f"@{name}" for name in names)
    return f"{program.text}pipeline @main {{\n{buffers}  launch @p grid({columns}, {height}) ({passed})\n}}\n"
