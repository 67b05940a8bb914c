"""--limits of the tools: what they write is as without it, and a limit that is broken leaves nothing half written."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hostile_child import RESULTS
from support.interrupts import has_ended, hear_interrupts
from support.quick import quick
from support.slow_compile import slow_to_compile
from support.tools_inside import call_run

from vyre_opt import Limits
from vyre_opt.cli import limited
from vyre_opt.cli.errors import ToolError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="limits need Linux")

WORK = """vyre 1

program @p workgroup(4) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  buffer @z : u32[4] write binding(2)
  %i = global_id x
  %l = local_id x
  %v = load @x[%i] : u32
  %zero = const 0 : u32
  %one = const 1 : u32
  %r = while iter(%a = %zero : u32) {
    %go = ne %v, %zero : u32
    condition %go
  } do {
    %b = add %a, %one : u32
    yield %b
  }
  store %r, @y[%i] : u32
  store %l, @z[%l] : u32
}
"""
"""Endless unless @x is zeros."""

PIPELINE = """vyre 1

pipeline @main {
  buffer @x : u32[?] read
  buffer @y : u32[?] write
  scan.prefix(@x, @y)
  host_read @y
}
"""
RUN = ["work.vyre", "--grid", "1", "--len", "y=4", "--out", "y=y.npy", "--out", "z=-"]
GOOD, ENDLESS = [*RUN, "--in", "x=zeros.npy"], [*RUN, "--in", "x=ones.npy"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "work.vyre").write_text(WORK)
    (tmp_path / "pipeline.vyre").write_text(PIPELINE)
    (tmp_path / "wrong.vyre").write_text(WORK.replace("@y[", "@yy[").replace("mul", "mull"))
    np.save(tmp_path / "zeros.npy", np.zeros(4, np.uint32))
    np.save(tmp_path / "ones.npy", np.ones(4, np.uint32))
    (tmp_path / "y.npy").write_bytes(b"what was there")
    return tmp_path


SAME = {
    "a program": ("run", GOOD),
    "passes": ("opt", ["work.vyre", "-O", "--remarks"]),
    "a mistake": ("run", ["wrong.vyre", "--in", "x=zeros.npy", "--color=always"]),
    "a missing file": ("run", [*RUN, "--in", "x=nothing.npy"]),
    "a fault": ("run", [*GOOD, "--len", "z=4", "--grid=2"]),
    "a pipeline": ("run", ["pipeline.vyre", "--in", "x=ones.npy", "--len", "y=4", "--target=ref"]),
    "-O and a check": ("run", [*GOOD, "-O", "--check"]),
    "a file": ("opt", ["work.vyre", "--pass=cse", "--emit=json", "-o", "new/../y.npy"]),
    "a pass that is none": ("opt", ["work.vyre", "--pass=cze"]),
    "stdin": ("opt", ["-", "--emit=llvm", "--target=cpu"]),
    "a file that cannot be written": ("run", [*GOOD[:5], "--in", "x=zeros.npy", "--out", "y=no/y.npy"]),
}


@pytest.mark.campaign
@pytest.mark.parametrize("what", quick(SAME, keep=3))
def test_a_tool_does_as_without_limits(
    what: str,
    folder: Path,
    run_run: Callable[..., subprocess.CompletedProcess],
    run_opt: Callable[..., subprocess.CompletedProcess],
) -> None:
    """Exit code, stdout, stderr and the file."""
    tool, arguments = SAME[what]
    run = run_run if tool == "run" else run_opt

    def results(*limits: str) -> tuple[int, str, str, bytes]:
        (folder / "y.npy").write_bytes(b"what was there")
        ran = run(*arguments, *limits, cwd=folder, text=WORK)
        return ran.returncode, ran.stdout, ran.stderr, (folder / "y.npy").read_bytes()

    plain = results()
    assert results("--limits=time=60,memory=1G,output=1M,grid=10,compile=60") == plain
    assert plain != (0, "", "", b"what was there")


COSTLY = """work.vyre:12:3: error: program @p would take too long to compile: by estimate its ops cost 6 ms, and pass the limit cost=1 here
    %r = while iter(%a = %zero : u32) {
    ^~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~~
help: do what repeats in a loop, use shorter vectors, or make several programs of it; or allow it with --limits cost=6, in Python limits=Limits(cost=6)
"""

BROKEN = {
    "time=0.5": ("run", ENDLESS, "error: time=0.5: not done after 0.5 s\n"),
    "grid=3": (
        "run",
        [*(word.replace("y=4", "y=16") for word in GOOD), "--grid=4"],
        "error: grid=3: program @p is to run over 4 workgroups\n",
    ),
    "cost=1": (
        "opt",
        ["work.vyre", "--emit=llvm", "--target=cpu", "--color=never"],
        COSTLY,
    ),
    "output=150": ("run", GOOD, "error: output=150: the outputs take 160 bytes or more\n"),
    "input=1000": (
        "run",
        [*RUN, "--in", "x=/dev/zero"],
        "error: input=1000: /dev/zero has more bytes\n",
    ),
    "memory=64M": (
        "run",
        ["work.vyre", "--grid=1", "--in", "x=zeros.npy", "--len", "y=40000000", "--out", "y=y.npy"],
        "error: memory=64M: not enough memory for @y, 40000000 elements\n",
    ),
    "plugins=false": (
        "opt",
        ["work.vyre", "--load-pass-plugin=json", "-o", "y.npy"],
        "error: plugins=false: --load-pass-plugin=json\n",
    ),
}


@pytest.mark.parametrize("limit", quick(BROKEN, keep=4))
def test_a_broken_limit_names_itself(
    limit: str,
    folder: Path,
    run_run: Callable[..., subprocess.CompletedProcess],
    run_opt: Callable[..., subprocess.CompletedProcess],
) -> None:
    tool, arguments, message = BROKEN[limit]
    ran = (run_run if tool == "run" else run_opt)(*arguments, f"--limits={limit}", cwd=folder)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", message)
    assert (folder / "y.npy").read_bytes() == b"what was there"
    assert not list(folder.glob(".*"))


@pytest.mark.parametrize(
    ("limits", "message"),
    [
        ("memry=1G", "unknown limit 'memry'; did you mean memory?"),
        ("time=0", "limit time: 0.0 is no number of seconds above 0"),
    ],
)
def test_wrong_limits_are_a_wrong_command_line(limits: str, message: str, folder: Path) -> None:
    ran = call_run(*GOOD, f"--limits={limits}", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert f"Invalid value for '--limits': {message}" in ran.stderr


def test_limits_are_refused_for_a_gpu(folder: Path) -> None:
    ran = call_run(*GOOD, "--target=cuda", "--limits=time=1", cwd=folder)
    assert ran.returncode == 2
    assert "--limits are for ref and cpu" in ran.stderr


TOOL = "import sys; from vyre_opt.cli.start import vyre_run; sys.exit(vyre_run())"


def begun(folder: Path, *more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TOOL, *ENDLESS, *more],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )


def children_of(pid: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except FileNotFoundError:
        return []


@pytest.mark.parametrize("number", quick([signal.SIGINT, signal.SIGTERM, signal.SIGKILL]))
def test_a_signal_ends_the_tool_and_its_child(folder: Path, number: signal.Signals) -> None:
    process = begun(folder, "--limits=time=100")
    for _ in range(400):
        if children := children_of(process.pid):
            break
        time.sleep(0.05)
    time.sleep(0.3)
    process.send_signal(number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == (130 if number == signal.SIGINT else -number)
    assert (out, err.strip()) == ("", "")
    assert (folder / "y.npy").read_bytes() == b"what was there"
    assert children
    assert all(map(has_ended, children))


@pytest.mark.parametrize("what", RESULTS)
def test_a_child_that_is_not_the_tool_writes_nothing(
    what: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setenv("HOSTILE", what)
    monkeypatch.setattr(limited, "_MODULE", "hostile_child")
    before = sorted(folder.iterdir())
    with pytest.raises(ToolError, match="process"):
        limited.run_limited("run", "vyre-run", GOOD, Limits(time=30), ["y.npy"])
    assert (folder / "y.npy").read_bytes() == b"what was there"
    assert sorted(folder.iterdir()) == before


def test_a_timeout_leaves_the_limits_as_they_are(
    folder: Path, run_run: Callable[..., subprocess.CompletedProcess]
) -> None:
    """Both have alarms, in different processes."""
    (folder / "slow.vyre").write_text(slow_to_compile())
    np.save(folder / "wide.npy", np.zeros((64, 64)))
    arguments = ["slow.vyre", "--no-cache", "--in", "x=wide.npy", "--len", "y=32", "--grid", "1"]
    ran = run_run(*arguments, "--limits=compile=0.3", "--timeout=100", cwd=folder)
    assert (ran.returncode, ran.stdout, ran.stderr) == (
        1,
        "",
        "error: compile=0.3: not compiled after 0.3 s\n",
    )


def test_a_timeout_ends_the_tool_and_its_child(folder: Path) -> None:
    """--timeout counts from the start of the tool, and is not passed on."""
    process = begun(folder, "--limits=time=100", "--timeout=1")
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (1, "", "error: not done after 1 s\n")
    assert (folder / "y.npy").read_bytes() == b"what was there"


@pytest.mark.parametrize(
    ("path", "is_below"),
    [
        ("tree/module/00_cse_after.vyre", True),
        ("tree", False),
        ("tree2/file", False),
        ("tree/../file", False),
        ("tree/module/../../../file", False),
        ("tree//etc/passwd", False),
        ("/etc/passwd", False),
    ],
)
def test_a_child_writes_files_of_a_tree_below_its_folder_alone(path: str, is_below: bool) -> None:
    assert limited._is_below(path, "tree") == is_below
    assert limited._is_below(path, "tree/") == is_below


def test_the_files_that_options_name_are_written(
    folder: Path, run_opt: Callable[..., subprocess.CompletedProcess]
) -> None:
    arguments = ["work.vyre", "-O", "--remarks-file=r.yaml", "--print-ir-tree-dir=tree", "-o", "out.vyre"]
    ran = run_opt(*arguments, "--limits=time=60", cwd=folder)
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, "", "")
    written = {path.relative_to(folder): path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    assert run_opt(*arguments, cwd=folder).returncode == 0
    assert {name: (folder / name).read_bytes() for name in written} == written
    assert Path("tree/module/00_expand_kernels_after.vyre") in written


def test_a_text_has_no_line_of_a_file_quoted(
    folder: Path, run_opt: Callable[..., subprocess.CompletedProcess]
) -> None:
    """It may be of somebody who has no business with the file that its locations name."""
    text = 'vyre 2\nprogram @p workgroup(0) {\n} loc("work.vyre":1:1)\n'
    assert "\n  vyre 1\n" in run_opt(text=text, cwd=folder).stderr
    ran = run_opt("--limits=time=60", text=text, cwd=folder)
    assert ran.stderr.startswith("work.vyre:1:1: error: ")
    assert "vyre 1" not in ran.stderr
