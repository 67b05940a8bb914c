"""What rewrites share: the bodies of a module, substitution, fresh constants."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ..ir.ops import OPS
from ..ir.program import Block, Func, Module, Op, Program, Value
from ..ir.types import DataType


def bodies(module: Module) -> Iterator[Block]:
    """The bodies of programs and functions, in the order of the text."""
    for item in module.order:
        if isinstance(item, Program | Func):
            yield item.body


def substitute(op: Op, replaced: Mapping[Value, Value]) -> None:
    """Replace the operands of `op` that `replaced` names; not those of ops in its regions."""
    operands = op.operands
    for operand in operands:
        if operand in replaced:
            op.operands = tuple([replaced.get(v, v) for v in operands])
            return


def constant(value: Any, dtype: DataType, name: str, like: Op) -> Op:
    """A `const` of an encoded value, located at `like`."""
    return Op(OPS["const"], (), (Value(name, dtype),), {"value": value}, (), like.loc)
