"""`PYTHONPATH=test python -m support --programs 20000 --seed 1`: a campaign, with a summary on stdout.

With `--target` the programs are compared with the interpreter on that target, with no and
with full optimisation; else passes and pipelines are checked.  `--pipelines 2000 --target cpu`
runs pipelines of launches instead, before and after the default passes; `--adversarial`, such as
aim at the proofs of fusion; `--shaped`, such as have buffers of several dimensions; `--matrices`, such as hand over
tiles by matrices; `--passes random`, before and after passes drawn anew for each.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

import click

from .campaign import Report, campaign
from .differential import OPTIONS, compare_random, smallest
from .generator import Settings
from .pipeline_runs import PASSES, Kind, compare_pipelines

MAX_REDUCED = 5
"""Programs that are made small and shown, at most."""


@click.command()
@click.option("--programs", default=1000, show_default=True, help="How many programs to check.")
@click.option(
    "--pipelines", type=click.IntRange(1), help="Run so many pipelines of launches, and no programs."
)
@click.option("--seed", default=1, show_default=True, help="The first seed; the others follow it.")
@click.option(
    "--adversarial",
    "kind",
    flag_value="adversarial",
    help="With --pipelines: those that aim at the proofs of fusion.",
)
@click.option(
    "--shaped",
    "kind",
    flag_value="shaped",
    help="With --pipelines: those with buffers of two and three dimensions.",
)
@click.option(
    "--matrices",
    "kind",
    flag_value="matrices",
    help="With --pipelines: those that hand over tiles by matrices.",
)
@click.option(
    "--passes", default=PASSES, show_default=True, help="With --pipelines: what to run, or `random`."
)
@click.option("--handoff", is_flag=True, help="Hand-off programs, for decode_scan_fuse.")
@click.option("--statements", default=10, show_default=True, help="Statements of a program.")
@click.option("--depth", default=3, show_default=True, help="How deep blocks nest.")
@click.option(
    "--dimensions",
    default=0.25,
    show_default=True,
    help="The share of programs in which buffers have several dimensions.",
)
@click.option(
    "--target", type=click.Choice(list(OPTIONS)), help="Compare this target with the interpreter instead."
)
@click.option("--jobs", type=int, help="Processes for --target and --pipelines; as many as CPUs by default.")
@click.option("--save", type=click.Path(path_type=Path), help="Folder for reduced failures.")
def main(
    programs: int,
    pipelines: int | None,
    seed: int,
    kind: Kind | None,
    passes: str,
    handoff: bool,
    statements: int,
    depth: int,
    dimensions: float,
    target: str | None,
    jobs: int | None,
    save: Path | None,
) -> None:
    """Check random programs against the properties that every program must keep."""
    if target and handoff:
        raise click.UsageError("--handoff programs are for passes; leave out --target")
    if pipelines is not None and handoff:
        raise click.UsageError("--handoff makes programs; leave out --pipelines")
    started = time.monotonic()
    seeds = range(seed, seed + (programs if pipelines is None else pipelines))
    settings = Settings(statements=statements, depth=depth, dimensions=dimensions)
    if pipelines is not None:
        result = compare_pipelines(
            target or "ref",
            seeds,
            jobs=jobs,
            kind=kind or "mixed",
            passes=passes,
            progress=lambda so_far: _show(so_far.pipelines, pipelines, len(so_far.failures)),
        )
        summary, failures = result.summary(target or "ref", passes), result.failures
        _save(save, f"pipeline-{target or 'ref'}", failures)
    elif target:
        summary, failures = _on_target(target, seeds, settings, jobs, save)
    else:
        report = campaign(seeds, handoff, settings, save, _progress(programs))
        summary, failures = report.summary(), report.failures
    for failed, what, text in failures:
        click.echo(f"--- seed {failed}: {what}\n{text}")
    click.echo(f"{summary} in {time.monotonic() - started:.0f} s")
    sys.exit(1 if failures else 0)


def _progress(programs: int) -> Callable[[int, Report], None]:
    return lambda done, report: _show(done, programs, len(report.failures))


def _show(done: int, all: int, failures: int) -> None:
    if sys.stderr.isatty() or done % 1000 == 0:
        end = "\r" if sys.stderr.isatty() else "\n"
        print(f"{done}/{all}, {failures} failures", end=end, file=sys.stderr, flush=True)


def _on_target(
    target: str, seeds: range, settings: Settings, jobs: int | None, save: Path | None
) -> tuple[str, list[tuple[int, str, str]]]:
    """A summary, and of each program that differs the seed, what, and a text, the first ones reduced."""
    comparison = compare_random(target, seeds, settings, jobs=jobs)
    failures = []
    for number, (name, options, what) in enumerate(comparison.differences):
        seed = int(name.removeprefix("seed "))
        text = smallest(target, seed, options, settings) if number < MAX_REDUCED else ""
        failures.append((seed, f"{what} (at {options})", text))
    _save(save, target, failures)
    return comparison.summary(target), failures


def _save(folder: Path | None, name: str, failures: list[tuple[int, str, str]]) -> None:
    """Write the texts there are, each with what is wrong as comments before it."""
    for seed, what, text in failures:
        if folder is not None and text:
            folder.mkdir(parents=True, exist_ok=True)
            comment = "".join(f"// {line}\n" for line in what.splitlines())
            (folder / f"{name}-{seed}.vyre").write_text(comment + text, encoding="utf-8")


if __name__ == "__main__":
    main(prog_name="python -m support")
