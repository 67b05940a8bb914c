"""Keys of programs in packs, and the protocol of what compiles them."""

from __future__ import annotations

from typing import Any, Protocol

from blake3 import blake3

from ..execution.dispatcher import BackendError
from ..execution.target import Target
from ..ir.program import Module, Program
from ..ir.types import DataType
from ..pack_files.format import Part
from ..packs.ir_data import Encoder, Unpackable
from ..specialization.keys import versioned_specialization_artifact_key
from ..specialization.spec_map import SpecMap
from ..specialization.values import SpecValue

__all__ = ["ARTIFACT_VERSION", "Code", "about_program", "artifact_key", "prints", "spec_of"]

ARTIFACT_VERSION = 1
"""The version in the keys of artifacts: that of what packs hold under them."""

_SPEC_TYPES = {DataType.U32: SpecValue.u32, DataType.I32: SpecValue.i32}


class Code(Protocol):
    """The code of a pack's programs for processors, or for a GPU.

    `name`: "cpu", or the GPU's, such as sm_90.  `target`: what programs and pipelines are compiled and planned for; `planner`: what
    functions on arrays are, see `Target.plans_only`.
    """

    name: str

    @property
    def target(self) -> Target: ...

    @property
    def planner(self) -> Target: ...

    def parts(self, program: Program, module: Module | None, encoder: Encoder) -> tuple[str, list[Part]]:
        """The key of a program, and its parts.  Raises Unpackable, and what compiling it raises."""

    def shared_parts(self) -> list[Part]:
        """Parts for all functions of a pack."""


def prints(program: Program) -> Unpackable:
    """Error for a program that prints."""
    return Unpackable(f"@{program.name} prints, and what is printed is told by the compiler")


def spec_of(program: Program, content: bytes) -> str:
    """The part of a key that names a program; `content`: all that tells it from others of its name."""
    return f"{program.name}/{blake3(content).hexdigest()}/{_bound(program).digest().hex()}"


def about_program(program: Program) -> dict[str, Any]:
    """Facts of a program that the index of a pack shows."""
    return {"program": program.name, "specs": {name: repr(value) for name, value in _bound(program).items()}}


def _bound(program: Program) -> SpecMap:
    """The values of specialization constants, of the types that a SpecMap has."""
    values = {}
    for name, spec in program.specs.items():
        if spec.default is None or spec.dtype.is_open:
            raise BackendError(f"program @{program.name}: spec @{name} has no value")
        if spec.dtype in _SPEC_TYPES:
            values[name] = _SPEC_TYPES[spec.dtype](int(spec.default))
        elif spec.dtype is DataType.F32:
            values[name] = SpecValue.f32_bits(int(spec.default))
        elif spec.dtype is DataType.BOOL:
            values[name] = SpecValue.bool(bool(spec.default))
    return SpecMap(values)


def artifact_key(spec: str, backend: str) -> str:
    """Key of a part; `backend`: what it is for."""
    return versioned_specialization_artifact_key(ARTIFACT_VERSION, spec, backend)
