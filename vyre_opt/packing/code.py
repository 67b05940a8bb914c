"""Programs as parts of a pack: declarations and what faults need, and machine code for each processor."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from ..execution.inputs import check_declarations
from ..ir.program import Module, Program
from ..lowering.host.abi import HostCode
from ..pack_files.format import Part, canonical
from ..packs.ir_data import Encoder
from ..targets.cpu.compiler import LegalForm, run_facts
from ..targets.cpu.dispatcher import CpuDispatcher
from ..targets.cpu.host_code import host_code
from ..targets.cpu.jit import compile_object
from ..targets.cpu.thread_pool_code import compiled
from .artifacts import about_program, artifact_key, prints, spec_of
from .processors import host_of

__all__ = ["CpuCode"]


WORKERS = 8
"""Threads that schedules of functions on arrays are chosen for: a pack is the same wherever it is made."""


class _Planner(CpuDispatcher):
    plans_only = True


class CpuCode:
    """Code for levels of processors.  `opt`: the level of LLVM's optimiser."""

    name = "cpu"

    def __init__(self, levels: Sequence[str], opt: int) -> None:
        self._levels, self._opt = levels, opt
        # forms that depend on the number of threads are for the machine that runs the code
        self.target = CpuDispatcher(workers=1)
        self.planner = _Planner(WORKERS, cache=False)

    def parts(self, program: Program, module: Module | None, encoder: Encoder) -> tuple[str, list[Part]]:
        form = LegalForm(program, module)
        if form.records is not None:
            raise prints(program)
        constants = check_declarations(program, module, None)
        hosts = {level: host_of(level, self._opt) for level in self._levels}
        codes = {level: host_code(form.program, constants, host) for level, host in hosts.items()}
        faults = canonical(encoder.faults(form.program))
        row = {
            "code": {level: _facts(code) for level, code in codes.items()},
            "facts": asdict(run_facts(form.program)),
            "legal": encoder.program(form.program),
            "source": encoder.program(form.source),
        }
        spec = spec_of(program, canonical(row) + faults + canonical([code.text for code in codes.values()]))
        key = artifact_key(spec, "program")
        parts = [
            Part(f"faults/{key}", "faults", faults),
            *(
                Part(
                    f"objects/{artifact_key(spec, level)}",
                    "object",
                    compile_object(codes[level].text, host),
                    {"level": level, "program": program.name},
                )
                for level, host in hosts.items()
            ),
        ]
        for level, facts in row["code"].items():
            facts["object"] = artifact_key(spec, level)
        return key, [*parts, Part(f"programs/{key}", "program", canonical(row), about_program(program))]

    def shared_parts(self) -> list[Part]:
        """The machine code of the threads that run programs, for each processor."""
        return [Part(f"pools/{level}", "pool", compiled(host_of(level, opt=1))) for level in self._levels]


def _facts(code: HostCode) -> dict[str, object]:
    return {
        "buffers": list(code.buffers),
        "scratch_bytes": code.scratch_bytes,
        "whole_grid": code.whole_grid,
        "written": sorted(code.written),
    }
