"""What both arms of an `if` store at the same elements is stored, whatever its condition."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.each import each
from support.quick import quick
from support.row_handoffs import OWN, is_same, pipeline, program, promoted, proofs, reason

from vyre_opt import PassManager, parse

ODD = f"{OWN} %other = add %base, %mirror : u32 %bit = and %v, %c1 : u32 %p = eq %bit, %c1 : u32 %d = add %v, %c3 : u32"
"""%p depends on what the lane has loaded."""

MIRRORED = "%j = add %base, %mirror : u32"

ARMS = {
    "one store in each": "if %p { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 }",
    "the index written in two ways": """if %p { store %v, @h[%g] : u32 } else {
      %t = add %l, %c3 : u32 %b3 = sub %base, %c3 : u32 %same = add %b3, %t : u32
      store %d, @h[%same] : u32 }""",
    "two stores, the other way round": """%n = const 192 : u32 %far = add %g, %n : u32
      if %p { store %v, @h[%far] : u32 store %v, @h[%i] : u32 }
      else { store %d, @h[%i] : u32 store %d, @h[%far] : u32 }""",
    "nested": """%bit2 = and %v, %c2 : u32 %p2 = eq %bit2, %c2 : u32
      if %p { if %p2 { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 } }
      else { if %p2 { store %l, @h[%i] : u32 } else { store %v, @h[%i] : u32 } }""",
    "nested in one arm": """%bit2 = and %v, %c2 : u32 %p2 = eq %bit2, %c2 : u32
      if %p { store %d, @h[%i] : u32 }
      else { if %p2 { store %l, @h[%i] : u32 } else { store %v, @h[%i] : u32 } }""",
    "a conjunction": """%low = lt %l, %c3 : u32 %both = and %p, %low : bool
      if %both { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 }""",
    "a choice of all lanes that one never makes": """%low = lt %l, %lanes : u32 %both = or %p, %low : bool
      if %both { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 }""",
    "in a loop that runs": """for %k = 0 to 2 step 1 {
      if %p { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 } }""",
    "with more in one arm": """if %p { store %v, @h[%i] : u32 store %d, @h[%i] : u32 } else { store %d, @h[%i] : u32 }""",
}


FORMS = (program, pipeline)


def test_what_both_arms_store_becomes_a_tile() -> None:
    def check(arms: str) -> None:
        assert all(promoted(form(f"{ODD} {ARMS[arms]}", MIRRORED)) for form in FORMS)

    each(ARMS, check)


@pytest.mark.parametrize(
    ("arms", "form"),
    quick([(arms, FORMS[(k + shift) % 2]) for shift in (0, 1) for k, arms in enumerate(ARMS)], keep=4),
)
def test_both_arms_store_the_element(arms: str, form: Callable[[str, str], str]) -> None:
    text = form(f"{ODD} {ARMS[arms]}", MIRRORED)
    is_same(text)
    assert proofs(text) == {"proved"}


def test_a_lane_reads_its_own_without_a_barrier() -> None:
    text = program(f"{ODD} {ARMS['one store in each']}", OWN.replace("%i", "%j"), barrier="")
    assert reason(text) == "applied"
    is_same(text)
    assert proofs(text) == {"proved"}
    assert reason(program(f"{ODD} {ARMS['one store in each']}", MIRRORED, barrier="")) == "no-barrier"


WRONG = {
    "one arm": "if %p { store %v, @h[%i] : u32 }",
    "an empty arm": "if %p { store %v, @h[%i] : u32 } else { %u = add %v, %c1 : u32 }",
    "other elements": "if %p { store %v, @h[%i] : u32 } else { store %v, @h[%other] : u32 }",
    "the next element": "%next = add %i, %c1 : u32 if %p { store %v, @h[%i] : u32 } else { store %v, @h[%next] : u32 }",
    "nested, one arm missing": """%bit2 = and %v, %c2 : u32 %p2 = eq %bit2, %c2 : u32
      if %p { store %v, @h[%i] : u32 } else { if %p2 { store %d, @h[%i] : u32 } }""",
    "the arms of two ifs": """if %p { store %v, @h[%i] : u32 } else { %u = add %v, %c1 : u32 }
      if %p { %u2 = add %v, %c1 : u32 } else { store %v, @h[%i] : u32 }""",
    "a loop of data in one arm": """if %p { store %v, @h[%i] : u32 } else {
      for %k = 0 to %bit step 1 { store %v, @h[%i] : u32 } }""",
    "arms around which a condition stands": """%bit2 = and %v, %c2 : u32 %p2 = eq %bit2, %c2 : u32
      if %p2 { if %p { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 } }""",
    "arms in a loop of data": """for %k = 0 to %bit step 1 {
      if %p { store %v, @h[%i] : u32 } else { store %d, @h[%i] : u32 } }""",
}


@pytest.mark.parametrize("arms", WRONG.values(), ids=WRONG)
def test_an_arm_that_may_leave_the_element_out(arms: str) -> None:
    assert reason(program(f"{ODD} {arms}", MIRRORED)) == "partial-write"
    assert not promoted(pipeline(f"{ODD} {arms}", MIRRORED))


UNIFORM = "%even = and %w, %c1 : u32 %p = eq %even, %c0 : u32"


def test_a_barrier_in_an_arm_orders_nothing_behind_it() -> None:
    """The other arm has none; and one in each arm is that of some lanes only, as far as the proof goes."""
    first = f"{OWN} {UNIFORM} if %p {{ store %v, @h[%i] : u32 barrier workgroup }} else {{ store %l, @h[%i] : u32 }}"
    assert reason(program(first, MIRRORED, barrier="")) == "no-barrier"
    text = program(first, MIRRORED)
    assert reason(text) == "applied"
    is_same(text)
    assert proofs(text) == {"proved"}
    before = f"{OWN} {UNIFORM} if %p {{ barrier workgroup store %v, @h[%i] : u32 }} else {{ barrier workgroup store %l, @h[%i] : u32 }}"
    assert reason(program(before, MIRRORED, barrier="")) == "no-barrier"


def test_equal_indices_of_types_that_wrap_are_other_elements() -> None:
    """300*w + l as u32 and as u8 have one expression; from workgroup 1 on they are different elements."""
    far = "%c300 = const 300 : u32 %far = mul %w, %c300 : u32"
    write = f"""{far} %i = add %far, %l : u32
      %l8 = cast %l : u32 -> u8 %f8 = cast %far : u32 -> u8 %i8 = add %f8, %l8 : u8 %bit = and %v, %c1 : u32
      %p = eq %bit, %c1 : u32 if %p {{ store %v, @h[%i8] : u32 }} else {{ store %v, @h[%i] : u32 }}"""
    text = pipeline(write, f"{far} %j = add %far, %mirror : u32")
    result = PassManager("launch_fusion").run(parse(text))
    assert not result.statistics.get(("launch_fusion", "launches saved"), 0)
