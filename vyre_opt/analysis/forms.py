"""Affine forms of integer values: what an index is, in ids, loop counters and constants."""

from __future__ import annotations

from itertools import pairwise

from ..ir import arith
from ..ir.loops import bounds
from ..ir.ops import AXES
from ..ir.program import Op, Program, Value
from ..ir.uniformity import Level, Uniformity
from .affine import Affine, Digit, Range, Symbol, SymbolKind
from .congruence import fits
from .form_rules import FORM_RULES
from .ranges import result_range

__all__ = ["Counter", "Cut", "Forms", "Unknown"]

GROUP, LOCAL, LOOP, VALUE = SymbolKind
MAX_NAME = 80
MAX_VALUES = 1 << 16
"""What a lane's own value may be for it to be worth a symbol."""

Cut = tuple[str, int]
"""An axis and a number: its local id is to be taken apart into the quotient by it and the remainder."""


class Unknown:
    """A value without a form, and the reason in words."""

    __slots__ = ("reason", "op")

    def __init__(self, reason: str, op: Op | None = None) -> None:
        self.reason = reason
        self.op = op


class Counter:
    """A `for` of constant step: its counter is `lower + step * symbol`.

    `least` and `most` bound the trip count over the lanes.
    """

    __slots__ = ("symbol", "lower", "lower_value", "step", "least", "most", "value")

    def __init__(
        self,
        symbol: Symbol,
        lower: Affine,
        bound: int | Value,
        step: int,
        trips: tuple[int, int],
        value: Value,
    ) -> None:
        self.symbol = symbol
        self.lower = lower
        self.lower_value = bound if isinstance(bound, Value) else None
        self.step = step
        self.least, self.most = trips
        self.value = value


