"""Lines of kernels in Python that messages about their ops write anew: an update as an atomic, an access behind its guard."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

__all__ = [
    "bound",
    "begun",
    "exchanged",
    "guard",
    "index_parts",
    "lanes_name",
    "lengthened",
    "own_memory",
    "loop_as_id",
    "stored_apart",
    "swapped",
    "tail",
    "target_text",
    "update",
]


def index_parts(index: ast.expr) -> list[ast.expr]:
    """Indices in the brackets of a subscript, one for each dimension."""
    return index.elts if isinstance(index, ast.Tuple) else [index]


def target_text(source: str) -> str:
    """The element that a statement stores to; "" for other text."""
    return "" if (target := _target(source)) is None else ast.unparse(target)


def stored_apart(source: str, name: str, dtype: str, dimensions: int, is_round: bool) -> str:
    """Say how to store to another array, `out[i] = x[i] + x[i - 1]` for the text `x[i] += x[i - 1]`, which begins as the same; `is_round`: a round
    of a loop is to be a launch."""
    out, target = "result" if name == "out" else "out", _target(source)
    array = dtype if dimensions == 1 else f"{dtype}[{', '.join(':' * dimensions)}]"
    text = f"{out}[i] = ..."
    if target is not None:
        statement = ast.parse(source).body[0]
        value = ast.get_source_segment(source, statement.value)  # type: ignore[attr-defined]
        if isinstance(statement, ast.AugAssign):
            change = ast.BinOp(target, statement.op, statement.value)
            value = ast.unparse(ast.fix_missing_locations(change))
        text = f"{out}[{ast.get_source_segment(source, target.slice)}] = {value}"
    declared = f"declare {out}: Write[{array}] in the head, write {text}"
    if is_round:
        return (
            f"{declared} without the loop, and launch the kernel for each round, on ({name}, {out}) and then on ({out}, {name}), "
            f"where {out} begins as {name}.copy()"
        )
    return f"{declared}, and pass {out} = {name}.copy() for it, which has the result then"


def _target(source: str) -> ast.Subscript | None:
    """The element that a statement stores to."""
    try:
        (statement,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return None
    targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
    return targets[0] if isinstance(targets[0], ast.Subscript) else None


def guard(source: str, buffer: str, below: str, length: str, dimension: int) -> str:
    """`: write if i < len(x): before it` for the text `x[i]`; "" for one whose index is not written there."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return ""
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == buffer:
            parts = index_parts(node.slice)
            if dimension >= len(parts) or isinstance(parts[dimension], ast.Slice):
                return ""
            part = parts[dimension]
            index = ast.get_source_segment(source, part)
            if any(
                "atomic_" in ast.unparse(call.func) for call in ast.walk(part) if isinstance(call, ast.Call)
            ):
                kept = f"{buffer}[k]" if len(parts) == 1 else "k for it"
                return f": write k = {index}, then if {below}k < {length}: and {kept}, since an atomic counts each time"
            return f": write if {below}{index} < {length}: before it"
    return ""


def update(op: str, source: str, value: str) -> str:
    """`vyre.atomic_add(y, 0, x[i])` for the text `y[0] += x[i]`, or `y[0] = y[0] + x[i]`; `value`: what is added, where the text does not say it,
    `y[0] = v`."""
    target = _target(source)
    if target is None:
        return f"vyre.{op}(...)"
    statement = ast.parse(source).body[0]
    operands = [statement.value]  # type: ignore[attr-defined]
    if isinstance(statement, ast.Assign):
        (node,) = operands
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else getattr(node, "args", [])
    others = [each for each in operands if ast.unparse(each) != ast.unparse(target)]
    index, array = (ast.get_source_segment(source, each) for each in (target.slice, target.value))
    index = f"({index})" if isinstance(target.slice, ast.Tuple) else index
    text = ast.get_source_segment(source, others[0]) if len(others) == 1 else value
    return f"vyre.{op}({array}, {index}, {text})"


