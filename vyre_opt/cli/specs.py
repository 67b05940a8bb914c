"""`--spec NAME=VALUE`: an assignment on the command line."""

from __future__ import annotations

__all__ = ["read_assignment"]


def read_assignment(text: str) -> tuple[str, str]:
    """`@name=value` as its two sides, without the @.  Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip("@ ") or not value.strip():
        raise ValueError(f"{text!r} is not NAME=VALUE")
    return name.strip().removeprefix("@"), value.strip()
