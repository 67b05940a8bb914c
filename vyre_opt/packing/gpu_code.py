"""Programs as parts of a pack for a GPU: declarations and what faults need, and PTX."""

from __future__ import annotations

from dataclasses import replace

from ..driver.machine_target import MachineTarget
from ..ir.program import Module, Program
from ..lowering.common.print_records import records_of
from ..lowering.nvptx.kernel import lower
from ..lowering.nvptx.legalization import legal_unit
from ..lowering.nvptx.ptx import emit_ptx
from ..lowering.nvptx.targets import gpu
from ..pack_files.format import Part, canonical
from ..packs.ir_data import Encoder
from ..scheduling.machines import machine_of
from ..targets.cuda.kernels import unit_of
from ..targets.cuda.launcher_code import compiled
from .artifacts import about_program, artifact_key, prints, spec_of
from .assembler import Assembler
from .processors import host_of

__all__ = ["GpuCode"]

BOUNDS = "trap"
LAUNCHERS = ("x86-64-v2", "aarch64")
"""Processors that have the code which launches on a GPU: newer ones of a kind would not do it faster."""


class _Planner(MachineTarget):
    plans_only = True


class GpuCode:
    """PTX for a GPU, and machine code if there is an `assembler`."""

    def __init__(self, name: str, assembler: Assembler | None) -> None:
        self.name, self._gpu, self._assembler = name, gpu(name), assembler
        self.target = self.planner = _Planner(replace(machine_of(name), architecture=name))

    def parts(self, program: Program, module: Module | None, encoder: Encoder) -> tuple[str, list[Part]]:
        unit = unit_of(program, module, {})
        if records_of(unit.program):
            raise prints(program)
        lowered = lower([legal_unit(unit, self._gpu, BOUNDS)], self._gpu, BOUNDS)
        (entry,) = lowered.kernels
        text = emit_ptx(lowered, self._gpu)
        ptx = text.encode()
        row = {
            "dynamic_shared": entry.dynamic_shared,
            "is_cooperative": entry.is_cooperative,
            "legal": encoder.program(entry.program),
            "params": [[param.kind, param.name] for param in entry.params],
            "source": encoder.program(program),
            "symbol": entry.symbol,
        }
        faults = canonical([[encoder.op(site.op), site.kind, site.width] for site in entry.sites])
        key = artifact_key(spec_of(program, canonical(row) + faults + ptx), self.name)
        about = {"gpu": self.name, "program": program.name}
        parts = [
            Part(f"faults/{key}", "faults", faults),
            Part(f"kernels/{key}", "kernel", canonical(row), {**about_program(program), **about}),
            Part(f"ptx/{key}", "ptx", ptx, about),
        ]
        if self._assembler is not None:
            cubin = self._assembler.assemble(text, self.name)
            parts.append(Part(f"cubins/{key}", "cubin", cubin, {**about, "assembler": self._assembler.name}))
        return key, parts

    def shared_parts(self) -> list[Part]:
        """The machine code that launches, for processors."""
        return [
            Part(f"launchers/{level}", "launcher", compiled(host_of(level, opt=1))) for level in LAUNCHERS
        ]
