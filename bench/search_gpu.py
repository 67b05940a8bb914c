"""Scanner on a GPU, from base64 text to matches:  python bench/search_gpu.py [--quick] [--seed N]

The whole call, host time included, of text in pinned memory, in other memory, and on the GPU.  In the same rounds the same
text is copied from pinned memory to the GPU, and on the GPU from one place to another, by torch.  A ratio is the copy's time
over ours; on the GPU it is of the time in which a copy reads as many bytes.  Before anything is timed, all matches are
compared with those of the CPU, and those of the first megabytes with Hyperscan's and pyahocorasick's, for literals, and for
expressions with those of Python's re.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import random
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from gpu_timing import target
from measure import machine, save, today
from scan_inputs import example
from search import drawn_literals, interleaved, literals
from search_peers import Hyperscan, aho_ends, is_installed

RESULTS = Path(__file__).parent / "results"
MIB = 1 << 20
ROUNDS = 7
CHECKED = 3 * MIB
LEAST = {"pinned": 0.8, "pageable": 0.45}
SECRETS = (
    rb"AKIA[0-9A-Z]{16}", rb"gh[pousr]_[0-9A-Za-z]{36}", rb"xox[abprs]-[0-9A-Za-z-]{10,48}",
    rb"-----BEGIN [A-Z ]{0,20}PRIVATE KEY-----", rb"AIza[0-9A-Za-z_-]{35}", rb"[0-9]{3}-[0-9]{2}-[0-9]{4}",
    rb"sk_live_[0-9a-zA-Z]{24,34}", rb"\$2[aby]\$[0-9]{2}\$[./0-9A-Za-z]{53}", rb"SG\.[0-9A-Za-z_-]{22}\.",
    rb"eyJ[0-9A-Za-z_-]{10,30}\.eyJ[0-9A-Za-z_-]{10,60}\.",
)  # fmt: skip
FREQUENT = (
    rb"https?://[a-z0-9.-]{4,30}/", rb"(password|passwd|secret) {0,2}[:=] {0,2}[!-~]{6,24}",
    rb"[0-9]{1,3}(\.[0-9]{1,3}){3}", rb"0x[0-9a-f]{2,8}", rb"def [a-z_]{3,12}\(self",
)  # fmt: skip

Run = Callable[[], Any]
Row = dict[str, Any]


@dataclass(frozen=True)
class Search:
    """`least`: of a copy's read bandwidth, for text on the GPU; None for no target."""

    name: str
    patterns: list[bytes]
    data: bytes
    regex: bool = False
    caseless: bool = False
    least: float | None = None

    def scanner(self) -> Any:
        from vyre_opt import Scanner

        return Scanner(self.patterns, "base64", regex=self.regex, caseless=self.caseless, target="cuda")


def keys(count: int, seed: int) -> list[bytes]:
    draw = random.Random(seed)
    letters = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-"
    return sorted({bytes(draw.choices(letters, k=draw.randint(6, 16))) for _ in range(count)})


