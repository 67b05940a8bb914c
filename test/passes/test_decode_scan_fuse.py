"""decode_scan_fuse on bodies: what it promotes stays the same program, what it refuses it names."""

from __future__ import annotations

import json

import numpy as np
import pytest
from support.each import each

from vyre_opt import PassManager, candidate_handoffs, count_opportunities, dispatcher, parse, print_program
from vyre_opt.ir import Module
from vyre_opt.passes.manager import Result
from vyre_opt.passes.registry import make_pass

# 64 lanes, 2 workgroups, a hand-off of 128 u32.  %g, %l, %w are the ids, %v the lane's input,
# %rev the place of the lane mirrored in its workgroup; a body defines %x, the lane's output.
HEAD = """vyre 1
program @p workgroup(64){grid} {{
  buffer @in : u32[{size}] read binding(0)
  buffer @h : {dtype}[{count}] {flags}
  buffer @out : u32[{size}] write binding(1) live_out
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c32 = const 32 : u32
  %c63 = const 63 : u32
  %c64 = const 64 : u32
  %base = mul %w, %c64 : u32
  %mirror = sub %c63, %l : u32
  %rev = add %base, %mirror : u32
  %v = load @in[%g] : u32
"""
TAIL = "  store %x, @out[%g] : u32\n}\n"


def program(
    body: str,
    grid: str = "",
    flags: str = "read_write",
    dtype: str = "u32",
    count: str = "128",
    size: int = 128,
) -> str:
    return HEAD.format(grid=grid, flags=flags, dtype=dtype, count=count, size=size) + body + TAIL


def fuse(text: str, **options: str) -> tuple[Module, Result]:
    module = parse(text)
    result = PassManager([make_pass("decode_scan_fuse", options)]).run(module)
    return module, result


def reason(result: Result, buffer: str = "h") -> str:
    (remark,) = [r for r in result.remarks if r.certificate["buffer"] == buffer]
    return "applied" if remark.kind == "applied" else remark.certificate["reason"]


PROMOTED = {
    "same lane": "store %v, @h[%g] : u32 %x = load @h[%g] : u32",
    "mirrored with a barrier": "store %v, @h[%g] : u32 barrier workgroup %x = load @h[%rev] : u32",
    "both halves of a branch on the lane": """
      %p = lt %l, %c32 : u32
      if %p { store %v, @h[%g] : u32 } else { store %l, @h[%g] : u32 }
      barrier workgroup
      %x = load @h[%rev] : u32""",
    "one bound guards write and read": """
      %c100 = const 100 : u32
      %p = lt %g, %c100 : u32
      if %p { store %v, @h[%g] : u32 }
      barrier workgroup
      %q = lt %rev, %c100 : u32
      %x = if %q -> u32 { %y = load @h[%rev] : u32 yield %y } else { yield %c1 }""",
    "one bound, with the index on either side of it": """
      %c100 = const 100 : u32
      %p = gt %c100, %g : u32
      if %p { store %v, @h[%g] : u32 }
      barrier workgroup
      %q = lt %rev, %c100 : u32
      %x = if %q -> u32 { %y = load @h[%rev] : u32 yield %y } else { yield %c1 }""",
    "a scan of the tile": """
      store %v, @h[%g] : u32
      barrier workgroup
      %x = for %k = 0 to 64 step 1 iter(%a = %c0 : u32) {
        %i = add %base, %k : u32
        %y = load @h[%i] : u32
        %s = add %a, %y : u32
        yield %s
      }""",
    "a strided loop with a lane's own start": """
      for %k = %l to 64 step 64 {
        %i = add %base, %k : u32
        store %v, @h[%i] : u32
      }
      barrier workgroup
      %x = load @h[%rev] : u32""",
    "written anew in every iteration": """
      %x = for %k = 0 to 4 step 1 iter(%a = %c0 : u32) {
        %t = add %v, %k : u32
        store %t, @h[%g] : u32
        barrier workgroup
        %y = load @h[%rev] : u32
        barrier workgroup
        %s = add %a, %y : u32
        yield %s
      }""",
    "vectors written, elements read": """
      %c16 = const 16 : u32
      %c4 = const 4 : u32
      %p = lt %l, %c16 : u32
      if %p {
        %l4 = mul %l, %c4 : u32
        %i = add %base, %l4 : u32
        %s = splat %v : vec<4 x u32>
        store %s, @h[%i] : vec<4 x u32>
      }
      barrier workgroup
      %x = load @h[%rev] : u32""",
}


