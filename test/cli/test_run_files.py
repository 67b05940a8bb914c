"""vyre-run: what goes in and comes out through files, for every kind of element."""

import numpy as np
import pytest

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


@pytest.mark.parametrize("dtype", ELEMENTS)
@pytest.mark.parametrize("suffix", [".npy", ".bin"])
def test_elements_pass_unchanged(dtype, suffix, run_run, tmp_path):
    array, shown = ELEMENTS[dtype]
    source, target = tmp_path / f"x{suffix}", tmp_path / f"y{suffix}"
    np.save(source, array) if suffix == ".npy" else array.tofile(source)
    text = PROGRAM.format(dtype)
    ran = run_run("-", "--in", f"x={source}", "--out", f"y={target}", text=text)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    assert target.read_bytes() == source.read_bytes()
    summary = run_run("-", "--in", f"x={source}", "--check-against=ref", text=text).stdout
    assert summary.startswith(f"@y : {dtype}[4] = {shown} (blake3 ")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ([], "program @copy reads @x : f32[?], which nothing gives; pass --in x=FILE"),
        (["--in", "x=DIR/none.npy"], "cannot read DIR/none.npy: No such file"),
        (["--in", "x=DIR/text.npy"], "DIR/text.npy is not a .npy file of numbers"),
        (["--in", "x=DIR/objects.npy"], "DIR/objects.npy is not a .npy file of numbers"),
        (["--in", "x=DIR/ints.npy"], "DIR/ints.npy holds int64, @x is f32, stored as float32"),
        (["--in", "x=DIR/three.bin"], "DIR/three.bin has 3 bytes, not a multiple of f32's 4"),
        (["--in", "x=DIR/x.bin", "--in", "x=DIR/x.bin"], "--in x: given twice"),
        (["--in", "z=DIR/x.bin"], "has no bound buffer @z; it has @x, @y"),
        (["--in", "x=DIR/x.bin", "--len", "y=5"], "--len y=5: the program declares 4 elements"),
        (["--in", "x=DIR/x.bin", "--len", "x=5"], "--len x=5, but DIR/x.bin holds 4 elements"),
        (["--in", "x=DIR/x.bin", "--len", "y=-1"], "'-1' is not a count of elements"),
        (["--in", "x=DIR/x.bin", "--out", "x=DIR/y"], "has no output @x; it has @y"),
        (["--in", "x=DIR/x.bin", "--grid=2"], "fixes its grid"),
        (["--in", "x=DIR/x.bin", "--out", "y=DIR/none/y.npy"], "cannot write DIR/none/y.npy"),
    ],
)
def test_mistakes(args, message, run_run, tmp_path):
    (tmp_path / "text.npy").write_text("1 2 3")
    np.save(tmp_path / "objects.npy", np.array([None, {}]), allow_pickle=True)
    np.save(tmp_path / "ints.npy", np.arange(4))
    (tmp_path / "three.bin").write_bytes(b"abc")
    np.arange(4, dtype="f4").tofile(tmp_path / "x.bin")
    given = [arg.replace("DIR", str(tmp_path)) for arg in args]
    ran = run_run("-", *given, text=PROGRAM.format("f32"))
    assert (ran.returncode, ran.stdout) == (1, "")
    assert message.replace("DIR", str(tmp_path)) in ran.stderr
    assert "Traceback" not in ran.stderr


def test_comparison_shows_the_first_difference():
    from vyre_opt import parse
    from vyre_opt.cli.conduct import ToolError
    from vyre_opt.cli.run_report import compare

    program = parse(PROGRAM.format("f32")).programs["copy"]
    got, wanted = np.array([1, 2, np.nan, 4], "f4"), np.array([1, 2.001, np.nan, 5], "f4")
    with pytest.raises(ToolError, match=r"2 of 4 values differ, first \[1\]: 2.0 here, 2.001 there"):
        compare(program, [got], [wanted], 0.0)
    with pytest.raises(ToolError, match=r"1 of 4 values differ, first \[3\]"):
        compare(program, [got], [wanted], 0.01)
    compare(program, [got], [wanted], 0.5)


def test_progress_bar_goes_to_and_fro():
    from vyre_opt.cli.progress import RUNNER, WIDTH, bar

    shown = [bar(step) for step in range(100)]
    assert {len(text) for text in shown} == {WIDTH}
    assert {text.count("=") for text in shown} == {RUNNER}
    assert len(set(shown)) == WIDTH - RUNNER + 1
