"""decode.base64, decode.hex, scan.dfa, and decode and scan in one, unfused and fused."""

from __future__ import annotations

import base64 as library
import random
from collections.abc import Callable, Iterable, Iterator, Sequence

import numpy as np

from support.decode_scan_program import MAX_SLAB, SearchSchedule, decode_scan, search_grid
from support.dense_automaton import DenseAutomaton, build_automaton
from vyre_opt.ir import DataType, Module, Program
from vyre_opt.kernels.decode import DecodeSchedule, base64, hex_text
from vyre_opt.kernels.dfa import DfaSchedule, dfa, dfa_schedule
from vyre_scan.programs.text_units import ENCODINGS

from .case import Array, KernelCase, Use

__all__ = ["decode_and_search_cases"]

SIZES = (0, 1, 2, 3, 4, 5, 11, 12, 13, 33, 1000, 4097)
ENCODE: dict[str, Callable[[bytes], bytes]] = {
    "base64": library.b64encode,
    "hex": lambda data: data.hex().encode(),
    "raw": bytes,
}
PATTERNS = (b"ab", b"bca", b"c" * 9, b"abcabcab", b"b")
LONG = (b"".join(random.Random(700).choices((b"a", b"b", b"c"), k=700)),)
SMALL = DfaSchedule(32, 24)
DFA_SCHEDULES = (
    (DfaSchedule(), 0),
    (SMALL, 0),
    (DfaSchedule(32, 12, strided=True), 3),
    (DfaSchedule(64, 20, in_shared=True), 0),
    (DfaSchedule(32, 12, strided=True, in_shared=True), 3),
    (DfaSchedule(96, 4, strided=True, in_shared=True), 2),
    (DfaSchedule(256, 12, in_shared=True), 0),
)

Build = Callable[[DecodeSchedule], Program]


def decode_and_search_cases() -> Iterator[KernelCase]:
    yield from _decodes()
    for size in (1, 2, 31, 33, 1000, 14000):
        for table in (np.uint16, np.uint32):
            for schedule, grid in DFA_SCHEDULES:
                form = (
                    f"{schedule.lanes} x {schedule.chunk}{', in shared memory' if schedule.in_shared else ''}"
                )
                what = f"{size} bytes, {np.dtype(table)}, {form}, grid {grid or 'own'}"
                yield KernelCase("scan.dfa", what, _dfa(size, PATTERNS, schedule, grid, table))
    yield KernelCase("scan.dfa", "single bytes", _dfa(500, (b"a",), SMALL))
    yield KernelCase("scan.dfa", "patterns of 700 bytes", _dfa(40000, LONG, dfa_schedule(699)))
    yield KernelCase(
        "scan.dfa", "patterns of 700 bytes, in shared memory", _dfa(40000, LONG, dfa_schedule(699, "sm_90"))
    )
    for encoding in ENCODINGS:
        for size in (1, 770, 30000):
            for searching in (SearchSchedule(), SearchSchedule(32, 12)):
                for fused in (False, True):
                    what = f"{encoding}, {size} bytes, {searching.lanes} lanes, {'fused' if fused else 'unfused'}"
                    yield KernelCase("decode_scan", what, _decode_scan(encoding, size, searching, fused))


# --- decoding


def _decodes() -> Iterator[KernelCase]:
    for schedule in (
        DecodeSchedule(),
        DecodeSchedule(32, 4),
        DecodeSchedule(64, 32),
    ):
        by = f"{schedule.lanes} x {schedule.characters}"
        for size in SIZES:
            data = random.Random(size).randbytes(size)
            padded = library.b64encode(data)
            for text in sorted({padded, padded.rstrip(b"=")}):
                for grid in (0, 3):
                    what = f"{len(text)} characters of {size} bytes, {by}, grid {grid or 'own'}"
                    yield KernelCase("decode.base64", what, _decode(base64, schedule, text, data, grid))
            for digits in (data.hex(), data.hex().upper() + "f"):
                what = f"{len(digits)} digits, {by}"
                yield KernelCase("decode.hex", what, _decode(hex_text, schedule, digits.encode(), data, 2))
    for schedule in (DecodeSchedule(), DecodeSchedule(32, 32)):
        what = f"every byte, {schedule.characters} at a time"
        yield KernelCase("decode.base64", what, _every_byte(base64, schedule))
        yield KernelCase("decode.hex", what, _every_byte(hex_text, schedule))


