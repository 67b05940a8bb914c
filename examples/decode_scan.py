"""Search encoded text for literal patterns, before and after decode_scan_fuse.

    python examples/decode_scan.py --encoding base64

Takes a text (by default Python's own sources, with some patterns planted in them, across
the edges of tiles too), encodes it and runs base64_scan.vyre or hex_scan.vyre twice: as
written, with the decoded bytes handed over in storage, and after the pass, with the
hand-off in workgroup memory.  Both must find what pyahocorasick, an independent library,
finds in the decoded bytes.  Then both run in turns, for a second or two, and a difference in time is shown
if it is beyond the noise.
"""

from __future__ import annotations

import base64
import os
import random
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import automaton as aho_corasick
import click
import numpy as np
from automaton import DenseAutomaton, Match, matches_of

from vyre_opt import DiagnosticError, DispatchError, PassManager, dispatcher, parse_file
from vyre_opt.tuning.paired_test import is_faster

HERE = Path(__file__).parent
LONGEST_PATTERN = 65  # a lane walks 64 bytes before its chunk
ROUNDS, SECONDS = 101, 1.5
"""Rounds that are measured, or as many as begin within so many seconds."""


@dataclass(frozen=True)
class Encoding:
    """A program of this folder and the layout it is written for, in bytes."""

    program: str
    handoff: str
    tile: int
    slab: int
    encode: Callable[[bytes], bytes]


ENCODINGS = {
    "base64": Encoding("base64_scan", "decoded", 13824, 14208, base64.b64encode),
    "hex": Encoding("hex_scan", "decoded", 13824, 13952, lambda text: text.hex().encode()),
}


# --- the automaton, and an independent search ------------------------------------------------


def build_automaton(patterns: Sequence[bytes]) -> DenseAutomaton:
    """Raises ValueError for an empty pattern, one that is too long, or too many states."""
    return aho_corasick.build_automaton(patterns, LONGEST_PATTERN)


def search_independently(text: bytes, patterns: Sequence[bytes]) -> list[Match]:
    """The same by pyahocorasick.  Bytes are passed as the characters of Latin-1."""
    try:
        import ahocorasick
    except ImportError:
        raise ValueError("pyahocorasick is not installed; pip install 'vyre-opt[examples]'") from None
    independent = ahocorasick.Automaton()
    for number, pattern in enumerate(patterns):
        independent.add_word(pattern.decode("latin-1"), number)
    independent.make_automaton()
    return sorted(independent.iter(text.decode("latin-1")))


# --- running a program -----------------------------------------------------------------


@dataclass(frozen=True)
class Run:
    """One dispatch: what it found, where the hand-off lay, and what the pass said.  `again` runs it once more."""

    matches: list[Match]
    access: str
    handoff_bytes: int
    workgroups: int
    remarks: list[str]
    again: Callable[[], np.ndarray]


