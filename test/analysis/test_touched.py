"""How many elements a launch touches, beside those that an enumeration of all its invocations finds."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from support.quick import quick

from vyre_opt import parse
from vyre_opt.analysis.footprint import Footprints
from vyre_opt.analysis.touched import Touched, touched

TEXT = """vyre 1

program @p workgroup({lanes}) grid({groups}) {{
  buffer @x : u32[{length}] read binding(0)
  buffer @y : u32[1] write binding(1) live_out
  %w = workgroup_id x
  %l = local_id x
  %g = global_id x
  %zero = const 0 : u32
  %a = const {a} : u32
  %b = const {b} : u32
  %c = const {c} : u32
  %d = const {d} : u32
  %bound = const {bound} : u32
  %scale = const {scale} : u32
  for %k = {first} to {last} step {step} {{
    %wa = mul %w, %a : u32
    %lb = mul %l, %b : u32
    %kc = mul %k, %c : u32
    %s = add %wa, %lb : u32
    %t = add %s, %kc : u32
    %i = add %t, %d : u32
    %scaled = mul %{guard}, %scale : u32
    %holds = lt %scaled, %bound : u32
    if %holds {{
      %v = load @x[%i] : u32
      store %v, @y[%zero] : u32
    }}
  }}
}}
"""


@dataclass(frozen=True)
class Sample:
    """Reads x[a*w + b*l + c*k + d] for k from `first` (0, or the local id) where a value, or 3 of it, is below a bound."""

    lanes: int
    groups: int
    length: int
    a: int
    b: int
    c: int
    d: int
    bound: int
    first: str
    last: int
    step: int
    guard: str
    scale: int

    @staticmethod
    def of(seed: int) -> Sample:
        rng = random.Random(seed)
        lanes, groups = rng.choice((4, 8, 32)), rng.randint(1, 6)
        b = rng.choice((0, 1, 1, 2, 3))
        return Sample(
            lanes,
            groups,
            rng.choice((7, 100, 1000)),
            rng.choice((0, 1, b * lanes, b * lanes, b * lanes * 2, 50)),
            b,
            rng.choice((0, 0, 1, lanes, 40)),
            rng.randint(0, 9),
            rng.choice((1, 3, 20, 90, 4000)),
            rng.choice(("0", "0", "%l")),
            rng.choice((1, 2, 5, 33)),
            rng.choice((1, 2, lanes)),
            rng.choice(("g", "i", "l", "w", "s")),
            rng.choice((1, 1, 3)),
        )

    def elements(self) -> set[int]:
        return {index for index in self._indices() if index < self.length}

    def _indices(self) -> Iterator[int]:
        for w in range(self.groups):
            for line in range(self.lanes):
                for k in range(0 if self.first == "0" else line, self.last, self.step):
                    total = self.a * w + self.b * line
                    index = total + self.c * k + self.d
                    values = {"g": w * self.lanes + line, "i": index, "l": line, "w": w, "s": total}
                    if self.scale * values[self.guard] < self.bound:
                        yield index


def touched_of(text: str, name: str = "x") -> Touched:
    program = parse(text).programs["p"]
    footprints = Footprints(program)
    shape = [extent or 0 for extent in program.buffers[name].shape]
    return touched(footprints, footprints.accesses(name), shape)


@pytest.mark.parametrize("seeds", quick([range(k, k + 100) for k in range(0, 5000, 100)], keep=3), ids=str)
def test_random_accesses(seeds: range) -> None:
    exact = 0
    for seed in seeds:
        sample = Sample.of(seed)
        found, expected = touched_of(TEXT.format(**vars(sample))), len(sample.elements())
        assert found.elements >= expected, sample
        assert not found.is_exact or found.elements == expected, sample
        exact += found.is_exact
    assert exact > len(seeds) // 4


LOADS = """vyre 1

program @p workgroup(64) grid(10) {{
  buffer @x : u32[1000] read binding(0)
  buffer @y : u32[640] write binding(1) live_out
  %g = global_id x
  %one = const 1 : u32
  %two = const 2 : u32
  %hundred = const 100 : u32
  {loads}
  store %g, @y[%g] : u32
}}
"""


@pytest.mark.parametrize(
    ("loads", "elements"),
    [
        ("%a = load @x[%g] : u32", Touched(640, True)),
        # neighbours overlap: 0 to 641
        (
            "%i = add %g, %one : u32\n%j = add %g, %two : u32\n"
            + "\n".join(f"%v{k} = load @x[%{k}] : u32" for k in "gij"),
            Touched(642, True),
        ),
        # even ones below 1000: 0 to 998
        ("%i = mul %g, %two : u32\n%a = load @x[%i] : u32", Touched(500, True)),
        # all as one element
        ("%a = load @x[%hundred] : u32", Touched(1, True)),
        # nobody knows where
        ("%i = load @y[%g] : u32\n%a = load @x[%i] : u32", Touched(1000, False)),
        # under a condition on what was loaded
        (
            "%a = load @x[%g] : u32\n%h = lt %a, %one : u32\nif %h {\n%i = add %g, %hundred : u32\n%b = load @x[%i] : u32\n}",
            Touched(740, False),
        ),
    ],
)
def test_known_accesses(loads: str, elements: Touched) -> None:
    text = LOADS.format(loads=loads)
    if "@y[%g] : u32\n%a" in loads:
        text = text.replace("write binding(1)", "read_write binding(1)")
    assert touched_of(text) == elements


def test_rows_and_columns() -> None:
    """16 x 8 lanes of 3 x 4 workgroups over 30 rows of 40: 32 rows and 48 columns meet 30 x 40."""
    text = """vyre 1

program @p workgroup(16, 8) grid(3, 4) {
  buffer @x : u32[30, 40] read binding(0)
  buffer @y : u32[1] write binding(1) live_out
  %j = global_id x
  %i = global_id y
  %rows = const 30 : u32
  %columns = const 40 : u32
  %zero = const 0 : u32
  %a = lt %i, %rows : u32
  %b = lt %j, %columns : u32
  %c = and %a, %b : bool
  if %c {
    %v = load @x[%i, %j] : u32
    store %v, @y[%zero] : u32
  }
}
"""
    assert touched_of(text) == Touched(1200, True)
    assert touched_of(text.replace("%i, %j]", "%i, %i]")).elements == 30 * 30
    diagonal = touched_of(text.replace("%i, %j]", "%i, %i]"))
    assert not diagonal.is_exact
