"""Programs as parts of a pack: declarations and what faults need, and machine code for each processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from blake3 import blake3

from ..execution.dispatcher import BackendError
from ..execution.inputs import check_declarations
from ..ir.program import Module, Program
from ..ir.types import DataType
from ..lowering.host.abi import HostCode
from ..pack_files.format import Part, canonical
from ..packs.ir_data import Encoder, Unpackable
from ..specialization.keys import versioned_specialization_artifact_key
from ..specialization.spec_map import SpecMap
from ..specialization.values import SpecValue
from ..targets.cpu.compiler import LegalForm, run_facts
from ..targets.cpu.host import Host
from ..targets.cpu.host_code import host_code
from ..targets.cpu.jit import compile_object
from ..targets.cpu.thread_pool_code import compiled
from .processors import host_of

__all__ = ["ARTIFACT_VERSION", "program_parts", "pool_parts"]

ARTIFACT_VERSION = 1
"""The version in the keys of artifacts: that of what packs hold under them."""

_SPEC_TYPES = {DataType.U32: SpecValue.u32, DataType.I32: SpecValue.i32}


def program_parts(
    program: Program, module: Module | None, encoder: Encoder, levels: Sequence[str], opt: int
) -> tuple[str, list[Part]]:
    """The key of a program, and its parts.  Raises Unpackable, and what compiling it raises."""
    form = LegalForm(program, module)
    if form.records is not None:
        raise Unpackable(f"@{program.name} prints, and what is printed is told by the compiler")
    constants = check_declarations(program, module, None)
    hosts = {level: host_of(level, opt) for level in levels}
    codes = {level: host_code(form.program, constants, host) for level, host in hosts.items()}
    faults = canonical(encoder.faults(form.program))
    row = {
        "code": {level: _facts(code) for level, code in codes.items()},
        "facts": asdict(run_facts(form.program)),
        "legal": encoder.program(form.program),
        "source": encoder.program(form.source),
    }
    texts = canonical([code.text for code in codes.values()])
    spec = f"{program.name}/{blake3(canonical(row) + faults + texts).hexdigest()}/{_bound(program).digest().hex()}"
    key = _key(spec, "program")
    parts = [
        Part(f"faults/{key}", "faults", faults),
        *(
            Part(
                f"objects/{_key(spec, level)}",
                "object",
                compile_object(codes[level].text, host),
                {"level": level, "program": program.name},
            )
            for level, host in hosts.items()
        ),
    ]
    for level, facts in row["code"].items():
        facts["object"] = _key(spec, level)
    about = {"program": program.name, "specs": {name: repr(value) for name, value in _bound(program).items()}}
    return key, [*parts, Part(f"programs/{key}", "program", canonical(row), about)]


def pool_parts(levels: Sequence[str]) -> list[Part]:
    """The machine code of the threads that run programs, for each processor."""
    return [Part(f"pools/{level}", "pool", compiled(_quick(host_of(level)))) for level in levels]


def _quick(host: Host) -> Host:
    return Host(host.name, host.attributes, 1, system=host.system)


def _facts(code: HostCode) -> dict[str, object]:
    return {
        "buffers": list(code.buffers),
        "scratch_bytes": code.scratch_bytes,
        "whole_grid": code.whole_grid,
        "written": sorted(code.written),
    }


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


def _key(spec: str, backend: str) -> str:
    return versioned_specialization_artifact_key(ARTIFACT_VERSION, spec, backend)
