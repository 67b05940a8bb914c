"""Regular expressions match what Python's `re` says, at each end, with the leftmost start."""

import itertools
import random
import re

import numpy as np
import pytest
from support.each import each
from support.pattern_oracle import all_matches, random_regex, random_text
from support.quick import quick

from vyre_opt.patterns import compile, prefix
from vyre_opt.patterns.automaton import CONTEXT_OF, DATA_EDGE
from vyre_opt.patterns.compile import compile_patterns
from vyre_opt.patterns.compiled import CompiledPatterns
from vyre_opt.patterns.errors import PatternError
from vyre_opt.patterns.find import find
from vyre_opt.patterns.minimize import minimized

FLAGS = [0, re.MULTILINE, re.IGNORECASE, re.DOTALL, re.IGNORECASE | re.MULTILINE | re.DOTALL]
ANCHORED = [
    rb"a+b?", rb"\ba", rb"a$", rb"^ab", rb"(?:ab|b)+\b", rb"a\Z", rb"(a|\n)b*$", rb"\Aa", rb"[^a]\Ba", rb"b{2,3}",
    rb"a.b", rb"\n$", rb"(^|,)a", rb"a(,|$)", rb"a\b|ab?", rb"^\n", rb"(?:^a|b)+", rb"(a\b,?)*b", rb"\B\n|\b,",
]  # fmt: skip


