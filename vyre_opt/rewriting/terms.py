"""Patterns as data: a term to match, guards, and a term to build.

    pattern(op.mul("x", 2), op.shl("x", 1), types="int")

What may stand in a term:

    op.mul("x", 2)        an op of the table with these operands; op["mylib.square"]("x") for a name with a dot,
                          op.not_("x") for one that is a keyword of Python
    "x"                   any value; the same one wherever the name comes again
    2, 1.5, True          a constant, equal in all lanes of a vector
    const("c")            any such constant, by its name
    one_use(op.add(...))  an op whose result nothing else uses
    op.insert("x", "v", index=0)   attributes that the op must have

The operands of an op that the table calls commutative are matched in both orders.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import product
from typing import Any

from ..ir import arith
from ..ir.builder import encode_constant
from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.formats import FORMATS
from ..ir.ops import FASTMATH, OPS
from ..ir.plugin_ops import find_op
from ..ir.program import Op, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from ..records import dataclass
from .pattern import Pattern, Replacement, check_root
from .rewriter import PERMISSIONS, Rewriter

__all__ = ["Constant", "Term", "const", "one_use", "op", "pattern"]

EXACT = "exact"
_CLASSES = {
    "int": ("int", "uint"),
    "signed": ("int",),
    "unsigned": ("uint",),
    "float": ("float",),
    "num": ("int", "uint", "float"),
    "bits": ("int", "uint", "bool"),
    "bool": ("bool",),
}
"""Names that `types` may have beside single types, and the kinds of types (see DataType) that each means."""


@dataclass(frozen=True, slots=True)
class Constant:
    """Matches a constant, which guards and builds get as a Python number."""

    name: str

    def __str__(self) -> str:
        return f"const %{self.name}"


@dataclass(frozen=True, slots=True)
class Term:
    """An op in a match or a build."""

    name: str
    operands: tuple[Any, ...]
    attrs: Mapping[str, Any] = field(default_factory=dict)
    has_one_use: bool = False

    def __str__(self) -> str:
        """`mul %x, 2`, as an op is written in a text; terms among the operands stand in parentheses."""
        shown = [f"({part})" if isinstance(part, Term) else _show(part) for part in self.operands]
        attrs = [f"{name}={value}" for name, value in self.attrs.items()]
        return f"{self.name} {', '.join(shown + attrs)}".rstrip()


def _show(part: Any) -> str:
    return f"%{part}" if isinstance(part, str) else str(part)


class _Terms:
    """`op.add("x", "y")` is the term of the op `add`."""

    def __getattr__(self, name: str) -> Callable[..., Term]:
        if name.startswith("__"):
            raise AttributeError(name)
        return self[name.removesuffix("_")]

    def __getitem__(self, name: str) -> Callable[..., Term]:
        check_root(name)
        return lambda *operands, **attrs: Term(name, operands, attrs)


op = _Terms()
"""Terms by the names of ops: `op.add("x", "y")`, `op["mylib.square"]("x")`."""


def const(name: str) -> Constant:
    """A constant of any value, to be called `name`."""
    return Constant(name)


def one_use(term: Term) -> Term:
    """The term, where it is the only use of its op's result: rewriting it makes the op go."""
    return replace(term, has_one_use=True)


def pattern(
    match: Term,
    build: Any,
    *,
    types: str | DataType | Sequence[str | DataType] = (),
    floats: str | Sequence[str] = (),
    where: Callable[..., bool] | None = None,
    name: str = "",
    doc: str = "",
) -> Pattern:
    """A pattern that replaces what `match` matches by what `build` builds.

    `build`: a term, a name of `match`, a number, or a function of names of `match` that gives one of these, or None
    to leave the match as it is.  The operands of a term are those of the builder's method, and its result has the
    type of what it replaces.
    `types`: what the operands may be: int, signed, unsigned, float, num, bits, bool, or names of types; any if empty.
    `floats`: why the pattern may change ops on floats, without which it leaves them alone: "exact" if both sides are
    the same bits for all operands, NaN, infinities and -0.0 among them; otherwise the fastmath flags that each
    matched op must have, such as "contract reassoc".
    `where`: a function of names of `match` that says whether to rewrite.  It gets a value as a `Value`, a constant
    as a number, and the matched op for the name `root`.

    Raises ValueError for what no op, name or type of these is.
    """
    accepted = _accepted(types)
    flags = _flags(floats, accepted)
    matched = _names(match)
    for names in (_arguments(where), _arguments(build) if callable(build) else _used(build)):
        for unknown in [each for each in names if each not in (*matched, "root")]:
            raise ValueError(f"{unknown!r} is no name of {match}")
    for term in _terms(match):
        _check_operands(term)
    shown = build.__name__ if callable(build) else _show(build)
    rule = _Rule(name or f"{match} -> {shown}", [*_orders(match)], build, accepted, flags, where)
    counts = any(term.has_one_use for term in _terms(match))
    return Pattern(rule.name, (match.name,), rule.rewrite, doc or f"{match} = {shown}", counts)


