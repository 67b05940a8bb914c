"""vyre-scan as a shell sees it: grep's conduct, beside grep where that is installed."""

from __future__ import annotations

import base64
import json
import os
import pty
import random
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.interrupts import hear_interrupts
from support.quick import quick
from support.tools_inside import call_scan

from vyre_scan.tool.documents import PIPE, open_parts
from vyre_scan.tool.output import escaped

SCRIPT = "import sys; from vyre_scan.start import main; sys.exit(main())"
SCAN = [sys.executable, "-c", SCRIPT]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_bytes(b"a needle, a pin\nneedle\n")
    (tmp_path / "b.txt").write_bytes(b"nothing\n")
    (tmp_path / "mail.b64").write_bytes(base64.encodebytes(b"dear needle, " * 20))
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "c.txt").write_bytes(b"one needle")
    return tmp_path


def test_output_and_exit_codes(folder: Path) -> None:
    def run(*args: str) -> tuple[int, str, str]:
        ran = call_scan(*args, cwd=folder)
        return ran.returncode, ran.stdout, ran.stderr

    assert run("needle", "a.txt") == (0, "a needle, a pin\nneedle\n", "")
    assert run("-ob", "needle", "a.txt", "b.txt") == (0, "a.txt:2:needle\na.txt:16:needle\n", "")
    assert run("-hob", "needle", "a.txt", "b.txt") == (0, "2:needle\n16:needle\n", "")
    assert run("-Ho", "pin", "a.txt") == (0, "a.txt:pin\n", "")
    assert run("-c", "needle", "a.txt", "b.txt") == (0, "a.txt:2\nb.txt:0\n", "")
    assert run("-l", "needle", "a.txt", "b.txt") == (0, "a.txt\n", "")
    assert run("-q", "needle", "a.txt", "none") == (0, "", "")
    assert run("NEEDLE", "a.txt") == (1, "", "")
    assert run("-ic", "NEEDLE", "a.txt") == (0, "2\n", "")
    assert run("-obE", "p[a-z]+|ne+", "a.txt") == (0, "2:nee\n12:pin\n16:nee\n", "")
    assert run("-ob", "--regexp=pin", "-e", "a ", "a.txt") == (0, "0:a \n10:a \n12:pin\n", "")
    assert run("-rob", "needle") == (0, "a.txt:2:needle\na.txt:16:needle\nsub/c.txt:4:needle\n", "")
    assert run("-rn", "needle", "sub") == (0, "sub/c.txt:1:one needle\n", "")
    assert run("--decode", "base64", "-c", "needle", "mail.b64") == (0, "20\n", "")
    assert run("-UE", r"pin\sne", "a.txt") == (0, "12:pin\\nne\n", "")
    assert run("-UnE", r"pin\sne", "a.txt") == (0, "1:12:pin\\nne\n", "")
    assert run("-L", "pin", "a.txt", "b.txt") == (0, "b.txt\n", "")
    assert run("-s", "pin", "none", "a.txt")[::2] == (2, "")
    assert run("--", "-x", "a.txt") == (1, "", "")


