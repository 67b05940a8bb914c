"""decode.base64, decode.hex, scan.dfa and their fusion, against the standard library and pyahocorasick."""

from __future__ import annotations

import base64 as library
import random
from collections.abc import Callable, Sequence

import ahocorasick
import numpy as np
import pytest
from support.decode_scan_program import SearchSchedule, decode_scan, search_grid
from support.dense_automaton import Match, build_automaton, matches_of_hits
from support.each import each
from support.quick import quick

from vyre_opt import PassManager, kernels, parse, print_program
from vyre_opt.execution import BadInputs
from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import DataType, Module, Program
from vyre_opt.kernels.decode import DecodeSchedule, base64, hex_text
from vyre_opt.kernels.dfa import DfaSchedule, dfa
from vyre_opt.kernels.named import named_kernel
from vyre_scan.programs.text_units import ENCODINGS

Once = Callable[..., np.ndarray]
SIZES = [0, 1, 2, 3, 4, 5, 11, 12, 13, 33, 1000, 4097]
ENCODE = {"base64": library.b64encode, "hex": lambda data: data.hex().encode(), "raw": bytes}


@pytest.mark.parametrize("schedule", [DecodeSchedule(), DecodeSchedule(32, 4)])
def test_base64(once: Once, schedule: DecodeSchedule) -> None:
    """Padded and not; any grid does all of it."""
    program = base64(schedule)

    def check(size: int) -> None:
        data = random.Random(size).randbytes(size)
        padded = library.b64encode(data)
        for text in (padded, padded.rstrip(b"=")):
            for grid in (max(1, -(-len(text) // schedule.tile)), 3):
                assert once(program, [text, np.zeros(size, np.uint8)], grid).tobytes() == data
            assert kernels.base64_decode(text, dispatcher="ref").tobytes() == data

    each(SIZES, check)


def test_base64_of_every_character(once: Once) -> None:
    """For the program, those that are not of the alphabet count as 0 bits, '=' too where it is no padding."""
    for text in (np.arange(256, dtype=np.uint8).repeat(4)[::-1].copy(), np.frombuffer(b"Q=JDQUJD", np.uint8)):
        expected = named_kernel("decode.base64").reference(text)
        np.testing.assert_array_equal(
            once(base64(DecodeSchedule()), [text, np.zeros_like(expected)], 2), expected
        )


def test_hex(once: Once) -> None:
    """Either case; for the program, a last odd digit is left out."""
    program = hex_text(DecodeSchedule(32, 8))

    def check(size: int) -> None:
        data = random.Random(size).randbytes(size)
        assert kernels.hex_decode(data.hex(), dispatcher="ref").tobytes() == data
        for text in (data.hex(), data.hex().upper() + "f"):
            assert once(program, [text.encode(), np.zeros(size, np.uint8)], 2).tobytes() == data

    each(SIZES, check)


def test_hex_of_every_character(once: Once) -> None:
    text = np.arange(256, dtype=np.uint8).repeat(2)[1:]
    expected = named_kernel("decode.hex").reference(text)
    np.testing.assert_array_equal(
        once(hex_text(DecodeSchedule(32, 8)), [text, np.zeros_like(expected)], 2), expected
    )


@pytest.mark.parametrize("encoding", ["base64", "hex"])
@pytest.mark.parametrize("lookup", quick([False, True]))
def test_a_search_decodes_every_character(
    on: Callable[[str], Dispatcher], target: str, encoding: str, lookup: bool
) -> None:
    """By arithmetic or by table: a pattern for each byte spells what the text decodes to."""
    text = np.arange(256, dtype=np.uint8).repeat(3)
    expected = named_kernel(f"decode.{encoding}").reference(text)
    automaton, schedule = build_automaton([bytes([k]) for k in range(256)]), SearchSchedule(32, 12, lookup)
    program = fused(decode_scan(encoding, automaton.warmup, schedule))
    tables = [automaton.table, automaton.accepting, automaton.depth]
    inputs = [text, *tables, np.zeros(2 * len(expected), np.uint64), np.zeros(1, np.uint64)]
    hits, count = on(target).dispatch(program, inputs, search_grid(schedule, len(expected)))
    matches = matches_of_hits(hits[: int(count[0])], automaton)
    assert [place for place, _ in matches] == list(range(len(expected)))
    assert bytes(number for _, number in matches) == expected.tobytes()


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


@pytest.mark.parametrize("table", quick(["u16", "u32"]))
def test_dfa(once: Once, table: str) -> None:
    automaton, dtype = build_automaton(PATTERNS), DataType.of(table)
    rows = automaton.table.astype({"u16": np.uint16, "u32": np.uint32}[table])
    schedules = DfaSchedule(), DfaSchedule(32, 24), DfaSchedule(64, 20, in_shared=True)
    programs = [(dfa(automaton.warmup, dtype, schedule), schedule) for schedule in schedules]
    strided = dfa(automaton.warmup, dtype, DfaSchedule(32, 12, strided=True))

    def check(size: int) -> None:
        text = letters(size)
        expected = named_kernel("scan.dfa").reference(
            np.frombuffer(text, np.uint8), automaton.table, automaton.accept, automaton.warmup
        )
        inputs = [text, rows, automaton.accept, np.zeros(size, np.uint32)]
        for program, schedule in programs:
            np.testing.assert_array_equal(once(program, inputs, max(1, -(-size // schedule.tile))), expected)
        np.testing.assert_array_equal(once(strided, inputs, 3), expected)

    each((1, 2, 31, 33, 1000, 14000), check)


def test_dfa_without_warmup(once: Once) -> None:
    """Single bytes need no history."""
    automaton = build_automaton([b"a"])
    inputs = [b"abab", automaton.table, automaton.accept, np.zeros(4, np.uint32)]
    assert once(dfa(automaton.warmup), inputs, 1).tolist() == [1, 0, 1, 0]


# --- decode and search -------------------------------------------------------------------


def fused(program: Program) -> Program:
    module = Module()
    module.add(program)
    PassManager("decode_scan_fuse").run(module)
    assert program.buffers["decoded"].is_workgroup
    return program


def found_by(
    dispatcher: Dispatcher,
    program: Program,
    schedule: SearchSchedule,
    encoding: str,
    text: bytes,
    patterns: Sequence[bytes],
) -> list[Match]:
    automaton = build_automaton(patterns)
    tables = [automaton.table, automaton.accepting, automaton.depth]
    inputs = [ENCODE[encoding](text), *tables, np.zeros(8 * len(text), np.uint64), np.zeros(1, np.uint64)]
    hits, count = dispatcher.dispatch(program, inputs, search_grid(schedule, len(text)))
    return matches_of_hits(hits[: int(count[0])], automaton)


@pytest.mark.parametrize("encoding", quick(ENCODINGS))
@pytest.mark.parametrize(
    "schedule", quick([SearchSchedule(32, 12, decode_by_table=True, rows_in_shared=3), SearchSchedule()])
)
@pytest.mark.parametrize("size", quick([770, 1, 30000]))
def test_the_pass_promotes_the_hand_off(
    on: Callable[[str], Dispatcher], target: str, encoding: str, schedule: SearchSchedule, size: int
) -> None:
    """decode_scan in storage and fused give the same, which is what the bytes hold."""
    text, automaton = letters(size), build_automaton(PATTERNS)
    program = decode_scan(encoding, automaton.warmup, schedule, search_grid(schedule, size))
    arguments = (schedule, encoding, text, PATTERNS)
    assert found_by(on(target), program, *arguments) == searched(text, PATTERNS)
    assert found_by(on(target), fused(program), *arguments) == searched(text, PATTERNS)
    words = program.buffers["decoded"].count or 0
    assert words * 4 <= schedule.slab(ENCODINGS[encoding], automaton.warmup)


def test_as_text_it_fuses_as_well() -> None:
    """The program is one that a person could have written: printed, parsed and fused it is the same."""
    original = Module()
    original.add(decode_scan("base64", 64, SearchSchedule(32, 12, decode_by_table=True, rows_in_shared=3), 7))
    parsed = parse(print_program(original))
    for module in (original, parsed):
        PassManager("decode_scan_fuse").run(module)
        assert module.programs["decode_scan"].buffers["decoded"].is_workgroup
    assert print_program(parsed) == print_program(module)


@pytest.mark.parametrize(("length", "step"), quick([(31, 5), (31, 1), (2, 1), (65, 1)]))
def test_a_match_over_every_edge_at_every_offset(
    on: Callable[[str], Dispatcher], target: str, length: int, step: int
) -> None:
    """A pattern that begins in one chunk or tile and ends in a later one, however far."""
    schedule = SearchSchedule(32, 12)
    pattern = bytes(range(1, length + 1))
    program = fused(decode_scan("base64", length - 1, schedule))
    for over in range(0, length + 1, step):
        text = bytearray(5 * schedule.tile)
        starts = [edge - over for edge in (72, schedule.tile, 3 * schedule.tile)]
        for start in starts:
            text[start : start + length] = pattern
        matches = found_by(on(target), program, schedule, "base64", bytes(text), [pattern])
        assert matches == [(start + length - 1, 0) for start in starts]


@pytest.mark.parametrize("encoding", quick(ENCODINGS))
def test_what_follows_the_text_matches_nothing(encoding: str) -> None:
    """Behind its end, and where base64 is padded, a slab holds zeros, which are no part of the text."""
    for size in range(1, 26):  # a last unit in part, of every length
        text = bytes(size)
        matches = kernels.decode_scan(ENCODE[encoding](text), [b"\0", b"\0\0\0"], encoding, dispatcher="ref")
        assert matches == searched(text, [b"\0", b"\0\0\0"])


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_decode_scan(encoding: str) -> None:
    """Matches across tiles; unpadded base64; several patterns that end at one place."""
    text = letters(SearchSchedule().tile + 100)
    encoded = ENCODE[encoding](text).rstrip(b"=")
    assert kernels.decode_scan(encoded, PATTERNS, encoding, dispatcher="ref") == searched(text, PATTERNS)


def test_more_matches_than_there_is_room_for() -> None:
    """What the list has no room for is counted, and found by a second run."""
    text = b"b" * 5000
    assert kernels.decode_scan(text, [b"b", b"bb"], "raw") == searched(text, [b"b", b"bb"])


def test_hits_without_room_are_counted_only(on: Callable[[str], Dispatcher], target: str) -> None:
    automaton, schedule = build_automaton([b"b"]), SearchSchedule(32, 12)
    program = fused(decode_scan("raw", automaton.warmup, schedule))
    tables = [automaton.table, automaton.accepting, automaton.depth]
    inputs = [b"b" * 100, *tables, np.zeros(7, np.uint64), np.zeros(1, np.uint64)]
    hits, count = on(target).dispatch(program, inputs, 1)
    assert int(count[0]) == 100
    assert len({int(hit >> 32) for hit in hits}) == 7


@pytest.mark.campaign
def test_long_patterns() -> None:
    """Many times as long as a chunk, and a beginning of one that does not go on."""
    pattern = letters(700)
    text = letters(32000) + pattern + letters(500) + pattern[:-1] + b"-"
    for encoding in ENCODINGS:
        matches = kernels.decode_scan(ENCODE[encoding](text), [pattern, pattern[5:9]], encoding)
        assert matches == searched(text, [pattern, pattern[5:9]])


def test_states_where_a_pattern_ends_come_last() -> None:
    """The programs tell them by their numbers; depths are those of the trie."""
    automaton = build_automaton([b"abcd", b"bc", b"c"])
    accepts = automaton.accept > 0
    assert accepts.tolist() == sorted(accepts.tolist())
    assert automaton.accepting.tolist() == automaton.accept[accepts].tolist()
    assert automaton.table[ord("a")] > 0
    state = 0
    for depth, byte in enumerate(b"abcd", start=1):
        state = int(automaton.table[state * 256 + byte])
        assert automaton.depth[state] == depth
    assert automaton.depth[int(automaton.table[state * 256 + ord("b")])] == 1


def test_patterns_that_are_none() -> None:
    assert kernels.decode_scan(b"QUJD", [], dispatcher="ref") == []
    assert kernels.decode_scan(b"", ["a"], dispatcher="ref") == []
    for wrong, why in ((["a", ""], r"patterns\[1\] has 0 bytes"), ("a", "a list of patterns")):
        with pytest.raises(BadInputs, match=why):
            kernels.decode_scan(b"QUJD", wrong, dispatcher="ref")
    with pytest.raises(BadInputs, match="unknown encoding 'rot13'"):
        kernels.decode_scan(b"QUJD", ["a"], "rot13", dispatcher="ref")
