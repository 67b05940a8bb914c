"""Random programs with cluster memory: where a buffer counts as rows of which a workgroup loads its own only, that is so.

The oracle goes through all lanes of all workgroups and takes the elements of each access from the numbers in the text.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from random import Random

import pytest
from support.quick import quick

from vyre_opt import parse
from vyre_opt.analysis.bounds import BoundsProofs
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.owned_rows import owned_row
from vyre_opt.lowering.nvptx.targets import gpu

LANES, WORKGROUPS, TURNS = 32, 4, 3
HEAD = """vyre 2
program @p workgroup({lanes}) {size} {{
  buffer @out : f32[64] write binding(0) live_out
  buffer @t : f32[{count}] {kind}
  %l = local_id x
  %g = workgroup_id x
  %w = rem %g, {workgroups} : u32
  %b = lt %w, {last} : u32
  %v = const 1.0 : f32
  %q = splat %v : vec<4 x f32>
  for %i = 0 to {turns} step 1 {{
"""


@dataclass(frozen=True)
class Access:
    """Of `width` elements from `start` and a multiple of each of these on: the workgroup's number, the lane's, the turn's, and
    their sum modulo the number of workgroups.  `leaves_last`: the last workgroup does not do it."""

    is_load: bool
    leaves_last: bool
    width: int
    start: int
    factors: tuple[int, int, int, int]

    def first(self, workgroup: int, lane: int, turn: int) -> int:
        values = workgroup, lane, turn, (workgroup + lane + turn) % WORKGROUPS
        return self.start + sum(f * v for f, v in zip(self.factors, values, strict=True))

    def lines(self, number: int) -> Iterator[str]:
        index = f"%s{number}"
        yield f"{index} = const {self.start} : u32"
        for value, factor in zip(("w", "l", "i", "o"), self.factors, strict=True):
            if factor:
                yield f"%p{number}{value} = mul %{value}, {factor} : u32"
                yield f"%a{number}{value} = add {index}, %p{number}{value} : u32"
                index = f"%a{number}{value}"
        kind = "vec<4 x f32>" if self.width == 4 else "f32"
        if self.leaves_last:
            yield "if %b {"
        if self.is_load:
            yield f"%x{number} = load @t[{index}] : {kind}"
        else:
            yield f"store {'%q' if self.width == 4 else '%v'}, @t[{index}] : {kind}"
        if self.leaves_last:
            yield "}"


def _drawn(random: Random, is_load: bool, row: int) -> Access:
    width = random.choice((1, 4))
    if is_load:
        of_workgroup, of_owner = random.choice((*[row] * 7, 0, row // 2)), 0
    else:
        of_workgroup, of_owner = random.choice(((0, row), (16, row), (row, 0), (row + 16, 0), (0, row // 2)))
    of_lane, of_turn = random.choice((0, 1, 1, width, 8)), random.choice((0, 0, 0, 4, 32, row))
    start = random.choice((0, 0, 0, 1, 4, 32, row // 2, row - 1, row))
    return Access(is_load, random.random() < 0.5, width, start, (of_workgroup, of_lane, of_turn, of_owner))


def _is_owned(seed: int) -> bool:
    random = Random(seed)
    row = random.choice((32, 32, 64, 128, 320))
    accesses = [_drawn(random, is_load, row) for is_load in (True, random.random() < 0.5)]
    is_cluster = random.random() < 0.5
    head = HEAD.format(
        lanes=LANES,
        size=f"cluster({WORKGROUPS})" if is_cluster else f"grid({WORKGROUPS})",
        kind="cluster" if is_cluster else "read_write",
        count=row * WORKGROUPS,
        workgroups=WORKGROUPS,
        last=WORKGROUPS - 1,
        turns=TURNS,
    )
    sums = ["%y = add %w, %l : u32", "%z = add %y, %i : u32", f"%o = rem %z, {WORKGROUPS} : u32"]
    lines = [*sums, *(line for number, access in enumerate(accesses) for line in access.lines(number))]
    program = parse("\n".join([head, *lines, "}", "}"])).programs["p"]
    ops = [op for op in program.walk() if op.attrs.get("buffer") == "t"]
    found = owned_row(program, program.buffers["t"], WORKGROUPS, ops, BoundsProofs(program))
    if not found:
        return False
    assert found == row
    for access, *place in product(accesses, range(WORKGROUPS), range(LANES), range(TURNS)):
        if access.leaves_last and place[0] == WORKGROUPS - 1:
            continue
        first = access.first(*place)
        owner = first // row
        assert (first + access.width - 1) // row == owner < WORKGROUPS, (seed, access, place)
        assert not access.is_load or owner == place[0], (seed, access, place)
    return True


@pytest.mark.parametrize("seeds", quick([range(200), range(200, 20_000)]))
def test_a_workgroup_loads_nothing_of_other_rows(seeds: range) -> None:
    owned = sum(map(_is_owned, seeds))
    assert len(seeds) / 20 < owned < len(seeds) * 19 / 20


PROGRAM = """vyre 2
program @p workgroup(32) cluster(4) {{
  buffer @y : u32[?] write binding(0)
  buffer @t : u32[{size}] cluster
  %g = global_id x
  %w = workgroup_id x
  %l = local_id x
  %n = rem %w, 4 : u32
  %m = mul %n, 32 : u32
  %own = mul %n, 128 : u32
  {lines}
  store %v, @y[%g] : u32
}}
"""
TO_ALL = """for %i = 0 to 4 step 1 {
    %a = mul %i, 128 : u32
    %b = add %a, %m : u32
    %f = add %b, %l : u32
    store %l, @t[%f] : u32
  }
  barrier cluster
"""
OWN, OTHER = "%r = add %own, %l : u32\n  %v = load @t[%r] : u32", "%v = load @t[%l] : u32"
BY_ROWS = "store %l, @t[{row}, %l] : u32\n  barrier cluster\n  %v = load @t[%n, %l] : u32"
CASES = {
    "to each row in a loop": ("512", TO_ALL + OWN, "trap", 1),
    "to each row in a loop, of which the first is loaded": ("512", TO_ALL + OTHER, "trap", 4),
    "to a row of two dimensions": ("4, 128", BY_ROWS.format(row="%n"), "trap", 1),
    "to a row of two dimensions, unchecked": ("4, 128", BY_ROWS.format(row="%n"), "none", 1),
    "beyond the last row, unchecked": ("4, 128", BY_ROWS.format(row="%l"), "none", 4),
}


@pytest.mark.parametrize("name", CASES)
def test_where_a_workgroup_has_its_own_row_only(name: str) -> None:
    size, lines, bounds, sent = CASES[name]
    program = parse(PROGRAM.format(size=size, lines=lines)).programs["p"]
    text = lower([Unit(program, None, {})], gpu("sm_90"), bounds).text
    assert text.count("st.async") == sent
