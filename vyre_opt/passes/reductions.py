"""Reductions and scans that a program writes out, by shuffles or through workgroup memory, become the ops for them.

    %a = subgroup_shuffle<xor> %x, 16
    %b = add %x, %a
    ...                                        ->    %j = subgroup_reduce<add> %x : f32
    %i = subgroup_shuffle<xor> %h, 1
    %j = add %h, %i

The patterns and their proofs are in analysis/reduction_patterns.py: a value becomes a reduction only if both have the same
bits in every lane, so sums of floats must be in the order that the language fixes.  `dce` and `barrier_elim` remove the
unused shuffles, stores and barriers.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..analysis.reduction_patterns import Match, MatchFailure, find_reductions
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
            if not _may_have_reductions(program):
                continue
            debug = ctx.debug if ctx.is_debugging else None
            candidates = find_reductions(program, ctx.analyses.get(Uniformity, program), debug)
            for candidate in candidates:
                _report(candidate, ctx)
            matches = [candidate for candidate in candidates if isinstance(candidate, Match)]
            if matches:
                _Replacement(program, matches).walk_block(program.body)
                _drop_loops(program, {candidate.op for candidate in matches if candidate.op.name == "while"})
                changed = True
        return changed


def _may_have_reductions(program: Program) -> bool:
    """Whether lanes exchange values by shuffles or through workgroup memory."""
    names = {op.name for op in program.walk()}
    return "subgroup_shuffle" in names or (
        "barrier" in names and any(buffer.is_workgroup for buffer in program.buffers.values())
    )


def _report(candidate: Match | MatchFailure, ctx: PassContext) -> None:
    if isinstance(candidate, MatchFailure):
        message = f"%{candidate.result.name} is no reduction: {candidate.reason}"
        ctx.remark("refused", message, candidate.op.loc, reason=candidate.reason)
        ctx.count("refused")
        return
    op = f"{candidate.name}<{', '.join(filter(None, (candidate.mode, candidate.combine)))}>"
    suffix = "" if candidate.constant is None else f", and {candidate.combine} of that and a constant"
    message = f"%{candidate.result.name} is {op} of %{candidate.source.name}{suffix}"
    ctx.remark("applied", message, candidate.op.loc, op=candidate.name, combine=candidate.combine)
    ctx.count(f"{candidate.name} recognised")


def _drop_loops(program: Program, loops: set[Op]) -> None:
    """Remove loops without uses or effects; `dce` keeps a `while`, since it may not end, but these matched a reduction."""
    used_values = {operand for op in program.walk() for operand in op.operands}
    dead = {
        loop
        for loop in loops
        if used_values.isdisjoint(loop.results)
        and all(op.definition.effects <= {"subgroup", "control"} for op in loop.walk())
    }
    blocks = [program.body, *(block for op in program.walk() for block in op.regions)]
    for block in blocks:
        block.ops = [op for op in block.ops if op not in dead]


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
            source = self.yield_from_regions(self.replaced.get(match.source, match.source))
            value = self.emit(match, out, match.name, (source,), {**attrs, "combine": match.combine})
            if match.constant is not None:
                literal = constant(match.constant, value.type, "c", match.op)
                out.append(literal)
                value = self.emit(match, out, match.combine, (value, literal.result), {})
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

    def yield_from_regions(self, value: Value) -> Value:
        """Return `value` for use at the current point, as a result of each ended `region` around its op."""
        owner = value.owner
        region = self.regions.get(owner) if isinstance(owner, Op) else None
        if region is None or region in self.around:
            return value
        (body,) = region.regions
        ops = list(body.ops)
        end = ops.pop() if body.terminator is not None else None
        yielded = end.operands if end is not None else ()
        body.ops = [*ops, Op(OPS["yield"], (*yielded, value), loc=region.loc)]
        result = Value(value.name, value.type)
        result.owner = region
        region.results = (*region.results, result)
        return self.yield_from_regions(result)