class Forms:
    """Forms of the values of a program, filled by `visit` in program order.

    A value that a whole workgroup agrees on, but that is not affine, becomes a
    symbol itself; equal pure ops on equal forms give equal symbols.  So does a lane's
    own value if its range is small.

    A quotient of a local id is affine only in its digits.  `wanted` collects the cuts
    that would have given more forms; who starts again with those `cuts` gets them.
    """

    def __init__(self, program: Program, uniformity: Uniformity, cuts: frozenset[Cut] = frozenset()) -> None:
        self.program = program
        self.uniformity = uniformity
        self.wanted: set[Cut] = set()
        self.known: dict[Value, Affine | Unknown] = {}
        self.loaded: dict[Value, str] = {}  # a lane's values that depend on data, and the buffer it is from
        self.ranges: dict[Value, Range] = {}  # its type's where there is none
        self.counters: dict[Symbol, Counter] = {}
        self.symbols: dict[tuple[object, ...], Symbol] = {}  # of pure ops, by what makes their values equal
        self.local = {
            axis: _local_form(axis, size, sorted(at for name, at in cuts if name == axis))
            for axis, size in zip(AXES, program.workgroup, strict=True)
        }
        self.loops: list[Op] = []

    def form(self, value: Value) -> Affine | Unknown:
        """The form of a value that was visited, or why there is none."""
        found = self.known.get(value)
        return found if found is not None else Unknown("its value is not known")

    def exact(self, value: Value) -> Affine | None:
        """The form of `value` if the value equals it as an integer, not just modulo 2^bits."""
        form = self.known.get(value)
        if not isinstance(form, Affine) or not value.type.is_int:
            return None
        return form if fits(form.range(), value.type) else None

    def split(self, form: Affine, divisor: int) -> tuple[Affine, Affine] | None:
        """`form = divisor * q + r` with r in [0, divisor), if the terms fall apart like that."""
        quotient = Affine(
            form.const // divisor, {s: c // divisor for s, c in form.terms.items() if c % divisor == 0}
        )
        rest = form - quotient.scaled(divisor)
        low, high = rest.range()
        if 0 <= low and high < divisor:
            return quotient, rest
        for symbol, coefficient in rest.terms.items():
            digit, (at, uneven) = symbol.digit, divmod(divisor, abs(coefficient))
            if digit is not None and not uneven and at < digit.radix and digit.radix % at == 0:
                self.wanted.add((digit.axis, digit.stride * at))
        return None

    # --- ops --------------------------------------------------------------------------

    def visit(self, op: Op) -> None:
        """Note the forms of the results of an op without regions."""
        source = op.attrs["buffer"] if op.name == "load" else self._source(op)
        for result in op.results:
            if source is not None and self.uniformity.level(result) > Level.WORKGROUP:
                self.loaded[result] = source
            if result.type.is_int or result.type.is_bool:
                form = None
                if len(op.results) == 1:
                    form, self.ranges[result] = self._op(op), result_range(op, self.ranges)
                self.known[result] = form if form is not None else self._opaque(op, result)
                if (exact := self.exact(result)) is not None:
                    self.ranges[result] = exact.range()
            elif result.type.is_vec:
                self.known[result] = Unknown("it is a vector", op)

    def _source(self, op: Op) -> str | None:
        return next((self.loaded[operand] for operand in op.operands if operand in self.loaded), None)

    def _op(self, op: Op) -> Affine | None:
        rule = FORM_RULES.get(op.name)
        return rule(self, op) if rule is not None else None

    def _opaque(self, op: Op, result: Value) -> Affine | Unknown:
        """A symbol for a value its workgroup agrees on; otherwise the reason it has no form."""
        if self.uniformity.level(result) <= Level.WORKGROUP:
            return Affine.of(self._group_symbol(op, result))
        low, high = self.ranges.get(result) or arith.int_range(result.type)
        if result.type.is_int and high - low < MAX_VALUES:
            return Affine.of(Symbol(VALUE, f"%{result.name}", (low, high), frozenset(self.loops), result))
        for operand in op.operands:
            found = self.known.get(operand)
            if isinstance(found, Unknown):
                return found
        return Unknown(f"{op.name} of a lane's value is not affine", op)

    def _group_symbol(self, op: Op, result: Value) -> Symbol:
        inputs = [self.known.get(operand) for operand in op.operands]
        forms = [form for form in inputs if isinstance(form, Affine)]
        if not op.definition.is_pure or len(forms) < len(inputs):
            return self._symbol(result)
        words = [str(op.attrs[a.name]) for a in op.definition.attrs]
        # forms are modulo the types of the operands, and an op may have more results than one
        types = tuple(value.type for value in (result, *op.operands))
        same = (op.name, *words, op.results.index(result), types, *forms)
        if same not in self.symbols:
            name = f"{op.name}({', '.join([*words, *map(str, forms)])})"
            loops = frozenset().union(*(form.loops for form in forms))
            self.symbols[same] = self._symbol(result, name if len(name) <= MAX_NAME else "", loops)
        return self.symbols[same]

    def _symbol(self, value: Value, name: str = "", loops: frozenset[Op] | None = None) -> Symbol:
        """A symbol for a value of the group, which without `loops` may change in all loops around."""
        varies = frozenset(self.loops) if loops is None else loops
        limits = self.ranges.get(value) or arith.int_range(value.type)
        return Symbol(GROUP, name or f"%{value.name}", limits, varies, value)

    def argument(self, value: Value, level: Level, what: str) -> None:
        """A block argument or a result of control flow: a symbol if its workgroup agrees on it."""
        if level <= Level.WORKGROUP and (value.type.is_int or value.type.is_bool):
            self.known[value] = Affine.of(self._symbol(value))
        else:
            self.known[value] = Unknown(f"it is {what}")

    # --- loops ------------------------------------------------------------------------

    def enter_for(self, loop: Op) -> Counter | None:
        """Push a `for` and give its counter a form, if its step and bounds allow."""
        self.loops.append(loop)
        variable = loop.regions[0].args[0]
        counter = self._counter(loop, variable)
        if counter is None:
            self.argument(variable, self.uniformity.level(variable), "a loop counter of unknown bounds")
        else:
            self.counters[counter.symbol] = counter
            self.known[variable] = counter.lower + Affine.of(counter.symbol).scaled(counter.step)
        for arg in loop.regions[0].args[1:]:
            self.argument(arg, self.uniformity.level(arg), "carried around a loop")
        return counter

    def leave(self) -> None:
        self.loops.pop()

    def _counter(self, loop: Op, variable: Value) -> Counter | None:
        lower, upper, step = (
            Affine(bound) if isinstance(bound, int) else self.exact(bound) for bound in bounds(loop)
        )
        if lower is None or upper is None or step is None or not step.is_const or step.const < 1:
            return None
        least, most = trips(lower, upper, step.const)
        if most >= 1 << 31 or (lower.terms and any(s.kind is LOOP for s in lower.terms)):
            return None
        limit = arith.int_range(variable.type)[1]
        if upper.range()[1] + step.const - 1 > limit:
            return None  # the counter could wrap before it passes the bound
        symbol = Symbol(LOOP, f"iteration(%{variable.name})", (0, max(0, most - 1)), frozenset([loop]), loop)
        return Counter(symbol, lower, bounds(loop)[0], step.const, (least, most), variable)


def trips(lower: Affine, upper: Affine, step: int) -> tuple[int, int]:
    """Fewest and most iterations over the values of the symbols."""
    low, high = (upper - lower).range()
    return max(0, -(-low // step)), max(0, -(-high // step))


def _local_form(axis: str, size: int, cuts: list[int]) -> Affine:
    """A local id in its digits: `cuts` are their strides, each a multiple of the one before."""
    terms: dict[Symbol, int] = {}
    for stride, end in pairwise([1, *cuts, size]):
        name = f"local_id.{axis}"
        if stride > 1:
            name += f" / {stride}"
        if end < size:
            name += f" % {end // stride}"
        radix = end // stride
        digit = Digit(axis, stride, radix, size)
        terms[Symbol(LOCAL, f"({name})" if cuts else name, (0, radix - 1), digit=digit)] = stride
    return Affine(0, terms if size > 1 else None)
