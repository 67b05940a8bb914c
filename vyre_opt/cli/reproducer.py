"""Reproducers: a .vyre file whose first line holds the command that failed on the rest.

// vyre-opt --pass-pipeline=cse,dce --no-verify-each
vyre 1
...
"""

from __future__ import annotations

import re
import shlex

from .errors import ToolError
from .settings import Settings

__all__ = ["command", "read", "text"]

_COMMAND = re.compile(r"^// vyre-opt (--.*)$", re.MULTILINE)
_HEAD = re.compile(r"(?:[ \t]*(?://[^\n]*)?(?:\n|\Z))*")


def command(settings: Settings, pipeline: str) -> list[str]:
    """The options that decide what happens to a module."""
    given = [f"--pass-pipeline={pipeline}"]
    given += [f"--spec={name}={value}" for name, value in settings.spec]
    if not settings.verify_each:
        given.append("--no-verify-each")
    if settings.target:
        given.append(f"--target={settings.target}")
    return given


def text(settings: Settings, pipeline: str, source: str) -> str:
    """The reproducer of a failure on `source`."""
    return f"// vyre-opt {shlex.join(command(settings, pipeline))}\n{source}"


def read(source: str) -> list[str]:
    """The options in the comments that head a reproducer.  Raises ToolError."""
    head = _HEAD.match(source)
    found = _COMMAND.search(head.group() if head else "")
    if found is None:
        raise ToolError("--run-reproducer: no line `// vyre-opt --pass-pipeline=...` heads this file")
    try:
        return shlex.split(found.group(1))
    except ValueError as wrong:
        raise ToolError(f"--run-reproducer: cannot read the options in the first line: {wrong}") from None
