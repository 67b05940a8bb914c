"""Destination of the results of a tool: stdout and files, or under --limits to the parent process, which writes them."""

from __future__ import annotations

from collections.abc import Callable

__all__ = ["connect", "deliver", "is_limited_child"]

Send = Callable[[str, "bytes | memoryview"], None]

_send: Send | None = None


def connect(send: Send) -> None:
    """Have this process write nothing itself from now on: `send(path, content)` hands it to its parent.

    The path is empty for stdout.
    """
    global _send
    _send = send


def is_limited_child() -> bool:
    """Whether this process is the one that --limits started, and is held to them."""
    return _send is not None


def deliver(path: str, content: bytes | memoryview) -> bool:
    """Hand a result to the parent; False if there is none, so that the caller is to write it."""
    if _send is None:
        return False
    _send(path, content)
    return True
