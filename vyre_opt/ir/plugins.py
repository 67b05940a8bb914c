"""Additions of other packages: entry points, each loaded when its name is first met.

    [project.entry-points."vyre_opt.ops"]
    "mylib.square" = "mylib.ops:square"

The name of an entry point is that of the op, kernel or pass; importing what it names registers that.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["KERNELS", "OPS", "PASSES", "PluginError", "PluginRefused", "load", "names", "refuse"]

PASSES, OPS, KERNELS = "vyre_opt.passes", "vyre_opt.ops", "vyre_opt.kernels"
_KINDS = {PASSES: "pass", OPS: "op", KERNELS: "kernel"}

_is_refused = False


class PluginError(Exception):
    """A plugin that does not load; the message names the package and the entry point."""


class PluginRefused(PluginError):
    """A plugin, after `refuse`."""


def refuse() -> None:
    """Have this process load nothing by an entry point of another package from now on."""
    global _is_refused
    _is_refused = True


@cache  # looking through all that is installed takes some ms, and each message on an unknown name asks
def _entry_points(group: str) -> tuple[EntryPoint, ...]:
    from importlib.metadata import entry_points

    return tuple(entry_points(group=group))


def names(group: str) -> list[str]:
    """The names of a group's entry points; nothing is loaded."""
    return [point.name for point in _entry_points(group)]


def load(group: str, name: str, is_registered: Callable[[Any], bool]) -> bool:
    """Import what a name's entry point names, if there is one; returns whether there is.

    `is_registered`: whether the name is known now; called with what the entry point names.  Raises PluginError if
    it is not, or the import fails, or two packages have the name; PluginRefused after `refuse`.
    """
    points = [point for point in _entry_points(group) if point.name.replace("-", "_") == name]
    if not points:
        return False
    kind, point = _KINDS[group], points[0]
    if _is_refused:
        raise PluginRefused(f"{kind} {name} is of another package")
    if len({other.value for other in points}) > 1:
        places = " and ".join(map(_place, points))
        raise PluginError(f"{kind} {name} is of several packages: {places}; uninstall all but one")
    try:
        loaded = point.load()
        is_known = is_registered(loaded)
    except (Exception, SystemExit) as error:
        reason = f"{type(error).__name__}: {error}"
        raise PluginError(f"{kind} {name} does not load: {_place(point)}: {reason}") from error
    if not is_known:
        raise PluginError(f"{kind} {name} does not load: {_place(point)} registers no {kind} of this name")
    return True


def _place(point: EntryPoint) -> str:
    """Place where an entry point is declared."""
    package = f" of package {point.dist.name} {point.dist.version}" if point.dist is not None else ""
    return f"entry point {point.name} = {point.value}{package}"
