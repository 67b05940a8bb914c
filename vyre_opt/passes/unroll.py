"""Unrolling: a loop of few iterations becomes copies of its body; a longer one runs several per turn.

    for %k = 0 to 10 { f(%k) }     with factor=4 becomes

    for %k = 0 to 8 step 4 { f(%k)  f(%k + 1)  f(%k + 2)  f(%k + 3) }
    for %k = 8 to 10       { f(%k) }

With `full=true` every loop of constant trip count that stays within `max_ops` is
unrolled whole, inner ones first.  Otherwise only loops without a loop inside are
taken, whole if they run no more than `factor` times.  No loop grows past `max_ops`.
"""

from __future__ import annotations

from ..ir import arith
from ..ir.loops import Bound, bounds, inits, trip_count, with_bounds
from ..ir.ops import OPS
from ..ir.program import Block, Module, Op, Value
from ..ir.rewrite import clone, constant, splittable
from ..records import dataclass
from ..rewriting.walker import Walker
from .manager import PassContext
from .registry import Pass, register


@dataclass(frozen=True)
class UnrollOptions:
    """`max_ops`: the most ops that may stand in place of one loop."""

    factor: int = 4
    full: bool = False
    max_ops: int = 512

    def __post_init__(self) -> None:
        if self.factor < 2:
            raise ValueError(f"factor is at least 2, not {self.factor}")
        if self.max_ops < 1:
            raise ValueError(f"max_ops is at least 1, not {self.max_ops}")


@register
class Unroll(Pass):
    name = "unroll"
    summary = "Unroll loops, whole or by a factor with a loop for the rest."
    per_item = True
    Options = UnrollOptions

    def run(self, module: Module, ctx: PassContext) -> bool:
        unroller = _Unroller(ctx, self.options)
        for item in ctx.items(module):
            unroller.walk_block(item.body)
        ctx.count("loops unrolled", unroller.changes)
        return unroller.changes > 0


