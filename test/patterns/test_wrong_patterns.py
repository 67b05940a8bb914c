"""Patterns that are refused: what the message says, and the place that it shows in the pattern."""

import re
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.quick import quick

from vyre_opt.patterns.compile import compile_patterns
from vyre_opt.patterns.errors import PatternError

OUTSIDE = [
    (rb"a(?=b)", 2, "lookahead"),
    (rb"(?=a)b", 1, "lookahead"),
    (rb"a(?!b)", 2, "negative lookahead"),
    (rb"(?<=a)b", 1, "lookbehind"),
    (rb"(?<!a)b", 1, "negative lookbehind"),
    (rb"(a)\1", 4, "a reference to a group"),
    (rb"(a)(b)(c)x\3", 11, "a reference to a group"),
    (rb"(?P<q>['\"]).*(?P=q)", 15, "a reference to a group"),
    (rb"(a)?(?(1)b|c)", 5, "a conditional group"),
    (rb"(?P<x>a)?(?(x)b|c)", 10, "a conditional group"),
    (rb"ab(?>c|d)", 3, "an atomic group"),
    (rb"a*+b", 2, "possessive repetition"),
    (rb"ab++", 3, "possessive repetition"),
    (rb"a?+b", 2, "possessive repetition"),
    (rb"a{2,3}+b", 2, "possessive repetition"),
    (rb"(?x)a b", 1, "the flag x"),
    (rb"a(?x:b)", 2, "the flag x"),
    (rb"(?L)a", 1, "the flag L"),
    (rb"a(?L:b)", 2, "the flag L"),
    (rb"(?:a|(?:b(?=c)))", 10, "lookahead"),
    (rb"[a-z]+(?<!x)", 7, "negative lookbehind"),
]
TOO_LARGE = [
    (rb"a{70000}", 2, "a repetition of more than 65536 times"),
    (rb"(?:ab){40000}", 7, "the pattern names 80000 bytes"),
    (rb"x(?:a{300}){300}", 12, "the pattern names 90000 bytes"),
    (rb"a{1,70000}", 2, "a repetition of more than 65536 times"),
    (rb"a{40000}b{40000}", 1, "the pattern names 80000 bytes"),
]
EMPTY = [rb"a*", rb"a?", rb"", rb"a|", rb"(?:)", rb"^", rb"$", rb"\b", rb"(?:a*b*)*", rb"(?m:^$)", rb"a{0}", rb"a{0,3}",
         rb"(?:|a)b?", rb"\A\Z", rb"(a*)+", rb"(?i:x*)", rb"()", rb"(?#none)"]  # fmt: skip
SYNTAX = [
    rb"(", rb")", rb"a)", rb"(a", rb"[", rb"[a", rb"[]", rb"[^]", rb"[b-a]", rb"[\d-z]", rb"[a-\d]", rb"*a", rb"+", rb"?a",
    rb"a**", rb"a{2}{3}", rb"a{3,2}", rb"(?", rb"(?P", rb"(?P<", rb"(?P<1>a)", rb"(?P<n>a)(?P<n>b)", rb"(?P=n)", rb"(?z)a",
    rb"a(?i)b", rb"(?-i)a", rb"(?i-i:a)", rb"\q", rb"\xg", rb"\x1", rb"\8", rb"\1", rb"\477", rb"[\8]", rb"[\q]", rb"\u0041",
    rb"\N{DIGIT ONE}", rb"(?u)a", rb"(?#a", rb"(?<a)", rb"(?(2)a)", rb"a|*", rb"^*", rb"x{99999999999999999999}", b"\\",
]  # fmt: skip


def refused(pattern: Any, **options: Any) -> PatternError:
    with pytest.raises(PatternError) as caught:
        compile_patterns([b"fine", pattern], regex=True, **options)
    return caught.value


def test_what_an_automaton_does_not_match() -> None:
    each(OUTSIDE + TOO_LARGE, lambda case: check_refused_at(*case))


def check_refused_at(pattern: bytes, column: int, what: str) -> None:
    (diagnostic,) = (error := refused(pattern)).diagnostics
    assert what in diagnostic.message
    assert diagnostic.loc is not None
    assert (diagnostic.loc.source.name, diagnostic.loc.line, diagnostic.loc.column) == (
        "patterns[1]",
        1,
        column,
    )
    head, source, carets = str(error).splitlines()[:3]
    assert head == f"patterns[1]:1:{column}: error: {diagnostic.message}"
    assert source == "  " + pattern.decode()
    assert carets.startswith(" " * (column + 1) + "^")


