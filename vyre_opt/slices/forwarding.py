"""Store-to-load forwarding of slices: a load gives the stored slice, which then need not leave registers.

    slice_store %v, @mid[%r, 0] : slice<?xf32>
    %row = slice_load @mid[%r, 0] : slice<?xf32>       ->   %v

A stored slice is available within its block, until any other write to the buffer.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..ir.program import Op, Program, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from ..rewriting.walker import Walker

__all__ = ["forward_slices"]

Place = tuple[object, ...]


def forward_slices(program: Program) -> int:
    """Replace loads in place; return how many."""
    forwarder = _Forwarder()
    forwarder.walk_block(program.body)
    return forwarder.count


class _Forwarder(Walker):
    def __init__(self) -> None:
        super().__init__()
        self.stored: dict[str, tuple[Place, Value]] = {}
        """Buffer -> the place of the last slice stored to it, and the slice."""
        self.count = 0

    def visit(self, op: Op, out: list[Op]) -> None:
        name = op.attrs.get("buffer", "")
        if op.name == "slice_load" and op.attrs["edge"] == "checked":
            place, value = self.stored.get(name, (None, None))
            if value is not None and place == _place(op.indices, op.result.type):
                self.replaced[op.result] = value
                self.count += 1
                return
        elif op.name == "slice_store" and op.attrs["edge"] == "checked":
            value = op.operands[0]
            self.stored[name] = _place(op.indices, value.type), value
        elif "write" in op.definition.effects:
            self.stored.pop(name, None)
        elif op.definition.effects & {"sync", "wait"}:
            self.stored.clear()
        out.append(op)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        outer, self.stored = self.stored, {}
        for block in op.regions:
            self.walk_block(block)
            self.stored = {}
        written_buffers = {
            inner.attrs["buffer"] for inner in op.walk() if "write" in inner.definition.effects
        }
        self.stored = {name: entry for name, entry in outer.items() if name not in written_buffers}
        out.append(op)


def _place(indices: Sequence[Value], dtype: DataType) -> Place:
    constants = [(constant_value(index), index.type) for index in indices]
    return (
        dtype,
        *(
            index if constant[0] is None else constant
            for index, constant in zip(indices, constants, strict=True)
        ),
    )
