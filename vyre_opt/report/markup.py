"""Elements of HTML and SVG.  Text becomes markup here and nowhere else, so all of it is escaped."""

from __future__ import annotations

from html import escape

__all__ = ["Markup", "element", "joined"]

VOID = frozenset(("meta", "br", "link", "input"))


class Markup(str):
    """A text that is markup already."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """`<tag attributes>children</tag>`.  A child that is no Markup is text.

    `class_` is class and `stroke_width` stroke-width; an attribute of None is left out.
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{escape(_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Markup(f"<{tag}{given}>")
    return Markup(f"<{tag}{given}>{joined(*children)}</{tag}>")


def joined(*children: str) -> Markup:
    """One after the other."""
    return Markup("".join(c if isinstance(c, Markup) else escape(c) for c in children))


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
