"""Programs over small graphs: the interpreter finds each planted mistake that an execution meets, and blames no other.

What an execution meets is decided by a model of lanes in plain Python, and for some programs by the graph alone.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from support.each import each
from support.graph_patterns import KINDS, Case, Outcome, cases, complaint, module_of, outcome
from support.graph_patterns.graphs import GRAPHS
from support.graph_patterns.variants import Variant, variants
from support.quick import quick

from vyre_opt import PassManager
from vyre_opt.ir import errors_of

ALL = list(cases())
FIRST = list({case.variant: case for case in reversed(ALL)}.values())[::-1]
"""Each variant on one graph."""
CLEAN = [case for case in FIRST if not case.variant.plant]
BOUNDS = [case for case in FIRST if case.variant.kind == "bounds"]


def check(case: Case, objection: str, seen: Outcome) -> None:
    if objection:
        pytest.fail(f"{case.name}, {case.workgroups} workgroups: {objection}\n{seen.message}\n{case.text}")


def case_of(pattern: str, plant: str, graph: str, **parts: object) -> Case:
    """A case of one lane a vertex, all its edges in order."""
    plain = Variant(pattern, "lane", "forward", False, False, plant == "guard", "u32", plant)
    (shape,) = (shape for shape in GRAPHS if shape.name == graph)
    return Case(replace(plain, **parts), shape)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "case", quick(ALL, lambda c: (c.variant.pattern, c.variant.plant)), ids=lambda c: c.name
)
def test_the_interpreter_finds_what_is_wrong_and_nothing_else(case: Case) -> None:
    """The right kind of error, at accesses that an execution has it at; without one, the right outputs."""
    if not case.variant.plant:
        assert case.verdict.kinds == set()
        assert case.modelled == case.expected  # lanes on the one side, sums over edges on the other
    seen = outcome(case)
    check(case, complaint(case, seen), seen)


@pytest.mark.parametrize("case", quick(CLEAN, lambda c: c.variant.pattern), ids=lambda c: c.name)
def test_clean_programs_compute_the_same_everywhere(case: Case) -> None:
    """On the cpu target, and on the interpreter after the default passes."""
    module = module_of(case)
    PassManager("default").run(module)
    for seen in (outcome(case, "cpu"), outcome(case, "ref", module)):
        check(case, complaint(case, seen), seen)


@pytest.mark.parametrize("case", quick(BOUNDS, lambda c: c.variant.pattern), ids=lambda c: c.name)
def test_the_cpu_target_finds_accesses_out_of_bounds(case: Case) -> None:
    """Of the kinds of mistakes this is the one that it looks for."""
    seen = outcome(case, "cpu")
    check(case, complaint(case, seen), seen)


@pytest.mark.parametrize("step", quick([5, 1]))
def test_there_are_programs_of_every_kind(step: int) -> None:
    """Enough of each, all of them with names of their own; only barriers under a condition fail to verify."""
    kinds = Counter(variant.kind for variant in variants())
    assert kinds.total() >= 300
    assert min(kinds[kind] for kind in ("", *KINDS)) >= 12
    assert len({case.name for case in ALL}) == len(ALL)
    for case in FIRST[::step]:
        refused = errors_of(module_of(case))
        assert bool(refused) == (case.variant.plant == "barrier"), f"{case.name}\n{case.text}"


REACHED_BY_CONSTRUCTION = [
    (case_of("push", "atomic", "star_in"), True, "eleven vertices push to one"),
    (case_of("push", "atomic", "path"), False, "each vertex is pushed to once"),
    (case_of("push", "atomic", "star_out"), False, "one lane pushes all"),
    (case_of("push", "guard", "star_in"), True, "eleven lanes look at what one of them changes"),
    (case_of("conditional_edge", "guard", "no_edges"), False, "there is nothing to look at"),
    (case_of("worklist", "atomic", "one_edge"), False, "one lane appends"),
    (case_of("worklist", "atomic", "ring"), True, "sixteen lanes append"),
    (case_of("pull", "race", "ring"), True, "each vertex reads what the next one writes"),
    (case_of("pull", "race", "self_loops"), False, "each vertex reads its own"),
    (case_of("pull", "race", "wide_star", spread="tree"), True, "a vertex has edges of two lanes"),
    (case_of("pull", "race", "path", spread="tree"), False, "one lane has the edge"),
    (case_of("path_compression", "race", "tree_to_root"), True, "parents are read and written"),
    (case_of("path_compression", "race", "path"), False, "each vertex is its own parent"),
    (case_of("exchange", "sync_scope", "ring"), False, "a workgroup has all vertices"),
    (case_of("exchange", "sync_scope", "wide_star"), True, "an edge leads to another workgroup"),
    (case_of("exchange", "sync_scope", "halves_apart"), False, "no edge leads to the other workgroup"),
    (case_of("exchange", "sync_none", "halves_apart"), True, "edges lead to other lanes"),
    (case_of("conditional_edge", "bounds_vertex", "whole_workgroup"), False, "no lane is left over"),
    (case_of("conditional_edge", "bounds_vertex", "ring"), True, "48 lanes are left over"),
    (case_of("push", "bounds_edge", "isolated_ends", order="first"), True, "the last vertex has no edge"),
    (case_of("push", "bounds_edge", "ring", order="first"), False, "each vertex has an edge"),
]


def test_the_model_agrees_with_what_the_graph_says() -> None:
    """The model itself: here the graph's shape alone says whether lanes meet."""

    def agrees(row: tuple[Case, bool, str]) -> None:
        case, reached, why = row
        assert bool(case.verdict.kinds) == reached, why
        seen = outcome(case)
        check(case, complaint(case, seen), seen)

    each(REACHED_BY_CONSTRUCTION, agrees, lambda row: row[0].name)


def test_wrong_outcomes_are_objected_to() -> None:
    """A missed mistake, a false alarm, an error of another kind or at another place, and wrong outputs."""
    faulty, clean = case_of("push", "atomic", "star_in"), case_of("push", "", "star_in")
    right = outcome(faulty)
    assert complaint(faulty, right) == ""
    assert "not a run to the end" in complaint(faulty, Outcome("", frozenset(), faulty.modelled))
    assert "not bounds" in complaint(faulty, replace(right, error="bounds"))
    assert "no execution has this error" in complaint(
        faulty, replace(right, places=frozenset({"rows.begin"}))
    )
    assert "expected no error" in complaint(clean, right)
    assert "outputs" in complaint(clean, Outcome("", frozenset(), [[0] * 12]))
    assert complaint(clean, Outcome("", frozenset(), clean.expected)) == ""
