"""Which programs do the same over every grid: each refusal names the fact that is missing."""

from __future__ import annotations

from support.each import each

from vyre_opt import parse
from vyre_opt.analysis.refusal import Refusal
from vyre_opt.fusion.grid_stride import GridStride, runs_wherever, single_round
from vyre_opt.ir.grids import show_extent

TEXT = """vyre 1
program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] read_write binding(1) live_in live_out
  buffer @z : u32[?] write binding(2) live_out
  %g = global_id x
  %s = global_size x
  %zero = const 0 : u32
  %one = const 1 : u32
  %n = len @x
  %scale = load @x[%zero] : u32
  for %i = %g to %n step %s {
    %v = load @x[%i] : u32
    %w = mul %v, %scale : u32
    store %w, @y[%i] : u32
  }
}
"""
STORE = "store %w, @y[%i] : u32"


def outcome(*edits: tuple[str, str]) -> GridStride | Refusal | None:
    text = TEXT
    for old, new in edits:
        assert old in text
        text = text.replace(old, new)
    (program,) = parse(text).programs.values()
    return single_round(program)


ONE_ROUND = [
    ([], "max(1, ceil_div(len(@x), 64))"),
    ([("to %n", "to 1000")], "16"),
    ([("%n = len @x", "%l = len @x %n = shr %l, %one : u32")], "max(1, ceil_div(div(len(@x), 2), 64))"),
    ([(STORE, "%old = atomic_add @y[%zero], %w : u32")], "max(1, ceil_div(len(@x), 64))"),
    ([(STORE, "%old = atomic_max @y[%v], %w : u32")], "max(1, ceil_div(len(@x), 64))"),
    ([(STORE, "%e = load @y[%i] : u32 %t = add %e, %w : u32 store %t, @y[%i] : u32")], "max(1, ceil_div(len(@x), 64))"),
]  # fmt: skip


def test_the_workgroups_that_one_round_takes() -> None:
    def check(case: tuple[list[tuple[str, str]], str]) -> None:
        edits, workgroups = case
        stride = outcome(*edits)
        assert isinstance(stride, GridStride)
        assert show_extent(stride.extent) == workgroups
        assert not any(op.name == "for" for op in stride.program.walk())

    each(ONE_ROUND, check)


DEPENDENT = [
    ([(STORE, "%t = add %w, %g : u32 store %t, @y[%i] : u32")], "uses global_id"),
    ([(STORE, "%l = local_id x store %l, @y[%i] : u32")], "uses local_id"),
    ([(STORE, "%t = num_workgroups x store %t, @y[%i] : u32")], "uses num_workgroups"),
    ([(STORE, "store %w, @y[%v] : u32")], "rounds of two elements"),
    ([(STORE, "%e = load @y[%one] : u32 store %e, @y[%i] : u32")], "rounds of two elements"),
    ([(STORE, "%old = atomic_add @y[%zero], %w : u32 store %old, @z[%i] : u32")], "rounds of two elements"),
    ([(STORE, "%old = atomic_add @y[%zero], %w : u32 %o2 = atomic_max @y[%zero], %w : u32")], "rounds of two elements"),
    ([(STORE, "%old = atomic_exchange @y[%zero], %w : u32")], "rounds of two elements"),
    ([("to %n", "to %scale")], "not the length"),
    ([("%n = len @x", "%l = len @x %n = mul %l, %l : u32")], "not the length"),
    ([("  for %i", "  store %one, @y[%zero] : u32\n  for %i")], "outside of its loop"),
    ([("%scale = load @x", "%scale = load @y")], "outside of its loop"),
]  # fmt: skip


def test_what_may_depend_on_the_grid() -> None:
    def check(case: tuple[list[tuple[str, str]], str]) -> None:
        edits, why = case
        refusal = outcome(*edits)
        assert isinstance(refusal, Refusal)
        assert why in refusal.message

    each(DEPENDENT, check)


def test_a_loop_of_another_kind_is_none() -> None:
    assert outcome(("to %n step %s", "to %n step %one")) is None


GRIDS = [
    ("4", True),
    ("len(@x)", True),
    ("ceil_div(len(@x), 64)", True),
    ("max(1, len(@z))", True),
    ("max(ceil_div(len(@x), 64), len(@z))", True),
    ("add(len(@z), ceil_div(len(@x), 64))", True),
    ("mul(len(@x), 3)", True),
    ("min(len(@x), 4096)", True),
    ("ceil_div(len(@z), 64)", False),
    ("div(len(@x), 64)", False),
    ("sub(len(@x), 1)", False),
    ("min(len(@x), len(@z))", False),
    ("mul(len(@x), len(@z))", False),
    # 3 + (0 - 3): the first has workgroups, and the sum has none
    ("add(3, sub(len(@x), 3))", False),
    ("add(4, sub(min(len(@x), 1), 4))", False),
]


def test_grids_that_run_wherever_there_are_elements() -> None:
    """A launch over no workgroups does nothing, so one that is taken with one round must have one."""

    def check(case: tuple[str, bool]) -> None:
        grid, runs = case
        text = f"""vyre 1
        program @q workgroup(64) {{ buffer @x : u32[?] read binding(0) }}
        pipeline @main {{
          buffer @x : u32[?] read
          buffer @z : u32[?] read
          launch @q grid({grid}) (@x)
          launch @q grid(len(@x)) (@x)
        }}"""
        first, second = (stage.grid[0] for stage in parse(text).pipelines["main"].stages)  # type: ignore[union-attr]
        assert runs_wherever(first, second) is runs

    each(GRIDS, check)