def test_errors_leave_the_rest(folder: Path) -> None:
    """A file that cannot be read, a folder, a text that encodes nothing: a message each, the others searched, code 2."""
    ran = call_scan("-c", "needle", "none", "sub", "a.txt", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "sub/c.txt:1\na.txt:2\n")
    assert ran.stderr == "error: cannot read none: No such file or directory\n"
    ran = call_scan("--decode", "base64", "needle", "a.txt", "mail.b64", cwd=folder)
    assert (ran.returncode, ran.stdout.count("mail.b64:")) == (2, 20)
    assert ran.stderr == "error: cannot decode a.txt: at character 8: ',' is no character of base64\n"
    ran = call_scan("--decode", "base64", "--strict", "needle", "mail.b64", cwd=folder)
    assert ran.returncode == 2
    assert "at character 76: '\\n' is no character of base64; without --strict" in ran.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give a PATTERN"),
        ([""], "empty pattern"),
        (["-E", "a(b", "a.txt"], "PATTERN:1:2: error: missing )"),
        (["-E", r"a[[:no:]]", "a.txt"], "PATTERN:1:3: error: there is no class [:no:]"),
        (["-E", r"a\pL", "a.txt"], "PATTERN:1:2: error: classes of Unicode"),
        (["-E", "é(", "a.txt"], "PATTERN:1:2: error: missing )"),
        (["-f", "words", "-E", "a.txt"], "words:3:1: error: "),
        (["-f", "none", "a.txt"], "cannot read none"),
        (["--decode", "base32", "x", "a.txt"], "'base32' is not one of"),
        (["--strict", "x", "a.txt"], "--strict is of --decode"),
        (["--blobs", "--decode", "hex", "x", "a.txt"], "--decode searches what whole files"),
        (["--json", "-c", "x", "a.txt"], "--json and --sarif print whole matches"),
        (["-v", "-U", "x", "a.txt"], "-v, -A, -B and -C are of lines"),
        (["--rules", "none"], "cannot read none"),
        (["--rules", "words", "-e", "x"], "--rules has all patterns"),
        (["--rules", "words"], "words is no TOML: "),
        (["-t", "cobol", "x"], "'cobol' is not one of"),
        (["-wE", "a(b", "a.txt"], "PATTERN:1:2: error: missing )"),
        (["--threads=0", "x", "a.txt"], "--threads"),
        (["x", "a\0b"], "holds no NUL"),
        (["--min-blob=0", "--blobs", "x", "a.txt"], "--min-blob"),
        (["--min-blob=20", "x", "a.txt"], "--min-blob is of --blobs"),
        (["x", ""], "cannot read '': No such file"),
        (["-r", "x", ""], "cannot read '': No such file"),
    ],
)
def test_wrong_inputs(
    arguments: list[str],
    message: str,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Each is an error that says what is wrong, where, with code 2."""
    from vyre_scan.tool.command import main

    (folder / "words").write_text("fine\n\n+\n")
    monkeypatch.chdir(folder)
    monkeypatch.setattr("atexit.register", lambda _: None)
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)}
    show = sys.modules["warnings"].showwarning
    try:
        assert main(arguments) == 2
    finally:
        sys.modules["warnings"].showwarning = show
        sys.modules["gc"].enable()
        for number, handler in handlers.items():
            signal.signal(number, handler)
    out, err = capfd.readouterr()
    assert message in err
    assert (out, "Traceback" in err, "internal error" in err) == ("", False, False)


def test_stdin(folder: Path) -> None:
    assert call_scan("pin", text="a pin").stdout == "a pin\n"
    assert call_scan("-Hob", "pin", "-", text="a pin").stdout == "(standard input):2:pin\n"
    assert call_scan("-obf", "-", folder / "a.txt", text="pin\n").stdout == "12:pin\n"


@pytest.mark.parametrize(
    "options",
    [["a needle"], ["-E", "a ne+dle"], ["-UE", "a ne+dle"], ["--decode", "base64", "-E", "a ne+dle"]],
)
def test_matches_around_the_end_of_what_is_read_at_once(options: list[str], tmp_path: Path) -> None:
    """A match is shown as it is, though the memory that it was read into has the next part of the file."""
    place = (1 << 23) - 1 if "--decode" not in options else (3 << 21) - 4
    content = b"hay.".ljust(place, b".") + b"a needle" + b"-" * (1 << 23)
    for shift in (0, 1000):
        shifted = content[shift:] + content[:shift]
        text = base64.b64encode(shifted) if "--decode" in options else shifted
        (tmp_path / "big").write_bytes(text)
        ran = call_scan("-o", *options, "big", cwd=tmp_path)
        assert ran.stdout == "a needle\n"


def test_files_of_patterns(folder: Path) -> None:
    """Empty lines are no patterns, an empty file has none, and line ends of Windows are none of a pattern."""
    (folder / "words").write_bytes(b"pin\r\n\r\n\nneedle\n")
    assert call_scan("-c", "-f", "words", "a.txt", cwd=folder).stdout == "2\n"
    assert call_scan("-c", "-f", os.devnull, "a.txt", cwd=folder).stdout == "0\n"
    ran = call_scan("-f", os.devnull, "a.txt", "none", cwd=folder)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert call_scan("-f", os.devnull, "a.txt", cwd=folder).returncode == 1
    assert call_scan("-o", "pin\nneedle", "a.txt", cwd=folder).stdout == "needle\npin\nneedle\n"


def test_objects(folder: Path) -> None:
    (folder / "x").write_bytes(base64.b64encode(b"a\nneedle\xff"))
    ran = call_scan("--decode", "base64", "--json", "-E", r"(?s)\n.*", "x", cwd=folder)
    assert json.loads(ran.stdout) == {
        "path": "x",
        "line": 1,
        "column": 2,
        "text": base64.b64encode(b"a\nneedle\xff").decode(),
        "start": 1,
        "end": 12,
        "number": 0,
        "pattern": r"(?s)\n.*",
        "match": {"base64": base64.b64encode(b"\nneedle\xff").decode()},
    }


def unescaped(text: str) -> bytes:
    def octet(match: re.Match[bytes]) -> bytes:
        return {b"n": b"\n", b"r": b"\r", b"t": b"\t", b"\\": b"\\"}.get(match[1]) or bytes(
            [int(match[1][1:], 16)]
        )

    return re.sub(rb"\\(x..|.)", octet, text.encode())


def test_escapes() -> None:
    """A line that shows the bytes, from which they can be told, and that no terminal obeys."""
    assert escaped(b"plain \xc3\xbc") == "plain ü"
    assert escaped(b"\x1b[1m\\\n\r\t\x00\xff\xe2\x80\xae") == r"\x1b[1m\\\n\r\t\x00\xff\xe2\x80\xae"
    rng = random.Random(1)
    for _ in range(500):
        content = rng.randbytes(9) + rng.choice(["ü", "\u202e", "漢", "\\x41", "\u2028"]).encode()
        assert unescaped(escaped(content)) == content
        assert escaped(content).isprintable()


@pytest.mark.parametrize("seed", quick(range(3)))
@pytest.mark.skipif(shutil.which("grep") is None, reason="no grep")
def test_beside_grep(seed: int, tmp_path: Path) -> None:
    """The offsets and matches of `grep -b -o`, of strings and of expressions, and its exit code."""
    rng = random.Random(seed)
    words = [bytes(rng.choices(b"abc", k=rng.choice([2, 3, 5]))) for _ in range(40)]
    (tmp_path / "text").write_bytes(
        b"".join(rng.choice(words) + rng.choice([b" ", b"\n", b""]) for _ in range(20_000))
    )
    (tmp_path / "words").write_bytes(b"\n".join(rng.sample(words, 6)) + b"\n")
    environment = {**os.environ, "LC_ALL": "C"}
    for options in (
        ["-F", "-f", "words"],
        ["-E", "a(b|c)+a"],
        ["-E", "[ab]{2,4}c?"],
        ["-E", "b+|abc"],
        ["-i", "-F", "AbC"],
    ):
        command = ["grep", "-b", "-o", "-a", *options, "text"]
        grep = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )
        ran = call_scan("-b", "-o", *options, "text", cwd=tmp_path)
        assert (ran.returncode, ran.stdout) == (grep.returncode, grep.stdout), options


def test_a_terminal_gets_colours(run_scan: Callable, folder: Path) -> None:
    """And nothing else any, but with --color=always."""
    leader, follower = pty.openpty()
    environment = {name: value for name, value in os.environ.items() if name != "NO_COLOR"} | {
        "TERM": "xterm"
    }
    for options, colored in (([], True), (["--color=never"], False)):
        subprocess.run(
            [*SCAN, *options, "pin", "a.txt"],
            cwd=folder,
            stdout=follower,
            env=environment,
            check=True,
            timeout=60,
        )
        assert (b"\x1b[01;31m\x1b[Kpin\x1b[m" in os.read(leader, 1000)) == colored
    os.close(follower)
    os.close(leader)
    for options, colored in (([], False), (["--color=always"], True)):
        ran = run_scan(*options, "pin", "a.txt", cwd=folder, env=environment)
        assert (ran.returncode, "\x1b" in ran.stdout) == (0, colored)


def test_its_own_output_is_not_searched(folder: Path) -> None:
    """Each match would be found again behind it, without end."""
    with (folder / "out").open("wb") as out:
        ran = subprocess.run(
            [*SCAN, "-r", "needle"], cwd=folder, stdout=out, stderr=subprocess.PIPE, check=False, timeout=60
        )
    assert ran.returncode == 2
    assert ran.stderr == b"error: cannot read out: the output goes there\n"
    assert (folder / "out").read_text().count("needle") == 3


def test_folders(folder: Path) -> None:
    """Links and pipes in folders are left out; a link that is named is followed."""
    (folder / "link").symlink_to("sub")
    (folder / "sub" / "loop").symlink_to(".")
    os.mkfifo(folder / "pipe")
    assert call_scan("-rl", "one", cwd=folder).stdout == "sub/c.txt\n"
    assert call_scan("-rl", "one", "link", cwd=folder).stdout == "link/c.txt\n"


@pytest.mark.skipif(sys.platform != "linux", reason="signals of a shell's job")
def test_a_closed_pipe_and_ctrl_c(folder: Path) -> None:
    with (folder / "big").open("wb") as big:
        big.write(b"needle\n" * 1_000_000)
    process = subprocess.Popen(
        [*SCAN, "needle", "big"], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.readline()
    process.stdout.close()
    assert process.stderr.read() == b""
    assert process.wait(60) == -signal.SIGPIPE
    process.stderr.close()
    process = subprocess.Popen(
        [*SCAN, "needle"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=hear_interrupts,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"needle\n")
    process.stdin.flush()
    process.stdout.readline()  # it waits for more by now
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert (process.returncode, err.strip()) == (130, b"")


def test_matches_of_a_pipe_come_at_once() -> None:
    """Before the writer closes it."""
    process = subprocess.Popen([*SCAN, "needle"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(b"a needle and more\n")
    process.stdin.flush()
    assert process.stdout.readline() == b"a needle and more\n"
    process.communicate(timeout=20)
    assert process.returncode == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux enlarges pipes")
def test_a_pipe_is_read_in_large_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of 64 KiB, which is what a pipe has at first, costs more than the search in it."""
    read, write = os.pipe()
    with os.fdopen(read, "rb", buffering=0) as stdin, os.fdopen(write, "wb", buffering=0) as writer:
        monkeypatch.setattr("sys.stdin", stdin)
        os.set_blocking(write, False)
        parts = open_parts("-", None)
        writer.write(b"a")
        assert bytes(next(parts)) == b"a"
        assert writer.write(bytes(PIPE)) == PIPE
        assert len(next(parts)) == PIPE


def test_help_loads_nothing_heavy() -> None:
    script = "import sys; from vyre_scan.tool.command import main; main(['--help']); print(*sys.modules, file=sys.stderr)"
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=60
    )
    assert "--blobs" in ran.stdout
    loaded = set(ran.stderr.split())
    assert not loaded & {
        "numpy",
        "llvmlite",
        "lark",
        "re._compiler.x",
        "json",
        "vyre_scan.search",
        "vyre_opt.execution",
    }


