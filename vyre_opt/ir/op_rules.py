"""The rule of each op format: what must hold of an op that has the right number of parts.

A rule gives the first problem of an op, and checks the blocks of one that has any.
"""

from __future__ import annotations

from collections.abc import Iterable

from . import arith
from .body_checker import BodyChecker, OpRule, Problem
from .formats import MAX_PENDING, lacks_else, mask_type, no_mask, sum_type
from .kernel_rules import check_kernel
from .literals import Written
from .loops import bounds, inits
from .ops import NAMED_KERNELS, OPS, SUBGROUP_SIZE
from .print_format import MAX_OPERANDS, Directive, FormatError, parse_format, why_not, wrong_count
from .program import AccessMode, Func, Op, Value
from .types import MATRIX_USES, DataType, TypeNameError

__all__ = ["OP_RULES"]

_U32, _U64, _BOOL = DataType.U32, DataType.U64, DataType.BOOL


# --- what several formats share -----------------------------------------------------------


def _mismatch(values: Iterable[Value], dtype: DataType) -> Problem:
    """The first of `values` that is not of type `dtype`."""
    for value in values:
        if value.type is not dtype:
            return value, f"{value} is {value.type}, not {dtype}"
    return None


# --- const, spec, param -------------------------------------------------------------------


def _check_const(checker: BodyChecker, op: Op) -> Problem:
    dtype, value = op.results[0].type, op.attrs["value"]
    if not dtype.has_arithmetic:
        return f"no constant of {dtype} exists"
    if dtype.is_slice:
        return f"no constant of {dtype} exists; write slice_broadcast of one of {dtype.element}"
    if dtype.is_matrix and isinstance(value, tuple):
        return f"a constant of {dtype} is one value for all elements"
    lanes = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and len(value) != dtype.lanes:
        return f"{dtype} has {dtype.lanes} lanes, {len(value)} given"
    element = dtype.element
    # a float is kept as its bit pattern
    low, high = (0, (1 << (element.bits or 0)) - 1) if element.is_float else arith.int_range(element)
    if any(type(lane) not in (int, Written) or not low <= lane <= high for lane in lanes):
        return f"the value does not fit in {element}"
    return None


