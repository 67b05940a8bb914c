"""Dead code: ops that nothing observable depends on, and stores that nobody can read.

Marking goes from the ops with effects to their operands; a sweep removes what is not
marked.  Values that a loop carries only for their own sake are never marked, so they go
too.  A load whose value nobody uses goes with its fault.  All other faults stay: a store that is
not proven in bounds leaves a check of its index, a `for` stays whose step may be below 1, and so
does a `while`, since it may not end.
"""

from __future__ import annotations

from collections.abc import Container

from ..analysis.launched_lengths import LaunchedLengths
from ..analysis.pipeline_uses import PipelineUses
from ..analysis.value_forms import ValueForms
from ..fusion.bounds_checks import add_checks
from ..ir.loops import bounds
from ..ir.program import AccessMode, Block, Buffer, Func, Module, Op, Program, Value
from ..ir.rewrite import constant_value, keep_results
from ..rewriting.demanded_extents import declare_demands
from .manager import PassContext
from .registry import Pass, register

UNOBSERVED = {"read", "subgroup", "workgroup", "control"}
"""Effects of ops that are dead if their results are unused."""


@register
class Dce(Pass):
    name = "dce"
    summary = "Remove ops without uses or effects, stores to buffers that nobody reads, and unused memory."
    per_item = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        changed = int(declare_demands(module))
        uses = PipelineUses(module)
        faulting = _faulting_functions(module)
        for item in ctx.items(module):
            marks = _marked(item, faulting)
            if isinstance(item, Program) and marks.unread:
                dead = {op for stores in marks.unread.values() for op in stores}
                if checks := add_checks(item, dead, LaunchedLengths(item, uses)):
                    marks = _marked(item, faulting)
                ctx.count("checks of bounds", checks)
            sweep = _Sweep(marks.live, ctx)
            sweep.block(item.body)
            ctx.count("ops removed", sweep.ops)
            ctx.count("results removed", sweep.results)
            buffers = _drop_buffers(item, sweep.named, uses, ctx) if isinstance(item, Program) else 0
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


def _faulting_functions(module: Module) -> set[str]:
    """Functions that may end in a fault: those with a `for` whose step may be below 1, and their callers."""
    callers: dict[str, list[str]] = {}
    faulting: set[str] = set()
    pending: list[str] = []
    for func in module.funcs.values():
        marks = _Marks(func, ())
        for op in func.body.walk():
            if op.name == "call":
                callers.setdefault(op.attrs["callee"], []).append(func.name)
            elif marks.may_fault(op):
                pending.append(func.name)
    while pending:
        name = pending.pop()
        if name not in faulting:
            faulting.add(name)
            pending += callers.get(name, ())
    return faulting


def _marked(item: Program | Func, faulting: Container[str]) -> _Marks:
    marks = _Marks(item, faulting)
    marks.spread()
    return marks


def _is_unobservable(buffer: Buffer) -> bool:
    """Whether only this program's own loads can see what it stores there."""
    hidden = buffer.access is AccessMode.WRITE and buffer.binding is None and not buffer.live_out
    return buffer.is_on_chip or buffer.is_transient or hidden


def _drop_buffers(program: Program, named: set[str], uses: PipelineUses, ctx: PassContext) -> int:
    """Remove buffers that are not in `named` and that nothing else observes; return how many.

    A bound buffer goes only if pipelines alone pass it: other callers pass arguments by position.
    """
    unused = [b for b in program.buffers.values() if b.name not in named and _is_unobservable(b)]
    unused = [b for b in unused if b.binding is None or uses.is_own_scratch(program, b)]
    for buffer in unused:
        ctx.debug("no op uses @{}, and nobody else sees it", buffer.name, loc=buffer.loc)
        if buffer.binding is not None:
            uses.drop(program, program.bound_buffers.index(buffer))
        del program.buffers[buffer.name]
    return len(unused)


