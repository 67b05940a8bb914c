"""launch_fusion against pipelines made to mislead it, and its checks against being left out.

Every pipeline runs clean in the interpreter before.  After, it must go on to run clean with the same
outputs: a race, a read of what nobody wrote or another value is a proof that was wrong.  Then each
check is taken out in turn, and the same comparison must notice: else the check guards nothing here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest
from support.launch_kinds import BUMP, COUNT, KINDS, MIRROR, REVERSE, TRIPLE, pipeline, stage, window
from support.launch_pipelines import launch_pipeline
from support.quick import quick

from vyre_opt import PassManager, parse, print_program
from vyre_opt.analysis.refusal import Refusal
from vyre_opt.execution import DispatchError
from vyre_opt.fusion import group_legality, halo_plan, join, pair_legality
from vyre_opt.passes import launch_fusion
from vyre_opt.passes.manager import PassFailure

Run = Callable[..., list[tuple[str, bytes]]]
BEFORE: dict[str, list[tuple[str, bytes]]] = {}
"""What a pipeline computes before the pass: most are run with each check taken out."""


def outcome(text: str, run_pipeline: Run, then: str = "") -> tuple[bool, int]:
    """Whether the pipeline is the same after the pass, and how many launches it saved."""
    module = parse(text)
    if text not in BEFORE:
        BEFORE[text] = run_pipeline(parse(text))
    try:
        result = PassManager("launch_fusion" + then).run(module)
        same = run_pipeline(parse(print_program(module))) == BEFORE[text]
    except (DispatchError, PassFailure):
        return False, 0
    return same, result.statistics.get(("launch_fusion", "launches saved"), 0)


@pytest.mark.parametrize(("first", "count"), quick([(0, 12), *((first, 40) for first in range(0, 240, 40))]))
def test_random_pipelines(first: int, count: int, run_pipeline: Run) -> None:
    """What is joined stays the same, and a good part of the launches is."""
    saved = 0
    for seed in range(first, first + count):
        text = launch_pipeline(seed)
        same, launches = outcome(text, run_pipeline, ",decode_scan_fuse")
        assert same, f"seed {seed}:\n{text}"
        saved += launches
    assert saved > 0.75 * count


# --- pipelines that are nearly joinable


TWICE = stage(
    "twice",
    "x:read y:write",
    """
  %i = mul %g, %c2 : u32
  %j = add %i, %c1 : u32
  %v = load @x[%g] : u32
  store %v, @y[%i] : u32
  store %v, @y[%j] : u32""",
)

DATA_GUARD = stage(
    "data_guard",
    "x:read y:write",
    """
  %v = load @x[%g] : u32
  %odd = and %v, %c1 : u32
  %is = eq %odd, %c0 : u32
  if %is { store %v, @y[%g] : u32 }""",
)

DATA_READ = stage(
    "data_read",
    "x:read z:read y:write",
    """
  %n = len @x
  %v = load @z[%g] : u32
  %i = rem %v, %n : u32
  %u = load @x[%i] : u32
  store %u, @y[%g] : u32""",
)

DATA_WRITE = stage(
    "data_write",
    "x:read z:read y:write",
    """
  %v = load @x[%g] : u32
  %p = eq %g, %v : u32
  if %p { %u = load @z[%v] : u32 store %u, @y[%v] : u32 }""",
)

SHARED = stage(
    "shared",
    "x:read y:write",
    """
  %k = rem %g, %c64 : u32
  %v = load @x[%k] : u32
  store %v, @y[%g] : u32""",
)

LAST_ROW = stage(
    "last_row",
    "x:read y:write",
    """
  %n = len @x
  %from = sub %n, %c64 : u32
  %k = add %from, %l : u32
  %v = load @x[%k] : u32
  store %v, @y[%g] : u32""",
)

SAME = "launch @{0} grid(4) (@x, @m)\nlaunch @{1} grid(4) (@m, @y)"
BUFFERS = "x[256]r m[256] y[256]w"

NEARLY = {
    # one workgroup reads what the first one wrote, at the same form
    "the first row": TRIPLE + SHARED + pipeline(BUFFERS, SAME.format("triple", "shared")),
    "the last row": TRIPLE + LAST_ROW + pipeline(BUFFERS, SAME.format("triple", "last_row")),
    "a place that is data": TRIPLE + DATA_READ + pipeline(
        "x[256]r z[256]r m[256] y[256]w",
        "launch @triple grid(4) (@x, @m)\nlaunch @data_read grid(4) (@m, @z, @y)"),
    "a write to a place that is data": TRIPLE + DATA_WRITE + pipeline(
        "x[256]r z[256]r m[256] y[256]w",
        "launch @triple grid(4) (@x, @y)\nlaunch @data_write grid(4) (@z, @x, @y)"),
    # elements of two strides
    "twice as many": TRIPLE + TWICE + MIRROR + pipeline(
        "x[256]r m[512] y[512]w", "launch @twice grid(4) (@x, @m)\nlaunch @mirror grid(8) (@m, @y)"),
    "half of twice as many": TRIPLE + TWICE + MIRROR + pipeline(
        "x[256]r m[512] y[256]w", "launch @twice grid(4) (@x, @m)\nlaunch @mirror grid(4) (@m, @y)"),
    # a write that may not happen
    "a guard that is data": TRIPLE + DATA_GUARD + MIRROR + pipeline(
        "x[256]r m[256] y[256]w",
        "launch @triple grid(4) (@x, @m)\nlaunch @data_guard grid(4) (@x, @m)\nlaunch @mirror grid(4) (@m, @y)"),
    "the third overwrites what the first reads": REVERSE + TRIPLE + MIRROR + pipeline(
        "x[256]io z[256]r k[256] m[256] y[256]w",
        "launch @reverse grid(4) (@x, @k)\nlaunch @triple grid(4) (@z, @m)\nlaunch @mirror grid(4) (@m, @x)\n"
        "launch @triple grid(4) (@k, @y)"),
    "the third reads the first's from afar": TRIPLE + BUMP + REVERSE + pipeline(
        "x[256]io z[256]io y[256]w",
        "launch @triple grid(4) (@x, @z)\nlaunch @bump grid(4) (@x)\nlaunch @reverse grid(4) (@z, @y)"),
    "a halo in a repeat": TRIPLE + window(3) + pipeline(
        "x[256]io m[256] y[256]w",
        "repeat 3 {\nlaunch @triple grid(4) (@x, @m)\nlaunch @window grid(4) (@m, @y)\n"
        "launch @triple grid(4) (@y, @x)\n}"),
    "one workgroup": TRIPLE + REVERSE + pipeline(
        "x[64]r m[64] y[64]w", "launch @triple grid(1) (@x, @m)\nlaunch @reverse grid(1) (@m, @y)"),
    "a halo of one workgroup": TRIPLE + window(9) + pipeline(
        "x[64]r m[64] y[64]w", "launch @triple grid(1) (@x, @m)\nlaunch @window grid(1) (@m, @y)"),
    "two halos": TRIPLE + window(2) + window(5, "wide") + pipeline(
        "x[256]r z[256]r m[256] n[256] y[256]w u[256]w",
        "launch @triple grid(4) (@x, @m)\nlaunch @triple grid(4) (@z, @n)\n"
        "launch @window grid(4) (@m, @y)\nlaunch @wide grid(4) (@n, @u)"),
    "a halo of a halo": TRIPLE + window(2) + window(5, "wide") + pipeline(
        "x[256]r m[256] n[256] y[256]w",
        "launch @triple grid(4) (@x, @m)\nlaunch @window grid(4) (@m, @n)\nlaunch @wide grid(4) (@n, @y)"),
    "counting what was counted": COUNT + BUMP + pipeline(
        "x[256]r h[256]io", "launch @bump grid(4) (@h)\nlaunch @count grid(4) (@x, @h)"),
}  # fmt: skip


@pytest.mark.parametrize("name", NEARLY)
def test_nearly_joinable(name: str, run_pipeline: Run) -> None:
    same, _ = outcome("vyre 1\n" + NEARLY[name], run_pipeline, ",decode_scan_fuse")
    assert same


# --- every check guards something


def _none(*_: Any) -> None:
    return None


def _no_barriers(*_: Any) -> Iterable[int]:
    return ()


def _with_tile(change: Callable[[Any], Any]) -> Callable[..., Any]:
    plan = halo_plan.plan_tile

    def planned(facts: Any, buffer: str) -> Any:
        tile = plan(facts, buffer)
        return tile if isinstance(tile, Refusal) else (change(tile[0]), tile[1])

    return planned


def _everything_internal(uses: Any, groups: Any) -> None:
    for group in groups:
        group.internal = [
            name for name, verdict in group.handoffs.items() if isinstance(verdict, launch_fusion.TileProof)
        ]


MUTANTS: dict[str, tuple[Any, str, Any]] = {
    "ignore RAW": (pair_legality, "raw_hazard", _none),
    "ignore WAR": (pair_legality, "war_hazard", _none),
    "ignore WAW": (pair_legality, "waw_hazard", _none),
    "everything is apart": (pair_legality.DependenceTest, "disjoint_between_workgroups", lambda *_: True),
    "strides do not matter": (pair_legality.DependenceTest, "_element_determines_ids", lambda *_: True),
    "everything is disjoint": (pair_legality.DependenceTest, "disjoint", lambda *_: True),
    "every lane is by itself": (pair_legality.DependenceTest, "disjoint_between_lanes", lambda *_: True),
    "drop the barrier": (launch_fusion._Fuser, "barriers", _no_barriers),
    "ignore the grid": (pair_legality, "grids_differ", _none),
    "ignore the third consumer": (launch_fusion, "_choose_internal", _everything_internal),
    "ignore the third consumer of a halo": (group_legality.GroupLegality, "_other_users", _none),
    "ignore writers of a halo's input": (group_legality.GroupLegality, "_admit_halo", lambda self, h: self.halos.setdefault(h.consumer, []).append(h)),
    "a producer may exchange values": (halo_plan, "_why_not_rerunnable", _none),
    "a halo one too narrow": (group_legality, "plan_tile", _with_tile(lambda t: replace(t, count=t.count - 1))),
    "a halo one too far": (group_legality, "plan_tile", _with_tile(lambda t: replace(t, first=t.first + 1))),
    "a tile base off by one": (group_legality, "plan_tile", _with_tile(lambda t: replace(t, low=t.low + 1))),
    "a tile one too small": (group_legality, "plan_tile", _with_tile(lambda t: replace(t, size=t.size - 1))),
    "a tile stride off by one": (group_legality, "plan_tile", _with_tile(lambda t: replace(t, stride=t.stride + 1))),
    "own ids are the chosen ones": (join, "recompute", lambda ops, *_: ops),
}  # fmt: skip


@pytest.mark.usefixtures("unchecked_results")
@pytest.mark.parametrize("mutant", quick(MUTANTS, keep=5))
def test_mutant_is_noticed(mutant: str, run_pipeline: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the check, some pipeline here is joined wrongly, and running it shows that."""
    owner, name, wrong = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, wrong)
    texts = [kind.text for kind in KINDS] + ["vyre 1\n" + text for text in NEARLY.values()]
    assert any(not outcome(text, run_pipeline)[0] for text in texts)


SHARED = {
    "everything is apart",
    "strides do not matter",
    "everything is disjoint",
    "every lane is by itself",
}
"""Mistakes of analyses that the check of a result rests on too."""


@pytest.mark.parametrize("mutant", quick([name for name in MUTANTS if name not in SHARED], keep=1))
def test_the_result_of_a_mutant_is_not_kept(
    mutant: str, run_pipeline: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of results knows nothing of what the pass believed: all stay right, and it is told why."""
    owner, name, wrong = MUTANTS[mutant]
    monkeypatch.setattr(owner, name, wrong)
    monkeypatch.delenv("VYRE_REFUSED_RESULT")
    refused = 0
    for text in [kind.text for kind in KINDS] + ["vyre 1\n" + text for text in NEARLY.values()]:
        assert outcome(text, run_pipeline)[0], text
        result = PassManager("launch_fusion").run(parse(text))
        remarks = [r for r in result.remarks if r.certificate.get("reason") == "result"]
        assert result.statistics.get(("launch_fusion", "results refused"), 0) == len(remarks)
        refused += len(remarks)
    assert refused
