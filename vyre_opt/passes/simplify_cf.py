"""Simple control flow: ifs of one condition, constant ifs, loops of no or one trip, ifs that only choose a value.

Two ifs of one block and one condition become one, where the second stands, if nothing between them depends
on the first.  Then a guarded store of one stage and the guarded load of the next are in one block, where
store_forward sees both:

    if %inside { store %v, @mid[%i] }        if %inside {
    %n = len @y                        ->      store %v, @mid[%i]
    if %inside { %u = load @mid[%i] }          %u = load @mid[%i]
                                             }

Then one forward walk rebuilds each block.  A block that always runs once is spliced
into the block around it, its arguments replaced by the values that they have.
"""

from __future__ import annotations

from ..analysis.effects import Effects, effects_of, summarize
from ..ir.loops import bounds, inits
from ..ir.ops import OPS
from ..ir.program import AccessMode, Block, Module, Op, Program, Value
from ..ir.rewrite import constant, constant_value, keep_results, splittable
from ..ir.types import DataType
from ..records import dataclass
from ..rewriting.walker import Walker
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class SimplifyCfOptions:
    """`flatten_regions`: inline each `region`.  `speculate`: the most pure ops an `if` may hold to become selects,
    which run them all."""

    flatten_regions: bool = False
    speculate: int = 4


@register
class SimplifyCf(Pass):
    name = "simplify_cf"
    summary = "Resolve control flow that is known before the program runs."
    per_item = True
    Options = SimplifyCfOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        merge_count = 0
        simplifier = _Simplifier(ctx, self.options)
        for item in ctx.items(module):
            if isinstance(item, Program):
                merger = _IfMerger(item, ctx)
                merger.merge_in(item.body)
                merge_count += merger.merge_count
            simplifier.walk_block(item.body)
        ctx.count("ifs merged", merge_count)
        ctx.count("ops simplified", simplifier.changes)
        return simplifier.changes + merge_count > 0


# --- ifs of one condition ----------------------------------------------------------------

MAX_BETWEEN = 256
"""The most ops with effects between two ifs that are looked at, so that the walk is linear."""


@dataclass(slots=True)
class _OpenIf:
    """An `if` without results that a later one of its block may be merged with.

    `parts`: the ifs merged into it so far, in order.  `end`: the number of ops with effects before and including it.
    """

    op: Op
    parts: list[Op]
    end: int


