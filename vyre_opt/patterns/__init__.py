"""Patterns as automata: literals and regular expressions, compiled to tables that programs walk.

from vyre_opt.patterns.compile import compile_patterns
from vyre_opt.patterns.find import find

compiled = compile_patterns([b"needle", re.compile(rb"AKIA[0-9A-Z]{16}")])
find(compiled, data)        # [Match(start, end, pattern), ...]

literals    the Aho-Corasick automaton of literals, a level of their trie at a time
regex_syntax -> positions -> determinize -> minimize     from a regular expression to an automaton
automaton   the tables, and the invariants that walkers rely on;  compiled: those of a set of patterns
find        a walker in Python;  cached: compiled patterns in the compile cache
"""
