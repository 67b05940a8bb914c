"""`PYTHONPATH=test python -m support.features --programs 300000 --seed 1`: the campaign by pairs of features."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import click

from vyre_opt.execution.processors import available
from vyre_opt.fusion.result_check import VARIABLE

from .campaign import Tally, run_campaign
from .composition import compose
from .running import check


@click.command()
@click.option(
    "--programs", type=click.IntRange(1), default=1000, show_default=True, help="How many programs to run."
)
@click.option("--seed", default=1, show_default=True, help="The first seed; the others follow it.")
@click.option("--target", type=click.Choice(["ref", "cpu", "cuda"]), default="ref", show_default=True)
@click.option("--jobs", type=click.IntRange(1), help="Processes; as many as CPUs, 16 at most, by default.")
@click.option(
    "--json", "path", type=click.Path(path_type=Path), help="The tally: read if it is there, and added to."
)
@click.option(
    "--save", type=click.Path(path_type=Path), help="Folder for the sources of programs that differ."
)
@click.option(
    "--show", type=int, help="Show the program of one seed, its pair, and what differs; run no others."
)
def main(
    programs: int,
    seed: int,
    target: str,
    jobs: int | None,
    path: Path | None,
    save: Path | None,
    show: int | None,
) -> None:
    """Compose programs of each pair of features, and compare them with NumPy before and after passes."""
    os.environ.setdefault(VARIABLE, "error")  # a result that its check refuses is a mistake of the pass
    if show is not None:
        sys.exit(_show(show, target))
    started = time.monotonic()

    def progress(tally: Tally) -> None:
        rate = tally.programs / max(1e-9, tally.seconds)
        click.echo(
            f"{tally.programs} programs, {tally.differ} differ, {tally.refused} refused, {rate:.1f}/s a process",
            err=True,
        )

    tally = run_campaign(target, seed, programs, path, jobs or min(16, available()), progress)
    for number in dict.fromkeys(failed for failed, _, _ in tally.failures):
        if save is not None:
            save.mkdir(parents=True, exist_ok=True)
            composed = compose(number)
            suffix = "py" if composed.is_python else "vyre"
            (save / f"features-{number}.{suffix}").write_text(composed.source(), encoding="utf-8")
    click.echo(f"{tally.summary()}\nin {time.monotonic() - started:.0f} s")
    sys.exit(1 if tally.differ or tally.refused else 0)


def _show(seed: int, target: str) -> int:
    composed = compose(seed)
    click.echo(composed.source())
    click.echo(f"seed {seed}: {', '.join(composed.pair)} of {', '.join(sorted(composed.all_features))}")
    outcome = check(composed, target)
    for how, what in outcome.failures:
        click.echo(f"after {how}: {what}")
    click.echo(f"{', '.join(sorted(outcome.effects)) or 'nothing changed'}; {len(outcome.failures)} differ")
    return 1 if outcome.failures else 0


if __name__ == "__main__":
    main(prog_name="python -m support.features")
