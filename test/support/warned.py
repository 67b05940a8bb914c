"""Warnings of calls."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from pathlib import Path

from .modules import written_module

__all__ = ["UNUSED", "kernel_warnings", "warned"]

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
