"""decode.base64, decode.hex, scan.dfa and their fusion, against the standard library and pyahocorasick."""

from __future__ import annotations

import base64 as library
import random
from collections.abc import Callable

import ahocorasick
import numpy as np
import pytest

from vyre_opt import PassManager, kernels
from vyre_opt.ir.program import Module
from vyre_opt.ir.types import DataType
from vyre_opt.kernels.automaton import build_automaton
from vyre_opt.kernels.decode import DecodeSchedule, base64, decode_grid, hex_text
from vyre_opt.kernels.dfa import SOURCES, DfaSchedule, decode_scan, dfa, dfa_grid, dfa_schedule
from vyre_opt.runtime.dispatcher import BadInputs
from vyre_opt.runtime.ref import kernels as reference

Once = Callable[..., np.ndarray]
SIZES = [0, 1, 2, 3, 4, 5, 11, 12, 13, 33, 1000, 4097]
ENCODE = {"base64": library.b64encode, "hex": lambda data: data.hex().encode(), "raw": bytes}


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("schedule", [DecodeSchedule(), DecodeSchedule(32, 4)])
def test_base64(once: Once, size: int, schedule: DecodeSchedule) -> None:
    """Padded and not; any grid does all of it."""
    data = random.Random(size).randbytes(size)
    padded = library.b64encode(data)
    for text in (padded, padded.rstrip(b"=")):
        for grid in (decode_grid(schedule, len(text)), 3):
            assert once(base64(schedule), [text, np.zeros(size, np.uint8)], grid).tobytes() == data
        assert kernels.base64_decode(text, dispatcher="ref").tobytes() == data


def test_base64_of_every_character() -> None:
    """Those that are not of the alphabet count as 0 bits, '=' too where it is no padding."""
    text = np.arange(256, dtype=np.uint8).repeat(4)[::-1].copy()
    expected = reference.base64(text)
    np.testing.assert_array_equal(kernels.base64_decode(text, dispatcher="ref"), expected)
    assert kernels.base64_decode("Q=JDQUJD==", dispatcher="ref").tobytes() == library.b64decode("QAJDQUJD")


@pytest.mark.parametrize("size", SIZES)
def test_hex(once: Once, size: int) -> None:
    """Either case, and a last odd digit left out."""
    data = random.Random(size).randbytes(size)
    for text in (data.hex(), data.hex().upper() + "f"):
        assert kernels.hex_decode(text, dispatcher="ref").tobytes() == data
        schedule = DecodeSchedule(32, 8)
        assert once(hex_text(schedule), [text.encode(), np.zeros(size, np.uint8)], 2).tobytes() == data


def test_hex_of_every_character() -> None:
    text = np.arange(256, dtype=np.uint8).repeat(2)[1:]
    np.testing.assert_array_equal(kernels.hex_decode(text, dispatcher="ref"), reference.hex(text))


def test_text_that_is_none() -> None:
    with pytest.raises(BadInputs, match="'é' is not an ASCII character"):
        kernels.base64_decode("é", dispatcher="ref")
    with pytest.raises(BadInputs, match="array of uint8, not of float64"):
        kernels.hex_decode(np.zeros(3), dispatcher="ref")


# --- the automaton -----------------------------------------------------------------------

PATTERNS = [b"ab", b"bca", b"c" * 9, b"abcabcab", b"b"]


def searched(text: bytes, patterns: list[bytes]) -> list[tuple[int, int]]:
    independent = ahocorasick.Automaton()
    for number, pattern in enumerate(patterns):
        independent.add_word(pattern.decode("latin-1"), number)
    independent.make_automaton()
    return sorted(independent.iter(text.decode("latin-1")))


def letters(size: int) -> bytes:
    return bytes(random.Random(size).choices(b"abc", k=size))


