"""`--timing` and `--stats`: tables on stderr."""

from __future__ import annotations

from collections.abc import Mapping
from time import perf_counter

__all__ = ["Stopwatch", "statistics_table"]


class Stopwatch:
    """Wall seconds by step, for --timing.  `details`: text that is printed below the table."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self.details = ""
        self.last = perf_counter()

    def lap(self, step: str, less: float = 0.0) -> None:
        """Add the time since the last lap to `step`, without the `less` seconds that other steps have already."""
        now = perf_counter()
        self.add(step, max(0.0, now - self.last - less))
        self.last = now

    def add(self, step: str, seconds: float) -> None:
        self.seconds[step] = self.seconds.get(step, 0.0) + seconds

    def table(self) -> str:
        total = sum(self.seconds.values())
        rows = [*self.seconds.items(), ("total", total)]
        lines = [f"{'seconds':>10}  {'share':>6}  step"]
        lines += [f"{s:10.4f}  {100 * s / (total or 1):5.1f}%  {name}" for name, s in rows]
        return "\n".join(lines) + "\n"


def statistics_table(statistics: Mapping[tuple[str, str], int]) -> str:
    """One line a statistic: the number, the pass, what was counted."""
    rows = [(str(number), name, what) for (name, what), number in statistics.items()]
    if not rows:
        return "no statistics: no pass counted anything\n"
    width = max(len(number) for number, _, _ in rows)
    return "".join(f"{number:>{width}}  {name}: {what}\n" for number, name, what in rows)
