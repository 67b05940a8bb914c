"""Make a failing case small: drop ops of a module, then lines, then tokens or bytes, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from vyre_opt.reduce import FunctionTest, Oracle, PartsVariant, minimise, module_of, reduce_text

from .header import bytes_of, split_header, text_of, with_header
from .target import Target
from .text_mutations import TOKEN

__all__ = ["smallest"]

Fails = Callable[[bytes], bool]


def smallest(target: Target, case: bytes, fails: Fails, seconds: float) -> bytes:
    """The smallest case for which `fails` holds that is reached in about so many seconds."""
    end = time.monotonic() + seconds

    def fails_in_time(smaller: bytes) -> bool:
        return bool(smaller) and time.monotonic() < end and fails(smaller)

    if not target.is_text:
        parts = [chr(byte) for byte in case]
        return _fewer(parts, lambda text: fails_in_time(text.encode("latin-1"))).encode("latin-1")
    text = text_of(case)
    if target.suffix == ".vyre":
        text = _fewer_ops(text, lambda smaller: fails_in_time(bytes_of(smaller)))
    text = _fewer(text.splitlines(keepends=True), lambda smaller: fails_in_time(bytes_of(smaller)))
    return bytes_of(_fewer(TOKEN.findall(text), lambda smaller: fails_in_time(bytes_of(smaller))))


def _fewer_ops(case: str, fails: Callable[[str], bool]) -> str:
    """Without what may go of a module, for a text that is one."""
    passes, opt, text = split_header(case)
    if module_of(text) is None:
        return case

    def whole(smaller: str) -> str:
        return with_header(smaller, passes, opt) if text != case else smaller

    return whole(reduce_text(text, Oracle(FunctionTest(lambda smaller: fails(whole(smaller))))))


def _fewer(parts: Sequence[str], fails: Callable[[str], bool]) -> str:
    """Without runs of parts, long ones first."""
    return minimise(PartsVariant(parts), Oracle(FunctionTest(fails))).text
