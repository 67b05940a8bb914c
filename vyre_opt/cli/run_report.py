"""Reports of vyre-run: a summary of each output, where outputs differ, how long launches took."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import field
from itertools import zip_longest
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
from blake3 import blake3

from ..execution.arrays import bits_type
from ..execution.dispatcher import Dispatcher, DispatchError
from ..execution.plans.steps import HostReadStep
from ..execution.plans.watch import Times
from ..execution.target import as_target
from ..ir.literals import show
from ..ir.program import Buffer
from ..ir.shapes import show_shape
from ..ir.types import DataType
from ..records import dataclass
from .errors import ToolError
from .reports import Stopwatch
from .run_buffers import AnyExecutable
from .run_options import RunOptions

if TYPE_CHECKING:
    from ..driver.call_report import CallReport

__all__ = ["HostReads", "as_float", "book_compilations", "compare", "launch_table", "speeds", "summary"]

SHOWN_VALUES = 8
SHORT = 0.25
"""Seconds of launches of a run that is run again to measure it."""
CHECKSUM_DIGITS = 16
MAX_COMPARED_BYTES = 1 << 28
"""Most bytes of host reads that are in memory for a comparison."""
ARRAY_BYTES = 128
"""Bytes of an array beside its elements, roughly: a pipeline may read one element 10^12 times."""


def summary(buffer: Buffer, array: np.ndarray) -> str:
    """`@y : f32[4] = 0.0 1.0 2.0 3.0 (blake3 1f3870be274f6c49)`; the checksum is of the raw bytes."""
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    checksum = blake3(little.tobytes()).hexdigest()[:CHECKSUM_DIGITS]
    shape = array.shape[: buffer.dimensions]
    elements = array.reshape(prod(shape), *array.shape[buffer.dimensions :])
    values = [_text(element, buffer.dtype) for element in elements[:SHOWN_VALUES]]
    if len(elements) > SHOWN_VALUES:
        values.append("...")
    return f"@{buffer.name} : {buffer.dtype}[{show_shape(shape)}] = {' '.join(values)} (blake3 {checksum})"


def book_compilations(dispatcher: Dispatcher, clock: Stopwatch) -> float:
    """Adds a row for each program compiled, or read from the cache, since the last call; returns their seconds."""
    compilations = as_target(dispatcher).compilations
    total = 0.0
    while compilations:
        entry = compilations.popleft()
        step = f"read {entry.name} from the cache" if entry.cached else f"compile {entry.name}"
        clock.add(step, entry.seconds)
        total += entry.seconds
    return total


def _text(element: np.ndarray, dtype: DataType) -> str:
    if dtype.is_vec:
        return f"[{', '.join(_text(lane, dtype.element) for lane in element)}]"
    if dtype.kind in ("bool", "uint", "int"):
        return show(int(element), dtype)
    bits = int(np.asarray(element).reshape(1).view(bits_type(dtype))[0])
    return show(bits, dtype) if dtype.kind == "float" else f"0x{bits:02x}"


@dataclass(slots=True)
class HostReads:
    """The `host_read`s of buffers that are written again afterwards; the others are among the outputs.

    `buffers`: by name.  `show`: called with a summary of each read as it comes, except of the buffers in
    `files`, which are written to files.  With `compares`, `seen` and `arrays` have the buffer and the contents of
    the first reads, as many as `MAX_COMPARED_BYTES` hold, and `left_out` counts the others.
    """

    buffers: dict[str, Buffer]
    files: frozenset[str] = frozenset()
    show: Callable[[str], None] | None = None
    compares: bool = False
    seen: list[Buffer] = field(default_factory=list)
    arrays: list[np.ndarray] = field(default_factory=list)
    left_out: int = 0
    _bytes: int = 0

    def see(self, read: HostReadStep, array: np.ndarray) -> None:
        if read.is_final:
            return
        buffer = self.buffers[read.buffer]
        if self.show is not None and buffer.name not in self.files:
            self.show(f"host_read {summary(buffer, array)}")
        if self.compares:
            self._bytes += array.nbytes + ARRAY_BYTES
            if self._bytes > MAX_COMPARED_BYTES:
                self.left_out += 1
                return
            self.seen.append(buffer)
            self.arrays.append(array)

    def omission(self) -> str:
        """Part that a comparison left out, for the end of its report; empty if it left out nothing."""
        if not self.left_out:
            return ""
        reads = "1 host read" if self.left_out == 1 else f"{self.left_out} host reads"
        return f"; {reads} after the first {len(self.seen)} not compared"


def launch_table(times: Times, report: CallReport | None) -> str:
    """Two lines for each launch, or graph of them: seconds in all, how often, what and where; and how fast that is."""
    lines = [f"{'seconds':>10}  {'times':>6}  launch"] if times.rows else []
    timings = () if report is None else report.timings
    for row, timing in zip_longest(times.rows.values(), timings):
        where = f"  {row.loc}" if row.loc else ""
        lines.append(f"{row.seconds:10.6f}  {row.count:6}  {row.what}{where}")
        if timing is not None:
            lines.append(f"{'':20}{timing}")
    lines += [f"note: {note}" for note in dict.fromkeys(times.notes)]
    return "".join(f"{line}\n" for line in lines)


def speeds(
    executable: AnyExecutable, arguments: Sequence[Any], times: Times, options: RunOptions
) -> CallReport | None:
    """Speed of the launches of a run beside a copy; a short run is run again some times, of which the medians count.

    `times`: of the first run.  None where the program does something else when it runs again.
    """
    params, rounds = dict(options.param), [times]
    try:
        if sum(row.seconds for row in times.rows.values()) < SHORT:
            rounds = executable.rounds(arguments, options.grid, params)
        return executable.report_on(arguments, options.grid, params, rounds) if times.rows else None
    except DispatchError:
        return None


@dataclass(slots=True)
class Comparison:
    """Comparison of a buffer: the number of arrays and scalars, the number that differ, and the largest difference.

    `unequal`: scalars of other bits, `different`: those beyond the tolerance.  `first` says where the first of these is.
    `largest`, `relative`: the largest difference of two numbers, and that relative to the expected one.
    """

    buffer: Buffer
    arrays: int = 0
    scalars: int = 0
    unequal: int = 0
    different: int = 0
    first: str = ""
    largest: float = 0.0
    relative: float = 0.0

    def add(
        self, output: np.ndarray, reference: np.ndarray, tolerance: float, sides: tuple[str, str]
    ) -> None:
        dtype = self.buffer.dtype.element
        output, reference = output.reshape(-1), reference.reshape(-1)
        bits = bits_type(dtype)
        unequal = np.flatnonzero(output.view(bits) != reference.view(bits))
        self.arrays += 1
        self.scalars += output.size
        self.unequal += unequal.size
        if not unequal.size:
            return
        a, b = output[unequal], reference[unequal]
        self._measure(a, b)
        different = np.flatnonzero(_differ(a, b, dtype, tolerance))
        self.different += different.size
        if different.size and not self.first:
            at = int(different[0])
            element, lane = divmod(int(unequal[at]), self.buffer.dtype.lanes)
            element_text = f"[{element}]" + (f"[{lane}]" if self.buffer.dtype.is_vec else "")
            self.first = f"{element_text}: {_text(a[at], dtype)} {sides[0]}, {_text(b[at], dtype)} {sides[1]}"

    def _measure(self, output: np.ndarray, reference: np.ndarray) -> None:
        """Note the largest differences of numbers; what is no number, or infinite, has none."""
        dtype = self.buffer.dtype.element
        if dtype.kind == "float":
            a, b = as_float(output, dtype.name), as_float(reference, dtype.name)
        elif dtype.is_int:
            a, b = output.astype(np.float64), reference.astype(np.float64)
        else:
            return
        with np.errstate(all="ignore"):
            difference = np.abs(a - b)
            relative = difference / np.abs(b)
        for name, values in (("largest", difference), ("relative", relative)):
            finite = values[np.isfinite(values)]
            setattr(self, name, max(getattr(self, name), float(finite.max(initial=0.0))))

    def text(self, tolerance: float) -> str:
        """A line about it."""
        buffer, several = self.buffer, f" in {self.arrays} reads" if self.arrays > 1 else ""
        head = f"@{buffer.name} : {buffer.dtype}, "
        extent = f"{self.scalars} values{several}"
        most = f"largest difference {self.largest:.6g}, relative {self.relative:.3g}"
        if self.different:
            return f"@{buffer.name}: {self.different} of {extent} differ, first {self.first}; {most}"
        if not self.unequal:
            return f"{head}{extent}: equal in every bit"
        if not tolerance or self.buffer.dtype.element.kind != "float":
            return f"{head}{extent}: equal in every bit but those of NaNs"
        return f"{head}{extent}: within the relative tolerance {tolerance:g}; {most}"


def compare(
    buffers: Sequence[Buffer],
    outputs: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    tolerance: float,
    sides: tuple[str, str] = ("here", "there"),
) -> list[str]:
    """A line for each buffer that says what was compared, and how far the contents differ.

    `sides`: where `outputs` and `expected` are from.  Raises ToolError that shows the first difference of each buffer
    beyond the tolerance.
    """
    comparisons: dict[str, Comparison] = {}
    for buffer, output, reference in zip(buffers, outputs, expected, strict=True):
        comparison = comparisons.setdefault(buffer.name, Comparison(buffer))
        comparison.add(output, reference, tolerance, sides)
    if any(comparison.different for comparison in comparisons.values()):
        lines = [c.text(tolerance) for c in sorted(comparisons.values(), key=lambda c: not c.different)]
        raise ToolError("the outputs differ\n  " + "\n  ".join(lines))
    return [comparison.text(tolerance) for comparison in comparisons.values()]


def _differ(output: np.ndarray, reference: np.ndarray, dtype: DataType, tolerance: float) -> np.ndarray:
    """A mask of the scalars that differ: in their bits and, for floats, by more than the relative `tolerance`."""
    bits = bits_type(dtype)
    different: np.ndarray = output.view(bits) != reference.view(bits)
    if dtype.kind != "float" or not different.any():
        return different
    a, b = as_float(output, dtype.name), as_float(reference, dtype.name)
    with np.errstate(all="ignore"):
        near = np.abs(a - b) <= tolerance * np.abs(b)
    # any NaN is as good as another; else every bit counts without a tolerance, the sign of zero too
    both_nan = np.isnan(a) & np.isnan(b)
    different &= ~both_nan
    if tolerance:
        different &= ~near
    return different


def as_float(array: np.ndarray, name: str) -> np.ndarray:
    """The values of float scalars of type `name` as f64."""
    if name == "bf16":  # its bits in u16: the upper half of an f32
        return (array.astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    return array.astype(np.float64)
