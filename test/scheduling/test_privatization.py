"""Programs whose workgroups count in memory of their own: the same counts over any grid, and the fault of the program."""

from __future__ import annotations

import numpy as np
import pytest
from support.neighbour_programs import neighbour_program
from support.quick import quick

import vyre_opt as vyre
from vyre_opt import dispatcher, parse
from vyre_opt.analysis.refusal import Refusal
from vyre_opt.execution import ProgramError
from vyre_opt.fusion.group_count import GroupCount, groups_param
from vyre_opt.ir import Module, Program
from vyre_opt.ir.verifier import check
from vyre_opt.passes import PassManager
from vyre_opt.scheduling.privatization import privatize

AS_PARAM = GroupCount(None, {})

HISTOGRAM = """vyre 2
program @histogram workgroup(32) {
  buffer @x : u8[?] read binding(0)
  buffer @bins : u32[?] read_write binding(1) live_in live_out
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n
  if %inside {
    %v = load @x[%i]
    %old = atomic_add @bins[%v], 1
  }
}
"""


def program_of(text: str) -> Program:
    (program,) = parse(text).programs.values()
    return program


@pytest.mark.parametrize("seeds", quick([range(k, k + 10) for k in range(0, 2000, 10)], keep=2), ids=str)
def test_random_programs_compute_the_same(seeds: range) -> None:
    """On the interpreter, which looks for races, and on the cpu; over one workgroup along x and over several."""
    private = 0
    for seed in seeds:
        sample = neighbour_program(seed)
        program = program_of(sample.text)
        counts = {b.name: len(a) for b, a in zip(program.bound_buffers, sample.arrays, strict=True)}
        rewritten, in_order = (privatize(program, counts, AS_PARAM, in_order=each) for each in (False, True))
        if isinstance(rewritten, Refusal) or isinstance(in_order, Refusal):
            assert isinstance(rewritten, Refusal)
            assert "whose old values nobody takes" in rewritten.message
            continue
        private += 1
        for each in (rewritten, in_order):
            module = Module(version=2)
            module.add(each)
            check(module)
        expected = dispatcher("ref").dispatch(program, sample.arrays, sample.grid)
        groups = {groups_param(program): sample.grid[0]}
        runs = ((1, "ref", rewritten), (2, "ref", in_order), (3, "cpu", in_order), (2, "cpu", rewritten))
        for few, target, each in runs:
            grid = few, *sample.grid[1:]
            found = dispatcher(target).dispatch(each, sample.arrays, grid, params=groups)
            for mine, theirs in zip(found, expected, strict=True):
                np.testing.assert_array_equal(mine, theirs, f"seed {seed} on {target}\n{sample.text}")
    assert private


@pytest.mark.parametrize(
    ("op", "start"), [("add", 7), ("min", 9), ("max", 200), ("and", 255), ("or", 3), ("xor", 5)]
)
@pytest.mark.parametrize("dtype", ["u32", "i32", "u64", "i64"])
def test_every_op_and_type(op: str, start: int, dtype: str) -> None:
    """With what is in the buffers before, and elements that nobody counts in."""
    value = "%v" if dtype == "u8" else "%w"
    text = HISTOGRAM.replace("u32[?] read_write", f"{dtype}[?] read_write")
    text = text.replace(
        "%old = atomic_add @bins[%v], 1",
        f"%w = cast %v : u8 -> {dtype}\n    %old = atomic_{op} @bins[%v], {value}",
    )
    program = program_of(text)
    x = np.random.default_rng(1).integers(0, 17, 300).astype(np.uint8)
    bins = np.full(
        20,
        start,
        {"u": np.uint32, "i": np.int32}[dtype[0]]
        if dtype[1:] == "32"
        else {"u": np.uint64, "i": np.int64}[dtype[0]],
    )
    (expected,) = dispatcher("ref").dispatch(program, [x, bins], 10)
    rewritten = privatize(program, {"x": 300, "bins": 20}, AS_PARAM)
    assert isinstance(rewritten, Program)
    for target in ("ref", "cpu"):
        (found,) = dispatcher(target).dispatch(rewritten, [x, bins], 3, params={"groups": 10})
        np.testing.assert_array_equal(found, expected)


