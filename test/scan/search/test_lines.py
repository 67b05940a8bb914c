"""Expressions bound to lines, words and whole lines match as `re` does in each line by itself."""

from __future__ import annotations

import random
import re

import pytest
from support.parts import in_parts

from vyre_opt import Scanner
from vyre_opt.execution import BadInputs

EXPRESSIONS = (
    rb"[^a]+b", rb"a\s*b", rb"^ab", rb"b$", rb"a.b", rb"(?s:a.b)", rb"\Aab", rb"(a|\n)b", rb"\W+", rb"(?i:[^x]B)",
    rb"ab|abc", rb"a(?!\n)b?", rb"(?<=a)b*", rb"[\s\S]{2,4}", rb"abcab\s[^z]+", rb"(?P<x>a|b)[^_]\1", rb"b\Z", rb"\n",
)  # fmt: skip
WRAPPED = {"line": b"%s", "word": rb"(?<!\w)(?:%s)(?!\w)", "whole": b"^(?:%s)$"}


def by_lines(expression: bytes, data: bytes, bounds: str) -> list[tuple[int, int]]:
    spans, at = [], 0
    for line in data.split(b"\n"):
        found = re.finditer(WRAPPED[bounds] % expression, line)
        spans += [(at + match.start(), at + match.end()) for match in found]
        at += len(line) + 1
    return spans


@pytest.mark.parametrize("bounds", WRAPPED)
def test_matches_are_those_of_lines(bounds: str) -> None:
    rng = random.Random(1)
    for expression in EXPRESSIONS:
        scanner = Scanner([expression], regex=True, bounds=bounds)
        for size in (0, 1, 5, 30, 200, 200):
            data = bytes(rng.choices(b"aabbc \n_", k=size))
            expected = by_lines(expression, data, bounds)
            assert sorted((m.start, m.end) for m in scanner.scan(data)) == expected, (expression, data)
            parts = scanner.scan_stream(in_parts(rng, data, (1, 7, 50)))
            assert sorted((m.start, m.end) for m in parts) == expected


def test_bounds_that_are_none() -> None:
    for wrong in ({"bounds": "lines", "regex": True}, {"bounds": "word"}):
        with pytest.raises(BadInputs, match="bounds="):
            Scanner([b"a"], **wrong)  # type: ignore[arg-type]