def run(
    encoding: Encoding, encoded: bytes, size: int, automaton: DenseAutomaton, passes: str, target: str = "cpu"
) -> Run:
    """Search `encoded`, which stands for `size` bytes, after `passes` have run on the program.

    Raises ValueError for a text that the hand-off has no room for.
    """
    module = parse_file(HERE / f"{encoding.program}.vyre")
    workgroups = -(-size // encoding.tile)
    slabs = (module.programs[encoding.program].buffers[encoding.handoff].count or 0) // encoding.slab
    if workgroups > slabs:  # a fault of the program as written, which passes keep
        raise ValueError(
            f"{size} decoded bytes are more than the {slabs * encoding.tile} that @{encoding.handoff} has slabs for; "
            f"raise its count in {encoding.program}.vyre"
        )
    named = f"@{encoding.handoff}"
    remarks = [
        f"{r.kind}: {r.message}" for r in PassManager(passes).run(module).remarks if named in r.message
    ]
    program = module.programs[encoding.program]
    handoff = program.buffers[encoding.handoff]
    backend = dispatcher(target)
    inputs = [encoded, automaton.table, automaton.accept, np.zeros(size, np.uint32)]

    def dispatch() -> np.ndarray:
        if not workgroups:
            return np.zeros(0, np.uint32)
        (hits,) = backend.dispatch(program, inputs, (workgroups, 1, 1), module=module)
        return hits

    return Run(
        matches_of(dispatch(), automaton),
        str(handoff.access),
        handoff.size_bytes or 0,
        workgroups,
        remarks,
        dispatch,
    )


def measure(runs: Sequence[Run]) -> list[list[float]]:
    """Seconds of each, round by round: drift of the machine is the same for all of a round."""
    seconds: list[list[float]] = [[] for _ in runs]
    end = time.perf_counter() + SECONDS
    while len(seconds[0]) < ROUNDS and (not seconds[0] or time.perf_counter() < end):
        for own, each in zip(seconds, runs, strict=True):
            started = time.perf_counter()
            each.again()
            own.append(time.perf_counter() - started)
    return seconds


def compare(before: Sequence[float], after: Sequence[float]) -> str:
    """The medians, if they differ by more than the noise of their rounds (see vyre_opt/tuning/paired_test.py)."""
    rounds = f"{len(before)} rounds in turns"
    if is_faster(after, before) or is_faster(before, after):
        return f"{median(before):.4f} before, {median(after):.4f} after, {rounds}"
    return f"{median([*before, *after]):.4f} before and after, no difference beyond the noise of {rounds}"


# --- texts -----------------------------------------------------------------------------


def library_text(size: int) -> bytes:
    """The first `size` bytes of the Python standard library's sources, repeated if they are fewer."""
    parts: list[bytes] = []
    length = 0
    for path in sorted(Path(os.__file__).parent.glob("*.py")):
        parts.append(path.read_bytes())
        length += len(parts[-1])
        if length >= size:
            break
    if not length:
        raise ValueError("the standard library's sources are not on this machine; pass --text FILE")
    text = b"".join(parts)
    return (text * -(-size // length))[:size]


def plant(text: bytes, patterns: Sequence[bytes], tile: int, seed: int = 1) -> bytes:
    """`text` with a pattern across every second edge between tiles, and as many elsewhere."""
    planted = bytearray(text)
    draw = random.Random(seed)
    for place in _places(len(text), tile, draw):
        pattern = draw.choice(patterns)
        start = place - draw.randint(0, len(pattern))
        if 0 <= start <= len(text) - len(pattern):
            planted[start : start + len(pattern)] = pattern
    return bytes(planted)


def _places(size: int, tile: int, draw: random.Random) -> Iterator[int]:
    for edge in range(tile, size, 2 * tile):
        yield edge
        yield draw.randrange(size)


def read_patterns(path: Path) -> list[bytes]:
    """One literal a line, spaces included; empty lines and repetitions are left out."""
    lines = path.read_bytes().splitlines()
    patterns = list(dict.fromkeys(line for line in lines if line))
    if not patterns:
        raise ValueError(f"{path} holds no pattern; write one literal a line")
    return patterns


# --- the command -----------------------------------------------------------------------


def report(
    encoding: str, size: int, patterns: Sequence[bytes], automaton: DenseAutomaton, runs: Sequence[Run]
) -> str:
    before, after = runs
    lines = [
        f"text        {size:,} bytes, {encoding}",
        f"patterns    {len(patterns)}, {len(automaton.accept)} states",
        f"workgroups  {before.workgroups}",
        f"matches     {len(before.matches)} before, {len(after.matches)} after, the same as pyahocorasick's",
        f"hand-off    before  {_tier(before)}",
        f"            after   {_tier(after)}",
        f"seconds     {compare(*measure(runs))}",
    ]
    return "\n".join(lines + [f"remark      {remark}" for remark in after.remarks])


def _tier(run: Run) -> str:
    place = "workgroup memory, each workgroup" if run.access == "workgroup" else "storage"
    return f"{place}, {run.handoff_bytes:,} bytes"


@click.command(help=(__doc__ or "").replace("\n\n    python", "\n\n\b\n    python"))
@click.option("--encoding", "name", type=click.Choice(list(ENCODINGS)), default="base64", show_default=True)
@click.option(
    "--patterns",
    "patterns_file",
    type=click.Path(path_type=Path),
    default=HERE / "patterns.txt",
    help="One literal a line.  Default: the patterns.txt beside the script.",
)
@click.option("--text", "text_file", type=click.Path(path_type=Path), help="The text, not yet encoded.")
@click.option("--size", type=click.IntRange(min=0), help="Bytes to take.  Default: 1 MiB, or all of --text.")
@click.option(
    "--target", default="cpu", show_default=True, help="ref, which checks every access, cpu or cuda."
)
def main(name: str, patterns_file: Path, text_file: Path | None, size: int | None, target: str) -> None:
    encoding = ENCODINGS[name]
    try:
        patterns = read_patterns(patterns_file)
        automaton = build_automaton(patterns)
        if text_file is not None:
            text = text_file.read_bytes()[:size]
        else:
            text = plant(library_text(1 << 20 if size is None else size), patterns, encoding.tile)
        encoded = encoding.encode(text)
        runs = [
            run(encoding, encoded, len(text), automaton, passes, target)
            for passes in ("", "decode_scan_fuse")
        ]
        expected = search_independently(text, patterns)
    except (OSError, ValueError, DiagnosticError, DispatchError) as wrong:
        raise click.ClickException(str(wrong)) from None
    for when, ran in zip(("before", "after"), runs, strict=True):
        if ran.matches != expected:
            differ = sorted(set(ran.matches) ^ set(expected))
            raise click.ClickException(
                f"{when} the pass, {len(differ)} matches differ from pyahocorasick's, "
                f"the first at byte {differ[0][0]}"
            )
    click.echo(report(name, len(text), patterns, automaton, runs))


if __name__ == "__main__":
    main()
