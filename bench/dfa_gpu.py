"""scan.dfa on a GPU, beside a copy in the same run:  python bench/dfa_gpu.py

A program whose body is the named kernel, compiled by `vyre_opt.compile` and called on torch tensors: a number for each byte of
Python's own sources, by the automaton of the patterns of examples/, cut to so many bytes.  `strided` is the same with the
schedule by which each lane writes the numbers of its own bytes, which need not be neighbours.  Texts are rotated so that no call
finds its own in the L2 cache; a time is that of calls in a row by events, so host time counts wherever it is longer
than the GPU's.  The limit is each byte of text read and each number written once at the bandwidth of a copy.  What comes out is
compared with a walk on the host.
"""

from __future__ import annotations

import base64
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from gpu_timing import copy_bandwidth, head, in_rotation, in_turn, target
from measure import save
from scan_inputs import corpus
from support.dense_automaton import DenseAutomaton, build_automaton

import vyre_opt

RESULT = Path(__file__).parent / "results" / "dfa_gpu.json"
MIB = 1 << 20
SIZES = (16 * MIB, 64 * MIB)
DRAWN = 4
LONGEST = (4, 16, 46, 101)  # bytes of a pattern, at most
ROTATED = 512 * MIB
LEAST = 0.37  # of the limit: what an H100 reached, whose memory is slower

TEXT = """vyre 2
pipeline @main {{
  buffer @text    : u8[?] read
  buffer @table   : u16[?] read
  buffer @accept  : u32[?] read
  buffer @numbers : u32[?] write
  scan.dfa(@text, @table, @accept, @numbers) {{warmup = {warmup}{schedule}}}
}}
"""
STRIDED = ", schedule_lanes = 64, schedule_chunk = 4, schedule_in_shared = 0"


def walked(text: np.ndarray, automaton: DenseAutomaton) -> np.ndarray:
    """The number of each byte: 4,096 pieces of the text are walked side by side, each from a warm-up before it."""
    warmup, size = automaton.warmup, -(-len(text) // 4096)
    padded = np.zeros(4096 * size, np.uint8)
    padded[: len(text)] = text
    starts = np.arange(4096) * size
    state, numbers = np.zeros(4096, np.int64), np.zeros((4096, size), np.uint32)
    for step in range(-warmup, size):
        place = starts + step
        following = automaton.table[state * 256 + padded[np.maximum(place, 0)]]
        state = np.where(place >= 0, following, 0).astype(np.int64)
        if step >= 0:
            numbers[:, step] = automaton.accept[state]
    return numbers.reshape(-1)[: len(text)]


def runs(
    source: str, texts: list[Any], tables: list[Any], expected: np.ndarray, name: str
) -> Callable[[], None]:
    """Calls of the compiled pipeline, whose first result has been compared."""
    scan = vyre_opt.compile(source, target="cuda")

    def call_of(text: Any) -> Callable[[], Any]:
        arguments = {"text": text, "table": tables[0], "accept": tables[1]}
        return lambda: scan(arguments, lengths={"numbers": len(text)})["numbers"]

    calls = [call_of(text) for text in texts]
    if not np.array_equal(calls[0]().cpu().numpy().view(np.uint32), expected):
        sys.exit(f"{name}: wrong numbers for {len(expected)} bytes")
    return in_rotation(calls)


def sample(octets: np.ndarray, patterns: list[bytes], bandwidth: float) -> dict[str, Any]:
    import torch

    automaton = build_automaton(patterns)
    sets = max(2, min(8, ROTATED // (5 * len(octets))))
    texts = [torch.from_numpy(octets.copy()).cuda() for _ in range(sets)]
    tables = [torch.from_numpy(table).cuda() for table in (automaton.table, automaton.accept)]
    expected, warmup = walked(octets, automaton), automaton.warmup
    ways = {
        name: runs(TEXT.format(warmup=warmup, schedule=schedule), texts, tables, expected, name)
        for name, schedule in (("ours", ""), ("strided", STRIDED))
    }
    return {
        "bytes": len(octets),
        "warmup": warmup,
        "seconds": in_turn(ways),
        "limit": 5 * len(octets) / bandwidth,
    }


def row(sample: dict[str, Any]) -> list[str]:
    seconds, count = sample["seconds"], sample["bytes"]
    ours = seconds["ours"]
    return [
        f"{count / MIB:.1f} MiB",
        str(sample["warmup"]),
        f"{ours * 1e6:.1f}",
        f"{count / ours / 1e9:.0f}",
        f"{sample['limit'] / ours:.2f}",
        f"{seconds['strided'] / ours:.2f}",
    ]


def main() -> None:

    bandwidth = copy_bandwidth()
    draw = random.Random(1)
    work = corpus(SIZES[-1] // 3 * 3)
    octets = np.frombuffer(base64.b64decode(work.encoded.tobytes()), np.uint8)
    extra = [bytes(range(65, 65 + LONGEST[-1]))]  # the patterns of examples/ are shorter
    cases = [(size, longest) for size in SIZES for longest in LONGEST]
    cases += [(draw.randrange(MIB, SIZES[-1]), draw.randint(2, LONGEST[-1])) for _ in range(DRAWN)]
    samples = []
    for size, longest in cases:
        patterns = [pattern[:longest] for pattern in work.patterns + extra]
        samples.append(sample(octets[:size], patterns, bandwidth))
        print(" | ".join(row(samples[-1])), flush=True)
    usual = [each["limit"] / each["seconds"]["ours"] for each in samples if each["warmup"] < 64]
    save(
        RESULT,
        {
            **head("dfa_gpu", "scan.dfa on a GPU", __doc__, ("torch", "llvmlite", "numpy")),
            "tables": [
                {
                    "caption": f"The last {DRAWN} rows are drawn; a copy moves {bandwidth / 1e12:.2f} TB/s",
                    "columns": ["text", "warm-up", "us", "GB/s of text", "limit / ours", "strided / ours"],
                    "rows": [row(each) for each in samples],
                }
            ],
            "targets": [
                target("warm-ups below 64: as much of the limit as an H100 reached", usual, LEAST),
                target(
                    "faster than without neighbours' numbers side by side",
                    [each["seconds"]["strided"] / each["seconds"]["ours"] for each in samples],
                    1.0,
                ),
            ],
            "samples": samples,
        },
    )


if __name__ == "__main__":
    main()
