"""How many trailing zero bits an index is sure to have: the power of two that divides it.

Wrapping does no harm, since it keeps every low bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir.loops import BOUND_NAMES, bounds, inits
from ..ir.program import Block, Op, Program, Value

__all__ = ["Alignment"]

MOST = 64  # trailing zeros of the number 0: every power of two divides it
MAX_DEPTH = 40


class Alignment:
    """Trailing zeros of the integer values of a program."""

    def __init__(self, program: Program, specs: Mapping[str, object] | None = None) -> None:
        self.program = program
        self.specs = specs or {}
        self.known: dict[Value, int] = {}
        self.arguments: dict[Value, tuple[Op, int]] = {}
        waiting = [program.body]
        while waiting:
            for op in waiting.pop().ops:
                waiting += op.regions
                for block in op.regions if op.name in ("for", "while") else ():
                    self.arguments.update((arg, (op, place)) for place, arg in enumerate(block.args))

    def of(self, value: Value, depth: int = MAX_DEPTH) -> int:
        """Trailing zeros that `value` has at least."""
        found = self.known.get(value)
        if found is None:
            if not depth or not value.type.is_int:
                return 0
            found = self._argument(value, depth) if value in self.arguments else self._result(value, depth)
            self.known[value] = found
        return found

    def _result(self, value: Value, depth: int) -> int:
        op = value.owner
        if not isinstance(op, Op):
            return 0
        if op.name == "const":
            return _zeros(op.attrs["value"])
        if op.name == "spec":
            given = self.specs.get(op.attrs["spec"])
            return _zeros(given) if isinstance(given, int) else 0
        if op.name in ("for", "while", "if", "region"):
            return self._given(op, op.results.index(value), depth)
        if op.name == "workgroup_size":
            return _zeros(self.program.workgroup["xyz".index(op.attrs["axis"])])
        if op.name == "shl":
            amount = op.operands[1].owner
            if isinstance(amount, Op) and amount.name == "const":
                shift: int = amount.attrs["value"] % (value.type.bits or 1)
                return min(MOST, self.of(op.operands[0], depth - 1) + shift)
            return self.of(op.operands[0], depth - 1)
        if op.name == "cast":
            source = op.operands[0].type
            return self.of(op.operands[0], depth - 1) if source.is_int else 0
        rule = _RULES.get(op.name)
        if rule is None:
            return 0
        operands = op.operands[1:] if op.name == "select" else op.operands
        return min(MOST, rule([self.of(operand, depth - 1) for operand in operands]))

    def _given(self, op: Op, place: int, depth: int) -> int:
        """A result of control flow: what any of its blocks may give."""
        if op.name in ("for", "while"):
            blocks = op.regions[0].args
            return self.of(blocks[place + (op.name == "for")], depth - 1)
        return min((self._yielded(block, place, depth) for block in op.regions), default=0)

    def _yielded(self, block: Block, place: int, depth: int) -> int:
        end = block.terminator
        return self.of(end.operands[place], depth - 1) if end is not None else 0

    def _argument(self, value: Value, depth: int) -> int:
        """Of a loop: supposed as aligned as at the start, until a round shows less."""
        op, place = self.arguments[value]
        if op.name == "for" and place == 0:
            parts = dict(zip(BOUND_NAMES, bounds(op), strict=True))
            lower, step = parts["lower"], parts["step"]
            return min(_zeros(b) if isinstance(b, int) else self.of(b, depth - 1) for b in (lower, step))
        place -= op.name == "for"
        supposed = self.of(inits(op)[place], depth - 1)
        while supposed:
            kept = dict(self.known)
            self._suppose(op, place, supposed)
            after = self._yielded(op.regions[-1], place, depth)
            self.known = kept
            if after >= supposed:
                break
            supposed = after
        return supposed

    def _suppose(self, op: Op, place: int, zeros: int) -> None:
        for block in op.regions:
            self.known[block.args[place + (op.name == "for")]] = zeros


def _zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else MOST


_RULES: dict[str, Callable[[list[int]], int]] = {
    "add": min,
    "sub": min,
    "or": min,
    "xor": min,
    "min": min,
    "max": min,
    "select": min,
    "neg": min,
    "mul": sum,
    "and": max,
}
