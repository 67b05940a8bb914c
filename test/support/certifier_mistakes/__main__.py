"""The command `python -m support.certifier_mistakes`; what it does stands at the head of the package."""

from __future__ import annotations

import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click

from . import MISTAKES
from .judge import is_wrong, judged
from .mistake import Mistake

BEGIN, END = "<!-- made by `make certify-mistakes` -->", "<!-- end -->"
LONGEST = 150


@click.command()
@click.argument("words", nargs=-1)
@click.option("--page", type=click.Path(exists=True, path_type=Path), help="Write the table into it.")
def main(words: tuple[str, ...], page: Path | None) -> None:
    """Plant each mistake whose title has all WORDS, and certify what the passes make of its text."""
    started, counts, rows = time.monotonic(), Counter[str](), list[str]()
    for mistake in MISTAKES:
        if not all(word in mistake.title for word in words):
            continue
        verdict = judged(mistake)
        status = verdict.status if is_wrong(mistake) else "no mistake"
        status = "PROVED" if verdict.is_proved else status
        counts[status] += 1
        rows.append(_row(mistake, f"{status} ({verdict.how})", verdict.by, verdict.witness))
        click.echo(rows[-1])
    shown = ", ".join(f"{count} {status}" for status, count in counts.items())
    said = f"{datetime.now(UTC):%Y-%m-%d}: {sum(counts.values())} mistakes, {shown}, in {time.monotonic() - started:.0f} s."
    click.echo(said)
    if page is not None:
        head, _, rest = page.read_text(encoding="utf-8").partition(BEGIN)
        _, _, tail = rest.partition(END)
        table = ["| mistake | in | certified | by | witness |", "|---|---|---|---|---|", *rows]
        page.write_text(
            f"{head}{BEGIN}\n\n{said}\n\n" + "\n".join(table) + f"\n\n{END}{tail}", encoding="utf-8"
        )
    sys.exit(counts.keys() != {"refuted"})


def _row(mistake: Mistake, status: str, by: str, witness: str) -> str:
    short = witness if len(witness) <= LONGEST else witness[:LONGEST].rsplit(" ", 1)[0] + " ..."
    cells = (mistake.title, f"`{mistake.mutant.file}`", status, f"`{by}`", short)
    return f"| {' | '.join(cell.replace('|', '/') for cell in cells)} |"


if __name__ == "__main__":
    main(prog_name="python -m support.certifier_mistakes")
