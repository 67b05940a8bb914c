"""The first line of a case that is a text and more: `// fuzz: opt=0 passes=cse,dce`."""

from __future__ import annotations

import random
import re

from vyre_opt.passes.registry import BUILTIN

from ..properties import random_pipeline
from . import text_mutations

__all__ = ["UNTIMED_PASSES", "text_of", "bytes_of", "mutate_with_header", "split_header", "with_header"]

UNTIMED_PASSES = tuple(name for name in BUILTIN if name != "tune")
"""Those of a case; `tune` measures for seconds."""

_HEADER = re.compile(r"// fuzz: opt=(\d) passes=([^\n]*)\n")


def with_header(text: str, passes: str, opt: int = 3) -> str:
    return f"// fuzz: opt={opt} passes={passes}\n{text}"


def split_header(case: str) -> tuple[str, int, str]:
    """The passes, the level of optimisation and the text; none, 3 and all of a case without such a line."""
    match = _HEADER.match(case)
    if match is None:
        return "", 3, case
    return match[2], min(int(match[1]), 3), case[match.end() :]


def mutate_with_header(
    case: str, other: str, rng: random.Random, mutations: tuple[text_mutations.Mutation, ...]
) -> str:
    """Another text, under the same passes or others."""
    passes, opt, text = split_header(case)
    if rng.random() < 0.5:
        passes = rng.choice(
            (
                "",
                "default",
                "default",
                random_pipeline(rng, UNTIMED_PASSES),
                random_pipeline(rng, UNTIMED_PASSES),
            )
        )
        opt = rng.choice((0, 3))
    text = text_mutations.mutate(text, split_header(other)[2], rng, mutations)
    return with_header(text, passes, opt)


def bytes_of(text: str) -> bytes:
    """UTF-8, but for lone surrogates, which are the bytes that they stand for."""
    return text.encode("utf-8", "surrogateescape")


def text_of(case: bytes) -> str:
    return case.decode("utf-8", "surrogateescape")
