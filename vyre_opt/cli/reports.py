"""`--timing`, `--stats` and `--print-op-stats`: tables on stderr."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from time import perf_counter

from ..ir.pipeline import KernelStage, Pipeline, Stage
from ..ir.program import Module

__all__ = ["Stopwatch", "op_statistics", "statistics_table"]

STAGES = {"Launch": "launch", "Fill": "fill", "HostRead": "host_read", "Repeat": "repeat"}


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


def op_statistics(module: Module, as_json: bool = False) -> str:
    """Number of ops of each name, or of stages of each kind, in every item and in the whole module."""
    counts = list(_op_counts(module))
    total: Counter[str] = sum((counter for _, _, counter in counts), Counter())
    if as_json:
        items = [{"kind": kind, "name": name, "ops": dict(_ordered(c))} for kind, name, c in counts]
        return json.dumps({"items": items, "total": dict(_ordered(total))}) + "\n"
    tables = [_count_table(f"{kind} @{name}", counter) for kind, name, counter in counts]
    return "".join([*tables, *([] if len(counts) == 1 else [_count_table("the module", total)])])


def _op_counts(module: Module) -> Iterator[tuple[str, str, Counter[str]]]:
    """(kind, name, counts) of each item."""
    for item in module.order:
        if isinstance(item, Pipeline):
            counter = Counter(map(_stage_name, item.walk()))
        else:
            counter = Counter(op.name for op in item.walk())
        yield type(item).__name__.lower(), item.name, counter


def _stage_name(stage: Stage) -> str:
    return stage.kernel if isinstance(stage, KernelStage) else STAGES[type(stage).__name__]


def _ordered(counter: Counter[str]) -> list[tuple[str, int]]:
    """The most frequent first, and by name."""
    return sorted(counter.items(), key=lambda row: (-row[1], row[0]))


def _count_table(title: str, counter: Counter[str]) -> str:
    rows = "".join(f"{number:>10}  {name}\n" for name, number in _ordered(counter))
    return f"ops of {title}: {counter.total()}\n{rows}"
