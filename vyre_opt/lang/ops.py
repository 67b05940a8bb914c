"""Module of the names that kernels call.

For editors and type checkers, ops.pyi has them with their arguments; `python docs/op_stubs.py` writes it.
"""

from .intrinsics import INTRINSICS, namespaces

globals().update(INTRINSICS)
globals().update(namespaces())

__all__ = [*INTRINSICS, *namespaces()]
