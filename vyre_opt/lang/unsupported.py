"""Syntax that kernels do not have, and the remedies."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from ..ir.program import MAX_NESTING
from .python_source import FunctionSource, Unsupported

__all__ = ["EXPRESSIONS", "LOOP_ELSE", "STATEMENTS", "TOO_DEEP", "surely_unsupported", "unsupported"]

Message = tuple[str, str | None]
"""Mistake and remedy."""

TOO_DEEP: Message = (f"this nests too deep; blocks nest {MAX_NESTING} levels at most", "write it in parts")

_LISTS = (
    "a kernel has no lists, sets or dicts",
    "use vyre.local(f32, 8) for an array of each invocation's own, vyre.shared(f32, 256) for one of a workgroup, an array argument, or a tuple",
)
_TEXT = ("a kernel has no texts", 'print it: print(f"i={i}")')

LOOP_ELSE: Message = (
    "a loop of a kernel has no else",
    "set ended = True before the loop and ended = False before its break, and write if ended: behind it",
)

EXPRESSIONS: dict[type[ast.expr], Message] = {
    ast.List: _LISTS,
    ast.Set: _LISTS,
    ast.Dict: _LISTS,
    ast.ListComp: _LISTS,
    ast.SetComp: _LISTS,
    ast.DictComp: _LISTS,
    ast.GeneratorExp: (
        "a kernel has no generators",
        "write a loop: total = 0.0, and then for k in range(4): total += x[k]",
    ),
    ast.Lambda: (
        "a kernel has no lambdas",
        "write a function with @vyre.func outside of the kernel, and call it",
    ),
    ast.JoinedStr: _TEXT,
    ast.FormattedValue: _TEXT,
    ast.Await: ("a kernel waits for nothing but barriers", "write vyre.barrier()"),
    ast.Yield: ("a kernel is no generator", "store results in an array argument"),
    ast.YieldFrom: ("a kernel is no generator", "store results in an array argument"),
    ast.NamedExpr: ("a kernel has no assignments in expressions", "assign in a statement of its own"),
    ast.Starred: ("a kernel does not unpack with *", "write the parts"),
    ast.Slice: ("a kernel has no slices", "write a loop over the elements"),
}

_NO_ERRORS = ("a kernel raises no errors", 'write vyre.trap("why"), or assert')
_NO_HANDLERS = (
    "a kernel catches no errors",
    "write the condition before what may fail: if i < len(x); a fault ends the run, and is an error of the call",
)
_NO_IMPORT = ("a kernel imports nothing", "import at the top of the file")
_NO_WITH = ("a kernel has no with", "write it around the call of the kernel, or leave it out")
_NO_SCOPE = ("a kernel cannot assign names outside of it", "store in an array argument")

STATEMENTS: dict[type[ast.stmt], Message] = {
    ast.FunctionDef: ("a kernel defines no functions", "define it outside, with @vyre.func"),
    ast.AsyncFunctionDef: ("a kernel defines no functions", "define it outside, with @vyre.func"),
    ast.ClassDef: (
        "a kernel defines no classes",
        "define it outside: a class of typing.NamedTuple has values with names",
    ),
    ast.Delete: ("a kernel deletes nothing", "leave it out: a name costs nothing"),
    ast.With: _NO_WITH,
    ast.AsyncWith: _NO_WITH,
    ast.AsyncFor: ("a kernel waits for nothing but barriers", "write for"),
    ast.Match: ("a kernel has no match", "write if and elif"),
    ast.Raise: _NO_ERRORS,
    ast.Try: _NO_HANDLERS,
    ast.TryStar: _NO_HANDLERS,
    ast.Import: _NO_IMPORT,
    ast.ImportFrom: _NO_IMPORT,
    ast.Global: _NO_SCOPE,
    ast.Nonlocal: _NO_SCOPE,
}


def unsupported(source: FunctionSource, node: ast.stmt) -> Unsupported:
    """The error for a statement that has no translation, with its own words in the remedy where it has any."""
    message, help = STATEMENTS.get(type(node), ("this is not supported in a kernel", None))
    if isinstance(node, ast.Match) and isinstance(pattern := node.cases[0].pattern, ast.MatchValue):
        test = f"{source.text(node.subject)} == {source.text(pattern.value)}"
        help = f"write if {test}: for its first case, elif for the others, and else: for case _"
    elif isinstance(node, ast.Raise) and isinstance(reason := _reason(node), ast.Constant):
        help = f"write vyre.trap({source.text(reason)})"
    return Unsupported(node, message, help)


def _reason(node: ast.Raise) -> ast.expr | None:
    """The first argument of the exception that is raised."""
    return node.exc.args[0] if isinstance(node.exc, ast.Call) and node.exc.args else None


def surely_unsupported(statements: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """Statements that have no translation, whatever names stand for; a branch may be left out, so none is looked into."""
    for statement in statements:
        if type(statement) in STATEMENTS:
            yield statement
        elif isinstance(statement, (ast.For, ast.While)):
            yield from surely_unsupported(statement.body)
