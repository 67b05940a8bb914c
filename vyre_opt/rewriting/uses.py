"""Numbers of uses of the values of a body, kept up to date while it is rewritten."""

from __future__ import annotations

from collections.abc import Iterable

from ..ir.program import Block, Op, Value

__all__ = ["UseCounts"]


class UseCounts:
    """Uses by live ops: a pure op without uses is dead, and its operands do not count as uses."""

    def __init__(self, body: Block) -> None:
        self._counts: dict[Value, int] = {}
        """Number of uses of a value: 0 if its op is dead, and so are the uses by that op; absent if nothing uses it yet."""
        self._denied: set[Value] = set()
        self.is_stale = False
        """Whether a value has come to have one use after `has_one_use` denied it."""
        for op in reversed([*body.walk()]):
            if op.definition.is_pure and not any(result in self._counts for result in op.results):
                self._counts.update(dict.fromkeys(op.results, 0))
            else:
                self._add(op.operands)

    def has_one_use(self, value: Value) -> bool:
        if self._counts.get(value) == 1:
            return True
        self._denied.add(value)
        return False

    def built(self, ops: Iterable[Op]) -> None:
        """Count new ops, those in their blocks among them."""
        for op in ops:
            self._add(op.operands)
            for region in op.regions:
                for inner in region.walk():
                    self._add(inner.operands)

    def changed(self, op: Op, before: Iterable[Value]) -> None:
        """Count an op that was changed in place; `before`: its operands until then."""
        if not self._is_dead(op):
            self._add(op.operands)
            self._drop(before)

    def replaced(self, op: Op, before: Iterable[Value], values: Iterable[Value]) -> None:
        """The uses of an op's results become those of `values`, and its own uses, those of `before`, go."""
        is_dead = self._is_dead(op)
        for result, value in zip(op.results, values, strict=True):
            count = self._counts.pop(result, 0)
            if count:
                self._revive(value)
                self._counts[value] = self._counts.get(value, 0) + count
        if not is_dead:
            self._drop(before)

    def _is_dead(self, op: Op) -> bool:
        return op.definition.is_pure and all(self._counts.get(result) == 0 for result in op.results)

    def _revive(self, value: Value) -> None:
        if self._counts.get(value) == 0:
            self._add(_operands_of(value))

    def _add(self, values: Iterable[Value]) -> None:
        pending = [*values]
        while pending:
            value = pending.pop()
            count = self._counts.get(value)
            if count == 0:
                pending += _operands_of(value)
            self._counts[value] = (count or 0) + 1

    def _drop(self, values: Iterable[Value]) -> None:
        pending = [*values]
        while pending:
            value = pending.pop()
            count = self._counts[value] = self._counts[value] - 1
            if count == 0:
                pending += _operands_of(value)
            elif count == 1 and value in self._denied:
                self.is_stale = True


def _operands_of(value: Value) -> tuple[Value, ...]:
    """Operands of the op that defines `value`, if it is dead once nobody uses it."""
    owner = value.owner
    return owner.operands if isinstance(owner, Op) and owner.definition.is_pure else ()
