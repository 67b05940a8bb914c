"""Limits of what the compiler and a program may take, and the checks of a process that has them.

`Limits` are held by a child process (see `child_process` and `confine`): the kernel and the parent hold it to
time, memory and output, and the functions here, which the child calls on itself, to the rest.  A process on which
none are imposed checks nothing.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import fields
from math import prod
from typing import Any

from ..ir.bounded_read import read_size
from ..ir.program import Dim3
from ..ir.suggestions import suggest
from ..ir.tracebacks import CallerError
from ..lowering.common.cost_ceiling import DEFAULT_CEILING, set_ceiling
from ..records import dataclass
from .dispatcher import BackendError, BadInputs

__all__ = ["LimitError", "Limits", "check_workgroups", "compiling", "impose", "memory_error"]

MAX_SECONDS = 1e8
MAX_BYTES = 1 << 60

_SECONDS, _SIZES = ("time", "compile"), ("memory", "input", "output")
_UNITS = {"G": 1 << 30, "M": 1 << 20, "K": 1 << 10}


class LimitError(BackendError, CallerError):
    """Error for the breach of a limit.  `limit` is its name, `value` its value; the message begins with both."""

    def __init__(self, limit: str, value: Any, what: str) -> None:
        super().__init__(f"{limit}={_spell(value, limit)}: {what}")
        self.limit = limit
        self.value = value
        self.what = what

    def __reduce__(self) -> tuple[Any, ...]:
        return (LimitError, (self.limit, self.value, self.what))


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of a child process that parses, verifies, transforms, compiles and runs; None is no limit.

    `time`: seconds of wall clock, for `compile` and for each call, each by itself.  `memory`: bytes of address
    space beyond what the process has when it is ready, inputs and outputs included.  `input`: bytes of the text, of all
    arrays of a call, and of each file that a tool reads.  `output`: bytes of all outputs, host reads and printed lines of
    a call.  `grid`: workgroups of a launch.  `compile`: seconds of wall clock for all that is
    compiled.  `cost`: milliseconds that compiling a program may take by estimate, which holds without other limits, too (see
    lowering/common/compile_cost.py).  `plugins`: whether passes of other packages may be loaded.  `cache`: whether the compile cache may be
    written; it is read in any case.

    Raises BadInputs (a ValueError) for what is no such number.
    """

    time: float | None = None
    memory: int | None = None
    input: int | None = None
    output: int | None = None
    grid: int | None = None
    compile: float | None = None
    cost: int | None = DEFAULT_CEILING
    plugins: bool = False
    cache: bool = False

    def __post_init__(self) -> None:
        for field in fields(self):
            problem = _problem(field.name, getattr(self, field.name))
            if problem:
                raise BadInputs(f"limit {field.name}: {getattr(self, field.name)!r} is {problem}")

    @staticmethod
    def parse(text: str) -> Limits:
        """Limits as on the command line: `time=10,memory=2G,plugins=true`.  Raises BadInputs."""
        values: dict[str, Any] = {}
        known = [field.name for field in fields(Limits)]
        for item in text.split(","):
            name, equals, value = (part.strip() for part in item.partition("="))
            if name not in known:
                hint = suggest(name, known) or f"the limits are {', '.join(known)}"
                raise BadInputs(f"unknown limit {name!r}; {hint}")
            if not equals or not value:
                raise BadInputs(f"limit {name} has no value; write {name}={_EXAMPLES[name]}")
            if name in values:
                raise BadInputs(f"limit {name} is there twice")
            values[name] = _read(name, value)
        return Limits(**values)

    def error(self, limit: str, what: str) -> LimitError:
        """The error for what the limit of that name does not allow."""
        return LimitError(limit, getattr(self, limit), what)


_EXAMPLES = {
    "time": "10",
    "memory": "2G",
    "input": "1G",
    "output": "1G",
    "grid": "65536",
    "compile": "5",
    "cost": "60000",
    "plugins": "true",
    "cache": "true",
}


def _problem(name: str, value: Any) -> str:
    """Why it cannot be the value of that limit; empty if it can."""
    if name in ("plugins", "cache"):
        return "" if isinstance(value, bool) else "not True or False"
    if value is None:
        return ""
    if name in _SECONDS:
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        is_good = is_number and 0 < value <= MAX_SECONDS
        return "" if is_good else f"no number of seconds above 0 and up to {MAX_SECONDS:.0e}"
    is_good = isinstance(value, int) and not isinstance(value, bool) and 0 < value <= MAX_BYTES
    return "" if is_good else "no whole number from 1 to 2^60"


def _read(name: str, text: str) -> Any:
    """The value of a limit from text.  Raises BadInputs."""
    try:
        if "_" in text:  # which Python allows in numbers
            raise ValueError(text)
        if name in _SECONDS:
            return float(text)
        if name in _SIZES:
            return read_size(text)
        if name in ("grid", "cost"):
            return int(text)
        return {"true": True, "false": False}[text.lower()]
    except (ValueError, KeyError):
        raise BadInputs(f"limit {name}: {text!r} is no value of it; write {name}={_EXAMPLES[name]}") from None


def _spell(value: Any, name: str) -> str:
    """The value as it is written on the command line."""
    if isinstance(value, bool):
        return str(value).lower()
    if name in _SIZES:
        for unit, size in _UNITS.items():
            if value % size == 0:
                return f"{value // size}{unit}"
    return f"{value:g}" if isinstance(value, float) else str(value)


# --- the checks of a process that has limits


class _Imposed:
    """`compile_left`: seconds that may still be spent on compiling.  `depth`: of `compiling`."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.compile_left = limits.compile
        self.depth = 0


_imposed: _Imposed | None = None


def impose(limits: Limits) -> None:
    """Have this process hold itself to limits, to its end."""
    global _imposed
    _imposed = _Imposed(limits)
    set_ceiling(limits.cost)


def check_workgroups(program: str, grid: Dim3) -> None:
    """Raises LimitError for a launch over more workgroups than `grid` allows."""
    if _imposed is None or _imposed.limits.grid is None:
        return
    workgroups = prod(grid)
    if workgroups > _imposed.limits.grid:
        raise _imposed.limits.error("grid", f"program @{program} is to run over {workgroups} workgroups")


@contextmanager
def compiling() -> Iterator[None]:
    """Counts the time of the body to the limit `compile`, at whose end an alarm ends this process.

    An alarm that nothing handles, since LLVM does not return before it is done.  For one thread at a time.
    """
    if _imposed is None or _imposed.compile_left is None or sys.platform == "win32":
        yield
        return
    import signal

    _imposed.depth += 1
    if _imposed.depth == 1:
        signal.setitimer(signal.ITIMER_REAL, _imposed.compile_left)
    try:
        yield
    finally:
        _imposed.depth -= 1
        if _imposed.depth == 0:
            # never 0, which would set no alarm the next time
            _imposed.compile_left = max(signal.setitimer(signal.ITIMER_REAL, 0)[0], 1e-6)


def memory_error(error: BaseException) -> LimitError | None:
    """An error that a MemoryError led to, as one of the limit `memory`; None for any other, or without the limit."""
    if _imposed is None or _imposed.limits.memory is None:
        return None
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, MemoryError):
            return _imposed.limits.error("memory", str(error) or "out of memory")
        cause = cause.__cause__ or cause.__context__
    return None
