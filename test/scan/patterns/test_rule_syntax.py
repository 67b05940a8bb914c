"""Expressions: what is written out for `re`, and those that are refused, with the message and its place."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.quick import quick

from vyre_scan.patterns.errors import PatternError
from vyre_scan.patterns.expression import Expression, read_expressions
from vyre_scan.patterns.pattern_list import read_patterns
from vyre_scan.patterns.rule import Rule, entropy_of

SYNTAX = [
    rb"(", rb")", rb"a)", rb"(a", rb"[", rb"[a", rb"[]", rb"[^]", rb"[b-a]", rb"[\d-z]", rb"[a-\d]", rb"*a", rb"+", rb"?a",
    rb"a**", rb"a{2}{3}", rb"a{3,2}", rb"(?", rb"(?P", rb"(?P<", rb"(?P<1>a)", rb"(?P<n>a)(?P<n>b)", rb"(?P=n)",
    rb"\q", rb"\xg", rb"\x1", rb"\8", rb"\1", rb"\477", rb"[\8]", rb"[\q]", rb"\u0041",
    rb"\N{DIGIT ONE}", rb"(?#a", rb"(?(2)a)", rb"a(?(1", rb"(?<", rb"a|*", rb"^*", rb"x{99999999999999999999}", b"\\", rb"(?<=a+)b",
]  # fmt: skip


def expressions(*patterns: Any, **options: Any) -> list[Expression]:
    return read_expressions(read_patterns(patterns, **({"regex": True, "caseless": False} | options)))


def refused(pattern: Any) -> PatternError:
    with pytest.raises(PatternError) as caught:
        expressions(b"fine", pattern)
    return caught.value


# --- what is written out

WRITTEN = [
    # pattern, a text, and what of it matches
    (rb"[[:digit:]]+", b"a123b", [b"123"]),
    (rb"[[:alpha:]_]{2,}", b"a ab_C 12", [b"ab_C"]),
    (rb"[[:^space:]]+", b" ab\tc", [b"ab", b"c"]),
    (rb"[^[:punct:][:space:]]+", b"a.b -c]", [b"a", b"b", b"c"]),
    (rb"[]x]+", b"a]x]", [b"]x]"]),
    (rb"a(?i)bc|d", b"aBC ABC D", [b"aBC", b"D"]),
    (rb"x(?:a(?i)b)c", b"xaBc xaBC", [b"xaBc"]),
    (rb"(?i)a(?-i)b", b"Ab AB", [b"Ab"]),
    (rb"a(?s).b", b"a\nb", [b"a\nb"]),
    (rb"(?m)^a(?s).", b"ba\na\n", [b"a\n"]),
    (rb"(?i)key|(?-i:TOKEN)", b"KEY token TOKEN", [b"KEY", b"TOKEN"]),
    (rb"(?<name>a)b\z", b"abab", [b"ab"]),
    (rb"\Qa.b\E+", b"axb a.bb", [b"a.bb"]),
    (rb"(?P<q>['\"])x(?P=q)", b"'x' \"x' \"x\"", [b"'x'", b'"x"']),
    (rb"(?#(note)a", b"a", [b"a"]),
    (rb"(?x) a [ ] b # (c", b"a b", [b"a b"]),
    ("(?u)^.$", "é".encode(), ["é".encode()]),
    ("(?u)a.c", "aéc a\u20acc a\U0001f600c a\nc".encode(), ["aéc".encode(), "a\u20acc".encode(), "a\U0001f600c".encode()]),
    ("(?u)[^a]", b"\xc3\xa9\xff", ["é".encode()]),
    ("(?u)(?s).", b"\n", [b"\n"]),
    ("é+", "ééé".encode(), ["ééé".encode()]),
    ("[à-ÿ]+x", "éàx".encode(), ["éàx".encode()]),
    ("[^é]x", "éx ax".encode(), [b"ax"]),
    ("[aé-]+", "a-éb".encode(), ["a-é".encode()]),
    (rb"[\x{e0}-\x{ff}]", "é".encode(), ["é".encode()]),
    (rb"\x{e9}+", "éé".encode(), ["éé".encode()]),
    (rb"\x{41}", b"A", [b"A"]),
    (rb"[[:digit:]\xe9-\xff]+", b"1\xea\xff2\x80", [b"1\xea\xff2"]),
    (rb"(?u)[[:^digit:]]", b"1\xc3\xa9", ["é".encode()]),
    ("[é^]+", "a^éb".encode(), ["^é".encode()]),
    ("(?u)[^z-]+", "az-é".encode(), [b"a", "é".encode()]),
]  # fmt: skip


def test_what_is_written_out() -> None:
    def check(pattern: Any, text: bytes, expected: list[bytes]) -> None:
        (expression,) = expressions(pattern)
        assert [match[0] for match in expression.pattern.finditer(text)] == expected, expression.source

    each(WRITTEN, lambda case: check(*case))


@pytest.mark.parametrize(
    ("low", "high"), [(0x80, 0x10FFFF), (0x7F0, 0x1234), (0xD000, 0xFFFE), (0xFFF0, 0x10010)]
)
def test_ranges_of_characters(low: int, high: int) -> None:
    """Each character within, none beside, and no bytes that are no character."""
    (expression,) = expressions(f"[{chr(low)}-{chr(high)}]")
    for number in {
        low,
        high,
        low + 1,
        high - 1,
        (low + high) // 2,
        *range(low - 3, low),
        *range(high + 1, high + 3),
    }:
        if 0xD800 <= number < 0xE000 or number > 0x10FFFF:
            continue
        whole = expression.pattern.fullmatch(chr(number).encode())
        assert (whole is not None) == (low <= number <= high), hex(number)
    for wrong in (b"\xc0\x80", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\x80", b"\xc3"):
        assert not expression.pattern.fullmatch(wrong)


def test_what_re_compiled_is_not_translated() -> None:
    with pytest.warns(FutureWarning):
        compiled = re.compile(rb"[[:a:]]+")
    (expression,) = expressions(compiled)
    assert (expression.source, expression.pattern.findall(b"[]]")) == (compiled.pattern, [b"[]]"])


# --- what is refused


def test_syntax_errors_are_those_of_re() -> None:
    """With its message and its place, on one line or several."""

    def check(pattern: bytes) -> None:
        with pytest.raises((re.error, OverflowError)) as expected:
            re.compile(pattern)
        (diagnostic,) = refused(pattern).diagnostics
        assert diagnostic.message == getattr(expected.value, "msg", str(expected.value))
        assert diagnostic.loc is not None
        place = getattr(expected.value, "pos", None) or 0
        assert diagnostic.loc.column == min(place, len(pattern) - 1) + 1

    each(SYNTAX, check)


@pytest.mark.parametrize(
    ("pattern", "column", "message"),
    [
        (rb"a[[:foo:]]", 3, "there is no class [:foo:]"),
        (rb"ab(?U)c*", 3, "the flag U, which makes repetition lazy"),
        (rb"a\pL", 2, "classes of Unicode"),
        (rb"[\p{Greek}[:digit:]]", 2, "classes of Unicode"),
        (rb"\x{110000}", 1, "there is no character with the number 110000"),
        (rb"(?u)[\x{e9}-a]", 13, "bad character range"),
        (rb"[\d-z[:alpha:]]", 5, "bad character range"),
        (rb"a[[:alpha:]", 2, "unterminated character set"),
        (rb"x(?i)(a|b", 6, "missing )"),
        (rb"[[:digit:]](?z)", 12, "unknown extension"),
        ("é(", 2, "missing )"),
    ],
)
def test_mistakes_in_what_re_has_not(pattern: Any, column: int, message: str) -> None:
    error = refused(pattern)
    assert str(error).startswith(f"patterns[1]:1:{column}: error: {message}"), str(error)


def test_all_wrong_patterns_are_reported() -> None:
    with pytest.raises(PatternError) as caught:
        expressions(rb"a(", b"b", rb"c**", rb"(?<=d+)")
    names = [diagnostic.loc and diagnostic.loc.source.name for diagnostic in caught.value.diagnostics]
    assert names == ["patterns[0]", "patterns[2]", "patterns[3]"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ([], "there are 0 patterns"),
        (b"abc", "a list of patterns, not one"),
        ("abc", "a list of patterns, not one"),
        (re.compile(b"a"), "a list of patterns, not one"),
        (Rule(b"a"), "a list of patterns, not one"),
        (7, "a list of patterns, not int"),
        (None, "a list of patterns, not NoneType"),
        ([b"a", b""], r"patterns\[1\] has 0 bytes; a literal has 1 to 65535"),
        ([b"a" * 65_536], r"patterns\[0\] has 65536 bytes"),
        ([b"a", 7], r"patterns\[1\] is int; a pattern is text, bytes or an array of uint8"),
        ([b"a", None], r"patterns\[1\] is NoneType"),
        ([b"a", [b"b"]], r"patterns\[1\] is list"),
        ([np.zeros(3)], r"patterns\[0\] is ndarray"),
        (["\ud800"], r"patterns\[0\] cannot be encoded as UTF-8"),
        ([Rule(7)], r"patterns\[0\] is int"),  # type: ignore[arg-type]
        ([Rule(b"a", entropy=9)], r"the entropy of patterns\[0\] is 0 to 8 bits a byte, not 9"),
        ([Rule(b"a", allow=[b"("])], r"`allow` of patterns\[0\] has b'\(': missing \)"),
        ([Rule(b"a", allow=["x"])], r"which is text; data are bytes"),  # type: ignore[list-item]
        ([Rule(b"a", allow=b"x")], r"a list of expressions, not one"),
        ([Rule(b"a", where=7)], r"`where` of patterns\[0\] is a function of a match, not int"),  # type: ignore[arg-type]
    ],
)
def test_what_is_no_pattern(patterns: Any, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        read_patterns(patterns, regex=False, caseless=False)


@pytest.mark.parametrize("depth", quick([50, 2000, 150], keep=2))
@pytest.mark.parametrize(("opened", "closed"), [(b"(?:", b")"), (b"(a", b"b)*c"), (b"(?:a|", b")b?")])
def test_deep_groups_are_read_or_refused(opened: bytes, closed: bytes, depth: int) -> None:
    """Whichever step would run out of stack, the error is one of the pattern."""
    messages = []
    try:
        expressions(opened * depth + b"x" + closed * depth)
    except PatternError as error:
        messages = [diagnostic.message for diagnostic in error.diagnostics]
    assert messages in ([], ["groups are nested too deeply"])


@pytest.mark.parametrize(
    "pattern", [rb"(?:(?:^){60000}){60000}a", rb"(?:(?:(?:){1000}){1000}){1000}a", rb"(?:[a-z]{1000}){1000}x"]
)
def test_large_repetitions_take_no_time(pattern: bytes) -> None:
    expressions(pattern)


def test_entropy() -> None:
    assert entropy_of(b"") == entropy_of(b"aaaa") == 0
    assert entropy_of(b"abab") == 1
    assert entropy_of(bytes(range(256))) == 8
