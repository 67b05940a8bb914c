"""Dead code: ops that nothing observable depends on, and stores that nobody can read.

A mark from the ops with effects through their operands, then a sweep.  Values that
a loop carries only for their own sake are never marked, so they go too.  A load
counts as free of effects: out of bounds is an error of the program, not a result.
A `while` stays, since nothing says that it ends.
"""

from __future__ import annotations

from ..ir.program import AccessMode, Block, Buffer, Func, Module, Op, Program, Value
from ..ir.rewrite import keep_results
from .manager import Context
from .registry import Pass, register


@register
class Dce(Pass):
    name = "dce"
    summary = "Remove ops without uses or effects, stores to buffers that nobody reads, and unused memory."

    def run(self, module: Module, ctx: Context) -> bool:
        changed = 0
        for item in module.order:
            if isinstance(item, Program | Func):
                marks = _Marks(item)
                marks.spread()
                sweep = _Sweep(marks.live)
                sweep.block(item.body)
                ctx.count("ops removed", sweep.ops)
                ctx.count("results removed", sweep.results)
                buffers = _drop_buffers(item, sweep.named) if isinstance(item, Program) else 0
                ctx.count("buffers removed", buffers)
                changed += sweep.ops + sweep.results + buffers
                for name, stores in marks.unread.items():
                    ctx.remark(
                        "applied",
                        f"the stores to @{name} are removed: nothing reads it, and nobody can after the program",
                        stores[0].loc,
                        buffer=name,
                        stores=len(stores),
                    )
        return changed > 0


def _is_unobservable(buffer: Buffer) -> bool:
    """True if only this program's own reads can see what is stored."""
    hidden = buffer.access is AccessMode.WRITE and buffer.binding is None and not buffer.live_out
    return buffer.is_workgroup or buffer.is_transient or hidden


def _drop_buffers(program: Program, named: set[str]) -> int:
    """Take out the declarations of memory that is the program's own and that no op names any more."""
    own = [b for b in program.buffers.values() if b.binding is None and _is_unobservable(b)]
    unused = [b.name for b in own if b.name not in named]
    for name in unused:
        del program.buffers[name]
    return len(unused)


class _Marks:
    """`live` holds what must stay: ops, and the results of structured ops."""

    def __init__(self, item: Program | Func) -> None:
        buffers = item.buffers.values() if isinstance(item, Program) else ()
        self.unread: dict[str, list[Op]] = {}
        """Stores that stay only if a load of their buffer does."""
        self.hidden = {b.name for b in buffers if _is_unobservable(b)}
        self.live: set[Op | Value] = set()
        self.around: dict[Op, Op] = {}
        self.parents: dict[Block, Op] = {}
        self.places: dict[Value, int] = {}
        self.pending: list[Op | Value] = []
        self.collect(item.body, None)
        if item.body.terminator is not None:
            self.pending += item.body.terminator.operands

    def collect(self, block: Block, parent: Op | None) -> None:
        """Note where each op stands, and the ops that have effects of their own."""
        for op in block.ops:
            if parent is not None:
                self.around[op] = parent
            effects = op.definition.effects
            if op.name == "store" and op.attrs["buffer"] in self.hidden:
                self.unread.setdefault(op.attrs["buffer"], []).append(op)
            elif op.name == "while" or not effects <= {"read", "subgroup", "control"}:
                self.pending.append(op)
            for inner in op.regions:
                self.parents[inner] = op
                skipped = 1 if op.name == "for" else 0  # the counter is not carried
                self.places.update((arg, place - skipped) for place, arg in enumerate(inner.args))
                self.collect(inner, op)
            if op.regions:
                self.places.update((result, place) for place, result in enumerate(op.results))

    def spread(self) -> None:
        while self.pending:
            marked = self.pending.pop()
            if marked in self.live:
                continue
            self.live.add(marked)
            if isinstance(marked, Op):
                self.mark_op(marked)
            elif isinstance(marked.owner, Op):
                self.pending.append(marked.owner)
                if marked.owner.regions:
                    self.carried(marked.owner, self.places[marked])
            elif self.places.get(marked, -1) >= 0:
                self.carried(self.parents[marked.owner], self.places[marked])  # type: ignore[index]

    def mark_op(self, op: Op) -> None:
        """Mark what running `op` takes: its operands, and the control flow around it."""
        if op.name in ("for", "while"):
            self.pending += op.operands[: len(op.operands) - len(op.results)]
        else:
            self.pending += op.operands
        if op.name == "while":
            end = op.regions[0].terminator
            self.pending += end.operands if end is not None else ()
        if "read" in op.definition.effects and "buffer" in op.attrs:
            self.pending += self.unread.pop(op.attrs["buffer"], ())
        if op in self.around:
            self.pending.append(self.around[op])

    def carried(self, op: Op, place: int) -> None:
        """Mark result `place` of a structured op, and all the values that it may come from."""
        self.pending.append(op.results[place])
        if op.name in ("for", "while"):
            self.pending.append(op.operands[len(op.operands) - len(op.results) + place])
        for block in op.regions:
            end = block.terminator
            if end is not None and end.name == "yield":
                self.pending.append(end.operands[place])


class _Sweep:
    def __init__(self, live: set[Op | Value]) -> None:
        self.live = live
        self.named: set[str] = set()
        """The buffers of the ops that stay."""
        self.ops = 0
        self.results = 0

    def block(self, block: Block) -> None:
        live = self.live
        kept = [op for op in block.ops if op in live or op.definition.is_terminator]
        if len(kept) < len(block.ops):
            self.ops += len(block.ops) - len(kept)
            block.ops = kept
        for op in kept:
            if "buffer" in op.attrs:
                self.named.add(op.attrs["buffer"])
            elif "buffers" in op.attrs:
                self.named.update(op.attrs["buffers"])
            if not op.regions:
                continue
            keep = [result in live for result in op.results]
            if not all(keep):
                self.results += keep.count(False)
                keep_results(op, keep)
            for inner in op.regions:
                self.block(inner)
