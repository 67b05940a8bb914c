"""Asks whether texts are interesting: each once, several at a time if the test can run so, and only so many."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from itertools import islice
from typing import Protocol, TypeVar

from ..records import dataclass

__all__ = ["HasText", "InterestingnessTest", "Oracle", "OutOfTests", "FunctionTest", "RunningTest"]


class HasText(Protocol):
    @property
    def text(self) -> str: ...


class RunningTest(Protocol):
    """A test of one text that has begun."""

    def result(self) -> bool:
        """Wait for its end; whether the text is interesting."""

    def cancel(self) -> None:
        """End it; its result is of no more interest."""


class InterestingnessTest(Protocol):
    @property
    def jobs(self) -> int:
        """Number of trials that may run at a time."""

    def start(self, text: str) -> RunningTest: ...


class OutOfTests(Exception):
    """Error for the end of the tests that may run."""


@dataclass(frozen=True, slots=True)
class FunctionTest:
    """A function on texts as a test; it runs in this process."""

    is_interesting: Callable[[str], bool]
    jobs: int = 1

    def start(self, text: str) -> RunningTest:
        return _CachedAnswer(self.is_interesting(text))


@dataclass(frozen=True, slots=True)
class _CachedAnswer:
    answer: bool

    def result(self) -> bool:
        return self.answer

    def cancel(self) -> None:
        pass


V = TypeVar("V", bound=HasText)


class Oracle:
    """`tests`: how many have run.  `best`: the last interesting text, None before the first; `on_success` is called with each."""

    def __init__(
        self,
        test: InterestingnessTest,
        max_tests: int | None = None,
        on_success: Callable[[str], None] | None = None,
    ) -> None:
        self.test = test
        self.max_tests = max_tests
        self.on_success = on_success
        self.tests = 0
        self.best: str | None = None
        self._tried: set[int] = set()

    def first(self, variants: Iterator[V]) -> V | None:
        """The first variant that is interesting, in their order; None if none is.

        A text that has been tried before counts as not interesting: so reduction ends, and goes in no circle.
        Raises OutOfTests.
        """
        fresh = filter(self._is_new, variants)
        running: deque[tuple[V, RunningTest]] = deque()
        try:
            while True:
                for variant in islice(fresh, self.test.jobs - len(running)):
                    if self.max_tests is not None and self.tests >= self.max_tests:
                        if not running:
                            raise OutOfTests
                        self._tried.discard(hash(variant.text))
                        break
                    self.tests += 1
                    running.append((variant, self.test.start(variant.text)))
                if not running:
                    return None
                variant, trial = running.popleft()
                try:
                    is_interesting = trial.result()
                except BaseException:
                    trial.cancel()
                    raise
                if is_interesting:
                    self.best = variant.text
                    if self.on_success is not None:
                        self.on_success(variant.text)
                    return variant
        finally:
            for variant, trial in running:
                trial.cancel()
                self._tried.discard(hash(variant.text))

    def _is_new(self, variant: V) -> bool:
        key = hash(variant.text)
        if key in self._tried:
            return False
        self._tried.add(key)
        return True
