"""Reductions and scans that a program writes out, by shuffles or through workgroup memory, become the ops for them.

    %a = subgroup_shuffle<xor> %x, 16
    %b = add %x, %a
    ...                                        ->    %j = subgroup_reduce<add> %x : f32
    %i = subgroup_shuffle<xor> %h, 1
    %j = add %h, %i

What is recognised, and by which proof, is in analysis/reduction_patterns.py: a value becomes a reduction only if it has its
bits in every lane, so sums of floats have to be in the order that the language fixes.  What the shuffles, stores and
barriers leave unused is removed by `dce` and `barrier_elim`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.reduction_patterns import Match, Refused, find_reductions
from ..ir.ops import OPS
from ..ir.program import Module, Op, Program, Value
from ..ir.rewrite import constant
from ..ir.uniformity import Uniformity
from ..rewriting.walker import Walker
from .manager import PassContext
from .registry import Pass, register


@register
class Reductions(Pass):
    name = "reductions"
    summary = "Replace reductions and scans that are written out by the ops for them."
    per_item = True
    needs_core_ops = True

    def run(self, module: Module, ctx: PassContext) -> bool:
        changed = False
        for program in ctx.programs(module):
            if not _may_have_any(program):
                continue
            debug = ctx.debug if ctx.is_debugging else None
            found = find_reductions(program, ctx.analyses.get(Uniformity, program), debug)
            for each in found:
                _report(each, ctx)
            matches = [each for each in found if isinstance(each, Match)]
            if matches:
                _Replacement(program, matches).walk_block(program.body)
                _drop_loops(program, {each.op for each in matches if each.op.name == "while"})
                changed = True
        return changed


def _may_have_any(program: Program) -> bool:
    """Whether lanes exchange values other than by the ops of a workgroup."""
    names = {op.name for op in program.walk()}
    return "subgroup_shuffle" in names or (
        "barrier" in names and any(buffer.is_workgroup for buffer in program.buffers.values())
    )


def _report(each: Match | Refused, ctx: PassContext) -> None:
    if isinstance(each, Refused):
        message = f"%{each.result.name} is no reduction: {each.reason}"
        ctx.remark("refused", message, each.op.loc, reason=each.reason)
        ctx.count("refused")
        return
    op = f"{each.name}<{', '.join(filter(None, (each.mode, each.combine)))}>"
    more = "" if each.constant is None else f", and {each.combine} of that and a constant"
    message = f"%{each.result.name} is {op} of %{each.source.name}{more}"
    ctx.remark("applied", message, each.op.loc, op=each.name, combine=each.combine)
    ctx.count(f"{each.name} recognised")


def _drop_loops(program: Program, loops: set[Op]) -> None:
    """Remove loops without uses or effects, which `dce` would keep since it does not know that they end."""
    used = {operand for op in program.walk() for operand in op.operands}
    unused = {
        loop
        for loop in loops
        if used.isdisjoint(loop.results)
        and all(op.definition.effects <= {"subgroup", "control"} for op in loop.walk())
    }
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    for block in blocks:
        block.ops = [op for op in block.ops if op not in unused]


class _Replacement(Walker):
    def __init__(self, program: Program, matches: Sequence[Match]) -> None:
        super().__init__()
        self.after: dict[Op, list[Match]] = {}
        for match in matches:
            self.after.setdefault(match.op, []).append(match)
        self.regions: dict[Op, Op] = {}
        """The region that an op stands in."""
        for op in program.walk():
            if op.name == "region":
                self.regions.update(dict.fromkeys(op.regions[0].ops, op))
        self.around: list[Op] = []
        """The ops whose blocks the walk is in."""

    def visit(self, op: Op, out: list[Op]) -> None:
        out.append(op)
        self.add(op, out)

    def visit_structured(self, op: Op, out: list[Op]) -> None:
        self.around.append(op)
        super().visit_structured(op, out)
        self.around.pop()
        self.add(op, out)

    def add(self, op: Op, out: list[Op]) -> None:
        for match in self.after.get(op, ()):
            attrs = {"mode": match.mode} if match.mode else {}
            source = self.given_out(self.replaced.get(match.source, match.source))
            value = self.emit(match, out, match.name, (source,), {**attrs, "combine": match.combine})
            if match.constant is not None:
                also = constant(match.constant, value.type, "c", match.op)
                out.append(also)
                value = self.emit(match, out, match.combine, (value, also.result), {})
            self.replace((match.result,), (value,))
            self.changes += 1

    def emit(
        self, match: Match, out: list[Op], name: str, operands: tuple[Value, ...], attrs: dict[str, object]
    ) -> Value:
        result = Value(match.result.name, match.result.type)
        op = Op(OPS[name], operands, (result,), attrs, (), match.op.loc)
        out.append(op)
        if match.op in self.regions:
            self.regions[op] = self.regions[match.op]
        return result

    def given_out(self, value: Value) -> Value:
        """The value where the walk is: as a result of the regions around it that have ended."""
        owner = value.owner
        region = self.regions.get(owner) if isinstance(owner, Op) else None
        if region is None or region in self.around:
            return value
        (body,) = region.regions
        ops = list(body.ops)
        end = ops.pop() if body.terminator is not None else None
        given = end.operands if end is not None else ()
        body.ops = [*ops, Op(OPS["yield"], (*given, value), loc=region.loc)]
        result = Value(value.name, value.type)
        result.owner = region
        region.results = (*region.results, result)
        return self.given_out(result)
