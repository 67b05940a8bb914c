"""The values of a program's specialization constants to compile it with."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ...ir.diagnostics import Diagnostic, DiagnosticError
from ...ir.program import Program

__all__ = ["check_specs", "spec_values"]


def spec_values(program: Program, values: Mapping[str, Any]) -> dict[str, Any]:
    """The encoded `values`, completed by the defaults.

    Raises DiagnosticError for a spec without either, and for a type parameter.
    """
    check_specs([program], values)
    return {name: values.get(name, spec.default) for name, spec in program.specs.items()}


def check_specs(programs: Iterable[Program], values: Mapping[str, Any]) -> None:
    """Raises DiagnosticError with all specs of `programs` without a value, and all type parameters."""
    errors = [error for program in programs for error in _errors(program, values)]
    if errors:
        raise DiagnosticError(errors)


def _errors(program: Program, values: Mapping[str, Any]) -> list[Diagnostic]:
    """Reasons why a program can't be compiled with `values`."""
    errors = [
        Diagnostic(
            "error",
            f"program @{program.name} is open in its type @{spec.name}, and is compiled for one type",
            spec.loc,
            help="run the pass specialize before",
        )
        for spec in program.type_parameters
    ]
    return errors + [
        Diagnostic(
            "error",
            f"program @{program.name}: spec @{spec.name} has no value to compile with",
            spec.loc,
            help=f"give it one with --spec {spec.name}=VALUE, or a default",
        )
        for spec in program.specs.values()
        if spec.name not in values and spec.default is None
    ]
