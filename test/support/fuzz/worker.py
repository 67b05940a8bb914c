"""A process that runs cases of one target under limits, and leaves behind what its parent must know if it dies.

FOLDER/cases/        the working directory: files that cases write, and the cache
FOLDER/journal       number of the case at work, its length, and the case: 8, 8 and n bytes
FOLDER/trace         where all threads were when a case took too long or crashed
FOLDER/stderr        what the case at work has printed, such as LLVM's last words
FOLDER/result.json   written at the end; without it the process died
"""

from __future__ import annotations

import base64
import faulthandler
import json
import os
import random
import resource
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from vyre_opt.syntax.parser import tables

from ..tools import processes
from .target import REFUSED, Target, Wrong, shape_of

__all__ = ["CASE_SECONDS", "CASE_BYTES", "Batch", "CaseSource", "Failure", "Result", "result_of", "start"]

CASE_SECONDS = 5.0
"""Of CPU time, since other processes may take the CPUs; of time on the wall, WAITING times as much."""
WAITING = 4
CASE_BYTES = 2 << 30
"""Of address space, over what the process had before its first case, with all modules and LLVM loaded."""
FIRST_SEEDS = 4
"""How many seeds a batch runs as they are; the first batch of a target runs all."""
MAX_POOL = 3000
MAX_ALIKE = 3
MAX_KINDS = 20
"""A process that has failed so often in different ways ends; another takes the next batch."""


@dataclass(frozen=True, slots=True)
class Batch:
    """`cases` of a target drawn from `seed` and `number`, for at most so many `seconds`; or those in `explicit`.

    A case that takes over `case_seconds` of CPU time ends the process, or so long on the wall as WAITING allows.
    """

    target: Target
    seed: int = 0
    number: int = 0
    cases: int = 0
    seconds: float = 1e9
    explicit: tuple[bytes, ...] = ()
    case_seconds: float = CASE_SECONDS


@dataclass(frozen=True, slots=True)
class Failure:
    """`kind`: what went wrong and in which function, the same for cases of one cause.  `what`: all that is known."""

    kind: str
    what: str
    case: bytes


@dataclass(slots=True)
class Result:
    """`cases` run, those that were `accepted` as right, `shapes` of answers, the `slowest` case in seconds.

    `peak`: resident memory in MiB at its highest, over what there was before the first case.  `failures`: the first
    few of each kind.
    """

    cases: int = 0
    accepted: int = 0
    shapes: int = 0
    slowest: float = 0.0
    peak: float = 0.0
    failures: list[Failure] = field(default_factory=list)


def start(batch: Batch, folder: Path) -> Any:
    """A process at work on a batch."""
    process = processes().Process(target=_work, args=(batch, folder))
    process.start()
    return process


def result_of(folder: Path, exit_code: int | None) -> Result:
    """What a process did that has ended; the case at which it died is a failure."""
    path = folder / "result.json"
    if path.exists():
        values = json.loads(path.read_text())
        failures = [
            Failure(f["kind"], f["what"], base64.b64decode(f["case"])) for f in values.pop("failures")
        ]
        return Result(**values, failures=failures)
    journal = (folder / "journal").read_bytes() if (folder / "journal").exists() else b""
    number, size = int.from_bytes(journal[:8], "little"), int.from_bytes(journal[8:16], "little")
    trace = _text(folder / "trace")
    last_words = _text(folder / "stderr")[-2000:]
    if not journal:
        raise RuntimeError(f"a process ended with {exit_code} before its first case\n{trace}\n{last_words}")
    is_late = trace.startswith("Timeout") or exit_code == -signal.SIGPROF
    ending = "too long" if is_late else f"process ended with {exit_code}"
    return Result(
        number + 1,
        failures=[
            Failure(f"{ending} in {_own_frame(trace)}", f"{trace}\n{last_words}", journal[16 : 16 + size])
        ],
    )


def _text(path: Path) -> str:
    return path.read_text("utf-8", "replace") if path.exists() else ""


def _own_frame(trace: str) -> str:
    """The innermost function of the compiler in a trace of the main thread, which faulthandler writes last."""
    frames = [line for line in trace.rpartition("hread 0x")[2].splitlines() if "/vyre_opt/" in line]
    if not frames:
        return "no function of the compiler"
    file, _, function = frames[0].rpartition(" in ")
    return f"{Path(file.split(chr(34))[1]).stem}.{function}"


# --- in the process


