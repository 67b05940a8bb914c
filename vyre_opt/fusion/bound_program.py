"""Programs as launches bind them: arguments of the launch and extents of the pipeline are put into the body.

    program @shift { param @k : u32          launch @shift grid(8) (@a, @b) params(@k = 4)     buffer @a : f32[512]
      %k = param @k           ->  %k = const 4               the literal, the default, or the pipeline's param
      %n = len @x             ->  %n = const 512             the extent that the pipeline declares

Proofs about launches read these programs alone, so a proof is reused only for launches with equal bound programs; and a
buffer that becomes smaller later does not change a length that the launches see.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import field, replace

from ..analysis.buffer_layout import BufferLayout
from ..ir.arith import wrap
from ..ir.grids import length_key
from ..ir.literals import encode
from ..ir.pipeline import Launch, LaunchParam
from ..ir.program import Block, Buffer, Op, Param, Program
from ..ir.rewrite import become, clone
from ..records import dataclass

__all__ = ["BoundProgram", "BoundPrograms"]


@dataclass(frozen=True, slots=True)
class BoundProgram:
    """A program as a launch binds it, with the pipeline's buffers that are passed to it, in the order of the bindings.

    Its params are the pipeline's.  `ids`: one of IDS in ir/joined_locations.py.
    """

    program: Program
    buffers: tuple[str, ...]
    ids: str = "both"

    @property
    def bindings(self) -> list[tuple[Buffer, str]]:
        """The program's bound buffers, each with the name of the buffer passed for it."""
        return list(zip(self.program.bound_buffers, self.buffers, strict=True))

    @property
    def workgroup_bytes(self) -> int:
        return BufferLayout(self.program).workgroup


@dataclass(slots=True)
class BoundPrograms:
    """Launches that bind a program alike share one, so that they are analysed once."""

    _programs: dict[Hashable, Program] = field(default_factory=dict)

    def of(self, program: Program, launch: Launch, lengths: Mapping[str, int | None]) -> BoundProgram:
        """`lengths`: those of the pipeline's buffers that are known (see ir/grids.py)."""
        extents: dict[str, int | None] = {}
        for formal, actual in zip(program.bound_buffers, launch.buffers, strict=True):
            for dimension in (None, *range(formal.dimensions)):
                length = lengths.get(length_key(actual, dimension))
                extent = formal.count if dimension is None else formal.shape[dimension]
                extents[length_key(formal.name, dimension)] = extent if length is None else length
        key = program, tuple(launch.params.items()), tuple(extents.items())
        if key not in self._programs:
            self._programs[key] = _bind(program, launch.params, extents)
        return BoundProgram(self._programs[key], launch.buffers)


def _bind(program: Program, params: Mapping[str, LaunchParam], lengths: Mapping[str, int | None]) -> Program:
    """`lengths`: by the names of the program's own buffers."""
    if not any(op.name in ("param", "len") for op in program.walk()):
        return program if not program.params else replace(program, params={})
    ops = clone(program.body.ops, {})
    for op in Block((), ops).walk():
        if op.name == "param":
            param = program.params[op.attrs["param"]]
            _bind_param(op, param, params.get(param.name))
        elif op.name == "len":
            length = lengths.get(length_key(op.attrs["buffer"], op.attrs.get("dimension")))
            if length is not None:
                become(op, "const", (), {"value": wrap(length, op.result.type)})
    pipeline_params = {
        value: replace(program.params[name], name=value, default=None)
        for name, value in params.items()
        if isinstance(value, str)
    }
    return replace(program, params=pipeline_params, body=Block((), ops))


def _bind_param(op: Op, param: Param, value: LaunchParam | None) -> None:
    """Let a `param` read the pipeline's runtime scalar, or become the constant that the launch passes."""
    if isinstance(value, str):
        op.attrs = {"param": value}
    else:
        become(op, "const", (), {"value": param.default if value is None else encode(value, param.dtype)})