def test_blobs(tmp_path: Path) -> None:
    """Keys in JSON, mail, a JSON web token, a PEM file in YAML, and the places where they are."""
    secret = b"AKIAIOSFODNN7EXAMPLE"
    pem = base64.encodebytes(b"key material " * 9 + secret).replace(b"\n", b"\n    ")
    token = b".".join(
        base64.urlsafe_b64encode(part).rstrip(b"=")
        for part in (b'{"alg":"HS256"}', b'{"k":"' + secret + b'"}', b"\xff" * 32)
    )
    files = {
        "config.json": json.dumps(
            {"url": "https://x/y", "data": base64.b64encode(b"id=1;" + secret).decode()}
        ).encode(),
        "mail": b"Content-Transfer-Encoding: base64\r\n\r\n"
        + base64.encodebytes(b"x" * 99 + secret + b"y" * 99).replace(b"\n", b"\r\n"),
        "key.yaml": b"key: |\n    -----BEGIN KEY-----\n    " + pem + b"-----END KEY-----\n",
        "log": b"GET /a?jwt=" + token + b" 200\n",
        "plain": b"not encoded: " + secret,
    }
    for name, content in files.items():
        (tmp_path / name).write_bytes(content)
    ran = call_scan("-r", "--only-blobs", "--json", "-E", "AKIA[0-9A-Z]{16}", cwd=tmp_path)
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert [row["path"] for row in found] == ["config.json", "key.yaml", "log", "mail"]
    for row in found:
        assert row["match"] == secret.decode()
        text = b"".join(files[row["path"]][row["start"] : row["end"]].split())
        assert any(secret[2:-2] in decoded(b"A" * lead + text) for lead in range(4))


