"""A program at fault ends in the same fault after the default passes: at its line, with its index and length."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pytest
from support.certifying import decisions_of
from support.each import each
from support.planted_faults import compare_faults
from support.quick import quick

from vyre_opt import PassManager, compile, parse, print_program
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Module
from vyre_opt.lowering.nvptx.abi import EntryPoint, Fault, FaultSite, Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.targets.cuda.faults import program_error


class Faulty(NamedTuple):
    """A text whose op on the line marked `// here` is at fault, as `says` tells.

    `lengths` of the inputs, which are all f32 and open, and of outputs.  `becomes`: what passes make of the buffer.
    """

    name: str
    text: str
    says: str
    lengths: Mapping[str, Any]
    grid: int | None = None
    becomes: str = ""


def pipeline(sizes: str, first: str, second: str, grid: str = "4", head: str = "workgroup(64)") -> str:
    """Two launches that hand @m over, of which `first` stores %v and `second` reads and stores %r."""
    x, m, y = sizes.split("; ")
    return f"""vyre 2
program @first {head} {{
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
{first}
}}
program @second {head} {{
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
{second}
}}
pipeline @main {{
  buffer @x : f32[{x}] read
  buffer @m : f32[{m}]
  buffer @y : f32[{y}] write live_out
  launch @first grid({grid}) (@x, @m)
  launch @second grid({grid}) (@m, @y)
}}
"""


def program(buffers: str, body: str) -> str:
    return f"""vyre 2
program @main workgroup(64) {{
{buffers}
  %g = global_id x
  %l = local_id x
{body}
}}
"""


X, Y = "  buffer @x : f32[?] read binding(0)\n", "  buffer @y : f32[?] write binding(1) live_out\n"
OWN = "  %v = load @x[%g]\n  store %v, @y[%g]"
OWN_FAULT = "  %v = load @x[%g]\n  store %v, @y[%g] // here"
ZEROS = "  %zero = sub %g, %g : u32\n"
MIRROR = (
    "  %base = mul %w, 64 : u32\n  %far = sub 63, %l : u32\n  %i = add %base, %far : u32\n"
    "  %v = load @x[%i]\n  store %v, @y[%g]"
)
GUARDED = "  %n = len @{0}\n  %in = lt %g, %n : u32\n  if %in {{\n{1}\n  }}"
BOTH = """  %v = load @x[%g]
  %r = add %v, 1.0 : f32
