"""Packs beside each other: the parts in which they differ, and all parts of several in one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from .format import Pack, PackError, Part, pack_bytes

__all__ = ["differences", "merged"]


def differences(one: Pack, other: Pack) -> list[str]:
    """A line for each part that one of the packs has alone (- and +), or that differs (!), in the order of their names."""
    lines = []
    for name in sorted({*one.names(), *other.names()}):
        if name not in other:
            lines.append(f"- {name}  {one.size(name)} bytes")
        elif name not in one:
            lines.append(f"+ {name}  {other.size(name)} bytes")
        elif one.digest_of(name) != other.digest_of(name):
            lines.append(f"! {name}  {one.size(name)} and {other.size(name)} bytes")
    return lines


def merged(packs: Sequence[Pack]) -> bytes:
    """The file of the parts of all packs.  Raises PackError where two have different parts of one name, or were made differently."""
    parts: dict[str, Part] = {}
    about: dict[str, Any] = {}
    for pack in packs:
        # a pack of kernels and one of a compile cache have other keys
        if any(about.setdefault(key, value) != value for key, value in pack.about.items()):
            raise PackError(
                f"{pack.name} was made by another version than {packs[0].name}; pack their kernels anew"
            )
        for part in pack.parts():
            known = parts.setdefault(part.name, part)
            if (known.kind, known.content, known.about) != (part.kind, part.content, part.about):
                raise PackError(f"{pack.name}: the part {part.name} differs from that of another pack")
    return pack_bytes(parts.values(), about)
