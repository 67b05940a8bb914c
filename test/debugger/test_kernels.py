# ruff: noqa: E741, RET504  (kernels have names to look at)
"""`vyre.debug`: what it shows of a kernel is what Python or NumPy would compute, line by line, forward and back."""

from __future__ import annotations

import inspect
import io
import pdb
import re
import sys
import warnings
from collections.abc import Callable
from itertools import pairwise
from types import ModuleType, SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt.lang import Float, Read, ReadWrite, Write, f32, i32, u32

Debugged = Callable[..., list[str]]


@vyre.func
def twice(v):
    w = v + v
    return w


@vyre.program(workgroup=8)
def walk(a: f32, x: Read[f32], y: ReadWrite[f32]):
    i = vyre.global_id(0)
    n = 3
    j = i
    if i < len(y):
        s = f32(0)
        for _ in range(n):
            if i % 2 == 0:
                s += twice(x[i]) * a
            else:
                s -= 1.0
        pair = (s, n)
        y[j] = s + y[i]
        _unused = pair[0] + 1


@vyre.program(workgroup=8)
def counts(x: Read[u32], bins: ReadWrite[u32]):
    i = vyre.global_id(0)
    if i < len(x):
        vyre.atomic_add(bins, x[i], 1)


@vyre.program(workgroup=8)
def reversed_rows(x: Read[i32], y: Write[i32]):
    tile = vyre.shared(i32, 8)
    l, g = vyre.local_id(0), vyre.global_id(0)
    tile[l] = x[g]
    vyre.barrier()
    y[g] = tile[7 - l]


@vyre.pipeline
def twice_reversed(x: Read[i32], y: Write[i32]):
    middle = vyre.buffer(i32, len(x))
    reversed_rows[2](x, middle)
    reversed_rows[2](middle, y)


def arguments() -> tuple[Any, ...]:
    return 2.0, np.arange(20, dtype=np.float32), np.ones(20, np.float32)


def line_of(kernel: Any, text: str) -> int:
    """The number of the line of a kernel that begins so."""
    lines, first = inspect.getsourcelines(kernel.function)
    return first + next(n for n, line in enumerate(lines) if line.strip().startswith(text))


def places(lines: list[str]) -> list[int]:
    """The lines where it stopped."""
    return [int(m[1]) for line in lines if (m := re.match(r"> .*\((\d+)\)", line))]


def printed(lines: list[str], expression: str) -> list[str]:
    """What was shown after each command that prints an expression."""
    return [after for line, after in pairwise(lines) if line == f"(vyre) p {expression}"]


def traced_lines(invocation: int) -> list[int]:
    """The lines that Python runs of the function, for one invocation."""
    lines: list[int] = []
    functions = walk.function, twice.function
    codes = {function.__code__ for function in functions}

    def trace(frame: Any, event: str, argument: Any) -> Any:
        if frame.f_code in codes and event == "line":
            lines.append(frame.f_lineno)
        return trace if frame.f_code in codes else None

    fake = SimpleNamespace(global_id=lambda axis: invocation)
    known = {"vyre": fake, "f32": float, "len": len, "range": range}
    known["twice"] = type(twice.function)(twice.function.__code__, {})
    function = type(walk.function)(walk.function.__code__, known)
    a, x, y = arguments()
    sys.settrace(trace)
    try:
        function(a, x, y)
    finally:
        sys.settrace(None)
    return lines


