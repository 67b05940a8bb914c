"""Hand-offs whose indices are no sums of ids, but known lane by lane: clamped rows, and divisors of no workgroup.

Each is promoted, joined, and proved by the second prover; each has a neighbour that is wrong and is refused.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.each import each
from support.quick import quick
from support.row_handoffs import OWN, is_same, pipeline, program, promoted, proofs, reason


def read_at(place: str) -> str:
    return f"{place} %j = add %base, %o : u32"


CLAMPED = {
    "minimum": "%k = add %l, %c1 : u32 %o = min %k, %last : u32",
    "maximum": "%k = max %l, %c1 : u32 %o = sub %k, %c1 : u32",
    "sub_sat": "%o = sub_sat %l, %c3 : u32",
    "select below": "%k = add %l, %c1 : u32 %p = lt %l, %last : u32 %o = select %p, %k, %last : u32",
    "select above": "%k = sub %l, %c1 : u32 %p = gt %l, %c0 : u32 %o = select %p, %k, %c0 : u32",
    "around the end": "%k = add %l, %c1 : u32 %p = eq %l, %last : u32 %o = select %p, %c0, %k : u32",
    "two conditions": "%k = sub %l, %c3 : u32 %a = ge %l, %c3 : u32 %b = lt %l, %last : u32 %p = and %a, %b : bool "
    "%o = select %p, %k, %l : u32",
}
DIVIDED = {
    "remainder": "%o = rem %l, %c3 : u32",
    "quotient": "%o = div %l, %c3 : u32",
    "start of a group of three": "%q = div %l, %c3 : u32 %o = mul %q, %c3 : u32",
    "put together": "%q = div %l, %c3 : u32 %r = rem %l, %c3 : u32 %t = mul %q, %c3 : u32 %o = add %t, %r : u32",
    "the other end of its group": "%q = div %l, %c3 : u32 %r = rem %l, %c3 : u32 %t = mul %q, %c3 : u32 "
    "%s = sub %c2, %r : u32 %u = add %t, %s : u32 %o = min %u, %last : u32",
}


PLACES = CLAMPED | DIVIDED
FORMS = ((program, 64), (pipeline, 50), (pipeline, 64), (program, 50))


def test_what_is_read_at_a_place_that_only_lanes_tell_becomes_a_tile() -> None:
    def check(place: str) -> None:
        assert all(promoted(form(OWN, read_at(PLACES[place]), lanes)) for form, lanes in FORMS)

    each(PLACES, check)


@pytest.mark.parametrize(
    ("place", "form", "lanes"),
    quick([(p, *FORMS[(k + shift) % 4]) for shift in range(4) for k, p in enumerate(PLACES)], keep=6),
)
def test_a_read_at_a_place_that_only_lanes_tell(
    place: str, form: Callable[[str, str, int], str], lanes: int
) -> None:
    text = form(OWN, read_at(PLACES[place]), lanes)
    is_same(text)
    assert proofs(text) == {"proved"}


def test_any_op_of_integers_is_computed_lane_by_lane() -> None:
    """As constants are folded; the second prover has no terms for some of them."""
    for op in ("abs_diff %l, %c3", "popcount %l", "mul_hi %l, %l", "shr %last, %l", "ctz %l"):
        text = program(OWN, read_at(f"%o = {op} : u32"))
        assert reason(text) == "applied"
        is_same(text)


WRONG_READS = {
    "clamped one too far": "%k = add %l, %c1 : u32 %o = min %k, %lanes : u32",
    "not clamped": "%o = add %l, %c1 : u32",
    "clamped after it wrapped": "%k = sub %l, %c1 : u32 %o = min %k, %lanes : u32",
    "saturated too late": "%k = sub_sat %l, %c1 : u32 %o = add %k, %c2 : u32",
    "the wrong lane is left out": "%k = add %l, %c1 : u32 %p = ne %l, %c1 : u32 %o = select %p, %k, %c0 : u32",
    "a group that is not whole": "%q = div %l, %c3 : u32 %t = mul %q, %c3 : u32 %o = add %t, %c2 : u32",
}


@pytest.mark.parametrize("place", WRONG_READS.values(), ids=WRONG_READS)
def test_a_read_past_the_row(place: str) -> None:
    assert reason(program(OWN, read_at(place), 64)) == "other-workgroup"
    assert not promoted(pipeline(OWN, read_at(place), 64))


def test_a_clamp_by_data_is_refused() -> None:
    place = "%d = load @in[%l] : u32 %k = add %l, %d : u32 %o = min %k, %last : u32"
    assert reason(program(OWN, read_at(place), 64)) == "data-dependent"


GROUPS_OF_3 = "%q = div %l, %c3 : u32 %r = rem %l, %c3 : u32 %t = mul %q, %c3 : u32 %o = add %t, %r : u32"
MIRRORED = "%j = add %base, %mirror : u32"


def write_at(place: str) -> str:
    return f"{place} %i = add %base, %o : u32"


def test_quotient_and_remainder_are_the_id_again() -> None:
    """Another lane reads it behind a barrier; the lane itself needs none, though it writes its index in another way."""
    for text in (program(write_at(GROUPS_OF_3), MIRRORED, 64), pipeline(write_at(GROUPS_OF_3), MIRRORED, 64)):
        assert promoted(text)
        is_same(text)
        assert proofs(text) == {"proved"}
    own = program(write_at(GROUPS_OF_3), "%j = add %base, %l : u32", 64, barrier="")
    assert reason(own) == "applied"
    is_same(own)
    assert reason(program(write_at(GROUPS_OF_3), MIRRORED, 64, barrier="")) == "no-barrier"


COLUMNS = "%c22 = const 22 : u32 %q = div %l, %c3 : u32 %r = rem %l, %c3 : u32 %t = mul %r, %c22 : u32 %o = add %t, %q : u32"


def test_a_write_by_columns_is_known_lane_by_lane() -> None:
    """64 lanes in three columns of 22, the last two a place short: 43 and 65 are not written."""
    pitched = "%c66 = const 66 : u32 %pitch = mul %w, %c66 : u32"
    write = f"{pitched} {COLUMNS} %i = add %pitch, %o : u32"
    for place, expected in (
        (42, "applied"),
        (44, "applied"),
        (64, "applied"),
        (43, "uncovered"),
        (65, "other-workgroup"),
    ):
        read = f"%there = const {place} : u32 %j = add %pitch, %there : u32"
        text = program(write, read, 64)
        assert reason(text) == expected
        if expected == "applied":
            is_same(text)
            assert proofs(text) == {"proved"}


def test_a_write_under_a_condition_counts_only_the_lanes_that_make_it() -> None:
    some = f"{COLUMNS} %i = add %base, %o : u32 %half = const 32 : u32 %p = lt %l, %half : u32 if %p {{ store %v, @h[%i] : u32 }}"
    for place, expected in ((10, "applied"), (11, "partial-write"), (22, "applied")):
        read = f"%there = const {place} : u32 %j = add %base, %there : u32"
        assert reason(program(some, read, 64)) == expected


WRONG_WRITES = {
    "two divisors": GROUPS_OF_3.replace("rem %l, %c3", "rem %l, %c1"),
    "a factor that is not the divisor": GROUPS_OF_3.replace("mul %q, %c3", "mul %q, %c1"),
    "clamped, so that two lanes write one": "%k = add %l, %c1 : u32 %o = min %k, %last : u32",
    "the quotient alone": "%o = div %l, %c3 : u32",
}


@pytest.mark.parametrize("place", WRONG_WRITES.values(), ids=WRONG_WRITES)
def test_a_write_that_leaves_elements_out(place: str) -> None:
    assert reason(program(write_at(place), MIRRORED, 64)) in ("uncovered", "other-workgroup")


def test_a_write_whose_lanes_depend_on_the_workgroup() -> None:
    """Where g / 3 is split, each workgroup splits it elsewhere."""
    place = GROUPS_OF_3.replace("rem %l", "rem %g")
    assert reason(program(write_at(place), MIRRORED, 64)) == "not-affine"


@pytest.mark.parametrize("workgroup", quick(["12, 6", "40, 2", "24, 2"]))
def test_numbers_of_subgroups_that_no_digits_are(workgroup: str) -> None:
    """The lane's number in its subgroup and the subgroup's stand for themselves in a tile where 32 divides no row."""
    text = f"""vyre 1
    program @p workgroup({workgroup}) grid(2) {{
      buffer @in : u32[1024] read binding(0)
      buffer @h : u32[1024] read_write
      buffer @out : u32[1024] write binding(1) live_out
      %w = workgroup_id x
      %s = subgroup_id
      %lane = lane_id
      %c3 = const 3 : u32
      %c100 = const 100 : u32
      %c512 = const 512 : u32
      %base = mul %w, %c512 : u32
      %step = mul %lane, %c3 : u32
      %part = mul %s, %c100 : u32
      %from = add %base, %part : u32
      %i = add %from, %step : u32
      %v = load @in[%i] : u32
      store %v, @h[%i] : u32
      barrier workgroup
      %x = load @h[%i] : u32
      store %x, @out[%i] : u32
    }}"""
    assert promoted(text)
    is_same(text)
    assert proofs(text) == {"proved"}
