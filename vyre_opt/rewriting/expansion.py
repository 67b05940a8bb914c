"""Ops of other packages become what they mean (see plugin_ops.py): the same driver, with a pattern for each such op."""

from __future__ import annotations

from collections.abc import Callable

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.ops import FASTMATH, OpDef
from ..ir.plugin_ops import has_plugin_ops, registered_ops
from ..ir.program import Func, Module, Op, Program, Value
from .driver import apply_patterns
from .pattern import Pattern, Replacement
from .rewriter import PERMISSIONS, Rewriter

__all__ = ["expand_ops"]


def expand_ops(scope: Module | Program | Func, debug: Callable[..., None] | None = None) -> int:
    """Replace every op of another package, in place, until none is left; returns how many.  `debug`: as `apply_patterns`.

    Raises DiagnosticError at an op whose expansion fails, or that expands into itself.
    """
    count = 0
    while has_plugin_ops(scope):  # again if an expansion has met another package's ops for the first time
        count += apply_patterns(scope, [_pattern(row) for row in registered_ops()], debug=debug)
    return count


def _pattern(row: OpDef) -> Pattern:
    def rewrite(op: Op, rewriter: Rewriter) -> Replacement:
        assert row.expansion is not None
        flags = op.attrs.get("fastmath", ())
        rewriter.fastmath = tuple(flag for flag in FASTMATH if flag in flags and flag in PERMISSIONS)
        try:
            value = row.expansion(rewriter, *op.operands)
        except DiagnosticError:
            raise
        except Exception as error:
            raise _failure(row, op, f"{type(error).__name__}: {error}") from error
        finally:
            rewriter.fastmath = ()
        if not isinstance(value, Value):
            raise _failure(row, op, f"it returns {value!r}, and no value")
        return value

    return Pattern(f"expansion of {row.name}", (row.name,), rewrite)


def _failure(row: OpDef, op: Op, reason: str) -> DiagnosticError:
    module = getattr(row.expansion, "__module__", "?")
    message = f"{row.name}: its expansion in {module} fails: {reason}"
    return DiagnosticError([Diagnostic("error", message, op.loc)])
