"""Elements of HTML and SVG.  Only this file turns text into markup, so all text is escaped."""

from __future__ import annotations

import re
from html import escape

__all__ = ["Markup", "concat", "element"]

VOID = frozenset(("meta", "br", "link", "input"))

_SURROGATES = re.compile("[\ud800-\udfff]")


class Markup(str):
    """A str that is markup already, and is not escaped again."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """`<tag attributes>children</tag>`.  A child that is not Markup is escaped.

    `class_` is class and `stroke_width` stroke-width; an attribute of None is left out.
    """
    attrs = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_text(_number(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    if tag in VOID:
        return Markup(f"<{tag}{attrs}>")
    return Markup(f"<{tag}{attrs}>{concat(*children)}</{tag}>")


def concat(*children: str) -> Markup:
    """The children one after the other; those that are not Markup are escaped."""
    return Markup("".join(c if isinstance(c, Markup) else _text(c) for c in children))


def _text(text: str) -> Markup:
    """Text, escaped.  A page is UTF-8, so bytes of a file name that are not become U+FFFD."""
    return Markup(_SURROGATES.sub("\N{REPLACEMENT CHARACTER}", escape(text)))


def _number(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
