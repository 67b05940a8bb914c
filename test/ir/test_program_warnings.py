"""What a program or a pipeline surely does wrong is said before it runs: once, at its place, and of nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.each import each
from support.launch_pipelines import launch_pipeline
from support.tools_inside import call_opt, call_run

from vyre_opt import Diagnostic, PassManager, parse, print_program
from vyre_opt import verify as all_diagnostics
from vyre_opt.ir import DiagnosticError, Module
from vyre_opt.ir.warnings.unreached_elements import LaunchedAt, unreached_elements
from vyre_opt.lsp.analysis import Analyzer

ROOT = Path(__file__).parents[2]


def verify(module: Module) -> list[Diagnostic]:
    """Diagnostics, but for those of buffers that a head has for other ops than these."""
    return [d for d in all_diagnostics(module) if not d.message.startswith("no op of @")]


def warnings_of(module: Module) -> list[str]:
    return [d.message for d in verify(module) if d.severity == "warning"]


PROGRAM = """vyre 2

program @p workgroup(64) {{
  buffer @x : u32[32] read binding(0)
  buffer @m : f32[8, 64] read binding(1)
  buffer @o : u32[?] read binding(2)
  buffer @y : u32[64] read_write binding(3) live_in live_out
  buffer @t : f32[16, 16] workgroup
  %i = global_id x
  {}
}}
"""
OUTSIDE = {
    # ops, and the access that is out of bounds with what is said of it
    "%a = load @x[32]": ("load", "@x: index 32, length 32", "the last index is 31"),
    "%c = const 20 : u32 %d = add %c, 12 : u32 %a = load @x[%d]": ("load", "@x: index 32, length 32", "the last index is 31"),
    "%n = len @x %a = load @x[%n]": ("load", "@x: index 32, length 32", "the last index is 31"),
    "%a = load @x[29] : vec<4 x u32>": ("load", "@x: elements 29 to 32, length 32", "the last index is 28"),
    "%c = const -1 : i32 %a = load @x[%c]": ("load", "@x: index -1, length 32", "the last index is 31"),
    "%c = const 0x8000000000000000 : u64 %a = load @x[%c]": ("load", f"@x: index {2**63}, length 32", "the last index is 31"),
    "%a = load @m[%i, 64]": ("load", "@m: index 64 along dimension 1, shape (8, 64)", "the last index along dimension 1 is 63"),
    "%a = load @m[8, %i]": ("load", "@m: index 8 along dimension 0, shape (8, 64)", "the last index along dimension 0 is 7"),
    "%a = load @m[0, 61] : vec<4 x f32>": ("load", "@m: elements 61 to 64 along dimension 1, shape (8, 64)", "the last index along dimension 1 is 60"),
    "store 1, @y[64] : u32": ("store", "@y: index 64, length 64", "the last index is 63"),
    "%a = atomic_add @y[70], 1": ("atomic_add", "@y: index 70, length 64", "the last index is 63"),
    "store 1.0, @t[16, 0] : f32": ("store", "@t: index 16 along dimension 0, shape (16, 16)", "the last index along dimension 0 is 15"),
    "for %k = 40 to 41 step 1 { %a = load @x[%k] }": ("load", "@x: index 40, length 32", "the last index is 31"),
    "%q = lt %i, 3 : u32 if %q { for %k = 0 to 4 step 1 { %a = load @x[99] } }": ("load", "@x: index 99, length 32", "the last index is 31"),
}  # fmt: skip
INSIDE = [
    "%a = load @x[31]", "%a = load @x[28] : vec<4 x u32>", "%a = load @m[7, 63]", "%a = load @m[%i, 60] : vec<4 x f32>",
    "for %k = 31 to 33 step 2 { %a = load @x[%k] }", "for %k = 31 to 40 step 1 { %a = load @x[%k] }", "%a = load @o[4000]", "%a = load @x[%i]", "if false { %a = load @x[99] }", "for %k = 4 to 4 step 1 { %a = load @x[99] }",
    "%c = const 4 : u32 %d = sub %c, 4 : u32 %q = gt %d, 0 : u32 if %q { %a = load @x[99] }",
]  # fmt: skip


def test_indices() -> None:
    """Each such access is one warning, at it; what is within, unknown or never done is none."""

    def outside(ops: str) -> None:
        name, said, help = OUTSIDE[ops]
        (warning,) = verify(parse(PROGRAM.format(ops)))
        assert (warning.severity, warning.message) == ("warning", f"{name} out of bounds of {said}")
        assert warning.help == help
        assert warning.loc is not None
        line = PROGRAM.index("{}\n") - PROGRAM.rindex("\n", 0, PROGRAM.index("{}\n")) - 1
        assert warning.loc.column == line + 1 + max(ops.rfind(f"%a = {name} "), ops.rfind("store "))

    each(OUTSIDE, outside)
    each(INSIDE, lambda ops: _has_none(PROGRAM.format(ops)))


def _has_none(text: str) -> None:
    assert verify(parse(text)) == []


COMPARED = {
    "%j = sub %i, 1 : u32 %q = ge %j, 0 : u32": ("always", "write ge %i, 1"),
    "%j = sub %i, 1 : u32 %q = le 0, %j : u32": ("always", "write ge %i, 1"),
    "%j = sub %i, 1 : u32 %q = lt %j, 0 : u32": ("never", "write lt %i, 1"),
    "%j = sub %i, 1 : u32 %q = gt 0, %j : u32": ("never", "write lt %i, 1"),
    "%n = len @o %j = sub %i, %n : u32 %q = ge %j, 0 : u32": ("always", "write ge %i, %n"),
    "%q = ge %i, 0 : u32": ("always", "compute with a signed type such as i32"),
    "%z = const 0 : u8 %v = cast %i : u32 -> u8 %q = lt %v, %z : u8": ("never", "compute with a signed type such as i32"),
}  # fmt: skip
NOT_COMPARED = [
    "%q = gt %i, 0 : u32", "%q = le %i, 0 : u32", "%q = lt 0, %i : u32", "%q = ge 0, %i : u32", "%q = eq %i, 0 : u32",
    "%q = ge %i, 1 : u32", "%s = cast %i : u32 -> i32 %q = ge %s, 0 : i32", "%f = cast %i : u32 -> f32 %q = lt %f, 0.0 : f32",
]  # fmt: skip


def test_a_ticket_that_is_compared_with_the_number_of_workgroups() -> None:
    ops = "%n = num_workgroups x %t = atomic_add @y[0], 1 {} %q = eq %t, {} : u32"
    (warning,) = verify(parse(PROGRAM.format(ops.format("", "%n"))))
    assert warning.message.endswith("gets one less: this is never true")
    assert warning.help == "compare with num_workgroups x less 1"
    _has_none(PROGRAM.format(ops.format("%last = sub %n, 1 : u32", "%last")))
    _has_none(PROGRAM.format(ops.format("", "64")))


def test_the_most_of_a_difference_and_zero() -> None:
    for op in ("max %j, 0", "max 0, %j"):
        (warning,) = verify(parse(PROGRAM.format(f"%j = sub %i, 1 : u32 %k = {op} : u32")))
        assert warning.message == "this is always the number itself: a u32 is not below 0"
        assert str(warning.help).endswith("wraps: write sub_sat %i, 1")
    _has_none(PROGRAM.format("%j = sub %i, 1 : u32 %k = max %j, 1 : u32"))
    _has_none(PROGRAM.format("%s = cast %i : u32 -> i32 %j = sub %s, 1 : i32 %k = max %j, 0 : i32"))


def test_comparisons() -> None:
    def compared(ops: str) -> None:
        always, help = COMPARED[ops]
        (warning,) = verify(parse(PROGRAM.format(ops)))
        assert warning.severity == "warning"
        assert warning.message == f"this is {always} true: a {'u8' if 'u8' in ops else 'u32'} is not below 0"
        assert str(warning.help).endswith(help)

    each(COMPARED, compared)
    each(NOT_COMPARED, lambda ops: _has_none(PROGRAM.format(ops)))
    # a program for any type is right for one without a sign, too
    _has_none(
        "vyre 2 program @p workgroup(1) { spec @T : dtype = u32 buffer @x : @T[1] read binding(0) %v = load @x[0] %q = ge %v, 0 : @T }"
    )


def test_a_step_of_zero_that_has_a_name() -> None:
    loop = "%z = const {} : u32 for %k = {} to 8 step %z {{ store 1, @y[%k] }}"
    (warning,) = verify(parse(PROGRAM.format(loop.format(0, 0))))
    assert (warning.severity, warning.message) == ("warning", "the step is at least 1, not 0")
    _has_none(PROGRAM.format(loop.format(1, 0)))
    _has_none(PROGRAM.format(loop.format(0, 8)))  # has no round


def test_reads_of_a_program() -> None:
    """What no store can have written before: nothing of what the caller passes, or of a loop that stores."""
    head = "vyre 2 program @p workgroup(64) {{ buffer @x : u32[64] {} {} }}"
    flags = "read_write binding(0) live_out"
    wrong = [
        (flags, "%a = load @x[0]", "load"),
        (flags, "%a = atomic_add @x[0], 1", "atomic_add"),
        ("workgroup", "%i = local_id x %a = load @x[%i] store %a, @x[%i]", "load"),
        (
            "workgroup",
            "%i = local_id x if false { store 1, @x[%i] } %a = load @x[%i] store %a, @x[%i]",
            "load",
        ),
        ("workgroup", "%i = local_id x for %k = 0 to 4 step 1 { %a = atomic_max @x[%i], %k }", "atomic_max"),
    ]

    def check(case: tuple[str, str, str]) -> None:
        (warning,) = verify(parse(head.format(*case[:2])))
        assert (
            warning.message == f"{case[2]} of @x, which nothing has written before it: it may hold anything"
        )
        assert "store to every element" in str(warning.help)

    each(wrong, check)
    right = [
        ("read_write binding(0) live_in live_out", "%a = atomic_add @x[0], 1"),
        ("read binding(0)", "%a = load @x[0]"),
        ("workgroup", "%i = local_id x store 0, @x[%i] %a = load @x[%i]"),
        ("workgroup", "%a = atomic_exchange @x[0], 1 barrier workgroup %b = atomic_add @x[0], 1"),
        ("workgroup", "%i = local_id x for %k = 0 to 4 step 1 { %q = gt %k, 0 : u32 if %q { %a = load @x[%i] } store %k, @x[%i] }"),
    ]  # fmt: skip
    each(right, lambda case: _has_none(head.format(*case)))


COUNT = """vyre 2

