"""Patterns as automata: literals and regular expressions, compiled to tables that programs walk.

    from vyre_opt.patterns.compile import compile_patterns
    from vyre_opt.patterns.find import find

    compiled = compile_patterns([b"needle", re.compile(rb"AKIA[0-9A-Z]{16}")])
    find(compiled, data)        # [Match(start, end, pattern), ...]

A literal goes through `literals`; a regular expression through

    regex_syntax    its tree, or an error with its place
    positions       its positions, and what may follow what
    determinize     the automaton whose states are sets of positions
    minimize        the smallest one that shows the same matches

and `union` puts all of them together.  `automaton` has the tables and the invariants that walkers rely on, `compiled`
those of a set of patterns, and `find` is a walker in Python.
"""
