"""Patterns: literals, and regular expressions as what every match of theirs has.

A list of patterns is read by `pattern_list`, which takes a `rule`, too.  A regular expression goes through

    rule_syntax     the syntax of `re`, and its tree, or an error with its place
    line_trees      the tree of an expression whose matches are within lines
    rule_facts      what every match has: strings of classes of bytes, and bounds (byte_weights: which bytes are rare)
    expression      both, and what `re` compiles
    class_strings   automata of strings that are too many as literals (literal_automaton: of literals)
"""