def _work(batch: Batch, folder: Path) -> None:
    _enter(folder)
    journal = os.open(folder / "journal", os.O_RDWR | os.O_CREAT)
    trace = os.open(folder / "trace", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    faulthandler.enable(trace)
    faulthandler.register(signal.SIGPROF, trace, chain=True)  # and then it ends the process
    result = Result()
    shapes: set[str] = set()
    kinds: Counter[str] = Counter()
    end = time.monotonic() + batch.seconds
    source = CaseSource(batch)
    base = _limit_memory()
    for number, case in enumerate(source):
        os.pwrite(journal, b"".join(n.to_bytes(8, "little") for n in (number, len(case))) + case, 0)
        os.ftruncate(2, 0)
        faulthandler.dump_traceback_later(WAITING * batch.case_seconds, exit=True, file=trace)
        signal.setitimer(signal.ITIMER_PROF, batch.case_seconds)
        began = time.perf_counter()
        failure, shape = _answer(batch.target, case)
        result.slowest = max(result.slowest, time.perf_counter() - began)
        signal.setitimer(signal.ITIMER_PROF, 0)
        faulthandler.cancel_dump_traceback_later()
        result.cases = number + 1
        if failure is not None:
            kinds[failure.kind] += 1
            if kinds[failure.kind] <= MAX_ALIKE:
                result.failures.append(failure)
            if len(kinds) > MAX_KINDS:
                break
        else:
            result.accepted += not shape.startswith(REFUSED)
            if shape not in shapes:
                shapes.add(shape)
                source.keep(case)
        if time.monotonic() > end:
            break
    result.shapes = len(shapes)
    result.peak = max(0.0, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024 - base)
    values = asdict(result)
    for failed in values["failures"]:
        failed["case"] = base64.b64encode(failed["case"]).decode()
    partial = folder / "result.partial"
    partial.write_text(json.dumps(values))
    partial.rename(folder / "result.json")


def _enter(folder: Path) -> None:
    """Make the folder's `cases` the working directory, with a cache of its own; print to files."""
    tables.load()  # from a cache that is whole
    import llvmlite.binding  # noqa: F401

    (folder / "cases").mkdir()
    os.chdir(folder / "cases")
    os.environ["VYRE_CACHE_DIR"] = str(folder / "cases" / "cache")
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    os.dup2(os.open(folder / "stderr", os.O_RDWR | os.O_CREAT | os.O_APPEND), 2)
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        setattr(sys, name, os.fdopen(number, "r" if number == 0 else "w", closefd=False))
    warnings.simplefilter("error")


def _limit_memory() -> float:
    """Limit the address space to CASE_BYTES more than there is; the resident memory so far, in MiB."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    resource.setrlimit(
        resource.RLIMIT_AS, (pages * resource.getpagesize() + CASE_BYTES, resource.RLIM_INFINITY)
    )
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _answer(target: Target, case: bytes) -> tuple[Failure | None, str]:
    """The failure of a case, or the shape of its answer."""
    try:
        return None, target.run(case)
    except Wrong as wrong:
        return Failure(f"wrong {shape_of(str(wrong))}", str(wrong), case), ""
    except BaseException as error:  # a KeyboardInterrupt or SystemExit is as wrong as a KeyError
        return Failure(_kind(error), "".join(traceback.format_exception(error))[-8000:], case), ""


def _kind(error: BaseException) -> str:
    """The type of an exception, and the innermost function of the compiler that it went through."""
    frames = [f for f in traceback.extract_tb(error.__traceback__) if "/vyre_opt/" in f.filename]
    where = f"{Path(frames[-1].filename).stem}.{frames[-1].name}" if frames else "no function of the compiler"
    return f"{type(error).__name__} in {where}"


class CaseSource(Iterable[bytes]):
    """The cases of a batch: its seeds first, then mutations of them and of cases whose answers had a new shape."""

    def __init__(self, batch: Batch) -> None:
        self.batch = batch
        self.rng = random.Random(f"{batch.target.name} {batch.seed} {batch.number}")
        self.pool: list[bytes] = list(batch.explicit or batch.target.seeds())
        self.seeds = len(self.pool)

    def __iter__(self) -> Iterator[bytes]:
        if self.batch.explicit:
            yield from self.batch.explicit
            return
        first = list(self.pool)
        if self.batch.number:
            first = self.rng.sample(first, min(FIRST_SEEDS, len(first)))
        yield from first[: self.batch.cases]
        for _ in range(self.batch.cases - len(first)):
            yield self.batch.target.mutate(self._any(), self._any(), self.rng)

    def _any(self) -> bytes:
        if len(self.pool) > self.seeds and self.rng.random() < 0.5:
            return self.pool[self.rng.randrange(self.seeds, len(self.pool))]
        return self.pool[self.rng.randrange(self.seeds)]

    def keep(self, case: bytes) -> None:
        """Let later cases start from this one."""
        if len(self.pool) < MAX_POOL:
            self.pool.append(case)
