"""Replicas of transient buffers within a cluster: only where no fence is needed."""

from __future__ import annotations

import pytest
from support.each import each
from support.kernel_cases import kernel_cases
from support.quick import quick

from vyre_opt import parse
from vyre_opt.ir import Op, Program
from vyre_opt.kernels.chain import ChainSchedule, chain
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.replicas import NeedsFence, Replicas, replicas
from vyre_opt.lowering.nvptx.targets import gpu

TEXT = """vyre 1
program @p workgroup({lanes}) grid(4) {{
  buffer @in : f32[64] read binding(0)
  buffer @out : f32[64] read_write binding(1) live_in live_out
  buffer @t : {type} read_write
  buffer @u : {type} read_write
  buffer @tile : f32[64] workgroup
  %g = global_id x
  %l = local_id x
  %zero = const 0 : u32
  %one = const 1 : u32
  %p = eq %zero, %zero : u32
  %half = const 128 : u32
  %far = add %g, %half : u32
  %v = const {value} : {element}
  {lines}
}}
"""
STORE_FAR = "store %v, @t[%far] : {type}"
STORE_OTHER, LOAD_OTHER = "store %v, @u[%g] : {type}", "%{} = load @u[%l] : f32"
STORE, LOAD, MEET = "store %v, @t[%g] : {type}", "%{} = load @t[%l] : f32", "barrier grid"

NESTED = (
    "%eight = const 8 : u32", "%a = mul %i, %eight : u32", "%b = add %a, %j : u32", "%sixty = const 64 : u32",
    "%c = mul %l, %sixty : u32", "%d = add %b, %c : u32", "store %v, @t[%d] : f32",
)  # fmt: skip

# What a lane stores between two barriers, in words; None where a fence is needed
CASES = {
    "a store, a barrier, a load": ([STORE, MEET, LOAD.format("a")], 1),
    "a store into each half, which the other step reads": (
        [STORE, "for %i = 0 to 9 step 1 {", MEET, LOAD.format("a"), STORE, "}", MEET],
        1,
    ),
    "a store to one buffer, a load of the other": ([STORE, LOAD_OTHER.format("a"), MEET], 1),
    "stores to two buffers by turns": (
        ["for %i = 0 to 9 step 1 {", MEET, LOAD.format("a"), STORE_OTHER, MEET, LOAD_OTHER.format("b"), STORE, "}", MEET],
        1,
    ),
    "stores to two buffers, of which a later turn loads one": (
        [STORE_OTHER, MEET, "for %i = 0 to 9 step 1 {", LOAD_OTHER.format("a"), STORE, "if %p {", STORE_OTHER, "}", "}", MEET],
        None,
    ),
    "stores in both ways of an if": (["if %p {", STORE, STORE_FAR, "} else {", STORE, "}", MEET], 2),
    "stores in a loop": (["for %i = %l to 16 step 4 {", "store %v, @t[%i] : f32", "}", MEET], 4),
    "stores in loops, of which the inner one goes through neighbours": (
        ["for %i = 0 to 4 step 1 {", "for %j = 0 to 8 step 1 {", *NESTED, "}", "}", MEET],
        32,
    ),
    "stores in loops whose turns overlap": (
        ["for %i = 0 to 4 step 1 {", "for %j = 0 to 9 step 1 {", *NESTED, "}", "}", MEET],
        None,
    ),
    "neighbours in each turn": (
        ["for %i = %l to 16 step 2 {", "store %v, @t[%i] : f32", "%n = add %i, %one : u32", "store %v, @t[%n] : f32", "}", MEET],
        16,
    ),
    "a neighbour that the next turn stores to": (
        ["for %i = %l to 16 step 1 {", "store %v, @t[%i] : f32", "%n = add %i, %one : u32", "store %v, @t[%n] : f32", "}", MEET],
        None,
    ),
    "an element twice": ([STORE, STORE, MEET], None),
    "an element in each turn": (["for %i = 0 to 4 step 1 {", STORE, "}", MEET], None),
    "an element of which nothing is known, twice": (
        ["%x = load @in[%l] : f32", "%y = cast %x : f32 -> u32", "store %v, @t[%y] : f32", STORE, MEET],
        None,
    ),
    "an element by two lanes, one behind the other": (
        [STORE, "barrier workgroup", "%n = sub %half, %g : u32", "store %v, @t[%n] : f32", MEET],
        None,
    ),
    "other elements behind a barrier": ([STORE, "barrier workgroup", STORE_FAR, MEET], 2),
    "an element once more behind a cluster barrier": ([STORE, MEET, STORE, MEET], 1),
    "workgroup memory is nothing else": (["store %v, @tile[%l] : f32", STORE, MEET, LOAD.format("a")], 1),
    "storage written after the last barrier": ([STORE, MEET, LOAD.format("a"), "store %a, @out[%g] : f32"], 1),
    "storage that is only read": (["%x = load @in[%g] : f32", "store %x, @t[%g] : f32", MEET], 1),
    "a load before the barrier that brings it": ([STORE, LOAD.format("a"), MEET], None),
    "a load in the next turn": (["for %i = 0 to 9 step 1 {", LOAD.format("a"), STORE, "}", MEET], None),
    "a load in the next turn, beside a barrier": (
        ["for %i = 0 to 9 step 1 {", LOAD.format("a"), MEET, STORE, "}", MEET],
        None,
    ),
    "a barrier that may be left out": (["if %p {", STORE, MEET, "} else {", STORE, "}", LOAD.format("a"), MEET], None),
    "stores that no barrier follows": ([STORE, MEET, STORE], None),
    "storage written before a barrier": (["store %v, @out[%g] : f32", STORE, MEET], None),
    "storage written before the barrier of the next turn": (
        [STORE, "for %i = 0 to 9 step 1 {", MEET, "store %v, @out[%g] : f32", "}"],
        None,
    ),
    "storage read before and written after": (
        ["%x = load @out[%l] : f32", STORE, MEET, "store %v, @out[%g] : f32"],
        None,
    ),
    "stores in a loop of any length": (["%n = load @in[%l] : f32", "%m = cast %n : f32 -> u32", "for %i = 0 to %m step 1 {", STORE, "}", MEET], None),
    "more bytes than can be counted": (["for %i = 0 to 4096 step 1 {", STORE, "}", MEET], None),
    "atomics": (["%x = atomic_add<relaxed> @t[%l], %v : f32", MEET], None),
    "another op beside": ([STORE, "%x = atomic_add<relaxed> @out[%l], %v : f32", MEET], None),
}  # fmt: skip