def exchanged(source: str, buffer: str) -> str:
    """`w[j:j + 32, k:k + 32].T` for the text `w[k:k + 32, j:j + 32]`, and `y[r, c]` for `y[c, r] = v`; "" for other text."""
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except (SyntaxError, ValueError):
        return ""
    access = next((node for node in nodes if _is_of(node, buffer)), None)
    parts = index_parts(access.slice) if isinstance(access, ast.Subscript) else []
    if (
        access is None
        or len(parts) < 2
        or isinstance(parts[-1], ast.Slice) is not isinstance(parts[-2], ast.Slice)
    ):
        return ""
    texts = [ast.get_source_segment(source, part) or "" for part in parts]
    array = ast.get_source_segment(source, access.value)  # type: ignore[attr-defined]
    written = f"{array}[{', '.join([*texts[:-2], texts[-1], texts[-2]])}]"
    return f"{written}.T" if isinstance(parts[-1], ast.Slice) else written


def own_memory(name: str, dtype: str, extents: Sequence[int]) -> str:
    """Say how an array of each invocation's own is made, or how shared memory is given a row for each."""
    shape = str(extents[0]) if len(extents) == 1 else f"({', '.join(map(str, extents))})"
    if len(extents) <= 2 and prod(extents) <= _MOST_OF_OWN:
        return f"write {name} = vyre.local({dtype}, {shape}), an array of each invocation's own: shared memory is one for all of them"
    return "store to an element of each one's own: shared memory is one for all invocations of a workgroup"


def swapped(source: str, names: Sequence[str]) -> str:
    """`kernel[4](x, y)` for the launch `kernel[4](y, x)`; "" for other text."""
    head, bracket, arguments = source.rpartition("](")
    other = dict(zip(names, reversed(names), strict=True))
    pattern = rf"(?<![\w.])({'|'.join(map(re.escape, names))})(?!\s*=|\w)"
    return bracket and head + bracket + re.sub(pattern, lambda name: other[name[1]], arguments)


def tail(text: str, start: int, end: int, name: str, width: int) -> str:
    """Say how to go over the elements behind the last whole vector: `for k in ...: y[k] = x[k] * 2.0` for `y.vec(4)[i] = x.vec(4)[i] * 2.0`."""
    around = _around(text, start, end)
    inside = (
        {each.id for each in ast.walk(_function(around)) if isinstance(each, ast.Name)} if around else set()
    )
    k = next(each for each in ("k", "j", "m", "index_of_rest") if each not in inside)
    loop = f"for {k} in range(len({name}) // {width} * {width} + vyre.global_id(0), len({name}), vyre.global_size(0)):"
    statement = next((node for node in reversed(around) if isinstance(node, ast.Assign)), None)
    values, vectors = _assigned(around) if around else {}, []

    class OneByOne(ast.NodeTransformer):
        def visit_Subscript(self, node: ast.Subscript) -> ast.AST:
            if isinstance(node.value, ast.Call) and ast.unparse(node.value).endswith(f".vec({width})"):
                vectors.append(ast.unparse(node.slice))
                return ast.Subscript(node.value.func.value, ast.Name(k), node.ctx)  # type: ignore[attr-defined]
            return node

    if statement is not None:
        line = OneByOne().visit(ast.parse(ast.unparse(statement)).body[0])
        names = {each.id for each in ast.walk(line) if isinstance(each, ast.Name)}
        if (
            len({*vectors}) == 1
            and not names & values.keys()
            and not any(isinstance(each, ast.Name) for each in line.targets)
        ):
            return f"begin the kernel with {loop} {ast.unparse(line)}"
    return f"pass arrays of a multiple of {width} elements, or go over the others one by one, {loop}"


