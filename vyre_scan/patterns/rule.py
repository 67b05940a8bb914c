"""`Rule`: an expression with a name, and with conditions on what it matches."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from math import log2
from typing import Any

from vyre_opt.records import dataclass

__all__ = ["Rule", "entropy_of"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A regular expression, as bytes, text, or what `re.compile` gives, whose matches count under conditions.

    `group`: the number or the name of the group with the secret, which the next two look at; 0 is the whole match.
    `entropy`: bits a byte that the secret has at least (see entropy_of).  `allow`: expressions of `re`; a match whose secret
    has a match of one of them does not count.  `where`: called with the `re.Match` of each match that is left; false drops it.
    Dropped matches hide others that overlap them, as with `re.finditer` and an `if`.
    """

    expression: bytes | str | re.Pattern[bytes]
    name: str = ""
    group: int | str = 0
    entropy: float = 0.0
    allow: Sequence[bytes | re.Pattern[bytes]] = ()
    where: Callable[[re.Match[bytes]], Any] | None = None

    @property
    def has_conditions(self) -> bool:
        return bool(self.entropy or self.allow or self.where)

    def accepts(self, match: re.Match[bytes]) -> bool:
        """Whether a match of the expression counts."""
        secret = match[self.group] or b""
        if self.entropy and entropy_of(secret) < self.entropy:
            return False
        if any(re.search(allowed, secret) for allowed in self.allow):
            return False
        return self.where is None or bool(self.where(match))


def entropy_of(content: bytes) -> float:
    """Shannon's entropy of the bytes, in bits a byte: 0 where all are equal, 8 at most."""
    size = len(content)
    return -sum(count / size * log2(count / size) for count in Counter(content).values()) if size else 0.0
