"""A progress bar on stderr, drawn by click, for what runs longer than a second."""

from __future__ import annotations

import sys
from threading import Event, Thread
from time import perf_counter

__all__ = ["ProgressBar"]

DELAY = 1.0
PERIOD = 0.1
MAX_LABEL = 48
WIPE = "\r\x1b[K\x1b[?25h"
"""Clears the line, and shows the cursor again, which click hides while it draws."""


class ProgressBar:
    """`with ProgressBar("tuning math.softmax", total=105) as bar: bar.update(3)`.

    Without a `total` the bar only shows that time passes.  Nothing is drawn in the first `delay` seconds,
    nor where stderr is no terminal; at the end the bar is wiped.
    """

    def __init__(self, label: str, total: int | None = None, delay: float = DELAY) -> None:
        self.label = label if len(label) <= MAX_LABEL else label[: MAX_LABEL - 3] + "..."
        self.total = total
        self.delay = delay
        self.done = 0
        self._finished = Event()
        self._thread: Thread | None = None

    def __enter__(self) -> ProgressBar:
        if sys.stderr is not None and sys.stderr.isatty():
            # a thread of its own: a dispatch does not return to Python before it is done
            self._thread = Thread(target=self._draw, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self.end()

    def end(self) -> None:
        """Wipe the bar, and draw it no more."""
        self._finished.set()
        if self._thread is not None:
            self._thread.join()

    def update(self, done: int) -> None:
        """`done` of the total."""
        self.done = done

    def _draw(self) -> None:
        started = perf_counter()
        if self._finished.wait(self.delay):
            return
        from itertools import count

        import click

        bar = click.progressbar(
            count() if self.total is None else range(self.total),
            label=self.label,
            file=sys.stderr,
            bar_template="%(label)s [%(bar)s] %(info)s",
            fill_char="=",
            empty_char=" ",
            width=24,
            show_eta=False,
            show_pos=self.total is not None,
            item_show_func=lambda _: f"{perf_counter() - started:.1f} s",
            update_min_steps=0,  # redraw the seconds when nothing new is done
        )
        try:
            while not self._finished.wait(PERIOD):
                bar.update(1 if self.total is None else self.done - bar.pos)
            sys.stderr.write(WIPE)
            sys.stderr.flush()
        except (OSError, ValueError):  # a closed terminal is no reason to stop
            pass
