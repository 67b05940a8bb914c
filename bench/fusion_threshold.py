"""Whether a threshold on what launches hand over takes those that lose by being joined:  python bench/fusion_threshold.py

Pipelines of examples/ (as they are, and with arrays times 1024), those of other benchmarks, and drawn ones.  Each runs with
all launches joined that may be, and with those kept apart that a rule keeps apart, for each threshold that makes a
difference; in turn, through `vyre_opt.compile` and calls, the host's work included, warm.  A rule keeps apart what has more
than the threshold of

- elements of a hand-off, in the geometric mean of a chain: what the pass fusion_pressure compares
- the same in bytes
- bytes of workgroup memory that the joined program takes
- multiprocessors for each of its workgroups (threads, on the CPU): those that it leaves idle

A gain is the time of all joined over that of a rule, so below 1 the rule loses.  The best threshold is chosen by the gains
that are shown, in favour of the rule.  "Best of all" is no rule: of each pipeline the variant that half of the rounds found
fastest, judged by the others.  "All joined again" is the same program once more: what chance does.
"""

from __future__ import annotations

import argparse
import base64
import importlib.metadata
import multiprocessing
import re
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import dataclass
from itertools import pairwise
from math import log2, prod, sqrt
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, cast

import autotune_pipelines
import call_cases
import launch_fusion_gpu
import numpy as np
import pipeline_compile
import scan_inputs  # noqa: F401 - its path has `support`
from autotune_pipelines import scaled
from drawn_pipelines import draw_pipeline
from measure import machine, save, today
from support.dense_automaton import build_automaton

import vyre_opt
from vyre_opt import PassManager, dispatcher, parse, print_program
from vyre_opt.analysis.launch_flow import LaunchDataflow, RunDataflow
from vyre_opt.driver.binding import Signature
from vyre_opt.execution.arrays import storage_type
from vyre_opt.ir.pipeline import Launch, Pipeline
from vyre_opt.ir.program import AccessMode, Buffer, Module
from vyre_opt.passes.manager import Remark
from vyre_opt.passes.pipeline_text import DEFAULT_PIPELINE
from vyre_opt.passes.registry import make_pass
from vyre_opt.tuning.runner import CallRunner, on_host

RESULTS = Path(__file__).parent / "results"
EXAMPLES = Path(__file__).parent.parent / "examples"
RULES = ("elements", "bytes", "workgroup bytes", "multiprocessors")
FACTOR = 1024
MOST_BYTES = 1 << 26
LEAST_ROUNDS, MOST_ROUNDS = 6, 40
MOST_SLOWER = 1.02
SHOWN = 6
"""Thresholds of a rule in the table, the best among them."""

Cut = tuple[int, ...]
"""The numbers of the launches that are not joined with those before them."""


# --- pipelines


