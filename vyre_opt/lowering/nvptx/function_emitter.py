"""The body of a kernel or function in the making, for one invocation.

A value of the language is a tuple of LLVM values, one for each lane of a vector: LLVM
scalarises vectors on a GPU anyway, and only memory accesses profit from being wide.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ...analysis.alignment import Alignment
from ...ir.diagnostics import Diagnostic, DiagnosticError
from ...ir.program import Block, Func, Op, Program, Value
from ...ir.types import DataType
from ..common.guards import ArithmeticGuards
from ..common.lane_shape import carrier
from ..common.llvm_text import ModuleText, Writer
from .abi import FaultSite
from .targets import GpuTarget

__all__ = ["FunctionEmitter", "KernelContext", "Elements", "BufferRef", "RunBlock", "refuse"]

Elements = tuple[str, ...]
"""The LLVM values of one value of the language, of the carrier type of its element type."""

NO_METADATA = "!0"
"""The empty metadata node that `!invariant.load` points to."""


@dataclass(frozen=True, slots=True)
class BufferRef:
    """Where a buffer is: its pointer, address space, and count of elements (a name or a number).

    `is_constant`: nothing writes it while the kernel runs.
    """

    pointer: str
    space: int
    count: str
    is_constant: bool

    @property
    def type(self) -> str:
        return f"ptr addrspace({self.space})"

    @property
    def scope(self) -> str:
        """How far an atomic access must be seen."""
        return "block" if self.space == 3 else "device"


@dataclass(slots=True)
class KernelContext:
    """What a program's body and the functions that it calls share.

    `proven`: the accesses that are sure to be in bounds.  `is_cluster`: the whole grid is one
    cluster of workgroups.
    """

    program: Program
    funcs: Mapping[str, Func]
    specs: Mapping[str, Any]
    target: GpuTarget
    bounds: str
    text: ModuleText
    buffers: dict[str, BufferRef]
    proven: set[Op]
    alignment: Alignment
    guards: ArithmeticGuards
    may_fault: bool
    sites: list[FaultSite] = field(default_factory=list)
    prefix: str = ""
    is_cluster: bool = False


class FunctionEmitter:
    """One LLVM function: the writer, the values so far, and the branches to its fault block."""

    def __init__(self, context: KernelContext) -> None:
        self.context = context
        self.w = Writer(context.text)
        self.values: dict[Value, Elements] = {}
        self.faults: list[tuple[str, int, str, str]] = []

    def get(self, value: Value) -> Elements:
        return self.values[value]

    def scalar(self, value: Value) -> str:
        (found,) = self.values[value]
        return found

    def set(self, op: Op, *elements: str) -> None:
        """Give the only result of `op` its value."""
        self.values[op.results[0]] = elements

    # --- phis, whose incoming values are known only later

    def reserve_phi(self, dtype: DataType) -> tuple[int, str]:
        """Keep a line for a phi at the start of a block: its number, and the phi's name."""
        name = self.w.fresh()
        self.w.lines.append("")
        return len(self.w.lines) - 1, name

    def set_phi(self, line: int, name: str, dtype: DataType, incoming: Sequence[tuple[str, str]]) -> None:
        pairs = ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)
        self.w.lines[line] = f"  {name} = phi {carrier(dtype)} {pairs}"

    def merge(self, results: Sequence[Value], predecessors: Sequence[tuple[Sequence[Elements], str]]) -> None:
        """Phis at the start of the current block: for each way in, the values and the block it comes from."""
        for number, result in enumerate(results):
            lanes = range(result.type.lanes)
            kind = carrier(result.type.element)
            self.values[result] = tuple(
                self.w.phi(kind, [(values[number][lane], block) for values, block in predecessors])
                for lane in lanes
            )

    # --- faults

    def fault_if(self, condition: str, op: Op, kind: str, index: str, length: str, width: int = 1) -> None:
        """Where an i1 holds, leave a record (index and length are i64) and end the invocation."""
        going, staying = self.w.label("fault"), self.w.label("fine")
        self.w.branch_if(condition, going, staying)
        self.w.start(going)
        self.fault(op, kind, index, length, width)
        self.w.start(staying)

    def fault(self, op: Op, kind: str, index: str = "0", length: str = "0", width: int = 1) -> None:
        """Leave a record and end the invocation; a new block must follow."""
        assert self.context.may_fault, f"{op.name} was not expected to fault"
        self.context.sites.append(FaultSite(op, kind, width))
        self.faults.append((self.w.block, len(self.context.sites), index, length))
        self.w.branch("faulted")

    def __str__(self) -> str:
        return "\n".join(self.w.lines)


RunBlock = Callable[[FunctionEmitter, Block], list[Elements]]
"""Writes the ops of a block; the values that its terminator yields."""


def refuse(message: str, op: Op, help: str | None = None) -> DiagnosticError:
    """An error at an op that cannot be lowered."""
    return DiagnosticError([Diagnostic("error", message, op.loc, help=help)])
