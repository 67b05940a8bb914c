"""Scanner on a GPU: large data in every kind of memory, in windows, with few hits and with more than there is room for."""

from __future__ import annotations

import base64
import random
import re
from pathlib import Path

import numpy as np
import pytest
from support.search_oracle import literal_matches

from vyre_opt import EncodingError, Scanner

pytestmark = pytest.mark.gpu

LITERALS = [b"needle", b"haystack", b"pin" * 9, b"thread"]
SIZE = 120_000_000
ROOT = Path(__file__).parents[3]


@pytest.fixture(scope="module")
def data() -> bytes:
    """Random bytes with literals at the edges of windows and tiles, and anywhere."""
    octets = bytearray(np.random.default_rng(5).integers(0, 256, SIZE, np.uint8).tobytes())
    draw = random.Random(5)
    edges = [0, 43_008, 49_152, 50_400_000, 67_200_000, SIZE - 9]
    for at in [edge - draw.randrange(9) for edge in edges[1:]] + [
        draw.randrange(SIZE - 30) for _ in range(3000)
    ]:
        literal = draw.choice(LITERALS)
        octets[at : at + len(literal)] = literal
    return bytes(octets[:SIZE])


@pytest.mark.parametrize("encoding", [None, "base64", "hex"])
def test_every_kind_of_memory(data: bytes, encoding: str | None) -> None:
    torch = pytest.importorskip("torch")
    text = {None: lambda: data, "base64": lambda: base64.b64encode(data), "hex": lambda: data.hex().encode()}[
        encoding
    ]()
    expected = literal_matches(LITERALS, data)
    scanner = Scanner(LITERALS, encoding, target="cuda")
    assert list(scanner.scan(text)) == expected
    pinned = torch.empty(len(text), dtype=torch.uint8, pin_memory=True)
    pinned.numpy()[:] = np.frombuffer(text, np.uint8)
    assert list(scanner.scan(pinned.numpy())) == expected
    resident = pinned.cuda()
    assert list(Scanner(LITERALS, encoding).scan(resident)) == expected
    shifted = torch.cat([resident[:7], resident])[7:]  # an address that no vector is loaded from
    assert list(scanner.scan(shifted)) == expected
    parts = [text[at : at + 31_000_001] for at in range(0, len(text), 31_000_001)]
    assert list(scanner.scan_stream(parts)) == expected


def test_many_literals(data: bytes) -> None:
    draw = random.Random(6)
    literals = LITERALS + [draw.randbytes(draw.randrange(6, 20)) for _ in range(5000)]
    assert Scanner(literals, target="cuda").scan(data) == Scanner(literals, target="cpu").scan(data)


def test_a_match_at_every_byte() -> None:
    """More hits than there is room for; their places in order."""
    data = b"ab" * 5_000_000
    matches = Scanner([b"ab", b"ba"], target="cuda").scan(data)
    assert np.array_equal(matches.ends, np.arange(2, len(data) + 1, dtype=np.uint64))


def test_expressions(data: bytes) -> None:
    """Of one length, of several, and shown by their first bytes."""
    expressions = [rb"need[l-o]e", rb"hay[a-z]{2,6}k", rb"thread[\x00-\x40]{1,30}[\x80-\x90]"]
    text = base64.b64encode(data)
    matches = Scanner(expressions, "base64", regex=True, target="cuda").scan(text)
    assert matches == Scanner(expressions, "base64", regex=True, target="cpu").scan(text)
    starts = {(match.start, match.pattern) for match in matches}
    for number, expression in enumerate(expressions):
        assert all((found.start(), number) in starts for found in re.finditer(expression, data))


@pytest.mark.parametrize("place", [0, 67_199_999, 67_200_000, 159_999_998])
def test_wrong_characters(data: bytes, place: int) -> None:
    text = bytearray(base64.b64encode(data))
    text[place] = ord("%")
    with pytest.raises(EncodingError, match=f"at character {place}: '%'"):
        Scanner(LITERALS, "base64", target="cuda").scan(text)


def test_the_document() -> None:
    """The script of docs/guides/scanner.md that is for a GPU."""
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs/guides/scanner.md").read_text(), re.M | re.S)
    scripts = [block for block in blocks if "cuda" in block]
    assert scripts
    for script in scripts:
        exec(compile(script, "docs/guides/scanner.md", "exec"), {"__name__": "__main__"})