@pytest.mark.parametrize("size", [1, 2, 31, 33, 1000, 14000])
@pytest.mark.parametrize("table", ["u16", "u32"])
def test_dfa(once: Once, size: int, table: str) -> None:
    text, automaton = letters(size), build_automaton(PATTERNS)
    expected = reference.dfa(
        np.frombuffer(text, np.uint8), automaton.table, automaton.accept, automaton.warmup
    )
    dtype = DataType.of(table)
    rows = automaton.table.astype({"u16": np.uint16, "u32": np.uint32}[table])
    inputs = [text, rows, automaton.accept, np.zeros(size, np.uint32)]
    for schedule in (DfaSchedule(), DfaSchedule(32, 24)):
        program = dfa(automaton.warmup, dtype, schedule)
        np.testing.assert_array_equal(once(program, inputs, dfa_grid(schedule, size)), expected)
    strided = dfa(automaton.warmup, dtype, DfaSchedule(32, 12, strided=True))
    np.testing.assert_array_equal(once(strided, inputs, 3), expected)


def test_dfa_without_warmup(once: Once) -> None:
    """Single bytes need no history."""
    automaton = build_automaton([b"a"])
    inputs = [b"abab", automaton.table, automaton.accept, np.zeros(4, np.uint32)]
    assert once(dfa(automaton.warmup), inputs, 1).tolist() == [1, 0, 1, 0]


@pytest.mark.parametrize("encoding", SOURCES)
@pytest.mark.parametrize("schedule", [DfaSchedule(), DfaSchedule(32, 24)])
@pytest.mark.parametrize("size", [1, 770, 30000])
def test_the_pass_promotes_the_hand_off(once: Once, encoding: str, schedule: DfaSchedule, size: int) -> None:
    """decode_scan in storage and fused give the same, which is what the bytes hold."""
    text, automaton = letters(size), build_automaton(PATTERNS)
    expected = reference.dfa(
        np.frombuffer(text, np.uint8), automaton.table, automaton.accept, automaton.warmup
    )
    grid = dfa_grid(schedule, size)
    program = decode_scan(encoding, automaton.warmup, schedule, grid)
    inputs = [ENCODE[encoding](text), automaton.table, automaton.accept, np.zeros(size, np.uint32)]
    np.testing.assert_array_equal(once(program, inputs, grid), expected)
    module = Module()
    module.add(program)
    PassManager("decode_scan_fuse").run(module)
    assert program.buffers["decoded"].is_workgroup
    assert program.buffers["decoded"].count == schedule.slab(SOURCES[encoding], automaton.warmup)
    np.testing.assert_array_equal(once(program, inputs, grid), expected)


@pytest.mark.parametrize("encoding", SOURCES)
def test_decode_scan(encoding: str) -> None:
    """Matches across tiles; unpadded base64; several patterns that end at one place."""
    text = letters(DfaSchedule().tile + 100)
    encoded = ENCODE[encoding](text).rstrip(b"=")
    assert kernels.decode_scan(encoded, PATTERNS, encoding, dispatcher="ref") == searched(text, PATTERNS)


def test_long_patterns(once: Once) -> None:
    """A warm-up longer than a chunk of the usual schedule."""
    pattern = letters(700)
    text = letters(32000) + pattern + letters(500)
    found = kernels.decode_scan(text, [pattern], "raw", dispatcher="ref")
    assert found == [(32699, 0)]
    assert dfa_schedule(699).chunk > 700


def test_patterns_that_are_none() -> None:
    assert kernels.decode_scan(b"QUJD", [], dispatcher="ref") == []
    assert kernels.decode_scan(b"", ["a"], dispatcher="ref") == []
    for wrong, why in ((["a", ""], "pattern 2 has 0 bytes"), ("a", "a list of patterns")):
        with pytest.raises(BadInputs, match=why):
            kernels.decode_scan(b"QUJD", wrong, dispatcher="ref")
    with pytest.raises(BadInputs, match="unknown encoding 'rot13'"):
        kernels.decode_scan(b"QUJD", ["a"], "rot13", dispatcher="ref")
    with pytest.raises(BadInputs, match="too long to search for in one launch"):
        kernels.decode_scan(b"QUJD" * 9, [b"a" * 30000], dispatcher="ref")
