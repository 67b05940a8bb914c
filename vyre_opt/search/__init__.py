"""Search for patterns in bytes, and in what text encodes: `Scanner` is built once, and gives the `Matches` of any data.

data        of any kind, as bytes
decoder     text to the bytes that it encodes, window by window (encodings: alphabets; places: blanks)
prefilter   which literals are looked for together
tables      what a search works with
cpu         where the automaton accepts
stream      the matches of data that comes in parts
segments    the same in bounded memory, of expressions whose matches differ in length
matches     where patterns were found, as arrays
disjoint    those of them that do not overlap, as grep chooses
grep_stream these with the bytes that matched (matched_text), of a file of any size
saved       scanners in files
"""

from .errors import EncodingError
from .matches import Match, Matches
from .scanner import Scanner

__all__ = ["EncodingError", "Match", "Matches", "Scanner"]
