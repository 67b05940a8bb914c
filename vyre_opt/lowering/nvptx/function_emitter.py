"""Writes the body of one LLVM function, a kernel or a function that it calls, for one invocation.

A value of the language is a tuple of LLVM values, one for each lane of a vector: LLVM
scalarises vectors on a GPU anyway, and only memory accesses profit from being wide.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import field
from typing import Any

from ...analysis.alignment import Alignment
from ...analysis.value_forms import ValueForms
from ...ir.diagnostics import Location
from ...ir.program import Block, Func, Op, Program, Value
from ...ir.types import DataType
from ...records import dataclass
from ..common.lane_shape import carrier
from ..common.llvm_text import ModuleText, Writer
from .abi import FaultSite
from .copy_runs import CopyRuns
from .replicas import Replicas
from .targets import GpuTarget

__all__ = ["FunctionEmitter", "KernelContext", "Elements", "BufferRef", "RunBlock"]

Elements = tuple[str, ...]
"""The LLVM values of one value of the language, of the carrier type of its element type."""

NO_METADATA = "!0"
"""The empty metadata node that `!invariant.load` points to."""


@dataclass(frozen=True, slots=True)
class BufferRef:
    """A buffer in LLVM terms: its pointer, address space (1 global, 3 shared) and element count.

    `count` is an LLVM name (i64) or a number.  `is_constant`: nothing writes it while the kernel runs.  `row`: the elements of
    the row that this is, of a buffer of which a workgroup has its own row only; 0 for a whole buffer.
    """

    pointer: str
    space: int
    count: str
    is_constant: bool
    has_replicas: bool = False
    row: int = 0

    @property
    def type(self) -> str:
        return f"ptr addrspace({self.space})"

    @property
    def scope(self) -> str:
        """The LLVM syncscope of atomics on it."""
        return "block" if self.space == 3 else "device"


@dataclass(slots=True)
class KernelContext:
    """The state shared by a program's body and the functions that it calls.

    `specs`: the encoded values of the specialization constants.  `proven`: the accesses that are
    known to be in bounds.  `aggregated`: see subgroup_atomics.py.  `bases`: see BoundsProofs.  `is_cluster`: the whole grid is one cluster of workgroups.  `replicas`: see
    replicas.py; `mailbox` is then the pointer to the object that their barrier waits on.  `runs`: copies by the engine for bulk copies, and
    `ring` the pointer to their objects (see bulk_copies.py).  `free_shared`: bytes of static workgroup memory that
    are left, of which `exchanged` are used by subgroup_loads.py.  `buffers`, `params` (the LLVM name of each runtime scalar's word) and `sites` are filled in while the kernel is written.
    """

    program: Program
    funcs: Mapping[str, Func]
    specs: Mapping[str, Any]
    target: GpuTarget
    bounds: str
    text: ModuleText
    symbol: str
    proven: Container[Op]
    aggregated: Container[Op]
    bases: Mapping[Op, Mapping[int, tuple[Value, int]]]
    alignment: Alignment
    forms: ValueForms
    may_fault: bool
    is_cluster: bool
    replicas: Replicas | None
    mailbox: str = ""
    runs: CopyRuns | None = None
    ring: str = ""
    free_shared: int = 0
    exchanged: int = 0
    buffers: dict[str, BufferRef] = field(default_factory=dict)
    params: dict[str, str] = field(default_factory=dict)
    sites: list[FaultSite] = field(default_factory=list)


class FunctionEmitter:
    """One LLVM function: its writer, the LLVM values so far, and the branches to its fault block.

    `faults` has one entry for each branch: the block it goes to, the number of the fault site
    (i32, counted from 1), and the index, length and last word to record, all i64; open extents; and the place in the text.
    """

    def __init__(self, context: KernelContext) -> None:
        self.context = context
        self.w = Writer(context.text)
        self.values: dict[Value, Elements] = {}
        self.chains: dict[Value, Any] = {}
        """Products that are not written yet, by the first of their sums; see wgmma.py."""
        self.faults: list[tuple[str, str, str, str, str, tuple[str, ...], Location | None]] = []
        self.checked: set[Op] = set()
        """Accesses whose bounds were checked before; see checks.py."""

    def get(self, value: Value) -> Elements:
        return self.values[value]

    def scalar(self, value: Value) -> str:
        (element,) = self.values[value]
        return element

    def set(self, op: Op, *elements: str) -> None:
        """Give the only result of `op` its value."""
        self.values[op.results[0]] = elements

    # --- phis, whose incoming values are known only later

    def reserve_phi(self) -> tuple[int, str]:
        """Reserve a line for a phi at the start of a block; returns the line's number and the phi's name."""
        name = self.w.fresh()
        self.w.lines.append("")
        return len(self.w.lines) - 1, name

    def set_phi(self, line: int, name: str, dtype: DataType, incoming: Sequence[tuple[str, str]]) -> None:
        pairs = ", ".join(f"[ {value}, %{block} ]" for value, block in incoming)
        self.w.lines[line] = f"  {name} = phi {carrier(dtype)} {pairs}"

    def merge(self, results: Sequence[Value], predecessors: Sequence[tuple[Sequence[Elements], str]]) -> None:
        """Write the phis of `results` at the start of a block; for each predecessor, its values and label."""
        for number, result in enumerate(results):
            kind = carrier(result.type.element)
            self.values[result] = tuple(
                self.w.phi(kind, [(values[number][lane], block) for values, block in predecessors])
                for lane in range(result.type.lanes)
            )

    # --- faults

    def fault_if(self, condition: str, op: Op, kind: str, index: str, length: str, width: int = 1) -> None:
        """Record a fault (index and length are i64) and end the invocation, if an i1 is true."""
        failing, passing = self.w.label("fault"), self.w.label("fine")
        self.w.branch_if(condition, failing, passing)
        self.w.start(failing)
        self.fault(op, kind, index, length, width)
        self.w.start(passing)

    def fault(
        self,
        op: Op,
        kind: str,
        index: str = "0",
        length: str = "0",
        width: int = 1,
        *,
        last: str = "0",
        extents: tuple[str, ...] = (),
    ) -> None:
        """Record a fault and end the invocation; the caller must start a new block next.

        `last`, `extents`: i64, of which the low halves are recorded."""
        self.branch_to_fault(str(self.fault_site(op, kind, width)), index, length, last, extents)

    def branch_to_fault(
        self, site: str, index: str, length: str, last: str = "0", extents: tuple[str, ...] = ()
    ) -> None:
        """Write the branch to a fault block of its own."""
        label = self.w.label("faulted")
        self.faults.append((label, site, index, length, last, extents, self.w.at(None)))
        self.w.branch(label)

    def fault_site(self, op: Op, kind: str, width: int = 1) -> int:
        """The number of a new fault site, counted from 1."""
        assert self.context.may_fault, f"{op.name} was not expected to fault"
        self.context.sites.append(FaultSite(op, kind, width))
        return len(self.context.sites)

    def __str__(self) -> str:
        return "\n".join(self.w.lines)


RunBlock = Callable[[FunctionEmitter, Block], list[Elements]]
"""Writes the ops of a block; the values that its terminator yields."""
