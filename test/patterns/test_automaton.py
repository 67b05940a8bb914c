"""Tables go to plain arrays and come back; whatever is wrong with them becomes no wrong index."""

import io
import random
from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.patterns.automaton import Automaton, Corrupt
from vyre_opt.patterns.compiled import CompiledPatterns
from vyre_opt.patterns.find import find

Arrays = dict[str, np.ndarray[Any, Any]]
SETS: dict[str, list[Any]] = {
    "literals": [b"ab", b"b", b"abab", b"ba", b"bb"],
    "letters": [b"a", b"b", b"_", b"\n", b"ab_"],
}
TEXT = b"abab__ bb\nba_ab\xff aaab\nab" + b"ab_" * 8 + b"\n"


@pytest.fixture(params=SETS, scope="module")
def compiled(request: pytest.FixtureRequest) -> CompiledPatterns:
    return CompiledPatterns.of_literals(SETS[request.param])


def test_arrays_come_back(compiled: CompiledPatterns) -> None:
    """Through a file of NumPy, without pickle."""
    file = io.BytesIO()
    np.savez(file, **compiled.to_arrays())
    file.seek(0)
    with np.load(file, allow_pickle=False) as loaded:
        back = CompiledPatterns.from_arrays(dict(loaded))
    for field in fields(Automaton):
        one, other = getattr(back.search, field.name), getattr(compiled.search, field.name)
        np.testing.assert_array_equal(one, other, field.name)
    assert find(back, TEXT) == find(compiled, TEXT)


def test_many_literals_come_back_from_a_fraction_of_the_bytes() -> None:
    draw = random.Random(1)
    compiled = CompiledPatterns.of_literals(
        [draw.randbytes(draw.randint(1, 12)).hex().encode() for _ in range(3000)]
    )
    arrays = compiled.to_arrays()
    assert sum(array.nbytes for array in arrays.values()) < compiled.search.num_bytes / 2
    back = CompiledPatterns.from_arrays(arrays)
    np.testing.assert_array_equal(back.search.transitions, compiled.search.transitions)


def is_refused_or_harmless(load: Callable[[], CompiledPatterns]) -> bool:
    """Whether it is refused.  If not, walks must stay inside of the tables and report spans of the text."""
    try:
        patterns = load()
    except Corrupt:
        return True
    for text in (TEXT, b"", b"\n", bytes(range(256))):
        for start, end, pattern in find(patterns, text):
            assert 0 <= start <= len(text)
            assert 0 <= end <= len(text)
            assert 0 <= pattern < patterns.num_patterns
    return False


VALUES = (0, 1, 2, 3, 255, 0x7FFFFFFF, 0xFFFFFFFE, 0xFFFFFFFF)


@pytest.mark.parametrize("most", quick([2, 40]))
def test_each_element_of_stored_arrays(compiled: CompiledPatterns, most: int) -> None:
    """Elements of each array, changed to values at the edges, also of arrays that are empty."""
    arrays = compiled.to_arrays()
    refused = total = 0
    draw = random.Random(4)
    for name, array in arrays.items():
        for place in draw.sample(range(array.size), min(array.size, most)):
            for value in VALUES:
                if value > np.iinfo(array.dtype).max:
                    continue
                changed = array.copy()
                changed.reshape(-1)[place] = value
                total += 1
                refused += is_refused_or_harmless(lambda n=name, c=changed: from_changed(arrays, n, c))
    assert refused > total // 4


def from_changed(arrays: Arrays, name: str, changed: np.ndarray[Any, Any] | None) -> CompiledPatterns:
    others = {other: array for other, array in arrays.items() if other != name}
    return CompiledPatterns.from_arrays(others if changed is None else others | {name: changed})


def test_forms_of_stored_arrays(compiled: CompiledPatterns) -> None:
    """Arrays that are missing, of other types, dimensions or lengths, or of objects, are refused by name or harmless."""
    arrays = compiled.to_arrays()
    for name, array in arrays.items():
        if name.startswith("search_"):  # of the others all may be missing
            with pytest.raises(Corrupt, match="there is an array"):
                from_changed(arrays, name, None)
        for wrong in (array.astype(np.int64), array.astype(np.float32), array[None], array.astype(object)):
            with pytest.raises(Corrupt, match="dimensions"):
                from_changed(arrays, name, wrong)
        for wrong in (
            array[:0],
            array[:-1],
            array[1:],
            np.concatenate([array, array]),
            np.concatenate([array, array[:1]]),
        ):
            is_refused_or_harmless(lambda n=name, w=wrong: from_changed(arrays, n, w))


@pytest.mark.parametrize("most", quick([2, 30]))
def test_each_element_of_tables_in_memory(compiled: CompiledPatterns, most: int) -> None:
    """The same of the dataclass, whose transitions are all there."""
    draw = random.Random(5)
    for field in fields(Automaton):
        array = getattr(compiled.search, field.name)
        if not isinstance(array, np.ndarray) or not array.size:
            continue
        for place in draw.sample(range(array.size), min(array.size, most)):
            for value in VALUES:
                if value <= np.iinfo(array.dtype).max:
                    changed = array.copy()
                    changed.reshape(-1)[place] = value
                    is_refused_or_harmless(lambda f=field.name, c=changed: validated(compiled, f, c))


def validated(compiled: CompiledPatterns, field: str, value: Any) -> CompiledPatterns:
    changed = replace(compiled, search=replace(compiled.search, **{field: value}))
    changed.validate()
    return changed


@pytest.mark.parametrize(
    ("field", "change", "invariant"),
    [
        ("transitions", lambda a: np.full_like(a, len(a)), "lead to states"),
        ("transitions", lambda a: a[:, :0], "lead to states"),
        ("classes", lambda a: a + np.uint8(100), "column"),
        ("classes", lambda a: a[:255], "256 bytes"),
        ("depth", lambda a: a[1:], "a depth and a fallback"),
        ("fallback", lambda a: np.full_like(a, len(a)), "fallbacks are states"),
        ("fallback", lambda a: np.arange(len(a), dtype=np.uint32), "0 or of less depth"),
        ("changed_cells", lambda a: a + np.uint32(1 << 30), "cells of the table"),
        ("accept_offsets", lambda a: a[::-1].copy(), "ascend from 0"),
        ("accept_offsets", lambda a: np.zeros(1000, np.uint32), "state 0 is none of them"),
        ("accept_offsets", lambda a: a * np.uint32(2), "end where"),
        ("accept_patterns", lambda a: a + np.uint32(100), "are below 5"),
    ],
)  # fmt: skip
def test_invariants(field: str, change: Callable[[Any], Any], invariant: str) -> None:
    """Each is checked, and named."""
    compiled = CompiledPatterns.of_literals(SETS["letters"])
    with pytest.raises(Corrupt, match=invariant):
        validated(compiled, field, change(getattr(compiled.search, field)))


def test_a_small_file_makes_no_large_table() -> None:
    arrays = CompiledPatterns.of_literals([b"a"]).to_arrays()
    arrays["search_depth"] = np.zeros(1 << 22, np.uint32)
    arrays["search_first_row"] = np.zeros(256, np.uint32)
    with pytest.raises(Corrupt, match="a table has 1 to 536870912 cells, not 1073741824"):
        CompiledPatterns.from_arrays(arrays)
