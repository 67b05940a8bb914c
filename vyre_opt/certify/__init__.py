"""Proofs by z3, an SMT solver, of what the rest of the compiler takes for granted.

op_terms   the meaning of each op as a term over bit-vectors

Nothing here uses the compiler's own arithmetic, folds or analyses: those are what is checked.
Needs the extra `certify`; no other package imports this one.
"""
