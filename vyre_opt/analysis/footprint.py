"""Footprints: what each access of a program touches, and in which order.

`Footprints(program).events` is the program as memory sees it: accesses with the
form of their index, barriers, and the loops and branches around them, in program
order.  `prove_local` (in locality) reads them; so can anything that asks which
elements a workgroup touches.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import product
from operator import mul

from ..ir.program import Block, Op, Program, Value
from ..ir.types import DataType
from ..ir.uniformity import Level, Uniformity
from .affine import Affine, Range, Symbol, SymbolKind
from .congruence import Residue
from .elements import Elements
from .forms import Counter, Cut, Forms, Unknown

__all__ = [
    "MemoryAccess",
    "Atom",
    "Barrier",
    "BranchEnd",
    "BranchStart",
    "Event",
    "Footprints",
    "LoopEnd",
    "LoopStart",
]

_NEGATED = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"}
_FLIPPED = {"lt": "gt", "le": "ge", "gt": "lt", "ge": "le", "eq": "eq", "ne": "ne"}
_HOLDS = {
    "lt": lambda d: d < 0, "le": lambda d: d <= 0, "gt": lambda d: d > 0,
    "ge": lambda d: d >= 0, "eq": lambda d: d == 0, "ne": lambda d: d != 0,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Atom:
    """A condition that must have held for an access to happen.

    `kind`: uniform (the same for the workgroup), element (says something of the
    element touched only), or lane.  Equal atoms hold together.
    """

    kind: str
    key: object
    loops: frozenset[Op]

    def __str__(self) -> str:
        return str(self.key)


@dataclass(frozen=True, slots=True)
class Guard:
    """One conjunct of a condition: as a comparison of forms where it is one."""

    value: Value
    holds: bool
    level: Level
    relation: str = ""
    left: Affine | None = None
    right: Affine | None = None
    dtype: DataType | None = None
    loops: frozenset[Op] = frozenset()
    form: Affine | None = None

    def atom(self, index: Affine | None, dtype: DataType) -> Atom:
        """The guard as a condition on an access with an index of this form and type."""
        if index is not None and self.dtype is dtype and self.left is not None and self.right is not None:
            for relation, moving, fixed in (
                (self.relation, self.left, self.right),
                (_FLIPPED[self.relation], self.right, self.left),
            ):
                offset = moving - index
                if _is_group(offset) and _is_group(fixed):
                    key = ("index", relation, dtype.name, offset, fixed)
                    return Atom("element", key, offset.loops | fixed.loops)
        if self.level <= Level.WORKGROUP:
            same = self.form if self.form is not None else self.value
            return Atom("uniform", (same, self.holds), self.loops)
        return Atom("lane", (self.value, self.holds), self.loops)


def _is_group(form: Affine) -> bool:
    return all(symbol.kind is SymbolKind.GROUP for symbol in form.terms)


@dataclass(frozen=True, slots=True)
class MemoryAccess:
    """A load, store or atomic.

    `index` is the form of the element index (of the first element of a vector),
    `width` the elements touched from there, `count` the buffer's elements if that is
    known, `lanes` the narrowed ranges of local ids, `loops` the counters around it from
    the outermost in (None: unknown trips).
    """

    op: Op
    buffer: str
    is_write: bool
    is_atomic: bool
    index: Affine | Unknown
    width: int
    count: int | None
    guards: tuple[Guard, ...]
    lanes: Mapping[Symbol, Range]
    loops: tuple[Counter | None, ...]
    inside: tuple[Op, ...]

    @property
    def form(self) -> Affine:
        assert isinstance(self.index, Affine)
        return self.index

    @property
    def residue(self) -> Residue:
        """How the index follows from its form."""
        return Residue.of(self.op.index.type, self.form, self.width, self.count)

    @property
    def atoms(self) -> frozenset[Atom]:
        # a condition on the first element of a vector says nothing of the others
        form = self.index if isinstance(self.index, Affine) and self.width == 1 else None
        dtype = self.op.index.type
        return frozenset(guard.atom(form, dtype) for guard in self.guards)

    def elements(self) -> Elements | None:
        """What the lanes of a workgroup may touch in one iteration, less the group's and loops' terms.

        It is all that they touch, and no more if the index has no value symbol.
        """
        found: Elements | None = Elements.single(self.form.const).spread(1, self.width)
        for symbol, coefficient in self.form.terms.items():
            if symbol.kind in (SymbolKind.LOCAL, SymbolKind.VALUE) and found is not None:
                least, most = self.lanes.get(symbol, symbol.range)
                found = found.shifted(coefficient * least).spread(coefficient, most - least + 1)
        if found is not None and any(most < least for least, most in self.lanes.values()):
            return Elements(0, 0)  # no lane gets here
        return found

    def describe(self) -> str:
        """The access in words: `load @b[64*workgroup_id.x + local_id.x]`."""
        where = str(self.index) if isinstance(self.index, Affine) else "?"
        span = f" .. +{self.width - 1}" if self.width > 1 else ""
        return f"{self.op.name} @{self.buffer}[{where}{span}]"


@dataclass(frozen=True, slots=True)
class Barrier:
    op: Op
    scope: str


@dataclass(frozen=True, slots=True)
class LoopStart:
    """A loop begins; `counter` is None for a while and for a for of unknown trips."""

    op: Op
    counter: Counter | None


@dataclass(frozen=True, slots=True)
class LoopEnd:
    op: Op
    counter: Counter | None


@dataclass(frozen=True, slots=True)
class BranchStart:
    op: Op


@dataclass(frozen=True, slots=True)
class BranchEnd:
    op: Op


Event = MemoryAccess | Barrier | LoopStart | LoopEnd | BranchStart | BranchEnd


class Footprints:
    """The memory events of a program, and the forms they rest on."""

    name = "footprints"

    def __init__(self, program: Program) -> None:
        self.program = program
        self.uniformity = Uniformity(program)
        cuts = frozenset[Cut]()
        while True:
            self.forms = Forms(program, self.uniformity, cuts)
            self.events: list[Event] = []
            self.comparisons: dict[Value, Op] = {}
            self.kernels: list[Op] = []
            self._guards: tuple[Guard, ...] = ()
            self._lanes: dict[Symbol, Range] = {}
            self._loops: tuple[Counter | None, ...] = ()
            self._block(program.body)
            if not self.forms.wanted:
                break
            for axis, at in sorted(self.forms.wanted):
                others = [other for name, other in cuts if name == axis]
                if all(at % other == 0 or other % at == 0 for other in others):
                    cuts |= {(axis, at)}

    def accesses(self, buffer: str) -> list[MemoryAccess]:
        """The accesses of one buffer, in program order."""
        return [e for e in self.events if isinstance(e, MemoryAccess) and e.buffer == buffer]

    # --- the walk ---------------------------------------------------------------------

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.regions:
                self._structured(op)
                continue
            effects = op.definition.effects
            if not effects:
                self.forms.visit(op)
                if op.definition.format == "compare" or op.name in ("and", "or", "not"):
                    self.comparisons[op.results[0]] = op
            elif op.definition.kernel is not None:
                self.kernels.append(op)
            elif "buffer" in op.attrs:
                self._access(op)
                self.forms.visit(op)
            else:
                if op.name == "barrier":
                    self.events.append(Barrier(op, op.attrs["scope"]))
                self.forms.visit(op)

    def _access(self, op: Op) -> None:
        writes, atomic = "write" in op.definition.effects, "atomic" in op.definition.effects
        index = op.index
        moved = op.operands[0] if op.name == "store" else op.results[0]
        buffer = self.program.buffers[op.attrs["buffer"]]
        width = moved.type.lanes if moved.type is not buffer.dtype else 1
        self.events.append(
            MemoryAccess(
                op,
                buffer.name,
                writes,
                atomic,
                self.forms.form(index),
                width,
                buffer.count,
                self._guards,
                self._lanes,
                self._loops,
                tuple(self.forms.loops),
            )
        )

    def _structured(self, op: Op) -> None:
        if op.name == "for":
            self._for(op)
        elif op.name == "while":
            self._while(op)
        elif op.name == "if":
            for number, block in enumerate(op.regions):
                self._branch(op, block, number == 0)
        else:
            self._block(op.regions[0])
        for place, result in enumerate(op.results):
            self._result(op, place, result)

    def _result(self, op: Op, place: int, result: Value) -> None:
        if op.name == "region":
            end = op.regions[0].terminator
            form = self.forms.form(end.operands[place]) if end is not None else None
            # a value of the region's own may not be named outside
            if isinstance(form, Affine) and not form.part(SymbolKind.VALUE).terms:
                self.forms.known[result] = form
                return
        what = "carried around a loop" if op.name in ("for", "while") else "chosen by a branch"
        self.forms.argument(result, self.uniformity.level(result), what)

    def _for(self, op: Op) -> None:
        counter = self.forms.enter_for(op)
        self.events.append(LoopStart(op, counter))
        kept, self._loops = self._loops, (*self._loops, counter)
        self._block(op.regions[0])
        self._loops = kept
        self.events.append(LoopEnd(op, counter))
        self.forms.leave()

    def _while(self, op: Op) -> None:
        self.forms.loops.append(op)
        self.events.append(LoopStart(op, None))
        kept, self._loops = self._loops, (*self._loops, None)
        for block in op.regions:
            for arg in block.args:
                self.forms.argument(arg, self.uniformity.level(arg), "carried around a loop")
            self._block(block)
        self._loops = kept
        self.events.append(LoopEnd(op, None))
        self.forms.leave()

    def _branch(self, op: Op, block: Block, holds: bool) -> None:
        guards, lanes = self._guards, self._lanes
        self.events.append(BranchStart(op))
        for guard in self._conjuncts(op.operands[0], holds):
            narrowed = self._narrow(guard)
            if narrowed is None:
                self._guards = (*self._guards, guard)
            else:
                self._lanes = {**self._lanes, **narrowed}
        self._block(block)
        self._guards, self._lanes = guards, lanes
        self.events.append(BranchEnd(op))

    # --- conditions -------------------------------------------------------------------

    def _conjuncts(self, value: Value, holds: bool) -> list[Guard]:
        """What must be so for `value` to be `holds`, as far as it falls apart by and, or, not."""
        found: list[Guard] = []
        stack, seen = [(value, holds)], set()
        while stack:
            current, wanted = stack.pop()
            if (current, wanted) in seen:
                continue
            seen.add((current, wanted))
            op = self.comparisons.get(current)
            if op is not None and op.name == "not":
                stack.append((op.operands[0], not wanted))
            elif op is not None and op.name == ("and" if wanted else "or"):
                stack += [(operand, wanted) for operand in reversed(op.operands)]
            else:
                found.append(self._guard(current, wanted, op))
        return found

    def _guard(self, value: Value, holds: bool, op: Op | None) -> Guard:
        level = self.uniformity.level(value)
        form = self.forms.known.get(value)
        known = form if isinstance(form, Affine) else None
        varies = known.loops if known is not None else frozenset(self.forms.loops)
        if op is None or op.definition.format != "compare" or not op.operands[0].type.is_int:
            return Guard(value, holds, level, loops=varies, form=known)
        left, right = (self.forms.known.get(operand) for operand in op.operands)
        if not (isinstance(left, Affine) and isinstance(right, Affine)):
            return Guard(value, holds, level, loops=varies, form=known)
        relation = op.name if holds else _NEGATED[op.name]
        varies = varies | left.loops | right.loops
        return Guard(value, holds, level, relation, left, right, op.operands[0].type, varies, known)

    def _narrow(self, guard: Guard) -> dict[Symbol, Range] | None:
        """The guard as ranges of local ids, if it is exactly that."""
        op = self.comparisons.get(guard.value)
        if guard.left is None or guard.right is None or op is None:
            return None
        if any(self.forms.exact(operand) is None for operand in op.operands):
            return None
        difference = guard.left - guard.right
        symbols, coefficients = list(difference.terms), list(difference.terms.values())
        if not symbols or any(symbol.kind is not SymbolKind.LOCAL for symbol in symbols):
            return None
        spans = [self._lanes.get(symbol, symbol.range) for symbol in symbols]
        holds = _HOLDS[guard.relation]
        kept = [
            point
            for point in product(*(range(least, most + 1) for least, most in spans))
            if holds(difference.const + sum(map(mul, coefficients, point)))
        ]
        if not kept:
            return {symbols[0]: (1, 0)}
        box = [(min(values), max(values)) for values in zip(*kept, strict=True)]
        full = math.prod(most - least + 1 for least, most in box) == len(kept)
        return dict(zip(symbols, box, strict=True)) if full else None
