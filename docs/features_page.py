"""The page of features and their pairs, made from docs/results/features.json:  python docs/features_page.py

`make features` writes the JSON: the tallies of `support.features.campaign`, one for each target.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path
from typing import Any

__all__ = ["page", "tallies"]

TALLIES = Path(__file__).parent / "results/features.json"
ENOUGH = 50
"""As in `support.features.campaign`."""

_INTRO = """\
# Programs by pairs of features

Mistakes of an optimiser are where two features meet that nobody thought of together.  So this campaign has a table of
{features} features of programs and pipelines (`test/support/features/table.py`), and composes a pipeline of two to eight stages for
each pair of them that the language allows, {pairs} pairs in turn.  Each stage is written once as source, `.vyre` text or
Python, and once as NumPy on whole arrays, which is all that the oracle knows.  Outputs, host reads and printed lines are compared bit by
bit: as written, after `-O`, and after passes in a random order; a part of those in Python also as calls on arrays.

```sh
make features N=300000                                                          # hours on 2 cores; goes on where it ended
PYTHONPATH=test .venv/bin/python -m support.features --programs 20000 --seed 1 --target cpu --json docs/results/features.json
PYTHONPATH=test .venv/bin/python -m support.features --show 12151              # the program of a seed
```

Refused are programs of which the [check of results](../explanation/fusion.md#legality) refused what a pass had made, though it would have
been right: launches that `-O` leaves apart in vain.  What it refuses rightly counts as a difference.  A pair with fewer than {enough} programs that a pass changed is a hole.
"""

_COLUMNS = """
| Column | Counts |
|---|---|
| programs | programs with the feature |
| changed | such that a pass changed |
| together | pairs with another feature within launches that became one, the least of all pairs |
| joined, tile, halo, regrid, forward | programs in which launches were joined, a buffer became a tile, a halo was computed again, a grid was chosen, `store_forward` removed an access |
| fewest | the feature beside which it is in the fewest programs that a pass changed, and how many these are |
"""


def tallies(path: Path = TALLIES) -> dict[str, Any]:
    """The tallies by target."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def page(of: dict[str, Any]) -> str:
    """The whole page."""
    tally = of["ref"]
    names = tally["of"][0]
    pairs = _pairs(tally)
    lines = [_INTRO.format(features=len(names), pairs=len(pairs), enough=ENOUGH)]
    lines += ["## Runs\n", *_runs(of), ""]
    lines += ["## Features\n", "On ref.", _COLUMNS, *_features(tally, names, pairs), ""]
    lines += ["## Holes\n", *_holes(tally, pairs), ""]
    lines += ["## Pairs\n", *_matrix(tally, names, pairs), ""]
    return "\n".join(lines)


def _pairs(tally: dict[str, Any]) -> list[tuple[str, str]]:
    excluded = {tuple(pair) for pair in tally["excluded"]}
    return [pair for pair in combinations(tally["of"][0], 2) if pair not in excluded]


def _runs(of: dict[str, Any]) -> Iterator[str]:
    yield "| target | programs | runs | seeds | changed | joined | tile | halo | regrid | forward | differ | refused | date |"
    yield "|---|---|---|---|---|---|---|---|---|---|---|---|---|"
    for target, tally in of.items():
        effects = tally["effects"]
        counts = [effects.get(name, 0) for name in ("changed", "joined", "tile", "halo", "regrid", "forward")]
        cells = [
            target,
            tally["programs"],
            tally["runs"],
            _seeds(tally),
            *counts,
            tally["differ"],
            tally["refused"],
            tally["date"],
        ]
        yield f"| {' | '.join(f'{cell:,}' if isinstance(cell, int) else cell for cell in cells)} |"


def _seeds(tally: dict[str, Any]) -> str:
    """The seeds of a tally, as ranges."""
    ranges: list[list[int]] = []
    for first, count in sorted(tally["batches"]):
        if ranges and ranges[-1][1] == first:
            ranges[-1][1] = first + count
        else:
            ranges.append([first, first + count])
    return ", ".join(f"{first} to {end - 1}" for first, end in ranges)


def _features(tally: dict[str, Any], names: list[str], pairs: list[tuple[str, str]]) -> Iterator[str]:
    columns = ("changed", "joined", "tile", "halo", "regrid", "forward")
    yield f"| Feature | programs | {' | '.join(columns)} | together | fewest |"
    yield f"|---|---|{'---|' * len(columns)}---|---|"
    for name in names:
        own = [number for number, pair in enumerate(pairs) if name in pair]
        cells = [f"{tally['features'].get(name, 0):,}"]
        cells += [f"{tally['by_feature'].get(f'{name} {column}', 0):,}" for column in columns]
        cells.append(f"{min(tally['pairs']['together'][number] for number in own):,}")
        least = min(own, key=lambda number: tally["pairs"]["changed"][number])
        a, b = pairs[least]
        cells.append(f"{b if a == name else a}: {tally['pairs']['changed'][least]:,}")
        yield f"| {name} | {' | '.join(cells)} |"


def _holes(tally: dict[str, Any], pairs: list[tuple[str, str]]) -> Iterator[str]:
    counts = tally["pairs"]["changed"]
    holes: dict[str, list[str]] = {}
    for (a, b), count in zip(pairs, counts, strict=True):
        if count < ENOUGH:
            holes.setdefault(a, []).append(f"{b} ({count})")
    if not holes:
        yield f"None: each of {len(pairs):,} pairs is in {min(counts):,} programs or more that a pass changed."
    else:
        yield f"{sum(map(len, holes.values())):,} of {len(pairs):,} pairs, with the programs of each that a pass changed:\n"
    for a, others in holes.items():
        yield f"- {a} and {', '.join(others)}"
    apart = sum(not count for count in tally["pairs"]["together"])
    yield f"\n{apart:,} pairs never were in launches that became one, most of them beside what is not joined at all."
    yield "\nPairs that the language excludes:\n"
    reasons: dict[tuple[str, str], list[str]] = {}
    for (a, b), reason in zip(tally["excluded"], tally["reasons"], strict=True):
        reasons.setdefault((b, reason), []).append(a)
    for (b, reason), others in reasons.items():
        yield f"- {b} and {', '.join(others)}: {reason}"


def _matrix(tally: dict[str, Any], names: list[str], pairs: list[tuple[str, str]]) -> Iterator[str]:
    """A line a feature: for each feature before it, the programs with both that a pass changed."""
    counts = dict(zip(pairs, tally["pairs"]["changed"], strict=True))
    yield "Programs that a pass changed, for each pair; a column is the feature of that number.\n"
    yield "```text"
    width = max(len(str(count)) for count in counts.values()) + 1
    for number, name in enumerate(names):
        cells = [counts.get((other, name)) for other in names[:number]]
        row = "".join(f"{'-' if count is None else count:>{width}}" for count in cells)
        yield f"{number + 1:>2} {name:<22}{row}".rstrip()
    yield "```"


if __name__ == "__main__":
    print(page(tallies()), end="")
