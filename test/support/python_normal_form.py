"""The normal form in which a program of the IR and its translation from Python are compared.

What it takes away has no meaning, and Python does not keep it:

    regions               Python has no named groups: a region is its body
    calls                 a kernel in Python inlines its functions
    params and constants  Python has arguments and literals: each stands right before each of its uses
    bounds of loops       that are constants are numbers of the loop, as a literal in `range(...)` is
    results of an if      that are one value of outside, or one constant, in both branches are that: a name that both
                          branches bind to it is no variable
    values without uses   are not computed; the translation sweeps them away
    an empty branch       is left out, by a `not` where there is an else, as in `if c: pass`
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from vyre_opt.ir import OPS, Block, DataType, Module, Op, Program, Value
from vyre_opt.ir.loops import bounds, with_bounds
from vyre_opt.ir.rewrite import constant_value, keep_results, splittable
from vyre_opt.passes import PassManager
from vyre_opt.rewriting.walker import Walker

__all__ = ["bring_to_normal_form"]


def bring_to_normal_form(module: Module, program: Program) -> None:
    """Change a program in place."""
    PassManager("inline", verify_each=False).run(module)
    _Flattener().walk_block(program.body)
    _place_operands(program.body)
    _Sweep(program.body).block(program.body)


class _Flattener(Walker):
    """Regions become their bodies, the ops of a param become the first, and ifs lose results that are no choice."""

    def __init__(self) -> None:
        super().__init__()
        self.params: dict[str, Value] = {}

    def visit(self, op: Op, out: list[Op]) -> None:
        if op.name == "param":
            first = self.params.setdefault(op.attrs["param"], op.result)
            if first is not op.result:
                self.replace(op.results, [first])
                return
        out.append(op)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        if op.name == "region":
            ops, values = splittable(op.regions[0])
            self.walk_ops(ops, out)
            self.replace(op.results, values)
            return
        super().visit_structured(op, out)
        if op.name == "if" and op.results:
            pairs = list(
                zip(*(block.terminator.operands for block in op.regions if block.terminator), strict=True)
            )
            is_choice = [
                a is not b and (_constant(a) is None or _constant(a) != _constant(b)) for a, b in pairs
            ]
            same = [(r, a) for r, (a, _), kept in zip(op.results, pairs, is_choice, strict=True) if not kept]
            self.replace([result for result, _ in same], [value for _, value in same])
            keep_results(op, is_choice)


def _constant(value: Value) -> object:
    """The constant that a value is, or is a splat of, which is how Python writes a constant vector; None for others."""
    owner = value.owner
    if isinstance(owner, Op) and owner.name == "splat":
        return constant_value(owner.operands[0])
    return constant_value(value)


def _is_literal(value: Value) -> bool:
    """Whether it is a param or a constant."""
    is_param = isinstance(value.owner, Op) and value.owner.name == "param"
    return is_param or _constant(value) is not None


def _place_operands(block: Block) -> None:
    """Put a copy of each literal in front of each use of it; the ops that they were stay without uses."""
    ops, block.ops = block.ops, []
    for op in ops:
        if op.name == "for":
            with_bounds(op, *(v if isinstance(v, int) else _number(v) for v in bounds(op)))
        for region in op.regions:
            _place_operands(region)
        if not _is_literal_op(op):
            op.operands = tuple([_copy(v, block) if _is_literal(v) else v for v in op.operands])
        block.ops.append(op)


def _is_literal_op(op: Op) -> bool:
    return len(op.results) == 1 and _is_literal(op.result)


def _number(value: Value) -> int | Value:
    """A bound: the number, if it is a constant."""
    number = constant_value(value)
    return number if isinstance(number, int) else value


def _copy(value: Value, block: Block) -> Value:
    owner = value.owner
    assert isinstance(owner, Op)
    if owner.name == "splat":
        attrs = {"value": constant_value(owner.operands[0])}
        block.ops.append(Op(OPS["const"], (), (Value(value.name, value.type),), attrs))
    else:
        block.ops.append(Op(owner.definition, (), (Value(value.name, value.type),), owner.attrs))
    return block.ops[-1].result


class _Sweep:
    """Drops values without uses, from the last op to the first, so that users go before what they use."""

    def __init__(self, body: Block) -> None:
        self.uses: Counter[Value] = Counter(v for op in body.walk() for v in op.operands)

    def block(self, block: Block) -> None:
        kept: list[Op] = []
        for op in reversed(block.ops):
            is_used = [self.uses[result] > 0 for result in op.results]
            if op.definition.is_pure and not any(is_used):
                self._drop(op.operands)
                continue
            if op.name == "if":
                self._drop_results(op, is_used)
            for region in reversed(op.regions):
                self.block(region)
            kept += reversed(self._if(op)) if op.name == "if" else [op]
        block.ops = kept[::-1]

    def _drop(self, operands: Iterable[Value]) -> None:
        self.uses.subtract(operands)

    def _drop_results(self, op: Op, is_used: list[bool]) -> None:
        for region in op.regions if op.results else ():
            end = region.terminator
            assert end is not None
            self._drop(v for v, kept in zip(end.operands, is_used, strict=True) if not kept)
        keep_results(op, is_used)

    def _if(self, op: Op) -> list[Op]:
        """An `if` without its empty branches."""
        if op.results:
            return [op]
        first, second = (*op.regions, Block())[:2]
        if first.ops:
            op.regions = (first, second) if second.ops else (first,)
            return [op]
        if not second.ops:
            self._drop(op.operands)
            return []
        negated = Op(OPS["not"], op.operands, (Value("not", DataType.BOOL),))
        op.operands, op.regions = negated.results, (second,)
        self.uses[negated.result] = 1
        return [negated, op]
