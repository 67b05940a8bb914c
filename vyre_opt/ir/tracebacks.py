"""Tracebacks of errors that are the caller's: they end at the caller's line, without frames of this package.

What a caller enters catches a `CallerError`, leaves out the frames below, and raises it again, which adds no frame:

    try:
        ...
    except CallerError as error:
        hide_own_frames(error)
        raise

A bug of this package is none, and keeps its frames.  With VYRE_DEBUG=1 in the environment all errors do.
"""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

__all__ = [
    "DEBUG",
    "CallAttributeError",
    "CallTypeError",
    "CallValueError",
    "CallerError",
    "hide_own_frames",
    "level_of_caller",
    "public",
]

DEBUG = "VYRE_DEBUG"
"""The environment variable that asks for all frames of an error."""

P = ParamSpec("P")
R = TypeVar("R")
Helps = Callable[[Callable[..., Any], tuple[Any, ...], dict[str, Any]], Iterable[str]]
"""Function that gives lines of help for a function and the arguments of a call that do not fit it."""

_INNER = (os.path.dirname(os.path.dirname(__file__)) + os.sep, os.path.dirname(functools.__file__) + os.sep)
"""Folders whose frames nobody looks for: this package's, and those of Python, through which it calls itself."""


class CallerError(Exception):
    """An error of a caller's program or arguments, whose message says all that a caller needs to know."""


class CallTypeError(CallerError, TypeError):
    """Arguments that do not fit the parameters of a function, as Python's own TypeError."""

    def __reduce__(self) -> Any:
        return TypeError, self.args


class CallValueError(CallerError, ValueError):
    """An argument of a function that is none of the values that it takes, as Python's own ValueError."""

    def __reduce__(self) -> Any:
        return ValueError, self.args


class CallAttributeError(CallerError, AttributeError):
    """A name that a module or an object does not have, as Python's own AttributeError."""

    def __reduce__(self) -> Any:
        return AttributeError, self.args


for own, name in (
    (CallTypeError, "TypeError"),
    (CallValueError, "ValueError"),
    (CallAttributeError, "AttributeError"),
):
    own.__module__, own.__name__, own.__qualname__ = "builtins", name, name  # which a traceback shows


def hide_own_frames(error: BaseException) -> None:
    """Leave those frames alone that are the caller's own, as of a function that was passed."""
    if os.environ.get(DEBUG) == "1":
        return
    frames = []
    frame = error.__traceback__
    while frame is not None:
        if not frame.tb_frame.f_code.co_filename.startswith(_INNER):
            frames.append(frame)
        frame = frame.tb_next
    shown: TracebackType | None = None
    for frame in reversed(frames):
        frame.tb_next = shown
        shown = frame
    error.__traceback__ = shown


def level_of_caller() -> int:
    """The `stacklevel` of a warning at the caller's line, where this is called by what warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_INNER):
        frame, level = frame.f_back, level + 1
    return level


_WORKGROUP = frozenset(
    {
        "block",
        "block_size",
        "block_dim",
        "blockdim",
        "threads",
        "threads_per_block",
        "num_threads",
        "tpb",
        "BLOCK",
        "BLOCK_SIZE",
    }
)
_CHOSEN = frozenset(
    {
        "num_warps",
        "num_stages",
        "num_ctas",
        "fast_math",
        "cache",
        "debug",
        "device",
        "parallel",
        "nogil",
        "nopython",
    }
)


def _instead(name: str, options: list[str]) -> str:
    """Text that says how a keyword of another library is written here; "" for an unknown one."""
    if name in _WORKGROUP and "workgroup" in options:
        return f"; {name} is workgroup here"
    if name in ("fastmath", "fast_math") and "fastmath" in options:
        return f"; {name} is fastmath here"
    return f"; leave {name} out" if name in _CHOSEN else ""


def public(function: Callable[P, R], helps: Helps | None = None) -> Callable[P, R]:
    """A function that callers enter: a CallerError leaves it without frames of this package.

    `helps`: what to write in place of a call that does not fit the function, each a line; left out, the function's options.
    """

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except CallerError as error:
            hide_own_frames(error)
            raise
        except TypeError as error:
            if error.__traceback__ is not None and error.__traceback__.tb_next is None:
                error.__traceback__ = None  # of the call itself: of arguments that the function does not have
                if helps is not None or "unexpected keyword" in str(error):
                    for help in (helps or _options)(function, args, kwargs):
                        error.add_note(f"help: {help}")
            raise

    return call


def _options(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Iterator[str]:
    """The options of a function, for a call with others."""
    import inspect  # which takes 10 ms to import

    parameters = inspect.signature(function).parameters
    options = [each.name for each in parameters.values() if each.kind is each.KEYWORD_ONLY]
    if options:
        wrong = "".join(_instead(name, options) for name in kwargs if name not in parameters)
        yield f"it takes {', '.join(options)}{wrong}"
