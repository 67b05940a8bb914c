"""Reading a text and writing a result, so that no file is ever half written."""

from __future__ import annotations

import os
import stat
import sys

from ..ir.diagnostics import decode
from .errors import ToolError, write_stdout

__all__ = ["read_bytes", "read_text", "write_file", "write_text"]

STDIN_NAME = "<stdin>"


def read_text(path: str) -> tuple[str, str]:
    """The text of a file, or of stdin for `-`, and its name in messages.

    Raises ToolError for what cannot be read, DiagnosticError for what is not UTF-8.
    """
    if path == "-":
        if sys.stdin is None:
            raise ToolError("stdin is closed")
        name, raw = STDIN_NAME, _read_stdin()
    else:
        name, raw = path, read_bytes(path)
    text = decode(raw, name)
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    return text, name


def _read_stdin() -> bytes:
    try:
        return sys.stdin.buffer.read()
    except OSError as failed:
        raise ToolError(f"cannot read stdin: {failed.strerror}") from None


def read_bytes(path: str) -> bytes:
    """The contents of a file.  Raises ToolError."""
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError as failed:
        raise ToolError(f"cannot read {path}: {failed.strerror}") from None
    except ValueError:
        raise ToolError(f"cannot read {path!r}: a file name holds no NUL") from None


def write_text(text: str, path: str | None) -> None:
    """Write to a file, or to stdout for None or `-`."""
    if path is None or path == "-":
        write_stdout(text)
    else:
        write_file(text.encode("utf-8", "surrogateescape"), path)


def write_file(content: bytes, path: str) -> None:
    """Replace a file by `content`: written beside it, then renamed.  Raises ToolError.

    A link is followed; a device or a pipe is written to, not replaced.
    """
    try:
        target = os.path.realpath(path)
        mode = _mode(target)
        if mode is not None and not stat.S_ISREG(mode):
            with open(target, "wb") as device:
                device.write(content)
            return
        partial = f"{target}.{os.getpid()}.partial"
        try:
            with open(partial, "xb") as file:
                file.write(content)
            if mode is not None:
                os.chmod(partial, stat.S_IMODE(mode))
            os.replace(partial, target)
        except FileExistsError:
            raise
        except BaseException:
            _remove(partial)
            raise
    except OSError as failed:
        raise ToolError(f"cannot write {path}: {failed.strerror}") from None
    except ValueError:
        raise ToolError(f"cannot write {path!r}: a file name holds no NUL") from None


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
