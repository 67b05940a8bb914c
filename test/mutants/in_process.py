"""A mistake planted in the code of this process: functions get the code that the edited text gives them.

They stay the objects that other files have imported, so nothing is loaded again.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from .mutant import Mutant

__all__ = ["planted"]


@contextmanager
def planted(mutant: Mutant) -> Iterator[None]:
    """Plant a mistake within the block."""
    module = import_module(mutant.path.removesuffix(".py").replace("/", "."))
    assert module.__file__ is not None
    text = Path(module.__file__).read_text(encoding="utf-8")
    assert text.count(mutant.old) == 1, f"{mutant.path} has {mutant.old!r} {text.count(mutant.old)} times"
    edited = ModuleType(module.__name__)
    edited.__dict__.update(__file__=module.__file__, __package__=module.__package__)
    exec(compile(text.replace(mutant.old, mutant.new), module.__file__, "exec"), edited.__dict__)
    pairs = list(_functions(vars(module), vars(edited), module.__name__))
    was = [(own, own.__code__, own.__defaults__) for own, _ in pairs]
    try:
        for own, other in pairs:
            own.__code__, own.__defaults__ = other.__code__, other.__defaults__
        yield
    finally:
        for own, code, defaults in was:
            own.__code__, own.__defaults__ = code, defaults


def _functions(own: Any, other: Any, module: str) -> Iterator[tuple[FunctionType, FunctionType]]:
    """The functions that two texts of a module define, in its classes and tables too."""
    for name, value in own.items():
        twin = other.get(name)
        if isinstance(value, type) and isinstance(twin, type) and value.__module__ == module:
            yield from _functions(vars(value), vars(twin), module)
        elif isinstance(value, dict) and isinstance(twin, dict) and not str(name).startswith("__"):
            yield from _functions(value, twin, module)
        else:
            pair = _plain(value), _plain(twin)
            if all(isinstance(each, FunctionType) and each.__module__ == module for each in pair):
                if len(pair[0].__code__.co_freevars) == len(pair[1].__code__.co_freevars):
                    yield pair


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
