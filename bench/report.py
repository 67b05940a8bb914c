"""The page of all benchmarks, made from bench/results/*.json:  python bench/report.py

A result is a JSON object, written by one script of this folder:

    name, title, about, date   texts; about says what was measured and how
    machine, versions          name -> text; versions may be empty
    arguments                  of the script's command line, if it took any
    absent                     peers that were not installed, and what this machine has not
    figure                     a drawing of the figures, a file of docs/images, if there is one
    tables                     each: caption, columns, rows of texts
    targets                    each: what, measured (texts), met (true or false)
    samples                    the raw figures, for whoever wants to check; not shown
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BENCH = Path(__file__).resolve().parent

_INTRO = """\
# Benchmarks

Each section comes from one file in bench/results, which its script writes in one run:
all tools of a table ran on the same machine in the same minutes.
"""


def page(results: Path = BENCH / "results") -> str:
    """The whole page, one section a result, by name; what a call costs comes first."""
    paths = sorted(results.glob("*.json"), key=lambda path: (not path.stem.startswith("calls"), path.stem))
    return (
        "\n".join([_INTRO, *(line for path in paths for line in section(json.loads(path.read_text())))])
        + "\n"
    )


def section(result: dict[str, Any]) -> Iterator[str]:
    """The lines of one result."""
    yield f"## {result['title']}\n"
    yield f"{result['about']}\n"
    command = f"python bench/{result['name']}.py {result.get('arguments', '')}".rstrip()
    yield f"- Script: `{command}`, {result['date']}"
    yield f"- Machine: {_pairs(result['machine'])}"
    if result["versions"]:
        yield f"- Versions: {_pairs(result['versions'])}"
    if result.get("absent"):
        yield f"- Absent: {', '.join(result['absent'])}"
    yield ""
    for table in result["tables"]:
        yield f"**{table['caption']}**\n"
        rows = [[cell.replace("](../", "](../../") for cell in row] for row in table["rows"]]
        yield from _table(table["columns"], rows)
    if result.get("figure"):
        yield f"![{result['title']}](../images/{result['figure']})\n"
    if result.get("targets"):
        yield "**Targets**\n"
        rows = [[t["what"], t["measured"], "yes" if t["met"] else "no"] for t in result["targets"]]
        yield from _table(["Target", "Measured", "Met"], rows)


def _pairs(named: dict[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in named.items())


def _table(columns: list[str], rows: list[list[str]]) -> Iterator[str]:
    yield f"| {' | '.join(columns)} |"
    yield f"|{'---|' * len(columns)}"
    yield from (f"| {' | '.join(row)} |" for row in rows)
    yield ""


if __name__ == "__main__":
    print(page(), end="")