def test_promotes_and_keeps_the_outputs() -> None:
    def check(name: str) -> None:
        text = program(PROMOTED[name])
        module, result = fuse(text)
        assert reason(result) == "applied"
        tile = module.programs["p"].buffers["h"]
        assert (tile.access, tile.binding, tile.count) == ("workgroup", None, 64)
        before = parse(text)
        assert candidate_handoffs(before.programs["p"]) == {"h": 64}
        assert count_opportunities(before.programs["p"]) == 1
        random = np.random.default_rng(7)
        for _ in range(3):
            inputs = [random.integers(0, 2**32, 128, dtype=np.uint32), np.zeros(128, np.uint32)]
            (expected,) = dispatcher("ref").dispatch(before.programs["p"], inputs, (2, 1, 1))
            (got,) = dispatcher("ref").dispatch(module.programs["p"], inputs, (2, 1, 1))
            np.testing.assert_array_equal(got, expected)
        assert print_program(parse(print_program(module))) == print_program(module)

    each(PROMOTED, check)


def test_promotes_a_grid_fixed_at_one() -> None:
    """With a single workgroup even global mirroring stays within it."""
    body = """
      %g2 = add %g, %c64 : u32
      store %v, @h[%g] : u32
      store %l, @h[%g2] : u32
      barrier workgroup
      %c127 = const 127 : u32
      %i = sub %c127, %g : u32
      %x = load @h[%i] : u32"""
    module, result = fuse(program(body, grid=" grid(1)"))
    assert reason(result) == "applied"
    assert module.programs["p"].buffers["h"].count == 128
    assert reason(fuse(program(body))[1]) == "different-bases", "with more it does not"


REFUSED = {
    "no-barrier": "store %v, @h[%g] : u32 %x = load @h[%rev] : u32",
    "other-workgroup": """
      store %v, @h[%g] : u32
      barrier workgroup
      %n = add %rev, %c64 : u32
      %x = load @h[%n] : u32""",
    "read-before-write": "%x = load @h[%g] : u32 store %v, @h[%g] : u32",
    "partial-write": """
      %p = lt %l, %c32 : u32
      if %p { store %v, @h[%g] : u32 }
      barrier workgroup
      %x = load @h[%rev] : u32""",
    "uncovered": """
      %c2 = const 2 : u32
      %i = mul %g, %c2 : u32
      store %v, @h[%i] : u32
      barrier workgroup
      %j = add %i, %c1 : u32
      %x = load @h[%j] : u32""",
    "different-bases": "store %v, @h[%g] : u32 barrier workgroup %x = load @h[%l] : u32",
    "grid-wide": "store %v, @h[%g] : u32 barrier grid %x = load @h[%g] : u32",
    "atomic": "store %v, @h[%g] : u32 %o = atomic_add @h[%g], %c1 : u32 %x = load @h[%g] : u32",
    "data-dependent": "store %v, @h[%g] : u32 barrier workgroup %x = load @h[%v] : u32",
    "not-affine": """
      %i = mul_hi %l, %g : u32
      store %v, @h[%i] : u32
      %x = load @h[%i] : u32""",
    "loop-carried": """
      %x = for %k = 0 to 4 step 1 iter(%a = %c0 : u32) {
        %y = load @h[%g] : u32
        store %v, @h[%g] : u32
        yield %y
      }""",
}


def test_refuses_with_its_own_reason() -> None:
    def check(code: str) -> None:
        text = program(REFUSED[code])
        module, result = fuse(text)
        assert reason(result) == code
        assert not result
        assert print_program(module) == print_program(parse(text)), "a refusal leaves the program as it was"
        assert count_opportunities(module.programs["p"]) == 0

    each(REFUSED, check)


@pytest.mark.parametrize(
    ("code", "flags"),
    [("live-in", "read_write binding(2) live_in"), ("live-out", "read_write binding(2) live_out")],
)
def test_refuses_what_the_host_sees(code: str, flags: str) -> None:
    assert reason(fuse(program(PROMOTED["same lane"], flags=flags))[1]) == code


