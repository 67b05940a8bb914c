"""Number of workgroups of the original launch along an axis, for a program over another grid: a param, or computed."""

from __future__ import annotations

from collections.abc import Mapping

from ..analysis.refusal import Refusal
from ..ir.grids import MAX_LENGTH, Extent, bounds, dimensions_of, params_of, show_extent
from ..ir.ops import OPS
from ..ir.program import Op, Param, Program, Value
from ..ir.rewrite import fresh_name
from ..ir.types import DataType
from ..records import dataclass
from .halo_recompute import OpEmitter

__all__ = ["GroupCount", "groups_param"]


def groups_param(program: Program, axis: str = "x") -> str:
    """Name of the param through which a program receives the number."""
    return fresh_name("groups" if axis == "x" else f"groups_{axis}", program.params)


@dataclass(frozen=True)
class GroupCount:
    """`extent`: the workgroups of the launch, over the lengths of the pipeline's buffers; None for a param of the program.

    `lengths`: for each of the pipeline's buffers, the program's buffer that it is passed for.
    """

    extent: Extent | None
    lengths: Mapping[str, str]
    axis: str = "x"

    @property
    def key(self) -> tuple[object, ...]:
        """Equal for counts that programs obtain in the same way."""
        return self.axis, self.extent, tuple(sorted(self.lengths.items()))

    def params(self, program: Program) -> dict[str, Param]:
        """The params of `program`, with one for the number if it needs one."""
        if self.extent is not None:
            return dict(program.params)
        name = groups_param(program, self.axis)
        return {**program.params, name: Param(name, DataType.U32, None, program.loc)}

    def emit(self, emit: OpEmitter, program: Program) -> Value | Refusal:
        """The number as a u32; intermediate results are u64, in which nothing wraps."""
        extent = self.extent
        if extent is None:
            param = groups_param(program, self.axis)
            emit.ops.append(
                Op(OPS["param"], (), (Value(param, DataType.U32),), {"param": param}, loc=program.loc)
            )
            return emit.ops[-1].result
        if name := next(params_of(extent), None):
            return Refusal("grid", f"its grid depends on the param @{name}, whose bounds are not known")
        if name := next((name for name, dimension in dimensions_of(extent) if dimension is not None), None):
            return Refusal("grid", f"its grid depends on one dimension of @{name}", name)
        limits = bounds(extent)
        if limits is None or not 0 <= limits[0] <= limits[1] <= MAX_LENGTH:
            return Refusal("grid", f"a grid of {show_extent(extent)} may have no value, or one beyond 2^32")
        if isinstance(extent, int):
            return emit.const(extent)
        refusal = self._refusal(extent)
        if refusal is not None:
            return refusal

        def length(name: str, dimension: int | None) -> Value:
            return emit.length("length", self.lengths[name], dimension, DataType.U32)

        return emit.cast(emit.extent(extent, "groups", DataType.U64, length), DataType.U32)

    def _refusal(self, extent: Extent) -> Refusal | None:
        """Why a part of the expression may exceed 64 bits, or needs a buffer that is not passed; None if all is fine."""
        limits = bounds(extent)
        if limits is None or not 0 <= limits[0] <= limits[1] < 1 << 63:
            return Refusal(
                "grid", f"a part of its grid, {show_extent(extent)}, may be beyond 2^63 or below 0"
            )
        if isinstance(extent, int):
            return None
        if extent.name == "len" and (name := str(extent.args[0])) not in self.lengths:
            return Refusal("grid", f"its grid depends on len(@{name}), and @{name} is not passed to it", name)
        parts = (arg for arg in extent.args if not isinstance(arg, str) and extent.name != "len")
        return next((refusal for refusal in map(self._refusal, parts) if refusal is not None), None)