class _Unroller(Walker):
    """Unrolls inner loops first.  `size`: the number of ops in the blocks visited so far, at any depth; `has_loop`: whether
    a loop is among them."""

    def __init__(self, ctx: PassContext, options: UnrollOptions) -> None:
        super().__init__()
        self.ctx = ctx
        self.options = options
        self.size = 0
        self.has_loop = False

    def walk_block(self, block: Block) -> None:
        # count per block, not in `visit`: that saves a call per op
        self.size += len(block.ops)
        out: list[Op] = []
        self.walk_ops(block.ops, out)
        block.ops = out

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        size, has_loop = self.size, self.has_loop
        self.size, self.has_loop = 0, False
        for block in op.regions:
            self.walk_block(block)
        inner_size, inner_loop = self.size, self.has_loop
        plan = self.plan(op, inner_size, inner_loop) if op.name == "for" else None
        if plan is None:
            out.append(op)
            self.size = size + inner_size
            self.has_loop = has_loop or inner_loop or op.name in ("for", "while")
            return
        copies, max_size = plan
        self.changes += 1
        is_whole = copies == trip_count(op)
        out += self.whole(op, copies) if is_whole else self.partial(op, copies)
        self.size = size + max_size - 1  # the loop itself is counted already
        self.has_loop = has_loop or inner_loop or not is_whole

    def plan(self, loop: Op, size: int, has_loop: bool) -> tuple[int, int] | None:
        """(copies of the body of `loop`, which holds `size` ops; the most ops that the result has).

        None, after a remark, if the loop is to stay.
        """
        options, trips = self.options, trip_count(loop)
        count = "an unknown number of" if trips is None else trips
        self.ctx.debug("this loop has {} iterations of {} ops", count, size, loc=loop.loc)
        problem = None
        if trips is not None and (options.full or (trips <= options.factor and not has_loop)):
            copies, max_size = trips, (size + 1) * trips
            message = f"unrolled whole, {trips} iterations"
        else:
            copies, max_size = options.factor, (size + 2) * (options.factor + 1) + 8
            message = f"unrolled by {copies}"
            problem = self.partial_problem(loop, has_loop)
        if problem is None and max_size > options.max_ops:
            problem = f"{copies} copies of its {size} ops pass max_ops={options.max_ops}"
        if problem is not None:
            self.ctx.remark("refused", f"this loop is not unrolled: {problem}", loop.loc)
            return None
        self.ctx.remark("applied", message, loop.loc, copies=copies)
        return copies, max_size

    def partial_problem(self, loop: Op, has_loop: bool) -> str | None:
        """Why a loop cannot be unrolled by the factor, or None if it can."""
        if self.options.full:
            return "its trip count is not constant"
        if has_loop:
            return "it holds a loop of its own"
        step, counter = bounds(loop)[2], loop.regions[0].args[0].type
        if not isinstance(step, int):
            return "its step is not constant"
        if step * self.options.factor > arith.int_range(counter)[1]:
            return f"{self.options.factor} steps of {step} do not fit in {counter}"
        if trip_count(loop) is None and counter.is_signed:
            return f"the distance between bounds that are not constant may not fit in {counter}"
        return None

    def whole(self, loop: Op, trips: int) -> list[Op]:
        lower, _, step = bounds(loop)
        assert isinstance(lower, int)
        assert isinstance(step, int)
        out: list[Op] = []
        carried = inits(loop)
        counter = loop.regions[0].args[0]
        for trip in range(trips):
            out.append(constant(lower + trip * step, counter.type, counter.name, loop))
            carried = _iteration(loop, out[-1].result, carried, out)
        self.replaced.update(zip(loop.results, carried, strict=True))
        return out

    def partial(self, loop: Op, factor: int) -> list[Op]:
        """A loop of `factor` iterations a turn, then `loop` itself for those that are left."""
        lower, upper, step = bounds(loop)
        assert isinstance(step, int)
        out: list[Op] = []
        split, has_rest = _split_bounds(loop, step * factor, out)
        counter, *arguments = loop.regions[0].args
        first = Value(counter.name, counter.type)
        carried: tuple[Value, ...] = tuple([Value(a.name, a.type) for a in arguments])
        body = Block((first, *carried))
        for trip in range(factor):
            index = first
            if trip:
                offset = constant(trip * step, counter.type, "offset", loop)
                index = Value(counter.name, counter.type)
                body.ops += [offset, Op(OPS["add"], (first, offset.result), (index,), loc=loop.loc)]
            carried = _iteration(loop, index, carried, body.ops)
        if carried:
            body.ops.append(Op(OPS["yield"], carried, loc=loop.loc))
        results = tuple([Value(r.name, r.type) for r in loop.results]) if has_rest else loop.results
        main = Op(OPS["for"], loop.operands, results, loop.attrs, (body,), loop.loc)
        with_bounds(main, lower, split, step * factor)
        out.append(main)
        if has_rest:
            with_bounds(loop, split, upper, step)
            loop.operands = (*loop.operands[: len(loop.operands) - len(results)], *results)
            out.append(loop)
        return out


def _iteration(loop: Op, counter: Value, carried: tuple[Value, ...], out: list[Op]) -> tuple[Value, ...]:
    """Append one iteration of `loop` to `out`; return the values that it carries to the next."""
    body = loop.regions[0]
    mapping = dict(zip(body.args, (counter, *carried), strict=True))
    ops, yielded = splittable(body)
    out += clone(ops, mapping)
    return tuple([mapping.get(v, v) for v in yielded])


def _split_bounds(loop: Op, stride: int, out: list[Op]) -> tuple[Bound, bool]:
    """Return the bound between full turns of `stride` and the remaining iterations, and whether any may remain."""
    lower, upper, step = bounds(loop)
    trips = trip_count(loop)
    if trips is not None:
        assert isinstance(lower, int)
        assert isinstance(step, int)
        full_turns = trips * step // stride * stride
        return (upper, False) if full_turns == trips * step else (lower + full_turns, True)
    dtype = loop.regions[0].args[0].type

    def value(bound: Bound, name: str) -> Value:
        if isinstance(bound, Value):
            return bound
        out.append(constant(bound, dtype, name, loop))
        return out[-1].result

    def binary(name: str, a: Value, b: Value) -> Value:
        out.append(Op(OPS[name], (a, b), (Value("split", dtype),), loc=loop.loc))
        return out[-1].result

    # end = max(lower, upper); end - (end - lower) % stride; all unsigned, so nothing wraps
    start = value(lower, "lower")
    end = binary("max", value(upper, "upper"), start)
    remainder = binary("rem", binary("sub", end, start), value(stride, "stride"))
    return binary("sub", end, remainder), True