@pytest.mark.parametrize("invocation", [4, 5])
def test_steps_are_the_lines_that_python_runs(debugged: Debugged, invocation: int) -> None:
    """But those of constants and names alone, the heads of loops, which Python visits each round, and a return to a line."""
    steps = places(
        debugged(walk, ";".join(["s"] * 40), 3, *arguments(), workgroup=invocation // 8, local=invocation % 8)
    )
    heads = {line_of(walk, "for")}
    silent = {line_of(walk, "n = 3"), line_of(walk, "j = i"), line_of(walk, "pair"), line_of(twice, "return")}
    called, calling = line_of(twice, "w ="), line_of(walk, "s += twice")

    def essential(lines: list[int]) -> list[int]:
        kept = [line for line in lines if line not in heads | silent]
        # a call: the debugger stops again in the line that it returns to
        returns = [n for n, line in enumerate(kept) if n and line == calling and kept[n - 1] == called]
        return [line for n, line in enumerate(kept) if n not in returns]

    assert essential(steps) == essential(traced_lines(invocation))
    assert len(steps) > 8


def test_steps_back_are_the_steps_in_reverse(debugged: Debugged) -> None:
    forward = places(debugged(walk, ";".join(["s"] * 12), 3, *arguments(), local=2))
    both = places(debugged(walk, ";".join(["s"] * 12 + ["back"] * 12), 3, *arguments(), local=2))
    assert both[:13] == forward[:13]
    assert both[13:25] == forward[11::-1]


def test_values_have_the_names_of_python(debugged: Debugged) -> None:
    lines = debugged(
        walk,
        f"tbreak {line_of(walk, '_unused')}; c; p i; p j; p n; p s; p pair; p a; p x[i]; p y[3:5]; p s + x[i] * n; p np.sum(x); p sqrt(x[4]); c",
        3, *arguments(), local=4,
    )  # fmt: skip
    s = 3 * (4 + 4) * 2.0
    expected = {
        "i": "4", "j": "4", "n": "3", "s": str(s), "pair": f"({s}, 3)", "a": "2.0", "x[i]": "4.0", "y[3:5]": "[-2. 49.]",
        "s + x[i] * n": str(s + 12), "np.sum(x)": "190.0", "sqrt(x[4])": "2.0",
    }  # fmt: skip
    for expression, value in expected.items():
        assert printed(lines, expression) == [value], expression


def test_next_passes_over_functions_and_return_leaves_them(debugged: Debugged) -> None:
    body = line_of(twice, "w =")
    nexts = places(debugged(walk, ";".join(["n"] * 20), 3, *arguments()))
    assert body not in nexts
    lines = debugged(walk, f"tbreak {body}; c; w; p v; r; c", 3, *arguments(), local=6)
    assert places(lines)[1:4:2] == [body, line_of(walk, "s += twice")]
    assert "  in walk() > twice()" in lines
    assert printed(lines, "v") == ["6.0"]


def test_lanes_are_those_of_the_workgroup_that_are_here(debugged: Debugged) -> None:
    line = line_of(walk, "s += twice")
    lines = debugged(walk, f"tbreak {line}; c; lanes i; lanes x[i] > 10", 3, *arguments(), workgroup=1)
    at = lines.index("(vyre) lanes i")
    assert lines[at + 1] == "[8 -- 10 -- 12 -- 14 --]"
    assert lines[at + 3] == "[False -- False -- True -- True --]"


def test_a_run_gives_what_a_call_gives_unless_it_is_left(debugged: Debugged) -> None:
    a, x, y = arguments()
    plain = y.copy()
    walk[3](a, x, plain)
    for commands, expected in (
        ("c", plain),
        ("c; c", plain),
        ("s; back; watch y[2]; c; who y[2]; c; c", plain),
        ("s; q", y),
    ):
        result = y.copy()
        debugged(walk, commands, 3, a, x, result, workgroup=1, local=1)
        assert np.array_equal(result, expected), commands


def test_writes_of_an_element_are_all_found(debugged: Debugged) -> None:
    """Those of atomics are told as the op does them: the lanes of an element together."""
    x = np.array([1, 3, 3, 0, 3, 1, 2, 3, 3, 3], np.uint32)
    lines = debugged(
        counts, "watch bins[3]; c; c; c; who bins[3]; who bins[0]", 2, x, np.zeros(4, np.uint32), workgroup=1
    )
    watched = [line for line in lines if line.startswith("watchpoint 1: bins[3] was")]
    # the chosen workgroup runs first
    first, second = np.sum(x[8:] == 3), np.sum(x[:8] == 3)
    assert len(watched) == 2
    assert f"was 0, is {first}:" in watched[0]
    assert f"was {first}, is {first + second}:" in watched[1]
    assert "local id (7,0,0) and 1 before" in watched[1]
    assert any(line.startswith(f"bins[3] was {first}, became {first + second}") for line in lines)
    assert any(
        line.startswith("bins[0] was 0, became 1: written by workgroup (0,0,0) local id (3,0,0)")
        for line in lines
    )


def test_shared_memory_is_that_of_the_workgroup(debugged: Debugged) -> None:
    x = np.arange(16, dtype=np.int32)
    last = line_of(reversed_rows, "y[g]")
    lines = debugged(
        reversed_rows,
        f"tbreak {last}; c; p tile; who tile[2]; local 5; p tile[7 - l]; workgroup 0; p tile",
        2,
        x,
        x * 0,
        workgroup=1,
    )
    assert printed(lines, "tile") == [str(x[8:]), str(x[:8])]
    assert printed(lines, "tile[7 - l]") == ["10"]
    assert any(
        line.startswith("tile[2] was unwritten, became 10: written by workgroup (1,0,0) local id (2,0,0)")
        for line in lines
    )


def test_conditions_find_the_first_invocation(debugged: Debugged) -> None:
    a, x, y = arguments()
    x[13] = np.nan
    line = line_of(walk, "y[j]")
    for command in (
        "until isnan(x[i])",
        f"b {line} if x[i] != x[i] and i > 2; c",
        "until isnan(x[i]) and not 20 > i <= 2",
    ):
        lines = debugged(walk, f"{command}; p i", 3, a, x, y)
        assert printed(lines, "i") == ["13"], command


def test_a_condition_that_is_never_computed_is_told(debugged: Debugged) -> None:
    lines = debugged(walk, "until isnan(nothing)", 3, *arguments())
    assert "isnan(nothing): never computed: there is no nothing here" in lines


def test_pipelines_stop_in_their_launches(debugged: Debugged) -> None:
    x = np.arange(16, dtype=np.int32)
    y = np.zeros(16, np.int32)
    line = line_of(reversed_rows, "y[g]")
    lines = debugged(
        twice_reversed,
        f"b {line}; c; c; p g; p x[:3]; rc; rc; c; c; p middle; who y[2]; who middle[2]; c",
        None,
        x,
        y,
    )
    launches = [line[-1] for line in lines if line.startswith("> ") and "launch" in line]
    assert launches == ["1", "1", "2", "1", "1", "2"]
    assert printed(lines, "x[:3]") == ["[7 6 5]"]
    assert printed(lines, "middle") == ["[ 7  6  5  4  3  2  1  0 15 14 13 12 11 10  9  8]"]
    assert any(
        line.startswith("middle[2] was unwritten, became 5: written by workgroup (0,0,0) local id (2,0,0)")
        for line in lines
    )
    assert np.array_equal(y, x)


def test_breakpoints_in_the_source_stop_and_other_runs_pass_over_them(debugged: Debugged) -> None:
    @vyre.program(workgroup=4)
    def halts(y: Write[u32]):
        i = vyre.global_id(0)
        if i > 2:
            breakpoint()
        y[i] = i

    y = np.zeros(8, np.uint32)
    with pytest.warns(vyre.ProgramWarning, match=r"passes over a breakpoint[^$]*call vyre.debug\(kernel\)"):
        halts[2](y)
    assert y.tolist() == [*range(8)]
    with warnings.catch_warnings(action="error"):
        lines = debugged(halts, "p i; c; p y; c", 2, y * 0)
    assert printed(lines, "i") == ["3"]
    assert printed(lines, "y") == ["[0 1 2 3 4 5 6 7]"]
    assert sum("breakpoint()" in line for line in lines) == 1, (
        "the invocations of a batch come there together"
    )


def test_what_a_kernel_prints_is_shown_once(debugged: Debugged) -> None:
    @vyre.program(workgroup=2)
    def says(y: Write[u32]):
        i = vyre.global_id(0)
        print("here", i)
        y[i] = i

    lines = debugged(says, "s; s; back; back; s; c; c", 1, np.zeros(2, np.uint32))
    assert [line for line in lines if line.startswith("here")] == ["here 0", "here 1"]


FAULTS = {
    "bounds": ("y[i + 1] = x[i]", 7, "store out of bounds of @y"),
    "assert": ("assert i != 5", 5, "assert"),
    "trap": ("if i == 3: vyre.trap('three')", 3, "trap: three"),
    "uninitialised": ("y[i] = t[i] if i > 1 else x[i]", 2, "which nothing has written"),
    "race": ("y[i // 2] = x[i]", 0, "data race on @y"),
}


@pytest.mark.parametrize("kind", FAULTS)
def test_a_fault_stops_at_its_op_and_back_works_from_there(
    debugged: Debugged, kind: str, tmp_path: Any
) -> None:
    statement, invocation, message = FAULTS[kind]
    file = tmp_path / "faulty.py"
    file.write_text(
        "import vyre_opt as vyre\nfrom vyre_opt.lang import f32, Read, Write\n\n\n@vyre.program(workgroup=8)\n"
        f"def faulty(x: Read[f32], y: Write[f32]):\n    t = vyre.shared(f32, 8)\n    i = vyre.global_id(0)\n    {statement}\n"
    )
    names: dict[str, Any] = {}
    exec(compile(file.read_text(), str(file), "exec"), names)
    with pytest.raises(vyre.ProgramError) as raised:
        debugged(names["faulty"], "c; c", 1, np.ones(8, np.float32), np.zeros(8, np.float32))
    assert raised.value.kind == kind
    lines = debugged(names["faulty"], "c; p i; back; q", 1, np.ones(8, np.float32), np.zeros(8, np.float32))
    assert any(message in line for line in lines)
    assert printed(lines, "i") == [str(invocation)]
    assert places(lines)[1] == 9
    assert places(lines)[2] in (8, 9)


def test_the_interpreter_computes_alike_whatever_runs_first() -> None:
    x, results = np.arange(40, dtype=np.int32), []
    for workgroup in (None, 0, 2, 4):
        y = np.zeros(40, np.int32)
        out = io.StringIO()
        vyre.debug(reversed_rows, workgroup=workgroup, stdin=io.StringIO("c\n"), stdout=out)[5](x, y)
        results.append(y)
    assert all(np.array_equal(result, results[0]) for result in results)


WRONG = [
    ("b", "99999", "computes nothing"),
    ("b", "nofile.py:3", "nothing of this run is in nofile.py"),
    ("b", "i", "a breakpoint is at a line"),
    ("p", "nothing", "there is no nothing here"),
    ("p", "x[100]", "index 100 is out of bounds"),
    ("p", "(", "never closed"),
    ("p", "open('x')", "there is no open here"),
    ("lanes", "x", "is not a value of each invocation"),
    ("watch", "y", "which element?"),
    ("watch", "y[100]", "y[100] is outside of y"),
    ("watch", "nothing[1]", "there is no buffer nothing"),
    ("who", "x[1, 2]", "x[1, 2] is outside of x"),
    ("until", "", "until which condition?"),
    ("local", "8", "workgroups have 8x1x1 invocations"),
    ("workgroup", "3", "the grid is 3x1x1"),
    ("workgroup", "one", "workgroup which?"),
    ("clear", "7", "there is no breakpoint 7"),
    ("info", "locals", "info locals is locals here"),
    ("cuda", "thread (5,0,0)", "cuda thread (5,0,0) is local 5,0,0 here"),
    ("finish", "", "finish is return here"),
    ("display", "v * 2", "display v * 2 is print v * 2 here"),
    ("set", "var v = 3", "values stay as the program computes them"),
    ("frobnicate", "", "there is no frobnicate here, and help lists the commands"),
]  # fmt: skip


def test_wrong_commands_are_told(debugged: Debugged) -> None:
    for command, argument, message in WRONG:
        line = f"{command} {argument}".strip()
        lines = debugged(walk, f"s; {line}; p i", 3, *arguments())
        at = lines.index(f"(vyre) {line}")
        assert lines[at + 1].startswith("*** "), line
        assert message in lines[at + 1], line
        assert printed(lines, "i") == ["0"], "it goes on"


def test_wrong_calls_are_told(debugged: Debugged) -> None:
    _, x, y = arguments()
    with pytest.raises(TypeError, match="takes a kernel or a pipeline, not twice"):
        vyre.debug(twice)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="twice_reversed is a pipeline"):
        vyre.debug(twice_reversed)[3]
    with pytest.raises(vyre.BadInputs, match="workgroup is a whole number"):
        vyre.debug(walk, workgroup=1.5)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="say how many workgroups run"):
        debugged(walk, "c", None, 2.0, x, y)
    frozen = y.copy()
    frozen.flags.writeable = False
    with pytest.raises(vyre.BadInputs, match="y is written, but the array"):
        debugged(walk, "c", 3, 2.0, x, frozen)
    with pytest.raises(TypeError, match="missing"):
        debugged(walk, "c", 3, x, y)
    assert "no launch has workgroup 9; @walk has 3x1x1 workgroups of 8x1x1 invocations" in debugged(
        walk, "c", 3, 2.0, x, y, workgroup=9
    )


