"""What the second prover says of matrices, which a subgroup moves together, and of copies, which arrive later."""

from __future__ import annotations

import pytest

from vyre_opt import parse
from vyre_opt.certify.accesses import accesses_of
from vyre_opt.certify.barriers import removed_barrier
from vyre_opt.certify.forwarding import forwarded, overwritten
from vyre_opt.certify.joins import meet_in_one
from vyre_opt.certify.obligations import Obligation, prove
from vyre_opt.certify.points import Nesting
from vyre_opt.certify.tiles import covered
from vyre_opt.certify.vectors import vector
from vyre_opt.ir import Launch, Op, Program

IDS = """
  %w = workgroup_id x
  %s = subgroup_id
  %lane = lane_id
  %zero = const 0 : u32
  %one = const 1 : u32
  %two = const 2 : u32
  %seven = const 7 : u32
  %eight = const 8 : u32
  %sixteen = const 16 : u32
  %first = mul %w, %two : u32
  %own = add %first, %s : u32
  %r0 = mul %own, %sixteen : u32
  %number = const 1 : i32
"""

PIPELINE = f"""vyre 2
program @first workgroup(64) {{
  buffer @to : i32[136, 16] write binding(0)
  {IDS}
  %m = splat %number : matrix<16x16xi32, acc>
  matrix_store %m, @to[%r0, %zero] : matrix<16x16xi32, acc>
}}
program @second workgroup(64) {{
  buffer @from : i32[136, 16] read binding(0)
  buffer @to : i32[136, 16] write binding(1)
  {IDS}
  READ
}}
pipeline @main {{
  buffer @t : i32[136, 16]
  buffer @y : i32[136, 16] write
  launch @first grid(4) (@t)
  launch @second grid(4) (@t, @y)
}}
"""

MATRIX = "%x = matrix_load @from[%at, %zero] : matrix<16x16xi32, acc>"
ELEMENT = "%x = load @from[%at, %zero] : i32"


def statuses(obligations: list[Obligation]) -> set[str]:
    return {prove(obligation).status for obligation in obligations}


@pytest.mark.parametrize(
    ("read", "with_barrier", "without"),
    [
        (f"%at = add %r0, %zero : u32  {MATRIX}", "proved", "refuted"),
        (f"%at = add %r0, %lane : u32  %in = lt %lane, %sixteen : u32  if %in {{ {ELEMENT} }}", "proved", "refuted"),
        (f"%o = xor %own, %one : u32  %at = mul %o, %sixteen : u32  {MATRIX}", "proved", "refuted"),
        (f"%o = sub %seven, %own : u32  %at = mul %o, %sixteen : u32  {MATRIX}", "refuted", "refuted"),
        (f"%at = add %r0, %eight : u32  {MATRIX}", "refuted", "refuted"),
        (f"%fifteen = const 15 : u32  %at = add %r0, %fifteen : u32  {ELEMENT}", "proved", "refuted"),
        (f"%at = add %r0, %sixteen : u32  {ELEMENT}", "refuted", "refuted"),
    ],
)  # fmt: skip
def test_launches_that_meet(read: str, with_barrier: str, without: str) -> None:
    """A matrix is of all its rows.  No lane is known to be the one that moved an element of it, so without a barrier nothing
    is handed over; nor is a subgroup taken to race with itself, which would prove anything."""
    module = parse(PIPELINE.replace("READ", read.replace("  ", "\n")))
    pipeline = module.pipelines["main"]
    launches = [stage for stage in pipeline.stages if isinstance(stage, Launch)]
    assert statuses(list(meet_in_one(module, pipeline, launches, [1]))) == {with_barrier}
    assert statuses(list(meet_in_one(module, pipeline, launches, []))) == {without}


HEAD = f"""vyre 2
program @p workgroup(64) grid(4) {{
  buffer @in : i32[64] read binding(0)
  buffer @t : i32[32, 16] workgroup
  buffer @c : i32[128] workgroup
  {IDS}
  %l = local_id x
  %next = add %l, %one : u32
  %own_rows = mul %s, %sixteen : u32
  %m = splat %number : matrix<16x16xi32, acc>
  %v = load @in[%l] : i32
"""

