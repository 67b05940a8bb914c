"""The claims that loops load at other places than they did: those of `batch_loads` and `keep_loads`.

Both programs are run side by side, with terms for values.  What has an effect must be the same, with the same operands, in
the same order; loads and pure ops may be anywhere, as equal terms are equal values:

    a loop                           where an iteration of the new one stands for `by` of the old one: for each number of
                                     iterations that may be left, the old body so often is the new body once
    a loop, and a branch in which    for each number of iterations that it may have where the branch is taken, the old body
    it is written out                so often is what stands there; and the loop itself where it is not
    a loop of constant length        the old body so often

A load of a vector, of which the old program has none, is the loads of its elements.  A load of a buffer that the program never writes is a term of its index.  One of another buffer also says behind which
store it stands, of those that may be of its element.  A load that the old program does not make, under these conditions
or weaker ones, may be out of bounds, so it may not be there.

Trusted is, besides what `--certify` takes for granted anywhere, that loops end.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import z3

from ..ir.access_extents import access_extents
from ..ir.loops import bounds, inits
from ..ir.program import Op, Program, Value
from ..ir.rewrite import splittable
from ..ir.types import DataType
from .frame_condition import match_declarations
from .loop_paths import Paths
from .loop_terms import Node, Term, Terms, beyond, centred
from .mismatch import Mismatch
from .obligations import Obligation, not_seen

__all__ = ["rewritten_loops"]

BOOL = DataType.BOOL

Item = Op | Callable[[], None]
Load = tuple[str, object, tuple[Term, ...]]

MOST_OPS = 1 << 14
"""Most ops in the iterations of a loop of constant length that is run one by one."""
UNIFORM = {"const", "len", "workgroup_id", "num_workgroups", "workgroup_size", "global_size", "subgroup_size",
           "num_subgroups", "param", "spec", "linear"}  # fmt: skip
"""Ops that are the same for all invocations of a workgroup, if their operands are."""


def rewritten_loops(
    before: Program, after: Program, counts: Mapping[Op, int]
) -> list[tuple[Op | None, Obligation]]:
    """All that has to hold, each with the loop that it is about.  `counts`: the most iterations of loops that are written
    out, as the pass says."""
    what = f"@{after.name} has the effects of @{before.name}"
    walk = _SideBySide(before, after, counts)
    try:
        match_declarations(before, after, ())
        walk.match()
    except Mismatch as mismatch:
        return [(None, not_seen(what, str(mismatch), mismatch.ops))]
    return [(None, Obligation(what, [], [], [], z3.BoolVal(True))), *walk.paths.obligations]


class _Side:
    """One of the two programs.  `values`: its terms; `pending`: items to run, the next one last."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.values: dict[Value, Term] = {}
        self.pending: list[Item] = []

    def push(self, items: Sequence[Item]) -> None:
        self.pending += reversed(items)


Place = tuple[tuple[str, ...], tuple[Term, ...], tuple[tuple[Term, int], ...], int]
"""Place of a store without a number in its last index: the types of indices, the other indices, the parts of the last one, and its width."""


class _Stores:
    """The stores to a buffer in their order, by numbers.

    `fence`: the last one that may be of any element.  `latest`: those behind it, by their places and by what is added there;
    so that a load is compared with one store of its own place only, and not with the stores of all iterations.
    """

    def __init__(self) -> None:
        self.fence = 0
        self.latest: dict[Place, dict[int, tuple[int, tuple[Term, ...]]]] = {}

    def forget(self, number: int) -> None:
        self.fence = number
        self.latest.clear()