@vyre.program(workgroup=8)
def stops_in_python(y: Write[f32]):
    pdb.set_trace()


@vyre.pipeline
def stops_between(y: Write[f32]):
    breakpoint()


@vyre.pipeline
def normalised(x: Read[f32], y: Write[f32]):
    vyre.math.softmax(x, y, columns=4)


def test_breakpoints_where_there_are_none_are_told(debugged: Debugged) -> None:
    y = np.zeros(8, np.float32)
    with pytest.raises(vyre.DiagnosticError, match=r"write breakpoint\(\), and call vyre.debug"):
        debugged(stops_in_python, "c", 1, y)
    with pytest.raises(vyre.DiagnosticError, match="put it into a program that the pipeline launches"):
        debugged(stops_between, "c", None, y)


def test_named_kernels_run_as_one_line(debugged: Debugged) -> None:
    lines = debugged(
        normalised, "s; who y[3]; p y; c", None, np.zeros(8, np.float32), np.zeros(8, np.float32)
    )
    assert "y[3] was unwritten, became 0.25: written by all invocations together" in lines
    assert printed(lines, "y") == ["[0.25 0.25 0.25 0.25 0.25 0.25 0.25 0.25]"]


def test_rows_are_values(debugged: Debugged) -> None:
    @vyre.program
    def shares(x: Read[f32[:, :]], y: Write[f32[:, :]]):
        r = vyre.workgroup_id(0)
        row = x[r, :]
        total = vyre.sum(row)
        y[r, :] = row / total

    x = np.arange(12, dtype=np.float32).reshape(3, 4) + 1
    commands = "until total > 20; p r; p row; p row / total; c; p y; who y[1, 2]; c"
    lines = debugged(shares, commands, 3, x, np.zeros_like(x))
    assert printed(lines, "r") == ["1"]
    assert printed(lines, "row") == [str(x[1])]
    assert printed(lines, "row / total") == [str(x[1] / x[1].sum())]
    assert any(line.startswith("y[1, 2] was unwritten") and "workgroup (1,0,0)" in line for line in lines)


