"""Divisions and shifts without guards: only where no operand can be one that LLVM leaves undefined."""

from __future__ import annotations

import numpy as np
import pytest
from support.each import each

import vyre_opt
from vyre_opt import parse
from vyre_opt.analysis.value_forms import ValueForms
from vyre_opt.lowering.common.guards import needs_guard
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu

TEXT = """vyre 1
program @p workgroup(64) grid(4) {{
  spec @s : i32 = 3
  buffer @x : {type}[256] read binding(0)
  buffer @y : {type}[256] write binding(1) live_out
  %g = global_id x
  %l = local_id x
  %x = load @x[%g] : {type}
  {lines}
  store %r, @y[%g]
}}
"""

MASKS = {"and": "lane_id"}  # what else is lowered to a mask

CASES = [
    # type, lines, whether the last op needs its guard
    ("u32", "%b = const 7 : u32\n %r = rem %x, %b", False),
    ("u32", "%b = const 0 : u32\n %r = rem %x, %b", True),
    ("u32", "%one = const 1 : u32\n %b = add %l, %one\n %r = div %x, %b", False),
    ("u32", "%r = div %x, %l", True),
    ("u32", "%b = len @x\n %r = div %x, %b", False),
    ("u32", "%m = const 31 : u32\n %b = and %x, %m\n %r = shr %x, %b", False),
    ("u32", "%m = const 32 : u32\n %b = and %x, %m\n %r = shr %x, %b", True),
    ("u32", "%b = lane_id\n %r = shl %x, %b", False),
    ("u32", "%r = shl %x, %l", True),  # 64 invocations
    ("u32", "%m = const 4294967295 : u32\n %b = add %l, %m\n %r = div %x, %b", True),  # the sum wraps
    ("i32", "%b = const 7 : i32\n %r = div %x, %b", False),
    ("i32", "%b = const -2 : i32\n %r = rem %x, %b", False),
    ("i32", "%b = const -1 : i32\n %r = div %x, %b", True),  # of the least value
    ("i32", "%b = const -1 : i32\n %m = const 0 : i32\n %a = max %x, %m\n %r = div %a, %b", False),
    ("i32", "%b = spec @s : i32\n %r = div %x, %b", False),
    ("i32", "%p = cast %l : u32 -> bool\n %a = const 0 : i32\n %c = const 3 : i32\n"
            " %b = select %p, %a, %c\n %r = div %x, %b", True),
    ("i64", "%b = const 64 : i64\n %r = shl %x, %b", True),
    ("i64", "%b = const 63 : i64\n %r = shr %x, %b", False),
]  # fmt: skip


def test_a_guard_stays_where_an_operand_may_be_undefined() -> None:
    """Guards against a guard left out where it is needed, and one left in where ranges rule it out."""

    def check(case: tuple[str, str, bool]) -> None:
        dtype, lines, needed = case
        program = parse(TEXT.format(type=dtype, lines=lines)).programs["p"]
        op = next(op for op in program.body.ops if op.results and op.result.name == "r")
        assert needs_guard(op, ValueForms(program, {"s": 3})) is needed
        text = lower([Unit(program)], gpu("sm_90")).text
        guard = "select" if op.name in ("div", "rem") else "and"
        written = text.count(f" = {guard} ") - sum(
            op.name in (guard, MASKS.get(guard)) for op in program.body.ops
        )
        assert written == needed

    each(CASES, check)


def test_results_at_the_edges_are_the_interpreters() -> None:
    """Guards against undefined behaviour reaching the cpu target: extremes of the type, and small values."""

    def check(case: tuple[str, str, bool]) -> None:
        dtype, lines, _ = case
        kind = np.dtype({"u32": np.uint32, "i32": np.int32, "i64": np.int64}[dtype])
        info = np.iinfo(kind)
        edges = [info.min, info.min + 1, info.max, info.max - 1, 0, 1, 2, 7, 31, 32, 63, 64]
        x = np.resize(np.array(edges, kind), 256)
        module = parse(TEXT.format(type=dtype, lines=lines))
        cpu, ref = (vyre_opt.run(module, {"x": x}, target=target) for target in ("cpu", "ref"))
        for name, value in ref.items():
            np.testing.assert_array_equal(cpu[name], value)

    each(CASES, check)


BEYOND = """vyre 1
program @p workgroup({workgroup}) grid(1) {{
  buffer @x : u32[32] read binding(0)
  buffer @y : u32[32] write binding(1) live_out
  %x = local_id x
  %y = local_id y
  %w = workgroup_size x
  %row = mul %y, %w : u32
  %at = add %row, %x : u32
  %c = const {value} : u32
  %v = load @x[%at] : u32
  %i = {id}
  %d = sub %c, %i : u32
  %r = {op} %v, %d : u32
  store %r, @y[%at] : u32
}}
"""


@pytest.mark.parametrize("op", ["div", "rem"])
@pytest.mark.parametrize(
    ("workgroup", "value", "index", "needed"),
    [
        ("5", 5, "local_id x", True),
        ("5", 32, "local_id x", False),
        ("5", 5, "lane_id", True),
        ("5", 5, "global_id x", True),
        ("4, 3", 3, "local_id y", True),
        ("4, 3", 4, "local_id x", False),
        ("4, 3", 8, "local_id y", False),
        ("4, 3", 1, "local_id z", False),
    ],
)
def test_guards_of_lanes_beyond_the_workgroup(
    op: str, workgroup: str, value: int, index: str, needed: bool
) -> None:
    """The last subgroup is computed whole, so its ids are not those of the workgroup; without a guard this divides by 0."""
    module = parse(BEYOND.format(workgroup=workgroup, value=value, id=index, op=op))
    program = module.programs["p"]
    divided = next(op for op in program.body.ops if op.results and op.result.name == "r")
    assert needs_guard(divided, ValueForms(program, whole_subgroups=True)) is needed
    assert not needs_guard(divided, ValueForms(program)), "on a GPU there are no such lanes"
    x = np.arange(100, 132, dtype=np.uint32)
    cpu, ref = (vyre_opt.run(module, {"x": x}, target=target) for target in ("cpu", "ref"))
    np.testing.assert_array_equal(cpu["y"][: program.lanes], ref["y"][: program.lanes])
