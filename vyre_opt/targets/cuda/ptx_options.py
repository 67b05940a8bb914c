"""The options of compiling to PTX."""

from __future__ import annotations

from ...lowering.nvptx.targets import PtxVersion
from ...records import dataclass

__all__ = ["PtxOptions"]


@dataclass(frozen=True, slots=True)
class PtxOptions:
    """The options of compiling to PTX, which are part of the key of what is compiled.

    `bounds`: see `vyre_opt.lowering.nvptx.abi.BOUNDS`.  `level`: of optimisation, 0 to 3.  `zero_memory`: whether
    workgroup memory is zeroed where it may be read before it is written.  `debug_info`: whether the PTX has line tables.
    """

    bounds: str = "trap"
    level: int = 2
    ptx: PtxVersion | None = None
    zero_memory: bool = False
    debug_info: bool = False
