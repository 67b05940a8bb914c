"""Factors of products in a loop, copied to workgroup memory some rounds ahead:

    stage        0        1        2        0        1
    copied      k = 0    k = 1    k = 2    k = 3 ...
    multiplied                    k = 0    k = 1 ...        one barrier a round: a stage is filled again when all have read it

With three stages or more, copies begin after the barrier of their round, and products of warpgroups may overlap it:

    round k     products of k      wait for the copies of k + 1, barrier, copy k + 2, load left factors of k + 1

Blocks too finely aligned for copies (see block_copies) are loaded to registers a further round ahead, and stored where copies
begin:

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

MAX_PIECES = 64
"""The most pieces that an invocation keeps in registers between rounds."""
MAX_DISTANCE = 1 << 31
"""Upper bound of the distance between a round's counter and that of the last round copied ahead."""


@dataclass(frozen=True)
class _Copy:
    """A block that is loaded in each round, and the buffer for its stages."""

    load: Op
    tile: str


class CopiesAhead:
    """Copies ahead for a loop `before` the lowering.  `of`: maps a value from outside the loop to its lowered value."""

    def __init__(self, units: Units, before: Op, copies: list[_Copy], of: Callable[[Value], Value]) -> None:
        self.units, self.before, self.copies, self.of = units, before, copies, of
        self.b: Builder = units.b
        self.stages = units.schedule.stages
        self.ahead = self.stages - any(op in units.dots for op in before.walk())
        """Distance to the round whose copies begin at a round's end.  One less for products on units: a warpgroup may still
        read the round's own stage then."""
        dots = self.with_copied_lefts() if self.stages > 2 else []
        by_warpgroups = units.schedule.units == "warpgroups"
        self.dots = [] if by_warpgroups else dots
        """Products whose left factors are loaded a round before; none for warpgroups, which would wait for them."""
        self.is_behind = self.ahead > 1 and not (by_warpgroups and any(map(self.is_padded, dots)))
        """Whether copies begin after the barrier."""
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
        """Whether warpgroups load the left factor of a product to registers, since its tile is padded."""
        dot, tile, _ = of_dot
        return self.b.program.buffers[tile.buffer].shape[-1] != dot.operands[0].type.extents[1]

    def through_registers(self) -> list[_Copy]:
        """Blocks that go through registers, as far as an invocation has registers for their pieces."""
        selected, count, copies = list[_Copy](), 0, self.units.copies
        for copy in self.copies:
            if copies.goes_through_registers(copy.load) and count + copies.count(copy.load) <= MAX_PIECES:
                count += copies.count(copy.load)
                selected.append(copy)
        return selected

    def with_copied_lefts(self) -> list[tuple[Op, Tile, MatrixLayout]]:
        """The products whose left factors are copied ahead."""
        tiles = {each.load.result: each.tile for each in self.copies}
        products = []
        for dot in self.before.regions[0].ops:
            if dot not in self.units.dots:
                continue
            source = self.units.transposes.get(dot.operands[0], dot.operands[0])
            if source in tiles:
                rows, columns = (extent or 0 for extent in dot.result.type.extents)
                tile = Tile(tiles[source], self.b.const(0), source is not dot.operands[0])
                products.append((dot, tile, self.units.layout_of(rows, columns)))
        return products

    @classmethod
    def of_loop(cls, units: Units, loop: Op, of: Callable[[Value], Value]) -> CopiesAhead | None:
        """The copies of a loop; None for a loop without factors to copy ahead."""
        step = loop.attrs.get("step")
        if loop.name != "for" or units.schedule.stages < 2 or not isinstance(step, int):
            return None
        if not 0 < step * (units.schedule.stages + 1) < MAX_DISTANCE:
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
        """Copy the factors of the first rounds before the loop, and wait for the first.  Returns the loop-carried values."""
        b = self.b
        b.barrier()  # other lanes may still read an earlier loop's factors from the tiles
        with b.for_(0, self.ahead, dtype=DataType.U32) as ahead, self.units.elements.scope():
            past = b.mul(ahead.index, self.step)
            counter = b.add(
                self.lower, past if self.counter.type is DataType.U32 else b.cast(past, self.counter.type)
            )
            with b.if_(self.is_round(self.lower, counter)):
                self.copy(counter, ahead.index)
            b.copy_wait(self.ahead - 1)
        b.barrier()
        return [*self.first_lefts(), *self.load_pieces(self.lower, self.ahead)]

    def enter(self, counter: Value, carried: Sequence[Value]) -> None:
        """Begin a round, with its factors in the tiles."""
        b, remaining = self.b, iter(carried)
        self.units.level += 1
        self.round_counter = counter
        past = b.sub(counter, self.lower)
        self.number = b.div(past if past.type is DataType.U32 else b.cast(past, DataType.U32), self.step)
        stage = b.rem(self.number, self.stages, name="stage")
        self.units.tiles |= {each.load.result: Tile(each.tile, stage) for each in self.copies}
        for dot, _, layout in self.dots:
            count = layout.band // STRIP * (dot.operands[0].type.extents[1] or 0) // DEPTH
            self.units.carried[dot] = [next(remaining) for _ in range(count)]
        self.pieces = list(remaining)

    def end(self) -> list[Value]:
        """End a round: wait for the next round's factors, and begin copies to a stage that all lanes have read.

        Returns the loop-carried values for the next round: its left factors, and pieces in registers."""
        b, ahead = self.b, self.ahead
        self.units.level -= 1
        counter = b.add(self.round_counter, ahead * self.step)
        if self.is_behind:
            b.copy_wait(ahead - 2)
            b.barrier()
        with b.if_(self.is_round(self.round_counter, counter)), self.units.elements.scope():
            self.copy(counter, b.rem(b.add(self.number, ahead), self.stages), self.pieces)
        if not self.is_behind:
            b.copy_wait(ahead - 1)
            b.barrier()
        pieces = self.load_pieces(self.round_counter, ahead + 1)
        if not self.dots:
            return pieces
        following = b.add(self.round_counter, self.step)
        number = b.add(
            self.number, b.select(self.is_round(self.round_counter, following), b.const(1), b.const(0))
        )
        return [
            *self.lefts(b.rem(number, self.stages)),
            *pieces,
        ]  # after the last round, its own factors again

    def load_pieces(self, counter_before: Value, ahead: int) -> list[Value]:
        """Load the pieces of blocks that go through registers, `ahead` rounds after the round of a counter."""
        if not self.loads:
            return []
        b, copies, counter = self.b, self.units.copies, self.b.add(counter_before, ahead * self.step)
        with b.if_(self.is_round(counter_before, counter)) as branch, self.units.elements.scope():
            mapping: dict[Value, Value] = {self.counter: counter}
            branch.yield_(*(v for each in self.loads for v in copies.load_turns(*self.source(each, mapping))))
        with branch.else_():
            branch.yield_(
                *(v for each in self.loads for v in [copies.poison(each.load)] * copies.count(each.load))
            )
        return list(branch.results)

    def first_lefts(self) -> list[Value]:
        """Left factors of the first round, or zeros if the loop has no round."""
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

    def is_round(self, counter_before: Value, counter: Value) -> Value:
        """A condition that `counter` has a round; computed from `counter_before`, it may have wrapped around."""
        b, upper = self.b, self.before.attrs["upper"]
        is_below = b.lt(counter, self.upper)
        limit = (1 << (self.counter.type.bits or 0) - self.counter.type.is_signed) - 1
        if upper is not None and upper + (self.stages + 1) * self.step <= limit:
            return is_below
        return b.and_(is_below, b.ge(counter, counter_before))

    def copy(self, counter: Value, stage: Value, pieces: Sequence[Value] | None = None) -> None:
        """Begin to copy the factors of a counter's round.  `pieces`: loaded pieces of blocks that go through registers."""
        mapping, copies = {self.counter: counter}, self.units.copies
        remaining = iter(pieces or ())
        for each in self.copies:
            tile = Tile(each.tile, stage)
            if pieces is not None and each in self.loads:
                values = [next(remaining) for _ in range(copies.count(each.load))]
                copies.store(*self.source(each, mapping), values, tile)
            else:
                copies.copy(*self.source(each, mapping), tile)

    def source(self, copy: _Copy, mapping: dict[Value, Value]) -> tuple[Op, Sequence[Value], Value | None]:
        """A load, with its indices and fill value as they are in another round.  `mapping`: has the round's counter."""
        values = [self.at(value, mapping) for value in copy.load.operands]
        fill = values.pop() if copy.load.attrs["edge"] == "filled" else None
        self.b.loc = copy.load.loc
        return copy.load, self.units.elements.wide(values, 2), fill

    def at(self, value: Value, mapping: dict[Value, Value]) -> Value:
        """Return a value as it is in another round, emitting the ops that compute it."""
        if value not in mapping:
            op = value.owner
            if isinstance(op, Op) and op in self.body:
                operands = tuple(self.at(v, mapping) for v in op.operands)
                mapping[value] = self.b.emit(op.definition, operands, [value.type], op.attrs).result
            else:
                mapping[value] = self.of(value)
        return mapping[value]


