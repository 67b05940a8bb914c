"""Launches that get another program over another grid: what is right is proved, and each planted mistake is not."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from support.certifier_mistakes.launches import pipeline, program, text
from support.neighbour_programs import neighbour_pipeline
from support.quick import quick

from vyre_opt import parse, print_program
from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.execution.plans.neighbours import Neighbours
from vyre_opt.ir import Module
from vyre_opt.passes import Pass, PassManager, coarsen
from vyre_opt.passes.manager import Remark
from vyre_opt.scheduling import launch_forms

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("**/*.vyre"))
LIT = [ROOT / "test/lit/passes" / f"{name}.vyre" for name in ("coarsen", "privatize")]

COARSEN, PRIVATIZE = "coarsen{by=4}", "privatize{workgroups=3}"
BLOCKED = "coarsen{by=2 blocks=2}"


@dataclass
class _Changed:
    """A certifier that sees other texts than a pass has read (`earlier`) or written (`edits`), and only some remarks."""

    edits: Sequence[tuple[str, str]] = ()
    earlier: Sequence[tuple[str, str]] = ()
    remarks: slice = field(default_factory=lambda: slice(None))
    certifier: Certifier = field(default_factory=Certifier)

    def before(self, running: Pass, module: Module) -> None:
        self.certifier.before(running, _edited(module, self.earlier))

    def after(self, running: Pass, module: Module, changed: bool, remarks: Sequence[Remark]) -> None:
        self.certifier.after(running, _edited(module, self.edits), changed, remarks[self.remarks])


def _edited(module: Module, edits: Sequence[tuple[str, str]]) -> Module:
    """Of each edit, the first place changes."""
    changed = print_program(module)
    for old, new in edits:
        assert old in changed, (old, changed)
        changed = changed.replace(old, new, 1)
    return parse(changed)


def decisions(of: str, passes: str, target: str = "", seen: _Changed | None = None) -> list[Decision]:
    observer = seen or _Changed()
    PassManager(passes, target=target, verify_each=False, observers=[observer]).run(parse(of))
    for decision in observer.certifier.decisions:
        decision.certify(10)
    return observer.certifier.decisions


def statuses(of: str, passes: str, target: str = "", seen: _Changed | None = None) -> set[str]:
    return {decision.status for decision in decisions(of, passes, target, seen)}


# --- what is right ----------------------------------------------------------------------------

TARGETS = ("", "cpu")


@pytest.mark.parametrize("path", LIT, ids=lambda path: path.stem)
@pytest.mark.parametrize("passes", [COARSEN, "coarsen{by=2}", PRIVATIZE])
def test_texts_of_the_passes(path: Path, passes: str) -> None:
    assert statuses(path.read_text(), passes) <= {"proved"}


@pytest.mark.parametrize("path", quick(EXAMPLES, keep=12), ids=lambda path: path.stem)
def test_examples(path: Path) -> None:
    source = path.read_text()
    assert statuses(source, COARSEN) | statuses(source, PRIVATIZE) <= {"proved"}


@pytest.mark.parametrize("seeds", quick([range(2, 4), *(range(n, n + 25) for n in range(100, 1100, 25))]))
def test_random_programs(seeds: range) -> None:
    passes = "coarsen{by=2},coarsen{by=2}", "privatize{workgroups=3}", "coarsen{by=4},privatize{workgroups=2}"
    for seed in seeds:
        found = [
            decision
            for each in passes
            for target in TARGETS
            for decision in decisions(neighbour_pipeline(seed), each, target)
        ]
        assert len(found) >= 4
        assert not [(seed, d.by, d.what) for d in found if d.status != "proved"]


COPY = program("copy", "x:r y:w", "  %v = load @x[%g]\n  store %v, @y[%g]", 8)
GUARDED = program("guarded", "x:r y:w", "  %n = len @y\n  %p = lt %g, %n\n  if %p { %v = load @x[%g] store %v, @y[%g] }", 8)  # fmt: skip
STENCIL = program("stencil", "x:r y:w", "  %i = add %g, 1\n  %v = load @x[%g]\n  %u = load @x[%i]\n  %s = add %u, %v\n  store %s, @y[%g]", 8)  # fmt: skip
WAITS = program("waits", "x:r y:w", """
  %v = load @x[%g]
  %r, %n = while iter(%a = %v : u32, %k = 0 : u32) {
    %p = gt %a, 1
    condition %p
  } do {
    %b = shr %a, 1
    %m = add %k, 1
    yield %b, %m
  }
  store %n, @y[%g]""", 8)  # fmt: skip
CARRIED = program("carried", "x:r y:w", """
  %v = load @x[%g]
  %s, %t, %u = for %k = 0 to 3 step 1 iter(%a = 0 : u32, %b = 0 : u32, %c = 0 : u32) {
    %d = add %a, 1
    %e = add %b, %v
    %f = add %c, %d
    yield %d, %e, %f
  }
  %h = mul %t, %u
  %i = add %h, %s
  store %i, @y[%g]""", 8)  # fmt: skip
BUFFERS = "x : u32[41] read, y : u32[40] write"
OPEN = "x : u32[?] read, y : u32[?] write"
ROWS = """vyre 2
program @rows workgroup(8, 2) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1)
  %r = global_id y
  %c = global_id x
  %n = len @x, 1
  %p = lt %c, %n
  if %p {
    %v = load @x[%r, %c]
    store %v, @y[%r, %c]
  }
}
pipeline @main {
  buffer @x : f32[6, 80] read
  buffer @y : f32[6, 80] write
  launch @rows grid(10, 3) (@x, @y)
}
"""


def launched(of: str, buffers: str = BUFFERS, grid: str = "5") -> str:
    name = re.search(r"@(\w+)", of)
    assert name is not None
    return text(of, pipeline(buffers, f"@{name[1]} grid({grid}) (@x, @y)"))


def counts(kind: str, dtype: str = "u32", index: str = "u32", flags: str = "", lanes: str = "8") -> str:
    return f"""vyre 2
