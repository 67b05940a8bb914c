"""How soon an editor has the problems of a text after a keystroke: vyre-lsp, spoken to over its stdin and stdout.

    python bench/editor.py [--rounds N] [--out FILE]

Client and server share one core.  A figure is the time from the write of `textDocument/didChange` to the arrival of the
problems of that version of the text; where other processes want that core, the server's processor time says what it
would be.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

from frontend_inputs import nested_vyre, straight_vyre
from measure import machine, save, today

RESULT = Path(__file__).parent / "results" / "editor.json"
OPS = 10_000
LIMIT_MS = 100.0
SERVER = "from vyre_opt.cli.start import vyre_lsp; raise SystemExit(vyre_lsp())"

Edit = tuple[int, int, str]
"""Offsets of what is replaced, and by what."""


class Client:
    """The least that an editor does: one text, its changes, and the problems that come back."""

    def __init__(self) -> None:
        command = [sys.executable, "-c", SERVER]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.version = 0
        self.send("initialize", {"processId": None, "capabilities": {}, "rootUri": None}, id=1)
        while self.read().get("id") != 1:
            pass
        self.send("initialized", {})

    def __enter__(self) -> Client:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.send("shutdown", None, id=2)
        self.send("exit", None)
        self.process.wait()

    def send(self, method: str, params: Any, **more: Any) -> None:
        body = json.dumps({"jsonrpc": "2.0", "method": method, "params": params, **more}).encode()
        assert self.process.stdin is not None
        self.process.stdin.write(b"Content-Length: %d\r\n\r\n%s" % (len(body), body))
        self.process.stdin.flush()

    def read(self) -> dict[str, Any]:
        stream = self.process.stdout
        assert stream is not None
        size = 0
        while (line := stream.readline()).strip():
            name, _, value = line.partition(b":")
            if name.lower() == b"content-length":
                size = int(value)
        if not size:
            raise SystemExit("the server has ended")
        message: dict[str, Any] = json.loads(stream.read(size))
        return message

    def problems(self) -> int:
        """How many problems the newest text has, when they arrive."""
        while True:
            message = self.read()
            if message.get("method") == "textDocument/publishDiagnostics":
                params = message["params"]
                if params.get("version") == self.version:
                    return len(params["diagnostics"])

    def open(self, text: str) -> int:
        self.version += 1
        item = {"uri": "file:///text.vyre", "languageId": "vyre", "version": self.version, "text": text}
        self.send("textDocument/didOpen", {"textDocument": item})
        return self.problems()

    def edit(self, text: str, edit: Edit) -> int:
        """Tell of an edit of `text`, and wait for the problems."""
        start, end, new = edit
        self.version += 1
        change = {"range": {"start": _position(text, start), "end": _position(text, end)}, "text": new}
        document = {"uri": "file:///text.vyre", "version": self.version}
        self.send("textDocument/didChange", {"textDocument": document, "contentChanges": [change]})
        return self.problems()


def _position(text: str, offset: int) -> dict[str, int]:
    line = text.count("\n", 0, offset)
    return {"line": line, "character": offset - (text.rfind("\n", 0, offset) + 1)}


# --- what is typed ------------------------------------------------------------------------


def a_line(text: str) -> Iterator[Edit]:
    """A new statement in the middle, letter by letter, and its end again by backspaces."""
    place = text.index("\n", len(text) // 2)
    line = "\n  %new = add %a, %b : u32"
    for number, letter in enumerate(line):
        yield place + number, place + number, letter
    for number in range(len(line), 0, -1):
        yield place + number - 1, place + number, ""


def a_definition(text: str) -> Iterator[Edit]:
    """The name of a value that others use gets letters, and loses them."""
    place = text.index(" =", text.index("\n", len(text) // 2))
    for number, letter in enumerate("_name"):
        yield place + number, place + number, letter
    for number in range(5, 0, -1):
        yield place + number - 1, place + number, ""


def a_declaration(text: str) -> Iterator[Edit]:
    """A buffer before all ops."""
    place = text.index("\n", text.index("buffer"))
    line = "\n  buffer @more : f32[64] read binding(1)"
    for number, letter in enumerate(line):
        yield place + number, place + number, letter
    for number in range(len(line), 0, -1):
        yield place + number - 1, place + number, ""


def a_block(text: str) -> Iterator[Edit]:
    """A loop in the middle, which is open until its brace is typed."""
    place = text.index("\n", len(text) // 2)
    line = "\n  for %k = 0 to 4 step 1 {\n  }"
    for number, letter in enumerate(line):
        yield place + number, place + number, letter
    yield place, place + len(line), ""


def items(count: int) -> str:
    """`count` programs of 100 ops, and a pipeline that launches the first."""
    body = straight_vyre(100).partition("program")[2]
    programs = "".join("\nprogram" + body.replace("@f", f"@f{number}", 1) for number in range(count))
    return (
        f"vyre 1\n{programs}\npipeline @main {{\n  buffer @x : u32[64] write\n  launch @f0 grid(1) (@x)\n}}\n"
    )


CASES: dict[str, tuple[Callable[[], str], Callable[[str], Iterator[Edit]]]] = {
    "one program: a line": (lambda: straight_vyre(OPS), a_line),
    "one program: a name": (lambda: straight_vyre(OPS), a_definition),
    "one program: a declaration": (lambda: straight_vyre(OPS), a_declaration),
    "one program: a block": (lambda: straight_vyre(OPS), a_block),
    "one program with blocks: a line": (lambda: nested_vyre(OPS // 30), a_line),
    "100 programs: a line": (lambda: items(OPS // 100), a_line),
}


def _processor_seconds(process: subprocess.Popen[bytes]) -> float:
    """Of all threads of a process; 0 where the system does not say it."""
    tasks = Path(f"/proc/{process.pid}/task").glob("*/schedstat")
    return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9


Sample = tuple[float, float]
"""Seconds until the problems are there, and the server's processor time until then."""


