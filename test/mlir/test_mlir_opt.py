"""mlir-opt 16 and 19 take what is written, and 19 makes PTX of it that fuses nothing; skipped where they are not installed."""

from __future__ import annotations

import re

import pytest
from support.generator import random_program
from support.mlir_texts import alone, kernel_modules, module_of_text, op_cases, texts
from support.op_programs import op_programs
from support.quick import quick

from vyre_opt.ir import DiagnosticError, Module, Source, fingerprint
from vyre_opt.mlir.emit import emit_mlir
from vyre_opt.mlir.read import read_mlir
from vyre_opt.mlir.refusals import refusals

RANDOM = 24
MANY_RANDOM = 700
"""Of which 500 have no prints, which MLIR does not have."""


def written(modules: list[Module], **options: bool) -> list[str]:
    """The MLIR of those that can be written."""
    found = []
    for module in modules:
        try:
            found.append(emit_mlir(module, **options))
        except DiagnosticError:
            continue
    return found


def of_each_op() -> list[Module]:
    return [case.module for case in op_cases()]


def text_modules(step: int = 1) -> list[Module]:
    whole = [module_of_text(text) for _, text in texts()[::step]]
    programs = [(m, p) for m in whole for p in m.programs.values()]
    return [alone(m, p) for m, p in programs if not refusals(p, m) and None not in p.spec_defaults.values()]


@pytest.mark.parametrize(
    ("version", "seeds"), quick([("16", 2), ("19", 2), ("16", RANDOM), ("19", RANDOM)], keep=2)
)
def test_a_program_of_each_op_and_random_ones(verified, version: str, seeds: int) -> None:
    modules = [*of_each_op(), *(random_program(seed).module for seed in range(seeds))]
    verified(version, written(modules))
    verified(version, written(modules, bare_pointers=True))


@pytest.mark.campaign
@pytest.mark.parametrize("version", ["16", "19"])
def test_everything(verified, version: str) -> None:
    verified(version, written([case.module for case in op_programs()]))
    random = written([random_program(seed).module for seed in range(MANY_RANDOM)])
    assert len(random) >= 500
    for start in range(0, len(random), 100):
        verified(version, random[start : start + 100])
    verified(version, written(kernel_modules(1)))
    verified(version, written(text_modules()))


@pytest.mark.parametrize("step", quick([3, 1]))
def test_texts_of_the_checkout(verified, step: int) -> None:
    modules = written(text_modules(step))
    assert len(modules) > 100 / step
    verified("19", modules)


def test_ptx_of_every_op(to_ptx) -> None:
    """One kernel each, and neither a library's function nor an approximation that nobody asked for."""
    modules = written(of_each_op())
    kernels = to_ptx(modules)
    assert len(kernels) == len(modules)
    for ptx in kernels:
        assert ".visible .entry" in ptx
        assert "__nv_" not in ptx
        assert ".approx" not in ptx
        assert ".ftz" not in ptx


SUM = """vyre 1
program @p workgroup(32) {
  buffer @x : f32[32] read binding(0)
  buffer @y : f32[32] write binding(1)
  %i = local_id x
  %v = load @x[%i] : f32
  %m = mul %v, %v{flags} : f32
  %s = add %m, %v{flags} : f32
  %q = div %s, %v : f32
  %r = sqrt %q : f32
  store %r, @y[%i] : f32
}
"""


def test_nothing_is_contracted_unless_the_op_says_so(to_ptx) -> None:
    """A multiplication and an addition stay two, division and square roots are correctly rounded."""
    plain, fast = to_ptx(
        written([module_of_text(SUM.replace("{flags}", f)) for f in ("", " fastmath<contract>")])
    )
    assert re.findall(r"\b(?:mul|add|fma|div|sqrt)\.rn\.f32", plain) == [
        "mul.rn.f32", "add.rn.f32", "div.rn.f32", "sqrt.rn.f32",
    ]  # fmt: skip
    assert "fma.rn.f32" in fast


def test_bare_pointers_are_pointers_and_extents(to_ptx) -> None:
    text = SUM.replace("{flags}", "").replace("f32[32] read", "f32[?] read")
    (ptx,) = to_ptx(written([module_of_text(text)], bare_pointers=True))
    assert len(re.findall(r"\.param \.u64 p_param_\d+,?$", ptx, re.MULTILINE)) == 3


GENERIC, PLACES = ("--mlir-print-op-generic",), ("--mlir-print-debuginfo",)
READ_AGAIN = [
    ("19", (), 9),
    ("16", GENERIC, 9),
    ("19", PLACES, 9),
    *((version, form, 3) for version in ("16", "19") for form in ((), GENERIC, PLACES)),
]


@pytest.mark.parametrize(("version", "options", "step"), quick(READ_AGAIN, keep=3))
def test_what_mlir_opt_prints_reads_as_the_program(
    verified, version: str, options: tuple[str, ...], step: int
) -> None:
    """In its pretty form, in the generic one, and with places."""
    pytest.importorskip("xdsl")
    modules = [m for m in of_each_op() if written([m])][::step]
    printed = verified(version, written(modules), *options).split("// -----\n")
    for module, text in zip(modules, printed, strict=True):
        back = read_mlir(Source(text, "kernel.mlir"))
        for program in module.programs.values():
            assert fingerprint(back.programs[program.name]) == fingerprint(program)
