"""Values as terms: equal terms are equal values of one invocation at one time.

A term is a number in a table.  An integer is kept as a sum of multiples of other terms, its *atoms*, and of a constant, modulo 2^bits of
its type; so `64*w + l` and `l + w*64` are one term.  Where no value of the sum leaves the type, the term *is* the sum as an integer,
and what is known of the atoms bounds it.  Of any other op a term is the op, its attributes and the terms of its operands.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any

__all__ = ["DATA", "GROUP", "LANE", "TURN", "Form", "Terms", "int_type", "lanes_of"]

Dim3 = tuple[int, int, int]
Key = tuple[Any, ...]

GROUP, LANE, TURN, DATA = 1, 2, 4, 8
"""Dependence of a term in a launch: the workgroup, the local ids, the iterations of loops, what lanes have loaded or were given."""

MOST_INVOCATIONS = 1 << 32
"""Along an axis of a grid, by the language; so ids are in the range of a u32."""
MOST_GROUPS: Dim3 = ((1 << 31) - 1, 65535, 65535)
AXES = ("x", "y", "z")


@lru_cache(maxsize=256)
def int_type(name: str) -> tuple[int, bool] | None:
    """Bits, and whether it is signed; of a bool 1 bit; None of what is no scalar integer."""
    if name == "bool":
        return 1, False
    if name[:1] in "iu" and name[1:] in ("8", "16", "32", "64"):
        return int(name[1:]), name[0] == "i"
    return None


@lru_cache(maxsize=256)
def lanes_of(dtype: str) -> tuple[int, str]:
    """Elements of a vector type and their type; 1 of any other."""
    if not dtype.startswith("vec<"):
        return 1, dtype
    count, _, element = dtype[4:-1].partition(" x ")
    return int(count), element


def limits(dtype: str) -> tuple[int, int]:
    bits, is_signed = int_type(dtype) or (0, False)
    return (-(1 << bits - 1), (1 << bits - 1) - 1) if is_signed else (0, (1 << bits) - 1)


def wrapped(value: int, dtype: str) -> int:
    low, high = limits(dtype)
    return (value - low) % (high - low + 1) + low


class Form:
    """A sum over the integers: `const` and a multiple of each atom; no multiple is 0."""

    __slots__ = ("atoms", "const")

    def __init__(self, const: int, atoms: Mapping[int, int]) -> None:
        self.const, self.atoms = const, {atom: times for atom, times in atoms.items() if times}

    def plus(self, other: Form, times: int = 1) -> Form:
        atoms = dict(self.atoms)
        for atom, factor in other.atoms.items():
            atoms[atom] = atoms.get(atom, 0) + times * factor
        return Form(self.const + times * other.const, atoms)

    def part(self, has: Callable[[int], bool]) -> Form:
        """The multiples of the atoms that `has` takes, without the constant."""
        return Form(0, {atom: times for atom, times in self.atoms.items() if has(atom)})


class Terms:
    """The terms of programs that run over one grid, with workgroups of one size.

    `groups`: how many workgroups there are along each axis; None where that is open.
    """

    def __init__(self, workgroup: Dim3, groups: Sequence[int | None]) -> None:
        self.workgroup, self.groups = workgroup, tuple(groups)
        self.ids: dict[Key, int] = {}
        self.keys: list[Key] = []
        self.types: list[str] = []
        self.varies: list[int] = []
        self.bounds: list[tuple[int, int]] = []
        self.sums: list[Form | None] = []
        self._lanes: dict[int, list[int] | None] = {}
        self.fresh = 0
        self.counts = [
            n if n is not None else min(most, MOST_INVOCATIONS // size)
            for n, most, size in zip(groups, MOST_GROUPS, workgroup, strict=True)
        ]
        self.local_count = workgroup[0] * workgroup[1] * workgroup[2]

    # --- the table

    def term(
        self,
        key: Key,
        dtype: str,
        varies: int,
        low: int | None = None,
        high: int | None = None,
        sum: Form | None = None,
    ) -> int:
        known = self.ids.get(key)
        if known is not None:
            return known
        number = self.ids[key] = len(self.keys)
        self.keys.append(key)
        self.types.append(dtype)
        self.varies.append(varies)
        least, most = limits(dtype) if int_type(dtype) else (0, 0)
        self.bounds.append(
            (least if low is None else max(low, least), most if high is None else min(high, most))
        )
        self.sums.append(sum)
        return number

    def unknown(
        self,
        what: str,
        dtype: str,
        varies: int = DATA | GROUP,
        low: int | None = None,
        high: int | None = None,
    ) -> int:
        """A new term, equal to no other."""
        self.fresh += 1
        return self.term((what, self.fresh), dtype, varies, low, high)

    def const(self, value: int, dtype: str) -> int:
        value = wrapped(value, dtype)
        return self.term(("const", dtype, value), dtype, 0, value, value, Form(value, {}))

    def literal(self, text: str, dtype: str) -> int:
        if int_type(dtype) is None:
            return self.term(("const", dtype, text), dtype, 0)
        return self.const({"true": 1, "false": 0}[text] if text in ("true", "false") else int(text, 0), dtype)

    def constant(self, term: int) -> int | None:
        form = self.sums[term]
        return form.const if form is not None and not form.atoms else None

    def name(self, term: int) -> str:
        """Name of a term for people; different ones may have one name."""
        return ".".join(str(part) for part in self.keys[term] if isinstance(part, str))

    # --- sums

    def modular(self, term: int) -> Form:
        """A sum that equals the term modulo 2^bits of its type."""
        return self.sums[term] or Form(0, {term: 1})

    def exact(self, term: int) -> Form:
        """A sum that equals the term."""
        form = self.sums[term]
        return form if form is not None and self.is_exact(form, self.types[term]) else Form(0, {term: 1})

    def is_exact(self, form: Form, dtype: str) -> bool:
        (low, high), (least, most) = self.range(form), limits(dtype)
        return least <= low and high <= most

    def range(self, form: Form) -> tuple[int, int]:
        low = high = form.const
        for atom, times in form.atoms.items():
            first, last = self.bounds[atom]
            low, high = low + min(times * first, times * last), high + max(times * first, times * last)
        return low, high

    def sum(self, form: Form, dtype: str) -> int:
        """The term of a sum modulo 2^bits of a type."""
        low, high = limits(dtype)
        size = high - low + 1
        if not form.atoms:
            return self.const(form.const, dtype)
        half = size // 2
        atoms = {atom: (times + half - 1) % size - half + 1 for atom, times in form.atoms.items()}
        form = Form((form.const + half - 1) % size - half + 1, atoms)
        if not form.atoms:
            return self.const(form.const, dtype)
        if form.const == 0 and len(form.atoms) == 1:
            ((atom, times),) = form.atoms.items()
            if times == 1 and self.types[atom] == dtype:
                return atom
        varies = 0
        for atom in form.atoms:
            varies |= self.varies[atom]
        bounds = self.range(form) if self.is_exact(form, dtype) else limits(dtype)
        key = ("sum", dtype, form.const, tuple(sorted(form.atoms.items())))
        return self.term(key, dtype, varies, *bounds, form)

    def is_whole(self, index: int, width: int) -> bool:
        """Whether the elements from an index on, `width` of them, have indices that do not wrap."""
        form = self.modular(index)
        is_multiple = width & width - 1 == 0 and all(
            n % width == 0 for n in (form.const, *form.atoms.values())
        )
        return is_multiple or self.bounds[index][1] + width - 1 <= limits(self.types[index])[1]

    # --- ids and sizes

    def id(self, name: str, axis: str) -> int:
        """A term of type u32 for an id or a size, or None's stand-in where the name is no such op."""
        at = AXES.index(axis) if axis else 0
        size, most = self.workgroup[at], self.counts[at]
        if name == "local_id":
            return (
                self.const(0, "u32") if size == 1 else self.term(("local_id", axis), "u32", LANE, 0, size - 1)
            )
        if name == "workgroup_id":
            if most == 1:
                return self.const(0, "u32")
            return self.term(("workgroup_id", axis), "u32", GROUP, 0, max(0, most - 1))
        if name == "global_id":
            parts = self.exact(self.id("workgroup_id", axis)), self.exact(self.id("local_id", axis))
            return self.sum(Form(0, {}).plus(parts[0], size).plus(parts[1]), "u32")
        if name == "workgroup_size":
            return self.const(size, "u32")
        if name in ("num_workgroups", "global_size"):
            count = self.groups[at]
            number = (
                self.const(count, "u32")
                if count is not None
                else self.term(("num_workgroups", axis), "u32", 0, 1, most)
            )
            return (
                number
                if name == "num_workgroups"
                else self.sum(Form(0, {}).plus(self.exact(number), size), "u32")
            )
        if name == "subgroup_size":
            return self.const(32, "u32")
        if name == "num_subgroups":
            return self.const(-(-self.local_count // 32), "u32")
        linear, stride = Form(0, {}), 1
        for each, extent in zip(AXES, self.workgroup, strict=True):
            linear, stride = linear.plus(self.exact(self.id("local_id", each)), stride), stride * extent
        whole = self.divided(linear, 32, "u32")
        return self.sum(linear.plus(self.exact(whole), -32), "u32") if name == "lane_id" else whole

    def divided(self, form: Form, by: int, dtype: str) -> int:
        """A sum divided by a positive number, rounded down; the quotient is in the range of the type."""
        whole = Form(
            form.const // by, {atom: times // by for atom, times in form.atoms.items() if times % by == 0}
        )
        rest = form.plus(whole, -by)
        low, high = self.range(rest)
        if low // by == high // by:
            return self.sum(whole.plus(Form(low // by, {})), dtype)
        part = self.term(
            ("quotient", by, rest.const, tuple(sorted(rest.atoms.items()))),
            "i64",
            self._varies(rest),
            low // by,
            high // by,
        )
        return self.sum(whole.plus(Form(0, {part: 1})), dtype)

    def _varies(self, form: Form) -> int:
        varies = 0
        for atom in form.atoms:
            varies |= self.varies[atom]
        return varies

    # --- ops on integers and bools

    def op(self, name: str, attrs: Key, args: Sequence[int], dtype: str) -> int:
        """The term of a pure op."""
        if int_type(dtype) is not None and args and all(int_type(self.types[arg]) for arg in args):
            simple = self._integer(name, args, dtype)
            if simple is not None:
                return simple
        if name in _COMPARED:
            return self._compared(name, args)
        if name == "select" and (args[1] == args[2] or self.constant(args[0]) is not None):
            return args[1] if args[1] == args[2] or self.constant(args[0]) else args[2]
        if name == "extract" and self.keys[args[0]][0] == "vector":
            parts = self.keys[args[0]][3]
            assert isinstance(parts, tuple)
            return int(parts[int(str(attrs[0][1]))])
        if name == "splat":
            name, args = "vector", list(args) * lanes_of(dtype)[0]
        if name in _COMMUTES or (name in _COMMUTES_EXACTLY and int_type(lanes_of(dtype)[1])):
            args = sorted(args)
        varies = 0
        for arg in args:
            varies |= self.varies[arg]
        return self.term((name, dtype, attrs, tuple(args)), dtype, varies, *self._bounds(name, args, dtype))

    def _integer(self, name: str, args: Sequence[int], dtype: str) -> int | None:
        """The term of an op on integers that is a sum, or is known; None of others."""
        first = args[0]
        if dtype != "bool" and name in ("add", "sub"):
            form = self.modular(first).plus(self.modular(args[1]), 1 if name == "add" else -1)
            return self.sum(form, dtype)
        if dtype != "bool" and name == "neg":
            return self.sum(Form(0, {}).plus(self.modular(first), -1), dtype)
        if name == "cast" and dtype != "bool":
            bits, was = int_type(dtype), int_type(self.types[first])
            assert bits is not None and was is not None
            return self.sum(self.modular(first) if bits[0] <= was[0] else self.exact(first), dtype)
        if name == "bitcast" and dtype != "bool" and self.types[first] != "bool":
            return self.sum(self.modular(first), dtype)
        values = [self.constant(arg) for arg in args]
        if None not in values:
            known = _folded(name, [v for v in values if v is not None], self.types[first], dtype)
            if known is not None:
                return self.const(known, dtype)
        last = values[-1] if len(args) == 2 else None
        bits = int_type(dtype)
        if bits is None or dtype == "bool":
            return self._boolean(name, args) if dtype == "bool" else None
        if name == "mul":
            for one, other in ((values[0], args[1]), (values[1], args[0])):
                if one is not None:
                    return self.sum(Form(0, {}).plus(self.modular(other), one), dtype)
        if last is None:
            return None
        if name == "shl":
            return self.sum(Form(0, {}).plus(self.modular(first), 1 << last % bits[0]), dtype)
        if name == "shr":
            return self.divided(self.exact(first), 1 << last % bits[0], dtype)
        if name in ("div", "rem") and last > 0 and self.bounds[first][0] >= 0:
            return (
                self.divided(self.exact(first), last, dtype)
                if name == "div"
                else self._rest(first, last, dtype)
            )
        if name == "and" and last > 0 and last & last + 1 == 0:
            return self._rest(first, last + 1, dtype)
        if name in ("or", "xor") and last > 0 and not 0 <= self.bounds[first][1] < 1 << last.bit_length():
            # of the low bits alone
            low = self._rest(first, 1 << last.bit_length(), dtype)
            changed = self.op(name, (), [low, args[1]], dtype)
            return self.sum(
                self.modular(first).plus(self.modular(low), -1).plus(self.modular(changed)), dtype
            )
        return None

    def _rest(self, term: int, by: int, dtype: str) -> int:
        """Remainder of a term beyond the multiples of a positive number, from 0 on."""
        whole = self.divided(self.exact(term), by, dtype)
        rest = self.sum(self.exact(term).plus(self.exact(whole), -by), dtype)
        low, high = self.bounds[rest]
        self.bounds[rest] = (max(low, 0), min(high, by - 1))
        return rest

    def _boolean(self, name: str, args: Sequence[int]) -> int | None:
        """The term of a bool of bools, if it is a simpler one."""
        if name == "not":
            key = self.keys[args[0]]
            if key[0] == "not":
                return int(key[3][0])
            return self.term(("not", "bool", (), (args[0],)), "bool", self.varies[args[0]])
        for one, other in (args, reversed(args)) if len(args) == 2 and name in ("and", "or") else ():
            value = self.constant(one)
            if value is not None or one == other:
                return other if one == other or value == (name == "and") else one
        return None

    def _compared(self, name: str, args: Sequence[int]) -> int:
        """A comparison: `lt`, `le` and `eq` are left, of integers without `le`."""
        one, other = args
        dtype = self.types[one]
        result = "bool" if lanes_of(dtype)[0] == 1 else f"vec<{lanes_of(dtype)[0]} x bool>"
        varies = self.varies[one] | self.varies[other]
        if name == "ne":
            return self._negated(self._compared("eq", args), result)
        if name in ("gt", "ge"):
            return self._compared("lt" if name == "gt" else "le", (other, one))
        if name == "le" and int_type(lanes_of(dtype)[1]):
            return self._negated(self._compared("lt", (other, one)), result)
        if int_type(dtype):
            low, high = self.range(self.exact(one).plus(self.exact(other), -1))
            if (high < 0) if name == "lt" else low == high == 0:
                return self.const(1, "bool")
            if low >= 0 if name == "lt" else (low > 0 or high < 0):
                return self.const(0, "bool")
        pair = tuple(sorted(args) if name == "eq" else args)
        return self.term((name, result, (), pair), result, varies)

    def _negated(self, term: int, dtype: str) -> int:
        if dtype == "bool":
            value, simple = self.constant(term), self._boolean("not", [term])
            return simple if value is None and simple is not None else self.const(not value, "bool")
        return self.op("not", (), [term], dtype)

    def _bounds(self, name: str, args: Sequence[int], dtype: str) -> tuple[int | None, int | None]:
        """The least and the largest value of an op; None where its type says it."""
        if int_type(dtype) is None or dtype == "bool" or not all(int_type(self.types[arg]) for arg in args):
            return None, None
        bounds = [self.bounds[arg] for arg in args]
        lows, highs = [low for low, _ in bounds], [high for _, high in bounds]
        if name == "select":
            return min(lows[1:]), max(highs[1:])
        if name == "min":
            return min(lows), min(highs)
        if name == "max":
            return max(lows), max(highs)
        if name == "cast":
            return lows[0], highs[0]
        if name == "sub_sat":
            least, most = limits(dtype)
            ends = lows[0] - highs[1], highs[0] - lows[1]
            return max(least, min(most, ends[0])), max(least, min(most, ends[1]))
        if min(lows) < 0:
            return None, None
        if name == "and":
            return 0, min(highs)
        if name in ("or", "xor"):
            return 0, (1 << max(highs).bit_length()) - 1
        if name in ("div", "shr"):
            return 0, highs[0]
        if name == "rem":
            return 0, highs[0] if lows[1] == 0 else min(highs[0], highs[1] - 1)
        if name == "mul" and highs[0] * highs[1] <= limits(dtype)[1]:
            return lows[0] * lows[1], highs[0] * highs[1]
        if name in ("popcount", "clz", "ctz"):
            return 0, 64
        return None, None

    # --- lane by lane

    def lanes(self, term: int) -> list[int] | None:
        """The value in each lane of a workgroup, by the linear local id, of a term of local ids alone; None of others."""
        if self.varies[term] & ~LANE:
            return None
        if term not in self._lanes:
            self._lanes[term] = self._lane_values(term)
        return self._lanes[term]

    def lane_sums(self, form: Form) -> list[int] | None:
        """The same of a sum, over the integers."""
        sums = [form.const] * self.local_count
        for atom, times in form.atoms.items():
            values = self.lanes(atom)
            if values is None:
                return None
            sums = [value + times * each for value, each in zip(sums, values, strict=True)]
        return sums

    def _lane_values(self, term: int) -> list[int] | None:
        key, dtype = self.keys[term], self.types[term]
        width, height, _ = self.workgroup
        form = self.sums[term]
        if form is not None:
            sums = self.lane_sums(form)
            return None if sums is None else [wrapped(value, dtype) for value in sums]
        if key[0] == "local_id":
            each = range(self.local_count)
            return [
                (lane, lane // width, lane // width // height)[AXES.index(str(key[1]))]
                % self.workgroup[AXES.index(str(key[1]))]
                for lane in each
            ]
        if key[0] == "quotient":
            _, by, const, atoms = key
            assert isinstance(by, int) and isinstance(const, int) and isinstance(atoms, tuple)
            sums = self.lane_sums(Form(const, dict(atoms)))
            return None if sums is None else [value // by for value in sums]
        # of an op: its name, type, attributes and operands
        args = key[3] if len(key) == 4 else ()
        assert isinstance(args, tuple)
        columns = [self.lanes(arg) for arg in args]
        if not columns or any(column is None for column in columns):
            return None
        types = self.types[args[0]]
        rows = zip(*(column for column in columns if column is not None), strict=True)
        values = [_folded(str(key[0]), row, types, dtype) for row in rows]
        return None if None in values else [value for value in values if value is not None]


_COMPARED = ("lt", "le", "gt", "ge", "eq", "ne")
_COMMUTES = ("eq", "add", "mul", "min", "max", "abs_diff")
_COMMUTES_EXACTLY = ("and", "or", "xor", "mul_hi", "add_sat", "mul_sat")
"""Ops that commute on integers.  The NaN of an op is not specified, so the others commute on floats, too."""


def _truncated(a: int, b: int) -> int:
    quotient = abs(a) // abs(b)
    return quotient if (a < 0) == (b < 0) else -quotient


_FOLDS: dict[str, Callable[..., int]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "abs": abs,
    "not": lambda a: ~a,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "min": min,
    "max": max,
    "abs_diff": lambda a, b: abs(a - b),
    "cast": lambda a: a,
    "bitcast": lambda a: a,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "select": lambda p, a, b: a if p else b,
    "div": lambda a, b: _truncated(a, b) if b else a,
    "rem": lambda a, b: a - _truncated(a, b) * b if b else 0,
}


def _folded(name: str, values: Sequence[int], operand: str, dtype: str) -> int | None:
    """The value of an op on integers, by the language; None of an op that is not in the table above.

    `operand`: the type of the first one, modulo whose bits a shift is.
    """
    bits = (int_type(operand) or (0, False))[0]
    if name in ("shl", "shr") and bits:
        amount = values[1] % bits
        return wrapped(values[0] << amount if name == "shl" else values[0] >> amount, dtype)
    if name in ("add_sat", "sub_sat"):
        low, high = limits(dtype)
        return max(low, min(high, values[0] + values[1] if name == "add_sat" else values[0] - values[1]))
    fold = _FOLDS.get(name)
    if fold is None:
        return None
    if name == "cast" and dtype == "bool":
        return None
    return wrapped(int(fold(*values)), dtype)
