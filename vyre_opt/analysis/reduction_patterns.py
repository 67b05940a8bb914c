"""Reductions and scans that a program writes out: by shuffles, and through workgroup memory.

A workgroup is executed with the local ids that it has, and with terms for all else (see lane_terms.py):

    %o = subgroup_shuffle<xor> %v, 16      lane 0 has v[16], lane 1 has v[17], ...
    %s = add %v, %o                        lane 0 has v[0] + v[16], ...
    store %s, @t[%subgroup] in lane 0      @t[0] holds the term of lane 0, @t[1] that of lane 32, ...
    %r = load @t[%lane]                    lane 1 has what @t[1] holds

If a value has in each lane the term that a reduction or a scan of another value has there, it is that, however it was
computed: by a butterfly or a fold, in a loop of known length, by the first subgroup or by all.  A program is free of races,
so what a lane loads is what was stored last in program order, and barriers need no look.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial, reduce

from ..ir.loops import bounds, inits
from ..ir.ops import COMBINERS, SUBGROUP_SIZE
from ..ir.program import Block, Buffer, Op, Program, Value
from ..ir.types import DataType
from ..ir.uniformity import Level, Uniformity
from ..records import dataclass
from .effects import effects_of, summarize
from .lane_terms import Term, Terms, is_ordered
from .lane_values import elementwise_fold, wrap_lanes
from .value_forms import ValueForms

__all__ = ["Match", "MatchFailure", "find_reductions"]

Lanes = tuple[Term, ...]
"""The term of a value in each lane of the workgroup."""

ByLane = tuple[int, ...]
Place = tuple[Op, int] | None
"""A block: the op that has it, and its number there; None for the body of the program."""

Mask = tuple[bool, ...] | None
"""The lanes that execute a block; None for all."""

MAX_COMPUTED = 1 << 19
"""Terms of lanes that are made for a program, a fraction of a second; what comes later is not looked into."""

MAX_ELEMENTS = 2048
"""Elements of a workgroup buffer whose contents are followed."""

SHUFFLE, STEPS = "subgroup_shuffle", 5
_STEPS = (SHUFFLE, "select", "for", "while", "region")
"""Ops between a value and its reduction, beside the combiner."""

_LEVELS = {"workgroup_reduce": Level.WORKGROUP, "subgroup_reduce": Level.SUBGROUP}

MAX_TRIPS = 32
"""Rounds of a loop that are executed: as many as there are subgroups."""


@dataclass(frozen=True, slots=True)
class Match:
    """A value that is a reduction of another one.

    `op`: the op after which it is known.  `mode`: of a scan, else empty.  `constant`: encoded, what the reduction is to be
    combined with; None if nothing.
    """

    op: Op
    result: Value
    name: str
    source: Value
    combine: str
    mode: str = ""
    constant: int | None = None


@dataclass(frozen=True, slots=True)
class MatchFailure:
    """A value that is nearly a reduction, and the reason why it is none."""

    op: Op
    result: Value
    reason: str


@dataclass(frozen=True, slots=True)
class _Reduced:
    """Known form of a value; `name` and `mode` as in Match."""

    name: str
    source: Value
    combine: str
    mode: str = ""


class _Unknown(Exception):
    """A loop cannot be executed here."""


def find_reductions(
    program: Program, uniformity: Uniformity, debug: Callable[..., None] | None = None
) -> list[Match | MatchFailure]:
    """The values of a program that are reductions or scans, or nearly are, in program order.  `debug`: of PassContext."""
    search = _Search(program, uniformity, debug)
    search.block(program.body, None)
    return search.results


@dataclass(slots=True)
class _Closure:
    """The ops that a value is combined by: `sources` are the values that they begin with, `shuffles` how lanes meet."""

    values: set[Value] = field(default_factory=set)
    sources: list[Value] = field(default_factory=list)
    shuffles: list[Op] = field(default_factory=list)


class _Search:
    def __init__(
        self, program: Program, uniformity: Uniformity, debug: Callable[..., None] | None = None
    ) -> None:
        self.program, self.uniformity, self.debug = program, uniformity, debug
        self.lanes = program.lanes
        self.forms = ValueForms(program)
        self.terms = Terms()
        self.env: dict[Value, Lanes] = {}
        """Values that come of other lanes."""
        self.known: dict[Value, ByLane] = {}
        """Values that are known in the round of a loop that is executed."""
        self.memory: dict[str, dict[int, Term]] = {}
        """Elements of workgroup buffers whose contents are known."""
        self.reduced: dict[Value, _Reduced] = {}
        self.origin: dict[Term, Value] = {}
        """The value that a leaf is of."""
        self.inner: set[Value] = set()
        """The values that a loop which is being executed defines; empty outside of one."""
        self.computed = 0
        self.results: list[Match | MatchFailure] = []
        self.users: dict[Value, list[Op]] = {}
        self.parents: dict[Op, Place] = {}
        self.arguments: dict[Value, Place] = {}
        for op in program.walk():
            for operand in op.operands:
                self.users.setdefault(operand, []).append(op)
            for number, block in enumerate(op.regions):
                self.parents.update((inner, (op, number)) for inner in block.ops)
                self.arguments.update((arg, (op, number)) for arg in block.args)

    # --- values

    def values_of(self, value: Value) -> ByLane | None:
        """An integer or a bool in each lane, if it depends on the local ids alone."""
        if value in self.known:
            return self.known[value]
        if not (value.type.is_int or value.type.is_bool):
            return None
        if isinstance(value.owner, Op) and value.owner.name == "const":
            return (value.owner.attrs["value"],) * self.lanes
        return None if value in self.inner else self.forms.lane_values.of(value)

    def uniform(self, bound: int | Value) -> int:
        """A bound of a loop that all lanes know and share.  Raises _Unknown."""
        values = (bound,) if isinstance(bound, int) else self.values_of(bound)
        if values is None or len(set(values)) > 1:
            raise _Unknown
        return values[0]

    def lanes_of(self, value: Value) -> Lanes:
        """The term of a scalar in each lane."""
        if value in self.env:
            return self.env[value]
        self.computed += self.lanes
        if isinstance(value.owner, Op) and value.owner.name == "const":
            return (self.terms.const(value.owner.attrs["value"], value.type),) * self.lanes
        if value in self.known:
            return tuple(self.terms.const(each, value.type) for each in self.known[value])
        if value in self.inner:
            raise _Unknown  # it has another value in each round
        return self.leaves_of(value)

    def leaves_of(self, value: Value) -> Lanes:
        level, reduced = self.uniformity.level(value), self.reduced.get(value)
        if reduced is not None:
            level = min(level, _LEVELS.get(reduced.name, Level.INVOCATION))
        step = {Level.SUBGROUP: SUBGROUP_SIZE, Level.INVOCATION: 1}.get(level, self.lanes)
        leaves = []
        for lane in range(self.lanes):
            if reduced is not None and self.is_total(reduced, lane):
                leaf = self.terms.leaf("total", reduced.source, reduced.combine, lane // SUBGROUP_SIZE)
            else:
                leaf = self.terms.leaf(value, lane // step)
            self.origin.setdefault(leaf, value)
            leaves.append(leaf)
        return tuple(leaves)

    def is_total(self, reduced: _Reduced, lane: int) -> bool:
        """Whether a lane has its subgroup's total: in a scan the last lane, if the order does not matter."""
        if is_ordered(reduced.combine, reduced.source.type):
            return False
        is_last = lane % SUBGROUP_SIZE == SUBGROUP_SIZE - 1
        return reduced.name == "subgroup_reduce" or (
            (reduced.name, reduced.mode) == ("subgroup_scan", "inclusive") and is_last
        )

    # --- blocks

    def block(self, block: Block, mask: Mask) -> None:
        for op in block.ops:
            if self.computed > MAX_COMPUTED:
                if self.inner:
                    raise _Unknown
                return
            if op.regions:
                self.structured(op, mask)
            else:
                self.simple(op, mask)
            if not self.inner:
                for result in op.results:
                    if result in self.env:
                        self.match(op, result, mask)

    def simple(self, op: Op, mask: Mask) -> None:
        format = op.definition.format
        if op.definition.is_pure:
            self.pure(op)
        elif format == "shuffle":
            self.shuffle(op)
        elif format in ("reduce", "scan"):
            self.reduction(op)
        elif op.name == "load":
            self.load(op, mask)
        elif op.name == "store":
            self.store(op, mask)
        else:
            for name in effects_of(op).writes:
                self.memory.pop(name, None)
        if self.inner:
            self.know(op)

    def know(self, op: Op) -> None:
        """Compute lane values in a round of a loop, and drop those of the previous round."""
        for result in op.results:
            self.known.pop(result, None)
        fold = elementwise_fold(op)
        operands = [self.values_of(operand) for operand in op.operands] if fold is not None else []
        known = [each for each in operands if each is not None]
        if fold is not None and known and len(known) == len(operands):
            self.computed += self.lanes
            self.known[op.result] = wrap_lanes(tuple(fold(*known)), op.result.type)

    def pure(self, op: Op) -> None:
        for result in op.results:
            self.env.pop(result, None)
        if len(op.results) != 1 or self.env.keys().isdisjoint(op.operands):
            return
        dtype = op.result.type
        if op.name in COMBINERS and not dtype.is_vec:
            a, b = map(self.lanes_of, op.operands)
            self.env[op.result] = self.combine(op.name, dtype, a, b)
        elif op.name == "select" and not dtype.is_vec:
            condition = self.values_of(op.operands[0])
            if condition is not None:
                a, b = map(self.lanes_of, op.operands[1:])
                self.env[op.result] = _picked(condition, a, b)

    def combine(self, combine: str, dtype: DataType, a: Lanes, b: Lanes) -> Lanes:
        self.computed += self.lanes
        return tuple(self.terms.combine(combine, dtype, x, y) for x, y in zip(a, b, strict=True))

    # --- ops across lanes

    def shuffle(self, op: Op) -> None:
        value, amounts = op.operands[0], self.values_of(op.operands[1])
        self.env.pop(op.result, None)
        if amounts is None or value.type.is_vec:
            return
        terms, mode = self.lanes_of(value), op.attrs["mode"]
        permuted = []
        for linear, amount in enumerate(amounts):
            lane = linear % SUBGROUP_SIZE
            source = {"idx": amount, "up": lane - amount, "down": lane + amount, "xor": lane ^ amount}[mode]
            place = linear - lane + source
            permuted.append(terms[place if 0 <= source < SUBGROUP_SIZE and place < self.lanes else linear])
        self.computed += self.lanes
        self.env[op.result] = tuple(permuted)

    def reduction(self, op: Op) -> None:
        source, combine = op.operands[0], op.attrs["combine"]
        self.env.pop(op.result, None)
        reduced = _Reduced(op.name, source, combine, op.attrs.get("mode", ""))
        if source not in self.env and not self.inner:
            self.reduced[op.result] = reduced
        elif (lanes := self.expected(reduced)) is not None:
            self.env[op.result] = lanes

    def expected(self, reduced: _Reduced) -> Lanes | None:
        """The terms that a reduction or scan of a subgroup has; None for an exclusive scan."""
        terms, dtype = self.lanes_of(reduced.source), reduced.source.type
        parts = [terms[k : k + SUBGROUP_SIZE] for k in range(0, self.lanes, SUBGROUP_SIZE)]
        self.computed += self.lanes
        if reduced.name == "subgroup_reduce":
            totals = (self.terms.fold(reduced.combine, dtype, part) for part in parts)
            return tuple(total for total, part in zip(totals, parts, strict=True) for _ in part)
        if (reduced.name, reduced.mode) == ("subgroup_scan", "inclusive"):
            return tuple(term for part in parts for term in self.terms.run(reduced.combine, dtype, part))
        return None

    # --- workgroup memory

    def tracked_buffer(self, op: Op) -> Buffer | None:
        """The buffer of an access, if its contents are followed."""
        buffer = self.program.buffers[op.attrs["buffer"]]
        is_small = buffer.is_workgroup and 0 < (buffer.count or 0) <= MAX_ELEMENTS
        return buffer if is_small and buffer.dimensions == 1 and not buffer.dtype.is_vec else None

    def load(self, op: Op, mask: Mask) -> None:
        self.env.pop(op.result, None)
        if self.tracked_buffer(op) is None or op.result.type.is_vec:
            return
        contents = self.memory.get(op.attrs["buffer"])
        indices = self.values_of(op.operands[0]) if contents else None
        if indices is None or contents is None:
            return
        nothing = self.terms.leaf("nothing")
        self.computed += self.lanes
        terms = [
            contents.get(index) if mask is None or mask[lane] else nothing
            for lane, index in enumerate(indices)
        ]
        terms_loaded = [term for term in terms if term is not None]
        if len(terms_loaded) == len(terms):
            self.env[op.result] = tuple(terms_loaded)
        elif self.debug is not None:
            self.debug("{}: {} lanes load what is not known", op, len(terms) - len(terms_loaded), loc=op.loc)

    def store(self, op: Op, mask: Mask) -> None:
        value, name = op.operands[0], op.attrs["buffer"]
        if self.tracked_buffer(op) is None:
            return
        indices = self.values_of(op.operands[1])
        if indices is None or value.type.is_vec:
            self.memory.pop(name, None)
            return
        terms = self.lanes_of(value)
        self.computed += self.lanes
        stores = [
            (i, t)
            for lane, (i, t) in enumerate(zip(indices, terms, strict=True))
            if mask is None or mask[lane]
        ]
        if len({index for index, _ in stores}) < len(stores):
            self.memory.pop(name, None)
        else:
            self.memory.setdefault(name, {}).update(stores)

    # --- control flow

    def structured(self, op: Op, mask: Mask) -> None:
        for result in op.results:
            self.env.pop(result, None)
            self.known.pop(result, None)
        if op.name == "region":
            self.block(op.regions[0], mask)
            self.give(op, op.regions[0])
        elif op.name == "if" and (condition := self.values_of(op.operands[0])) is not None:
            self.branch(op, condition, mask)
        elif self.inner:
            self.execute(op, mask)
        elif op.name == "if" or not self.try_execute(op, mask):
            self.apart(op, mask)

    def apart(self, op: Op, mask: Mask) -> None:
        """Visit an `if` or a loop for which it is unknown which lanes enter it, and how often."""
        written = summarize(Block((), [op]))[0].writes
        is_loop = op.name in ("for", "while")
        before = {name: it for name, it in self.memory.items() if not (is_loop and name in written)}
        for block in op.regions:
            self.memory = {name: dict(contents) for name, contents in before.items()}
            self.block(block, mask)
        self.memory = {name: it for name, it in before.items() if name not in written}

    def give(self, op: Op, block: Block) -> None:
        end = block.terminator
        for result, value in zip(op.results, end.operands if end is not None else (), strict=False):
            if value in self.env:
                self.env[result] = self.env[value]

    def branch(self, op: Op, condition: ByLane, mask: Mask) -> None:
        """Visit an `if` for which it is known which lanes take which side."""
        ends = []
        for block, side in zip(op.regions, (True, False), strict=False):
            self.block(
                block,
                tuple(bool(c) is side and (mask is None or mask[lane]) for lane, c in enumerate(condition)),
            )
            ends.append(block.terminator)
        if len(ends) != 2 or None in ends:
            return
        for k, result in enumerate(op.results):
            sides = [end.operands[k] for end in ends if end is not None]
            if not self.env.keys().isdisjoint(sides) and not result.type.is_vec:
                self.env[result] = _picked(condition, *map(self.lanes_of, sides))

    # --- loops of known length

    def try_execute(self, loop: Op, mask: Mask) -> bool:
        """Execute a loop if it moves values between lanes; return whether that succeeded."""
        moves = any("subgroup" in op.definition.effects or self.reads_known(op) for op in loop.walk())
        if not moves:
            return False
        memory = {name: dict(contents) for name, contents in self.memory.items()}
        self.inner = {value for op in loop.walk() for value in _defined(op)} - set(loop.results)
        try:
            self.execute(loop, mask)
        except _Unknown:
            self.memory = memory
            for result in loop.results:
                self.env.pop(result, None)
            return False
        finally:
            for value in self.inner:
                self.env.pop(value, None)
            self.inner, self.known = set(), {}
        return True

    def reads_known(self, op: Op) -> bool:
        return op.name == "load" and bool(self.memory.get(op.attrs["buffer"]))

    def execute(self, loop: Op, mask: Mask) -> None:
        """Execute a loop of known length.  Raises _Unknown."""
        if loop.name == "for":
            self.execute_for(loop, mask)
        elif loop.name == "while":
            self.execute_while(loop, mask)
        else:
            raise _Unknown

    def execute_for(self, loop: Op, mask: Mask) -> None:
        lower, upper, step = map(self.uniform, bounds(loop))
        rounds = range(lower, upper, step) if step > 0 else range(MAX_TRIPS + 1)
        if len(rounds) > MAX_TRIPS:
            raise _Unknown
        (body,) = loop.regions
        counter, *carried = body.args
        values = self.lane_state(inits(loop))
        for count in rounds:
            self.known[counter] = (count,) * self.lanes
            self.take(carried, values)
            self.block(body, mask)
            values = self.lane_state(body.terminator.operands if body.terminator is not None else ())
        self.take(loop.results, values)

    def execute_while(self, loop: Op, mask: Mask) -> None:
        condition, body = loop.regions
        values = self.lane_state(inits(loop))
        for _ in range(MAX_TRIPS + 1):
            self.take(condition.args, values)
            self.block(condition, mask)
            assert condition.terminator is not None
            if not self.uniform(condition.terminator.operands[0]):
                self.take(loop.results, self.lane_state(condition.args))
                return
            self.take(body.args, self.lane_state(condition.args))
            self.block(body, mask)
            values = self.lane_state(body.terminator.operands if body.terminator is not None else ())
        raise _Unknown

    def lane_state(self, values: Iterable[Value]) -> list[tuple[ByLane | None, Lanes | None]]:
        return [
            (
                self.values_of(value),
                None if value.type.is_vec or value.type.is_matrix else self.lanes_of(value),
            )
            for value in values
        ]

    def take(self, args: Sequence[Value], values: Sequence[tuple[ByLane | None, Lanes | None]]) -> None:
        for arg, (by_lane, lanes) in zip(args, values, strict=True):
            self.known.pop(arg, None)
            self.env.pop(arg, None)
            if by_lane is not None:
                self.known[arg] = by_lane
            if lanes is not None:
                self.env[arg] = lanes

    # --- recognition

    def match(self, op: Op, result: Value, mask: Mask) -> None:
        """Enter what `result`, a value that comes of other lanes, is a reduction of."""
        level = self.uniformity.control.get(op, (Level.GRID,))[0]
        observed = _both(mask, self.observed_lanes(op, result))
        if observed is not None and not any(observed):
            return
        if self.debug is not None:
            leaves = len(self.terms.leaves(self.env[result][-1]))
            self.debug("%{} has {} values of lanes in the last one", result.name, leaves, loc=op.loc)
        match = self.of_subgroup(op, result, observed) if level <= Level.SUBGROUP else None
        if match is None and mask is None and level <= Level.WORKGROUP and self.lanes > SUBGROUP_SIZE:
            match = self.of_workgroup(op, result, observed)
        if match is None or not self.reaches(match.source, op):
            return
        self.results.append(match)
        # of a source that is itself combined, the terms say more than the name of the result
        if match.source not in self.env and match.constant is None:
            del self.env[result]
            self.reduced[result] = _Reduced(match.name, match.source, match.combine, match.mode)

    def reaches(self, value: Value, op: Op) -> bool:
        """Whether a value that is computed before `op` can be used there, given out of the regions that are around it."""
        around = set(_places_around(self.parents, self.parents.get(op)))
        place = self.place(value)
        while place not in around:
            if place is None or place[0].name != "region":
                return False
            place = self.parents.get(place[0])
        return True

    def place(self, value: Value) -> Place:
        """The block that defines a value."""
        owner = value.owner
        return self.parents.get(owner) if isinstance(owner, Op) else self.arguments.get(value)

    def observed_lanes(self, op: Op, result: Value) -> Mask:
        """The lanes in which anybody looks at a result of `op`."""
        lanes: Mask = (False,) * self.lanes
        for user in self.users.get(result, ()):
            seen = self.entry_mask(user, self.parents.get(op))
            if lanes is None or seen is None:
                return None
            lanes = tuple(a or b for a, b in zip(lanes, seen, strict=True))
        return lanes

    def entry_mask(self, op: Op, outer: Place) -> Mask:
        """The lanes that come to `op` from the block `outer`, of an op and the number of the block in it, that is around it."""
        mask: Mask = None
        for place in _places_around(self.parents, self.parents.get(op)):
            if place == outer or place is None:
                break
            parent, number = place
            condition = self.values_of(parent.operands[0]) if parent.name == "if" else None
            if condition is not None:
                mask = _both(mask, tuple(bool(c) is (number == 0) for c in condition))
        return mask

    def combiner(self, result: Value, observed: Mask) -> str | None:
        """Combiner of the term of the last lane that is read."""
        last = (
            self.lanes - 1
            if observed is None
            else max(lane for lane, is_observed in enumerate(observed) if is_observed)
        )
        return self.terms.combiner(self.env[result][last])

    def of_subgroup(self, op: Op, result: Value, observed: Mask) -> Match | None:
        combine = self.combiner(result, observed)
        closure = self.closure(result, combine) if combine is not None else None
        if combine is None or closure is None or len(closure.sources) != 1 or not closure.shuffles:
            return None
        (source,) = closure.sources
        modes = {shuffle.attrs["mode"] for shuffle in closure.shuffles}
        name, mode = ("subgroup_scan", "inclusive") if modes == {"up"} else ("subgroup_reduce", "")
        expected = self.expected(_Reduced(name, source, combine, mode))
        if expected is not None and self.agrees(self.env[result], expected, observed):
            other = self.used_elsewhere(closure, result)
            if other is None:
                return Match(op, result, name, source, combine, mode)
            self.refuse(op, result, f"%{other.name}, what some of the lanes combine to, is used elsewhere")
        elif expected is not None and len(closure.shuffles) >= STEPS and not self.goes_on(result):
            self.refuse(op, result, self.difference(result, source, combine, expected))
        return None

    def closure(self, result: Value, combine: str) -> _Closure:
        closure, pending = _Closure(), [result]
        while pending:
            value = pending.pop()
            op = value.owner
            if value in closure.values or value in closure.sources or _is_const(value):
                continue
            if value not in self.env or not isinstance(op, Op) or op.name not in (combine, *_STEPS):
                closure.sources.append(value)
                continue
            closure.values.add(value)
            pending += self.combined_of(op, value)
            # a loop that is executed makes all steps
            closure.shuffles += [inner for inner in op.walk() if inner.name == SHUFFLE] * (
                STEPS if op.regions else 1
            )
        return closure

    def combined_of(self, op: Op, value: Value) -> tuple[Value, ...]:
        """The operands that a result of a step comes of."""
        number = op.results.index(value)
        if op.name in ("for", "while"):
            return inits(op)[number : number + 1]
        if op.name == "region":
            end = op.regions[0].terminator
            return end.operands[number : number + 1] if end is not None else ()
        return {SHUFFLE: op.operands[:1], "select": op.operands[1:]}.get(op.name, op.operands)

    def used_elsewhere(self, closure: _Closure, result: Value) -> Value | None:
        """A value between the source and the result that other ops use, too."""
        for value in closure.values - {result}:
            if any(closure.values.isdisjoint(user.results) for user in self.users.get(value, ())):
                return value
        return None

    def goes_on(self, result: Value) -> bool:
        """Whether more steps follow."""
        return any(user.name in (SHUFFLE, "select", *COMBINERS) for user in self.users.get(result, ()))

    def agrees(self, lanes: Lanes, expected: Lanes, observed: Mask) -> bool:
        """Whether two values are equal in the lanes that anybody looks at."""
        if observed is None:
            return lanes == expected
        return all(a == b for a, b, is_observed in zip(lanes, expected, observed, strict=True) if is_observed)

    def difference(self, result: Value, source: Value, combine: str, expected: Lanes) -> str:
        if remainder := self.lanes % SUBGROUP_SIZE:
            return (
                f"the last subgroup has {remainder} lanes, and a lane without a partner combines with itself"
            )
        pairs = zip(self.env[result], expected, strict=True)
        if all(self.terms.leaves(a) == self.terms.leaves(b) for a, b in pairs):
            return f"{combine} of {source.type} in another order than by 16, 8, 4, 2 and 1 gives other bits"
        return "it does not combine each lane once"

    def refuse(self, op: Op, result: Value, reason: str) -> None:
        self.results.append(MatchFailure(op, result, reason))

    # --- of a workgroup

    def of_workgroup(self, op: Op, result: Value, observed: Mask) -> Match | None:
        lanes, combine = self.env[result], self.combiner(result, observed)
        last = lanes[-1] if observed is None else next(t for t, s in zip(lanes, observed, strict=True) if s)
        origins = {self.origin.get(leaf) for leaf in self.terms.leaves(last)} - {None}
        if combine is None or len(origins) != 1:
            return None
        (value,) = origins
        assert value is not None
        reduced = self.reduced.get(value)
        if reduced is None:
            if is_ordered(combine, value.type) or len(self.terms.leaves(last)) < len({*self.lanes_of(value)}):
                return None
            total = self.all_of(value, combine)
            name, source, mode, expected = "workgroup_reduce", value, "", (total,) * self.lanes
        elif reduced.combine != combine:
            return None
        elif reduced.name == "subgroup_reduce":
            total = self.terms.fold(combine, value.type, self.lanes_of(value)[::SUBGROUP_SIZE])
            name, source, mode, expected = "workgroup_reduce", reduced.source, "", (total,) * self.lanes
        elif reduced.name == "subgroup_scan" and reduced.mode == "inclusive":
            name, source, mode = "workgroup_scan", reduced.source, reduced.mode
            expected = self.scanned_lanes(value, combine)
        else:
            return None
        if self.agrees(lanes, expected, observed):
            return Match(op, result, name, source, combine, mode)
        for constant in set(self.terms.constants(last)):
            more = self.combine(combine, value.type, expected, (constant,) * self.lanes)
            if self.agrees(lanes, more, observed):
                encoded = self.terms.value(constant)
                return Match(op, result, name, source, combine, mode, encoded)
        if all(self.terms.leaves(a) == self.terms.leaves(b) for a, b in zip(lanes, expected, strict=True)):
            order = f"{combine} of {source.type} combines the subgroups in another order than {name}"
            self.refuse(op, result, order)
        return None

    def scanned_lanes(self, value: Value, combine: str) -> Lanes:
        """Scan that `workgroup_scan` makes of the scans of subgroups."""
        terms, dtype = self.lanes_of(value), value.type
        before = self.terms.run(combine, dtype, terms[SUBGROUP_SIZE - 1 :: SUBGROUP_SIZE])
        later = (
            self.terms.combine(combine, dtype, before[lane // SUBGROUP_SIZE - 1], terms[lane])
            for lane in range(SUBGROUP_SIZE, self.lanes)
        )
        return (*terms[:SUBGROUP_SIZE], *later)

    def all_of(self, value: Value, combine: str) -> Term:
        """All lanes of a value, in an order that does not matter."""
        return reduce(partial(self.terms.combine, combine, value.type), self.lanes_of(value))


def _both(a: Mask, b: Mask) -> Mask:
    if a is None or b is None:
        return b if a is None else a
    return tuple(x and y for x, y in zip(a, b, strict=True))


def _picked(condition: ByLane, a: Lanes, b: Lanes) -> Lanes:
    return tuple(x if c else y for c, x, y in zip(condition, a, b, strict=True))


def _places_around(parents: Mapping[Op, Place], place: Place) -> Iterator[Place]:
    """A block and its enclosing blocks, the body of the program last."""
    yield place
    while place is not None:
        place = parents.get(place[0])
        yield place


def _is_const(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "const"


def _defined(op: Op) -> Iterator[Value]:
    yield from op.results
    for block in op.regions:
        yield from block.args
