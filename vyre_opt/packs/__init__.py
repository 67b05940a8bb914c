"""Compiled kernels in a file, for machines without the compiler.

    load("kernels.vyrepack")["scale"][grid](x, y)

An import of it loads no compiler: neither passes, lowering and analyses nor LLVM.  `vyre_opt.packing` writes packs.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from ..pack_files.format import PackError

if TYPE_CHECKING:
    from .loader import LoadedPack

__all__ = ["PackError", "load", "synchronize"]


def load(path: Any, trusted: str | Iterable[str] | None = None) -> LoadedPack:
    """The functions of a pack by name.

    `trusted`: digests, or keys `ed25519:...`, one or several; a pack that has none of them raises PackError before anything of it
    is run.  Without it the pack's code is run whoever made it.  Raises PackError for a damaged file, OSError for one that cannot be
    read.
    """
    from .loader import load_pack

    return load_pack(path, trusted)


def synchronize() -> None:
    """Wait for all work on GPUs, and raise the ProgramError of a fault of earlier calls."""
    from ..targets.cuda.device import synchronize

    synchronize()
