"""Values that are too large to be left to LLVM: the same results, short code, small frames, an error where none helps."""

from __future__ import annotations

import re
from itertools import pairwise

import llvmlite.binding as llvm
import numpy as np
import pytest
from support.differential import random_cases
from support.op_programs import OpProgram, op_programs
from support.op_programs.values import byte_shuffles
from support.quick import quick

import vyre_opt
from vyre_opt import dispatcher
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Op, Program
from vyre_opt.lowering.common.llvm_passes import run_passes
from vyre_opt.lowering.host import live_values
from vyre_opt.lowering.host import program as host_program
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.lowering.host.live_values import ValueInMemory
from vyre_opt.targets.cpu import jit
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code

LARGEST_FRAME = 64 << 10
"""What docs/explanation/architecture.md promises."""


def head(dtype: str, workgroup: int = 32) -> str:
    return f"""vyre 1
program @p workgroup({workgroup}) {{
  buffer @x : {dtype}[?] read binding(0)
  buffer @y : {dtype}[?] write binding(1)
  %g = global_id x
"""


def vectors(count: int, lanes: int = 64, dtype: str = "f64", workgroup: int = 32, cut: bool = False) -> str:
    """So many vectors that are live together, each loaded on its own; `cut` by a barrier."""
    kind = f"vec<{lanes} x {dtype}>"
    lines = [
        head(dtype, workgroup),
        f"%c = const {lanes} : u32\n%at = mul %g, %c : u32\n%s0 = load @x[%at] : {kind}",
    ]
    lines += [f"%v{i} = load @x[%at] : {kind}\n%m{i} = add %v{i}, %s0 : {kind}" for i in range(count)]
    lines += ["barrier workgroup"] * cut
    for i in range(count):
        lines.append(f"%s{i + 1} = sub %m{count - 1 - i}, %s{i} : {kind}")
    return "\n".join([*lines, f"store %s{count}, @y[%at] : {kind}\n}}"])


def scalars(count: int, live: int) -> str:
    """`count` rounds of sums of neighbours, of which `live` are live at once."""
    lines = [head("u32", 64), "%v0 = load @x[%g] : u32\n%r0_0 = add %v0, %v0 : u32"]
    lines += [f"%r0_{i} = add %r0_{i - 1}, %v0 : u32" for i in range(1, live)]
    for k in range(count):
        lines += [f"%r{k + 1}_{i} = sub %r{k}_{i}, %r{k}_{(i * 7 + 1) % live} : u32" for i in range(live)]
    return "\n".join([*lines, f"store %r{count}_0, @y[%g] : u32\n}}"])


def carried(count: int) -> str:
    kind = "vec<64 x f64>"
    carry = ", ".join(f"%a{i} = %v{i} : {kind}" for i in range(count))
    results = ", ".join(f"%r{i}" for i in range(count))
    lines = [head("f64"), "%c = const 64 : u32\n%at = mul %g, %c : u32"]
    lines += [f"%v{i} = load @x[%at] : {kind}" for i in range(count)]
    lines += [f"{results} = for %k = 0 to 3 step 1 iter({carry}) {{"]
    lines += [f"%m{i} = mul %a{i}, %a{(i + 1) % count} : {kind}" for i in range(count)]
    lines += ["yield " + ", ".join(f"%m{i}" for i in range(count)), "}"]
    return "\n".join([*lines, f"store %r0, @y[%at] : {kind}\n}}"])


def programs() -> dict[str, str]:
    return {
        "40 vectors": vectors(40),
        "40 vectors, several subgroups": vectors(40, workgroup=96),
        "40 vectors, around a barrier": vectors(40, workgroup=96, cut=True),
        "100 short vectors": vectors(100, lanes=8, dtype="f32"),
        "integers": vectors(50, lanes=16, dtype="u8"),
        "1000 scalars": scalars(2, 1000),
        "100 scalars for long": scalars(12, 100),
    }


def vyre_type(name: str) -> np.dtype:
    """The NumPy type of a type of the language."""
    return np.dtype(f"{name[0]}{int(name[1:]) // 8}")


def parsed(text: str) -> Program:
    return vyre_opt.parse(text).programs["p"]


def frame_of(program: Program) -> int:
    """Bytes of the largest frame of a program's machine code."""
    host = Host.this()
    machine = jit._machine(host)
    with llvm.parse_assembly(host_code(legal_program(program, None), {}, host).text) as module:
        options = llvm.create_pipeline_tuning_options(speed_level=host.opt)
        options.slp_vectorization = False
        run_passes(module, machine, options)
        assembly = machine.emit_assembly(module)
    return max(map(int, re.findall(r"sub\w*\s+[$#](\d+), %?[re]?sp", assembly)), default=0)


FIRST = "40 vectors, around a barrier"


@pytest.mark.parametrize("name", quick(sorted(programs(), key=lambda name: name != FIRST)))
def test_results_and_frames(name: str) -> None:
    program = parsed(programs()[name])
    stored = program.buffers["x"].dtype
    x = np.random.default_rng(1).integers(0, 200, 96 * 64).astype(vyre_type(stored.name))
    inputs = [x, np.zeros_like(x)]
    (expected,) = dispatcher("ref").dispatch(program, inputs, 1)
    (y,) = CpuDispatcher(cache=False).dispatch(program, inputs, 1)
    assert np.array_equal(y, expected)
    assert y.any()
    assert frame_of(program) <= LARGEST_FRAME


HEAVY = (("div", "u64", 40, 16), ("mul_sat", "u64", 20, 32), ("rem", "i8", 40, 16), ("tanh", "f64", 20, 16))


