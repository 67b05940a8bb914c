"""The folder of this project's caches: VYRE_CACHE_DIR, or a folder in the user's cache folder."""

from __future__ import annotations

import os
import sys
from pathlib import Path

__all__ = ["cache_folder"]


def cache_folder() -> Path:
    """The folder; it may not exist, and may not be writable."""
    named = os.environ.get("VYRE_CACHE_DIR")
    if named:
        return Path(named)
    if sys.platform == "linux":  # what platformdirs says, without its import on the common path
        cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
        return (
            Path(os.devnull if cache.startswith("~") else cache) / "vyre-opt"
        )  # without a home folder, caching is off
    from platformdirs import user_cache_path

    return user_cache_path("vyre-opt")
