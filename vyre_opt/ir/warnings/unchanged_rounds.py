"""Loops all of whose rounds add the same, since nothing in them goes by the counter.

    for %k = 0 to %n step 1 iter(%s = %zero : f32) {
      %v = load @x[%i] : f32            each round loads this element: x[%k] was meant
      %t = add %s, %v : f32
      yield %t
    }

Told are loops that only add up what they load.  One that computes with its own result, `v = (v + x[i] / v) / 2`, comes nearer with each
round; and a counter whose name begins with an underscore is meant to be unused.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence

from ..diagnostics import Diagnostic, source_text, spelling_at
from ..loops import inits, trip_count
from ..program import Block, Op, Program, Value
from ..rewrite import constant_value
from .racing_stores import identity

__all__ = ["adds_the_same", "unchanged_rounds"]

_MOST_TERMS = 2000
"""Ops of a loop that are looked at."""
_LOADS = ("load", "slice_load", "slice_gather")
_SUMMANDS = {
    "add": (0, 1), "min": (0, 1), "max": (0, 1), "or": (0, 1), "and": (0, 1), "sub": (0,), "fma": (2,), "slice_dot": (2,),
}  # fmt: skip
"""Ops that add to a value, by which of their operands it may be."""


def unchanged_rounds(program: Program) -> Iterator[Diagnostic]:
    """The warnings of a program, the first of nested loops."""
    told = set[Op]()
    for loop in program.walk():
        load = _repeated_load(loop) if loop.name in ("for", "while") and loop not in told else None
        if load is not None:
            told.update(loop.regions[-1].walk())
            yield _repeated(loop, load)


def _repeated_load(loop: Op) -> Op | None:
    """The first load of a loop of which all rounds add the same; None for another loop."""
    if not any(op.name in _LOADS for op in loop.walk()) or not adds_the_same(loop):
        return None
    stored = {op.attrs["buffer"] for op in loop.walk() if op.name == "store"}
    loads = (op for op in loop.walk() if op.name in _LOADS)
    return next((load for load in loads if load.attrs["buffer"] not in stored), None)


def adds_the_same(loop: Op) -> bool:
    """Whether all rounds of a loop with several add the same to what it carries, or to elements that it stores."""
    body, trips = loop.regions[-1], trip_count(loop) if loop.name == "for" else None
    ops = [*body.walk()]
    loads, stores = ([op for op in ops if op.name in names] for names in (_LOADS, ("store",)))
    has_effects = any(op.definition.effects - {"read", "control"} and op.name != "store" for op in ops)
    if len(ops) > _MOST_TERMS or has_effects or (trips is not None and trips < 2):
        return False
    pairs = _carried(loop, ops)
    if pairs is None:
        return False
    carried = [arg for arg, _ in pairs]
    places = {_place(store) for store in stores}
    varying = _Varying({*carried}, {store.attrs["buffer"] for store in stores})
    varying.block(body)
    of_stored = [load for load in loads if load.attrs["buffer"] in varying.stored]
    if varying.has_choice or any(index in varying.values for op in (*loads, *stores) for index in op.indices):
        return False
    if len(places) < len(stores) or any(_place(load) not in places for load in of_stored):
        return False
    steps = [(value, {arg}) for arg, value in pairs]
    for store in stores:
        elements = {load.result for load in of_stored if _place(load) == _place(store)}
        steps.append((store.operands[0], elements))
    is_sum = all(_adds_up(value, begun, varying.values) for value, begun in steps)
    return is_sum and not all(value in begun for value, begun in steps)


def _carried(loop: Op, ops: Sequence[Op]) -> list[tuple[Value, Value]] | None:
    """Values that a loop carries, except its counters, each with the one that a round gives the next; None for a loop that computes with counters."""
    body, end = loop.regions[-1], loop.regions[-1].terminator
    ended = end.operands if end is not None else ()
    if loop.name == "for":
        counter, *carried = body.args
        is_counted = any(counter in op.operands for op in ops) or counter.name.startswith("_")
        return None if is_counted else [*zip(carried, ended, strict=True)]
    condition = [*loop.regions[0].walk()]
    asked = {operand for op in condition for operand in op.operands}
    pairs: list[tuple[Value, Value]] = []
    for arg, asked_arg, value in zip(body.args, loop.regions[0].args, ended, strict=True):
        if asked_arg not in asked:
            pairs.append((arg, value))
            continue
        step = value.owner
        if not isinstance(step, Op) or step.name not in ("add", "sub") or step.operands[0] is not arg:
            return None
        is_known = constant_value(step.operands[1]) is not None
        if not is_known or any(arg in op.operands and op is not step for op in ops):
            return None
    is_decided = len(pairs) < len(body.args) and not any(
        op.definition.effects - {"control"} for op in condition
    )
    return pairs if is_decided else None


def _place(op: Op) -> tuple[object, ...]:
    return (op.attrs["buffer"], *map(identity, op.indices))


class _Varying:
    """`values`: those of a loop that may differ between its rounds, with what it carries and loads of what it has `stored`; `has_choice`:
    whether one of them decides what a round does."""

    def __init__(self, values: set[Value], stored: set[str]) -> None:
        self.values, self.stored = values, stored
        self.has_choice = False

    def block(self, block: Block) -> None:
        for op in block.ops:
            is_varying = any(operand in self.values for operand in op.operands)
            is_varying |= op.attrs.get("buffer") in self.stored
            if op.name == "while":
                self.has_choice = True
            elif op.regions:
                self.has_choice |= any(
                    operand in self.values for operand in op.operands if operand not in _given(op)
                )
                for region in op.regions:
                    self.region(op, region)
                ends = [region.terminator for region in op.regions]
                for number, result in enumerate(op.results):
                    if any(end is not None and end.operands[number] in self.values for end in ends):
                        self.values.add(result)
            elif is_varying:
                self.values.update(op.results)

    def region(self, op: Op, region: Block) -> None:
        carried = region.args[1:] if op.name == "for" else ()
        self.values.update(arg for arg, init in zip(carried, _given(op), strict=True) if init in self.values)
        self.block(region)
        end = region.terminator
        after = [
            arg
            for arg, value in zip(carried, end.operands if end else (), strict=False)
            if value in self.values and arg not in self.values
        ]
        if after:
            self.values.update(after)
            self.block(region)


def _given(op: Op) -> tuple[Value, ...]:
    """Values that an op passes to its blocks."""
    return inits(op) if op.name == "for" else ()


def _adds_up(value: Value, begun: Collection[Value], varying: Collection[Value]) -> bool:
    """Whether a value is a sum that was begun, with more added to it which is the same in each round, or that sum itself."""
    if value in begun:
        return True
    op = value.owner
    if value not in varying or not isinstance(op, Op):
        return False
    if op.name in _SUMMANDS:
        sums = [number for number, operand in enumerate(op.operands) if operand in varying]
        is_one = len(sums) == 1 and sums[0] in _SUMMANDS[op.name]
        return is_one and _adds_up(op.operands[sums[0]], begun, varying)
    if op.name == "select":
        condition, *ways = op.operands
        return condition not in varying and all(_adds_up(way, begun, varying) for way in ways)
    if op.name == "if":
        number = op.results.index(value)
        ends = [region.terminator for region in op.regions]
        return all(end is not None and _adds_up(end.operands[number], begun, varying) for end in ends)
    if op.name == "for":
        number = op.results.index(value)
        arg, end = op.regions[0].args[1 + number], op.regions[0].terminator
        is_begun = _adds_up(inits(op)[number], begun, varying)
        return is_begun and end is not None and _adds_up(end.operands[number], {arg}, varying)
    return False


def _repeated(loop: Op, load: Op) -> Diagnostic:
    spelling, args = spelling_at(load.loc), [*loop.regions[0].args]
    if loop.name == "while":
        asked = {operand for op in loop.regions[0].walk() for operand in op.operands}
        args = [begin for begin, arg in zip(inits(loop), args, strict=True) if arg in asked]
    counter = args[0].name
    element, shown, unused = spelling.buffer(load.attrs["buffer"]), f"%{counter}", f"%_{counter}"
    if spelling.name == "PYTHON":
        element, shown, unused = source_text(load.loc), counter, "_"
    message = (
        f"each round of this loop reads {element} again and adds the same: nothing in it goes by {shown}"
    )
    help = f"take {shown} for an index; where the same is to be added several times, name it {unused}"
    if loop.name == "while":
        help = f"take {shown} for an index, or write a for, whose counter may be named {unused} where the same is to be added several times"
    return Diagnostic("warning", message, load.loc, help=help).note("the loop is here", loop.loc)