STORE = "matrix_store %m, @t[%own_rows, %zero] : matrix<16x16xi32, acc>"
LOAD = "%x = matrix_load @t[%own_rows, %zero] : matrix<16x16xi32, acc>"
COPY = "copy_async %v, @c[%l] : i32"


def program(*lines: str) -> Program:
    return parse(HEAD + "\n".join(lines) + "\n}").programs["p"]


def ops(of: Program, *names: str) -> list[Op]:
    return [op for op in of.walk() if op.name in names]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        ([STORE, "barrier workgroup", LOAD], {"refuted"}),
        ([STORE, "barrier subgroup", LOAD], {"refuted"}),
        ([STORE, "barrier workgroup", "store %number, @t[%own_rows, %zero] : i32"], {"refuted"}),
        ([STORE, "barrier workgroup", "%x = load @c[%l] : i32"], {"proved"}),
        ([COPY, "copy_wait", "barrier workgroup", "%x = load @c[%l] : i32"], {"unknown"}),
        ([COPY, "barrier workgroup", "copy_wait", "%x = load @c[%l] : i32"], {"unknown"}),
        ([STORE, "barrier workgroup", "copy_wait"], {"unknown"}),
        (["barrier workgroup", "copy_wait"], {"proved"}),
    ],
)  # fmt: skip
def test_removed_barriers(lines: list[str], expected: set[str]) -> None:
    of = program(*lines)
    (barrier,) = ops(of, "barrier")
    assert statuses(list(removed_barrier(of, barrier, [barrier]))) == expected


@pytest.mark.parametrize(
    ("lines", "status"),
    [
        ([STORE, "barrier workgroup", LOAD], "proved"),
        ([STORE, LOAD], "refuted"),
        ([STORE, "barrier subgroup", LOAD], "refuted"),
        ([STORE, "barrier workgroup", "%x = load @t[%own_rows, %zero] : i32"], "proved"),
        ([STORE, "%x = load @t[%own_rows, %zero] : i32"], "refuted"),
        ([STORE, "barrier workgroup", "%x = matrix_load @t[%eight, %zero] : matrix<16x16xi32, acc>"], "proved"),
        (["%p = eq %s, %zero : u32", f"if %p {{\n{STORE}\n}}", "barrier workgroup", LOAD], "refuted"),
        ([COPY, "copy_wait", "barrier workgroup", "%x = load @c[%l] : i32"], "unknown"),  # when it arrives
    ],
)  # fmt: skip
def test_what_is_read_was_written(lines: list[str], status: str) -> None:
    nesting = Nesting(program(*lines))
    accesses = accesses_of(nesting, "c" if COPY in lines else "t")
    writes = [access for access in accesses if access.is_write]
    (read,) = [access for access in accesses if not access.is_write]
    assert prove(covered(nesting, read, writes)).status == status


def test_values_of_copies_and_matrices_are_not_forwarded() -> None:
    of = program(COPY, "%x = load @c[%l] : i32", "store %v, @c[%l] : i32")
    copy, load, store = ops(of, "copy_async", "load", "store")[1:]
    assert statuses(list(forwarded(of, load, copy, {}))) == {"unknown"}
    assert statuses(list(overwritten(of, copy, store, {}))) == {"unknown"}
    of = program(STORE, LOAD)
    assert statuses(list(forwarded(of, *ops(of, "matrix_load"), *ops(of, "matrix_store"), {}))) == {"unknown"}


def test_no_load_moves_up_past_a_wait() -> None:
    lines = ["%d = mul %l, %two : u32", "%e = add %d, %one : u32", "%x = load @c[%d] : i32", "copy_wait"]
    of = program(*lines, "%y = load @c[%e] : i32")
    _, first, second = ops(of, "load")
    assert "unknown" in statuses(list(vector(of, [[first], [second]])))
