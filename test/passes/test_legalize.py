"""The passes that every target runs before it writes code."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.each import each

import vyre_opt
from vyre_opt.execution.dispatcher import BadInputs
from vyre_opt.ir.program import Module
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.passes.legalize import TARGETS
from vyre_opt.passes.manager import PassManager
from vyre_opt.syntax.parser import parse
from vyre_opt.targets.cpu.compiler import LegalForm, host_code
from vyre_opt.targets.cpu.jit import Host

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").rglob("*.vyre")), ROOT / "test/lit/matrices/ptx.vyre"]
TEXT = "vyre 2\nprogram @p workgroup(1) { buffer @x : u32[2, 2] write binding(0) live_out store 1, @x[0, 1] : u32 }"


def code(module: Module, target: str) -> list[str]:
    """What a call of each program would compile."""
    if target == "cuda":
        units = [Unit(program, module, program.spec_defaults) for program in module.programs.values()]
        return [lower(units, gpu("sm_90a"), "trap").text]
    return [
        host_code(LegalForm.of(program, module).program, program.spec_defaults, Host.this()).text
        for program in module.programs.values()
    ]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_passes_leave_what_a_call_compiles(target: str) -> None:
    """And they have nothing to do on what they left."""
    manager = PassManager(f"legalize{{target={target}}}", target="sm_90a", normalizes=False)

    def check(path: Path) -> None:
        module, legal = parse(path.read_text()), parse(path.read_text())
        manager.run(legal)
        assert not manager.run(legal).changed
        assert code(legal, target) == code(module, target)

    each(FILES, check)


def test_the_documentation_has_their_order() -> None:
    from vyre_opt.passes import legalize

    for target, rewrites in TARGETS.items():
        line = f"    {target:<8}{', '.join(rewrite.name for rewrite in rewrites)}\n"
        assert line in (legalize.__doc__ or "")


def test_a_call_refuses_them() -> None:
    """What they leave is no program of the language any more: it has other parameters."""
    with pytest.raises(BadInputs, match="row_major is for vyre-opt; a target runs it by itself"):
        vyre_opt.compile(parse(TEXT), target="cpu", passes="cse,row_major")
