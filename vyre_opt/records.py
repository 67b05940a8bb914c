"""`dataclass` of the standard library, made in a twelfth of the time, for modules that a first call or a tool imports.

The library compiles a text for each method of a class, and asks for the signature of one without a docstring.  Here `__init__` alone
is compiled, once a class has some instances; the other methods read fields by `attrgetter`.  The first call of a kernel from
the cache makes 82 such classes; the library would take 237 million instructions more for them, 70 % of what an import of NumPy takes.
Classes are those of the library to `fields`, `replace`, `asdict`, to
pickle and to type checkers.  But a frozen class of the library cannot derive from a frozen one of these.
"""

from __future__ import annotations

import dataclasses
from _thread import get_ident
from functools import partial
from inspect import get_annotations
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
    fields = _fields(cls, kw_only)
    if slots:
        cls = _with_slots(cls, [field.name for field in fields])
    if init and "__init__" not in own:
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


def _fields(cls: Any, kw_only: bool) -> tuple[Any, ...]:
    """Fields that the library finds.  For it the types have no text, in which it would look for `ClassVar` three times."""
    annotations = get_annotations(cls)
    cls.__annotations__ = {name: text if "ClassVar" in text else object for name, text in annotations.items()}
    dataclasses.dataclass(cls, init=False, repr=False, eq=False, kw_only=kw_only)
    cls.__annotations__ = annotations
    fields = dataclasses.fields(cls)
    for field in fields:
        field.type = annotations.get(field.name, field.type)
    return fields


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
    """Stands for `__init__` while a class has few instances, as most do: to compile one takes as long as 10 of them."""

    def __init__(self, *of: Any) -> None:
        self.of = of
        self.instances_left = 8

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        if instance is None or self.instances_left <= 0:  # less than 0 where threads meet here
            return self.compiled().__get__(instance, owner)
        self.instances_left -= 1
        return partial(self.fill, instance)

    def compiled(self) -> Any:
        cls = self.of[0]
        cls.__init__ = init = _init(*self.of)
        return init

    def fill(self, instance: Any, /, *arguments: Any, **keywords: Any) -> None:
        cls, fields, frozen, slots = self.of
        positional = [field.name for field in fields if field.init and not field.kw_only]
        values = dict(zip(positional, arguments, strict=False))
        if len(arguments) > len(positional) or not values.keys().isdisjoint(keywords):
            self.compiled()(instance, *arguments, **keywords)  # raises the error
        values.update(keywords)
        missing, assign = dataclasses.MISSING, object.__setattr__ if frozen else setattr
        for field in fields:
            name = field.name
            if field.init and name in values:
                assign(instance, name, values.pop(name))
            elif field.default_factory is not missing:
                assign(instance, name, field.default_factory())
            elif field.default is not missing and (field.init or slots):
                assign(instance, name, field.default)
            elif field.init:
                values[name] = missing
        if values:
            self.compiled()(instance, *arguments, **keywords)  # raises the error
        if hasattr(cls, "__post_init__"):
            instance.__post_init__()


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
        if frozen and slots:
            names[f"_set_{name}"] = getattr(cls, name).__set__  # in half the time of object.__setattr__
            body.append(f"_set_{name}(self, {value})")
        else:
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
