"""Effects of the invocations that share a row, in lock step: they are those of the program with slices.

values          a term for each lane
chip memory     a term for each element, with who wrote it and since which barrier; a race is refused
stores          those of the next effect on their buffer, as it was before; when all its elements are written, so is the effect
a loop along a row whose length is not known      once, for a round that begins at `base`
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

from ..ir.loops import bounds, inits
from ..ir.program import Op, Program, Value
from ..ir.rewrite import splittable
from ..ir.types import DataType
from ..records import dataclass
from .element_terms import ElementTerms, Path
from .loop_terms import Node, Term
from .mismatch import Mismatch
from .slice_meaning import FOLDED, Effect, Elements, Loop, Meaning, OpenRow, base_of, fold_term

__all__ = ["Layout", "same_effects"]

U32, BOOL = DataType.U32, DataType.BOOL
SUBGROUP = 32

Lanes = Sequence[Term]
Layout = tuple[int, int, int, int, int, bool]
"""Layout of a slice that a loop carries: rows and columns of it, rows and columns of invocations, and neighbours of a row that each
has; whether invocations 0 and 1 are in two rows (slices/layout)."""


@dataclass
class _Cell:
    """An element of on-chip memory: its term, the lane that wrote it, the barriers before the write, and readers since."""

    term: Term
    writer: int
    epoch: int
    readers: set[int] = field(default_factory=set)
    read_epoch: int = -1


@dataclass
class _Open:
    """A round of a loop along a row of `n` elements, from `base` on, with what its lanes store and load."""

    base: Term
    n: Term
    step: int
    stores: list[tuple[int, str, tuple[Term, ...], Term, Path]] = field(default_factory=list)
    loads: list[tuple[int, str, tuple[Term, ...]]] = field(default_factory=list)


@dataclass
class _Round:
    """A round of a loop that is run once.  `loads`, `stores`: buffers that it accesses before its first barrier."""

    loads: set[str] = field(default_factory=set)
    stores: set[str] = field(default_factory=set)
    has_barrier: bool = False


def same_effects(
    meaning: Meaning, after: Program, terms: ElementTerms, layouts: Mapping[Op, Sequence[Layout]]
) -> None:
    """Raises Mismatch unless the program does for each workgroup, or cluster of some, what the one before does.

    `layouts`: of the slices that each loop of the program before carries."""
    lanes = _Lanes(meaning, after, terms, layouts)
    lanes.ops(after.body.ops)
    lanes.finish()


class _Lanes:
    def __init__(
        self,
        meaning: Meaning,
        program: Program,
        terms: ElementTerms,
        layouts: Mapping[Op, Sequence[Layout]],
    ) -> None:
        self.meaning, self.program, self.b, self.layouts = meaning, program, terms, layouts
        self.group_lanes = program.workgroup[0]
        self.count = self.group_lanes * terms.cluster
        self.values: dict[Value, Lanes] = {}
        self.active: Sequence[int] = range(self.count)
        self.paths: list[Path] = [()] * self.count
        """Conditions of branches that only some lanes may take, for each lane."""
        self.outer: tuple[object, ...] = ()
        """Conditions and loops around, the same for all lanes."""
        self.memory: dict[tuple[str, int, int], _Cell] = {}
        self.epochs = {"workgroup": 0, "cluster": 0}
        self.pending: dict[str, list[Effect]] = {name: list(each) for name, each in meaning.effects.items()}
        self.left: dict[str, dict[tuple[Term, ...], list[Path]]] = {}
        """Elements that are not wholly written yet, of the effect on a buffer that is being written."""
        self.versions: dict[str, int] = defaultdict(int)
        self.loaded: set[str] = set()
        self.stored: set[str] = set()
        """Buffers that were read and written since the last barrier."""
        self.unordered: set[str] = set()
        """Memory on the chip that was accessed around or in a branch or loop since the last barrier that is sure."""
        self.rounds: list[_Round] = []
        self.asserted: set[tuple[Term, tuple[object, ...]]] = set()
        self.loop_number = 0
        self.open: _Open | None = None
        self.on_chip = {b.name: b for b in program.buffers.values() if b.name not in meaning.program.buffers}
        self.rules: dict[str, Callable[[Op], None]] = {
            "load": self.load,
            "store": self.store,
            "barrier": self.barrier,
            "if": self.branch,
            "for": self.loop,
            "while": self.while_loop,
            "region": lambda op: self.give(op.results, self.block(op, 0)),
            "assert": self.asserts,
            "subgroup_shuffle": self.shuffle,
            "subgroup_reduce": self.reduce,
        }

    def finish(self) -> None:
        for name, effects in self.pending.items():
            if effects:
                raise Mismatch(f"what is done to {name} is not done any more", effects[0].op)
        missing = self.meaning.demands - self.asserted
        if missing:
            raise Mismatch("it is not asked any more whether extents are equal")
        if self.loop_number != len(self.meaning.loops):
            raise Mismatch("a loop is not there any more", self.meaning.loops[self.loop_number].op)

    # --- ops in order --------------------------------------------------------------------------------

    def ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            rule = self.rules.get(op.name)
            if rule is not None:
                rule(op)
            elif op.definition.is_pure:
                self.pure(op)
            elif op.definition.effects & {"write", "print"}:
                self.other_effect(op)
            else:
                raise Mismatch(f"{op.name} is not looked at", op)

    def of(self, value: Value) -> Lanes:
        return self.values[value]

    def each(self, make: Callable[[int], Term]) -> Lanes:
        """A term for each active lane."""
        terms: list[Term] = [-1] * self.count
        for lane in self.active:
            terms[lane] = make(lane)
        return terms

    def uniform(self, op: Op, value: Value) -> Term:
        """A value that is the same in all lanes."""
        terms = {self.of(value)[lane] for lane in self.active}
        if len(terms) != 1 or len(self.active) != self.count:
            raise Mismatch("invocations may differ here", op)
        return terms.pop()

    def pure(self, op: Op) -> None:
        if not op.operands:
            self.values[op.result] = self.source(op)
            return
        columns = [self.of(v) for v in op.operands]
        self.values[op.result] = self.each(
            lambda lane: self.b.of(self.program, op, [c[lane] for c in columns])
        )

    def source(self, op: Op) -> Lanes:
        """An op without operands."""
        b, dtype, lanes, name = self.b, op.result.type, self.group_lanes, op.name
        of_lane: dict[str, Callable[[int], int]] = {
            "local_id": lambda lane: lane % lanes,
            "lane_id": lambda lane: lane % lanes % SUBGROUP,
            "subgroup_id": lambda lane: lane % lanes // SUBGROUP,
        }
        if name in of_lane:
            along_x = op.attrs.get("axis", "x") == "x"
            return self.each(lambda lane: b.number(of_lane[name](lane) if along_x else 0, dtype))
        if name == "len":
            return [self.meaning.extent_of(op.attrs["buffer"], op.attrs.get("dimension"))] * self.count
        known = b.of(self.program, op, ())
        if b.cluster > 1 and op.attrs.get("axis") == "x":
            if name == "workgroup_id":
                return self.each(lambda lane: b.terms.add(Node("shared", dtype, (lane // lanes,), (known,))))
            if name == "num_workgroups":
                return [b.terms.add(Node("shared", dtype, (0,), (known,)))] * self.count
        if name in ("global_id", "global_size", "workgroup_size", "num_subgroups"):
            raise Mismatch(f"{name} is not looked at", op)
        return [known] * self.count

    def give(self, values: Sequence[Value], given: Sequence[Lanes]) -> None:
        self.values.update(zip(values, given, strict=True))

    def block(self, op: Op, region: int) -> list[Lanes]:
        if region >= len(op.regions):
            return []
        ops, ends = splittable(op.regions[region])
        self.ops(ops)
        return [self.of(v) for v in ends]

    # --- branches --------------------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        conditions = self.of(op.operands[0])
        decided = {lane: self.b.decide(conditions[lane], self.paths[lane]) for lane in self.active}
        shared = {conditions[lane] for lane in self.active}
        if None in decided.values() and len(shared) == 1 and len(self.active) == self.count and _acts(op):
            self.shared_branch(op, shared.pop())
            return
        ends = []
        outer, paths = self.active, self.paths
        for region, value in enumerate((True, False)):
            self.active = [lane for lane in outer if decided[lane] is not (not value)]
            self.paths = list(paths)
            for lane in self.active:
                if decided[lane] is None:
                    self.paths[lane] = (*paths[lane], (conditions[lane], value))
            none: list[Lanes] = [()] * len(op.results)
            ends.append((self.block(op, region) if self.active else none) or none)
        self.active, self.paths = outer, paths
        for number, result in enumerate(op.results):
            self.values[result] = self.chosen(conditions, decided, ends[0][number], ends[1][number])

    def chosen(
        self, conditions: Lanes, decided: Mapping[int, bool | None], one: Lanes, other: Lanes
    ) -> Lanes:
        """Values of each lane from one of two blocks, by the condition of the lane, or as far as that is known."""

        def choose(lane: int) -> Term:
            known = decided[lane]
            if known is None:
                return self.b.choice(conditions[lane], one[lane], other[lane])
            return (one if known else other)[lane]

        return self.each(choose)

    def shared_branch(self, op: Op, condition: Term) -> None:
        """One of the program before, in which something may be done."""
        ends, outer, memory, epochs = [], self.outer, dict(self.memory), dict(self.epochs)
        states, changed = [], set[tuple[str, int, int]]()
        state = self.accessed()
        for region, value in enumerate((True, False)):
            self.outer, self.memory, self.epochs = (*outer, (condition, value)), dict(memory), dict(epochs)
            self.restore(state)
            ends.append(self.block(op, region))
            changed |= {key for key, cell in self.memory.items() if memory.get(key) is not cell}
            states.append(self.accessed())
        # no barrier in it counts behind it, and what one way has written is not known there
        self.outer, self.epochs = outer, epochs
        self.memory = {key: cell for key, cell in memory.items() if key not in changed}
        self.join([state, *states])
        conditions, open_ = [condition] * self.count, dict.fromkeys(self.active)
        for number, result in enumerate(op.results):
            self.values[result] = self.chosen(conditions, open_, ends[0][number], ends[1][number])

    def accessed(self) -> list[set[str]]:
        """Elements accessed since the last barrier."""
        return [set(self.loaded), set(self.stored)]

    def restore(self, accessed: Sequence[set[str]]) -> None:
        self.loaded, self.stored = (set(each) for each in accessed)

    def join(self, ways: Sequence[Sequence[set[str]]]) -> None:
        """One of these ways was gone."""
        self.restore([set().union(*each) for each in zip(*ways, strict=True)])
        self.unordered |= self.loaded | self.stored

    def note(self, name: str, is_store: bool) -> None:
        """An access of any buffer.  Raises Mismatch where it is not known behind which barrier it is."""
        if name in self.unordered and name in self.on_chip:
            raise Mismatch(f"@{name} is accessed behind a branch or a loop without a barrier")
        (self.stored if is_store else self.loaded).add(name)
        for each in self.rounds:
            if not each.has_barrier:
                (each.stores if is_store else each.loads).add(name)

    def asserts(self, op: Op) -> None:
        condition = self.uniform(op, op.operands[0])
        if self.b.constant(condition) == 1:
            return
        demand = condition, self.outer
        if demand not in self.meaning.demands:
            raise Mismatch("this is not asked before", op)
        self.asserted.add(demand)

    # --- loops -----------------------------------------------------------------------------------------

    def loop(self, op: Op) -> None:
        dtype = op.regions[0].args[0].type
        lower, upper, step = (
            self.uniform(op, each) if isinstance(each, Value) else self.b.number(each, dtype)
            for each in bounds(op)
        )
        ends = [self.b.constant(each) for each in (lower, upper, step)]
        carried = [self.of(v) for v in inits(op)]
        if None not in ends and (ends[2] or 0) > 0:
            for number in range(ends[0] or 0, ends[1] or 0, ends[2] or 1):
                self.give(op.regions[0].args, [[self.b.number(number, dtype)] * self.count, *carried])
                carried = self.block(op, 0)
            self.give(op.results, carried)
            return
        loop = self.next_loop()
        if loop is not None and loop.op.name == "for" and tuple(loop.bounds) == (lower, upper, step):
            self.once(op, loop, carried)
        elif ends[0] == 0 and ends[2] and dtype is U32:
            self.along_row(op, upper, ends[2], carried)
        else:
            raise Mismatch("this loop is not looked at", op)

    def next_loop(self) -> Loop | None:
        loops = self.meaning.loops
        return loops[self.loop_number] if self.loop_number < len(loops) else None

    def while_loop(self, op: Op) -> None:
        loop = self.next_loop()
        if loop is None or loop.op.name != "while":
            raise Mismatch("this while is not there before", op)
        self.once(op, loop, [self.of(v) for v in inits(op)])

    def once(self, op: Op, loop: Loop, carried: Sequence[Lanes]) -> None:
        """A loop of the original program, with the same symbols for its loop-carried values."""
        layouts = self.layouts.get(loop.op, ())
        self.loop_number += 1
        self.hold(op, loop.begin, layouts, carried)
        self.overwrite(loop)
        self.memory.clear()  # a later round finds what the one before it has left
        before, epochs = self.accessed(), dict(self.epochs)
        self.unordered |= self.loaded | self.stored
        self.rounds.append(_Round())
        outer, self.outer = self.outer, (*self.outer, ("loop", loop.key))
        self.give(op.regions[0].args, self.lanes_of(op, loop.args, layouts, len(loop.args) - len(loop.begin)))
        if op.name == "while":
            ops, (condition, *handed) = splittable(op.regions[0])
            self.ops(ops)
            if self.uniform(op, condition) != loop.condition:
                raise Mismatch("this while goes on under another condition", op)
            given = [self.of(v) for v in handed]
            self.give(op.regions[1].args, given)
            ends = self.block(op, 1)
        else:
            ends = self.block(op, 0)
        self.hold(op, loop.ends, layouts, ends)
        self.outer = outer
        own = self.rounds.pop()
        if (self.stored & (own.loads | own.stores)) | (self.loaded & own.stores):
            raise Mismatch("a round of this loop does not wait for the one before it", op)
        self.memory.clear()
        self.epochs = epochs  # there may be no round
        self.join([before, self.accessed()])
        self.give(op.results, self.lanes_of(op, loop.results, layouts, 0))
        self.overwrite(loop)

    def overwrite(self, loop: Loop) -> None:
        for name in {each.attrs["buffer"] for each in loop.op.walk() if "write" in each.definition.effects}:
            if name in self.left:
                raise Mismatch(f"not all elements of @{name} are stored", loop.op)
            self.versions[name] += 1

    def flat(
        self,
        op: Op,
        values: Sequence[Term | Elements | OpenRow],
        layouts: Sequence[Layout],
        first: int,
    ) -> Iterator[Callable[[int], Term | None]]:
        """Terms of each lane for values and slices, one after the other; None for elements that do not exist."""
        given = iter(layouts)
        for number, value in enumerate(values):
            if isinstance(value, int):
                yield lambda lane, value=value: value  # type: ignore[misc]
                continue
            layout = next(given, None)
            if number < first or layout is None or isinstance(value, OpenRow):
                raise Mismatch("it is not said who holds which elements here", op)
            for place in _places(layout):
                yield lambda lane, place=place, value=value, layout=layout: _held(value, layout, lane, place)  # type: ignore[misc]

    def hold(
        self,
        op: Op,
        values: Sequence[Term | Elements | OpenRow],
        layouts: Sequence[Layout],
        lanes: Sequence[Lanes],
    ) -> None:
        """Raises Mismatch unless the lanes have the elements of slices."""
        expected = [*self.flat(op, values, layouts, 0)]
        if len(expected) != len(lanes):
            raise Mismatch("this hands on another number of values", op)
        for make, terms in zip(expected, lanes, strict=True):
            if any(make(lane) not in (None, terms[lane]) for lane in self.active):
                raise Mismatch("this hands on another value", op)

    def lanes_of(
        self,
        op: Op,
        values: Sequence[Term | Elements | OpenRow],
        layouts: Sequence[Layout],
        first: int,
    ) -> list[Lanes]:
        """Terms of lanes, with an unknown value for an element that does not exist."""
        lanes = []
        for make in self.flat(op, values, layouts, first):
            dtype = self.b.terms.dtype(next(term for term in map(make, self.active) if term is not None))
            lanes.append(self.each(lambda lane: self.term_or_unknown(make(lane), dtype)))  # noqa: B023
        return lanes

    def term_or_unknown(self, term: Term | None, dtype: DataType) -> Term:
        return self.b.terms.symbol(dtype, "none") if term is None else term

    # --- along a row whose length is not known --------------------------------------------------------

    def along_row(self, op: Op, n: Term, step: int, carried: Sequence[Lanes]) -> None:
        if self.open is not None:
            raise Mismatch("a loop along a row within another is not looked at", op)
        self.open = _Open(base_of(self.b, n), n, step)
        args = op.regions[0].args
        symbols = [self.b.of_round(arg.type) for arg in args[1:]]
        self.give(args, [[self.open.base] * self.count, *([symbol] * self.count for symbol in symbols)])
        ends, round_, self.open = self.block(op, 0), self.open, None
        if round_.stores:
            if op.results:
                raise Mismatch("a loop that stores a row carries nothing", op)
            self.stored_row(op, round_)
            return
        for name in {name for _, name, _ in round_.loads}:
            self.note(name, is_store=False)
        if step != FOLDED:
            raise Mismatch(f"sums are of rounds of {FOLDED} positions", op)
        for number, result in enumerate(op.results):
            self.values[result] = self.each(
                lambda lane: self.folded(op, n, carried[number][lane], symbols[number], ends[number][lane])  # noqa: B023
            )

    def folded(self, op: Op, n: Term, begin: Term, own: Term, end: Term) -> Term:
        """Result of a loop for a value that each round is combined with."""
        node, combine = self.b.terms.nodes[end], self.b.terms.nodes[end].name
        if combine == "linear":
            combine, other = "add", self.b.emit("sub", node.dtype, end, own)
        elif own in node.operands and len(node.operands) == 2:
            other = node.operands[1 - node.operands.index(own)]
        else:
            raise Mismatch("this loop is no sum", op)
        if self.b.depends_on_round(other):
            raise Mismatch("this sum is of another one", op)
        return fold_term(self.b, combine, node.dtype, n, begin, other)

    def stored_row(self, op: Op, row: _Open) -> None:
        """Each position of a round is stored by one lane, where there is one, and as before."""
        names = {buffer for _, buffer, _, _, _ in row.stores}
        if len(names) != 1:
            raise Mismatch("this loop stores more than one row", op)
        (name,) = names
        effect = self.next_effect(name, op)
        if effect.row is None or effect.row[0] != row.n or effect.path != self.outer or name in self.left:
            raise Mismatch("this row is not stored here before", op)
        by_place: dict[tuple[Term, ...], list[tuple[int, Term, Path]]] = defaultdict(list)
        for lane, _, indices, value, path in row.stores:
            by_place[indices].append((lane, value, path))
        owners: dict[tuple[Term, ...], int] = {}
        for k in range(row.step):
            at = self.b.emit("add", U32, row.base, self.b.number(k))
            indices, value = effect.row[1](at)
            stores = by_place.pop(indices, [])
            owners[indices] = stores[0][0] if stores else -1
            inside = self.b.inside(k, row.base, row.n)
            if len({lane for lane, _, _ in stores}) != 1 or not self.covers(
                [path for _, _, path in stores], inside
            ):
                raise Mismatch(f"element {k} of a round is not stored once", op)
            if any(self.b.under(value, path) != self.b.under(stored, path) for _, stored, path in stores):
                raise Mismatch(f"element {k} of a round is another value", op)
        if by_place:
            raise Mismatch("this loop stores what is not stored before", op)
        if any(buffer == name and owners.get(indices) != lane for lane, buffer, indices in row.loads):
            raise Mismatch("this loop loads what other lanes may have stored", op)
        self.check_order(name, op)
        self.done(name)
        for buffer in {buffer for _, buffer, _ in row.loads} | {name}:
            self.note(buffer, is_store=buffer == name)

    def covers(self, paths: Sequence[Path], condition: Term) -> bool:
        """Whether one of the paths is gone just where a condition holds."""
        if self.b.constant(condition) == 1:
            return any(not path for path in paths)
        for path in paths:
            if all(self.b.decide(each, ((condition, True),)) is value for each, value in path):
                return self.b.decide(condition, path) is True  # the path is the condition
        for first in paths:  # a branch and the other one
            if len(first) != 1 or not first[0][1]:
                continue
            rest = [path[1:] for path in paths if path[:1] == ((first[0][0], False),)]
            if self.b.decide(condition, first) is True and self.covers(rest, condition):
                return True
        return False

    # --- memory ------------------------------------------------------------------------------------------

    def cell_key(self, op: Op, lane: int, index: Term) -> tuple[str, int, int]:
        number, buffer = self.b.constant(index), self.on_chip[op.attrs["buffer"]]
        if number is None or not 0 <= number < (buffer.count or 0):
            raise Mismatch(f"an index of @{buffer.name} is not known", op)
        group = lane // self.group_lanes if buffer.is_workgroup else 0
        return buffer.name, group, number

    def epoch(self, name: str) -> int:
        return self.epochs["workgroup" if self.on_chip[name].is_workgroup else "cluster"]

    def load(self, op: Op) -> None:
        name, columns = op.attrs["buffer"], [self.of(v) for v in op.operands]
        if name in self.on_chip:
            self.values[op.result] = self.each(lambda lane: self.from_chip(op, lane, columns[0][lane]))
            return
        if op.result.type.is_vec:
            raise Mismatch("loads of vectors are not looked at", op)
        is_stored_by_round = self.open is not None and any(
            store[1] == name for store in self.open.stores[-1:]
        )
        if name in self.left or name in self.stored or is_stored_by_round:
            raise Mismatch(f"@{name} is read here without a barrier behind what was written", op)
        if self.open is None:
            self.note(name, is_store=False)
        version, dtype = self.versions[name], op.result.type

        def load_one(lane: int) -> Term:
            indices = tuple(column[lane] for column in columns)
            if self.open is not None:
                self.open.loads.append((lane, name, indices))
            if (name, version, indices) not in self.meaning.loaded:
                self.check_open(op, name, version, indices, self.paths[lane])
            return self.meaning.load_term(name, version, dtype, indices)

        self.values[op.result] = self.each(load_one)

    def check_open(self, op: Op, name: str, version: int, indices: tuple[Term, ...], path: Path) -> None:
        """Raises Mismatch unless the program before loads an element, of a row whose length is not known."""
        if self.open is not None:
            base, n = self.open.base, self.open.n
            for row in self.meaning.open_loads.get((name, version), ()):
                distance = self.offset(indices, row, base)
                at = self.b.emit("add", U32, base, self.b.number(distance))
                term = self.meaning.load_term(name, version, self.b.terms.dtype(row.at(base)), indices)
                inside = self.b.inside(distance, base, n)
                if self.is_equal(row.n, n) and row.at(at) == term and self.b.decide(inside, path) is True:
                    return
        raise Mismatch(f"this element of @{name} is not loaded before", op)

    def is_equal(self, one: Term, other: Term) -> bool:
        """Whether two extents are the same, or else the program before ends in a fault."""
        around = {self.outer[:k] for k in range(len(self.outer) + 1)}
        asked = [self.b.terms.nodes[term].operands for term, path in self.meaning.demands if path in around]
        equal, pending = {one}, [one]
        while pending:
            each = pending.pop()
            new = {term for pair in asked if each in pair for term in pair} - equal
            equal |= new
            pending += new
        return other in equal

    def offset(self, indices: tuple[Term, ...], row: OpenRow, base: Term) -> int:
        """Distance of an element from the one at `base` of a row."""
        first = self.b.terms.nodes[row.at(base)].operands[-1]
        distance = self.b.terms.difference(indices[-1], first)
        return distance.const if not distance.parts and distance.const >= 0 else FOLDED

    def from_chip(self, op: Op, lane: int, index: Term) -> Term:
        if self.open is not None:
            raise Mismatch("a loop along a row hands on nothing", op)
        key = self.cell_key(op, lane, index)
        cell, epoch = self.memory.get(key), self.epoch(key[0])
        self.note(key[0], is_store=False)
        if cell is None:
            raise Mismatch(f"@{key[0]} is read where nobody has written", op)
        if cell.writer != lane and cell.epoch == epoch:
            raise Mismatch(f"@{key[0]} is read without a barrier behind what another lane wrote", op)
        if cell.read_epoch != epoch:
            cell.readers, cell.read_epoch = set(), epoch
        cell.readers.add(lane)
        return cell.term

    def store(self, op: Op) -> None:
        name = op.attrs["buffer"]
        value, *columns = (self.of(v) for v in op.operands)
        if name in self.on_chip:
            for lane in self.active:
                self.to_chip(op, lane, columns[0][lane], value[lane])
            return
        if op.operands[0].type.is_vec:
            raise Mismatch("stores of vectors are not looked at", op)
        for lane in self.active:
            indices = tuple(column[lane] for column in columns)
            if self.open is not None:
                self.open.stores.append((lane, name, indices, value[lane], self.paths[lane]))
            else:
                self.store_one(op, name, indices, value[lane], self.paths[lane])
        if self.open is None:
            self.note(name, is_store=True)

    def to_chip(self, op: Op, lane: int, index: Term, value: Term) -> None:
        if self.paths[lane] or self.open is not None:
            raise Mismatch("whether this is stored is not known", op)
        key = self.cell_key(op, lane, index)
        self.note(key[0], is_store=True)
        cell, epoch = self.memory.get(key), self.epoch(key[0])
        if cell is not None:
            if cell.epoch == epoch and cell.writer != lane and cell.term != value:
                raise Mismatch(f"two lanes write one element of @{key[0]}", op)
            if cell.read_epoch == epoch and cell.readers - {lane}:
                raise Mismatch(f"@{key[0]} is written while another lane may read it", op)
        self.memory[key] = _Cell(value, lane, epoch)

    def store_one(self, op: Op, name: str, indices: tuple[Term, ...], value: Term, path: Path) -> None:
        effect = self.next_effect(name, op)
        if name not in self.left:
            if effect.row is not None or effect.name != "store" or effect.path != self.outer:
                raise Mismatch("this is not stored here before", op)
            self.check_order(name, op)
            self.left[name] = {each: [] for each in effect.elements}
        left = self.left[name]
        if indices not in left:
            raise Mismatch("this element is not stored here before, or is stored twice", op)
        expected, guard = effect.elements[indices]
        if self.b.under(expected, path) != self.b.under(value, path):
            raise Mismatch("this stores another value", op)
        left[indices].append(path)
        if self.covers(left[indices], guard):
            del left[indices]
        if not left:
            del self.left[name]
            self.done(name)

    def next_effect(self, name: str, op: Op) -> Effect:
        effects = self.pending.get(name)
        if not effects:
            raise Mismatch(f"@{name} is not written here before", op)
        return effects[0]

    def check_order(self, name: str, op: Op) -> None:
        """Raises Mismatch unless a barrier separates accesses of several lanes to one element."""
        if name in self.stored or name in self.loaded:
            raise Mismatch(f"@{name} is written here without a barrier behind what was done to it", op)

    def done(self, name: str) -> None:
        self.pending[name].pop(0)
        self.versions[name] += 1

    def other_effect(self, op: Op) -> None:
        """One of a single lane."""
        name = op.attrs.get("buffer", op.name)
        effect = self.next_effect(name, op)
        if len(self.active) != 1 or self.paths[self.active[0]]:
            raise Mismatch("several invocations do this, or it is not known whether one does", op)
        (lane,) = self.active
        operands = [self.of(v)[lane] for v in op.operands]
        was, now = effect.op.attrs, op.attrs
        if (effect.name, effect.operands, effect.path, was) != (op.name, operands, self.outer, now):
            raise Mismatch("this is not done here before", op)
        if "buffer" in op.attrs:
            self.check_order(name, op)
            self.done(name)
            self.note(name, is_store=True)
        else:
            self.pending[name].pop(0)
        for result, term in zip(op.results, effect.results, strict=True):
            self.values[result] = self.each(lambda lane: term)  # noqa: B023

    def barrier(self, op: Op) -> None:
        self.together(op)
        if self.open is not None:
            raise Mismatch("a loop along a row hands on nothing", op)
        scope = op.attrs["scope"]
        if scope == "subgroup":
            return
        self.epochs["workgroup"] += 1
        if scope == "cluster":
            self.epochs["cluster"] += 1
        if scope == "cluster" or self.b.cluster == 1:
            self.restore([set(), set()])
            self.unordered.clear()
            for each in self.rounds:
                each.has_barrier = True

    # --- subgroups -----------------------------------------------------------------------------------------

    def together(self, op: Op) -> None:
        if len(self.active) != self.count or any(self.paths):
            raise Mismatch("not all invocations come here", op)

    def shuffle(self, op: Op) -> None:
        self.together(op)
        value, other = (self.of(v) for v in op.operands)
        mode = op.attrs["mode"]

        def source(lane: int) -> Term:
            distance, own = self.b.constant(other[lane]), lane % SUBGROUP
            if distance is None:
                raise Mismatch("a distance of lanes is not known", op)
            target = {"xor": own ^ distance, "up": own - distance, "down": own + distance, "idx": distance}[
                mode
            ]
            exists = 0 <= target < SUBGROUP and lane - own + target < self.count
            return value[lane - own + target if exists else lane]

        self.values[op.result] = self.each(source)

    def reduce(self, op: Op) -> None:
        """Reduce by halves, from the lane farthest away."""
        self.together(op)
        combine, dtype, value = op.attrs["combine"], op.result.type, self.of(op.operands[0])
        totals: dict[int, Term] = {}
        for first in range(0, self.count, SUBGROUP):
            terms = list(value[first : first + SUBGROUP])
            while len(terms) > 1:
                half = SUBGROUP // 2
                while half >= len(terms):
                    half //= 2
                terms = [
                    self.b.emit(combine, dtype, each, terms[k + half]) if k + half < len(terms) else each
                    for k, each in enumerate(terms[:half])
                ]
            totals[first] = terms[0]
        self.values[op.result] = self.each(lambda lane: totals[lane - lane % SUBGROUP])


def _acts(op: Op) -> bool:
    """Whether something is done in a branch that others may see, or in which lanes meet."""
    return any(
        each.definition.effects & {"write", "print", "sync", "subgroup", "workgroup", "trap", "wait"}
        for each in op.walk()
    )


def _places(layout: Layout) -> list[tuple[int, int, int]]:
    """The rounds down and along, and the neighbours, of what a lane holds."""
    rows, columns, row_lanes, column_lanes, neighbours, _ = layout
    width = 1 if columns == 1 else neighbours
    down, along = -(-rows // row_lanes), -(-columns // (column_lanes * width))
    return [(i, j, k) for i in range(down) for j in range(along) for k in range(width)]


def _held(value: Elements, layout: Layout, lane: int, place: tuple[int, int, int]) -> Term | None:
    """The element of a lane; None for a lane without one."""
    rows, columns, row_lanes, column_lanes, neighbours, is_paired = layout
    width = 1 if columns == 1 else neighbours
    i, j, k = place
    if is_paired:
        pair, of_pair = divmod(lane, 2)
        lane = (pair // column_lanes * 2 + of_pair) * column_lanes + pair % column_lanes
    row = 0 if rows == 1 else lane // column_lanes + i * row_lanes
    column = 0 if columns == 1 else (j * column_lanes + lane % column_lanes) * width + k
    if row >= rows or column >= columns:
        return None
    if len(value.extents) == 2:
        return value.at((row, column))
    return value.at((row if columns == 1 else column,))
