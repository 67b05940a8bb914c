"""Ifs that simplify_cf merges: the second prover proves those that may be moved, and no others."""

from __future__ import annotations

import pytest
from support.certifying import decisions_of

from vyre_opt import parse
from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.passes.manager import Remark
from vyre_opt.passes.registry import make_pass

HEAD = """vyre 1
program @p workgroup(64) grid(4) {
  buffer @in : u32[256] read binding(0)
  buffer @h : u32[256] read_write binding(1) live_in live_out
  buffer @t : u32[64] workgroup
  %g = global_id x
  %l = local_id x
  %one = const 1 : u32
  %yes = lt %l, %one : u32
  %no = gt %l, %one : u32
"""


def decision(first: str, between: str, second: str) -> Decision:
    """That the two ifs of %yes become one, claimed by hand."""
    text = f"{HEAD} if %yes {{ {first} }} {between} if %yes {{ {second} }} }}"
    module = parse(text)
    ops = list(module.programs["p"].walk())
    ifs = [number for number, op in enumerate(ops) if op.name == "if" and op.operands[0].name == "yes"]
    facts = {"claim": "merge", "program": "p", "op": ifs[-1], "parts": [ifs[0]]}
    certifier = Certifier()
    running = make_pass("simplify_cf")
    certifier.before(running, module)
    certifier.after(running, module, True, [Remark("simplify_cf", "applied", "merged", None, facts)])
    (only,) = certifier.decisions
    only.certify(5)
    return only


MOVES = {
    "nothing": ("store %one, @h[%g] : u32", "", "proved"),
    "another buffer": ("store %one, @h[%g] : u32", "store %one, @t[%l] : u32", "proved"),
    "two loads": ("%a = load @h[%g] : u32", "%b = load @h[%l] : u32", "proved"),
    "a load of what is only read, and a barrier": ("%a = load @in[%g] : u32", "barrier workgroup", "proved"),
    "a load, and a store": ("%a = load @h[%g] : u32", "store %one, @h[%g] : u32", "unknown"),
    "a store, and a load": ("store %one, @h[%g] : u32", "%a = load @h[%g] : u32", "unknown"),
    "a store, and a barrier": ("store %one, @t[%l] : u32", "barrier workgroup", "unknown"),
    "a store, and a load in a branch": (
        "store %one, @t[%l] : u32",
        "if %no { %a = load @t[%one] : u32 }",
        "unknown",
    ),
    "a store, and a trap": ("store %one, @h[%g] : u32", 'if %no { trap "no" }', "unknown"),
    "a trap, and a store": ('if %no { trap "no" }', "store %one, @h[%g] : u32", "unknown"),
}


@pytest.mark.parametrize("case", MOVES)
def test_what_may_move(case: str) -> None:
    first, between, status = MOVES[case]
    assert decision(first, between, "%z = load @h[%one] : u32").status == status


def test_another_condition_is_not_merged() -> None:
    text = f"{HEAD} if %no {{ store %one, @h[%g] : u32 }} if %yes {{ store %one, @t[%l] : u32 }} }}"
    module = parse(text)
    ops = list(module.programs["p"].walk())
    ifs = [number for number, op in enumerate(ops) if op.name == "if"]
    facts = {"claim": "merge", "program": "p", "op": ifs[1], "parts": [ifs[0]]}
    certifier = Certifier()
    running = make_pass("simplify_cf")
    certifier.before(running, module)
    certifier.after(running, module, True, [Remark("simplify_cf", "applied", "merged", None, facts)])
    (only,) = certifier.decisions
    only.certify(5)
    assert only.status == "unknown"


def test_nested_ifs_are_proved() -> None:
    """Those that meet in a merged block lie in blocks that run together."""
    inner = "if %no {{ store %one, @h[%{0}] : u32 }}"
    text = f"{HEAD} if %yes {{ {inner.format('g')} }} if %yes {{ {inner.format('l')} }} }}"
    merged = [d for d in decisions_of(text, "simplify_cf") if d.by == "simplify_cf"]
    assert [d.status for d in merged] == ["proved", "proved"]