"""
NEXT = "  %i = add %g, 1 : u32\n  %v = load @x[%i] // here\n  %u = load @x[%g]\n  %r = add %u, %v : f32\n  store %r, @y[%g]"
BEFORE = NEXT.replace("add %g, 1", "sub %g, 1")
PLATE = """vyre 2
program @first workgroup(8, 8) {{
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1) live_out
  %r = global_id y
  %c = global_id x
  %v = load @x[%r, %c]
  store %v, @y[%r, %c] // here
}}
program @second workgroup(8, 8) {{
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?, ?] write binding(1) live_out
  %r = global_id y
  %c = global_id x
  %v = load @x[%r, %c]
  store %v, @y[%r, %c]
}}
pipeline @main {{
  buffer @x : f32[{x}] read
  buffer @m : f32[{m}]
  buffer @y : f32[{y}] write live_out
  launch @first grid(2, 2) (@x, @m)
  launch @second grid(2, 2) (@m, @y)
}}
"""

FAULTS = (
    Faulty("tile", pipeline("256; 200; 256", OWN_FAULT, MIRROR), "index 200, length 200", {"x": 256}, becomes="tile"),
    Faulty("tile, last workgroup", pipeline("256; 255; 256", OWN_FAULT, MIRROR), "index 255, length 255", {"x": 256}, becomes="tile"),
    Faulty("tile, base beyond the length", pipeline("256; 64; 256", OWN_FAULT, MIRROR), "index 64, length 64", {"x": 256}, becomes="tile"),
    Faulty("tile of open size", pipeline("?; div(len(@x), 2); ?", OWN_FAULT, MIRROR), "index 128, length 128", {"x": 256, "y": 256}, becomes="tile"),
    Faulty("tile of a size that the caller says", pipeline("?; ?; ?", OWN_FAULT, MIRROR), "index 100, length 100", {"x": 256, "m": 100, "y": 256}, becomes="tile"),
    Faulty("tile as long as the input", pipeline("?; len(@x); ?", OWN_FAULT.replace("@x[%g]", "@x[%zero]").replace("  %v", ZEROS + "  %v"), MIRROR),
           "index 100, length 100", {"x": 100, "y": 256}, becomes="tile"),
    Faulty("tile, in a loop", pipeline("256; 1000; 256", "  %b = mul %g, 4 : u32\n  for %k = 0 to 4 step 1 {\n    %i = add %b, %k : u32\n    store 1.0, @y[%i] // here\n  }",
           "  %b = mul %w, 256 : u32\n  %far = sub 255, %l : u32\n  %i = add %b, %far : u32\n  %v = load @x[%i]\n  store %v, @y[%g]"), "index 1000, length 1000", {"x": 256}, becomes="tile"),
    Faulty("tile of vectors", pipeline("256; 1022; 256", "  %b = mul %g, 4 : u32\n  %v = const 2.0 : vec<4 x f32>\n  store %v, @y[%b] // here",
           "  %b = mul %w, 256 : u32\n  %far = sub 255, %l : u32\n  %i = add %b, %far : u32\n  %v = load @x[%i]\n  store %v, @y[%g]"), "length 1022", {"x": 256}, becomes="tile"),
    Faulty("tile, wrapped", pipeline("256; 256; 256", "  %i = sub %g, 64 : u32\n  %v = load @x[%g]\n  store %v, @y[%i] // here",
           MIRROR.replace("add %base, %far : u32", "add %base, %far : u32\n  %j = sub %i, 64 : u32").replace("@x[%i]", "@x[%j]")), "index 4294967232, length 256", {"x": 256}, becomes="tile"),
    Faulty("tile, negative", pipeline("256; 256; 256", "  %s = cast %g : u32 -> i32\n  %i = sub %s, 3 : i32\n  %v = load @x[%g]\n  store %v, @y[%i] // here",
           MIRROR.replace("  %v", "  %s = cast %i : u32 -> i32\n  %j = sub %s, 3 : i32\n  %v").replace("@x[%i]", "@x[%j]")), "index -3, length 256", {"x": 256}, becomes="tile"),
    Faulty("halo, behind the last element", pipeline("256; 256; 256", OWN, NEXT), "index 256, length 256", {"x": 256}, becomes="halo"),
    Faulty("halo, before the first element", pipeline("256; 256; 256", OWN, BEFORE), "index 4294967295, length 256", {"x": 256}, becomes="halo"),
    Faulty("halo, made beyond the length", pipeline("256; 250; 256", OWN_FAULT, NEXT.replace(" // here", "")), "index 250, length 250", {"x": 256}, becomes="halo"),
    Faulty("halo, made by those that nobody needs", pipeline("512; 256; 256", "  %v = load @x[%g]\n  %i = add %g, 64 : u32\n  store %v, @y[%i] // here", NEXT.replace(" // here", "").replace("load @x[%i]", "load @x[%g]").replace("%u = load @x[%g]", "%u = load @x[%g]")),
           "index 256, length 256", {"x": 512}),
    Faulty("register", pipeline("256; 200; 256", OWN_FAULT, OWN), "index 200, length 200", {"x": 256}, becomes="register"),
    Faulty("register of open size", pipeline("?; div(len(@x), 2); ?", OWN_FAULT, OWN), "index 128, length 128", {"x": 256, "y": 256}, becomes="register"),
    Faulty("register, guarded by another length", pipeline("?; div(len(@x), 2); len(@x)", GUARDED.format("x", OWN_FAULT), GUARDED.format("y", OWN)), "index 128, length 128", {"x": 256}, becomes="register"),
    Faulty("register, rows", PLATE.format(x="16, 16", m="15, 16", y="16, 16"), "shape (15, 16)|index 15, length 15", {"x": (16, 16)}, becomes="register"),
    Faulty("register, columns", PLATE.format(x="16, 16", m="16, 15", y="16, 16"), "shape (16, 15)|index 15, length 15", {"x": (16, 16)}, becomes="register"),
    Faulty("register, rows of open size", PLATE.format(x="?, ?", m="div(len(@x, 0), 2), len(@x, 1)", y="?, ?"), "shape (8, 16)|index 8, length 8", {"x": (16, 16), "y": (16, 16)}, becomes="register"),
    Faulty("dead store to a transient buffer", program(X + Y + "  buffer @t : f32[100] read_write", "  %v = load @x[%g]\n  store %v, @y[%g]\n  store %v, @t[%g] // here"), "index 100, length 100", {"x": 128, "y": 128}, 2),
    Faulty("dead store to workgroup memory", program(X + Y + "  buffer @t : f32[50] workgroup", "  %v = load @x[%g]\n  store %v, @y[%g]\n  store %v, @t[%l] // here"), "index 50, length 50", {"x": 128, "y": 128}, 2),
    Faulty("dead store under a condition", program(X + Y + "  buffer @t : f32[50] workgroup", "  %v = load @x[%g]\n  store %v, @y[%g]\n  %c = gt %v, 0.0 : f32\n  if %c {\n    store %v, @t[%l] // here\n  }"), "index 50, length 50", {"x": 128, "y": 128}, 2),
    Faulty("overwritten store", program(X + Y, "  %v = load @x[%g]\n  store 0.0, @y[%g] // here\n  store %v, @y[%g]"), "index 100, length 100", {"x": 128, "y": 100}, 2),
    Faulty("load and store back", program(X + Y.replace("write", "read_write") .replace("live_out", "live_in live_out"), "  %v = load @y[%g] // here\n  store %v, @y[%g]"), "index 100, length 100", {"x": 128, "y": 100}, 2),
    Faulty("step of 0", program(X + Y, "  %v = load @x[%g]\n  store %v, @y[%g]\n  %step = cast %v : f32 -> u32\n  for %k = 0 to 10 step %step { // here\n  }"), "step of this for is 0", {"x": 128, "y": 128}, 2),
    Faulty("own tile", program(X + Y + "  buffer @t : f32[100] read_write", "  %v = load @x[%g]\n  store %v, @t[%g] // here\n  barrier workgroup\n  %w = workgroup_id x\n" + MIRROR.replace("@x", "@t").replace("%v", "%r").replace("@y[%g]", "@y[%g]")), "index 100, length 100", {"x": 128, "y": 128}, 2, becomes="tile"),
)  # fmt: skip


def run(module: Module, case: Faulty, target: str) -> ProgramError:
    """The fault; fails without one."""
    compiled: Any = compile(module, target=target, entry="main")
    names = [name for name in case.lengths if name == "x"]
    inputs = {name: np.ones(case.lengths[name], np.float32) * (name == "x") for name in names}
    if "step" in case.name:
        inputs["x"][3] = 0
    if "back" in case.name:
        inputs["y"] = np.ones(case.lengths["y"], np.float32)
    lengths = {name: length for name, length in case.lengths.items() if name not in inputs}
    arguments = [] if case.grid is None else [case.grid]
    with pytest.raises(ProgramError) as caught:
        compiled(inputs, *arguments, lengths=lengths)
    return caught.value


def told(error: ProgramError) -> tuple[int | None, str, str]:
    """The line, the access and where it is out of bounds, without the program and the names of buffers."""
    loc = error.diagnostic.loc
    what, _, where = error.diagnostic.message.partition(" out of bounds of @")
    return loc.line if loc else None, what.rsplit(" ", 1)[-1], where.partition(": ")[2].partition(", by ")[0]


def check(case: Faulty) -> None:
    line = next(n for n, text in enumerate(case.text.splitlines(), 1) if "// here" in text)
    written = run(parse(case.text), case, "ref")
    assert told(written)[0] == line
    assert re.search("|".join(map(re.escape, case.says.split("|"))), written.diagnostic.message), written
    module = parse(case.text)
    PassManager("default").run(module)
    kinds = [b.access.value for p in module.programs.values() for b in p.buffers.values() if b.access]
    stores = [op for p in module.programs.values() for op in p.walk() if op.name == "store"]
    if case.becomes in ("tile", "halo"):
        assert "workgroup" in kinds, print_program(module)
    if case.becomes == "register":
        assert len(stores) == 1, print_program(module)
    for target in ("ref", "cpu"):
        error = run(module, case, target)
        assert error.kind == written.kind
        assert told(error)[0] == line or "back" in case.name
        assert re.search("|".join(map(re.escape, case.says.split("|"))), error.diagnostic.message), error
    again = parse(print_program(module))
    assert print_program(again) == print_program(module)


def test_faults_stay() -> None:
    each(FAULTS, check, lambda case: case.name)


@pytest.mark.parametrize("cases", quick([FAULTS[::7], FAULTS], one_parameter=True, ids=["some", "all"]))
def test_checks_are_certified(cases: Sequence[Faulty]) -> None:
    """They leave no decision open; one case reads what nobody wrote, and that is refuted."""

    def check(case: Faulty) -> None:
        statuses = {decision.status for decision in decisions_of(case.text)}
        assert statuses <= {"proved", "refuted" if "nobody needs" in case.name else "proved"}

    each(cases, check, lambda case: case.name)


SIZES = {
    "len(@x)": "%x_length = len @x",
    "add(len(@x), 3)": "add %x_length_i64, 3",
    "sub(len(@x), 3)": "m_storage",  # may be below 0 on paper
    "max(sub(len(@x), 3), 1)": "max",
    "ceil_div(len(@x), 3)": "add %x_length_i64, 2",
    "div(mul(len(@x), 7), 8)": "div %length, 8",
    "mul(len(@x), mul(len(@x), len(@x)))": "m_storage",  # too large
    "min(len(@x), 100)": "min %x_length_i64, 100",
}


@pytest.mark.parametrize("size", SIZES)
def test_a_length_is_its_expression(size: str) -> None:
    """By the lengths of buffers that stay, in 64 bits; where that is not sure to be right, its storage stays."""
    first = "  %i = add %g, 1 : u32\n  %v = load @x[0]\n  store %v, @y[%i]"
    second = MIRROR.replace("@x[%i]", "@x[%j]").replace("  %v", "  %j = add %i, 1 : u32\n  %v")
    text = pipeline(f"?; {size}; ?", first, second, grid="1")
    module = parse(text)
    PassManager("default").run(module)
    assert SIZES[size] in print_program(module)
    for length in (1, 20, 57, 64, 67, 100, 200):
        x = np.ones(length, np.float32)
        outcomes = []
        for program, target in ((text, "ref"), (module, "ref"), (module, "cpu")):
            run_it: Any = compile(program, target=target, entry="main", passes=None)
            try:
                outcomes.append(run_it([x], lengths={"y": 64})["y"].tolist())
            except ProgramError as error:
                outcomes.append(told(error)[1:])
            except ValueError:  # a size below 0
                outcomes.append("no size")
        assert outcomes[0] == outcomes[1]
        assert outcomes[0] == outcomes[2]


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(0, 2000, 50))
@pytest.mark.parametrize("kind", ["mixed", "shaped", "matrices"])
def test_planted_faults_stay(first: int, kind: Any) -> None:
    runs = compare_faults(range(first, first + 50), "ref", kind)
    assert not runs.failures, runs.failures[0]


@pytest.mark.gpu
def test_faults_stay_on_a_gpu() -> None:
    """The same messages, of code that checks each access, and no fault where the caller wants no checks."""

    def check(case: Faulty) -> None:
        written = run(parse(case.text), case, "ref")
        module = parse(case.text)
        PassManager("default").run(module)
        error = run(module, case, "cuda")
        assert (error.kind, told(error)[0]) == (written.kind, told(written)[0])

    each([case for case in FAULTS if "back" not in case.name], check, lambda case: case.name)


CHECKED = """vyre 2
program @main workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %g = global_id x
  %v = load @x[%g]
  %n = len @x
  check_bounds<load> @mid[%g], INDEX_LIMIT : u32
  store %v, @y[%g]
}
"""


@pytest.mark.parametrize("limit", ["%n", "40", "64"])
def test_a_check_is_code_only_where_accesses_are_checked(limit: str) -> None:
    """And not where it is proven: the grid is one workgroup."""
    text = CHECKED.replace("INDEX_LIMIT", limit).replace("workgroup(64)", "workgroup(64) grid(1)")
    program = parse(text).programs["main"]
    for bounds in ("none", "clamp", "trap"):
        (kernel,) = lower([Unit(program)], gpu("sm_90"), bounds).kernels
        names = [site.op.name for site in kernel.sites]
        assert ("check_bounds" in names) == (bounds == "trap" and limit != "64")
        assert ("store" in names) == (bounds == "trap")


def test_a_check_on_a_gpu_speaks_of_the_access() -> None:
    program = parse(CHECKED.replace("INDEX_LIMIT", "%n")).programs["main"]
    op = next(op for op in program.walk() if op.name == "check_bounds")
    kernel = EntryPoint(program, "main", sites=[FaultSite(op, "bounds")])
    error = program_error(kernel, Fault(1, (2, 0, 0), (3, 0, 0), 131, 100))
    expected = "program @main: load out of bounds of @mid: index 131, length 100, by workgroup (2,0,0) local id (3,0,0)"
    assert error.diagnostic.message == expected


@pytest.mark.parametrize(
    ("index", "length"), [("%g", "40 : u32"), ("%wide", "%n64 : u64"), ("%next", "%n : u32")]
)
@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_a_check_ends_in_a_fault_at_its_first_lane(target: str, index: str, length: str) -> None:
    """Of indices that differ and that are the same in a subgroup, under a condition and without one."""
    text = CHECKED.replace(
        "  check_bounds<load> @mid[%g], INDEX_LIMIT : u32",
        f"""  %wide = cast %g : u32 -> u64
  %n64 = len @x : u64
  %next = add %g, 24 : u32
  %c = gt %g, 3 : u32
  if %c {{
    check_bounds<load> @mid[{index}], {length}
  }}""",
    )
    run_checked: Any = compile(text, target=target, passes=None)
    x = np.zeros(64 if index != "%wide" else 40, np.uint32)
    if index == "%wide":  # the load faults before: it is not what is asked here
        text = text.replace("%v = load @x[%g]", "%v = load @x[0]")
        run_checked = compile(text, target=target, passes=None)
    with pytest.raises(
        ProgramError,
        match=r"load out of bounds of @mid: index (40|64), length (40|64), by .*local id \(40,0,0\)",
    ):
        run_checked([x], 1, lengths={"y": 64})
