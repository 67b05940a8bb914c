"""The second prover: what is right is proved, what is wrong is refuted with a place, and what it cannot know it says."""

from __future__ import annotations

import os
from pathlib import Path
from subprocess import CompletedProcess

import pytest
from support.certifying import certify_seeds, decisions_of, kernel_texts
from support.kernel_cases import kernel_cases
from support.quick import quick
from support.tools import run_tool

from vyre_opt import parse
from vyre_opt.analysis import coverage
from vyre_opt.certify.barriers import removed_barrier
from vyre_opt.certify.in_bounds import in_bounds, unguarded
from vyre_opt.certify.joins import meet_in_one
from vyre_opt.certify.obligations import Obligation, prove, smt2
from vyre_opt.certify.tiles import tile
from vyre_opt.certify.vectors import vector
from vyre_opt.cli.certify import certify
from vyre_opt.ir import Launch, Op, Program
from vyre_opt.lowering.common.certificates import certificates
from vyre_opt.passes import launch_fusion

ROOT = Path(__file__).parents[2]
LONG = ("tensor_train", "base64_scan")
EXAMPLES = sorted((ROOT / "examples").glob("**/*.vyre"), key=lambda path: (path.stem in LONG, path))

HEAD = """vyre 1
program @p workgroup(64) grid(4) {
  buffer @in : u32[256] read binding(0)
  buffer @h : u32[256] read_write
  buffer @out : u32[256] write binding(1) live_out
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c1 = const 1 : u32
  %c3 = const 3 : u32
  %c63 = const 63 : u32
  %c64 = const 64 : u32
  %base = mul %w, %c64 : u32
"""


def program(body: str) -> Program:
    return parse(f"{HEAD}{body}\n}}\n").programs["p"]


def ops(of: Program, name: str) -> list[Op]:
    return [op for op in of.walk() if op.name == name]


def statuses(obligations: list[Obligation]) -> set[str]:
    return {prove(obligation).status for obligation in obligations}


@pytest.mark.parametrize(
    "path",
    quick([*EXAMPLES[::3], *EXAMPLES], keep=8),
    ids=lambda path: path.relative_to(ROOT / "examples").as_posix(),
)
def test_decisions_about_examples_are_proved(path: Path) -> None:
    decisions = decisions_of(path.read_text())
    assert not {d.what for d in decisions if d.status != "proved"}


@pytest.mark.parametrize("seeds", quick([range(504, 505), range(501, 502), range(510, 530)]))
def test_decisions_about_random_texts_are_not_refuted(seeds: range) -> None:
    result = certify_seeds(seeds)
    assert not result.refuted
    assert result.decisions > 20 * len(seeds)
    assert len(result.unknown) < 0.03 * result.decisions


QUICK_KERNELS = ("math.matvec_fixed", "math.softmax_step", "scan.dfa", "decode.hex")
KERNELS = [
    *((kernel, 1) for kernel in QUICK_KERNELS),
    *((kernel, 4) for kernel in dict.fromkeys(case.kernel for case in kernel_cases())),
]


