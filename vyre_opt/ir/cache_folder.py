"""Where this project keeps what it can make again: VYRE_CACHE_DIR, or the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """The folder, which need not exist, nor be one that can be written."""
    named = os.environ.get("VYRE_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "linux":  # what platformdirs says, without its import on the common path
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return Path(os.devnull if cache.startswith("~") else cache) / "vyre-opt"  # a user without a home
    from platformdirs import user_cache_path

    return user_cache_path("vyre-opt")
