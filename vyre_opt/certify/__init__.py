"""Proofs by z3, an SMT solver, of what the rest of the compiler takes for granted.

points        the values of a program at a point of its execution, as terms over integers
accesses      memory accesses, and which come before which
obligations   a claim with what it assumes, and z3's answer
in_bounds     accesses that are not checked, divisions without guards
tiles         hand-offs that are tiles of workgroups
joins         launches that become one
coarsened     launches of which an invocation does the work of several neighbours
privatized    launches whose workgroups count for themselves
rewritten_loops  loops that load at other places: both programs, run side by side
loop_terms    the values of two programs as terms, equal ones as one
loop_paths    what is known where a program goes
barriers      barriers that are removed
vectors       accesses that are one of a vector
certifier     the decisions of passes as obligations
op_terms      the meaning of each op as a term over bit-vectors, for proofs of rewrite rules and of lowered ops

Nothing here uses the compiler's own arithmetic, folds or analyses: those are what is checked.
Needs the extra `certify`; only the tool's option of that name imports this package.
"""
