"""The race detector against a brute-force definition, on random programs.

A program is a list of steps: an access of @b by each lane of some workgroups or
subgroups, at a random element, or a barrier of some scope.  The oracle compares every
pair of accesses.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.quick import quick

LANES, GROUPS, ELEMENTS = 64, 3, 40
TOTAL = LANES * GROUPS


@dataclass
class Step:
    kind: str  # read, write, atomic, barrier
    scope: str = ""
    places: list[int] | None = None  # by invocation; ELEMENTS or more: no access


def random_steps(rng: random.Random) -> list[Step]:
    steps = []
    for _ in range(rng.randint(3, 9)):
        if rng.random() < 0.45:
            steps.append(Step("barrier", rng.choice(("subgroup", "workgroup", "workgroup", "grid"))))
            continue
        kind = rng.choice(("read", "read", "write", "atomic"))
        places = [ELEMENTS] * TOTAL
        for _ in range(rng.choice((1, 2, 3, 40))):  # few accesses, or a race is all but sure
            base = rng.choice((0, 32, 64, 100, 128))
            places[base + rng.randrange(4)] = rng.randrange(rng.choice((2, ELEMENTS)))
        steps.append(Step(kind, places=places))
    return steps


def ordered(steps: list[Step], first: int, a: int, second: int, b: int) -> bool:
    """Whether invocation a's access in step `first` comes before b's in step `second` on every schedule."""
    if a == b:
        return first != second
    between = {s.scope for s in steps[first:second] if s.kind == "barrier"}
    if "grid" in between:
        return True
    if a // LANES != b // LANES:
        return False
    return "workgroup" in between or (a // 32 == b // 32 and "subgroup" in between)


def first_racing_step(steps: list[Step]) -> int | None:
    """The step at which an interpreter in program order meets the first race."""
    accesses: list[tuple[int, int, int, str]] = []
    for number, step in enumerate(steps):
        if step.places is None:
            continue
        accesses += [(number, who, at, step.kind) for who, at in enumerate(step.places) if at < ELEMENTS]
        for now, b, at, kind in (x for x in accesses if x[0] == number):
            for before, a, other_at, other_kind in accesses:
                kinds = {kind, other_kind}
                conflict = "write" in kinds or kinds == {"read", "atomic"}
                if at == other_at and conflict and a != b and not ordered(steps, before, a, now, b):
                    return number
    return None


def program_text(steps: list[Step]) -> str:
    """Step number n stands on line n + 10: one line each."""
    lines = []
    for n, step in enumerate(steps):
        if step.kind == "barrier":
            lines.append(f"barrier {step.scope}")
            continue
        access = {
            "read": f"%v{n} = load @b[%i{n}] : u32",
            "write": f"store %g, @b[%i{n}] : u32",
            "atomic": f"%v{n} = atomic_add<relaxed> @b[%i{n}], %g : u32",
        }[step.kind]
        lines.append(
            f"%o{n} = const {n * TOTAL} : u32 %j{n} = add %o{n}, %g : u32 %i{n} = load @places[%j{n}] : u32 "
            f"%p{n} = lt %i{n}, %n : u32 if %p{n} {{ {access} }}"
        )
    return "\n".join([
        f"program @p workgroup({LANES}) {{",
        "buffer @places : u32[?] read binding(0)",
        f"buffer @b : u32[{ELEMENTS}] read_write binding(1) live_in live_out",
        "%g = global_id x",
        f"%n = const {ELEMENTS} : u32",
        "//", "//", "//",
        *lines,
        "}",
    ])  # fmt: skip


@pytest.mark.parametrize("seeds", quick([range(40), range(40, 2000)]))
def test_same_races_as_by_definition(ref: Any, faulty: Any, seeds: range) -> None:
    """Neither a race missed nor an orderly program blamed; and found at the first access that races."""

    def check(seed: int) -> None:
        steps = random_steps(random.Random(seed))
        places = np.array([p for s in steps for p in (s.places or [ELEMENTS] * TOTAL)], np.uint32)
        expected = first_racing_step(steps)
        inputs = [places, np.zeros(ELEMENTS, np.uint32)]
        if expected is None:
            ref(program_text(steps), inputs, GROUPS)
        else:
            faulty("race", expected + 10, program_text(steps), inputs, GROUPS)

    each(seeds, check)
