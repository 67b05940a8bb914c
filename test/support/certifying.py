"""Decisions about random programs and pipelines, certified by z3: none may be refuted, few may be unknown.

PYTHONPATH=test python -m support.certifying --texts 20000
PYTHONPATH=test python -m support.certifying --kernels       all must be proved: of the shipped kernels' cases
"""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from functools import partial, reduce
from statistics import median

import click

from vyre_opt.certify.certifier import Certifier, Decision, Search, unsearched
from vyre_opt.cli.certify import add_lowering
from vyre_opt.driver.counterexample import counterexample
from vyre_opt.ir import Module, parse, print_program
from vyre_opt.passes import PassManager

from .dimension_programs import sound_pipeline
from .generator import Settings, random_program
from .handoff import handoff_program
from .kernel_cases import KernelCase, kernel_cases
from .matrix_pipelines import matrix_pipeline
from .natural_pipelines import natural_pipeline
from .neighbour_programs import neighbour_pipeline
from .pipeline_runs import pipeline_text, seed_pipeline

__all__ = ["Certified", "certify_seeds", "certify_text", "decisions_of", "kernel_texts"]

SECONDS = 2.0
"""For each obligation about random texts."""

KERNEL_SECONDS = 10.0
"""For each obligation about kernels, as the tool has it."""

SHAPED = Settings(statements=5, dimensions=1.0)
"""Of programs with buffers of several dimensions."""

KINDS: dict[str, Callable[[int], str | Module]] = {
    "programs": lambda seed: random_program(seed).module,
    "hand-offs": lambda seed: handoff_program(seed).module,
    "pipelines": pipeline_text,
    "adversarial pipelines": lambda seed: seed_pipeline(seed, "adversarial")[0],
    "shaped programs": lambda seed: random_program(seed, SHAPED).module,
    "shaped pipelines": lambda seed: sound_pipeline(seed).text,
    "natural pipelines": lambda seed: natural_pipeline(seed).text,
    "matrix pipelines": matrix_pipeline,
    "neighbour pipelines": neighbour_pipeline,
}