@pytest.mark.parametrize(("kernel", "count"), quick(KERNELS, keep=len(QUICK_KERNELS)))
def test_decisions_about_kernels_are_proved(kernel: str, count: int) -> None:
    """Of some of the cases; support.certifying --kernels has all."""
    cases = [case for case in kernel_cases() if case.kernel == kernel]
    sample = cases[:: max(1, len(cases) // count)]
    decisions = [d for _, text in kernel_texts(sample) for d in decisions_of(text, seconds=10)]
    assert decisions
    assert not [d.what for d in decisions if d.status != "proved"]


def test_a_range_of_one_value_is_a_constant() -> None:
    """Each 64 elements of 256 have 64: what a kernel rounds down to whole subgroups."""
    case = next(
        case
        for case in kernel_cases()
        if case.name.startswith("tt.contract_step f32, 387 x 256 by 32")
        and "splits=1, stream_columns=64" in case.name
    )
    assert {d.status for _, text in kernel_texts([case]) for d in decisions_of(text)} == {"proved"}


BOUNDS = {
    "a guard": ("%p = lt %g, %c64 : u32 if %p { %v = load @in[%g] : u32 }", "proved"),
    "a mask": ("%i = and %g, %c63 : u32 %v = load @in[%i] : u32", "proved"),
    "one too far": ("%i = add %g, %c1 : u32 %v = load @in[%i] : u32", "refuted"),
    "a guard too wide": (
        "%n = const 259 : u32 %j = mul %g, %c3 : u32 %p = lt %j, %n : u32 if %p { %v = load @in[%j] : u32 }",
        "refuted",
    ),
    "less one where it is none": ("%i = sub %g, %c1 : u32 %v = load @in[%i] : u32", "refuted"),
    "a counter": ("for %k = 0 to 256 step 3 { %v = load @in[%k] : u32 }", "proved"),
    "a vector at the end": ("%v = load @in[%g] : vec<2 x u32>", "refuted"),
    "an element as an index": ("%i = load @h[%g] : u32 %v = load @in[%i] : u32", "unknown"),
}


@pytest.mark.parametrize(("body", "status"), BOUNDS.values(), ids=BOUNDS)
def test_accesses_in_bounds(body: str, status: str) -> None:
    of = program(body)
    (claim,) = in_bounds(of, [ops(of, "load")[-1]])
    answer = prove(claim)
    assert answer.status == status
    assert bool(answer.witness) == (status == "refuted")
    assert bool(answer.reason) == (status == "unknown")


@pytest.mark.parametrize(
    ("line", "status"),
    [
        ("%r = div %g, %c3 : u32", "proved"),
        ("%r = div %g, %l : u32", "refuted"),
        ("%r = shl %g, %c3 : u32", "proved"),
        ("%r = shr %g, %l : u32", "refuted"),
        ("%a = cast %g : u32 -> i32 %b = const -1 : i32 %r = div %a, %b : i32", "proved"),
    ],
)
def test_ops_without_guards(line: str, status: str) -> None:
    of = program(line)
    (claim,) = unguarded(of, {op: of.lanes for op in of.walk() if op.results and op.result.name == "r"})
    assert prove(claim).status == status


BEYOND = """vyre 1
program @p workgroup({workgroup}) grid(1) {{
  buffer @x : u32[64] read binding(0)
  %c = const {value} : u32
  %c0 = const 0 : u32
  %c9 = const 9 : u32
  %i = {id}
  %x = load @x[%c0] : u32
  %d = sub %c, %i : u32
  {lines}
}}
"""
DIVIDE = "%r = div %x, %d : u32"


@pytest.mark.parametrize(
    ("workgroup", "value", "index", "lines", "within", "beyond"),
    [
        ("5", 5, "local_id x", DIVIDE, "proved", "refuted"),
        ("5", 33, "local_id x", DIVIDE, "proved", "proved"),
        ("5", 5, "lane_id", DIVIDE, "proved", "refuted"),
        ("5", 5, "global_id x", DIVIDE, "proved", "refuted"),
        ("4, 3", 4, "local_id x", DIVIDE, "proved", "proved"),  # the rows of others
        ("4, 3", 3, "local_id y", DIVIDE, "proved", "refuted"),
        ("4, 3", 8, "local_id y", DIVIDE, "proved", "proved"),  # 32 lanes, of 4 a row
        ("4, 3", 1, "local_id z", DIVIDE, "proved", "proved"),
        ("32", 32, "local_id x", DIVIDE, "proved", "proved"),
        # lanes that have left a loop, and those that a branch keeps out
        ("32", 40, "local_id x", f"for %k = %i to 9 step 1 {{ %d2 = sub %c9, %k : u32 {DIVIDE}2 }}", *["unknown"] * 2),
        ("32", 5, "local_id x", f"%p = lt %i, %c : u32 if %p {{ {DIVIDE} }}", *["refuted"] * 2),
    ],
)  # fmt: skip
def test_ops_without_guards_in_lanes_beyond(
    workgroup: str, value: int, index: str, lines: str, within: str, beyond: str
) -> None:
    text = BEYOND.format(
        workgroup=workgroup, value=value, id=index, lines=lines.replace("%d : u322", "%d2 : u32")
    )
    of = parse(text).programs["p"]
    (divided,) = ops(of, "div")
    found = [prove(claim).status for lanes in (of.lanes, 32) for claim in unguarded(of, {divided: lanes})]
    assert found == [within, beyond]


TILES = {
    "own element": ("store %g, @h[%g] : u32 %x = load @h[%g] : u32", "proved"),
    "mirrored": (
        "store %g, @h[%g] : u32 barrier workgroup %m = sub %c63, %l : u32 %i = add %base, %m : u32"
        " %x = load @h[%i] : u32",
        "proved",
    ),
    "mirrored without a barrier": (
        "store %g, @h[%g] : u32 %m = sub %c63, %l : u32 %i = add %base, %m : u32 %x = load @h[%i] : u32",
        "refuted",
    ),
    "the next workgroup's": (
        "store %g, @h[%g] : u32 barrier workgroup %n = add %g, %c64 : u32 %c255 = const 255 : u32"
        " %i = and %n, %c255 : u32 %x = load @h[%i] : u32",
        "refuted",
    ),
    "only the even ones": (
        "%two = const 2 : u32 %e = rem %l, %two : u32 %zero = const 0 : u32 %p = eq %e, %zero : u32"
        " if %p { store %g, @h[%g] : u32 } barrier workgroup %x = load @h[%g] : u32",
        "refuted",
    ),
    "by one lane": (
        "%p = eq %l, %c3 : u32 if %p { for %k = 0 to 64 step 1 { %i = add %base, %k : u32"
        " store %k, @h[%i] : u32 } } barrier workgroup %x = load @h[%g] : u32",
        "proved",
    ),
}


@pytest.mark.parametrize(("body", "status"), TILES.values(), ids=TILES)
def test_tiles(body: str, status: str) -> None:
    """The tile is that of 64 elements from the workgroup's base on, whether or not it may be one."""
    text = f"{body} store %x, @out[%g] : u32"
    before, after = program(text), program(text)
    after.buffers["h"].count = 64
    rebased(after)
    claims = list(tile(before, after, "h"))
    covered = [claim for claim in claims if "reads" in claim.what]
    assert statuses(covered) == {status}
    assert statuses([claim for claim in claims if "alike" in claim.what]) <= {"proved", "refuted"}


def rebased(of: Program) -> None:
    """Take the workgroup's base off the index of each access of @h."""
    from vyre_opt.ir import OPS, Block, Value

    base = next(op.result for op in of.walk() if op.results and op.result.name == "base")

    def visit(block: Block) -> None:
        for op in list(block.ops):
            for inner in op.regions:
                visit(inner)
            if op.attrs.get("buffer") == "h":
                place = Value("place", op.index.type)
                block.ops.insert(block.ops.index(op), Op(OPS["sub"], (op.index, base), (place,), {}))
                op.operands = (*op.operands[:-1], place)

    visit(of.body)


MOVING = """vyre 1
program @p workgroup(64) grid(1) {
  buffer @in : u32[4096] read binding(0)
  buffer @n : u32[1] read binding(2)
  buffer @h : u32[4096] read_write
  buffer @out : u32[4096] write binding(1) live_out
  %l = local_id x
  %c0 = const 0 : u32
  %c63 = const 63 : u32
  %m = load @n[%c0] : u32
  %rev = sub %c63, %l : u32
  for %k = 0 to 4 step 1 {
    %b = mul %k, %m : u32
    %i = add %b, %l : u32
    %j = add %b, %rev : u32
    %v = load @in[%i] : u32
    store %v, @h[%i] : u32
    barrier workgroup
    %x = load @h[%j] : u32
    store %x, @out[%i] : u32
    BARRIER
  }
}
"""


def test_a_tile_whose_base_moves_with_a_loop() -> None:
    """It is used again in each iteration, which a barrier parts."""
    decisions = [
        d for d in decisions_of(MOVING.replace("BARRIER", "barrier workgroup")) if "tile of" in d.what
    ]
    assert [d.status for d in decisions] == ["proved"]
    before = parse(MOVING.replace("BARRIER", "")).programs["p"]
    after = parse(MOVING.replace("BARRIER", "").replace("@h[%i]", "@h[%l]").replace("@h[%j]", "@h[%rev]"))
    assert "refuted" in statuses(list(tile(before, after.programs["p"], "h")))


@pytest.mark.parametrize(
    ("between", "expected"),
    [
        ("region @part { barrier workgroup }", "proved"),
        ("region @part { region @inner { %c = add %l, %c1 : u32 barrier workgroup } }", "proved"),
        ("region @part { barrier subgroup }", "refuted"),
        ("for %k = 0 to 0 step 1 { barrier workgroup }", "refuted"),
    ],
)
def test_a_barrier_in_a_region_of_the_text(between: str, expected: str) -> None:
    """All lanes run it, other than what is in a loop or a branch."""
    of = program(
        f"store %g, @h[%g] : u32 {between} %r = sub %c63, %l : u32 %i = add %base, %r : u32 "
        "%x = load @h[%i] : u32 store %x, @out[%g] : u32"
    )
    (covers,) = [claim for claim in tile(of, of, "h") if "has written" in claim.what]
    assert prove(covers).status == expected


def test_a_tile_that_is_too_small() -> None:
    text = "store %g, @h[%g] : u32 %x = load @h[%g] : u32 store %x, @out[%g] : u32"
    before, after = program(text), program(text)
    after.buffers["h"].count = 63
    rebased(after)
    assert statuses([c for c in tile(before, after, "h") if "lies in" in c.what]) == {"refuted"}


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ("store %g, @h[%g] : u32 barrier workgroup %x = load @h[%g] : u32", "proved"),
        ("store %g, @h[%g] : u32 barrier workgroup %i = xor %g, %c1 : u32 %x = load @h[%i] : u32", "refuted"),
        (
            "store %g, @h[%g] : u32 barrier workgroup barrier workgroup %i = xor %g, %c1 : u32 %x = load @h[%i] : u32",
            "proved",
        ),
        ("for %k = 0 to 3 step 1 { store %g, @h[%g] : u32 barrier workgroup }", "unknown"),
    ],
)
def test_removed_barriers(body: str, status: str) -> None:
    of = program(body)
    barrier = ops(of, "barrier")[0]
    assert statuses(list(removed_barrier(of, barrier, [barrier]))) == {status}


