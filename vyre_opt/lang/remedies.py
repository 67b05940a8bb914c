"""Remedies that are written out: the line of a mistake as it should be, and the elements of an array that a line means."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from ..ir.program import Op, Value
from ..ir.rewrite import constant_value
from ..ir.types import DataType
from .bindings import BufferView
from .emitter import type_of
from .inference import known
from .python_source import FunctionSource, Unsupported

__all__ = [
    "as_floats",
    "as_loop",
    "as_signed",
    "as_store",
    "as_where",
    "is_of_lanes",
    "corrected",
    "free_name",
    "lanes_of",
    "place_of",
    "product_text",
    "rank_of",
    "refuse_ellipsis",
    "statement_of",
    "with_indices",
]

MOST_SHOWN = 400
"""Characters of a statement that is written out, at most; of a longer one its changes are told."""
_LANES = ("global_id", "local_id")
_GROUPS = ("workgroup_id",)


def corrected(source: FunctionSource, changes: Mapping[ast.AST, str], within: ast.AST | None = None) -> str:
    """The statement that has some nodes, or the node `within`, with other texts for them; of one with a block its head.  Of a long one only
    what changes: `x[i] for x`."""
    node = within or statement_of(source, next(iter(changes)))
    start, end = _shown_span(source, node)
    if end - start > MOST_SHOWN:
        shown = [f"{text} for {source.text(part)}" for part, text in islice(changes.items(), 3)]
        return ", ".join(shown)
    text, at = "", start
    for part in sorted(changes, key=lambda part: source.location(part).start):
        place = source.location(part)
        if not at <= place.start < end:
            continue
        text += source.source.text[at : place.start] + changes[part]
        at = place.end
    text += source.source.text[at:end]
    return " ".join(text.split())


def _shown_span(source: FunctionSource, node: ast.AST) -> tuple[int, int]:
    """Begin and end of a node's text, of a statement with a block of its head's."""
    loc, body = source.location(node), getattr(node, "body", None)
    return loc.start, source.location(body[0]).start if isinstance(body, list) and body else loc.end


def statement_of(source: FunctionSource, node: ast.AST) -> ast.stmt:
    """The innermost statement around a node, by its place if it is none of the tree."""
    if node in source.statements:
        return source.statements[node]
    place = source.location(node)

    def holds(statement: ast.stmt) -> bool:
        loc = source.location(statement)
        return loc.start <= place.start and place.end <= loc.end

    around = [each for each in ast.walk(source.tree) if isinstance(each, ast.stmt) and holds(each)]
    return min(around, key=lambda each: source.location(each).end - source.location(each).start)


def refuse_ellipsis(t: Any, index: ast.expr) -> None:
    """Raise Unsupported for a `...` among the indices of an array."""
    dots = next(
        (part for part in _parts(index) if isinstance(part, ast.Constant) and part.value is ...), None
    )
    if dots is None:
        return
    changes: dict[ast.AST, str] = {}
    for each in ast.walk(statement_of(t.source, index)):
        view = t.env.get(getattr(each.value, "id", "")) if isinstance(each, ast.Subscript) else None
        if isinstance(each, ast.Subscript) and isinstance(view, BufferView):
            parts = _parts(each.slice)
            rest = ", ".join([":"] * (view.buffer.dimensions - len(parts) + 1))
            changes |= {part: rest for part in parts if isinstance(part, ast.Constant) and part.value is ...}
    help = f"write {corrected(t.source, changes)}"
    raise Unsupported(dots, "an index of a kernel names each dimension, a whole one as :", help)


_UPDATES = {"set": "{0} = {1}", "add": "{0} += {1}", "mul": "{0} *= {1}", "multiply": "{0} *= {1}", "divide": "{0} /= {1}",
            "min": "{0} = min({0}, {1})", "max": "{0} = max({0}, {1})"}  # fmt: skip
"""Updates of an array that JAX gives back, as statements."""


def as_store(source: FunctionSource, node: ast.expr) -> str | None:
    """`y[i] = v` for `y = y.at[i].set(v)`, of the node `y.at`; None for other uses."""
    statement = statement_of(source, node)
    for call in ast.walk(statement):
        method = call.func if isinstance(call, ast.Call) and len(call.args) == 1 else None
        place = method.value if isinstance(method, ast.Attribute) else None
        if isinstance(place, ast.Subscript) and place.value is node and isinstance(node, ast.Attribute):
            form = _UPDATES.get(method.attr)  # type: ignore[union-attr]
            element = f"{source.text(node.value)}[{source.text(place.slice)}]"
            return form and form.format(element, source.text(call.args[0]))  # type: ignore[attr-defined]
    return None


def free_name(t: Any, *wanted: str) -> str:
    """The first of some names, then of others, that the function does not use."""
    names: list[str] = [*wanted, *"ijklmnpq", "index", "at"]
    return next(name for name in names if name not in t.env and name not in t.source.identifiers)


_REDUCTIONS = {
    "sum": ("total", "+= {}"),
    "prod": ("product", "*= {}"),
    "max": ("most", "= max(most, {})"),
    "min": ("least", "= min(least, {})"),
}
"""Reductions of slices, a name for the result, and what a round of a loop does with it."""


def as_loop(source: FunctionSource, call: ast.Call, is_float: bool) -> str | None:
    """The statement around a reduction of an array or a part of it as a loop, for one invocation; None for another call."""
    row = _REDUCTIONS.get(source.text(call.func).rpartition(".")[2])
    if row is None or len(call.args) != 1 or call.keywords:
        return None
    counter = next(name for name in (*"kjlmnpq", "index") if name not in source.identifiers)
    over = call.args[0]
    parts = (
        [ast.Slice()]
        if isinstance(over, ast.Name)
        else _parts(over.slice)
        if isinstance(over, ast.Subscript)
        else []
    )
    array = source.text(over.value if isinstance(over, ast.Subscript) else over)
    ranges = [part for part in parts if isinstance(part, ast.Slice)]
    if len(ranges) != 1 or ranges[0].step is not None or not array.isidentifier():
        return None
    (span,) = ranges
    length = f"len({array})" if len(parts) == 1 else f"{array}.shape[{parts.index(span)}]"
    bounds = [
        source.text(each) if each is not None else default
        for each, default in ((span.lower, ""), (span.upper, length))
    ]

    def element(index: str) -> str:
        return f"{array}[{', '.join(index if part is span else source.text(part) for part in parts)}]"

    statement, (name, round_) = statement_of(source, call), row
    is_named = (
        isinstance(statement, ast.Assign)
        and statement.value is call
        and isinstance(statement.targets[0], ast.Name)
    )
    target = source.text(statement.targets[0]) if is_named else name  # type: ignore[attr-defined]
    zero = {"sum": "0.0" if is_float else "0", "prod": "1.0" if is_float else "1"}.get(
        source.text(call.func).rpartition(".")[2]
    )
    begin = f"{target} = {zero or element(bounds[0] or '0')}"
    loop = f"for {counter} in range({', '.join(filter(None, bounds))}): {target} {round_.replace(name, target).format(element(counter))}"
    behind = "" if is_named else f", then {corrected(source, {call: target})}"
    return f"write {begin}, then {loop}{behind}"


def widened(t: Any, node: ast.expr, value: Value, dtype: DataType) -> str | None:
    """A sum or product of small integers, computed in a wider type: `u32(a) + u32(b)`, `vyre.sum(u32(row))`, or a difference of elements in
    one with a sign.  None for another value."""
    narrow = known(type_of(value))
    is_narrow = isinstance(narrow, DataType) and narrow.element.is_int and (narrow.element.bits or 0) < 32
    op = value.owner if isinstance(value, Value) else None
    if not is_narrow or not isinstance(op, Op) or (dtype.element.bits or 0) <= (narrow.element.bits or 0):  # type: ignore[union-attr]
        return None
    is_combined = op.attrs.get("combine") in ("add", "mul")
    is_difference = (
        op.name == "sub"
        and dtype.element.kind != "uint"
        and _is_loaded(op.operands[0])
        and (_is_loaded(op.operands[1]) or _is_centre(op.operands[1]))
    )
    if op.name not in ("add", "mul") and not is_combined and not is_difference:
        return None
    source, wide = t.source, dtype.element
    if isinstance(node, ast.Name):  # where it is computed
        assigned = source.assignments.get(node.id, [])
        better = widened(t, assigned[0].value, value, dtype) if len(assigned) == 1 else None
        return better and corrected(source, {assigned[0].value: better}, within=assigned[0])
    if isinstance(node, ast.Call) and node.args and is_combined:
        return corrected(source, {node.args[0]: f"{wide}({source.text(node.args[0])})"}, within=node)
    terms = [*_terms(node)]
    numbers = [each for each in terms if isinstance(each, ast.Constant)]
    if len(terms) < 2 or is_combined or (numbers and not is_difference):
        return None
    changes: dict[ast.AST, str] = {
        each: f"{wide}({source.text(each)})" for each in terms if each not in numbers
    }
    return corrected(source, changes, within=node)


def _is_centre(value: Value) -> bool:
    """Whether a constant is half of the numbers of a type, which stands for 0 in centred data: 128 of u8."""
    return constant_value(value) in (half := 1 << (value.type.bits or 1) - 1, half - 1)


def as_floats(t: Any, arguments: Sequence[ast.expr]) -> dict[ast.AST, str]:
    """The arguments that are integers, as floats: `f32(x[i])`."""
    types = {each: _type_in(t, each) for each in arguments if not isinstance(each, ast.Constant)}
    return {
        each: f"f32({t.source.text(each)})"
        for each, dtype in types.items()
        if dtype is not None and dtype.element.is_int
    }


def as_signed(source: FunctionSource, node: ast.expr, dtype: str) -> str | None:
    """A sum of lengths in a signed type, `i32(len(x)) - 1`; of a name, the line that begins it: `j = i32(len(x)) - 1`.  None for others."""
    begin = source.assignments.get(node.id, []) if isinstance(node, ast.Name) else []
    value = begin[0].value if begin else node
    changes: dict[ast.AST, str] = {
        each: f"{dtype}({source.text(each)})" for each in _terms(value) if not isinstance(each, ast.Constant)
    }
    if isinstance(value, ast.Name) or not changes:
        return None
    return corrected(source, changes, within=begin[0] if begin else node)


_NEUTRAL = {ast.Add: "0", ast.Sub: "0", ast.Mult: "1", ast.Div: "1", ast.BitOr: "0", ast.BitXor: "0"}
"""Numbers that change nothing, by operator."""


def as_where(source: FunctionSource, node: ast.If, choose: str) -> str | None:
    """An `if` that assigns one thing, for each element: `y[r, :] = vyre.where(row > 0, row, 0.1 * row)`; None for another `if`."""
    branches = [node.body, node.orelse] if node.orelse else [node.body]
    if any(len(branch) != 1 for branch in branches):
        return None
    first = node.body[0]
    test = source.text(node.test)
    if isinstance(first, ast.AugAssign) and len(branches) == 1 and type(first.op) in _NEUTRAL:
        head = source.text(first)[: -len(source.text(first.value))]
        return f"{head}{choose}({test}, {source.text(first.value)}, {_NEUTRAL[type(first.op)]})"
    if not isinstance(first, ast.Assign) or len(first.targets) != 1:
        return None
    target = source.text(first.targets[0])
    other = target
    if node.orelse:
        last = node.orelse[0]
        if isinstance(last, ast.If):
            inner = as_where(source, last, choose)
            if inner is None or not inner.startswith(f"{target} = "):
                return None
            other = inner.removeprefix(f"{target} = ")
        elif isinstance(last, ast.Assign) and [*map(source.text, last.targets)] == [target]:
            other = source.text(last.value)
        else:
            return None
    return f"{target} = {choose}({test}, {source.text(first.value)}, {other})"


def _is_loaded(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "load"


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of a sum, a difference or a product, and of those in it."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.Add, ast.Sub, ast.Mult)):
        yield from _terms(node.left)
        yield from _terms(node.right)
    else:
        yield node


def is_of_lanes(t: Any) -> bool:
    """Whether a kernel says what each invocation does: it has a number of them, or asks which one it is."""
    keywords = {k.arg for d in t.source.tree.decorator_list if isinstance(d, ast.Call) for k in d.keywords}
    return "workgroup" in keywords or any(_is_id(each, _LANES) for each in t.env.values())


def place_of(t: Any, view: BufferView, node: ast.expr) -> str:
    """The elements of an array that an expression is for: `y[r, :]` for `vyre.exp(x[r, :])`, `y[i]` for `x[i] * 2.0`."""
    buffer, rank = view.buffer, rank_of(t, node)
    for parts in _indices_in(t, node):
        kept = parts if rank else [part for part in parts if ":" not in part]
        if len(kept) == buffer.dimensions:
            return f"{buffer.name}[{', '.join(kept)}]"
    if rank is None:
        return _place(t, view)
    lead = buffer.dimensions - rank
    first = _ids(t, _GROUPS if rank else (*_LANES, *_GROUPS), lead)
    return f"{buffer.name}[{', '.join([*first, *[':'] * rank])}]"


def lanes_of(t: Any, node: ast.expr) -> list[str]:
    """Texts of the lanes of a short vector; none for another expression."""
    dtype = _type_in(t, node)
    count = dtype.lanes if dtype is not None and dtype.is_vec and isinstance(node, ast.Name) else 0
    return [f"{t.source.text(node)}[{lane}]" for lane in range(count)] if count <= 16 else []


def _type_in(t: Any, node: ast.expr) -> DataType | None:
    """Type of an expression; None where it has an error or is still open."""
    try:
        with t.emitter.aside():
            binding = t.expression(node)
    except Unsupported:
        return None
    dtype = known(type_of(binding)) if isinstance(binding, Value) else None
    return dtype if isinstance(dtype, DataType) else None


def product_text(t: Any, factors: Sequence[ast.expr]) -> str | None:
    """The product of matrices, of rows, or of numbers that a call of `dot` means; None for other arguments."""
    if len(factors) != 2:
        return None
    a, b = map(t.source.operand, factors)
    ranks = [rank_of(t, each) for each in factors]
    return {(2, 2): f"{a} @ {b}", (1, 1): f"vyre.sum({a} * {b})", (0, 0): f"{a} * {b}"}.get(tuple(ranks))  # type: ignore[arg-type]


def _whole_arrays(t: Any, node: ast.expr) -> dict[ast.AST, str]:
    """Arrays in a statement that stand where values do, `y = x * 2.0`, with the elements that they mean."""
    found: dict[ast.AST, str] = {}
    statement = statement_of(t.source, node)
    loc = t.source.location(statement)
    within = (
        statement if loc.end - loc.start <= MOST_SHOWN else ast.Expression(node)
    )  # of a long one, this array alone
    for each in _values_in(within):
        view = t.env.get(each.id)
        if isinstance(view, BufferView):
            found[each] = _place(t, view)
    return found


def with_indices(t: Any, node: ast.expr) -> str | None:
    """The statement around an array that is used as a value, with the elements that its arrays mean."""
    changes = _whole_arrays(t, node)
    return corrected(t.source, changes) if changes else None


def _values_in(node: ast.AST) -> Iterator[ast.Name]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.stmt):  # of a block
            continue
        if isinstance(child, ast.Name):
            yield child
        elif isinstance(child, (ast.Subscript, ast.Attribute)) and isinstance(child.value, ast.Name):
            if isinstance(child, ast.Subscript):
                yield from _values_in(child.slice)
        elif not (
            isinstance(child, ast.Call) and isinstance(child.func, ast.Name) and child.func.id == "len"
        ):
            yield from _values_in(child)


def rank_of(t: Any, node: ast.expr) -> int | None:
    """Number of extents of an expression, 0 for a number; None where it has an error."""
    try:
        with t.emitter.aside():
            binding = t.expression(node)
    except Unsupported:
        return None
    dtype = known(type_of(binding)) if isinstance(binding, Value) else None
    return None if isinstance(binding, BufferView) else len(getattr(dtype, "extents", ()))


def _indices_in(t: Any, node: ast.expr) -> Iterator[list[str]]:
    """The indices of the arrays that an expression reads, those of rows with names too."""
    for each in ast.walk(node):
        if isinstance(each, ast.Subscript) and isinstance(each.value, ast.Name):
            if isinstance(t.env.get(each.value.id), BufferView):
                yield [t.source.text(part) for part in _parts(each.slice)]
        elif isinstance(each, ast.Name) and isinstance(value := t.env.get(each.id), Value):
            loaded = value.owner
            if isinstance(loaded, Op) and loaded.name == "slice_load" and loaded.loc is not None:
                text = loaded.loc.text
                tree = ast.parse(text, mode="eval").body
                if isinstance(tree, ast.Subscript) and isinstance(tree.value, ast.Name):
                    yield [ast.get_source_segment(text, part) or ":" for part in _parts(tree.slice)]


def _parts(index: ast.expr) -> Sequence[ast.expr]:
    return index.elts if isinstance(index, ast.Tuple) else [index]


def _place(t: Any, view: BufferView) -> str:
    """The element of an array that an invocation has, or the row that a workgroup has, by what the kernel asks for."""
    buffer = view.buffer
    if is_of_lanes(t):
        indices = _ids(t, _LANES, buffer.dimensions)
    else:
        indices = [*_ids(t, _GROUPS, buffer.dimensions - 1), ":"]
    return f"{buffer.name}[{', '.join(indices)}]"


def _is_id(binding: object, ops: Sequence[str]) -> bool:
    return isinstance(binding, Value) and isinstance(binding.owner, Op) and binding.owner.name in ops


def _ids(t: Any, ops: Sequence[str], count: int) -> list[str]:
    """Names of ids, or calls of them where there are not so many: the last of them goes along x."""
    named = {str(each.owner.attrs["axis"]): name for name, each in t.env.items() if _is_id(each, ops)}
    axes = reversed(range(count))
    if count == 1 and len(named) == 1:
        return [*named.values()]
    return [named.get("xyz"[axis], f"vyre.{ops[0]}({axis})") for axis in axes]
