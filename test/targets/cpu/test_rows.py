"""Workgroups that are narrower than a subgroup, whose lanes load and store row by row."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import numpy as np
import pytest
from support.pairs import pairs
from support.quick import quick

from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir import DataType

WORKGROUPS = (
    (16, 16),
    (8, 8),
    (4, 4, 4),
    (7, 5),
    (8, 6),
    (32, 8),
    (24, 4),
    (1, 8, 5),
    (4, 3),
    (16, 3, 2),
    (2, 9),
)
"""Rows of 16, 8 and 4, none, a last subgroup in part, rows of whole subgroups, rows in pieces, along y, ..."""

LENGTH = 4096

HEAD = """
  %x = local_id x
  %y = local_id y
  %z = local_id z
  %gx = global_id x
  %gy = global_id y
  %c0 = const 0 : u32
  %c2 = const 2 : u32
  %c3 = const 3 : u32
  %c5 = const 5 : u32
  %c16 = const 16 : u32
  %c200 = const 200 : u32
  %n = load @n[%c0] : u32
  %s = load @n[%c2] : u32
  %row = mul %gy, %n : u32
  %column = mul %gx, %n : u32
  %plane = mul %z, %c16 : u32
"""

INDICES = {
    "a row": "%i = add %row, %gx : u32",
    "a row of a volume": "%a = add %row, %gx : u32 %i = add %a, %plane : u32",
    "a column": "%i = add %column, %gy : u32",
    "one element a row": "%i = add %row, %c3 : u32",
    "a diagonal": "%i = add %x, %y : u32",
    "backwards": "%a = add %row, %c200 : u32 %i = sub %a, %x : u32",
    "every second": "%a = mul %gx, %c2 : u32 %i = add %row, %a : u32",
    "every third": "%a = mul %gx, %c3 : u32 %i = add %a, %row : u32",
    "signed, from a negative number on": """
      %g = cast %gx : u32 -> i32
      %r = cast %row : u32 -> i32
      %five = const -5 : i32
      %a = add %g, %five : i32
      %b = sub %a, %five : i32
      %i = add %b, %r : i32""",
    "a narrow type, which wraps within a row": """
      %a = add %row, %gx : u32
      %b = add %a, %c200 : u32
      %i = cast %b : u32 -> u8""",
    "wide": "%g = cast %gx : u32 -> u64 %r = cast %row : u32 -> u64 %i = add %g, %r : u64",
    "digits": "%q = div %x, %c16 : u32 %d = rem %x, %c16 : u32 %a = mul %q, %n : u32 %i = add %a, %d : u32",
    "a clamped row": "%r = min %row, %c200 : u32 %i = add %r, %x : u32",
}

GUARDS = {
    "all": "",
    "an edge": "%p = lt %gx, %c5 : u32",
    "odd rows": "%m = rem %gy, %c2 : u32 %p = ne %m, %c0 : u32",
    "odd columns": "%m = rem %gx, %c2 : u32 %p = ne %m, %c0 : u32",
    "one row": "%p = eq %y, %c2 : u32",
    "no lane at all": "%p = gt %x, %c200 : u32",
}


def _text(workgroup: tuple[int, ...], body: str, dtype: str) -> str:
    """A program whose `body` gives each invocation's result %v, which is stored at its own place."""
    size_x, size_y, size_z = (*workgroup, 1, 1)[:3]
    return f"""program @p workgroup({", ".join(map(str, workgroup))}) {{
      buffer @n : u32[3] read binding(0)
      buffer @x : {dtype}[?] read binding(1)
      buffer @out : {dtype}[?] write binding(2)
      buffer @tile : {dtype}[1024] workgroup
      {HEAD}
      %w = workgroup_id x
      %c_x = const {size_x} : u32
      %c_xy = const {size_x * size_y} : u32
      %c_xyz = const {size_x * size_y * size_z} : u32
      %place_y = mul %y, %c_x : u32
      %place_z = mul %z, %c_xy : u32
      %place_w = mul %w, %c_xyz : u32
      %place_yz = add %place_y, %place_z : u32
      %own = add %place_yz, %x : u32
      %place = add %place_w, %own : u32
      {body}
      store %v, @out[%place] : {dtype}
    }}"""


def _inputs(workgroup: tuple[int, ...], dtype: str = "u32") -> list[Any]:
    element, width = DataType.of(dtype).element, DataType.of(dtype).lanes
    stored = storage_type(element)
    assert stored is not None
    rng = np.random.default_rng(prod(workgroup))
    shape = (LENGTH,) if width == 1 else (LENGTH, width)
    out = (2 * prod(workgroup), *shape[1:])
    x = rng.integers(0, 90, shape).astype(stored)
    return [np.array([40, 0, 3], np.uint32), x, np.zeros(out, stored)]


