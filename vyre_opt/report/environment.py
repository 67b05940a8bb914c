"""The templates of the page, by Jinja2: inserted values are escaped unless they are markup."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from ..syntax.highlighting import colored
from .decisions import location_text, sentence, source_line
from .traffic import show_bytes

__all__ = ["render"]

_SURROGATES = re.compile("[\ud800-\udfff]")


def render(template: str, **context: Any) -> str:
    """A template of the folder `templates` with these names."""
    return _environment().get_template(template).render(context)


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("vyre_opt.report"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_encodable,
    )
    environment.filters |= {
        "bytes": show_bytes,
        "place": location_text,
        "sentence": sentence,
        "source_line": source_line,
        "colored": lambda line: Markup(colored(line)),
        "time": show_us,
        "symbols": lambda names: " ".join(f"@{name}" for name in names),
    }
    return environment


def show_us(microseconds: float) -> str:
    """`4.5 us`, `1.2 ms` or `3 s`, to three digits."""
    for unit, scale in (("s", 1e6), ("ms", 1e3)):
        if microseconds >= scale:
            return f"{microseconds / scale:.3g} {unit}"
    return f"{microseconds:.3g} us"


def _encodable(value: Any) -> Any:
    """A page is UTF-8, so bytes of a file name that are not become U+FFFD."""
    if isinstance(value, str) and _SURROGATES.search(value):
        return type(value)(_SURROGATES.sub("\N{REPLACEMENT CHARACTER}", value))
    return value
