"""Atomics of a loop on one element: the loop carries a private accumulator, and one atomic after it remains.

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

For atomics that may be regrouped (see analysis/regrouping.py), with unused results, on an element that surely exists; in
loops that do nothing else with its buffer, and in which nothing waits, stops or prints.
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
    """Element of a buffer, and the kind of atomic that combines values into it."""

    name: str
    buffer: str
    indices: tuple[int, ...]

    @property
    def combine(self) -> str:
        return self.name.removeprefix("atomic_")


def carry_atomics(program: Program, sink: RemarkSink) -> int:
    """Rewrite the loops of a program, in place; return how many changed."""
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
        out += _carry(op, elements)
        self.atomics |= {
            inner for new_op in out for inner in new_op.walk() if inner.name.startswith("atomic")
        }

    def elements(self, loop: Op) -> Mapping[Op, _Element]:
        """The atomics of a loop that it may carry."""
        elements: dict[Op, _Element] = {}
        names: dict[str, set[str]] = {}
        for op in loop.walk():
            effects = effects_of(op)
            if effects.orders or effects.waits or effects.prints or (effects.stops and not _never_faults(op)):
                return {}
            if "buffer" in op.attrs and op.name != "len":
                is_atomic = op in self.atomics
                names.setdefault(op.attrs["buffer"], set()).add(op.name if is_atomic else "")
        for op in _outside_of_loops(loop.regions[0]):
            if op in self.atomics and len(names[op.attrs["buffer"]]) == 1:
                element = self.element(op)
                if element is not None:
                    elements[op] = element
        return elements

    def element(self, atomic: Op) -> _Element | None:
        """The element of an atomic, if its indices are constants within its buffer."""
        indices = [constant_value(index) for index in atomic.indices]
        shape = self.program.buffers[atomic.attrs["buffer"]].shape
        for index, extent in zip(indices, shape, strict=True):
            if index is None or extent is None or not 0 <= index < extent:
                return None
        return _Element(atomic.name, atomic.attrs["buffer"], tuple(indices))


def _never_faults(op: Op) -> bool:
    """Whether this is a check of bounds on constants that hold."""
    index, length = op.operands if op.name == "check_bounds" else (None, None)
    while index is not None and isinstance(index.owner, Op) and index.owner.name == "cast":
        (index,) = index.owner.operands  # to the wider type of the length
    index_value, length_value = (
        None if value is None else constant_value(value) for value in (index, length)
    )
    return index_value is not None and length_value is not None and 0 <= index_value < length_value


def _outside_of_loops(block: Block) -> Iterator[Op]:
    """Ops of a block and of nested branches, but not of nested loops."""
    for op in block.ops:
        yield op
        if op.name == "if":
            for region in op.regions:
                yield from _outside_of_loops(region)


def _carry(loop: Op, elements: Mapping[Op, _Element]) -> list[Op]:
    """The loop with accumulators, and the atomics after it."""
    atomic_of = {element: atomic for atomic, element in elements.items()}
    starts = [
        constant(arith.neutral(element.combine, atomic.result.type), atomic.result.type, "neutral", atomic)
        for element, atomic in atomic_of.items()
    ]
    (body,) = loop.regions
    sums = tuple([Value("sum", start.result.type) for start in starts])
    accumulators = dict(zip(atomic_of, sums, strict=True))
    ops, ends = splittable(body)
    body_ops = _combine(ops, elements, accumulators)
    body_ops.append(Op(OPS["yield"], (*ends, *accumulators.values()), loc=loop.loc))
    totals = tuple([Value("total", start.result.type) for start in starts])
    operands = (*loop.operands, *(start.result for start in starts))
    block = Block((*body.args, *sums), body_ops)
    new_loop = Op(OPS["for"], operands, (*loop.results, *totals), loop.attrs, (block,), loop.loc)
    out = [*starts, new_loop]
    for (element, atomic), start, total in zip(atomic_of.items(), starts, totals, strict=True):
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
        atomic_op = Op(atomic.definition, operands, (result,), atomic.attrs, (), atomic.loc)
        out.append(conditional(changed, Block((), [*places, atomic_op]), (), Block(), (), atomic))
    return out


def _combine(
    ops: Sequence[Op], elements: Mapping[Op, _Element], accumulators: dict[_Element, Value]
) -> list[Op]:
    """The ops, with atomics replaced by ops that combine into `accumulators`, which is updated."""
    out: list[Op] = []
    for op in ops:
        if op in elements:
            element = elements[op]
            total = Value("sum", op.result.type)
            out.append(
                Op(OPS[element.combine], (accumulators[element], op.operands[-1]), (total,), loc=op.loc)
            )
            accumulators[element] = total
            continue
        inside = (
            dict.fromkeys(elements[each] for each in op.walk() if each in elements) if op.name == "if" else {}
        )
        if inside:
            regions: list[Block] = []
            for region in (*op.regions, Block())[:2]:
                branch_accumulators = dict(accumulators)
                inner, ends = splittable(region)
                region_ops = _combine(inner, elements, branch_accumulators)
                region_ops.append(
                    Op(OPS["yield"], (*ends, *(branch_accumulators[each] for each in inside)), loc=op.loc)
                )
                regions.append(Block((), region_ops))
            results = tuple([Value("sum", accumulators[each].type) for each in inside])
            accumulators.update(zip(inside, results, strict=True))
            op = Op(op.definition, op.operands, (*op.results, *results), op.attrs, tuple(regions), op.loc)
        out.append(op)
    return out
