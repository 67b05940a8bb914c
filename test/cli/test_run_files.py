"""vyre-run: what goes in and comes out through files, for every kind of element."""

import io
import sys
import time

import numpy as np
import pytest
from support.quick import quick
from support.tools_inside import call_opt, call_run

PROGRAM = """vyre 1

program @copy workgroup(4) grid(1) {{
  buffer @x : {0}[?] read binding(0)
  buffer @y : {0}[4] write binding(1) live_out

  %l = local_id x
  %v = load @x[%l] : {0}
  store %v, @y[%l] : {0}
}}
"""

ELEMENTS = {
    "bool": (np.array([True, False, True, True]), "true false true true"),
    "u8": (np.array([0, 1, 128, 255], "u1"), "0 1 128 255"),
    "i16": (np.array([-32768, -1, 0, 7], "i2"), "-32768 -1 0 7"),
    "u64": (np.array([0, 1, 2, 2**64 - 1], "u8"), "0 1 2 18446744073709551615"),
    "f16": (np.array([0.5, -0.0, np.inf, np.nan], "f2"), "0.5 -0.0 inf nan"),
    "bf16": (np.array([0x3F80, 0x4000, 0, 0x8000], "u2"), "1.0 2.0 0.0 -0.0"),
    "f64": (np.array([0.1, 1e300, -1.0, 2.0]), "0.1 1e+300 -1.0 2.0"),
    "vec<2 x f32>": (np.arange(8, dtype="f4").reshape(4, 2), "[0.0, 1.0] [2.0, 3.0] [4.0, 5.0] [6.0, 7.0]"),
}


