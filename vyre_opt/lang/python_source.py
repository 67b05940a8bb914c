"""The source of a Python function: its syntax tree, the places of its nodes, and the names that it sees."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import sys
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, TypeVar
from unicodedata import normalize
from weakref import WeakKeyDictionary

from ..ir.author_words import PYTHON
from ..ir.diagnostics import Diagnostic, DiagnosticError, Location, Source
from ..ir.tracebacks import CallTypeError
from .flow import assigned

__all__ = ["FunctionSource", "Unsupported", "check_function", "remember_source", "text_name", "untyped"]


class Unsupported(Exception):
    """Something in a kernel that has no translation.  `node`: where; `help`: what to write."""

    def __init__(self, node: ast.AST, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.node, self.message, self.help = node, message, help
        self.notes: list[tuple[str, Location | None]] = []


def text_name(name: str) -> str:
    """The name that a value has in the text, whose letters are those of ASCII."""
    return name if name.isascii() else "".join(c if c.isascii() else "_" for c in normalize("NFD", name))


MAX_ATTEMPTS = 16

_LINES: WeakKeyDictionary[Callable[..., Any], list[str]] = WeakKeyDictionary()
"""The lines of the files of functions as they were when they were decorated."""


def remember_source(function: Callable[..., Any]) -> None:
    """Keep what a function's file holds now, since it may be another file when the function is first called."""
    if function not in _LINES:
        filename = function.__code__.co_filename
        linecache.checkcache(filename)
        _LINES[function] = linecache.getlines(filename, function.__globals__)


def check_function(function: Any, decorator: str) -> None:
    """Raise CallTypeError for what is no function with a name."""
    if not inspect.isfunction(function) or function.__name__ == "<lambda>":
        what = "a lambda" if inspect.isfunction(function) else type(function).__name__
        error = CallTypeError(f"{decorator} is for a function written with def, not {what}")
        if isinstance(function, (int, tuple)):
            error.add_note(f"help: write {decorator}(workgroup={function})")
            raise error
        if decorator == "@tunable" and hasattr(function, "function"):
            name = function.function.__name__
            error.add_note(
                f"help: write {decorator} above a function of the choices, def make(workgroup):, that has {name} in it, with its "
                f"decorator, and ends in return {name}"
            )
            raise error
        error.add_note(
            f"help: write {decorator} above def name(x: Read[f32], y: Write[f32]):, where annotations are the types"
        )
        raise error


def untyped(argument: ast.arg, function: Callable[..., Any], help: str) -> Unsupported:
    """The error for an argument without a type; `help`: what to write, where the function is no method."""
    is_method = argument.arg in ("self", "cls") and argument.arg == next(
        iter(inspect.signature(function).parameters)
    )
    if is_method:
        help = f"a kernel is no method: define it outside of the class, without {argument.arg}"
    return Unsupported(argument, f"the argument {argument.arg} has no type", help)


_OPPOSITES: dict[type[ast.cmpop], str] = {
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Lt: ">=",
    ast.LtE: ">",
    ast.Gt: "<=",
    ast.GtE: "<",
}


