"""What the tools do at their edges: exit codes, closed pipes, interrupts, and inputs that are no modules."""

import errno
import os
import re
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from unittest.mock import patch

import pytest
from support.interrupts import hear_interrupts
from support.quick import quick
from support.tools_inside import call_cache, call_opt, call_run

from vyre_opt import worker
from vyre_opt.cli import errors
from vyre_opt.passes.cse import Cse

EXAMPLES = Path(__file__).parents[2] / "examples"
SCRIPTS = Path(sys.executable).parent
OPT, RUN = str(SCRIPTS / "vyre-opt"), str(SCRIPTS / "vyre-run")
EMPTY = "vyre 1\n\nprogram @p workgroup(1) {\n}\n"
posix = pytest.mark.skipif(os.name != "posix", reason="signals and device files")


def big_module(ops: int) -> str:
    lines = "".join(f"  %v{i} = const {i} : u32\n" for i in range(ops))
    return f"vyre 1\n\nprogram @big workgroup(1) {{\n{lines}}}\n"


# --- inputs that are no modules: each diagnosed, none with a traceback


BAD = {
    "empty": (b"", "the text is empty"),
    "no header": (b"program @p workgroup(1) {}", "begins with its format version"),
    "future version": (b"vyre 3\n", "format version 3"),
    "binary": (bytes(range(128, 256)), "1:1: error: byte 0x80 is not UTF-8"),
    "bad utf-8 in a line": ("vyre 1\n// größe ".encode() + b"\xff\n", "2:10: error: byte 0xff"),
    "nul": (b"vyre 1\n\0\n", "2:1: error: a NUL byte"),
    "utf-16": (EMPTY.encode("utf-16"), "is not UTF-8"),
    "open brace": (b"vyre 1\nprogram @p workgroup(1) {\n", "closing brace"),
    "deep braces": (b"vyre 1\nprogram @p workgroup(1) {\n" + b"region @r {\n" * 100_000, "error"),
    "long integer": (b"vyre 1\nprogram @p workgroup(" + b"9" * 100_000 + b") {\n}\n", "100000 digits"),
    "long line": (b"vyre 1 " + b"@" * 100_000, "error"),
    "many errors": (b"vyre 1\nprogram @p workgroup(1) {\n" + b"%x = ?\n" * 5000 + b"}\n", "error"),
    "unknown op": (b"vyre 1\nprogram @p workgroup(1) {\n%x = globl_id x\n}\n", "did you mean"),
    "control characters": (b"vyre 1\n\x1b[31m\x07\x0c\n", "error"),
    "only a comment": (b"// nothing here", "error"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_diagnosed(case):
    text, message = BAD[case]
    ran = call_opt("--pass=cse", text=text)
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert message in ran.stderr
    assert "Traceback" not in ran.stderr
    assert "internal error" not in ran.stderr
    assert "\x1b" not in ran.stderr


def test_unreadable_files(tmp_path):
    for run in (call_opt, call_run):
        for path, message in [(tmp_path, "Is a directory"), (tmp_path / "none", "No such file")]:
            ran = run(path)
            assert (ran.returncode, ran.stdout) == (1, "")
            assert (
                ran.stderr
                == f"error: cannot read {path}: {message}{' or directory' if path != tmp_path else ''}\n"
            )


def test_windows_line_ends_and_byte_order_mark():
    ran = call_opt(text=b"\xef\xbb\xbf" + EMPTY.replace("\n", "\r\n").encode())
    assert (ran.returncode, ran.stdout, ran.stderr) == (0, EMPTY, "")


# --- exit codes


@pytest.mark.parametrize(
    ("args", "code", "message"),
    [
        ([], 0, ""),
        (["--pass=csee"], 2, "did you mean cse?"),
        (["--pass=cse{x=1}"], 2, "has no option x"),
        (["--pass=cse{"], 2, "expected an option"),
        (["--print-ir-after=csee"], 2, "did you mean cse?"),
        (["--remarks=csee"], 2, "did you mean cse?"),
        (["--emit=pdf"], 2, "'pdf' is not one of"),
        (["--no-such-option"], 2, "No such option"),
        (["-O2"], 2, "no such option -O2: -O has no levels, and runs the default passes"),
        (["-", "another"], 2, "unexpected extra argument"),
        (["--target=sm_90x"], 2, "did you mean sm_90?"),
        (["--emit=asm", "--target=ref"], 2, "ref is the interpreter"),
        (
            ["--emit=ptx", "--target=sm_90", "--ptx-version=7.0"],
            2,
            "sm_90 does not exist in PTX 7.0; it takes 8.1, 8.2",
        ),
        (["--ptx-version=9.1"], 2, "unknown PTX version '9.1'"),
        (["--load-pass-plugin=no_such_module_here"], 1, "cannot load pass plugin"),
        (["--run-reproducer"], 1, "no line"),
        (["--remarks-file=both", "-o", "both"], 2, "--remarks-file: both is --output, too"),
        (["--print-ir-tree-dir="], 2, "--print-ir-tree-dir names no file"),
    ],
)
def test_exit_codes(args, code, message):
    ran = call_opt(*args, text=EMPTY)
    assert (ran.returncode, message in ran.stderr) == (code, True), ran.stderr
    assert (ran.stdout == EMPTY) == (code == 0)


def test_run_usage():
    assert call_run().returncode == 2
    assert call_run("-", "--in", "x", text=EMPTY).returncode == 2
    assert call_run("-", text="vyre 1\n").stderr == "error: there is no program here\n"


@posix
def test_no_file_on_a_terminal_is_a_usage_error():
    import pty

    leader, terminal = pty.openpty()
    try:
        ran = subprocess.run([OPT], stdin=terminal, capture_output=True, text=True, check=False, timeout=60)
    finally:
        os.close(leader)
        os.close(terminal)
    assert ran.returncode == 2
    assert "give a FILE" in ran.stderr


# --- pipes and signals


@posix
def test_closed_pipe_ends_quietly(tmp_path):
    path = tmp_path / "big.vyre"
    path.write_text(big_module(20_000))
    script = f"set -o pipefail; {OPT} {path} | head -c 5"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, check=False, timeout=60)
    assert (ran.stdout, ran.stderr) == (b"vyre ", b"")
    assert ran.returncode == 128 + signal.SIGPIPE


@posix
@pytest.mark.parametrize("command", [[OPT, "--help"], [OPT, "-"], [RUN, "--help"]])
def test_pipe_closed_before_the_start(command):
    reader, writer = os.pipe()
    os.close(reader)
    try:
        ran = subprocess.run(
            command, input=EMPTY.encode(), stdout=writer, stderr=subprocess.PIPE, check=False, timeout=60
        )
    finally:
        os.close(writer)
    assert (ran.returncode, ran.stderr) == (-signal.SIGPIPE, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_an_error():
    with open("/dev/full", "wb") as full:
        ran = subprocess.run(
            [OPT], input=EMPTY.encode(), stdout=full, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert ran.returncode == 1
    assert ran.stderr == b"error: cannot write to stdout: No space left on device\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
@pytest.mark.parametrize(
    ("call", "arguments"),
    [(call_opt, ["--help"]), (call_cache, ["info", "--help"]), (call_run, ["--version"])],
)
def test_help_on_a_full_disk_is_the_same_error(call, arguments, monkeypatch):
    with open("/dev/full", "w") as full, monkeypatch.context() as patched:
        patched.setattr(errors, "write_stdout_bytes", partial(written_to, full, errors.write_stdout_bytes))
        ran = call(*arguments)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr == "error: cannot write to stdout: No space left on device\n"


def written_to(stream, write, content):
    """Write to a stream in the place of stdout."""
    with patch.object(sys, "stdout", stream):
        write(content)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_message_on_a_full_disk_changes_no_exit_code():
    with open("/dev/full", "wb") as full:
        ran = subprocess.run([OPT, "--nope"], stdout=subprocess.PIPE, stderr=full, check=False, timeout=60)
    assert (ran.returncode, ran.stdout) == (2, b"")


def raise_from(error, cause):
    try:
        raise error from cause
    except type(error):
        raise


@pytest.mark.parametrize(
    ("error", "cause", "message"),
    [
        (OSError(errno.EMFILE, "Too many open files"), None, "Too many open files"),
        (OSError(errno.ENOSPC, "No space left on device", "/tmp/x"), None, "/tmp/x: No space left on device"),
        (ImportError("pages of advice"), ImportError("x.so: cannot map it"), "cannot load a package: x.so: cannot map it"),
        (RuntimeError("can't start new thread"), None, "the system starts no more threads for this user"),
    ],
)  # fmt: skip
def test_what_the_system_refuses_is_no_bug(error, cause, message, monkeypatch, tmp_path):
    """Neither in a tool nor in a pass, of which no reproducer is written then."""
    monkeypatch.setattr(Cse, "run", lambda self, module, ctx: raise_from(error, cause))
    ran = call_opt("--pass=cse", text="vyre 1\n\nprogram @p workgroup(1) {\n}\n", cwd=tmp_path)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith(f"error: {message}")
    assert ran.stderr.count("\n") == 1
    assert not [*tmp_path.iterdir()]


@posix
@pytest.mark.parametrize("limits", quick([["--limits=time=60"], []]))
def test_too_little_memory_to_load_llvm(limits):
    """With limits, too, what the child says while it loads is one line of the error."""
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (200 << 20,) * 2); "
    script += "from vyre_opt.cli.start import vyre_opt; sys.exit(vyre_opt())"
    ran = subprocess.run(
        [sys.executable, "-c", script, "-", "--emit=asm", *limits],
        input="vyre 1\n\nprogram @p workgroup(1) {\n}\n",
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.startswith("error: ")
    assert "libllvmlite" in ran.stderr
    assert "Traceback" not in ran.stderr


def test_no_thread_is_needed(monkeypatch):
    """Where the system starts none, the main thread does the work, and the solver, which needs one, is not begun."""

    def refuse(*arguments):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(worker, "start_new_thread", refuse)
    assert worker.interruptible(lambda: 3) == 3
    assert worker.Worker().call(lambda: 4) == 4
    ran = call_opt("--certify", text=EMPTY)
    assert ran.stderr.startswith("error: the system starts no more threads for this user")
    assert ran.returncode == 1


@posix
@pytest.mark.parametrize(
    ("redirection", "code", "message"),
    [(">&-", 1, "error: stdout is closed\n"), ("2>&-", 0, ""), ("<&-", 1, "error: stdin is closed\n")],
)
def test_streams_closed_by_the_shell(redirection, code, message):
    script = f"printf 'vyre 1\\n' | {OPT} {redirection}"
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (ran.returncode, ran.stderr) == (code, message)


@posix
def test_interrupt_is_quiet(tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    running = subprocess.Popen(
        [OPT, fifo],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    )
    with fifo.open("wb"):  # when the tool has opened it too, and waits for its input
        running.send_signal(signal.SIGINT)
        stdout, stderr = running.communicate(timeout=60)
    assert running.returncode == 130
    assert (stdout, stderr.strip()) == (b"", b"")


# --- colour


@posix
@pytest.mark.parametrize(
    ("choice", "environment", "colored"),
    [("always", {"NO_COLOR": "1"}, True), ("auto", {}, False), ("never", {}, False)],
)
def test_color(choice, environment, colored, monkeypatch):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    ran = call_opt(f"--color={choice}", text="vyre 1\nfoo\n")
    assert ("\x1b[31;1merror\x1b[0m" in ran.stderr) == colored


def test_many_errors_are_counted(tmp_path):
    """A hundred are shown."""
    buffers = "".join(f"  buffer @b{k} : u32[4] read binding(0)\n" for k in range(3000))
    text = f"vyre 1\nprogram @p workgroup(1) {{\n{buffers}}}\n"
    done = call_opt("-", text=text)
    assert done.returncode == 1
    assert len(done.stderr) < 60_000
    assert done.stderr.rstrip().endswith("... and 2899 more")


def test_text_does_nothing_to_a_terminal(tmp_path):
    text = 'vyre 1\nprogram @p workgroup(1) grid(1) {\n  trap "a\\u001b[2Jb"\n}\n'
    (tmp_path / "p.vyre").write_text(text.replace("\\u001b", "\x1b"))
    done = call_run(str(tmp_path / "p.vyre"))
    assert done.returncode == 1
    assert "\x1b" not in done.stderr
    assert "trap: a\N{REPLACEMENT CHARACTER}[2Jb" in done.stderr


def test_no_file_has_an_empty_name():
    done = call_opt("", text="vyre 1\n")
    assert (done.returncode, done.stdout) == (1, "")
    assert "cannot read" in done.stderr


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--emit=ptx"], "error: --emit=ptx needs the package llvmlite\n"),
        (["--emit=asm", "--target=cpu"], "error: --emit=asm needs the package llvmlite\n"),
        (["--pass=decode_scan_fuse"], ""),
    ],
)
def test_where_llvmlite_has_no_wheel(options, expected):
    """All but code works without it."""
    script = (
        "import sys; sys.modules['llvmlite'] = None\n"
        "from vyre_opt.cli.opt import main; sys.exit(main(sys.argv[1:]))"
    )
    command = [sys.executable, "-c", script, *options, EXAMPLES / "base64_scan.vyre"]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (ran.returncode, ran.stderr) == (int(bool(expected)), expected)


@pytest.mark.parametrize(
    ("page", "codes"),
    [
        (
            "reference/diagnostics.md",
            (errors.DONE, errors.FAILED, errors.WRONG_COMMAND_LINE, errors.INTERRUPTED),
        ),
        ("guides/scan.md", (errors.DONE, errors.NOTHING_MATCHED, errors.SEARCH_FAILED, errors.INTERRUPTED)),
    ],
)
def test_pages_have_the_codes(page: str, codes: tuple[int, ...]) -> None:
    text = (EXAMPLES.parent / "docs" / page).read_text(encoding="utf-8").partition("## Exit codes")[2]
    table = text.lstrip().partition("\n\n")[0]
    assert re.findall(r"^\| (\d+) \|", table, re.MULTILINE) == [str(code) for code in codes]
