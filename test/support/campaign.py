"""Many random programs against every property; a failure is reduced and kept as a file."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from vyre_opt.execution import ProgramError
from vyre_opt.ir import parse
from vyre_opt.reduce import FunctionTest, Oracle, reduce_text

from .differential import REDUCTION_TESTS
from .generator import Settings, random_program
from .handoff import handoff_program
from .properties import (
    Baseline,
    Broken,
    baseline,
    check_pipeline,
    check_text,
    ordinary_passes,
    random_pipeline,
    with_options,
)
from .sample import Sample

__all__ = ["Report", "campaign", "check_handoff", "check_program"]


@dataclass(slots=True)
class Report:
    """What a campaign did: programs by how they ran, runs of passes that changed something, failures."""

    programs: Counter[str] = field(default_factory=Counter)
    pipelines: int = 0
    changed: Counter[str] = field(default_factory=Counter)
    failures: list[tuple[int, str, str]] = field(default_factory=list)
    """Seed, what is broken, and the reduced text."""

    def summary(self) -> str:
        runs = ", ".join(f"{count} {kind}" for kind, count in sorted(self.programs.items()))
        lines = [f"{self.programs.total()} programs ({runs}), {self.pipelines} pipelines run"]
        lines += [f"  {name} changed {count}" for name, count in sorted(self.changed.items())]
        lines += [f"seed {seed}: {what.splitlines()[0]}" for seed, what, _ in self.failures]
        return "\n".join([*lines, f"{len(self.failures)} failures"])


def check_program(seed: int, report: Report, settings: Settings | None = None) -> None:
    """One random program: its text, one pass in turn, a random pipeline.  Raises Broken."""
    sample = random_program(seed, settings)
    check_text(sample)
    before = baseline(sample, seed)
    report.programs["clean"] += 1
    names, rng = ordinary_passes(), random.Random(seed)
    for pipeline in (with_options(names[seed % len(names)], rng), random_pipeline(rng)):
        _pipeline(sample, pipeline, before, report)


def check_handoff(seed: int, report: Report) -> None:
    """One hand-off program: decode_scan_fuse alone, and after other passes.  Raises Broken."""
    sample = handoff_program(seed)
    check_text(sample)
    before = baseline(sample, seed)
    report.programs[before.outcome.kind if isinstance(before.outcome, ProgramError) else "clean"] += 1
    for pipeline in ("decode_scan_fuse", f"{random_pipeline(random.Random(seed))},decode_scan_fuse"):
        _pipeline(sample, pipeline, before, report)


def _pipeline(sample: Sample, pipeline: str, before: Baseline, report: Report) -> None:
    report.pipelines += 1
    result = check_pipeline(sample, pipeline, before)
    if result.changed:
        report.changed[pipeline.split("{")[0] if "," not in pipeline else "a pipeline"] += 1


def campaign(
    seeds: Iterator[int] | range,
    handoff: bool = False,
    settings: Settings | None = None,
    save: Path | None = None,
    progress: Callable[[int, Report], None] | None = None,
) -> Report:
    """Check a program a seed.  Failures are reduced, and written to the folder `save` if it is given."""
    report = Report()
    for done, seed in enumerate(seeds):
        try:
            if handoff:
                check_handoff(seed, report)
            else:
                check_program(seed, report, settings)
        except Broken as broken:
            text = reduced(seed, broken, handoff, settings)
            report.failures.append((seed, broken.what, text))
            if save is not None:
                save.mkdir(parents=True, exist_ok=True)
                kind = "handoff" if handoff else "program"
                comment = "".join(f"// {line}\n" for line in broken.what.splitlines())
                (save / f"{kind}-{seed}.vyre").write_text(comment + text, encoding="utf-8")
        if progress is not None:
            progress(done + 1, report)
    return report


def reduced(seed: int, broken: Broken, handoff: bool = False, settings: Settings | None = None) -> str:
    """The smallest text found that breaks the same pipeline in the same way; else the whole one."""
    original = handoff_program(seed) if handoff else random_program(seed, settings)
    pipeline = broken.pipeline
    if not pipeline:
        return broken.text

    def fails(text: str) -> bool:
        module = parse(text)
        program = module.programs.get(original.program.name)
        if program is None:
            return False
        sample = Sample(module, program, original.grid, seed, original.sound)
        try:
            check_pipeline(sample, pipeline, baseline(sample, seed))
        except Broken as failure:
            return failure.pipeline == pipeline and failure.kind == broken.kind
        return False

    if not fails(broken.text):
        return broken.text
    return reduce_text(broken.text, Oracle(FunctionTest(fails), REDUCTION_TESTS))
