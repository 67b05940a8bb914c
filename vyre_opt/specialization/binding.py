"""Values for the constants of programs, from a command line or a SpecMap."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..ir import arith
from ..ir.diagnostics import Diagnostic, DiagnosticError, suggest
from ..ir.literals import LiteralError, encode, read_literal
from ..ir.program import Module, Program, Spec
from ..ir.types import DTYPE, DataType, TypeNameError
from ..ir.verifier import verify
from .instantiate import close, reopen
from .values import SpecValue

__all__ = ["bind", "encode_value", "fix_types"]

Given = Mapping[str, Any] | Iterable[tuple[str, Any]]


def bind(module: Module, given: Given) -> None:
    """Make each value the default of the constants of its name, in every program that has one.

    A value is text as the language writes it ("0x1f", "f16") or a SpecValue.  A type parameter
    takes its type first, so that other constants are read as it makes them, and the module is
    verified with it.

    Raises DiagnosticError, located at the constants, for values that do not fit them, and for a
    name that none has.
    """
    values = [(name.removeprefix("@"), value) for name, value in _pairs(given)]
    programs = list(module.programs.values())
    errors = [_unknown(name, programs) for name, _ in values if not any(name in p.specs for p in programs)]
    errors += _bind_types(programs, dict(values))
    if errors:
        raise DiagnosticError(errors)
    _verify_again(module, dict(values))
    for name, value in values:
        for spec in (p.specs[name] for p in programs if name in p.specs):
            if spec.dtype is DTYPE:
                continue
            try:
                spec.default = encode_value(value, spec.dtype)
            except ValueError as wrong:
                errors.append(Diagnostic("error", f"spec @{name} is {spec.dtype.bound}: {wrong}", spec.loc))
    if errors:
        raise DiagnosticError(errors)


def fix_types(module: Module, given: Mapping[str, Any]) -> dict[str, Any]:
    """Put types in the place of all type parameters: those given, and what the others stand for.

    Returns what else is given.  Raises DiagnosticError as `bind` does.
    """
    values = {name.removeprefix("@"): value for name, value in given.items()}
    programs = list(module.programs.values())
    parameters = {spec.name for program in programs for spec in program.type_parameters}
    if not parameters:
        return values
    errors = _bind_types(programs, values)
    if errors:
        raise DiagnosticError(errors)
    _verify_again(module, values)
    for program in programs:
        close(program, {spec.name: spec.default for spec in program.type_parameters})
    left = {name for program in programs for name in program.specs}
    return {name: value for name, value in values.items() if name not in parameters or name in left}


def _bind_types(programs: Iterable[Program], given: Mapping[str, Any]) -> list[Diagnostic]:
    """Make each type parameter stand for the type that it is given; what is wrong with those."""
    errors = []
    for program in programs:
        for spec in program.specs.values():
            if spec.dtype.is_open and spec.name in given:
                spec.default = None  # it is to be replaced, so it need not fit the new type
        types = {}
        for spec in program.type_parameters:
            if spec.name in given:
                try:
                    types[spec.name] = _read_type(given[spec.name], spec)
                except ValueError as wrong:
                    message = f"spec @{spec.name} is a type parameter: {wrong}"
                    errors.append(Diagnostic("error", message, spec.loc))
        try:
            reopen(program, types)
        except DiagnosticError as wrong:
            errors += wrong.diagnostics
    return errors


def _read_type(value: Any, spec: Spec) -> DataType:
    """The type that a parameter is given: a DataType, a SpecValue.dtype, or its name.  Raises ValueError."""
    if isinstance(value, SpecValue):
        value = value.value
    if isinstance(value, str):
        try:
            value = DataType.of(value.strip())
        except TypeNameError as wrong:
            known = DataType.all_names()
            hint = None if value in known else suggest(value, known)
            raise TypeNameError(f"{wrong}; {hint}" if hint else str(wrong)) from None
    if not isinstance(value, DataType):
        raise TypeNameError(f"{value!r} is not a type, such as f16")
    DataType.parameter(spec.name, value)
    return value


# What a constant may be bound by, of the types that a SpecValue itself has.
_CARRIERS = {
    **dict.fromkeys(("u8", "u16", "u32", "u64"), "u32"),
    **dict.fromkeys(("i8", "i16", "i32", "i64"), "i32"),
    **dict.fromkeys(("f16", "bf16", "f32", "f64"), "f32"),
    "bool": "bool",
}


def encode_value(value: str | SpecValue, dtype: DataType) -> int:
    """A value as an encoded constant of a scalar type.

    A SpecValue fits the type that it names; a u32 also the other unsigned integers, an i32 the
    signed ones and an f32 the floats, where they hold it exactly.  Raises ValueError.
    """
    if isinstance(value, str):
        return encode(read_literal(value), dtype)
    scalar = dtype.bound
    carrier = _CARRIERS.get(scalar.name)
    if value.kind != carrier:
        raise LiteralError(f"{value!r} is a {value.kind}, not a {carrier or scalar}")
    if carrier == "bool":
        return value.bits
    if carrier == "f32":
        return _float(value, scalar)
    low, high = arith.int_range(scalar)
    if not low <= value.value <= high:
        raise LiteralError(f"{value.value} does not fit in {scalar} ({low} to {high})")
    return int(value.value)


def _float(value: SpecValue, dtype: DataType) -> int:
    if dtype is DataType.F32:
        return value.bits
    bits = arith.encode_float(value.value, dtype)
    if value.value == value.value and arith.decode_float(bits, dtype) != value.value:
        raise LiteralError(f"{value.value!r} is not exact in {dtype}")
    return bits


def _pairs(given: Given) -> Iterable[tuple[str, Any]]:
    return given.items() if isinstance(given, Mapping) else given


def _unknown(name: str, programs: list[Program]) -> Diagnostic:
    known = sorted({spec for program in programs for spec in program.specs})
    listed = f"; there are {', '.join('@' + s for s in known)}" if known else "; there are none"
    hint = suggest(name, known, "@")
    message = f"no program has a spec @{name}{listed}" + (f"; {hint}" if hint else "")
    return Diagnostic("error", message, programs[0].loc if programs else None)


def _verify_again(module: Module, given: Mapping[str, Any]) -> None:
    """Raises DiagnosticError with what is wrong at the types just given."""
    bound = [s for p in module.programs.values() for s in p.type_parameters if s.name in given]
    if bound:
        errors = [d for d in verify(module) if d.severity == "error"]
        for error in errors:
            for spec in bound:
                error.note(f"@{spec.name} = {spec.default}", spec.loc)
        if errors:
            raise DiagnosticError(errors)
