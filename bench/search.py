"""Scanner beside pybase64 and Hyperscan in the same run:  python bench/search.py [--quick] [--threads N]

Base64 text in, matches out, through the functions that a caller uses, host time included.  The peer decodes pieces of
384 KiB with pybase64 (validating) and searches each with Hyperscan; hits are compared with Hyperscan's and pyahocorasick's
over all data before anything is timed.  Runs are interleaved, figures are medians, and a ratio is the peer's time over
ours: above 1 we are faster.
"""

from __future__ import annotations

import argparse
import base64
import binascii
import importlib.metadata
import multiprocessing
import random
import re
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

from gpu_timing import target
from measure import machine, save, today
from scan_inputs import ROOT, example
from search_peers import PIECE, Hyperscan, aho_ends, is_installed

RESULTS = Path(__file__).parent / "results"
COUNTS = (46, 100, 1000, 10_000)
LEAST = {46: 1.0, 100: 1.0, 1000: 0.5, 10_000: 0.3}
"""Of the peer's speed, by the number of literals."""
ROUNDS = 9
PEERS = ("hyperscan", "pybase64", "pyahocorasick")

Run = Callable[[], Any]
Row = dict[str, Any]


def interleaved(runs: Mapping[str, Run], rounds: int = ROUNDS) -> dict[str, float]:
    """The median seconds of each, after a round that is not counted."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(rounds + 1):
        for name, run in runs.items():
            begun = time.perf_counter()
            run()
            if number:
                times[name].append(time.perf_counter() - begun)
    return {name: median(each) for name, each in times.items()}


def literals(count: int, data: bytes, seed: int) -> list[bytes]:
    """The patterns of examples/ for 46; otherwise drawn."""
    if count == 46:
        own: list[bytes] = example().read_patterns(ROOT / "examples" / "patterns.txt")
        return own
    return drawn_literals(count, data, seed)


def drawn_literals(count: int, data: bytes, seed: int) -> list[bytes]:
    """A third are words of the data, the rest drawn like keys."""
    draw = random.Random(seed)
    words = sorted(set(re.findall(rb"[A-Za-z_]{6,16}", data[: 8 << 20])))
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    chosen: set[bytes] = set()
    while len(chosen) < count:
        if draw.random() < 1 / 3:
            chosen.add(draw.choice(words))
        else:
            chosen.add(bytes(draw.choices(letters, k=draw.randint(6, 16))))
    return sorted(chosen)


# --- what is measured


def searches(data: bytes, text: bytes, seed: int) -> list[Row]:
    """One thread, everything built."""
    from vyre_scan import Scanner

    rows = []
    for caseless in (False, True):
        for count in COUNTS:
            patterns = literals(count, data, seed)
            scanner = Scanner(patterns, "base64", caseless=caseless, threads=1)
            peer = Hyperscan(patterns, caseless)
            matches = scanner.scan(text)
            ours = [*zip(matches.ends.tolist(), matches.patterns.tolist(), strict=True)]
            assert ours == aho_ends(patterns, data, caseless), "hits differ from pyahocorasick's"
            assert ours == sorted(peer.search(data)), "hits differ from Hyperscan's"
            seconds = interleaved(
                {"ours": partial(scanner.scan, text), "peer": partial(peer.decode_and_search, text)}
            )
            rows.append({"literals": count, "caseless": caseless, "hits": len(ours), **seconds})
            _show(rows[-1], len(text))
    return rows


def first_results(data: bytes, seed: int, rounds: int) -> list[Row]:
    """From patterns to the matches of 1 MiB; other patterns in each round, so that no cache has them."""
    text = base64.b64encode(data[: 3 << 18])
    rows = []
    for count in COUNTS:
        sets = iter([drawn_literals(count, data, seed + 1 + k) for k in range(2 * rounds + 2)])
        ours, peer = partial(_ours_at_first, sets, text), partial(_peer_at_first, sets, text)
        rows.append({"literals": count, **interleaved({"ours": ours, "peer": peer}, rounds)})
        _show(rows[-1], len(text))
    return rows


def _ours_at_first(sets: Iterator[list[bytes]], text: bytes) -> int:
    from vyre_scan import Scanner

    return len(Scanner(next(sets), "base64", threads=1).scan(text))


def _peer_at_first(sets: Iterator[list[bytes]], text: bytes) -> int:
    return Hyperscan(next(sets), False).decode_and_search(text)


def decodings(sizes: list[int]) -> list[Row]:
    """Decoding alone, one thread."""
    import pybase64

    from vyre_opt.kernels import base64_decode, hex_decode
    from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

    cpu = CpuDispatcher(workers=1)
    rows = []
    for size in sizes:
        raw = random.Random(1).randbytes(size * 3 // 4)
        text, digits = base64.b64encode(raw), binascii.hexlify(raw[: size // 2])
        assert base64_decode(text, dispatcher=cpu).tobytes() == raw
        runs = {
            "ours": partial(base64_decode, text, dispatcher=cpu),
            "peer": partial(pybase64.b64decode, text, validate=True),
            "hex ours": partial(hex_decode, digits, dispatcher=cpu),
            "hex peer": partial(binascii.unhexlify, digits),
        }
        seconds = interleaved(runs)
        rows.append({"size": size, **seconds})
        _show(rows[-1], size)
    return rows


_shared: dict[str, Any] = {}
"""What processes of the peer inherit."""


def _peer_part(bounds: tuple[int, int]) -> int:
    peer = _shared.get("peer") or _shared.setdefault("peer", Hyperscan(_shared["patterns"], False))
    found: int = peer.decode_and_search(_shared["text"][bounds[0] : bounds[1]])
    return found


def in_parallel(data: bytes, text: bytes, threads: int) -> Row:
    """All threads, beside as many processes of the peer, which have the text already and give back counts."""
    from vyre_scan import Scanner

    patterns = literals(46, data, 0)
    _shared.update(text=text, patterns=patterns)
    scanner = Scanner(patterns, "base64", threads=threads)
    share = -(-len(text) // threads // PIECE) * PIECE
    bounds = [(at, at + share) for at in range(0, len(text), share)]
    with multiprocessing.get_context("fork").Pool(threads) as pool:
        row = interleaved(
            {"ours": lambda: scanner.scan(text), "peer": lambda: pool.map(_peer_part, bounds, 1)}
        )
    result = {"threads": threads, "size": len(text), **row}
    _show(result, len(text))
    return result


def match_costs(size: int) -> list[Row]:
    """Nanoseconds that a match adds: data with one at every byte, beside the same scan of data without any."""
    from vyre_scan import Scanner

    rows = []
    for pattern in (b"a", b"aaaaaaaa"):
        scanner = Scanner([pattern], threads=1)
        dense, empty = b"a" * size, b"b" * size
        seconds = interleaved({"dense": partial(scanner.scan, dense), "empty": partial(scanner.scan, empty)})
        rows.append({"pattern": pattern.decode(), "ns": (seconds["dense"] - seconds["empty"]) / size * 1e9})
        print(rows[-1], flush=True)
    return rows


def _show(row: Row, size: int) -> None:
    print(row, f"{size / row['ours'] / 1e9:.2f} GB/s, peer {size / row['peer'] / 1e9:.2f}", flush=True)


# --- the page


def ratio(row: Row, ours: str = "ours", peer: str = "peer") -> float:
    return float(row[peer] / row[ours])


def compared(row: Row, size: int, ours: str = "ours", peer: str = "peer") -> list[str]:
    """GB a second of both, and the ratio."""
    return [*(f"{size / row[way] / 1e9:.2f}" for way in (ours, peer)), f"{ratio(row, ours, peer):.2f}"]


def tables(found: dict[str, Any], size: int) -> list[dict[str, Any]]:
    parallel = found["parallel"]
    return [
        {
            "caption": f"One thread, {size >> 20} MiB of base64, GB of text a second",
            "columns": ["literals", "caseless", "hits", "ours", "peer", "ratio"],
            "rows": [
                [
                    str(row["literals"]),
                    "yes" if row["caseless"] else "no",
                    str(row["hits"]),
                    *compared(row, size),
                ]
                for row in found["searches"]
            ],
        },
        {
            "caption": "From patterns to the matches of 1 MiB, milliseconds",
            "columns": ["literals", "ours", "peer", "ratio"],
            "rows": [
                [
                    str(row["literals"]),
                    *(f"{row[way] * 1000.0:.1f}" for way in ("ours", "peer")),
                    f"{ratio(row):.2f}",
                ]
                for row in found["first"]
            ],
        },
        {
            "caption": "Decoding alone, one thread, GB of text a second: base64 beside pybase64, hex beside binascii",
            "columns": ["MiB", "base64", "pybase64", "ratio", "hex", "binascii", "ratio"],
            "rows": [
                [
                    str(row["size"] >> 20),
                    *compared(row, row["size"]),
                    *compared(row, row["size"], "hex ours", "hex peer"),
                ]
                for row in found["decodings"]
            ],
        },
        {
            "caption": "All threads beside as many processes of the peer, 46 literals, GB of text a second",
            "columns": ["threads", "ours", "peer", "ratio"],
            "rows": [[str(parallel["threads"]), *compared(parallel, parallel["size"])]],
        },
        {
            "caption": "What a match costs, at every byte",
            "columns": ["pattern", "ns"],
            "rows": [[row["pattern"], f"{row['ns']:.1f}"] for row in found["costs"]],
        },
    ]


def targets(found: dict[str, Any]) -> list[dict[str, Any]]:
    searched = [
        target(
            f"one thread, {count} literals: at least {least} of pybase64 and Hyperscan",
            [ratio(row) for row in found["searches"] if row["literals"] == count],
            least,
        )
        for count, least in LEAST.items()
    ]
    hex_ratios = [ratio(row, "hex ours", "hex peer") for row in found["decodings"]]
    others = (
        ("from patterns to matches: never slower than Hyperscan", [*map(ratio, found["first"])], 1.0),
        ("base64 alone: at least 0.5 of pybase64", [*map(ratio, found["decodings"])], 0.5),
        ("hex alone: at least 2 times binascii", hex_ratios, 2.0),
        ("all threads: at least as many processes of the peer", [ratio(found["parallel"])], 1.0),
    )
    return [*searched, *(target(*other) for other in others)]


def result(found: dict[str, Any], size: int, arguments: str) -> dict[str, Any]:
    return {
        "name": "search",
        "arguments": arguments,
        "title": "Search in base64 text on the CPU",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split())
        + "  The data are the sources of Python's library.",
        "date": today(),
        "machine": machine(),
        "versions": {package: importlib.metadata.version(package) for package in (*PEERS, "numpy")},
        "absent": [],
        "tables": tables(found, size),
        "targets": targets(found),
        "samples": found,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="small data, few rounds")
    parser.add_argument(
        "--threads", type=int, default=machine()["cores"], help="of the run with several (all)"
    )
    parser.add_argument("--seed", type=int, default=1, help="of the literals that are drawn (1)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    absent = [
        package
        for package in PEERS
        if not is_installed({"pyahocorasick": "ahocorasick"}.get(package, package))
    ]
    if absent:
        raise SystemExit(f"needs {', '.join(absent)}")
    data: bytes = example().library_text((1 if args.quick else 16) * 3 << 18)
    text = base64.b64encode(data)
    found = {
        "searches": searches(data, text, args.seed),
        "first": first_results(data, args.seed, 3 if args.quick else 7),
        "decodings": decodings([1 << 20] if args.quick else [1 << 20, 1 << 22, 1 << 24, 1 << 26, 1 << 28]),
        "parallel": in_parallel(data, text * (1 if args.quick else 16), args.threads),
        "costs": match_costs(1 << (20 if args.quick else 24)),
    }
    arguments = f"--threads {args.threads} --seed {args.seed}" + " --quick" * args.quick
    save(args.results / "search.json", result(found, len(text), arguments))


if __name__ == "__main__":
    main()
