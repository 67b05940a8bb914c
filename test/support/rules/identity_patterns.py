"""The patterns on which every rewrite rule is tried: each op of the rules' table on variables, constants and
what the rules look into.

    unary             x, op' x
    binary, compare   x y, x x, x c, c x, (x op d) c
    fma               variables and constants in each place
    select            p or not p or a constant, and arms
    casts             every pair of types, and every chain of two casts
    vectors           of three lanes
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import product

from vyre_opt.ir import OPS, DataType
from vyre_opt.rewriting.identities import RULES

from .graphs import Node, const, var
from .values import SCALARS, edges

__all__ = ["constants", "patterns"]

ROOTS = {root for rule in RULES for root in rule.roots}
Constants = Callable[[DataType], Sequence[int]]
BOOL = DataType.BOOL


def constants(dtype: DataType) -> Sequence[int]:
    """The encoded constants to try: all of a type of 8 bits, of others edges and powers of two."""
    bits = dtype.bits or 0
    if dtype.is_bool:
        return (0, 1)
    if bits == 8:
        return range(-128, 128) if dtype.is_signed else range(256)
    powers = _float_powers(dtype) if dtype.is_float else [1 << k for k in range(bits - dtype.is_signed)]
    return sorted({*edges(dtype), *powers})


def _float_powers(dtype: DataType) -> list[int]:
    """Patterns of 2^k and -2^k that are normal: of f16 all, of others some over the whole range, its ends among them."""
    fraction, most = {"f16": (10, 30), "bf16": (7, 254), "f32": (23, 254), "f64": (52, 2046)}[dtype.name]
    exponents = {1, 2, 3, most, most - 1, most - 2, most // 2, most // 2 + 2, most // 4}
    if dtype is DataType.F16:
        exponents = {*range(1, most + 1)}
    sign = 1 << ((dtype.bits or 0) - 1)
    return [exponent << fraction | s for exponent in exponents for s in (0, sign)]


def patterns(name: str, dtype: DataType) -> Iterator[Node]:
    """What to try the rules of an op on; `dtype` as in `op_terms.term`."""
    row = OPS[name]
    if row.format == "unary" and row.accepts(dtype):
        yield from _unary(name, dtype)
    elif row.format in ("binary", "compare") and row.accepts(dtype):
        yield from _binary(name, dtype)
    elif row.format == "ternary" and row.accepts(dtype):
        yield from _ternary(name, dtype)
    elif name in _SPECIAL:
        yield from _SPECIAL[name](dtype)


def _unary(name: str, dtype: DataType) -> Iterator[Node]:
    x, y = var("x", dtype), var("y", dtype)
    yield Node(name, dtype, (x,))
    for inner, row in OPS.items():
        if row.format == "unary" and row.accepts(dtype) and inner in ROOTS:
            yield Node(name, dtype, (Node(inner, dtype, (x,)),))
        elif row.format == "compare" and dtype.is_bool:
            for operand in SCALARS:
                if row.accepts(operand):
                    pair = (var("x", operand), var("y", operand))
                    yield Node(name, dtype, (Node(inner, BOOL, pair),))
        elif row.format == "binary" and row.accepts(dtype):
            yield Node(name, dtype, (Node(inner, dtype, (x, y)),))


def _binary(name: str, dtype: DataType) -> Iterator[Node]:
    x, y = var("x", dtype), var("y", dtype)
    result = BOOL if OPS[name].format == "compare" else dtype
    yield Node(name, result, (x, y))
    yield Node(name, result, (x, x))
    for value in constants(dtype):
        c = const(value, dtype)
        yield Node(name, result, (x, c))
        yield Node(name, result, (c, x))
    if result is dtype:
        known = edges(dtype)[::5] if dtype.is_float else edges(dtype)
        for first, second in product(known, repeat=2):
            inner = Node(name, dtype, (x, const(first, dtype)))
            yield Node(name, dtype, (inner, const(second, dtype)))


def _ternary(name: str, dtype: DataType) -> Iterator[Node]:
    x, y, z = (var(n, dtype) for n in "xyz")
    for c in (const(value, dtype) for value in edges(dtype)):
        yield from (Node(name, dtype, operands) for operands in ((x, c, z), (c, y, z), (x, y, c), (x, c, x)))


def _select(dtype: DataType) -> Iterator[Node]:
    p, x, y = var("p", BOOL), var("x", dtype), var("y", dtype)
    arms = [x, y, *([const(0, dtype), const(1, dtype)] if dtype.is_bool else [])]
    for predicate in (p, Node("not", BOOL, (p,)), Node("eq", BOOL, (x, y))):
        yield from (Node("select", dtype, (predicate, a, b)) for a in arms for b in arms)


def _cast(dtype: DataType) -> Iterator[Node]:
    for source in SCALARS:
        x = var("x", source)
        yield Node("cast", dtype, (x,))
        yield from (Node("cast", dtype, (Node("cast", middle, (x,)),)) for middle in SCALARS)


def _bitcast(dtype: DataType) -> Iterator[Node]:
    same_size = [t for t in SCALARS if t.bits == dtype.bits and not t.is_bool]
    for source in same_size if not dtype.is_bool else ():
        x = var("x", source)
        yield Node("bitcast", dtype, (x,))
        yield from (Node("bitcast", dtype, (Node("bitcast", middle, (x,)),)) for middle in same_size)


def _vector(dtype: DataType) -> Iterator[Node]:
    x, y = var("x", dtype), var("y", dtype)
    whole = DataType.vec(dtype, 3)
    yield from (Node("vector", whole, lanes) for lanes in product((x, y), repeat=3))


def _insert(dtype: DataType) -> Iterator[Node]:
    x, y = var("x", dtype), var("y", dtype)
    whole = DataType.vec(dtype, 3)
    for first, second in product(range(3), repeat=2):
        inner = Node("insert", whole, (y, var("v", whole)), (("index", first),))
        yield Node("insert", whole, (x, inner), (("index", second),))


def _extract(dtype: DataType) -> Iterator[Node]:
    whole = DataType.vec(dtype, 3)
    lanes = tuple(var(n, dtype) for n in "xyz")
    inner = [Node("splat", whole, lanes[:1]), Node("vector", whole, lanes), var("v", whole)]
    inner += [Node("insert", whole, (lanes[0], var("v", whole)), (("index", place),)) for place in range(3)]
    yield from (Node("extract", dtype, (v,), (("index", place),)) for v in inner for place in range(3))


_SPECIAL: dict[str, Callable[[DataType], Iterator[Node]]] = {
    "select": _select,
    "cast": _cast,
    "bitcast": _bitcast,
    "vector": _vector,
    "insert": _insert,
    "extract": _extract,
}
