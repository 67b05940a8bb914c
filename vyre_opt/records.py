"""`dataclass` of the standard library, made in a fifth of the time, for modules that every start-up imports.

The library compiles a text for each method of a class, and asks for the signature of one without a docstring.  Here `__init__` alone
is compiled, when it is first called; the other methods read fields by `attrgetter`.  The first call of a kernel from
the cache makes 65 such classes; the library would take 147 million instructions more for them, 40 % of what an import of NumPy takes.
Classes are those of the library to `fields`, `replace`, `asdict`, to
pickle and to type checkers.
"""

from __future__ import annotations

import dataclasses
from _thread import get_ident
from operator import attrgetter

TYPE_CHECKING = False  # as in vyre_opt/__init__.py
if TYPE_CHECKING:
    from collections.abc import Callable
    from dataclasses import dataclass
    from typing import Any
else:

    def dataclass(cls=None, /, *, init=True, frozen=False, slots=False, eq=True, repr=True, kw_only=False):
        """See `dataclasses.dataclass`; what this one has no argument for, that one has."""

        def made(cls):
            return _made(cls, init, frozen, slots, eq, repr, kw_only)

        return made if cls is None else made(cls)


__all__ = ["dataclass"]

_FACTORY = object()
"""Stands in the place of an argument whose field has a function that makes its default."""


def _made(cls: Any, init: bool, frozen: bool, slots: bool, eq: bool, repr: bool, kw_only: bool) -> Any:
    if cls.__doc__ is None:
        cls.__doc__ = cls.__name__  # else the library would ask for a signature
    own = vars(cls)
    has_eq, has_repr = "__eq__" in own, "__repr__" in own
    # None where a class has its own __eq__, and says nothing of a hash
    has_hash = not (own.get("__hash__") is None and (has_eq or "__hash__" not in own))
    dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
    fields = dataclasses.fields(cls)
    if slots:
        cls = _with_slots(cls, [field.name for field in fields])
    if init:
        cls.__init__ = _Init(cls, fields, frozen, slots)
    if repr and not has_repr:
        cls.__repr__ = _repr([field.name for field in fields if field.repr])
    if eq:
        values = _values([field.name for field in fields if field.compare])
        if not has_eq:
            cls.__eq__ = _eq(values)
        if not has_hash:
            hashed = [f.name for f in fields if (f.compare if f.hash is None else f.hash)]
            cls.__hash__ = _hash(_values(hashed)) if frozen else None
    if frozen:
        _freeze(cls, frozenset(field.name for field in fields))
        if slots and "__getstate__" not in own:
            cls.__getstate__, cls.__setstate__ = _getstate, _setstate
    return cls


def _with_slots(cls: Any, names: list[str]) -> Any:
    """The class anew, since slots are made with a class."""
    inherited = {slot for base in cls.__mro__[1:-1] for slot in _slots(base)}
    namespace = {
        name: value for name, value in vars(cls).items() if name not in (*names, "__dict__", "__weakref__")
    }
    namespace["__slots__"] = tuple(name for name in names if name not in inherited)
    made = type(cls)(cls.__name__, cls.__bases__, namespace)
    made.__qualname__ = cls.__qualname__
    return made


def _slots(cls: type) -> tuple[str, ...]:
    slots = vars(cls).get("__slots__", ())
    return (slots,) if isinstance(slots, str) else tuple(slots)


class _Init:
    """Stands for `__init__` until a class has its first instance: most have none in a process."""

    def __init__(self, cls: Any, *of: Any) -> None:
        self.cls, self.of = cls, of

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        self.cls.__init__ = init = _init(self.cls, *self.of)
        return init.__get__(instance, owner)


def _init(cls: Any, fields: tuple[Any, ...], frozen: bool, slots: bool) -> Any:
    missing = dataclasses.MISSING
    names: dict[str, Any] = {"__name__": cls.__module__, "_FACTORY": _FACTORY, "_set": object.__setattr__}
    positional, keywords, body = list[str](), list[str](), list[str]()
    for field in fields:
        name, value = field.name, field.name
        if field.default_factory is not missing:
            names[f"_make_{name}"] = field.default_factory
            value = f"_make_{name}() if {name} is _FACTORY else {name}" if field.init else f"_make_{name}()"
        elif field.default is not missing:
            names[f"_default_{name}"] = field.default
        if field.init:
            default = (
                "=_FACTORY"
                if field.default_factory is not missing
                else ""
                if field.default is missing
                else f"=_default_{name}"
            )
            (keywords if field.kw_only else positional).append(name + default)
        elif field.default_factory is missing:
            if field.default is missing or not slots:
                continue
            value = f"_default_{name}"
        body.append(f"_set(self, {name!r}, {value})" if frozen else f"self.{name} = {value}")
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    parameters = ", ".join(["self", *positional, *(["*", *keywords] if keywords else [])])
    exec(f"def __init__({parameters}):\n " + "\n ".join(body or ["pass"]), names)
    init = names["__init__"]
    init.__qualname__ = f"{cls.__qualname__}.__init__"
    init.__annotations__ = {field.name: field.type for field in fields if field.init} | {"return": None}
    return init


def _values(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """A function that gives the values of some fields."""
    if len(names) > 1:
        return attrgetter(*names)
    one = attrgetter(*names) if names else None
    return lambda self: () if one is None else (one(self),)


def _eq(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def equals(self: Any, other: object) -> Any:
        return values(self) == values(other) if other.__class__ is self.__class__ else NotImplemented

    return equals


def _hash(values: Callable[[Any], tuple[Any, ...]]) -> Any:
    def hashed(self: Any) -> int:
        return hash(values(self))

    return hashed


def _repr(names: list[str]) -> Any:
    shown: set[tuple[int, int]] = set()
    """Objects that are being shown, by thread."""

    def text(self: Any) -> str:
        key = id(self), get_ident()
        if key in shown:
            return "..."
        shown.add(key)
        try:
            values = ", ".join([f"{name}={getattr(self, name)!r}" for name in names])
        finally:
            shown.discard(key)
        return f"{type(self).__qualname__}({values})"

    return text


def _freeze(cls: Any, names: frozenset[str]) -> None:
    def assign(self: Any, name: str, value: object) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def delete(self: Any, name: str) -> None:
        if type(self) is cls or name in names:
            raise dataclasses.FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = assign, delete


def _getstate(self: Any) -> list[Any]:
    return [getattr(self, field.name) for field in dataclasses.fields(self)]


def _setstate(self: Any, state: list[Any]) -> None:
    for field, value in zip(dataclasses.fields(self), state, strict=True):
        object.__setattr__(self, field.name, value)
