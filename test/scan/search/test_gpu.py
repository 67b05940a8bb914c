"""Searches on a GPU give what Python's own modules find, of data in main memory and on the GPU, whole and in parts."""

from __future__ import annotations

import base64
import random
from typing import Any

import numpy as np
import pytest
from fake_gpu import CupyArray, Numba, aligned, cupy
from support.parts import in_parts
from support.quick import quick
from support.search_oracle import literal_matches, regex_matches

from vyre_opt import EncodingError, Scanner, kernels
from vyre_opt.execution import BackendError, BadInputs
from vyre_opt.targets.cuda import libcuda
from vyre_scan.search import gpu_tables
from vyre_scan.search.gpu import GpuSearch

ENCODINGS = (None, "base64", "base64url", "hex")
EXPRESSIONS = (
    [rb"a[bc]{2}a", rb"cab"],
    [rb"a[bc]{1,4}a", rb"ca?b", rb"bbb"],
    [rb"(ab|ba){2,3}c?c", rb"[ab]{3,20}c"],
    [rb"abc[ab]{3,40}c.{5,30}a", rb"cab$", rb"b[ac]{1,2}b"],
    [rb"abcabc[^b]*", rb"(?s)bacbac.*?ccc", rb"\bcab"],
)


def encoded(data: bytes, encoding: str | None) -> bytes:
    if encoding is None:
        return data
    if encoding == "hex":
        return data.hex().encode()
    return base64.b64encode(data, b"-_" if encoding == "base64url" else None)


