"""Folder of recorded faults, if there is one: VYRE_RECORD=FOLDER."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["VARIABLE", "recording_folder"]

VARIABLE = "VYRE_RECORD"


def recording_folder() -> Path | None:
    """The folder; None where nobody asks for records."""
    folder = os.environ.get(VARIABLE)
    if not folder:
        return None
    from pathlib import Path

    return Path(folder).absolute()
