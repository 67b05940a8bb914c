"""The command `python -m support.certifier_mistakes`; what it does stands at the head of the package."""

from __future__ import annotations

import json
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path

import click

from . import MISTAKES
from .judge import is_wrong, judged
from .mistake import Mistake

LONGEST = 150


@click.command()
@click.argument("words", nargs=-1)
@click.option(
    "--json",
    "path",
    type=click.Path(path_type=Path),
    help="Write the results there, for docs/refuted_page.py.",
)
def main(words: tuple[str, ...], path: Path | None) -> None:
    """Plant each mistake whose title has all WORDS, and certify what the passes make of its text."""
    started, counts, rows = time.monotonic(), Counter[str](), list[dict[str, str]]()
    for mistake in MISTAKES:
        if not all(word in mistake.title for word in words):
            continue
        verdict = judged(mistake)
        status = verdict.status if is_wrong(mistake) else "no mistake"
        status = "PROVED" if verdict.is_proved else status
        counts[status] += 1
        rows.append(_row(mistake, f"{status} ({verdict.how})", verdict.by, verdict.witness))
        click.echo(" | ".join(rows[-1].values()))
    shown = ", ".join(f"{count} {status}" for status, count in counts.items())
    said = f"{datetime.now(UTC):%Y-%m-%d}: {sum(counts.values())} mistakes, {shown}, in {time.monotonic() - started:.0f} s."
    click.echo(said)
    if path is not None:
        path.write_text(json.dumps({"said": said, "rows": rows}, indent=1) + "\n", encoding="utf-8")
    sys.exit(counts.keys() != {"refuted"})


def _row(mistake: Mistake, status: str, by: str, witness: str) -> dict[str, str]:
    short = witness if len(witness) <= LONGEST else witness[:LONGEST].rsplit(" ", 1)[0] + " ..."
    cells = (mistake.title, mistake.mutant.file, status, by, short)
    keys = ("mistake", "in", "certified", "by", "witness")
    return {key: cell.replace("|", "/") for key, cell in zip(keys, cells, strict=True)}


if __name__ == "__main__":
    main(prog_name="python -m support.certifier_mistakes")
