"""Remarks of rewrites: the decisions and the refusals."""

from __future__ import annotations

from dataclasses import field
from typing import Any, Protocol

from ..ir.diagnostics import Location
from ..records import dataclass

__all__ = ["CollectedRemarks", "RemarkSink", "Silent"]


class RemarkSink(Protocol):
    """Receives the remarks and the debug output of a pass; the pass context is one."""

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None: ...

    def debug(self, message: str, *values: object, loc: Location | None = None) -> None: ...


class Silent:
    """Sink that drops all remarks."""

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None: ...

    def debug(self, message: str, *values: object, loc: Location | None = None) -> None: ...


@dataclass(slots=True)
class CollectedRemarks(Silent):
    """Sink that stores kind, message and location of each remark."""

    remarks: list[tuple[str, str, Location | None]] = field(default_factory=list)

    def remark(self, kind: str, message: str, loc: Location | None = None, **certificate: Any) -> None:
        self.remarks.append((kind, message, loc))
