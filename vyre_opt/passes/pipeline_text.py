"""Pipelines as text: `cse,unroll{factor=4 full=true},dce`."""

from __future__ import annotations

import re

from .registry import Pass, PassError, make

_TOKEN = re.compile(r"\s*([A-Za-z_][\w.-]*|[{}=,]|[^\s{}=,]+)")


def read(text: str) -> list[Pass]:
    """The passes that `text` names, in order.  Raises PassError that shows the place."""
    tokens = [(m.group(1), m.start(1)) for m in _TOKEN.finditer(text)]
    tokens.append(("", len(text)))
    passes: list[Pass] = []
    at = 0

    def fail(message: str) -> PassError:
        return PassError(f"{message}\n  {text}\n  {' ' * tokens[at][1]}^")

    while tokens[at][0]:
        name, _ = tokens[at]
        if not (name[0].isalpha() or name[0] == "_"):
            raise fail("expected the name of a pass")
        at += 1
        options: dict[str, str] = {}
        if tokens[at][0] == "{":
            at += 1
            while tokens[at][0] != "}":
                key = tokens[at][0]
                if not key or key in "{=,":
                    raise fail("expected an option, or } after the options")
                at += 1
                if tokens[at][0] != "=":
                    raise fail(f"expected = after {key}")
                at += 1
                if tokens[at][0] in ("", "{", "}", "=", ","):
                    raise fail(f"expected a value for {key}")
                if key in options:
                    raise fail(f"option {key} is given twice")
                options[key] = tokens[at][0]
                at += 1
                if tokens[at][0] == ",":
                    at += 1
            at += 1
        passes.append(make(name, options))
        if tokens[at][0] == ",":
            at += 1
            if not tokens[at][0]:
                raise fail("expected a pass after the comma")
        elif tokens[at][0]:
            raise fail("expected a comma between passes")
    return passes


def show(passes: list[Pass]) -> str:
    """The text that `read` reads back as `passes`."""
    return ",".join(str(p) for p in passes)
