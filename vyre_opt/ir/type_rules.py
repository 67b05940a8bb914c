"""One walk over a body: dominance, types, attributes, buffer access.

Each form of the op table has a rule here; a rule returns what is wrong, or None.
"""

from __future__ import annotations

from collections.abc import Callable

from . import arith
from .diagnostics import Diagnostic, Location, suggest
from .loops import bounds, inits
from .ops import FASTMATH, OPS
from .program import Access, Block, Buffer, Func, Module, Op, Program, Value
from .types import DataType

_U32, _U64, _BOOL = DataType.U32, DataType.U64, DataType.BOOL
Rule = Callable[["BodyChecker", Op], str | None]


class BodyChecker:
    """Checks one body.  `written` and `read` name the buffers its ops touch, with a place."""

    def __init__(self, module: Module, owner: Program | Func, found: list[Diagnostic]) -> None:
        self.module = module
        self.owner = owner
        self.found = found
        self.buffers: dict[str, Buffer] = owner.buffers if isinstance(owner, Program) else {}
        self.written: dict[str, Location | None] = {}
        self.read: set[str] = set()
        self.has_sync = False
        self.visible: set[Value] = set()

    def error(self, op: Op, message: str, loc: Location | None = None, help: str | None = None) -> Diagnostic:
        made = Diagnostic("error", message, loc or op.loc, help=help)
        self.found.append(made)
        return made

    def run(self, body: Block) -> None:
        results = self.owner.results if isinstance(self.owner, Func) else ()
        self.block(body, tuple(results), None)

    # --- blocks -----------------------------------------------------------------------

    def block(self, block: Block, gives: tuple[DataType, ...], owner: Op | None) -> None:
        """Check a block that ends in a yield of `gives` (none needed if empty)."""
        visible = self.visible
        visible.update(block.args)
        last = len(block.ops) - 1
        for place, op in enumerate(block.ops):
            for operand in op.operands:
                if operand not in visible:
                    self.undefined(op, operand)
            row = op.definition
            if row.is_terminator:
                if place != last:
                    self.error(op, f"{op.name} ends a block, but ops follow it")
            rule = _RULES[row.form]
            problem = rule(self, op)
            if problem is not None:
                self.error(op, f"{op.name}: {problem}")
            if op.attrs and "fastmath" in op.attrs and not set(op.attrs["fastmath"]) <= set(FASTMATH):
                self.error(op, f"{op.name}: unknown fastmath flag")
            results = op.results
            if len(results) == 1 and results[0] not in visible:
                visible.add(results[0])
            else:
                for result in results:
                    if result in visible:
                        self.error(op, f"%{result.name} is defined twice")
                    visible.add(result)
        self.ending(block, gives, owner)
        if owner is not None:
            visible.difference_update(block.args)
            for op in block.ops:
                visible.difference_update(op.results)

    def undefined(self, op: Op, operand: Value) -> None:
        where = op.loc.find(f"%{operand.name}") if op.loc else None
        made = self.error(op, f"%{operand.name} does not dominate this use", where)
        if isinstance(operand.owner, Op):
            made.note("it is defined here", operand.owner.loc)
        made.help = "give the value out of its block with yield"

    def ending(self, block: Block, gives: tuple[DataType, ...], owner: Op | None) -> None:
        end = block.terminator
        wanted = "condition" if owner is not None and block is owner.regions[0] and owner.name == "while" else "yield"
        if end is None:
            if gives:
                what = f"this {owner.name}" if owner else "the function"
                loc = owner.loc if owner else self.owner.loc
                needs = f"a condition %c : bool" if wanted == "condition" else f"a yield of {len(gives)} values"
                self.found.append(Diagnostic("error", f"{what} has a block that does not end in {needs}", loc))
            return
        if owner is None and isinstance(self.owner, Program):
            self.error(end, f"{end.name} outside of a block that gives values")
            return
        if end.name != wanted:
            self.error(end, f"this block ends in {wanted}, not {end.name}")
            return
        if len(end.operands) != len(gives):
            self.error(end, f"{end.name} gives {len(end.operands)} values where {len(gives)} are wanted")
            return
        for value, dtype in zip(end.operands, gives, strict=True):
            if value.type is not dtype:
                self.error(end, f"%{value.name} is {value.type} where {dtype} is wanted")

    # --- buffers ------------------------------------------------------------------------

    def access(self, op: Op, reads: bool, writes: bool) -> str | None:
        name = op.attrs["buffer"]
        buffer = self.buffers.get(name)
        if buffer is None:
            if isinstance(self.owner, Func):
                return "a function cannot touch buffers"
            where = op.loc.find(f"@{name}") if op.loc else None
            message = f"program @{self.owner.name} has no buffer @{name}"
            self.error(op, message, where, suggest(name, self.buffers, "@"))
            return None
        if reads:
            self.read.add(name)
            if buffer.access is Access.WRITE:
                self.denied(op, buffer, "read", "write-only")
        if writes:
            self.written.setdefault(name, op.loc)
            if buffer.access is Access.READ:
                self.denied(op, buffer, "written", "read-only")
        return None

    def denied(self, op: Op, buffer: Buffer, verb: str, mode: str) -> None:
        where = op.loc.find(f"@{buffer.name}") if op.loc else None
        made = self.error(op, f"@{buffer.name} is {verb} here, but it is {mode}", where, "declare it read_write")
        made.note(f"@{buffer.name} is declared here", buffer.loc)

    def element(self, op: Op, dtype: DataType, index: Value) -> str | None:
        """The value moved is an element of the buffer, or a vector of them; the index is an integer."""
        buffer = self.buffers.get(op.attrs["buffer"])
        if not index.type.is_int:
            return f"the index %{index.name} is {index.type}, not an integer"
        if buffer is None:
            return None
        if buffer.dtype.size_bytes is None:
            return f"elements of {buffer.dtype} cannot be moved one by one"
        if dtype is not buffer.dtype and not (dtype.is_vec and dtype.element is buffer.dtype):
            return f"@{buffer.name} holds {buffer.dtype}, not {dtype}"
        return None


