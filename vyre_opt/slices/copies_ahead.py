"""Factors of products in a loop, copied to workgroup memory some rounds ahead:

    stage        0        1        2        0        1
    copied      k = 0    k = 1    k = 2    k = 3 ...
    multiplied                    k = 0    k = 1 ...        one barrier a round: a stage is filled again when all have read it

With three stages or more, copies begin behind the barrier of their round, which products of warpgroups may pass:

    round k     products of k      wait for the copies of k + 1, barrier, copy k + 2, load left factors of k + 1

Blocks that no copy can move (see block_copies) are loaded to registers one more round ahead, and stored where copies begin:

    round k     products of k      wait, barrier, store k + 2, which round k - 1 has loaded, load k + 3
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ..ir.builder import Builder
from ..ir.loops import bounds
from ..ir.program import Op, Value
from ..ir.types import DataType
from ..records import dataclass
from .layout import STRIP, MatrixLayout
from .memory import Tile
from .schedule import DEPTH, factor_tile
from .units import Units

__all__ = ["CopiesAhead"]

MOST_LOADED = 64
"""Pieces that an invocation has in registers from round to round, at most."""
MOST_AHEAD = 1 << 31
"""Bound of the distance from a counter to that of the last round that is copied."""


@dataclass(frozen=True)
class _Copy:
    """A block that is loaded in each round, and the buffer for its stages."""

    load: Op
    tile: str


class CopiesAhead:
    """Copies of a loop `before`, whose bounds are now `lower` and `upper`.  `of`: what a value from outside the loop has become."""

    def __init__(self, units: Units, before: Op, copies: list[_Copy], of: Callable[[Value], Value]) -> None:
        self.units, self.before, self.copies, self.of = units, before, copies, of
        self.b: Builder = units.b
        self.stages = units.schedule.stages
        self.ahead = self.stages - any(op in units.dots for op in before.walk())
        """Rounds from one to that whose copies begin at its end: all lanes have read its own stage then; warpgroups may not."""
        dots = self.with_copied_lefts() if self.stages > 2 else []
        by_warpgroups = units.schedule.units == "warpgroups"
        self.dots = [] if by_warpgroups else dots
        """Products whose left factors are loaded a round before; none for warpgroups, which would wait for them."""
        self.is_behind = self.ahead > 1 and not (by_warpgroups and any(map(self.is_padded, dots)))
        """Whether copies begin behind the barrier."""
        self.loads = self.through_registers()
        """Blocks that go through registers, a round ahead."""
        self.step: int = before.attrs["step"]
        self.counter, self.body = before.regions[0].args[0], set(before.regions[0].ops)
        lower, upper, _ = (
            self.b.const(each, self.counter.type) if isinstance(each, int) else of(each)
            for each in bounds(before)
        )
        self.lower, self.upper = lower, upper

    def is_padded(self, of_dot: tuple[Op, Tile, MatrixLayout]) -> bool:
        """Whether the left factor of a product is loaded to registers, since it has no form that warpgroups read where it is."""
        dot, tile, _ = of_dot
        return self.b.program.buffers[tile.buffer].shape[-1] != dot.operands[0].type.extents[1]

    def through_registers(self) -> list[_Copy]:
        """Blocks that no copy can move, as far as an invocation has registers for what it loads of them."""
        chosen, count, copies = list[_Copy](), 0, self.units.copies
        for each in self.copies:
            if copies.is_loaded(each.load) and count + copies.count(each.load) <= MOST_LOADED:
                count += copies.count(each.load)
                chosen.append(each)
        return chosen

    def with_copied_lefts(self) -> list[tuple[Op, Tile, MatrixLayout]]:
        """The products whose left factors are copied ahead."""
        tiles = {each.load.result: each.tile for each in self.copies}
        carried = []
        for dot in self.before.regions[0].ops:
            if dot not in self.units.dots:
                continue
            source = self.units.transposes.get(dot.operands[0], dot.operands[0])
            if source in tiles:
                rows, columns = (extent or 0 for extent in dot.result.type.extents)
                tile = Tile(tiles[source], self.b.const(0), source is not dot.operands[0])
                carried.append((dot, tile, self.units.layout_of(rows, columns)))
        return carried

    @classmethod
    def of_loop(cls, units: Units, loop: Op, of: Callable[[Value], Value]) -> CopiesAhead | None:
        """None for a loop without such factors."""
        step = loop.attrs.get("step")
        if loop.name != "for" or units.schedule.stages < 2 or not isinstance(step, int):
            return None
        if not 0 < step * (units.schedule.stages + 1) < MOST_AHEAD:
            return None
        copies = []
        for number, (load, dot, side) in enumerate(_factors(units, loop)):
            shape = factor_tile(dot, side, load.result, units.schedule)
            tile = units.elements.memory.tile(
                f"{('left', 'right')[side]}{units.level or ''}.{number}",  # of loops around, tiles are in use
                load.result.type.element,
                (units.schedule.stages, *shape),
            )
            copies.append(_Copy(load, tile))
        return cls(units, loop, copies, of) if copies else None

    def begin(self) -> list[Value]:
        """Copy the first rounds' factors before the loop, and wait for those of one.  Returns what the loop carries for them."""
        b = self.b
        b.barrier()  # others may still read what a loop before this one had in the tiles
        with b.for_(0, self.ahead, dtype=DataType.U32) as ahead, self.units.elements.scope():
            past = b.mul(ahead.index, self.step)
            counter = b.add(
                self.lower, past if self.counter.type is DataType.U32 else b.cast(past, self.counter.type)
            )
            with b.if_(self.is_round(self.lower, counter)):
                self.copy(counter, ahead.index)
            b.copy_wait(self.ahead - 1)
        b.barrier()
        return [*self.first_lefts(), *self.loaded(self.lower, self.ahead)]

    def enter(self, counter: Value, carried: Sequence[Value]) -> None:
        """Begin a round, whose factors are in the tiles."""
        b, rest = self.b, iter(carried)
        self.units.level += 1
        self.own = counter
        past = b.sub(counter, self.lower)
        self.number = b.div(past if past.type is DataType.U32 else b.cast(past, DataType.U32), self.step)
        stage = b.rem(self.number, self.stages, name="stage")
        self.units.tiles |= {each.load.result: Tile(each.tile, stage) for each in self.copies}
        for dot, _, layout in self.dots:
            count = layout.band // STRIP * (dot.operands[0].type.extents[1] or 0) // DEPTH
            self.units.carried[dot] = [next(rest) for _ in range(count)]
        self.pieces = list(rest)

    def end(self) -> list[Value]:
        """End a round: wait for the next one's factors, and copy further ones to the stage that the round before has read.
        Returns what the loop carries for the next round: its left factors."""
        b, ahead = self.b, self.ahead
        self.units.level -= 1
        counter = b.add(self.own, ahead * self.step)
        if self.is_behind:
            b.copy_wait(ahead - 2)
            b.barrier()
        with b.if_(self.is_round(self.own, counter)), self.units.elements.scope():
            self.copy(counter, b.rem(b.add(self.number, ahead), self.stages), self.pieces)
        if not self.is_behind:
            b.copy_wait(ahead - 1)
            b.barrier()
        pieces = self.loaded(self.own, ahead + 1)
        if not self.dots:
            return pieces
        following = b.add(self.own, self.step)
        number = b.add(self.number, b.select(self.is_round(self.own, following), b.const(1), b.const(0)))
        return [*self.lefts(b.rem(number, self.stages)), *pieces]  # behind the last round, its own

    def loaded(self, own: Value, ahead: int) -> list[Value]:
        """Pieces of the blocks that go through registers, so many rounds behind the round of a counter."""
        if not self.loads:
            return []
        b, copies, counter = self.b, self.units.copies, self.b.add(own, ahead * self.step)
        with b.if_(self.is_round(own, counter)) as branch, self.units.elements.scope():
            known: dict[Value, Value] = {self.counter: counter}
            branch.yield_(*(v for each in self.loads for v in copies.loaded(*self.source(each, known))))
        with branch.else_():
            branch.yield_(
                *(v for each in self.loads for v in [copies.nothing(each.load)] * copies.count(each.load))
            )
        return list(branch.results)

    def first_lefts(self) -> list[Value]:
        """Left factors of the first round, or zeros where there is none."""
        b, lower, upper = self.b, self.before.attrs["lower"], self.before.attrs["upper"]
        if not self.dots:
            return []
        if lower is not None and upper is not None and lower < upper:
            return self.lefts(b.const(0))
        with b.if_(b.lt(self.lower, self.upper)) as branch, self.units.elements.scope():
            lefts = self.lefts(b.const(0))
            branch.yield_(*lefts)
        with branch.else_():
            branch.yield_(*(b.const(0.0, left.type) for left in lefts))
        return list(branch.results)

    def lefts(self, stage: Value) -> list[Value]:
        """Left factors of all products in a stage."""
        return [
            value
            for dot, tile, layout in self.dots
            for value in self.units.lefts(dot, replace(tile, stage=stage), layout)
        ]

    def is_round(self, own: Value, counter: Value) -> Value:
        """Whether there is a round of a counter, which may have wrapped around on its way from another one."""
        b, upper = self.b, self.before.attrs["upper"]
        is_below = b.lt(counter, self.upper)
        most = (1 << (self.counter.type.bits or 0) - self.counter.type.is_signed) - 1
        if upper is not None and upper + (self.stages + 1) * self.step <= most:
            return is_below
        return b.and_(is_below, b.ge(counter, own))

    def copy(self, counter: Value, stage: Value, pieces: Sequence[Value] | None = None) -> None:
        """Begin to copy the factors of the round of a counter.  `pieces`: those of blocks that were loaded before; None for none."""
        known, copies = {self.counter: counter}, self.units.copies
        rest = iter(pieces or ())
        for each in self.copies:
            tile = Tile(each.tile, stage)
            if pieces is not None and each in self.loads:
                values = [next(rest) for _ in range(copies.count(each.load))]
                copies.store(*self.source(each, known), values, tile)
            else:
                copies.copy(*self.source(each, known), tile)

    def source(self, each: _Copy, known: dict[Value, Value]) -> tuple[Op, Sequence[Value], Value | None]:
        """A load as it is in the round of another counter: its indices, and what is beyond the edge."""
        values = [self.at(value, known) for value in each.load.operands]
        fill = values.pop() if each.load.attrs["edge"] == "filled" else None
        self.b.loc = each.load.loc
        return each.load, self.units.elements.wide(values, 2), fill

    def at(self, value: Value, known: dict[Value, Value]) -> Value:
        """Return a value as it is in the round of another counter."""
        if value not in known:
            op = value.owner
            if isinstance(op, Op) and op in self.body:
                operands = tuple(self.at(v, known) for v in op.operands)
                known[value] = self.b.emit(op.definition, operands, [value.type], op.attrs).result
            else:
                known[value] = self.of(value)
        return known[value]


