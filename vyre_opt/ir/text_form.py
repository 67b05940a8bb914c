"""Items of the IR are their text where somebody looks at them."""

from __future__ import annotations

from importlib import import_module

__all__ = ["TextForm"]


class TextForm:
    """A module or an item of one: `str` gives its text, and a notebook shows that with colours."""

    __slots__ = ()

    def __str__(self) -> str:
        # the printer is above the items that it prints
        text: str = import_module("vyre_opt.syntax.printer").print_program(self)
        return text

    def _repr_html_(self) -> str:
        html: str = import_module("vyre_opt.syntax.highlighting").highlight(str(self))
        return html