class FunctionSource:
    """A function's syntax tree, and where its nodes are in their file.

    `names`: what its free names stand for, those of closures before globals and builtins.  `types`: what type variables are.
    Raises DiagnosticError for a function whose source nobody has kept.
    """

    def __init__(self, function: Callable[..., Any], types: Mapping[Any, Any] | None = None) -> None:
        self.function, self.types = function, types or {}
        code = function.__code__
        self.name = function.__name__
        lines = _LINES.get(function) or linecache.getlines(code.co_filename, function.__globals__)
        first = code.co_firstlineno - 1
        if not lines:
            raise DiagnosticError([_no_source(function)])
        self.source = Source("".join(lines), _shown_name(code.co_filename), spelling=PYTHON)
        self._lines, self._starts = lines, _line_starts(lines)
        self._locations: dict[ast.AST, Location] = {}
        is_indented = first < len(lines) and bool(_indent(lines[first]))
        self._shift = first - 1 - is_indented
        """Distance from line numbers of the tree to places in `_lines`."""
        tree = _parsed(lines, first) if first < len(lines) else None
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

    @cached_property
    def assigned(self) -> frozenset[str]:
        """Names that the function assigns, which are local in all of it."""
        return frozenset(assigned(self.tree.body))

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """All names in the function."""
        return frozenset(node.id for node in ast.walk(self.tree) if isinstance(node, ast.Name))

    @cached_property
    def assignments(self) -> Mapping[str, list[ast.Assign]]:
        """The assignments to each name by itself."""
        found: dict[str, list[ast.Assign]] = {}
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign):
                for target in node.targets:
                    if isinstance(target, ast.Name):
                        found.setdefault(target.id, []).append(node)
        return found

    @cached_property
    def differences(self) -> frozenset[tuple[str, str]]:
        """Both sides of each difference as text, those of names that are assigned once as what is assigned."""
        found: set[tuple[str, str]] = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
                begin = self.assignments.get(node.right.id, []) if isinstance(node.right, ast.Name) else []
                right = begin[0].value if len(begin) == 1 else node.right
                if isinstance(right, ast.Call):
                    found.add((ast.unparse(node.left), ast.unparse(right)))
        return frozenset(found)

    @cached_property
    def counters(self) -> frozenset[str]:
        """Names of the counters of loops."""
        loops = (node for node in ast.walk(self.tree) if isinstance(node, ast.For))
        return frozenset(loop.target.id for loop in loops if isinstance(loop.target, ast.Name))

    @cached_property
    def sums(self) -> frozenset[tuple[str, str]]:
        """Both sides of each sum as text, either of them first."""
        found: set[tuple[str, str]] = set()
        for node in ast.walk(self.tree):
            sides: tuple[ast.expr, ...] = ()
            if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
                sides = (node.left, node.right)
            elif isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
                sides = (node.target, node.value)
            texts = [self.text(each) for each in sides if isinstance(each, (ast.Name, ast.Call))]
            found |= {(a, b) for a in texts for b in texts}
        return frozenset(found)

    @cached_property
    def limits(self) -> frozenset[ast.AST]:
        """Arguments of min and max."""
        calls = (node for node in ast.walk(self.tree) if isinstance(node, ast.Call))
        extremes = (node for node in calls if ast.unparse(node.func).rpartition(".")[2] in ("min", "max"))
        return frozenset(argument for call in extremes for argument in call.args)

    @cached_property
    def statements(self) -> Mapping[ast.AST, ast.stmt]:
        """The innermost statement around each node, itself for a statement."""
        found: dict[ast.AST, ast.stmt] = {self.tree: self.tree}
        for node in ast.walk(self.tree):  # parents first
            for child in ast.iter_child_nodes(node):
                found[child] = child if isinstance(child, ast.stmt) else found[node]
        return found

    def outer(self, node: ast.Name) -> Any:
        """Object that a name of `names` stands for.  Raises Unsupported for one that the function assigns."""
        if node.id in self.assigned:  # as Python has it: UnboundLocalError
            raise Unsupported(
                node,
                f"{node.id} is assigned in {self.name}, so that here it is a local name without a value",
                "names outside of kernels and pipelines stay as they are: begin with a number, or store in an array argument",
            )
        return self.bound(self.names[node.id])

    def bound(self, value: Any) -> Any:
        """Meaning of a constant in this function: the bound type for a type variable."""
        return self.types.get(value, value) if isinstance(value, (type, TypeVar)) else value

    @property
    def arguments(self) -> list[ast.arg]:
        """Arguments of the function, without * and **."""
        arguments = self.tree.args
        return [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]

    def default(self, argument: ast.arg) -> ast.expr | None:
        """Default of an argument, as it is written."""
        arguments = self.tree.args
        by_position = [*arguments.posonlyargs, *arguments.args]
        first = len(by_position) - len(arguments.defaults)
        in_order = [*by_position[first:], *arguments.kwonlyargs]
        defaults = [*arguments.defaults, *arguments.kw_defaults]
        return defaults[in_order.index(argument)] if argument in in_order else None

    def location(self, node: ast.AST) -> Location:
        """The characters of a node in the file."""
        known = self._locations.get(node)  # most are asked for more than once, as what is unrolled
        if known is None:
            start = self._offset(node.lineno, node.col_offset)  # type: ignore[attr-defined]
            end = self._offset(node.end_lineno, node.end_col_offset)  # type: ignore[attr-defined]
            known = self._locations[node] = Location(self.source, start, max(end, start + 1))
        return known

    def text(self, node: ast.AST) -> str:
        """The text of a node, its first line if there are more."""
        loc = self.location(node)
        first, *more = self.source.text[loc.start : loc.end].split("\n")
        return f"{first} ..." if more else first

    def operand(self, node: ast.AST) -> str:
        """The text of a node as an operand of an operator: of a sum or the like in parentheses."""
        text = self.text(node)
        return f"({text})" if isinstance(node, (ast.BinOp, ast.BoolOp, ast.Compare, ast.IfExp)) else text

    def opposite(self, condition: ast.expr) -> str | None:
        """The comparison that holds where another one does not; None for other conditions."""
        if not isinstance(condition, ast.Compare) or len(condition.ops) > 1:
            return None
        sign = _OPPOSITES.get(type(condition.ops[0]))
        return sign and f"{self.text(condition.left)} {sign} {self.text(condition.comparators[0])}"

    def _offset(self, line: int, column: int) -> int:
        """The offset of a place in the function's text: `column` is in bytes of UTF-8, as `ast` has it."""
        number = line + self._shift
        if self.source.text.isascii():
            return self._starts[number] + column
        text = self._lines[number] if number < len(self._lines) else ""
        return self._starts[number] + len(text.encode()[:column].decode(errors="ignore"))


