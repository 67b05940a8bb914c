"""Kernels and pipelines under other options, each made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

from ..ir.program import Module

__all__ = ["under_options"]


class _Optional(Protocol):
    """What `options` is called on: `_original`, if it is one under options; `_variants`: such, by a target's name and the rest."""

    _module: Module | None
    _target: Any
    _passes: str | None
    _debug_info: bool
    _original: Self | None
    _variants: dict[Any, Self]


V = TypeVar("V", bound=_Optional)


def under_options(of: V, target: Any, passes: str | None, debug_info: bool, make: Callable[[], V]) -> V:
    """A kernel or a pipeline for a target, after passes, with line tables or not; `make` gives one without options.

    It has been translated if `of` has.  One for a dispatcher, which need have no hash, is made at each call.
    """
    original = of._original or of
    has_names = all(each is None or isinstance(each, str) for each in (target, passes))
    key = (target, passes, bool(debug_info)) if has_names else None
    other = original._variants.get(key)
    if other is None:
        other = make()
        other._module, other._original = of._module, original
        other._target, other._passes, other._debug_info = target, passes, bool(debug_info)
        if key is not None:
            original._variants[key] = other
    return other
