"""launch_fusion on pipelines of every kind: as many launches as can be, and the same outputs."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from support.calls import count_calls
from support.each import each
from support.launch_kinds import KINDS, TRIPLE, Kind, pipeline

from vyre_opt import PassManager, fingerprint, parse, print_program
from vyre_opt.fusion import group_legality, pair_legality
from vyre_opt.ir import Buffer, DataType, Launch, Module, Pipeline
from vyre_opt.passes import PassContext, launch_fusion
from vyre_opt.passes.manager import Remark, Result
from vyre_opt.passes.registry import PassError

DECODE_AND_SUM = """vyre 1
program @decode workgroup(256) {
  buffer @text : u8[?] read binding(0)
  buffer @bytes : u8[?] write binding(1) live_out
  %w = workgroup_id x
  %l = local_id x
  %size = const 1024 : u32
  %tile = mul %w, %size : u32
  %lanes = const 256 : u32
  %bit = const 15 : u8
  for %k = 0 to 4 step 1 {
    %round = mul %k, %lanes : u32
    %p = add %tile, %l : u32
    %i = add %p, %round : u32
    %c = load @text[%i] : u8
    %d = and %c, %bit : u8
    store %d, @bytes[%i] : u8
  }
}
program @sum workgroup(256) {
  buffer @bytes : u8[?] read binding(0)
  buffer @sums : u32[?] write binding(1) live_out
  %w = workgroup_id x
  %l = local_id x
  %g = global_id x
  %size = const 1024 : u32
  %tile = mul %w, %size : u32
  %four = const 4 : u32
  %chunk = mul %l, %four : u32
  %first = add %tile, %chunk : u32
  %zero = const 0 : u32
  %sum = for %k = 0 to 4 step 1 iter(%acc = %zero : u32) {
    %i = add %first, %k : u32
    %b = load @bytes[%i] : u8
    %wide = cast %b : u8 -> u32
    %next = add %acc, %wide : u32
    yield %next
  }
  store %sum, @sums[%g] : u32
}
pipeline @main {
  buffer @text : u8[4096] read
  buffer @mid : u8[4096]
  buffer @sums : u32[1024] write live_out
  launch @decode grid(4) (@text, @mid)
  launch @sum grid(4) (@mid, @sums)
}
"""

ROWS = """
program @scale_rows workgroup(256) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %row = workgroup_id x
  %l = local_id x
  %n = const 1024 : u32
  %start = mul %row, %n : u32
  %c = const 0.125 : f32
  for %k = %l to 1024 step 256 {
    %i = add %start, %k : u32
    %v = load @x[%i] : f32
    %s = mul %v, %c : f32
    store %s, @y[%i] : f32
  }
}
program @dot_rows workgroup(256) {
  buffer @x : f32[?] read binding(0)
  buffer @v : f32[1024] read binding(1)
  buffer @y : f32[?] write binding(2) live_out
  %row = workgroup_id x
  %l = local_id x
  %n = const 1024 : u32
  %start = mul %row, %n : u32
  %zero = const 0 : u32
  %none = const 0.0 : f32
  %first = eq %l, %zero : u32
  if %first {
    %sum = for %k = 0 to 1024 step 1 iter(%acc = %none : f32) {
      %i = add %start, %k : u32
      %a = load @x[%i] : f32
      %b = load @v[%k] : f32
      %next = fma %a, %b, %acc : f32
      yield %next
    }
    store %sum, @y[%row] : f32
  }
}
pipeline @main {
  buffer @x : f32[3072] read
  buffer @v : f32[1024] read
  buffer @m : f32[3072]
  buffer @n : f32[3072]
  buffer @y : f32[3] write live_out
  launch @scale_rows grid(3) (@x, @m)
  launch @softmax_rows grid(3) (@m, @n)
  launch @dot_rows grid(3) (@n, @v, @y)
}
"""
EXAMPLES = Path(__file__).parents[2] / "examples"
Run = Callable[..., list[tuple[str, bytes]]]


def fuse(text: str, options: str = "", then: str = "") -> tuple[Module, Result]:
    """The module after the pass."""
    module = parse(text)
    result = PassManager(f"launch_fusion{options}{then}").run(module)
    return parse(print_program(module)), result


def launches(module: Module, name: str = "main") -> list[Launch]:
    return [stage for stage in module.pipelines[name].walk() if isinstance(stage, Launch)]


def refusals(result: Result) -> list[Remark]:
    return [r for r in result.remarks if (r.pass_name, r.kind) == ("launch_fusion", "refused")]


def internal(result: Result) -> list[str]:
    mine = [r for r in result.remarks if (r.pass_name, r.kind) == ("launch_fusion", "applied")]
    return sorted({name for r in mine for name in r.certificate["internal"]})


@pytest.fixture(scope="module")
def unjoined(run_pipeline: Run) -> Callable[[Kind], list[tuple[str, bytes]]]:
    """What the pipeline of a kind computes as it is, run once."""
    return cache(lambda kind: run_pipeline(parse(kind.text)))


@pytest.mark.parametrize("strategy", ["optimal", "greedy"])
def test_kind(strategy: str, run_pipeline: Run, unjoined: Callable[[Kind], object]) -> None:
    """What is joined, what becomes internal, why the rest does not, and that outputs stay."""

    def check(kind: Kind) -> None:
        module, result = fuse(kind.text, f"{{strategy={strategy}}}")
        reasons = {r.certificate["reason"] for r in refusals(result)}
        assert run_pipeline(module) == unjoined(kind)
        assert len(launches(module)) == kind.launches
        assert internal(result) == sorted(kind.internal)
        assert reasons == set(kind.reasons)
        assert not set(kind.internal) & module.pipelines["main"].buffers.keys()

    each(KINDS, check)


def test_tiles_after(run_pipeline: Run, unjoined: Callable[[Kind], object]) -> None:
    """decode_scan_fuse makes a workgroup tile of every internal buffer; outputs stay."""

    def check(kind: Kind) -> None:
        module, result = fuse(kind.text, then=",decode_scan_fuse")
        assert run_pipeline(module) == unjoined(kind)
        launched = {stage.program for stage in launches(module)}
        tiles = {b.name for p in launched for b in module.programs[p].buffers.values() if b.is_workgroup}
        if kind.name != "a buffer used again":  # whose second program shares the first one's names
            assert tiles >= set(internal(result))

    each(KINDS, check)


@pytest.mark.campaign
def test_growth_is_linear() -> None:
    """A line of eight times the launches takes eight times the calls to plan and join: proofs are kept by kind."""

    def calls(count: int) -> int:
        module = parse("vyre 1\n" + TRIPLE)
        names = ["x", *(f"m{k}" for k in range(count - 1)), "y"]
        line = Pipeline("main")
        for name in names:
            line.buffers[name] = Buffer(name, DataType.U32, 256, None, live_out=name == "y")
        line.stages = [Launch("triple", (4, 1, 1), pair) for pair in pairwise(names)]
        module.add(line)

        def join() -> None:
            assert launch_fusion.LaunchFusion().run(module, PassContext())

        work = count_calls(join)
        assert len(launches(module)) == -(-count // 32)
        assert len(module.programs) <= 5
        return work

    calls(64)  # what is imported at the first run
    assert calls(4096) < 9 * calls(512)


def test_stages_of_one_buffer_share_proofs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every pair of a group shares the buffer, and each program computes something else from the same elements."""
    programs = "".join(
        f"""program @p{number} workgroup(64) {{
          buffer @x : u32[?] read_write binding(0) live_in live_out
          %g = global_id x
          %c = const {number} : u32
          %v = load @x[%g] : u32
          %s = add %v, %c : u32
          store %s, @x[%g] : u32
        }}
        """
        for number in range(64)
    )
    stages = "".join(f"launch @p{number} grid(4) (@x)\n" for number in range(64))
    module = parse(f"vyre 1\n{programs}pipeline @main {{ buffer @x : u32[256] live_in live_out\n{stages}}}")
    proofs = []

    def prove_pair(*arguments: object) -> group_legality.Verdict:
        proofs.append(arguments)
        return pair_legality.prove_pair(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(group_legality, "prove_pair", prove_pair)
    PassManager("launch_fusion").run(module)
    assert len(launches(module)) == 2
    assert len(proofs) == 1


def test_hand_off_of_a_decoder(run_pipeline: Run) -> None:
    """Two launches of rounds and chunks become one, and the hand-off a tile of u8."""
    text = DECODE_AND_SUM
    module, result = fuse(text, then=",decode_scan_fuse")
    (launch,) = launches(module)
    (tile,) = [b for b in module.programs[launch.program].buffers.values() if b.name == "mid"]
    assert internal(result) == ["mid"]
    assert (tile.is_workgroup, tile.count) == (True, 1024)
    assert run_pipeline(module) == run_pipeline(parse(text))


def test_remark_has_the_facts() -> None:
    """A remark can be read by a program: what was joined, and what it saves."""
    _, result = fuse(next(kind.text for kind in KINDS if kind.name == "a halo of 16"))
    (remark,) = [r for r in result.remarks if (r.pass_name, r.kind) == ("launch_fusion", "applied")]
    facts = remark.certificate
    assert facts["pipeline"] == "main"
    assert facts["launches"] == ["triple", "window"]
    assert facts["program"] == "triple_then_window"
    assert facts["internal"] == ["m"]
    assert (facts["saved_launches"], facts["saved_bytes"]) == (1, 2 * 1024 * 4)
    (halo,) = facts["halo"]
    assert (halo["buffer"], halo["tile"], halo["own"], halo["recomputed"]) == ("m", [-16, 79], 64, 32)
    assert remark.loc is not None


def test_notes_of_fusion_pressure_are_kept_to() -> None:
    """A launch that is noted not to be fused begins a group."""
    text = next(kind.text for kind in KINDS if kind.name == "elementwise chain of 3")
    module = parse(text)
    PassManager("fusion_pressure{dispatcher=closed threshold=2.0}").run(module)
    assert all(stage.notes["fuse"] is False for stage in launches(module)[1:])
    ctx = PassContext()
    assert not launch_fusion.LaunchFusion().run(module, ctx)
    assert {r.certificate["reason"] for r in ctx.remarks} == {"pressure"}


@pytest.mark.parametrize(("option", "left"), [("max_group=2", 2), ("max_group=1", 4), ("max_group=3", 2)])
def test_max_group(option: str, left: int, run_pipeline: Run) -> None:
    """No more launches than max_group become one."""
    text = next(kind.text for kind in KINDS if kind.name == "elementwise chain of 4")
    module, result = fuse(text, f"{{{option}}}")
    assert len(launches(module)) == left
    assert {r.certificate["reason"] for r in refusals(result)} <= {"max-group", "third-consumer", "plan"}
    assert run_pipeline(module) == run_pipeline(parse(text))


@pytest.mark.parametrize(
    ("option", "message"),
    [("max_group=0", "max_group is"), ("strategy=best", "optimal or greedy"), ("budget=-1", "budget is")],
)
def test_wrong_options(option: str, message: str) -> None:
    with pytest.raises(PassError, match=message):
        PassManager(f"launch_fusion{{{option}}}")


def test_budget_of_workgroup_memory() -> None:
    """What a group needs of workgroup memory, the tile of a halo included, is within the budget."""
    text = next(kind.text for kind in KINDS if kind.name == "a halo of 16")
    for budget, left in ((96 * 4, 1), (96 * 4 - 1, 2)):
        module, result = fuse(text, f"{{budget={budget}}}")
        assert len(launches(module)) == left
        assert [r.certificate["reason"] for r in refusals(result)] == ["budget"] * (left - 1)


def test_programs_are_shared(run_pipeline: Run) -> None:
    """Launches joined in the same way twice run one program."""
    text = (
        "vyre 1\n"
        + TRIPLE
        + pipeline(
            "x[256]r a[256] b[256] c[256] y[256]w",
            """launch @triple grid(4) (@x, @a)
        launch @triple grid(4) (@a, @b)
        host_read @b
        launch @triple grid(4) (@b, @c)
        launch @triple grid(4) (@c, @y)""",
        )
    )
    module, _ = fuse(text)
    first, second = launches(module)
    assert first.program == second.program
    assert list(module.programs) == [first.program]
    assert run_pipeline(module) == run_pipeline(parse(text))


def test_open_sizes_stay_bound(run_pipeline: Run) -> None:
    """Launches over buffers of open size are joined; the hand-off stays an argument, which nobody else sees."""
    text = (
        "vyre 1\n"
        + TRIPLE
        + pipeline(
            "x[?]r m[?] y[?]w",
            """launch @triple grid(ceil_div(len(@x), 64)) (@x, @m)
        launch @triple grid(ceil_div(len(@x), 64)) (@m, @y)""",
        )
    )
    module, result = fuse(text)
    lengths = dict.fromkeys("xmy", 192)
    assert len(launches(module)) == 1
    assert not refusals(result)
    (program,) = module.programs.values()
    assert program.buffers["m"].is_transient
    assert run_pipeline(module, lengths=lengths) == run_pipeline(parse(text), lengths=lengths)


GUARDED = """
program @triple workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %n = len @y
  %is_inside = lt %i, %n : u32
  if %is_inside {
    %three = const 3 : u32
    %v = load @x[%i] : u32
    %w = mul %v, %three : u32
    store %w, @y[%i] : u32
  }
}
"""
SIZED = """vyre 2
GUARDED
pipeline @main {
  buffer @x : u32[?] read
  buffer @m : u32[SIZE]
  buffer @n : u32[len(@m)]
  buffer @y : u32[?] write live_out
  launch @triple grid(ceil_div(len(@m), 64)) (@x, @m)
  launch @triple grid(ceil_div(len(@n), 64)) (@m, @n)
  launch @last grid(ceil_div(len(@n), 64)) (@n, @y)
}
"""


@pytest.mark.parametrize("size", ["len(@x)", "div(len(@x), 2)", "min(len(@x), 100)"])
def test_what_equal_lengths_guard_stays_in_registers(size: str, run_pipeline: Run) -> None:
    """Each program asks for the length of its own buffer; the pipeline says that these are equal."""
    last = GUARDED.replace("@triple", "@last").replace("len @y", "len @x")
    text = SIZED.replace("GUARDED", GUARDED + last).replace("SIZE", size)
    module, _ = fuse(text, then=",decode_scan_fuse,canonicalize,cse,simplify_cf,store_forward,cse,dce")
    (program,) = module.programs.values()
    accesses = [op.name for op in program.walk() if op.name in ("load", "store")]
    assert accesses == ["load", "store"]
    lengths = {"x": 200, "y": 200}
    assert run_pipeline(module, lengths=lengths) == run_pipeline(parse(text), lengths=lengths)


def test_other_lengths_are_not_taken_for_equal(run_pipeline: Run) -> None:
    text = SIZED.replace("GUARDED", GUARDED + GUARDED.replace("@triple", "@last"))
    text = text.replace("SIZE", "len(@x)").replace("u32[len(@m)]", "u32[div(len(@m), 2)]")
    module, _ = fuse(text, then=",decode_scan_fuse,canonicalize,cse,simplify_cf,store_forward,cse,dce")
    lengths = {"x": 200, "y": 100}
    assert run_pipeline(module, lengths=lengths) == run_pipeline(parse(text), lengths=lengths)
    assert "m" in module.pipelines["main"].buffers


SIGNED = """vyre 1

program @box workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %g = global_id x
  %i = cast %g : u32 -> i32
  %n = const 128 : i32
  %zero = const 0 : i32
  %none = const 0.0 : f32
  %sum = for %k = -1 to 2 step 1 iter(%before = %none : f32) : i32 {
    %j = add %i, %k : i32
    %low = ge %j, %zero : i32
    %high = lt %j, %n : i32
    %is_inside = and %low, %high : bool
    %after = if %is_inside -> f32 {
      %v = load @x[%j] : f32
      %w = add %before, %v : f32
      yield %w
    } else {
      yield %before
    }
    yield %after
  }
  store %sum, @y[%i] : f32
}

pipeline @main {
  buffer @x : f32[128] read
  buffer @m : f32[128]
  buffer @y : f32[128] write live_out
  launch @box grid(2) (@x, @m)
  launch @box grid(2) (@m, @y)
}
"""


def test_a_halo_of_signed_indices_prints_and_reads_back(run_pipeline: Run) -> None:
    module, _ = fuse(SIGNED)
    assert len(launches(module)) == 1
    assert fingerprint(parse(print_program(module))) == fingerprint(module)
    assert run_pipeline(module) == run_pipeline(parse(SIGNED))


def test_specs_must_agree(run_pipeline: Run) -> None:
    """Equal specs become one; others would change what --spec sets."""
    add = TRIPLE.replace("%d = add %v, %v", "%k = spec @k : u32\n  %d = add %v, %k")
    for default, left in ((3, 1), (4, 2)):
        one = add.replace("%g = global_id", "spec @k : u32 = 3\n  %g = global_id", 1)
        two = add.replace("@triple", "@second").replace(
            "%g = global_id", f"spec @k : u32 = {default}\n  %g = global_id", 1
        )
        text = (
            "vyre 1\n"
            + one
            + two
            + pipeline(
                "x[256]r m[256] y[256]w",
                "launch @triple grid(4) (@x, @m)\nlaunch @second grid(4) (@m, @y)",
            )
        )
        module, result = fuse(text)
        assert len(launches(module)) == left
        assert [r.certificate["reason"] for r in refusals(result)] == ["spec"] * (left - 1)
        assert run_pipeline(module) == run_pipeline(parse(text))


def test_scale_softmax_dot(run_pipeline: Run) -> None:
    """Three launches over rows, softmax that of the examples, become one with two tiles."""
    softmax = (EXAMPLES / "softmax_rows.vyre").read_text()
    text = softmax.replace("%columns = spec @columns : u32", "%columns = const 1024 : u32") + ROWS
    module, result = fuse(text, then=",decode_scan_fuse")
    (launch,) = launches(module)
    tiles = {b.name: b.count for b in module.programs[launch.program].buffers.values() if b.is_workgroup}
    assert internal(result) == ["m", "n"]
    assert (tiles["m"], tiles["n"]) == (1024, 1024)
    assert run_pipeline(module) == run_pipeline(parse(text))


def test_steps_of_a_tensor_train(run_pipeline: Run) -> None:
    """Contractions that one workgroup does follow each other in one launch."""
    stages = """tt.contract_step(@x, @c1, @m1)
        tt.contract_step(@m1, @c2, @m2)
        tt.contract_step(@m2, @c3, @y)"""
    buffers = "x[16]r c1[512]r c2[1024]r c3[128]r m1[32] m2[32] y[4]w"
    text = "vyre 1\n" + pipeline(buffers, stages)
    expanded = parse(text)
    PassManager("expand_kernels").run(expanded)
    module, _ = fuse(text)
    assert len(launches(module)) == 1
    assert run_pipeline(module) == run_pipeline(expanded)


@pytest.mark.parametrize(
    ("first", "second", "joined"), [(50, 50, 50), (50, 60, None), (50, None, None), (0, 0, 0)]
)
def test_a_joined_program_has_the_preference_of_all_members(
    first: int | None, second: int | None, joined: int | None
) -> None:
    module = parse(DECODE_AND_SUM)
    module.programs["decode"].prefer_shared, module.programs["sum"].prefer_shared = first, second
    PassManager("launch_fusion").run(module)
    assert module.programs["decode_then_sum"].prefer_shared == joined
