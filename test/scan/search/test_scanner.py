"""Scanner: every match, in bytes and in encoded text, whole and in parts, as Python's own modules find them."""

from __future__ import annotations

import base64
import mmap
import pickle
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.parts import in_parts
from support.quick import quick
from support.search_oracle import encoded_place, literal_matches, regex_matches

from vyre_opt import EncodingError, PatternError, Scanner
from vyre_opt.execution import BadInputs
from vyre_scan.search import cpu, prefilter

ALPHABET = b"abAB\x00\xff\n "


def some_bytes(rng: random.Random, size: int, alphabet: bytes = ALPHABET) -> bytes:
    return bytes(rng.choices(alphabet, k=size))


def some_literals(rng: random.Random, count: int) -> list[bytes]:
    return [some_bytes(rng, rng.choice((1, 2, 3, 5, 8, 9, 20))) for _ in range(count)]


@pytest.mark.parametrize(
    ("seed", "caseless"), quick(((k // 2, k % 2 > 0) for k in range(24)), lambda case: case[1], 2)
)
def test_literals_in_bytes(seed: int, caseless: bool) -> None:
    rng = random.Random(seed)
    literals = some_literals(rng, rng.choice((1, 3, 40)))
    scanner = Scanner(literals, caseless=caseless, threads=rng.choice((1, 3)))
    for size in (0, 1, 2, 3, 70, 5000, rng.randrange(40_000, 150_000)):
        data = some_bytes(rng, size)
        assert list(scanner.scan(data)) == literal_matches(literals, data, caseless)


@pytest.mark.parametrize("seed", quick(range(6), keep=3))
def test_literals_that_are_filtered(seed: int) -> None:
    """Long literals in data of many bytes, planted at the edges of blocks, pieces and windows too."""
    rng = random.Random(seed)
    literals = [
        some_bytes(rng, rng.randrange(4, 40), bytes(range(256))) for _ in range(rng.choice((1, 8, 60)))
    ]
    scanner = Scanner(literals, threads=1 + seed % 2)
    assert scanner._tables.literals.prefilter is not None
    data = bytearray(rng.randbytes(rng.randrange(150_000, 400_000)))
    for place in [
        0,
        63,
        64,
        32_767,
        32_760,
        len(data) - 60,
        *(rng.randrange(len(data) - 60) for _ in range(500)),
    ]:
        literal = rng.choice(literals)
        data[place : place + len(literal)] = literal
    data[-len(literals[0]) :] = literals[0]
    assert list(scanner.scan(data)) == literal_matches(literals, bytes(data))


@pytest.mark.parametrize("shortest", [4, 5, 7, 12])
def test_literals_that_are_under_way_again_and_again(shortest: int) -> None:
    """Of two letters, so that walks are long, and the next one begins within what the last one went through."""
    rng = random.Random(shortest)
    literals = [
        b"a" * shortest,
        *(some_bytes(rng, rng.randrange(shortest, 40), b"aaaaaaab") for _ in range(9)),
    ]
    scanner = Scanner(literals, threads=1)
    assert scanner._tables.literals.prefilter is not None
    data = b"".join(rng.choice((b"a" * 30, b"b", b"x" * 70, *literals)) for _ in range(3000))
    assert list(scanner.scan(data)) == literal_matches(literals, data)


@pytest.mark.parametrize("caseless", [False, True])
@pytest.mark.parametrize("seed", quick(range(5), keep=2))
def test_many_literals(monkeypatch: pytest.MonkeyPatch, seed: int, caseless: bool) -> None:
    """Found by looks at every few bytes; planted at edges too, and one right behind the other."""
    monkeypatch.setattr(prefilter, "MOST_CANDIDATES", 0)
    rng = random.Random(seed)
    shortest = rng.choice((4, 5, 7, 14))
    letters = b"abcdefgXYZ\x00\xe9"
    literals = [some_bytes(rng, rng.randrange(shortest, shortest + 9), letters) for _ in range(600)]
    literals.append(some_bytes(rng, shortest, letters))
    scanner = Scanner(literals, caseless=caseless, threads=1 + seed % 2)
    assert scanner._tables.literals.prefilter is not None
    assert scanner._tables.literals.prefilter.stride == min(shortest - 3, 8)
    data = bytearray(rng.randbytes(rng.randrange(70_000, 200_000)))
    for place in [0, 1, 32_750, 32_768, *(rng.randrange(len(data) - 60) for _ in range(300))]:
        planted = b"".join(rng.choices(literals, k=rng.choice((1, 1, 3))))
        data[place : place + len(planted)] = planted.upper() if caseless and rng.random() < 0.5 else planted
    data[-len(literals[0]) :] = literals[0]
    assert list(scanner.scan(data)) == literal_matches(literals, bytes(data), caseless)


@pytest.mark.parametrize("seed", quick(range(6), keep=3))
def test_regular_expressions(seed: int) -> None:
    rng = random.Random(seed)
    pool = [
        rb"a+b",
        rb"(ab|ba)+",
        rb"^a",
        rb"b$",
        rb"\ba",
        rb"[^a]b{2,3}",
        rb"A.*B",
        rb"\Aab",
        rb"a\Z",
        rb"a(?i:b)c?",
        rb"(?m:^b|a$)",
    ]
    expressions = rng.sample(pool, 5)
    data = some_bytes(rng, 90)
    scanner = Scanner(expressions, regex=True)
    assert list(scanner.scan(data)) == regex_matches(expressions, data)
    assert list(Scanner([re.compile(e) for e in expressions]).scan(data)) == regex_matches(expressions, data)


OF_DIFFERENT_LENGTHS = [
    rb"aabb[ab]{1,40}",  # found by its first bytes, of which all ends are walked to
    rb"abab[a-b]{20,60}\b",
    rb"AIza[ab]{35}",
    rb"(?m:bbaa[ab]+$)",
    rb"baab[^\n]*$",
    rb"x?aab+\B",
    rb"(?s:A.+A)",
    rb"a\Z",
    rb"b+a",
]


@pytest.mark.parametrize("seed", quick(range(12), keep=3))
def test_few_bytes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is walked without a launch, before, between or after what programs search."""
    rng = random.Random(seed)
    monkeypatch.setattr(cpu, "FEW_BYTES", rng.choice((9, 50, 256)))
    expressions = [*rng.sample(OF_DIFFERENT_LENGTHS, 3), rb"(?m:^b|a$)", rb"A.*B", rb"ab", rb"b"]
    data = some_bytes(rng, rng.choice((1, 20, 120)), rng.choice((b"ab", ALPHABET)))
    for encoding in (None, "hex", "base64"):
        parts = in_parts(rng, encoded(encoding, data) if encoding else data, (0, 2, 9))
        for own in (expressions, expressions[-1:], expressions[-2:]):
            scanner = Scanner(own, encoding, regex=True)
            assert list(scanner.scan_stream(parts)) == regex_matches(own, data)
        literals = some_literals(rng, 20)
        assert list(Scanner(literals, encoding).scan_stream(parts)) == literal_matches(literals, data)


@pytest.mark.parametrize("seed", quick(range(8), keep=3))
def test_expressions_of_different_lengths_in_parts(seed: int) -> None:
    """However the data is cut, each end comes once, with its leftmost start, whatever part that was in."""
    rng = random.Random(seed)
    expressions = rng.sample(OF_DIFFERENT_LENGTHS, 4)
    data = some_bytes(rng, 150, rng.choice((b"ab", b"aabb\nAIzx"))).replace(
        b"abab", b"AIza" if seed % 3 == 0 else b"abab"
    )
    expected = regex_matches(expressions, data)
    scanner = Scanner(expressions, regex=True)
    assert list(scanner.scan(data)) == expected
    for count in (1, 4, 40):
        chunks = in_parts(rng, data, [count])
        assert list(scanner.scan_stream(chunks)) == expected
        stream = scanner.stream()
        parts = [*map(stream.feed, chunks), stream.finish()]
        assert sorted((m for part in parts for m in part), key=lambda m: (m.end, m.pattern)) == expected


def test_a_match_that_is_longer_than_what_a_stream_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre_scan.search import stream

    monkeypatch.setattr(stream, "HISTORY", 1000)
    for expression in (rb"(?s)xy.*z", rb"(?s)wxyz[^q]*z"):
        scanner = Scanner([expression], regex=True)
        data = b".wxyz" + b"." * 5000 + b"z"
        assert scanner.scan(data)[-1].end == len(data)
    scanner = Scanner([rb"wxyz(?s:.)*"], regex=True)
    with pytest.raises(ValueError, match="more than the 1000 bytes that a stream sees"):
        scanner.scan_stream([data[k : k + 100] for k in range(0, len(data), 100)])


def encoded(name: str, data: bytes) -> bytes:
    if name == "hex":
        return data.hex().encode()
    return base64.urlsafe_b64encode(data) if name == "base64url" else base64.b64encode(data)


@pytest.mark.parametrize("name", ["base64", "base64url", "hex"])
@pytest.mark.parametrize("seed", quick(range(4)))
def test_encoded_text(name: str, seed: int) -> None:
    rng = random.Random(seed)
    literals = some_literals(rng, 5)
    scanner = Scanner(literals, encoding=name)
    for size in (0, 1, 2, 3, 23, 24, 25, 47, 5000, 100_001):
        data = some_bytes(rng, size)
        matches = scanner.scan(encoded(name, data))
        assert list(matches) == literal_matches(literals, data)
        first, last = matches.encoded_spans()
        bits = 4 if name == "hex" else 6
        assert first.tolist() == [match.start * 8 // bits for match in matches]
        assert last.tolist() == [-(-match.end * 8 // bits) for match in matches]


@pytest.mark.parametrize("name", ["base64", "base64url", "hex"])
@pytest.mark.parametrize("seed", quick(range(4)))
def test_blanks_and_line_breaks(name: str, seed: int) -> None:
    """Where the text has the characters that hold a match, not counting blanks."""
    rng = random.Random(seed)
    literals = some_literals(rng, 4)
    scanner = Scanner(literals, encoding=name, strict=False)
    for size in (0, 1, 50, 3000):
        data = some_bytes(rng, size)
        text = encoded(name, data).rstrip(b"=" if rng.random() < 0.5 else b"")
        parts = [text[at : at + 76] for at in range(0, len(text), 76)]
        broken = rng.choice((b"\r\n", b"\n", b" \t\v\f")).join(parts) + b"\n" * rng.randrange(3)
        matches = scanner.scan(broken)
        assert list(matches) == literal_matches(literals, data)
        first, last = matches.encoded_spans()
        bits = 4 if name == "hex" else 6
        for place, match in enumerate(matches[:50]):
            assert first[place] == encoded_place(broken, match.start * 8 // bits)
            assert last[place] == encoded_place(broken, -(-match.end * 8 // bits) - 1) + 1


@pytest.mark.parametrize("encoding", [None, "base64", "hex"])
@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize("seed", quick(range(4)))
def test_data_in_parts(encoding: str | None, strict: bool, seed: int) -> None:
    """What spans two chunks, or many, is found; regular expressions too."""
    rng = random.Random(seed)
    data = some_bytes(rng, 20_000)
    text = data if encoding is None else encoded(encoding, data)
    if not strict and encoding is not None:
        text = b"\n".join(text[at : at + 60] for at in range(0, len(text), 60))
    chunks = in_parts(rng, text, (1, 10, 300))
    for patterns, regex in (
        (some_literals(rng, 30), False),
        ([rb"a+b", rb"^b", rb"B\Z", rb"[ab]{12}"], True),
    ):
        scanner = Scanner(patterns, encoding, regex=regex, strict=strict)
        whole = scanner.scan(text)
        assert scanner.scan_stream(iter(chunks)) == whole
        spans = zip(scanner.scan_stream(chunks).encoded_spans(), whole.encoded_spans(), strict=True)
        assert all(np.array_equal(mine, theirs) for mine, theirs in spans)


def test_matches_come_with_the_part_that_ends_them() -> None:
    stream = Scanner([b"needle"]).stream()
    assert list(stream.feed(b"a nee")) == []
    assert list(stream.feed(b"dle, a needle")) == [(2, 8, 0), (12, 18, 0)]
    assert list(stream.finish()) == []


@pytest.mark.parametrize("pattern", [rb"ab", rb"ab$", rb"ab\Z", rb"ab\b", rb"a+b*", rb"(?:x|a)*b"])
def test_what_is_settled(pattern: bytes) -> None:
    """No match that comes later begins before what was settled."""
    stream = Scanner([pattern], regex=True).stream()
    settled = 0
    for part in (b"ab", b"", b"\n", b"a", b"b", b"\n", b"abab", b"\n"):
        assert all(match.start >= settled for match in stream.feed(part))
        settled = stream.settled
    assert all(match.start >= settled for match in stream.finish())


@pytest.mark.parametrize(
    ("text", "place", "what"),
    [
        (b"YWJj!WJj", 4, "'!' is no character of base64"),
        (b"A" * 1000 + b"\x80" + b"A" * 99, 1000, r"'\x80' is no character of base64"),
        (b"YWJj\nYWJj", 4, "strict=False skips blanks"),
        (b"YW==YWJj", 4, "'Y' behind the padding"),
        (b"YW==\n", 4, "'\\n' is no character"),
        (b"YWJj=", 4, "`=` where no padding belongs"),
        (b"YW=", 3, "ends within a group of 4"),
        (b"YW===", 4, "`=` where no padding belongs"),
        (b"YW", 2, "ends within a group of 4"),
        (b"YWJjY", 5, "ends within a group of 4"),
        (b"YWJ-", 3, "'-' is no character"),
    ],
)
def test_text_that_encodes_nothing(text: bytes, place: int, what: str) -> None:
    scanner = Scanner([b"abc"], encoding="base64")
    for chunks in ([text], [text[k : k + 1] for k in range(len(text))]):
        with pytest.raises(EncodingError, match=f"at character {place}: .*{re.escape(what)}") as error:
            scanner.scan_stream(chunks)
        assert error.value.place == place
        assert isinstance(pickle.loads(pickle.dumps(error.value)), ValueError)


def test_places_of_errors_count_blanks() -> None:
    scanner = Scanner([b"abc"], encoding="base64", strict=False)
    text = b"YWJj\r\n" * 500 + b"YW!j"
    with pytest.raises(EncodingError, match="at character 3002: '!'"):
        scanner.scan(text)
    assert len(scanner.scan(b"YWJj\n\n Y W J j")) == 2
    with pytest.raises(EncodingError, match="at character 4: '='"):
        Scanner(["a"], encoding="hex", strict=False).scan("61 6=")


def data_of_each_kind(data: bytes, folder: Path) -> dict[str, Any]:
    path = folder / "data"
    path.write_bytes(data)
    with path.open("rb") as file:
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    array = np.frombuffer(data, np.uint8)
    return {
        "bytes": data,
        "bytearray": bytearray(data),
        "memoryview": memoryview(data),
        "every second": memoryview(bytes(b for byte in data for b in (byte, 0)))[::2],
        "mmap": mapped,
        "array": array,
        "strided": np.repeat(array, 3)[::3],
        "str": data.decode(),
    }


def test_data_of_each_kind(tmp_path: Path) -> None:
    data = b"a needle, a pin " * 500
    scanner = Scanner(["needle", b"pin", np.frombuffer(b"a ", np.uint8)])
    expected = literal_matches([b"needle", b"pin", b"a "], data)
    for name, each in data_of_each_kind(data, tmp_path).items():
        assert list(scanner.scan(each)) == expected, name


@pytest.mark.parametrize("data", [3, None, [1, 2], np.zeros(3, np.float32), {"a": 1}])
def test_data_of_no_kind(data: Any) -> None:
    with pytest.raises(BadInputs, match="data is bytes"):
        Scanner(["a"]).scan(data)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([],), "there are 0 patterns"),
        ((b"abc",), "patterns is a list"),
        ((["a", ""],), r"patterns\[1\] has 0 bytes"),
        (([3],), r"patterns\[0\] is int"),
        ((["a"], "base32"), "unknown encoding 'base32'"),
        ((3,), "patterns is a list"),
    ],
)
def test_wrong_arguments(arguments: tuple[Any, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Scanner(*arguments)
    with pytest.raises(BadInputs, match="threads is a number"):
        Scanner(["a"], threads=0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"caseless": "yes"}, "caseless is True or False, not 'yes'"),
        ({"strict": None}, "strict is True or False"),
        ({"threads": True}, "threads is a number"),
    ],
)
def test_wrong_options(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(BadInputs, match=message):
        Scanner(["a"], **arguments)
    assert Scanner(["a"], caseless=np.bool_(True), threads=np.int64(2)).threads == 2


@pytest.mark.parametrize("chunks", [b"abc", "abc", None, 3, np.zeros(3, np.uint8)])
def test_data_in_the_place_of_its_parts(chunks: Any) -> None:
    with pytest.raises(BadInputs, match="scan takes the whole"):
        Scanner(["a"]).scan_stream(chunks)


def test_a_stream_that_has_ended() -> None:
    stream = Scanner([rb"ab+\Z"], regex=True).stream()
    stream.feed(b"abb")
    assert len(stream.finish()) == 1
    for call in (stream.finish, lambda: stream.feed(b"b")):
        with pytest.raises(BadInputs, match="the stream is finished"):
            call()
    stream = Scanner(["a"], encoding="base64").stream()
    with pytest.raises(EncodingError):
        stream.feed(b"YWJj*YWJj")
    with pytest.raises(BadInputs, match="the stream failed: at character 4"):
        stream.feed(b"YWJj")


def test_an_expression_with_a_mistake() -> None:
    with pytest.raises(PatternError, match=r"patterns\[1\]"):
        Scanner([rb"ab", rb"a(b"], regex=True)


def test_files_and_pickles(tmp_path: Path) -> None:
    data = base64.b64encode(b"a needle, aab")
    for scanner in (
        Scanner(["needle", "a"], encoding="base64"),
        Scanner([rb"a+b", rb"n.*d"], encoding="base64", regex=True, strict=False),
    ):
        path = tmp_path / "scanner.npz"
        scanner.save(path)
        loaded = Scanner.load(path, threads=2)
        assert loaded.scan(data) == scanner.scan(data) == pickle.loads(pickle.dumps(scanner)).scan(data)
        assert (loaded.encoding, loaded.strict, loaded.num_patterns) == ("base64", scanner.strict, 2)
        assert list(tmp_path.iterdir()) == [path]


def test_files_of_no_scanner(tmp_path: Path) -> None:
    """What was changed in a file is in test_mutations."""
    path = tmp_path / "scanner.npz"
    with pytest.raises(FileNotFoundError):
        Scanner.load(path)
    for content in (b"", b"PK\x03\x04", b"no archive" * 50):
        path.write_bytes(content)
        with pytest.raises(ValueError, match=r"scanner\.npz"):
            Scanner.load(path)
    with pytest.raises(OSError, match="nowhere"):
        Scanner(["a"]).save(tmp_path / "nowhere" / "scanner.npz")
    with pytest.raises(OSError, match="is a folder"):
        Scanner(["a"]).save(tmp_path)


def test_a_match_at_every_byte() -> None:
    """Pieces with more hits than there was room for are searched again."""
    matches = Scanner([b"a", b"aa", b"aaa"]).scan(b"a" * 300_000)
    assert len(matches) == 3 * 300_000 - 3
    assert np.array_equal(matches.patterns[-6:], [0, 1, 2, 0, 1, 2])
    assert (np.diff(matches.ends.astype(np.int64)) >= 0).all()
    assert (matches.ends - matches.starts == matches.patterns + 1).all()


def test_a_stream_of_many_line_breaks_keeps_few() -> None:
    """Neither with matches nor without does a stream remember where all blanks were."""
    line = base64.b64encode(b"hay" * 19) + b"\r\n"
    for part in (line * 1000, base64.b64encode(b"a needle" * 3) + b"\n" + line * 1000):
        stream = Scanner([b"needle"], "base64", strict=False).stream()
        for _ in range(30):
            stream.feed(part)
        assert stream._decoder is not None
        assert sum(window.count for window in stream._decoder.places._windows) < 100
