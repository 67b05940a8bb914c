"""Plain values of a pack's parts, checked: what a part has to have and has not is an error that names the part."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from ..ir.tracebacks import CallerError
from ..pack_files.format import Pack, PackError

__all__ = ["decoding", "number", "numbers", "text", "texts", "truth"]


@contextmanager
def decoding(pack: Pack, part: str) -> Iterator[None]:
    """Raises PackError, which names the part, where the body finds something else in it than it has to have.

    Errors of a caller's arguments stay what they are.
    """
    try:
        yield
    except (PackError, CallerError):
        raise
    except (
        ArithmeticError,
        AssertionError,
        AttributeError,
        LookupError,
        RecursionError,
        TypeError,
        ValueError,
    ) as error:
        what = f"{error.args[0]!r} is missing" if isinstance(error, KeyError) and error.args else error
        raise pack.malformed(f"the part {part} is not written as one ({what})") from None


def text(value: Any) -> str:
    """Raises TypeError for what is no text."""
    if type(value) is not str:
        raise TypeError(f"a text is wanted, not {value!r:.80}")
    return value


def number(value: Any, least: int = 0) -> int:
    """Raises TypeError for what is no whole number, or a smaller one than `least`."""
    if type(value) is not int or value < least:
        raise TypeError(f"a whole number from {least} on is wanted, not {value!r:.80}")
    return value


def truth(value: Any) -> bool:
    """Raises TypeError for what is neither true nor false."""
    if type(value) is not bool:
        raise TypeError(f"true or false is wanted, not {value!r:.80}")
    return value


def texts(value: Any) -> list[str]:
    return [text(each) for each in _listed(value)]


def numbers(value: Any, least: int = 0) -> list[int]:
    return [number(each, least) for each in _listed(value)]


def _listed(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError(f"a list is wanted, not {value!r:.80}")
    return value
