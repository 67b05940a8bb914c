"""Pages of the site that are made of recorded measurements, in docs/generated:  python docs/generated_pages.py

conf.py calls this, so that `make docs` and CI have them.  They are not in the checkout.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

__all__ = ["COMMANDS", "FOLDER", "page"]

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "docs/generated"

COMMANDS = {
    "benchmarks": ("bench/report.py",),
    "features": ("docs/features_page.py",),
    "mutants": ("test/mutants", "--page"),
    "refuted": ("docs/refuted_page.py",),
    "rules": ("docs/rules_page.py",),
}
"""The script that prints each page."""


def page(name: str) -> str:
    """The text of a page.  Raises CalledProcessError where its script fails."""
    command = [sys.executable, *COMMANDS[name]]
    return subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True).stdout


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in COMMANDS:
        (FOLDER / f"{name}.md").write_text(page(name), encoding="utf-8")
