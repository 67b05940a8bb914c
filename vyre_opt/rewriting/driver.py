"""The driver that applies patterns wherever they match, until none does.

The worklist is the body itself, in order: an op's operands are final before the op is reached, so what a rewrite
changes lies ahead, and nothing final is visited again.  What a pattern builds is put in front of the worklist, and
so is an op that was changed in place.  The work is that of the ops and of the rewrites, and there are no use lists.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.folding import fold
from ..ir.formats import type_list
from ..ir.program import Func, Module, Op, Program, Unnamed, Value
from ..ir.rewrite import become, substitute
from .pattern import Pattern, PatternSet, Replacement
from .rewriter import Rewriter
from .uses import UseCounts
from .walker import Walker

__all__ = ["MAX_DEPTH", "MAX_SWEEPS", "GreedyDriver", "apply_patterns"]

MAX_DEPTH = 256
"""Most rewrites of an op, in place or into ops that are rewritten themselves."""

MAX_SWEEPS = 10
"""Most walks over a body for patterns that ask for uses, which a later rewrite may take away."""

_SHOWN = 8
"""Number of the endless rewrites that a message names."""

_Work = tuple[Op, Sequence[Value] | None, int]
"""An op, the values that replace it, None where it has to be visited, and how many rewrites it comes from.  Of a
worklist the next one is the last."""


def apply_patterns(
    scope: Module | Program | Func,
    patterns: Iterable[Pattern] | PatternSet,
    *,
    fold: bool = False,
    debug: Callable[..., None] | None = None,
) -> int:
    """Apply patterns everywhere in a module, a program or a function, until none does; returns how often one did.

    Of several that match an op the first one is applied.  `fold`: replace ops on constants by their results too.
    `debug`: takes a line about each rewrite: `ctx.debug` of a pass, whose lines --debug-only shows.
    Raises DiagnosticError at an op that patterns rewrite without end.
    """
    chosen = patterns if isinstance(patterns, PatternSet) else PatternSet(patterns)
    rewrites = 0
    for item in scope.order if isinstance(scope, Module) else [scope]:
        if isinstance(item, Program | Func):
            module = scope if isinstance(scope, Module) else None
            for _ in range(MAX_SWEEPS):
                driver = GreedyDriver(item, chosen, fold=fold, module=module, debug=debug)
                driver.walk_block(item.body)
                rewrites += driver.changes
                if driver.rewriter.uses is None or not driver.rewriter.uses.is_stale:
                    break
    return rewrites


class GreedyDriver(Walker):
    """Applies patterns in the body of a program or function.

    Ops with blocks are no roots of patterns; a subclass rewrites them in `visit_structured`.
    """

    def __init__(
        self,
        item: Program | Func,
        patterns: PatternSet,
        *,
        fold: bool = False,
        module: Module | None = None,
        debug: Callable[..., None] | None = None,
    ) -> None:
        """`debug`: takes a line about each rewrite, as `PassContext.debug` does."""
        super().__init__()
        self.item = item
        self.debug = debug
        self.by_root = patterns.by_root
        self.folds = fold
        self.rewriter = Rewriter(item, module)
        if patterns.counts_uses:
            self.rewriter.uses = UseCounts(item.body)
        self.applied = "fold"
        """The name of the pattern that was applied last."""
        self.trail: list[str] = []
        """Rewrites before it, once a single op has been rewritten nearly MAX_DEPTH times."""
        self.depth = 0
        """Depth of the rewrites that the op being visited comes from."""

    def visit(self, op: Op, out: list[Op]) -> None:
        before = op.operands
        replacement = self.rewrite(op)
        if replacement is None:
            out.append(op)
        else:
            self.finish_op(op, before, replacement, out)

    def rewrite(self, op: Op) -> Replacement:
        """Fold an op, or apply the first pattern that matches; None if none does."""
        definition = op.definition
        if self.folds and definition.is_pure and definition.format != "const":
            constant = fold(op, self.item)
            if constant is not None:
                self.changes += 1
                if self.debug is not None:
                    self.debug("folds: {}", op, loc=op.loc)
                return become(op, "const", (), {"value": constant})
        rewrites = self.by_root.get(definition.name)
        if rewrites is None:
            return None
        rewriter = self.rewriter
        rewriter.loc = op.loc
        for rewrite, pattern in rewrites:
            replacement = rewrite(op, rewriter)
            if replacement is not None and replacement is not False:
                self.applied = pattern.name
                self.changes += 1
                if self.debug is not None:
                    becomes = replacement if isinstance(replacement, Value) else op
                    name = pattern.name.lstrip("_")
                    self.debug("{} matches this {}: now {}", name, definition.name, becomes, loc=op.loc)
                return replacement
        if rewriter.built:  # by patterns that gave up
            rewriter.built.clear()
        return None

    def finish_op(self, op: Op, before: Sequence[Value], replacement: Replacement, out: list[Op]) -> None:
        """Append to `out` what an op becomes that has just been rewritten, once no pattern applies to any of it.

        `before`: its operands until then.
        """
        start = depth = self.depth
        while self.rewriter.uses is None:
            if self._is_simple(op, replacement, out):
                return
            if replacement is not True or self.rewriter.built or depth >= MAX_DEPTH - _SHOWN:
                break
            depth += 1
            replacement = self.rewrite(op)
        work: list[_Work] = []
        self._push(work, op, before, replacement, depth)
        while work:
            op, values, self.depth = work.pop()
            if values is not None:  # and the ops of these values are final
                self.replace(op.results, values)
                continue
            substitute(op, self.replaced)
            if op.regions:
                self.visit_structured(op, out)
                continue
            before = op.operands
            again = self.rewrite(op)
            if again is None:
                out.append(op)
            else:
                self._push(work, op, before, again, self.depth)
        self.depth = start

    def _is_simple(self, op: Op, replacement: Replacement, out: list[Op]) -> bool:
        """Whether a rewrite is done without a worklist.  Constants built for an op in place go to `out` at once."""
        built = self.rewriter.built
        if replacement is None:
            out.append(op)
            return True
        if replacement is True:
            if built and all(new.definition.format == "const" for new in built):
                out += built
                built.clear()
            return False
        if built or not isinstance(replacement, Value):
            return False
        self._check(op, (replacement,))
        self.replaced[op.results[0]] = replacement
        return True

    def _push(
        self,
        work: list[_Work],
        op: Op,
        before: Sequence[Value],
        replacement: Replacement,
        depth: int,
    ) -> None:
        """Put a rewritten op onto the worklist, and what was built for it in front."""
        if depth >= MAX_DEPTH - _SHOWN:
            self.trail.append(self.applied)
            if depth >= MAX_DEPTH:
                raise self._endless(op)
        built, uses = [*self.rewriter.built], self.rewriter.uses
        self.rewriter.built.clear()
        if uses is not None:
            uses.built(built)
        if isinstance(replacement, bool):
            work.append((op, None, depth + 1))
            if uses is not None:
                uses.changed(op, before)
        else:
            values = (replacement,) if isinstance(replacement, Value) else (*(replacement or ()),)
            self._check(op, values)
            if built and len(values) == 1 and values[0].owner is built[-1]:
                # the replacement keeps the name, since it is the same value; a constant keeps its own name
                is_constant = built[-1].definition.format == "const"
                values[0].name = Unnamed(op.result.name) if is_constant else op.result.name
            work.append((op, values, depth + 1))
            if uses is not None:
                uses.replaced(op, before, values)
        work.extend((new, None, depth + 1) for new in reversed(built))

    def _check(self, op: Op, values: Sequence[Value]) -> None:
        """Raises DiagnosticError if the values cannot stand for the op's results."""
        if len(values) == len(op.results):
            for value, result in zip(values, op.results, strict=True):
                if value.type is not result.type:
                    break
            else:
                return
        message = f"pattern {self.applied} replaces ({type_list(op.results)}), the results of {op.name}, "
        message += f"by ({type_list(tuple(values))})"
        raise DiagnosticError([Diagnostic("error", message, op.loc)])

    def _endless(self, op: Op) -> DiagnosticError:
        names = ", ".join(dict.fromkeys([*self.trail, self.applied]))
        message = f"patterns still apply after {MAX_DEPTH} rewrites of one op; the last were: {names}"
        help = "a pattern has to make an op simpler, and no other may undo that"
        return DiagnosticError([Diagnostic("error", message, op.loc, help=help)])