@pytest.mark.parametrize(
    ("first", "second", "expected"),
    [
        ("%i = mul %l, %two : u32", "%j = add %i, %c1 : u32", {"proved"}),
        ("%i = mul %l, %c3 : u32", "%j = add %i, %c1 : u32", {"proved", "refuted"}),  # not aligned
        ("%i = mul %l, %two : u32", "%j = add %i, %two : u32", {"proved", "refuted"}),  # no neighbour
    ],
)
def test_vectors(first: str, second: str, expected: set[str]) -> None:
    of = program(
        f"%two = const 2 : u32 {first} {second} %a = load @in[%i] : u32 store %a, @h[%i] : u32 %b = load @in[%j] : u32"
    )
    loads = ops(of, "load")
    assert statuses(list(vector(of, [[loads[0]], [loads[1]]]))) == expected


def test_a_load_does_not_move_over_a_store_of_its_element() -> None:
    of = program(
        "%two = const 2 : u32 %i = mul %l, %two : u32 %j = add %i, %c1 : u32"
        " %a = load @h[%i] : u32 store %a, @h[%j] : u32 %b = load @h[%j] : u32"
    )
    loads = ops(of, "load")
    failed = [c.what for c in vector(of, [[loads[0]], [loads[1]]]) if prove(c).status != "proved"]
    assert failed == ["this load may move past store @h: they are of different elements"]


