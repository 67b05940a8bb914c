"""Control flow that is known: constant ifs, loops of no or one trip, ifs that only choose.

One forward walk builds each block anew.  A block that always runs once is spliced
into the block around it, its arguments replaced by what they stand for.
"""

from __future__ import annotations

from dataclasses import dataclass

from ..ir.loops import bounds, inits
from ..ir.ops import OPS
from ..ir.program import Block, Module, Op, Value
from ..ir.rewrite import bodies, constant, constant_value, keep_results, splittable, substitute
from ..ir.types import DataType
from .manager import Context
from .registry import Pass, register


@dataclass(frozen=True)
class SimplifyCfOptions:
    """`flatten_regions`: dissolve `region`.  `speculate`: pure ops that an `if` made a select may run in vain."""

    flatten_regions: bool = False
    speculate: int = 4


@register
class SimplifyCf(Pass):
    name = "simplify_cf"
    summary = "Resolve control flow that is known before the program runs."
    Options = SimplifyCfOptions

    def run(self, module: Module, ctx: Context) -> bool:
        walk = _Walk(ctx, self.options)
        for body in bodies(module):
            walk.block(body)
        ctx.count("ops simplified", walk.changes)
        return walk.changes > 0


class _Walk:
    def __init__(self, ctx: Context, options: SimplifyCfOptions) -> None:
        self.ctx = ctx
        self.options = options
        self.replaced: dict[Value, Value] = {}
        self.changes = 0

    def block(self, block: Block) -> None:
        out: list[Op] = []
        self.ops(block.ops, out)
        block.ops = out

    def ops(self, ops: list[Op], out: list[Op]) -> None:
        """Append `ops` to `out`, simplified."""
        for op in ops:
            if self.replaced:
                substitute(op, self.replaced)
            if not op.regions:
                out.append(op)
            elif (once := self.runs_once(op, out)) is not None:
                block, what = once
                self.changes += 1
                if what:
                    self.ctx.remark("applied", what, op.loc)
                inner, _ = splittable(block)
                self.ops(inner, out)
                if op.name != "while":
                    self.give(op, splittable(block)[1])
            else:
                self.structured(op, out)

    def give(self, op: Op, values: tuple[Value, ...]) -> None:
        """Replace the results of `op`, which goes."""
        now = [self.replaced.get(v, v) for v in values]
        self.replaced.update(zip(op.results, now, strict=True))

    # --- blocks that run once, or never ------------------------------------------------

    def runs_once(self, op: Op, out: list[Op]) -> tuple[Block, str] | None:
        """The one block of `op` that runs, exactly once, its arguments replaced; and a remark on it."""
        if op.name == "if":
            taken = constant_value(op.operands[0])
            if taken is None:
                return None
            side = op.regions[0] if taken else op.regions[1] if len(op.regions) > 1 else Block()
            return side, f"the condition is always {'true' if taken else 'false'}"
        if op.name == "region":
            return (op.regions[0], "") if self.options.flatten_regions else None
        if op.name == "while":
            end = op.regions[0].terminator
            if end is None:
                return None
            holds = self.replaced.get(end.operands[0], end.operands[0])
            if constant_value(holds) != 0:
                return None
            self.replaced.update(zip(op.regions[0].args, op.operands, strict=True))
            self.give(op, op.operands)
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
            # an empty block that gives what the loop would have begun with
            given = Op(OPS["yield"], inits(op), (), loc=op.loc)
            return Block((), [given] if op.results else []), "this loop never runs"
        if lower is None or upper is None or upper - lower > step:
            return None
        counter, *carried = op.regions[0].args
        if isinstance(first, int):
            place = constant(first, counter.type, counter.name, op)
            out.append(place)
            first = place.result
        self.replaced[counter] = first
        self.replaced.update(zip(carried, inits(op), strict=True))
        return op.regions[0], "this loop runs once"

    # --- what stays ---------------------------------------------------------------------

    def structured(self, op: Op, out: list[Op]) -> None:
        """Append `op`, whose blocks stay, or the selects that it amounts to."""
        if op.name in ("for", "while") and op.results:
            self.fixed_values(op)
        for block in op.regions:
            self.block(block)
        if op.name == "if":
            self.equal_yields(op)
            if op.results and self.as_selects(op, out):
                return
            if not op.results and self.empty_sides(op, out):
                return
        out.append(op)

    def fixed_values(self, op: Op) -> None:
        """A value that a loop carries and never changes is its initial value."""
        body = op.regions[-1]
        skipped = len(body.args) - len(op.results)
        keep = []
        for place, (given, initial) in enumerate(zip(splittable(body)[1], inits(op), strict=True)):
            argument = body.args[skipped + place]
            is_fixed = given is argument or self.replaced.get(given, given) is initial
            keep.append(not is_fixed)
            if is_fixed:
                for block in op.regions:
                    self.replaced[block.args[skipped + place]] = initial
                self.replaced[op.results[place]] = initial
        self.keep(op, keep)

    def equal_yields(self, op: Op) -> None:
        """A result for which both sides give the same value is that value."""
        if not op.results:
            return
        sides = zip(splittable(op.regions[0])[1], splittable(op.regions[1])[1], strict=True)
        keep = []
        for result, (then, other) in zip(op.results, sides, strict=True):
            keep.append(then is not other)
            if then is other:
                self.replaced[result] = then
        self.keep(op, keep)

    def keep(self, op: Op, keep: list[bool]) -> None:
        if not all(keep):
            keep_results(op, keep)
            self.changes += 1

    def as_selects(self, op: Op, out: list[Op]) -> bool:
        """Turn an `if` that only computes a little into selects."""
        (then, given), (other, else_given) = map(splittable, op.regions)
        inner = [*then, *other]
        is_small = len(inner) <= self.options.speculate and all(
            o.definition.is_pure and o.name != "call" for o in inner
        )
        if not is_small or not all(r.type.has_arithmetic for r in op.results):
            return False
        out += inner
        for result, a, b in zip(op.results, given, else_given, strict=True):
            out.append(Op(OPS["select"], (op.operands[0], a, b), (result,), loc=op.loc))
        self.changes += 1
        return True

    def empty_sides(self, op: Op, out: list[Op]) -> bool:
        """Drop an empty side of an `if` without results; True if nothing of it is left."""
        if len(op.regions) > 1 and not op.regions[1].ops:
            op.regions = op.regions[:1]
            self.changes += 1
        if op.regions[0].ops:
            return False
        self.changes += 1
        if len(op.regions) == 1:
            return True
        # if c {} else {a}  =  if not c {a}
        inverted = Op(OPS["not"], op.operands, (Value("otherwise", DataType.BOOL),), loc=op.loc)
        out.append(inverted)
        op.operands, op.regions = inverted.results, op.regions[1:]
        return False