@pytest.mark.parametrize(
    "body",
    [
        pytest.param(
            """
      %p = lt %v, %c32 : u32
      if %p { store %v, @h[%g] : u32 }
      barrier workgroup
      %x = load @h[%g] : u32""",
            id="a condition on the data",
        ),
        pytest.param(
            """
      %n = rem %v, %c32 : u32
      for %k = 0 to %n step 1 { store %v, @h[%g] : u32 }
      %x = load @h[%g] : u32""",
            id="a loop that may not run",
        ),
        pytest.param(
            """
      %p = lt %l, %c32 : u32
      %q = eq %w, %c0 : u32
      %both = and %p, %q : bool
      if %both { store %c1, @h[%g] : u32 } else { store %v, @h[%rev] : u32 }
      barrier workgroup
      %x = load @h[%g] : u32""",
            id="the other side of a conjunction",
        ),
        pytest.param(
            """
      %p = lt %l, %c32 : u32
      if %p { store %v, @h[%g] : u32 }
      %q = eq %w, %c0 : u32
      %either = or %p, %q : bool
      %x = if %either -> u32 { %y = load @h[%g] : u32 yield %y } else { yield %c1 }""",
            id="one side of a disjunction",
        ),
        pytest.param(
            """
      %p = lt %l, %c32 : u32
      %n = not %p : bool
      if %n { store %v, @h[%g] : u32 }
      %x = if %p -> u32 { %y = load @h[%g] : u32 yield %y } else { yield %c1 }""",
            id="a negated condition",
        ),
        pytest.param(
            """
      %c2 = const 2 : u32
      %c4 = const 4 : u32
      %c16 = const 16 : u32
      %first = mul %l, %c4 : u32
      %i = add %base, %first : u32
      %quarter = lt %l, %c16 : u32
      %p = gt %i, %c2 : u32
      %both = and %quarter, %p : bool
      if %both { %s = splat %v : vec<4 x u32> store %s, @h[%i] : vec<4 x u32> }
      barrier workgroup
      %q = gt %g, %c2 : u32
      %x = if %q -> u32 { %y = load @h[%g] : u32 yield %y } else { yield %c1 }""",
            id="a condition on the first element of a vector",
        ),
        pytest.param(
            """
      %c16 = const 16 : u32
      %p = lt %l, %c16 : u32
      if %p { store %v, @h[%g] : u32 }
      %l8 = cast %l : u32 -> u8
      %eight = const 8 : u8
      %half = const 128 : u8
      %wrapped = mul %l8, %eight : u8
      %q = lt %wrapped, %half : u8
      %x = if %q -> u32 { %y = load @h[%g] : u32 yield %y } else { yield %c1 }""",
            id="a condition on a value that wraps",
        ),
    ],
)
def test_refuses_a_write_that_may_not_happen(body: str) -> None:
    """A write under a condition covers nothing that is read without it."""
    assert reason(fuse(program(body))[1]) in ("partial-write", "uncovered")


def test_a_barrier_of_a_subgroup_orders_nothing_in_the_workgroup() -> None:
    body = "store %v, @h[%g] : u32 barrier subgroup %x = load @h[%rev] : u32"
    assert reason(fuse(program(body))[1]) == "no-barrier"


@pytest.mark.parametrize(("distance", "overlaps"), [(0, False), (1, True)])
def test_one_element_that_two_workgroups_store_is_a_race(distance: int, overlaps: bool) -> None:
    """Each lane stores its element and one further on: the last lane's may be the next workgroup's first."""
    body = f"""
      %d = const {distance} : u32
      %next = add %g, %d : u32
      store %l, @h[%next] : u32
      barrier workgroup
      store %v, @h[%g] : u32
      %x = load @h[%g] : u32"""
    _, result = fuse(program(body, count="129"))
    notes = [r.certificate["reason"] for r in result.remarks if r.kind == "note"]
    assert notes == (["unordered-stores"] if overlaps else [])


