"""Search for patterns in bytes, and in what text encodes: `Scanner` is built once, and gives the `Matches` of any data.

data        of any kind, as bytes
decoder     text to the bytes that it encodes, window by window (encodings: alphabets; places: blanks)
prefilter   which literals are looked for together
tables      what a search works with
cpu         where the automaton accepts
stream      the matches of data that comes in parts
matches     where patterns were found, as arrays
saved       scanners in files
"""

from .errors import EncodingError
from .matches import Match, Matches
from .scanner import Scanner

__all__ = ["EncodingError", "Match", "Matches", "Scanner"]
