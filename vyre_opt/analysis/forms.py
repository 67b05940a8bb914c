"""Affine forms of integer values: what an index is, in ids, loop counters and constants."""

from __future__ import annotations

from collections.abc import Callable

from ..ir import arith
from ..ir.loops import bounds
from ..ir.program import Op, Program, Value
from ..ir.uniformity import Level, Uniformity
from .affine import Affine, Range, Symbol, SymbolKind

__all__ = ["Counter", "Forms", "Unknown"]

GROUP, LOCAL, LOOP = SymbolKind.GROUP, SymbolKind.LOCAL, SymbolKind.LOOP
AXES = "xyz"


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
    symbol itself; equal pure ops on equal forms give equal symbols.
    """

    def __init__(self, program: Program, uniformity: Uniformity) -> None:
        self.program = program
        self.uniformity = uniformity
        self.known: dict[Value, Affine | Unknown] = {}
        self.counters: dict[Symbol, Counter] = {}
        self.local = [
            Symbol(LOCAL, f"local_id.{axis}", (0, size - 1))
            for axis, size in zip(AXES, program.workgroup, strict=True)
        ]
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
        low, high = form.range()
        least, most = arith.int_range(value.type)
        return form if least <= low and high <= most else None

    # --- ops --------------------------------------------------------------------------

    def visit(self, op: Op) -> None:
        """Note the forms of the results of an op without regions."""
        for result in op.results:
            if result.type.is_int or result.type.is_bool:
                form = self._op(op) if len(op.results) == 1 else None
                self.known[result] = form if form is not None else self._opaque(op, result)
            elif result.type.is_vec:
                self.known[result] = Unknown("it is a vector", op)

    def _op(self, op: Op) -> Affine | None:
        rule = _RULES.get(op.name)
        return rule(self, op) if rule is not None else None

    def _opaque(self, op: Op, result: Value) -> Affine | Unknown:
        """A symbol for a value its workgroup agrees on; otherwise the reason it has no form."""
        if self.uniformity.level(result) <= Level.WORKGROUP:
            return Affine.of(self._group_symbol(op, result))
        if op.name == "load":
            return Unknown(f"it depends on data loaded from @{op.attrs['buffer']}", op)
        for operand in op.operands:
            found = self.known.get(operand)
            if isinstance(found, Unknown):
                return found
        return Unknown(f"{op.name} of a lane's value is not affine", op)

    def _group_symbol(self, op: Op, result: Value) -> Symbol:
        kind_range: Range = arith.int_range(result.type)
        inputs = [self.known.get(operand) for operand in op.operands]
        if op.definition.is_pure and all(isinstance(form, Affine) for form in inputs):
            forms = [form for form in inputs if isinstance(form, Affine)]
            words = [str(op.attrs[a.name]) for a in op.definition.attrs]
            name = f"{op.name}({', '.join([*words, *map(str, forms)])})"
            # a name does not tell all: forms are modulo the types of the operands, an op may have more results
            types = tuple(value.type.name for value in (result, *op.operands))
            identity = (op.results.index(result), types, *forms)
            loops = frozenset().union(*(form.loops for form in forms))
            return Symbol(GROUP, name, kind_range, loops, result, identity)
        return Symbol(GROUP, f"%{result.name}", kind_range, frozenset(self.loops), result, result)

    def argument(self, value: Value, level: Level, what: str) -> None:
        """A block argument or a result of control flow: a symbol if its workgroup agrees on it."""
        if level <= Level.WORKGROUP and (value.type.is_int or value.type.is_bool):
            symbol = Symbol(
                GROUP, f"%{value.name}", arith.int_range(value.type), frozenset(self.loops), value, value
            )
            self.known[value] = Affine.of(symbol)
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
        symbol = Symbol(
            LOOP, f"iteration(%{variable.name})", (0, max(0, most - 1)), frozenset([loop]), None, loop
        )
        return Counter(symbol, lower, bounds(loop)[0], step.const, (least, most), variable)


def trips(lower: Affine, upper: Affine, step: int) -> tuple[int, int]:
    """Fewest and most iterations over the values of the symbols."""
    low, high = (upper - lower).range()
    return max(0, -(-low // step)), max(0, -(-high // step))


# --- rules: the form of an op's result, None if it has none of its own


def _const(forms: Forms, op: Op) -> Affine | None:
    value = op.attrs["value"]
    return Affine(value) if isinstance(value, int) else None


def _local_id(forms: Forms, op: Op) -> Affine:
    symbol = forms.local[AXES.index(op.attrs["axis"])]
    return Affine.of(symbol) if symbol.range[1] else Affine(0)


def _workgroup_id(forms: Forms, op: Op) -> Affine:
    axis = AXES.index(op.attrs["axis"])
    grid, lanes = forms.program.grid, forms.program.workgroup[axis]
    most = grid[axis] if grid else (1 << 32) // lanes
    name = f"workgroup_id.{op.attrs['axis']}"
    return Affine.of(Symbol(GROUP, name, (0, most - 1))) if most > 1 else Affine(0)


def _global_id(forms: Forms, op: Op) -> Affine:
    lanes = forms.program.workgroup[AXES.index(op.attrs["axis"])]
    return _workgroup_id(forms, op).scaled(lanes) + _local_id(forms, op)


def _workgroup_size(forms: Forms, op: Op) -> Affine:
    return Affine(forms.program.workgroup[AXES.index(op.attrs["axis"])])


def _num_workgroups(forms: Forms, op: Op) -> Affine | None:
    grid = forms.program.grid
    return Affine(grid[AXES.index(op.attrs["axis"])]) if grid else None


def _global_size(forms: Forms, op: Op) -> Affine | None:
    grid, axis = forms.program.grid, AXES.index(op.attrs["axis"])
    return Affine(grid[axis] * forms.program.workgroup[axis]) if grid else None


def _lane_id(forms: Forms, op: Op) -> Affine | None:
    """The local id where a workgroup is one row of at most 32."""
    x, y, z = forms.program.workgroup
    return _linear(forms) if x * y * z <= 32 else None


def _linear(forms: Forms) -> Affine:
    x, y, _ = forms.program.workgroup
    strides = (1, x, x * y)
    total = Affine()
    for symbol, stride in zip(forms.local, strides, strict=True):
        if symbol.range[1]:
            total += Affine.of(symbol).scaled(stride)
    return total


def _len(forms: Forms, op: Op) -> Affine | None:
    count = forms.program.buffers[op.attrs["buffer"]].count
    return Affine(count) if count is not None and count <= arith.int_range(op.results[0].type)[1] else None


def _pair(forms: Forms, op: Op) -> tuple[Affine, Affine] | None:
    a, b = (forms.known.get(operand) for operand in op.operands)
    return (a, b) if isinstance(a, Affine) and isinstance(b, Affine) else None


def _add(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    return pair[0] + pair[1] if pair else None


def _sub(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    return pair[0] - pair[1] if pair else None


def _mul(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    if pair is None:
        return None
    a, b = pair
    return a.scaled(b.const) if b.is_const else b.scaled(a.const) if a.is_const else None


def _shl(forms: Forms, op: Op) -> Affine | None:
    pair = _pair(forms, op)
    if pair is None or not pair[1].is_const:
        return None
    return pair[0].scaled(1 << (pair[1].const % (op.results[0].type.bits or 1)))


def _neg(forms: Forms, op: Op) -> Affine | None:
    form = forms.known.get(op.operands[0])
    return -form if isinstance(form, Affine) else None


def _cast(forms: Forms, op: Op) -> Affine | None:
    """Wrapping to as many or fewer bits keeps the congruence; widening needs the exact value."""
    source, target = op.operands[0].type, op.results[0].type
    if not (source.is_int and target.is_int):
        return None
    if (target.bits or 0) > (source.bits or 0):
        return forms.exact(op.operands[0])
    form = forms.known.get(op.operands[0])
    return form if isinstance(form, Affine) else None


def _split(form: Affine, divisor: int) -> tuple[Affine, Affine] | None:
    """`form = divisor * q + r` with r in [0, divisor), if the terms fall apart like that."""
    quotient = Affine(
        form.const // divisor, {s: c // divisor for s, c in form.terms.items() if c % divisor == 0}
    )
    rest = form - quotient.scaled(divisor)
    low, high = rest.range()
    return (quotient, rest) if 0 <= low and high < divisor else None


def _divide(forms: Forms, op: Op) -> tuple[Affine, Affine] | None:
    a, divisor = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or divisor is None or not divisor.is_const or divisor.const < 1 or a.range()[0] < 0:
        return None
    return _split(a, divisor.const)


def _div(forms: Forms, op: Op) -> Affine | None:
    parts = _divide(forms, op)
    return parts[0] if parts else None


def _rem(forms: Forms, op: Op) -> Affine | None:
    parts = _divide(forms, op)
    return parts[1] if parts else None


def _shr(forms: Forms, op: Op) -> Affine | None:
    a, amount = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is None or amount is None or not amount.is_const or a.range()[0] < 0:
        return None
    parts = _split(a, 1 << (amount.const % (op.results[0].type.bits or 1)))
    return parts[0] if parts else None


def _and(forms: Forms, op: Op) -> Affine | None:
    """Masking with 2^k - 1 is a remainder."""
    a, mask = forms.exact(op.operands[0]), forms.exact(op.operands[1])
    if a is not None and a.is_const:
        a, mask = mask, a
    if a is None or mask is None or not mask.is_const or mask.const < 0 or mask.const & (mask.const + 1):
        return None
    parts = _split(a, mask.const + 1) if a.range()[0] >= 0 else None
    return parts[1] if parts else None


_RULES: dict[str, Callable[[Forms, Op], Affine | None]] = {
    "const": _const, "local_id": _local_id, "workgroup_id": _workgroup_id, "global_id": _global_id,
    "workgroup_size": _workgroup_size, "num_workgroups": _num_workgroups, "global_size": _global_size,
    "lane_id": _lane_id, "len": _len, "add": _add, "sub": _sub, "mul": _mul, "shl": _shl, "neg": _neg,
    "cast": _cast, "div": _div, "rem": _rem, "shr": _shr, "and": _and,
}  # fmt: skip
