"""Completion by real shells: bash by the variables that it sets, and bash, zsh and fish at a terminal, by the Tab key."""

from __future__ import annotations

import os
import pty
import re
import select
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.quick import quick

SETUP = {
    "bash": 'eval "$(vyre-opt --completion bash)"; eval "$(vyre-run --completion bash)"',
    "zsh": 'autoload -U compinit; compinit -u -d "$PWD/.dump"; eval "$(vyre-opt --completion zsh)"; '
    'eval "$(vyre-run --completion zsh)"',
    "fish": "vyre-opt --completion fish | source; vyre-run --completion fish | source",
}

COMMANDS = {
    "bash": ["bash", "--norc", "--noprofile", "-i"],
    "zsh": ["zsh", "-f", "-i"],
    "fish": ["fish", "--no-config", "-i"],
}


def needs(shell: str) -> pytest.MarkDecorator:
    return pytest.mark.skipif(shutil.which(shell) is None, reason=f"no {shell}")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """With a .vyre file, another and a folder."""
    (tmp_path / "plain.vyre").write_text("vyre 1\n")
    (tmp_path / "plain.txt").write_text("text\n")
    (tmp_path / "my programs").mkdir()
    (tmp_path / "my programs" / "a.vyre").write_text("vyre 1\n")
    return tmp_path


def environment(folder: Path) -> dict[str, str]:
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    return {**os.environ, "PATH": path, "HOME": str(folder), "TERM": "xterm", "PS1": "$ "}


# --- bash, by COMP_WORDS


WORDS = [
    # line, as bash splits it        what replaces its last word
    ("vyre-opt --pass = can", ["canonicalize"]),
    ("vyre-opt --pass can", ["canonicalize"]),
    ("vyre-opt --pass = cse,dc", ["cse,dce"]),
    ("vyre-opt --pass-pipeline = cse,un", ["cse,unroll"]),
    ("vyre-opt --pass = unroll{fa", ["unroll{factor="]),
    ("vyre-opt --pass = unroll{factor = 4},cs", ["4},cse"]),
    ("vyre-opt --pass = store-f", ["store_forward"]),
    ("vyre-opt --remarks = decode", ["decode_scan_fuse"]),
    ("vyre-opt --emit = j", ["json"]),
    ("vyre-opt --target = sm_9", ["sm_90", "sm_90a"]),
    ("vyre-opt --targ", ["--target"]),
    ("vyre-opt --no-such = x", []),
    ("vyre-opt pl", ["plain.vyre"]),
    ("vyre-opt --pass = cse -o out pl", ["plain.vyre"]),
    ("vyre-opt --crash-reproducer = pl", ["plain.txt", "plain.vyre"]),
    ("vyre-run --in x = plain.t", ["plain.txt"]),
    ("vyre-run plain.vyre --target = c", ["cpu", "cuda"]),
    ("vyre-cache ver", ["verify"]),
    ("vyre-lsp --std", ["--stdio"]),
    ("vyre-scan -f pl", ["plain.txt", "plain.vyre"]),
    ("vyre-reduce pl", ["plain.vyre"]),
    ("vyre-reduce --skip-d", ["--skip-delta-passes"]),
    ("vyre-reduce --test-a", ["--test-arg"]),
]


@needs("bash")
@pytest.mark.parametrize("cases", quick([WORDS[::2], WORDS[1::2]], ids=["half", "other half"]))
def test_bash_by_its_variables(cases: list[tuple[str, list[str]]], folder: Path) -> None:
    """One bash for many lines, since each begins a process of the tool anyway."""
    script = ['for t in opt run cache lsp scan reduce; do eval "$(vyre-$t --completion bash)"; done']
    for line, _ in cases:
        words = line.split()
        function = f"_{words[0].replace('-', '_')}_completion"
        script.append(
            f"COMP_WORDS=({' '.join(map(_quoted, words))}); COMP_CWORD={len(words) - 1}; {function} {words[0]}; "
            'echo "${COMPREPLY[*]}"'
        )
    ran = subprocess.run(
        ["bash", "--norc", "-c", "\n".join(script)],
        cwd=folder, env=environment(folder), capture_output=True, text=True, timeout=120, check=True,
    )  # fmt: skip
    assert ran.stderr == ""
    shown = dict(zip([line for line, _ in cases], map(str.split, ran.stdout.splitlines()), strict=True))
    assert shown == dict(cases)


def _quoted(word: str) -> str:
    return f"'{word}'"


@needs("bash")
def test_bash_that_splits_no_words_at_equals_signs(folder: Path) -> None:
    """As with COMP_WORDBREAKS=${COMP_WORDBREAKS//=}, which many set."""
    script = (
        'eval "$(vyre-opt --completion bash)"; COMP_WORDS=(vyre-opt --pass=can); COMP_CWORD=1; '
        '_vyre_opt_completion vyre-opt; echo "${COMPREPLY[*]}"'
    )
    ran = subprocess.run(
        ["bash", "--norc", "-c", script], env=environment(folder), capture_output=True, text=True, check=True
    )
    assert ran.stdout == "--pass=canonicalize\n"


# --- at a terminal


def typed(shell: str, folder: Path, line: str, expected: str) -> str:
    """What the terminal shows after a line is typed and Tab is pressed, up to when it shows `expected`."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(folder)
        os.execvpe(COMMANDS[shell][0], COMMANDS[shell], environment(folder))
    try:
        os.write(terminal, f"{SETUP[shell]}; echo rea''dy\r".encode())
        _shown(terminal, "ready")
        os.write(terminal, f"{line}\t".encode())
        return _shown(terminal, expected)
    finally:
        os.kill(process, 9)
        os.close(terminal)
        os.waitpid(process, 0)


def _shown(terminal: int, expected: str, seconds: float = 30.0) -> str:
    """What comes, without the codes that move the cursor and set colours, until `expected` is among it."""
    content, deadline = b"", time.monotonic() + seconds
    text = ""
    while expected not in text and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.2)[0]:
            content += os.read(terminal, 65536)
            text = re.sub(
                r"\x1b(?:\[[0-9;?<>=]*[A-Za-z]|\][^\x07]*\x07|[=>()][B0]?)|\x08",
                "",
                content.decode(errors="replace"),
            )
    return text


@pytest.mark.parametrize("shell", [pytest.param(shell, marks=needs(shell)) for shell in COMMANDS])
@pytest.mark.parametrize(
    ("line", "expected"),
    quick(
        [
            ("vyre-opt --pass=cse,cano", "nicalize"),
            ("vyre-run --in x=plain.t", "xt"),
            ("vyre-opt --pass=can", "onicalize"),
            ("vyre-opt --emit=js", "on"),
            ("vyre-opt plai", "n.vyre"),
        ],
        keep=2,
    ),
)
def test_tab_completes(shell: str, line: str, expected: str, folder: Path) -> None:
    whole = f"{line}{expected}"
    assert whole in typed(shell, folder, line, whole)
