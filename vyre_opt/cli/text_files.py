"""Input texts, which may hold several modules, and output files, which are never left half written."""

from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Callable
from typing import BinaryIO

import click

from ..ir.bounded_read import MOST_BYTES, TooLarge, read_file, read_stream
from ..ir.diagnostics import Source, decode
from . import output_channel
from .errors import ToolError, write_stdout

__all__ = [
    "MARKER",
    "MAX_INPUT",
    "ceiling",
    "impose_ceiling",
    "is_replaced",
    "read_bytes",
    "read_original",
    "read_stdin",
    "read_text",
    "split",
    "write_file",
    "write_in_folder",
    "write_text",
]

STDIN_NAME = "<stdin>"
MAX_QUOTED_BYTES = 1 << 26
"""Most bytes of a file that is read for messages alone."""
MARKER = "// -----"
"""A line of this separates modules, with --split-input-file."""
_MARKER_LINE = re.compile(rf"^{MARKER}[ \t]*(?:\r?\n|\Z)", re.MULTILINE)

MAX_INPUT = "vyre_opt.max_input"
"""The key in a context of the value of --max-input: as a number, and as it is written."""

_imposed: tuple[int, str] | None = None


def impose_ceiling(most: int, refusal: str) -> None:
    """Have this process read no input of more than `most` bytes, to its end.  `refusal`: see `ceiling`."""
    global _imposed
    _imposed = most, refusal


def ceiling() -> tuple[int, str]:
    """The most bytes of an input, and the message that refuses a larger one, with {} in the place of its name."""
    context = click.get_current_context(silent=True)
    most, spelled = (context.meta if context else {}).get(MAX_INPUT, (MOST_BYTES, "1G"))
    option = most, f"cannot read {{}}: it has more than {spelled} bytes; --max-input=SIZE allows more"
    return option if _imposed is None else min(option, _imposed)


def read_text(path: str, keeps_line_ends: bool = False) -> tuple[str, str]:
    """The text of a file, or of stdin for `-`, and the name that messages give it.

    Line ends are `\\n` in it, but with `keeps_line_ends`.

    Raises ToolError for what cannot be read, DiagnosticError for what is not UTF-8.
    """
    if path == "-":
        name, raw = STDIN_NAME, read_stdin()
    else:
        name, raw = path, read_bytes(path)
    text = decode(raw, name)
    if "\r" in text and not keeps_line_ends:
        text = text.replace("\r\n", "\n")
    return text, name


def read_original(path: str) -> str | None:
    """The text of a file that a location names, for a message to quote; None if there is none, or none to be read.

    Under --limits none is: what is compiled there may be of somebody who has no business with the file.
    """
    if output_channel.is_limited_child():
        return None
    try:
        status = os.stat(path)
        if not stat.S_ISREG(status.st_mode):  # to open a FIFO would wait for its writer
            return None
        return read_file(path, MAX_QUOTED_BYTES).decode().replace("\r\n", "\n")
    except (OSError, ValueError):
        return None


def split(text: str, name: str, at_markers: bool) -> list[Source]:
    """The whole text, or the texts between markers; each keeps its line numbers in the file.

    A text of comments alone (the RUN lines that head a test) is left out, unless it
    is all there is.
    """
    if not at_markers:
        return [Source(text, name)]
    parts: list[Source] = []
    start, line = 0, 1
    for marker in _MARKER_LINE.finditer(text):
        parts.append(Source(text[start : marker.start()], name, line))
        line += text.count("\n", start, marker.end())
        start = marker.end()
    parts.append(Source(text[start:], name, line))
    return [part for part in parts if not _is_comment(part.text)] or parts[:1]


def _is_comment(text: str) -> bool:
    """Whether there is nothing but comments, none of which is an expectation (see expected.py)."""
    return "expected-" not in text and all(
        not line.strip() or line.lstrip().startswith("//") for line in text.splitlines()
    )


def read_stdin() -> bytes:
    """All of stdin.  Raises ToolError."""
    if sys.stdin is None:
        raise ToolError("stdin is closed")
    return _read("stdin", lambda most: read_stream(sys.stdin.buffer, "stdin", most))


def read_bytes(path: str) -> bytes:
    """The contents of a file.  Raises ToolError."""
    return _read(path, lambda most: read_file(path, most))


def _read(name: str, read: Callable[[int], bytes]) -> bytes:
    """Return what `read` reads of at most as many bytes as the ceiling.  Raises ToolError."""
    most, refusal = ceiling()
    try:
        return read(most)
    except TooLarge:
        raise ToolError(refusal.format(name)) from None
    except OSError as error:
        raise ToolError(f"cannot read {name}: {error.strerror}") from None
    except ValueError:
        raise ToolError(f"cannot read {name!r}: a file name holds no NUL") from None


def write_text(text: str, path: str | None) -> None:
    """Write to a file, or to stdout for None or `-`."""
    if path is None or path == "-":
        write_stdout(text)
    else:
        write_file(text.encode("utf-8", "surrogateescape"), path)


def write_in_folder(text: str, folder: str, name: str) -> None:
    """Write a file at a place in a folder; makes what folders there are not.  Raises ToolError."""
    path = os.path.join(folder, name)
    content = text.encode("utf-8", "surrogateescape")
    if output_channel.deliver(path, content):
        return
    make_folder(os.path.dirname(path))
    write_file(content, path)


def make_folder(path: str) -> None:
    """Make a folder and those around it where they are missing.  Raises ToolError."""
    try:
        os.makedirs(path, exist_ok=True)
    except (OSError, ValueError) as error:
        raise ToolError(f"cannot make the folder {path}: {getattr(error, 'strerror', error)}") from None


def write_file(content: bytes | memoryview, path: str) -> None:
    """Replace a file by `content`: written beside it, then renamed.  Raises ToolError.

    A symbolic link is followed; a device or a pipe is written to, not replaced.
    """
    if output_channel.deliver(path, content):
        return
    try:
        target = os.path.realpath(path)  # a rename onto a link would replace the link
        mode = _mode(target)
        if not _is_regular(mode):
            with open(target, "wb") as device:
                device.write(content)
            return
        partial, file = _open_partial(os.path.dirname(target))
        try:
            with file:
                file.write(content)
            if mode is not None:
                os.chmod(partial, stat.S_IMODE(mode))
            os.replace(partial, target)
        except BaseException:
            _remove(partial)
            raise
    except OSError as error:
        folder = os.path.dirname(path)
        help = f"; make the folder: mkdir -p {folder}" if folder and not os.path.isdir(folder) else ""
        raise ToolError(f"cannot write {path}: {error.strerror}{help}") from None
    except ValueError:
        raise ToolError(f"cannot write {path!r}: a file name holds no NUL") from None


def is_replaced(path: str) -> bool:
    """Whether `write_file` replaces what is there: no pipe and no device, which get what each write adds."""
    try:
        return _is_regular(_mode(path))
    except (OSError, ValueError):  # which the write says
        return True


def _is_regular(mode: int | None) -> bool:
    return mode is None or stat.S_ISREG(mode)


def _open_partial(folder: str) -> tuple[str, BinaryIO]:
    """A new file in the target's folder, since a rename does not cross file systems."""
    while True:
        partial = os.path.join(folder, f".vyre-{os.urandom(6).hex()}.partial")
        try:
            return partial, open(partial, "xb")
        except FileExistsError:  # of another process: not ours to write to
            continue


def _mode(path: str) -> int | None:
    try:
        return os.stat(path).st_mode
    except FileNotFoundError:
        return None


def _remove(path: str) -> None:
    try:
        os.unlink(path)
    except OSError:
        pass
