"""vyre-scan prints what grep prints, byte by byte, with the same options on the same trees, and chooses the files that ripgrep would."""

from __future__ import annotations

import os
import random
import shutil
import subprocess
from pathlib import Path

import pytest
from support.quick import quick
from support.tools_inside import call_scan

from vyre_scan.tool import command, documents

ROOT = Path(__file__).parents[2]
WORDS = ("the", "need", "a", "in", "scan", "x", "é", "ab", "abab", "foo_bar", "", "  ", "\t", "end")
EXPRESSIONS = (
    "need", "^the", "end$", "^$", "a.*n", "[a-c]+b", "(foo|need)", "x?", "s.a", "[[:upper:]]", "ab{1,2}", "a|ab|abab", "[^a-z]", r"\bin\b",
)  # fmt: skip
STRINGS = ("need", "ab", "a", "the", "foo_bar", "zzz", " ")

pytestmark = pytest.mark.skipif(shutil.which("grep") is None, reason="no grep")


def by_grep(args: list[str], folder: Path) -> tuple[int, str]:
    ran = subprocess.run(
        ["grep", "-a", *args],
        cwd=folder,
        env={**os.environ, "LC_ALL": "C"},
        capture_output=True,
        check=False,
        timeout=60,
    )
    return ran.returncode, ran.stdout.decode(errors="surrogateescape")


def some_text(rng: random.Random) -> bytes:
    lines = [" ".join(rng.choices(WORDS, k=rng.randrange(7))) for _ in range(rng.choice((0, 1, 5, 40, 300)))]
    text = rng.choice(("\n", "\n", "\r\n")).join(lines).encode()
    return text + rng.choice((b"", b"\n", b"\n\n"))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("tree")
    rng = random.Random(1)
    for name in (
        "a.txt",
        "b.py",
        "c.txt",
        "sub/d.txt",
        "sub/e.py",
        "sub/deep/f.md",
        ".hidden/g.txt",
        "sub/.h.txt",
        "empty",
    ):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(some_text(rng) if name != "empty" else b"")
    return folder


def some_options(rng: random.Random) -> list[str]:
    options = rng.sample(["-n", "-b", "-v", "-w", "-x", "-i", "-h", "-H"], rng.randrange(4))
    kind = rng.choice(("", "", "-c", "-l", "-L", "-o", "-m2"))
    if kind == "-o" and "-v" in options:
        kind = ""
    options += [kind] * bool(kind)
    if kind in ("", "-c"):
        options += rng.choice(([], [], ["-A1"], ["-B2"], ["-C1"], ["-A2", "-B1"]))
    options += rng.choice(([], [], ["--include=*.txt"], ["--exclude=*.py"], ["--exclude-dir=deep"]))
    return options


def check(rng: random.Random, folder: Path) -> None:
    options = some_options(rng)
    if rng.random() < 0.6:
        expression = rng.choice(EXPRESSIONS)
        if "-o" in options and "|" in expression:  # of which grep takes the longest, and `re` the first
            expression = "need"
        patterns = ["-E", "-e", expression]
    else:
        patterns = [
            "-F",
            *(part for one in rng.sample(STRINGS, rng.choice((1, 1, 2))) for part in ("-e", one)),
        ]
    args = [*options, "-r", *patterns, "."]
    ours = call_scan("-a", *args, cwd=folder)
    theirs = by_grep([*args[:-1], "--", "."], folder)
    assert (ours.returncode, sorted(_files(ours.stdout))) == (theirs[0], sorted(_files(theirs[1]))), args


def _files(output: str) -> list[str]:
    """The lines, without what stands between groups of files, whose order is another one."""
    return [line for line in output.split("\n") if line != "--"]


def check_one(rng: random.Random, folder: Path, path: str) -> None:
    """One file, whose output is the same in its order, too."""
    options = [one for one in some_options(rng) if not one.startswith("--")]
    args = [*options, "-E", "-e", rng.choice([one for one in EXPRESSIONS if "|" not in one]), path]
    ours = call_scan("-a", *args, cwd=folder)
    theirs = by_grep(args, folder)
    assert (ours.returncode, ours.stdout) == theirs, args


@pytest.mark.parametrize("seed", quick(range(200), keep=2))
def test_the_same_as_grep(seed: int, tree: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where files are read in parts, which end within lines."""
    rng = random.Random(seed)
    for number in range(12):
        if number == 6:
            monkeypatch.setattr(documents, "SMALL", 1)
            monkeypatch.setattr(documents, "PART", 50)
        check(rng, tree)
        check_one(rng, tree, rng.choice(("a.txt", "b.py", "c.txt", "sub/d.txt")))


@pytest.mark.parametrize(
    "args",
    [
        ["-rn", "-E", r"def \w+_of\b"],
        ["-rc", "Scanner"],
        ["-rl", "-i", "AUTOMATON"],
        ["-rnw", "-C1", "lowered"],
    ],
)
def test_a_real_tree(args: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this project, some together and some in parts."""
    monkeypatch.setattr(command, "BATCH_BYTES", 100_000)
    monkeypatch.setattr(documents, "SMALL", 20_000)
    folder = ROOT / "vyre_opt"
    options = [*args, "--include=*.py", "ir", "kernels"]
    ours = call_scan(*options, cwd=folder)
    theirs = by_grep(["-E", *options], folder)
    assert (ours.returncode, sorted(ours.stdout.split("\n"))) == (theirs[0], sorted(theirs[1].split("\n")))
    assert ours.stdout
