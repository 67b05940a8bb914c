"""A program, as MLIR and read again, is the same program: it has the same fingerprint."""

from __future__ import annotations

import re

import pytest
from support.each import each
from support.generator import random_program
from support.kernel_cases import kernel_cases
from support.mlir_texts import alone, module_of_text, op_cases, texts
from support.op_programs import OpProgram
from support.quick import quick

from vyre_opt import parse
from vyre_opt.ir import DiagnosticError, Module, Source, fingerprint
from vyre_opt.ir.verifier import check
from vyre_opt.lowering.common.workgroup_reductions import with_subgroup_reductions
from vyre_opt.math_functions.approximations import APPROXIMATIONS
from vyre_opt.mlir.emit import emit_mlir
from vyre_opt.mlir.read import read_mlir
from vyre_opt.mlir.refusals import refusals
from vyre_opt.rewriting.cloning import copy_program
from vyre_opt.syntax.printer import canonical_text

pytest.importorskip("xdsl")

SEEDS = quick(sorted(range(120), key=lambda seed: seed not in (6, 9)), keep=2)
# few: reading a long text takes xdsl a second
KERNELS = quick(kernel_cases(), group=lambda case: re.split(r"[._]", case.kernel)[0])
SHORT = [name for name in APPROXIMATIONS if name not in ("sqrt", "div")]
"""The others are MLIR's own ops, with its flags."""


def refused(module: Module) -> list[str]:
    """What MLIR has no counterpart for, which says so at its place."""
    return [d.message for program in module.programs.values() for d in refusals(program, module)]


def assert_same(module: Module) -> None:
    problems = refused(module)
    if problems:
        pytest.skip(problems[0])
    back = read_mlir(Source(emit_mlir(module), "kernel.mlir"))
    check(back)
    for program in module.programs.values():
        again = back.programs[program.name]
        written = with_subgroup_reductions(copy_program(program, module)[0])
        for op in written.walk():
            if "atomic" in op.definition.effects:  # atomics of MLIR have no flags
                op.attrs = {name: value for name, value in op.attrs.items() if name != "fastmath"}
        assert canonical_text(again) == canonical_text(written)
        assert fingerprint(again) == fingerprint(written)
    for name, func in back.funcs.items():
        assert fingerprint(func) == fingerprint(module.funcs[name])


def test_short_forms() -> None:
    """Helpers of their own, also where a part that is rarely needed takes two operands."""
    lines = "\n".join(f"%{name} = {name} %v{', %v' * (name == 'pow')} fastmath<afn> : f32" for name in SHORT)
    stores = "\n".join(f"store %{name}, @y[{k}]" for k, name in enumerate(SHORT))
    body = f"buffer @y : f32[{len(SHORT)}] read_write live_in live_out %v = load @y[0] {lines} {stores}"
    assert_same(parse(f"vyre 2 program @p workgroup(1) {{ {body} }}"))


@pytest.mark.parametrize("is_first", quick([True, False]))
def test_every_op(is_first: bool) -> None:
    """Each op at the first of its types, and at the others."""
    cases = op_cases(is_first=is_first)
    written = [case for case in cases if not refused(case.module)]
    assert len(written) > 0.8 * len(cases)

    def check(case: OpProgram) -> None:
        assert_same(case.module)

    each(written, check, lambda case: case.name)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_programs(seed: int) -> None:
    assert_same(random_program(seed).module)


@pytest.mark.parametrize("case", KERNELS, ids=lambda case: case.name)
def test_kernels(case) -> None:
    module = Module()
    module.add(case.make().program)
    assert_same(module)


@pytest.mark.parametrize("start", quick(range(10)))
def test_texts_of_the_checkout(start: int) -> None:
    """Each program of a text by itself, since one that is refused says nothing of the others."""
    compared = set()

    def check(named: tuple[str, str]) -> None:
        name, text = named
        module = module_of_text(text)
        for program in module.programs.values():
            if not refusals(program, module) and None not in program.spec_defaults.values():
                assert_same(alone(module, program))
                compared.add(name)

    cases = texts()[start::10]
    each(cases, check, lambda named: named[0])
    assert len(compared) > len(cases) // 2


def test_a_constant_that_was_edited_is_read_as_it_is() -> None:
    """A hint is followed only where it says what the MLIR says."""
    text = """vyre 1
program @p workgroup(1) {
  buffer @y : u32[1] write binding(0)
  spec @k : u32 = 7
  %zero = const 0 : u32
  %k = spec @k : u32
  %q = div %k, %zero : u32
  store %q, @y[%zero] : u32
}
"""
    mlir = emit_mlir(parse(text))
    changed = mlir.replace('vyre.type = "u32"} 7 : i32', 'vyre.type = "u32"} 9 : i32')
    assert changed != mlir
    (program,) = read_mlir(Source(changed, "kernel.mlir")).programs.values()
    assert [op.attrs["value"] for op in program.walk() if op.name == "const"] == [0, 9]


def test_a_helper_that_was_edited_is_a_function() -> None:
    """The name of a helper stands for an op only with the body that is written for it."""
    module = module_of_text(
        """vyre 1
program @p workgroup(1) {
  buffer @y : u32[1] write binding(0)
  %zero = local_id x
  %q = div %zero, %zero : u32
  store %q, @y[%zero] : u32
}
"""
    )
    mlir = emit_mlir(module)
    changed = mlir.replace("arith.divui", "arith.remui")
    assert changed != mlir
    back = read_mlir(Source(changed, "kernel.mlir"))
    check(back)
    assert [op.name for op in back.programs["p"].walk() if op.name != "bitcast"] == [
        "local_id",
        "call",
        "store",
    ]
    assert [op.name for op in back.funcs["vyre.div.u32"].walk()][-2:] == ["rem", "yield"]


def test_bad_declarations_are_errors() -> None:
    mlir = emit_mlir(
        module_of_text("""vyre 1
program @p workgroup(1) {
  buffer @y : u32[1] write binding(0)
  %zero = local_id x
  store %zero, @y[%zero] : u32
}
""")
    )
    for old, new, words in (
        ("@y : u32[1] write binding(0)", "@y : u32[1] wrote", "does not declare a buffer"),
        ("@y : u32[1] write binding(0)", "@y : u16[1] write binding(0)", "declares a memref<1xi16>"),
    ):
        with pytest.raises(DiagnosticError, match=words):
            read_mlir(Source(mlir.replace(old, new), "kernel.mlir"))
