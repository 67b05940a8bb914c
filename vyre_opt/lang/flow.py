"""Flow of statements, by their syntax alone: the names that they assign, and whether they leave their block."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

__all__ = [
    "always_leaves",
    "assigned",
    "breaks",
    "leaves_block",
    "leaves_loop",
    "returned_values",
    "returns",
    "updated",
]


def statements_in(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements and those inside of them, without those of nested functions."""
    for statement in statements:
        yield statement
        if isinstance(statement, (ast.If, ast.For, ast.While)):
            yield from statements_in(statement.body)
            yield from statements_in(statement.orelse)


def _targets(statement: ast.stmt) -> Iterator[ast.expr]:
    """Targets of a statement, the parts of tuples one by one."""
    pending: list[ast.expr] = []
    if isinstance(statement, ast.Assign):
        pending += statement.targets
    elif isinstance(statement, (ast.AugAssign, ast.AnnAssign, ast.For)):
        pending.append(statement.target)
    while pending:
        target = pending.pop()
        if isinstance(target, (ast.Tuple, ast.List)):
            pending += target.elts[::-1]
        else:
            yield target


def assigned(statements: Sequence[ast.stmt]) -> list[str]:
    """The names that statements assign, in order."""
    targets = (target for statement in statements_in(statements) for target in _targets(statement))
    return list(dict.fromkeys(target.id for target in targets if isinstance(target, ast.Name)))


def updated(statements: Sequence[ast.stmt]) -> list[str]:
    """The names of what statements assign elements or lanes of."""
    targets = (target for statement in statements_in(statements) for target in _targets(statement))
    bases = (target.value for target in targets if isinstance(target, ast.Subscript))
    return list(dict.fromkeys(base.id for base in bases if isinstance(base, ast.Name)))


def returned_values(statements: Sequence[ast.stmt]) -> list[ast.expr]:
    """Values of the returns that have one."""
    found = (s for s in statements_in(statements) if isinstance(s, ast.Return))
    return [statement.value for statement in found if statement.value is not None]


def returns(statements: Sequence[ast.stmt]) -> bool:
    return any(isinstance(statement, ast.Return) for statement in statements_in(statements))


def breaks(body: Sequence[ast.stmt]) -> bool:
    """Whether the body of a loop has a break of its own."""
    return any(
        isinstance(s, ast.Break) or (isinstance(s, ast.If) and (breaks(s.body) or breaks(s.orelse)))
        for s in body
    )


def leaves_loop(body: Sequence[ast.stmt]) -> bool:
    """Whether the body of a loop may leave it."""
    return breaks(body) or returns(body)


def leaves_block(node: ast.stmt) -> bool:
    """Whether a statement may leave its block: by a return, or by a break or continue of a loop around it."""
    if isinstance(node, (ast.Return, ast.Break, ast.Continue)):
        return True
    if isinstance(node, (ast.For, ast.While)):
        return returns([node])
    return isinstance(node, ast.If) and any(map(leaves_block, [*node.body, *node.orelse]))


def always_leaves(
    statements: Sequence[ast.stmt], kinds: tuple[type[ast.stmt], ...] = (ast.Return, ast.Break, ast.Continue)
) -> bool:
    """Whether all ways through statements end in one of `kinds`."""
    if not statements:
        return False
    last = statements[-1]
    if isinstance(last, kinds):
        return True
    return isinstance(last, ast.If) and always_leaves(last.body, kinds) and always_leaves(last.orelse, kinds)
