"""Properties that are computed once, without a lock."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

__all__ = ["lazy_property"]

T = TypeVar("T")


class lazy_property(Generic[T]):  # noqa: N801  named as the decorator that it is
    """`functools.cached_property` without its lock, of which Python 3.11 has one for all instances.

    A child that is forked while another thread holds that lock would wait for it for ever.
    """

    def __init__(self, compute: Callable[[Any], T]) -> None:
        self.compute = compute
        self.__doc__ = compute.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, instance: Any, owner: type) -> T:
        value = instance.__dict__[self.name] = self.compute(instance)
        return value
