"""Command lines that do what was not meant, and what they say to write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from support.each import each
from support.tools_inside import call_opt, call_pack, call_run

DOUBLE = """vyre 2
program @double workgroup(8) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
}
"""


def test_a_grid_along_an_axis_that_the_program_ignores_is_told(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))
    options = ["-", "--in", f"x={tmp_path / 'x.npy'}", "--len", "y=8"]
    wrong, right = (call_run(*options, f"--grid={grid}", text=DOUBLE) for grid in ("1,2", "1"))
    assert (wrong.returncode, right.returncode) == (0, 0)
    assert (
        "2:9: warning: all 2 workgroups along axis 1 do the same: double has no global_id y" in wrong.stderr
    )
    assert right.stderr == ""


def test_a_pass_is_no_option(tmp_path: Path) -> None:
    wrong = call_opt("-", "--cse", text=DOUBLE)
    assert wrong.returncode == 2
    assert "no such option --cse: a pass is run by --pass=cse" in wrong.stderr
    assert call_opt("-", "--pass=cse", text=DOUBLE).returncode == 0


def test_one_file_is_read() -> None:
    wrong = call_opt("a.vyre", "b.vyre")
    assert wrong.returncode == 2
    assert "one FILE is read, run it again for another" in wrong.stderr


def test_a_file_is_named_for_its_buffer() -> None:
    wrong = call_run("-", "--in", "folder/x.npy", text=DOUBLE)
    assert wrong.returncode == 2
    assert "'folder/x.npy' is not NAME=VALUE; write x=folder/x.npy" in wrong.stderr


TOLD: list[tuple[str, list[str], str, list[str]]] = [
    # the tool, options that are wrong, words that say what to write, and that
    ("opt", ["--passes=cse"], "no such option --passes: write --pass=cse", ["--pass=cse"]),
    ("opt", ["--pass-pipeline=cse;dce"], "write cse,dce", ["--pass-pipeline=cse,dce"]),
    ("run", ["--grid=1x1", "--len", "y=8"], "write 1,1", ["--grid=1,1", "--len", "y=8"]),
    ("run", ["--grid=1", "--len", "y=8x1"], "help: write --len y=8,1", []),
    ("run", ["--grid=1"], "pass --len y=8", ["--grid=1", "--len", "y=8"]),
    ("run", ["--grid=1", "--len", "y=8", "--spec", "n=2"], "it has none: leave it out", ["--grid=1", "--len", "y=8"]),
    ("run", ["--grid=1", "--len", "y=8", "--param", "n=2"], "it has none", ["--grid=1", "--len", "y=8"]),
    ("opt", ["--fusion-threshold=2"], "--fusion-threshold is of -O: write -O, too", ["--fusion-threshold=2", "-O"]),
    ("opt", ["--measure"], "--measure is of --emit=html: write --emit=html, too", []),
    ("run", ["--grid=1", "--len", "y=8", "--local", "1"], "--local is of --debug: write --debug, too", []),
    ("run", ["--grid=1", "--len", "y=8", "--tolerance=0.1"], "--tolerance is of --check: write --check, too",
     ["--grid=1", "--len", "y=8", "--tolerance=0.1", "--check"]),
]  # fmt: skip


PIPELINE = f"""{DOUBLE}
pipeline @main {{
  buffer @in : f32[8] read
  buffer @mid : f32[8]
  buffer @out : f32[8] write
  launch @double grid(1) (@in, @mid)
  host_read @mid
  launch @double grid(1) (@mid, @out)
}}
"""


def test_a_named_pass_that_refuses_all_is_told() -> None:
    """It is no error, and stands on stderr alone; of a pass that changed something, or has nothing to refuse, nothing is said."""
    told = call_opt("-", "--pass=launch-fusion", text=PIPELINE)
    assert told.stderr == "note: launch_fusion changed nothing: --remarks=launch_fusion says why\n"
    assert (told.returncode, "note" in told.stdout) == (0, False)
    for args, text in (
        (["--pass=launch_fusion", "--remarks=launch_fusion"], PIPELINE),
        (["-O"], PIPELINE),
        (["--pass=cse"], PIPELINE),
        (["--pass=launch_fusion"], PIPELINE.replace("  host_read @mid\n", "")),
    ):
        assert "changed nothing" not in call_opt("-", *args, text=text).stderr


def test_a_file_of_another_format_is_told_how_it_is_saved(tmp_path: Path) -> None:
    source = tmp_path / "data.csv"
    source.write_text("1,2,3,4\n5,6,7,8\n")
    options = ["--grid=1", "--len", "y=8", "--out", f"y={tmp_path / 'y.npy'}"]
    wrong = call_run("-", "--in", f"x={source}", *options, text=DOUBLE)
    assert wrong.returncode == 1
    save = wrong.stderr.partition(".npy: ")[2]
    exec(save, {"numpy": np})
    right = call_run("-", "--in", f"x={source}.npy", *options, text=DOUBLE)
    assert (right.returncode, np.load(tmp_path / "y.npy").ravel().tolist()) == (0, [1, 2, 3, 4, 5, 6, 7, 8])
    ran = call_run("-", "--in", f"x={source}", "--grid=2", "--len", "y=16", text=DOUBLE.replace("f32", "u8"))
    assert ran.returncode == 0, "bytes may be those of any file"


def test_a_text_and_a_folder_that_are_of_another_command_are_told(tmp_path: Path) -> None:
    (tmp_path / "double.vyre").write_text(DOUBLE)
    told = call_pack("verify", str(tmp_path / "double.vyre")).stderr
    assert f"it is a text; write vyre-opt --emit=pack {tmp_path / 'double.vyre'} -o FILE.vyrepack" in told
    (tmp_path / "empty").mkdir()
    told = call_run("--replay", str(tmp_path / "empty")).stderr
    assert (
        f"run with --record={tmp_path / 'empty'}, or VYRE_RECORD={tmp_path / 'empty'}, until a fault" in told
    )


def test_options_are_told_by_the_values_at_hand(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(8, dtype=np.float32))

    def check(case: tuple[str, list[str], str, list[str]]) -> None:
        tool, wrong, words, right = case
        call, given = (call_opt, []) if tool == "opt" else (call_run, ["--in", f"x={tmp_path / 'x.npy'}"])
        told = call("-", *given, *wrong, text=DOUBLE)
        assert told.returncode in (1, 2)
        assert words in told.stderr
        assert not right or call("-", *given, *right, text=DOUBLE).returncode == 0

    each(TOLD, check)
    told = call_run("-", "--in", f"a={tmp_path / 'x.npy'}", "--grid=1", "--len", "y=8", text=DOUBLE)
    assert "it has @x, @y; pass it as x" in told.stderr
