"""The normal form of a module: that which its text determines.

What passes leave has more in it than its text: names that several values share and that the text makes unique,
constants that were written several times in place and are one by now.  A pass that begins with the normal form does
the same on a module that other passes have just changed and on one that was read from their text.

    a pass left                        the text                     normal form

    for %i = ... {                     for %i = ... {               %c2 = const 2 : u32     one of each value that
      %c = const 2 : u32                                            for %i = ... {          stands in place, before all
      %v = mul %i, %c : u32              %v = mul %i, 2 : u32         %v = mul %i, %c2
      %v = shl %v, %c : u32              %v_1 = shl %v, 2 : u32       %v_1 = shl %v, %c2    names as they are printed
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ..ir.pipeline import Pipeline
from ..ir.program import Block, Module, Op, Value
from ..ir.rewrite import constant_name, constant_value, substitute
from .format_version import least_version
from .inline_constants import constants_in_place
from .unique_names import UniqueNames

__all__ = ["normalize"]


def normalize(module: Module) -> bool:
    """Give a module its normal form, in place; whether constants were moved.  Its text, and locations, stay."""
    moved = False
    for item in module.order:
        if not isinstance(item, Pipeline):
            in_place = constants_in_place(item.body) if module.version > 1 else []
            if in_place:
                moved |= _gather(item.body, in_place)
            _ValueNamer(set(in_place)).block(item.body)
    if module.version == 1:
        module.version = max(map(least_version, module.order), default=1)
    return moved


def _gather(body: Block, in_place: list[Value]) -> bool:
    """Put one constant of each value in front of all ops, and name it; whether that changed anything.

    A list of lanes stays apart, since it stands in one place only.
    """
    first: dict[Any, Value] = {}
    replaced: dict[Value, Value] = {}
    for value in in_place:
        encoded = constant_value(value)
        key = value if isinstance(encoded, tuple) else (value.type, encoded)
        if first.setdefault(key, value) is value:
            value.name = constant_name(encoded, value.type)
        else:
            replaced[value] = first[key]
    gathered: list[Op] = [value.owner for value in first.values() if isinstance(value.owner, Op)]
    if not replaced and body.ops[: len(gathered)] == gathered:
        return False
    gone = {value.owner for value in in_place}
    blocks = [body]
    for block in blocks:
        block.ops = [op for op in block.ops if op not in gone]
        for op in block.ops:
            if replaced:
                substitute(op, replaced)
            blocks += op.regions
    body.ops = gathered + body.ops
    return True


class _ValueNamer:
    """Gives values the names that the printer gives them."""

    def __init__(self, in_place: Collection[Value]) -> None:
        self.in_place = in_place
        self.visible = UniqueNames()

    def block(self, block: Block) -> None:
        visible, names = self.visible, list[str]()
        for arg in block.args:
            arg.name = visible.unique(arg.name)
            names.append(arg.name)
        for op in block.ops:
            if op.regions:
                self.regions(op)
            for value in op.results:
                name = value.name
                if type(name) is not str:
                    if value in self.in_place:
                        continue
                    value.name = name = str(name)
                if name in visible:
                    value.name = name = visible.unique(name)
                else:
                    visible.add(name)
                names.append(name)
        visible.difference_update(names)  # free again

    def regions(self, op: Op) -> None:
        for block in op.regions:
            if op.name == "while" and block is op.regions[1]:
                # the text has one list of arguments for both
                for arg, of_condition in zip(block.args, op.regions[0].args, strict=True):
                    arg.name = of_condition.name
            self.block(block)
