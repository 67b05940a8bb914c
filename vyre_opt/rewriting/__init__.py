"""Changes of programs that every package may need: rewriting by patterns, and rewrites of whole bodies.

pattern     Pattern, and `pattern_on`, which makes one of a function
terms       `pattern`, which makes one of a term to match and a term to build
rewriter    the builder of what takes a match's place
uses        how often values are used, for patterns that ask
driver      `apply_patterns`
expansion   ops of other packages become what they mean
identities  the patterns of canonicalize
walker      the walk through a body that rewrites without patterns share
"""
