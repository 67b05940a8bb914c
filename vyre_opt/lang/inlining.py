"""Calls of functions of kernels: their statements in the place of the call, for its types and arrays."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..ir.diagnostics import Diagnostic
from ..ir.program import Value
from ..ir.types import DataType, with_article
from .bindings import (
    RESULT,
    RETURN,
    Binding,
    BufferView,
    LocalArray,
    Static,
    Unbound,
    named_class,
    shown_tuple,
)
from .emitter import type_of
from .flow import always_leaves, returned_values
from .named_tuples import is_named_class
from .python_source import FunctionSource, Unsupported
from .random_draws import Draw, is_draw
from .scalars import scalar_type

if TYPE_CHECKING:
    from .statements import Statements

__all__ = ["call_function"]

MAX_DEPTH = 64


def call_function(t: Statements, node: ast.Call, function: Callable[..., Any]) -> Binding:
    """The result of a call.  Raises Unsupported."""
    source = t.sources.get(function) or t.sources.setdefault(
        function, FunctionSource(function, t.source.types)
    )
    if function in t.calls or len(t.calls) >= MAX_DEPTH:
        raise Unsupported(node, f"{source.name} calls itself", "write a loop")
    bindings = _arguments(t, node, function)
    inner = type(t)(source, t.emitter, t.program, t.module, t.diagnostics)
    inner.calls, inner.sources = (*t.calls, function), t.sources
    inner.returns = bool(returned_values(source.tree.body))
    before, drawn = len(t.diagnostics), len(t.emitter.draws)
    loc, scope = t.emitter.loc, t.emitter.scope
    for argument in source.arguments:
        binding, at = bindings[argument.arg]
        inner.env[argument.arg] = _typed(t, inner, argument, binding, at)
    inner.body(source.tree.body)
    t.emitter.loc, t.emitter.scope = loc, scope
    is_own = (function.__module__ or "").partition(".")[0] == __name__.partition(".")[0]
    for diagnostic in t.diagnostics[before:]:
        if is_own:
            _tell_at_call(diagnostic, t, node, source)
            continue
        diagnostic.note(f"{source.name} is called here", t.source.location(node))
    result, returned = inner.env.get(RESULT), inner.env[RETURN]
    if is_draw(function) and isinstance(result, Value):
        t.emitter.draws.append(Draw([binding for binding, _ in bindings.values()], result))
    for draw in t.emitter.draws[drawn:]:
        draw.places = [*(() if is_own else draw.places), t.source.location(node)]
    if not inner.returns:
        _warn_of_no_effect(t, node, source)
        return Static(None)
    if len(t.diagnostics) > before:
        return Unbound("")
    given = [binding for binding, _ in bindings.values() if isinstance(binding, LocalArray)]
    parts = (result, *result) if isinstance(result, tuple) else (result,)
    if any(part is array for array in given for part in parts):
        raise Unsupported(
            node, f"{source.name} returns a local array that it was given, which would have two names"
        )
    if result is None or isinstance(result, Unbound) or not (isinstance(returned, Static) and returned.value):
        is_whole = (
            result is not None
            and not isinstance(result, Unbound)
            and always_leaves(source.tree.body, (ast.Return,))
        )
        if not is_whole:
            raise Unsupported(
                node, f"{source.name} ends without a return on some way through it", "return a value on each"
            )
    try:
        return _checked_result(inner, source, result)
    except Unsupported as error:  # in the function, not in its caller
        inner.report(error)
        inner.diagnostics[-1].note(f"{source.name} is called here", t.source.location(node))
        return Unbound("")


def _tell_at_call(error: Diagnostic, t: Statements, node: ast.Call, source: FunctionSource) -> None:
    """Tell an error in a function of this package at its call, whose arguments are what an author can change."""
    texts = dict(
        zip([argument.arg for argument in source.arguments], map(t.source.text, node.args), strict=False)
    )
    names = re.compile(rf"\b({'|'.join(map(re.escape, texts))})\b") if texts else None
    for word in ("message", "help"):
        said = getattr(error, word)
        if said and names is not None:
            setattr(error, word, names.sub(lambda name: texts[name[1]], said))
    error.loc = t.source.location(node)


def _warn_of_no_effect(t: Statements, node: ast.Call, source: FunctionSource) -> None:
    """Warn of a call of a function that returns nothing, and only assigns to names of its own, its arguments among them."""
    nodes = [*ast.walk(source.tree)]
    assigned = {n.id for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
    changed = [a.arg for a in source.arguments if a.arg in assigned]
    has_effect = any(
        (isinstance(n, (ast.Expr, ast.Assert)) and not isinstance(getattr(n, "value", None), ast.Constant))
        or (isinstance(n, ast.Subscript) and isinstance(n.ctx, ast.Store))
        for n in nodes
    )
    if has_effect or not changed or len(node.args) != len(source.arguments):
        return
    texts = dict(zip([a.arg for a in source.arguments], map(t.source.text, node.args), strict=True))
    results = ", ".join(texts[name] for name in changed)
    message = (
        f"{source.name} changes names of its own alone, and returns nothing: {results} stays as it is here"
    )
    help = f"end {source.name} with return {', '.join(changed)}, and write {results} = {t.source.text(node)}"
    t.emitter.warnings.append(Diagnostic("warning", message, t.source.location(node), help=help))


def _arguments(
    t: Statements, node: ast.Call, function: Callable[..., Any]
) -> dict[str, tuple[Binding, ast.expr]]:
    """Binding of each argument, and the place where it is written."""
    signature = inspect.signature(function)
    for parameter in signature.parameters.values():
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            message = f"{function.__name__} has a * or ** argument, and a function of kernels has none"
            raise Unsupported(node, message, f"name each argument of {function.__name__}")
    keywords = {k.arg: k.value for k in node.keywords if k.arg is not None}
    try:
        bound = signature.bind(*node.args, **keywords)
    except TypeError as error:
        raise Unsupported(
            node, f"{function.__name__}(): {error}", f"it is {function.__name__}{_shown(signature)}"
        ) from None
    arguments: dict[str, tuple[Binding, ast.expr]] = {}
    for name, parameter in signature.parameters.items():
        if name in bound.arguments:
            expression = bound.arguments[name]
            arguments[name] = t.expression(expression), expression
        else:
            arguments[name] = Static(parameter.default), node
    return arguments


def _shown(signature: inspect.Signature) -> str:
    return f"({', '.join(signature.parameters)})"


def _typed(t: Statements, inner: Any, argument: ast.arg, binding: Binding, at: ast.expr) -> Binding:
    """An argument as its annotation wants it, if there is one for a number."""
    if argument.annotation is None or isinstance(binding, BufferView):
        return binding
    try:
        dtype = scalar_type(inner.static(argument.annotation, "the type of an argument"))
    except Unsupported as error:
        inner.report(error)
        return Unbound("")
    return binding if dtype is None else t.as_value(binding, at, dtype)


def _checked_result(inner: Any, source: FunctionSource, result: Any) -> Binding:
    """The result, of the type that the function says it has, if it does."""
    if source.tree.returns is None:
        return result  # type: ignore[no-any-return]
    annotation = inner.static(source.tree.returns, "the type of a result")
    if is_named_class(annotation) and named_class(result) is not annotation:
        at, shown = returned_values(source.tree.body)[0], annotation.__name__
        raise Unsupported(
            at, f"{source.text(at)} is {shown_tuple(result)}, and {source.name} returns {with_article(shown)}"
        )
    dtype = scalar_type(annotation)
    if dtype is None or isinstance(result, tuple):
        return result  # type: ignore[no-any-return]
    try:
        return inner.as_value(result, source.tree.returns, dtype)  # type: ignore[no-any-return]
    except Unsupported:
        has, returned = type_of(result), returned_values(source.tree.body)
        text = source.text(returned[0])
        error = Unsupported(returned[0], f"{text} is {has}, and {source.name} returns {dtype}")
        error.help = f"write {dtype}({text}), or declare -> {has}" if isinstance(has, DataType) else None
        raise error from None