def test_a_barrier_in_a_branch_orders_nothing_outside_it() -> None:
    body = """
      store %v, @h[%g] : u32
      %p = eq %w, %c0 : u32
      if %p { barrier workgroup }
      %x = load @h[%rev] : u32"""
    assert reason(fuse(program(body))[1]) == "no-barrier"


# --- the tile


def test_a_gigabyte_becomes_a_tile() -> None:
    """The size of the storage does not matter, the share of a workgroup does."""
    text = program(PROMOTED["mirrored with a barrier"], count=str(1 << 28))
    module, result = fuse(text)
    assert reason(result) == "applied"
    assert module.programs["p"].buffers["h"].size_bytes == 256


def test_a_tile_begins_at_the_first_element_that_is_touched() -> None:
    body = """
      %i = add %g, %c32 : u32
      %j = add %rev, %c32 : u32
      store %v, @h[%i] : u32
      barrier workgroup
      %x = load @h[%j] : u32"""
    text = program(body, count="192")
    module, _ = fuse(text)
    assert module.programs["p"].buffers["h"].count == 64
    inputs = [np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)]
    (expected,) = dispatcher("ref").dispatch(parse(text).programs["p"], inputs, (2, 1, 1))
    (after,) = dispatcher("ref").dispatch(module.programs["p"], inputs, (2, 1, 1))
    np.testing.assert_array_equal(after, expected)


def test_the_budget_is_of_the_whole_program() -> None:
    """Workgroup buffers that exist count; buffers are served in order."""
    text = """vyre 1
program @p workgroup(64) {
  buffer @tile : u32[1024] workgroup
  buffer @a : u32[2048] read_write
  buffer @b : u32[2048] read_write
  buffer @c : u32[1024] read_write
}
"""
    program_ = parse(text).programs["p"]
    assert candidate_handoffs(program_) == {"a": 2048, "c": 1024}
    _, result = fuse(text)
    assert [reason(result, name) for name in "abc"] == ["applied", "over-budget", "applied"]
    assert [reason(fuse(text, budget="20480")[1], name) for name in "abc"] == [
        "applied",
        "applied",
        "over-budget",
    ]
    assert [reason(fuse(text, budget="4096")[1], name) for name in "abc"] == ["over-budget"] * 3


def test_the_target_sets_the_budget() -> None:
    text = program("store %v, @h[%g] : u32 %x = load @h[%g] : u32").replace(
        "workgroup(64)", "workgroup(1024)"
    )
    text = text.replace("u32[128] read_write", "vec<8 x u32>[1048576] read_write")
    text = text.replace(
        "store %v, @h[%g] : u32", "%s = splat %v : vec<8 x u32> store %s, @h[%g] : vec<8 x u32>"
    )
    text = text.replace(
        "%x = load @h[%g] : u32", "%y = load @h[%g] : vec<8 x u32> %x = extract %y[3] : vec<8 x u32>"
    )
    module = parse(text)
    assert not PassManager("decode_scan_fuse").run(module)
    assert PassManager("decode_scan_fuse", target="sm_90").run(module)
    assert module.programs["p"].buffers["h"].size_bytes == 32768


def test_narrow_values_make_a_narrow_tile() -> None:
    """Bytes kept as u32 in storage are bytes in the tile; with narrow=false they stay as they are."""
    body = """
      %b = cast %v : u32 -> u8
      %wide = cast %b : u8 -> u32
      store %wide, @h[%g] : u32
      barrier workgroup
      %x = load @h[%rev] : u32"""
    text = program(body)
    module, result = fuse(text)
    assert reason(result) == "applied"
    assert module.programs["p"].buffers["h"].dtype.name == "u8"
    wide, _ = fuse(text, narrow="false")
    assert wide.programs["p"].buffers["h"].dtype.name == "u32"
    inputs = [np.arange(128, dtype=np.uint32) * 77777, np.zeros(128, np.uint32)]
    results = [
        dispatcher("ref").dispatch(m.programs["p"], inputs, (2, 1, 1))[0] for m in (parse(text), module, wide)
    ]
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0], results[2])


