"""Compiled patterns in the compile cache: read instead of compiled, and never for other patterns or from damaged entries."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.execution.cache.store import Store
from vyre_opt.patterns.compile import compile_patterns
from vyre_opt.patterns.find import find
from vyre_opt.search import cached_patterns as cached
from vyre_opt.search.cached_patterns import KIND, cached_patterns, decode, encode

PATTERNS = [b"abc", re.compile(rb"b[c-e]+\b"), b"c"]
TEXT = b"abcd bc\nabc"


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store that keeps the smallest sets, too."""
    monkeypatch.setattr(cached, "FEW_BYTES", 0)
    tmp_path.chmod(0o700)
    return Store(tmp_path / "cache")


@pytest.fixture
def compilations(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The patterns of each call that compiled."""
    calls: list[Any] = []
    compiled = cached.compiled

    def counted(patterns: Any, *options: Any) -> Any:
        calls.append(patterns)
        return compiled(patterns, *options)

    monkeypatch.setattr(cached, "compiled", counted)
    return calls


def test_the_second_time_nothing_is_compiled(store: Store, compilations: list[Any]) -> None:
    first, second = (cached_patterns(PATTERNS, store=store) for _ in range(2))
    assert len(compilations) == 1
    assert find(first, TEXT) == find(second, TEXT) == find(compile_patterns(PATTERNS), TEXT)
    np.testing.assert_array_equal(first.search.transitions, second.search.transitions)


def test_literals_that_are_compiled_sooner_than_read(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cached, "FEW_BYTES", 7)
    cached_patterns([b"abc", b"def"], store=store)
    assert not [*store.entries()]
    cached_patterns([b"abc", b"defg"], store=store)
    cached_patterns([b"abc"], regex=True, store=store)
    assert len([*store.entries()]) == 2


def test_without_a_store(compilations: list[Any]) -> None:
    for _ in range(2):
        cached_patterns(PATTERNS, store=None)
    assert len(compilations) == 2


def test_no_two_requests_share_an_entry(store: Store, compilations: list[Any]) -> None:
    """Boundaries between patterns, their order, flags and every option count."""
    requests: list[tuple[list[Any], dict[str, Any]]] = [
        ([b"ab", b"c"], {}),
        ([b"a", b"bc"], {}),
        ([b"c", b"ab"], {}),
        ([b"abc"], {}),
        ([b"ab", b"c"], {"caseless": True}),
        ([b"ab", b"c"], {"regex": True}),
        ([b"ab", b"c"], {"regex": True, "caseless": True}),
        ([b"ab", b"c"], {"max_states": 1000}),
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
    for wrong in (b"", payload[:100], payload[:-1], payload[:-4] + b"\xff" * 4, b"\xff" * 50):
        store.put(entry.key, KIND, wrong)
        assert find(cached_patterns(PATTERNS, store=store), TEXT) == find(compile_patterns(PATTERNS), TEXT)
    assert len(compilations) >= 5


@pytest.mark.parametrize("step", quick([7, 1]))  # 7: at each place of a number of 8 bytes
def test_each_byte_of_a_payload(step: int) -> None:
    """Refused, or walked without a wrong index."""
    payload = encode(compile_patterns([b"ab", re.compile(rb"b+$")]))
    for place in range(0, len(payload), step):
        for bit in (0x01, 0x80):
            changed = bytearray(payload)
            changed[place] ^= bit
            try:
                patterns = decode(bytes(changed))
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            for start, end, _ in find(patterns, TEXT):
                assert 0 <= start <= len(TEXT)
                assert 0 <= end <= len(TEXT)