PIPELINE = """vyre 1
program @a workgroup(4) {{
  buffer @z : u32[2] read binding(0)
  buffer @m : u32[16] write binding(1)
  %w = workgroup_id x
  %l = local_id x
  %g = global_id x
  %o = load @z[%w] : u32
  %i = {index}
  store %g, @m[%i] : u32
}}
program @b workgroup(4) {{
  buffer @z : u32[2] {access} binding(0) {live}
  %w = workgroup_id x
  {change}
}}
program @c workgroup(4) {{
  buffer @z : u32[2] read binding(0)
  buffer @m : u32[16] read binding(1)
  buffer @y : u32[8] write binding(2)
  %w = workgroup_id x
  %l = local_id x
  %g = global_id x
  %o = load @z[%w] : u32
  %i = {other}
  %v = load @m[%i] : u32
  store %v, @y[%g] : u32
}}
pipeline @main {{
  buffer @z : u32[2] live_in live_out
  buffer @m : u32[16]
  buffer @y : u32[8] write
  launch @a grid(2) (@z, @m)
  launch @b grid(2) (@z)
  launch @c grid(2) (@z, @m, @y)
}}
"""
KEPT = {"access": "read", "live": "", "change": ""}
CHANGED = {
    "access": "read_write",
    "live": "live_in live_out",
    "change": "%n = load @z[%w] : u32 store %n, @z[%w] : u32",
}


