"""Asynchronous copies of a workgroup that make up runs of bytes, which the engine for bulk copies moves (sm_90 on).

The pieces that a workgroup copies at an op have numbers: the invocation's in the workgroup, or the counter of a loop that
hands out numbers to invocations by turns:

    for %n = %invocation to 512 step 128 {               number       0     1     2    ...   127   128  ...   511
      %v = load @x[%row + 4 * %n] : vec<4 x f32>         from @x      row   +4    +8   ...   +508  +512 ...   +2044
      copy_async %v, @t[%stage + 4 * %n]                 to @t        stage +4    +8   ...   +508  +512 ...   +2044
    }                                                    one run of 8192 bytes, which invocation 0 begins

A run is done by one invocation, where the language lets each copy its own pieces.  So a tile is filled by runs only where
no invocation can tell:

- all copies to it are runs, in control flow that the workgroup goes together, as are all waits;
- a barrier of the workgroup lies between each other access to the tile and the next copy;
- no tile lies in panels, where rows are not in order (see warpgroups.py);
- nothing faults: the others would wait for the copies of an invocation that has ended.

The engine is another way to memory than loads and stores (PTX ISA, "Async proxy").  What they read before a barrier it
may overwrite after it; what they wrote needs a fence in front of that barrier.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field

from ...analysis.affine import AffineExpr, Symbol, SymbolKind
from ...analysis.alignment import Alignment
from ...analysis.bounds import BoundsProofs
from ...analysis.effects import effects_of
from ...analysis.lane_values import elementwise_fold, sum_by_lane, wrap_lanes
from ...ir.loops import bounds
from ...ir.program import Block, Op, Program, Value
from ...ir.uniformity import Level, Uniformity
from ...records import dataclass
from .abi import ALIGNMENT
from .warpgroups import panelled

__all__ = ["FIRST", "CopyRuns", "Run", "copy_runs", "source"]

FIRST = 90
"""The first architecture with bulk copies."""

LEAST_BYTES = 256
"""Least bytes of a run.  On an H200 shorter ones are slower than copies of 16 bytes by each invocation: runs of 128 bytes by 8 to 11 %, of
64 by a third and more."""

MAX_DEPTH = 16
"""Length of a chain of ops that no expression is equal to."""

MOST_PIECES = 1 << 14
"""Most copies that are examined for an op: as many as fill the workgroup memory of any GPU by 16 bytes each."""


@dataclass(frozen=True, slots=True)
class Run:
    """`pieces` of consecutive numbers, `size` bytes together.  The invocation that has the first, whose number is a multiple
    of `pieces`, copies all.  `counter`: the number; None if it is that of the invocation in its workgroup."""

    pieces: int
    size: int
    counter: Value | None


@dataclass(frozen=True, slots=True)
class CopyRuns:
    """`runs`: by the copy_async that they are of.  `ends`: upper bounds of loops that do nothing after the last run's first
    piece.  `fences`: the barriers that a fence stands before.  `pending`: groups of copies that a wait leaves, at most.
    `drains`: whether copies may be under way at the end of the program.  `are_all`: no copy_async is without a run."""

    runs: Mapping[Op, Run]
    ends: Mapping[Op, int]
    fences: frozenset[Op]
    pending: int
    drains: bool
    are_all: bool


def source(program: Program, value: Value) -> Op | None:
    """The load that a copy can do itself, of its elements' bits in storage; whether the program writes there is not checked."""
    op = value.owner
    if not isinstance(op, Op) or op.name != "load":
        return None
    buffer = program.buffers[op.attrs["buffer"]]
    is_plain = buffer.dtype.lanes == 1 and not buffer.dtype.is_bool
    return op if is_plain and not buffer.is_on_chip else None


def copy_runs(program: Program, proofs: BoundsProofs, alignment: Alignment, clamps: bool) -> CopyRuns | None:
    """The runs of a program in which nothing faults; None if it has none.  `clamps`: indices that are not proven in bounds
    are clamped."""
    ops = list(program.walk())
    copies = [op for op in ops if op.name == "copy_async"]
    if not copies or panelled(program):
        return None
    uniformity = Uniformity(program)
    waits = [op for op in ops if op.name == "copy_wait"]
    if not all(_is_uniform(uniformity, op) for op in waits):
        return None
    around = {op: loop for loop in ops if loop.name == "for" for op in loop.regions[0].ops}
    written_buffers = {name for op in ops for name in effects_of(op).writes}
    search = _RunSearch(program, proofs, alignment, uniformity, clamps, written_buffers)
    runs = {op: run for op in copies if (run := search.run(op, around.get(op))) is not None}
    by_hand = {op.attrs["buffer"] for op in copies if op not in runs}
    walk = _OrderWalk({op.attrs["buffer"] for op in runs} - by_hand)
    walk.block(program.body)
    tiles = walk.tiles - walk.refused
    runs = {op: run for op, run in runs.items() if op.attrs["buffer"] in tiles}
    if not runs:
        return None
    fences = frozenset(op for op, names in walk.fenced.items() if names & tiles)
    pending = max((op.attrs["pending"] for op in waits), default=0)
    drains, are_all = bool(walk.state.copied & tiles), len(runs) == len(copies)
    return CopyRuns(runs, _ends(runs, around), fences, pending, drains, are_all)


