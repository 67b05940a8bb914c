"""Make a failing case small: drop lines, then tokens or bytes, as long as it fails in the same way."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from vyre_opt.ir.diagnostics import DiagnosticError
from vyre_opt.ir.printer import print_program

from ..reduce import reduce_text
from .header import bytes_of, split_header, text_of, with_header
from .target import Target
from .text_mutations import TOKEN

__all__ = ["smallest"]

Fails = Callable[[bytes], bool]


def smallest(target: Target, case: bytes, fails: Fails, seconds: float) -> bytes:
    """The smallest case for which `fails` holds that is reached in about so many seconds."""
    end = time.monotonic() + seconds

    def fails_in_time(smaller: bytes) -> bool:
        return time.monotonic() < end and fails(smaller)

    if not target.is_text:
        return b"".join(_fewer([case[at : at + 1] for at in range(len(case))], fails_in_time))
    if target.suffix == ".vyre":
        case = _fewer_ops(case, fails_in_time)
    case = b"".join(_fewer(case.splitlines(keepends=True), fails_in_time))
    tokens = [bytes_of(token) for token in TOKEN.findall(text_of(case))]
    return b"".join(_fewer(tokens, fails_in_time))


def _fewer_ops(case: bytes, fails: Fails) -> bytes:
    """Without ops that may go, for a text that parses."""
    passes, opt, text = split_header(text_of(case))
    has_header = text != text_of(case)

    def whole(smaller: str) -> bytes:
        return bytes_of(with_header(smaller, passes, opt) if has_header else smaller)

    try:
        smaller = whole(reduce_text(text, lambda module: fails(whole(print_program(module)))))
    except DiagnosticError:
        return case
    return smaller if fails(smaller) else case


def _fewer(parts: Sequence[bytes], fails: Fails) -> list[bytes]:
    """Without long runs of parts, then without shorter ones, then without single ones."""
    smaller = list(parts)
    size = max(1, len(smaller) // 2)
    while True:
        at = 0
        while at < len(smaller):
            candidate = smaller[:at] + smaller[at + size :]
            if candidate and fails(b"".join(candidate)):
                smaller = candidate
            else:
                at += size
        if size == 1:
            return smaller
        size //= 2