# --- matching and building


@dataclass(slots=True)
class _Match:
    """Values by name, and the numbers of those that are constants.  `ops`: the matched ones, the root first."""

    values: dict[str, Value] = field(default_factory=dict)
    numbers: dict[str, Any] = field(default_factory=dict)
    ops: list[Op] = field(default_factory=list)

    def call(self, function: Callable[..., Any]) -> Any:
        """Call the function with the values that its parameters name."""
        known = {**self.values, **self.numbers, "root": self.ops[0]}
        return function(*(known[name] for name in _arguments(function)))


@dataclass(slots=True)
class _Rule:
    """Result of `pattern`.  `matches`: the term with its commutative operands in each order."""

    name: str
    matches: list[Term]
    build: Any
    accepted: frozenset[str]
    flags: tuple[str, ...] | None
    where: Callable[..., bool] | None

    def rewrite(self, root: Op, rewriter: Rewriter) -> Replacement:
        for term in self.matches:
            match = _Match()
            if not _matches(term, root, match, rewriter) or not self._allows(root, match):
                continue
            build = match.call(self.build) if callable(self.build) else self.build
            if build is not None:
                return self._replacement(build, root, match, rewriter)
        return None

    def _allows(self, root: Op, match: _Match) -> bool:
        dtype = (root.operands or root.results)[-1].type.element
        if self.accepted and dtype.kind not in self.accepted and dtype.name not in self.accepted:
            return False
        if any(value.type.element.is_float for value in (*root.operands, *root.results)):
            if self.flags is None:
                return False
            for op in match.ops:
                if not set(self.flags).issubset(op.attrs.get("fastmath", ())):
                    return False
        return self.where is None or bool(match.call(self.where))

    def _replacement(self, build: Any, root: Op, match: _Match, rewriter: Rewriter) -> Replacement:
        common = set(PERMISSIONS).intersection(*(op.attrs.get("fastmath", ()) for op in match.ops))
        rewriter.fastmath = tuple(flag for flag in FASTMATH if flag in common)
        try:
            value: Value = _build(build, root.result.type, match, rewriter)
            return value
        except (ValueError, TypeError) as error:
            rewriter.built.clear()
            message = f"pattern {self.name}: {error}"
            raise DiagnosticError([Diagnostic("error", message, root.loc)]) from None
        finally:
            rewriter.fastmath = ()


def _matches(term: Term, op: Op, match: _Match, rewriter: Rewriter) -> bool:
    if op.definition.name != term.name or len(op.operands) != len(term.operands):
        return False
    match.ops.append(op)
    for name, wanted in term.attrs.items():
        if op.attrs.get(name) != wanted:
            return False
    for part, value in zip(term.operands, op.operands, strict=True):
        if part.__class__ is str:
            if match.values.setdefault(part, value) is not value:
                return False
        elif part.__class__ is Term:
            owner = value.owner
            if not isinstance(owner, Op) or not _matches(part, owner, match, rewriter):
                return False
            if part.has_one_use and not rewriter.has_one_use(value):
                return False
        elif not _matches_constant(part, value, match):
            return False
    return True


def _matches_constant(part: Any, value: Value, match: _Match) -> bool:
    known, dtype = constant_value(value), value.type.element
    if not isinstance(known, int):
        return False
    if not isinstance(part, Constant):
        try:
            return bool(known == encode_constant(part, dtype))
        except ValueError:  # the type has no such number
            return False
    other = match.values.setdefault(part.name, value)
    match.numbers[part.name] = _decoded(known, dtype)
    return constant_value(other) == known and other.type is value.type


