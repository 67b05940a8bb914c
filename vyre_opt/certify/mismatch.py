"""Why a program is not what a pass says that it is."""

from __future__ import annotations

from ..ir.program import Op

__all__ = ["Mismatch"]


class Mismatch(Exception):
    """A program is not what it should be, as far as can be seen.  `ops`: where."""

    def __init__(self, message: str, *ops: Op) -> None:
        super().__init__(message)
        self.ops = ops
