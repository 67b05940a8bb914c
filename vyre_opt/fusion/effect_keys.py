"""The effects of a program as keys: equal ones are at equal indices, under equal conditions, whatever the values are called.

A value's key is made of its op, its attributes and the keys of its operands, so that the keys of two programs can be
compared.  An effect's key has the loops and branches around it as well.

    if %inside { store %v, @y[%g] }        (store, @y, key of %v, key of %g; in the first arm of an if of key of %inside)
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import NamedTuple

from ..ir.arith import wrap
from ..ir.grids import length_key
from ..ir.ops import SUBGROUP_SIZE
from ..ir.program import Block, Op, Program, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType

__all__ = ["Effect", "effect_keys"]


class Effect(NamedTuple):
    """An op that does more than read.

    `key`: all of it.  `location`: all but the stored value.  For a store, `value`: key of the stored value, `loaded`: key
    that a load at the same place has.
    """

    op: Op
    key: int
    location: int
    value: int | None = None
    loaded: int | None = None


def effect_keys(
    program: Program,
    buffers: Mapping[str, str] | None = None,
    lengths: Mapping[str, Hashable] | None = None,
    indices: Callable[[Op], tuple[Value, ...]] = lambda op: op.indices,
    invocations: Mapping[Op, Value] | None = None,
    is_of_one_dimension: bool = False,
) -> list[Effect]:
    """The effects in program order.

    `buffers`: names of buffers in keys; a buffer without one is keyed by its type.  `lengths`: keys of lengths, by
    buffer names in keys; by default a length is its own key.  `indices`: function that returns the indices of an access.
    `invocations`: ifs that run a body as another invocation -> the global id of that invocation.  Keys inside are those of
    the body alone.  `is_of_one_dimension`: whether the grid has one, so that ids along y and z are 0.
    """
    keys = _Keys(program, buffers, lengths, indices, invocations or {}, is_of_one_dimension)
    keys.block(program.body, 0)
    return keys.effects


_ID = {
    name: hash((name, "x")) for name in ("global_id", "local_id", "workgroup_id", "lane_id", "subgroup_id")
}
_PARTS = {
    (_ID["global_id"], "rem"): "local_id",
    (_ID["global_id"], "div"): "workgroup_id",
    (_ID["local_id"], "rem"): "lane_id",
    (_ID["local_id"], "div"): "subgroup_id",
}
"""The remainder and the quotient of an id by the lanes of a workgroup, or of a subgroup, where there is one dimension."""


def _key_of_zero(dtype: DataType) -> int:
    return hash(("const", (("value", 0),), (), dtype))


class _Keys:
    def __init__(
        self,
        program: Program,
        buffers: Mapping[str, str] | None,
        lengths: Mapping[str, Hashable] | None,
        indices: Callable[[Op], tuple[Value, ...]],
        invocations: Mapping[Op, Value],
        is_of_one_dimension: bool,
    ) -> None:
        self.lengths = lengths or {}
        self.indices = indices
        self.invocations = invocations
        self.is_of_one_dimension = is_of_one_dimension
        self.lanes = program.lanes if program.workgroup[1:] == (1, 1) else 0
        self.names: dict[str, Hashable] = {
            buffer.name: (buffer.dtype, buffer.shape, buffer.access)
            if buffers is not None and buffer.name not in buffers
            else (buffer.name if buffers is None else buffers[buffer.name])
            for buffer in program.buffers.values()
        }
        self.values: dict[Value, int] = {}
        self.sums: dict[Value, tuple[Value, int]] = {}
        """Value -> (base, constant) whose sum it is."""
        self.effects: list[Effect] = []

    def block(self, block: Block, path: int) -> None:
        for op in block.ops:
            if op.regions:
                self.structured(op, path)
            elif op.definition.is_pure:
                key = self.pure(op)
                self.values[op.results[0]] = key
                for number, result in enumerate(op.results[1:], 1):  # of a call
                    self.values[result] = hash((key, number))
            elif not op.definition.is_terminator:
                self.effect(op, path)

    def structured(self, op: Op, path: int) -> None:
        if op in self.invocations:
            self.values[self.invocations[op]] = _ID["global_id"]
            exists = op.operands[0]
            if isinstance(exists.owner, Op):
                self.values[exists] = self.pure(exists.owner)  # the body may have an equal comparison
            self.block(op.regions[0], 0)
            return
        key = hash((op.name, self.attrs(op), self.of(op.operands)))
        yielded = []
        for number, block in enumerate(op.regions):
            inside = hash((path, key, number))
            for index, arg in enumerate(block.args):
                self.values[arg] = hash((inside, index))
            self.block(block, inside)
            end = block.terminator
            yielded.append(self.of(end.operands) if end is not None else ())
        for index, result in enumerate(op.results):
            self.values[result] = hash((key, tuple(yielded), index))

    def pure(self, op: Op) -> int:
        if op.name in ("add", "sub") and op.result.type.is_int:
            return self.sum(op)
        if op.name in _ID or op.name in ("rem", "div"):
            identity = self.identity(op)
            if identity is not None:
                return identity
        operands = self.of(op.operands)
        if op.definition.commutative:
            operands = tuple(sorted(operands))
        return hash((op.name, self.attrs(op), operands, op.results[0].type))

    def identity(self, op: Op) -> int | None:
        """The key of an id along x, or of a quotient or remainder that is another id; None for any other value."""
        if op.name in _ID:
            if op.attrs.get("axis", "x") == "x":
                return _ID[op.name]
            return _key_of_zero(op.result.type) if self.is_of_one_dimension else None
        dividend, divisor = self.values[op.operands[0]], constant_value(op.operands[1])
        part = _PARTS.get((dividend, op.name)) if self.lanes else None
        return (
            _ID[part]
            if part is not None and divisor == (SUBGROUP_SIZE if dividend == _ID["local_id"] else self.lanes)
            else None
        )

    def sum(self, op: Op) -> int:
        """Key of a value plus or minus constants, which are added up first."""
        a, b = op.operands
        constant = constant_value(b)
        if constant is None and op.name == "add":
            a, constant = b, constant_value(a)
        if not isinstance(constant, int):
            operands = self.of(op.operands)
            return hash((op.name, tuple(sorted(operands)) if op.definition.commutative else operands, a.type))
        base, offset = self.sums.get(a, (a, 0))
        offset = wrap(offset + (constant if op.name == "add" else -constant), a.type)
        self.sums[op.result] = base, offset
        return hash(("sum", self.values[base], offset)) if offset else self.values[base]

    def effect(self, op: Op, path: int) -> None:
        attrs, is_store = self.attrs(op), op.definition.format in ("store", "matrix_store")
        indices: tuple[Value, ...] = ()
        operands = op.operands
        if "buffer" in op.attrs:
            indices = self.indices(op)
            operands = op.operands[:1] if is_store else op.operands[len(op.indices) :]
        values = self.of(operands)
        places = tuple(map(self.place, indices))
        where = (attrs, places, tuple([value.type for value in (*operands, *op.results)]))
        access = hash((op.name, where))
        for number, result in enumerate(op.results):
            # loads at one location have one key; writes between them are not considered, which the caller allows for
            self.values[result] = hash((access, () if op.name == "load" else values, number))
        # keys describe executions without faults, in which a check of bounds has no effect
        if op.definition.effects in ({"read"}, {"fault"}):
            return
        location = hash((access, path))
        key = hash((location, values))
        if op.name == "store":
            loaded = hash((hash(("load", where)), (), 0))
            self.effects.append(Effect(op, key, location, values[0], loaded))
        else:
            self.effects.append(Effect(op, key, location))

    def place(self, index: Value) -> int:
        """The key of an index: equal constants of different types have one key."""
        number = constant_value(index)
        return hash(("index", number)) if isinstance(number, int) else self.values[index]

    def of(self, values: tuple[Value, ...]) -> tuple[int, ...]:
        keys = self.values
        return tuple([keys[value] for value in values])

    def attrs(self, op: Op) -> Hashable:
        if not op.attrs:
            return ()
        others = [(name, value) for name, value in op.attrs.items() if name != "buffer"]
        buffer = op.attrs.get("buffer")
        if buffer is None:
            return tuple(others)
        name = self.names[buffer]
        if op.name == "len" and isinstance(name, str):
            length = length_key(name, op.attrs.get("dimension"))
            return ("len", self.lengths.get(length, length))
        return (("buffer", name), *others)
