"""Texts and files that were changed at random: a clear error at the right place, or what another decoder gives."""

from __future__ import annotations

import base64
import json
import random
import re
from pathlib import Path

import pytest
from support.parts import in_parts
from support.search_oracle import literal_matches

from vyre_opt import EncodingError, Scanner

BLANKS = b" \t\r\n\v\f"
ALPHABETS = {"base64": rb"[A-Za-z0-9+/]", "base64url": rb"[A-Za-z0-9_-]", "hex": rb"[0-9A-Fa-f]"}
NEEDLES = [b"ab", b"b\x00", b"ca", b"needle"]
BATCH = 500


def grammar(name: str, strict: bool) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """What a text is without blanks, and what a beginning of one is."""
    a = ALPHABETS[name]
    if name == "hex":
        return re.compile(b"(?:%s%s)*" % (a, a)), re.compile(b"%s*" % a)
    last = b"|".join(
        [b"%s{2}==" % a, b"%s{3}=" % a, *([] if strict and name == "base64" else [b"%s{2,3}" % a])]
    )
    begun = b"|".join([b"%s{2}==?" % a, b"%s{3}=" % a, b"%s{1,3}" % a])
    return re.compile(b"(?:%s{4})*(?:%s)?" % (a, last)), re.compile(b"(?:%s{4})*(?:%s)?" % (a, begun))


def decoded(name: str, text: bytes) -> bytes:
    if name == "hex":
        return bytes.fromhex(text.decode())
    padded = text.rstrip(b"=") + b"=" * (-len(text.rstrip(b"=")) % 4)
    return base64.b64decode(padded, b"-_" if name == "base64url" else None)


def mutated(rng: random.Random, name: str) -> bytes:
    data = bytes(rng.choices(b"abc\x00", k=rng.choice((0, 1, 2, 3, 20, 24, 25, 90, 1000, 7000))))
    text = bytearray(
        data.hex().encode()
        if name == "hex"
        else base64.b64encode(data, b"-_" if name == "base64url" else None)
    )
    for _ in range(rng.choice((0, 1, 1, 1, 2, 5))):
        place = rng.randrange(len(text) + 1)
        piece = bytes(rng.choices(b"A=+/-_ \n!\x00\xe9", k=rng.choice((1, 1, 2, 3))))
        match rng.randrange(4):
            case 0:
                text[place:place] = piece
            case 1:
                text[place : place + 1] = piece[:1]
            case 2:
                del text[place : place + rng.choice((1, 2, 40))]
            case _:
                text += rng.choice((b"=", b"==", b"\n", piece))
    return bytes(text)


def check(seed: int) -> bool:
    """Whether the text of a seed is one."""
    rng = random.Random(seed)
    name, strict = rng.choice([*ALPHABETS]), rng.random() < 0.5
    text = mutated(rng, name)
    parts = in_parts(rng, text, (0, 0, 3))
    bare = text if strict else bytes(c for c in text if c not in BLANKS)
    whole, begun = grammar(name, strict)
    scanner = Scanner(NEEDLES, name, strict=strict)
    if whole.fullmatch(bare):
        assert list(scanner.scan_stream(parts)) == literal_matches(NEEDLES, decoded(name, bare))
        return True
    with pytest.raises(EncodingError) as error:
        scanner.scan_stream(parts)
    place = error.value.place
    before, upto = text[:place], text[: place + 1]
    if not strict:
        before, upto = (bytes(c for c in each if c not in BLANKS) for each in (before, upto))
    assert begun.fullmatch(before), (text, str(error.value))
    assert place == len(text) or not begun.fullmatch(upto), (text, str(error.value))
    return False


def test_texts() -> None:
    valid = [check(seed) for seed in range(100)]
    assert 20 < sum(valid) < 80


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(100, 11_100, BATCH))
def test_more_texts(first: int) -> None:
    for seed in range(first, first + BATCH):
        check(seed)


def changed(rng: random.Random, stored: bytes) -> bytes:
    """With a byte of a file changed, gone, or one more, or a value of its record of another kind."""
    place = rng.randrange(len(stored))
    match rng.randrange(4):
        case 0:
            return stored[:place] + bytes([rng.randrange(256)]) + stored[place + 1 :]
        case 1:
            return stored[:place] + stored[place + rng.choice((1, 9)) :]
        case 2:
            return stored[:place] + rng.choice((b"[", b"9", b'"', b"-")) + stored[place:]
    record = json.loads(stored)
    record[rng.choice([*record])] = rng.choice(
        (None, True, -1, "a", [], [1], [[0]], {"a": 1}, [[9, 0, 1, 0, 0]])
    )
    return json.dumps(record).encode()


def check_files(folder: Path, seed: int, count: int) -> None:
    """A changed file is a ValueError, or a scanner for what it says now."""
    rng = random.Random(seed)
    path = folder / "scanner.json"
    scanners = (
        Scanner(NEEDLES),
        Scanner([rb"a+b", rb"needles?\b", rb"xyz4[ab]{9,80}c"], "base64", regex=True),
    )
    text = base64.b64encode(b"a needle, aab xyz4abababababababc" * 50)
    for scanner in scanners:
        scanner.save(path)
        stored = path.read_bytes()
        assert Scanner.load(path).scan(text) == scanner.scan(text)
        for _ in range(count):
            path.write_bytes(changed(rng, stored))
            try:
                loaded = Scanner.load(path)
            except ValueError:
                continue
            loaded.with_threads(1).scan_stream([])


def test_files(tmp_path: Path) -> None:
    check_files(tmp_path, 1, 40)


@pytest.mark.campaign
@pytest.mark.parametrize("seed", range(1, 10))
def test_more_files(tmp_path: Path, seed: int) -> None:
    check_files(tmp_path, seed, 250)