def cases(drawn: int, most_bytes: int) -> dict[str, str]:
    """Texts by name."""
    texts = {path.stem: path.read_text() for path in sorted((EXAMPLES / "pipelines").glob("*.vyre"))}
    texts |= {f"{name} x {FACTOR}": scaled(name, FACTOR) for name in autotune_pipelines.PIPELINES}
    characters = min(most_bytes, 4 << 20)
    search = {"text": str(characters), "bytes": str(characters // 4 * 3), "matches": str(characters // 4 * 3)}
    texts |= {
        "heat": sized((EXAMPLES / "heat.vyre").read_text(), {}),
        "plate": sized((EXAMPLES / "plate.vyre").read_text(), {"plate": "1024, 1024"}),
        "decode_scan.vyre": sized((EXAMPLES / "decode_scan.vyre").read_text(), search),
    }
    texts["programs"] = call_cases.pipeline_text()
    for size, stages in ((64 << 10, 4), (64 << 10, 32), (most_bytes, 4)):
        texts[f"{stages} stages of {size >> 10} KiB"] = launch_fusion_gpu.chain_text(stages, size // 4)
    texts |= {f"8 stages, {kind}": pipeline_compile.pipeline(kind, 8) for kind in pipeline_compile.BODIES}
    return texts | dict(draw_pipeline(seed, most_bytes) for seed in range(drawn))


def sized(text: str, counts: Mapping[str, str]) -> str:
    """A text with the extents of some buffers of its pipeline in place of open ones."""
    head, _, body = text.partition("pipeline @main {")
    for name, count in counts.items():
        body = re.sub(rf"(@{name} *: \w+)\[[?, ]+\]", rf"\1[{count}]", body)
    return f"{head}pipeline @main {{{body}"


def inputs(pipeline: Pipeline) -> dict[str, np.ndarray]:
    """An array for each buffer that a pipeline takes something from."""
    rng = np.random.default_rng(1)
    needed = [b for b in Signature.of(pipeline).parameters if b.live_in or b.access is not AccessMode.WRITE]
    return {buffer.name: contents(buffer, rng) for buffer in needed}


def contents(buffer: Buffer, rng: np.random.Generator) -> np.ndarray:
    dtype = storage_type(buffer.dtype)
    assert dtype is not None, buffer.name
    if buffer.name in ("table", "accept") and buffer.count is None:
        patterns = (EXAMPLES / "patterns.txt").read_bytes().split()
        return np.asarray(getattr(build_automaton(patterns, 65), buffer.name), dtype)
    shape = cast("tuple[int, ...]", buffer.shape)
    count = prod(shape)
    if buffer.name == "text":  # hex digits are digits of base64, too
        return np.resize(np.frombuffer(base64.b16encode(rng.bytes(1 << 16)), np.uint8), count)
    block = rng.random(min(count, 1 << 20)) * (1 if dtype.kind == "f" else 100)
    return np.resize(block.astype(dtype), count).reshape(shape)


# --- variants


@dataclass(frozen=True)
class Unit:
    """Launches that a rule keeps apart together, all of them joined by default, where `value` is above the threshold."""

    rule: str
    value: float
    cut: Cut


@dataclass(frozen=True)
class Variants:
    """`texts`: after the passes, by what is kept apart; () for nothing."""

    texts: dict[Cut, str]
    units: list[Unit]


def variants(text: str, target: str) -> Variants:
    """The programs that the rules make of a pipeline; each has run once, so that the cache on disk has it."""
    backend: Any = dispatcher(target)
    plain = vyre_opt.compile(text, target=backend)
    module = parse(text)
    before = DEFAULT_PIPELINE[: DEFAULT_PIPELINE.index("launch_fusion")]
    PassManager(",".join(before), target=plain.schedules_for).run(module)
    joined, remarks = optimized(text, (), plain.schedules_for)
    groups = [r for r in remarks if r.certificate.get("claim") == "join"]
    links = {number for group in groups for number in group.certificate["at"][1:]}
    workers = getattr(backend, "workers", None) or backend.facts.multiprocessors
    every = [*chain_units(module), *group_units(joined, groups, workers)]
    units = [
        Unit(unit.rule, unit.value, cut)
        for unit in every
        if (cut := tuple(number for number in unit.cut if number in links))
    ]
    arrays = inputs(module.pipelines["main"])
    texts: dict[Cut, str] = {}
    expected: list[np.ndarray] | None = None
    # of each rule, with thresholds just below the value of each unit
    cuts = [kept_apart(units, unit.rule, unit.value * (1 - 1e-9)) for unit in units]
    for cut in dict.fromkeys([(), *cuts]):
        texts[cut] = print_program(optimized(text, cut, plain.schedules_for)[0] if cut else joined)
        outputs = [on_host(a) for a in vyre_opt.compile(texts[cut], target=backend)(arrays).values()]
        if expected is not None and any(map(differs, outputs, expected)):
            raise RuntimeError(f"other results on {target} with launches {cut} apart:\n{text}")
        expected = outputs
    return Variants(texts, units)


def differs(one: np.ndarray, other: np.ndarray) -> bool:
    return one.tobytes() != other.tobytes() and not np.allclose(one, other, rtol=1e-4, equal_nan=True)


def optimized(text: str, cut: Cut, target: str) -> tuple[Module, Sequence[Remark]]:
    module = parse(text)
    options = {"cut": "+".join(map(str, cut))} if cut else {}
    names = [str(make_pass(n, options if n == "launch_fusion" else None)) for n in DEFAULT_PIPELINE]
    remarks = PassManager(",".join(names), target=target).run(module).remarks
    return module, remarks


def kept_apart(units: Sequence[Unit], rule: str, threshold: float) -> Cut:
    return tuple(
        sorted({n for unit in units if unit.rule == rule and unit.value > threshold for n in unit.cut})
    )


def chain_units(module: Module) -> Iterator[Unit]:
    """The chains of hand-offs of known size (see the pass fusion_pressure)."""
    pipeline, flows = module.pipelines["main"], LaunchDataflow(module)
    launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
    numbers = {id(launch): number for number, launch in enumerate(launches)}
    counts = flows.counts(pipeline)
    for run in flows.runs(pipeline):
        chain: list[tuple[int, int, int]] = []
        for at in range(1, len(run.launches) + 1):
            handed = _handed_over(run, at) if at < len(run.launches) else []
            sizes = [(counts[name], pipeline.buffers[name].dtype.size_bytes) for name in handed]
            if handed and all(count and size for count, size in sizes):
                elements, moved = (sum(c or 0 for c, _ in sizes), sum((c or 0) * (s or 0) for c, s in sizes))
                chain.append((numbers[id(run.launches[at])], elements, moved))
            elif chain:
                cut, elements_of, bytes_of = zip(*chain, strict=True)
                yield Unit("elements", geometric_mean(elements_of), cut)
                yield Unit("bytes", geometric_mean(bytes_of), cut)
                chain = []


def _handed_over(run: RunDataflow, at: int) -> list[str]:
    return [name for name in run.effects[at - 1].writes if name in run.effects[at].reads]


def group_units(module: Module, groups: Sequence[Remark], workers: int) -> Iterator[Unit]:
    """The launches that became one, by facts of the program that they became."""
    pipeline = module.pipelines["main"]
    launches = [stage for stage in pipeline.walk() if isinstance(stage, Launch)]
    for group in groups:
        name, cut = str(group.certificate["program"]), tuple(group.certificate["at"][1:])
        program = module.programs[name]
        memory = sum(b.size_bytes or 0 for b in program.buffers.values() if b.is_workgroup)
        yield Unit("workgroup bytes", float(memory), cut)
        launch = next(launch for launch in launches if launch.program == name)
        workgroups = prod(launch.workgroups(pipeline.static_lengths))
        yield Unit("multiprocessors", workers / max(1, workgroups), cut)


# --- timing


@dataclass(frozen=True)
class Sample:
    """`seconds`: of each round, by what is kept apart; `again`: of all joined once more."""

    name: str
    units: list[Unit]
    seconds: dict[Cut, list[float]]
    again: list[float]

    def gain(self, cut: Cut) -> float:
        return median(self.seconds[()]) / median(self.seconds[cut])

    @property
    def best_gain(self) -> float:
        best = min(self.seconds, key=lambda cut: median(self.seconds[cut][::2]))
        return median(self.seconds[()][1::2]) / median(self.seconds[best][1::2])

    @property
    def again_gain(self) -> float:
        return median(self.seconds[()]) / median(self.again)


def sample(name: str, made: Variants, target: str, seconds: float) -> Sample:
    """Rounds that time each variant, for about so many seconds."""
    backend: Any = dispatcher(target)
    wait = getattr(backend, "synchronize", lambda: None)
    texts = list(made.texts.values())
    arrays: Mapping[str, Any] = inputs(parse(texts[0]).pipelines["main"])
    if target == "cuda":
        from pycuda import gpuarray

        with backend.device:
            arrays = {key: gpuarray.to_gpu(array) for key, array in arrays.items()}
    runners = []
    for text in [*texts, texts[0]]:
        compiled = vyre_opt.compile(text, target=backend)
        runners.append(CallRunner(lambda call=compiled: call(arrays), time.perf_counter, wait))  # type: ignore[misc]
        runners[-1].outputs()
        runners[-1].warm_up()
    launches = max(runner.launches for runner in runners)
    for runner in runners:
        runner.launches = launches
    started = time.perf_counter()
    rounds = [[runner.seconds() for runner in runners]]
    took = time.perf_counter() - started
    for number in range(max(LEAST_ROUNDS, min(MOST_ROUNDS, int(seconds / took))) - 1):
        order = runners[:: 1 if number % 2 else -1]
        times = {id(runner): runner.seconds() for runner in order}
        rounds.append([times[id(runner)] for runner in runners])
    *columns, again = map(list, zip(*rounds, strict=True))
    return Sample(name, made.units, dict(zip(made.texts, columns, strict=True)), again)


# --- what the rules gain


@dataclass(frozen=True)
class Outcome:
    """Of a rule at a threshold: the gain in the geometric mean, pipelines with something kept apart, and the worst."""

    rule: str
    threshold: float
    mean: float
    apart: int
    worst: float
    pipeline: str

    def row(self) -> list[str]:
        shown = f"{self.threshold:,.4g}" if self.rule else "-"
        worst = f"{self.worst:.3f} ({self.pipeline})"
        return [self.rule or self.pipeline, shown, f"{self.mean:.3f}", str(self.apart), worst]


def outcome(samples: Sequence[Sample], rule: str, threshold: float) -> Outcome:
    cuts = {s.name: kept_apart(s.units, rule, threshold) for s in samples}
    gains = {s.name: s.gain(cuts[s.name]) for s in samples}
    worst = min(gains, key=gains.__getitem__)
    apart = sum(map(bool, cuts.values()))
    return Outcome(rule, threshold, geometric_mean(gains.values()), apart, gains[worst], worst)


def outcomes(samples: Sequence[Sample], rule: str) -> list[Outcome]:
    """For each threshold that makes a difference: between two values in a row, and below the least."""
    values = sorted({unit.value for s in samples for unit in s.units if unit.rule == rule})
    between = [sqrt(low * high) for low, high in pairwise(values)]
    thresholds = dict.fromkeys([*(value / 2 for value in values[:1]), *between])
    return [outcome(samples, rule, threshold) for threshold in thresholds]


def shown(rule: Sequence[Outcome]) -> list[Outcome]:
    """The best, and some others over the whole range."""
    if not rule:
        return []
    best = max(rule, key=lambda each: each.mean)
    step = -(-len(rule) // (SHOWN - 1))
    return [each for number, each in enumerate(rule) if each is best or number % step == 0]


def unruled(samples: Sequence[Sample], what: str, gains: Sequence[float]) -> list[str]:
    worst = min(range(len(gains)), key=gains.__getitem__)
    changed = sum(len(s.seconds) > 1 for s in samples)
    mean = f"{geometric_mean(gains):.3f}"
    return [what, "-", mean, str(changed), f"{gains[worst]:.3f} ({samples[worst].name})"]


def correlation(samples: Sequence[Sample]) -> float:
    """Of the elements of a link with what joining all gains, by their logarithms; over pipelines of one chain."""
    pairs = []
    for s in samples:
        chains = [unit for unit in s.units if unit.rule == "elements"]
        if len(chains) == 1:
            pairs.append((log2(chains[0].value), -log2(s.gain(chains[0].cut))))
    return float(np.corrcoef(np.array(pairs).T)[0, 1]) if len(pairs) > 2 else float("nan")


def result_of(samples: Sequence[Sample], target: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The table of a target, and what is asked of a rule."""
    by_rule = {rule: outcomes(samples, rule) for rule in RULES}
    rows = [each.row() for rule in RULES for each in shown(by_rule[rule])]
    rows.append(unruled(samples, "best of all", [s.best_gain for s in samples]))
    rows.append(unruled(samples, "all joined again", [s.again_gain for s in samples]))
    table = {
        "caption": f"{target}, {len(samples)} pipelines: what rules gain over joining all.  The elements of a link and what "
        f"joining gains have a correlation of {correlation(samples):.2f}",
        "columns": ["rule", "threshold", "gain", "pipelines changed", "worst"],
        "rows": rows,
    }
    judged = {rule: judged_by_others(samples, rule) for rule in RULES}
    good = [rule for rule in RULES if judged[rule] and all(map(is_good, judged[rule]))]
    said = [
        ", ".join(f"{o.threshold:,.4g}: {o.mean:.3f}, {o.worst:.3f}" for o in judged[rule]) for rule in RULES
    ]
    met = {
        "what": f"{target}: a rule that gains, with no pipeline more than {MOST_SLOWER - 1:.0%} slower; its threshold chosen by "
        "half of the pipelines, and judged by the others",
        "measured": "; ".join(
            f"{rule} above {each or 'any: a loss'}" for rule, each in zip(RULES, said, strict=True)
        ),
        "met": bool(good),
    }
    return table, met


def is_good(each: Outcome) -> bool:
    return each.mean > 1 and each.worst * MOST_SLOWER >= 1


def judged_by_others(samples: Sequence[Sample], rule: str) -> list[Outcome]:
    """For each half of the pipelines, the best good threshold of the other half; [] where a half has none."""
    halves = (samples[::2], samples[1::2])
    results = []
    for fitted, others in (halves, halves[::-1]):
        good = [each for each in outcomes(fitted, rule) if is_good(each)]
        if not good:
            return []
        results.append(outcome(others, rule, max(good, key=lambda each: each.mean).threshold))
    return results


def raw(samples: Sequence[Sample], target: str) -> Iterator[dict[str, Any]]:
    for s in samples:
        yield {
            "target": target,
            "pipeline": s.name,
            "units": [{"rule": unit.rule, "value": unit.value, "cut": unit.cut} for unit in s.units],
            "seconds": [{"cut": cut, "median": median(times)} for cut, times in s.seconds.items()],
            "best_gain": s.best_gain,
            "again": median(s.again),
        }


def samples_of(
    target: str, texts: Mapping[str, str], pool: Executor, seconds: float, failures: list[str]
) -> list[Sample]:
    """The pipelines of which something is joined; the programs of all are made before the first is timed."""
    made = {name: pool.submit(variants, text, target) for name, text in texts.items()}
    pool.shutdown()
    samples: list[Sample] = []
    for name, future in made.items():
        try:
            each = future.result()
            said = "nothing depends on a threshold"
            if len(each.texts) > 1:
                samples.append(sample(name, each, target, seconds))
                gains = ", ".join(f"{samples[-1].gain(cut):.2f}" for cut in each.texts if cut)
                joined = median(samples[-1].seconds[()]) * 1e6
                said = f"{joined:.1f} us joined | gains apart: {gains}"
        except Exception as error:  # of one pipeline: the others' figures are not lost for it
            said = f"failed: {error}"
            failures.append(f"{target}, {name}: {error}")
        print(f"{target} | {name} | {said}", flush=True)
    return samples


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--target", nargs="+", choices=["cpu", "cuda"], default=["cpu", "cuda"])
    parser.add_argument("--pipelines", default="", help="those whose name has a match of this expression")
    parser.add_argument("--drawn", type=int, default=30, help="drawn pipelines (30)")
    parser.add_argument("--most-bytes", type=int, default=MOST_BYTES, help="of the largest arrays (2^26)")
    parser.add_argument("--seconds", type=float, default=0.5, help="to time a pipeline on a target (0.5)")
    parser.add_argument("--workers", type=int, default=8, help="processes that compile (8)")
    parser.add_argument("--out", type=Path, default=RESULTS / "fusion_threshold.json")
    args = parser.parse_args()
    every = cases(args.drawn, args.most_bytes)
    texts = {name: text for name, text in every.items() if re.search(args.pipelines, name)}
    results: list[tuple[dict[str, Any], dict[str, Any]]] = []
    samples: list[dict[str, Any]] = []
    failures: list[str] = []
    context = multiprocessing.get_context("spawn")  # a CUDA context does not survive a fork
    for target in args.target:
        pool = ProcessPoolExecutor(args.workers, context)
        own = samples_of(target, texts, pool, args.seconds, failures)
        results.append(result_of(own, target))
        samples += raw(own, target)
    for table, met in results:
        print(f"\n{table['caption']}")
        print("\n".join(" | ".join(row) for row in [table["columns"], *table["rows"]]))
        print(f"{'met' if met['met'] else 'NOT MET'} {met['what']}: {met['measured']}")
    gpu = {"gpu": cast("Any", dispatcher("cuda")).facts.name} if "cuda" in args.target else {}
    packages = [package for package in ("pycuda", "llvmlite", "numpy") if package in sys.modules]
    result = {
        "name": "fusion_threshold",
        "title": "Thresholds on what launches hand over",
        "about": (__doc__ or "").split("\n\n", 1)[1].strip(),
        "date": today(),
        "machine": {**machine(), **gpu},
        "versions": {package: importlib.metadata.version(package) for package in packages},
        "absent": [],
        "tables": [table for table, _ in results],
        "targets": [met for _, met in results],
        "samples": samples,
    }
    save(args.out, result)
    if failures:
        sys.exit("\n".join(failures))


if __name__ == "__main__":
    main()