# --- rules by form


def _same(checker: BodyChecker, op: Op) -> str | None:
    operands, result = op.operands, op.results[0]
    dtype = result.type
    for operand in operands:
        if operand.type is not dtype:
            return f"%{operand.name} is {operand.type}, not {dtype}"
    if not op.definition.accepts(dtype):
        return f"does not take {dtype}"
    return None


def _compare(checker: BodyChecker, op: Op) -> str | None:
    a, b = op.operands
    if a.type is not b.type:
        return f"%{a.name} is {a.type}, %{b.name} is {b.type}"
    if not op.definition.accepts(a.type):
        return f"does not take {a.type}"
    wanted = a.type.with_element(_BOOL)
    return None if op.results[0].type is wanted else f"gives {wanted}, not {op.results[0].type}"


def _select(checker: BodyChecker, op: Op) -> str | None:
    predicate, a, b = op.operands
    dtype = op.results[0].type
    if a.type is not dtype or b.type is not dtype:
        return f"%{a.name} is {a.type} and %{b.name} is {b.type}, where both are {dtype}"
    if predicate.type is not _BOOL and predicate.type is not dtype.with_element(_BOOL):
        return f"%{predicate.name} is {predicate.type}, not bool"
    return None


def _const(checker: BodyChecker, op: Op) -> str | None:
    dtype, value = op.results[0].type, op.attrs["value"]
    if not dtype.has_arithmetic or dtype.kind == "opaque":
        return f"no constant of {dtype} exists"
    lanes = value if isinstance(value, tuple) else (value,)
    if isinstance(value, tuple) and len(value) != dtype.lanes:
        return f"{dtype} has {dtype.lanes} lanes, {len(value)} given"
    element = dtype.element
    low, high = (0, (1 << (element.bits or 0)) - 1) if element.is_float else arith.int_range(element)
    if any(type(lane) is not int or not low <= lane <= high for lane in lanes):
        return f"the value does not fit in {element}"
    return None