def loop_as_id(loop: str) -> str:
    """`write i = vyre.global_id(0), and if i < len(x): instead of the loop` for the text `for i in range(len(x)):`; "" for another loop."""
    try:
        (node,) = ast.parse(f"{loop.partition(chr(10))[0]} pass").body
    except (SyntaxError, ValueError):
        return ""
    if not (isinstance(node, ast.For) and isinstance(node.iter, ast.Call) and len(node.iter.args) == 1):
        return ""
    name, count = ast.unparse(node.target), ast.unparse(node.iter.args[0])
    return f"write {name} = vyre.global_id(0), and if {name} < {count}: instead of the loop, for an element of each invocation"


def lengthened(made: str, launch: str, counts_workgroups: bool) -> str:
    """`vyre.buffer(f32, len(x))` for memory made by `vyre.buffer(f32, 8)` and a launch `kernel[vyre.ceil_div(len(x), 64)](x, y)`; where the
    access that is out of bounds counts workgroups, `vyre.buffer(f32, vyre.ceil_div(len(x), 64))`; "" where the text does not show how far
    the launch goes."""
    try:
        memory, call = (ast.parse(text, mode="eval").body for text in (made, launch))
    except (SyntaxError, ValueError):
        return ""
    if not (
        isinstance(call, ast.Call) and isinstance(call.func, ast.Subscript) and isinstance(memory, ast.Call)
    ):
        return ""
    count, grid = ast.unparse(call.func.slice), call.func.slice
    if isinstance(grid, ast.Call) and ast.unparse(grid.func) == "vyre.ceil_div" and len(grid.args) == 2:
        count = count if counts_workgroups else ast.unparse(grid.args[0])
    elif isinstance(grid, ast.BinOp) and isinstance(grid.op, ast.FloorDiv):
        count = count if counts_workgroups else ast.unparse(grid.left)
    elif isinstance(grid, ast.Tuple) or not (
        counts_workgroups or count.startswith("len(") or ".shape[" in count
    ):
        return ""
    if len(memory.args) != 2 or memory.keywords:
        return ""
    sizes = 1 if ast.unparse(memory.func).endswith("buffer") else 0
    memory.args[sizes] = ast.parse(count, mode="eval").body
    return ast.unparse(memory)


def counts_workgroups(text: str, start: int, end: int) -> bool:
    """Whether the statement at a place of a file has an index that is vyre.workgroup_id(0), or a name of that: `part[w] = s`."""
    around = _around(text, start, end)
    target = _target(text[start:end])
    if target is None or not around:
        return False
    index = target.slice
    return _is_call(_assigned(around).get(getattr(index, "id", ""), index), "workgroup_id")


def lanes_name(text: str, start: int) -> str:
    """`LANES` for a function at `start` under `@vyre.program(workgroup=LANES)`; "" where its head says a number."""
    head = text[max(0, text.rfind("@", 0, start)) : start]
    named = re.search(r"\bworkgroup\s*=\s*([^\W\d][\w.]*)\s*[,)]", head)
    return named[1] if named else ""


def stepped(source: str, step: str) -> str:
    """`write for k in range(i, n, 256):` for the text of a loop over a range and another step; "" for another loop."""
    try:
        (loop,) = ast.parse(source).body
    except (SyntaxError, ValueError):
        return ""
    call = loop.iter if isinstance(loop, ast.For) else None
    if not isinstance(loop, ast.For) or not isinstance(call, ast.Call) or len(call.args) != 3:
        return ""
    call.args[2] = ast.parse(step, mode="eval").body
    return f"write for {ast.unparse(loop.target)} in {ast.unparse(call)}:"


