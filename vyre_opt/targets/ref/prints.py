"""`debug_print`: keeps what lanes print until the launch ends, and then sorts it by invocation."""

from __future__ import annotations

from collections.abc import Sequence

from ...execution.debug_prints import PrintedLines
from ...ir.print_format import Lane, format_line
from ...ir.program import Op, Program
from ...lowering.common.print_records import capacity, prints_of
from .frame import Frame

__all__ = ["PrintLog"]

Values = Sequence[Lane | Sequence[Lane]]


class PrintLog:
    """The prints of a launch: `count` in all, of which the first are kept, as many as compiled targets keep."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.left = capacity(prints_of(program))
        self.count = 0
        self.entries: list[tuple[int, Op, Values]] = []

    def add(self, frame: Frame, op: Op) -> None:
        """A print by all lanes of a frame."""
        kept = min(self.left, frame.size)
        self.count += frame.size
        self.left -= kept
        columns = [frame.spread(frame.get(value))[:kept].tolist() for value in op.operands]
        values: Sequence[Values] = list(zip(*columns, strict=True)) if columns else [()] * kept
        invocations = frame.invocations[:kept].tolist()
        self.entries += zip(invocations, [op] * kept, values, strict=True)

    def lines(self) -> PrintedLines:
        """Lines in the order of invocations; the lines of one invocation keep their order."""
        lines = []
        for _, op, values in sorted(self.entries, key=lambda entry: entry[0]):
            lines.append(format_line(op.attrs["format"], [value.type for value in op.operands], values))
        return PrintedLines(self.program.name, lines, self.count)
