"""The folder of this project's caches: VYRE_CACHE_DIR, or a folder in the user's cache folder."""

from __future__ import annotations

import os
import sys
from functools import cache

__all__ = ["cache_folder"]

_NOWHERE = os.devnull
"""Nothing lies in a file, so a folder below it keeps nothing."""


def cache_folder() -> str:
    """The folder, as an absolute path; it may not exist, and may not be writable."""
    named = os.environ.get("VYRE_CACHE_DIR")
    if named:
        return _absolute(named)
    if sys.platform == "linux":  # what platformdirs says, without its import on the common path
        parent = os.environ.get("XDG_CACHE_HOME", "")
        if not os.path.isabs(parent):  # which the XDG specification has us ignore
            parent = os.path.expanduser("~/.cache")
        path = os.path.join(parent, "vyre-opt")
    else:
        from platformdirs import user_cache_dir

        path = user_cache_dir("vyre-opt")
    return (
        path if os.path.isabs(path) else os.path.join(_NOWHERE, "vyre-opt")
    )  # without a home folder, caching is off


@cache  # the folder stays the same when the process changes its working directory
def _absolute(named: str) -> str:
    try:
        return os.path.join(os.getcwd(), named)
    except OSError:  # the working directory was removed
        return named if os.path.isabs(named) else os.path.join(_NOWHERE, named)
