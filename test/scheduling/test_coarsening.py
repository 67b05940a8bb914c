"""Programs whose invocations do the work of several neighbours compute the same, and others are refused in words."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from support.neighbour_programs import FACTORS, neighbour_program
from support.quick import quick

from vyre_opt import dispatcher, parse
from vyre_opt.analysis.refusal import Refusal
from vyre_opt.execution.plans.neighbours import Neighbours
from vyre_opt.fusion.group_count import GroupCount, groups_param
from vyre_opt.ir import Module, Program
from vyre_opt.ir.verifier import check
from vyre_opt.passes import PassManager
from vyre_opt.scheduling.coarsening import access_axes, coarsen, coarsen_refusal, repeats_along_y

BLOCKS = (
    Neighbours(2, 2),
    Neighbours(1, 2),
    Neighbours(4, 1, (8, 2)),
    Neighbours(1, 1, (4, 2)),
    Neighbours(2, 2, (4, 1)),
    Neighbours(4, blocks=2),
    Neighbours(2, blocks=4),
    Neighbours(2, blocks=3),
)

AS_PARAMS = (GroupCount(None, {}), GroupCount(None, {}, "y"))

SCALE = """vyre 2
program @scale workgroup(32) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n
  if %inside {
    %v = load @x[%i]
    %w = mul %v, 2.0
    store %w, @y[%i]
  }
}
"""


def program_of(text: str) -> Program:
    (program,) = parse(text).programs.values()
    return program


def module_with(program: Program) -> Module:
    module = Module(version=2)
    module.add(program)
    return module


def run_coarse(
    program: Program, by: Neighbours, inputs: list[np.ndarray], grid: tuple[int, int, int], target: str
):
    coarse = coarsen(program, by, AS_PARAMS)
    assert isinstance(coarse, Program), coarse
    check(module_with(coarse))
    told = {groups_param(program): grid[0], groups_param(program, "y"): grid[1]}
    params = {name: count for name, count in told.items() if name in coarse.params}
    return dispatcher(target).dispatch(coarse, inputs, by.grid(grid), params=params)


@pytest.mark.parametrize("seeds", quick([range(k, k + 10) for k in range(0, 2000, 10)]), ids=str)
def test_random_programs_compute_the_same(seeds: range) -> None:
    """On the interpreter, which looks for races, and on the cpu; grids that the factor divides and others."""
    for seed in seeds:
        sample = neighbour_program(seed)
        program = program_of(sample.text)
        inputs = sample.arrays
        expected = dispatcher("ref").dispatch(program, inputs, sample.grid)
        for by in (*map(Neighbours, FACTORS), BLOCKS[seed % len(BLOCKS)]):
            if coarsen_refusal(program, by) is not None:
                continue
            if by.blocks > 1 and isinstance(coarsen(program, by, AS_PARAMS), Refusal):
                continue  # too many ops
            for target in ("ref", "cpu"):
                found = run_coarse(program, by, inputs, sample.grid, target)
                for mine, theirs in zip(found, expected, strict=True):
                    np.testing.assert_array_equal(
                        mine, theirs, f"seed {seed} by {by} on {target}\n{sample.text}"
                    )


@pytest.mark.parametrize("by", [Neighbours(4), Neighbours(2, blocks=3), Neighbours(2, blocks=2)], ids=str)
def test_elements_behind_the_last_workgroup_stay(by: Neighbours) -> None:
    """A grid that leaves elements out leaves the same ones out."""
    x = np.arange(256, dtype=np.float32)
    for groups in (1, 2, 3, 4, 7):
        y = np.full(256, -1, np.float32)
        (found,) = run_coarse(program_of(SCALE), by, [x, y], (groups, 1, 1), "ref")
        assert list(found) == [2 * v for v in x[: 32 * groups]] + [-1] * (256 - 32 * groups)


def test_each_block_of_neighbours_has_vectors() -> None:
    """The loads of all stand before what is computed of one."""
    coarse = coarsen(program_of(SCALE), Neighbours(4, blocks=2), AS_PARAMS)
    assert isinstance(coarse, Program)
    module = module_with(coarse)
    PassManager("vectorize_access").run(module)
    text = str(module)
    loads = [text.index(f"load @x[%{name}] : vec<4 x f32>") for name in ("id", "id_4")]
    assert max(loads) < text.index("mul %v")
    assert "%id_4 = add %id, 128" in text


def test_blocks_are_rows_of_several() -> None:
    for by in (Neighbours(1, blocks=2), Neighbours(2, 2, blocks=2), Neighbours(4, 1, (8, 4), 2)):
        refusal = coarsen(program_of(TRANSPOSE), by, AS_PARAMS)
        assert isinstance(refusal, Refusal)
        assert "cannot have several blocks of one neighbour, along y or in tiles" in refusal.message


def test_neighbours_become_vectors() -> None:
    coarse = coarsen(program_of(SCALE), Neighbours(4), AS_PARAMS)
    assert isinstance(coarse, Program)
    module = module_with(coarse)
    PassManager("vectorize_access").run(module)
    text = str(module)
    assert text.count("load @x[%id] : vec<4 x f32>") == text.count("@y[%id] : vec<4 x f32>") == 1


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("workgroup(32)", "workgroup(33)", "a workgroup of 33 along x, no multiple of 4"),
        ("%v = load", "barrier workgroup\n    %v = load", "has an op at which invocations meet: barrier"),
        (
            "  %n = len @x",
            '  %n = len @x\n  debug_print "%u" %i',
            "come in the order of its workgroups: it has a debug_print",
        ),
        ("  %n = len @x", "  %n = len @x\n  %lane = lane_id", "asks for its lane_id"),
        (
            "  %n = len @x",
            "  %n = len @x\n  %a = subgroup_reduce<add> %i",
            "invocations meet: subgroup_reduce",
        ),
        ("binding(1)\n", "binding(1)\n  buffer @t : f32[8] workgroup\n", "has workgroup memory"),
    ],
)
def test_what_would_be_noticed_is_refused(old: str, new: str, message: str) -> None:
    assert old in SCALE
    text = SCALE.replace(old, new)
    if "barrier" in new:  # where all meet
        text = text.replace("  if %inside {\n    barrier", "  barrier").replace(
            "    %v = load", "  if %inside {\n    %v = load"
        )
    refusal = coarsen(program_of(text), Neighbours(4), AS_PARAMS)
    assert isinstance(refusal, Refusal)
    assert message in refusal.message


def test_a_deep_nest_is_refused_in_little_time() -> None:
    """What is beyond the limit is not built first."""
    depth = 150
    head = "  %c = lt %i, %n\n" + "  if %c {\n" * depth
    text = (
        SCALE[: SCALE.index("  %inside")]
        + head
        + "  %v = load @x[%i]\n  store %v, @y[%i]\n"
        + "  }\n" * depth
        + "}\n"
    )
    refusal = coarsen(program_of(text), Neighbours(8), AS_PARAMS)
    assert isinstance(refusal, Refusal)
    assert "may have more than 2048 ops where 8 invocations are one" in refusal.message


def test_a_factor_is_a_power_of_two() -> None:
    for by in (3, 0, -2):
        refusal = coarsen(program_of(SCALE), Neighbours(by), AS_PARAMS)
        assert isinstance(refusal, Refusal)
        assert "no power of two" in refusal.message


@pytest.mark.parametrize(
    ("index", "is_strided"),
    [
        ("%i", False),
        ("add %i, 7", False),
        ("sub %i, 1", False),
        ("mul %l, 1", False),
        ("div %n, 3", False),
        ("mul %i, 2", True),
        ("sub %n, %i", True),
        ("rem %i, 8", True),
        ("load @order[%i]", True),
    ],
)
def test_accesses_of_elements_apart(index: str, is_strided: bool) -> None:
    name = "%i" if index == "%i" else "%k"
    line = "" if index == "%i" else f"  %k = {index} : u32\n"
    text = SCALE.replace("binding(1)\n", "binding(1)\n  buffer @order : u32[?] read binding(2)\n")
    text = text.replace("  %n = len @x\n", f"  %n = len @x\n  %l = local_id x\n{line}").replace(
        "load @x[%i]", f"load @x[{name}]"
    )
    axes = {op.attrs["buffer"]: along for op, along in access_axes(program_of(text)).items()}
    assert axes["x"] == ("" if is_strided else "x")
    assert axes["y"] == "x"


TRANSPOSE = """vyre 2
program @transpose workgroup(16, 16) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1)
  %j = global_id x
  %i = global_id y
  %rows = len @x, 0
  %columns = len @x, 1
  %below = lt %i, %rows
  %left = lt %j, %columns
  %inside = and %below, %left
  if %inside {
    %v = load @x[%i, %j]
    store %v, @y[%j, %i]
  }
}
"""


def test_a_transpose_is_along_both_axes() -> None:
    assert [*access_axes(program_of(TRANSPOSE)).values()] == ["x", "y"]


def test_what_repeats_along_y() -> None:
    own = TRANSPOSE.replace("@y[%j, %i]", "@y[%i, %j]")
    shared = own.replace("load @x[%i, %j]", "load @x[0, %j]")
    assert repeats_along_y(program_of(shared))
    # loads of their own, stores to the same, and a store that is the same for all besides
    also = shared.replace("store %v, @y[%i, %j]", "store %v, @y[%i, %j]\n    store %v, @y[0, %j]")
    for text in (own, TRANSPOSE.replace("@y[%j, %i]", "@y[0, %j]"), also):
        assert not repeats_along_y(program_of(text))


@pytest.mark.parametrize("by", BLOCKS, ids=str)
def test_blocks_of_neighbours(by: Neighbours) -> None:
    """Along both axes, and lanes that stand elsewhere in their workgroup."""
    program = program_of(TRANSPOSE)
    coarse = coarsen(program, by, AS_PARAMS)
    assert isinstance(coarse, Program), coarse
    check(module_with(coarse))
    for rows, columns in ((16, 16), (17, 3), (33, 50), (5, 64)):
        x = np.random.default_rng(rows).random((rows, columns), np.float32)
        grid = (-(-columns // 16), -(-rows // 16), 1)
        told = {groups_param(program): grid[0], groups_param(program, "y"): grid[1]}
        params = {name: count for name, count in told.items() if name in coarse.params}
        for target in ("ref", "cpu"):
            y = np.zeros((columns, rows), np.float32)
            (found,) = dispatcher(target).dispatch(coarse, [x, y], by.grid(grid), params=params)
            np.testing.assert_array_equal(found.reshape(y.shape), x.T, f"{rows} x {columns} on {target}")
            outside = (
                dispatcher(target).dispatch(program, [x, np.full_like(y, 9)], (1, 1, 1))[0].reshape(y.shape)
            )
            first = by.grid((1, 1, 1))
            params_of_one = dict.fromkeys(params, 1)
            (found,) = dispatcher(target).dispatch(
                coarse, [x, np.full_like(y, 9)], first, params=params_of_one
            )
            np.testing.assert_array_equal(found.reshape(y.shape), outside)


@pytest.mark.parametrize("by", [*BLOCKS, Neighbours(4), Neighbours(1, 1, (4, 8))], ids=str)
def test_a_fault_names_who_it_is_of(by: Neighbours) -> None:
    """Together the invocations of a coarse program stand for each of the program as it was once."""
    lanes = (32, 8, 2)
    grid = (by.groups_along_x * 3, by.y * 2, 2)
    seen: list[tuple[int, ...]] = []
    few = by.grid(grid)
    for place in product(*map(range, (*few, *lanes))):
        group, local = by.written(place[:3], place[3:], lanes)
        x, y = (each if isinstance(each, int) else span(str(each)) for each in local[:2])
        ids = [*product(*([one] if isinstance(one, int) else one for one in (x, y)))]
        for number in str(group[0]).split(" or "):
            seen += [(int(number), *map(int, map(str, group[1:])), *each, int(str(local[2]))) for each in ids]
    assert sorted(seen) == [*product(*map(range, (*grid, *lanes)))]


def span(text: str) -> range:
    first, _, last = text.partition(" to ")
    return range(int(first), int(last) + 1)
