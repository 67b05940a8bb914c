"""The source of a Python function: its syntax tree, the places of its nodes, and the names that it sees."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from typing import Any
from unicodedata import normalize

from ..ir.diagnostics import Diagnostic, DiagnosticError, Location, Source
from ..ir.spelling import PYTHON

__all__ = ["FunctionSource", "Unsupported", "text_name"]


class Unsupported(Exception):
    """Something in a kernel that has no translation.  `node`: where; `help`: what to write."""

    def __init__(self, node: ast.AST, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.node, self.message, self.help = node, message, help
        self.notes: list[tuple[str, Location | None]] = []


def text_name(name: str) -> str:
    """The name that a value has in the text, whose letters are those of ASCII."""
    return name if name.isascii() else "".join(c if c.isascii() else "_" for c in normalize("NFD", name))


class FunctionSource:
    """A function's syntax tree, and where its nodes are in their file.

    `names`: what its free names stand for, those of closures before globals and builtins.
    Raises DiagnosticError for a function whose source nobody has kept.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        code = function.__code__
        self.name = function.__name__
        try:
            snippet, first = inspect.getsourcelines(code)
        except (OSError, TypeError, IndexError, SyntaxError):
            snippet, first = [], 0
        # behind that, which reads the file again if it has changed
        lines = linecache.getlines(code.co_filename, function.__globals__)
        if not lines or not snippet:
            raise DiagnosticError([_no_source(function)])
        self.source = Source("".join(lines), _shown_name(code.co_filename), spelling=PYTHON)
        self._starts = _line_starts(lines)
        self._lines = lines
        self._first = first
        tree = _parsed(snippet)
        if not isinstance(tree, (ast.FunctionDef, ast.AsyncFunctionDef)) or tree.name != code.co_name:
            raise DiagnosticError([_other_source(function)])
        if isinstance(tree, ast.AsyncFunctionDef):
            raise DiagnosticError(
                [Diagnostic("error", "a kernel is no coroutine", self.location(tree), help="write def")]
            )
        self.tree = tree
        self.names = _names(function)
        for node, name in [(tree, self.name), *((a, a.arg) for a in self.arguments)]:
            if not name.isascii():
                message = f"{name} has letters that the names of programs and arguments do not have"
                help = "write it with those of ASCII"
                raise DiagnosticError([Diagnostic("error", message, self.location(node), help=help)])

    @property
    def arguments(self) -> list[ast.arg]:
        """Those of the function, but for * and **."""
        arguments = self.tree.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]

    def location(self, node: ast.AST) -> Location:
        """The characters of a node in the file."""
        start = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
        end = self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
        return Location(self.source, start, max(end, start + 1))

    def text(self, node: ast.AST) -> str:
        """The text of a node, its first line if there are more."""
        loc = self.location(node)
        first, *more = self.source.text[loc.start : loc.end].split("\n")
        return f"{first} ..." if more else first

    def _offset(self, line: int, column: int) -> int:
        """The offset of a place in the function's text: `column` is in bytes of UTF-8, as `ast` has it."""
        number = line + self._first - 2
        text = self._lines[number] if number < len(self._lines) else ""
        if text.isascii():
            return self._starts[number] + column
        return self._starts[number] + len(text.encode()[:column].decode(errors="ignore"))


def _parsed(snippet: list[str]) -> ast.stmt | None:
    """The statement of some lines, which may be indented; None if they are none."""
    is_indented = snippet[0][:1].isspace()
    try:
        # not dedented: comments, and lines of a text or in brackets, may stand further left
        statement: ast.stmt = ast.parse("if 1:\n" * is_indented + "".join(snippet)).body[0]
    except SyntaxError:
        return None
    if is_indented:
        assert isinstance(statement, ast.If)
        statement = statement.body[0]
        ast.increment_lineno(statement, -1)
    return statement


def _shown_name(filename: str) -> str:
    """The name of a file, or of a notebook's cell: `In[3]`."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    cell = shell.compile.format_code_name(filename) if shell is not None else None
    return filename if cell is None else cell[1]


def _line_starts(lines: list[str]) -> list[int]:
    starts, at = [], 0
    for line in lines:
        starts.append(at)
        at += len(line)
    return [*starts, at]


def _names(function: Callable[..., Any]) -> Mapping[str, Any]:
    closure: dict[str, Any] = {}
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            closure[name] = cell.cell_contents
        except ValueError:  # a name that is assigned later
            continue
    return {**vars(builtins), **function.__globals__, **closure}


def _other_source(function: Callable[..., Any]) -> Diagnostic:
    code = function.__code__
    return Diagnostic(
        "error",
        f"{function.__name__} is not in {code.co_filename}, line {code.co_firstlineno}, any more: the file has changed since",
        help="import it again",
    )


def _no_source(function: Callable[..., Any]) -> Diagnostic:
    code = function.__code__
    return Diagnostic(
        "error",
        f"the source of {function.__name__} is not to be had: it was defined in {code.co_filename}, line "
        f"{code.co_firstlineno}, of which no text was kept",
        help="define it in a file or in a notebook; exec and python -c keep no text",
    )
