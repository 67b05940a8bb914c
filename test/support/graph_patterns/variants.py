"""Which programs there are: a pattern, how its work is spread over lanes, and the mistake planted in it.

The patterns and the kinds of mistakes are those of the Indigo suite (Liu, Azami, Walters, Burtscher: "The Indigo
Program-Verification Microbenchmark Suite of Irregular Parallel Code Patterns", ISPASS 2022), on which HiRace was
measured too; the programs are this project's own.  `exchange`, and the plants `clear` and `barrier`, are not in
Indigo: they aim at grid barriers, unwritten memory and divergence.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import cycle, product

__all__ = ["KINDS", "SUBGROUP", "WORKGROUP", "Variant", "variants"]

SUBGROUP = 32
WORKGROUP = 64
"""Lanes of a subgroup and of a workgroup."""

KINDS: dict[str, tuple[str, ...]] = {
    "atomic": ("atomic",),
    "bounds": ("bounds_vertex", "bounds_edge"),
    "guard": ("guard",),
    "race": ("race",),
    "sync": ("sync_first", "sync_tree", "sync_last", "sync_none", "sync_scope"),
    "clear": ("clear",),
    "barrier": ("barrier",),
}
"""Kind of mistake -> its plants.

    atomic         an atomic made a load, the op and a store
    bounds_vertex  the vertex after the last one is visited too
    bounds_edge    one edge too many is visited
    guard          a plain load decides whether the atomic update is needed
    race           a private copy, or the reduction of a group, is left out
    sync_first     no barrier after the lanes stored what a reduction combines
    sync_tree      no barrier after one step of a reduction tree
    sync_last      no barrier before the next round stores again
    sync_none      no barrier between two phases
    sync_scope     a workgroup barrier between two phases that cross workgroups
    clear          workgroup memory is not cleared where a lane has nothing to store
    barrier        the barrier of a reduction tree stands inside the condition on the lane
"""

_KIND_OF = {plant: kind for kind, plants in KINDS.items() for plant in plants}


@dataclass(frozen=True, slots=True)
class Variant:
    """A program text.

    `spread`: who visits a vertex: a `lane`, a `subgroup`, or a workgroup that combines through a `tree` in workgroup
    memory, or through subgroups first (`tiles`).  `order`: forward, reverse, first, last, or until (the first edge
    that counts ends the visit).  `upward`: only edges to a higher number count.  `persistent`: a group visits
    several vertices, a grid apart.  `guarded`: an atomic read decides whether the update is needed.  `dtype`: of what
    is computed.  `plant`: "" or a plant of KINDS.
    """

    pattern: str
    spread: str
    order: str
    upward: bool
    persistent: bool
    guarded: bool
    dtype: str
    plant: str = ""

    @property
    def kind(self) -> str:
        """The kind of its mistake; "" if there is none."""
        return _KIND_OF.get(self.plant, "")

    @property
    def name(self) -> str:
        flags = [word for word in ("upward", "persistent", "guarded") if getattr(self, word)]
        return "-".join([self.pattern, self.spread, self.order, *flags, self.dtype, self.plant or "clean"])


@dataclass(frozen=True, slots=True)
class _Pattern:
    """What a pattern exists in; `lane_orders` beyond forward and reverse are for one lane a vertex."""

    spreads: tuple[str, ...]
    orders: tuple[str, ...]
    lane_orders: tuple[str, ...]
    dtypes: tuple[str, ...]
    plants: tuple[str, ...]
    guards: tuple[bool, ...] = (False,)


_ALL = ("lane", "subgroup", "tree", "tiles")
_BOTH = ("forward", "reverse")
_INTEGERS = ("u32", "i32", "u64")
_BOUNDS = ("bounds_vertex", "bounds_edge")
_TREE = ("sync_first", "sync_tree", "clear", "barrier")
_TILES = ("sync_first", "sync_last")

_PATTERNS: dict[str, _Pattern] = {
    "conditional_edge": _Pattern(
        _ALL,
        _BOTH,
        ("first", "last", "until"),
        _INTEGERS,
        ("atomic", *_BOUNDS, "guard", *_TREE, *_TILES),
        (False, True),
    ),
    "conditional_vertex": _Pattern(
        _ALL, _BOTH, ("first", "last"), (*_INTEGERS, "f32"), ("atomic", *_BOUNDS, *_TREE, *_TILES)
    ),
    "worklist": _Pattern(
        ("lane", "subgroup", "tree"), _BOTH, ("first", "last", "until"), ("u32",), ("atomic", *_BOUNDS)
    ),
    "push": _Pattern(
        ("lane", "subgroup", "tree"),
        _BOTH,
        ("first", "last", "until"),
        _INTEGERS,
        ("atomic", *_BOUNDS, "guard"),
        (False, True),
    ),
    "pull": _Pattern(
        _ALL, _BOTH, ("first", "last"), ("u32", "f32", "i64"), ("race", *_BOUNDS, *_TREE, *_TILES)
    ),
    "path_compression": _Pattern(("lane",), ("forward",), (), ("u32",), ("race", "bounds_vertex")),
    "path_roots": _Pattern(("lane",), ("forward",), (), ("u32",), ("race", "bounds_vertex")),
    "exchange": _Pattern(("lane",), _BOTH, (), ("u32", "f32"), ("sync_none", "sync_scope", *_BOUNDS)),
}

_SPREADS_WITH = {
    "sync_first": ("tree", "tiles"),
    "sync_tree": ("tree",),
    "sync_last": ("tiles",),
    "clear": ("tree",),
    "barrier": ("tree",),
}
"""Plants of a group's reduction -> the spreads that have it."""


def variants() -> Iterator[Variant]:
    """Every variant, each with one choice of `dtype`, and of `upward`, in turn."""
    for name, pattern in _PATTERNS.items():
        dtypes, upward = cycle(pattern.dtypes), cycle((False, True, True, False, True))
        for spread, persistent, guarded in product(pattern.spreads, (False, True), pattern.guards):
            orders = pattern.orders + (pattern.lane_orders if spread == "lane" else ())
            for order, plant in product(orders, _plants(pattern, spread, persistent, guarded)):
                yield Variant(name, spread, order, next(upward), persistent, guarded, next(dtypes), plant)


def _plants(pattern: _Pattern, spread: str, persistent: bool, guarded: bool) -> tuple[str, ...]:
    """None, and those that a variant may have."""
    if guarded:
        return ("", "guard")
    # a guard's mistake needs a guard, and the next round a persistent variant
    absent = {"guard"} if persistent else {"guard", "sync_last"}
    possible = (plant for plant in pattern.plants if spread in _SPREADS_WITH.get(plant, pattern.spreads))
    return ("", *(plant for plant in possible if plant not in absent))
