"""A call made three times in a process of its own, as text."""

from __future__ import annotations

import gc
import json
import linecache
import os
import select
import signal
import traceback
import warnings
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages
from typing import Any

import vyre_opt

from .entries import Process
from .kernels import PIPELINES, PROGRAMS
from .values import Arguments, digest, shown, text_of

__all__ = ["LIMIT_S", "Turn", "results_of", "turns_of"]

Turn = dict[str, Any]
"""Of one turn: `out`, what was returned; `arrays`, what the arguments held afterwards, where that changed; `error`, its
type and text; `inside`, where in the package no `raise` meant it; `warned`; `printed`; `compiled`, how many by then."""

LIMIT_S = 60
SEEDS = (0, 0, 1)
"""What the numbers of each turn are drawn from."""


def turns_of(call: dict[str, Any], is_real: bool = False) -> list[Turn]:
    """The turns of a call.  For a process that has not called anything yet."""
    process = Process(is_real)
    if call.get("stream"):
        process.use_stream()
    made = Arguments(0, process.to_gpu, process.dispatcher)
    entry: Any = None
    turns = []
    for seed in SEEDS:
        turn: Turn = {}
        with warnings.catch_warnings(record=True) as warned:
            warnings.simplefilter("always")
            arguments = Arguments(seed, process.to_gpu, process.dispatcher)
            args, named = arguments.build(call["args"]), arguments.build({"dict": call.get("named", {})})
            before = _contents(process, arguments)
            lines: list[str] = []
            try:
                with vyre_opt.on_debug_print(lines.append):
                    if entry is None:
                        entry = process.entry(call["of"], made.build({"dict": call.get("options", {})}))
                    result = entry(*args, **named)
                    vyre_opt.synchronize()
                turn["out"] = shown(result, process.to_host)
            except Exception as error:
                turn |= _as_text(error)
                _forget_fault()
            after = _contents(process, arguments)
            if after != before:
                turn["arrays"] = [now if now != then else "" for now, then in zip(after, before, strict=True)]
            if lines:
                turn["printed"] = digest_of_lines(lines)
            if warned:
                turn["warned"] = [f"{w.category.__name__}: {text_of(str(w.message))}" for w in warned]
            turn["compiled"] = process.compilations
        turns.append(turn)
    return turns


def digest_of_lines(lines: Sequence[str]) -> str:
    import numpy as np

    return digest(np.frombuffer("\n".join(lines).encode(), np.uint8))


def _contents(process: Process, arguments: Arguments) -> list[str]:
    on_gpu = [process.to_host(array) for array in arguments.arrays]
    return [digest(m) for m in arguments.memory] + [digest(a[1]) for a in on_gpu if a and a[0] != "numpy"]


def _forget_fault() -> None:
    """A fault of a GPU that is told after another error belongs to the same turn."""
    try:
        vyre_opt.synchronize()
    except vyre_opt.DispatchError:
        pass


def _as_text(error: Exception) -> Turn:
    """An error as parts of a turn.  Where Python itself refuses arguments, only its type: versions word that otherwise."""
    frames = traceback.extract_tb(error.__traceback__)
    last = frames[-1]
    name = type(error).__name__
    if "/vyre_opt/" not in last.filename:
        return {"error": name if last.filename.startswith(_FOLDER) else f"{name}: {text_of(str(error))}"}
    turn = {"error": f"{name}: {text_of(str(error))}"}
    if not linecache.getline(last.filename, last.lineno or 0).strip().startswith("raise"):
        turn["inside"] = f"{last.filename.rpartition('/vyre_opt/')[2]}: {last.name}"
    return turn


_FOLDER = str(Path(__file__).parent)


# --- each call in a process of its own


def results_of(
    calls: Sequence[dict[str, Any]], jobs: int = 1, is_real: bool = False
) -> Iterator[tuple[int, list[Turn]]]:
    """The number of each call and its turns, as they come."""
    _prepare(is_real)
    running: dict[
        int, tuple[int, int]
    ] = {}  # by the pipe that is read: the number of a call, and its process
    waiting = iter(enumerate(calls))
    while True:
        while len(running) < jobs and (following := next(waiting, None)):
            number, call = following
            pipe, process = _start(call, is_real)
            running[pipe] = number, process
        if not running:
            return
        for pipe in select.select(list(running), [], [])[0]:
            number, process = running.pop(pipe)
            with open(pipe, "rb") as answers:
                answer = answers.read()
            _, status = os.waitpid(process, 0)
            if not answer:
                code = os.waitstatus_to_exitcode(status)
                yield number, [{"error": f"the process ended with {code}", "inside": "the process"}]
                continue
            turns = json.loads(answer)
            if isinstance(turns, str):
                raise RuntimeError(f"{calls[number]} cannot be made: {turns}")
            yield number, turns


_LEFT_OUT = tuple(
    f"vyre_opt.{name}" for name in ("__main__", "torch", "cli", "lsp", "certify", "mlir", "report")
)


def _prepare(is_real: bool) -> None:
    """Import what calls need, once for all processes; nothing is called."""
    for module in walk_packages(vyre_opt.__path__, "vyre_opt."):
        if not module.name.startswith(_LEFT_OUT):
            import_module(module.name)
    if not is_real:
        import_module("fake_gpu")
    for each in (*PROGRAMS.values(), *PIPELINES.values()):
        each.module  # noqa: B018  translates it
    gc.freeze()  # so that no collection in a process copies the memory that it shares


def _start(call: dict[str, Any], is_real: bool) -> tuple[int, int]:
    """A process that makes a call, and the pipe from which its turns are read."""
    reads, writes = os.pipe()
    process = os.fork()
    if process:
        os.close(writes)
        return reads, process
    answer: list[Turn] | str
    try:
        signal.alarm(LIMIT_S)
        answer = turns_of(call, is_real)
    except BaseException:  # a mistake of this package, which the other process tells
        answer = traceback.format_exc()
    with open(writes, "wb") as pipe:
        pipe.write(json.dumps(answer).encode())
    os._exit(0)
