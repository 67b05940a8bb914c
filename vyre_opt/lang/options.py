"""Kernels and pipelines under other options, each made once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol, Self, TypeVar

__all__ = ["under_options"]


class _Optional(Protocol):
    """What `options` is called on: `_original`, if it is one under options; `_variants`: such, by a target's name and passes."""

    _target: Any
    _passes: str | None
    _original: Self | None
    _variants: dict[Any, Self]


V = TypeVar("V", bound=_Optional)


def under_options(of: V, target: Any, passes: str | None, make: Callable[[], V]) -> V:
    """A kernel or a pipeline for a target, after passes; `make` gives one without options.

    It has been translated if `of` has.  One for a dispatcher, which need have no hash, is made at each call.
    """
    original = of._original or of
    has_names = all(each is None or isinstance(each, str) for each in (target, passes))
    key = (target, passes) if has_names else None
    other = original._variants.get(key)
    if other is None:
        other = make()
        other.__dict__.update({k: v for k, v in of.__dict__.items() if k == "module"})
        other._target, other._passes, other._original = target, passes, original
        if key is not None:
            original._variants[key] = other
    return other