@vyre.program(workgroup=4)
def one_tile(y: Write[u32]):
    tile = vyre.shared(u32, 4)
    g, i = vyre.workgroup_id(0), vyre.global_id(0)
    if i == 0:
        tile[0] = 7
    y[i] = g


def test_shared_memory_of_one_workgroup_is_not_that_of_another(debugged: Debugged) -> None:
    """Also where workgroups have it one after the other."""
    commands = f"b {line_of(one_tile, 'y[i]')} if g == 3; c; who tile[0]; workgroup 0; who tile[0]; c; c"
    lines = debugged(one_tile, commands, 4, np.zeros(16, np.uint32), workgroup=3, local=0)
    assert "tile[0]: nothing has written it up to here" in lines
    assert "tile[0] was unwritten, became 7: written by workgroup (0,0,0) local id (0,0,0)" in lines


class Span(NamedTuple):
    low: Float
    high: Float = 9.0


@vyre.program(workgroup=4)
def named(x: Read[Float], y: Write[Float]):
    i = vyre.global_id(0)
    a = vyre.local(Float, 3)
    for k in range(3):
        a[k] = x[i] * Float(k)
    s = Span(a[1])
    breakpoint()
    y[i] = s.low + a[2]


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_tuples_with_names_and_local_arrays_of_types_that_arrays_decide(
    debugged: Debugged, dtype: Any
) -> None:
    x, y = np.arange(4, dtype=dtype), np.zeros(4, dtype)
    lines = debugged(named, "p s;p s.high + a[1];p a;lanes s.low;c;c", 1, x, y, local=2)
    assert printed(lines, "s") == ["Span(low=2.0, high=9.0)"]
    assert printed(lines, "s.high + a[1]") == ["11.0"]
    assert printed(lines, "a") == ["[0. 2. 4.]"]
    assert "[0.0 1.0 2.0 3.0]" in lines
    assert y.tolist() == [0, 3, 6, 9]