def _parsed(lines: list[str], first: int) -> ast.stmt | None:
    """The statement that begins at a line of a file; None if none does.  See `_statement` for its lines' numbers.

    It ends before the first line that is indented no more, unless that is a decorator's, in brackets or in a text: then
    what is before it is no statement.
    """
    indent = _indent(lines[first])
    attempts, has_header = 0, _is_header(lines[first])
    for end in range(first + 1, len(lines) + 1):
        if end < len(lines) and not _ends_block(lines[end], indent):
            continue
        if not has_header and end < len(lines):  # the lines of decorators
            has_header = _is_header(lines[end])
            continue
        statement = _statement(lines[first:end], bool(indent))
        if statement is not None:
            return statement
        attempts += 1
        if attempts == MAX_ATTEMPTS:
            break
    try:
        return _statement(inspect.getblock(lines[first:]), bool(indent))  # by its tokens, which takes longer
    except (IndexError, SyntaxError):
        return None


def _is_header(line: str) -> bool:
    return line.lstrip().startswith(("def ", "async "))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _ends_block(line: str, indent: int) -> bool:
    """Whether a line is indented no more than `indent`; comments and empty lines may stand anywhere."""
    return line[: indent + 1].lstrip()[:1] not in ("", "#")


def _statement(snippet: list[str], is_indented: bool) -> ast.stmt | None:
    """The first statement of some lines, whose numbers begin with 1, or with 2 if they are indented; None if there is none."""
    try:
        # not dedented: comments, and lines of a text or in brackets, may stand further left
        body = ast.parse("if 1:\n" * is_indented + "".join(snippet)).body
    except SyntaxError:
        return None
    if is_indented:
        assert isinstance(body[0], ast.If)
        body = body[0].body
    return body[0] if body else None


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
    own = {
        variable.__name__: variable for variable in getattr(function, "__type_params__", ())
    }  # of `def f[T]`
    return {**vars(builtins), **function.__globals__, **closure, **own}


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
