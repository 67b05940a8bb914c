"""The note `fuse = false`: the launch that has it is not joined with the launch before it."""

from __future__ import annotations

from typing import NamedTuple

from ..ir.pipeline import Launch, Note

__all__ = ["Veto", "veto_of"]


class Veto(NamedTuple):
    """`threshold`: the one by which fusion_pressure decided; None if the user wrote the note."""

    threshold: Note | None

    @property
    def is_from_user(self) -> bool:
        """Then no pass removes it; fusion_pressure's own is decided again by each run of that pass."""
        return self.threshold is None

    @property
    def notes(self) -> dict[str, Note]:
        """The notes of a launch that say so."""
        return {"fuse": False} if self.threshold is None else {"fuse": False, "threshold": self.threshold}


def veto_of(launch: Launch) -> Veto | None:
    """The veto among a launch's notes, if there is one."""
    return Veto(launch.notes.get("threshold")) if launch.notes.get("fuse") is False else None
