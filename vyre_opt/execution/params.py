"""Runtime scalars: the values that a caller passes for the params of a program or a pipeline, as words.

A word is 64 bits: those of the value, the others zero.  Code takes a word for each param of its program, in the order
of their names.

    param @alpha : f32        {"alpha": 2, "n": 7}  ->  (0x40000000, 7)
    param @n : u32
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..ir import arith
from ..ir.literals import LiteralError, encode, read_literal
from ..ir.pipeline import Launch
from ..ir.program import Param, Program
from ..ir.suggestions import suggest
from .arrays import encode_spec
from .dispatcher import BadInputs

__all__ = [
    "NO_PARAMS",
    "Words",
    "launch_words",
    "param_words",
    "value_as_passed",
    "value_of_word",
    "values_of_words",
    "word",
]

Words = tuple[int, ...]

NO_PARAMS: Mapping[str, int] = {}
"""The words of what has no params.  Never written to."""


def word(encoded: int, param: Param) -> int:
    """The word of an encoded value (see `ir.arith`)."""
    return arith.to_bits(int(encoded), param.dtype)


def value_of_word(bits: int, param: Param) -> int:
    """The encoded value of a word."""
    return arith.wrap(bits, param.dtype) if param.dtype.is_int else bits


def values_of_words(program: Program, words: Words) -> dict[str, bool | int | float]:
    """The values of a program's runtime scalars, by name, as a caller would pass them."""
    pairs = zip(sorted(program.params.items()), words, strict=True)
    return {name: value_as_passed(bits, param) for (name, param), bits in pairs}


def value_as_passed(bits: int, param: Param) -> bool | int | float:
    """The value of a word as a caller passes it."""
    encoded = value_of_word(bits, param)
    if param.dtype.is_float:
        return arith.decode_float(encoded, param.dtype)
    return bool(encoded) if param.dtype.is_bool else encoded


def param_words(
    title: str,
    params: Mapping[str, Param],
    values: Mapping[str, Any] | None,
    advice: str = "params={{{name!r}: value}}",
) -> dict[str, int]:
    """The word of each of `params`, by name, in the order of the names.

    `values`: by name, as Python values, or as text in the syntax of the language.  `title`: of what has the params,
    for messages; `advice`: how a caller passes a value, with {name}.
    Raises BadInputs for a value that is missing, does not fit its type, or belongs to no param.
    """
    if values is not None and not isinstance(values, Mapping):
        raise BadInputs(f"{title}: params are values by name, not {type(values).__name__}")
    encoded: dict[str, int] = {}
    for name, value in (values or {}).items():
        plain = str(name).removeprefix("@")
        param = params.get(plain)
        if param is None:
            hint = suggest(plain, params, "@")
            known = ", ".join(f"@{known}" for known in params) or "none"
            raise BadInputs(f"{title} has no param @{plain}; it has {known}" + (f"; {hint}" if hint else ""))
        try:
            encoded[plain] = (
                encode(read_literal(value), param.dtype)
                if isinstance(value, str)
                else encode_spec(value, param.dtype)
            )
        except (LiteralError, ValueError) as error:
            raise BadInputs(f"{title}: param @{plain} is {param.dtype}: {error}") from None
    missing = [p for name, p in params.items() if name not in encoded and p.default is None]
    if missing:
        names = ", ".join(f"@{p.name} : {p.dtype}" for p in missing)
        passed = ", ".join(advice.format(name=p.name) for p in missing)
        raise BadInputs(f"{title} needs a value for {names}; pass {passed}")
    encoded = {name: p.default for name, p in params.items() if p.default is not None} | encoded
    return {name: word(encoded[name], params[name]) for name in sorted(params)}


def launch_words(launch: Launch, program: Program) -> tuple[int | str, ...]:
    """Word, or pipeline's param with its value, of each param of a launch's program, in the order of the names."""
    result: list[int | str] = []
    for name, param in sorted(program.params.items()):
        value = launch.params.get(name)
        if isinstance(value, str):
            result.append(value)
        else:
            assert value is not None or param.default is not None, "the verifier has looked"
            result.append(word(param.default or 0 if value is None else encode(value, param.dtype), param))
    return tuple(result)
