"""Calls between functions: their order, the depth to which they nest, and the size of a program after inlining.

    f0    add                 1     program @p    global_id, call f3, store    10 ops
    f1    call f0, call f0    2
    f2    call f1, call f1    4
    f3    call f2, call f2    8     a text of n functions may stand for 2^n ops

All of it is computed in linear time from the calls that the text has, and nothing is inlined for it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from .diagnostics import Diagnostic, DiagnosticError
from .program import Func, Op, Program

__all__ = ["MAX_CALL_DEPTH", "MAX_INLINED_OPS", "call_order", "check_calls", "check_inlined_ops"]

MAX_CALL_DEPTH = 64
"""Functions that are active at a time, each called by the one before."""

MAX_INLINED_OPS = 50_000
"""Ops that come in the place of calls where these are inlined: in all programs and functions that one pass, or one target,
inlines at a time.  With so many the passes take some 3 s, and so does LLVM where they are cheap."""


def _calls(item: Program | Func) -> list[Op]:
    return [op for op in item.walk() if op.name == "call"]


def call_order(funcs: Mapping[str, Func]) -> tuple[list[Func], list[tuple[Op, list[str]]]]:
    """The functions, each after those that it calls; and each call that closes a cycle, with the names along it."""
    calls = {func.name: _calls(func) for func in funcs.values()}
    order: dict[str, Func] = {}
    cycles: list[tuple[Op, list[str]]] = []
    for root in calls:
        path: dict[str, Iterator[Op]] = {} if root in order else {root: iter(calls[root])}
        while path:
            name, rest = next(reversed(path.items()))
            op = next(rest, None)
            if op is None:
                order[name] = funcs[name]
                del path[name]
                continue
            callee = op.attrs.get("callee")
            if callee in path:
                names = [*path]
                cycles.append((op, [*names[names.index(callee) :], callee]))
            elif callee in calls and callee not in order:
                path[callee] = iter(calls[callee])
    return [*order.values()], cycles


def check_calls(funcs: Mapping[str, Func], diagnostics: list[Diagnostic]) -> None:
    """Append an error for each function that calls itself, and for the first call that nests too deep."""
    order, cycles = call_order(funcs)
    for op, names in cycles:
        message = f"functions call themselves: {' -> '.join('@' + name for name in names)}"
        diagnostics.append(Diagnostic("error", message, op.loc, help="write a loop in the place of the call"))
    depths: dict[str, int] = {}
    for func in order if not cycles else ():
        depth = 1
        for op in _calls(func):
            depth = max(depth, depths.get(op.attrs.get("callee", ""), 0) + 1)
            if depth > MAX_CALL_DEPTH:
                message = f"calls in @{func.name} nest {depth} functions deep; at most {MAX_CALL_DEPTH}"
                help = "write what some of these functions do in the place of their calls"
                diagnostics.append(Diagnostic("error", message, op.loc, help=help))
                return
        depths[func.name] = depth


def _inlined_ops(funcs: Mapping[str, Func]) -> dict[str, int]:
    """The ops of each function with those of what it calls, callees first."""
    sizes: dict[str, int] = {}
    for func in call_order(funcs)[0]:
        sizes[func.name] = _size(func, sizes)
    return sizes


def _size(item: Program | Func, sizes: Mapping[str, int]) -> int:
    ops = (op for op in item.walk() if not op.definition.is_terminator)
    return sum(sizes[op.attrs["callee"]] if op.name == "call" else 1 for op in ops)


def check_inlined_ops(items: Sequence[Program | Func], funcs: Mapping[str, Func]) -> None:
    """Raises DiagnosticError if too many ops come in the place of the calls of the items, at the call that passes the limit."""
    calls = {item: _calls(item) for item in items}
    if not any(calls.values()):
        return
    sizes = _inlined_ops(funcs)
    total = 0
    for item in items:
        before = total
        for op in calls[item]:
            total += sizes[op.attrs["callee"]]
            if total > MAX_INLINED_OPS:
                raise DiagnosticError([_too_large(item, op, before, _size(item, sizes), funcs, sizes)])


def _too_large(
    item: Program | Func,
    call: Op,
    before: int,
    total: int,
    funcs: Mapping[str, Func],
    sizes: Mapping[str, int],
) -> Diagnostic:
    """The error at a call of an item of `total` ops, where `before` were inlined already; with the function that is the
    first to pass the limit."""
    kind = "program" if isinstance(item, Program) else "function"
    others = f", beside {before} that are inlined before it" if before else ""
    message = (
        f"{kind} @{item.name} has {total} ops with the functions that it calls{others}; {MAX_INLINED_OPS} at most are "
        f"inlined, and @{call.attrs['callee']} alone has {sizes[call.attrs['callee']]}"
    )
    help = "call functions in a loop instead of one after the other, or fewer times in each other"
    error = Diagnostic("error", message, call.loc, help=help)
    first = next((name for name, size in sizes.items() if size > MAX_INLINED_OPS), None)
    if first is not None and first != item.name:
        error.note(f"@{first} is the first that passes this, with {sizes[first]} ops", funcs[first].loc)
    return error
