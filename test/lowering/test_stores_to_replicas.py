"""Random programs whose lanes store to cluster memory: of those that go without a fence, none stores twice to an element.

The oracle runs each lane's stores, one after the other, and knows nothing of index expressions: between two cluster barriers
no element may be stored to twice by one lane, nor by two lanes that a barrier of the workgroup orders.  Two lanes' stores that
nothing orders are a race, of which nothing is said.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from random import Random

import pytest
from support.quick import quick

from vyre_opt import parse
from vyre_opt.ir import DiagnosticError
from vyre_opt.lowering.nvptx.replicas import NeedsFence, replicas
from vyre_opt.lowering.nvptx.targets import gpu

LANES, WORKGROUPS = 32, 4
HEAD = f"""vyre 2
program @p workgroup({LANES}) grid({WORKGROUPS}) {{
  buffer @out : f32[64] write binding(1) live_out
  buffer @t : f32[8192] read_write
  buffer @u : f32[8192] read_write
  %l = local_id x
  %w = workgroup_id x
  %v = const 1.0 : f32
  %q = splat %v : vec<4 x f32>
"""


@dataclass(frozen=True)
class Store:
    """Of `width` elements from the sum of `terms`, each a value's name and its factor, and `start` on."""

    buffer: str
    start: int
    terms: Mapping[str, int]
    width: int


@dataclass(frozen=True)
class Barrier:
    is_of_cluster: bool


@dataclass(frozen=True)
class Loop:
    """`first`: None for the number of the lane."""

    counter: str
    first: int | None
    end: int
    step: int
    body: Sequence[Store | Barrier | Loop]


Step = Store | Barrier | Loop
Event = tuple[str, int] | Barrier
"""An element that is stored to, or a barrier."""


class Draw:
    """A random program: its steps, and its text in `lines`."""

    def __init__(self, seed: int) -> None:
        self.random, self.count = Random(seed), 0
        self.lines: list[str] = []
        self.steps = [*self.body([]), self.barrier(is_of_cluster=True)]

    def name(self) -> str:
        self.count += 1
        return f"%n{self.count}"

    def body(self, counters: list[str]) -> list[Step]:
        return [self.step(counters) for _ in range(self.random.randint(1, 3))]

    def step(self, counters: list[str]) -> Step:
        kind = self.random.random()
        if kind < 0.25:
            return self.barrier(is_of_cluster=kind < 0.1)
        if kind < 0.45 and len(counters) < 2:
            return self.loop(counters)
        return self.store(counters)

    def barrier(self, is_of_cluster: bool) -> Barrier:
        self.lines.append(f"barrier {'grid' if is_of_cluster else 'workgroup'}")
        return Barrier(is_of_cluster)

    def loop(self, counters: list[str]) -> Loop:
        choice, counter = self.random.choice, self.name()
        first, end, step = choice([0, 0, None]), choice([1, 2, 3, 8, 40]), choice([1, 1, 2, 8, 32])
        lower = "%l" if first is None else str(first)
        self.lines.append(f"for {counter} = {lower} to {end} step {step} {{")
        body = self.body([*counters, counter])
        self.lines.append("}")
        return Loop(counter, first, end, step, body)

    def store(self, counters: list[str]) -> Store:
        choice = self.random.choice
        width, buffer = choice([1, 1, 4]), choice("ttu")
        start = choice([0, 0, 1, 4, 32, 128, 256])
        factors = {"%w": choice([0, 1024, 1024]), "%l": choice([0, 1, 4, 4, 8])}
        factors |= {counter: choice([0, 1, 2, 8, 32, 64]) for counter in counters}
        terms = {value: width * factor for value, factor in factors.items() if factor}
        index = self.name()
        self.lines.append(f"{index} = const {start} : u32")
        for value, factor in terms.items():
            product, total = self.name(), self.name()
            self.lines += [
                f"{product} = mul {value}, {factor} : u32",
                f"{total} = add {index}, {product} : u32",
            ]
            index = total
        value, kind = ("%q", "vec<4 x f32>") if width == 4 else ("%v", "f32")
        self.lines.append(f"store {value}, @{buffer}[{index}] : {kind}")
        return Store(buffer, start, terms, width)


def events(steps: Sequence[Step], values: Mapping[str, int]) -> Iterator[Event]:
    """What a lane does; `values`: of its ids and of the counters around."""
    for step in steps:
        if isinstance(step, Barrier):
            yield step
        elif isinstance(step, Store):
            first = step.start + sum(factor * values[name] for name, factor in step.terms.items())
            yield from ((step.buffer, first + k) for k in range(step.width))
        else:
            start = values["%l"] if step.first is None else step.first
            for turn in range(start, step.end, step.step):
                yield from events(step.body, {**values, step.counter: turn})


def is_stored_to_twice(steps: Sequence[Step], workgroup: int) -> bool:
    stores: dict[tuple[int, str, int], list[tuple[int, int]]] = defaultdict(list)
    for lane in range(LANES):
        clusters = barriers = 0
        for event in events(steps, {"%w": workgroup, "%l": lane}):
            if isinstance(event, Barrier):
                barriers, clusters = barriers + 1, clusters + event.is_of_cluster
                continue
            earlier = stores[clusters, *event]
            if any(lane == other or barriers != phase for other, phase in earlier):
                return True
            earlier.append((lane, barriers))
    return False


def verdict(seed: int) -> str:
    draw = Draw(seed)
    try:
        program = parse(HEAD + "\n".join(draw.lines) + "\n}\n").programs["p"]
        replicas(program, gpu("sm_90"))
    except DiagnosticError:
        return "wrong"  # a barrier where the control flow differs
    except NeedsFence:
        return "refused"
    assert not any(is_stored_to_twice(draw.steps, w) for w in range(WORKGROUPS)), "\n".join(draw.lines)
    return "goes without a fence"


@pytest.mark.parametrize("seeds", quick([range(800), range(800, 40_000)]))
def test_nothing_is_stored_to_twice_between_barriers(seeds: range) -> None:
    verdicts = [verdict(seed) for seed in seeds]
    assert verdicts.count("goes without a fence") > len(seeds) / 3
    assert verdicts.count("refused") > len(seeds) / 10
