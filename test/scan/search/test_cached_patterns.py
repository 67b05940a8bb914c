"""Compiled patterns in the compile cache: read instead of compiled, and never for other patterns or from damaged entries."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre_opt.execution.cache.store import Store
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_scan.patterns.pattern_list import read_patterns
from vyre_scan.search import cached_patterns as cached
from vyre_scan.search.cached_patterns import KIND, cached_tables
from vyre_scan.search.encodings import RAW
from vyre_scan.search.stream import Stream
from vyre_scan.search.tables import PatternTables

PATTERNS = [b"abc", re.compile(rb"b[c-e]+\b"), b"c"]
TEXT = b"abcd bc\nabc"
EXPECTED = [(0, 3, 0), (2, 3, 2), (6, 7, 2), (1, 4, 1), (5, 7, 1), (8, 11, 0), (10, 11, 2), (9, 11, 1)]


def cached_patterns(
    patterns: list[Any], *, regex: bool = False, caseless: bool = False, store: Store | None
) -> PatternTables:
    return cached_tables(read_patterns(patterns, regex=regex, caseless=caseless), caseless, store)


def find(tables: PatternTables, data: bytes) -> list[Any]:
    return [*Stream(tables, RAW, True, CpuDispatcher(workers=1), is_whole=True).all_in(data)]


@pytest.fixture
def store(tmp_path: Path) -> Store:
    tmp_path.chmod(0o700)
    return Store(tmp_path / "cache")


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The patterns of each call that compiled."""
    calls: list[Any] = []
    read = cached.read_expressions

    def counted(patterns: Any) -> Any:
        calls.append(patterns)
        return read(patterns)

    monkeypatch.setattr(cached, "read_expressions", counted)
    return calls


def test_the_second_time_nothing_is_compiled(store: Store, compilations: list[Any]) -> None:
    first, second = (cached_patterns(PATTERNS, store=store) for _ in range(2))
    assert len(compilations) == 1
    assert sorted(find(first, TEXT)) == sorted(find(second, TEXT)) == sorted(EXPECTED)
    for one, other in zip(first.searches, second.searches, strict=True):
        np.testing.assert_array_equal(one.automaton.cells, other.automaton.cells)


def test_literals_are_not_stored(store: Store) -> None:
    """Their automaton is built in less time than a store takes to find it."""
    cached_patterns([b"abc", b"def"], store=store)
    assert not [*store.entries()]
    cached_patterns([b"abc"], regex=True, store=store)
    assert len([*store.entries()]) == 1


def test_without_a_store(compilations: list[Any]) -> None:
    for _ in range(2):
        cached_patterns(PATTERNS, store=None)
    assert len(compilations) == 2


def test_no_two_requests_share_an_entry(store: Store, compilations: list[Any]) -> None:
    """Boundaries between patterns, their order, flags and every option count."""
    requests: list[tuple[list[Any], dict[str, Any]]] = [
        ([b"ab", b"c"], {"regex": True}),
        ([b"a", b"bc"], {"regex": True}),
        ([b"c", b"ab"], {"regex": True}),
        ([b"abc"], {"regex": True}),
        (["ab\xe9", b"c"], {"regex": True}),
        (["ab\xe9".encode(), b"c"], {"regex": True}),
        ([b"ab", b"c"], {"regex": True, "caseless": True}),
        ([b"ab", re.compile(b"c")], {}),
        ([re.compile(b"ab"), b"c"], {}),
        ([b"ab", re.compile(b"c", re.IGNORECASE)], {}),
        ([b"ab", re.compile(b"c", re.MULTILINE)], {}),
    ]
    for patterns, options in requests * 2:
        cached_patterns(patterns, store=store, **options)
    assert len(compilations) == len(requests)
    assert sum(1 for _ in store.entries()) == len(requests)


def test_a_changed_compiler_compiles_again(
    store: Store, compilations: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    cached_patterns(PATTERNS, store=store)
    monkeypatch.setattr(cached, "_sources", lambda: b"another version")
    cached_patterns(PATTERNS, store=store)
    assert len(compilations) == 2


def test_an_entry_that_is_sealed_and_wrong(store: Store, compilations: list[Any]) -> None:
    """As another version could leave: it is removed, and compiled anew."""
    cached_patterns(PATTERNS, store=store)
    (entry,) = store.entries()
    payload = store.get(entry.key, KIND)
    assert payload is not None
    for wrong in (b"", payload[:100], payload[:-1], b"\xff" * 50):
        store.put(entry.key, KIND, wrong)
        assert sorted(find(cached_patterns(PATTERNS, store=store), TEXT)) == sorted(EXPECTED)
    assert len(compilations) == 5