class _SideBySide:
    def __init__(self, before: Program, after: Program, counts: Mapping[Op, int]) -> None:
        self.old, self.new, self.counts = _Side(before), _Side(after), counts
        self.terms = Terms()
        self.paths = Paths(self.terms)
        self.vectors = {(op.attrs["buffer"], op.result.type) for op in before.walk() if op.name == "load"}
        self.written = {op.attrs["buffer"] for op in before.walk() if "write" in op.definition.effects}
        self.stores = {name: _Stores() for name in self.written}
        self.writes = 0
        self.loads: dict[Load, set[tuple[frozenset[tuple[Term, bool]], int]]] = {}
        """Loads of the old program, each with its conditions and the stops before it."""
        self.new_loads: dict[tuple[Load, frozenset[tuple[Term, bool]], int], Op] = {}
        self.stops = 0
        self.uniform: set[Term] = set()
        self._is_quiet: dict[Op, bool] = {}

    def match(self) -> None:
        """Raises Mismatch."""
        with self.paths.claims("conditions outside of loops are what they seem", None, []):
            self.run(self.old.program.body.ops, self.new.program.body.ops)
        for (load, conditions, stops), op in self.new_loads.items():
            if not any(guards <= conditions and at <= stops for guards, at in self.loads.get(load, ())):
                raise Mismatch(f"this {op.name} is not made before under such conditions", op)

    # --- ops in order -----------------------------------------------------------------------------

    def run(self, old: Sequence[Item], new: Sequence[Item]) -> None:
        """Both side by side, to their ends."""
        outer = self.old.pending, self.new.pending
        self.old.pending, self.new.pending = [*reversed(old)], [*reversed(new)]
        while True:
            was, now = self.next(self.old), self.next(self.new)
            if was is None and now is None:
                break
            self.pair(was, now)
        self.old.pending, self.new.pending = outer

    def next(self, side: _Side) -> Op | None:
        """The next op that is to be found on the other side as well; None at the end."""
        while side.pending:
            op = side.pending.pop()
            if not isinstance(op, Op):
                op()
            elif op.definition.is_pure:
                side.values.update(zip(op.results, self.pure(side, op), strict=True))
            elif op.name == "load":
                side.values[op.result] = self.load(side, op)
            elif op.name == "region":
                side.push(self.block(side, op, 0))
            elif op.name != "if":
                return op
            elif (value := self.paths.decide(self.of(side, op.operands)[0])) is not None:
                side.push(self.block(side, op, 0 if value else 1))
            elif self.is_quiet(op):
                self.quiet_branch(side, op)
            else:
                return op
        return None

    def pair(self, was: Op | None, now: Op | None) -> None:
        """The next ops of both.  Raises Mismatch."""
        if was is not None and was in self.counts and was.name == "for":
            count = self.trip_count(was)
            if count is not None:
                if now is not None:
                    self.new.push([now])
                self.unroll(was, count)
                return
            if now is not None and now.name == "if":
                self.written_out(was, now)
                return
        if now is not None and now.name == "for" and (was is None or was.name != "for"):
            count = self.count_left(now)
            if count is not None:
                if was is not None:
                    self.old.push([was])
                self.new.push(self.all_iterations(self.new, now, count))
                return
        if was is None or now is None or was.name != now.name:
            raise Mismatch("here the programs differ", *(op for op in (was, now) if op is not None))
        rule = {"if": self.branch, "for": self.loop, "while": self.while_loop}.get(was.name, self.effect)
        rule(was, now)

    def of(self, side: _Side, values: Sequence[Value]) -> list[Term]:
        return [self.paths.resolved(side.values[value]) for value in values]

    def block(self, side: _Side, op: Op, region: int) -> list[Item]:
        """The items of a block, and what gives its values to the results."""
        if region >= len(op.regions):
            return []
        ops, ends = splittable(op.regions[region])
        return [*ops, partial(self.give, side, op.results, ends)]

    def give(self, side: _Side, results: Sequence[Value], ends: Sequence[Value]) -> None:
        side.values.update(zip(results, self.of(side, ends), strict=True))

    # --- values -------------------------------------------------------------------------------------

    def pure(self, side: _Side, op: Op) -> tuple[Term, ...]:
        if op.name == "len":
            buffer = side.program.buffers[op.attrs["buffer"]]
            dimension = op.attrs.get("dimension")
            length = buffer.count if dimension is None else buffer.shape[dimension]
            if length is not None:
                return (self.terms.number(length, op.result.type),)
        if op.name == "select" and op.operands[0].type.is_bool:
            condition, *values = self.of(side, op.operands)
            if (holds := self.paths.decide(condition)) is not None:
                return (values[0 if holds else 1],)
        if op.name == "extract":
            vector = self.terms.nodes[self.of(side, op.operands)[0]]
            if vector.name == "elements":
                return (vector.operands[op.attrs["index"]],)
        return self.terms.of(side.program, op, self.of(side, op.operands))

    def load(self, side: _Side, op: Op) -> Term:
        dtype, indices = op.result.type, tuple(self.of(side, op.indices))
        if side is self.old or not dtype.is_vec or (op.attrs["buffer"], dtype) in self.vectors:
            return self.load_one(side, op, dtype, indices)
        *rows, index = indices
        self.claim_room(index, dtype.lanes - 1)
        elements = [
            self.load_one(side, op, dtype.element, (*rows, self.terms.moved(index, lane)))
            for lane in range(dtype.lanes)
        ]
        return self.terms.add(Node("elements", dtype, (), tuple(elements)))

    def claim_room(self, index: Term, distance: int) -> None:
        """An index does not wrap around where a distance is added."""
        bits, is_signed = self.terms.dtype(index).bits or 1, self.terms.dtype(index).is_signed
        most = (1 << (bits - is_signed)) - 1 - distance
        no_more = operator.le if is_signed else z3.ULE
        self.paths.claim(("room", index, distance), no_more(self.terms.to_z3(index), most))

    def load_one(self, side: _Side, op: Op, dtype: DataType, indices: tuple[Term, ...]) -> Term:
        name = op.attrs["buffer"]
        lanes = dtype.lanes // side.program.buffers[name].dtype.lanes
        key: Load = (name, dtype, indices)
        path = self.paths.now
        if side is self.old:
            self.loads.setdefault(key, set()).add((path.guards, self.stops))
        else:
            self.new_loads.setdefault((key, path.closure, self.stops), op)
        behind = self.behind(name, indices, lanes) if name in self.stores else 0
        return self.terms.add(Node("load", dtype, (name, behind), indices))

    def behind(self, name: str, indices: tuple[Term, ...], width: int) -> int:
        """The last store that may be of the elements of a load."""
        stores = self.stores[name]
        last, (own, const) = stores.fence, self.place(indices, width)
        for place, by_const in stores.latest.items():
            if place == own and width == 1:  # another number is another element, also modulo 2^bits
                last = max(last, by_const.get(const, (0, ()))[0])
                continue
            for number, other in by_const.values():
                if number > last and not self.are_apart(other, place[-1], indices, width):
                    last = number
        return last

    def place(self, indices: tuple[Term, ...], width: int) -> tuple[Place, int]:
        parts, const = self.terms.linear(indices[-1])
        types = tuple(self.terms.dtype(each).name for each in indices)
        return (types, indices[:-1], tuple(parts.items()), width), const

    def are_apart(
        self, store: tuple[Term, ...], store_width: int, load: tuple[Term, ...], width: int
    ) -> bool:
        """Whether a store surely is of other elements: a guess, which becomes a claim."""
        widths = [*[(1, 1)] * (len(load) - 1), (store_width, width)]
        for one, other, (wide, long) in reversed([*zip(store, load, widths, strict=True)]):
            if self._seem_apart(one, other, wide, long):
                is_signed = self.terms.dtype(one).is_signed
                extend = z3.SignExt if is_signed else z3.ZeroExt
                a, b = (extend(8, self.terms.to_z3(each)) for each in (one, other))
                self.paths.claim(("apart", one, other, wide, long), z3.Or(a + wide <= b, b + long <= a))
                return True
        return False

    def _seem_apart(self, one: Term, other: Term, wide: int, long: int) -> bool:
        dtype = self.terms.dtype(one)
        if dtype is not self.terms.dtype(other):
            return False
        parts, const = self.terms.difference(other, one)
        if not parts:
            distance = centred(const, dtype.bits or 1)
            return distance >= wide or -distance >= long
        if const or wide > 1 or long > 1 or sorted(parts.values()) != [-1, 1]:
            return False
        a, b = (self.terms.nodes[each] for each in parts)
        sources = [self.terms.dtype(each) for node in (a, b) for each in node.operands]
        is_wider = a.name == b.name == "cast" and all(
            each.is_int and (each.bits or 0) <= (dtype.bits or 0) for each in sources
        )
        return is_wider and self._seem_apart(a.operands[0], b.operands[0], 1, 1)

    # --- branches -------------------------------------------------------------------------------------

    def is_quiet(self, op: Op) -> bool:
        """Whether a branch only loads and computes."""
        if op not in self._is_quiet:
            self._is_quiet[op] = all(
                each.definition.is_pure or each.name in ("load", "if", "yield") for each in op.walk()
            )
        return self._is_quiet[op]

    def quiet_branch(self, side: _Side, op: Op) -> None:
        (condition,) = self.of(side, op.operands)
        outer, ends = side.pending, list[list[Term]]()
        for region, value in enumerate((True, False)):
            with self.paths.scope():
                self.paths.assume(condition, value)
                side.pending = self.block(side, op, region)[::-1]
                self.next(side)
                ends.append([side.values[result] for result in op.results])
        side.pending = outer
        self.choose(side, op.results, condition, *ends)

    def choose(
        self,
        side: _Side,
        results: Sequence[Value],
        condition: Term,
        one: Sequence[Term],
        other: Sequence[Term],
    ) -> None:
        pairs = zip(one, other, strict=True)
        side.values.update(zip(results, (self.terms.choice(condition, a, b) for a, b in pairs), strict=True))

    def branch(self, was: Op, now: Op) -> None:
        """A branch on an unknown condition."""
        (condition,), (other,) = self.of(self.old, was.operands), self.of(self.new, now.operands)
        if condition != other:
            raise Mismatch("this if has another condition", now, was)
        ends: list[tuple[list[Term], list[Term]]] = []
        for region, value in enumerate((True, False)):
            with self.paths.scope():
                self.paths.assume(condition, value)
                self.run(self.block(self.old, was, region), self.block(self.new, now, region))
                ends.append(self.results(was, now))
        for side, op, one, two in zip((self.old, self.new), (was, now), *ends, strict=True):
            self.choose(side, op.results, condition, one, two)

    def results(self, was: Op, now: Op) -> tuple[list[Term], list[Term]]:
        sides = (self.old, was), (self.new, now)
        one, other = ([side.values[result] for result in op.results] for side, op in sides)
        return one, other

    # --- effects --------------------------------------------------------------------------------------

    def effect(self, was: Op, now: Op) -> None:
        """An op that must have an equal one, with its effects on memory."""
        operands = self.of(self.old, was.operands)
        if was.definition.kernel is not None or was.regions:
            raise Mismatch(f"nothing is known of {was.name}", was)
        names = [self.terms.attributes(side.program, op) for side, op in ((self.old, was), (self.new, now))]
        types = [[result.type for result in op.results] for op in (was, now)]
        if names[0] != names[1] or types[0] != types[1] or was.attrs.get("buffer") != now.attrs.get("buffer"):
            raise Mismatch(f"this {now.name} is another one", now, was)
        if operands != self.of(self.new, now.operands):
            raise Mismatch(f"this {now.name} has other operands", now, was)
        for result, other in zip(was.results, now.results, strict=True):
            self.same(result, other, is_uniform=was.name == "workgroup_reduce")
        effects = was.definition.effects
        if effects & {"trap", "fault"}:
            self.stops += 1
        elif was.name == "store":
            width = access_extents(was, self.old.program.buffers[was.attrs["buffer"]])[-1]
            indices = tuple(operands[1:])
            place, const = self.place(indices, width)
            self.writes += 1
            latest = self.stores[was.attrs["buffer"]].latest.setdefault(place, {})
            latest[const] = self.writes, indices
        elif "atomic" in effects and was.attrs["order"] == "relaxed":
            self.writes += 1
            self.stores[was.attrs["buffer"]].forget(self.writes)
        elif "print" not in effects:
            self.forget()

    def same(self, value: Value, other: Value, is_uniform: bool = False) -> Term:
        """Free variables that stand for equal values of both programs."""
        if value.type is not other.type:
            raise Mismatch(f"%{other.name} is of another type")
        term = self.old.values[value] = self.new.values[other] = self.terms.symbol(value.type, value.name)
        if is_uniform:
            self.uniform.add(term)
        return term

    def forget(self) -> None:
        """Any element of what the program writes may be another one now."""
        self.writes += 1
        for stores in self.stores.values():
            stores.forget(self.writes)

    # --- loops ----------------------------------------------------------------------------------------

    def loop(self, was: Op, now: Op) -> None:
        """A loop whose iterations each are one or several iterations of the old loop."""
        (lower, upper, step), by = self.bounds(self.old, was), self.steps_at_once(was, now)
        if by > 1:
            self.check_meetings(was, lower, upper)
        self.check_carried(was, now)
        counter, *carried = self.symbols(was.regions[0].args, now.regions[0].args)
        if step is not None and self.is_uniform(lower) and self.is_uniform(upper):
            self.uniform.add(counter)
        distance = step or 1
        for count in self.counts_left(was, by):
            if (count - 1) * distance >= 1 << (self.terms.dtype(counter).bits or 1):
                continue  # counters do not get as far
            what = "an iteration does what it did" if by == 1 else f"{count} iterations do what they did"
            self.forget()
            with self.paths.claims(what, was, [was, now]):
                self.paths.assume(self.terms.less(lower, upper), True)
                self.paths.assume(self.terms.less(counter, upper), True, guards=False)
                if step is not None:
                    self.paths.assume(self.terms.less(counter, lower), False, guards=False)
                most = count * distance if count < by else None
                self.paths.assume_distance(counter, upper, (count - 1) * distance + 1, most)
                if by > 1:
                    self.paths.assume(self.terms.symbol(BOOL, f"{count} of {by}"), True)
                self.paths.begin_claims()
                ends, others = [*carried], [*carried]
                counters = [self.terms.moved(counter, k * distance) for k in range(count)]
                self.run(
                    self.iterations(self.old, was, counters, ends),
                    self.iterations(self.new, now, [counter], others),
                )
                if ends != others:
                    raise Mismatch("this for carries another value", now, was)
        self.forget()
        self.symbols(was.results, now.results)

    def iterations(self, side: _Side, loop: Op, counters: Sequence[Term], carried: list[Term]) -> list[Item]:
        """The items of a body for each counter.  `carried`: the values that it carries, in place."""
        (body,) = loop.regions
        ops, ends = splittable(body)

        def enter(counter: Term) -> None:
            side.values.update(zip(body.args, (counter, *carried), strict=True))

        def leave() -> None:
            carried[:] = self.of(side, ends)

        items: list[Item] = []
        for counter in counters:
            items += [partial(enter, counter), *ops, leave]
        return items

    def unroll(self, loop: Op, count: int) -> None:
        """A loop of the old program that the new one need not have."""
        self.old.push(self.all_iterations(self.old, loop, count))

    def all_iterations(self, side: _Side, loop: Op, count: int) -> list[Item]:
        """The items of a loop that has so many iterations."""
        lower, _, step = self.bounds(side, loop)
        if step is None:
            raise Mismatch("the step of this for is not constant", loop)
        if count * sum(1 for _ in loop.walk()) > MOST_OPS:
            raise Mismatch("this for is too long to be looked at", loop)
        carried = self.of(side, inits(loop))
        counters = [self.terms.moved(lower, k * step) for k in range(count)]

        def leave() -> None:
            side.values.update(zip(loop.results, carried, strict=True))

        return [*self.iterations(side, loop, counters, carried), leave]

    def written_out(self, loop: Op, branch: Op) -> None:
        """A branch that has a loop written out, for where it has the most iterations that it may have, or one less, and
        beside that the loop."""
        lower, upper, step = self.bounds(self.old, loop)
        most = self.counts[loop]
        if step is None or most < 1 or _meets(loop):
            raise Mismatch("this for cannot be written out", loop, branch)
        (condition,) = self.of(self.new, branch.operands)

        def run(items: Sequence[Item], region: int) -> tuple[list[Term], list[Term]]:
            self.forget()
            self.run(items, self.block(self.new, branch, region))
            return self.results(loop, branch)

        with self.paths.scope():
            self.paths.assume(condition, False)
            others = run([loop], 1)
        with self.paths.scope():
            self.paths.assume(condition, True)
            begins = self.terms.less(lower, upper)
            is_last = self.terms.room(lower, upper, (most - 1) * step)
            self.check_count(loop, begins, (most - 2) * step, most * step)
            self.paths.assume(begins, True)
            ends: list[tuple[list[Term], list[Term]]] = []
            for count in (most, most - 1) if most > 1 else (most,):
                with self.paths.claims(f"{count} iterations do what they did", loop, [loop, branch]):
                    if most > 1:
                        self.paths.assume(is_last, count == most)
                    low, high = (count - 1) * step + 1, count * step
                    self.paths.assume_distance(lower, upper, low, high)
                    self.paths.begin_claims()
                    ends.append(run(self.all_iterations(self.old, loop, count), 0))
        self.forget()
        for number, (side, op) in enumerate(((self.old, loop), (self.new, branch))):
            self.choose(side, op.results, is_last, ends[0][number], ends[-1][number])
            self.choose(side, op.results, condition, [side.values[v] for v in op.results], others[number])

    def check_count(self, loop: Op, begins: Term, low: int, high: int) -> None:
        """Check that a loop begins, and that its bounds are more than `low` apart, but not more than `high`."""
        lower, upper = self.terms.nodes[begins].operands
        bits, apart = self.terms.dtype(lower).bits or 1, self.terms.distance(lower, upper)
        what = "a loop has as many iterations as are written out, or one less"
        with self.paths.claims(what, loop, [loop]):
            self.paths.claim(("begins", begins), self.terms.to_z3(begins))
            inside = z3.And(beyond(apart, max(low, 0), bits), z3.Not(beyond(apart, high, bits)))
            self.paths.claim(("count", begins), inside)

    def while_loop(self, was: Op, now: Op) -> None:
        first = self.first_condition(was)
        self.check_carried(was, now)
        self.forget()
        symbols = self.symbols(was.regions[0].args, now.regions[0].args)
        (head, (condition, *_)), (other_head, (other, *_)) = (splittable(op.regions[0]) for op in (was, now))
        with self.paths.claims("an iteration does what it did", was, [was, now]):
            self.run(head, other_head)
            if self.of(self.old, [condition]) != self.of(self.new, [other]):
                raise Mismatch("this while has another condition", now, was)
            self.paths.assume(self.terms.symbol(BOOL, "an iteration") if first is None else first, True)
            self.paths.assume(self.old.values[condition], True, guards=False)
            bodies = [splittable(op.regions[1]) for op in (was, now)]
            for side, op in ((self.old, was), (self.new, now)):
                side.values.update(zip(op.regions[1].args, symbols, strict=False))
            self.run(bodies[0][0], bodies[1][0])
            if self.of(self.old, bodies[0][1]) != self.of(self.new, bodies[1][1]):
                raise Mismatch("this while carries another value", now, was)
        self.forget()
        self.symbols(was.results, now.results)

    def first_condition(self, loop: Op) -> Term | None:
        """Whether a `while` of the old program has a first iteration; None if its condition has an effect."""
        ops, (condition, *_) = splittable(loop.regions[0])
        if not all(op.definition.is_pure or op.name == "load" for op in ops):
            return None
        self.old.values.update(zip(loop.regions[0].args, self.of(self.old, inits(loop)), strict=True))
        outer, self.old.pending = self.old.pending, [*reversed(ops)]
        self.next(self.old)
        self.old.pending = outer
        return self.old.values[condition]

    # --- bounds -----------------------------------------------------------------------------------------

    def bounds(self, side: _Side, loop: Op) -> tuple[Term, Term, int | None]:
        """The bounds of a loop, and its step if that is written there."""
        dtype = loop.regions[0].args[0].type

        def end(bound: int | Value) -> Term:
            return self.of(side, [bound])[0] if isinstance(bound, Value) else self.terms.number(bound, dtype)

        lower, upper, step = bounds(loop)
        return end(lower), end(upper), step if isinstance(step, int) else None

    def steps_at_once(self, was: Op, now: Op) -> int:
        """Number of iterations of the old loop that one of the new loop is.  Raises Mismatch."""
        *ends, step = self.bounds(self.old, was)
        *other_ends, other = self.bounds(self.new, now)
        if step is not None and other is not None:
            by = 0 if other % step else other // step
        else:
            by = int(
                step is other is None and self.last_bound(self.old, was) == self.last_bound(self.new, now)
            )
        if ends != other_ends or not by:
            raise Mismatch("this for has other bounds", now, was)
        return by

    def last_bound(self, side: _Side, loop: Op) -> Term:
        """Step of a loop that computes it: the last of the loop's operands before the carried ones."""
        return self.of(side, loop.operands[: len(loop.operands) - len(inits(loop))])[-1]

    def check_carried(self, was: Op, now: Op) -> None:
        """Raises Mismatch unless two loops begin with the same values."""
        types = [[arg.type for arg in op.regions[0].args] for op in (was, now)]
        if types[0] != types[1] or self.of(self.old, inits(was)) != self.of(self.new, inits(now)):
            raise Mismatch(f"this {now.name} begins with other values", now, was)

    def symbols(self, values: Sequence[Value], others: Sequence[Value]) -> list[Term]:
        return [self.same(value, other) for value, other in zip(values, others, strict=True)]

    def check_meetings(self, loop: Op, lower: Term, upper: Term) -> None:
        """Raises Mismatch unless invocations that meet in a loop have the same iterations."""
        if _meets(loop) and not (self.is_uniform(lower) and self.is_uniform(upper)):
            raise Mismatch("invocations that meet in this for may have other iterations left", loop)

    def trip_count(self, loop: Op) -> int | None:
        """The iterations of a loop of the old program, where its bounds are known."""
        lower, upper, step = self.bounds(self.old, loop)
        start, end = (self.terms.linear(each) for each in (lower, upper))
        if start.parts or end.parts or step is None:
            return None
        return max(0, -((start.const - end.const) // step))

    def count_left(self, loop: Op) -> int | None:
        """The iterations of a loop of the new program, where it is known how far its bounds are apart."""
        lower, upper, step = self.bounds(self.new, loop)
        return None if step is None else self.paths.steps_between(lower, upper, step)

    def counts_left(self, loop: Op, by: int) -> list[int]:
        """The iterations that may be left where `by` of them at a time are done, `by` for as many or more."""
        total = self.trip_count(loop)
        if total is None:
            return [*range(1, by + 1)]
        return [count for count in (total % by, by if total >= by else 0) if count]

    def is_uniform(self, term: Term) -> bool:
        """Whether all invocations of a workgroup have the same value."""
        node = self.terms.nodes[term]
        if self.old.program.lanes == 1 or term in self.uniform:
            return True
        if node.name == "symbol" or (node.name == "load" and node.attrs[0] in self.written):
            return False
        if not node.operands and node.name not in UNIFORM:
            return False
        is_uniform = all(map(self.is_uniform, node.operands))
        if is_uniform:
            self.uniform.add(term)
        return is_uniform


def _meets(loop: Op) -> bool:
    """Whether invocations may meet in a loop."""
    return any(op.definition.effects & {"sync", "wait", "subgroup", "workgroup"} for op in loop.walk())