def decoded(text: bytes) -> bytes:
    whole = text[: len(text) // 4 * 4]
    return base64.urlsafe_b64decode(whole.replace(b"+", b"-").replace(b"/", b"_"))


@pytest.fixture(scope="module")
def big_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """With a file of 300 MB without a line break, which has three needles in base64."""
    path = tmp_path_factory.mktemp("big") / "big"
    hay = base64.b64encode(bytes(range(256)) * 3) * 2000
    with path.open("wb") as big:
        for number in range(150):
            big.write(base64.b64encode(b"a needle").replace(b"=", b"A") + hay if number % 50 == 7 else hay)
    yield path.parent
    path.unlink()  # pytest keeps the folders of some runs


@pytest.mark.skipif(sys.platform != "linux", reason="asks /proc")
@pytest.mark.parametrize(
    "options",
    quick(
        [
            ["--decode", "base64", "-E", "ne+dle"],
            ["--only-blobs", "a needle"],
            ["--only-blobs", "-E", "ne+dle"],
        ]
    ),
)
def test_memory(options: list[str], big_folder: Path) -> None:
    """A large file without a line break takes less memory than it has bytes."""
    # not getrusage, whose figure begins with that of the process which started this one
    usage = "status = dict(line.split(':') for line in open('/proc/self/status')); print(status['VmHWM'].split()[0], file=sys.stderr)"
    script = SCRIPT.replace("sys.exit(main())", f"code = main(); {usage}")
    ran = subprocess.run(
        [sys.executable, "-c", script, "-c", *options, "big"],
        cwd=big_folder,
        capture_output=True,
        text=True,
        check=True,
        timeout=100,
    )
    assert ran.stdout == "3\n"
    assert int(ran.stderr) < 250_000