def searched_by_gpu(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many characters each window has that a GPU searched from now on."""
    counts: list[int] = []
    windows = GpuSearch.windows

    def counted(self: GpuSearch, text: Any, first: int, end: int) -> Any:
        for window in windows(self, text, first, end):
            counts.append(0 if window.hits is None else window.size)
            yield window

    monkeypatch.setattr(GpuSearch, "windows", counted)
    return counts


def planted(rng: random.Random, size: int, literals: list[bytes], alphabet: bytes) -> bytes:
    data = bytearray(rng.choices(alphabet, k=size))
    for _ in range(size // 100):
        literal = rng.choice(literals)
        at = rng.randrange(max(1, size - len(literal)))
        data[at : at + len(literal)] = literal
    return bytes(data[:size])


@pytest.mark.parametrize(
    ("seed", "encoding"),
    quick([((k + shift) % 4, e) for shift in range(4) for k, e in enumerate(ENCODINGS)], keep=4),
)
def test_literals(seed: int, encoding: str | None, gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few by a walk, many by grams; dense hits too, of which more come than there was room for."""
    rng = random.Random(seed)
    monkeypatch.setattr(gpu_tables, "MOST_WALKED_CELLS", rng.choice((0, 1 << 21)))
    counts = searched_by_gpu(monkeypatch)
    alphabet = rng.choice((b"ab\0", bytes(range(256))))
    shortest = rng.choice((1, 4, 5, 8, 11))
    literals = [
        bytes(rng.choices(alphabet, k=rng.randrange(shortest, shortest + 12)))
        for _ in range(rng.choice((1, 5, 60)))
    ]
    caseless = rng.random() < 0.5
    scanner = Scanner(literals, encoding, caseless=caseless, target="cuda", threads=1)
    data = planted(rng, rng.randrange(3000, 20_000), literals, alphabet)
    expected = literal_matches(literals, data, caseless)
    text = encoded(data, encoding)
    assert list(scanner.scan(text)) == expected
    assert sum(counts) > len(text) - 200
    assert list(scanner.scan(cupy(np.frombuffer(text, np.uint8)))) == expected
    assert sum(counts) > 2 * len(text) - 400
    assert list(scanner.scan_stream(in_parts(rng, text, (0, 1, 4)))) == expected


@pytest.mark.parametrize("seed", quick((0, 5, 10, 15, *(k for k in range(16) if k % 5)), keep=4))
def test_expressions(seed: int, gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whose atoms a GPU finds, and `re` what is near them."""
    rng = random.Random(seed)
    counts = searched_by_gpu(monkeypatch)
    patterns = EXPRESSIONS[seed % len(EXPRESSIONS)]
    encoding = ENCODINGS[seed // 4]
    scanner = Scanner(patterns, encoding, regex=True, target="cuda", threads=1)
    data = bytes(rng.choices(b"abc", k=800))
    expected = regex_matches(patterns, data)
    text = encoded(data, encoding)
    assert list(scanner.scan(text)) == expected
    assert sum(counts) > len(text) - 200
    assert list(scanner.scan(cupy(np.frombuffer(text, np.uint8)))) == expected
    assert list(scanner.scan_stream(in_parts(rng, text, (0, 1, 4)))) == expected


@pytest.mark.parametrize("expression", [b"^.", b"[abc]*", b"[ab].*"], ids=lambda e: e.decode())
def test_expressions_that_no_gpu_searches(
    expression: bytes, gpu: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = searched_by_gpu(monkeypatch)
    scanner = Scanner([expression], regex=True, target="cuda", threads=1)
    data = bytes(random.Random(1).choices(b"abc\n ", k=500))
    expected = regex_matches([expression], data)
    assert list(scanner.scan(data)) == expected
    assert list(scanner.scan(cupy(np.frombuffer(data, np.uint8)))) == expected
    assert not counts


@pytest.mark.parametrize("place", [0, 477, 480, 9_001, 19_998])
def test_wrong_characters(place: int, gpu: Any) -> None:
    text = bytearray(base64.b64encode(random.Random(2).randbytes(15_000)))
    text[place] = ord("!")
    scanner = Scanner([b"needle"], "base64", target="cuda")
    with pytest.raises(EncodingError, match=f"at character {place}: '!'"):
        scanner.scan(bytes(text))
    with pytest.raises(EncodingError, match=f"at character {place}: '!'"):
        scanner.scan_stream(bytes(text[first : first + 6001]) for first in range(0, len(text), 6001))


def test_padding_and_blanks(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Blanks are skipped by the CPU, which goes on with the rest of the text."""
    counts = searched_by_gpu(monkeypatch)
    data = b"needle" + random.Random(3).randbytes(19_998) + b"needle!"
    plain, lines = base64.b64encode(data), base64.encodebytes(data)
    scanner = Scanner([b"needle"], "base64", strict=False, target="cuda")
    expected = literal_matches([b"needle"], data)
    assert list(scanner.scan(plain)) == expected
    assert sum(counts) > len(plain) - 200
    found = scanner.scan(lines)
    assert list(found) == expected
    places = [lines[int(first) : int(end)] for first, end in zip(*found.encoded_spans(), strict=True)]
    assert [base64.b64decode(place.replace(b"\n", b"") + b"==")[:6] for place in places] == [b"needle"] * 2
    late = plain[:12_000] + b"\n" + plain[12_000:]
    assert list(scanner.scan(late)) == expected
    assert (
        list(Scanner([b"needle"], "base64", strict=False, target="cuda").scan(plain.rstrip(b"="))) == expected
    )


def test_memory_that_is_not_pinned(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(libcuda, "is_pinned", lambda pointer: False)
    data = planted(random.Random(4), 30_000, [b"needle"], b"abcd")
    assert list(Scanner([b"needle"], target="cuda").scan(data)) == literal_matches([b"needle"], data)


def test_arrays_on_a_gpu(gpu: Any) -> None:
    """They are searched there by default, small ones and those of another target in main memory; any address will do."""
    data = planted(random.Random(5), 20_000, [b"needle"], b"abcd")
    expected = literal_matches([b"needle"], data)
    array = aligned(np.frombuffer(b"..." + data, np.uint8))
    for scanner in (Scanner([b"needle"]), Scanner([b"needle"], target="cpu")):
        assert list(scanner.scan(cupy(np.frombuffer(data, np.uint8)))) == expected
        assert list(scanner.scan(CupyArray(array[3:]))) == expected
        assert list(scanner.scan(cupy(np.frombuffer(b"a needle", np.uint8)))) == [(2, 8, 0)]
        assert not len(scanner.scan(cupy(np.zeros(0, np.uint8))))
        with pytest.raises(BadInputs, match="not of float32"):
            scanner.scan(cupy(np.zeros(2000, np.float32)))
        spread = aligned(np.repeat(np.frombuffer(data, np.uint8), 2))[::2]
        assert list(scanner.scan(CupyArray(spread))) == list(scanner.scan(Numba(spread))) == expected


def test_decode_scan(gpu: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A text on a GPU is searched there; matches are numbers of the host."""
    text = base64.b64encode(b"a secret, another secret" * 100)
    expected = kernels.decode_scan(text, [b"secret", b"other"])
    counts = searched_by_gpu(monkeypatch)
    assert kernels.decode_scan(cupy(np.frombuffer(text, np.uint8)), [b"secret", b"other"]) == expected
    assert len(expected) == 300
    assert sum(counts) > 0


def test_targets(gpu: Any, tmp_path: Any) -> None:
    scanner = Scanner([b"needle"], target="cuda")
    assert scanner.with_target("cpu").target == "cpu"
    assert scanner.with_threads(2).target == "cuda"
    scanner.save(tmp_path / "scanner.npz")
    loaded = Scanner.load(tmp_path / "scanner.npz", target="cuda")
    data = b"needle".rjust(5000)
    assert list(loaded.scan(data)) == list(scanner.scan(data)) == [(4994, 5000, 0)]
    with pytest.raises(BadInputs, match=r"unknown target 'gpu'; there are cpu, cuda, and None"):
        Scanner([b"a"], target="gpu")
    with pytest.raises(BadInputs, match="device is a number from 0 on, not -1"):
        Scanner([b"a"], device=-1)


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    from vyre_opt.execution import dispatcher

    class Missing:
        @property
        def device(self) -> Any:
            raise BackendError("there is no GPU 0")

    monkeypatch.setitem(dispatcher._shared, ("cuda", ("bounds", "none"), ("device", 0)), Missing())
    with pytest.raises(BackendError, match="no GPU 0"):
        Scanner([b"a"], target="cuda").scan(b"a")