@pytest.mark.parametrize("dtype", quick(ELEMENTS, keep=3))
@pytest.mark.parametrize("suffix", quick([".npy", ".bin"]))
def test_elements_pass_unchanged(dtype, suffix, tmp_path):
    array, shown = ELEMENTS[dtype]
    source, target = tmp_path / f"x{suffix}", tmp_path / f"y{suffix}"
    np.save(source, array) if suffix == ".npy" else array.tofile(source)
    text = PROGRAM.format(dtype)
    ran = call_run("-", "--in", f"x={source}", "--out", f"y={target}", text=text)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert target.read_bytes() == source.read_bytes()
    summary = call_run("-", "--in", f"x={source}", "--check-against=ref", text=text).stdout
    assert summary.startswith(f"@y : {dtype}[4] = {shown} (blake3 ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "program @copy reads @x : f32[?], which nothing gives; pass --in x=FILE"),
        (["--in", "x=DIR/none.npy"], "cannot read DIR/none.npy: No such file"),
        (["--in", "x=DIR/text.npy"], "DIR/text.npy is not a .npy file of numbers"),
        (["--in", "x=DIR/objects.npy"], "DIR/objects.npy is not a .npy file of numbers"),
        (
            ["--in", "x=DIR/ints.npy"],
            "DIR/ints.npy holds int64, @x is f32, stored as float32; convert it: numpy.save(",
        ),
        (["--in", "x=DIR/three.bin"], "DIR/three.bin has 3 bytes, not a multiple of f32's 4"),
        (["--in", "x=DIR/x.bin", "--in", "x=DIR/x.bin"], "--in x: given twice"),
        (["--in", "z=DIR/x.bin"], "has no bound buffer @z; it has @x, @y"),
        (["--in", "x=DIR/x.bin", "--len", "y=5"], "--len y=5: the program declares 4 elements"),
        (["--in", "x=DIR/x.bin", "--len", "x=5"], "--len x=5, but --in x holds 4 elements"),
        (["--in", "x=DIR/x.bin", "--len", "y=-1"], "'-1' is not a count of elements"),
        (["--in", "x=DIR/x.bin", "--out", "x=DIR/y"], "has no output @x; it has @y"),
        (["--in", "x=DIR/x.bin", "--grid=2"], "fixes its grid"),
        (["--in", "x=DIR/x.bin", "--out", "y=DIR/none/y.npy"], "cannot write DIR/none/y.npy"),
    ],
)
def test_mistakes(args, message, tmp_path):
    (tmp_path / "text.npy").write_text("1 2 3")
    np.save(tmp_path / "objects.npy", np.array([None, {}]), allow_pickle=True)
    np.save(tmp_path / "ints.npy", np.arange(4))
    (tmp_path / "three.bin").write_bytes(b"abc")
    np.arange(4, dtype="f4").tofile(tmp_path / "x.bin")
    paths = [arg.replace("DIR", str(tmp_path)) for arg in args]
    ran = call_run("-", *paths, text=PROGRAM.format("f32"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert message.replace("DIR", str(tmp_path)) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_a_file_behind_profile_is_told_how_it_is_written():
    ran = call_run("--profile", "t.json", "-", text=PROGRAM.format("f32"))
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "a file of --profile is written --profile=t.json" in ran.stderr


def test_comparison_shows_the_first_difference():
    from vyre_opt import parse
    from vyre_opt.cli.errors import ToolError
    from vyre_opt.cli.run_report import compare

    outputs = [parse(PROGRAM.format("f32")).programs["copy"].buffers["y"]]
    got, expected = np.array([1, 2, np.nan, 4], "f4"), np.array([1, 2.001, np.nan, 5], "f4")
    with pytest.raises(ToolError, match=r"2 of 4 values differ, first \[1\]: 2.0 here, 2.001 there"):
        compare(outputs, [got], [expected], 0.0)
    with pytest.raises(ToolError, match=r"1 of 4 values differ, first \[3\]"):
        compare(outputs, [got], [expected], 0.01)
    compare(outputs, [got], [expected], 0.5)


def test_comparison_says_what_it_compared():
    """Names, how many values, by bits or within a tolerance, and the largest difference; reads of a buffer together."""
    from vyre_opt import parse
    from vyre_opt.cli.errors import ToolError
    from vyre_opt.cli.run_report import compare

    y, n = (parse(PROGRAM.format(dtype)).programs["copy"].buffers["y"] for dtype in ("f32", "u64"))
    n.name = "n"
    same, near = np.array([1, 2, np.nan, 4], "f4"), np.array([1, 2.5, np.nan, 4.25], "f4")
    whole, other = np.array([1, 2**63, 3, 4], "u8"), np.array([1, 2**63, 9, 4], "u8")
    assert compare([y, n], [same, whole], [same, whole], 0.0) == [
        "@y : f32, 4 values: equal in every bit",
        "@n : u64, 4 values: equal in every bit",
    ]
    assert compare([y, y], [same, near], [same, same], 0.5) == [
        "@y : f32, 8 values in 2 reads: within the relative tolerance 0.5; largest difference 0.5, relative 0.25"
    ]
    with pytest.raises(ToolError) as caught:
        compare([y, n], [same, whole], [same, other], 0.0)
    assert str(caught.value) == (
        "the outputs differ\n"
        "  @n: 1 of 4 values differ, first [2]: 3 here, 9 there; largest difference 6, relative 0.667\n"
        "  @y : f32, 4 values: equal in every bit"
    )


def test_check_against_says_that_all_is_equal(tmp_path):
    np.arange(4, dtype="f4").tofile(tmp_path / "x.bin")
    text = PROGRAM.format("f32")
    ran = call_run("-", "--in", f"x={tmp_path}/x.bin", "--check-against=ref", text=text)
    assert ran.stderr == "check: cpu and ref agree\n  @y : f32, 4 values: equal in every bit\n"


SEVERAL = """vyre 1
program @p workgroup(4) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  buffer @z : f32[?] write binding(2)
  spec @k : u32
  spec @scale : f32
}
program @q workgroup(4) {
  spec @k : u32
  spec @flag : bool
}
pipeline @main {
  buffer @x : f32[?] read
  buffer @y : f32[?] write
  buffer @z : f32[?] write
  launch @p grid(1) (@x, @y, @z)
  launch @q grid(1) ()
}
"""


def places(stderr):
    """Line and message of each error."""
    heads = [line.split(": ", 2) for line in stderr.splitlines() if ": error: " in line]
    return [(int(place.split(":")[1]), message) for place, _, message in heads]


def test_all_that_is_missing_is_said_in_one_run():
    """Constants of all programs, then inputs and lengths; a name that several programs have is one error."""
    ran = call_run("-", text=SEVERAL)
    assert places(ran.stderr) == [
        (6, "program @p: spec @k has no default; pass --spec k=VALUE"),
        (7, "program @p: spec @scale has no default; pass --spec scale=VALUE"),
        (11, "program @q: spec @flag has no default; pass --spec flag=VALUE"),
    ]
    assert "<stdin>:10:8: note: and here" in ran.stderr
    ran = call_run("-", "--spec=k=1", "--spec=scale=x", "--spec=other=1", text=SEVERAL)
    assert [line for line, _ in places(ran.stderr)] == [7, 2, 11]
    ran = call_run("-", "--spec=k=1", "--spec=scale=2", "--spec=flag=true", "--len=y=4", text=SEVERAL)
    assert places(ran.stderr) == [
        (14, "pipeline @main reads @x : f32[?], which nothing gives; pass --in x=FILE"),
        (16, "buffer @z has an open size: pass --len z=N, or its contents with --in"),
    ]
    for form in ("--emit=ptx", "--emit=llvm", "--emit=asm"):
        ran = call_opt(form, text=SEVERAL)
        assert [line for line, _ in places(ran.stderr)] == [6, 7, 10, 11]
        assert "help: give it one with --spec flag=VALUE, or a default" in ran.stderr


def test_all_that_is_missing_is_said_in_python():
    import vyre_opt
    from vyre_opt.execution.dispatcher import LocatedBadInputs

    with pytest.raises(LocatedBadInputs) as caught:
        vyre_opt.compile(SEVERAL)
    assert [d.loc.line for d in caught.value.diagnostics] == [6, 7, 11]
    specs = {"k": 1, "scale": 2.0, "flag": True}
    with pytest.raises(LocatedBadInputs, match=r"lengths=\{.z.: n\}") as caught:
        vyre_opt.run(SEVERAL, {}, specs=specs, lengths={"y": 4})
    assert [d.loc.line for d in caught.value.diagnostics] == [14, 16]
    program = vyre_opt.parse(SEVERAL).programs["p"]
    with pytest.raises(vyre_opt.BadInputs, match="spec @k, @scale have no default; pass specs="):
        vyre_opt.dispatcher("ref").dispatch(program, [np.zeros(4, "f4")] * 3, 1)


class Terminal(io.StringIO):
    """A stderr that is a terminal, until it is closed."""

    def isatty(self) -> bool:
        return True


def test_progress_bar(monkeypatch):
    """Drawn on a terminal after its delay, with what is done and the seconds; wiped at the end."""
    from vyre_opt.driver.progress import WIPE, ProgressBar

    monkeypatch.setattr("vyre_opt.driver.progress.PERIOD", 0.01)
    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar("tuning it", 20, delay=0.0) as bar:
        bar.update(10)
        wait_until(lambda: "10/20" in sys.stderr.getvalue())
    assert f"tuning it [{'=' * 12}{' ' * 12}] 10/20  0." in sys.stderr.getvalue()
    assert sys.stderr.getvalue().endswith(WIPE)

    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar("@scale on ref", delay=0.0):
        wait_until(lambda: "@scale on ref [" in sys.stderr.getvalue())
    assert sys.stderr.getvalue().endswith(WIPE)


def test_progress_bar_that_nobody_sees(monkeypatch):
    """Nothing is written before the delay, nor where stderr is no terminal; a closed terminal stops nothing."""
    from vyre_opt.driver.progress import ProgressBar

    monkeypatch.setattr("vyre_opt.driver.progress.PERIOD", 0.01)
    for stream, delay in ((Terminal(), 60.0), (io.StringIO(), 0.0)):
        monkeypatch.setattr(sys, "stderr", stream)
        with ProgressBar("@scale on ref", delay=delay):
            time.sleep(0.05)
        assert stream.getvalue() == ""
    monkeypatch.setattr(sys, "stderr", Terminal())
    with ProgressBar("@scale on ref", delay=0.0):
        wait_until(sys.stderr.getvalue)
        sys.stderr.close()
        time.sleep(0.05)


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.005)


PIPELINE = """vyre 1

program @copy workgroup(4) {
  buffer @x : u8[?] read  binding(0)
  buffer @y : u8[?] write binding(1)
  %g = global_id x
  %v = load @x[%g] : u8
  store %v, @y[%g] : u8
}

pipeline @twice {
  buffer @x : u8[?] read
  buffer @t : u8[8]
  buffer @y : u8[8] write
  launch @copy grid(div(len(@x), 4)) (@x, @t)
  host_read @t
  launch @copy grid(2) (@t, @y)
}
"""


def test_a_pipeline_through_files(tmp_path):
    """The only pipeline of a file is what runs; what the host reads is an output as any other."""
    source, y, t = (tmp_path / name for name in ("x.bin", "y.npy", "t.bin"))
    source.write_bytes(b"abcdefgh")
    ran = call_run("-", "--in", f"x={source}", "--out", f"y={y}", "--out", f"t={t}", text=PIPELINE)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert np.load(y).tobytes() == t.read_bytes() == b"abcdefgh"
    shown = call_run("-", "--in", f"x={source}", "--target=ref", text=PIPELINE).stdout
    assert [line.partition(" ")[0] for line in shown.splitlines()] == ["@t", "@y"]


def test_summaries_leave_an_output_on_stdout_alone(tmp_path):
    """They go to stderr where stdout has the bytes of an output."""
    source = tmp_path / "x.bin"
    source.write_bytes(b"abcdefgh")
    text = PIPELINE.replace("(@t, @y)\n", "(@t, @y)\n  launch @copy grid(2) (@y, @t)\n")
    ran = call_run("-", "--in", f"x={source}", "--out", "y=-", text=text)
    assert (ran.returncode, ran.stdout) == (0, "abcdefgh")
    assert [line.partition(" = ")[0] for line in ran.stderr.splitlines()] == [
        "host_read @t : u8[8]",
        "@t : u8[8]",
    ]


def test_a_grid_for_a_pipeline_is_a_wrong_command_line(tmp_path):
    source = tmp_path / "x.bin"
    source.write_bytes(b"abcdefgh")
    ran = call_run("-", "--in", f"x={source}", "--grid=2", text=PIPELINE)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert ran.stderr.startswith("<stdin>:15:3: error: --grid=2 is for programs: pipeline @twice gives each")


def test_targets_that_disagree_on_what_the_host_reads():
    """`--check-against` looks at what was read in the middle too."""
    from vyre_opt import parse
    from vyre_opt.cli.errors import ToolError
    from vyre_opt.cli.run_report import HostReads, compare
    from vyre_opt.execution.plans.steps import HostReadStep
    from vyre_opt.ir import HostRead

    buffers = parse(PIPELINE).pipelines["twice"].buffers
    lines = []
    here, there = (HostReads(buffers, show=lines.append, compares=True) for _ in range(2))
    for reads, value in ((here, 1), (there, 2)):
        reads.see(HostReadStep(HostRead("t")), np.full(8, value, np.uint8))
        reads.see(HostReadStep(HostRead("y"), is_final=True), np.zeros(8, np.uint8))
    assert [line.partition(" = ")[0] for line in lines] == ["host_read @t : u8[8]"] * 2
    with pytest.raises(ToolError, match="@t: 8 of 8 values differ"):
        compare(here.seen, here.arrays, there.arrays, 0.0)


def test_a_comparison_takes_no_more_memory_than_its_limit(monkeypatch):
    """What the host reads beyond it is counted, and the report says so."""
    from vyre_opt import parse
    from vyre_opt.cli import run_report
    from vyre_opt.execution.plans.steps import HostReadStep
    from vyre_opt.ir import HostRead

    monkeypatch.setattr(run_report, "MAX_COMPARED_BYTES", 3 * (8 + run_report.ARRAY_BYTES))
    reads = run_report.HostReads(parse(PIPELINE).pipelines["twice"].buffers, compares=True)
    for _ in range(3):
        reads.see(HostReadStep(HostRead("t")), np.zeros(8, np.uint8))
    assert (len(reads.arrays), reads.omission()) == (3, "")
    for _ in range(4):
        reads.see(HostReadStep(HostRead("t")), np.zeros(8, np.uint8))
    assert (len(reads.seen), len(reads.arrays)) == (3, 3)
    assert reads.omission() == "; 4 host reads after the first 3 not compared"


@pytest.mark.parametrize(
    "head",
    [
        b"",
        b"PK\3\4junk",
        b"{",
        b"{'descr': '<f4', 'fortran_order': False}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (1000000000000,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}",
        b"{'descr': '|V4', 'fortran_order': False, 'shape': (1,)}",
        b"{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': (1,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': " + b"(" * 3000 + b"}",
        b"{'descr': '<f4', 'fortran_order': F{hape': (6,)",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (True,)}",
        b"{'descr': '<f4', 'fortran_order': False, 'shape': (" + b"9" * 3000 + b",)}",
    ],
)
def test_a_damaged_npy_file(head, tmp_path):
    """One message, whatever NumPy raises for it."""
    (tmp_path / "p.vyre").write_text(PROGRAM.format("f32"))
    is_bare = not head.startswith(b"{")
    content = head if is_bare else b"\x93NUMPY\1\0" + len(head).to_bytes(2, "little") + head + bytes(4)
    (tmp_path / "x.npy").write_bytes(content)
    done = call_run(str(tmp_path / "p.vyre"), "--in", f"x={tmp_path / 'x.npy'}")
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: --in x: {tmp_path / 'x.npy'} is not a .npy file of numbers: ")
    assert done.stderr.count("\n") == 1
    assert len(done.stderr) < 1000


def test_an_archive_with_the_name_of_an_array(tmp_path):
    (tmp_path / "p.vyre").write_text(PROGRAM.format("f32"))
    with open(tmp_path / "x.npy", "wb") as file:
        np.savez(file, x=np.ones(4, np.float32))
    done = call_run(str(tmp_path / "p.vyre"), "--in", f"x={tmp_path / 'x.npy'}")
    assert (done.returncode, done.stderr.count("\n")) == (1, 1)
    assert "does not begin as one" in done.stderr