def widened(source: str, wide: str, narrow: str) -> str:
    """`write u8(u32(a[i]) * 77 + u32(b[i]) >> 8)` for the text `(a[i] * 77 + b[i]) >> 8`; a shift to the left stays wide, and so does all where
    `narrow` is ""."""
    try:
        tree = ast.parse(source, mode="eval").body
    except (SyntaxError, ValueError):
        return f"convert what it is computed from to {wide} first"

    def wider(node: ast.expr) -> ast.expr:
        if isinstance(node, ast.BinOp):
            return ast.BinOp(wider(node.left), node.op, wider(node.right))
        return node if isinstance(node, ast.Constant) else ast.Call(ast.Name(wide), [node], [])

    text = ast.unparse(wider(tree))
    is_left = isinstance(tree, ast.BinOp) and isinstance(tree.op, ast.LShift)
    return f"write {text}" if is_left or not narrow else f"write {narrow}({text})"


_ZERO = re.compile(r"(?<![\w.])0(\.0*)?(?![\w.])")
_WINDOW = 20_000
"""Characters before an op in which the line is looked for that a name begins at."""


def begun(at: Any, zero: Any, names: Sequence[str], number: str) -> tuple[Any, str]:
    """The place of the 0 that a value begins with, and `write best = -math.inf` for `best = 0.0`.  `at`, `zero`: where it is combined, and of the
    constant, which may be that of a call it is an argument of; `names`: that the value may have."""
    text = at.source.text
    for name in names:
        assigned = rf"^[ \t]*{re.escape(name)}[ \t]*(?::[^=\n]*)?=[ \t]*([^\s#=][^\n#=]*)"
        lines = [*re.compile(assigned, re.MULTILINE).finditer(text, max(0, at.start - _WINDOW), at.start)]
        for line in reversed(lines):
            source = line[1].rstrip()
            place = type(at)(at.source, line.start(1), line.start(1) + len(source))
            if source.startswith("vyre.local("):
                return place, _of_own(name, source, number)
            if _replaced(source, number) != source:
                return place, f"write {name} = {_replaced(source, number)}"
    source = "" if zero is None else text[zero.start : zero.end]
    written = _replaced(source, number)
    return zero, f"begin with {number}" if written == source or "\n" in source else f"write {written}"


def _of_own(name: str, source: str, number: str) -> str:
    """Remedy for an array of one's own whose elements are to begin with a number."""
    extent = re.fullmatch(r"vyre\.local\(\w+,\s*(\d+)\)", source)
    if extent is None:
        return f"set the elements of {name} to {number} below its line"
    return f"below its line write for k in range({extent[1]}): {name}[k] = {number}"


def _replaced(source: str, number: str) -> str:
    """Text with a number for its last 0 that is a value and no index, as in `0.0` and `vyre.where(keep != 0, x[:, 0], 0.0)`."""
    for zero in reversed([*_ZERO.finditer(source)]):
        before = source[: zero.start()].rstrip()
        is_index = before.count("[") > before.count("]") or before.endswith(("_id(", "_size("))
        if not is_index and (not before or before.endswith(("(", ",", " else"))):
            return source[: zero.start()] + number + source[zero.end() :]
    return source


_MOST_OF_OWN = 64
"""Elements of an array of each invocation's own, at most."""
MOST_PARSED = 200_000
"""Characters of a file that is parsed, at most."""


