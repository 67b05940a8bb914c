"""`python -m vyre_opt.testing --programs 20000 --seed 1`: a campaign, with a summary on stdout."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from .campaign import Report, campaign
from .generator import Settings


@click.command()
@click.option("--programs", default=1000, show_default=True, help="How many programs to check.")
@click.option("--seed", default=1, show_default=True, help="The first seed; the others follow it.")
@click.option("--handoff", is_flag=True, help="Hand-off programs, for decode_scan_fuse.")
@click.option("--statements", default=10, show_default=True, help="Statements of a program.")
@click.option("--depth", default=3, show_default=True, help="How deep blocks nest.")
@click.option("--target", "targets", multiple=True, help="Compare this target with the interpreter, too.")
@click.option("--save", type=click.Path(path_type=Path), help="Folder for reduced failures.")
def main(
    programs: int,
    seed: int,
    handoff: bool,
    statements: int,
    depth: int,
    targets: tuple[str, ...],
    save: Path | None,
) -> None:
    """Check random programs against the properties that every program must keep."""
    started = time.monotonic()

    def progress(done: int, report: Report) -> None:
        if sys.stderr.isatty() or done % 1000 == 0:
            end = "\r" if sys.stderr.isatty() else "\n"
            print(f"{done}/{programs}, {len(report.failures)} failures", end=end, file=sys.stderr, flush=True)

    settings = Settings(statements=statements, depth=depth, exact=bool(targets))
    report = campaign(range(seed, seed + programs), handoff, settings, targets, save, progress)
    for failed, what, text in report.failures:
        click.echo(f"--- seed {failed}: {what}\n{text}")
    click.echo(f"{report.summary()} in {time.monotonic() - started:.0f} s")
    sys.exit(1 if report.failures else 0)


main(prog_name="python -m vyre_opt.testing")
