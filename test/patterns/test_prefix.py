"""Patterns that need too many states are found by the bytes that all their matches begin with."""

import random
import re

import pytest
from support.pattern_oracle import all_matches
from support.quick import quick

from vyre_opt.patterns.compile import compile_patterns
from vyre_opt.patterns.errors import LimitExceeded
from vyre_opt.patterns.find import find
from vyre_opt.patterns.prefix import rare_prefix
from vyre_opt.patterns.regex_syntax import parse_regex


def shown(members: int) -> str:
    letters = "".join(chr(byte) for byte in range(256) if members >> byte & 1)
    return letters if len(letters) == 1 else f"[{letters}]"


@pytest.mark.parametrize(
    ("pattern", "prefix"),
    [
        (rb"AIza[0-9A-Za-z_-]{35}", "AIza"),
        (rb"xox[baprs]-[0-9a-zA-Z-]{10,48}", "xox[abprs]-"),
        (rb"(?i)\bkey=\w+", "[Kk][Ee][Yy]="),
        (rb"(?:ab){2,3}c", "abab"),
        (rb"(?:ab){2}c", "ababc"),
        (rb"(ab)+c", "ab"),
        (rb"(?:ab)?cd", ""),
        (rb"(?:ab|cd)ef", ""),
        (rb"a", ""),
        (rb"ab", "ab"),
        (rb"a\w", ""),
        (rb"a[f-k]b", "a[fghijk]b"),
        (rb"[a-z]{40}", ""),
        (rb"a{100}b", "a" * 16),
        (rb"^#include", "#include"),
    ],
)  # fmt: skip
def test_rare_prefixes(pattern: bytes, prefix: str) -> None:
    """What no match does without, up to 16 bytes, and nothing that is all over the place."""
    sets = rare_prefix(parse_regex(pattern, 0, "it"))
    assert "".join(shown(one.members) for one in sets) == prefix


SECRETS = [
    rb"AKIA[0-9A-Z]{16}",
    rb"gh[pousr]_[A-Za-z0-9]{36}",
    rb"xox[baprs]-[0-9a-zA-Z-]{10,48}",
    rb"AIza[0-9A-Za-z_-]{35}",
    rb"(?i:api)_key=\w{16,20}\b",
    rb"sk_live_[0-9a-zA-Z]{24}$",
]


@pytest.mark.parametrize("seed", quick(range(6)))
def test_secrets_that_begin_within_each_other(seed: int) -> None:
    """Overlapping ones of one pattern and of several: each end once, with the leftmost start."""
    draw = random.Random(seed)
    pieces = [
        b"AKIA",
        b"AIza",
        b"ghp_",
        b"xoxb-",
        b"sk_live_",
        b"API_key=",
        b"0" * 12,
        b"Ab9" * 4,
        b" ",
        b"\n",
        b"-",
    ]
    text = b"".join(draw.choices(pieces, k=24)) + b"AIzaAIza" + b"x" * 35 + b"xoxb-xoxb-" + b"7" * 11
    patterns = [re.compile(pattern) for pattern in SECRETS]
    compiled = compile_patterns(patterns)
    compiled.validate()
    assert compiled.prefixes.any()
    assert compiled.search.num_states < 1000
    assert find(compiled, text) == all_matches(patterns, text)


def test_the_search_of_a_prefix_needs_a_short_warm_up() -> None:
    compiled = compile_patterns([rb"AIza[0-9A-Za-z_-]{35}[a-z]+"], regex=True)
    assert (compiled.longest, compiled.warmup) == (4, 3)
    assert (compiled.prefixes.tolist(), compiled.lengths.tolist()) == ([4], [0])


def test_a_pattern_without_a_rare_prefix_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="needs more than 1000 states"):
        compile_patterns([rb"a[a-z]{1,100}z"], regex=True, max_states=1000)


def test_patterns_that_are_too_many_together() -> None:
    """Each has four states; which of ten are under way, a thousand.  Their prefixes are searched for instead."""
    patterns = [re.compile(b"%c%c[^\\n]*!%c" % (97 + k, 107 + k, 97 + k)) for k in range(10)]
    compiled = compile_patterns(patterns, max_states=1000)
    assert compiled.prefixes.tolist() == [2] * 10
    text = b"ak bl ak!a bl!b cm\n!c cm!c jt jt!j!j akak!a" + b"!a!b"
    assert find(compiled, text) == find(compile_patterns(patterns), text) == all_matches(patterns, text)
    assert not compile_patterns(patterns[:2]).prefixes.any()
