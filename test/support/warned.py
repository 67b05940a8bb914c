"""Warnings of calls."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

from .each import each
from .modules import written_module

__all__ = ["UNUSED", "check_silent", "check_told", "kernel_warnings", "warned"]

UNUSED = ".* does not use .* what a call passes"
"""Warning of a parameter that some of the kernels with one head do not use."""


def warned(call: Callable[[], object]) -> list[str]:
    """Texts of the warnings of a call."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call()
    return [str(warning.message) for warning in caught]


def kernel_warnings(folder: Path, head: str, lines: str, name: str) -> list[str]:
    """Texts of the warnings of a kernel with these lines, in the module `name`, which begins with `head`."""
    body = "".join(f"    {line}\n" for line in lines.split("\n"))
    kernel = written_module(folder, head + body, name).kernel
    return [text for text in warned(kernel.text) if not re.match(UNUSED, text)]


def check_told(
    folder: Path, head: str, cases: Sequence[tuple[str, str, tuple[str, str]]], about: str
) -> None:
    """The lines of each case get one warning with `about` in it, and with the words of the case; an edit of them leaves none."""

    def check(case: tuple[int, tuple[str, str, tuple[str, str]]]) -> None:
        number, (lines, words, (old, new)) = case
        (warning,) = _warnings_about(about, folder, head, lines, f"told_{number}")
        assert words in warning
        assert old in lines
        assert _warnings_about(about, folder, head, lines.replace(old, new), f"right_{number}") == []

    each(enumerate(cases), check)


def check_silent(folder: Path, head: str, cases: Sequence[str], about: str) -> None:
    """The lines of each case get no warning with `about` in it."""

    def check(case: tuple[int, str]) -> None:
        assert _warnings_about(about, folder, head, case[1], f"silent_{case[0]}") == []

    each(enumerate(cases), check)


def _warnings_about(about: str, folder: Path, head: str, lines: str, name: str) -> list[str]:
    return [text for text in kernel_warnings(folder, head, lines, name) if about in text]
