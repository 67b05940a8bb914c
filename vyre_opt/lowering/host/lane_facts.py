"""Strides: whether a value is equal in all lanes of a subgroup or of a row, an arithmetic progression, or neither.

A subgroup is 32 invocations of consecutive linear local ids.  A value with a `stride` is
`base + stride * lane` in every active lane (modulo 2^bits), and the code computes the base
alone, as a scalar.  A stride of 0 is a value that is uniform over the subgroup.

    local_id x                       1
    4 * local_id x + workgroup_id x  4
    row * columns + lane_id          1, if row is uniform
    load @b[3]                       0
    load @b[local_id x]              none

Where `Uniformity` finds a value uniform over the subgroup, its stride is 0.  Values in divergent
control flow may have a stride too, as it holds for active lanes only: lanes that load one element
at the same time get the same value, and a loop's counter advances equally in all lanes still in
the loop.

Where the workgroup is narrower than a subgroup, lanes are in rows, all of one `local_id y`, and
an integer may have a stride in each row, with a base of its own:

    workgroup(16, 16), rows of 16        in lanes 0 to 15          in lanes 16 to 31
    local_id x                           0 + lane                  0 + (lane - 16)
    local_id y * n + local_id x          y * n + lane              (y + 1) * n + (lane - 16)
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, prod
from typing import Any

from ...analysis.affine import AffineExpr, Symbol, SymbolKind
from ...analysis.bounds import BoundsProofs
from ...analysis.footprint import Footprints
from ...analysis.value_forms import ValueForms
from ...ir.loops import bounds, inits
from ...ir.ops import AXES, SUBGROUP_SIZE
from ...ir.program import Block, Op, Program, Value
from ...ir.uniformity import Level

__all__ = ["LaneFacts"]

_UNIFORM = 0
MAX_STRIDE = 1 << 24
"""Largest stride of an index that is in bounds: below it no lane's distance from another one comes near 2^31."""
_LINEAR = ("add", "sub", "mul", "shl", "neg", "cast", "select", "div", "shr", "rem", "and")


_ELEMENTWISE = ("unary", "binary", "ternary", "select", "convert")
"""Formats of the ops that are computed with an element for each row."""

_MIN_ROW = 4
"""The shortest row whose lanes are loaded as one vector; for less, gathers are no slower."""


class LaneFacts:
    """Strides and uniformity of the values of a flat program.

    `proven`: the accesses that are in bounds for every lane that makes them.  `forms`: of values, in all
    lanes, those beyond the workgroup included.  `row`: the lanes of a row, those of a subgroup where it has no rows.
    `specs`: the encoded values of specialization constants.
    """

    def __init__(self, program: Program, specs: Mapping[str, Any] | None = None) -> None:
        self.forms = ValueForms(program, specs, whole_subgroups=True)
        footprints = Footprints(program)
        self.uniformity = footprints.uniformity
        self.affine = footprints.affine
        self.proven = BoundsProofs(program, specs).proven
        self.row = _row(program)
        self.lanes = _Strides(program, footprints, SUBGROUP_SIZE)
        self.rows = _Strides(program, footprints, self.row, self.lanes) if self.has_rows else self.lanes

    @property
    def has_rows(self) -> bool:
        return self.row < SUBGROUP_SIZE

    def level(self, value: Value) -> Level:
        return self.uniformity.level(value)

    def stride(self, value: Value) -> int | None:
        """The difference from lane to lane, or None if the lanes hold anything."""
        return self.lanes.of(value)

    def row_stride(self, value: Value) -> int | None:
        """The difference from lane to lane of a row, or None if the lanes of a row hold anything."""
        return self.rows.of(value)

    def is_uniform(self, value: Value) -> bool:
        return self.stride(value) == _UNIFORM

    def diverges(self, op: Op) -> bool:
        """Whether the lanes of a subgroup may take different branches at an if, for or while."""
        return self.lanes.diverges(op)