class _IfMerger:
    """Merges ifs of one condition, outer blocks before inner ones: those that meet in a merged block are merged too."""

    def __init__(self, program: Program, ctx: PassContext) -> None:
        self.program = program
        self.ctx = ctx
        _, self.by_op = summarize(program.body)
        self.written_buffers = {b.name for b in program.buffers.values() if b.access is not AccessMode.READ}
        self.numbers: dict[Op, int] = {}
        """Numbers of the ops, in program order before the pass; empty as long as none has changed."""
        self.merge_count = 0

    def merge_in(self, block: Block) -> None:
        open_ifs: dict[Value, _OpenIf] = {}
        between: list[tuple[Op, Effects]] = []
        merged_ops: set[Op] = set()
        for op in block.ops:
            effects = self.by_op.get(op)
            if op.name == "if":
                earlier = open_ifs.pop(op.operands[0], None)
                parts = [op]
                if earlier is not None and self.may_merge(earlier, op, between[earlier.end :]):
                    parts = self.merge(earlier, op)
                    merged_ops.add(earlier.op)
                if not op.results:
                    open_ifs[op.operands[0]] = _OpenIf(op, parts, len(between) + 1)
            elif effects is None and not op.definition.is_pure:
                effects = effects_of(op)
            if effects is not None:
                between.append((op, effects))
        if merged_ops:
            block.ops = [op for op in block.ops if op not in merged_ops]
        for op in block.ops:
            for inner in op.regions:
                self.merge_in(inner)

    def may_merge(self, earlier: _OpenIf, later: Op, between: list[tuple[Op, Effects]]) -> bool:
        """Whether the earlier `if` may run where the later one stands; a remark says why not."""
        if len(between) > MAX_BETWEEN:
            return False
        effects_of_earlier = self.by_op[earlier.op]
        for op, effects in between:
            if (reason := self.conflict(effects_of_earlier, effects)) is not None:
                article = "an" if op.name[0] in "aeiou" else "a"
                message = f"this if is not merged with the one before of its condition: between them, {article} {op.name} {reason}"
                self.ctx.remark("refused", message, later.loc, program=self.program.name)
                return False
        return True

    def conflict(self, earlier: Effects, between: Effects) -> str | None:
        """Reason why ops with effects `earlier` may not move down past ops with effects `between`; None if they may."""
        conflicts = earlier.writes & (between.reads | between.writes) | earlier.reads & between.writes
        if conflicts:
            return f"accesses @{min(conflicts)}"
        if between.orders and self.is_ordered(earlier):
            return "orders accesses"
        if earlier.orders and self.is_ordered(between):
            return "accesses memory, which the first one orders"
        if earlier.prints and between.prints:
            return "prints, as the first one does"
        if between.stops and (earlier.writes or earlier.stops or earlier.prints):
            return "may stop the program"
        if earlier.stops and (between.writes or between.prints):
            return f"{'stores' if between.writes else 'prints'}, and the first one may stop the program"
        return None

    def is_ordered(self, effects: Effects) -> bool:
        """Whether effects must stay on their side of a barrier; loads of buffers that are never written need not."""
        return effects.orders or not self.written_buffers.isdisjoint(effects.reads | effects.writes)

    def merge(self, earlier: _OpenIf, later: Op) -> list[Op]:
        """Put the ops of the earlier `if` before those of the later one.  Returns all ifs that are merged so far."""
        if not self.numbers:
            self.numbers = {op: number for number, op in enumerate(self.program.walk())}
        first = earlier.op
        for index, block in enumerate(first.regions):
            if index < len(later.regions):
                # extend the earlier, longer list, so that a chain of merges takes linear time
                block.ops.extend(later.regions[index].ops)
                later.regions[index].ops = block.ops
            else:
                later.regions = (*later.regions, block)
        self.by_op[later].include(self.by_op[first])
        self.merge_count += 1
        message = "this if has the condition of one before, which is merged with it"
        facts = {"op": self.numbers[later], "parts": [self.numbers[part] for part in earlier.parts]}
        self.ctx.remark("applied", message, later.loc, claim="merge", program=self.program.name, **facts)
        return [*earlier.parts, later]


# --- constant conditions and trip counts --------------------------------------------------