def _every_byte(build: Build, schedule: DecodeSchedule) -> Callable[[], Use]:
    """A character outside the alphabet counts as the alphabet's first."""
    if build is base64:
        canonical = bytes(c if c < 128 and (chr(c).isalnum() or c in b"+/") else ord("A") for c in range(256))
        data = library.b64decode(canonical)
    else:
        canonical = bytes(c if c in b"0123456789abcdefABCDEF" else ord("0") for c in range(256))
        data = bytes.fromhex(canonical.decode())
    return _decode(build, schedule, bytes(range(256)), data)


def _decode(
    build: Build, schedule: DecodeSchedule, text: bytes, data: bytes, grid: int = 0
) -> Callable[[], Use]:
    def make() -> Use:
        inputs = [text, np.zeros(len(data), np.uint8)]
        own = max(1, -(-len(text) // schedule.tile))
        return Use(build(schedule), inputs, grid or own, np.frombuffer(data, np.uint8))

    return make


# --- searching


def letters(size: int) -> bytes:
    return bytes(random.Random(size).choices(b"abc", k=size))


def occurrences(text: bytes, patterns: Sequence[bytes]) -> list[tuple[int, int]]:
    """Where the patterns occur: (index of the last byte, number of the pattern), sorted.  By bytes.find."""
    matches = []
    for number, pattern in enumerate(patterns):
        at = text.find(pattern)
        while at >= 0:
            matches.append((at + len(pattern) - 1, number))
            at = text.find(pattern, at + 1)
    return sorted(matches)


def set_numbers(text: bytes, patterns: Sequence[bytes], automaton: DenseAutomaton) -> Array:
    """For each byte the number of the set of patterns that end there, 0 for none."""
    ends: dict[int, tuple[int, ...]] = {}
    for place, number in occurrences(text, patterns):
        ends[place] = (*ends.get(place, ()), number)
    numbers = {tuple(sorted(ids)): number for number, ids in enumerate(automaton.sets, start=1)}
    expected = np.zeros(len(text), np.uint32)
    for place, ids in ends.items():
        expected[place] = numbers[ids]
    return expected


def _dfa(
    size: int,
    patterns: Sequence[bytes],
    schedule: DfaSchedule,
    grid: int = 0,
    table: type[np.uint16] | type[np.uint32] = np.uint16,
) -> Callable[[], Use]:
    def make() -> Use:
        text, automaton = letters(size), build_automaton(patterns)
        if size > 2000 + len(patterns[0]):
            text = text[:1700] + patterns[0] + text[1700 + len(patterns[0]) :]
        rows = automaton.table.astype(table)
        inputs = [text, rows, automaton.accept, np.zeros(size, np.uint32)]
        program = dfa(automaton.warmup, DataType.of(f"u{rows.itemsize * 8}"), schedule)
        expected = set_numbers(text, patterns, automaton)
        return Use(program, inputs, grid or max(1, -(-size // schedule.tile)), expected)

    return make


def _decode_scan(encoding: str, size: int, schedule: SearchSchedule, fused: bool) -> Callable[[], Use]:
    """Compared as a set: @hits has no order, and two lanes may report the same pattern at the same place."""

    def make() -> Use:
        text, automaton = letters(size), build_automaton(PATTERNS)
        grid = search_grid(schedule, size)
        program = decode_scan(encoding, automaton.warmup, schedule, grid)
        if fused:
            fuse(program)

        def matches(outputs: Sequence[Array]) -> Array:
            hits, count = outputs
            pairs = [(hit >> 32, hit & 0xFFFFFFFF) for hit in hits[: int(count[0])].tolist()]
            return _packed({(place, number) for place, at in pairs for number in automaton.sets[at - 1]})

        encoded = ENCODE[encoding](text).rstrip(b"=")
        tables = [automaton.table, automaton.accepting, automaton.depth]
        inputs = [encoded, *tables, np.zeros(8 * size, np.uint64), np.zeros(1, np.uint64)]
        return Use(program, inputs, grid, _packed(occurrences(text, PATTERNS)), read=matches)

    return make


def _packed(matches: Iterable[tuple[int, int]]) -> Array:
    return np.array([place << 32 | number for place, number in sorted(matches)], np.uint64)


def fuse(program: Program) -> None:
    """Put the hand-off of a decode_scan into workgroup memory.  Raises ValueError if the pass refuses."""
    from vyre_opt.passes import PassManager
    from vyre_opt.passes.decode_scan_fuse import DecodeScanFuse, FuseOptions

    module = Module()
    module.add(program)
    PassManager([DecodeScanFuse(FuseOptions(budget=MAX_SLAB))]).run(module)
    if not program.buffers["decoded"].is_workgroup:
        raise ValueError("decode_scan_fuse refused to promote @decoded")