class _Strides:
    """The strides of values within each run of `width` lanes; `width` divides the lanes of a subgroup.

    `wider`: those of whole subgroups, which hold in each row too.  Rows have strides for integers alone, which are what
    addresses are made of: all else is computed for all lanes at once.
    """

    def __init__(
        self, program: Program, footprints: Footprints, width: int, wider: _Strides | None = None
    ) -> None:
        self.program = program
        self.uniformity = footprints.uniformity
        self.affine = footprints.affine
        self.width = width
        self.wider = wider
        self.strides: dict[Value, int | None] = {}
        self.axis_strides = [_axis_stride(program, axis, width) for axis in range(3)]
        self._block(program.body)

    def of(self, value: Value) -> int | None:
        if self.uniformity.level(value) <= Level.SUBGROUP:
            return _UNIFORM
        if self.wider is None:
            return self.strides.get(value)
        stride = self.wider.of(value)
        return self.strides.get(value) if stride is None and value.type.is_int else stride

    def is_uniform(self, value: Value) -> bool:
        return self.of(value) == _UNIFORM

    def diverges(self, op: Op) -> bool:
        """Whether the lanes of a subgroup may take different branches; see LaneFacts."""
        if self.wider is not None:
            return self.wider.diverges(op)
        if op.name == "if":
            return not self.is_uniform(op.operands[0])
        if op.name == "for":
            return not all(self.is_uniform(b) for b in bounds(op) if isinstance(b, Value))
        end = op.regions[0].terminator
        return end is None or not self.is_uniform(end.operands[0])

    # --- the walk

    def _block(self, block: Block) -> None:
        for op in block.ops:
            if op.name == "if":
                for inner in op.regions:
                    self._block(inner)
                self._merge(op)
            elif op.regions:
                self._loop(op)
            else:
                for result in op.results:
                    self.strides[result] = self._op(op, result)

    def _merge(self, op: Op) -> None:
        for number, result in enumerate(op.results):
            strides = {self.of(b.terminator.operands[number]) for b in op.regions if b.terminator}
            self.strides[result] = strides.pop() if len(strides) == 1 and not self.diverges(op) else None

    def _loop(self, op: Op) -> None:
        """A fixed point: carried values start with the stride of their initial value, and lose it if the
        body yields another."""
        body = op.regions[-1]
        groups = [block.args[-len(op.results) :] if op.results else () for block in op.regions]
        if op.name == "for":
            lower, _, step = bounds(op)
            is_progression = not isinstance(step, Value) or self.is_uniform(step)
            start = self.of(lower) if isinstance(lower, Value) else _UNIFORM
            self.strides[body.args[0]] = start if is_progression else None
        initial = [self.of(value) for value in inits(op)]
        while True:
            for args in groups:
                self.strides.update(zip(args, initial, strict=True))
            for block in op.regions:
                self._block(block)
            yields = body.terminator.operands if body.terminator is not None else ()
            pairs = zip(initial, yields, strict=False)
            after = [stride if stride == self.of(value) else None for stride, value in pairs]
            if after == initial[: len(after)]:
                break
            initial = after
        split = self.diverges(op)
        for result, stride in zip(op.results, initial, strict=True):
            self.strides[result] = None if split else stride

    # --- ops

    def _op(self, op: Op, result: Value) -> int | None:
        if op.definition.format == "id" or op.name == "lane_id":
            return self._id(op)
        if self.wider is not None and op.definition.format not in _ELEMENTWISE:
            return None
        if op.name == "load":
            return _UNIFORM if self.is_uniform(op.operands[0]) else None
        if op.name == "subgroup_shuffle":
            return _UNIFORM if self._is_broadcast(op) else None
        # Each lane of an atomic gets another old value, even of one element
        if not op.definition.is_pure:
            return None
        operands = [self.of(value) for value in op.operands]
        if all(stride == _UNIFORM for stride in operands):
            return _UNIFORM
        if op.name not in _LINEAR or not result.type.is_int or None in operands:
            return None
        stride = self._linear(op, [s or 0 for s in operands])
        if stride is None:
            stride = self._from_affine(result)
        return None if stride is None else _as_signed(stride, result)

    def _id(self, op: Op) -> int | None:
        if op.name == "lane_id":
            return 1
        if op.name in ("global_id", "local_id"):
            return self.axis_strides[AXES.index(op.attrs["axis"])]
        return _UNIFORM

    def _is_broadcast(self, op: Op) -> bool:
        """Whether a shuffle gives every lane the value of one lane that exists in every subgroup."""
        lane = op.operands[1].owner
        if op.attrs["mode"] != "idx" or not isinstance(lane, Op) or lane.name != "const":
            return False
        last = self.program.lanes % SUBGROUP_SIZE or SUBGROUP_SIZE
        return bool(lane.attrs["value"] < last)

    def _linear(self, op: Op, strides: list[int]) -> int | None:
        name, constant = op.name, _constant(op.operands[-1])
        if name in ("add", "sub"):
            return strides[0] + strides[1] if name == "add" else strides[0] - strides[1]
        if name == "neg":
            return -strides[0]
        if name == "select":
            _, a, b = strides
            return a if a == b and self.is_uniform(op.operands[0]) else None
        if name == "mul":
            first = _constant(op.operands[0])
            if constant is not None:
                return strides[0] * constant
            return strides[1] * first if first is not None else None
        if name == "shl" and constant is not None:
            return strides[0] << (constant % (op.results[0].type.bits or 1))
        if name == "cast":
            return self._cast(op, strides[0])
        if constant is not None and name in ("div", "shr", "rem", "and"):
            return self._divided(op, constant)
        return None

    def _cast(self, op: Op, stride: int) -> int | None:
        """Narrowing keeps a progression; widening does only if no lane's value wraps in the source type."""
        source, target = op.operands[0].type, op.results[0].type
        if not source.is_int:
            return None
        if op.attrs.get("in_bounds"):  # see lowering/common/row_major.py
            return stride if 0 <= stride < MAX_STRIDE else None
        bits = source.bits or 0
        if (target.bits or 0) <= bits:
            return stride
        small = abs(stride) < 1 << (bits - 7)
        return stride if small and self.affine.exact(op.operands[0]) is not None else None

    def _divided(self, op: Op, constant: int) -> int | None:
        """An id that starts at a multiple of the width, divided by one: the quotient is uniform, the
        remainder has stride 1.  `and` with 2^k - 1 is such a remainder."""
        bits = op.results[0].type.bits or 1
        divisor = {"shr": 1 << constant % bits, "and": constant + 1}.get(op.name, constant)
        if divisor < 1 or divisor % self.width or not self._starts_aligned(op.operands[0]):
            return None
        if op.name == "and" and divisor & (divisor - 1):
            return None
        return _UNIFORM if op.name in ("div", "shr") else 1

    def _starts_aligned(self, value: Value) -> bool:
        op = value.owner
        if not isinstance(op, Op) or op.name not in ("local_id", "global_id") or self.of(value) != 1:
            return False
        axis = AXES.index(op.attrs["axis"])
        return op.name == "local_id" or self.program.workgroup[axis] % self.width == 0

    def _from_affine(self, value: Value) -> int | None:
        """The stride of the value's affine expression in the local ids, if it has one."""
        expr = self.affine.exprs.get(value)
        if not isinstance(expr, AffineExpr):
            return None
        ids, terms = expr.local_id_coefficients()
        steps = [(self.axis_strides[AXES.index(axis)], coefficient) for axis, coefficient in ids.items()]
        steps += [(self._symbol_stride(symbol), coefficient) for symbol, coefficient in terms.items()]
        total = 0
        for stride, coefficient in steps:
            if stride is None:
                return None
            total += stride * coefficient
        return total

    def _symbol_stride(self, symbol: Symbol) -> int | None:
        """The stride of a digit of a local id (id / stride % radix); each run of lanes starts at a multiple of its width."""
        if symbol.kind in (SymbolKind.GROUP, SymbolKind.LOOP):
            return _UNIFORM
        digit = symbol.digit
        axis_stride = self.axis_strides[AXES.index(digit.axis)] if digit is not None else None
        if digit is None or axis_stride != 1:
            return axis_stride  # None for a symbol that stands for a lane's value
        if digit.stride % self.width == 0:
            return _UNIFORM
        return 1 if digit.stride == 1 and digit.radix % self.width == 0 else None


def _row(program: Program) -> int:
    """The lanes of a row: the most that divide a subgroup and are neighbours along one axis in every workgroup."""
    extent = next((extent for extent in program.workgroup if extent > 1), 1)
    row = gcd(extent, SUBGROUP_SIZE)
    return row if _MIN_ROW <= row and extent < program.lanes else SUBGROUP_SIZE


def _axis_stride(program: Program, axis: int, width: int) -> int | None:
    """The stride of local_id along an axis, within runs of `width` lanes."""
    extent, inner_extent = program.workgroup[axis], prod(program.workgroup[:axis])
    if extent == 1 or inner_extent % width == 0:
        return _UNIFORM
    return 1 if inner_extent == 1 and (extent % width == 0 or extent == program.lanes) else None


def _constant(value: Value) -> int | None:
    op = value.owner
    return op.attrs["value"] if isinstance(op, Op) and op.name == "const" and value.type.is_int else None


def _as_signed(stride: int, value: Value) -> int:
    """The stride modulo 2^bits, as the number closest to zero."""
    bits = value.type.bits or 1
    stride &= (1 << bits) - 1
    return stride - (1 << bits) if stride >> (bits - 1) else stride
