"""Atomics of a loop on one element: the loop carries what they combine to, and one atomic behind it is left.

    for %k = %l to %n step 256 {               %t = for %k = %l to %n step 256 iter(%s = neutral) {
      if %c {                                    %r = if %c {
        atomic_add @x[0], %v                       %u = add %s, %v
      }                                  -->       yield %u
    }                                            } else {
                                                   yield %s
                                                 }
                                                 yield %r
                                               }
                                               if %t is not neutral { atomic_add @x[0], %t }

For atomics that may be regrouped (see analysis/regrouping.py), whose old values nobody takes, on an element that is surely
there; in loops that do nothing else with its buffer, and in which nobody waits, stops or prints.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from ..analysis.effects import effects_of
from ..analysis.regrouping import regrouped_atomics
from ..fusion.halo_recompute import OpEmitter
from ..fusion.remark_sink import RemarkSink
from ..ir import arith
from ..ir.ops import OPS
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import conditional, constant, constant_value, splittable
from ..ir.types import DataType
from ..records import dataclass
from ..rewriting.walker import Walker

__all__ = ["carry_atomics"]


@dataclass(frozen=True)
class _Element:
    """Element that atomics of one name combine into."""

    name: str
    buffer: str
    indices: tuple[int, ...]

    @property
    def combine(self) -> str:
        return self.name.removeprefix("atomic_")


def carry_atomics(program: Program, sink: RemarkSink) -> int:
    """Rewrite the loops of a program, in place; how many changed."""
    carrier = _Carrier(program, sink)
    if carrier.atomics:
        carrier.walk_block(program.body)
    return carrier.changes


class _Carrier(Walker):
    def __init__(self, program: Program, sink: RemarkSink) -> None:
        super().__init__()
        self.program, self.sink, self.atomics = program, sink, regrouped_atomics(program)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        super().visit_structured(op, out)
        elements = self.elements(op) if op.name == "for" else {}
        if not elements:
            return
        out.pop()
        self.changes += 1
        for element in dict.fromkeys(elements.values()):
            self.sink.remark(
                "applied", f"{element.name} of @{element.buffer} in this loop is done behind it", op.loc
            )
        out += _carried(op, elements)
        self.atomics |= {each for made in out for each in made.walk() if each.name.startswith("atomic")}

    def elements(self, loop: Op) -> Mapping[Op, _Element]:
        """The atomics of a loop that it may carry."""
        found: dict[Op, _Element] = {}
        names: dict[str, set[str]] = {}
        for op in loop.walk():
            effects = effects_of(op)
            if effects.orders or effects.waits or effects.prints or (effects.stops and not _holds(op)):
                return {}
            if "buffer" in op.attrs and op.name != "len":
                is_atomic = op in self.atomics
                names.setdefault(op.attrs["buffer"], set()).add(op.name if is_atomic else "")
        for op in _outside_of_loops(loop.regions[0]):
            if op in self.atomics and len(names[op.attrs["buffer"]]) == 1:
                element = self.element(op)
                if element is not None:
                    found[op] = element
        return found

    def element(self, atomic: Op) -> _Element | None:
        """The element of an atomic, if its place is constant and in its buffer."""
        indices = [constant_value(index) for index in atomic.indices]
        shape = self.program.buffers[atomic.attrs["buffer"]].shape
        for index, extent in zip(indices, shape, strict=True):
            if index is None or extent is None or not 0 <= index < extent:
                return None
        return _Element(atomic.name, atomic.attrs["buffer"], tuple(indices))


def _holds(op: Op) -> bool:
    """Whether this is a check of bounds that never ends in a fault."""
    index, length = op.operands if op.name == "check_bounds" else (None, None)
    while index is not None and isinstance(index.owner, Op) and index.owner.name == "cast":
        (index,) = index.owner.operands  # to the wider type of the length
    known, most = (None if value is None else constant_value(value) for value in (index, length))
    return known is not None and most is not None and 0 <= known < most


def _outside_of_loops(block: Block) -> Iterator[Op]:
    """The ops of a block, and of the branches in it."""
    for op in block.ops:
        yield op
        if op.name == "if":
            for region in op.regions:
                yield from _outside_of_loops(region)


def _carried(loop: Op, elements: Mapping[Op, _Element]) -> list[Op]:
    """The loop, and what is left to be done behind it."""
    like = {element: atomic for atomic, element in elements.items()}
    starts = [
        constant(arith.neutral(element.combine, atomic.result.type), atomic.result.type, "neutral", atomic)
        for element, atomic in like.items()
    ]
    (body,) = loop.regions
    sums = tuple([Value("sum", start.result.type) for start in starts])
    running = dict(zip(like, sums, strict=True))
    ops, ends = splittable(body)
    made = _combined(ops, elements, running)
    made.append(Op(OPS["yield"], (*ends, *running.values()), loc=loop.loc))
    totals = tuple([Value("total", start.result.type) for start in starts])
    operands = (*loop.operands, *(start.result for start in starts))
    block = Block((*body.args, *sums), made)
    new = Op(OPS["for"], operands, (*loop.results, *totals), loop.attrs, (block,), loop.loc)
    out = [*starts, new]
    for (element, atomic), start, total in zip(like.items(), starts, totals, strict=True):
        emit = OpEmitter(out, atomic.loc)
        bits = DataType.of(f"u{total.type.bits}")
        neutral, combined = (emit.op("bitcast", "bits", value, dtype=bits) for value in (start.result, total))
        changed = emit.op("ne", "changed", combined, neutral, dtype=DataType.BOOL)
        places = [
            constant(place, index.type, index.name, atomic)
            for place, index in zip(element.indices, atomic.indices, strict=True)
        ]
        result = Value(atomic.result.name, atomic.result.type)
        operands = (*(place.result for place in places), total)
        once = Op(atomic.definition, operands, (result,), atomic.attrs, (), atomic.loc)
        out.append(conditional(changed, Block((), [*places, once]), (), Block(), (), atomic))
    return out


def _combined(ops: Sequence[Op], elements: Mapping[Op, _Element], running: dict[_Element, Value]) -> list[Op]:
    """The ops, of which atomics combine into what is `running`, in place."""
    out: list[Op] = []
    for op in ops:
        if op in elements:
            element = elements[op]
            total = Value("sum", op.result.type)
            out.append(Op(OPS[element.combine], (running[element], op.operands[-1]), (total,), loc=op.loc))
            running[element] = total
            continue
        inside = (
            dict.fromkeys(elements[each] for each in op.walk() if each in elements) if op.name == "if" else {}
        )
        if inside:
            regions: list[Block] = []
            for region in (*op.regions, Block())[:2]:
                mine = dict(running)
                inner, ends = splittable(region)
                made = _combined(inner, elements, mine)
                made.append(Op(OPS["yield"], (*ends, *(mine[each] for each in inside)), loc=op.loc))
                regions.append(Block((), made))
            results = tuple([Value("sum", running[each].type) for each in inside])
            running.update(zip(inside, results, strict=True))
            op = Op(op.definition, op.operands, (*op.results, *results), op.attrs, tuple(regions), op.loc)
        out.append(op)
    return out
