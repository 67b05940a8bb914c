"""What grep shows of all matches, with what matched, in parts: `re` at each place in turn is the oracle."""

from __future__ import annotations

import base64
import random
import re
import sys
from pathlib import Path

import pytest
from support.parts import in_parts
from support.quick import quick

from vyre_opt import Scanner
from vyre_scan.search.grep_stream import LONGEST, GrepMatch, GrepStream

CUTS = (0, 3, 20)
EXPRESSIONS = [
    rb"ab|bc+|c+",
    rb"[abc]{2,5}",
    rb"a+",
    rb"ab",
    rb"c{3}",
    rb"a.*c",
    rb"b[ab]?c",
    rb"c\b",
    rb"a(?m:$)",
]


def grep(scanner: Scanner, parts: list[bytes], overlapping: bool = False) -> list[GrepMatch]:
    """The parts lie in the same memory one after the other, as those of a file that is read."""
    stream = GrepStream(scanner, overlapping=overlapping)
    memory = bytearray(max(map(len, parts), default=0))
    found = []
    for part in parts:
        memory[: len(part)] = part
        found += stream.contents(stream.feed(memoryview(memory)[: len(part)]))
    return found + list(stream.contents(stream.finish()))


def leftmost_longest(patterns: list[bytes], data: bytes) -> list[tuple[int, int, int]]:
    """Start, end and number of the patterns that match first, and of these the longest, and so on behind it."""
    found, place = [], 0
    while place < len(data):
        here = []
        for number, pattern in enumerate(patterns):
            for end in range(len(data), place, -1):
                rest = rb"(?=[\x00-\xff]{%d}\Z)" % (len(data) - end)
                if re.compile(b"(?:" + pattern + b")" + rest).match(data, place):
                    here.append((-end, number))
                    break
        if here:
            end, number = min(here)
            found.append((place, -end, number))
            place = -end
        else:
            place += 1
    return found


@pytest.mark.parametrize("is_regex", [False, True])
@pytest.mark.parametrize("seed", quick(range(8), keep=2))
def test_leftmost_and_longest(seed: int, is_regex: bool) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        patterns = rng.sample(EXPRESSIONS, rng.choice([1, 2, 4]))
        if not is_regex:
            patterns = [bytes(rng.choices(b"ab", k=rng.choice([1, 2, 3]))) for _ in range(3)]
        data = bytes(rng.choices(b"aabbcc.\n", k=40))
        expected = leftmost_longest(patterns if is_regex else [*map(re.escape, patterns)], data)
        found = grep(Scanner(patterns, regex=is_regex), in_parts(rng, data, CUTS))
        assert found == [(start, end, number, data[start:end], "") for start, end, number in expected]
        for name, text in (("base64", base64.b64encode(data)), ("hex", data.hex().encode())):
            width = rng.choice([5, 7, 76])
            lines = b"\r\n".join(text[at : at + width] for at in range(0, len(text), width))
            scanner = Scanner(patterns, name, regex=is_regex, strict=False)
            bits = 4 if name == "hex" else 6
            assert [
                (
                    len(b"".join(lines[: m.start].split())),
                    m.pattern,
                    m.content,
                )
                for m in grep(scanner, in_parts(rng, lines, CUTS))
            ] == [(start * 8 // bits, number, data[start:end]) for start, end, number in expected]


@pytest.mark.parametrize("name", [None, "base64"])
def test_overlapping_ones_are_those_of_scan(name: str | None) -> None:
    data = b"abcabcab" * 9
    text = data if name is None else base64.b64encode(data)
    for patterns in ([b"abc", b"bca", b"c"], [rb"a.{2,5}", rb"ca"]):
        scanner = Scanner(patterns, name, regex=b"." in patterns[0])
        matches = scanner.scan(text)
        expected = [
            (start, end, number, data[s:e], "")
            for start, end, (s, e, number) in zip(*matches.encoded_spans(), matches, strict=True)
        ]
        found = grep(scanner, in_parts(random.Random(1), text, CUTS), overlapping=True)
        assert sorted(found, key=lambda m: (m.end, m.start, m.pattern)) == sorted(
            expected, key=lambda m: (m[1], m[0], m[2])
        )


def test_lengths_beyond_the_bound() -> None:
    """A match that may have any length ends where LONGEST bytes of it were seen at the latest, if they come in parts."""
    inside, beyond = b"<" + b"." * (LONGEST - 2) + b">", b"<" + b"." * (LONGEST + 9_000) + b">"
    scanner = Scanner([rb"<(?s:.)*?>"], regex=True)
    for data, count in ((inside, 1), (b"-" * 99_999 + inside + beyond, 2)):
        assert len(grep(scanner, [data])) == count
        for size in (50_000, 4_000):
            parts = [data[at : at + size] for at in range(0, len(data), size)]
            assert [m.content for m in grep(scanner, parts)][:1] == [inside]


@pytest.mark.skipif(sys.platform != "linux", reason="/proc")
@pytest.mark.parametrize(("pattern", "is_regex"), [(b"needle", False), (rb"n[e]+dle", True)])
def test_memory_is_that_of_a_part(pattern: bytes, is_regex: bool) -> None:
    """After 100 MB as after 10: neither the text is kept, nor the places of its line breaks, nor what was found."""
    stream = GrepStream(Scanner([pattern], "base64", regex=is_regex, strict=False))
    line = base64.encodebytes(b"a needle".ljust(57))
    hay = base64.encodebytes(b"hay".ljust(57)) * 500
    part = (line + hay) * (4_000_000 // len(line + hay))
    sizes, count = [], 0
    for number in range(25):
        count += len(stream.feed(part))
        if number in (3, 24):
            sizes.append(int(Path("/proc/self/statm").read_text().split()[1]) * 4096)
    assert count + len(stream.finish()) == 25 * part.count(line)
    assert sizes[1] - sizes[0] < 20_000_000