@pytest.mark.parametrize(
    ("index", "other", "between", "expected"),
    [
        ("add %g, %w : u32", "add %g, %w : u32", KEPT, {"proved"}),  # 5*w + l
        (
            "add %g, %w : u32",
            "add %l, %w : u32",
            KEPT,
            {"refuted"},
        ),  # the second workgroup loads the first one's
        ("add %g, %w : u32", "max %g, %w : u32", KEPT, {"refuted"}),  # of one workgroup, but of other lanes
        ("add %l, %g : u32", "add %l, %g : u32", KEPT, {"proved"}),  # 4*w + 2*l: a race of @a, so no program
        ("add %o, %l : u32", "add %o, %l : u32", KEPT, {"proved"}),
        ("add %o, %l : u32", "add %o, %l : u32", CHANGED, {"refuted"}),
    ],
)
def test_joined_launches(index: str, other: str, between: dict[str, str], expected: set[str]) -> None:
    """Without barriers: where launches meet, it is one lane."""
    module = parse(PIPELINE.format(index=index, other=other, **between))
    pipeline = module.pipelines["main"]
    launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
    found = statuses(list(meet_in_one(module, pipeline, launches, ())))
    if between is CHANGED:
        found -= {"proved", "unknown"}  # of @b and its neighbours, and where other data would be a race
    assert found == expected


@pytest.mark.parametrize(
    ("other", "expected"),
    [
        ("add %o, %l : u32", {"proved"}),  # @a would store the element twice, by its two stores
        ("add %o, %g : u32", {"refuted"}),
    ],
)
def test_launches_without_races_are_joined(other: str, expected: set[str]) -> None:
    """Its first workgroup stores wherever @z says, its second one to the first elements too."""
    first = PIPELINE.replace(
        "store %g, @m[%i] : u32\n}}\nprogram @b",
        "store %g, @m[%i] : u32\n%p = lt %l, %w : u32\nif %p {{ store %w, @m[%l] : u32 }}\n}}\nprogram @b",
    )
    module = parse(first.format(index="add %o, %l : u32", other=other, **KEPT))
    pipeline = module.pipelines["main"]
    launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
    found = statuses(list(meet_in_one(module, pipeline, launches, ())))
    assert expected <= found <= expected | {"proved", "unknown"}
    assert ("refuted" in found) == ("refuted" in expected)


@pytest.mark.parametrize(("default", "guards"), [(3, 0), (0, 1), (None, 1)])
def test_specialization_constants_have_their_defaults(default: int | None, guards: int) -> None:
    """What the lowering leaves out since the value is fixed is a decision, and is proved for that value."""
    value = "" if default is None else f" = {default}"
    text = f"""vyre 1
    program @p workgroup(32) {{
      buffer @x : u32[64] read_write binding(0) live_in live_out
      spec @k : u32{value}
      %l = local_id x
      %k = spec @k : u32
      %i = add %l, %k : u32
      %v = load @x[%i] : u32
      %q = div %v, %k : u32
      store %q, @x[%l] : u32
    }}
    """
    found = [(d.what, d.status) for d in decisions_of(text) if d.by == "lowering"]
    assert ("@p: div needs no guard" in dict(found)) == (not guards)
    assert ("@p: load @x is in bounds" in dict(found)) == (default is not None)
    assert set(dict(found).values()) == {"proved"}


def test_a_race_in_a_loop_that_the_other_launch_has_not() -> None:
    """Every workgroup of which @z has a 0 stores the first elements, in its second loop; such a workgroup loads them."""
    text = """vyre 1
    program @a workgroup(4) {
      buffer @z : u32[2] read binding(0)
      buffer @m : u32[16] write binding(1)
      %w = workgroup_id x
      %l = local_id x
      %zero = const 0 : u32
      %o = load @z[%w] : u32
      %p = eq %o, %zero : u32
      %n = for %r = 0 to %o step 1 iter(%c = %zero : u32) { %d = add %c, %r : u32 yield %d }
      for %k = 0 to 8 step 1 { if %p { %e = add %n, %k : u32 store %e, @m[%l] : u32 } }
    }
    program @c workgroup(4) {
      buffer @z : u32[2] read binding(0)
      buffer @m : u32[16] read binding(1)
      buffer @y : u32[8] write binding(2)
      %w = workgroup_id x
      %l = local_id x
      %g = global_id x
      %zero = const 0 : u32
      %s = for %k = 0 to 8 step 2 iter(%a = %zero : u32) {
        %o = load @z[%w] : u32
        %p = eq %o, %zero : u32
        %b = if %p -> u32 { %v = load @m[%l] : u32 %t = add %a, %v : u32 yield %t } else { yield %a }
        yield %b
      }
      for %r = 0 to 8 step 1 { %u = add %s, %r : u32 store %u, @y[%g] : u32 }
    }
    pipeline @main {
      buffer @z : u32[2] live_in live_out
      buffer @m : u32[16]
      buffer @y : u32[8] write
      launch @a grid(2) (@z, @m)
      launch @c grid(2) (@z, @m, @y)
    }
    """
    module = parse(text)
    pipeline = module.pipelines["main"]
    launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
    assert statuses(list(meet_in_one(module, pipeline, launches, ()))) == {"proved"}


