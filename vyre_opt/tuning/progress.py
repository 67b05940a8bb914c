"""A bar on the terminal that says how much of the budget is spent."""

from __future__ import annotations

import sys
from time import perf_counter

__all__ = ["Bar"]

WIDTH = 24
WIPE = "\r\x1b[K"


class Bar:
    """`with Bar("math.softmax", enabled=True) as bar: bar.show(3, 21)`; wiped at the end."""

    def __init__(self, label: str, enabled: bool) -> None:
        self.label = label if len(label) <= 40 else label[:37] + "..."
        self.enabled = enabled
        self.started = perf_counter()

    def __enter__(self) -> Bar:
        return self

    def __exit__(self, *failure: object) -> None:
        self._write(WIPE)

    def show(self, done: int, of: int) -> None:
        """`done` measurements of a budget `of` so many."""
        filled = WIDTH * done // max(1, of)
        taken = perf_counter() - self.started
        self._write(f"\rtuning {self.label} [{'=' * filled:<{WIDTH}}] {done}/{of} {taken:.1f} s")

    def _write(self, text: str) -> None:
        if not self.enabled:
            return
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except (OSError, ValueError):  # a closed terminal is no reason to stop
            self.enabled = False