def _spec(checker: BodyChecker, op: Op) -> str | None:
    name = op.attrs["spec"]
    if isinstance(checker.owner, Func):
        return "a function has no spec constants; pass the value"
    spec = checker.owner.specs.get(name)
    if spec is None:
        where = op.loc.find(f"@{name}") if op.loc else None
        message = f"program @{checker.owner.name} has no spec constant @{name}"
        checker.error(op, message, where, suggest(name, checker.owner.specs, "@"))
        return None
    if op.results[0].type is not spec.dtype:
        return f"@{name} is {spec.dtype}, not {op.results[0].type}"
    return None


def _id(checker: BodyChecker, op: Op) -> str | None:
    if isinstance(checker.owner, Func):
        return "a function does not know its invocation; pass the id"
    return None if op.results[0].type is _U32 else "gives u32"


def _len(checker: BodyChecker, op: Op) -> str | None:
    if op.results[0].type not in (_U32, _U64):
        return "gives u32 or u64"
    problem = checker.access(op, reads=False, writes=False)
    return problem


def _convert(checker: BodyChecker, op: Op) -> str | None:
    source, target = op.operands[0].type, op.results[0].type
    if not (source.has_arithmetic and target.has_arithmetic) or "opaque" in (source.element.kind, target.element.kind):
        return f"no conversion from {source} to {target} exists"
    if op.name == "bitcast":
        if source.bits != target.bits or source.element.is_bool or target.element.is_bool:
            return f"{source} and {target} have different sizes"
        return None
    return None if source.lanes == target.lanes else f"{source} and {target} have different shapes"


def _vector(checker: BodyChecker, op: Op) -> str | None:
    dtype = op.results[0].type
    if not dtype.is_vec:
        return f"gives a vector, not {dtype}"
    wanted = 1 if op.definition.form == "splat" else dtype.lanes
    if len(op.operands) != wanted:
        return f"{dtype} takes {wanted} operands, {len(op.operands)} given"
    for operand in op.operands:
        if operand.type is not dtype.element:
            return f"%{operand.name} is {operand.type}, not {dtype.element}"
    return None


def _lane(checker: BodyChecker, op: Op) -> str | None:
    vector = op.operands[-1].type
    if not vector.is_vec:
        return f"%{op.operands[-1].name} is {vector}, not a vector"
    if not 0 <= op.attrs["index"] < vector.lanes:
        return f"lane {op.attrs['index']} of {vector} does not exist"
    if op.definition.form == "extract":
        return None if op.results[0].type is vector.element else f"gives {vector.element}"
    if op.operands[0].type is not vector.element:
        return f"%{op.operands[0].name} is {op.operands[0].type}, not {vector.element}"
    return None if op.results[0].type is vector else f"gives {vector}"


def _load(checker: BodyChecker, op: Op) -> str | None:
    return checker.access(op, True, False) or checker.element(op, op.results[0].type, op.operands[0])


def _store(checker: BodyChecker, op: Op) -> str | None:
    value, index = op.operands
    return checker.access(op, False, True) or checker.element(op, value.type, index)


def _atomic(checker: BodyChecker, op: Op) -> str | None:
    index, *values = op.operands
    dtype = op.results[0].type
    for value in values:
        if value.type is not dtype:
            return f"%{value.name} is {value.type}, not {dtype}"
    if dtype.is_vec or not op.definition.accepts(dtype) or dtype.bits not in (32, 64):
        return f"works on elements of 32 or 64 bits, not {dtype}"
    return checker.access(op, True, True) or checker.element(op, dtype, index)


def _sync(checker: BodyChecker, op: Op) -> str | None:
    checker.has_sync = True
    return "not in a function" if isinstance(checker.owner, Func) else None


def _subgroup(checker: BodyChecker, op: Op) -> str | None:
    problem = _sync(checker, op)
    if problem:
        return problem
    form, value = op.definition.form, op.operands[0].type
    if form == "ballot":
        return None if value is _BOOL else f"%{op.operands[0].name} is {value}, not bool"
    if op.results[0].type is not value:
        return f"%{op.operands[0].name} is {value}, not {op.results[0].type}"
    if form == "shuffle":
        lane = op.operands[1]
        return None if lane.type is _U32 else f"%{lane.name} is {lane.type}, not u32"
    combine = op.attrs["combine"]
    taken = "bits" if combine in ("and", "or", "xor") else "num"
    if value.is_vec or not OPS["and" if taken == "bits" else "add"].accepts(value):
        return f"cannot combine {value} by {combine}"
    return None


