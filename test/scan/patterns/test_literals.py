"""Automata of literals find what an independent Aho-Corasick and bytes.find do, and are as small as can be."""

import random
from collections.abc import Sequence

import ahocorasick
import numpy as np
import pytest
from support.automaton_walk import find
from support.quick import quick

from vyre_scan.patterns.literal_automaton import literal_automaton


def searched(patterns: Sequence[bytes], text: bytes) -> list[tuple[int, int, int]]:
    """By pyahocorasick, which keeps one value for each word."""
    numbers: dict[bytes, list[int]] = {}
    for number, pattern in enumerate(patterns):
        numbers.setdefault(pattern, []).append(number)
    independent = ahocorasick.Automaton()
    for pattern in numbers:
        independent.add_word(pattern.decode("latin-1"), pattern)
    independent.make_automaton()
    found = [
        (last + 1 - len(pattern), last + 1, number)
        for last, pattern in independent.iter(text.decode("latin-1"))
        for number in numbers[pattern]
    ]
    return sorted(found, key=lambda match: (match[1], match[2]))


def random_words(draw: random.Random, count: int, letters: bytes, longest: int) -> list[bytes]:
    return [bytes(draw.choices(letters, k=draw.randint(1, longest))) for _ in range(count)]


@pytest.mark.parametrize("seed", quick(range(40), keep=6))
@pytest.mark.parametrize("letters", [b"ab", b"abc\0", bytes(range(256))], ids=["two", "four", "all"])
def test_random_literals(seed: int, letters: bytes) -> None:
    """Duplicates, prefixes and suffixes of each other are all likely here."""
    draw = random.Random(seed)
    patterns = random_words(draw, draw.choice([1, 3, 40, 400]), letters, draw.choice([1, 3, 9]))
    text = bytes(draw.choices(letters, k=300)) + b"".join(patterns[:20])
    automaton = literal_automaton(patterns)
    assert find(automaton, text) == searched(patterns, text)


@pytest.mark.parametrize("seed", range(10))
def test_caseless_literals(seed: int) -> None:
    """Only ASCII letters have cases: 0xC0 and 0xE0 are other bytes, and `[` is not `{`."""
    draw = random.Random(seed)
    letters = b"aAbBzZ[{@`\xc0\xe0"
    patterns = random_words(draw, 20, letters, 4)
    text = bytes(draw.choices(letters, k=300))
    expected = searched([pattern.lower() for pattern in patterns], text.lower())
    assert find(literal_automaton(patterns, caseless=True), text) == expected


@pytest.mark.parametrize("size", quick([1, 2, 100, 3000], keep=3))
def test_words_that_end_in_each_other(size: int) -> None:
    """a, aa, aaa, ...: all that are short enough end at each place."""
    patterns = [b"a" * (length + 1) for length in range(size)]
    matches = find(literal_automaton(patterns), b"a" * 40)
    assert len(matches) == sum(min(end, size) for end in range(1, 41))
    assert matches[:3] == [(0, 1, 0), (1, 2, 0), (0, 2, 1)][: len(matches)] or size == 1


def test_each_state_is_the_longest_prefix_that_the_text_ends_in() -> None:
    """By the definition of the automaton: its depth is checked against all prefixes, after each byte."""
    draw = random.Random(5)
    patterns = random_words(draw, 30, b"abc", 7)
    prefixes = {pattern[:length] for pattern in patterns for length in range(len(pattern) + 1)}
    automaton = literal_automaton(patterns)
    assert automaton.num_states == len(prefixes)
    text, state = bytes(draw.choices(b"abcd", k=500)), 0
    for end in range(1, len(text) + 1):
        state = int(automaton.transitions[state, automaton.classes[text[end - 1]]])
        longest = max(
            length for length in range(8) if text[max(0, end - length) : end] in prefixes and length <= end
        )
        assert automaton.depth[state] == longest


def test_bytes_that_no_pattern_has_share_a_class() -> None:
    automaton = literal_automaton([b"ab", b"ba"])
    assert automaton.num_classes == 3
    assert len({int(automaton.classes[byte]) for byte in range(256) if byte not in b"ab"}) == 1
    assert literal_automaton([bytes(range(256))]).num_classes == 256
    assert literal_automaton([b"aB"], caseless=True).num_classes == 3


def test_states_are_in_the_order_that_walkers_rely_on() -> None:
    """Accepting ones last, the others by depth: near rows are neighbours."""
    automaton = literal_automaton(random_words(random.Random(2), 300, b"abcd", 6))
    others = automaton.depth[: automaton.first_accepting]
    assert (np.diff(others.astype(int)) >= 0).all()
    assert 0 < automaton.first_accepting < automaton.num_states


@pytest.mark.parametrize("count", quick([10_000, 100_000]))
def test_many_literals(count: int) -> None:
    """So many need more states than 16 bits number."""
    draw = random.Random(1)
    patterns = [draw.randbytes(6).hex().encode() for _ in range(count)]
    automaton = literal_automaton(patterns)
    assert automaton.num_states > 1 << 16
    text = b"-".join(patterns[:: count // 100]) + bytes(draw.choices(b"0123456789abcdef", k=count // 5))
    assert find(automaton, text) == searched(patterns, text)


def test_the_longest_literal() -> None:
    pattern = bytes(random.Random(1).choices(b"ab", k=65_535))
    automaton = literal_automaton([pattern, b"b" * 15])
    matches = find(automaton, b"a" + pattern)
    assert matches[-1] in {(1, 65_536, 0), (65_521, 65_536, 1)}
    assert (1, 65_536, 0) in matches
