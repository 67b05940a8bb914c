"""Decode and search, fused and not, on a GPU:  python bench/decode_scan_gpu.py [--quick] [--cpu]

Base64 text is decoded and searched for literal patterns in four ways:

    fused      one launch, the decoded bytes in workgroup memory: what decode_scan_fuse makes of the next
    storage    one launch, the decoded bytes handed over in storage: the program as written
    two        decode.base64, then the search over the bytes it wrote
    in L2      the same chunk by chunk, so that what is handed over stays in the L2 cache; one graph

What they find is compared with an independent search before anything is timed.  Texts are
rotated so that none is found in the L2 cache; times are medians of events around ten runs, which begin when all ten
are launched, the four in turn.  --cpu measures the CPU target as well.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from gpu_timing import in_rotation, seconds, target
from measure import machine, save, today
from scan_inputs import Corpus, corpus
from support.decode_scan_program import MAX_SLAB, SearchSchedule, decode_scan, search_grid, search_schedule
from support.dense_automaton import DenseAutomaton, build_automaton, matches_of_hits

from vyre_opt.ir.program import Module, Program
from vyre_opt.kernels.decode import base64, decode_schedule
from vyre_opt.passes.decode_scan_fuse import DecodeScanFuse, FuseOptions
from vyre_opt.passes.manager import PassManager
from vyre_scan.programs.text_units import ENCODINGS

RESULT = Path(__file__).parent / "results" / "decode_scan_gpu.json"
MIB = 1 << 20
SIZES = [4, 16, 64, 256]  # MiB of text
ROUNDS, LAUNCHES = 7, 10
ROTATED = 512 * MIB
CHUNK = 12 * MIB  # decoded bytes of a chunk: with its text, 28 MiB of an H100's 50 MiB of L2
WAYS = ("fused", "storage", "two", "in L2")

Run = Callable[[], None]


@dataclass
class Way:
    """`run` once; `outputs`: the hits and the counts of each launch, and the place of its first byte."""

    run: Run
    outputs: list[tuple[Any, Any, int]]

    def matches(
        self, automaton: DenseAutomaton, to_host: Callable[[Any], np.ndarray]
    ) -> list[tuple[int, int]]:
        matches: set[tuple[int, int]] = set()
        for hits, count, start in self.outputs:
            written = to_host(hits)[: int(to_host(count)[0])]
            matches |= {(place + start, number) for place, number in matches_of_hits(written, automaton)}
        return sorted(matches)


def storage_program(warmup: int, size: int, schedule: SearchSchedule) -> Program:
    return decode_scan("base64", warmup, schedule, search_grid(schedule, size))


@lru_cache(maxsize=64)
def fused_decode_scan(encoding: str, warmup: int, schedule: SearchSchedule) -> Program:
    """The program `decode_scan` with its hand-off in workgroup memory."""
    program = decode_scan(encoding, warmup, schedule)
    module = Module()
    module.add(program)
    # no text has more tiles than the hand-off has slabs, so that no store to it needs a check
    slabs = (program.buffers["decoded"].count or 0) // (schedule.slab(ENCODINGS[encoding], warmup) // 4)
    program.grid = slabs, 1, 1
    PassManager([DecodeScanFuse(FuseOptions(budget=MAX_SLAB))]).run(module)
    program.grid = None
    assert program.buffers["decoded"].is_workgroup
    return program


def moved(way: str, work: Corpus, automaton: DenseAutomaton, schedule: SearchSchedule) -> int:
    """Bytes between the cores and storage, by the sizes of the buffers; all but "in L2" from DRAM."""
    characters, size = len(work.encoded), work.size
    slab = schedule.slab(ENCODINGS["base64"], automaton.warmup)
    handed = {"fused": 0, "storage": search_grid(schedule, size) * slab, "two": size, "in L2": size}[way]
    return characters + 2 * handed + 8 * len(work.expected)


# --- on a GPU ----------------------------------------------------------------------------------


class GpuWays:
    """Binds the ways to texts on the GPU."""

    def __init__(self, automaton: DenseAutomaton) -> None:
        import cupy

        from vyre_opt.targets.cuda import CudaDispatcher

        self.cupy, self.gpu = cupy, CudaDispatcher(bounds="none")
        self.automaton, self.warmup = automaton, automaton.warmup
        self.tables = [cupy.asarray(t) for t in (automaton.table, automaton.accepting, automaton.depth)]

    def schedule(self, size: int) -> SearchSchedule:
        return search_schedule("cuda", size, self.warmup)

    def outputs(self, capacity: int) -> tuple[Any, Any]:
        return self.cupy.zeros(capacity, np.uint64), self.cupy.zeros(1, np.uint64)

    def ways(self, text: Any, size: int, capacity: int) -> dict[str, Way]:
        decoded, schedule = self.cupy.zeros(size, np.uint8), self.schedule(size)
        return {
            "fused": self.single(fused_decode_scan("base64", self.warmup, schedule), text, size, capacity),
            "storage": self.single(storage_program(self.warmup, size, schedule), text, size, capacity),
            "two": self.launched([self.pair(text, decoded, 0, size, capacity)]),
            "in L2": self.recorded(
                [self.chunk(text, decoded, start, size, capacity) for start in range(0, size, CHUNK)]
            ),
        }

    def single(self, program: Program, text: Any, size: int, capacity: int) -> Way:
        hits, count = self.outputs(capacity)
        bound = self.gpu.bind(
            program, [text, *self.tables, hits, count], search_grid(self.schedule(size), size)
        )
        return self.launched([([bound], hits, count, 0)])

    def pair(
        self, text: Any, decoded: Any, start: int, size: int, capacity: int
    ) -> tuple[Any, Any, Any, int]:
        """Decode all of `text` into `decoded`, then search that."""
        hits, count = self.outputs(capacity)
        first = self.gpu.bind(base64(), [text, decoded], -(-len(text) // decode_schedule("cuda").tile))
        schedule = self.schedule(size)
        program = fused_decode_scan("raw", self.warmup, schedule)
        second = self.gpu.bind(program, [decoded, *self.tables, hits, count], search_grid(schedule, size))
        return [first, second], hits, count, start

    def chunk(
        self, text: Any, decoded: Any, start: int, size: int, capacity: int
    ) -> tuple[Any, Any, Any, int]:
        """A chunk and what a pattern may need of the next; every chunk is decoded to the same place."""
        end = min(size, start + CHUNK + -(-self.warmup // 48) * 48)
        part = text[start // 3 * 4 : -(-end // 3) * 4]
        return self.pair(part, decoded[: end - start], start, end - start, capacity)

    def launched(self, steps: Sequence[tuple[Any, Any, Any, int]]) -> Way:
        stream = self.cupy.cuda.get_current_stream()
        launches = [bound for bounds, *_ in steps for bound in bounds]

        def run() -> None:
            for bound in launches:
                bound.run(stream)

        return Way(run, [(hits, count, start) for _, hits, count, start in steps])

    def recorded(self, steps: Sequence[tuple[Any, Any, Any, int]]) -> Way:
        """As one graph, so that many launches cost no more of the host's time than one."""
        from vyre_opt.targets.cuda.graph import LaunchGraph

        graph = LaunchGraph(self.gpu)
        with graph.record() as stream:
            for bounds, *_ in steps:
                for bound in bounds:
                    bound.run(stream)
        current = self.cupy.cuda.get_current_stream()
        return Way(lambda: graph.replay(current), [(hits, count, start) for _, hits, count, start in steps])

    def seconds(self, runs: Sequence[Run]) -> float:
        """Seconds of a run, by events around ten that go through `runs` in turn."""
        return seconds(in_rotation(runs))

    def copy_bandwidth(self, size: int) -> float:
        """Bytes a second of a copy, read and written."""
        pairs = [(self.cupy.zeros(size, np.uint8), self.cupy.zeros(size, np.uint8)) for _ in range(2)]
        copies: list[Run] = [lambda x=x, y=y: self.cupy.copyto(y, x) for x, y in pairs]  # type: ignore[misc]
        return 2 * size / median(self.seconds(copies) for _ in range(ROUNDS))

    def clear(self, ways: Sequence[Way]) -> None:
        """Counts back to 0, so that the lists have room."""
        for way in ways:
            for _, count, _ in way.outputs:
                count.fill(0)

    def sample(self, work: Corpus) -> dict[str, Any]:
        sets = max(1, min(8, ROTATED // len(work.encoded)))
        capacity = 4096 + 2 * (LAUNCHES + 1) * len(work.expected)
        texts = [self.cupy.asarray(work.encoded) for _ in range(sets)]
        ways = [self.ways(text, work.size, capacity) for text in texts]
        for name, way in ways[0].items():
            way.run()
            verify(name, work, way.matches(self.automaton, self.cupy.asnumpy))
        times: dict[str, list[float]] = {name: [] for name in WAYS}
        for _ in range(ROUNDS):
            for name in WAYS:
                rotation = [by_name[name] for by_name in ways]
                self.clear(rotation)
                times[name].append(self.seconds([way.run for way in rotation]))
        medians = {name: median(t) for name, t in times.items()}
        return sample_of(work, self.automaton, self.schedule(work.size), medians)


# --- on the CPU --------------------------------------------------------------------------------


def cpu_sample(work: Corpus, automaton: DenseAutomaton) -> dict[str, Any]:
    """The ways without chunks: best of three, the first not counted."""
    from vyre_opt import dispatcher

    target = dispatcher("cpu")
    schedule, warmup = search_schedule("cpu"), automaton.warmup
    grid = search_grid(schedule, work.size)
    tables = [automaton.table, automaton.accepting, automaton.depth]
    programs = {
        "fused": fused_decode_scan("base64", warmup, schedule),
        "storage": storage_program(warmup, work.size, schedule),
    }

    def search(program: Program, text: np.ndarray) -> Way:
        out = np.zeros(4096 + 2 * len(work.expected), np.uint64)
        hits, count = target.dispatch(program, [text, *tables, out, np.zeros(1, np.uint64)], grid)
        return Way(lambda: None, [(hits, count, 0)])

    def two() -> Way:
        out = np.zeros(work.size, np.uint8)
        decoding = decode_schedule("cpu")
        blocks = -(-len(work.encoded) // decoding.tile)
        (decoded,) = target.dispatch(base64(decoding), [work.encoded, out], blocks)
        return search(fused_decode_scan("raw", warmup, schedule), decoded)

    runs: dict[str, Callable[[], Way]] = {
        **{name: lambda program=p: search(program, work.encoded) for name, p in programs.items()},  # type: ignore[misc]
        "two": two,
    }
    times: dict[str, list[float]] = {name: [] for name in runs}
    for number in range(4):
        for name, run in runs.items():
            started = time.perf_counter()
            way = run()
            elapsed = time.perf_counter() - started
            if number:
                times[name].append(elapsed)
            else:
                verify(f"{name} on the CPU", work, way.matches(automaton, np.asarray))
    return sample_of(work, automaton, schedule, {name: min(t) for name, t in times.items()})


# --- the report --------------------------------------------------------------------------------


def verify(name: str, work: Corpus, matches: list[tuple[int, int]]) -> None:
    if matches != work.expected:
        wrong = sorted(set(matches) ^ set(work.expected))[:3]
        sys.exit(
            f"{name}: {len(matches)} matches, {work.checked_by} finds {len(work.expected)}; e.g. {wrong}"
        )


def sample_of(
    work: Corpus, automaton: DenseAutomaton, schedule: SearchSchedule, seconds: dict[str, float]
) -> dict[str, Any]:
    return {
        "characters": len(work.encoded),
        "matches": len(work.expected),
        "seconds": seconds,
        "bytes": {name: moved(name, work, automaton, schedule) for name in seconds},
    }


def row(sample: dict[str, Any], bandwidth: float | None) -> list[str]:
    """Text, microseconds, GB/s of text, the others' time over ours, and the limit if there is one."""
    seconds, characters = sample["seconds"], sample["characters"]
    ours = seconds["fused"]
    cells = [f"{characters / MIB:.0f} MiB", f"{ours * 1e6:,.1f}", f"{characters / ours / 1e9:,.1f}"]
    cells += [f"{seconds[name] / ours:.2f}" for name in seconds if name != "fused"]
    if bandwidth:
        limit = sample["bytes"]["fused"] / bandwidth
        cells += [f"{limit * 1e6:,.1f}", f"{limit / ours:.2f}"]
    return cells


def table(caption: str, samples: list[dict[str, Any]], bandwidth: float | None = None) -> dict[str, Any]:
    others = [f"{name} / fused" for name in samples[0]["seconds"] if name != "fused"]
    columns = [
        "text",
        "fused us",
        "GB/s of text",
        *others,
        *(["limit us", "limit / fused"] if bandwidth else []),
    ]
    return {"caption": caption, "columns": columns, "rows": [row(s, bandwidth) for s in samples]}


def bytes_table(samples: list[dict[str, Any]]) -> dict[str, Any]:
    names = list(samples[0]["bytes"])
    rows = [
        [f"{s['characters'] / MIB:.0f} MiB", *(f"{s['bytes'][n] / MIB:,.1f}" for n in names)] for s in samples
    ]
    return {
        "caption": "MiB read and written, by the sizes of the buffers",
        "columns": ["text", *names],
        "rows": rows,
    }


def gpu_part(works: list[Corpus], automaton: DenseAutomaton, result: dict[str, Any]) -> None:
    gpu = GpuWays(automaton)
    bandwidth = gpu.copy_bandwidth(256 * MIB)
    samples = []
    for work in works:
        samples.append(gpu.sample(work))
        print(" | ".join(row(samples[-1], bandwidth)), flush=True)
        gpu.cupy.get_default_memory_pool().free_all_blocks()
    shown = f"On the GPU; a copy moves {bandwidth / 1e12:.2f} TB/s, which is the limit of what fused moves"
    result["tables"] += [table(shown, samples, bandwidth), bytes_table(samples)]
    result["samples"] = samples
    others = [s["seconds"][name] / s["seconds"]["fused"] for s in samples for name in WAYS[1:]]
    large = [
        s["bytes"]["fused"] / bandwidth / s["seconds"]["fused"]
        for s in samples
        if s["characters"] >= 64 * MIB
    ]
    result["targets"].append(target("faster than every way that is not fused", others, 1.0))
    if large:
        result["targets"].append(target("a third of the limit from 64 MiB up", large, 1 / 3))
    name = gpu.cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    result["machine"]["gpu"] = name
    result["versions"]["cupy"] = gpu.cupy.__version__


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--quick", action="store_true", help="texts up to 64 MiB; nothing is saved")
    parser.add_argument("--cpu", action="store_true", help="the CPU target as well")
    parser.add_argument("--no-gpu", action="store_true", help="the CPU target alone; nothing is saved")
    args = parser.parse_args()
    sizes = SIZES[:3] if args.quick else SIZES
    largest = corpus(sizes[-1] * MIB // 4 * 3)
    works = [largest.first(size * MIB // 4 * 3) for size in sizes]
    automaton = build_automaton(largest.patterns)
    result: dict[str, Any] = {
        "name": "decode_scan_gpu",
        "title": "Decode and search on a GPU",
        "about": "Base64 text, searched for the patterns of examples/: in one launch with the decoded bytes in "
        "workgroup memory (fused), in one launch with the hand-off in storage, in two launches, and in two "
        "launches a chunk that fits the L2 cache, as a graph.  A ratio is the other's time over ours: above 1 "
        f"fused is faster.  Every way's matches are those of {largest.checked_by}.",
        "date": today(),
        "machine": machine(),
        "versions": {p: importlib.metadata.version(p) for p in ("llvmlite", "numpy")},
        "absent": [],
        "tables": [],
        "targets": [],
    }
    if not args.no_gpu:
        gpu_part(works, automaton, result)
    if args.cpu or args.no_gpu:
        samples = [cpu_sample(works[-1], automaton)]
        print(" | ".join(["CPU", *row(samples[0], None)]), flush=True)
        result["tables"].append(table("On the CPU target", samples))
        result["cpu_samples"] = samples
    for met in result["targets"]:
        print(f"{'met   ' if met['met'] else 'NOT MET'} {met['what']}: {met['measured']}")
    if not (args.quick or args.no_gpu):
        save(RESULT, result)


if __name__ == "__main__":
    main()