def bound(text: str, start: int, end: int, buffer: str, lengths: Sequence[str], dimension: int) -> str:
    """Say what is wrong with the bound that an index out of bounds has, and the line as it should be; "" where that is not seen.

    for j in range(x.shape[0]): ... x[i, j]          if i < x.shape[1]: ... x[i, j]          x[len(x) - i]          x.vec(4)[i]
    x[min(i + 1, len(x))]                            t[vyre.global_id(0)] of shared memory   t[l + 1] of shared memory without a margin
    """
    around = _around(text, start, end)
    access = next((node for node in ast.walk(around[-1]) if _is_of(node, buffer)), None) if around else None
    if not isinstance(access, ast.Subscript):
        return ""
    parts = index_parts(access.slice)
    if dimension >= len(parts) or isinstance(parts[dimension], ast.Slice):
        return ""
    index, length = ast.unparse(parts[dimension]), lengths[dimension]
    if (
        isinstance(access.value, ast.Call)
        and getattr(access.value.func, "attr", "") == "vec"
        and access.value.args
    ):
        lanes, base = ast.unparse(access.value.args[0]), ast.unparse(access.value)
        before = "".join(f"{ast.unparse(part)}, " for part in parts[:-1])
        return (
            f"an index of {base} counts vectors of {lanes} elements: write {base}[{before}{_operand(index)} // {lanes}] for the one at element {index}, "
            f"or if {index} < {length} // {lanes}: before it"
        )
    values = _assigned(around)
    memory = values.get(buffer)
    if isinstance(memory, ast.Call) and _is_call(memory, "shared"):
        margin = _with_margin(around, buffer, memory, values) if len(parts) == 1 else ""
        if better := _of_workgroup(parts, buffer, values) or margin:
            return better
    name = index if index in values else ""
    if bounded := _up_to_last(values.get(name, parts[dimension]), length):
        parts[dimension] = ast.parse(bounded, mode="eval").body
        written = f"{name} = {bounded}" if name else f"{buffer}[{', '.join(map(ast.unparse, parts))}]"
        return f"the last element is at {length} - 1: write {written}"
    own = {ast.unparse(part): lengths[number] for number, part in enumerate(parts) if number < len(lengths)}
    for node in reversed(around):
        if isinstance(node, ast.For) and ast.unparse(node.target) == index:
            call = node.iter
            if (
                isinstance(call, ast.Call)
                and call.args
                and _is_extent(last := call.args[min(1, len(call.args) - 1)], length)
            ):
                was = ast.unparse(last)
                call.args[call.args.index(last)] = ast.parse(length, mode="eval").body
                return f"{index} counts to {was}, and this goes along {length}: write for {index} in {ast.unparse(call)}:"
        tests = [node.test] if isinstance(node, (ast.If, ast.While, ast.IfExp)) else []
        for test in tests:
            wrong = [
                each
                for each in ast.walk(test)
                if isinstance(each, ast.Compare)
                and isinstance(each.ops[0], ast.Lt)
                and (of := own.get(ast.unparse(each.left))) is not None
                and _is_extent(each.comparators[0], of)
            ]
            limits = {ast.unparse(each.left): ast.unparse(each.comparators[0]) for each in wrong}
            if other := _transposed(parts, limits):
                swapped = ", ".join(ast.unparse(part) for part in reversed(parts))
                return f"{buffer} is to have the shape ({other}.shape[1], {other}.shape[0]) here: pass such an array, or write {buffer}[{swapped}]"
            if any(ast.unparse(each.left) == index for each in wrong):
                was = next(
                    ast.unparse(each.comparators[0]) for each in wrong if ast.unparse(each.left) == index
                )
                for each in wrong:
                    each.comparators[0] = ast.parse(own[ast.unparse(each.left)], mode="eval").body
                word = "while" if isinstance(node, ast.While) else "if"
                return f"{index} is compared with {was}, and this goes along {length}: write {word} {ast.unparse(test)}:"
    return ""


def _transposed(parts: Sequence[ast.expr], limits: Mapping[str, str]) -> str:
    """The array whose extents limit two indices in the other order: x for `y[c, r]` behind `r < x.shape[0] and c < x.shape[1]`; "" for none."""
    first, second = (limits.get(ast.unparse(part), "") for part in (*parts, *parts)[:2])
    name = first.removesuffix(".shape[1]")
    is_other = (
        len(parts) == 2 and first.endswith(".shape[1]") and second in (f"{name}.shape[0]", f"len({name})")
    )
    return name if is_other else ""


def _operand(text: str) -> str:
    return text if text.isidentifier() else f"({text})"


def _place(text: str, offset: int) -> tuple[int, int]:
    """Line and column, in bytes, as the nodes of a tree have them."""
    line = text.rfind("\n", 0, offset) + 1
    return text.count("\n", 0, offset) + 1, len(text[line:offset].encode())


