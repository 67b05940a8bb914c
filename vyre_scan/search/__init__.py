"""Search for patterns in bytes, and in what text encodes: `Scanner` is built once, and gives the `Matches` of any data.

data        of any kind, as bytes
decoder     text to the bytes that it encodes, window by window (encodings: alphabets; places: blanks)
cached_patterns  tables of patterns in the compile cache
prefilter   which literals are looked for together
tables      what a search works with
cpu         where an automaton accepts, by launches of programs (launch)
rule_search the matches of expressions near the places where their atoms are
stream      the matches of data that comes in parts
matches     where patterns were found, as arrays
disjoint    those of them that do not overlap, as grep chooses
grep_stream these, with the bytes that matched, of a file of any size
blobs       where ordinary files have base64; blob_stream: a search in what it holds
saved       patterns in files
"""