@dataclass
class Certified:
    """`programs`: in the texts.  `statuses`: of decisions, by who decided.  `refuted`, `unknown`: the text's name, and
    what the decision says.  `seconds`: of each decision."""

    texts: int = 0
    programs: int = 0
    statuses: dict[str, Counter[str]] = field(default_factory=dict)
    refuted: list[tuple[str, str]] = field(default_factory=list)
    unknown: list[tuple[str, str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)

    def add(self, text: str, programs: int, decisions: Iterable[Decision]) -> None:
        self.texts += 1
        self.programs += programs
        for decision in decisions:
            self.statuses.setdefault(decision.by, Counter())[decision.status] += 1
            self.seconds.append(sum(answer.seconds for answer in decision.answers))
            failed = [answer for answer in decision.answers if answer.status == decision.status]
            reasons = sorted({answer.reason for answer in failed})
            whats = [answer.obligation.what for answer in failed]
            entry = text, f"{decision.by}: {decision.what}: {whats[:1]} {reasons}"
            if decision.status != "proved":
                (self.refuted if decision.status == "refuted" else self.unknown).append(entry)

    def merged(self, other: Certified) -> Certified:
        statuses = {
            by: self.statuses.get(by, Counter()) + other.statuses.get(by, Counter())
            for by in self.statuses | other.statuses
        }
        return Certified(
            self.texts + other.texts,
            self.programs + other.programs,
            statuses,
            self.refuted + other.refuted,
            self.unknown + other.unknown,
            self.seconds + other.seconds,
        )

    @property
    def decisions(self) -> int:
        return sum(map(Counter.total, self.statuses.values()))

    def summary(self) -> str:
        lines = [f"{self.texts} texts of {self.programs} programs, {self.decisions} decisions"]
        for by, counts in sorted(self.statuses.items()):
            lines.append(f"  {by}: {', '.join(f'{n} {status}' for status, n in sorted(counts.items()))}")
        return "\n".join(
            [*lines, f"{len(self.refuted)} refuted, {len(self.unknown)} unknown, {self.times()}"]
        )

    def times(self) -> str:
        middle, most = (median(self.seconds), max(self.seconds)) if self.seconds else (0.0, 0.0)
        return f"median {1000 * middle:.0f} ms, longest {1000 * most:.0f} ms"


def decisions_of(
    source: str | Module, passes: str = "default", seconds: float = SECONDS, search: Search = unsearched
) -> list[Decision]:
    """The decisions of the passes about a text, and of the lowering about what they leave, certified.

    `search`: for calls on which passes change what the text does.
    """
    module = parse(source) if isinstance(source, str) else source
    certifier = Certifier(search)
    PassManager(passes, verify_each=False, observers=[certifier]).run(module)
    add_lowering(certifier, module)
    for decision in certifier.decisions:
        decision.certify(seconds)
    tried = list(certifier.tried())
    for decision in tried:
        decision.certify(seconds)
    return [*certifier.decisions, *tried]


def certify_seeds(
    seeds: Iterable[int], kinds: Iterable[str] = KINDS, search: Search = unsearched
) -> Certified:
    """All kinds of texts of these seeds."""
    result = Certified()
    kinds = list(kinds)
    for seed in seeds:
        for kind in kinds:
            source = KINDS[kind](seed)
            programs = source.count("\nprogram @") if isinstance(source, str) else len(source.programs)
            result.add(f"{kind} of seed {seed}", programs, decisions_of(source, search=search))
    return result


def certify_text(name: str, text: str) -> Certified:
    """Of a kernel's case."""
    result = Certified()
    result.add(name, 1, decisions_of(text, seconds=KERNEL_SECONDS))
    return result


def kernel_texts(cases: Iterable[KernelCase]) -> Iterator[tuple[KernelCase, str]]:
    """Each case's program as it was built, and with the lengths and the grid of the case; equal texts once."""
    texts = set[str]()
    for case in cases:
        use = case.make()
        built = print_program(use.program)
        (program,) = parse(built).programs.values()
        for buffer, data in zip(program.bound_buffers, use.inputs, strict=True):
            buffer.shape = (len(data),)
        program.grid = (use.grid, 1, 1)
        for text in (built, print_program(program)):
            if text not in texts:
                texts.add(text)
                yield case, text


def _certify_kernels(pool: ProcessPoolExecutor, wanted: str) -> Certified:
    """Prints a line for each kernel with cases whose names begin with `wanted`."""
    cases = [case for case in kernel_cases() if case.name.startswith(wanted)]
    everything = Certified()
    for kernel in dict.fromkeys(case.kernel for case in cases):
        texts = list(kernel_texts(case for case in cases if case.kernel == kernel))
        names = [case.name for case, _ in texts]
        result = reduce(
            Certified.merged, pool.map(certify_text, names, [text for _, text in texts]), Certified()
        )
        counts = reduce(Counter.__add__, result.statuses.values(), Counter[str]())
        click.echo(
            f"{kernel}: {result.texts} texts, {result.decisions} decisions, {dict(counts)}, {result.times()}"
        )
        everything = everything.merged(result)
    return everything


@click.command()
@click.option("--texts", default=400, show_default=True, help="Texts, of each kind as many.")
@click.option("--seed", default=1, show_default=True, help="The first seed; the others follow it.")
@click.option("--jobs", type=int, help="Processes; as many as CPUs by default.")
@click.option(
    "--kernels",
    is_flag=False,
    flag_value="",
    metavar="NAME",
    help="Instead the cases of kernels whose names begin so, or all.",
)
def main(texts: int, seed: int, jobs: int | None, kernels: str | None) -> None:
    """Certify the decisions about random texts, or about kernels.  Exit code 1 if one is refuted, or 2 in 100 are
    unknown; for kernels, if any is not proved."""
    started = time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        if kernels is not None:
            result = _certify_kernels(pool, kernels)
        else:
            each = [[number] for number in range(seed, seed + -(-texts // len(KINDS)))]
            certify_all = partial(certify_seeds, search=partial(counterexample, seconds=SECONDS))
            result = reduce(Certified.merged, pool.map(certify_all, each, chunksize=4), Certified())
    for name, what in (*result.refuted, *result.unknown):
        click.echo(f"{name}: {what}")
    click.echo(f"{result.summary()} in {time.monotonic() - started:.0f} s")
    share = 0.02 if kernels is None else 0.0
    sys.exit(bool(result.refuted) or len(result.unknown) > share * result.decisions)


if __name__ == "__main__":
    main(prog_name="python -m support.certifying")