def _factors(units: Units, loop: Op) -> list[tuple[Op, Op, int]]:
    """The loads of blocks that a loop makes in each round for products on units alone, with one of these and the side of the factor."""
    body = dict.fromkeys(loop.regions[0].ops)
    within = {
        value
        for op in loop.walk()
        for value in (*op.results, *(a for region in op.regions for a in region.args))
    }
    written = {
        op.attrs["buffer"] for op in loop.walk() if "write" in op.definition.effects and "buffer" in op.attrs
    }
    is_opaque = any(op.definition.effects & {"trap", "print"} for op in loop.walk())
    uses: dict[Value, list[tuple[Op, int]]] = {}
    for op in loop.walk():
        for number, value in enumerate(op.operands):
            uses.setdefault(value, []).append((op, number))
    known = {loop.regions[0].args[0]}
    for op in body:
        is_scalar = (
            op.definition.is_pure and not op.regions and len(op.results) == 1 and not op.result.type.is_slice
        )
        is_id = not op.operands and op.definition.format not in ("const", "len")
        if is_scalar and not is_id and all(v in known or v not in within for v in op.operands):
            known.add(op.result)
    factors, products = [], units.dots | units.tiled
    for op in body if not is_opaque else ():
        if (
            op.definition.format != "slice_load"
            or len(op.result.type.extents) != 2
            or op.attrs["buffer"] in written
        ):
            continue
        if not all(v in known or v not in within for v in op.operands):
            continue
        taken = uses.get(op.result, [])
        turned = [
            user.result
            for user, _ in taken
            if user.name == "slice_transpose" and user.result in units.transposes
        ]
        taken = [use for use in taken if not use[0].results or use[0].result not in turned]
        taken += [use for value in turned for use in uses.get(value, [])]
        if taken and all(user in products and side < 2 and user in body for user, side in taken):
            factors.append((op, *taken[0]))
    return factors