program @count workgroup({lanes}) {{
  buffer @x : u32[?] read binding(0)
  buffer @bins : {dtype}[?] read_write binding(1) live_in live_out
  %g = global_id x
  %n = len @bins
  %v = load @x[%g]
  %a = rem %v, %n
  %k = cast %a : u32 -> {index}
  %w = cast %v : u32 -> {dtype}
  %o = {kind}<relaxed> @bins[%k], %w{flags} : {dtype}
}}
pipeline @main {{
  buffer @x : u32[?] read
  buffer @bins : {dtype}[12] live_in live_out
  launch @count grid(ceil_div(len(@x), 8)) (@x, @bins)
}}
"""


TRANSPOSE = """vyre 2
program @transpose workgroup(32, 8) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1)
  %c = global_id x
  %r = global_id y
  %h = len @x, 0
  %w = len @x, 1
  %p = lt %r, %h
  %q = lt %c, %w
  %inside = and %p, %q
  if %inside {
    %v = load @x[%r, %c]
    store %v, @y[%c, %r]
  }
}
pipeline @main {
  buffer @x : f32[2048, 1024] read
  buffer @y : f32[1024, 2048] write
  launch @transpose grid(32, 256) (@x, @y)
}
"""


KINDS = ("add", "min", "max", "and", "or", "xor")
REASSOC = " fastmath<reassoc>"
RIGHT = {
    "neighbours read the same element": (launched(STENCIL), COARSEN),
    "a while": (launched(WAITS), COARSEN),
    "some carried values are common": (launched(CARRIED), COARSEN),
    "rows that are the pipeline's": (ROWS, COARSEN),
    "as many neighbours as lanes": (launched(GUARDED), "coarsen{by=8}"),
    "blocks of neighbours": (launched(GUARDED), BLOCKED),
    "more blocks than workgroups": (launched(GUARDED), "coarsen{by=4 blocks=3}"),
    "blocks of a grid of a length": (launched(GUARDED, OPEN, "ceil_div(len(@x), 8)"), BLOCKED),
    "blocks of a loop": (launched(CARRIED), BLOCKED),
    "a grid of a length": (launched(GUARDED, OPEN, "ceil_div(len(@x), 8)"), COARSEN),
    "a grid of two lengths": (launched(GUARDED, OPEN, "max(div(len(@x), 8), ceil_div(len(@y), 3))"), COARSEN),
    "a grid of sums": (launched(GUARDED, OPEN, "div(add(len(@x), mul(len(@y), 3)), 64)"), COARSEN),
    "a workgroup of three dimensions": (counts("atomic_add", lanes="4, 2, 3"), PRIVATIZE),
    "an index of 64 bits": (counts("atomic_add", index="u64"), PRIVATIZE),
    "a sum of floats": (counts("atomic_add", "f32", flags=REASSOC), PRIVATIZE),
    "a sum of half floats": (counts("atomic_add", "bf16", flags=REASSOC), PRIVATIZE),
    "a minimum of half floats": (counts("atomic_min", "f16"), PRIVATIZE),
    "a maximum of double floats": (counts("atomic_max", "f64"), PRIVATIZE),
    **{f"{kind} of {dtype}": (counts(f"atomic_{kind}", dtype), PRIVATIZE) for kind in KINDS for dtype in ("i8", "i32", "u64")},
}  # fmt: skip


IN_TURNS = [(name, target) for n, name in enumerate(RIGHT) for target in TARGETS[:: 1 - 2 * (n % 2)]]


@pytest.mark.parametrize(("name", "target"), quick(IN_TURNS, lambda case: case[0], keep=2))
def test_right_ones_are_proved(name: str, target: str) -> None:
    """Each for one of the targets in the plain run, and for the other in the slow one."""
    source, passes = RIGHT[name]
    assert statuses(source, passes, target) == {"proved"}


def test_tiles_and_blocks_for_a_gpu() -> None:
    assert statuses(TRANSPOSE, "coarsen", "sm_90") == {"proved"}


BLOCKS = (
    Neighbours(2, 2),
    Neighbours(1, 2),
    Neighbours(4, 1, (8, 2)),
    Neighbours(1, 1, (8, 1)),
    Neighbours(2, 2, (2, 2)),
    Neighbours(2, blocks=2),
)


@pytest.mark.parametrize(
    "seeds", quick([[3, 5, 16], range(20), *(range(n, n + 25) for n in range(100, 600, 25))])
)
def test_blocks_of_random_programs(seeds: Sequence[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(launch_forms, "vectorize", lambda *args: True)
    count = 0
    for seed in seeds:
        for block in BLOCKS:
            monkeypatch.setattr(coarsen, "Neighbours", lambda by, blocks, block=block: block)
            found = decisions(neighbour_pipeline(seed), "coarsen{by=2}")
            assert not [(seed, block, d.what) for d in found if d.status != "proved"]
            count += len(found)
    assert count > len(seeds)


# --- what is wrong ----------------------------------------------------------------------------

GUARDS = launched(GUARDED)
COUNT = counts("atomic_add")
SUM = counts("atomic_add", "f32", flags=REASSOC)

MADE = [
    (GUARDS, COARSEN, "mul %lane, 4", "mul %lane, 2"),
    (GUARDS, COARSEN, "rem %local, 8", "rem %local, 4"),
    (GUARDS, COARSEN, "div %local, 8", "div %local, 4"),
    (GUARDS, COARSEN, "mul %coarse, 4", "mul %coarse, 8"),
    (GUARDS, COARSEN, "lt %group, 5", "le %group, 5"),
    (GUARDS, COARSEN, "lt %group, 5", "lt %group, 4"),
    (GUARDS, COARSEN, "lt %group, 5", "lt %first, 5"),
    (GUARDS, COARSEN, "mul %group, 8", "mul %group, 16"),
    (GUARDS, COARSEN, "add %id, 2", "add %id, 1"),
    (GUARDS, COARSEN, "store %v_2, @y[%id_2] : u32", "store %v_1, @y[%id_2] : u32"),
    (GUARDS, COARSEN, "store %v_2, @y[%id_2] : u32", ""),
    (GUARDS, COARSEN, "store %v_2, @y[%id_2] : u32", "store %v_2, @y[%id_2] : u32 store %v_2, @y[%id_2] : u32"),
    (GUARDS, COARSEN, "%v_2 = load @x[%id_2] : u32", "%v_2 = load @x[%id_1] : u32"),
    (GUARDS, COARSEN, "and %agreed_1, %p_3", "and %agreed_1, %p_2"),
    (GUARDS, COARSEN, "and %agreed_1, %p_3", "or %agreed_1, %p_3"),
    (GUARDS, COARSEN, "if %p_3 {", "if %p_2 {"),
    (GUARDS, COARSEN, "if %p {", "if %agreed {"),
    (GUARDS, COARSEN, "grid(2)", "grid(1)"),
    (GUARDS, COARSEN, "workgroup(8)", "workgroup(16)"),
    (GUARDS, BLOCKED, "mul %coarse, 4", "mul %coarse, 2"),
    (GUARDS, BLOCKED, "add %group, 2", "add %group, 4"),
    (GUARDS, BLOCKED, "add %group, 2", "add %group, 1"),
    (GUARDS, BLOCKED, "lt %group, 5", "lt %group_1, 5"),
    (GUARDS, BLOCKED, "lt %group, 5", "le %group, 5"),
    (GUARDS, BLOCKED, "lt %group_1, 5", "lt %group, 5"),
    (GUARDS, BLOCKED, "if %exists_1 {", "if %exists {"),
    (GUARDS, BLOCKED, "if %exists {", "if %exists_1 {"),
    (GUARDS, BLOCKED, "add %id, 16", "add %id, 8"),
    (GUARDS, BLOCKED, "add %id, 17", "add %id, 16"),
    (GUARDS, BLOCKED, "grid(2)", "grid(1)"),
    (GUARDS, BLOCKED, "store %v_3, @y[%id_3] : u32", ""),
    (launched(GUARDED, OPEN, "ceil_div(len(@x), 8)"), COARSEN, "sub 8, 1", "sub 8, 2"),
    (launched(GUARDED, OPEN, "ceil_div(len(@x), 8)"), COARSEN, "grid(ceil_div(len(@x), 32))", "grid(div(len(@x), 32))"),
    (launched(GUARDED, OPEN, "ceil_div(len(@x), 8)"), COARSEN, "%length = len @x", "%length = len @y"),
    (launched(CARRIED), COARSEN, "add %b_1, %v_1 : u32", "add %b_1, %v : u32"),
    (launched(STENCIL), COARSEN, "%i_2 = add %id_2, 1", "%i_2 = add %id_2, 2"),
    (COUNT, PRIVATIZE, "store 0, @bins.private", "store 1, @bins.private"),
    (COUNT, PRIVATIZE, "u32[12] workgroup", "u32[11] workgroup"),
    (COUNT, PRIVATIZE, "  barrier workgroup\n", ""),
    (COUNT, PRIVATIZE, "to 12 step 8", "to 11 step 8"),
    (COUNT, PRIVATIZE, "to 12 step 8", "to 12 step 16"),
    (COUNT, PRIVATIZE, "check_bounds<atomic_add> @bins[", "check_bounds<atomic_max> @bins["),
    (COUNT, PRIVATIZE, "], 12 : u64", "], 13 : u64"),
    (COUNT, PRIVATIZE, "atomic_add<relaxed> @bins.private", "atomic_max<relaxed> @bins.private"),
    (COUNT, PRIVATIZE, "atomic_add<relaxed> @bins.private", "atomic_add<relaxed> @bins"),
    (COUNT, PRIVATIZE, "= workgroup_id x", "= num_workgroups x"),
    (COUNT, PRIVATIZE, "= num_workgroups x", "= add 2, 2 : u32"),
    (COUNT, PRIVATIZE, "grid(3)", "grid(3, 2)"),
    (SUM, PRIVATIZE, "store -0.0,", "store 0.0,"),
    (SUM, PRIVATIZE, ", 2147483648", ", 0"),
    (SUM, PRIVATIZE, " fastmath<reassoc>", ""),
    (counts("atomic_min", "f32"), PRIVATIZE, "store nan", "store inf"),
    (COUNT, PRIVATIZE, "grid(3)", "grid(len(@x))"),
]  # fmt: skip
IN_ORDER = [
    ("sub %4, 1", "sub %4, 2"),
    ("= min ", "= max "),
    ("step 1 {", "step 2 {"),
    ("    barrier workgroup\n", ""),
]
"""On a target that runs workgroups one after the other."""


@pytest.mark.parametrize(
    ("source", "passes", "old", "new"), MADE, ids=lambda each: each if len(each) < 40 else ""
)
def test_mistakes_in_what_was_made_are_not_proved(source: str, passes: str, old: str, new: str) -> None:
    assert statuses(source, passes, seen=_Changed(edits=[(old, new)])) - {"proved"}


TILES = [
    ("rem %lane_3, 8", "rem %lane_3, 4"),
    ("div %lane_3, 32", "div %lane_3, 16"),
    ("mul %lane_11, 4", "mul %lane_11, 2"),
    ("local_id y", "local_id x"),
    ("add %id_1, 3", "add %id_1, 2"),
    ("if %agreed_2", "if %agreed_1"),
    ("grid(32, 64)", "grid(32, 63)"),
    ("grid(32, 64)", "grid(31, 64)"),
]
"""For a GPU, of a transpose."""


@pytest.mark.parametrize(("old", "new"), TILES)
def test_mistakes_in_tiles_are_not_proved(old: str, new: str) -> None:
    assert statuses(TRANSPOSE, "coarsen", "sm_90", _Changed(edits=[(old, new)])) - {"proved"}


@pytest.mark.parametrize(("old", "new"), IN_ORDER)
def test_mistakes_in_turns_are_not_proved(old: str, new: str) -> None:
    assert statuses(COUNT, PRIVATIZE, "cpu", _Changed(edits=[(old, new)])) - {"proved"}


EARLIER = [
    # neighbours may not be one
    (GUARDS, COARSEN, "%n = len @y", "barrier workgroup %n = len @y"),
    (GUARDS, COARSEN, "store %v, @y[%g]", "%k = lane_id store %k, @y[%g]"),
    (GUARDS, COARSEN, "store %v, @y[%g]", "debug_print \"here\" store %v, @y[%g]"),
    # it was another launch, or another program
    (GUARDS, COARSEN, "grid(5)", "grid(6)"),
    (GUARDS, COARSEN, "grid(5)", "grid(5, 2)"),
    (GUARDS, COARSEN, "lt %g, %n", "le %g, %n"),
    (GUARDS, COARSEN, "store %v, @y[%g]", "store %v, @y[%g] store %n, @y[%g]"),
    # counting may be seen
    (COUNT, PRIVATIZE, "atomic_add<relaxed>", "atomic_add<acquire>"),
    (COUNT, PRIVATIZE, "atomic_add<relaxed> @bins[%k], %w : u32", "atomic_add<relaxed> @bins[%k], %w : u32 %q = atomic_max<relaxed> @bins[%k], %w : u32"),
    (COUNT, PRIVATIZE, "@bins[%k], %w : u32", "@bins[%k], %w : u32 %q = add %o, 1 : u32"),
    (COUNT, PRIVATIZE, "@bins[%k], %w : u32", "@bins[%k], %w : u32 %q = load @bins[0] : u32"),
    (SUM, PRIVATIZE, " fastmath<reassoc>", ""),
    (COUNT, PRIVATIZE, "grid(ceil_div(len(@x), 8))", "grid(ceil_div(len(@x), 4))"),
    (COUNT, PRIVATIZE, "live_in live_out\n\n  launch", "live_in live_out\n\n  host_read @bins launch"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("source", "passes", "old", "new"), EARLIER, ids=lambda each: each if len(each) < 40 else ""
)
def test_another_launch_is_not_proved(source: str, passes: str, old: str, new: str) -> None:
    assert statuses(source, passes, seen=_Changed(earlier=[(old, new)])) - {"proved"}


@pytest.mark.parametrize(("source", "passes"), [(GUARDS, COARSEN), (COUNT, PRIVATIZE)])
def test_what_no_certificate_says_is_not_proved(source: str, passes: str) -> None:
    assert statuses(source, passes, seen=_Changed(remarks=slice(0))) - {"proved"}
    other = ("pipeline @main", f"{COPY}pipeline @main")
    assert statuses(source, passes, seen=_Changed(edits=[other])) - {"proved"}
    assert statuses(source, passes, seen=_Changed(earlier=[other])) - {"proved"}
