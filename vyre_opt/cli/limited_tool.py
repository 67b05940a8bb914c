"""The child process of a tool under --limits: runs the tool whole, and hands its results to the parent."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from importlib import import_module
from typing import Any

from ..driver.limited_worker import warm_up
from ..execution.confine import confine
from ..ir import plugins
from . import errors, output_channel, text_files

__all__ = ["main"]


def main(start: Mapping[str, Any]) -> None:
    """Run the tool that the parent's one request names, and exit as it does."""
    parent = confine(start, warm_up)
    tool, arguments, name = parent.receive()
    limits = parent.limits
    if not limits.plugins:
        plugins.refuse()
    if limits.input is not None:
        text_files.impose_ceiling(limits.input, str(limits.error("input", "{} has more bytes")))

    def send(path: str, content: bytes | memoryview) -> None:
        parent.send(b"p", path.encode("utf-8", "surrogateescape"))
        parent.send(b"d", content)

    output_channel.connect(send)
    sys.exit(errors.run_tool(import_module(f"{__package__}.{tool}").command, arguments, name))
