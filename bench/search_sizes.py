"""GB/s of every way to search base64 text, by size:  python bench/search_sizes.py [--most-mib N]

46 literals (examples/patterns.txt) in the base64 of Python's own sources, with one planted about every 16 KiB, from
64 KiB to 256 MiB of text, matches out.
Scanner and the peer are built already; vyre-scan is timed as a process, from its start to its end, on a file.  Ways in
lines search text with a line break behind each 76 characters, as files have it.  The ways take turns, figures are medians,
and every way must count as many matches as pyahocorasick, or bytes.find, does in the decoded text.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from measure import machine, save, today
from scan_inputs import ROOT, corpus
from search_peers import Hyperscan, is_installed

RESULTS = Path(__file__).parent / "results"
PATTERNS = ROOT / "examples" / "patterns.txt"
SMALLEST, GROWTH, MOST_MIB = 1 << 16, 4, 256
ROUNDS, FEWER_ROUNDS, LARGE = 9, 5, 1 << 26
LEAST_SECONDS = 0.01
"""For which short calls are repeated."""
CHUNK = 1 << 20
VYRE_SCAN = [sys.executable, "-c", "from vyre_scan.start import main; raise SystemExit(main())"]

Run = Callable[[], int]
"""A search, which gives the number of matches."""


@dataclass(frozen=True, slots=True)
class Work:
    """One size: base64 of `decoded` as `text`, and as `lines`, which are in `path`, too.  `matches`: how many there are."""

    decoded: bytes
    text: bytes
    lines: bytes
    path: Path
    patterns: list[bytes]
    matches: int


@dataclass(frozen=True, slots=True)
class Way:
    """`prepare` builds what a search needs.  `is_here`: whether this machine has it."""

    name: str
    prepare: Callable[[Work], Run]
    in_lines: bool = False
    is_here: Callable[[], bool] = lambda: True

    def size(self, work: Work) -> int:
        return len(work.lines if self.in_lines else work.text)


# --- the ways


def scanner(in_lines: bool = False, **settings: Any) -> Callable[[Work], Run]:
    """`settings`: of Scanner."""

    def prepare(work: Work) -> Run:
        from vyre_opt import Scanner

        built = Scanner(work.patterns, "base64", strict=not in_lines, **settings)
        data = work.lines if in_lines else work.text
        return lambda: len(built.scan(data))

    return prepare


def stream(work: Work) -> Run:
    from vyre_opt import Scanner

    built, text = Scanner(work.patterns, "base64"), memoryview(work.text)
    return lambda: len(built.scan_stream(text[at : at + CHUNK] for at in range(0, len(text), CHUNK)))


def tool(*options: str) -> Callable[[Work], Run]:
    def prepare(work: Work) -> Run:
        command = [*VYRE_SCAN, *options, "-c", "--overlapping", "-f", str(PATTERNS), str(work.path)]
        return lambda: int(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)

    return prepare


def hyperscan(in_lines: bool = False) -> Callable[[Work], Run]:
    """The peer cuts the text in pieces, and loses what spans two: these are found once, when nothing is timed."""

    def prepare(work: Work) -> Run:
        peer, text = Hyperscan(work.patterns, False), work.lines if in_lines else work.text
        lost = len(peer.search(work.decoded)) - peer.decode_and_search(text, in_lines)
        return lambda: peer.decode_and_search(text, in_lines) + lost

    return prepare


def has_peer() -> bool:
    return is_installed("hyperscan") and is_installed("pybase64")


def has_gpu() -> bool:
    return shutil.which("nvidia-smi") is not None and is_installed("pycuda")


WAYS = (
    Way("Scanner, 1 thread", scanner(threads=1)),
    Way("Scanner, all threads", scanner()),
    Way("Scanner in lines, all threads", scanner(in_lines=True), in_lines=True),
    Way("scan_stream, all threads", stream),
    Way("vyre-scan --decode base64 in lines", tool("--decode", "base64"), in_lines=True),
    Way("vyre-scan --only-blobs in lines", tool("--only-blobs"), in_lines=True),
    Way("Scanner, GPU", scanner(target="cuda"), is_here=has_gpu),
    Way("pybase64 + Hyperscan, 1 thread", hyperscan(), is_here=has_peer),
    Way("pybase64 + Hyperscan in lines, 1 thread", hyperscan(in_lines=True), in_lines=True, is_here=has_peer),
)


# --- measuring


def seconds_of(run: Run) -> float:
    """A call's, the mean of as many as take LEAST_SECONDS."""
    calls, begun = 0, time.perf_counter()
    while True:
        run()
        calls += 1
        passed = time.perf_counter() - begun
        if passed >= LEAST_SECONDS:
            return passed / calls


