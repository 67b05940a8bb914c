"""Public names of packages that are spread over modules: `vyre_opt.passes.PassManager`, `vyre_opt.tuning.autotune`.

`vyre_opt` has one table of all public names and loads each when it is first asked for.  A package shows a part of it as
its own, and `vyre_opt` keeps every name as an alias.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module

TYPE_CHECKING = False  # as in vyre_opt/__init__.py
if TYPE_CHECKING:
    from typing import Any

__all__ = ["face", "names"]


def names(*packages: str) -> list[str]:
    """Public names whose modules are in some packages of vyre_opt, in the order of the table.

    A name that a module of the first package has, too, is left out: it would be the module once that is imported.
    """
    # vyre-packs, which has some of these packages, has no table
    exports: dict[str, str] = vars(import_module(__package__)).get("_EXPORTS", {})
    return [
        name
        for name, module in exports.items()
        if module.partition(".")[0] in packages and module != f"{packages[0]}.{name}"
    ]


def face(*packages: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The functions `__getattr__` and `__dir__` of a package that shows the public names of some packages."""

    def get(name: str) -> Any:
        if name == "__all__":
            return names(*packages)
        if name.startswith("_") or name not in names(*packages):
            raise AttributeError(f"module 'vyre_opt.{packages[0]}' has no attribute {name!r}")
        return getattr(import_module(__package__), name)

    return get, lambda: names(*packages)
