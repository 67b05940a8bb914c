"""The values that a program has computed at a point of its text, by what they are computed from.

Two pure ops of the same name, attributes and operands give equal values, so the second one stands for the first.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ..ir.ops import OPS
from ..ir.program import Op, Program, Value
from ..ir.types import DataType

__all__ = ["KnownValues", "attributes", "shown", "value_key"]

Key = Hashable


class KnownValues:
    """`by_key`: the results of an op that has run, by its key; `firsts`: for a value an earlier one that is surely equal."""

    def __init__(self) -> None:
        self.by_key: dict[Key, tuple[Value, ...]] = {}
        self.firsts: dict[Value, Value] = {}
        self._learnt: list[Key] = []

    def first(self, values: Sequence[Value]) -> tuple[Value, ...]:
        """First value that is surely equal to each."""
        return tuple(self.firsts.get(value, value) for value in values)

    def learn(self, program: Program, op: Op) -> None:
        """Record that the program has computed `op`, for the first time or again."""
        key = value_key(program, op, self.first(op.operands))
        if key in self.by_key:
            self.firsts.update(zip(op.results, self.by_key[key], strict=True))
        else:
            self.by_key[key] = op.results
            self._learnt.append(key)

    def find(self, name: str, operands: Sequence[Value], dtype: DataType, **attrs: Any) -> Value | None:
        """The value that a pure op of one result gives; None if that is not known."""
        operands = _in_order(name, self.first(operands))
        results = self.by_key.get((name, operands, (dtype,), shown(attrs), None))
        return None if results is None else results[0]

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Scope of a block: its values are known in it only."""
        mark = len(self._learnt)
        try:
            yield
        finally:
            for key in self._learnt[mark:]:
                del self.by_key[key]
            del self._learnt[mark:]


def value_key(program: Program, op: Op, operands: tuple[Value, ...], buffer: str | None = None) -> Key:
    """Equal for ops that give equal values.  `buffer`: the name of the op's, if that is another one."""
    operands = _in_order(op.name, operands)
    name = buffer if buffer is not None else op.attrs.get("buffer")
    return op.name, operands, tuple(r.type for r in op.results), attributes(program, op), name


def _in_order(name: str, operands: tuple[Value, ...]) -> tuple[Value, ...]:
    """The same for all orders of operands that give the same."""
    return tuple(sorted(operands, key=id)) if OPS[name].commutative else operands


def attributes(program: Program, op: Op) -> tuple[tuple[str, str], ...]:
    """An op's attributes without its buffer; for a specialization constant also its declaration."""
    attrs = {name: value for name, value in op.attrs.items() if name != "buffer"}
    if "spec" in attrs:
        spec = program.specs[attrs["spec"]]
        attrs["declared"] = spec.dtype, spec.default
    return shown(attrs)


def shown(attrs: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    return tuple(sorted((name, repr(value)) for name, value in attrs.items()))
