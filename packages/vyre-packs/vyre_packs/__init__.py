"""Kernels that vyre-opt has compiled into packs, for machines without the compiler.

import vyre_packs
vyre_packs.load("kernels.vyrepack")["scale"][grid](x, y)
"""

from .packs import PackError, load, synchronize

__all__ = ["PackError", "load", "synchronize"]
