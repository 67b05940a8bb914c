"""Passes, the manager that runs them, and the patterns that rewrite ops.  A pass is one file."""

from ..faces import face

__getattr__, __dir__ = face("passes", "rewriting")