def _around(text: str, start: int, end: int) -> list[ast.AST]:
    """The nodes around a place of a file, from the outermost in; none of a file that is no Python."""
    try:
        around: list[ast.AST] = [ast.parse(text)] if len(text) <= MOST_PARSED else []
    except (SyntaxError, ValueError):
        around = []
    first, last = _place(text, start), _place(text, end)
    while around:
        for child in ast.iter_child_nodes(around[-1]):
            begin = getattr(child, "lineno", None), getattr(child, "col_offset", None)
            behind = getattr(child, "end_lineno", None), getattr(child, "end_col_offset", None)
            if None not in begin and begin <= first and last <= behind:
                around.append(child)
                break
        else:
            break
    return around


def _function(around: Sequence[ast.AST]) -> ast.AST:
    """The innermost function around a place."""
    return next(node for node in reversed(around) if isinstance(node, (ast.FunctionDef, ast.Module)))


def _assigned(around: Sequence[ast.AST]) -> dict[str, ast.expr]:
    """Values of the names that the function around a place assigns once."""
    found: dict[str, list[ast.expr | None]] = {}
    for node in ast.walk(_function(around)):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            found.setdefault(node.id, []).append(None)
    for node in ast.walk(_function(around)):
        if isinstance(node, ast.Assign) and len(node.targets) == 1:
            target, value = node.targets[0], node.value
            pairs = [(target, value)]
            if isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
                pairs = [*zip(target.elts, value.elts, strict=False)]
            for name, each in pairs:
                if isinstance(name, ast.Name):
                    found[name.id][0] = each
    return {name: values[0] for name, values in found.items() if len(values) == 1 and values[0] is not None}


def _is_call(node: ast.AST, name: str) -> bool:
    """Whether an expression is a call of a function of this name: `vyre.shared(f32, 64)`."""
    return isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] == name


def _up_to_last(index: ast.expr, length: str) -> str:
    """`min(i + 1, len(x) - 1)` for `min(i + 1, len(x))`, `len(x) - 1 - i` for `len(x) - i`; "" for another index."""
    text = ast.unparse(index)
    if text.startswith(f"{length} - ") and not text.startswith(f"{length} - 1"):
        return text.replace(f"{length} - ", f"{length} - 1 - ", 1)
    copy = ast.parse(text, mode="eval")
    for call in ast.walk(copy):
        if isinstance(call, ast.Call) and _is_call(call, "min"):
            last = ast.parse(f"{length} - 1", mode="eval").body
            call.args = [last if ast.unparse(each) == length else each for each in call.args]
    return "" if ast.unparse(copy) == text else ast.unparse(copy)


def _of_workgroup(indices: Sequence[ast.expr], buffer: str, values: Mapping[str, ast.expr]) -> str:
    """`t[vyre.local_id(0) + 1]` for shared memory at `t[i + 1]` where i is vyre.global_id(0); "" for other indices."""

    class Local(ast.NodeTransformer):
        def visit(self, node: ast.AST) -> ast.AST:
            call = values.get(node.id, node) if isinstance(node, ast.Name) else node
            if not _is_call(call, "global_id"):
                return self.generic_visit(node)
            local = ast.unparse(call).replace("global_id", "local_id")
            names = (name for name, value in values.items() if ast.unparse(value) == local)
            return ast.parse(next(names, local), mode="eval").body

    was = ", ".join(map(ast.unparse, indices))
    right = ", ".join(
        ast.unparse(Local().visit(ast.parse(ast.unparse(each), mode="eval"))) for each in indices
    )
    counts = f"{was} {'count' if len(indices) > 1 else 'counts'} in the whole launch"
    return (
        f"{buffer} is memory of one workgroup, and {counts}: write {buffer}[{right}]" if was != right else ""
    )