def near_misses(patterns: list[bytes], size: int, seed: int) -> bytes:
    """Text of nothing but literals without their last byte."""
    draw = random.Random(seed)
    piece = b"".join(draw.choice(patterns)[:-1] for _ in range(size // 100))
    return (piece * (size // len(piece) + 1))[:size]


def searches(size: int, seed: int) -> list[Search]:
    sources: bytes = example().library_text(size)
    own = literals(46, sources, seed)
    many, words = keys(10_000, seed), drawn_literals(10_000, sources, seed)
    return [
        Search("46 literals", own, sources, least=0.4),
        Search("46 literals, caseless", own, sources, caseless=True, least=0.4),
        Search("10,000 keys", many, sources, least=0.15),
        Search("10,000 literals, a third words of the text", words, sources),
        Search("10,000 keys, text of near misses", many, near_misses(many, 192 * MIB, seed)),
        Search("10 expressions of secrets", list(SECRETS), sources, regex=True),
        Search("5 expressions with many matches", list(FREQUENT), sources, regex=True),
    ]


def check(search: Search, text: bytes) -> int:
    """Compare matches; gives how many there are."""
    scanner = search.scanner()
    ours, cpu = scanner.scan(text), scanner.with_target("cpu").scan(text)
    for column in ("starts", "ends", "patterns"):
        assert np.array_equal(getattr(ours, column), getattr(cpu, column)), f"{search.name}: {column} differ"
    first = ours[: int(np.searchsorted(ours.ends, CHECKED, "right"))]
    data = search.data[:CHECKED]
    if search.regex:
        starts = {(match.start, match.pattern) for match in first}
        for number, pattern in enumerate(search.patterns):
            for found in re.finditer(pattern, data):
                assert (found.start(), number) in starts, f"{search.name}: re finds more"
    else:
        ends = [*zip(first.ends.tolist(), first.patterns.tolist(), strict=True)]
        assert ends == aho_ends(search.patterns, data, search.caseless), "hits differ from pyahocorasick's"
        if is_installed("hyperscan"):
            peer = Hyperscan(search.patterns, search.caseless)
            assert ends == sorted(peer.search(data)), "hits differ from Hyperscan's"
    return len(ours)


def measured(search: Search, text: bytes, hits: int) -> Row:
    import torch

    scanner = search.scanner()
    pageable = np.frombuffer(text, np.uint8)
    pinned = torch.empty(len(text), dtype=torch.uint8, pin_memory=True)
    pinned.numpy()[:] = pageable
    resident = pinned.cuda()
    other = torch.empty_like(resident)

    def copied(source: Any) -> None:
        other.copy_(source, non_blocking=True)
        torch.cuda.synchronize()

    runs: dict[str, Run] = {
        "pinned": partial(scanner.scan, pinned.numpy()),
        "pageable": partial(scanner.scan, pageable),
        "resident": partial(scanner.scan, resident),
        "cpu": partial(scanner.with_target("cpu").scan, pageable),
        "pinned copy": partial(copied, pinned),
        "device copy": partial(copied, resident),
    }
    seconds = interleaved(runs, ROUNDS)
    speeds = ", ".join(f"{name} {len(text) / each / 1e9:.1f}" for name, each in seconds.items())
    print(f"{search.name}, {len(text) / MIB:.0f} MiB, {hits} hits: {speeds} GB/s", flush=True)
    return {"search": search.name, "size": len(text), "hits": hits, **seconds}


def result(rows: list[Row], wanted: list[Search], arguments: str) -> dict[str, Any]:
    columns = ["pinned", "pageable", "resident", "cpu", "pinned copy", "device copy"]
    table = {
        "caption": "GB of base64 text a second, from the call to the matches",
        "columns": ["search", "MiB", "hits", *columns],
        "rows": [
            [row["search"], f"{row['size'] / MIB:.0f}", str(row["hits"])]
            + [f"{row['size'] / row[way] / 1e9:.1f}" for way in columns]
            for row in rows
        ],
    }
    large = [row for row in rows if row["size"] >= 256 * MIB]
    plain = [row for row in large if row["search"] == "46 literals"]
    targets = [
        target(
            f"46 literals, {way} memory, from 256 MiB: {least} of a pinned copy",
            [row["pinned copy"] / row[way] for row in plain],
            least,
        )
        for way, least in LEAST.items()
    ]
    targets += [
        target(
            f"{search.name}, on the GPU, {max(row['size'] for row in large) // MIB} MiB: {search.least} of a copy's read bandwidth",
            [
                row["device copy"] / row["resident"]
                for row in large
                if row["search"] == search.name and row["size"] == max(r["size"] for r in large)
            ],
            search.least,
        )
        for search in wanted
        if search.least is not None
    ]
    by_name = {(row["search"], row["size"]): row["resident"] for row in large}
    expressions = [
        by_name["46 literals", size] / seconds
        for (name, size), seconds in by_name.items()
        if name == "10 expressions of secrets"
    ]
    targets.append(
        target(
            "expressions of secrets on the GPU, from 256 MiB: half the speed of 46 literals", expressions, 0.5
        )
    )
    return {
        "name": "search_gpu",
        "arguments": arguments,
        "title": "Search in base64 text on a GPU",
        "about": " ".join((__doc__ or "").split("\n\n", 1)[1].split())
        + "  The text is of the sources of Python's library, again and again; keys are drawn, of 6 to 16 letters and digits.",
        "date": today(),
        "machine": machine(),
        "versions": {package: importlib.metadata.version(package) for package in ("torch", "numpy")},
        "absent": [name for name in ("hyperscan",) if not is_installed(name)],
        "tables": [table],
        "targets": targets,
        "samples": rows,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="256 MiB alone")
    parser.add_argument("--seed", type=int, default=1, help="of keys, and of the size that is drawn (1)")
    parser.add_argument(
        "--results", type=Path, default=RESULTS, help="the folder to write to (bench/results)"
    )
    args = parser.parse_args()
    if not is_installed("ahocorasick"):
        raise SystemExit("needs pyahocorasick")
    drawn = random.Random(args.seed).randrange(64 * MIB, 1024 * MIB) // 4 * 4
    sizes = [256 * MIB] if args.quick else [64 * MIB, 256 * MIB, 1024 * MIB, 4096 * MIB, drawn]
    rows: list[Row] = []
    wanted = searches(max(sizes) // 4 * 3, args.seed)
    texts: dict[int, bytes] = {}
    for search in wanted:
        text = texts.get(id(search.data)) or texts.setdefault(id(search.data), base64.b64encode(search.data))
        hits = check(search, text[: 256 * MIB])
        is_judged = search.least is not None or search.patterns == list(SECRETS)
        own = sizes if is_judged else [256 * MIB]
        rows += [measured(search, text[:size], hits) for size in own]
    arguments = f"--seed {args.seed}" + " --quick" * args.quick
    save(args.results / "search_gpu.json", result(rows, wanted, arguments))


if __name__ == "__main__":
    main()
