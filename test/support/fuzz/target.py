"""What is fuzzed: a part of the compiler that takes bytes, where its cases come from, and what it may answer."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

__all__ = ["REFUSED", "Target", "Wrong", "shape_of"]

REFUSED = "refused: "


class Wrong(Exception):
    """An answer that is none of those that a target may give; the message says which."""


@dataclass(frozen=True, slots=True)
class Target:
    """`name`, and `suffix`: of the files of its cases, such as ".vyre".  `summary`: what takes the cases.

    `seeds()`: cases that are right, or nearly.  `mutate(case, other, rng)`: another case.
    `run(case)`: a line that says how the case was answered, which begins with REFUSED if it was not right.
    Any exception that it raises is a failure; so is a process that ends, takes too long or too much memory.
    `batch`: cases of one process.  `is_text`: whether a failing case is made small by lines and tokens.
    """

    name: str
    suffix: str
    summary: str
    seeds: Callable[[], Sequence[bytes]]
    mutate: Callable[[bytes, bytes, random.Random], bytes]
    run: Callable[[bytes], str]
    batch: int = 5000
    is_text: bool = True


_PARTICULAR = re.compile(r"'[^']*'|\"[^\"]*\"|[%@][\w.$]*|-?\b(?:0x)?\d[\w.]*|\b(?:[uif]\d+|bf16|bool)\b")


def shape_of(message: str) -> str:
    """A message without its names, numbers and types: two cases of one shape came out of the same place."""
    return _PARTICULAR.sub("_", message.partition("\n")[0])[:160]