@pytest.mark.parametrize("grid", ["max(1, ceil_div(len(@x), 64))", "ceil_div(len(@x), 64), 1, 1"])
def test_joined_launches_of_open_sizes(grid: str) -> None:
    """The grid is not known along x, so it may be any; along y and z it is."""
    text = """vyre 1
    program @a workgroup(64) {
      buffer @x : u32[?] read binding(0)
      buffer @y : u32[?] write binding(1) live_out
      %g = global_id x
      %n = len @y
      %p = lt %g, %n : u32
      if %p {
        %v = load @x[%g] : u32
        store %v, @y[%g] : u32
      }
    }
    pipeline @main {
      buffer @x : u32[?] read
      buffer @m : u32[?]
      buffer @y : u32[?] write live_out
      launch @a grid(GRID) (@x, @m)
      launch @a grid(GRID) (@m, @y)
    }
    """
    decisions = [d for d in decisions_of(text.replace("GRID", grid)) if d.by == "launch_fusion"]
    assert [d.status for d in decisions] == ["proved"]


@pytest.mark.usefixtures("unchecked_results")
def test_an_unsound_coverage_is_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """An index of u8 wraps; compared as an integer it seems to be another element."""
    text = (ROOT / "test" / "conformance" / "soundness" / "narrow_index_wraps.vyre").read_text()
    text = text.replace("sub %c1, %w", "mul %c1, %w").replace("%z = eq", "%z = ne")  # only a factor wraps
    assert {d.status for d in decisions_of(text)} == {"proved"}
    monkeypatch.setattr(coverage, "same_element", lambda a, b: True)
    refuted = [d for d in decisions_of(text) if d.status == "refuted"]
    assert refuted
    (answer,) = [a for d in refuted for a in d.answers if a.status == "refuted"][:1]
    assert {"first workgroup x", "second workgroup x", "first element"} <= answer.witness.keys()
    error = next(certify(refuted))
    assert error.message.startswith("refuted: [launch_fusion] 2 launches (@a, @b) become one")
    assert "not so where first workgroup x = " in error.notes[0][0]


OWN_LENGTHS = """vyre 2
program @a workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %n = len @y
  %is_inside = lt %i, %n : u32
  if %is_inside {
    %v = load @x[%i] : u32
    store %v, @y[%i] : u32
  }
}
program @b workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %n = len @x
  %is_inside = lt %i, %n : u32
  if %is_inside {
    %v = load @x[%i] : u32
    store %v, @y[%i] : u32
  }
}
pipeline @main {
  buffer @x : u32[?] read
  buffer @m : u32[SIZE]
  buffer @y : u32[?] write live_out
  launch @a grid(ceil_div(len(@x), 64)) (@x, @m)
  launch @b grid(ceil_div(len(@x), 64)) (@m, @y)
}
"""


def test_equal_lengths_are_proved() -> None:
    assert {d.status for d in decisions_of(OWN_LENGTHS.replace("SIZE", "len(@x)"))} == {"proved"}


def test_lengths_that_are_not_equal_are_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    text = OWN_LENGTHS.replace("SIZE", "max(div(len(@x), 2), 1)")
    assert {d.status for d in decisions_of(text)} == {"proved"}
    numbers = {"x": (0,), "m": (0,), "y": (1,)}
    monkeypatch.setattr(launch_fusion, "length_numbers", lambda pipeline: numbers)
    (decision,) = [d for d in decisions_of(text) if d.by == "launch_fusion"]
    assert decision.status == "unknown"


def run_opt(*args: str) -> CompletedProcess[str]:
    return run_tool("vyre-opt", args, b"", None, os.environ)


