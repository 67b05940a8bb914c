"""The decode -> scan example, on the interpreter: exact before and after decode_scan_fuse.

Independent of what is tested: pyahocorasick finds the matches, base64 and binascii
(inside `bytes.hex`) encode the texts.
"""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from support.modules import load_module
from support.quick import quick
from support.tools_inside import call_opt

from vyre_opt import PassManager, dispatcher, parse
from vyre_opt.execution import ProgramError

EXAMPLES = Path(__file__).parents[2] / "examples"
ENCODINGS = ("base64", "hex")
PASSES = ("", "decode_scan_fuse")
TILE = 13824


example = load_module(EXAMPLES / "decode_scan.py")
PATTERNS = example.read_patterns(EXAMPLES / "patterns.txt")


def _search(name: str, text: bytes, patterns: list[bytes], passes: str) -> list[tuple[int, int]]:
    encoding = example.ENCODINGS[name]
    automaton = example.build_automaton(patterns)
    ran = example.run(encoding, encoding.encode(text), len(text), automaton, passes, "ref")
    matches: list[tuple[int, int]] = ran.matches
    return matches


@pytest.mark.parametrize(
    ("name", "passes"),
    quick([("base64", "decode_scan_fuse"), ("hex", ""), ("base64", ""), ("hex", "decode_scan_fuse")], keep=2),
)
class TestAgainstPyahocorasick:
    def test_source_text_with_planted_patterns(self, name: str, passes: str) -> None:
        text = example.plant(example.library_text(100_000), PATTERNS, TILE)
        expected = example.search_independently(text, PATTERNS)
        assert len(expected) > 5
        assert _search(name, text, PATTERNS, passes) == expected

    def test_a_match_across_every_edge_at_every_offset(self, name: str, passes: str) -> None:
        """A pattern of the greatest length, so far over the edge of tile and chunk as it goes."""
        pattern = bytes(range(1, 66))
        for over in (0, 1, 32, 65):
            text = bytearray(4 * TILE)
            for edge in (108, 5 * 108, TILE, 2 * TILE, 3 * TILE):
                text[edge - over : edge - over + 65] = pattern
            matches = _search(name, bytes(text), [pattern], passes)
            assert [end for end, _ in matches] == [
                edge - over + 64 for edge in (108, 540, TILE, 2 * TILE, 3 * TILE)
            ]

    @pytest.mark.parametrize(
        "size",
        quick([TILE, TILE + 1, 1, *range(8), *range(TILE - 4, TILE + 5), 2 * TILE, 2 * TILE + 1], keep=3),
    )
    def test_the_tail(self, name: str, passes: str, size: int) -> None:
        """Sizes around the padding and around a tile: matches up to the last byte, none after it."""
        text = (b"a\0\0secret" * (size // 9 + 1))[-size:] if size else b""
        patterns = [b"secret", b"t", b"et", b"\0", b"\0\0\0"]
        assert _search(name, text, patterns, passes) == example.search_independently(text, patterns)

    def test_every_byte_is_decoded(self, name: str, passes: str) -> None:
        """With a pattern for each byte, the matches spell the decoded text."""
        text = random.Random(7).randbytes(TILE + 1001)
        matches = _search(name, text, [bytes([byte]) for byte in range(256)], passes)
        assert [end for end, _ in matches] == list(range(len(text)))
        assert bytes(number for _, number in matches) == text

    def test_overlapping_patterns_in_a_small_alphabet(self, name: str, passes: str) -> None:
        draw = random.Random(3)
        text = bytes(draw.choice(b"ab") for _ in range(40_000))
        patterns = sorted({text[i : i + n] for i in range(0, 39_000, 3_989) for n in (1, 2, 5, 64, 65)})
        assert _search(name, text, patterns, passes) == example.search_independently(text, patterns)

    def test_nothing_to_find(self, name: str, passes: str) -> None:
        assert _search(name, bytes(TILE), [b"secret", b"\0a"], passes) == []

    def test_what_precedes_the_text_matches_nothing(self, name: str, passes: str) -> None:
        """The halo of the first tile is filled with zeros, which are no part of the text."""
        assert _search(name, b"\0a", [b"\0\0a", b"\0\0"], passes) == []


def test_hex_digits_of_either_case() -> None:
    encoding, text = example.ENCODINGS["hex"], bytes(range(256))
    automaton = example.build_automaton([bytes([byte]) for byte in range(256)])
    ran = example.run(encoding, text.hex().upper().encode(), 256, automaton, "", "ref")
    assert ran.matches == [(byte, byte) for byte in range(256)]


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_handoff_moves_from_storage_to_a_workgroup_tile(name: str) -> None:
    encoding = example.ENCODINGS[name]
    automaton = example.build_automaton([b"x"])
    before, after = (example.run(encoding, encoding.encode(b"x"), 1, automaton, passes) for passes in PASSES)
    assert before.access == "read_write"
    assert before.handoff_bytes == 152 * encoding.slab
    assert after.access == "workgroup"
    assert after.handoff_bytes == encoding.slab


@pytest.mark.parametrize("name", ENCODINGS)
def test_vyre_opt_prints_the_tile(name: str) -> None:
    encoding = example.ENCODINGS[name]
    ran = call_opt("--pass=decode_scan_fuse", EXAMPLES / f"{encoding.program}.vyre")
    assert ran.returncode == 0, ran.stderr
    declared = next(line.split() for line in ran.stdout.splitlines() if "buffer @decoded" in line)
    assert declared[-2:] == [f"u8[{encoding.slab}]", "workgroup"]


@pytest.mark.parametrize(
    ("written", "broken", "kind"),
    [
        ("barrier workgroup", "", "race"),  # lanes read what their neighbours may not have written yet
        ("for %k = 0 to", "for %k = 1 to", "uninitialised"),  # nobody decodes the halo
    ],
)
@pytest.mark.parametrize("name", ENCODINGS)
def test_a_broken_handoff_is_refused_and_reported(name: str, written: str, broken: str, kind: str) -> None:
    """What the proof of the pass rests on is what the interpreter checks: without it, neither agrees."""
    encoding = example.ENCODINGS[name]
    source = (EXAMPLES / f"{encoding.program}.vyre").read_text(encoding="utf-8")
    assert written in source
    module = parse(source.replace(written, broken, 1))
    program = module.programs[encoding.program]
    automaton = example.build_automaton([b"x"])
    inputs = [
        encoding.encode(bytes(2 * TILE)),
        automaton.table,
        automaton.accept,
        np.zeros(2 * TILE, np.uint32),
    ]
    with pytest.raises(ProgramError) as reported:
        dispatcher("ref").dispatch(program, inputs, (2, 1, 1), module=module)
    assert reported.value.kind == kind
    PassManager("decode_scan_fuse").run(module)
    assert program.buffers["decoded"].access == "read_write"


@pytest.mark.parametrize("passes", ["", "decode_scan_fuse"])
def test_the_count_of_the_hand_off_bounds_the_text(passes: str) -> None:
    """Also where it is a tile of each workgroup: passes keep the faults of the program as written."""
    encoding = example.ENCODINGS["hex"]
    size = 152 * TILE + 1
    automaton = example.build_automaton([b"\1"])
    encoded = encoding.encode(bytes(size - 1) + b"\1")
    with pytest.raises(ValueError, match="2101249 decoded bytes are more than the 2101248"):
        example.run(encoding, encoded, size, automaton, passes)


# --- the automaton -----------------------------------------------------------------------


def test_patterns_inside_each_other_share_a_set() -> None:
    automaton = example.build_automaton([b"abcd", b"bc", b"c"])
    assert automaton.sets == [(0,), (1, 2), (2,)]
    hits = np.array([0, 0, 2, 1], np.uint32)
    assert example.matches_of(hits, automaton) == [(2, 1), (2, 2), (3, 0)]


@pytest.mark.parametrize("length", [0, 66])
def test_a_pattern_of_a_length_that_the_programs_do_not_take(length: int) -> None:
    with pytest.raises(ValueError, match=f"pattern 2 has {length} bytes; the programs take 1 to 65"):
        example.build_automaton([b"a", b"x" * length])


def test_too_many_states() -> None:
    draw = random.Random(1)
    with pytest.raises(ValueError, match="more than 65536 states"):
        example.build_automaton([draw.randbytes(65) for _ in range(1100)])


# --- the time: what is shown as slower or faster is so in nearly every round


def test_noise_is_no_difference() -> None:
    """But for one case of a hundred on each side, as the sign test has it."""
    draw = random.Random(5)
    rounds = [[[draw.gauss(1.0, 0.2) for _ in range(21)] for _ in range(2)] for _ in range(200)]
    alike = [
        example.compare(*each).endswith("no difference beyond the noise of 21 rounds in turns")
        for each in rounds
    ]
    assert sum(alike) >= 196


def test_a_difference_in_every_round_is_shown() -> None:
    before = [1.0 + drift / 10 for drift in range(21)]
    after = [seconds * 0.9 for seconds in before]
    assert example.compare(before, after) == "2.0000 before, 1.8000 after, 21 rounds in turns"
    assert example.compare(after, before) == "1.8000 before, 2.0000 after, 21 rounds in turns"


def test_a_few_rounds_show_nothing() -> None:
    """As on the interpreter, where a round takes a second."""
    assert "no difference" in example.compare([1.0, 1.0, 1.0], [2.0, 2.0, 2.0])


# --- the command ---------------------------------------------------------------------------


@pytest.mark.parametrize("name", ENCODINGS)
def test_the_command_reports(name: str, tmp_path: Path) -> None:
    text = tmp_path / "text"
    text.write_bytes(b"x" * 20_000 + b"password=")
    ran = CliRunner().invoke(example.main, ["--encoding", name, "--text", str(text)])
    assert ran.exit_code == 0, ran.output
    assert f"text        20,009 bytes, {name}" in ran.output
    assert "workgroups  2" in ran.output
    assert f"before  storage, {152 * example.ENCODINGS[name].slab:,} bytes" in ran.output
    assert f"after   workgroup memory, each workgroup, {example.ENCODINGS[name].slab:,} bytes" in ran.output


def test_the_command_explains_wrong_inputs(tmp_path: Path) -> None:
    empty, long = tmp_path / "empty", tmp_path / "long"
    empty.write_bytes(b"\n\n")
    long.write_bytes(b"x" * 66)
    for arguments, message in (
        (["--patterns", str(tmp_path / "none")], "No such file"),
        (["--text", str(tmp_path)], "Is a directory"),
        (["--patterns", str(empty)], "holds no pattern"),
        (["--patterns", str(long)], "pattern 1 has 66 bytes"),
        (["--size", "3000000"], "more than the 2101248"),
        (["--size", "10", "--target", "gpu"], "unknown target 'gpu'"),
    ):
        ran = CliRunner().invoke(example.main, arguments)
        assert ran.exit_code == 1, ran.output
        assert ran.stderr.startswith("Error: ")
        assert message in ran.stderr