@pytest.mark.parametrize(("workgroup", "name"), pairs(WORKGROUPS, GUARDS))
def test_every_index_under_every_mask(agree: Any, workgroup: tuple[int, ...], name: str) -> None:
    guard = GUARDS[name]
    body = [
        "%v = add %c0, %c0 : u32",
        f"%count = const {len(INDICES)} : u32",
        "%first = mul %place, %count : u32",
    ]
    for number, index in enumerate(INDICES.values()):
        loaded = f"{index} %e = load @x[%i] : u32"
        result = f"%r = if %p -> u32 {{ {loaded} yield %e }} else {{ yield %gx }}" if guard else loaded
        body.append(f"""region @index{number} {{
          {guard}
          {result}
          %number = const {number} : u32
          %at = add %first, %number : u32
          store {"%r" if guard else "%e"}, @out[%at] : u32
        }}""")
    text = _text(workgroup, "\n".join(body), "u32").replace("store %v, @out[%place] : u32", "")
    n, x, out = _inputs(workgroup)
    agree(text, [n, x, np.tile(out, len(INDICES))], 2)


@pytest.mark.parametrize(("workgroup", "name"), pairs(WORKGROUPS, GUARDS))
def test_stores_of_rows(agree: Any, workgroup: tuple[int, ...], name: str) -> None:
    """Rows that are further apart than they are long, so that what lies between must stay as it is."""
    guard = GUARDS[name]
    store = (
        "%r5 = mul %gy, %n : u32 %i = add %r5, %gx : u32 %j = add %i, %plane3 : u32 store %x, @out[%j] : u32"
    )
    text = f"""program @p workgroup({", ".join(map(str, workgroup))}) {{
      buffer @n : u32[3] read binding(0)
      buffer @out : u32[?] read_write binding(1) live_in live_out
      {HEAD}
      %plane3 = mul %plane, %c200 : u32
      {f"{guard} if %p {{ {store} }}" if guard else store}
    }}"""
    before = np.arange(20_000, dtype=np.uint32)
    (after,) = agree(text, [np.array([70, 0, 3], np.uint32), before], 2)
    assert name == "no lane at all" or (after != before).any()


ROWS_OF_TYPES = {
    f"{dtype}-{workgroup}": (dtype, workgroup)
    for dtype in ("f32", "vec<2 x f32>", "u8", "f16", "f64", "vec<4 x u8>", "vec<3 x u16>")
    for workgroup in (((8, 8), (16, 4), (4, 4, 2)) if dtype == "u8" else ((16, 4), (8, 8), (4, 4, 2)))
}


@pytest.mark.parametrize(
    ("dtype", "workgroup"),
    quick(
        ROWS_OF_TYPES.values(),
        lambda case: case[0] if case[0] in ("f32", "u8") else "others",
        ids=ROWS_OF_TYPES,
    ),
)
def test_elements_of_any_type(agree: Any, workgroup: tuple[int, ...], dtype: str) -> None:
    """Whole rows, one element a row, and the tile between."""
    body = f"""
      %i = add %row, %gx : u32
      %a = load @x[%i] : {dtype}
      store %a, @tile[%own] : {dtype}
      barrier workgroup
      %last_x = sub %c_x, %x : u32
      %one = const 1 : u32
      %back = sub %last_x, %one : u32
      %other = add %place_yz, %back : u32
      %b = load @tile[%other] : {dtype}
      %first = load @tile[%place_yz] : {dtype}
      %j = add %row, %c3 : u32
      %c = load @x[%j] : {dtype}
      %bc = add %b, %c : {dtype}
      %v = add %bc, %first : {dtype}"""
    agree(_text(workgroup, body, dtype), _inputs(workgroup, dtype), 2)


LOOPS = {
    "a counter that starts at the row": """
      %v = for %k = %y to %c200 step 7 iter(%a = %c0 : u32) {
        %i = add %k, %x : u32
        %e = load @x[%i] : u32
        %b = add %a, %e : u32
        yield %b
      }""",
    "an index that is carried": """
      %start = add %row, %x : u32
      %v, %end = for %k = 0 to 7 iter(%a = %c0 : u32, %i = %start : u32) {
        %e = load @x[%i] : u32
        %b = add %a, %e : u32
        %j = add %i, %c16 : u32
        yield %b, %j
      }""",
    "carried indices that are swapped, past barriers": """
      %start = add %row, %x : u32
      %other = add %start, %c3 : u32
      %v, %end, %end2 = for %k = 0 to 5 iter(%a = %c0 : u32, %i = %start : u32, %j = %other : u32) {
        %e = load @x[%i] : u32
        store %e, @tile[%own] : u32
        barrier workgroup
        %f = load @tile[%place_yz] : u32
        %b = add %a, %f : u32
        barrier workgroup
        %i2 = add %i, %c2 : u32
        yield %b, %j, %i2
      }""",
    "lanes that leave one by one with a row's value": """
      %v, %rounds = while iter(%a = %row : u32, %r = %c0 : u32) {
        %more = lt %r, %x : u32
        condition %more
      } do {
        %e = load @x[%a] : u32
        %b = add %a, %c5 : u32
        %q = add %r, %c2 : u32
        yield %b, %q
      }""",
    "a branch that gives a row's value": """
      %odd = eq %w, %c0 : u32
      %start = if %odd -> u32 { yield %row } else { %r = add %y, %c5 : u32 yield %r }
      %i = add %start, %gx : u32
      %v = load @x[%i] : u32""",
    "a row's value in a vector": """
      %both = vector %row, %x : vec<2 x u32>
      %first = extract %both[0] : vec<2 x u32>
      %v = add %first, %x : u32""",
    "a row's value that one lane stores, and that is handed from lane to lane": """
      %is_third = eq %own, %c3 : u32
      if %is_third { store %row, @tile[%c3] : u32 }
      barrier workgroup
      %stored = load @tile[%c3] : u32
      %total = subgroup_reduce<add> %row : u32
      %next = subgroup_shuffle<xor> %row, %c2 : u32
      %old = sub %total, %next : u32
      %new = add %old, %row : u32
      %v = sub %new, %stored : u32""",
}


