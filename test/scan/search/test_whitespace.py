"""Blanks of every kind of text are skipped, and matches have their places in it: lines of one length, and of any."""

from __future__ import annotations

import base64
import random

import pytest
from support.quick import quick
from support.search_oracle import literal_matches

from vyre_opt import EncodingError, Scanner
from vyre_scan.search import decoder

BLANKS = b" \t\r\n\v\f"


def broken(text: bytes, rng: random.Random) -> bytes:
    """In stretches, each with its own way to break lines."""
    parts, at = [], 0
    while at < len(text):
        stretch = text[at : at + rng.choice((10, 700, 9000, 40_000))]
        at += len(stretch)
        kind = rng.randrange(4)
        length, end = rng.choice((1, 4, 64, 76, 200)), rng.choice((b"\n", b"\r\n", b" \n", b"\n\n"))
        lines = [stretch[k : k + length] for k in range(0, len(stretch), length)]
        if kind == 1:  # a line of another length, and a blank within one
            lines[rng.randrange(len(lines))] += rng.choice((b"", b"A" * 4, b" ", b"\t")) * 2
            lines = [line.replace(b"A" * 8, b"") for line in lines]
        if kind == 2:
            lines = [bytes([c]) + bytes(rng.choices(BLANKS, k=rng.choice((0, 0, 0, 1)))) for c in stretch]
            end = b""
        parts.append(stretch if kind == 3 else end.join([*lines, b""]))
    return b"".join(parts)


@pytest.mark.parametrize("wrong", b"\0\x08\x0e\x1f!\x7f\xff")
def test_a_wrong_character_behind_blanks(wrong: int) -> None:
    """Characters below the blank are none."""
    text = b" QkFC\n" * 50 + bytes([wrong]) + b"\n \nAAAA"
    with pytest.raises(EncodingError, match="at character 300: "):
        Scanner([b"a"], "base64", strict=False).scan(text)


@pytest.mark.parametrize("seed", quick(range(12), keep=4))
def test_broken_text(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(decoder, "WINDOW", rng.choice((1 << 10, 1 << 14, 1 << 22)))
    data = bytearray(rng.randbytes(3 * rng.randrange(400, 30_000)))  # in whole groups, without padding
    for _ in range(50):
        at = rng.randrange(len(data) - 6)
        data[at : at + 6] = b"needle"
    text = broken(base64.b64encode(data), rng)
    plain = text.translate(None, BLANKS)
    decoded = base64.b64decode(plain, validate=True)
    found = Scanner([b"needle"], "base64", strict=False, threads=1).scan(text)
    assert list(found) == literal_matches([b"needle"], decoded)
    places = [place for place, character in enumerate(text) if character not in BLANKS]
    for match, first, end in zip(found, *(column.tolist() for column in found.encoded_spans()), strict=True):
        assert first == places[match.start * 8 // 6]
        assert end == places[-(-match.end * 8 // 6) - 1] + 1