class _Marks:
    """Mark phase: `live` holds the ops, and the results of structured ops, that must stay."""

    def __init__(self, item: Program | Func, faulting: Container[str]) -> None:
        """`faulting`: functions that may end in a fault."""
        buffers = item.buffers.values() if isinstance(item, Program) else ()
        self.item = item
        self.faulting = faulting
        self.forms: ValueForms | None = None
        self.unread: dict[str, list[Op]] = {}
        """Buffer -> its stores, which stay only if a load from it does."""
        self.hidden = {b.name for b in buffers if _is_unobservable(b)}
        self.live: set[Op | Value] = set()
        self.surrounding: dict[Op, Op] = {}
        self.parents: dict[Block, Op] = {}
        self.indices: dict[Value, int] = {}
        """The index of each result of a structured op, and of each block argument that carries it."""
        self.pending: list[Op | Value] = []
        self.collect(item.body, None)
        if item.body.terminator is not None:
            self.pending += item.body.terminator.operands

    def collect(self, block: Block, parent: Op | None) -> None:
        """Record where each op stands, and mark the ops that have effects."""
        for op in block.ops:
            if parent is not None:
                self.surrounding[op] = parent
            effects = op.definition.effects
            if op.name == "store" and op.attrs["buffer"] in self.hidden:
                self.unread.setdefault(op.attrs["buffer"], []).append(op)
            elif op.name == "while" or not effects <= UNOBSERVED or self.may_fault(op):
                self.pending.append(op)
            for inner in op.regions:
                self.parents[inner] = op
                # the counter of a `for` is not carried: its index is -1
                self.indices.update(
                    (arg, i) for i, arg in enumerate(inner.args, -1 if op.name == "for" else 0)
                )
                self.collect(inner, op)
            if op.regions:
                self.indices.update((result, i) for i, result in enumerate(op.results))

    def may_fault(self, op: Op) -> bool:
        """Whether `op` is a `for` whose step may be below 1, or calls a function that has one."""
        if op.name == "call":
            return op.attrs["callee"] in self.faulting
        step = bounds(op)[2] if op.name == "for" else 1
        if isinstance(step, int):
            return False
        number = constant_value(step)
        if number is None and isinstance(self.item, Program):
            self.forms = self.forms or ValueForms(self.item)
            number = self.forms.range(step)[0]
        return number is None or number < 1

    def spread(self) -> None:
        while self.pending:
            item = self.pending.pop()
            if item in self.live:
                continue
            self.live.add(item)
            if isinstance(item, Op):
                self.mark_op(item)
            elif isinstance(item.owner, Op):
                self.pending.append(item.owner)
                if item.owner.regions:
                    self.mark_carried(item.owner, self.indices[item])
            elif self.indices.get(item, -1) >= 0:
                self.mark_carried(self.parents[item.owner], self.indices[item])  # type: ignore[index]

    def mark_op(self, op: Op) -> None:
        """Mark the operands of `op`, and the control flow around it."""
        # a loop needs an initial value only if the result that it starts is live: see mark_carried
        carried = len(op.results) if op.name in ("for", "while") else 0
        self.pending += op.operands[: len(op.operands) - carried]
        if op.name == "while":
            end = op.regions[0].terminator
            self.pending += end.operands if end is not None else ()
        # the first live load of a hidden buffer makes all stores to it live, whatever their elements
        if "read" in op.definition.effects and "buffer" in op.attrs:
            self.pending += self.unread.pop(op.attrs["buffer"], ())
        if op in self.surrounding:
            self.pending.append(self.surrounding[op])

    def mark_carried(self, op: Op, index: int) -> None:
        """Mark result `index` of a structured op, and all the values that it may come from."""
        self.pending.append(op.results[index])
        if op.name in ("for", "while"):
            self.pending.append(op.operands[len(op.operands) - len(op.results) + index])
        for block in op.regions:
            end = block.terminator
            if end is not None and end.name == "yield":
                self.pending.append(end.operands[index])


class _Sweep:
    def __init__(self, live: set[Op | Value], ctx: PassContext) -> None:
        self.live = live
        self.ctx = ctx
        self.named: set[str] = set()
        """Buffers that live ops use."""
        self.ops = 0
        self.results = 0

    def block(self, block: Block) -> None:
        live = self.live
        ops = [op for op in block.ops if op in live or op.definition.is_terminator]
        if len(ops) < len(block.ops):
            self.ops += len(block.ops) - len(ops)
            if self.ctx.is_debugging:
                remaining = set(ops)
                for op in block.ops:
                    if op not in remaining:
                        self.ctx.debug("nothing needs {}", op, loc=op.loc)
            block.ops = ops
        for op in ops:
            if "buffer" in op.attrs:
                self.named.add(op.attrs["buffer"])
            elif "buffers" in op.attrs:
                self.named.update(op.attrs["buffers"])
            if not op.regions:
                continue
            keep = [result in live for result in op.results]
            if not all(keep):
                self.results += keep.count(False)
                for result in op.results:
                    if result not in live:
                        self.ctx.debug("nothing needs the result {} of this {}", result, op.name, loc=op.loc)
                keep_results(op, keep)
            for inner in op.regions:
                self.block(inner)
