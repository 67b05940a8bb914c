"""Meaning of a program with slices, as docs/reference/language.md defines it: its effects in their order, with terms for values.

A row of open length is a function of the position in it; a reduction of one is a tree of 4096 folds, each over the rounds of a loop.
A loop of constant length is run round by round; another one once, with symbols for what it carries.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import field
from itertools import product
from math import prod

from ..ir.loops import bounds, inits
from ..ir.program import Op, Program, Value
from ..ir.rewrite import splittable
from ..ir.types import DataType
from ..records import dataclass
from .element_terms import ElementTerms
from .loop_terms import Node, Term
from .mismatch import Mismatch

__all__ = ["FOLDED", "Effect", "Elements", "Loop", "Meaning", "OpenRow", "base_of"]

U32, BOOL = DataType.U32, DataType.BOOL
FOLDED, CHUNK, GROUP = 4096, 128, 4
MOST_ROUNDS = 1 << 12
"""Most rounds of a loop that is run round by round."""

Position = tuple[int, ...]
Indices = tuple[Term, ...]


@dataclass(frozen=True)
class Elements:
    """A slice of fixed extents: its elements, row by row."""

    extents: Position
    terms: Sequence[Term]

    def at(self, position: Position) -> Term:
        number = 0
        for index, extent in zip(position, self.extents, strict=True):
            number = number * extent + index
        return self.terms[number]


@dataclass(frozen=True)
class OpenRow:
    """A row of `n` elements; `at`: the element at a position, a u32."""

    n: Term
    at: Callable[[Term], Term]


Slice = Elements | OpenRow


@dataclass
class Effect:
    """`name`: of an op, `store` for slices and single elements.  `path`: the conditions under which it happens, and the loops around it.

    `elements`: what a store writes, by indices, with the condition of each.  `row`: of a row of open length, the element and the
    indices at a position.  `operands`, `results`: of another op.
    """

    op: Op
    name: str
    path: tuple[object, ...]
    elements: dict[Indices, tuple[Term, Term]] = field(default_factory=dict)
    row: tuple[Term, Callable[[Term], tuple[Indices, Term]]] | None = None
    operands: Sequence[Term] = ()
    results: Sequence[Term] = ()


@dataclass
class Loop:
    """A loop that is run once.  `key`: its number; `bounds`: bounds of a `for`; `args`, `ends`, `results`: its carried values."""

    op: Op
    key: int
    bounds: Sequence[Term]
    begin: Sequence[Term | Slice] = ()
    args: Sequence[Term | Slice] = ()
    ends: Sequence[Term | Slice] = ()
    results: Sequence[Term | Slice] = ()
    condition: Term = -1


class Meaning:
    """`effects`: by what they are of, a buffer or the name of an op, in their order.  `demands`: equal extents, each as a condition, with
    where it is asked for.  `loaded`: the elements that the program loads, by buffer, version and indices; `open_loads`: the rows that it
    loads, as functions of the position."""

    def __init__(self, program: Program, terms: ElementTerms) -> None:
        self.program, self.b = program, terms
        self.effects: dict[str, list[Effect]] = defaultdict(list)
        self.loops: list[Loop] = []
        self.demands: set[tuple[Term, tuple[object, ...]]] = set()
        self.loaded: set[tuple[str, int, Indices]] = set()
        self.open_loads: dict[tuple[str, int], list[OpenRow]] = defaultdict(list)
        self.versions: dict[str, int] = defaultdict(int)
        self.values: dict[Value, Term] = {}
        self.slices: dict[Value, Slice] = {}
        self.path: tuple[object, ...] = ()
        self.rules: dict[str, Callable[[Op], None]] = {
            "slice_load": self.load,
            "slice_gather": self.gather,
            "slice_store": self.store,
            "slice_broadcast": self.broadcast,
            "slice_iota": self.iota,
            "slice_reduce": self.reduce,
            "slice_scan": self.scan,
            "slice_transpose": self.transpose,
            "slice_dot": self.dot,
            "slice_len": self.length,
            "load": self.load_one,
            "store": self.store_one,
            "barrier": lambda op: None,
            "if": self.branch,
            "for": self.loop,
            "while": self.while_loop,
            "region": lambda op: self.give(op.results, self.block(op, 0)),
        }
        self.ops(program.body.ops)

    # --- ops in order --------------------------------------------------------------------------------

    def ops(self, ops: Sequence[Op]) -> None:
        for op in ops:
            rule = self.rules.get(op.name)
            if rule is not None:
                rule(op)
            elif op.definition.is_pure:
                self.pure(op)
            elif op.definition.effects & {"write", "print"} and not op.regions:
                self.other_effect(op)
            else:
                raise Mismatch(f"{op.name} in a program with slices is not looked at", op)

    def of(self, value: Value) -> Term:
        return self.values[value]

    def any_of(self, values: Sequence[Value]) -> list[Term | Slice]:
        return [self.slices[v] if v.type.is_slice else self.values[v] for v in values]

    def give(self, values: Sequence[Value], given: Sequence[Term | Slice]) -> None:
        for value, each in zip(values, given, strict=True):
            if isinstance(each, int):
                self.values[value] = each
            else:
                self.slices[value] = each

    def pure(self, op: Op) -> None:
        if op.results[0].type.is_slice:
            self.elementwise(op)
        elif op.name in ("local_id", "lane_id", "subgroup_id"):
            self.values[op.result] = self.b.number(0, op.result.type)
        elif op.name in ("workgroup_size", "num_subgroups"):
            self.values[op.result] = self.b.number(1, op.result.type)
        elif op.name in ("global_id", "global_size"):  # of one invocation a workgroup
            name = {"global_id": "workgroup_id", "global_size": "num_workgroups"}[op.name]
            self.values[op.result] = self.b.emit(name, op.result.type, **op.attrs)
        elif op.name == "len":
            self.values[op.result] = self.extent_of(op.attrs["buffer"], op.attrs.get("dimension"))
        else:
            self.values[op.result] = self.b.of(self.program, op, [self.of(v) for v in op.operands])

    def extent_of(self, name: str, dimension: int | None) -> Term:
        buffer = self.program.buffers[name]
        number = (
            buffer.shape[dimension or 0] if dimension is not None or buffer.dimensions == 1 else buffer.count
        )
        if number is not None:
            return self.b.number(number)
        attrs = {} if buffer.dimensions == 1 or dimension is None else {"dimension": dimension}
        return self.b.emit("len", U32, buffer=name, **attrs)

    def block(self, op: Op, region: int) -> list[Term | Slice]:
        if region >= len(op.regions):
            return []
        ops, ends = splittable(op.regions[region])
        self.ops(ops)
        return self.any_of(ends)

    @contextmanager
    def within(self, part: object) -> Iterator[None]:
        outer, self.path = self.path, (*self.path, part)
        yield
        self.path = outer

    # --- branches and loops --------------------------------------------------------------------------

    def branch(self, op: Op) -> None:
        condition = self.of(op.operands[0])
        known = self.b.constant(condition)
        if known is not None:
            self.give(op.results, self.block(op, 0 if known else 1))
            return
        ends = []
        for region, value in enumerate((True, False)):
            with self.within((condition, value)):
                ends.append(self.block(op, region))
        self.give(
            op.results,
            [self.chosen(condition, a, c) for a, c in zip(*ends, strict=True)] if op.results else [],
        )

    def chosen(self, condition: Term, one: Term | Slice, other: Term | Slice) -> Term | Slice:
        if isinstance(one, int) and isinstance(other, int):
            return self.b.choice(condition, one, other)
        if isinstance(one, Elements) and isinstance(other, Elements) and one.extents == other.extents:
            pairs = zip(one.terms, other.terms, strict=True)
            return Elements(one.extents, [self.b.choice(condition, a, c) for a, c in pairs])
        raise Mismatch("rows of open length that branches give are not looked at")

    def loop(self, op: Op) -> None:
        dtype = op.regions[0].args[0].type
        lower, upper, step = (
            self.of(each) if isinstance(each, Value) else self.b.number(each, dtype) for each in bounds(op)
        )
        carried = self.any_of(inits(op))
        ends = [self.b.constant(each) for each in (lower, upper, step)]
        if None not in ends and (ends[2] or 0) > 0:
            rounds = range(ends[0] or 0, ends[1] or 0, ends[2] or 1)
            if len(rounds) <= MOST_ROUNDS:
                for number in rounds:
                    self.give(op.regions[0].args, [self.b.number(number, dtype), *carried])
                    carried = self.block(op, 0)
                self.give(op.results, carried)
                return
        loop = self.begin(op, (lower, upper, step), carried)
        index = self.b.terms.symbol(dtype, "index")
        loop.args = [index, *(self.symbol(each) for each in carried)]
        with self.within(("loop", loop.key)):
            self.give(op.regions[0].args, loop.args)
            loop.ends = self.block(op, 0)
        self.end(op, loop)

    def while_loop(self, op: Op) -> None:
        loop = self.begin(op, (), self.any_of(inits(op)))
        loop.args = [self.symbol(each) for each in loop.begin]
        with self.within(("loop", loop.key)):
            self.give(op.regions[0].args, loop.args)
            ops, (condition, *handed) = splittable(op.regions[0])
            self.ops(ops)
            loop.condition = self.of(condition)
            self.give(op.regions[1].args, self.any_of(handed))
            loop.results = self.any_of(handed)
            loop.ends = self.block(op, 1)
        self.end(op, loop)

    def begin(self, op: Op, ends: Sequence[Term], carried: Sequence[Term | Slice]) -> Loop:
        loop = Loop(op, len(self.loops), ends, carried)
        self.loops.append(loop)
        self.overwrite(op)
        return loop

    def overwrite(self, op: Op) -> None:
        """Give each buffer that a loop writes another version, in each round and behind the loop."""
        for name in {each.attrs["buffer"] for each in op.walk() if "write" in each.definition.effects}:
            self.versions[name] += 1

    def end(self, op: Op, loop: Loop) -> None:
        loop.results = [self.symbol(each) for each in loop.begin]
        self.give(op.results, loop.results)
        self.overwrite(op)

    def symbol(self, like: Term | Slice) -> Term | Slice:
        if isinstance(like, int):
            return self.b.terms.symbol(self.b.terms.dtype(like), "carried")
        if isinstance(like, Elements):
            dtypes = [self.b.terms.dtype(each) for each in like.terms]
            return Elements(like.extents, [self.b.terms.symbol(each, "carried") for each in dtypes])
        raise Mismatch("rows of open length that loops carry are not looked at")

    # --- effects ---------------------------------------------------------------------------------------

    def store_one(self, op: Op) -> None:
        value, *indices = (self.of(v) for v in op.operands)
        true = self.b.terms.boolean(True)
        self.written(Effect(op, "store", self.path, {tuple(indices): (value, true)}))

    def written(self, effect: Effect) -> None:
        name = effect.op.attrs["buffer"]
        self.effects[name].append(effect)
        self.versions[name] += 1

    def other_effect(self, op: Op) -> None:
        operands = [self.of(v) for v in op.operands]
        results = [self.b.terms.symbol(result.type, op.name) for result in op.results]
        effect = Effect(op, op.name, self.path, operands=operands, results=results)
        self.give(op.results, results)
        if "buffer" in op.attrs:
            self.written(effect)
        else:
            self.effects[op.name].append(effect)

    def load_one(self, op: Op) -> None:
        indices = tuple(self.of(v) for v in op.operands)
        self.values[op.result] = self.loaded_from(op.attrs["buffer"], op.result.type, indices)

    def loaded_from(self, name: str, dtype: DataType, indices: Indices) -> Term:
        version = self.versions[name]
        self.loaded.add((name, version, indices))
        return self.load_term(name, version, dtype, indices)

    def load_term(self, name: str, version: int, dtype: DataType, indices: Indices) -> Term:
        return self.b.terms.add(Node("load", dtype, (name, version), indices))

    # --- slices ----------------------------------------------------------------------------------------

    def starts(self, op: Op, dtype: DataType) -> list[Term]:
        """Indices along the extents have 32 bits at least, so that positions fit into them."""
        terms, first = [self.of(v) for v in op.indices], len(op.indices) - len(dtype.extents)
        wide = DataType.I32, DataType.U32
        return [
            self.b.emit("cast", wide[v.type.kind == "uint"], term)
            if number >= first and (v.type.bits or 0) < 32
            else term
            for number, (v, term) in enumerate(zip(op.indices, terms, strict=True))
        ]

    def extents(self, op: Op, dtype: DataType, starts: Sequence[Term]) -> tuple[Position, Term | None]:
        """Extents of a slice of a buffer; or the rest of its only dimension, where that is no number."""
        shape = self.program.buffers[op.attrs["buffer"]].shape
        first, extents = len(shape) - len(dtype.extents), list[int]()
        for axis, number in enumerate(dtype.extents):
            total, start = shape[first + axis], starts[first + axis]
            begin = self.b.constant(start)
            if number is not None:
                extents.append(number)
            elif total is not None and begin is not None and begin <= total:
                extents.append(total - begin)
            elif len(dtype.extents) > 1:
                raise Mismatch("blocks of open extents are not looked at", op)
            else:
                length = self.extent_of(op.attrs["buffer"], first + axis if len(shape) > 1 else None)
                return (), self.b.emit("sub", U32, length, self.b.emit("cast", U32, start))
        return tuple(extents), None

    def place(self, starts: Sequence[Term], position: Sequence[Term]) -> Indices:
        """The indices of an element."""
        outer = len(starts) - len(position)
        ends = []
        for start, at in zip(starts[outer:], position, strict=True):
            dtype = self.b.terms.dtype(start)
            moved = at if dtype is U32 else self.b.emit("cast", dtype, at)
            ends.append(self.b.emit("add", dtype, start, moved))
        return (*starts[:outer], *ends)

    def is_inside(self, name: str, indices: Indices, rank: int) -> Term:
        """Whether an element of a slice that may reach beyond the edges is inside; an index before the first element has wrapped around."""
        first, inside = len(indices) - rank, self.b.terms.boolean(True)
        for dimension in range(first, len(indices)):
            index = indices[dimension]
            wide = DataType.U64 if self.b.terms.dtype(index).bits == 64 else U32
            length = self.extent_of(name, dimension if len(indices) > 1 else None)
            unsigned, length = (
                each if self.b.terms.dtype(each) is wide else self.b.emit("cast", wide, each)
                for each in (index, length)
            )
            inside = self.b.both_hold(inside, self.b.emit("lt", BOOL, unsigned, length))
        return inside

    def load(self, op: Op) -> None:
        name, dtype, starts = op.attrs["buffer"], op.result.type, self.starts(op, op.result.type)
        (extents, n), element, version = self.extents(op, dtype, starts), dtype.element, self.versions[name]
        if n is not None:
            row = OpenRow(
                n,
                lambda at: self.load_term(name, version, element, self.place(starts, [at])),
            )
            self.open_loads[name, version].append(row)
            self.slices[op.result] = row
            return
        fill = self.of(op.operands[-1]) if op.attrs["edge"] == "filled" else None
        terms = []
        for position in product(*map(range, extents)):
            indices = self.place(starts, [self.b.number(each) for each in position])
            value = self.loaded_from(name, element, indices)
            if fill is not None:
                value = self.b.choice(self.is_inside(name, indices, len(extents)), value, fill)
            terms.append(value)
        self.slices[op.result] = Elements(extents, terms)

    def gather(self, op: Op) -> None:
        operands = self.any_of(op.operands)
        slices = [each for each in operands if not isinstance(each, int)]
        self.same_extents(op, slices)
        name, element = op.attrs["buffer"], op.result.type.element
        if isinstance(slices[0], OpenRow):
            version = self.versions[name]

            row = OpenRow(
                slices[0].n,
                lambda at: self.load_term(name, version, element, tuple(self.at(operands, at))),
            )
            self.open_loads[name, version].append(row)
            self.slices[op.result] = row
            return
        self.slices[op.result] = self.by_element(
            slices[0].extents, operands, lambda indices: self.loaded_from(name, element, tuple(indices))
        )

    def by_element(
        self, extents: Position, operands: Sequence[Term | Slice], make: Callable[[Sequence[Term]], Term]
    ) -> Elements:
        count, columns = prod(extents), list[Sequence[Term]]()
        for each in operands:
            if isinstance(each, OpenRow):
                raise Mismatch("rows of open length and blocks do not mix")
            columns.append(each.terms if isinstance(each, Elements) else [each] * count)
        return Elements(extents, [make([column[k] for column in columns]) for k in range(count)])

    def elementwise(self, op: Op) -> None:
        operands = self.any_of(op.operands)
        slices = [each for each in operands if not isinstance(each, int)]
        self.same_extents(op, slices)
        types = [v.type.element if v.type.is_slice else v.type for v in op.operands]
        scalar = self.b.scalar_op(op.name, op.result.type.element, types, op.attrs)
        if isinstance(slices[0], OpenRow):
            self.slices[op.result] = OpenRow(
                slices[0].n, lambda at: self.b.of(self.program, scalar, self.at(operands, at))
            )
            return
        self.slices[op.result] = self.by_element(
            slices[0].extents, operands, lambda terms: self.b.of(self.program, scalar, terms)
        )

    def at(self, operands: Sequence[Term | Slice], position: Term) -> list[Term]:
        """The elements of rows of open length at a position, among values that are the same everywhere."""
        terms = []
        for each in operands:
            if isinstance(each, Elements):
                raise Mismatch("rows of open length and blocks do not mix")
            terms.append(each.at(position) if isinstance(each, OpenRow) else each)
        return terms

    def same_extents(self, op: Op, slices: Sequence[Slice]) -> None:
        for other in slices[1:]:
            self.demand(op, _extent_terms(self.b, slices[0]), _extent_terms(self.b, other))

    def demand(self, op: Op, some: Sequence[Term], others: Sequence[Term]) -> None:
        for one, other in zip(some, others, strict=True):
            if one != other:
                if self.b.constant(one) is not None and self.b.constant(other) is not None:
                    raise Mismatch("these extents never are the same", op)
                self.demands.add((self.b.emit("eq", BOOL, one, other), self.path))

    def store(self, op: Op) -> None:
        value, name = self.slices[op.operands[0]], op.attrs["buffer"]
        dtype = op.operands[0].type
        starts = self.starts(op, dtype)
        extents, n = self.extents(op, dtype, starts)
        effect = Effect(op, "store", self.path)
        own = [self.b.number(each) for each in extents] if n is None else [n]
        self.demand(op, own, _extent_terms(self.b, value))
        if isinstance(value, OpenRow):
            row = value
            effect.row = value.n, lambda at: (self.place(starts, [at]), row.at(at))
        else:
            true, is_clipped = self.b.terms.boolean(True), op.attrs["edge"] == "clipped"
            for position, term in zip(product(*map(range, value.extents)), value.terms, strict=True):
                indices = self.place(starts, [self.b.number(each) for each in position])
                guard = self.is_inside(name, indices, len(position)) if is_clipped else true
                if self.b.constant(guard) != 0:  # else it surely lies beyond the edge
                    effect.elements[indices] = term, guard
            if not effect.elements:
                return
        self.written(effect)

    def broadcast(self, op: Op) -> None:
        value, dtype = op.operands[0], op.result.type
        like = self.slices[op.operands[1]] if len(op.operands) > 1 else None
        source = self.slices[value] if value.type.is_slice else self.of(value)
        if isinstance(like, OpenRow):
            if isinstance(source, OpenRow):
                self.demand(op, [source.n], [like.n])
                self.slices[op.result] = OpenRow(like.n, source.at)
                return
            term = source if isinstance(source, int) else source.terms[0]
            if not isinstance(source, int) and source.extents != (1,):
                raise Mismatch("this broadcast is not looked at", op)
            self.slices[op.result] = OpenRow(like.n, lambda at: term)
            return
        extents = like.extents if isinstance(like, Elements) else tuple(n or 0 for n in dtype.extents)
        if isinstance(source, OpenRow):
            raise Mismatch("this broadcast is not looked at", op)
        terms = []
        for position in product(*map(range, extents)):
            if isinstance(source, int):
                terms.append(source)
                continue
            last = position[len(position) - len(source.extents) :]
            terms.append(
                source.at(tuple(0 if n == 1 else p for p, n in zip(last, source.extents, strict=True)))
            )
        self.slices[op.result] = Elements(extents, terms)

    def iota(self, op: Op) -> None:
        start, dtype = self.of(op.operands[0]), op.result.type
        element = dtype.element

        def counted(at: Term) -> Term:
            moved = at if element is U32 else self.b.emit("cast", element, at)
            return self.b.emit("add", element, start, moved)

        if None in dtype.extents:
            n = self.of(op.operands[1])
            number = self.b.constant(n)
            if number is None:
                self.slices[op.result] = OpenRow(n, counted)
                return
            extents: Position = (number,)
        else:
            extents = tuple(extent or 0 for extent in dtype.extents)
        axis = next((k for k, extent in enumerate(extents) if extent != 1), 0)
        places = product(*map(range, extents))
        self.slices[op.result] = Elements(extents, [counted(self.b.number(place[axis])) for place in places])

    def length(self, op: Op) -> None:
        self.values[op.result] = _extent_terms(self.b, self.slices[op.operands[0]])[op.attrs["axis"]]

    # --- along an axis -------------------------------------------------------------------------------

    def lines(self, value: Elements, axis: int) -> tuple[list[Position], list[list[Term]]]:
        """The elements along an axis, for each place along the others."""
        others = [range(n) if k != axis else (0,) for k, n in enumerate(value.extents)]
        places = [*product(*others)]
        count = value.extents[axis]
        return places, [
            [value.at((*place[:axis], k, *place[axis + 1 :])) for k in range(count)] for place in places
        ]

    def reduce(self, op: Op) -> None:
        value, combine, axis = self.slices[op.operands[0]], op.attrs["combine"], op.attrs["axis"]
        dtype = op.operands[0].type.element
        is_kept = len(op.result.type.extents) == len(op.operands[0].type.extents)
        if isinstance(value, OpenRow):
            base = base_of(self.b, value.n)
            neutral = self.b.neutral(combine, dtype)
            folds = []
            for k in range(FOLDED):
                at = self.b.emit("add", U32, base, self.b.number(k))
                element = self.b.choice(self.b.inside(k, base, value.n), value.at(at), neutral)
                folds.append(fold_term(self.b, combine, dtype, value.n, neutral, element))
            total = self.combined(folds, combine, dtype)
            self.give([op.result], [Elements((1,), [total]) if is_kept else total])
            return
        _, lines = self.lines(value, axis)
        totals = [self.combined(line, combine, dtype) for line in lines]
        if not op.result.type.is_slice:
            self.values[op.result] = totals[0]
            return
        extents = list(value.extents)
        if is_kept:
            extents[axis] = 1
        else:
            del extents[axis]
        self.slices[op.result] = Elements(tuple(extents), totals)

    def both(self, combine: str, dtype: DataType, a: Term | None, c: Term | None) -> Term | None:
        """None for the neutral element."""
        if a is None or c is None:
            return c if a is None else a
        return self.b.emit(combine, dtype, a, c)

    def combined(self, line: Sequence[Term], combine: str, dtype: DataType) -> Term:
        neutral = self.b.neutral(combine, dtype)

        def both(a: Term | None, c: Term | None) -> Term | None:
            return self.both(combine, dtype, a, c)

        total: list[Term | None] = [None] * FOLDED
        for number, term in enumerate(line):
            total[number % FOLDED] = both(total[number % FOLDED], term)
        for _ in range(2):
            total = [both(a, c) for a, c in zip(total[::2], total[1::2], strict=True)]
        while len(total) > 1:
            half = len(total) // 2
            total = [both(a, c) for a, c in zip(total[:half], total[half:], strict=True)]
        return neutral if total[0] is None else total[0]

    def scan(self, op: Op) -> None:
        value, axis = self.slices[op.operands[0]], op.attrs["axis"]
        if isinstance(value, OpenRow):
            raise Mismatch("scans of rows of open length are not looked at", op)
        places, lines = self.lines(value, axis)
        scanned: dict[Position, Term] = {}
        for place, line in zip(places, lines, strict=True):
            for k, term in enumerate(
                self.scanned(line, op.attrs["combine"], op.result.type.element, op.attrs["mode"])
            ):
                scanned[*place[:axis], k, *place[axis + 1 :]] = term
        self.slices[op.result] = Elements(
            value.extents, [scanned[each] for each in product(*map(range, value.extents))]
        )

    def scanned(self, line: Sequence[Term], combine: str, dtype: DataType, mode: str) -> list[Term]:
        def both(a: Term | None, c: Term | None) -> Term | None:
            return self.both(combine, dtype, a, c)

        def one_by_one(terms: Sequence[Term | None]) -> list[Term | None]:
            up_to: list[Term | None] = []
            for each in terms:
                up_to.append(both(up_to[-1], each) if up_to else each)
            return up_to

        def doubling(terms: Sequence[Term | None]) -> list[Term | None]:
            terms = list(terms)
            for d in (1, 2, 4, 8, 16):
                terms = [both(terms[k - d], each) if k >= d else each for k, each in enumerate(terms)]
            return terms

        count = -(-max(1, len(line)) // FOLDED) * FOLDED
        padded: list[Term | None] = [*line, *[None] * (count - len(line))]
        groups = [one_by_one(padded[k : k + GROUP]) for k in range(0, count, GROUP)]
        in_chunk = CHUNK // GROUP
        chunks = [
            doubling([g[-1] for g in groups[k : k + in_chunk]]) for k in range(0, len(groups), in_chunk)
        ]
        in_block = FOLDED // CHUNK
        blocks = [
            doubling([c[-1] for c in chunks[k : k + in_block]]) for k in range(0, len(chunks), in_block)
        ]
        totals = one_by_one([each[-1] for each in blocks])
        neutral, results = self.b.neutral(combine, dtype), list[Term]()
        for k in range(len(line)):
            group, chunk, block = k // GROUP, k // CHUNK, k // FOLDED
            own = groups[group][k % GROUP]
            if mode == "exclusive":
                own = groups[group][k % GROUP - 1] if k % GROUP else None
            before = chunks[chunk][group % in_chunk - 1] if group % in_chunk else None
            outer = blocks[block][chunk % in_block - 1] if chunk % in_block else None
            total = both(totals[block - 1] if block else None, both(outer, both(before, own)))
            results.append(neutral if total is None else total)
        return results

    def transpose(self, op: Op) -> None:
        value = self.slices[op.operands[0]]
        if isinstance(value, OpenRow):
            raise Mismatch("transposes of open extents are not looked at", op)
        rows, columns = value.extents
        terms = [value.at((i, j)) for j in range(columns) for i in range(rows)]
        self.slices[op.result] = Elements((columns, rows), terms)

    def dot(self, op: Op) -> None:
        element = op.result.type.element
        blocks = [self.slices[v] for v in op.operands]
        casted = []
        for value, block in zip(op.operands, blocks, strict=True):
            if isinstance(block, OpenRow):
                raise Mismatch("products of open extents are not looked at", op)
            is_same = value.type.element is element
            terms = block.terms if is_same else [self.b.emit("cast", element, each) for each in block.terms]
            casted.append(Elements(block.extents, terms))
        a, c, *sums = casted
        if a.extents[1] != c.extents[0]:
            raise Mismatch("these extents never are the same", op)
        terms = []
        for i, j in product(range(a.extents[0]), range(c.extents[1])):
            total = sums[0].at((i, j)) if sums else self.b.neutral("add", element)
            for k in range(a.extents[1]):
                factors = a.at((i, k)), c.at((k, j))
                if element.is_float:
                    total = self.b.emit("fma", element, *factors, total)
                else:
                    total = self.b.emit("add", element, total, self.b.emit("mul", element, *factors))
            terms.append(total)
        self.slices[op.result] = Elements((a.extents[0], c.extents[1]), terms)


def base_of(b: ElementTerms, n: Term) -> Term:
    """The first position of a round of a loop along a row of n elements: a multiple of FOLDED, or of another step, below n."""
    return b.terms.add(Node("base", U32, (), (n,)))


def fold_term(b: ElementTerms, combine: str, dtype: DataType, n: Term, begin: Term, element: Term) -> Term:
    """`begin` combined with `element` for each round of FOLDED positions, in their order."""
    return b.terms.add(Node("fold", dtype, (combine,), (n, begin, element)))


def _extent_terms(b: ElementTerms, value: Slice) -> list[Term]:
    return [value.n] if isinstance(value, OpenRow) else [b.number(each) for each in value.extents]