def _replicas(lines: list[str], dtype: str = "f32", lanes: int = 32) -> Replicas | None:
    kind = dtype.split(" x ")[-1].rstrip(">")
    value = "1.0" if kind.startswith("f") else "1"
    text = TEXT.format(
        lines="\n  ".join(lines).replace("{type}", dtype),
        type=f"{kind}[256]",
        element=dtype,
        value=value,
        lanes=lanes,
    )
    return _found(parse(text).programs["p"])


def _found(program: Program, faulting: tuple[Op, ...] = ()) -> Replicas | None:
    try:
        return replicas(program, gpu("sm_90"), faulting)
    except NeedsFence:
        return None


def test_what_can_go_without_a_fence() -> None:
    def check(name: str) -> None:
        lines, words = CASES[name]
        found = _replicas(lines)
        assert (found and found.words) == words
        if found is not None:
            assert (found.buffers, found.workgroups) == ({"t", "u"}, 4)

    each(CASES, check)


def test_elements_are_whole_words() -> None:
    at = "%i = mul %l, %one\n"
    for dtype, words in {"u32": 1, "i64": 2, "f64": 2, "vec<4 x f32>": 4, "f16": None, "u8": None}.items():
        found = _replicas([at, STORE.replace("%g", "%i"), MEET], dtype)
        assert (found and found.words) == words, dtype
        if found is not None:
            assert [1 << bit for bit in found.bits] == [words], "so a barrier counts once"


def test_a_barrier_counts_the_bits_that_a_number_of_words_may_have() -> None:
    one, four = STORE, "store %q, @t[%k] : vec<4 x f32>"
    quad = [
        "%four = const 4 : u32",
        "%k = mul %l, %four",
        "%q = splat %v : vec<4 x f32>",
        "%m = add %k, %half",
    ]
    far = "store %q, @t[%m] : vec<4 x f32>"
    for stores, bits in (
        ([one], [0]),
        ([four], [2]),
        ([four, far], [2, 3]),
        ([one, far], [0, 1, 2]),
        ([], [0]),
    ):
        found = _replicas([*quad, *stores, MEET])
        assert found is not None
        assert [*found.bits] == bits, stores


def test_a_workgroup_needs_a_lane_for_each_of_the_cluster() -> None:
    assert _replicas([STORE, MEET], lanes=4)
    assert _replicas([STORE, MEET], lanes=3) is None


def test_a_lane_that_may_end_before_a_barrier_would_leave_others_waiting() -> None:
    program = chain((256,) * 4, schedule=ChainSchedule(256, workgroups=8))
    assert _found(program) is not None
    assert _found(program, (program.body.ops[0],)) is None


IN_TURNS = ["for %i = 0 to 9 step 1 {", STORE, MEET, LOAD.format("a"), "store %a, @tile[%g] : f32", "}"]
AFTER = [STORE, MEET, LOAD.format("a"), "store %a, @out[%g] : f32"]


@pytest.mark.parametrize(
    ("lines", "buffer", "may"), [(AFTER, "out", True), (AFTER, "t", False), (IN_TURNS, "tile", False)]
)
def test_nobody_waits_for_a_lane_that_ends_after_the_last_barrier(
    lines: list[str], buffer: str, may: bool
) -> None:
    """In a loop, the barrier of the next turn follows what stands behind that of this one."""
    text = "\n  ".join(lines).replace("{type}", "f32")
    text = TEXT.format(lines=text, type="f32[256]", element="f32", value="1.0", lanes=32)
    program = parse(text).programs["p"]
    faulting = tuple(op for op in program.walk() if op.attrs.get("buffer") == buffer and op.name == "store")
    assert (_found(program, faulting) is not None) == may


CHAINS = {case.name: case for case in kernel_cases() if case.name.startswith("tt.chain")}


def shape_of(chain: str) -> str:
    """What stands behind the sizes of a chain, or the number of its workgroups."""
    return " ".join(word for word in chain.split() if not word.strip(",").isdecimal())


@pytest.mark.parametrize("name", quick([name for name in CHAINS if "f32" in name], shape_of, 2))
def test_chains_are_proven_in_bounds(name: str) -> None:
    """One that might fault would leave the others of its cluster waiting, and is refused where it has cluster memory."""
    lower([Unit(CHAINS[name].make().program, None, {})], gpu("sm_90"), "trap")
