"""Search for patterns in bytes, and in what text encodes: `Scanner` is built once, and gives the `Matches` of any data.

matches    where patterns were found, as arrays
"""

from .matches import Match, Matches

__all__ = ["Match", "Matches"]