def test_negative_values_keep_their_type() -> None:
    """l - 5 is below 64, but not above zero."""
    body = """
      %signed = cast %l : u32 -> i32
      %five = const 5 : i32
      %d = sub %signed, %five : i32
      store %d, @h[%g] : i32
      %y = load @h[%g] : i32
      %x = cast %y : i32 -> u32"""
    text = program(body, dtype="i32")
    module, _ = fuse(text)
    assert module.programs["p"].buffers["h"].dtype.name == "i32"
    inputs = [np.zeros(128, np.uint32), np.zeros(128, np.uint32)]
    (after,) = dispatcher("ref").dispatch(module.programs["p"], inputs, (2, 1, 1))
    np.testing.assert_array_equal(after.view(np.int32), np.arange(128) % 64 - 5)


def test_len_of_a_promoted_buffer_stays_what_it_was() -> None:
    text = program("store %v, @h[%g] : u32 %y = load @h[%g] : u32 %n = len @h %x = add %y, %n : u32")
    module, _ = fuse(text)
    inputs = [np.zeros(128, np.uint32), np.zeros(128, np.uint32)]
    (got,) = dispatcher("ref").dispatch(module.programs["p"], inputs, (2, 1, 1))
    assert set(got.tolist()) == {128}


# --- pipelines


PIPELINE = """
pipeline @main {{
  buffer @src : u32[128] read
  buffer @mid : u32[128]{flags}
  buffer @dst : u32[128] write live_out
  launch @p grid(2) (@src, @dst, @mid)
  {more}
}}
"""


@pytest.mark.parametrize(
    ("flags", "more", "code"),
    [
        ("", "", "applied"),
        ("", "host_read @mid", "host-use"),
        (" read_write live_out", "", "host-use"),
        ("", "launch @p grid(2) (@src, @dst, @mid)", "shared"),
    ],
    ids=["its own", "host read", "live out of the pipeline", "another launch"],
)
def test_pipelines_that_use_the_buffer(flags: str, more: str, code: str) -> None:
    """What a pipeline passes for the buffer must be nobody else's; then the launch passes it no more."""
    text = program(PROMOTED["same lane"], flags="read_write binding(2)") + PIPELINE.format(
        flags=flags, more=more
    )
    module, result = fuse(text)
    assert reason(result) == code
    launch = module.pipelines["main"].stages[0]
    applied = code == "applied"
    assert launch.buffers == (("src", "dst") if applied else ("src", "dst", "mid"))  # type: ignore[union-attr]
    assert ("mid" in module.pipelines["main"].buffers) is not applied
    assert print_program(parse(print_program(module))) == print_program(module)


# --- remarks


NO_HANDOFF = """vyre 1
program @p workgroup(64) {
  buffer @seen    : u32[64] read_write binding(0) live_in
  buffer @counted : u32[64] read_write binding(1) live_in live_out
  buffer @made    : u32[64] read_write binding(2) live_out
  %l = local_id x
  %a = load @seen[%l] : u32
  store %a, @made[%l] : u32
  %b = load @counted[%l] : u32
  %c = add %a, %b : u32
  store %c, @counted[%l] : u32
}
pipeline @main {
  buffer @x : u32[64] live_in
  buffer @y : u32[64] live_in live_out
  buffer @z : u32[64] write live_out
  launch @p grid(1) (@x, @y, @z)
}
"""


def test_buffers_that_hand_nothing_over_have_no_remark() -> None:
    """What is only read or only written is no pair of phases, whatever it is declared as; what is both is one."""
    _, result = fuse(NO_HANDOFF)
    assert [(r.certificate["buffer"], r.certificate["reason"]) for r in result.remarks] == [
        ("counted", "live-in")
    ]


def test_every_candidate_has_a_remark_with_its_facts() -> None:
    _, result = fuse(program(PROMOTED["mirrored with a barrier"]))
    by_name = {r.certificate["buffer"]: r for r in result.remarks}
    assert set(by_name) == {"h"}
    certificate = by_name["h"].certificate
    assert certificate["base"] == "64*workgroup_id.x"
    assert certificate["tile"] == [0, 63]
    assert [r["covered_by"] for r in certificate["reads"]] == ["barrier"]
    assert certificate["writes"][0]["access"] == "store @h[64*workgroup_id.x + local_id.x]"
    json.dumps([r.certificate for r in result.remarks])
    assert by_name["h"].loc is not None
    assert by_name["h"].loc.line == 4
