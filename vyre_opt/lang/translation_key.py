"""Key of a function's translation: all that the translation reads, as plain values.

    functions   its file, name and line, and those of the functions of kernels that it calls
    headers     the types and the defaults of arguments, as Python has evaluated them
    names       the objects that names outside of a function stand for, and those of modules, such as `config.SIZE`
    versions    of Python and of NumPy

Numbers, texts, tuples, types, what kernels are written with, kernels and functions of kernels have a key.  A function that reads any
other object has none, and each process translates it.
"""

from __future__ import annotations

import ast
import sys
import typing
from collections.abc import Callable, Iterable, Mapping
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any, TypeVar

from blake3 import blake3

from ..ir.diagnostics import DiagnosticError
from .constants import constant_of
from .intrinsics import Intrinsic, KernelNamespace
from .python_source import FunctionSource

__all__ = ["KeyedFunction", "translation_key"]

_OWN = __name__.partition(".")[0]

_BUILTINS = frozenset(
    "abs all any bin bool chr complex divmod enumerate float hex int len list max min oct ord pow print range reversed round slice "
    "sorted sum tuple zip".split()
)
"""Names of Python whose results depend on their arguments alone."""

_PLAIN = frozenset((type(None), type(...), bool, int, str, bytes))


class KeyedFunction:
    """Base of the objects that stand for a function of kernels: its function, and all else that decides what it means."""

    function: Callable[..., Any]

    @property
    def key_options(self) -> tuple[Any, ...]:
        """Plain values that decide what it means, beside the function."""
        return ()

    @property
    def key_types(self) -> Mapping[Any, Any] | None:
        """Types of its type variables."""
        return None


def translation_key(function: KeyedFunction) -> tuple[Any, ...] | None:
    """The key, equal in each process for equal translations; None for a function without one."""
    numpy = sys.modules.get("numpy")
    versions = sys.version, None if numpy is None else numpy.__version__
    try:
        return *versions, *_Objects().keyed(function)
    except (_Unknown, DiagnosticError):
        return None


class _Unknown(Exception):
    """Error for an object that has no key."""


class _Objects:
    """Writes objects as plain values, each function once."""

    def __init__(self) -> None:
        self._numbers: dict[Any, int] = {}

    def keyed(self, function: KeyedFunction) -> tuple[Any, ...]:
        types = function.key_types
        bound = None if types is None else [(self._value(k), self._value(v)) for k, v in types.items()]
        return type(function).__name__, function.key_options, bound, self._function(function.function)

    def _function(self, function: Callable[..., Any]) -> tuple[Any, ...]:
        number = self._numbers.get(function)
        if number is not None:
            return "function", number
        self._numbers[function] = len(self._numbers)
        source = FunctionSource(function)
        local = {*source.assigned, *(argument.arg for argument in source.arguments)}
        reads = _reads(_header(source)) | {name for name in _reads(source.tree.body) if name[0] not in local}
        return (
            "function",
            function.__qualname__,
            function.__code__.co_firstlineno,
            source.source.name,
            blake3(source.source.text.encode(errors="surrogatepass")).hexdigest(),
            [(name, self._value(value)) for name, value in function.__annotations__.items()],
            self._value(function.__defaults__),
            sorted((name, self._value(value)) for name, value in (function.__kwdefaults__ or {}).items()),
            [(name, self._named(source.names, name)) for name in sorted(reads) if name[0] in source.names],
        )

    def _named(self, names: Mapping[str, Any], name: tuple[str, ...]) -> tuple[Any, ...]:
        """The object of a name with attributes, as far as these are of modules.  Raises _Unknown."""
        value = names[name[0]]
        for number, attribute in enumerate(name[1:], start=1):
            if not isinstance(value, ModuleType):
                break
            if value.__name__.partition(".")[0] == _OWN:
                return "own", value.__name__, *name[number:]
            if attribute not in vars(value):
                raise _Unknown
            value = vars(value)[attribute]
        return self._value(value)

    def _value(self, value: Any) -> tuple[Any, ...]:
        """An object.  Raises _Unknown."""
        value = constant_of(value)
        kind = type(value)
        if kind in _PLAIN:
            return kind.__name__, value
        if kind is float:
            return "float", value.hex()
        if kind is tuple:
            return "tuple", *map(self._value, value)
        if kind is slice:
            return "slice", *map(self._value, (value.start, value.stop, value.step))
        if isinstance(value, KeyedFunction):
            name = value.function.__qualname__
            is_known = _root(value) == _OWN and "<locals>" not in name  # which reads nothing that differs
            return (kind.__name__, name) if is_known else self.keyed(value)
        if isinstance(value, (Intrinsic, KernelNamespace)):
            return kind.__name__, value.__name__
        if isinstance(value, TypeVar):
            return (
                "variable",
                value.__name__,
                self._value(value.__bound__),
                self._value(value.__constraints__),
            )
        if value is typing.Annotated:
            return ("annotated",)
        if (origin := typing.get_origin(value)) is not None:
            return "alias", self._value(origin), *map(self._value, typing.get_args(value))
        if isinstance(value, (type, FunctionType, BuiltinFunctionType)):
            if _root(value) == _OWN or (_root(value) == "builtins" and value.__name__ in _BUILTINS):
                return kind.__name__, value.__module__, value.__qualname__
            if _root(value) == ("numpy" if isinstance(value, type) else "math"):
                return kind.__name__, value.__module__, value.__qualname__
        if kind.__name__ == "ufunc" and _root(kind) == "numpy":
            return kind.__name__, value.__name__
        raise _Unknown


def _root(value: Any) -> str:
    """The package that an object is of."""
    return str(getattr(value, "__module__", "")).partition(".")[0]


def _header(source: FunctionSource) -> list[ast.AST]:
    """Annotations and defaults of a function; those in quotes are parsed.  Raises _Unknown."""
    annotations = [argument.annotation for argument in source.arguments]
    annotations += [node.annotation for node in ast.walk(source.tree) if isinstance(node, ast.AnnAssign)]
    parts: list[ast.AST] = [*source.tree.args.defaults, *filter(None, source.tree.args.kw_defaults)]
    for annotation in filter(None, annotations):
        parts.append(annotation)
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                try:
                    parts.append(ast.parse(node.value, mode="eval"))
                except (SyntaxError, ValueError):
                    raise _Unknown from None
    return parts


def _reads(nodes: Iterable[ast.AST]) -> set[tuple[str, ...]]:
    """The names in syntax trees, each with the attributes that are read of it."""
    reads, seen = set[tuple[str, ...]](), set[ast.AST]()
    for node in (node for part in nodes for node in ast.walk(part)):  # the whole of `a.b.c` before `a.b`
        attributes: list[str] = []
        while isinstance(node, ast.Attribute) and node not in seen:
            seen.add(node)
            attributes.insert(0, node.attr)
            node = node.value
        if isinstance(node, ast.Name) and node not in seen:
            seen.add(node)
            reads.add((node.id, *attributes))
    return reads