def test_notebooks_ask_by_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["s", "p i", "q"])
    asked: list[str] = []

    def answer(prompt: str) -> str:
        asked.append(prompt)
        return next(answers)

    monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    monkeypatch.setattr("builtins.input", answer)
    vyre.debug(walk)[3](*arguments())
    assert asked == ["(vyre) "] * 3
    assert capsys.readouterr().out.splitlines()[-1] == "0"


@vyre.program(workgroup=4)
def scaled(x: Read[vyre.Float], y: Write[vyre.Float], by: vyre.Float = 2.0):
    i = vyre.global_id(0)
    v = x[i] * by
    y[i] = v


@vyre.pipeline
def scaled_once(x: Read[vyre.Float], y: Write[vyre.Float]):
    scaled[1](x, y)


def test_types_that_arrays_decide_are_those_of_the_call(debugged: Debugged) -> None:
    for dtype in (np.float32, np.float64):
        x, y = np.arange(4, dtype=dtype) + 1, np.zeros(4, dtype)
        lines = debugged(scaled, "until i == 3; n; p v; p by; c; c", 1, x, y)
        assert printed(lines, "v") == ["8.0"]
        assert printed(lines, "by") == ["2.0"]
        assert y.tolist() == [2, 4, 6, 8]
        assert printed(debugged(scaled_once, "until i == 3; n; p v; c", None, x, y), "v") == ["8.0"]


