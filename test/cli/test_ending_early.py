"""Ctrl-C and --timeout, while a tool compiles, runs endless code, or loads."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from support.interrupts import hear_interrupts
from support.quick import quick
from support.slow_compile import slow_to_compile
from support.tools_inside import call_opt

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="alarms, and code that is broken off")

ENDLESS = """vyre 1
program @p workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1) live_out
  %i = global_id x
  %v = load @x[%i] : u32
  %zero = const 0 : u32
  %one = const 1 : u32
  %r = while iter(%a = %v : u32) {
    %go = ne %a, %zero : u32
    condition %go
  } do {
    %b = or %a, %one : u32
    yield %b
  }
  store %r, @y[%i] : u32
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "endless.vyre").write_text(ENDLESS)
    (tmp_path / "slow.vyre").write_text(slow_to_compile())
    np.save(tmp_path / "ones.npy", np.ones(32, np.uint32))
    np.save(tmp_path / "wide.npy", np.zeros((64, 64)))
    (tmp_path / "y.npy").write_bytes(b"what was there")
    return tmp_path


ROUNDS = """vyre 1
program @increment workgroup(32) {
  buffer @x : u32[32] read_write binding(0) live_in live_out
  %i = global_id x
  %v = load @x[%i] : u32
  %one = const 1 : u32
  %w = add %v, %one : u32
  store %w, @x[%i] : u32
}
pipeline @main {
  buffer @x : u32[32] live_in live_out
  repeat 4000000000000 {
    launch @increment grid(1) (@x)
    host_read @x
  }
}
"""


RUN = "import sys; from vyre_opt.cli.start import vyre_run; sys.exit(vyre_run())"
OPT = "import sys; from vyre_opt.cli.start import vyre_opt; sys.exit(vyre_opt())"
ENDLESS_ARGS = ["endless.vyre", "--in", "x=ones.npy", "--len", "y=32", "--grid", "1", "--out", "y=y.npy"]
COMMANDS = {
    "cpu": [RUN, *ENDLESS_ARGS],
    "ref": [RUN, *ENDLESS_ARGS, "--target=ref"],
    "compile": [RUN, "slow.vyre", "--no-cache", "--in", "x=wide.npy", "--len", "y=32", "--grid", "1"],
    "assembly": [OPT, "slow.vyre", "--emit=asm"],
}


def begun(folder: Path, command: list[str]) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", *command],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )


@pytest.mark.parametrize("what", quick(["compile", "cpu", "ref", "assembly"]))
def test_an_interrupt_ends_a_tool(folder: Path, what: str) -> None:
    process = begun(folder, COMMANDS[what])
    time.sleep(1.0)
    assert process.poll() is None, process.communicate()
    process.send_signal(signal.SIGINT)
    pressed = time.monotonic()
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - pressed < 2
    assert (process.returncode, out, err.strip()) == (130, "", "")
    assert (folder / "y.npy").read_bytes() == b"what was there"
    assert not list(folder.glob("*.partial"))


@pytest.mark.parametrize("what", quick(COMMANDS, keep=2))
def test_a_timeout_ends_a_tool(folder: Path, what: str) -> None:
    process = begun(folder, [*COMMANDS[what], "--timeout=0.5"])
    out, err = process.communicate(timeout=20)
    assert (process.returncode, out, err.strip()) == (1, "", "error: not done after 0.5 s")
    assert (folder / "y.npy").read_bytes() == b"what was there"


def test_an_interrupt_while_a_tool_loads(folder: Path) -> None:
    """Without a traceback, from where its own modules load."""
    script = "import vyre_opt.cli.start; print('.', flush=True); " + OPT
    for pause in (0.0, 0.01, 0.03, 0.06):
        process = begun(folder, [script, "slow.vyre", "--emit=asm"])
        assert process.stdout is not None
        process.stdout.readline()
        time.sleep(pause)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        assert process.returncode in (-signal.SIGINT, 130)
        assert "Traceback" not in err


@pytest.mark.parametrize("seconds", ["0", "-1", "nan", "inf", "1e9", "x"])
def test_a_timeout_is_a_time(folder: Path, seconds: str) -> None:
    ran = call_opt("endless.vyre", f"--timeout={seconds}", cwd=folder)
    assert ran.returncode == 2
    assert "--timeout" in ran.stderr


def test_what_the_host_reads_is_printed_as_it_comes(folder: Path) -> None:
    """So that a pipeline of any number of rounds takes no more memory for each."""
    (folder / "rounds.vyre").write_text(ROUNDS)
    (folder / "x.bin").write_bytes(bytes(128))
    process = begun(folder, [RUN, "rounds.vyre", "--in", "x=x.bin"])
    assert process.stdout is not None
    for number in (1, 2, 3):
        assert process.stdout.readline().startswith(f"host_read @x : u32[32] = {number} {number} ")
    before = resident_bytes(process.pid)
    for _ in range(10_000):  # more of them than a pipe holds
        process.stdout.readline()
    assert resident_bytes(process.pid) - before < 10_000 * 50
    process.stdout.close()
    process.communicate(timeout=20)
    assert process.returncode == -signal.SIGPIPE


def resident_bytes(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize(
    ("raised", "code", "message"),
    [("KeyboardInterrupt()", 130, ""), ("TimedOut('not done after 1 s')", 1, "error: not done after 1 s\n")],
)
def test_a_signal_while_a_class_is_made(raised: str, code: int, message: str) -> None:
    """Python 3.11 makes a RuntimeError of what is raised there, with a cause."""
    script = f"""
import sys, click
from vyre_opt.cli.errors import run_tool
from vyre_opt.cli.time_limit import TimedOut

class Field:
    def __set_name__(self, owner, name):
        raise {raised}

@click.command("tool")
def tool():
    class Options:
        notes = Field()

sys.exit(run_tool(tool, []))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (code, message)


@pytest.mark.parametrize("options", [[], ["--timeout=0.2"]])
def test_a_signal_in_a_destructor(options: list[str]) -> None:
    """Python drops what is raised there; it is raised again, and nothing is told of the first."""
    script = """
import os, signal, sys, time, click
signal.signal(signal.SIGINT, signal.SIG_DFL)
from vyre_opt.cli.command import common_options
from vyre_opt.cli.errors import run_tool

class Dropped:
    def __del__(self):
        if len(sys.argv) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        time.sleep(0.4)

@click.command("tool")
@common_options("tool")
def tool():
    Dropped()
    print("goes on", flush=True)
    while True:
        time.sleep(0.01)

sys.exit(run_tool(tool, sys.argv[1:]))
"""
    ran = subprocess.run(
        [sys.executable, "-c", script, *options], capture_output=True, text=True, check=False, timeout=60
    )
    assert ran.stdout == "goes on\n"
    assert ran.returncode == (1 if options else 130)
    assert ran.stderr.strip() == ("error: not done after 0.2 s" if options else "")
