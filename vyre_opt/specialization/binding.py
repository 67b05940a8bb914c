"""Binding values to the specialization constants of programs, and types to all type parameters, from a command line or a SpecMap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.pipeline import Pipeline
from ..ir.program import Module, Program, Spec
from ..ir.suggestions import suggest
from ..ir.types import DTYPE, DataType, TypeNameError
from ..ir.verifier import errors_of
from ..worker import import_module
from .encoding import encode_value
from .instantiate import instantiate, rebind
from .values import SpecValue

__all__ = ["bind", "fix_types"]

Bindings = Mapping[str, Any] | Iterable[tuple[str, Any]]
"""Names of constants, with or without `@`, and their values: text, SpecValue or DataType."""


def bind(module: Module, bindings: Bindings) -> None:
    """Make each value the default of the constants of its name, in every program and pipeline that has one.

    A value is text as in the language ("0x1f", "f16") or a SpecValue.  Type parameters are bound
    first, because the types of other constants may depend on them; the module is then verified.

    Raises DiagnosticError, located at the constants, for values that do not fit and for names that
    no program has.
    """
    pairs = bindings.items() if isinstance(bindings, Mapping) else bindings
    values = [(name.removeprefix("@"), value) for name, value in pairs]
    items = module.parametric
    errors = [_unknown(name, items) for name, _ in values if not any(name in item.specs for item in items)]
    errors += _bind_types(items, dict(values))
    if errors:
        raise DiagnosticError(errors)
    _verify_again(module, dict(values))
    for name, value in values:
        for spec in (item.specs[name] for item in items if name in item.specs):
            if spec.dtype is DTYPE:
                continue
            try:
                spec.default = encode_value(value, spec.dtype)
            except ValueError as error:
                errors.append(Diagnostic("error", f"spec @{name} is {spec.dtype.bound}: {error}", spec.loc))
    if errors:
        raise DiagnosticError(errors)


def fix_types(module: Module, bindings: Mapping[str, Any]) -> dict[str, Any]:
    """Instantiate all type parameters: with the types bound to them here, or else their defaults.

    Returns the remaining bindings, without `@`.  Raises DiagnosticError as `bind` does.
    """
    values = {name.removeprefix("@"): value for name, value in bindings.items()}
    items = module.parametric
    parameters = {spec.name for item in items for spec in item.type_parameters}
    if not parameters:
        return values
    errors = _bind_types(items, values)
    if errors:
        raise DiagnosticError(errors)
    _verify_again(module, values)
    for item in items:
        instantiate(item, {spec.name: spec.default for spec in item.type_parameters})
    # A name may be a type parameter of one program and a plain constant of another.
    constants = {name for item in items for name in item.specs}
    return {name: value for name, value in values.items() if name not in parameters or name in constants}


def _bind_types(items: Iterable[Program | Pipeline], values: Mapping[str, Any]) -> list[Diagnostic]:
    """Bind the type parameters that `values` has types for.  Returns the errors."""
    errors = []
    for item in items:
        for spec in item.specs.values():
            if spec.dtype.is_open and spec.name in values:
                spec.default = None  # it is to be replaced, so it need not fit the new type
        types = {}
        for spec in item.type_parameters:
            if spec.name in values:
                try:
                    types[spec.name] = _read_type(values[spec.name], spec)
                except ValueError as error:
                    message = f"spec @{spec.name} is a type parameter: {error}"
                    errors.append(Diagnostic("error", message, spec.loc))
        try:
            rebind(item, types)
        except DiagnosticError as error:
            errors += error.diagnostics
    return errors


def _read_type(value: Any, spec: Spec) -> DataType:
    """The type that `value` is or names: a DataType, a SpecValue.dtype or a str.  Raises ValueError."""
    if isinstance(value, SpecValue):
        value = value.value
    if isinstance(value, str):
        try:
            value = DataType.of(value.strip())
        except TypeNameError as error:
            known = DataType.all_names()
            import_module("vyre_opt.syntax.synonyms")
            from ..syntax.synonyms import advice

            hint = None if value in known else advice(value, "type", known)
            raise TypeNameError(f"{error}; {hint}" if hint else str(error)) from None
    if not isinstance(value, DataType):
        raise TypeNameError(f"{value!r} is not a type, such as f16")
    DataType.parameter(spec.name, value)
    return value


def _unknown(name: str, items: list[Program | Pipeline]) -> Diagnostic:
    known = sorted({spec for item in items for spec in item.specs})
    listed = f"; there are {', '.join('@' + s for s in known)}" if known else "; there are none"
    hint = suggest(name, known, "@")
    message = f"no program has a spec @{name}{listed}" + (f"; {hint}" if hint else "")
    return Diagnostic("error", message, items[0].loc if items else None)


def _verify_again(module: Module, values: Mapping[str, Any]) -> None:
    """Raises DiagnosticError, with a note on each parameter just bound, if the module no longer verifies."""
    bound = [s for item in module.parametric for s in item.type_parameters if s.name in values]
    if bound:
        errors = errors_of(module)
        for error in errors:
            for spec in bound:
                error.note(f"@{spec.name} = {spec.default}", spec.loc)
        if errors:
            raise DiagnosticError(errors)
