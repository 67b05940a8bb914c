"""The number of trailing zero bits that an integer is sure to have: which power of two divides it.

Wrapping does no harm, since it keeps the low bits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ..ir.loops import bounds, inits
from ..ir.program import Block, Op, Program, Value

__all__ = ["Alignment"]

MOST = 64  # trailing zeros of the number 0: every power of two divides it
MAX_DEPTH = 40


class Alignment:
    """Trailing zeros of the integer values of a program; `specs`: values of spec constants, by name."""

    def __init__(self, program: Program, specs: Mapping[str, object] | None = None) -> None:
        self.program = program
        self.specs = specs or {}
        self.known: dict[Value, int] = {}
        self.arguments: dict[Value, tuple[Op, int]] = {}
        worklist = [program.body]
        while worklist:
            for op in worklist.pop().ops:
                worklist += op.regions
                for block in op.regions if op.name in ("for", "while") else ():
                    self.arguments.update((arg, (op, number)) for number, arg in enumerate(block.args))

    def of(self, value: Value, depth: int = MAX_DEPTH) -> int:
        """Trailing zeros that `value` has at least."""
        zeros = self.known.get(value)
        if zeros is None:
            if not depth or not value.type.is_int:
                return 0
            zeros = self._argument(value, depth) if value in self.arguments else self._result(value, depth)
            self.known[value] = zeros
        return zeros

    def _result(self, value: Value, depth: int) -> int:
        op = value.owner
        if not isinstance(op, Op):
            return 0
        if op.name == "const":
            return _zeros(op.attrs["value"])
        if op.name == "spec":
            number = self.specs.get(op.attrs["spec"])
            return _zeros(number) if isinstance(number, int) else 0
        if op.name in ("for", "while", "if", "region"):
            return self._control_flow_result(op, op.results.index(value), depth)
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

    def _control_flow_result(self, op: Op, number: int, depth: int) -> int:
        """Result `number` of control flow: the least over its blocks."""
        if op.name in ("for", "while"):
            args = op.regions[0].args  # a `for` has its counter first
            return self.of(args[number + (op.name == "for")], depth - 1)
        return min((self._yielded_alignment(block, number, depth) for block in op.regions), default=0)

    def _yielded_alignment(self, block: Block, number: int, depth: int) -> int:
        end = block.terminator
        return self.of(end.operands[number], depth - 1) if end is not None else 0

    def _argument(self, value: Value, depth: int) -> int:
        """An argument of a loop: as aligned as its initial value, lowered until the loop's body keeps it (a fixed point)."""
        op, number = self.arguments[value]
        if op.name == "for" and number == 0:
            lower, _, step = bounds(op)
            return min(_zeros(b) if isinstance(b, int) else self.of(b, depth - 1) for b in (lower, step))
        number -= op.name == "for"
        assumed = self.of(inits(op)[number], depth - 1)
        # the body must keep the assumption: else `x = 8; loop { x = x + 1 }` would count as a multiple of 8.
        # Each round lowers it, so there are at most MOST
        while assumed:
            outer = dict(self.known)  # results that depend on the assumption are dropped again below
            for block in op.regions:
                self.known[block.args[number + (op.name == "for")]] = assumed
            after = self._yielded_alignment(op.regions[-1], number, depth)
            self.known = outer
            if after >= assumed:
                break
            assumed = after
        return assumed


def _zeros(number: int) -> int:
    return (number & -number).bit_length() - 1 if number else MOST


_RULES: dict[str, Callable[[list[int]], int]] = {
    "add": min, "sub": min, "or": min, "xor": min, "min": min, "max": min, "select": min, "neg": min,
    "rem": min, "mul": sum, "and": max,
}  # fmt: skip
