"""Types and attributes of ops: a rule for each form of the op table.

A rule returns what is wrong with an op, or None; where one operand is to blame, the
operand and what is wrong with it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from . import arith
from .literals import Written
from .loops import bounds, inits
from .ops import OPS
from .program import AccessMode, Func, Op, Value
from .shapes import lacks_else
from .types import DataType

if TYPE_CHECKING:
    from .body_checker import BodyChecker

__all__ = ["RULES"]

_U32, _U64, _BOOL = DataType.U32, DataType.U64, DataType.BOOL
Problem = str | tuple[Value, str] | None
Rule = Callable[["BodyChecker", Op], Problem]


def _same(checker: BodyChecker, op: Op) -> Problem:
    operands, result = op.operands, op.results[0]
    dtype = result.type
    for operand in operands:
        if operand.type is not dtype:
            return operand, f"%{operand.name} is {operand.type}, not {dtype}"
    if not op.definition.accepts(dtype):
        return f"does not take {dtype}"
    return None


def _compare(checker: BodyChecker, op: Op) -> Problem:
    a, b = op.operands
    if a.type is not b.type:
        return a, f"%{a.name} is {a.type}, %{b.name} is {b.type}"
    if not op.definition.accepts(a.type):
        return f"does not take {a.type}"
    wanted = a.type.with_element(_BOOL)
    return None if op.results[0].type is wanted else f"gives {wanted}, not {op.results[0].type}"


def _select(checker: BodyChecker, op: Op) -> Problem:
    predicate, a, b = op.operands
    dtype = op.results[0].type
    if a.type is not dtype or b.type is not dtype:
        return a, f"%{a.name} is {a.type} and %{b.name} is {b.type}, where both are {dtype}"
    if predicate.type is not _BOOL and predicate.type is not dtype.with_element(_BOOL):
        return predicate, f"%{predicate.name} is {predicate.type}, not bool"
    return None


def _const(checker: BodyChecker, op: Op) -> Problem:
    dtype, value = op.results[0].type, op.attrs["value"]
    if not dtype.has_arithmetic or dtype.kind == "opaque":
        return f"no constant of {dtype} exists"
    lanes = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and len(value) != dtype.lanes:
        return f"{dtype} has {dtype.lanes} lanes, {len(value)} given"
    element = dtype.element
    low, high = (0, (1 << (element.bits or 0)) - 1) if element.is_float else arith.int_range(element)
    if any(type(lane) not in (int, Written) or not low <= lane <= high for lane in lanes):
        return f"the value does not fit in {element}"
    return None


def _spec(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["spec"]
    if isinstance(checker.owner, Func):
        return "a function has no spec constants; pass the value"
    spec = checker.owner.specs.get(name)
    if spec is None:
        message = f"program @{checker.owner.name} has no spec constant @{name}"
        maybe = checker.gaps.may_define(checker.owner, name)
        checker.unknown_name(op, message, name, checker.owner.specs, maybe)
        return None
    if checker.poisoned(spec.dtype):
        return None
    if op.results[0].type is not spec.dtype:
        return f"@{name} is {spec.dtype}, not {op.results[0].type}"
    return None


def _id(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "a function does not know its invocation; pass the id"
    return None if op.results[0].type is _U32 else "gives u32"


def _len(checker: BodyChecker, op: Op) -> Problem:
    if op.results[0].type not in (_U32, _U64):
        return "gives u32 or u64"
    return checker.access(op, reads=False, writes=False)


def _convert(checker: BodyChecker, op: Op) -> Problem:
    source, target = op.operands[0].type, op.results[0].type
    if not (source.has_arithmetic and target.has_arithmetic) or "opaque" in (
        source.element.kind,
        target.element.kind,
    ):
        return f"no conversion from {source} to {target} exists"
    if op.name == "bitcast":
        if source.bits != target.bits or source.element.is_bool or target.element.is_bool:
            return f"{source} and {target} have different sizes"
        return None
    return None if source.lanes == target.lanes else f"{source} and {target} have different shapes"


def _vector(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.results[0].type
    if not dtype.is_vec:
        return f"gives a vector, not {dtype}"
    wanted = 1 if op.definition.format == "splat" else dtype.lanes
    if len(op.operands) != wanted:
        return f"{dtype} takes {wanted} operands, {len(op.operands)} given"
    for operand in op.operands:
        if operand.type is not dtype.element:
            return operand, f"%{operand.name} is {operand.type}, not {dtype.element}"
    return None


def _lane(checker: BodyChecker, op: Op) -> Problem:
    vector = op.operands[-1].type
    if not vector.is_vec:
        return op.operands[-1], f"%{op.operands[-1].name} is {vector}, not a vector"
    if not 0 <= op.attrs["index"] < vector.lanes:
        return f"lane {op.attrs['index']} of {vector} does not exist"
    if op.definition.format == "extract":
        return None if op.results[0].type is vector.element else f"gives {vector.element}"
    if op.operands[0].type is not vector.element:
        return op.operands[0], f"%{op.operands[0].name} is {op.operands[0].type}, not {vector.element}"
    return None if op.results[0].type is vector else f"gives {vector}"


def _load(checker: BodyChecker, op: Op) -> Problem:
    return checker.access(op, True, False) or checker.element(op, op.results[0].type, op.operands[0])


def _store(checker: BodyChecker, op: Op) -> Problem:
    value, index = op.operands
    return checker.access(op, False, True) or checker.element(op, value.type, index)


def _atomic(checker: BodyChecker, op: Op) -> Problem:
    index, *values = op.operands
    dtype = op.results[0].type
    denied = checker.access(op, True, True)
    for value in values:
        if value.type is not dtype:
            return value, f"%{value.name} is {value.type}, not {dtype}"
    if dtype.is_vec or not op.definition.accepts(dtype) or dtype.bits not in (32, 64):
        return f"works on elements of 32 or 64 bits, not {dtype}"
    return denied or checker.element(op, dtype, index)


def _sync(checker: BodyChecker, op: Op) -> Problem:
    checker.has_sync = True
    return "not in a function" if isinstance(checker.owner, Func) else None


def _subgroup(checker: BodyChecker, op: Op) -> Problem:
    problem = _sync(checker, op)
    if problem:
        return problem
    form, value = op.definition.format, op.operands[0].type
    if form == "ballot":
        if op.results[0].type is not _U32:
            return f"gives u32, not {op.results[0].type}"
        return None if value is _BOOL else (op.operands[0], f"%{op.operands[0].name} is {value}, not bool")
    if op.results[0].type is not value:
        return op.operands[0], f"%{op.operands[0].name} is {value}, not {op.results[0].type}"
    if form == "shuffle":
        lane = op.operands[1]
        return None if lane.type is _U32 else (lane, f"%{lane.name} is {lane.type}, not u32")
    combine = op.attrs["combine"]
    taken = "bits" if combine in ("and", "or", "xor") else "num"
    if value.is_vec or not OPS["and" if taken == "bits" else "add"].accepts(value):
        return f"cannot combine {value} by {combine}"
    return None


def _for(checker: BodyChecker, op: Op) -> Problem:
    body = op.regions[0]
    problem = _bounds(op, body.args[0]) or _carried(op, body.args[1:], inits(op))
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _bounds(op: Op, counter: Value) -> Problem:
    if not counter.type.is_int:
        return f"the counter %{counter.name} is {counter.type}, not an integer"
    low, high = arith.int_range(counter.type)
    for bound, name in zip(bounds(op), ("lower bound", "upper bound", "step"), strict=True):
        if isinstance(bound, Value):
            if bound.type is not counter.type:
                return bound, f"the {name} %{bound.name} is {bound.type}, the counter {counter.type}"
        elif not low <= bound <= high:
            return f"the {name} {bound} does not fit in {counter.type}"
    step = bounds(op)[2]
    if isinstance(step, int) and step < 1:
        return f"the step is at least 1, not {step}"
    return None


def _carried(op: Op, args: tuple[Value, ...], initial: tuple[Value, ...]) -> Problem:
    if not len(args) == len(initial) == len(op.results):
        return f"{len(initial)} initial values, {len(args)} arguments and {len(op.results)} results"
    for arg, value, result in zip(args, initial, op.results, strict=True):
        if value.type is not arg.type:
            return value, f"%{arg.name} starts as {value.type}, but is {arg.type}"
        if result.type is not arg.type:
            return result, f"%{result.name} is {result.type}, but %{arg.name} is {arg.type}"
    return None


def _while(checker: BodyChecker, op: Op) -> Problem:
    condition, body = op.regions
    problem = _carried(op, condition.args, op.operands) or _carried(op, body.args, op.operands)
    checker.block(condition, (_BOOL,), op)
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _if(checker: BodyChecker, op: Op) -> Problem:
    condition = op.operands[0]
    gives = tuple(r.type for r in op.results)
    for block in op.regions:
        checker.block(block, None if lacks_else(op) else gives, op)
    if lacks_else(op):
        return "gives values, so it needs an else"
    return (
        None if condition.type is _BOOL else (condition, f"%{condition.name} is {condition.type}, not bool")
    )


def _region(checker: BodyChecker, op: Op) -> Problem:
    checker.block(op.regions[0], tuple(r.type for r in op.results), op)
    return None


def _call(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["callee"]
    func = checker.module.funcs.get(name)
    if func is None:
        maybe = checker.gaps.may_define(None, name)
        checker.unknown_name(op, f"there is no func @{name}", name, checker.module.funcs, maybe)
        return None
    given, params = tuple(v.type for v in op.operands), tuple(v.type for v in func.params)
    gives = tuple(v.type for v in op.results)
    if checker.poisoned(*params, *func.results) or checker.gaps.doubts(func):
        return None
    if given != params:
        return (
            f"@{name} takes ({', '.join(t.name for t in params)}), not ({', '.join(t.name for t in given)})"
        )
    if gives != func.results:
        return f"@{name} gives ({', '.join(t.name for t in func.results)})"
    return None


def _kernel(checker: BodyChecker, op: Op) -> Problem:
    from .kernel_rules import check_kernel

    if isinstance(checker.owner, Func):
        return "not in a function"
    if len(checker.owner.body.ops) != 1:
        return "stands alone in its program"
    missing = [name for name in op.attrs["buffers"] if name not in checker.buffers]
    for name in missing:
        message = f"program @{checker.owner.name} has no buffer @{name}"
        maybe = checker.gaps.may_define(checker.owner, name)
        checker.unknown_name(op, message, name, checker.buffers, maybe)
    if missing:
        return None
    given, params = op.attrs["buffers"], op.attrs["params"]
    check_kernel(op.name, given, params, checker.buffers, op.loc, checker.found, checker.gaps)
    kernel = op.definition.kernel
    assert kernel is not None
    for name, role in zip(op.attrs["buffers"], kernel.roles, strict=False):
        if role.access is AccessMode.READ:
            checker.read.add(name)
        else:
            checker.written.setdefault(name, op.loc)
    return None


def _nothing(checker: BodyChecker, op: Op) -> Problem:
    return None


def _trap(checker: BodyChecker, op: Op) -> Problem:
    return "not in a function" if isinstance(checker.owner, Func) else None


RULES: dict[str, Rule] = {
    **dict.fromkeys(("unary", "binary", "ternary"), _same),
    **dict.fromkeys(("splat", "vector"), _vector),
    **dict.fromkeys(("extract", "insert"), _lane),
    **dict.fromkeys(("id", "size"), _id),
    **dict.fromkeys(("shuffle", "reduce", "scan", "ballot"), _subgroup),
    **dict.fromkeys(("yield", "condition"), _nothing),  # checked at the end of their block
    "const": _const,
    "spec": _spec,
    "len": _len,
    "compare": _compare,
    "select": _select,
    "convert": _convert,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "barrier": _sync,
    "for": _for,
    "while": _while,
    "if": _if,
    "region": _region,
    "call": _call,
    "trap": _trap,
    "kernel": _kernel,
}
