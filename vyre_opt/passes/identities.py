"""The algebra that canonicalize knows: rules of one op each, by the op's name.

A rule answers with a value that its op always equals, with True once it has made
the op a simpler one in place, or with None.  No rule makes an op dearer, none holds
only nearly: float rules keep infinities, NaN and the sign of zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from ..ir import arith
from ..ir.ops import OPS
from ..ir.program import Op, Program, Value
from ..ir.types import DataType
from .rewrite import become, constant, constant_value

__all__ = ["RULES", "Site"]


class Site:
    """Where a rule applies: new ops go to `out`, in front of the op."""

    def __init__(self) -> None:
        self.out: list[Op] = []
        self.program: Program | None = None

    def const(self, value: int, dtype: DataType, like: Op) -> Value:
        """A new constant, in all lanes of a vector type."""
        made = constant(value, dtype, f"c{value}" if dtype.is_int and value >= 0 else "c", like)
        self.out.append(made)
        return made.result


Rule = Callable[[Op, Site], Value | bool | None]
RULES: dict[str, list[Rule]] = {}
_Constant = Callable[[DataType], int]


def _rule(*names: str) -> Callable[[Rule], Rule]:
    """Decorator: apply the rule to these ops, after those declared before it."""

    def add(rule: Rule) -> Rule:
        for name in names:
            RULES.setdefault(name, []).append(rule)
        return rule

    return add


def _scalar(value: Value) -> int | None:
    """The encoded constant that every lane of `value` is."""
    known = constant_value(value)
    return known if isinstance(known, int) else None


def _defined_by(value: Value, *names: str) -> Op | None:
    owner = value.owner
    return owner if isinstance(owner, Op) and owner.name in names else None


def _set(op: Op, value: int) -> bool:
    """Make `op` a constant."""
    become(op, "const", (), {"value": value})
    return True


# --- constants of a type, by what they do


def _zero(t: DataType) -> int:
    return 0


def _one(t: DataType) -> int:
    return 1


def _ones(t: DataType) -> int:
    return arith.wrap(-1, t)


def _least(t: DataType) -> int:
    return arith.int_range(t)[0]


def _most(t: DataType) -> int:
    return arith.int_range(t)[1]


# x op c = x, in integers and bools.  x/0 = x by definition.
_NEUTRAL: dict[str, tuple[_Constant, ...]] = {
    **dict.fromkeys(("add", "sub", "or", "xor", "add_sat", "sub_sat"), (_zero,)),
    **dict.fromkeys(("shl", "shr", "rotl", "rotr"), (_zero,)),
    **dict.fromkeys(("mul", "mul_sat"), (_one,)),
    "div": (_one, _zero),
    "and": (_ones,),
    "min": (_most,),
    "max": (_least,),
}

# x op c = d, in integers and bools: (c, d).  x%0 = 0 by definition.
_ABSORBING: dict[str, tuple[tuple[_Constant, _Constant], ...]] = {
    **dict.fromkeys(("mul", "mul_hi", "mul_sat", "and"), ((_zero, _zero),)),
    "rem": ((_one, _zero), (_zero, _zero)),
    "or": ((_ones, _ones),),
    "min": ((_least, _least),),
    "max": ((_most, _most),),
}

# x op x = x, x op x = 0, 0 op x = 0
_IDEMPOTENT = ("and", "or", "min", "max")
_CANCELLING = ("sub", "xor", "abs_diff", "sub_sat", "rem")
_ZERO_LEFT = ("div", "rem", "shl", "shr", "rotl", "rotr")

# (x op c) op d = x op (c op d), in integers and bools
_ASSOCIATIVE = ("add", "mul", "and", "or", "xor", "min", "max")

# x op c = x, in floats: the signs of the zeros matter
_FLOAT_NEUTRAL = {"mul": 1.0, "div": 1.0, "add": -0.0, "sub": 0.0}

# a op b = b op' a; not (a op b) = a op' b
_MIRRORED = {"lt": "gt", "gt": "lt", "le": "ge", "ge": "le"}
_NEGATED = {"eq": "ne", "ne": "eq", "lt": "ge", "ge": "lt", "gt": "le", "le": "gt"}


@_rule(*(name for name, row in OPS.items() if row.commutative), *_MIRRORED)
def _constant_right(op: Op, site: Site) -> Value | bool | None:
    """c op x = x op c."""
    a, b = op.operands
    if constant_value(a) is None or constant_value(b) is not None:
        return None
    become(op, _MIRRORED.get(op.name, op.name), (b, a), op.attrs)
    return True


@_rule(*{*_NEUTRAL, *_ABSORBING} & OPS.keys())
def _int_constant(op: Op, site: Site) -> Value | bool | None:
    """x op c, by the tables."""
    element = op.result.type.element
    known = None if element.is_float else _scalar(op.operands[1])
    if known is None:
        return None
    if any(known == c(element) for c in _NEUTRAL.get(op.name, ())):
        return op.operands[0]
    for c, d in _ABSORBING.get(op.name, ()):
        if known == c(element):
            return _set(op, d(element))
    return None


@_rule(*_ZERO_LEFT)
def _int_zero_left(op: Op, site: Site) -> Value | bool | None:
    """0 op x = 0; for division 0/0 = 0 by definition."""
    is_zero = not op.result.type.element.is_float and _scalar(op.operands[0]) == 0
    return op.operands[0] if is_zero else None


@_rule(*_IDEMPOTENT)
def _same_twice(op: Op, site: Site) -> Value | bool | None:
    """x op x = x, with floats too."""
    return op.operands[0] if op.operands[0] is op.operands[1] else None


@_rule(*_CANCELLING)
def _cancelling(op: Op, site: Site) -> Value | bool | None:
    """x op x = 0, not with floats, where it may be NaN."""
    if op.result.type.element.is_float or op.operands[0] is not op.operands[1]:
        return None
    return _set(op, 0)


@_rule(*_FLOAT_NEUTRAL)
def _float_neutral(op: Op, site: Site) -> Value | bool | None:
    """x * 1.0 = x / 1.0 = x + -0.0 = x - 0.0 = x."""
    t = op.result.type.element
    if not t.is_float or _scalar(op.operands[1]) != arith.encode_float(_FLOAT_NEUTRAL[op.name], t):
        return None
    return op.operands[0]


@_rule("mul", "div", "rem")
def _minus_one(op: Op, site: Site) -> Value | bool | None:
    """x * -1 = x / -1 = -x, as INT_MIN / -1 = -INT_MIN = INT_MIN; x % -1 = 0 with signed integers."""
    t = op.result.type.element
    minus = arith.encode_float(-1.0, t) if t.is_float else -1
    if _scalar(op.operands[1]) != minus or (op.name == "rem" and t.is_float):
        return None
    if op.name == "rem":
        return _set(op, 0)
    become(op, "neg", op.operands[:1])
    return True


@_rule("div")
def _float_reciprocal(op: Op, site: Site) -> Value | bool | None:
    """x / 2^k = x * 2^-k, as both round the same exact value."""
    t, known = op.result.type.element, _scalar(op.operands[1])
    if not t.is_float or known is None:
        return None
    divisor = arith.decode_float(known, t)
    if divisor == 0.0 or not math.isfinite(divisor) or abs(math.frexp(divisor)[0]) != 0.5:
        return None
    inverse = arith.encode_float(1.0 / divisor, t)
    if 1.0 / arith.decode_float(inverse, t) != divisor or not _is_normal(inverse, t):
        return None
    become(op, "mul", (op.operands[0], site.const(inverse, op.result.type, op)), op.attrs)
    return True


def _is_normal(bits: int, t: DataType) -> bool:
    fraction = {"f16": 10, "bf16": 7, "f32": 23, "f64": 52}[t.name]
    return (bits & ~(1 << ((t.bits or 0) - 1))) >> fraction != 0


@_rule("mul", "div", "rem")
def _power_of_two(op: Op, site: Site) -> Value | bool | None:
    """Unsigned: x * 2^k = x << k, x / 2^k = x >> k, x % 2^k = x & (2^k - 1)."""
    dtype, known = op.result.type, _scalar(op.operands[1])
    if dtype.element.kind != "uint" or known is None or known < 2 or known & (known - 1):
        return None
    name, amount = {
        "mul": ("shl", known.bit_length() - 1),
        "div": ("shr", known.bit_length() - 1),
        "rem": ("and", known - 1),
    }[op.name]
    become(op, name, (op.operands[0], site.const(amount, dtype, op)))
    return True


@_rule("sub")
def _sub_constant(op: Op, site: Site) -> Value | bool | None:
    """Signed: x - c = x + -c.  An unsigned -c would be a huge offset, which proves nothing."""
    dtype, known = op.result.type, _scalar(op.operands[1])
    if not dtype.element.is_signed or known is None:
        return None
    negated = arith.wrap(-known, dtype.element)
    become(op, "add", (op.operands[0], site.const(negated, dtype, op)))
    return True


@_rule(*_ASSOCIATIVE)
def _associative(op: Op, site: Site) -> Value | bool | None:
    """(x op c) op d = x op (c op d), not with floats."""
    dtype, known, inner = op.result.type, _scalar(op.operands[1]), _defined_by(op.operands[0], op.name)
    if dtype.element.is_float or known is None or inner is None:
        return None
    first, fold = _scalar(inner.operands[1]), op.definition.fold_int
    if first is None or fold is None:
        return None
    both = arith.wrap(fold(first, known, dtype.element), dtype.element)
    become(op, op.name, (inner.operands[0], site.const(both, dtype, op)))
    return True


@_rule("xor")
def _complement(op: Op, site: Site) -> Value | bool | None:
    """x ^ ~0 = ~x."""
    if _scalar(op.operands[1]) != _ones(op.result.type.element):
        return None
    become(op, "not", op.operands[:1])
    return True


@_rule("not", "neg")
def _involution(op: Op, site: Site) -> Value | bool | None:
    """not not x = x; neg neg x = x."""
    inner = _defined_by(op.operands[0], op.name)
    return inner.operands[0] if inner else None


@_rule("not")
def _negated_compare(op: Op, site: Site) -> Value | bool | None:
    """not (a < b) = (a >= b), and so on; with floats only for eq and ne, because of NaN."""
    inner = _defined_by(op.operands[0], *_NEGATED)
    if inner is None or (inner.operands[0].type.element.is_float and inner.name not in ("eq", "ne")):
        return None
    become(op, _NEGATED[inner.name], inner.operands)
    return True


@_rule("abs")
def _abs(op: Op, site: Site) -> Value | bool | None:
    """|x| = x where x is unsigned, or is itself |y|."""
    operand = op.operands[0]
    return operand if operand.type.element.kind == "uint" or _defined_by(operand, "abs") else None


# --- compare and select


@_rule("eq", "ne", "lt", "le", "gt", "ge")
def _compare_same(op: Op, site: Site) -> Value | bool | None:
    """x == x, x <= x, x >= x hold but for NaN; x < x and x > x never do."""
    a, b = op.operands
    if (
        a is not b
        or a.type.element.kind == "opaque"
        or (a.type.element.is_float and op.name not in ("lt", "gt"))
    ):
        return None
    return _set(op, int(op.name in ("eq", "le", "ge")))


@_rule("lt", "le", "gt", "ge")
def _compare_limit(op: Op, site: Site) -> Value | bool | None:
    """x < MIN and x > MAX never hold; x >= MIN and x <= MAX always do."""
    element, known = op.operands[0].type.element, _scalar(op.operands[1])
    if element.is_float or known is None:
        return None
    limit = _least(element) if op.name in ("lt", "ge") else _most(element)
    return _set(op, int(op.name in ("ge", "le"))) if known == limit else None


@_rule("eq", "ne")
def _compare_bool(op: Op, site: Site) -> Value | bool | None:
    """p == true is p, p == false is not p, and the reverse for !=."""
    known = _scalar(op.operands[1])
    if not op.operands[0].type.element.is_bool or known is None:
        return None
    if known == (op.name == "eq"):
        return op.operands[0]
    become(op, "not", op.operands[:1])
    return True


@_rule("select")
def _select(op: Op, site: Site) -> Value | bool | None:
    """select p, x, x = x; select p, true, false = p and its reverse not p; select not p, x, y = select p, y, x."""
    predicate, a, b = op.operands
    if a is b:
        return a
    if op.result.type is predicate.type and predicate.type.element.is_bool:
        arms = _scalar(a), _scalar(b)
        if arms == (1, 0):
            return predicate
        if arms == (0, 1):
            become(op, "not", (predicate,))
            return True
    inner = _defined_by(predicate, "not")
    if inner is None:
        return None
    become(op, "select", (inner.operands[0], b, a), op.attrs)
    return True


# --- casts


@_rule("cast", "bitcast")
def _cast_to_same(op: Op, site: Site) -> Value | bool | None:
    """A value as its own type is itself."""
    return op.operands[0] if op.operands[0].type is op.result.type else None


@_rule("bitcast")
def _bitcast_twice(op: Op, site: Site) -> Value | bool | None:
    """bitcast (bitcast x) = bitcast x."""
    inner = _defined_by(op.operands[0], "bitcast")
    if inner is None:
        return None
    become(op, "bitcast", inner.operands)
    return True


@_rule("cast")
def _cast_twice(op: Op, site: Site) -> Value | bool | None:
    """cast (cast x: A -> B) : B -> C  =  cast x: A -> C, where B loses nothing that C keeps."""
    inner = _defined_by(op.operands[0], "cast")
    if inner is None:
        return None
    a, b, c = (t.element for t in (inner.operands[0].type, inner.result.type, op.result.type))
    if not _is_exact_chain(a, b, c):
        return None
    become(op, "cast", inner.operands)
    return True


def _is_exact_chain(a: DataType, b: DataType, c: DataType) -> bool:
    if b.is_bool:
        return a.is_bool
    if _holds(b, a):
        # float -> int saturates where int -> int wraps, so these agree only within C's range
        return not (b.is_float and not a.is_float and c.is_int) or _holds(c, a)
    # integers modulo 2^bits: dropping bits in two steps is dropping them in one
    return a.is_int and b.is_int and c.is_int and (c.bits or 0) <= (b.bits or 0)


def _holds(wide: DataType, narrow: DataType) -> bool:
    """Whether each value of `narrow` is one of `wide`."""
    if wide is narrow:
        return True
    if narrow.is_float:
        return (narrow.name, wide.name) in _FLOAT_WITHIN
    low, high = arith.int_range(narrow)
    if wide.is_float:
        return max(-low, high + 1) <= 1 << _EXACT_INT_BITS[wide.name]
    least, most = arith.int_range(wide)
    return not wide.is_bool and least <= low and high <= most


_FLOAT_WITHIN = {("f16", "f32"), ("f16", "f64"), ("bf16", "f32"), ("bf16", "f64"), ("f32", "f64")}
_EXACT_INT_BITS = {"f16": 11, "bf16": 8, "f32": 24, "f64": 53}


# --- vectors


@_rule("extract")
def _extract(op: Op, site: Site) -> Value | bool | None:
    """A lane of a vector that was just put together is what was put there."""
    inner, lane = _defined_by(op.operands[0], "splat", "vector", "insert"), op.attrs["index"]
    if inner is None:
        return None
    if inner.name != "insert":
        return inner.operands[0 if inner.name == "splat" else lane]
    if inner.attrs["index"] == lane:
        return inner.operands[0]
    become(op, "extract", inner.operands[1:], op.attrs)
    return True


@_rule("insert")
def _insert_twice(op: Op, site: Site) -> Value | bool | None:
    """insert a, (insert b, v[i])[i] = insert a, v[i]."""
    inner = _defined_by(op.operands[1], "insert")
    if inner is None or inner.attrs["index"] != op.attrs["index"]:
        return None
    become(op, "insert", (op.operands[0], inner.operands[1]), op.attrs)
    return True


@_rule("vector")
def _equal_lanes(op: Op, site: Site) -> Value | bool | None:
    """vector x, x, ... = splat x."""
    if any(lane is not op.operands[0] for lane in op.operands):
        return None
    become(op, "splat", op.operands[:1])
    return True


# --- fma and ids


@_rule("fma")
def _fma(op: Op, site: Site) -> Value | bool | None:
    """fma x, 1.0, c = x + c; fma x, y, -0.0 = x * y."""
    t = op.result.type.element
    a, b, c = op.operands
    one = arith.encode_float(1.0, t)
    if _scalar(a) == one:
        a, b = b, a
    if _scalar(b) == one:
        become(op, "add", (a, c), op.attrs)
        return True
    if _scalar(c) == arith.encode_float(-0.0, t):
        become(op, "mul", (a, b), op.attrs)
        return True
    return None


@_rule("global_id")
def _global_id(op: Op, site: Site) -> Value | bool | None:
    """workgroup_id * size + local_id, where the grid or the workgroup has one along the axis."""
    program = site.program
    if program is None:
        return None
    axis = "xyz".index(op.attrs["axis"])
    if program.workgroup[axis] == 1:
        become(op, "workgroup_id", (), op.attrs)
        return True
    if program.grid is not None and program.grid[axis] == 1:
        become(op, "local_id", (), op.attrs)
        return True
    return None