program @count workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @bins : u32[64] read_write binding(1) live_in live_out
  %i = global_id x
  %v = load @x[%i]
  %b = and %v, 63 : u32
  %old = atomic_add @bins[%b], 1
}

program @copy workgroup(64) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
}

pipeline @main {
  buffer @x : u32[64] read
  buffer @bins : u32[64]
  buffer @out : u32[64] live_out
"""
UNWRITTEN = {
    # stages, and the buffers that are read too early, each with the verb
    "launch @count grid(1) (@x, @bins)\n  launch @copy grid(1) (@bins, @out)": [("updates", "@bins")],
    "launch @copy grid(1) (@bins, @out)": [("reads", "@bins")],
    "launch @count grid(1) (@x, @out)": [("updates", "@out")],
    "host_read @bins\n  launch @copy grid(1) (@x, @out)": [("reads", "@bins")],
    "repeat 2 {\n    launch @count grid(1) (@bins, @out)\n    launch @copy grid(1) (@x, @bins)\n  }": [("reads", "@bins"), ("updates", "@out")],
    "scan.prefix(@bins, @out)": [("reads", "@bins")],
}  # fmt: skip
WRITTEN = [
    "fill(@bins, 0)\n  launch @count grid(1) (@x, @bins)\n  launch @copy grid(1) (@bins, @out)",
    "launch @copy grid(1) (@x, @bins)\n  launch @count grid(1) (@x, @bins)\n  launch @copy grid(1) (@bins, @out)",
    "fill(@out, 1)\n  repeat 2 {\n    launch @count grid(1) (@x, @out)\n  }",
    "scan.prefix(@x, @bins)\n  launch @copy grid(1) (@bins, @out)",
    "fill(@bins, 1)\n  host_read @bins\n  fill(@out, 1)",
]


def test_reads_of_a_pipeline() -> None:
    """The first stage that reads what no stage has written: once for a buffer, with the stage that fills it as the fix."""

    def check(stages: str) -> None:
        text = f"{COUNT}  {stages}\n}}\n"
        found = [d for d in verify(parse(text)) if d.severity == "warning"]
        said = [
            f"this stage {verb} {name}, which nothing has written before it: it may hold anything"
            for verb, name in UNWRITTEN[stages]
        ]
        assert [d.message for d in found] == said
        for warning, (_, name) in zip(found, UNWRITTEN[stages], strict=True):
            assert str(warning.help).startswith(f"write fill({name}, 0) before it")
            assert ("live_in" in str(warning.help)) == (name == "@out")
        while found:  # each fix leaves the others
            analysis = Analyzer("a.vyre").analyze(text)
            (edit,) = next(d for d in analysis.diagnostics if d.message in said).fixes[0].edits
            span = analysis.span(edit.loc)
            text = text[: span.start] + edit.text + text[span.end :]
            left = [d for d in verify(parse(text)) if d.severity == "warning"]
            assert len(left) == len(found) - 1
            found = left

    each(UNWRITTEN, check)
    text = f"{COUNT}  launch @copy grid(1) (@bins, @out)\n  launch @copy grid(1) (@x, @bins)\n}}\n"
    early, late = [d for d in verify(parse(text)) if d.severity == "warning"]
    line = text[: text.index("launch @copy grid(1) (@x")].count("\n") + 1
    assert str(early.help).startswith(f"move line {line}, launch @copy grid(1) (@x, @bins), before it: ")
    assert (
        late.help == f"move it before line {line - 1}, launch @copy grid(1) (@bins, @out), which reads @bins"
    )
    each(WRITTEN, lambda stages: _has_none(f"{COUNT}  {stages}\n}}\n"))


def test_tools_say_it_once(tmp_path: Path) -> None:
    """On stderr, with the result all the same; a second tool of a pipe says nothing of what passes have made."""
    text = COUNT + "  launch @count grid(1) (@x, @bins)\n  launch @copy grid(1) (@bins, @out)\n}\n"
    message = "warning: this stage updates @bins, which nothing has written before it"
    for options in ([], ["-O"], ["--pass=verify"]):
        result = call_opt(*options, text=text)
        assert (result.returncode, result.stderr.count(message)) == (0, 1)
    (tmp_path / "x").write_bytes(bytes(256))
    ran = call_run("-", "--in", f"x={tmp_path / 'x'}", text=text)
    assert (ran.returncode, ran.stderr.count(message)) == (0, 1)
    filled = call_opt("-O", text=text.replace("  launch", "  fill(@bins, 0)\n  launch", 1))
    assert filled.stderr == ""
    assert call_opt(text=filled.stdout).stderr == ""


def test_what_passes_make_has_no_warnings() -> None:
    def check(seed: int) -> None:
        module = parse(launch_pipeline(seed))
        if not warnings_of(module):
            PassManager("default").run(module)
            assert warnings_of(parse(print_program(module))) == []

    each(range(6), check)


@pytest.mark.parametrize("folder", ["examples", "test/corpus", "bench"])
def test_what_is_shipped_has_no_warnings(folder: str) -> None:
    said = [m for path in (ROOT / folder).rglob("*.vyre") for m in _warnings_of_file(path)]
    assert not [m for m in said if "nobody can observe" not in m and "leaves in" not in m]


def _warnings_of_file(path: Path) -> list[str]:
    try:
        return warnings_of(parse(path.read_text(encoding="utf-8", errors="replace"), str(path)))
    except DiagnosticError:
        return []


LAUNCHED = """vyre 2

program @p workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @m : f32[?, 8] read binding(1)
  buffer @y : u32[?] write binding(2)
  %n = len @x
  %a = load @x[20]
  store %a, @y[0]
  %inside = lt 30, %n : u32
  if %inside {
    %b = load @x[30]
    store %b, @y[0]
  }
  %c = load @m[4, 0] : vec<8 x f32>
}

