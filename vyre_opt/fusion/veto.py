"""The notes of fusion_pressure at a launch, among them `fuse = false`: it is not joined with the launch before it."""

from __future__ import annotations

from typing import NamedTuple

from ..ir.pipeline import Launch, Note

__all__ = ["NOTES", "Veto", "drop_stale_notes", "veto_of"]

NOTES = ("rank", "pressure", "bytes", "least_bytes", "fuse", "threshold")
"""Names of fusion_pressure's notes on the hand-off to a launch: the pressure and the decision."""


class Veto(NamedTuple):
    """`threshold`: the one by which fusion_pressure decided; None if the user wrote the note."""

    threshold: Note | None

    @property
    def is_from_user(self) -> bool:
        """Whether the user wrote it: then no pass removes it.  fusion_pressure decides its own again at each run."""
        return self.threshold is None

    @property
    def notes(self) -> dict[str, Note]:
        """The notes of a launch that express the veto."""
        return {"fuse": False} if self.threshold is None else {"fuse": False, "threshold": self.threshold}


def veto_of(launch: Launch) -> Veto | None:
    """The veto among a launch's notes, if there is one."""
    return Veto(launch.notes.get("threshold")) if launch.notes.get("fuse") is False else None


def drop_stale_notes(launch: Launch) -> bool:
    """Remove notes that launch_fusion did not carry out; return whether there were any.

    A veto by pressure keeps its facts: no link of its chain was joined, so they still hold.  Of a user's notes only
    the veto remains.
    """
    veto = veto_of(launch)
    if veto is not None and not veto.is_from_user:
        return False
    valid = {} if veto is None else veto.notes
    stale = [key for key in launch.notes if key in NOTES and key not in valid]
    for key in stale:
        del launch.notes[key]
    return bool(stale)
