"""A mistake planted in the code of this process: functions get the code that the edited text gives them.

They stay the objects that other files have imported, and nothing is run but they.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType
from typing import Any

from .mutant import Mutant

__all__ = ["planted"]


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant a mistake, which is within a function, within the block."""
    module = import_module(mutant.path.removesuffix(".py").replace("/", "."))
    assert module.__file__ is not None
    text = Path(module.__file__).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.path} has {mutant.old!r} {text.count(mutant.old)} times"
    edited = dict(_codes(compile(text.replace(mutant.old, mutant.new), module.__file__, "exec")))
    changed = [f for f in _functions(vars(module), module.__name__) if f.__code__.co_qualname in edited]
    was = [(function, function.__code__) for function in changed]
    try:
        for function in changed:
            function.__code__ = edited[function.__code__.co_qualname]
        yield
    finally:
        for function, code in was:
            function.__code__ = code


def _codes(code: CodeType) -> Iterator[tuple[str, CodeType]]:
    """The functions in the code of a module, of its classes too, by their names."""
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield inner.co_qualname, inner
            yield from _codes(inner)


def _functions(names: Any, module: str) -> Iterator[FunctionType]:
    """The named functions that a module defines, in its classes too."""
    for value in list(names.values()):
        if isinstance(value, type) and value.__module__ == module:
            yield from _functions(vars(value), module)
        function = _plain(value)
        if (
            isinstance(function, FunctionType)
            and function.__module__ == module
            and "<lambda>" not in function.__qualname__
        ):
            yield function


def _plain(value: Any) -> Any:
    """The function in a property, a method or a cache."""
    for wrapper, inside in (
        (property, "fget"),
        (cached_property, "func"),
        ((classmethod, staticmethod), "__func__"),
    ):
        if isinstance(value, wrapper):
            return getattr(value, inside)
    return getattr(value, "__wrapped__", value)
