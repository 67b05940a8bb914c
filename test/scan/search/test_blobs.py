"""Base64 and hexadecimal digits in ordinary files: an oracle that decodes every run, from every character on, by `re` and `base64`."""

from __future__ import annotations

import base64
import json
import random
import re
from typing import Any
from urllib.parse import quote_from_bytes

import numpy as np
import pytest
from support.parts import in_parts
from support.quick import quick

from vyre_opt import Scanner
from vyre_scan.search import blob_stream
from vyre_scan.search.blob_stream import BlobStream, scan_blobs
from vyre_scan.search.blobs import blobs_of
from vyre_scan.search.grep_stream import GrepMatch

RUN = rb"[A-Za-z0-9+/_-]"
WORDS = [
    b"word",
    b"path/to/file",
    b"=",
    b" ",
    b'"',
    b"\n",
    b"-----BEGIN X-----",
    b"camelCaseIdentifier",
    b".",
    b"\\",
    b"\\n",
]
SECRETS = [b"hunter2!", b"AKIA0123456789ABCDEF", b"-----BEGIN RSA PRIVATE KEY-----"]


def encoded(rng: random.Random, content: bytes) -> bytes:
    """As files have it: in lines, in JSON, in the alphabet of URLs or quoted for them, with padding or without, in digits, behind a word."""
    text = rng.choice([base64.b64encode, base64.urlsafe_b64encode])(content)
    if rng.random() < 0.5:
        text = text.rstrip(b"=")
    width = rng.choice([16, 19, 64, 76])
    match rng.randrange(7):
        case 5:
            text = quote_from_bytes(text, safe="").encode()
        case 6:
            text = rng.choice((content.hex(), content.hex().upper())).encode()
            text = b"\n".join(text[at : at + width] for at in range(0, len(text), width))
        case 0:
            breaks = rng.choice([b"\n", b"\r\n", b"\n    ", b"\\n", b"\\r\\n", b"\r\n\t"])
            text = breaks.join(text[at : at + width] for at in range(0, len(text), width))
        case 1:
            text = json.dumps(text.decode()).replace("/", "\\/").encode()
    return rng.choice([b"", b"key=", b"a", b"ab", b"abc/", b"-----\n", b'"', b" "]) + text


def some_file(rng: random.Random, size: int) -> tuple[bytes, list[bytes]]:
    """A file, and the secrets that it hides."""
    parts, planted = [], []
    while sum(map(len, parts)) < size:
        parts += rng.choices(WORDS, k=rng.randrange(30))
        if rng.random() < 0.5:
            secret = rng.choice(SECRETS)
            content = rng.randbytes(rng.randrange(40)) + secret + rng.randbytes(rng.randrange(300))
            parts += [b" ", encoded(rng, content), b" "]
            planted.append(secret)
    return b"".join(parts), planted


@pytest.mark.parametrize("is_regex", [False, True])
@pytest.mark.parametrize("seed", quick(range(6), keep=2))
def test_every_secret_is_found(seed: int, is_regex: bool) -> None:
    rng = random.Random(seed)
    patterns = [re.escape(secret) for secret in SECRETS] if is_regex else SECRETS
    if is_regex:
        patterns[1] = rb"AKIA[0-9A-Z]{10,16}"
    data, planted = some_file(rng, 5000)
    found = scan_blobs(Scanner(patterns, regex=is_regex), data)
    assert [match.content for match in found] == planted
    assert sorted(found) == found
    for match in found:
        assert SECRETS[match.pattern] == match.content


