"""Places of the ops of a program, as a debugger asks for them at each op."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..ir.program import Block, Func, Op, Program, Value
from ..ir.scopes import Scope, ScopedLocation
from ..records import dataclass

__all__ = ["OpPlace", "OpPlaces", "scope_at"]


@dataclass(frozen=True, slots=True)
class OpPlace:
    """`number`: in the order of the text.  `statement`: equal for the ops of one line of one statement.  `begins`: whether the op is the
    first of it in its block.  `calls`: how many functions of Python were called around it.  `is_shown`: whether a debugger stops
    there."""

    number: int
    source: str
    line: int
    statement: Any
    begins: bool
    calls: int
    is_shown: bool


class OpPlaces:
    """The places of the ops of a program and of the functions that it may call.

    `values`: by their names, which are unique where a program has scopes.
    """

    def __init__(self, program: Program, funcs: Iterable[Func]) -> None:
        self.of: dict[Op, OpPlace] = {}
        self.values: dict[str, Value] = {}
        self._around: dict[Op, tuple[Block, Op | None]] = {}
        self._has_scopes = any(scope_at(op) is not None for op in program.walk())
        for body in (program.body, *(func.body for func in funcs)):
            self._block(body, None)

    def visible(self, op: Op) -> Iterator[Value]:
        """The values that may have been computed before an op, those that are nearest first."""
        at: Op | None = op
        while at is not None:
            block, parent = self._around[at]
            before = block.ops[: block.ops.index(at)]
            for earlier in reversed(before):
                yield from earlier.results
            yield from block.args
            at = parent

    def _block(self, block: Block, parent: Op | None) -> None:
        statements: set[Any] = set()
        self.values.update((value.name, value) for value in block.args)
        for op in block.ops:
            scope = scope_at(op)
            source, line = ("", 0) if op.loc is None else (op.loc.source.name, op.loc.line)
            statement = op if op.loc is None else (scope, source, line)
            self._around[op] = block, parent
            self.of[op] = OpPlace(
                len(self.of),
                source,
                line,
                statement,
                begins=statement not in statements,
                calls=len(scope.calls) - 1 if scope is not None else 0,
                is_shown=scope is not None or not self._has_scopes,
            )
            statements.add(statement)
            self.values.update((value.name, value) for value in op.results)
            for region in op.regions:
                self._block(region, op)


def scope_at(op: Op) -> Scope | None:
    """The names of Python at an op, if the program was translated for a debugger."""
    return op.loc.scope if isinstance(op.loc, ScopedLocation) else None
