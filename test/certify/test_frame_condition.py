"""A pass may change nothing but what it says: the program after is compared with the one before, op by op."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from vyre_opt import parse
from vyre_opt.certify.bodies import Special
from vyre_opt.certify.frame_condition import is_rest_unchanged, replaced, vanished, vectorized
from vyre_opt.certify.obligations import prove
from vyre_opt.ir import Op, Program

HEAD = """vyre 1
program @p workgroup(64) grid(4) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  buffer @t : TILE
  %l = local_id x
  %g = global_id x
  %one = const 1 : u32
  %two = const 2 : u32
  %i = mul %g, %two : u32
  %j = add %i, %one : u32
  %yes = lt %l, %one : u32
"""
WHOLE = "u32[256] read_write"


def program(body: str, tile: str = WHOLE) -> Program:
    return parse(f"{HEAD.replace('TILE', tile)}{body}\n}}\n").programs["p"]


def accesses(of: Program) -> list[Op]:
    return [op for op in of.walk() if op.name in ("load", "store", "barrier") and op.loc is not None]


def is_proved(
    before: Program, after: Program, special: Mapping[Op, Special] | None = None, *moved: str
) -> bool:
    answer = prove(is_rest_unchanged(before, after, special or {}, moved))
    assert answer.status in ("proved", "unknown"), "what differs may still be right"
    return answer.status == "proved"


SAME = """%v = load @x[%i] : u32
if %yes { store %v, @y[%i] : u32 }
%n = for %k = 0 to 4 step 1 iter(%s = %v : u32) { %m = add %s, %k : u32 yield %m }
store %n, @y[%j] : u32"""


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("@x[%i]", "@x[%i]", True),
        ("%m = add %s, %k", "%m = add %k, %s", True),  # commutes
        ("%v = load", "%unused = add %g, %two : u32 %v = load", True),  # pure, and not used
        ("@x[%i]", "@x[%j]", False),
        ("store %v", "store %one", False),
        ("if %yes {", "if %yes { trap \"no\"", False),
        ("0 to 4", "0 to 5", False),
        ("iter(%s = %v", "iter(%s = %one", False),
        ("add %s, %k", "sub %s, %k", False),
        ("yield %m", "yield %s", False),
        ("store %n, @y[%j] : u32", "", False),
        ("store %n, @y[%j] : u32", "store %n, @y[%j] : u32 store %n, @y[%i] : u32", False),
        ("@y[%j]", "@t[%j]", False),
    ],
)  # fmt: skip
def test_a_program_is_as_it_was(old: str, new: str, expected: bool) -> None:
    assert SAME.count(old) == 1
    assert is_proved(program(SAME), program(SAME.replace(old, new))) is expected


def test_what_a_block_computes_is_known_in_it_only() -> None:
    before = program(
        "if %yes { %d = add %g, %two : u32 store %d, @y[%i] : u32 } %d = add %g, %two : u32 store %d, @y[%j] : u32"
    )
    after = program(
        "if %yes { %d = add %g, %two : u32 store %d, @y[%i] : u32 } %d = sub %g, %two : u32 store %d, @y[%j] : u32"
    )
    assert is_proved(before, before)
    assert not is_proved(before, after)


@pytest.mark.parametrize(
    ("check", "expected"),
    [
        ("%n = len @y : u32 check_bounds<store> @y[%j], %n : u32", True),
        ("%n = len @y : u64 %e = cast %j : u32 -> u64 check_bounds<store> @y[%e], %n : u64", True),
        ("%n = len @y : u32 check_bounds<store> @y[%i], %n : u32", False),  # nothing accesses that
        ("%n = len @x : u32 check_bounds<store> @y[%j], %n : u32", False),  # may be shorter
        ("check_bounds<store> @y[%j], %two : u32", False),
        ("%n = len @y : u32 %m = div %n, %two : u32 check_bounds<store> @y[%j], %m : u32", False),
        ("%n = len @y : u32 %e = add_sat %j, %one : u32 check_bounds<store> @y[%e], %n : u32", False),
    ],
)
def test_a_check_that_was_added_fires_for_no_access_in_bounds(check: str, expected: bool) -> None:
    checked = SAME.replace("store %n", "store %sum").replace("%n = for", "%sum = for")
    after = program(checked.replace("store %sum", f"{check} store %sum"))
    assert is_proved(program(checked), after) is expected


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        ("%w = add %l, %one : u32 store %w, @y[%g] : u32", True),
        ("%w = add %g, %one : u32 store %w, @y[%g] : u32", False),  # another value in the load's place
        ("store %l, @y[%g] : u32", False),
        ("", False),
    ],
)
def test_a_load_that_went(after: str, expected: bool) -> None:
    first = "store %l, @t[%g] : u32\n"
    before = program(f"{first}%v = load @t[%g] : u32 %w = add %v, %one : u32 store %w, @y[%g] : u32")
    store, load = accesses(before)[:2]
    assert is_proved(before, program(first + after), {load: replaced(store)}) is expected


def test_two_barriers_for_one() -> None:
    before = program("store %l, @t[%g] : u32 barrier workgroup barrier workgroup %v = load @t[%i] : u32")
    _, first, second, _ = accesses(before)
    one = program("store %l, @t[%g] : u32 barrier workgroup %v = load @t[%i] : u32")
    none = program("store %l, @t[%g] : u32 %v = load @t[%i] : u32")
    assert is_proved(before, one, {first: vanished})
    assert not is_proved(before, none, {first: vanished})
    assert is_proved(before, none, {first: vanished, second: vanished})


PAIR = "%a = load @x[%i] : u32 %b = load @x[%j] : u32 store %a, @y[%i] : u32 store %b, @y[%j] : u32"
LOADED = (
    "%v = load @x[%i] : vec<2 x u32> %a = extract %v[0] : vec<2 x u32> %b = extract %v[1] : vec<2 x u32> "
)
STORED = "%w = vector %a, %b : vec<2 x u32> store %w, @y[%i] : vec<2 x u32>"


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ("%a, %b : vec", "%a, %b : vec", True),
        ("%a, %b : vec", "%b, %a : vec", False),
        (
            "%a = extract %v[0] : vec<2 x u32> %b = extract %v[1]",
            "%a = extract %v[1] : vec<2 x u32> %b = extract %v[0]",
            False,
        ),
        ("@y[%i]", "@y[%j]", False),
        ("load @x[%i]", "load @x[%j]", False),
        ("store %w, @y[%i] : vec<2 x u32>", "store %w, @t[%i] : vec<2 x u32>", False),
    ],
)
def test_vectors(old: str, new: str, expected: bool) -> None:
    before, after = program(PAIR), program((LOADED + STORED).replace(old, new))
    a, b, c, d = accesses(before)
    assert is_proved(before, after, {**vectorized([[a], [b]]), **vectorized([[c], [d]])}) is expected


@pytest.mark.parametrize(("first", "expected"), [("%two", True), ("%one", False)])
def test_of_two_stores_of_one_element_the_later_one_stays(first: str, expected: bool) -> None:
    before = program("store %one, @y[%i] : u32 store %two, @y[%i] : u32 store %g, @y[%j] : u32")
    after = program(f"%w = vector {first}, %g : vec<2 x u32> store %w, @y[%i] : vec<2 x u32>")
    a, b, c = accesses(before)
    assert is_proved(before, after, vectorized([[a, b], [c]])) is expected


HANDED = "store %l, @t[%g] : u32 barrier workgroup %v = load @t[%g] : u32 store %v, @y[%g] : u32"


@pytest.mark.parametrize(
    ("body", "tile", "expected"),
    [
        ("store %l, @t[%l] : u32 barrier workgroup %v = load @t[%l] : u32 store %v, @y[%g] : u32", "u32[64] workgroup", True),
        ("store %l, @t[%l] : u32 %v = load @t[%l] : u32 store %v, @y[%g] : u32", "u32[64] workgroup", False),
        ("store %g, @t[%l] : u32 barrier workgroup %v = load @t[%l] : u32 store %v, @y[%g] : u32", "u32[64] workgroup", False),
        ("store %l, @t[%l] : u32 barrier workgroup %v = load @t[%l] : u32 store %l, @y[%g] : u32", "u32[64] workgroup", False),
        ("%n = cast %l : u32 -> u8 store %n, @t[%l] : u8 barrier workgroup %v = load @t[%l] : u8 %w = cast %v : u8 -> u32 store %w, @y[%g] : u32", "u8[64] workgroup", True),
        ("%n = cast %g : u32 -> u8 store %n, @t[%l] : u8 barrier workgroup %v = load @t[%l] : u8 %w = cast %v : u8 -> u32 store %w, @y[%g] : u32", "u8[64] workgroup", False),
        ("%n = cast %l : u32 -> u8 store %n, @t[%l] : u8 barrier workgroup %v = load @t[%l] : u8 %w = cast %v : u8 -> u16 %x = cast %w : u16 -> u32 store %x, @y[%g] : u32", "u8[64] workgroup", False),
    ],
)  # fmt: skip
def test_tiles(body: str, tile: str, expected: bool) -> None:
    """Indices of a tile are the obligations of `tiles`; all else is compared here."""
    assert is_proved(program(HANDED), program(body, tile), None, "t") is expected


def test_declarations_are_as_they_were() -> None:
    before = program(HANDED)
    assert is_proved(before, program(HANDED))
    for other in ("u32[512] read_write", "u32[256] workgroup", "u32[256] read_write live_out"):
        assert not is_proved(before, program(HANDED, other))
    assert not is_proved(before, program(HANDED, "u32[64] read_write"), None, "t")