class _Simplifier(Walker):
    def __init__(self, ctx: PassContext, options: SimplifyCfOptions) -> None:
        super().__init__()
        self.ctx = ctx
        self.options = options

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        if (once := self.runs_once(op, out)) is not None:
            block, message = once
            self.changes += 1
            if message:
                self.ctx.remark("applied", message, op.loc)
            ops, _ = splittable(block)
            self.walk_ops(ops, out)
            if op.name != "while":  # the results of a `while` are replaced already
                # the terminator again: `walk_ops` may have changed its operands
                self.replace(op.results, splittable(block)[1])
            return
        if op.name in ("for", "while") and op.results:
            self.drop_fixed_values(op)
        for block in op.regions:
            self.walk_block(block)
        if op.name == "if":
            self.drop_equal_yields(op)
            if op.results and self.become_selects(op, out):
                return
            if not op.results and self.drop_empty_sides(op, out):
                return
        out.append(op)

    # --- blocks that run once, or never ------------------------------------------------

    def runs_once(self, op: Op, out: list[Op]) -> tuple[Block, str] | None:
        """Return the block of `op` that runs exactly once, and the message of the remark; None if that is not known.

        The arguments of the block are replaced.
        """
        if op.name == "if":
            condition = constant_value(op.operands[0])
            if condition is None:
                return None
            side = op.regions[0] if condition else op.regions[1] if len(op.regions) > 1 else Block()
            return side, f"the condition is always {'true' if condition else 'false'}"
        if op.name == "region":
            return (op.regions[0], "") if self.options.flatten_regions else None
        if op.name == "while":
            end = op.regions[0].terminator
            if end is None:
                return None
            # the regions are not visited yet, so the condition may still name a replaced value
            condition = self.replaced.get(end.operands[0], end.operands[0])
            if constant_value(condition) != 0:
                return None
            self.replaced.update(zip(op.regions[0].args, op.operands, strict=True))
            self.replace(op.results, op.operands)
            return op.regions[0], "the condition of this while is always false"
        return self.loop_once(op, out)

    def loop_once(self, op: Op, out: list[Op]) -> tuple[Block, str] | None:
        lower, upper, step = (
            bound if isinstance(bound, int) else constant_value(bound) for bound in bounds(op)
        )
        if step is None or step < 1:
            return None
        first, last = bounds(op)[:2]
        if first is last or (lower is not None and upper is not None and lower >= upper):
            # an empty block that yields the loop's initial values
            end = Op(OPS["yield"], inits(op), (), loc=op.loc)
            return Block((), [end] if op.results else []), "this loop never runs"
        if lower is None or upper is None or upper - lower > step:
            return None
        counter, *carried = op.regions[0].args
        if isinstance(first, int):
            out.append(constant(first, counter.type, counter.name, op))
            first = out[-1].result
        self.replaced[counter] = first
        self.replaced.update(zip(carried, inits(op), strict=True))
        return op.regions[0], "this loop runs once"

    # --- ops that stay -------------------------------------------------------------------

    def drop_fixed_values(self, op: Op) -> None:
        """Replace a value that a loop carries and never changes by its initial value."""
        body = op.regions[-1]
        skipped = len(body.args) - len(op.results)  # the counter of a `for` is not carried
        keep = []
        for i, (yielded, initial) in enumerate(zip(splittable(body)[1], inits(op), strict=True)):
            is_fixed = yielded is body.args[skipped + i] or self.replaced.get(yielded, yielded) is initial
            keep.append(not is_fixed)
            if is_fixed:
                for block in op.regions:
                    self.replaced[block.args[skipped + i]] = initial
                self.replaced[op.results[i]] = initial
        self.keep(op, keep)

    def drop_equal_yields(self, op: Op) -> None:
        """Replace a result for which both sides yield the same value by that value."""
        if not op.results:
            return
        sides = zip(splittable(op.regions[0])[1], splittable(op.regions[1])[1], strict=True)
        keep = []
        for result, (then, otherwise) in zip(op.results, sides, strict=True):
            keep.append(then is not otherwise)
            if then is otherwise:
                self.replaced[result] = then
        self.keep(op, keep)

    def keep(self, op: Op, keep: list[bool]) -> None:
        if not all(keep):
            names = ", ".join(f"%{r.name}" for r, stays in zip(op.results, keep, strict=True) if not stays)
            self.ctx.debug("known before this {}: {}", op.name, names, loc=op.loc)
            keep_results(op, keep)
            self.changes += 1

    def become_selects(self, op: Op, out: list[Op]) -> bool:
        """Turn an `if` that holds only a few pure ops into selects; return whether it did."""
        (then, then_yields), (otherwise, else_yields) = map(splittable, op.regions)
        inner = [*then, *otherwise]
        is_small = len(inner) <= self.options.speculate and all(
            o.definition.is_pure and o.name != "call" for o in inner
        )
        if not is_small or not all(r.type.has_arithmetic for r in op.results):
            self.ctx.debug(
                "this if becomes no selects: it holds {} ops, and speculate={} pure ones may run",
                len(inner),
                self.options.speculate,
                loc=op.loc,
            )
            return False
        self.ctx.debug(
            "this if becomes selects; its results: {}, ops that run always now: {}",
            len(op.results),
            len(inner),
            loc=op.loc,
        )
        out += inner
        for result, a, b in zip(op.results, then_yields, else_yields, strict=True):
            out.append(Op(OPS["select"], (op.operands[0], a, b), (result,), loc=op.loc))
        self.changes += 1
        return True

    def drop_empty_sides(self, op: Op, out: list[Op]) -> bool:
        """Drop the empty sides of an `if` without results; True if no side is left."""
        if len(op.regions) > 1 and not op.regions[1].ops:
            op.regions = op.regions[:1]
            self.changes += 1
        if op.regions[0].ops:
            return False
        self.ctx.debug("the first side of this if is empty", loc=op.loc)
        self.changes += 1
        if len(op.regions) == 1:
            return True
        # if c {} else {a}  =  if not c {a}
        negation = Op(OPS["not"], op.operands, (Value("otherwise", DataType.BOOL),), loc=op.loc)
        out.append(negation)
        op.operands, op.regions = negation.results, op.regions[1:]
        return False