@pytest.mark.parametrize(("op", "dtype", "count", "lanes"), quick(HEAVY))
def test_many_ops_that_are_long_code(op: str, dtype: str, count: int, lanes: int) -> None:
    """They are loops over the elements, so that twice the elements are no more code."""

    def text(lanes: int) -> str:
        kind = f"vec<{lanes} x {dtype}>"
        lines = [
            head(dtype),
            f"%c = const {lanes} : u32\n%at = mul %g, %c : u32\n%v0 = load @x[%at] : {kind}",
        ]
        other = "" if op == "tanh" else ", %v0"
        lines += [f"%v{i + 1} = {op} %v{i}{other} : {kind}" for i in range(count)]
        return "\n".join([*lines, f"store %v{count}, @y[%at] : {kind}\n}}"])

    program, host = parsed(text(lanes)), Host.this()
    x = np.random.default_rng(2).integers(1, 100, 32 * lanes).astype(vyre_type(dtype))
    inputs = [x, np.zeros_like(x)]
    (expected,) = dispatcher("ref").dispatch(program, inputs, 1)
    (y,) = CpuDispatcher(cache=False).dispatch(program, inputs, 1)
    assert np.allclose(y, expected, rtol=1e-14)
    small, large = (len(host_code(legal_program(parsed(text(n)), None), {}, host).text) for n in (16, 32))
    assert large < 1.2 * small


def test_a_program_within_the_budget_keeps_nothing_in_memory() -> None:
    assert live_values.values_in_memory(parsed(vectors(1, lanes=16)), lambda value: True) == []


def test_code_grows_with_the_vectors_and_not_with_their_lanes() -> None:
    host = Host.this()

    def size(count: int, lanes: int) -> int:
        return len(host_code(legal_program(parsed(vectors(count, lanes)), None), {}, host).text)

    sizes = [size(count, 64) for count in (20, 40, 80)]
    assert all(0.8 * a < b / 2 < 1.2 * a for a, b in pairwise(sizes))
    assert size(40, 64) < 1.5 * size(40, 32)


def test_what_is_carried_around_a_loop_is_refused_at_the_loop() -> None:
    program = parsed(carried(20))
    x = np.ones(64 * 32)
    with pytest.raises(ProgramError) as caught:
        CpuDispatcher(cache=False).dispatch(program, [x, x], 1)
    message = str(caught.value)
    assert caught.value.kind == "limit"
    assert "the values that are live here take 327680 bytes" in message
    assert "carry less around loops" in message
    (y,) = CpuDispatcher(cache=False).dispatch(parsed(carried(2)), [x, x], 1)
    assert (y == 1).all()


def all_in_memory(program: Program, is_wide: object) -> list[ValueInMemory]:
    """Each wide value that can be kept in memory, whatever the budget."""
    ranges = live_values._LiveRanges(program)
    sizes = {value: live_values._size(value) for value in ranges.ends if is_wide(value)}  # type: ignore[operator]
    plain = [v for v in sizes if isinstance(v.owner, Op) and not v.owner.regions]
    return ranges.in_slots(plain, sizes)


def check(cases: list[OpProgram]) -> None:
    cpu = CpuDispatcher(cache=False, opt=1)
    for case in cases:
        inputs = case.inputs(1)
        expected = dispatcher("ref").dispatch(case.program, inputs, case.grid, module=case.module)
        actual = cpu.dispatch(case.program, inputs, case.grid, module=case.module)
        assert not case.mismatch(expected, actual), case.name


@pytest.fixture
def memory(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_program, "values_in_memory", all_in_memory)


def test_some_programs_with_all_values_in_memory(memory: None) -> None:
    check(list(op_programs())[::120])
    check(random_cases(range(1)))


@pytest.mark.parametrize("place", quick([-1, 0]))
def test_byte_shuffles_with_all_values_in_memory(memory: None, place: int) -> None:
    """Ops on vectors that are held lane after lane are put off, but not their values' stores: they share places."""
    check([list(byte_shuffles())[place]])


LOOPS = {
    "a value from outside, used in each round": """
      %v = for %k = 0 to 3 step 1 iter(%sum = %x : u32) {
        %t = add %sum, %a : u32
        %u = mul %t, %three : u32
        %w = add %u, %t : u32
        yield %w
      }""",
    "bounds of each lane": """
      %lower = rem %x, %three : u32
      %upper = add %lower, %six : u32
      %v = for %k = %lower to %upper step 2 iter(%sum = %x : u32) {
        %t = add %sum, %k : u32
        %u = mul %t, %three : u32
        %w = add %u, %t : u32
        yield %w
      }""",
}


@pytest.mark.parametrize("body", LOOPS.values(), ids=LOOPS)
def test_what_a_loop_uses_in_each_round_keeps_its_place(memory: None, body: str) -> None:
    """What the body computes has places in memory of its own, though it is computed behind the last use."""
    text = f"""vyre 1
    program @p workgroup(64) {{
      buffer @x : u32[64] read binding(0)
      buffer @y : u32[64] write binding(1)
      %l = local_id x
      %three = const 3 : u32
      %six = const 6 : u32
      %x = load @x[%l] : u32
      %a = mul %x, %x : u32
      {body}
      store %v, @y[%l] : u32
    }}"""
    program = parsed(text)
    x = np.random.default_rng(1).integers(0, 1000, 64, dtype=np.uint32)
    inputs = [x, np.zeros(64, np.uint32)]
    (expected,) = dispatcher("ref").dispatch(program, inputs, 1)
    (actual,) = CpuDispatcher(cache=False, opt=1).dispatch(program, inputs, 1)
    np.testing.assert_array_equal(actual, expected)


@pytest.mark.campaign
def test_every_op_and_random_programs_with_all_values_in_memory(memory: None) -> None:
    check(list(op_programs())[::3])
    check(random_cases(range(100, 160)))
