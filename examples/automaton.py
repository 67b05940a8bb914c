"""Write the tables of a pattern search as files that vyre-run takes.

    python examples/automaton.py examples/patterns.txt

makes table.npy and accept.npy of the Aho-Corasick automaton of the patterns, one a line.
"""

from __future__ import annotations

from pathlib import Path

import click
import numpy as np

from vyre_opt.kernels.automaton import build_automaton

LONGEST_PATTERN = 65
"""decode_scan.vyre looks at 64 bytes before each place."""


@click.command()
@click.argument("patterns", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--into", type=click.Path(file_okay=False, path_type=Path), default=".", help="A folder.")
def main(patterns: Path, into: Path) -> None:
    """Tables for the search of PATTERNS, a file with one on each line."""
    lines = [line for line in patterns.read_bytes().splitlines() if line]
    try:
        automaton = build_automaton(lines, LONGEST_PATTERN)
    except ValueError as wrong:
        raise click.ClickException(str(wrong)) from None
    into.mkdir(parents=True, exist_ok=True)
    np.save(into / "table.npy", automaton.table)
    np.save(into / "accept.npy", automaton.accept)


if __name__ == "__main__":
    main()
