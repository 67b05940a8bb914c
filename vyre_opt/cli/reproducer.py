"""Reproducers: a .vyre file whose first line holds the command that failed on the rest.

// vyre-opt --pass-pipeline=cse,dce --no-verify-each
vyre 1
...
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from .errors import ToolError

if TYPE_CHECKING:
    from .session import CompileOptions

__all__ = ["command", "read", "text"]

_COMMAND = re.compile(r"^// vyre-opt (--.*)$", re.MULTILINE)
_HEAD = re.compile(r"(?:[ \t]*(?://[^\n]*)?(?:\n|\Z))*")


def command(options: CompileOptions, pipeline: str) -> list[str]:
    """The options that decide how a module is compiled."""
    args = [f"--pass-pipeline={pipeline}"]
    args += [f"--spec={name}={value}" for name, value in options.spec]
    if not options.verify_each:
        args.append("--no-verify-each")
    if options.target:
        args.append(f"--target={options.target}")
    return args


def text(options: CompileOptions, pipeline: str, source: str) -> str:
    """The reproducer of a failure on `source`."""
    return f"// vyre-opt {shlex.join(command(options, pipeline))}\n{source}"


def read(source: str) -> list[str]:
    """The options in the comments that head a reproducer.  Raises ToolError."""
    head = _HEAD.match(source)
    match = _COMMAND.search(head.group() if head else "")
    if match is None:
        raise ToolError("--run-reproducer: no line `// vyre-opt --pass-pipeline=...` heads this file")
    try:
        return shlex.split(match.group(1))
    except ValueError as error:
        raise ToolError(f"--run-reproducer: cannot read the options in the first line: {error}") from None
