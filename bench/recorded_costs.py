"""Recorded costs: every configuration of a space, as measured on some device.

A recording has several rounds, in each of which every configuration ran, in turn.  A tuner
is shown the odd rounds, and judged by the even ones, so that luck in what it saw does not count.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import median

from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.tuning.measure import INFINITE, Bench
from vyre_opt.tuning.space import Space

__all__ = ["RECORDINGS", "RecordedBench", "Recording", "load_recording", "record", "recordings"]

RECORDINGS = Path(__file__).parent / "recordings"
FORMAT = 1


@dataclass(frozen=True, eq=False)
class Recording:
    """`samples`: seconds of each configuration in each round; none where it failed, for the reason in
    `failures`.  `default`: the index of the configuration that is used without tuning."""

    workload: str
    device: str
    target: str
    date: str
    space: Space
    samples: list[list[float]]
    failures: Mapping[int, str]
    default: int
    versions: Mapping[str, str] = field(default_factory=dict)

    @cached_property
    def truth(self) -> list[float]:
        """What each configuration costs: the median of the even rounds."""
        return [median(rounds[0::2]) if rounds else INFINITE for rounds in self.samples]

    @cached_property
    def shown(self) -> list[list[float]]:
        """The odd rounds."""
        return [rounds[1::2] for rounds in self.samples]

    @property
    def best(self) -> float:
        return min(self.truth)

    @property
    def rounds(self) -> int:
        """How many rounds of a configuration a tuner is shown."""
        return max(map(len, self.shown))

    def to_json(self) -> str:
        """A line a configuration: its values by factor, then its samples in nanoseconds."""
        names = list(self.space.factors)
        head = {
            "format": FORMAT,
            "workload": self.workload,
            "device": self.device,
            "target": self.target,
            "date": self.date,
            "versions": dict(self.versions),
            "default": self.default,
            "failures": {str(k): why for k, why in self.failures.items()},
            "factors": names,
        }
        lines = [
            json.dumps([[config.get(n) for n in names], [round(s * 1e9, 1) for s in rounds]])
            for config, rounds in zip(self.space.configs, self.samples, strict=True)
        ]
        return json.dumps(head, indent=1)[:-2] + ',\n "configs": [\n  ' + ",\n  ".join(lines) + "\n ]\n}\n"


def load_recording(path: Path) -> Recording:
    """Raises BadInputs for a file that is no recording."""
    try:
        document = json.loads(path.read_text(encoding="utf-8"))
        if document["format"] != FORMAT:
            raise BadInputs(f"{path}: format {document['format']} is not {FORMAT}")
        names = document["factors"]
        configs = [
            {n: value for n, value in zip(names, values, strict=True) if value is not None}
            for values, _ in document["configs"]
        ]
        samples = [[ns / 1e9 for ns in rounds] for _, rounds in document["configs"]]
        failures = {int(k): why for k, why in document["failures"].items()}
        space = Space([{name: (value,) for name, value in config.items()} for config in configs])
        return Recording(
            document["workload"],
            document["device"],
            document["target"],
            document["date"],
            space,
            samples,
            failures,
            document["default"],
            document["versions"],
        )
    except (OSError, KeyError, TypeError, ValueError) as error:
        if isinstance(error, BadInputs):
            raise
        raise BadInputs(f"{path} is not a recording: {type(error).__name__}: {error}") from None


def recordings(folder: Path = RECORDINGS) -> Iterator[Recording]:
    """Those that are shipped, by file name."""
    for path in sorted(folder.glob("*.json")):
        yield load_recording(path)


def record(bench: Bench, space: Space, rounds: int, least_of: int = 1) -> list[list[float]]:
    """Samples of every configuration, exhaustively.

    `least_of`: each sample is the least of so many rounds, for a machine that is never idle.
    """
    samples: list[list[float]] = [[] for _ in space.configs]
    for _ in range(rounds):
        turns = [bench.samples(range(len(space)), 1) for _ in range(least_of)]
        for pick, seconds in enumerate(zip(*turns, strict=True)):
            samples[pick] += [min(each[0] for each in seconds)] if all(seconds) else []
    return [[] if pick in bench.failures else seconds for pick, seconds in enumerate(samples)]


class RecordedBench(Bench):
    """A bench that returns recorded samples, in order; after the last one, from the first again."""

    def __init__(self, recording: Recording) -> None:
        self.recording = recording
        self.failures: dict[int, str] = dict(recording.failures)
        self._used: dict[int, int] = {}

    def samples(self, picks: Sequence[int], rounds: int) -> list[list[float]]:
        return [self._next(pick, rounds) for pick in picks]

    def _next(self, pick: int, rounds: int) -> list[float]:
        shown = self.recording.shown[pick]
        if not shown:
            return []
        start = self._used.get(pick, 0)
        self._used[pick] = start + rounds
        return [shown[(start + k) % len(shown)] for k in range(rounds)]
