"""Decisions about random programs and pipelines, certified by z3: none may be refuted, few may be unknown.

PYTHONPATH=test python -m support.certifying --texts 20000
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import reduce

import click

from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.cli.certify import add_lowering
from vyre_opt.ir.parser import parse
from vyre_opt.ir.program import Module
from vyre_opt.passes.manager import PassManager

from .generator import random_program
from .handoff import handoff_program
from .pipeline_runs import pipeline_text, seed_pipeline

__all__ = ["Certified", "certify_seeds", "decisions_of"]

SECONDS = 2.0
"""For each obligation."""

KINDS: dict[str, Callable[[int], str | Module]] = {
    "programs": lambda seed: random_program(seed).module,
    "hand-offs": lambda seed: handoff_program(seed).module,
    "pipelines": pipeline_text,
    "adversarial pipelines": lambda seed: seed_pipeline(seed, adversarial=True)[0],
}


@dataclass
class Certified:
    """`statuses`: of decisions, by who decided.  `refuted`, `unknown`: kind and seed of the text, and what it says."""

    texts: int = 0
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    refuted: list[tuple[str, int, str]] = field(default_factory=list)
    unknown: list[tuple[str, int, str]] = field(default_factory=list)

    def add(self, kind: str, seed: int, decisions: Iterable[Decision]) -> None:
        self.texts += 1
        for decision in decisions:
            self.statuses.setdefault(decision.by, Counter())[decision.status] += 1
            reasons = {answer.reason for answer in decision.answers if answer.status == decision.status}
            failed = [
                answer.obligation.what for answer in decision.answers if answer.status == decision.status
            ]
            entry = kind, seed, f"{decision.by}: {decision.what}: {failed[:1]} {sorted(reasons)}"
            if decision.status != "proved":
                (self.refuted if decision.status == "refuted" else self.unknown).append(entry)

    def merged(self, other: Certified) -> Certified:
        statuses = {
            by: self.statuses.get(by, Counter()) + other.statuses.get(by, Counter())
            for by in self.statuses | other.statuses
        }
        return Certified(
            self.texts + other.texts, statuses, self.refuted + other.refuted, self.unknown + other.unknown
        )

    @property
    def decisions(self) -> int:
        return sum(map(Counter.total, self.statuses.values()))

    def summary(self) -> str:
        lines = [f"{self.texts} texts, {self.decisions} decisions"]
        for by, counts in sorted(self.statuses.items()):
            lines.append(f"  {by}: {', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}")
        return "\n".join([*lines, f"{len(self.refuted)} refuted, {len(self.unknown)} unknown"])


def decisions_of(source: str | Module, passes: str = "default") -> list[Decision]:
    """The decisions of the passes about a text, and of the lowering about what they leave, certified."""
    module = parse(source) if isinstance(source, str) else source
    certifier = Certifier()
    PassManager(passes, verify_each=False, observers=[certifier]).run(module)
    add_lowering(certifier, module)
    for decision in certifier.decisions:
        decision.certify(SECONDS)
    return certifier.decisions


def certify_seeds(seeds: Iterable[int], kinds: Iterable[str] = KINDS) -> Certified:
    """All kinds of texts of these seeds."""
    result = Certified()
    kinds = list(kinds)
    for seed in seeds:
        for kind in kinds:
            result.add(kind, seed, decisions_of(KINDS[kind](seed)))
    return result


@click.command()
@click.option("--texts", default=400, show_default=True, help="Texts, a quarter of each kind.")
@click.option("--seed", default=1, show_default=True, help="The first seed; the others follow it.")
@click.option("--jobs", type=int, help="Processes; as many as CPUs by default.")
def main(texts: int, seed: int, jobs: int | None) -> None:
    """Certify the decisions about random texts.  Exit code 1 if one is refuted, or 2 in 100 are unknown."""
    started = time.monotonic()
    each = [[number] for number in range(seed, seed + -(-texts // len(KINDS)))]
    with ProcessPoolExecutor(jobs) as pool:
        result = reduce(Certified.merged, pool.map(certify_seeds, each, chunksize=4), Certified())
    for kind, number, what in (*result.refuted, *result.unknown):
        click.echo(f"{kind} of seed {number}: {what}")
    click.echo(f"{result.summary()} in {time.monotonic() - started:.0f} s")
    sys.exit(bool(result.refuted) or len(result.unknown) > 0.02 * result.decisions)


if __name__ == "__main__":
    main(prog_name="python -m support.certifying")