def _for(checker: BodyChecker, op: Op) -> str | None:
    body = op.regions[0]
    counter = body.args[0]
    if not counter.type.is_int:
        return f"the counter %{counter.name} is {counter.type}, not an integer"
    low, high = arith.int_range(counter.type)
    for bound, name in zip(bounds(op), ("lower bound", "upper bound", "step"), strict=True):
        if isinstance(bound, Value):
            if bound.type is not counter.type:
                return f"the {name} %{bound.name} is {bound.type}, the counter {counter.type}"
        elif not low <= bound <= high:
            return f"the {name} {bound} does not fit in {counter.type}"
    step = bounds(op)[2]
    if isinstance(step, int) and step < 1:
        return f"the step is at least 1, not {step}"
    problem = _carried(op, body.args[1:], inits(op))
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _carried(op: Op, args: tuple[Value, ...], initial: tuple[Value, ...]) -> str | None:
    if not len(args) == len(initial) == len(op.results):
        return f"{len(initial)} initial values, {len(args)} arguments and {len(op.results)} results"
    for arg, value, result in zip(args, initial, op.results, strict=True):
        if value.type is not arg.type:
            return f"%{arg.name} starts as {value.type}, but is {arg.type}"
        if result.type is not arg.type:
            return f"%{result.name} is {result.type}, but %{arg.name} is {arg.type}"
    return None


def _while(checker: BodyChecker, op: Op) -> str | None:
    condition, body = op.regions
    problem = _carried(op, condition.args, op.operands) or _carried(op, body.args, op.operands)
    checker.block(condition, (_BOOL,), op)
    checker.block(body, tuple(r.type for r in op.results), op)
    return problem


def _if(checker: BodyChecker, op: Op) -> str | None:
    condition = op.operands[0]
    gives = tuple(r.type for r in op.results)
    for block in op.regions:
        checker.block(block, gives, op)
    if gives and len(op.regions) < 2:
        return "gives values, so it needs an else"
    return None if condition.type is _BOOL else f"%{condition.name} is {condition.type}, not bool"


def _region(checker: BodyChecker, op: Op) -> str | None:
    checker.block(op.regions[0], tuple(r.type for r in op.results), op)
    return None


def _call(checker: BodyChecker, op: Op) -> str | None:
    name = op.attrs["callee"]
    func = checker.module.funcs.get(name)
    if func is None:
        where = op.loc.find(f"@{name}") if op.loc else None
        checker.error(op, f"there is no func @{name}", where, suggest(name, checker.module.funcs, "@"))
        return None
    given, params = tuple(v.type for v in op.operands), tuple(v.type for v in func.params)
    if given != params:
        return f"@{name} takes ({', '.join(t.name for t in params)}), not ({', '.join(t.name for t in given)})"
    if tuple(v.type for v in op.results) != func.results:
        return f"@{name} gives ({', '.join(t.name for t in func.results)})"
    return None


def _kernel(checker: BodyChecker, op: Op) -> str | None:
    from .kernel_rules import check_kernel

    if isinstance(checker.owner, Func):
        return "not in a function"
    if len(checker.owner.body.ops) != 1:
        return "stands alone in its program"
    missing = [name for name in op.attrs["buffers"] if name not in checker.buffers]
    if missing:
        return f"program @{checker.owner.name} has no buffer @{missing[0]}"
    params = op.attrs["params"]
    check_kernel(op.name, op.attrs["buffers"], params, checker.buffers, op.loc, checker.found)
    kernel = op.definition.kernel
    assert kernel is not None
    for name, role in zip(op.attrs["buffers"], kernel.roles, strict=False):
        if role.access is Access.READ:
            checker.read.add(name)
        else:
            checker.written.setdefault(name, op.loc)
    return None


def _nothing(checker: BodyChecker, op: Op) -> str | None:
    return None


def _trap(checker: BodyChecker, op: Op) -> str | None:
    return "not in a function" if isinstance(checker.owner, Func) else None


_RULES: dict[str, Rule] = {
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