@pytest.mark.parametrize(("workgroup", "name"), pairs(WORKGROUPS, LOOPS, keep=3))
def test_values_of_rows_in_control_flow(agree: Any, workgroup: tuple[int, ...], name: str) -> None:
    agree(_text(workgroup, LOOPS[name], "u32"), _inputs(workgroup), 2)


@pytest.mark.parametrize(("workgroup", "name"), pairs(WORKGROUPS, ["row", "element", "store"]))
def test_the_first_lane_outside_is_reported(faults: Any, workgroup: tuple[int, ...], name: str) -> None:
    """The last rows of the buffer are missing in part."""
    index = "%i = add %row, %x : u32" if name != "element" else "%i = add %row, %c3 : u32"
    access = (
        "store %x, @out[%i] : u32 %v = add %x, %c0 : u32" if name == "store" else "%v = load @x[%i] : u32"
    )
    n, x, out = _inputs(workgroup)
    rows = workgroup[1]
    text = _text(workgroup, f"{index} {access}", "u32").replace("write binding", "read_write binding")
    x = x[: 40 * (rows - 1) + min(3, workgroup[0] // 2)]
    if name == "store":
        x, out = out, x
    faults(text.replace("binding(2)", "binding(2) live_in live_out"), [n, x, out], 1)


def _random_expression(rng: random.Random, lines: list[str], names: list[str]) -> str:
    """Add an op on integers to `lines`; most of those that keep a stride, and some that lose it."""
    a, b = rng.choice(names), rng.choice(names)
    constant = f"%k{rng.choice((1, 2, 3, 4, 8, 16, 31, 32, 4294967295))}"
    name = f"%e{len(lines)}"
    op = rng.choice(
        ("add", "add", "sub", "mul", "shl", "shr", "div", "rem", "and", "min", "xor", "select", "neg", "cast")
    )
    if op == "select":
        lines.append(f"{name} = select %even, {a}, {b} : u32")
    elif op == "neg":
        lines.append(f"{name} = neg {a} : u32")
    elif op == "cast":
        kind = rng.choice(("u8", "i16", "u64", "i32"))
        lines.append(f"{name}c = cast {a} : u32 -> {kind} {name} = cast {name}c : {kind} -> u32")
    else:
        lines.append(f"{name} = {op} {a}, {constant if rng.random() < 0.6 else b} : u32")
    return name


@pytest.mark.parametrize("seed", quick(range(60), keep=4))
def test_random_index_arithmetic(agree: Any, seed: int) -> None:
    """Random integers from the ids, themselves and as indices."""
    rng = random.Random(seed)
    workgroup = rng.choice(WORKGROUPS)
    numbers = (1, 2, 3, 4, 8, 16, 31, 32, 4294967295)
    lines = [f"%k{number} = const {number} : u32" for number in numbers]
    lines += ["%even = ge %w, %k1 : u32", "%length = const 4096 : u32", "%v0 = add %c0, %c0 : u32"]
    names = ["%x", "%y", "%z", "%gx", "%gy", "%row", "%n", "%own"]
    for _ in range(14):
        names.append(_random_expression(rng, lines, names))
    total = "%v0"
    for number, name in enumerate(names):
        lines.append(f"%in{number} = lt {name}, %length : u32")
        lines.append(
            f"%l{number} = if %in{number} -> u32 {{ %f{number} = load @x[{name}] : u32 yield %f{number} }} else {{ yield {name} }}"
        )
        lines.append(f"%t{number} = mul {total}, %k31 : u32 %s{number} = add %t{number}, %l{number} : u32")
        total = f"%s{number}"
    lines.append(f"%v = add {total}, %c0 : u32")
    agree(_text(workgroup, "\n".join(lines), "u32"), _inputs(workgroup), 2)
