"""A use of a shipped kernel: its program, inputs, grid, and what must come out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from vyre_opt.execution.dispatcher import Dispatcher
from vyre_opt.ir import DataType, Program

__all__ = ["KernelCase", "Use", "bf16_bits", "widened"]

Array = np.ndarray[Any, Any]


@dataclass(frozen=True, slots=True)
class Use:
    """A program to run, and the result to expect.

    `inputs`: in binding order, output buffers included.  `expected`: the only output, as an independent
    implementation computes it; each element may differ by `bound`, and NaN equals only NaN.  `read` makes one
    array of several outputs.  `params`: the runtime scalars.  `order_varies`: in which order floats are added depends on
    timing, so two runs may differ, each within the bound.
    """

    program: Program
    inputs: Sequence[Any]
    grid: int
    expected: Array
    bound: Array | float = 0.0
    read: Callable[[Sequence[Array]], Array] | None = None
    params: Mapping[str, int] | None = None
    order_varies: bool = False

    def mismatch(self, target: Dispatcher) -> str:
        """Where the target's result is beyond the bound, in words; "" if nowhere.  Raises DispatchError."""
        outputs = target.dispatch(self.program, self.inputs, self.grid, params=self.params)
        out = next(b for b in self.program.bound_buffers if b.is_output)
        (stored,) = [self.read(outputs)] if self.read else outputs
        actual = widened(stored) if out.dtype is DataType.BF16 else stored
        if actual.shape != self.expected.shape:
            return f"@{out.name} has shape {actual.shape}, not {self.expected.shape}"
        wrong = np.flatnonzero(~self._agrees(actual))
        if not len(wrong):
            return ""
        at = wrong[0]
        return f"@{out.name}[{at}] is {actual[at]}, not {self.expected[at]} ({len(wrong)} of {actual.size} differ)"

    def _agrees(self, actual: Array) -> Array:
        if actual.dtype.kind != "f":
            return np.asarray(actual == self.expected)
        wide = actual.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(wide - self.expected) <= self.bound
        agrees: Array = near | (wide == self.expected) | (np.isnan(wide) & np.isnan(self.expected))
        return agrees


@dataclass(frozen=True, slots=True)
class KernelCase:
    """`kernel`: the op's name, or decode_scan, which is no op; `what` tells the cases of one kernel apart.

    `make` builds the use anew at each call, so that a list of cases costs nothing.  `waits`: workgroups wait for
    later ones, so that all must run at once, as on ref and on a GPU.
    """

    kernel: str
    what: str
    make: Callable[[], Use]
    waits: bool = False

    @property
    def name(self) -> str:
        return f"{self.kernel} {self.what}"


def bf16_bits(x: Array) -> Array:
    """f32 cut off to bf16, in storage form."""
    return (np.asarray(x, np.float32).view(np.uint32) >> 16).astype(np.uint16)


def widened(bits: Array) -> Array:
    """The f32 values of bf16 in storage form."""
    return (bits.astype(np.uint32) << 16).view(np.float32)
