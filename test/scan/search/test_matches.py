"""Matches as a sequence, as arrays, as a table, and where the text has them."""

from __future__ import annotations

import base64
import random

import numpy as np
import pytest

from vyre_scan import Match, Matches
from vyre_scan.search.encodings import ENCODINGS
from vyre_scan.search.places import Places


def some(count: int = 20) -> Matches:
    ends = np.sort(np.random.default_rng(1).integers(5, 10_000, count, np.uint64))
    return Matches(ends - np.uint64(5), ends, np.arange(count, dtype=np.uint32))


def test_matches_are_a_sequence() -> None:
    matches = some()
    listed = list(matches)
    assert len(matches) == len(listed) == 20
    assert listed == [matches[k] for k in range(20)] == list(matches[:7]) + list(matches[7:])
    assert matches[-1] == listed[-1]
    assert listed[3] in matches
    assert all(type(field) is int for match in listed for field in match)
    assert [m.pattern for m in matches[::-3]] == list(range(19, -1, -3))
    with pytest.raises(IndexError):
        matches[20]
    assert matches[2:5] == matches[2:5] != matches[2:6]
    assert np.shares_memory(matches[2:5].ends, matches.ends)


def test_masks_and_lists_choose_matches() -> None:
    matches = some()
    assert list(matches[matches.patterns >= 18]) == list(matches)[18:]
    assert [m.pattern for m in matches[[3, 0, -1]]] == [3, 0, 19]
    assert type(matches[np.int64(4)].start) is int
    with pytest.raises(ValueError, match="read-only"):
        matches.ends[0] = 3


def test_matches_show_the_first_and_the_last() -> None:
    assert repr(some(0)) == "<0 matches>"
    assert (
        repr(Matches(*(np.array([n], t) for n, t in ((3, "u8"), (8, "u8"), (2, "u4")))))
        == "<1 match: 3-8 pattern 2>"
    )
    assert repr(some()).count("pattern") == 6


def test_a_table_shares_the_arrays() -> None:
    pytest.importorskip("pyarrow")
    matches = some()
    table = matches.to_arrow()
    assert [tuple(row.values()) for row in table.to_pylist()] == [tuple(m) for m in matches]
    assert [str(field.type) for field in table.schema] == ["uint64", "uint64", "uint32"]
    assert table.column("end").chunk(0).buffers()[1].address == matches.ends.ctypes.data


@pytest.mark.parametrize("name", ENCODINGS)
def test_a_span_is_the_fewest_characters_that_decode_to_the_match(name: str) -> None:
    """By changing each byte of some data and looking at which characters of its encoding change."""
    encode = {"base64": base64.b64encode, "base64url": base64.urlsafe_b64encode, "hex": base64.b16encode}[
        name
    ]
    data = random.Random(2).randbytes(31)
    text = encode(data)
    for start in range(len(data)):
        for end in range(start + 1, len(data) + 1):
            changed = bytes(255 - b if start <= k < end else b for k, b in enumerate(data))
            other = encode(changed)
            places = [k for k, (a, b) in enumerate(zip(text, other, strict=True)) if a != b]
            (first,), (last,) = ENCODINGS[name].spans(
                np.array([start], np.uint64), np.array([end], np.uint64)
            )
            assert (int(first), int(last)) == (places[0], places[-1] + 1)


def test_without_an_encoding_the_text_is_the_bytes() -> None:
    matches = some()
    starts, ends = matches.encoded_spans()
    assert np.array_equal(starts, matches.starts)
    assert np.array_equal(ends, matches.ends)
    assert Match(*matches[0]) == matches[0]


def test_places_that_are_forgotten() -> None:
    """They leave the memory, though newer ones came in between, and those after them stay right."""
    rng = random.Random(2)
    text = "".join(rng.choices("ab \n", k=5000))
    expected = [place for place, character in enumerate(text) if not character.isspace()]
    places, first = Places(ENCODINGS["hex"]), 0
    for begin in range(0, len(text), 250):
        window = text[begin : begin + 250]
        places.add(begin, np.frombuffer(window.encode(), np.uint8), window.count(" ") + window.count("\n"))
        last = sum(place < begin + 250 for place in expected)
        assert places.of(np.arange(first, last, dtype=np.uint64)).tolist() == expected[first:last]
        first = max(first, last - rng.choice([0, 3, 200]))
        places.forget(first)
        kept = sum(window.count for window in places._windows)
        assert kept <= begin + 250 - (expected[first - 1] if first else 0)


def test_choices_that_are_none() -> None:
    matches = some(3)
    for wrong in (None, (0, 1)):
        with pytest.raises(TypeError, match="chosen by a number, a slice, a list or a mask"):
            matches[wrong]  # type: ignore[call-overload]
    assert len(Matches.joined([])) == 0
