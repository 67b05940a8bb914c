"""The names of values at a place of the text, which no two of them share."""

from __future__ import annotations

import re

__all__ = ["UniqueNames"]


class UniqueNames(set[str]):
    """The names that are visible at a place; `unique` adds one."""

    def __init__(self) -> None:
        super().__init__()
        self.suffixes: dict[str, int] = {}
        """The last number that `unique` gave, by the name without it."""

    def unique(self, name: str) -> str:
        """The name that a value gets here: `name`, or that with a number if it is visible already."""
        if name in self:
            base = re.sub(r"_\d+$", "", name)
            number = self.suffixes.get(base, 0) + 1
            while (name := f"{base}_{number}") in self:
                number += 1
            self.suffixes[base] = number
        self.add(name)
        return name