@pytest.fixture(params=["whole", "prefixes"])
def searched_for(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Whole patterns, or each pattern's first bytes where it has any that are always the same."""
    if request.param == "prefixes":
        monkeypatch.setattr(compile, "FEW_STATES", 0)
        monkeypatch.setattr(prefix, "RARE", 2)
    return str(request.param)


LONG = {0: 5, re.MULTILINE: 5}
SHORT = {0: 4}


@pytest.mark.parametrize(
    ("flags", "longest"),
    quick([*((f, SHORT.get(f, 3)) for f in FLAGS), *((f, LONG.get(f, 4)) for f in FLAGS)], keep=len(FLAGS)),
)
def test_all_short_texts(searched_for: str, flags: int, longest: int) -> None:
    """Exhaustive: each text of so many letters, among them a newline and one that is not of a word."""
    patterns = [re.compile(pattern, flags) for pattern in ANCHORED]
    compiled = compile_patterns(patterns)
    compiled.validate()
    assert compiled.prefixes.any() == (searched_for == "prefixes")
    for size in range(longest + 1):
        for letters in itertools.product(b"ab\n,", repeat=size):
            text = bytes(letters)
            assert find(compiled, text) == all_matches(patterns, text), text


SYNTAX = [
    rb"\x41", rb"\101", rb"\0", rb"[\0-\x1f]", rb"\.", rb"\\", rb"[]a]", rb"[^]a]", rb"[a-]", rb"[-a]", rb"[\]]",
    rb"[a\-z]", rb"[\d_]", rb"[^\W\d]", rb"\D\d", rb"a{2}", rb"a{,2}b", rb"a{2,}", rb"a{1,3}", rb"a{", rb"a{b", rb"{a",
    rb"a{}", rb"a{1", rb"a{1,b}", rb"a{,}b", rb"x*?a", rb"(?P<name>a)b", rb"(?#no)a", rb"(?i)a[b-d]", rb"(?i)[^a]",
    rb"(?i:a)A", rb"(?-i:a)A", rb"(?i)(?-i:a)A", rb"(?s).\n", rb"(?s:.).", rb"a|b|", rb"\a\f\v\t\r", rb"[\b]",
    rb"a#b ", rb"\ ", rb"[a-c-e]", rb"[[]", rb"((a)(b))+", rb"(a|b)*a", rb"(?:a|ab)(?:c|bcd)",
    rb"[\x00-\xff]", rb"[^\x00-\xff]|a", rb"\07", rb"[\101-\x43]", rb"(?a)\w", rb"(?i)\x41", rb"\-", rb"a{0}b",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:Possible nested set")
@pytest.mark.parametrize(("texts", "step"), quick([(4, 3), (20, 1)]))
def test_syntax(texts: int, step: int) -> None:
    """Each form of the subset, on texts of the letters that it could be mistaken about, and on bytes."""
    each(SYNTAX, lambda source: check_syntax(source, texts, step), repr)


def check_syntax(source: bytes, texts: int, step: int) -> None:
    pattern = re.compile(source)
    if pattern.fullmatch(b""):
        with pytest.raises(PatternError, match="matches the empty string"):
            compile_patterns([pattern])
        return
    compiled = compile_patterns([pattern])
    draw = random.Random(1)
    for _ in range(texts):
        text = random_text(draw, 14, b"aAbBcCdx{}1,-_]\\[\n\t\r\x00\x07\x08\xe9 #u.")
        text += random_text(draw, 8, b"aAb{,1}")
        assert all_matches_without_flags(pattern, text) == find(compiled, text)
    for byte in range(0, 256, step):
        text = bytes([byte])
        assert bool(pattern.fullmatch(text)) == bool(find(compiled, text)), text


def all_matches_without_flags(pattern: re.Pattern[bytes], text: bytes) -> list[tuple[int, int, int]]:
    """As the oracle's, where flags at the start of the pattern go into those of the whole."""
    leading = re.match(rb"\(\?[ais]\)", pattern.pattern)
    if leading:
        return all_matches([re.compile(pattern.pattern[leading.end() :], pattern.flags)], text)
    return all_matches([pattern], text)


def random_patterns(draw: random.Random, count: int) -> list[re.Pattern[bytes]]:
    """Those that match no empty string, which `re` finds out about on texts of all contexts."""
    patterns: list[re.Pattern[bytes]] = []
    while len(patterns) < count:
        pattern = re.compile(random_regex(draw), draw.choice(FLAGS))
        texts = (b"", b"a", b"\n", b"aa", b"  ", b"a ", b" a", b"a\na", b"\n\n", b" \n", b"\n ", b"a\n")
        if all(match[0] for text in texts for match in pattern.finditer(text)):
            patterns.append(pattern)
    return patterns


def compiled_or_none(patterns: list[re.Pattern[bytes]]) -> CompiledPatterns | None:
    """None for the two mistakes that chance makes: `$\\n`, and the empty string where no text above shows it."""
    wrong = []
    try:
        return compile_patterns(patterns)
    except PatternError as error:
        wrong = [diagnostic.message for diagnostic in error.diagnostics]
    assert all("`$` before" in message or "the empty string" in message for message in wrong)
    return None


@pytest.mark.parametrize("seed", quick(range(120), keep=10))
def test_random_patterns(searched_for: str, seed: int) -> None:
    """Sets of one to four, united, with a literal in some."""
    draw = random.Random(seed)
    patterns: list[re.Pattern[bytes]] = random_patterns(draw, draw.randrange(1, 5))
    compiled = compiled_or_none(patterns)
    if compiled is None:
        return
    compiled.validate()
    for size in (0, 1, 2, 3, 5, 8, 13):
        text = random_text(draw, size)
        assert find(compiled, text) == all_matches(patterns, text), (patterns, text)


def test_literals_among_regular_expressions() -> None:
    patterns = [b"ab", re.compile(rb"a+b"), b"b", re.compile(rb"\bab\b"), b"ab", b"a_"]
    compiled = compile_patterns(patterns)
    draw = random.Random(3)
    for _ in range(100):
        text = random_text(draw, 20)
        assert find(compiled, text) == all_matches(patterns, text)


def test_caseless_is_of_all_patterns() -> None:
    compiled = compile_patterns([b"aB", re.compile(rb"b[a-c]")], caseless=True)
    assert find(compiled, b"AbC") == [(0, 2, 0), (1, 3, 1)]


def test_strings_are_their_utf8() -> None:
    assert find(compile_patterns(["é"]), "né".encode()) == [(1, 3, 0)]
    assert find(compile_patterns(["n.", re.compile(r"n\W")], regex=True), "né".encode())[0] == (0, 2, 0)


@pytest.mark.parametrize(
    ("pattern", "longest", "warmup", "length"),
    [
        (rb"abc", 3, 2, 3),
        (rb"a[bc]{4}", 5, 4, 5),
        (rb"ab?c{1,4}", 6, 5, 0),
        (rb"a+", 0, None, 0),
        (rb"a\b", 1, 1, 1),
        (rb"(?:ab|cd)$", 2, 2, 2),
    ],
)
def test_lengths(pattern: bytes, longest: int, warmup: int | None, length: int) -> None:
    compiled = compile_patterns([pattern], regex=True)
    assert (compiled.longest, compiled.warmup, compiled.lengths.tolist()) == (longest, warmup, [length])
    assert (compiled.reverse is None) == (length > 0)


@pytest.mark.parametrize("seed", quick(range(30), keep=10))
def test_a_walk_that_warms_up_is_in_the_right_state(seed: int) -> None:
    """What chunked walkers rely on: `warmup` bytes from the entry of the byte before them lead to the same state."""
    draw = random.Random(seed)
    patterns = [rb"ab_?a{1,2}\b", rb"^ab", rb"(?m)b$", rb"b{3}", rb"\Ba.", rb"a$"]
    search = (compiled := compile_patterns(draw.sample(patterns, 2), regex=True)).search
    text = random_text(draw, 200)

    def walk(begin: int, end: int) -> int:
        before = DATA_EDGE if begin == 0 else CONTEXT_OF[text[begin - 1]]
        state = int(search.entries[0, before])
        for byte in text[begin:end]:
            state = int(search.transitions[state, search.classes[byte]])
        return state

    assert compiled.warmup is not None
    for end in range(1, 200):
        assert walk(max(0, end - 1 - compiled.warmup), end) == walk(0, end)


@pytest.mark.parametrize("seed", quick(range(30), keep=10))
def test_depth_bounds_what_is_under_way(seed: int) -> None:
    """A walk that began `depth` bytes before, or earlier, shows all that the whole walk does from then on."""
    draw = random.Random(seed)
    patterns = [rb"ab?_a{1,2}\b", rb"^a\n?b", rb"(?m)b$", rb"ba{0,3}b", rb"a_*b", rb"a$"]
    search = compile_patterns(draw.sample(patterns, 2), regex=True).search
    text = random_text(draw, 60)
    states = [int(search.entries[0, DATA_EDGE])]
    for byte in text:
        states.append(int(search.transitions[states[-1], search.classes[byte]]))
    for end, state in enumerate(states[1:], start=1):
        if int(search.depth[state]) < end:
            begin = end - int(search.depth[state])
            other = int(search.entries[0, CONTEXT_OF[text[begin - 1]]])
            for byte in text[begin:end]:
                other = int(search.transitions[other, search.classes[byte]])
            assert other == state


@pytest.mark.parametrize("seed", quick(range(40), keep=10))
def test_no_two_states_are_equal(seed: int) -> None:
    """Unions are minimal without being minimised; by filling the table of pairs that can be told apart."""
    draw = random.Random(seed)
    compiled = compiled_or_none(random_patterns(draw, 2))
    if compiled is None or compiled.search.num_states > 60:
        return
    search = compiled.search
    count = search.num_states
    ends = search.end_offsets
    shows = [
        (
            [m.tolist() for m in search.accepted(np.array([state]))]
            if state >= search.first_accepting
            else [],
            search.end_patterns[ends[state] : ends[state + 1]].tolist(),
            search.end_lags[ends[state] : ends[state + 1]].tolist(),
        )
        for state in range(count)
    ]
    apart = {(one, other) for one in range(count) for other in range(one) if shows[one] != shows[other]}
    size = -1
    while size != len(apart):
        size = len(apart)
        for one in range(count):
            for other in range(one):
                if (one, other) not in apart:
                    moves = zip(
                        search.transitions[one].tolist(), search.transitions[other].tolist(), strict=True
                    )
                    if any((max(pair), min(pair)) in apart for pair in moves):
                        apart.add((one, other))
    assert len(apart) == count * (count - 1) // 2
    assert minimized(search).transitions.shape == search.transitions.shape
