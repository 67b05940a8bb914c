"""Regular expressions: the spans of `re.finditer`, rule by rule, whole and in parts, in bytes, encoded text and blobs."""

from __future__ import annotations

import base64
import random
import re
import signal
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from time import perf_counter
from typing import Any

import pytest
from support.parts import in_parts
from support.random_regexes import RandomExpressions
from support.search_oracle import regex_matches

from vyre_opt import PatternError, Scanner
from vyre_opt.execution import BadInputs
from vyre_scan import Match, Rule, scan_blobs
from vyre_scan.patterns.pattern_list import read_patterns
from vyre_scan.search.cached_patterns import cached_tables

BATCH = 500
PATIENCE = 0.3
"""Seconds after which an expression is given up that takes exponential time in `re`."""


class TooSlow(Exception):
    pass


@contextmanager
def patience() -> Iterator[None]:
    def give_up(*_: Any) -> None:
        raise TooSlow

    before = signal.signal(signal.SIGALRM, give_up)
    signal.setitimer(signal.ITIMER_REAL, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def check(seed: int) -> int:
    """How many matches there are in the text of a seed."""
    rng = random.Random(seed)
    draw = RandomExpressions(rng)
    parts = [draw.expression() for _ in range(rng.choice((1, 2, 4)))]
    expressions = [pattern for pattern, _ in parts]
    data = draw.text([sample for _, sample in parts], rng.choice((0, 20, 60, 150)))
    encoding = rng.choice((None, None, "base64", "hex"))
    text = (
        data if encoding is None else base64.b64encode(data) if encoding == "base64" else data.hex().encode()
    )
    try:
        with patience():
            expected = regex_matches(expressions, data)
    except (TooSlow, SystemError):  # of the second kind are expressions on which `re` finds a bug in itself
        return 0
    scanner = Scanner(expressions, encoding, regex=True, threads=1)
    shown = f"{expressions} in {data!r}"
    assert in_order(scanner.scan(text)) == expected, shown
    assert in_order(scanner.scan_stream(in_parts(rng, text, (0, 1, 5, 30)))) == expected, shown
    return len(expected)


def in_order(matches: Sequence[Match]) -> list[Match]:
    return sorted(matches, key=lambda match: (match.end, match.pattern, match.start))


def test_random_rules() -> None:
    assert sum(check(seed) for seed in range(120)) > 500


@pytest.mark.campaign
@pytest.mark.parametrize("first", range(120, 20_120, BATCH))
def test_more_random_rules(first: int) -> None:
    for seed in range(first, first + BATCH):
        check(seed)


KINDS = [
    # an expression, and data; each way through the data, and each thing that a match depends on
    (rb"AKIA[0-9A-Z]{16}", b"x AKIA0123456789ABCDEF AKIA"),
    (rb"[a-z]{0,9}key", b"abckeykey akey"),
    (rb"[\w.-]{0,50}?key[a-z]*", b"my.key key-keys."),
    (rb"[a-z]+@example\.com", b"a@example.com, ab@example.comb@example.com"),
    (rb"(?s)BEGIN.*?END", b"BEGIN BEGIN\n END BEGINEND"),
    (rb"password\s*=\s*\S+", b"password = a\npassword=\n\nbc password"),
    (rb"(?m)^token$", b"token\ntokens\ntoken"),
    (rb"token$", b"token\ntoken\n"),
    (rb"token\Z", b"token\ntoken"),
    (rb"\btoken\b", b"token tokens _token token"),
    (rb"(?<=id: )tok[a-z]+(?=;)", b"id: toka; tokb; id: tokc"),
    (rb"(?<!x)secret(?!s)", b"xsecret secrets secret"),
    (rb"(['\"])secret\1", b"'secret' \"secret'\"secret\""),
    (rb"(a)?secret(?(1)b|c)", b"asecretb secretc asecretc"),
    (rb"(?i)SeCrEt", b"secret SECRET"),
    (rb"(?>a+)key", b"aakey"),
    (rb"x{3}(?=.*y)", b"xxxx\nxxxx y"),
    (rb"[0-9a-f]{32}", b"0123456789abcdef" * 5),
    (rb"a*", b"baac"),
    (rb"", b"ab"),
    (rb"[a-z]+", b"ab cd"),
    (rb"(?s).+", b"ab\ncd"),
]


@pytest.mark.parametrize("encoding", [None, "base64"])
def test_each_kind(encoding: str | None) -> None:
    expressions = [expression for expression, _ in KINDS]
    data = b" ".join(data for _, data in KINDS)
    for one, own in [*KINDS, *((expression, data) for expression in expressions)]:
        text = own if encoding is None else base64.b64encode(own)
        scanner = Scanner([one], encoding, regex=True, threads=1)
        assert in_order(scanner.scan(text)) == regex_matches([one], own), one
        chunks = [text[at : at + 3] for at in range(0, len(text), 3)]
        assert in_order(scanner.scan_stream(chunks)) == regex_matches([one], own), one
    together = Scanner(expressions, encoding, regex=True)
    text = data if encoding is None else base64.b64encode(data)
    assert in_order(together.scan(text)) == regex_matches(expressions, data)


def test_literals_and_expressions_together() -> None:
    """Of literals all matches, of expressions those that do not overlap."""
    scanner = Scanner([b"aa", re.compile(b"a+"), b"aaa"])
    assert list(scanner.scan(b"aaaa")) == [(0, 2, 0), (1, 3, 0), (0, 3, 2), (2, 4, 0), (0, 4, 1), (1, 4, 2)]


def test_conditions() -> None:
    rules = [
        Rule(rb"key=(\w+)", "key", group=1, entropy=3.0, allow=[rb"^example"]),
        Rule(rb"id=(?P<id>\d+)", group="id", where=lambda match: int(match["id"]) % 2 == 0),
        re.compile(rb"key"),
    ]
    data = b"key=aaaaaaaaaaaa key=a8Gh2kLq9Zx1 key=example8Gh2kLq9Zx1 id=3 id=4"
    scanner = Scanner(rules)
    found = [(data[m.start : m.end], m.pattern) for m in scanner.scan(data) if m.pattern < 2]
    assert found == [(b"key=a8Gh2kLq9Zx1", 0), (b"id=4", 1)]
    assert scanner.scan_stream([data[:30], data[30:]]) == scanner.scan(data)


@pytest.mark.parametrize("group", [2, -1, "id", None, 1.5])
def test_a_group_that_there_is_not(group: Any) -> None:
    with pytest.raises(PatternError, match=r"patterns\[0\] has no group .*; it has 1 groups"):
        Scanner([Rule(rb"a(b)", group=group)])


def test_scanners_with_conditions_are_no_files_of_arrays(tmp_path: Path) -> None:
    with pytest.raises(BadInputs, match="kept by pickle"):
        Scanner([Rule(b"a", entropy=1)]).save(tmp_path / "rules.npz")
    path = tmp_path / "expressions.npz"
    Scanner([b"lit", re.compile(rb"a+b"), Rule("é+")]).save(path)
    data = "aab lit éé".encode()
    assert [m.pattern for m in Scanner.load(path).scan(data)] == [1, 0, 2]


def test_rules_in_blobs() -> None:
    """A blob is data of its own: anchors see its edges, and no match spans two."""
    inner = [b"id=AKIA0123456789ABCDEF;", b"token = abcdefghijkl", b"nothing of note here."]
    data = b"\n-- \n".join(b"x: " + base64.b64encode(one) for one in inner)
    rules = [rb"AKIA[0-9A-Z]{16}", rb"(?i)token\s*=\s*[a-z]{12}$", rb"\Aid", rb"\.\Z", rb"[a-z]+ of"]
    found = {(m.content, m.pattern) for m in scan_blobs(Scanner(rules, regex=True), data)}
    assert {
        (b"AKIA0123456789ABCDEF", 0),
        (b"token = abcdefghijkl", 1),
        (b"id", 2),
        (b".", 3),
        (b"nothing of", 4),
    } <= found


@pytest.mark.parametrize(
    ("expression", "unit"),
    [
        (rb"[a-z]+", b"a"),
        (rb"a[^b]*", b"a"),
        (rb"[a-z]+@", b"a"),
        (rb"key=[a-z]{3,40}!", b"key=a"),
        (rb"x?y?", b"xy"),
    ],
)
def test_time_is_that_of_the_bytes(expression: bytes, unit: bytes) -> None:
    """Four times the data takes four times as long, or `re` takes more than that itself."""
    scanner = Scanner([expression], regex=True, threads=1)

    def seconds(call: Any) -> float:
        start = perf_counter()
        call()
        return perf_counter() - start

    data = unit * (20_000 // len(unit))
    itself = seconds(lambda: regex_matches([expression], data))
    assert min(seconds(lambda: scanner.scan(data)) for _ in range(3)) < 0.2 + 6 * itself


def test_hundreds_of_rules_share_few_states() -> None:
    """As scanners of secrets have them."""
    around = r"(?i)[\w.-]{0,50}?(?:%s)(?:[ \t\w.-]{0,20})[\s'\"]{0,3}(?:=|>|:{1,3}=|:|=>|,)['\"\s=]{0,5}(%s)(?:['\"\s;]|$)"
    secrets = ("[a-f0-9]{32}", "[a-z0-9_-]{40}", "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    rules = [around % (f"service{number}", secrets[number % 3]) for number in range(200)]
    read = read_patterns(rules, regex=True, caseless=False)
    tables = cached_tables(read, False, None)
    assert sum(one.automaton.num_states for one in tables.searches) < 5000
    data = b"x service16_key = '" + b"abcd" * 10 + b"'"
    assert list(Scanner(rules, regex=True).scan(data)) == regex_matches(
        [rule.encode() for rule in rules], data
    )
