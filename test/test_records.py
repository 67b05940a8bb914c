"""Dataclasses that are made fast are those of the standard library in all that a program sees of them."""

from __future__ import annotations

import dataclasses
import inspect
import pickle
from collections.abc import Callable
from dataclasses import asdict, field, fields, replace
from typing import Any, ClassVar

import pytest

from vyre_opt import records

OPTIONS: list[dict[str, bool]] = [
    {"frozen": frozen, "slots": slots, "eq": eq, "repr": repr, "kw_only": kw_only}
    for frozen in (False, True)
    for slots in (False, True)
    for eq in (False, True)
    for repr in (False, True)
    for kw_only in (False, True)
]


def classes(make: Callable[..., Any], options: dict[str, bool]) -> list[Any]:
    """The same classes by the library or by this project."""

    @make(**options)
    class Point:
        x: int
        y: Any = None
        tags: list[str] = field(default_factory=list)
        kind: ClassVar[str] = "point"
        note: str = field(default="", compare=False, repr=False)
        made: bool = field(default=True, init=False)

    @make(**options)
    class Named(Point):
        """A point with a name."""

        name: str = field(default="p", kw_only=True)
        later: str = field(init=False)

        def __post_init__(self) -> None:
            object.__setattr__(self, "later", self.name * 2)

    @make(**options)
    class Own(Point):
        def __eq__(self, other: object) -> bool:
            return isinstance(other, Own)

        def __repr__(self) -> str:
            return "own"

    @make(**options)
    class Filled:
        x: int

        def __init__(self, x: int = 3) -> None:
            object.__setattr__(self, "x", x)

    @make(**options)
    class Empty:
        pass

    return [Point, Named, Own, Filled, Empty]


def outcome(call: Callable[[], Any]) -> Any:
    """What a call gives, or its error, with no address in it."""
    try:
        return call()
    except Exception as error:  # the same of both
        return type(error), str(error)


def seen_of(cls: Any, other: Any) -> dict[str, Any]:
    """All that a program sees of a class; `other`: one that is not of it.

    Of assignments whether they are refused: frozen classes with slots of the library's raise another error in Python 3.11.
    """
    make = [
        lambda: cls(),
        lambda: cls(x=1),
        lambda: cls(x=1, y=[2], note="n"),
        lambda: cls(x=2),
        lambda: cls(1, 2, 3, 4, 5),
    ]
    made = [outcome(each) for each in make]
    objects = [each for each in made if isinstance(each, cls)]
    same = [outcome(lambda each=each: replace(each)) for each in objects]
    return {
        "made": [each if isinstance(each, tuple) else "object" for each in made],
        "equal": [[one == two for two in [*objects, *same, other]] for one in objects],
        "hash": [
            outcome(lambda each=each: hash(each) == hash(replace(each)))
            for each in objects
            if cls.__hash__ is None or cls.__eq__ is not object.__eq__
        ],
        "is hashable": cls.__hash__ is not None,
        "repr": [repr(each) for each in objects if cls.__repr__ is not object.__repr__],
        "dict": [asdict(each) for each in objects],
        "fields": [(f.name, f.type, f.init, f.compare, f.kw_only) for f in fields(cls)],
        "parameters": [
            (p.name, p.kind, p.default is p.empty) for p in inspect.signature(cls).parameters.values()
        ],
        "match": cls.__match_args__,
        "set": [outcome(lambda each=each: setattr(each, "x", 7)) is None for each in objects],
        "delete": [outcome(lambda each=each: delattr(each, "x")) is None for each in objects],
        "slots": vars(cls).get("__slots__"),
        "has dict": [hasattr(each, "__dict__") for each in objects],
    }


@pytest.mark.parametrize("options", OPTIONS, ids=lambda options: "-".join(k for k, v in options.items() if v))
def test_they_are_those_of_the_library(options: dict[str, bool]) -> None:
    for own, known in zip(
        classes(records.dataclass, options), classes(dataclasses.dataclass, options), strict=True
    ):
        for _ in range(2):  # the second time with the method that is compiled for more instances
            assert seen_of(own, known) == seen_of(known, own)


@records.dataclass(frozen=True, slots=True)
class Pickled:
    x: int
    y: tuple[int, ...] = ()


@records.dataclass(slots=True)
class Tree:
    children: list[Any] = field(default_factory=list)


def test_pickles_and_recursion() -> None:
    one = Pickled(1, (2,))
    assert pickle.loads(pickle.dumps(one)) == one
    tree = Tree()
    tree.children.append(tree)
    assert repr(tree) == "Tree(children=[...])"
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'x'"):
        one.x = 2  # type: ignore[misc]
