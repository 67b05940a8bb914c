"""Values of a kernel with names, which a `NamedTuple` holds together: `Particle(x, v)`, `p.x`, `p._replace(v=0.0)`.

One of values is an object of the class itself, whose fields are bindings, so it goes where tuples go: through branches and loops, out of
functions, into names.
"""

from __future__ import annotations

import ast
import inspect
import typing
from typing import Any

from ..ir.suggestions import suggest
from ..records import dataclass
from .bindings import Binding, Static, named_class, parts_of
from .python_source import Unsupported
from .scalars import scalar_type

__all__ = ["construct", "field_of", "is_named_class", "named_class_called"]


def is_named_class(value: object) -> bool:
    """Whether it is a class of tuples with names."""
    return isinstance(value, type) and issubclass(value, tuple) and hasattr(value, "_fields")


def named_class_called(t: Any, node: ast.expr) -> type | None:
    """The class of tuples with names that an expression calls; None for any other expression."""
    if not isinstance(node, ast.Call):
        return None
    try:
        callee = t.expression(node.func)
    except Unsupported:  # which the translation of the expression tells
        return None
    return callee.value if isinstance(callee, Static) and is_named_class(callee.value) else None


def construct(t: Any, node: ast.Call, cls: Any) -> Binding:
    """`Particle(x, v=0.0)`: numbers as the types of the fields want them.  Raises Unsupported."""
    given = _bound(node, inspect.signature(cls), cls.__name__)
    types = _types_of(t, cls)
    defaults = {name: Static(value) for name, value in cls._field_defaults.items()}
    values = {name: _typed(t, t.expression(at), at, types.get(name)) for name, at in given.items()}
    values |= {
        name: _typed(t, default, node, types.get(name))
        for name, default in defaults.items()
        if name not in given
    }
    return cls._make(values[name] for name in cls._fields)  # type: ignore[no-any-return]


def field_of(t: Any, node: ast.Attribute, base: Binding) -> Binding:
    """`p.x`, and `p._replace` to call.  Raises Unsupported."""
    cls: Any = named_class(base)
    parts: Any = parts_of(base)
    if node.attr == "_replace":
        return Static(_Replacement(cls._make(parts)))
    if node.attr not in cls._fields:
        if hasattr(cls, node.attr):
            raise Unsupported(
                node,
                f"{node.attr} is a method of {cls.__name__}, and kernels call functions",
                f"write it outside of the class with @vyre.func, and call {node.attr}({t.source.text(node.value)})",
            )
        hint = suggest(node.attr, cls._fields) or f"it has {', '.join(cls._fields)}"
        raise Unsupported(node, f"{cls.__name__} has no field {node.attr}", hint)
    return parts[cls._fields.index(node.attr)]  # type: ignore[no-any-return]


@dataclass(frozen=True, eq=False)
class _Replacement:
    """`p._replace`, which a kernel calls."""

    base: Any

    def __vyre_call__(self, t: Any, node: ast.Call) -> Binding:
        cls = type(self.base)
        if node.args:
            raise Unsupported(
                node.args[0], "_replace takes fields by their names", f"it has {', '.join(cls._fields)}"
            )
        fields = [inspect.Parameter(n, inspect.Parameter.KEYWORD_ONLY, default=None) for n in cls._fields]
        given = _bound(node, inspect.Signature(fields), f"{cls.__name__}._replace")
        types = _types_of(t, cls)
        return self.base._replace(  # type: ignore[no-any-return]
            **{name: _typed(t, t.expression(at), at, types.get(name)) for name, at in given.items()}
        )


def _bound(node: ast.Call, signature: inspect.Signature, name: str) -> dict[str, ast.expr]:
    """The arguments of a call by the names of fields."""
    starred = next((a for a in node.args if isinstance(a, ast.Starred)), None)
    starred = starred or next((k for k in node.keywords if k.arg is None), None)  # type: ignore[assignment]
    if starred is not None:
        raise Unsupported(starred, "a kernel does not unpack with * or **", "write the fields")
    try:
        return signature.bind(*node.args, **{k.arg or "": k.value for k in node.keywords}).arguments
    except TypeError as error:
        raise Unsupported(
            node, f"{name}(): {error}", f"it is {name}({', '.join(signature.parameters)})"
        ) from None


def _types_of(t: Any, cls: Any) -> dict[str, Any]:
    """The types of fields; none where an annotation, as text, names what nobody knows any more."""
    try:
        hints = typing.get_type_hints(cls, localns=dict(t.source.names))
    except Exception:  # of the caller's names: it may be anything
        return {}
    return {name: t.source.bound(hint) for name, hint in hints.items()}


def _typed(t: Any, binding: Binding, at: ast.expr, annotation: Any) -> Binding:
    """A field's value as its type wants it, where that is a number's or another class of tuples."""
    if is_named_class(annotation) and named_class(binding) is not annotation:
        raise Unsupported(
            at, f"{t.source.text(at)} is no {annotation.__name__}", f"write {annotation.__name__}(...)"
        )
    dtype = scalar_type(annotation)
    return binding if dtype is None else t.as_value(binding, at, dtype)
