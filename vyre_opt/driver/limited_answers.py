"""Answers of a child process with limits, as JSON and raw bytes: arrays and errors.

The parent checks all that it reads: `read_array` and `read_error` raise MalformedAnswer, and nothing else, for what is
no answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod
from typing import Any, cast

import numpy as np

from ..execution.dispatcher import (
    BackendError,
    BadInputs,
    BadLaunch,
    BadSpecs,
    LocatedBadInputs,
    ProgramError,
)
from ..execution.limits import LimitError, Limits
from ..ir.diagnostics import Diagnostic, DiagnosticError, Location, Source

__all__ = [
    "MAX_ANSWER",
    "MalformedAnswer",
    "contents",
    "nbytes_of",
    "read_array",
    "read_error",
    "text",
    "write_array",
    "write_error",
]

MAX_ANSWER = 4 << 20
"""Bytes of the JSON of an answer."""

MAX_DIAGNOSTICS = 200

_TYPES = tuple(f"{kind}{bits}" for kind in ("uint", "int") for bits in (8, 16, 32, 64))
ARRAY_TYPES = ("bool", *_TYPES, "float16", "float32", "float64", "bfloat16")
SEVERITIES = ("error", "warning", "remark", "note")

_LOCATED: dict[str, Callable[[Sequence[Diagnostic]], Exception]] = {
    "DiagnosticError": DiagnosticError,
    "LocatedBadInputs": LocatedBadInputs,
    "BadLaunch": BadLaunch,
    "BadSpecs": BadSpecs,
}
_PLAIN: dict[str, Callable[[str], Exception]] = {"BadInputs": BadInputs, "BackendError": BackendError}


class MalformedAnswer(Exception):
    """An answer that is none."""


# --- arrays


def write_array(name: str, array: np.ndarray) -> list[Any]:
    """The description of a named array."""
    return [name, array.dtype.name, list(array.shape)]


def contents(array: np.ndarray) -> memoryview:
    """The bytes of an array's elements in a row."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def nbytes_of(description: Any) -> int:
    """The bytes that a described array takes."""
    _, dtype, shape = _described(description)
    return prod(shape) * dtype.itemsize


def read_array(description: Any, content: memoryview) -> tuple[str, np.ndarray]:
    """The name of an array, and the array itself."""
    name, dtype, shape = _described(description)
    raw = np.asarray(content)
    if raw.size != prod(shape) * dtype.itemsize:
        raise MalformedAnswer("an array of another size than it says")
    # a bool array that holds other bytes than 0 and 1 is undefined in NumPy
    flat = raw != 0 if dtype == np.bool_ else raw.view(dtype)
    try:
        return name, flat.reshape(shape)
    except ValueError:  # no elements, but extents beyond what NumPy counts
        raise MalformedAnswer("no shape") from None


def _described(description: Any) -> tuple[str, np.dtype[Any], tuple[int, ...]]:
    name, type_name, shape = _items(description, 3)
    if type_name not in ARRAY_TYPES:
        raise MalformedAnswer("an array of another type")
    try:
        dtype = np.dtype(type_name)
    except TypeError:  # bfloat16, where the caller has no library that knows it
        raise MalformedAnswer("an array of another type") from None
    if not isinstance(shape, list) or len(shape) > 32:
        raise MalformedAnswer("no shape")
    return text(name), dtype, tuple([_number(extent) for extent in shape])


# --- errors


def write_error(error: Exception, source: Source) -> dict[str, Any]:
    """An error as a value of JSON.  `source`: the text that the parent has sent."""
    answer: dict[str, Any] = {"error": type(error).__name__, "message": str(error)}
    if isinstance(error, LimitError):
        return {**answer, "limit": error.limit, "message": error.what}
    diagnostics: Sequence[Diagnostic] = ()
    if isinstance(error, ProgramError):
        answer["kind"] = error.kind
        diagnostics = [error.diagnostic]
    elif answer["error"] in _LOCATED:
        diagnostics = cast(DiagnosticError, error).diagnostics
    elif answer["error"] not in _PLAIN:
        return {"error": "BackendError", "message": f"internal error: {answer['error']}: {error}"}
    sources: list[Source] = [source]
    answer["diagnostics"] = [_write_diagnostic(d, sources) for d in diagnostics[:MAX_DIAGNOSTICS]]
    answer["sources"] = [[s.name, s.text, s.first_line, s.first_column] for s in sources[1:]]
    return answer


def _write_diagnostic(diagnostic: Diagnostic, sources: list[Source]) -> dict[str, Any]:
    def write(loc: Location | None) -> list[int] | None:
        if loc is None:
            return None
        number = next((n for n, s in enumerate(sources) if s is loc.source), len(sources))
        if number == len(sources):
            sources.append(loc.source)
        return [number, loc.start, loc.end]

    return {
        "severity": diagnostic.severity,
        "message": diagnostic.message,
        "loc": write(diagnostic.loc),
        "notes": [[message, write(loc)] for message, loc in diagnostic.notes],
        "help": diagnostic.help,
        "places": diagnostic.places,
    }


def read_error(answer: Mapping[str, Any], source: Source, limits: Limits) -> Exception:
    """The error that `write_error` wrote."""
    name, message = text(answer.get("error")), text(answer.get("message"))
    if name == "LimitError":
        limit = answer.get("limit")
        if limit not in ("memory", "grid", "plugins") or getattr(limits, limit) in (None, True):
            raise MalformedAnswer("a limit that there is not")
        return limits.error(limit, message)
    if name in _PLAIN:
        return _PLAIN[name](message)
    sources = [source, *[_read_source(item) for item in _list(answer.get("sources"))]]
    diagnostics = [_read_diagnostic(item, sources) for item in _list(answer.get("diagnostics"))]
    if name == "ProgramError" and len(diagnostics) == 1:
        return ProgramError(text(answer.get("kind")), diagnostics[0])
    if name in _LOCATED:
        return _LOCATED[name](diagnostics)
    raise MalformedAnswer("an error of another type")


def _read_source(item: Any) -> Source:
    name, content, line, column = _items(item, 4)
    return Source(text(content), text(name), _number(line), first_column=_number(column))


def _read_diagnostic(item: Any, sources: list[Source]) -> Diagnostic:
    if not isinstance(item, dict) or item.get("severity") not in SEVERITIES:
        raise MalformedAnswer("no diagnostic")
    notes = [_items(note, 2) for note in _list(item.get("notes"))]
    return Diagnostic(
        item["severity"],
        text(item.get("message")),
        _read_location(item.get("loc"), sources),
        [(text(message), _read_location(loc, sources)) for message, loc in notes],
        None if item.get("help") is None else text(item["help"]),
        _number(item.get("places")),
    )


def _read_location(item: Any, sources: list[Source]) -> Location | None:
    if item is None:
        return None
    number, start, end = map(_number, _items(item, 3))
    if number >= len(sources) or not start <= end <= len(sources[number].text):
        raise MalformedAnswer("a place outside of the text")
    return Location(sources[number], start, end)


# --- values of JSON


def text(value: Any) -> str:
    """The value, if it is text."""
    if not isinstance(value, str):
        raise MalformedAnswer("a value of another type")
    return value


def _number(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise MalformedAnswer("a value of another type")
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise MalformedAnswer("a value of another type")
    return value


def _items(value: Any, count: int) -> list[Any]:
    if not isinstance(value, list) or len(value) != count:
        raise MalformedAnswer("a value of another type")
    return value
