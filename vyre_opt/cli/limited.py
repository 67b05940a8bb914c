"""--limits: the tool runs in a child process, and this one writes what it computes.

Nothing is written before the child has ended by itself, so a limit that is broken leaves no file half written and
prints no part of a result.  What the child says on stderr is passed on at once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from ..execution.dispatcher import BackendError
from ..syntax.parser import tables
from .errors import ToolError, write_stdout_bytes
from .text_files import make_folder, write_file

if TYPE_CHECKING:
    from ..execution.child_process import ChildProcess
    from ..execution.limits import Limits

__all__ = ["run_limited"]

MAX_PATH_BYTES = 1 << 16
_MODULE = "vyre_opt.cli.limited_tool"


def run_limited(
    tool: str,
    name: str,
    arguments: Sequence[str],
    limits: Limits,
    files: Collection[str | None],
    folder: str | None = None,
) -> int:
    """Run a tool on its arguments under limits; gives its exit code.

    `tool`: its module; `name`: what its messages call it.  `files`: the paths that it may have written, and `folder`:
    one below which it may have written any.  Raises ToolError for a limit that was broken.
    """
    if sys.platform != "linux":
        raise ToolError("--limits needs Linux")
    from ..execution.child_process import ChildProcess

    tables.load()  # which keeps them in the cache, where the child may not write
    output = _Output(limits)
    try:
        child = ChildProcess(_MODULE, limits, output.pass_on, has_stdin=True)
        try:
            child.begin()
            child.send((tool, list(arguments), name))
            code = _receive(child, output, files, folder)
        finally:
            child.kill()
    except BackendError as error:
        raise ToolError(str(error)) from None
    for path, content in output.results:
        if path:
            if folder is not None and _is_below(path, folder):
                make_folder(os.path.dirname(path))
            write_file(content, path)
        else:
            write_stdout_bytes(content)
    return code


class _Output:
    """`results`: paths and contents, for stdout without a path.  `size`: bytes of them and of stderr."""

    def __init__(self, limits: Limits) -> None:
        self.limits = limits
        self.results: list[tuple[str, memoryview]] = []
        self.size = 0

    def add(self, count: int) -> None:
        """Raises LimitError for more bytes than `output`."""
        self.size += count
        if self.limits.output is not None and self.size > self.limits.output:
            raise self.limits.error("output", f"the outputs take {self.size} bytes or more")

    def pass_on(self, text: bytes) -> None:
        """Write what the child said to stderr."""
        self.add(len(text))
        if sys.stderr is not None:
            try:
                sys.stderr.buffer.write(text)
                sys.stderr.flush()
            except OSError:
                pass


def _is_below(path: str, folder: str) -> bool:
    """Whether a path is that of a file in a folder or in one of its own, as written: without a way out of it."""
    inside = path.removeprefix(os.path.join(folder, ""))
    return inside != path and not os.path.isabs(inside) and ".." not in inside.split(os.sep)


def _receive(child: ChildProcess, output: _Output, files: Collection[str | None], folder: str | None) -> int:
    """Take results until the child ends; gives its exit code."""
    while True:
        raw = child.receive_or_end(b"p", MAX_PATH_BYTES)
        if isinstance(raw, int):
            return raw
        path = bytes(raw).decode("utf-8", "surrogateescape")
        if path and path not in files and not (folder is not None and _is_below(path, folder)):
            raise child.nonsense("a file that is no output")
        output.results.append((path, child.receive(b"d", output.add)))
