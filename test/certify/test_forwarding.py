"""Accesses that store_forward removes: the second prover proves those that may go, and only those."""

from __future__ import annotations

import pytest
from support.certifying import decisions_of

from vyre_opt import parse, print_program
from vyre_opt.certify.forwarding import forwarded, overwritten
from vyre_opt.certify.obligations import Obligation, prove
from vyre_opt.ir import Op, Program

HEAD = """vyre 1
program @p workgroup(64) grid(4) {
  buffer @in : u32[256] read binding(0)
  buffer @h : u32[256] read_write binding(1) live_in live_out
  buffer @t : u32[64] workgroup
  %g = global_id x
  %l = local_id x
  %one = const 1 : u32
  %next = add %g, %one : u32
  %same = add %one, %g : u32
  %yes = lt %l, %one : u32
"""


def program(body: str) -> Program:
    return parse(f"{HEAD}{body}\n}}\n").programs["p"]


def status(obligations: list[Obligation]) -> str:
    """proved if all are, otherwise that of the first that is not."""
    return next((a.status for a in map(prove, obligations) if a.status != "proved"), "proved")


def accesses(of: Program) -> list[Op]:
    return [op for op in of.walk() if op.name in ("load", "store") and op.loc is not None]


def test_stores_of_what_is_there_do_not_count() -> None:
    of = program("%v = load @h[%g] : u32 store %v, @h[%g] : u32 store %v, @h[%g] : u32")
    load, first, second = accesses(of)
    assert status(list(forwarded(of, second, load, {}))) == "refuted"
    assert status(list(forwarded(of, second, load, {first: load}))) == "proved"
    assert status(list(forwarded(of, second, load, {first: None}))) == "refuted"


BETWEEN = {
    "nothing": ("", "proved", "proved"),
    "a store next to it": ("store %one, @h[%next] : u32", "proved", "proved"),
    "a store of another buffer": ("store %one, @t[%l] : u32", "proved", "proved"),
    "a store there": ("store %one, @h[%same] : u32", "proved", "proved"),
    "a load next to it": ("%x = load @h[%same] : u32", "proved", "proved"),
    "a load there": ("%x = load @h[%g] : u32", "proved", "refuted"),
    "a store that may be there": ("store %one, @h[%l] : u32", "refuted", "proved"),
    "a store in a branch": ("if %yes { store %one, @h[%g] : u32 }", "refuted", "proved"),
    "a load in a loop": ("for %k = 0 to 4 step 1 { %x = load @h[%k] : u32 }", "proved", "refuted"),
    "a store in a loop": ("for %k = 0 to 256 step 1 { store %one, @h[%k] : u32 }", "refuted", "proved"),
    "an atomic next to it": ("%x = atomic_add<relaxed> @h[%next], %one : u32", "proved", "proved"),
    "an atomic there": ("%x = atomic_add<relaxed> @h[%g], %one : u32", "refuted", "refuted"),
    "an ordered atomic": ("%x = atomic_add<acq_rel> @h[%next], %one : u32", "unknown", "unknown"),
    "a barrier": ("barrier workgroup", "unknown", "unknown"),
    "a barrier of the subgroup": ("barrier subgroup", "unknown", "unknown"),
    "a trap": ('if %yes { trap "no" }', "proved", "unknown"),
    "an assert": ('assert %yes, "no"', "proved", "unknown"),
    "a loop without end": ("while { condition %yes } do { }", "proved", "unknown"),
}


@pytest.mark.parametrize("between", BETWEEN)
def test_what_is_between(between: str) -> None:
    body, forward, overwrite = BETWEEN[between]
    of = program(f"store %l, @h[%g] : u32\n{body}\n%v = load @h[%g] : u32\nstore %v, @h[%g] : u32")
    first, load, last = (accesses(of)[place] for place in (0, -2, -1))
    assert status(list(forwarded(of, load, first, {}))) == forward
    assert status(list(forwarded(of, last, first, {}))) == forward
    assert status(list(overwritten(of, first, last, {load: first}))) == overwrite


def test_a_barrier_changes_nothing_that_nobody_writes() -> None:
    of = program("%v = load @in[%g] : u32\nbarrier workgroup\n%x = load @in[%g] : u32")
    first, second = accesses(of)
    assert status(list(forwarded(of, second, first, {}))) == "proved"


@pytest.mark.parametrize(
    ("second", "expected"),
    [
        ("load @h[%same]", "refuted"),
        ("load @t[%l]", "refuted"),
        ("load @in[%g]", "refuted"),
    ],
)
def test_other_elements(second: str, expected: str) -> None:
    of = program(f"store %l, @h[%g] : u32\n%v = {second} : u32")
    first, load = accesses(of)
    assert status(list(forwarded(of, load, first, {}))) == expected


def test_another_block_and_another_order() -> None:
    of = program("if %yes { store %l, @h[%g] : u32 }\n%v = load @h[%g] : u32\nstore %v, @h[%g] : u32")
    inner, load, last = accesses(of)
    assert status(list(forwarded(of, load, inner, {}))) == "unknown"
    assert status(list(forwarded(of, load, last, {}))) == "unknown"
    assert status(list(overwritten(of, inner, last, {}))) == "unknown"


def test_a_store_that_goes_overwrites_nothing() -> None:
    of = program("store %l, @h[%g] : u32\nstore %l, @h[%g] : u32")
    first, last = accesses(of)
    assert status(list(overwritten(of, first, last, {}))) == "proved"
    assert status(list(overwritten(of, first, last, {last: first}))) == "unknown"


def test_the_pass_says_what_goes() -> None:
    of = program(
        "store %one, @h[%g] : u32\nstore %l, @h[%g] : u32\n%v = load @h[%g] : u32\nstore %v, @h[%g] : u32\n"
        "store %v, @t[%l] : u32"
    )
    decisions = [d for d in decisions_of(print_program(of), "store_forward") if d.by == "store_forward"]
    assert [d.status for d in decisions] == ["proved"] * 4
    assert [d.what.split(":")[0] for d in decisions] == [
        "this store is removed",
        "this load of @h gives a value that is known here",
        "this store is removed",
        "@p changes in 3 places",
    ]
