"""A pattern: the ops that it may rewrite, and the function that does.

    @pattern_on("neg")
    def double_negation(op, rewriter):
        "-(-x) = x."
        inner = op.operands[0].owner
        return inner.operands[0] if isinstance(inner, Op) and inner.name == "neg" else None

Most patterns are shorter as terms: `pattern(op.neg(op.neg("x")), "x")`, see terms.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING

from ..ir.ops import OPS
from ..ir.plugin_ops import find_op
from ..ir.program import Op, Value
from ..ir.suggestions import suggest
from ..records import dataclass

if TYPE_CHECKING:
    from .rewriter import Rewriter

__all__ = ["Pattern", "PatternSet", "Replacement", "Rewrite", "check_root", "pattern_on"]

Replacement = Value | Sequence[Value] | bool | None
"""Answer of a pattern:

    a value          equal to the op's result; the op goes
    several values   one for each result of the op; () for an op without results, which goes
    True             the op was changed in place
    None             the pattern does not apply, and has changed and built nothing
"""

Rewrite = Callable[[Op, "Rewriter"], Replacement]


@dataclass(frozen=True, slots=True, eq=False)
class Pattern:
    """A rewrite rule.

    `roots`: the names of the ops that `rewrite` is tried on, which have no blocks.  `rewrite` looks at the op and at
    what its operands come from, builds new ops by the rewriter, and answers with a `Replacement`.
    `counts_uses`: it calls `Rewriter.has_one_use`.
    """

    name: str
    roots: tuple[str, ...]
    rewrite: Rewrite
    doc: str = ""
    counts_uses: bool = False


def pattern_on(*roots: str, counts_uses: bool = False) -> Callable[[Rewrite], Pattern]:
    """Decorator: a function of an op and a `Rewriter` as a pattern on ops of these names.

    Raises ValueError for a name that is no op's.
    """
    for root in roots:
        check_root(root)

    def of(rewrite: Rewrite) -> Pattern:
        return Pattern(rewrite.__name__, roots, rewrite, rewrite.__doc__ or "", counts_uses)

    return of


def check_root(name: str) -> None:
    """Raises ValueError for an op that does not exist, or that has blocks."""
    row = find_op(name)
    if row is None:
        hint = suggest(name, OPS)
        raise ValueError(f"no op {name}" + (f"; {hint}" if hint else ""))
    if "control" in row.effects:
        raise ValueError(f"a pattern rewrites no {name}: only ops without blocks")


class PatternSet:
    """Patterns by the ops that they are tried on, each op's in the order given here."""

    def __init__(self, patterns: Iterable[Pattern]) -> None:
        self.by_root: dict[str, list[tuple[Rewrite, Pattern]]] = {}
        self.counts_uses = False
        for pattern in patterns:
            if not isinstance(pattern, Pattern):
                raise TypeError(f"patterns are made by pattern and pattern_on, and not {pattern!r}")
            self.counts_uses |= pattern.counts_uses
            for root in pattern.roots:
                self.by_root.setdefault(root, []).append((pattern.rewrite, pattern))