def measure(text: str, typed: Callable[[str], Iterator[Edit]], rounds: int) -> tuple[float, list[Sample]]:
    """Seconds until the problems of the text as it is opened, and what each keystroke takes."""
    with Client() as client:
        start = time.perf_counter()
        if client.open(text):
            raise SystemExit("the text has problems")
        opened = time.perf_counter() - start
        samples: list[Sample] = []
        for _ in range(rounds):
            for edit in typed(text):
                busy, start = _processor_seconds(client.process), time.perf_counter()
                client.edit(text, edit)
                samples.append((time.perf_counter() - start, _processor_seconds(client.process) - busy))
                text = text[: edit[0]] + edit[2] + text[edit[1] :]
    return opened, samples


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=3, help="how often each edit is typed (3)")
    parser.add_argument("--out", type=Path, default=RESULT, help="the JSON file to write")
    args = parser.parse_args(arguments)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    rows, samples, targets = [], {}, []
    for case, (make, typed) in CASES.items():
        print(case, file=sys.stderr)
        opened, measured = measure(make(), typed, args.rounds)
        samples[case] = [[round(value, 4) for value in sample] for sample in measured]
        seconds, busy = zip(*measured, strict=True)
        middle, worst = 1000 * median(seconds), 1000 * max(seconds)
        figures = (middle, worst, 1000 * median(busy), 1000 * max(busy), 1000 * opened)
        rows.append([case, str(len(measured)), *(f"{figure:.0f}" for figure in figures)])
        least = min(middle, 1000 * median(busy) or middle)  # without what other processes take of the core
        shown = f"{least:.0f} ms of the server, {middle:.0f} ms in all"
        what = f"{case}: the problems {LIMIT_MS:.0f} ms after a keystroke, of a core of its own"
        targets.append({"what": what, "measured": shown, "met": least <= LIMIT_MS})
    result: dict[str, Any] = {
        "name": "editor",
        "title": "Editor: the time from a keystroke to the problems of the text",
        "about": (
            f"Texts of {OPS:,} ops in vyre-lsp, with a client over stdio; both on one core. Each keystroke is sent when the "
            "problems after the one before have arrived, and the figure is the time until its own have. Edits are typed "
            "letter by letter and taken back. `opened`: from the text to its problems, in a server that has just started. "
            "`server`: its processor time alone, which is nearly all on a core of its own; other processes wanted this core too."
        ),
        "date": today(),
        "machine": machine(),
        "versions": {"vyre-opt": version("vyre-opt"), "pygls": version("pygls")},
        "absent": [],
        "tables": [
            {
                "caption": "Milliseconds from a keystroke to the problems of the text, and the server's processor time for it",
                "columns": [
                    "Edit",
                    "Keystrokes",
                    "median",
                    "worst",
                    "server, median",
                    "server, worst",
                    "opened",
                ],
                "rows": rows,
            }
        ],
        "targets": targets,
        "samples": samples,
    }
    save(args.out, result)
    for target in targets:
        print(f"{'met   ' if target['met'] else 'NOT MET'} {target['what']}: {target['measured']}")


if __name__ == "__main__":
    main()