def in_turn(runs: Mapping[str, Run], rounds: int) -> dict[str, float]:
    """The median seconds of each."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(rounds):
        for name, run in runs.items():
            times[name].append(seconds_of(run))
    return {name: median(each) for name, each in times.items()}


def sample(work: Work, ways: list[Way], rounds: int) -> dict[str, Any]:
    """Size in characters and seconds of each way.  Leaves if one counts other matches, but for chance ones of --blobs."""
    runs = {way.name: way.prepare(work) for way in ways}
    counts = {name: run() for name, run in runs.items()}
    for name, count in counts.items():
        # each blob is decoded four times, and what three of them give is noise, in which short literals occur
        if count != work.matches and not ("--blobs" in name and count > work.matches):
            raise SystemExit(
                f"{name} counts {count} matches in {len(work.text)} characters, not {work.matches}"
            )
    seconds = in_turn(runs, rounds)
    return {
        "size": len(work.text),
        "matches": work.matches,
        "ways": {way.name: {"characters": way.size(work), "seconds": seconds[way.name]} for way in ways},
    }


def works(most: int, folder: Path) -> Iterator[Work]:
    """From SMALLEST to `most` characters."""
    size = SMALLEST
    while size <= most:
        planted = corpus(size // 4 * 3)
        text = planted.encoded.tobytes()
        decoded = base64.b64decode(text)
        lines = base64.encodebytes(decoded)
        path = folder / "text.b64"
        path.write_bytes(lines)
        yield Work(decoded, text, lines, path, planted.patterns, len(planted.expected))
        size *= GROWTH


# --- the page


def speed(row: dict[str, Any], way: str) -> float | None:
    """GB of text a second."""
    measured = row["ways"].get(way)
    return measured["characters"] / measured["seconds"] / 1e9 if measured else None


def size_name(size: int) -> str:
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def result(samples: list[dict[str, Any]], arguments: str) -> dict[str, Any]:
    measured = [way.name for way in WAYS if way.name in samples[0]["ways"]]
    packages = ("numpy", "llvmlite", "hyperscan", "pybase64")
    rows = [[name, *(f"{speed(row, name):.3g}" for row in samples)] for name in measured]
    return {
        "name": "search_sizes",
        "arguments": arguments,
        "title": "Search in base64 text by size",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split()),
        "figure": "search_sizes.svg",
        "date": today(),
        "machine": machine(),
        "versions": {name: importlib.metadata.version(name) for name in packages if is_installed(name)},
        "absent": [way.name for way in WAYS if way.name not in measured],
        "tables": [
            {
                "caption": "GB of text a second",
                "columns": ["way", *(size_name(row["size"]) for row in samples)],
                "rows": rows,
            }
        ],
        "targets": [],
        "samples": samples,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--most-mib", type=float, default=MOST_MIB, help=f"the largest text ({MOST_MIB})")
    parser.add_argument("--rounds", type=int, help=f"of each size ({ROUNDS}; {FEWER_ROUNDS} of large ones)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    ways = [way for way in WAYS if way.is_here()]
    samples = []
    with tempfile.TemporaryDirectory() as folder:
        for work in works(int(args.most_mib * (1 << 20)), Path(folder)):
            rounds = args.rounds or (ROUNDS if len(work.text) < LARGE else FEWER_ROUNDS)
            samples.append(sample(work, ways, rounds))
            shown = ", ".join(f"{way.name} {speed(samples[-1], way.name):.3g}" for way in ways)
            print(f"{size_name(len(work.text))}: {shown}", flush=True)
    if not samples:
        raise SystemExit(f"--most-mib is at least {SMALLEST / (1 << 20)}")
    arguments = f"--most-mib {args.most_mib:g}" * (args.most_mib != MOST_MIB)
    save(args.results / "search_sizes.json", result(samples, arguments))


if __name__ == "__main__":
    main()
