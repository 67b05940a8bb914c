"""Random programs with one planted fault, of which line and invocation are known: for debuggers.

Around the fault is sound code: arithmetic, branches, loops, a function.  What faults is at a random depth, for one invocation of
a grid of up to 3,000 workgroups, and in a loop in one round.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

__all__ = ["KINDS", "FaultyProgram", "faulty_program"]

KINDS = ("bounds", "assert", "trap", "race")


@dataclass(frozen=True, slots=True)
class FaultyProgram:
    """`line`: of the op at fault; `invocation`: its linear id; `count`: elements of @x and @y."""

    text: str
    kind: str
    line: int
    invocation: int
    lanes: int
    grid: int
    count: int


class _Writer:
    def __init__(self, rng: random.Random) -> None:
        self.rng, self.lines, self.indent, self.number = rng, list[str](), "", 0
        self.values = ["%v"]

    def line(self, text: str) -> int:
        """Adds a line, and gives its number in the text."""
        self.lines.append(f"{self.indent}{text}")
        return len(self.lines)

    def fresh(self) -> str:
        self.number += 1
        return f"%n{self.number}"

    def noise(self, count: int) -> None:
        """Sound ops on the values that are visible."""
        for _ in range(count):
            name, a, b = self.fresh(), self.rng.choice(self.values), self.rng.choice(self.values)
            choice = self.rng.random()
            if choice < 0.6:
                self.line(f"{name} = {self.rng.choice(('add', 'mul', 'max', 'sub'))} {a}, {b} : f32")
            elif choice < 0.75:
                self.line(f"{name} = call @helped({a}) : (f32) -> f32")
            else:
                self.line(
                    f"{name} = for %k{self.number} = 0 to {self.rng.randint(1, 4)} iter(%s{self.number} = {a} : f32) {{"
                )
                self.line(f"  %t{self.number} = add %s{self.number}, {b} : f32")
                self.line(f"  yield %t{self.number}")
                self.line("}")
            self.values.append(name)


def faulty_program(seed: int, kind: str) -> FaultyProgram:
    """The program of a seed with a fault of one of KINDS."""
    rng = random.Random(f"{seed} {kind}")
    lanes = rng.choice((32, 64, 96))
    grid = rng.randint(1, 3) if kind == "race" else rng.randint(1, 3000)
    count = lanes * grid
    invocation = rng.randrange(count)
    if kind == "race" and invocation % lanes == 0:  # it stores where the one before it has stored
        invocation += 1
    w = _Writer(rng)
    for text in (
        "vyre 2",
        "",
        "func @helped(%a : f32) -> f32 {",
        "  %b = mul %a, 0.5 : f32",
        "  yield %b",
        "}",
        "",
    ):
        w.line(text)
    w.line(f"program @faulty workgroup({lanes}) {{")
    w.indent = "  "
    for text in (
        "buffer @x : f32[?] read binding(0)",
        "buffer @y : f32[?] read_write binding(1) live_in live_out",
        "param @far : u32",
    ):
        w.line(text)
    for text in (
        "%i = global_id x",
        "%far = param @far : u32",
        "%v = load @x[%i] : f32",
        f"%is = eq %i, {invocation} : u32",
    ):
        w.line(text)
    w.noise(rng.randint(0, 6))
    if kind == "race":
        w.line("store %v, @y[%i] : f32")
    closing = []
    flag = "%is"
    for depth in range(rng.randint(0, 2)):
        if rng.random() < 0.5:
            low = rng.randint(0, 3)
            w.line(f"for %r{depth} = 0 to {low + 1 + rng.randint(0, 2)} {{")
            w.indent += "  "
            w.line(f"%round{depth} = eq %r{depth}, {low} : u32")
            w.line(f"%both{depth} = and {flag}, %round{depth} : bool")
            flag = f"%both{depth}"
        else:
            w.line(f"%in{depth} = ge %i, {rng.randint(0, invocation)} : u32")
            w.line(f"if %in{depth} {{")
            w.indent += "  "
        closing.append("}")
        w.noise(rng.randint(0, 3))
    if kind == "bounds":
        w.line(f"%at = select {flag}, %far, %i : u32")
        at = w.line(rng.choice(("%bad = load @x[%at] : f32", "store %v, @y[%at] : f32")))
    elif kind == "assert":
        w.line(f"%ok = xor {flag}, true : bool")
        at = w.line('assert %ok, "planted"')
    elif kind == "trap":
        w.line(f"if {flag} {{")
        at = w.line('  trap "planted"')
        w.line("}")
    else:
        w.line(f"if {flag} {{")
        w.line("  %before = sub %i, 1 : u32")
        at = w.line("  store 1.0, @y[%before] : f32")
        w.line("}")
    w.noise(rng.randint(0, 2))
    for brace in closing:
        w.indent = w.indent[:-2]
        w.line(brace)
        w.values = [value for value in w.values if value == "%v"]
    if kind != "race":
        w.line("store %v, @y[%i] : f32")
    w.indent = ""
    w.line("}")
    return FaultyProgram("\n".join(w.lines) + "\n", kind, at, invocation, lanes, grid, count)