def _factors(units: Units, loop: Op) -> list[tuple[Op, Op, int]]:
    """Loads that a loop repeats only as factors of products, each with such a product and the side of the factor."""
    body = dict.fromkeys(loop.regions[0].ops)
    within = {
        value
        for op in loop.walk()
        for value in (*op.results, *(a for region in op.regions for a in region.args))
    }
    written_buffers = {
        op.attrs["buffer"] for op in loop.walk() if "write" in op.definition.effects and "buffer" in op.attrs
    }
    is_opaque = any(op.definition.effects & {"trap", "print"} for op in loop.walk())
    uses: dict[Value, list[tuple[Op, int]]] = {}
    for op in loop.walk():
        for number, value in enumerate(op.operands):
            uses.setdefault(value, []).append((op, number))
    per_round = {loop.regions[0].args[0]}
    for op in body:
        is_scalar = (
            op.definition.is_pure and not op.regions and len(op.results) == 1 and not op.result.type.is_slice
        )
        is_id = not op.operands and op.definition.format not in ("const", "len")
        if is_scalar and not is_id and all(v in per_round or v not in within for v in op.operands):
            per_round.add(op.result)
    factors, products = [], units.dots | units.tiled
    for op in body if not is_opaque else ():
        if (
            op.definition.format != "slice_load"
            or len(op.result.type.extents) != 2
            or op.attrs["buffer"] in written_buffers
        ):
            continue
        if not all(v in per_round or v not in within for v in op.operands):
            continue
        uses_of_load = uses.get(op.result, [])
        transposed = [
            user.result
            for user, _ in uses_of_load
            if user.name == "slice_transpose" and user.result in units.transposes
        ]
        uses_of_load = [use for use in uses_of_load if not use[0].results or use[0].result not in transposed]
        uses_of_load += [use for value in transposed for use in uses.get(value, [])]
        if uses_of_load and all(
            user in products and side < 2 and user in body for user, side in uses_of_load
        ):
            factors.append((op, *uses_of_load[0]))
    return factors