def every_run(data: bytes, pattern: bytes, shortest: int = 16) -> list[tuple[int, int]]:
    """The places of a literal in what runs without line breaks hold, decoded from each of their characters on."""
    found = set()
    for run in re.finditer(rb"%s{%d,}" % (RUN, shortest), data):
        for begin in range(len(run[0])):
            text = run[0][begin:].translate(bytes.maketrans(b"-_", b"+/"))
            text = text[: len(text) - (len(text) % 4 == 1)]
            content = base64.b64decode(text + b"=" * (-len(text) % 4))
            if content.startswith(pattern):
                found.add((run.start() + begin, run.start() + begin + -(-len(pattern) * 8 // 6)))
            if begin == 0 or content[1:].startswith(pattern):
                for at in re.finditer(b"(?=" + re.escape(pattern) + b")", content):
                    first = run.start() + begin + at.start() * 8 // 6
                    last = run.start() + begin - (-(at.start() + len(pattern)) * 8 // 6)
                    found.add((first, last))
    return sorted(found)


@pytest.mark.parametrize("seed", quick(range(5), keep=2))
def test_short_literals_in_all_phases(seed: int) -> None:
    rng = random.Random(seed)
    data = bytes(rng.choices(b"abcdQUJD+/-_. =", [9] * 12 + [1] * 3, k=3000))
    for pattern in (b"i", b"AB", b"\x69\xb7"):
        found = scan_blobs(Scanner([pattern]), data, overlapping=True, encodings=("base64",))
        assert sorted({(match.start, match.end) for match in found}) == every_run(data, pattern)
        assert len({(match.start, match.end, match.content) for match in found}) == len(set(found))


def scan_parts(scanner: Scanner, parts: list[bytes], **options: Any) -> list[GrepMatch]:
    stream = BlobStream(scanner, **options)
    found = [match for part in parts for match in stream.feed(part)]
    return sorted(found + stream.finish())


@pytest.mark.parametrize(
    "patterns",
    [[b"hunter2!", b"AK", b"a"], [rb"AKIA\w+", rb"-+BEGIN", rb"[a-z]{2,7}"], [rb"\bA", rb"(?m)^.a"]],
)
@pytest.mark.parametrize("seed", quick(range(3)))
def test_parts(patterns: list[bytes], seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever a file is cut, and however long its blobs are, the same is found."""
    rng = random.Random(seed)
    data, _ = some_file(rng, 2000)
    data += base64.b64encode(rng.randbytes(3000) + b"hunter2!" + rng.randbytes(999)) + b" ."
    scanner = Scanner(patterns, regex=patterns[0] != b"hunter2!")
    whole = sorted(scan_blobs(scanner, data))
    assert whole
    for count in (1, 5, 60):
        assert scan_parts(scanner, in_parts(rng, data, [count])) == whole
    monkeypatch.setattr(blob_stream, "MOST_WAITING", 1)
    for count in (5, 60):
        assert scan_parts(scanner, in_parts(rng, data, [count])) == whole


@pytest.mark.parametrize("overlapping", [False, True])
def test_a_match_of_one_blob_hides_none_of_the_next(overlapping: bool) -> None:
    """A blob has what it would have alone, though all are searched as one text."""
    rng = random.Random(5)
    scanner = Scanner([rb"a[^z]*b", rb"b.{2,4}c"], regex=True)
    blobs = [base64.b64encode(bytes(rng.choices(b"abcz.", [1, 1, 1, 2, 12], k=36))) for _ in range(200)]
    expected = [
        match._replace(start=match.start + 50 * number, end=match.end + 50 * number)
        for number, blob in enumerate(blobs)
        for match in scan_blobs(scanner, blob, overlapping=overlapping)
    ]
    assert len({match.start // 50 for match in expected}) > 50
    assert scan_blobs(scanner, b". ".join(blobs), overlapping=overlapping) == expected


@pytest.mark.parametrize("seed", quick(range(8)))
def test_quoted_characters_and_digits(seed: int) -> None:
    """Parts may be cut anywhere, also within %2B; digits begin at an even or an odd place of their run."""
    rng = random.Random(seed)
    content = bytes(rng.choices(b"\xff?>\xfb\xef", k=rng.randrange(3, 30))) + SECRETS[1] + b"\xff?\xfb" * 3
    quoted = quote_from_bytes(base64.b64encode(content), safe="").replace("%2F", rng.choice(("%2F", "%2f")))
    assert "%2" in quoted
    for data, encoding in ((f"/?k={quoted}&l=1", "base64"), (f"x={'0' * (seed % 2)}{content.hex()};", "hex")):
        scanner = Scanner([SECRETS[1]])
        whole = scan_blobs(scanner, data.encode())
        assert [(match.content, match.encoding) for match in whole] == [(SECRETS[1], encoding)]
        for cut in range(len(data)):
            stream = BlobStream(scanner)
            halves = [*stream.feed(data[:cut].encode()), *stream.feed(data[cut:].encode()), *stream.finish()]
            assert halves == whole


def test_a_blob_of_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A line of megabytes is searched as it comes, and what spans its parts is found once."""
    rng = random.Random(3)
    content = bytearray(rng.randbytes(3_000_000))
    places = [0, 49_150, 1_000_001, 2_400_000, len(content) - 8]
    for place in places:
        content[place : place + 8] = b"hunter2!"
    data = b"x = " + base64.b64encode(content)
    stream = BlobStream(Scanner([b"hunter2!"]))
    found = []
    for at in range(0, len(data), 65_536):
        found += stream.feed(data[at : at + 65_536])
        assert all(len(search._waiting) < 400_000 for search in stream._searches)
    found += stream.finish()
    assert [match.start for match in found] == [4 + place * 8 // 6 for place in places]


def test_where_blobs_are() -> None:
    pem = b"-----BEGIN CERTIFICATE-----\n" + b"\n".join([b"A" * 64] * 3 + [b"B" * 10 + b"=="]) + b"\n-----END"
    starts, ends = blobs_of(pem)
    assert [pem[a:b] for a, b in zip(starts, ends, strict=True)] == [pem[11:-9]]
    data = b"short words and identifiers_of_some_length, " + b"Q" * 20 + b"= " + b"R" * 15
    starts, ends = blobs_of(data)
    assert [data[a:b] for a, b in zip(starts, ends, strict=True)] == [
        b"identifiers_of_some_length",
        b"Q" * 20 + b"=",
    ]
    assert len(blobs_of(data, min_length=15)[0]) == 3
    for nothing in (b"", b"=", b"\n\n", np.zeros(99, np.uint8)):
        assert len(blobs_of(nothing)[0]) == 0


def test_shortest_blobs() -> None:
    data = b"a " + base64.b64encode(b"secret") + b" b"
    assert scan_blobs(Scanner([b"secret"]), data) == []
    assert [match[:2] for match in scan_blobs(Scanner([b"secret"]), data, min_length=8)] == [(2, 10)]
    with pytest.raises(ValueError, match="at least"):
        scan_blobs(Scanner([b"secret"]), data, min_length=0)


@pytest.mark.parametrize("lead", quick((0, 3, 5, 1, 2, 4), keep=3))
def test_the_last_characters_of_a_blob(lead: int) -> None:
    """Wherever a blob begins in its run, its last bytes are found, with padding or without."""
    scanner = Scanner([b"AKIAIOSFODNN7EXAMPLE"])
    for before in range(7):
        text = base64.b64encode(b"k" * before + b"AKIAIOSFODNN7EXAMPLE")
        for blob in (text, text.rstrip(b"=")):
            for behind in (b"", b"\n", b'"'):
                data = b": " + b"/" * lead + blob + behind
                (match,) = scan_blobs(scanner, data)
                assert match.content == b"AKIAIOSFODNN7EXAMPLE"
                assert (match.start, match.end) == (
                    2 + lead + before * 8 // 6,
                    2 + lead - (-(before + 20) * 8 // 6),
                )


@pytest.mark.parametrize("gap", quick([b" \n", b"\t\\r\\n\t", b"\t\n", b" \r\n", b" \n ", b" \\n"], keep=2))
def test_blanks_before_a_line_break(gap: bytes) -> None:
    text = base64.b64encode(b"the key is AKIAIOSFODNN7EXAMPLE, as it was")
    data = gap.join(text[k : k + 20] for k in range(0, len(text), 20))
    scanner = Scanner([b"AKIAIOSFODNN7EXAMPLE"])
    assert [match.content for match in scan_blobs(scanner, data)] == [b"AKIAIOSFODNN7EXAMPLE"]
    for cut in range(len(data)):
        stream = BlobStream(scanner)
        found = [*stream.feed(data[:cut]), *stream.feed(data[cut:]), *stream.finish()]
        assert [match.content for match in found] == [b"AKIAIOSFODNN7EXAMPLE"]


def test_heads_of_blobs() -> None:
    """What begins before the first character of a decoding is not found, whatever comes before the blob."""
    scanner = Scanner([b"\xff"])
    blob = (
        b"A__" + b"A" * 17
    )  # characters 1 and 2 have a byte of ones from bit 4 on alone, in the decoding from 0 on
    alone = [(match.start, match.end) for match in scan_blobs(scanner, b": " + blob)]
    other = [(match.start, match.end) for match in scan_blobs(scanner, b"B" * 20 + b": " + blob)]
    assert other == [(start + 20, end + 20) for start, end in alone]


@pytest.mark.parametrize("seed", quick(range(8)))
def test_escaped_slashes(seed: int) -> None:
    """As JSON may have them: any number of characters may be between two, and parts be cut anywhere."""
    rng = random.Random(seed)
    content = (
        bytes(rng.choices(b"\xff?>\xfe", k=rng.randrange(3, 30)))
        + SECRETS[1]
        + bytes(rng.choices(b"\xff?", k=9))
    )
    data = b'{"path": "a\\/b", "key": "' + base64.b64encode(content).replace(b"/", b"\\/") + b'"}'
    scanner = Scanner([SECRETS[1]])
    whole = scan_blobs(scanner, data)
    assert [match.content for match in whole] == [SECRETS[1]]
    for cut in range(len(data)):
        stream = BlobStream(scanner)
        assert [*stream.feed(data[:cut]), *stream.feed(data[cut:]), *stream.finish()] == whole
