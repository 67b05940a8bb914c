"""Locks that the invocations of a workgroup wait for, which run together: the one that has it waits for the others at the end of the loop.

while { %old = atomic_compare_exchange @lock[0], 0, 1 ... condition %held } do { }
store %t, @sum[0]
atomic_exchange @lock[0], 0             a lock of one invocation of each workgroup is right, behind eq %l, 0
"""

from __future__ import annotations

from collections.abc import Iterator

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..program import Op, Program
from .invocation_runs import MOST_LANES, Lanes, Run
from .racing_stores import UPDATES, identity, indices_shown, updated, written

__all__ = ["spin_locks"]

MOST_BEHIND = 200
"""Ops behind a loop in which a lock is given back, at most."""
_TAKES = ("atomic_compare_exchange", "atomic_exchange")


def spin_locks(program: Program) -> Iterator[Diagnostic]:
    """The warning of a program whose invocations wait for a lock that others of their workgroup have."""
    loops = {op for op in program.walk() if op.name == "while" and _taken(op) is not None}
    if 1 < program.lanes <= MOST_LANES and loops:
        run = _Locks(program, loops)
        run.run()
        yield from run.warnings


def _taken(loop: Op) -> Op | None:
    """The atomic that decides, and that alone, whether a loop goes on."""
    atomics = [op for op in loop.walk() if op.definition.format == "atomic"]
    stores = any(op.definition.format == "store" for op in loop.walk())
    return atomics[0] if len(atomics) == 1 and atomics[0].name in _TAKES and not stores else None


class _Locks(Run):
    """A run that finds loops to which several invocations of a workgroup come."""

    def __init__(self, program: Program, loops: set[Op]) -> None:
        super().__init__(program)
        self.loops = loops
        self.warnings: list[Diagnostic] = []
        blocks = (program.body, *(block for op in program.walk() for block in op.regions))
        self.behind = {
            op: (block, n + 1) for block in blocks for n, op in enumerate(block.ops) if op in loops
        }

    def while_(self, op: Op, lanes: Lanes) -> None:
        super().while_(op, lanes)
        take = _taken(op) if op in self.loops else None
        if take is None or lanes is None or len(lanes) < 2:
            return
        columns = [self.column(index) for index in take.indices]
        places = [tuple(c[n] if isinstance(c, list) else c for c in columns) for n in lanes]
        element = [take.attrs["buffer"], *map(identity, take.indices)]
        held = [
            each
            for each in self.released(op)
            if [each.attrs["buffer"], *map(identity, each.indices)] == element
        ]
        if held and len({*places}) < len(places):
            self.loops.discard(op)
            self.warnings.append(self.warning(op, take, held[0]))

    def released(self, loop: Op) -> list[Op]:
        """The stores and atomics behind a loop in its block."""
        block, first = self.behind[loop]
        ops = block.ops[first : first + MOST_BEHIND]
        return [
            each
            for op in ops
            for each in op.walk()
            if each.definition.format in ("store", "atomic") and "buffer" in each.attrs
        ]

    def warning(self, loop: Op, take: Op, release: Op) -> Diagnostic:
        spelling = spelling_at(loop.loc)
        lock = spelling.buffer(take.attrs["buffer"])
        message = f"the invocations of a workgroup run together, and here wait for {lock}, which one of them has: this loop need not end"
        id = spelling.id("local_id", 0)
        one = f"{id} == 0" if spelling.name == "PYTHON" else f"an eq of {id} and 0"
        help = f"let one invocation of a workgroup take it, behind {one}, or leave the lock out and write an atomic, {spelling.atomic}"
        for store in self.released(loop):
            change = updated(store) if store.definition.format == "store" else None
            atomic = None if change is None else UPDATES.get(change[0].name)
            if change is not None and atomic is not None and store.attrs["buffer"] != take.attrs["buffer"]:
                buffer = self.program.buffers[store.attrs["buffer"]]
                text = source_text(store.loc)
                update = spelling.update(
                    atomic, buffer.name, indices_shown(store), written(change[1], store), buffer.dtype, text
                )
                help = f"leave the lock out, and write {update}"
                break
        warning = Diagnostic("warning", message, loop.loc, help=help)
        return warning.note("it is given back here", release.loc)
