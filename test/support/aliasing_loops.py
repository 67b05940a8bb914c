"""Random loops of one invocation whose iterations load and store elements that they may share, beside exact Python.

    sample = aliasing_loop(seed)      sample.text, sample.arrays, sample.expected

One invocation races with none, so that any two accesses may be of one element: in one iteration, in neighbouring ones,
where an index is narrower than the counter, by vectors, and in rows.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np

__all__ = ["AliasingLoop", "aliasing_loop"]

COLUMNS = 4096
MOST = {"u8": 255, "u16": 65535, "i16": 32767, "u32": (1 << 32) - 1, "u64": (1 << 64) - 1}
"""The integer types of counters and indices, each with its largest number."""
STEPS = (1, 1, 1, 2, 3, 64, 128, 256)
KINDS = ("load", "load", "store", "pair", "guarded")


@dataclass(frozen=True, slots=True)
class AliasingLoop:
    """A program over one workgroup.  `arrays`: of @y and @sum, in place; `expected`: what they are then."""

    text: str
    arrays: list[np.ndarray]
    expected: list[np.ndarray]


@dataclass(frozen=True, slots=True)
class _Access:
    """One at `counter + offset`, computed in `dtype`."""

    kind: str
    dtype: str
    offset: int

    def element(self, counter: int) -> int:
        return (counter + self.offset) % (MOST[self.dtype] + 1)


def aliasing_loop(seed: int) -> AliasingLoop:
    rng = random.Random(seed)
    counter = rng.choice([*MOST])
    step = min(rng.choice(STEPS), MOST[counter])
    lower = rng.randrange(3)
    upper = min(lower + step * rng.randrange(13) + rng.randrange(step), MOST[counter], COLUMNS - 8)
    places = [(rng.choice([counter, *MOST]), rng.choice((0, 0, 1, 2, 4))) for _ in range(rng.randint(1, 3))]
    accesses = [_Access(rng.choice(KINDS), *rng.choice(places)) for _ in range(rng.randint(2, 6))]
    is_rows = rng.random() < 0.3
    shape = (2, COLUMNS) if is_rows else (COLUMNS,)
    y = np.random.default_rng(seed).integers(0, 100, shape, np.uint32)
    numbers = range(lower, upper, step)
    text = _text(accesses, counter, numbers, is_rows)
    return AliasingLoop(text, [y, np.zeros(1, np.uint32)], _run(accesses, y, numbers))


def _text(accesses: list[_Access], counter: str, numbers: range, is_rows: bool) -> str:
    row, shape = ("%row, ", "2, ?") if is_rows else ("", "?")
    lines, total = list[str](), "%total"
    for n, access in enumerate(accesses):
        wide = "%c"
        if access.dtype != counter:
            wide = f"%w{n}"
            lines.append(f"    {wide} = cast %c : {counter} -> {access.dtype}")
        lines.append(f"    %i{n} = add {wide}, {access.offset} : {access.dtype}")
        element = f"@y[{row}%i{n}]"
        if access.kind == "load":
            lines += [f"    %v{n} = load {element}", f"    %s{n} = add {total}, %v{n}"]
            total = f"%s{n}"
        elif access.kind == "store":
            lines.append(f"    store {total}, {element}")
        elif access.kind == "pair":
            lines += [f"    %p{n} = splat {total} : vec<2 x u32>", f"    store %p{n}, {element}"]
        else:
            lines += [f"    %b{n} = and {total}, 1", f"    %odd{n} = ne %b{n}, 0 : u32", f"    if %odd{n} {{"]
            lines += [f"      store {total}, {element}", "    }"]
    body = "\n".join(lines)
    return f"""vyre 2
program @p workgroup(1) {{
  buffer @y : u32[{shape}] read_write binding(0) live_in live_out
  buffer @sum : u32[1] read_write binding(1) live_in live_out
  %row = const 1 : u32
  %end = const {numbers.stop} : {counter}
  %sum = for %c = {numbers.start} to %end step {numbers.step} iter(%total = 1 : u32) : {counter} {{
{body}
    yield {total}
  }}
  store %sum, @sum[0]
}}
"""


def _run(accesses: list[_Access], y: np.ndarray, numbers: range) -> list[np.ndarray]:
    after, total = y.copy(), 1
    row = after[1] if after.ndim == 2 else after
    for number in numbers:
        for access in accesses:
            at = access.element(number)
            if access.kind == "load":
                total = (total + int(row[at])) % (1 << 32)
            elif access.kind == "pair":
                row[at : at + 2] = total
            elif access.kind == "store" or total % 2:
                row[at] = total
    return [after, np.array([total], np.uint32)]