def _decoded(known: int, dtype: DataType) -> bool | int | float:
    if dtype.is_float:
        return arith.decode_float(known, dtype)
    return bool(known) if dtype.is_bool else known


def _build(part: Any, dtype: DataType | None, match: _Match, rewriter: Rewriter) -> Any:
    """A value for a part of a build; a number stays one where `dtype` is None, and the builder finds its type."""
    if isinstance(part, str):
        return match.values[part]
    if not isinstance(part, Term):
        is_number = isinstance(part, (bool, int, float)) and dtype is not None
        return rewriter.const(part, dtype) if is_number and dtype is not None else part
    operands = [_build(operand, None, match, rewriter) for operand in part.operands]
    if OPS[part.name].format in ("convert", "splat") and len(operands) == 1 and dtype is not None:
        operands.append(dtype)
    return rewriter.op(part.name, *operands, **part.attrs)


# --- checks when a pattern is defined


def _terms(part: Any) -> Iterator[Term]:
    if isinstance(part, Term):
        yield part
        for operand in part.operands:
            yield from _terms(operand)


def _names(match: Term) -> dict[str, None]:
    """The names of a match, in order."""
    parts = [part for term in _terms(match) for part in term.operands]
    names = [part.name if isinstance(part, Constant) else part for part in parts]
    return dict.fromkeys(name for name in names if isinstance(name, str))


def _used(build: Any) -> list[str]:
    return [build] if isinstance(build, str) else [*_names(build)] if isinstance(build, Term) else []


def _arguments(function: Callable[..., Any] | None) -> tuple[str, ...]:
    """The names of a function's parameters."""
    code = getattr(function, "__code__", None)
    if function is not None and code is None:
        raise ValueError(f"a function with parameters is needed, not {function!r}")
    return () if code is None else code.co_varnames[: code.co_argcount]


def _check_operands(term: Term) -> None:
    row = find_op(term.name)
    assert row is not None
    count = FORMATS[row.format].operands
    if not row.is_pure or FORMATS[row.format].results != 1:
        raise ValueError(f"{term}: {term.name} does more than compute one result; use pattern_on")
    if count is not None and len(term.operands) != count:
        raise ValueError(f"{term}: {term.name} takes {count} operand{'s' * (count != 1)}")
    for part in term.operands:
        if not isinstance(part, (str, bool, int, float, Term, Constant)):
            raise ValueError(f"{term}: {part!r} is no name, number, const(...) or op")
    attrs = {attr.name for attr in row.attrs}
    for name in term.attrs:
        if name not in attrs:
            raise ValueError(f"{term}: {term.name} has no attribute {name}")


def _orders(part: Any) -> Iterator[Any]:
    """A part of a match with the operands of its commutative ops in each order."""
    if not isinstance(part, Term):
        yield part
        return
    orders = [part.operands]
    if OPS[part.name].commutative and part.operands[0] != part.operands[1]:
        orders.append(part.operands[::-1])
    for operands in orders:
        for chosen in product(*(list(_orders(operand)) for operand in operands)):
            yield replace(part, operands=chosen)


def _accepted(types: str | DataType | Sequence[str | DataType]) -> frozenset[str]:
    """The kinds and the names of types that are accepted; empty for any."""
    names = types.split() if isinstance(types, str) else [types] if isinstance(types, DataType) else types
    accepted: set[str] = set()
    for word in names:
        if isinstance(word, str) and word in _CLASSES:
            accepted.update(_CLASSES[word])
        else:
            accepted.add(str(word if isinstance(word, DataType) else DataType.of(word)))
    return frozenset(accepted)


def _flags(floats: str | Sequence[str], accepted: frozenset[str]) -> tuple[str, ...] | None:
    """The fastmath flags that ops on floats must have; None where they are left alone."""
    names = floats.split() if isinstance(floats, str) else [*floats]
    if names == [EXACT]:
        return ()
    for word in names:
        if word not in FASTMATH:
            raise ValueError(f"floats: {EXACT}, or flags of {', '.join(FASTMATH)}, not {word!r}")
    names_floats = "float" in accepted or any(DataType.of(name).is_float for name in accepted - _KINDS)
    if not names and names_floats:
        raise ValueError(
            f'say why it holds for floats: floats="{EXACT}", or the fastmath flags that it needs'
        )
    return tuple(names) or None


_KINDS = frozenset(kind for kinds in _CLASSES.values() for kind in kinds)