def _is_uniform(uniformity: Uniformity, op: Op) -> bool:
    control = uniformity.control.get(op)
    return control is None or control[0] <= Level.WORKGROUP


def _ends(runs: Mapping[Op, Run], around: Mapping[Op, Op]) -> dict[Op, int]:
    """End of each loop without effects but runs: the number behind the last iteration's first piece."""
    ends: dict[Op, int] = {}
    for loop in {around[op] for op, run in runs.items() if run.counter is not None}:
        body = loop.regions[0]
        inner = [runs[op] for op in body.ops if op in runs]
        effects = [effects_of(op) for op in body.ops if op not in runs]
        has_others = any(e.writes or e.orders or e.stops or e.prints for e in effects)
        if not loop.results and not has_others and not any(op.regions for op in body.ops):
            ends[loop] = max(_count(loop) - run.pieces + 1 for run in inner)
    return ends


def _count(loop: Op) -> int:
    upper = loop.attrs["upper"]
    assert isinstance(upper, int)
    return upper


# --- numbers


@dataclass
class _RunSearch:
    program: Program
    proofs: BoundsProofs
    alignment: Alignment
    uniformity: Uniformity
    clamps: bool
    written: set[str]

    def run(self, op: Op, loop: Op | None) -> Run | None:
        """The run of a copy_async directly in `loop`, if any."""
        value, _ = op.operands
        load = source(self.program, value)
        tile = self.program.buffers[op.attrs["buffer"]]
        if load is None or load.attrs["buffer"] in self.written or tile.dtype.lanes != 1:
            return None
        if self.clamps and not {op, load} <= self.proofs.proven.keys():
            return None
        numbers = self._numbers(op, loop)
        if numbers is None:
            return None
        size, width = value.type.element.size_bytes or 1, value.type.lanes
        unit = ALIGNMENT // math.gcd(ALIGNMENT, size)
        positions = [numbers.positions(self._index(access)) for access in (load, op)]
        pieces = numbers.count
        for position in positions:
            if position is None or not self._divides(unit, position.uniform):
                return None
            parted = (n for n in range(1, numbers.count) if position.at[n] - position.at[n - 1] != width)
            pieces = math.gcd(pieces, *parted)
        firsts = [
            position.at[n] for position in positions if position for n in range(0, numbers.count, pieces)
        ]
        run_bytes = pieces * width * size
        if run_bytes < LEAST_BYTES or run_bytes % ALIGNMENT or any(first % unit for first in firsts):
            return None
        return Run(pieces, run_bytes, numbers.counter)

    def _index(self, access: Op) -> AffineExpr:
        """An expression of the index that grows from piece to piece as the index does: equal to it as an integer, or congruent
        where a run that is in bounds cannot wrap."""
        index, forms = access.index, self.proofs.forms
        proven = self.proofs.proven.get(access)
        if proven:
            return proven[0].index
        bits, count = index.type.bits or 1, self.program.buffers[access.attrs["buffer"]].count
        cannot_wrap = bits == 64 or (count is not None and count < 1 << bits)
        return forms.congruent(index) if cannot_wrap else forms.expr(index)

    def _divides(self, unit: int, terms: Mapping[Symbol, int]) -> bool:
        """Whether a power of two surely divides a sum of multiples of symbols."""
        zeros = unit.bit_length() - 1
        for symbol, factor in terms.items():
            alignment = self.alignment.of(symbol.identity) if isinstance(symbol.identity, Value) else 0
            if alignment + (factor & -factor).bit_length() - 1 < zeros:
                return False
        return True

    def _numbers(self, op: Op, loop: Op | None) -> _Numbers | None:
        """The numbers of the pieces that the workgroup copies at `op` together; None if not all take part."""
        lanes, forms = self.program.lanes, self.proofs.forms
        if _is_uniform(self.uniformity, op):
            return _Numbers(self.proofs, self.uniformity, lanes, lanes, None)
        if loop is None or not _is_uniform(self.uniformity, loop):
            return None
        lower, upper, step = bounds(loop)
        if not isinstance(lower, Value) or not isinstance(upper, int) or not 0 < upper <= MOST_PIECES:
            return None
        stride = AffineExpr(step) if isinstance(step, int) else forms.expr(step)
        first = sum_by_lane(forms.expr(lower), lanes)
        if stride != AffineExpr(lanes) or first != tuple(range(lanes)):
            return None
        return _Numbers(self.proofs, self.uniformity, lanes, upper, loop)


UNIFORM: Sequence[int] = ()
"""Equal values of a symbol, by number."""


@dataclass(frozen=True)
class _Positions:
    """An index by number: `at` for each, and `uniform`, terms that are equal for all of them, on top."""

    at: Sequence[int]
    uniform: Mapping[Symbol, int]


