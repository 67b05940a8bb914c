"""Patterns as automata: literals and the atoms of regular expressions, compiled to tables that programs walk.

    from vyre_opt.patterns.compiled import CompiledPatterns
    from vyre_opt.patterns.find import find

    find(CompiledPatterns.of_literals([b"needle", b"pin"]), data)        # [Match(start, end, pattern), ...]

A list of patterns is read by `pattern_list`, which takes a `rule`, too.  A literal goes through `literals`; a regular expression
through

    rule_syntax     the syntax of `re`, and its tree, or an error with its place
    rule_facts      what every match has: strings of classes of bytes, and bounds (byte_weights: which bytes are rare)
    expression      both, and what `re` compiles
    class_strings   automata of strings that are too many as literals

`automaton` has the tables and the invariants that walkers rely on, `compiled` those of a set of patterns, and `find` is a
walker in Python.
"""