def test_the_empty_string() -> None:
    def check(pattern: bytes) -> None:
        (diagnostic,) = refused(pattern).diagnostics
        assert diagnostic.message == "the pattern matches the empty string, which is everywhere"

    each(EMPTY, check)


def test_syntax_errors_are_those_of_re() -> None:
    """With its message and its place, on one line or several."""
    each(SYNTAX, check_syntax_error)


def check_syntax_error(pattern: bytes) -> None:
    with pytest.raises((re.error, OverflowError)) as expected:
        re.compile(pattern)
    (diagnostic,) = refused(pattern).diagnostics
    assert diagnostic.message == getattr(expected.value, "msg", str(expected.value))
    assert diagnostic.loc is not None
    assert diagnostic.loc.column == (getattr(expected.value, "pos", None) or 0) + 1
    if pattern[:1] not in b"*+?" and isinstance(expected.value, re.error) and pattern != rb"(?-i)a":
        (below,) = refused(b"a\nbc\n" + pattern).diagnostics
        assert below.loc is not None
        assert below.loc.line == 3


def test_all_wrong_patterns_are_reported() -> None:
    with pytest.raises(PatternError) as caught:
        compile_patterns([rb"a(", b"b", rb"c*", rb"(?=d)"], regex=True)
    names = [diagnostic.loc and diagnostic.loc.source.name for diagnostic in caught.value.diagnostics]
    assert names == ["patterns[0]", "patterns[2]", "patterns[3]"]


@pytest.mark.parametrize(
    ("patterns", "message"),
    [
        ([], "there are 0 patterns"),
        (b"abc", "a list of patterns, not one"),
        ("abc", "a list of patterns, not one"),
        (re.compile(b"a"), "a list of patterns, not one"),
        (7, "a list of patterns, not int"),
        (None, "a list of patterns, not NoneType"),
        ([b"a", b""], r"patterns\[1\] has 0 bytes; a literal has 1 to 65535"),
        ([b"a" * 65_536], r"patterns\[0\] has 65536 bytes"),
        ([b"a", 7], r"patterns\[1\] is int; a pattern is text, bytes or an array of uint8"),
        ([b"a", None], r"patterns\[1\] is NoneType"),
        ([b"a", [b"b"]], r"patterns\[1\] is list"),
        ([np.zeros(3)], r"patterns\[0\] is ndarray"),
        (["\ud800"], r"patterns\[0\] cannot be encoded as UTF-8"),
    ],
)
def test_what_is_no_pattern(patterns: Any, message: str) -> None:
    with pytest.raises(PatternError, match=message):
        compile_patterns(patterns)


def test_characters_of_several_bytes_in_a_regular_expression() -> None:
    """`é+` would repeat its last byte only, and [é] would be either byte."""
    error = refused("na[é]")
    assert str(error).startswith("patterns[1]:1:4: error: a regular expression matches bytes")
    assert "  na[é]\n     ^\n" in str(error)
    assert refused(re.compile("é")).diagnostics[0].loc is not None


@pytest.mark.parametrize("flags", [re.VERBOSE, re.LOCALE, re.VERBOSE | re.IGNORECASE])
def test_flags_of_compiled_patterns(flags: re.RegexFlag) -> None:
    assert "are not supported" in refused(re.compile(rb"a b", flags)).diagnostics[0].message


def test_a_newline_after_the_last_line() -> None:
    assert "`$` before a newline" in refused(rb"a$\n").diagnostics[0].message


@pytest.mark.parametrize("depth", quick([200, 5000, 50, 150, 250, 500], keep=2))
@pytest.mark.parametrize(("opened", "closed"), [(b"(?:", b")"), (b"(a", b"b)*c"), (b"(?:a|", b")b?")])
def test_deep_groups_are_matched_or_refused(opened: bytes, closed: bytes, depth: int) -> None:
    """Whichever step would run out of stack, the error is one of the pattern."""
    pattern = opened * depth + b"x" + closed * depth
    messages = []
    try:
        compile_patterns([pattern], regex=True)
    except PatternError as error:
        messages = [diagnostic.message for diagnostic in error.diagnostics]
    assert messages in ([], ["groups are nested too deeply"])


@pytest.mark.parametrize("pattern", [rb"(?:(?:^){60000}){60000}a", rb"(?:(?:(?:){1000}){1000}){1000}a"])
def test_repetitions_of_nothing_take_no_time(pattern: bytes) -> None:
    try:
        compile_patterns([pattern], regex=True)
    except PatternError:
        pass