def test_the_tool() -> None:
    good = ROOT / "examples" / "hex_sum.vyre"
    ran = run_opt("-O", "--certify", str(good))
    assert (ran.returncode, "proved" in ran.stderr, "error" in ran.stderr) == (0, True, False)
    assert ran.stdout.startswith("vyre 2")
    formulas = run_opt("-O", "--emit=smt2", str(good))
    assert formulas.returncode == 0
    assert formulas.stdout.count("(check-sat)") > 3


def test_formulas_for_other_solvers() -> None:
    import z3

    of = program("%i = add %g, %c1 : u32 %v = load @in[%i] : u32")
    (claim,) = in_bounds(of, ops(of, "load"))
    solver = z3.Solver()
    solver.from_string(smt2(claim))
    assert solver.check() == z3.sat, "it can be negated: the access is out of bounds"


CHAINS = [
    "%v{next} = min %v{k}, %c7 : u32",
    "%p{next} = and %p{k}, %p{k} : bool %v{next} = xor %v{k}, %c7 : u32",
    "%v{next} = add %v{k}, %l : u32",
    "%q{k} = ne %l, %c7 : u32 %p{next} = and %p{k}, %q{k} : bool %v{next} = max %v{k}, %l : u32",
    "%p{next} = not %p{k} : bool %v{next} = sub %v{k}, %l : u32",
]


@pytest.mark.parametrize("chain", quick(CHAINS, keep=2))
def test_long_chains(chain: str) -> None:
    """Of ops behind an index, a condition and a divisor: neither prover runs out of stack, or writes out what is shared."""
    lines = "".join(chain.format(k=k, next=k + 1) + "\n" for k in range(1500))
    last = "p1500" if "%p{next}" in chain else "p0"
    text = f"""vyre 1
    program @p workgroup(64) {{
      buffer @x : u32[64] read_write binding(0) live_in live_out
      %l = local_id x
      %c7 = const 7 : u32
      %v0 = load @x[%l] : u32
      %p0 = lt %l, %c7 : u32
      {lines}
      %i = rem %v1500, %c7 : u32
      if %{last} {{
        %a = load @x[%i] : u32
        %d = div %a, %v1500 : u32
        store %d, @x[%l] : u32
      }}
    }}
    """
    decisions = decisions_of(text)
    assert {d.status for d in decisions if d.by == "lowering"} == {"proved"}
    assert "@p: load @x is in bounds" in {d.what for d in decisions}


@pytest.mark.parametrize(
    "op",
    ["clz %l", "popcount %l", "abs_diff %l, %c7", "mul_hi %l, %c7", "not %l", "rotl %l, %c7", "and %g, %c21"],
)
def test_ops_of_few_values_are_looked_at_one_by_one(op: str) -> None:
    """The compiler knows them lane by lane; the second prover has no other rule for them."""
    text = f"""vyre 1
    program @p workgroup(48) {{
      buffer @x : u32[64] read_write binding(0) live_in live_out
      %l = local_id x
      %g = global_id x
      %c7 = const 7 : u32
      %c21 = const 21 : u32
      %v = {op} : u32
      %mask = const 63 : u32
      %i = and %v, %mask : u32
      %j = min %i, %mask : u32
      %least = const 1 : u32
      %d = max %v, %least : u32
      %a = load @x[%j] : u32
      %q = div %a, %d : u32
      store %q, @x[%l] : u32
    }}
    """
    found = {d.what: d.status for d in decisions_of(text) if d.by == "lowering"}
    assert set(found.values()) == {"proved"}
    assert "@p: div needs no guard" in found


def test_on_a_gpu_only_lanes_that_come_to_a_division_need_a_guard() -> None:
    """The counter is 116 and 123, never 126; lanes of a CPU go on computing when their loop has ended."""
    text = """vyre 1
    program @p workgroup(32) {
      buffer @x : u32[1] read_write binding(0) live_in live_out
      %c = const 126 : i32
      %z = const 0 : u32
      %n = const 7 : i32
      for %k = 116 to 126 step 7 : i32 {
        %d = sub %c, %k : i32
        %q = div %n, %d : i32
        %u = cast %q : i32 -> u32
        %old = atomic_add<relaxed> @x[%z], %u : u32
      }
    }
    """
    (program,) = parse(text).programs.values()
    guards = [facts["lanes"] for _, facts in certificates(program) if facts["claim"] == "no_guard"]
    assert guards == [None]
    assert {d.status for d in decisions_of(text)} == {"proved"}
