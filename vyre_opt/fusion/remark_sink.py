"""Where rewrites say what they did and what they refused."""

from __future__ import annotations

from typing import Any, Protocol

from ..ir.diagnostics import Location

__all__ = ["RemarkSink", "Silent"]


class RemarkSink(Protocol):
    """Receives the remarks and the debug output of a pass; the pass context is one."""

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None: ...

    def debug(self, message: str, *values: object, loc: Location | None = None) -> None: ...


class Silent:
    """For a rewrite that nobody asks about."""

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None: ...

    def debug(self, message: str, *values: object, loc: Location | None = None) -> None: ...
