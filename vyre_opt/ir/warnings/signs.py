"""Values of a program that elements of arrays may make negative, and those that never are.

load @x[%i] : f32            may be
mul %a, %a : f32             never: a square, as are absolute values, roots and exponentials
max %v, 0.0 : f32            never, since 0 is not
sub %a, %b : f32             not known: it may be meant to be above 0
"""

from __future__ import annotations

from ..arith import decode_float
from ..loops import inits
from ..program import Block, Op, Program, Value
from .racing_stores import identity

__all__ = ["Signs"]

_NEVER = ("abs", "abs_diff", "sqrt", "exp", "exp2", "exp10", "rsqrt", "erfc", "acos", "cosh")
"""Ops of floats and signed integers that give no number below 0."""
_LOADS = ("load", "slice_load", "slice_gather")
_ANY = frozenset(
    "add mul div fma neg min cast floor ceil trunc round_even rcp cbrt splat vector extract insert slice_broadcast slice_reduce "
    "slice_scan slice_transpose slice_dot workgroup_reduce subgroup_reduce subgroup_shuffle workgroup_scan subgroup_scan".split()
)
"""Ops that may give a number below 0 where one of their operands may be below it."""


class Signs:
    """Signs of the values of a program."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._users: dict[Value | str, list[Value | str]] = {}
        """Values, or names of buffers on the chip, that may be negative where a value or a buffer may be."""
        self._missing: dict[Value, int] = {}
        """Operands of a maximum that are not known to be negative at times."""
        self._seeds: list[Value] = []
        for op in program.walk():
            self._op(op)
        self._negative = self._reached()

    def may_be_negative(self, value: Value) -> bool:
        """Whether a value is an element of an array that has negative ones, or is computed from such."""
        return value in self._negative

    def is_never_negative(self, value: Value) -> bool:
        """Whether the op of a value gives none below 0."""
        op = value.owner
        return isinstance(op, Op) and (op.name in _NEVER or _is_square(op))

    def _op(self, op: Op) -> None:
        if op.name in _LOADS:
            if self._program.buffers[op.attrs["buffer"]].is_on_chip:
                self._edge(op.attrs["buffer"], op.result)
            else:
                self._seeds.append(op.result)
        elif op.name in ("store", "slice_store", "copy_async"):
            self._edge(op.operands[0], op.attrs["buffer"])
        elif op.name == "max":
            self._missing[op.result] = 2
            for operand in op.operands:
                self._edge(operand, op.result)
        elif op.name == "select":
            for operand in op.operands[1:]:
                self._edge(operand, op.result)
        elif op.regions:
            self._structured(op)
        elif op.name in _ANY and not _is_square(op):
            for operand in op.operands:
                self._edge(operand, op.result)
        elif op.definition.format == "const" and _is_below(op):
            self._seeds.append(op.result)

    def _structured(self, op: Op) -> None:
        if op.name == "for":
            for init, arg, result in zip(inits(op), op.regions[0].args[1:], op.results, strict=True):
                self._edge(init, arg)
                self._edge(init, result)
        for block in op.regions if op.name in ("for", "if", "region") else ():
            self._yielded(op, block)

    def _yielded(self, op: Op, block: Block) -> None:
        end = block.terminator
        for number, value in enumerate(end.operands if end is not None else ()):
            if number < len(op.results):
                self._edge(value, op.results[number])
            if op.name == "for":
                self._edge(value, block.args[number + 1])

    def _edge(self, source: Value | str, target: Value | str) -> None:
        self._users.setdefault(source, []).append(target)

    def _reached(self) -> set[Value | str]:
        reached, pending = set[Value | str](), list[Value | str](self._seeds)
        while pending:
            each = pending.pop()
            if each in reached or (
                isinstance(each, Value) and each.type.element.kind not in ("int", "float")
            ):
                continue
            reached.add(each)
            for user in self._users.get(each, ()):
                if isinstance(user, Value) and self._missing.get(user, 0) > 1:
                    self._missing[user] -= 1
                else:
                    pending.append(user)
        return reached


def _is_square(op: Op) -> bool:
    return op.name == "mul" and identity(op.operands[0]) == identity(op.operands[1])


def _is_below(op: Op) -> bool:
    known, dtype = op.attrs["value"], op.result.type
    if not isinstance(known, int) or not (dtype.is_int or dtype.is_float):
        return False
    return (decode_float(known, dtype) if dtype.is_float else known) < 0