@dataclass
class _Numbers:
    """Expressions by the number of a piece, below `count`; number n is that of invocation n % lanes in turn n / lanes of `loop`."""

    proofs: BoundsProofs
    uniformity: Uniformity
    lanes: int
    count: int
    loop: Op | None
    known: dict[Symbol, Sequence[int] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.inside = set(self.loop.regions[0].args) if self.loop else set()
        for op in self.loop.walk() if self.loop else ():
            self.inside.update(op.results)

    @property
    def counter(self) -> Value | None:
        return self.loop.regions[0].args[0] if self.loop is not None else None

    def positions(self, expr: AffineExpr, depth: int = MAX_DEPTH) -> _Positions | None:
        """None if it is not known how the expression moves with the number."""
        at: Sequence[int] = [expr.const] * self.count
        uniform: dict[Symbol, int] = {}
        for symbol, factor in expr.terms.items():
            if symbol not in self.known:
                self.known[symbol] = self._by_number(symbol, depth)
            values = self.known[symbol]
            if values is None:
                return None
            if values is UNIFORM:
                uniform[symbol] = factor
            else:
                at = [a + factor * b for a, b in zip(at, values, strict=True)]
        return _Positions(at, uniform)

    def _by_number(self, symbol: Symbol, depth: int) -> Sequence[int] | None:
        """The values of a symbol, or UNIFORM; None if that is not known."""
        numbers, value = range(self.count), symbol.identity
        if symbol.by_lane is not None:
            return [symbol.by_lane[n % self.lanes] for n in numbers]
        if symbol.kind is not SymbolKind.VALUE:
            return [n // self.lanes for n in numbers] if self.loop and value is self.loop else UNIFORM
        if value is self.counter:
            return numbers
        if not isinstance(value, Value):
            return None
        if value not in self.inside and self.uniformity.level(value) <= Level.WORKGROUP:
            return UNIFORM
        op = value.owner
        if not isinstance(op, Op) or not depth or not op.operands:
            return None
        fold = elementwise_fold(op) if all(operand.type.is_int for operand in op.operands) else None
        return None if fold is None else self._of_operands(op, fold, depth - 1)

    def _of_operands(self, op: Op, fold: Callable[..., map[int]], depth: int) -> Sequence[int] | None:
        forms = self.proofs.forms
        positions = [self.positions(forms.congruent(operand), depth) for operand in op.operands]
        if all(
            position is not None and position.at.count(position.at[0]) == self.count for position in positions
        ):
            return UNIFORM
        positions = [self.positions(forms.expr(operand), depth) for operand in op.operands]
        constants = [position.at for position in positions if position is not None and not position.uniform]
        return (
            wrap_lanes(tuple(fold(*constants)), op.result.type) if len(constants) == len(positions) else None
        )


# --- order


@dataclass
class _TileAccesses:
    """Tiles accessed and tiles written since the last barrier of the workgroup, by ops other than runs;
    and those with copies that may be under way."""

    accessed: set[str] = field(default_factory=set)
    written: set[str] = field(default_factory=set)
    copied: set[str] = field(default_factory=set)

    def copy(self) -> _TileAccesses:
        return _TileAccesses(set(self.accessed), set(self.written), set(self.copied))

    def include(self, other: _TileAccesses) -> None:
        self.accessed |= other.accessed
        self.written |= other.written
        self.copied |= other.copied


class _OrderWalk:
    """Follows the control flow.  `refused`: those of `tiles` that are copied to where an access may not be over.  `fenced`:
    barriers, and the tiles that are written before each."""

    def __init__(self, tiles: set[str]) -> None:
        self.tiles = tiles
        self.refused: set[str] = set()
        self.fenced: dict[Op, set[str]] = {}
        self.state = _TileAccesses()

    def block(self, block: Block) -> None:
        for op in block.ops:
            if op.name in ("for", "while"):
                self._loop(op)
            elif op.regions:
                self._branches(op)
            else:
                self._op(op)

    def _loop(self, op: Op) -> None:
        while True:  # to a fixed point: the state after a turn is that before the next, and can only grow
            before = self.state.copy()
            for region in op.regions:
                self.block(region)
            self.state.include(before)
            if self.state == before:
                return

    def _branches(self, op: Op) -> None:
        before, after = self.state, _TileAccesses()
        for region in op.regions:
            self.state = before.copy()
            self.block(region)
            after.include(self.state)
        if op.name == "if" and len(op.regions) == 1:
            after.include(before)
        self.state = after

    def _op(self, op: Op) -> None:
        state = self.state
        if op.name == "copy_async":
            tile = op.attrs["buffer"]
            state.copied.add(tile)
            if tile in state.accessed:
                self.refused.add(tile)
        elif op.name == "copy_wait":
            if op.attrs["pending"] == 0:
                state.copied.clear()
        elif op.name == "barrier":
            if op.attrs["scope"] != "subgroup":
                self.fenced.setdefault(op, set()).update(state.written)
                state.accessed.clear()
                state.written.clear()
        else:
            effects = effects_of(op)
            state.accessed |= effects.reads | effects.writes
            state.written |= effects.writes
