"""The page of refuted mistakes, made from docs/results/refuted_mistakes.json:  python docs/refuted_page.py

`make certify-mistakes` writes the JSON.
"""

from __future__ import annotations

import json
from pathlib import Path

__all__ = ["page"]

RESULTS = Path(__file__).parent / "results/refuted_mistakes.json"

_INTRO = """\
# Mistakes that are refuted

Mistakes planted in analyses and passes, each with a text of which a pass then makes a wrong program
([certify.md](../explanation/certify.md#mistakes-that-are-refuted)).  `z3`: an obligation fails.  `a call, z3`: z3 leaves
the decision unknown, and a call is found.  `a call`: a pass of which nothing is proved.
"""


def page(path: Path = RESULTS) -> str:
    """The whole page."""
    results = json.loads(path.read_text(encoding="utf-8"))
    rows = [
        f"| {row['mistake']} | `{row['in']}` | {row['certified']} | `{row['by']}` | {row['witness']} |"
        for row in results["rows"]
    ]
    return "\n".join(
        [
            _INTRO,
            results["said"] + "\n",
            "| Mistake | In | Certified | By | Witness |",
            "|---|---|---|---|---|",
            *rows,
            "",
        ]
    )


if __name__ == "__main__":
    print(page(), end="")
