"""A target that fails in each way that a case can: by the words in it."""

from __future__ import annotations

import os
import time

from support.fuzz.target import Target, Wrong
from support.fuzz.text_mutations import ALL_EDITS, mutate


def _run(case: bytes) -> str:
    text = case.decode("utf-8", "surrogateescape")
    if "raise" in text:
        raise KeyError(text)
    if "wrong" in text:
        raise Wrong("7 is not 8")
    if "abort" in text:
        os.abort()
    if "memory" in text:
        bytearray(3 << 30)
    if "hang" in text:
        time.sleep(100)
    while "busy" in text:
        pass
    return "fine"


def _mutate(case: bytes, other: bytes, rng) -> bytes:
    return mutate(case.decode(), other.decode(), rng, ALL_EDITS).encode("utf-8", "replace")


def _seeds() -> list[bytes]:
    return [b"a b\nc 1\n", b"d\n"]


FAILING = Target("failing", ".txt", "anything", _seeds, _mutate, _run, batch=50)