class Pair(NamedTuple):
    a: f32
    b: f32


@vyre.program(workgroup=4)
def paired(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    pair = Pair(x[i], x[i] * 2)
    own = vyre.local(f32, (2, 2))
    for k in range(4):
        own[k // 2, k % 2] = x[k]
    y[i] = pair.a + own[1, 0]


def test_tuples_with_names_and_local_arrays_are_values(debugged: Debugged) -> None:
    x = np.arange(4, dtype=np.float32) + 1
    commands = f"tbreak {line_of(paired, 'y[i]')}; c; local 2; p pair; p pair.b; p own[1, 0]; p own; lanes own[0, 1] + i; c"
    lines = debugged(paired, commands, 1, x, x * 0)
    assert printed(lines, "pair") == ["Pair(a=3.0, b=6.0)"]
    assert printed(lines, "pair.b") == ["6.0"]
    assert printed(lines, "own[1, 0]") == ["3.0"]
    at = lines.index("(vyre) p own")
    assert lines[at + 1 : at + 3] == ["[[1. 2.]", " [3. 4.]]"]
    assert lines[lines.index("(vyre) lanes own[0, 1] + i") + 1] == "[2.0 3.0 4.0 5.0]"


def test_an_element_is_watched_once(debugged: Debugged) -> None:
    x = np.arange(4, dtype=np.float32) + 1
    lines = debugged(paired, "watch y[1]; watch y[1]; c; c", 1, x, x * 0)
    assert "*** it is watched already: watchpoint 1: y[1]" in lines
    assert (
        sum(line.startswith("watchpoint 1: y[1]") for line in lines) == 2
    )  # that it is made, and its one stop


def test_a_local_array_is_no_buffer_to_watch(debugged: Debugged) -> None:
    x = np.arange(4, dtype=np.float32) + 1
    stop = f"tbreak {line_of(paired, 'y[i]')}; c"
    for command in ("watch", "who"):
        lines = debugged(paired, f"{stop}; {command} own[1, 0]; c", 1, x, x * 0)
        assert any(line.startswith("*** own is of each invocation, and no buffer") for line in lines)


def test_steps_at_the_end_of_the_run_do_not_leave(debugged: Debugged) -> None:
    x, y = np.arange(4, dtype=np.float32) + 1, np.zeros(4, np.float32)
    stop = f"tbreak {line_of(paired, 'y[i]')}; c; c; n; stepi; p y[0]; c"
    lines = debugged(paired, stop, 1, x, y)
    assert lines.count("*** the run is over here; back goes into it, and continue leaves") == 2
    assert printed(lines, "y[0]") == ["4.0"]
    assert y[0] == 4


def test_a_choice_that_no_launch_has_is_told_with_what_there_is(debugged: Debugged) -> None:
    x = np.arange(8, dtype=np.float32) + 1
    lines = debugged(paired, "c", 2, x, x * 0, workgroup=5)
    assert lines[0] == "no launch has workgroup 5; @paired has 2x1x1 workgroups of 4x1x1 invocations"


def test_input_that_is_no_utf_8_is_no_command(debugged: Debugged) -> None:
    x = np.arange(4, dtype=np.float32) + 1
    lines = debugged(paired, "p \udcff; c; c", 1, x, x * 0)
    assert any(line.startswith("***") and "\ufffd" in line for line in lines), lines