def _check_spec(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["spec"]
    if isinstance(checker.owner, Func):
        return "a function has no spec constants; pass the value"
    spec = checker.owner.specs.get(name)
    if spec is None:
        message = f"program @{checker.owner.name} has no spec constant @{name}"
        checker.unknown_name(op, message, name, checker.owner.specs, checker.owner)
    elif op.results[0].type is not spec.dtype and not checker.poisoned(spec.dtype):
        return f"@{name} is {spec.dtype}, not {op.results[0].type}"
    return None


def _check_param(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["param"]
    if isinstance(checker.owner, Func):
        return "a function has no params; pass the value"
    param = checker.owner.params.get(name)
    if param is None:
        message = f"program @{checker.owner.name} has no param @{name}"
        checker.unknown_name(op, message, name, checker.owner.params, checker.owner)
    elif op.results[0].type is not param.dtype and not checker.poisoned(param.dtype):
        return f"@{name} is {param.dtype}, not {op.results[0].type}"
    return None


# --- id, size, len ------------------------------------------------------------------------


def _check_id(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "a function does not know its invocation; pass the id"
    return None if op.results[0].type is _U32 else "gives u32"


def _check_len(checker: BodyChecker, op: Op) -> Problem:
    if op.results[0].type not in (_U32, _U64):
        return "gives u32 or u64"
    return checker.access(op, reads=False, writes=False) or checker.dimension(op)


# --- unary, binary, ternary, compare, select ----------------------------------------------


def _check_same_type(checker: BodyChecker, op: Op) -> Problem:
    operands, result = op.operands, op.results[0]
    dtype = result.type
    for operand in operands:
        if operand.type is not dtype:
            return operand, f"{operand} is {operand.type}, not {dtype}"
    if not op.definition.accepts(dtype):
        return f"does not take {dtype}"
    return None


def _check_compare(checker: BodyChecker, op: Op) -> Problem:
    a, b = op.operands
    if a.type is not b.type:
        return a, f"{a} is {a.type}, {b} is {b.type}"
    if not op.definition.accepts(a.type):
        return f"does not take {a.type}"
    if a.type.is_matrix:
        return a, f"{a} is {a.type}, and there are no matrices of bools"
    dtype = a.type.with_element(_BOOL)
    return None if op.results[0].type is dtype else f"gives {dtype}, not {op.results[0].type}"


def _check_select(checker: BodyChecker, op: Op) -> Problem:
    predicate, a, b = op.operands
    dtype = op.results[0].type
    if a.type is not dtype or b.type is not dtype:
        wrong = b if a.type is dtype else a
        return wrong, f"{a} is {a.type} and {b} is {b.type}, where both are {dtype}"
    if predicate.type is not _BOOL and (dtype.is_matrix or predicate.type is not dtype.with_element(_BOOL)):
        return predicate, f"{predicate} is {predicate.type}, not bool"
    return None


# --- convert ------------------------------------------------------------------------------


def _check_convert(checker: BodyChecker, op: Op) -> Problem:
    source, target = op.operands[0].type, op.results[0].type
    if not (source.has_arithmetic and target.has_arithmetic):
        return f"no conversion from {source} to {target} exists"
    if source.extents != target.extents:
        return f"{source} and {target} have different shapes"
    if op.name == "bitcast":
        if source.is_slice and source.element.bits != target.element.bits:
            return f"{source} and {target} have different sizes"
        if source.bits != target.bits or source.element.is_bool or target.element.is_bool:
            return f"{source} and {target} have different sizes"
        return (
            "the lanes of a matrix are open, and so are its bits"
            if source.is_matrix or target.is_matrix
            else None
        )
    if source.is_matrix or target.is_matrix:
        return _check_matrix_cast(source, target)
    return None if source.lanes == target.lanes else f"{source} and {target} have different shapes"


def _check_matrix_cast(source: DataType, target: DataType) -> str | None:
    """Elements stay in their lanes, so a target has them at the same places in both types: sums of all types are alike, and
    factors of a width; those on the left, of 16 bits, are like sums."""
    if not (source.is_matrix and target.is_matrix) or source.shape != target.shape:
        return f"{source} and {target} have different shapes"
    from_sum = source.use == "acc" and (
        target.use == "acc" or (target.use == "a" and target.element.bits == 16)
    )
    if from_sum or (source.use == target.use and source.element.bits == target.element.bits):
        return None
    return f"no conversion from {source} to {target} exists; store it and load it again"


# --- splat, vector, extract, insert -------------------------------------------------------


def _check_vector(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.results[0].type
    if dtype.is_matrix and op.definition.format == "splat" and dtype.has_arithmetic:
        return _mismatch(op.operands, dtype.element)
    if dtype.is_matrix and op.definition.format == "splat":
        return f"gives no {dtype}, which has no arithmetic"
    if not dtype.is_vec:
        return f"gives a vector, not {dtype}"
    count = 1 if op.definition.format == "splat" else dtype.lanes
    if len(op.operands) != count:
        return f"{dtype} takes {count} operands, {len(op.operands)} given"
    return _mismatch(op.operands, dtype.element)


def _check_lane(checker: BodyChecker, op: Op) -> Problem:
    vector = op.operands[-1].type
    if not vector.is_vec:
        return op.operands[-1], f"%{op.operands[-1].name} is {vector}, not a vector"
    if not 0 <= op.attrs["index"] < vector.lanes:
        return f"lane {op.attrs['index']} of {vector} does not exist; the last one is {vector.lanes - 1}"
    dtype = vector.element if op.definition.format == "extract" else vector
    problem = _mismatch(op.operands[:-1], vector.element)  # the inserted elements
    return problem or (None if op.results[0].type is dtype else f"gives {dtype}")


# --- permute, movemask --------------------------------------------------------------------


def _check_permute(checker: BodyChecker, op: Op) -> Problem:
    """The table may have another number of lanes than the index, whose type is that of the result."""
    for value in op.operands:
        if not value.type.is_vec or value.type.element is not DataType.U8:
            return value, f"{value} is {value.type}, not a vector of u8"
    dtype = op.operands[1].type
    return None if op.results[0].type is dtype else f"gives {dtype}, not {op.results[0].type}"


def _check_movemask(checker: BodyChecker, op: Op) -> Problem:
    flags, result = op.operands[0], op.results[0].type
    dtype = mask_type(flags.type)
    if dtype is None:
        return flags, no_mask(flags.type)
    return None if result is dtype else f"gives {dtype}, not {result}"


# --- load, store, atomic ------------------------------------------------------------------


def _check_load(checker: BodyChecker, op: Op) -> Problem:
    return checker.access(op, True, False) or checker.element(op, op.results[0].type)


def _check_store(checker: BodyChecker, op: Op) -> Problem:
    problem = checker.access(op, False, True) or checker.element(op, op.operands[0].type)
    buffer = checker.buffers.get(op.attrs["buffer"])
    if problem is None and op.name == "copy_async" and buffer is not None and not buffer.is_workgroup:
        return f"copies to workgroup memory, and @{buffer.name} is in storage"
    return problem


def _check_atomic(checker: BodyChecker, op: Op) -> Problem:
    values = op.operands[-op.definition.atomic_values :]
    dtype = op.results[0].type
    denied = checker.access(op, True, True)
    if dtype.is_vec or not op.definition.accepts(dtype):
        denied = f"does not take {dtype}"
    return _mismatch(values, dtype) or denied or checker.element(op, dtype)


# --- copy_wait, barrier, shuffle, reduce, scan, ballot ------------------------------------


def _check_copy_wait(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "not in a function"
    pending = op.attrs["pending"]
    return (
        None if 0 <= pending <= MAX_PENDING else f"leaves 0 to {MAX_PENDING} groups of copies, not {pending}"
    )


def _check_sync(checker: BodyChecker, op: Op) -> Problem:
    checker.has_sync = True
    return "not in a function" if isinstance(checker.owner, Func) else None


def _check_subgroup(checker: BodyChecker, op: Op) -> Problem:
    problem = _check_sync(checker, op)
    if problem:
        return problem
    format, dtype = op.definition.format, op.results[0].type
    if format == "ballot":
        return _mismatch(op.operands, _BOOL) if dtype is _U32 else f"gives u32, not {dtype}"
    problem = _mismatch(op.operands[:1], dtype)
    if dtype.is_matrix:
        return "takes no matrix, of which it is open what a lane has"
    if dtype.is_slice:
        return f"combines values of invocations, not {dtype}; write slice_reduce or slice_scan"
    if problem or format == "shuffle":
        return problem or _mismatch(op.operands[1:], _U32)
    combine = op.attrs["combine"]
    # a combiner takes the types of the op of its kind: bits or numbers
    if dtype.is_vec or not OPS["and" if combine in ("and", "or", "xor") else "add"].accepts(dtype):
        return f"cannot combine {dtype} by {combine}"
    return None


# --- matrices -----------------------------------------------------------------------------


def _check_matrix_load(checker: BodyChecker, op: Op) -> Problem:
    return (
        _check_full_subgroups(checker)
        or checker.access(op, True, False)
        or checker.element(op, op.results[0].type)
    )


def _check_matrix_store(checker: BodyChecker, op: Op) -> Problem:
    problem = _check_full_subgroups(checker) or checker.access(op, False, True)
    buffer = checker.buffers.get(op.attrs["buffer"])
    if problem is None and buffer is not None and buffer.dimensions == 1:
        return f"@{buffer.name} has one dimension, in which a matrix has no rows of its own"
    return problem or checker.element(op, op.operands[0].type)


def _check_matrix_mul_add(checker: BodyChecker, op: Op) -> Problem:
    for value, use in zip(op.operands, MATRIX_USES, strict=True):
        if not value.type.is_matrix or value.type.use != use:
            return value, f"{value} is {value.type}, not a matrix of use {use}"
    a, b, c = (value.type for value in op.operands)
    if op.results[0].type is not c:
        return f"gives {c}, not {op.results[0].type}"
    if a.element is not b.element:
        return op.operands[1], f"{op.operands[1]} is of {b.element}, {op.operands[0]} of {a.element}"
    total = DataType.I32 if a.element.is_int else DataType.F32
    if c.element is not total:
        return op.operands[2], f"products of {a.element} are added in {total}, not {c.element}"
    (rows, depth), (b_rows, columns) = a.shape, b.shape
    if depth != b_rows or c.shape != (rows, columns):
        sizes = ", ".join(f"{r} x {k}" for r, k in (a.shape, b.shape, c.shape))
        return f"takes a of M x K, b of K x N and c of M x N, not {sizes}"
    return _check_full_subgroups(checker)


def _check_matrix_unpack(checker: BodyChecker, op: Op) -> Problem:
    return _check_unpacked(checker, op.operands[0], op.operands[0].type, op.results[0].type)


def _check_matrix_pack(checker: BodyChecker, op: Op) -> Problem:
    return _check_unpacked(checker, op.operands[0], op.results[0].type, op.operands[0].type)


def _check_unpacked(checker: BodyChecker, operand: Value, matrix: DataType, lanes: DataType) -> Problem:
    """A matrix of sums, and the vector of what a lane has of it."""
    if not matrix.is_matrix or matrix.use != "acc":
        problem = f"is of a matrix of use acc, not of {matrix}"
        return (operand, problem) if operand.type is matrix else problem
    expected = DataType.vec(matrix.element, matrix.lanes)
    if lanes is expected:
        return _check_full_subgroups(checker)
    problem = f"a lane has {expected} of {matrix}, not {lanes}"
    return (operand, problem) if operand.type is lanes else problem


def _check_full_subgroups(checker: BodyChecker) -> str | None:
    """Every lane of a subgroup holds a part of a matrix."""
    owner = checker.owner
    if isinstance(owner, Func):
        return "not in a function"
    checker.has_sync = True
    if owner.lanes % SUBGROUP_SIZE:
        return f"needs workgroups of whole subgroups of {SUBGROUP_SIZE}, not of {owner.lanes} invocations"
    return None


# --- slices -------------------------------------------------------------------------------


def _check_slice_access(checker: BodyChecker, op: Op) -> Problem:
    is_load = op.definition.format == "slice_load"
    dtype = op.results[0].type if is_load else op.operands[0].type
    denied = _check_workgroup_of_slices(checker) or checker.access(op, is_load, not is_load)
    if denied or not dtype.is_slice:
        return denied or f"moves a slice, not {dtype}"
    if is_load and op.attrs["edge"] == "filled":
        if None in dtype.extents:
            return f"an open extent ends where its dimension does, so nothing is beyond {dtype}"
        problem = _mismatch(op.operands[-1:], dtype.element)
        if problem:
            return problem
    buffer = checker.buffers.get(op.attrs["buffer"])
    if buffer is None or checker.holes.is_invalid(buffer):
        return None
    if len(dtype.extents) > buffer.dimensions:
        return f"{dtype} has {len(dtype.extents)} extents, @{buffer.name} one dimension"
    if dtype.element is not buffer.dtype:
        return f"@{buffer.name} holds {buffer.dtype}, not {dtype.element}"
    return checker.indices(op, buffer)


def _check_workgroup_of_slices(checker: BodyChecker) -> str | None:
    if isinstance(checker.owner, Func):
        return "not in a function"
    if checker.owner.lanes == 1:
        return None
    return (
        f"works for a whole workgroup, and @{checker.owner.name} says what each of {checker.owner.lanes} invocations does; "
        "write workgroup(1), and lower_slices gives it as many as are best"
    )


def _check_slice_broadcast(checker: BodyChecker, op: Op) -> Problem:
    value, dtype = op.operands[0], op.results[0].type
    problem = _check_workgroup_of_slices(checker)
    if problem:
        return problem
    if not dtype.is_slice:
        return f"gives a slice, not {dtype}"
    if value.type.element is not dtype.element or not (value.type.is_slice or value.type is dtype.element):
        return value, f"{value} is {value.type}, not of {dtype.element}"
    pairs = zip(reversed(value.type.extents), reversed(dtype.extents), strict=False)
    if len(value.type.extents) > len(dtype.extents) or any(a not in (1, b) for a, b in pairs):
        return (
            value,
            f"{value.type} does not broadcast to {dtype}: an extent is 1 or the same, from the last one on",
        )
    if (len(op.operands) == 2) != (None in dtype.extents):
        return "takes a slice that has the extents of the result if one of them is open, and no other"
    if len(op.operands) == 2 and op.operands[1].type.extents != dtype.extents:
        return op.operands[1], f"{op.operands[1]} is {op.operands[1].type}, without the extents of {dtype}"
    return None


def _check_slice_gather(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.results[0].type
    denied = _check_workgroup_of_slices(checker) or checker.access(op, True, False)
    if denied or not dtype.is_slice:
        return denied or f"gives a slice, not {dtype}"
    for index in op.operands:
        if not index.type.element.is_int or not (index.type.is_slice or index.type.is_int):
            return index, f"the index {index} is {index.type}, not an integer or a slice of integers"
        if index.type.is_slice and index.type.extents != dtype.extents:
            return index, f"{index} is {index.type}, without the extents of {dtype}"
    if not any(index.type.is_slice for index in op.operands):
        return "takes a slice among its indices; for one element write load"
    buffer = checker.buffers.get(op.attrs["buffer"])
    if buffer is None or checker.holes.is_invalid(buffer):
        return None
    if dtype.element is not buffer.dtype:
        return f"@{buffer.name} holds {buffer.dtype}, not {dtype.element}"
    return checker.number_of_indices(op, buffer)


def _check_slice_iota(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.results[0].type
    problem = _check_workgroup_of_slices(checker)
    if problem:
        return problem
    if not dtype.is_slice or not dtype.element.is_int:
        return f"gives a slice of integers, not {dtype}"
    if sum(extent != 1 for extent in dtype.extents) > 1:
        return f"counts along one extent, and {dtype} has two; write slice_broadcast of slice<{dtype.extents[0]}x1x{dtype.element}>"
    if len(op.operands) != 1 + (None in dtype.extents):
        return "takes where it starts, and its extent if that is open"
    return _mismatch(op.operands[:1], dtype.element) or _mismatch(op.operands[1:], _U32)


def _check_slice_transpose(checker: BodyChecker, op: Op) -> Problem:
    value, result = op.operands[0], op.results[0].type
    if len(value.type.extents) != 2:
        return value, f"{value} is {value.type}, not a block of two extents"
    transposed = DataType.slice(value.type.extents[::-1], value.type.element)
    return None if result is transposed else f"gives {transposed}, not {result}"


def _check_slice_dot(checker: BodyChecker, op: Op) -> Problem:
    a, b = (value.type for value in op.operands[:2])
    for value in op.operands[:2]:
        if len(value.type.extents) != 2 or None in value.type.extents or value.type.element.is_bool:
            return value, f"{value} is {value.type}, not a block of two fixed extents of numbers"
    if a.element is not b.element:
        return op.operands[1], f"{op.operands[1]} is of {b.element}, {op.operands[0]} of {a.element}"
    if a.extents[1] != b.extents[0]:
        return op.operands[1], f"has a of M x K and b of K x N, not {a} and {b}"
    try:
        product = DataType.slice((a.extents[0], b.extents[1]), sum_type(a.element))
    except TypeNameError as error:
        return f"a product of {a} and {b} is too large: {error}"
    for value in op.operands[2:]:
        if value.type is not product:
            return value, f"{value} is {value.type}, and products of these are added to {product}"
    return None if op.results[0].type is product else f"gives {product}, not {op.results[0].type}"


def _check_slice_axis(checker: BodyChecker, op: Op) -> Problem:
    value, axis, result = op.operands[0], op.attrs["axis"], op.results[0].type
    extents = value.type.extents
    if not value.type.is_slice:
        return value, f"{value} is {value.type}, not a slice"
    if not 0 <= axis < len(extents):
        axes = " or ".join(f"{value}[{each}]" for each in range(len(extents)))
        checker.error(op, f"{op.name}: {value.type} has no axis {axis}", help=f"write {axes}")
        return None
    if op.definition.format == "slice_len":
        return None if result is _U32 else f"gives u32, not {result}"
    combine = op.attrs["combine"]
    element = value.type.element
    if not OPS["and" if combine in ("and", "or", "xor") else "add"].accepts(element):
        return f"cannot combine {element} by {combine}"
    if op.definition.format == "slice_scan":
        return None if result is value.type else f"gives {value.type}, not {result}"
    dropped = extents[:axis] + extents[axis + 1 :]
    kept = (*extents[:axis], 1, *extents[axis + 1 :])
    allowed = [DataType.slice(kept, element), DataType.slice(dropped, element) if dropped else element]
    return None if result in allowed else f"gives {' or '.join(map(str, allowed[::-1]))}, not {result}"


# --- for, while ---------------------------------------------------------------------------


def _check_for(checker: BodyChecker, op: Op) -> Problem:
    body = op.regions[0]
    problem = _check_bounds(op, body.args[0]) or _check_iteration(op, body.args[1:], inits(op))
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _check_bounds(op: Op, counter: Value) -> Problem:
    if not counter.type.is_int:
        return f"the counter {counter} is {counter.type}, not an integer"
    low, high = arith.int_range(counter.type)
    step = bounds(op)[2]
    if isinstance(step, int) and step < 1:
        down = "; to count down, count up and subtract: sub %last, %k" if step < 0 else ""
        return f"the step is at least 1, not {step}{down}"
    for bound, name in zip(bounds(op), ("lower bound", "upper bound", "step"), strict=True):
        if isinstance(bound, Value):
            if bound.type is not counter.type:
                return bound, f"the {name} {bound} is {bound.type}, the counter {counter.type}"
        elif not low <= bound <= high:
            return f"the {name} {bound} does not fit in {counter.type}"
    return None


def _check_iteration(op: Op, args: tuple[Value, ...], initial: tuple[Value, ...]) -> Problem:
    if not len(args) == len(initial) == len(op.results):
        return f"{len(initial)} initial values, {len(args)} arguments and {len(op.results)} results"
    for arg, value, result in zip(args, initial, op.results, strict=True):
        if value.type is not arg.type:
            return value, f"{arg} starts as {value.type}, but is {arg.type}"
        if result.type is not arg.type:
            return result, f"{result} is {result.type}, but {arg} is {arg.type}"
    return None


def _check_while(checker: BodyChecker, op: Op) -> Problem:
    condition, body = op.regions
    problem = _check_iteration(op, condition.args, op.operands)
    problem = problem or _check_iteration(op, body.args, op.operands)
    checker.block(condition, (_BOOL,), op)
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


# --- if, region ---------------------------------------------------------------------------


def _check_if(checker: BodyChecker, op: Op) -> Problem:
    types = None if lacks_else(op) else tuple(r.type for r in op.results)
    for block in op.regions:
        checker.block(block, types, op)
    if types is not None:
        return _mismatch(op.operands, _BOOL)
    if not checker.is_consequence(op):
        help = "write } else { with a yield of its own behind its block"
        checker.error(op, "if: gives values, so it needs an else", help=help)
    return None


def _check_region(checker: BodyChecker, op: Op) -> Problem:
    checker.block(op.regions[0], tuple(r.type for r in op.results), op)
    return None


# --- yield, condition ---------------------------------------------------------------------


def _check_terminator(checker: BodyChecker, op: Op) -> Problem:
    return None  # checked at the end of its block, where the types are known


# --- call, trap, assert, debug_print, kernel ---------------------------------------------


def _check_call(checker: BodyChecker, op: Op) -> Problem:
    name = op.attrs["callee"]
    func = checker.module.funcs.get(name)
    if func is None:
        checker.unknown_name(op, f"there is no func @{name}", name, checker.module.funcs, None)
        return None
    args, params = tuple(v.type for v in op.operands), tuple(v.type for v in func.params)
    if checker.poisoned(*params, *func.results) or checker.holes.is_invalid(func):
        return None
    if args != params:
        return f"@{name} takes ({', '.join(t.name for t in params)}), not ({', '.join(t.name for t in args)})"
    if tuple(v.type for v in op.results) != func.results:
        return f"@{name} gives ({', '.join(t.name for t in func.results)})"
    return None


def _check_trap(checker: BodyChecker, op: Op) -> Problem:
    return "not in a function" if isinstance(checker.owner, Func) else None


def _check_assert(checker: BodyChecker, op: Op) -> Problem:
    return _check_trap(checker, op) or _mismatch(op.operands, _BOOL)


def _check_check_bounds(checker: BodyChecker, op: Op) -> Problem:
    dtype = op.operands[0].type
    if dtype not in (DataType.U32, DataType.U64):
        return op.operands[0], f"compares indices and lengths of u32 or u64, not {dtype}"
    return _check_trap(checker, op) or _mismatch(op.operands, dtype)


def _check_debug_print(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "not in a function"
    if len(op.operands) > MAX_OPERANDS:
        return f"takes up to {MAX_OPERANDS} operands, {len(op.operands)} given"
    try:
        directives = [part for part in parse_format(op.attrs["format"]) if isinstance(part, Directive)]
    except FormatError as error:
        where = op.loc.find(error.directive) if op.loc else None
        checker.error(op, f"debug_print: {error}", where, error.help)
        return None
    if len(directives) != len(op.operands):
        return wrong_count(len(directives), len(op.operands))
    for directive, value in zip(directives, op.operands, strict=True):
        if value.type.is_slice:
            return value, f"takes no {value.type}; print elements"
        if value.type.is_matrix:
            return value, f"takes no {value.type}, of which it is open what a lane has"
        problem = None if checker.poisoned(value.type) else why_not(directive, value.type)
        if problem is not None:
            message, help = problem
            where = op.loc.find(f"{value}") if op.loc else None
            checker.error(op, f"debug_print: {message}, and {value} is {value.type}", where, help)
    return None


def _check_kernel(checker: BodyChecker, op: Op) -> Problem:
    if isinstance(checker.owner, Func):
        return "not in a function"
    if len(checker.owner.body.ops) != 1:
        return "stands alone in its program"
    names = op.attrs["buffers"]
    missing = [name for name in names if name not in checker.buffers]
    for name in missing:
        message = f"program @{checker.owner.name} has no buffer @{name}"
        checker.unknown_name(op, message, name, checker.buffers, checker.owner)
    if missing:
        return None
    params, diagnostics = op.attrs["params"], checker.diagnostics
    check_kernel(op.name, names, params, checker.buffers, op.loc, diagnostics, checker.holes)
    # not strict: a wrong number of buffers has just been reported
    for name, role in zip(names, NAMED_KERNELS[op.name].roles, strict=False):
        if role.access is AccessMode.READ:
            checker.read.add(name)
        else:
            checker.written.setdefault(name, op.loc)
    return None


# --- the table ----------------------------------------------------------------------------

OP_RULES: dict[str, OpRule] = {
    "const": _check_const,
    "spec": _check_spec,
    "param": _check_param,
    "id": _check_id,
    "size": _check_id,
    "len": _check_len,
    "unary": _check_same_type,
    "binary": _check_same_type,
    "ternary": _check_same_type,
    "compare": _check_compare,
    "select": _check_select,
    "convert": _check_convert,
    "splat": _check_vector,
    "vector": _check_vector,
    "extract": _check_lane,
    "insert": _check_lane,
    "permute": _check_permute,
    "movemask": _check_movemask,
    "load": _check_load,
    "store": _check_store,
    "copy_wait": _check_copy_wait,
    "atomic": _check_atomic,
    "barrier": _check_sync,
    "shuffle": _check_subgroup,
    "reduce": _check_subgroup,
    "scan": _check_subgroup,
    "ballot": _check_subgroup,
    "matrix_load": _check_matrix_load,
    "matrix_store": _check_matrix_store,
    "matrix_mul_add": _check_matrix_mul_add,
    "matrix_unpack": _check_matrix_unpack,
    "matrix_pack": _check_matrix_pack,
    "slice_load": _check_slice_access,
    "slice_gather": _check_slice_gather,
    "slice_store": _check_slice_access,
    "slice_broadcast": _check_slice_broadcast,
    "slice_iota": _check_slice_iota,
    "slice_reduce": _check_slice_axis,
    "slice_scan": _check_slice_axis,
    "slice_transpose": _check_slice_transpose,
    "slice_dot": _check_slice_dot,
    "slice_len": _check_slice_axis,
    "for": _check_for,
    "while": _check_while,
    "if": _check_if,
    "region": _check_region,
    "yield": _check_terminator,
    "condition": _check_terminator,
    "call": _check_call,
    "trap": _check_trap,
    "assert": _check_assert,
    "check_bounds": _check_check_bounds,
    "debug_print": _check_debug_print,
    "breakpoint": _check_trap,
    "kernel": _check_kernel,
}