ODD = np.array([0.0, -0.0, 1.0, -2.0, np.inf, -np.inf, np.nan, -np.nan, 0.5])


@pytest.mark.parametrize("op", ["min", "max", "add"])
@pytest.mark.parametrize("dtype", ["f16", "f32", "f64"])
def test_floats_keep_their_signs_and_nans(op: str, dtype: str) -> None:
    """Elements of all kinds, to some of which nobody adds, or only what looks neutral; each has one kind of value, so that sums
    are exact."""
    kind = {"f16": np.float16, "f32": np.float32, "f64": np.float64}[dtype]
    flags = " fastmath<reassoc>" if op == "add" else ""
    text = HISTOGRAM.replace("u32[?] read_write", f"{dtype}[?] read_write").replace(
        "  buffer @bins", f"  buffer @v : {dtype}[?] read binding(2)\n  buffer @bins"
    )
    text = text.replace(
        "%old = atomic_add @bins[%v], 1", f"%w = load @v[%i]\n    %old = atomic_{op} @bins[%v], %w{flags}"
    )
    program = program_of(text)
    cells = len(ODD) * (len(ODD) + 1)
    x = np.random.default_rng(2).integers(0, cells - len(ODD), 300).astype(np.uint8)
    bins = np.repeat(ODD, len(ODD) + 1).astype(kind)
    v = ODD[x % len(ODD)].astype(kind)
    rewritten = privatize(program, {"x": 300, "bins": cells, "v": 300}, AS_PARAM)
    assert isinstance(rewritten, Program)
    # the order of bindings: @x, @bins, @v
    (expected,) = dispatcher("ref").dispatch(program, [x, bins, v], 10)
    for target in ("ref", "cpu"):
        (found,) = dispatcher(target).dispatch(rewritten, [x, bins, v], 3, params={"groups": 10})
        np.testing.assert_array_equal(found, expected)
        numbers = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found[numbers]), np.signbit(expected[numbers]))


def test_float_sums_in_any_order_are_those_of_numpy() -> None:
    """Integers in floats, which add up exactly; through a call that rewrites the launch."""
    text = HISTOGRAM.replace("u32[?] read_write", "f32[?] read_write").replace(
        "@bins[%v], 1", "@bins[%v], 3.0 fastmath<reassoc>"
    )
    x = np.random.default_rng(3).integers(0, 17, 1 << 16).astype(np.uint8)
    found = vyre.compile(text)({"x": x, "bins": np.zeros(20, np.float32)}, grid=1 << 11)["bins"]
    np.testing.assert_array_equal(found, 3 * np.bincount(x, minlength=20))


