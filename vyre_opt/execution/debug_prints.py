"""Prints of programs: lines in the order of workgroups, of invocations in one, and of an invocation's prints.

    ref        logs prints as it runs them           \
    cpu, cuda  read records that the program stored  -- `PrintedLines` --deliver--> the handler, by default print()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING

from ..ir import arith
from ..ir.print_format import Lane, format_line
from ..ir.program import Program
from ..ir.types import DataType
from ..records import dataclass
from ..worker import import_module

if TYPE_CHECKING:
    import numpy as np

__all__ = ["PrintedLines", "hand_over", "on_debug_print", "read_records"]

Handler = Callable[[str], object]
_handler: ContextVar[Handler] = ContextVar("debug_print", default=print)


@contextmanager
def on_debug_print(handler: Handler) -> Iterator[None]:
    """Give each line that programs print in the with block to a function, in place of printing it on stdout.

    `with on_debug_print(lines.append): f(x)`.  It holds for calls of the thread that entered the block.  A line has no
    line break at its end.  Raises TypeError for what is no function.
    """
    if not callable(handler):
        raise TypeError(f"on_debug_print takes a function of a line, not {type(handler).__name__}")
    token = _handler.set(handler)
    try:
        yield
    finally:
        _handler.reset(token)


def hand_over(lines: Iterable[str]) -> None:
    """Call the handler with each line."""
    handler = _handler.get()
    for line in lines:
        handler(line)


@dataclass(frozen=True, slots=True)
class PrintedLines:
    """Prints of a launch of `program`: `lines`, in order, of `count` prints in all."""

    program: str
    lines: Sequence[str]
    count: int

    def deliver(self) -> None:
        """Hand the lines to the handler, and one about those that were left out."""
        hand_over(self.lines)
        left_out = self.count - len(self.lines)
        if left_out:
            lines = f"{left_out:,} more line{'s' * (left_out != 1)}"
            hand_over([f"... and {lines} of @{self.program}: a launch keeps {len(self.lines):,}"])


def read_records(program: Program, words: np.ndarray) -> PrintedLines:
    """The lines of the records that a launch left in its buffer (see `lowering.common.print_records`)."""
    import_module("vyre_opt.lowering.common.print_records")
    from ..lowering.common.print_records import prints_of, record_words

    prints = prints_of(program)
    length = record_words(prints)
    count = int(words[0])
    records = words[1:].reshape(-1, length)[:count]
    # a stable sort, so that the records of an invocation keep the order of their slots
    order = records[:, 1].argsort(kind="stable")
    lines = []
    for number, _, *operands in records[order].tolist():
        op = prints[number]
        types = [value.type for value in op.operands]
        lines.append(format_line(op.attrs["format"], types, _values(types, operands)))
    return PrintedLines(program.name, lines, count)


def _values(types: Sequence[DataType], words: Sequence[int]) -> list[Lane | list[Lane]]:
    values: list[Lane | list[Lane]] = []
    at = 0
    for dtype in types:
        lanes = [_decoded(word, dtype.element) for word in words[at : at + dtype.lanes]]
        values.append(lanes if dtype.is_vec else lanes[0])
        at += dtype.lanes
    return values


def _decoded(word: int, dtype: DataType) -> Lane:
    if dtype.is_float:
        return arith.decode_float(word, dtype)
    return bool(word) if dtype.is_bool else arith.wrap(word, dtype)
