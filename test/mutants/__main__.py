"""The command `python test/mutants`; what it does stands at the head of the package."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click

from vyre_opt.execution.processors import available

sys.path.insert(
    0, str(Path(__file__).parents[1])
)  # Python was told to run the folder, and knows no package yet

from mutants.page import LAST_RUN, page
from mutants.planting import Outcome, outcomes
from mutants.tables import MUTANTS


@click.command()
@click.argument("words", nargs=-1)
@click.option("--jobs", type=click.IntRange(1), help="How many side by side; as many as CPUs by default.")
@click.option("--page", "show_page", is_flag=True, help="Print the page of the site, and plant nothing.")
def main(words: tuple[str, ...], jobs: int | None, show_page: bool) -> None:
    """Plant each mistake whose title or file has all WORDS, and see that its test fails.

    A run of all of them is what the page gives the figures of.
    """
    if show_page:
        click.echo(page(), nl=False)
        return
    selected = [m for m in MUTANTS if all(word in m.title or word in m.path for word in words)]
    if not selected:
        raise click.UsageError(f"no mistake has {' and '.join(words)} in its title or file")
    jobs = jobs or available()
    began, start = datetime.now(UTC), time.monotonic()
    counts = Counter[Outcome]()
    for mutant, outcome in outcomes(selected, jobs):
        counts[outcome] += 1
        click.echo(f"{outcome.value:14}  {mutant.file}: {mutant.title}")
    minutes = round((time.monotonic() - start) / 60, 1)
    shown = ", ".join(f"{counts[outcome]} {outcome.value}" for outcome in Outcome if counts[outcome])
    click.echo(f"{len(selected)} mistakes in {minutes} minutes, {jobs} side by side: {shown}")
    if any(outcome.is_error for outcome in counts):
        sys.exit(1)
    if len(selected) == len(MUTANTS):
        record = {
            "began": f"{began:%Y-%m-%d %H:%M} UTC",
            "minutes": minutes,
            "cores": available(),
            "noticed": counts[Outcome.NOTICED],
            "equivalent": counts[Outcome.EQUIVALENT],
        }
        LAST_RUN.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