def _with_margin(
    around: Sequence[ast.AST], buffer: str, memory: ast.Call, values: Mapping[str, ast.expr]
) -> str:
    """The lines of a stencil in shared memory, whose accesses are at `l - a` to `l + b`, with a margin of so many elements; "" for others."""
    nodes = [*ast.walk(_function(around))]
    accesses = [node for node in nodes if isinstance(node, ast.Subscript) and _is_of(node, buffer)]
    stores = [access for access in accesses if not isinstance(access.ctx, ast.Load)]
    store = next((node for node in nodes if isinstance(node, ast.Assign) and node.targets == stores), None)
    found = {ast.unparse(access): _offset(access.slice, values) for access in [*stores, *accesses]}
    offsets = {text: offset for text, offset in found.items() if offset is not None}
    if store is None or len(offsets) < len(found) or len(memory.args) != 2:
        return ""
    place, value = stores[0].slice, store.value
    if offsets[ast.unparse(stores[0])] != 0 or not isinstance(value, ast.Subscript):
        return ""
    below, above = -min(offsets.values()), max(offsets.values())
    count = memory.args[1]
    if below + above == 0 or not isinstance(count, ast.Constant) or not isinstance(count.value, int):
        return ""
    here, i, x = ast.unparse(place), ast.unparse(value.slice), ast.unparse(value.value)

    def at(base: str, offset: int) -> str:
        return f"{base} {'+' if offset > 0 else '-'} {abs(offset)}" if offset else base

    size = ast.unparse(memory.func), ast.unparse(memory.args[0]), count.value + below + above
    lines = [
        f"{buffer} = {size[0]}({size[1]}, {size[2]})",
        f"{buffer}[{at(here, below)}] = {x}[{i}]",
        f"if {here} < {below} and {i} >= {below}: {buffer}[{here}] = {x}[{at(i, -below)}]" * (below > 0),
        f"if {here} >= {count.value - above} and {at(i, above)} < len({x}): {buffer}[{at(here, below + above)}] = {x}[{at(i, above)}]"
        * (above > 0),
    ]
    reads = {ast.unparse(access) for access in accesses if access is not stores[0]}
    moved = [
        (text, at(here, offsets[text] + below)) for text in sorted(reads, key=lambda text: offsets[text])
    ]
    shifted = ", ".join(f"{buffer}[{index}] for {text}" for text, index in moved)
    return (
        f"{buffer} has no elements beyond the workgroup's: write {', then '.join(filter(None, lines))}"
        + f", and read {shifted}" * (below > 0)
    )


def _offset(index: ast.expr, values: Mapping[str, ast.expr]) -> int | None:
    """1 for `l + 1` where l is vyre.local_id(0); None for another index."""
    if isinstance(index, ast.Name) and index.id in values:
        return _offset(values[index.id], {}) if _is_call(values[index.id], "local_id") else None
    if isinstance(index, ast.BinOp) and isinstance(index.op, (ast.Add, ast.Sub)):
        base, by = _offset(index.left, values), getattr(index.right, "value", None)
        by = -by if isinstance(by, int) and isinstance(index.op, ast.Sub) else by
        return by if base == 0 and isinstance(by, int) else None
    return 0 if _is_call(index, "local_id") else None


def _is_of(node: ast.AST, buffer: str) -> bool:
    """Whether a node is an element of a buffer: `x[i]`, `x.vec(4)[i]`."""
    if not isinstance(node, ast.Subscript):
        return False
    base: ast.expr = node.value
    if isinstance(base, ast.Call) and isinstance(base.func, ast.Attribute):
        base = base.func.value
    return isinstance(base, ast.Name) and base.id == buffer


def _is_extent(node: ast.expr, other: str) -> bool:
    """Whether an expression is the extent of an array, `len(x)` or `x.shape[1]`, and not `other`."""
    text = ast.unparse(node)
    return text != other and (text.startswith("len(") or ".shape[" in text)
