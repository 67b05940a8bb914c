"""Ops and kernels of other packages: rows of the op table that say what they mean by ops that are there.

    @register_op("mylib.square", "unary", "a * a.", types="num")
    def square(b, a):
        return b.mul(a, a)

Such an op is parsed, checked, printed and folded as any of its format.  Before anything looks into what it computes,
it is replaced by what its function builds (see rewriting/expansion.py), so no target knows of it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from . import plugins
from .ops import NAMED_KERNELS, OPS, FloatFold, IntFold, OpDef, kernel_def
from .program import Func, Module, Program
from .rewrite import bodies
from .types import DataType, as_type

__all__ = [
    "FORMATS",
    "SINCE",
    "find_op",
    "has_plugin_ops",
    "known_names",
    "register_op",
    "register_kernel",
    "registered_ops",
]

F = TypeVar("F", bound=Callable[..., Any])

FORMATS = ("unary", "binary", "ternary", "compare")
SINCE = 2
"""The version of the format that such an op belongs to."""


def register_op(
    name: str,
    format: str,
    doc: str,
    *,
    types: str = "num",
    fold_int: IntFold | None = None,
    fold_float: FloatFold | None = None,
) -> Callable[[F], F]:
    """Decorator: `expansion(b, *operands)` builds what the op means by a `Builder`, and returns its result.

    `name`: with a dot, the package's name before it.  `format`: one of `FORMATS`, see ir/formats.py.
    `types`: int, float, num, bits or any.  `fold_int(a, ..., dtype)`, `fold_float(a, ...)`: the result for constants,
    the same as that of the expansion; integers are wrapped to the type.  Raises ValueError for a wrong row.
    """
    if format not in FORMATS:
        raise ValueError(f"op {name}: the format of a plugin's op is {', '.join(FORMATS)}, not {format}")
    if types not in ("int", "float", "num", "bits", "any"):
        raise ValueError(f"op {name}: types are int, float, num, bits or any, not {types!r}")

    def register(expansion: F) -> F:
        if not callable(expansion):
            raise ValueError(f"op {name}: its expansion is a function, not {expansion!r}")
        row = OpDef(
            name, format, doc, types, fold_int=fold_int, fold_float=fold_float, is_pure=True, since=SINCE,
            expansion=expansion,
        )  # fmt: skip
        add_row(row, expansion)
        return expansion

    return register


def register_kernel(
    name: str,
    doc: str,
    roles: str,
    *,
    types: Mapping[str, Sequence[DataType | str]],
    params: Mapping[str, int | None] | None = None,
    schedule: str = "",
    like: Mapping[str, tuple[str, *tuple[DataType, ...]]] | None = None,
    shapes: Mapping[str, str] | None = None,
    ranges: Mapping[str, tuple[int, int]] | None = None,
    rows: Mapping[str, str] | None = None,
) -> Callable[[F], F]:
    """Decorator: the function takes an `ExpansionRequest` and returns an `Expansion`, a program at a schedule.

    `roles`: the buffers, `name:access` each, with a `?` behind one that may be left out.  `types`: the element types
    that each takes.  `params`: defaults of the integer parameters, None for one that must be given.  `schedule`: the
    fields of the schedule that a text may set.  `like`, `shapes`, `ranges`, `rows`: see `Role` and `KernelDef`.
    A ValueError of the function says why there is no program for a use.  Raises ValueError for a wrong row.
    """
    taken = {role: tuple(map(as_type, each)) for role, each in types.items()}
    kernel = kernel_def(roles, params or {}, taken, schedule, like, shapes, ranges, rows)

    def register(expansion: F) -> F:
        row = OpDef(
            name, "kernel", doc, effects=frozenset({"read", "write"}), kernel=kernel, since=SINCE,
            expansion=expansion,
        )  # fmt: skip
        add_row(row, expansion)
        return expansion

    return register


def registered_ops() -> list[OpDef]:
    """The rows of other packages' ops, without their kernels, that this process has met."""
    return [OPS[name] for name in _owners if OPS[name].kernel is None]


def known_names() -> list[str]:
    """The names of all ops and kernels, those that other packages declare among them."""
    return [*OPS, *plugins.names(plugins.OPS), *plugins.names(plugins.KERNELS)]


def has_plugin_ops(scope: Module | Program | Func) -> bool:
    """Whether there is an op that `expand_ops` replaces."""
    if not registered_ops():  # as in nearly every process
        return False
    blocks = bodies(scope) if isinstance(scope, Module) else [scope.body]
    return any(
        op.definition.expansion is not None and op.definition.kernel is None
        for block in blocks
        for op in block.walk()
    )


_owners: dict[str, tuple[str, str]] = {}
"""The module and the name of the function that registered a row."""


def add_row(row: OpDef, function: Callable[..., Any]) -> None:
    """Add a plugin's row to the op table.  Raises ValueError if its name has no dot or is taken."""
    if not re.fullmatch(r"[A-Za-z_]\w*(\.\w+)+", row.name, re.ASCII):
        raise ValueError(f"{row.name!r} is no name of a plugin's op or kernel, which is package.name")
    owner = (function.__module__, function.__qualname__)
    # the same function again is no clash: its module may have been reloaded
    if row.name in OPS and _owners.get(row.name) != owner:
        by = f"registered by {_owners[row.name][0]}" if row.name in _owners else "built in"
        raise ValueError(f"{row.name} is {by}; {owner[0]} must give its own another name")
    _owners[row.name] = owner
    OPS[row.name] = row
    if row.kernel is not None:
        NAMED_KERNELS[row.name] = row.kernel


def find_op(name: str) -> OpDef | None:
    """The row of an op or kernel, of this package or, if its name has a dot, of another.  Raises PluginError."""
    row = OPS.get(name)
    if row is None and "." in name:
        for group in (plugins.OPS, plugins.KERNELS):
            if plugins.load(group, name, lambda loaded: name in OPS):
                return OPS[name]
    return row
