"""Inputs that never end, never begin, or are larger than what a tool reads: a message that names them, and little memory."""

from __future__ import annotations

import errno
import io
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.interrupts import hear_interrupts
from support.tools_inside import call_cache, call_opt, call_reduce, call_run, call_scan

import vyre_opt
from vyre_opt import Scanner, import_tuning
from vyre_opt.ir import bounded_read
from vyre_opt.ir.bounded_read import TooLarge, read_file, read_stream
from vyre_opt.tuning import result_cache

pytestmark = pytest.mark.skipif(not Path("/dev/zero").exists(), reason="a device without an end")

COPY = """vyre 1

program @copy workgroup(4) grid(1) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[4] write binding(1) live_out

  %l = local_id x
  %v = load @x[%l] : u32
  store %v, @y[%l] : u32
}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "copy.vyre").write_text(COPY)
    (tmp_path / "x.bin").write_bytes(bytes(4096))
    (tmp_path / "endless.py").symlink_to("/dev/zero")
    os.mkfifo(tmp_path / "fifo")
    return tmp_path


@pytest.mark.parametrize(
    ("call", "arguments", "code"),
    [
        (call_opt, ["/dev/zero"], 1),
        (call_opt, ["copy.vyre", "--load-pass-plugin=endless.py"], 1),
        (call_opt, ["/dev/zero", "--run-reproducer"], 1),
        (call_run, ["/dev/zero"], 1),
        (call_run, ["copy.vyre", "--in", "x=/dev/zero"], 1),
        (call_run, ["copy.vyre", "--in", "x=x.bin"], 1),
        (call_reduce, ["/dev/zero", "--test=true"], 1),
        (call_scan, ["-f", "/dev/zero", "x.bin"], 2),
    ],
)
def test_an_input_of_too_many_bytes_is_named(
    call: Callable[..., subprocess.CompletedProcess[str]], arguments: list[str], code: int, folder: Path
) -> None:
    ran = call(*arguments, "--max-input=2K", cwd=folder)
    assert (ran.returncode, ran.stdout) == (code, "")
    path = {"x=x.bin": "x.bin", "--load-pass-plugin=endless.py": "endless.py"}.get(arguments[-1], "/dev/zero")
    assert (
        ran.stderr == f"error: cannot read {path}: it has more than 2K bytes; --max-input=SIZE allows more\n"
    )
    assert "vyre_opt_plugin_endless" not in sys.modules


def test_stdin_has_the_same_ceiling(folder: Path) -> None:
    ran = call_opt("-", "--max-input=9", text="vyre 1\n//\n")
    assert ran.stderr == "error: cannot read stdin: it has more than 9 bytes; --max-input=SIZE allows more\n"
    assert call_opt("-", "--max-input=10", text="vyre 1\n//\n").returncode == 0
    assert call_scan("-f", "-", "x.bin", "--max-input=9", text="a" * 10, cwd=folder).returncode == 2


def test_what_is_kept_line_by_line_has_a_lower_ceiling(folder: Path) -> None:
    """Patterns take many times their bytes."""
    ran = call_scan("-f", "/dev/zero", "x.bin", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "it has more than 64M bytes; --max-input=SIZE allows more" in ran.stderr


def test_a_timeout_ends_the_wait_for_who_reads_a_pipe(folder: Path) -> None:
    """Also of the text that vyre-reduce leaves when its time is over, and it has none to leave on the way."""
    script = "import sys; from vyre_opt.cli.start import vyre_reduce; sys.exit(vyre_reduce())"
    ran = subprocess.run(
        [sys.executable, "-c", script, "copy.vyre", "--test=true", "--output=fifo", "--timeout=1"],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (ran.returncode, ran.stderr) == (1, "error: not done after 1 s\n")


def test_a_ceiling_is_a_size() -> None:
    ran = call_opt("--max-input=much")
    assert ran.returncode == 2
    assert "Invalid value for '--max-input': 'much' is not a size" in ran.stderr


def test_the_ceiling_of_one_call_is_not_that_of_the_next(folder: Path) -> None:
    assert call_opt("copy.vyre", "--max-input=8", cwd=folder).returncode == 1
    assert call_opt("copy.vyre", cwd=folder).returncode == 0


@pytest.mark.parametrize("is_open", [False, True])
def test_a_timeout_ends_the_wait_for_a_pipe(is_open: bool, folder: Path) -> None:
    """One that nobody opens to write, and one into which nothing is written."""
    script = "import sys; from vyre_opt.cli.start import vyre_opt; sys.exit(vyre_opt())"
    writer = os.open(folder / "fifo", os.O_RDWR) if is_open else None
    ran = subprocess.run(
        [sys.executable, "-c", script, "fifo", "--timeout=0.2"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        preexec_fn=hear_interrupts,
    )
    if writer is not None:
        os.close(writer)
    assert (ran.returncode, ran.stdout, ran.stderr) == (1, "", "error: not done after 0.2 s\n")


def test_a_signal_is_heard_between_pieces() -> None:
    """An endless stream that is always ready is read for as long as the ceiling lets it, but by small pieces."""

    class Rung(Exception):
        pass

    class Endless(io.RawIOBase):
        pieces = 0

        def read(self, size: int = -1) -> bytes:
            self.pieces += 1
            if self.pieces == 3:
                signal.raise_signal(signal.SIGUSR1)
            return bytes(min(size, bounded_read.PIECE))

    def ring(*_: object) -> None:
        raise Rung

    handler = signal.signal(signal.SIGUSR1, ring)
    try:
        with pytest.raises(Rung):
            read_stream(Endless(), "endless", 1 << 60)
    finally:
        signal.signal(signal.SIGUSR1, handler)


def test_all_up_to_the_ceiling_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded_read, "PIECE", 3)
    path = tmp_path / "file"
    for size in range(8):
        path.write_bytes(b"0123456"[:size])
        assert read_file(path, 7) == path.read_bytes()
        assert read_file(path, size) == path.read_bytes()
    with pytest.raises(TooLarge, match="more than 6 bytes"):
        read_file(path, 6)


def test_a_stream_that_has_nothing_yet_is_not_at_its_end() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    os.write(writing, b"vyre 1\n")
    with os.fdopen(reading, "rb", buffering=0) as stream, pytest.raises(BlockingIOError) as caught:
        read_stream(stream, "pipe")
    assert caught.value.errno == errno.EAGAIN
    os.close(writing)


@pytest.fixture
def few_bytes(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A ceiling that an endless file reaches at once."""
    for function in (bounded_read.read_file, bounded_read.read_stream):
        monkeypatch.setattr(function, "__defaults__", (1 << 12,))
    monkeypatch.setattr(result_cache, "MAX_FILE_BYTES", 1 << 12)
    return


@pytest.mark.usefixtures("few_bytes")
def test_functions_refuse_a_file_without_an_end(folder: Path) -> None:
    endless = Path("/dev/zero")
    for read in (vyre_opt.parse_file, vyre_opt.compile, import_tuning):
        with pytest.raises(TooLarge, match="more than 4096 bytes: '/dev/zero'"):
            read(endless)
    for path in (endless, folder / "fifo"):
        with pytest.raises(ValueError, match="no regular file"):
            Scanner.load(path)
    ran = call_cache("import-tuning", "/dev/zero")
    assert ran.stderr == "error: cannot read /dev/zero: it has more than 4096 bytes\n"


def test_a_test_that_prints_without_end_takes_no_memory(folder: Path) -> None:
    """What it printed last is shown, so it is read; as fast as `yes` writes that would be a gigabyte."""
    ran = call_reduce("copy.vyre", "--test", "sh -c 'yes; true'", "--test-timeout=0.2", cwd=folder)
    assert ran.stderr.splitlines()[-1].endswith("the test takes more than 0.2 s")
    ran = call_reduce("copy.vyre", "--test", "sh -c 'yes | head -200000; echo last; exit 3'", cwd=folder)
    assert ran.stderr.splitlines()[-2:] == ["  y", "  last"]