pipeline @main {
  buffer @short : u32[16] read
  buffer @long  : u32[64] read
  buffer @few   : f32[4, div(len(@short), 2)] read
  buffer @many  : f32[5, 8] read
  buffer @open  : u32[?] read
  buffer @y     : u32[?] write
"""


def test_a_buffer_that_a_pipeline_passes() -> None:
    """Its size is known where the program's is open: each access is told once, with the first launch that it is wrong in."""
    fits = "  launch @p grid(1) (@long, @many, @y)\n  launch @p grid(1) (@open, @many, @y)\n"
    _has_none(f"{LAUNCHED}{fits}}}\n")
    wrong = fits + "  launch @p grid(1) (@short, @many, @y)\n  launch @p grid(1) (@short, @few, @y)\n" * 2
    found = verify(parse(f"{LAUNCHED}{wrong}}}\n"))
    assert [(d.severity, d.message, d.loc.line if d.loc else 0) for d in found] == [
        ("warning", "load out of bounds of @x: index 20, length 16", 8),
        ("warning", "load out of bounds of @m: index 4 along dimension 0, shape (4, 8)", 15),
    ]
    assert [(d.notes[-1][0], d.notes[-1][1].line) for d in found if d.notes[-1][1]] == [
        ("launched here", 27),
        ("launched here", 28),
    ]


SCALE = """vyre 2
program @scale workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
}
pipeline @main {
  buffer @in : f32[256] read
  buffer @mid : f32[256]
  buffer @out : f32[256] write
  launch @scale grid(4) (@in, @mid)
  launch @scale grid(4) (@mid, @out)
}
"""


def test_exchanged_buffers_of_a_launch_are_one_mistake() -> None:
    wrong = SCALE.replace("(@mid, @out)", "(@out, @mid)")
    (found,) = verify(parse(wrong))
    assert found.message.startswith("this stage reads @out, which nothing has written")
    assert found.help == "write launch @scale grid(4) (@mid, @out), which writes @out"
    assert found.loc is not None
    assert wrong[found.loc.start :].startswith("@out, @mid")
    assert verify(parse(SCALE)) == []


def test_what_a_program_changes_in_place_is_declared_so() -> None:
    text = SCALE.partition("pipeline")[0].replace("read binding(0)", "read_write binding(0)")
    own = text.replace("@y[%i]", "@x[%i]")
    for wrong, flags in ((own, "live_in live_out"), (text, "live_in")):
        (found,) = [each for each in verify(parse(wrong)) if "nothing has written" in each.message]
        assert f"or declare @x {flags} if" in (found.help or "")
        assert [fix.edits[0].text for fix in found.fixes] == [f" {flags}"]
        right = wrong.replace("read_write binding(0)", f"read_write binding(0) {flags}")
        assert verify(parse(right)) == []


def test_a_launch_whose_invocations_store_vectors_is_large_enough() -> None:
    text = SCALE.partition("pipeline")[0].replace(
        "%v = load @x[%i]", "%e = mul %i, 4\n  %v = load @x[%e] : vec<4 x f32>"
    )
    text = text.replace("@y[%i]", "@y[%i] : vec<4 x f32>")
    program = parse(text).programs["scale"]
    at = LaunchedAt(None, is_whole=True)
    assert [*unreached_elements(program, (1, 1, 1), {"y": (256,)}, at)] == []
    (found,) = unreached_elements(parse(SCALE).programs["scale"], (1, 1, 1), {"y": (256,)}, at)
    assert found.help is not None
    assert "write grid(ceil_div(len(@y), 64))" in found.help


def test_a_constant_of_a_type_that_is_open_is_none_yet() -> None:
    """Its bits are those of the type that is chosen."""
    text = """vyre 2
    program @p workgroup(8) {
      spec @T : dtype = f64
      buffer @x : f64[8] read binding(0)
      buffer @y : @T[8] write binding(1)
      %g = global_id x
      %n = len @x
      %v = cast %n : u32 -> @T
      store %v, @y[%g] : @T
    }"""
    ran = call_opt("-", text=text)
    assert (ran.returncode, ran.stderr) == (0, "")
    assert "-> @T" in ran.stdout


WIDE = """vyre 2

program @p workgroup(256) {{
  buffer @x : f32[?] read binding(0)
  buffer @b : u8[?] read binding(1)
  buffer @y : f32[?] write binding(2)
  buffer @t : f32[256] workgroup
  %i = global_id x
  %l = local_id x
  %w = workgroup_id x
  %first = eq %l, 0 : u32
  %v = load @x[%i]
  {}
}}
"""
OF_SUBGROUPS = {
    # ops of a workgroup of several subgroups, and the warning with its help
    "%s = subgroup_reduce<add> %v : f32 if %first { store %s, @y[%w] }": (
        "this combines the 32 invocations of a subgroup, and a workgroup has 256: @y has what the first 32 give",
        "write %s = workgroup_reduce<add> %v : f32",
    ),
    "store %v, @t[%l] barrier subgroup %o = sub 255, %l : u32 %r = load @t[%o] store %r, @y[%i]": (
        "this reads elements of @t that other invocations store, and nothing orders the two",
        "a barrier of a subgroup orders 32 invocations: write barrier workgroup in its place",
    ),
    "%u = load @b[%i] %m = mul %u, 77 : u8 %h = shr %m, 8 : u8 %f = cast %h : u8 -> f32 store %f, @y[%i]": (
        "this shifts by 0: a u8 has 8 bits, and an amount is taken modulo that",
        "compute in u32: begin with %u_u32 = cast %u : u8 -> u32",
    ),
}
RIGHT_OF_SUBGROUPS = [
    "%s = workgroup_reduce<add> %v : f32 if %first { store %s, @y[%w] }",
    "%s = subgroup_reduce<add> %v : f32 store %s, @y[%i]",
    "%s = subgroup_reduce<add> %v : f32 %g = subgroup_id %a = lane_id %z = eq %a, 0 : u32 if %z { store %s, @t[%g] } barrier workgroup "
    "if %first { %q = load @t[7] store %q, @y[%w] }",
    "store %v, @t[%l] barrier workgroup %r = load @t[%l] %s = subgroup_reduce<add> %r : f32 if %first { store %s, @y[%w] }",
    "store %v, @t[%l] barrier subgroup %a = xor %l, 1 : u32 %r = load @t[%a] store %r, @y[%i]",
]


def test_values_and_barriers_of_a_subgroup_in_a_larger_workgroup() -> None:
    def check(ops: str) -> None:
        (warning,) = [d for d in verify(parse(WIDE.format(ops))) if d.severity == "warning"]
        assert (warning.message, warning.help) == OF_SUBGROUPS[ops]

    each(OF_SUBGROUPS, check)
    assert [warnings_of(parse(WIDE.format(ops))) for ops in RIGHT_OF_SUBGROUPS] == [[]] * len(
        RIGHT_OF_SUBGROUPS
    )


CHOSEN = """vyre 2
program @p workgroup(64) {{
  buffer @x : f32[?] read_write binding(0) live_in live_out
  buffer @best : f32[?] read_write binding(1) live_in live_out
  buffer @n : u32[?] read_write binding(2) live_in live_out
  buffer @y : f32[?] write binding(3) live_out
  %i = global_id x
  %l = local_id x
  %v = load @x[%i] : f32
  %c = gt %v, 0.0 : f32
  {}
}}
"""
OF_ELEMENTS = {
    # ops that elements decide on, or that locks and sums guard, and the help of their warning
    "if %c { %j = add %i, 1 : u32 %w = load @x[%j] : f32 store %w, @x[%i] : f32 }": "store to another buffer, buffer @out : f32[?] write live_out",
    "%b = load @best[0] : f32 %d = gt %v, %b : f32 if %d { store %v, @best[0] : f32 }": "write atomic_max @best[0], %v : f32",
    "if %c { %o = load @n[0] : u32 %p = add %o, 1 : u32 store %p, @n[0] : u32 }": "write atomic_add @n[0], 1 : u32",
    "for %k = 0 to 8 { %e = load @x[%k] : f32 store %e, @y[%i] : f32 }": "add up in a value that the loop carries, and store that behind it",
    "while { %old = atomic_compare_exchange @n[1], 0, 1 : u32 %h = ne %old, 0 : u32 condition %h } do { } %r = atomic_exchange @n[1], 0 : u32":
        "let one invocation of a workgroup take it, behind an eq of local_id x and 0, or leave the lock out and write an atomic, such as atomic_add",
    "%s = workgroup_reduce<add> %v : f32 %z = atomic_add @best[3], %s : f32": "put it behind an eq of local_id x and 0, in an if",
}  # fmt: skip
RIGHT_OF_ELEMENTS = [
    "if %c { %j = add %i, 1 : u32 %w = load @x[%j] : f32 store %w, @y[%i] : f32 }",
    "%b = load @best[0] : f32 %d = gt %v, %b : f32 if %d { %z = atomic_max @best[0], %v : f32 }",
    "%s = workgroup_reduce<add> %v : f32 %f = eq %l, 0 : u32 if %f { %z = atomic_add @best[3], %s : f32 }",
    "%o = atomic_exchange @n[%i], 1 : u32 %f = eq %o, 0 : u32 if %f { %j = add %i, 1 : u32 %w = load @x[%j] : f32 store %w, @x[%i] : f32 }",
]


def test_what_elements_and_locks_decide() -> None:
    def check(ops: str) -> None:
        (warning,) = [d for d in verify(parse(CHOSEN.format(ops))) if d.severity == "warning"]
        assert warning.help == OF_ELEMENTS[ops]

    each(OF_ELEMENTS, check)
    assert [warnings_of(parse(CHOSEN.format(ops))) for ops in RIGHT_OF_ELEMENTS] == [[]] * len(
        RIGHT_OF_ELEMENTS
    )


COUNTED = """vyre 2
program @p workgroup(64) {{
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  buffer @t : u32[64] workgroup
  %i = global_id x
  %l = local_id x
  %m = sub 63, %l : u32
  %first = eq %l, 0 : u32
  %v = load @x[%i]
  %big = gt %v, 9 : u32
  {}
}}
"""
BESIDE_ATOMICS = {
    # ops of a workgroup, and the warning with its help, and the place that its note is at
    "store 0, @t[%l] %o = atomic_add @t[%m], 1": ("this changes elements of @t that other invocations store", "store", "store"),
    "store 0, @t[%l] %o = atomic_add @t[%v], 1": ("this changes elements of @t that other invocations store", "store", "store"),
    "store 0, @t[%l] for %k = %l to 256 step 64 { %w = load @x[%k] %d = rem %w, 64 : u32 %o = atomic_max @t[%d], 1 }":
        ("this changes elements of @t that other invocations store", "store", "store"),
    "store 0, @t[%l] barrier workgroup %o = atomic_add @t[%m], 1 %r = load @t[%l] store %r, @y[%i]":
        ("this reads elements of @t that other invocations change by an atomic", "atomic", "atomic_add"),
    "store 0, @t[%l] barrier workgroup %o = atomic_add @t[%v], 1 %r = load @t[%l] store %r, @y[%i]":
        ("this reads elements of @t that other invocations change by an atomic", "atomic", "atomic_add"),
    "if %first { store 0, @t[0] } barrier workgroup if %big { %o = atomic_add @t[0], 1 } %r = load @t[0] store %r, @y[%i]":
        ("this may read elements of @t that other invocations change by an atomic", "atomic", "atomic_add"),
    "store 0, @t[%l] barrier workgroup %r = load @t[%l] store %r, @y[%i] %o = atomic_add @t[%v], 1":
        ("this changes elements of @t that other invocations read", "load", "load"),
    "store 0, @t[%l] barrier workgroup %o = atomic_add @t[%v], 1 store 1, @t[%l] barrier workgroup %r = load @t[%l] store %r, @y[%i]":
        ("this stores to elements of @t that other invocations change by an atomic", "atomic", "atomic_add"),
}  # fmt: skip
IN_ORDER_WITH_ATOMICS = [
    "store 0, @t[%l] barrier workgroup %o = atomic_add @t[%v], 1 barrier workgroup %r = load @t[%l] store %r, @y[%i]",
    "store 0, @t[%l] %o = atomic_add @t[%l], 1 %r = load @t[%l] store %r, @y[%i]",
    # elements of each subgroup's own
    "%g = subgroup_id %b = mul %g, 32 : u32 %d = rem %v, 32 : u32 %a = add %b, %d : u32 store 0, @t[%l] barrier subgroup "
    "%o = atomic_add @t[%a], 1 barrier subgroup %r = load @t[%l] store %r, @y[%i]",
    # what decides whether there is an atomic, or takes a lock
    "store 0, @t[%l] barrier workgroup for %k = 0 to 4 { %b = load @t[0] %d = gt %v, %b : u32 if %d { %o = atomic_max @t[0], %v } } "
    "barrier workgroup %r = load @t[0] store %r, @y[%i]",
    "store 0, @t[%l] barrier workgroup %o = atomic_exchange @t[%m], 1 %f = eq %o, 0 : u32 if %f { store 0, @t[%m] }",
    # one of the workgroup counts
    "store 0, @t[%l] barrier workgroup if %first { %o = atomic_add @t[%v], 1 } barrier workgroup %r = load @t[%l] store %r, @y[%i]",
]


def test_plain_accesses_of_what_atomics_change() -> None:
    def check(ops: str) -> None:
        module = parse(COUNTED.format(ops))
        (warning,) = [d for d in verify(module) if d.severity == "warning"]
        message, what, name = BESIDE_ATOMICS[ops]
        assert warning.message == f"{message}, and nothing orders the two"
        assert str(warning.help).startswith("put barrier workgroup before line ")
        note, loc = warning.notes[0]
        assert note == f"the {what} is here"
        assert loc is not None
        assert name in loc.source.text[loc.start : loc.end]

    each(BESIDE_ATOMICS, check)
    assert [warnings_of(parse(COUNTED.format(ops))) for ops in IN_ORDER_WITH_ATOMICS] == [[]] * len(
        IN_ORDER_WITH_ATOMICS
    )


SORTED = """vyre 2
program @p workgroup(64) {{
  buffer @x : i32[64] read_write binding(0) live_in live_out
  buffer @t : i32[64] workgroup
  %l = local_id x
  %v = load @x[%l]
  store %v, @t[%l]
  barrier workgroup
  %n = while iter(%k = 2 : u32) {{
    %q = le %k, 64 : u32
    condition %q
  }} do {{
    %h = shr %k, 1 : u32
    %z = while iter(%j = %h : u32) {{
      %s = gt %j, 0 : u32
      condition %s
    }} do {{
      %p = xor %l, %j : u32
      %above = gt %p, %l : u32
      if %above {{
        %a = load @t[%l]
        %b = load @t[%p]
        %swap = gt %a, %b : i32
        %bit = and %l, %k : u32
        %up = eq %bit, 0 : u32
        %wrong = eq %swap, %up : bool
        if %wrong {{
          store %b, @t[%l]
          store %a, @t[%p]
        }}
      }}
      {}
      %next = shr %j, 1 : u32
      yield %next
    }}
    {}
    %twice = mul %k, 2 : u32
    yield %twice
  }}
  %r = load @t[%l]
  store %r, @x[%l]
}}
"""


def test_a_barrier_that_is_in_the_outer_of_two_loops_alone() -> None:
    (message,) = warnings_of(parse(SORTED.format("", "barrier workgroup")))
    assert message == "this may read elements of @t that other invocations store, and nothing orders the two"
    assert not warnings_of(parse(SORTED.format("barrier workgroup", "")))


PARTS = """vyre 2
program @p workgroup(64) {{
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1) live_out
  buffer @t : f32[66] workgroup
  param @m : u32 = 4
  %i = global_id x
  %l = local_id x
  %n = len @y
  %in = lt %i, %n : u32
  %next = add %l, 1 : u32
  %few = lt %l, 4 : u32
  %v = load @x[%i] : f32
  %some = gt %v, 0.5 : f32
  {}
}}
"""
UNSTORED = {
    # ops of a workgroup of 64, and the elements of 66 that nobody stores
    "store %v, @t[%l] barrier workgroup %j = add %l, 2 : u32 %r = load @t[%j] store %r, @y[%i]": "elements 64 to 65",
    "store %v, @t[%l] barrier workgroup if %in { %r = load @t[%next] store %r, @y[%i] }": "element 64",
    "if %few { store %v, @t[%l] } barrier workgroup %r = load @t[%l] store %r, @y[%i]": "elements 4 to 63",
    "if %some { store %v, @t[%next] } barrier workgroup %r = load @t[%l] store %r, @y[%i]": "element 0",
    "%two = mul %l, 2 : u32 %low = lt %l, 32 : u32 if %low { store %v, @t[%two] } barrier workgroup %r = load @t[%l] store %r, @y[%i]":
        "32 elements, the first 1",
    "%a = lane_id %z = eq %a, 0 : u32 %g = subgroup_id %f = eq %g, 0 : u32 if %z { store %v, @t[%g] } barrier workgroup "
    "if %f { %r = load @t[%l] %s = subgroup_reduce<max> %r : f32 store %s, @y[%i] }": "elements 2 to 31",
}  # fmt: skip
STORED = [
    "store %v, @t[%l] barrier workgroup %r = load @t[%l] store %r, @y[%i]",
    "store %v, @t[%next] %z = eq %l, 0 : u32 if %z { store 0.0, @t[0] store 0.0, @t[65] } barrier workgroup %j = add %l, 2 : u32 %r = load @t[%j] store %r, @y[%i]",
    "for %k = %l to 66 step 64 { store 0.0, @t[%k] } barrier workgroup %r = load @t[%next] store %r, @y[%i]",
    # the number of the caller says which are stored, and a condition who reads
    "for %k = %l to %n step 64 { store 0.0, @t[%k] } barrier workgroup %r = load @t[%next] store %r, @y[%i]",
    "%m = param @m store %v, @t[%l] barrier workgroup %b = lt %next, %m : u32 if %b { %r = load @t[%next] store %r, @y[%i] }",
    "store %v, @t[%l] barrier workgroup if %some { %r = load @t[%next] store %r, @y[%i] }",
    "store %v, @t[%l] barrier workgroup %b = lt %l, 63 : u32 if %b { %r = load @t[%next] store %r, @y[%i] }",
    "store %v, @t[%l] barrier workgroup %b = lt %l, 63 : u32 %r = load @t[%next] if %b { store %r, @y[%i] }",
    "store %v, @t[%l] barrier workgroup %b = lt %l, 63 : u32 %r = load @t[%next] %s = select %b, %r, 0.0 : f32 store %s, @y[%i]",
    "%c = cast %v : f32 -> u32 store %v, @t[%c] barrier workgroup %r = load @t[%next] store %r, @y[%i]",
]


def test_elements_of_workgroup_memory_that_nobody_stores() -> None:
    def check(ops: str) -> None:
        (warning,) = [d for d in verify(parse(PARTS.format(ops))) if d.severity == "warning"]
        which = UNSTORED[ops]
        they = "it" if which.startswith("element ") else "they"
        assert (
            warning.message
            == f"this reads {which} of @t, to which no invocation stores: {they} may hold anything"
        )

    each(UNSTORED, check)
    each(
        STORED,
        lambda ops: None if not (found := warnings_of(parse(PARTS.format(ops)))) else pytest.fail(str(found)),
    )


STORED_TWICE = {
    # ops of CHOSEN, in a workgroup of two subgroups, and the help of their warning
    "%a = lane_id %z = eq %a, 0 : u32 %w = workgroup_id x %s = subgroup_reduce<add> %v : f32 if %z { store %s, @y[%w] : f32 }":
        "for all of a workgroup write %s = workgroup_reduce<add> %v : f32; else store to an element of each subgroup's own",
    "%z = eq %i, 0 : u32 if %z { store 0.0, @y[0] : f32 } if %c { store 1.0, @y[0] : f32 }":
        "store one of the two in a launch before this one, or let one invocation store both",
}  # fmt: skip
STORED_ONCE = [
    "%a = lane_id %z = eq %a, 0 : u32 %g = subgroup_id %s = subgroup_reduce<add> %v : f32 if %z { store %s, @y[%g] : f32 }",
    # both subgroups have the same sum
    "%a = lane_id %z = eq %a, 0 : u32 %u = load @x[%a] : f32 %s = subgroup_reduce<add> %u : f32 if %z { store %s, @y[0] : f32 }",
    "%z = eq %i, 0 : u32 if %z { store 1.0, @y[0] : f32 } if %c { store 1.0, @y[0] : f32 }",
    "%z = eq %i, 0 : u32 if %z { store 0.0, @y[0] : f32 if %c { store 1.0, @y[0] : f32 } }",
    "store 0.0, @y[%i] : f32 if %c { store 1.0, @y[%i] : f32 }",
]


def test_stores_of_two_to_one_element() -> None:
    def check(ops: str) -> None:
        (warning,) = [d for d in verify(parse(CHOSEN.format(ops))) if d.severity == "warning"]
        assert "this is a race, and one of them stays" in warning.message
        assert warning.help == STORED_TWICE[ops]

    each(STORED_TWICE, check)
    assert [warnings_of(parse(CHOSEN.format(ops))) for ops in STORED_ONCE] == [[]] * len(STORED_ONCE)
