"""Expressions of a set, each read once: what `re` compiles, and what is known of its matches."""

from __future__ import annotations

import re
from dataclasses import field
from functools import cached_property
from typing import Any

from vyre_opt.ir.diagnostics import Diagnostic
from vyre_opt.records import dataclass

from .errors import PatternError
from .line_trees import compiled_tree, within_lines
from .pattern_list import ExpressionSyntax, Patterns
from .rule import Rule
from .rule_facts import ALL_BYTES, UNBOUNDED, Facts, facts_of
from .rule_syntax import location_in, parsed, tree_of

__all__ = ["Expression", "read_expressions"]


@dataclass(frozen=True, eq=False)
class Expression:
    """Expression of the pattern `number`: `source` is in the syntax of `re`, which compiles it at its first candidate."""

    number: int
    source: bytes
    syntax: ExpressionSyntax = field(repr=False)
    facts: Facts

    @property
    def rule(self) -> Rule | None:
        return self.syntax.rule

    @cached_property
    def pattern(self) -> re.Pattern[bytes]:
        syntax = self.syntax
        if not syntax.bounds:
            return re.compile(self.source, syntax.flags)
        return compiled_tree(within_lines(tree_of(self.source, syntax.flags), syntax.bounds))

    @property
    def is_direct(self) -> bool:
        """Whether it has no atoms, so that `re` goes through all data."""
        return not self.facts.longest_atom

    @property
    def span(self) -> int:
        """The bytes that a match and what it looks at take from its start on, at most."""
        return self.facts.longest + self.facts.ahead

    @cached_property
    def not_before(self) -> bytes:
        """A table for `translate`: 1 for the bytes that no match has before its atom, 0 for others."""
        return bytes(not self.facts.before_members >> byte & 1 for byte in range(256))

    @cached_property
    def separators(self) -> bytes | None:
        """A table for `translate`: 1 for the bytes that no match has, 0 for others.  None if it has all."""
        if self.facts.members == ALL_BYTES or self.facts.ahead >= UNBOUNDED:
            return None
        return bytes(not self.facts.members >> byte & 1 for byte in range(256))


def read_expressions(patterns: Patterns) -> list[Expression]:
    """The expressions of a list.  Raises PatternError for all that are wrong, with the place of each mistake."""
    expressions: list[Expression] = []
    mistakes: list[Diagnostic] = []
    for number, syntax in patterns.expressions.items():
        content, name = patterns.contents[number], f"patterns[{number}]"
        try:
            source, tree = parsed(
                content, syntax.flags, name, is_text=syntax.is_text, is_of_re=syntax.is_of_re
            )
            _check_group(syntax.rule, tree, name)
            if syntax.bounds:
                tree = within_lines(tree, syntax.bounds)
            expressions.append(Expression(number, source, syntax, facts_of(tree)))
        except PatternError as error:
            mistakes += error.diagnostics
        except (re.error, RecursionError) as error:
            message = error.msg if isinstance(error, re.error) else "groups are nested too deeply"
            mistakes.append(Diagnostic("error", message, location_in(content, name, 0, len(content))))
    if mistakes:
        raise PatternError(mistakes)
    return expressions


def _check_group(rule: Rule | None, tree: Any, name: str) -> None:
    """Raise PatternError for a rule that names a group which its expression has not."""
    group, state = 0 if rule is None else rule.group, tree.state
    groups = state.groupdict if isinstance(group, str) else range(state.groups)
    if group not in groups:
        message = f"{name} has no group {group!r}; it has {state.groups - 1} groups"
        raise PatternError([Diagnostic("error", message)])