def test_an_index_out_of_bounds_is_the_fault_of_the_program() -> None:
    program = program_of(HISTOGRAM)
    rewritten = privatize(program, {"x": 64, "bins": 8}, AS_PARAM)
    assert isinstance(rewritten, Program)
    inputs = [np.full(64, 9, np.uint8), np.zeros(8, np.uint32)]
    errors = []
    for each, params in ((program, {}), (rewritten, {"groups": 2})):
        with pytest.raises(ProgramError) as caught:
            dispatcher("cpu").dispatch(each, inputs, 2, params=params)
        errors.append(str(caught.value))
    assert all("atomic_add out of bounds of @bins: index 9, length 8" in error for error in errors), errors


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "%old = atomic_add @bins[%v], 1",
            "%old = atomic_add @bins[%v], 1\n    store %old, @bins[0]",
            "whose old values nobody takes",
        ),
        (
            "%old = atomic_add @bins[%v], 1",
            "%old = atomic_add @bins[%v], 1\n    %b = atomic_max @bins[0], 1",
            "nothing but one relaxed atomic",
        ),
        ("%old = atomic_add", "%old = atomic_exchange", "nothing but one relaxed atomic"),
        ("%old = atomic_add", "%old = atomic_add<acq_rel>", "has an atomic_add of order acq_rel"),
        ("u32[?] read_write", "f32[?] read_write", "nothing but one relaxed atomic"),
        (
            "  %n = len @x",
            "  %n = len @x\n  barrier grid",
            "workgroups of @histogram meet: it has a barrier of the grid",
        ),
    ],
)
def test_what_would_be_noticed_is_refused(old: str, new: str, message: str) -> None:
    assert old in HISTOGRAM
    refusal = privatize(program_of(HISTOGRAM.replace(old, new)), {"x": 64, "bins": 8}, AS_PARAM)
    assert isinstance(refusal, Refusal)
    assert message in refusal.message


MEETING = """vyre 2
program @sums workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @total : u32[2] read_write binding(1) live_in live_out
  buffer @tile : u32[64] workgroup
  %i = global_id x
  %l = local_id x
  %v = load @x[%i]
  %all = subgroup_reduce<add> %v
  store %all, @tile[%l]
  barrier workgroup
  %other = sub 63, %l
  %across = load @tile[%other]
  %lane = lane_id
  %is_first = eq %lane, 0
  if %is_first {
    %a = atomic_add @total[0], %all
    %b = atomic_add @total[1], %across
  }
}
"""


@pytest.mark.parametrize("in_order", [False, True])
def test_workgroups_whose_invocations_meet(in_order: bool) -> None:
    """In subgroups, at barriers and in workgroup memory, which the next turn finds as any workgroup does."""
    program = program_of(MEETING)
    rewritten = privatize(program, {"x": 640, "total": 2}, AS_PARAM, in_order)
    assert isinstance(rewritten, Program)
    x = np.random.default_rng(1).integers(0, 1000, 640).astype(np.uint32)
    for target in ("ref", "cpu"):
        for few in (1, 3, 10):
            inputs = [x, np.full(2, 5, np.uint32)]
            (found,) = dispatcher(target).dispatch(rewritten, inputs, few, params={"groups": 10})
            np.testing.assert_array_equal(found, x.sum() + 5)


LAUNCHED = """
pipeline @main {
  buffer @x : u8[?] read
  buffer @bins : u32[COUNT] live_in live_out
  launch @histogram grid(4) (@x, @bins)
}
"""


@pytest.mark.parametrize(
    ("count", "workgroups", "message"),
    [
        ("?", 3, "of a known length"),
        ("20", 1 << 30, "would pass 2^32 invocations along x with 1073741824 workgroups"),
        ("20", 3, "3 workgroups of @histogram.counting take turns"),
    ],
)
def test_what_the_pass_cannot_know_is_refused(count: str, workgroups: int, message: str) -> None:
    """A length that only a call has, and a grid that there is not."""
    module = parse(HISTOGRAM + LAUNCHED.replace("COUNT", count))
    result = PassManager(f"privatize{{workgroups={workgroups}}}").run(module)
    assert [message in remark.message for remark in result.remarks] == [True]
    x = np.random.default_rng(1).integers(0, 20, 128).astype(np.uint8)
    bins = vyre.compile(module, target="ref")({"x": x, "bins": np.ones(20, np.uint32)})["bins"]
    np.testing.assert_array_equal(bins, np.bincount(x, minlength=20) + 1)


def test_too_many_elements_are_refused() -> None:
    refusal = privatize(program_of(HISTOGRAM), {"x": 64, "bins": 1 << 20}, AS_PARAM)
    assert isinstance(refusal, Refusal)
    assert "would have 4194304 bytes in workgroup memory, more than 16384" in refusal.message
