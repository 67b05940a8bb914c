"""Programs and modules as bytes, whole: names, places and texts too.  For caches; only sealed bytes are read again.

Equal bytes are of equal objects, in this and in any other process.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

from .diagnostics import Source
from .lowered_ops import LOWERED_OPS
from .ops import OPS, OpDef
from .plugin_ops import has_plugin_ops
from .program import NO_ATTRS, Module, Op, Program

__all__ = ["UnknownBytes", "from_bytes", "to_bytes"]

PROTOCOL = 5
_PREFIX = f"{__package__.partition('.')[0]}."


class UnknownBytes(ValueError):
    """Error for a value that is not written as bytes, or for bytes of something else; the message says why."""


def to_bytes(*parts: Any) -> bytes:
    """Programs, modules and plain values as bytes.  Raises UnknownBytes, for ops of other packages among other things."""
    if any(isinstance(part, (Module, Program)) and has_plugin_ops(part) for part in parts):
        raise UnknownBytes("ops of other packages are not written")
    file = io.BytesIO()
    pickler = pickle.Pickler(file, PROTOCOL)
    pickler.dispatch_table = {OpDef: _row, Op: _op, Source: _source}
    try:
        pickler.dump(parts)
    except Exception as error:  # what attributes hold may raise anything
        raise UnknownBytes(str(error)) from None
    return file.getvalue()


def from_bytes(content: bytes) -> tuple[Any, ...]:
    """The parts that `to_bytes` wrote, as new objects.  Raises UnknownBytes."""
    try:
        parts = _Reader(io.BytesIO(content)).load()
    except Exception as error:  # nearly anything, of bytes that are of another version
        raise UnknownBytes(str(error)) from None
    if not isinstance(parts, tuple):
        raise UnknownBytes("no parts")
    return parts


class _Reader(pickle.Unpickler):
    """Finds the classes of this package alone."""

    def find_class(self, module: str, name: str) -> Any:
        if module.startswith(_PREFIX) or (module, name) == ("builtins", "getattr"):
            return super().find_class(module, name)
        raise UnknownBytes(f"{module}.{name} is of no program")


def _row(row: OpDef) -> tuple[Any, ...]:
    if OPS.get(row.name) is not row and LOWERED_OPS.get(row.name) is not row:
        raise UnknownBytes(f"{row.name} is in no table")
    return row_named, (row.name,)


def row_named(name: str) -> OpDef:
    return OPS.get(name) or LOWERED_OPS[name]


def _op(op: Op) -> tuple[Any, ...]:
    attrs = None if op.attrs is NO_ATTRS else op.attrs
    state = op.definition, op.operands, op.results, attrs, op.regions, op.loc
    return new_op, (), state, None, None, fill_op


def new_op() -> Op:
    return Op.__new__(Op)


def fill_op(op: Op, state: tuple[Any, ...]) -> None:
    op.definition, op.operands, op.results, attrs, op.regions, op.loc = state
    op.attrs = NO_ATTRS if attrs is None else attrs


def _source(source: Source) -> tuple[Any, ...]:
    """Parts of a source to write, without the results of its look-ups."""
    return Source, (source.text, source.name, source.first_line, source.spelling, source.first_column)
