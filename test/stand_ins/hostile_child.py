"""In the place of a child process that has limits: answers, or hands over results, as HOSTILE says.

In that of `vyre_opt.driver.limited_worker` it compiles well first.
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import struct
import time
from collections.abc import Mapping
from typing import Any

READY = struct.pack("<cQ", b"r", 0)


def frame(kind: bytes, payload: bytes) -> bytes:
    return struct.pack("<cQ", kind, len(payload)) + payload


def answer(value: Any) -> bytes:
    return frame(b"j", json.dumps(value).encode())


class Command:
    """Pickled, it would run a command where it is read."""

    def __reduce__(self) -> tuple[Any, ...]:
        return (os.system, ("touch unpickled",))


def outputs(shape: list[int], dtype: str = "uint8", length: int = 0) -> bytes:
    """An answer that promises an array, and the head of a frame that promises as many bytes."""
    return answer({"outputs": [["y", dtype, shape]]}) + struct.pack("<cQ", b"d", length)


def error(**fields: Any) -> bytes:
    return answer({"error": "DiagnosticError", "message": "m", "sources": [], **fields})


def diagnostic(**fields: Any) -> bytes:
    return error(diagnostics=[{"severity": "error", "message": "m", "loc": None, "notes": [], **fields}])


ANSWERS = {
    "random bytes": bytes(range(7, 207)),
    "a long JSON": struct.pack("<cQ", b"j", 1 << 62),
    "no JSON": frame(b"j", b"\xff{"),
    "deep JSON": frame(b"j", b"[" * 100_000),
    "a long number": frame(b"j", b'{"outputs": ' + b"9" * 100_000 + b"}"),
    "a list": answer([1, 2]),
    "a pickle": frame(b"j", pickle.dumps(Command())),
    "nothing in it": answer({}),
    "outputs of another type": answer({"outputs": {"y": 1}}),
    "an object array": outputs([1], "object", 8),
    "more bytes than its shape": outputs([4], "uint8", 1 << 40),
    "fewer bytes than its shape": outputs([4], "uint8", 0),
    "a negative extent": outputs([-1], "uint8", 1),
    "an extent that is none": answer({"outputs": [["y", "uint8", [1.5]]]}),
    "extents beyond NumPy": outputs([0, 1 << 61, 1 << 61], "uint8", 0),
    "more than there is": outputs([1 << 60], "uint8", 1 << 60),
    "more than a word": outputs([1 << 61, 1 << 61], "float64", (1 << 64) - 1),
    "a read that nobody asked for": answer({"read": []}),
    "another error": answer({"error": "SystemExit", "message": "m"}),
    "an error without a message": answer({"error": "BadInputs"}),
    "a limit that is none": answer({"error": "LimitError", "limit": "__class__", "message": "m"}),
    "a limit that is not set": answer({"error": "LimitError", "limit": "grid", "message": "m"}),
    "a list for a limit": answer({"error": "LimitError", "limit": [1], "message": "m"}),
    "a place outside": diagnostic(loc=[0, 0, 1 << 40]),
    "a place in no text": diagnostic(loc=[7, 0, 0]),
    "a place before the text": diagnostic(loc=[0, -5, 0]),
    "another severity": diagnostic(severity="fatal"),
    "notes of another type": diagnostic(notes=[[1, 2]]),
    "diagnostics of another type": error(diagnostics="none"),
    "half a frame": frame(b"j", b"{}")[:-1],
}
"""What is no answer, by what is wrong with it."""


RESULTS = {
    "another file": frame(b"p", b"other") + frame(b"d", b"contents"),
    "a long path": frame(b"p", b"y" * 100_000),
    "half a file": frame(b"p", b"y.npy") + frame(b"d", b"contents")[:-1],
    "no contents": frame(b"p", b"y.npy"),
    "contents without a path": frame(b"d", b"contents"),
}
"""What no tool sends as its results, by what is wrong with it."""


def write(fd: int, content: bytes) -> None:
    while content:
        content = content[os.write(fd, content) :]


def main(start: Mapping[str, Any]) -> None:
    what, answers = os.environ["HOSTILE"], start["answers"]
    if what == "ends at once":
        return
    if what in RESULTS:
        write(answers, READY + RESULTS[what])
        return
    write(answers, READY + answer({"owner": "program", "name": "p"}))
    if what in ANSWERS:
        write(answers, ANSWERS[what])
    elif what == "sends for ever":
        write(answers, outputs([1 << 32], "uint8", 1 << 32))
        while True:
            write(answers, bytes(1 << 12))
    elif what == "talks for ever":
        while True:
            write(2, bytes(1 << 16))
    elif what == "closes its pipe":
        os.close(answers)
        time.sleep(1000)
    elif what == "sleeps":
        time.sleep(1000)
    elif what.startswith("SIG"):
        signal.signal(signal.Signals[what], signal.SIG_DFL) if what != "SIGKILL" else None
        os.kill(os.getpid(), signal.Signals[what])
