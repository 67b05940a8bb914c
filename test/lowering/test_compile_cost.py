"""What is estimated to take too long is refused before it is lowered, at the op that passes the ceiling."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

from vyre_opt import parse
from vyre_opt.execution import ProgramError
from vyre_opt.ir import DataType, Diagnostic, DiagnosticError, ExpansionRequest, Module
from vyre_opt.ir.diagnostics import render
from vyre_opt.kernels.named import expand, named_kernel
from vyre_opt.lowering.common.compile_cost import GPU, HOST, compile_cost
from vyre_opt.lowering.common.cost_ceiling import DEFAULT_CEILING, set_ceiling
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import GPUS
from vyre_opt.targets.cpu.compiler import LegalForm
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

SM_90 = GPUS["sm_90"]


@pytest.fixture(autouse=True)
def default_ceiling() -> Iterator[None]:
    yield
    set_ceiling(DEFAULT_CEILING)


def program(op: str, dtype: str, count: int, funcs: str = "") -> Module:
    """Of so many of an op, each of the one before; `@f` stands for a call of that function."""
    element = dtype.removesuffix(">").split()[-1]
    form = f"%v{{}} = {op} %v{{}}, %w : {dtype}"
    if op.startswith("@"):
        form = f"%v{{}} = call {op}(%v{{}}, %w) : ({dtype}, {dtype}) -> {dtype}"
    ops = "\n".join(form.format(n + 1, n) for n in range(count))
    return parse(f"""vyre 2
{funcs}program @p workgroup(64) {{
  buffer @x : {element}[?] read binding(0)
  buffer @y : {element}[?] write binding(1)
  %g = global_id x
  %o = workgroup_id x
  %v0 = load @x[%g] : {dtype}
  %w = load @x[%o] : {dtype}
{ops}
  store %v{count}, @y[%g] : {dtype}
}}""")


def refusal_on_cpu(module: Module) -> Diagnostic:
    x = np.zeros(64, np.uint64)
    with pytest.raises(ProgramError) as raised:
        CpuDispatcher(cache=False).dispatch(module.programs["p"], [x, x], 1, module=module)
    assert raised.value.kind == "limit"
    return raised.value.diagnostic


def refusal_for_gpu(module: Module) -> Diagnostic:
    with pytest.raises(DiagnosticError) as raised:
        lower([Unit(module.programs["p"], module)], SM_90)
    (diagnostic,) = raised.value.diagnostics
    return diagnostic


@pytest.mark.parametrize(("op", "dtype", "count"), [("div", "u64", 2500), ("mul", "vec<64 x u64>", 700)])
def test_compile_bombs_are_refused_on_the_cpu(op: str, dtype: str, count: int) -> None:
    """Half a minute, and one and a half, of LLVM's time for 100 KB of text."""
    error = refusal_on_cpu(program(op, dtype, count))
    shown = render(error)
    assert "program @p would take too long to compile: by estimate its ops cost" in shown
    assert f"pass the limit cost={DEFAULT_CEILING} here" in shown
    assert "allow it with --limits cost=" in shown


def test_the_error_is_at_the_op_that_passes_the_ceiling() -> None:
    module = program("div", "u64", 100)
    set_ceiling(compile_cost(LegalForm(module.programs["p"], module).program, {}, HOST) // 2000)
    error = refusal_on_cpu(module)
    assert error.loc is not None
    assert error.loc.source.text[error.loc.start : error.loc.end] == "%v50 = div %v49, %w : u64"
    set_ceiling(None)
    x = np.arange(64, dtype=np.uint64)
    CpuDispatcher(cache=False).dispatch(module.programs["p"], [x, np.zeros_like(x)], 1)


def test_what_functions_cost_is_counted_where_they_are_called() -> None:
    body = "\n".join(f"%r{n + 1} = div %r{n}, %b : u64" for n in range(20)).replace("%r0", "%a")
    func = f"func @f(%a : u64, %b : u64) -> u64 {{\n{body}\nyield %r20 }}\n"
    module = program("@f", "u64", 10, func)
    alone = compile_cost(program("div", "u64", 200).programs["p"], {}, GPU)
    assert compile_cost(module.programs["p"], module.funcs, GPU) == alone
    set_ceiling(alone // 2000)
    error = refusal_for_gpu(module)
    assert error.loc is not None
    assert error.loc.source.text[error.loc.start : error.loc.end].startswith("%v5 = call @f(%v4, %w)")


def test_much_integer_arithmetic_is_compiled_in_no_time_for_a_gpu() -> None:
    """Guards against LLVM's combination of instructions: 28 s for 500 sums of 32 bits, 90 s for the first of these."""
    module = program("add", "vec<16 x u8>", 300)
    emit_ptx(lower([Unit(module.programs["p"], module)], SM_90), SM_90)
    assert lower([Unit(module.programs["p"], module)], SM_90).combines_slowly
    wide = program("add", "vec<64 x u32>", 40)  # 2,560 elements, in chains of 40
    assert lower([Unit(wide.programs["p"], wide)], SM_90).combines_slowly
    short = program("add", "u32", 60)
    assert not lower([Unit(short.programs["p"], short)], SM_90).combines_slowly


KERNELS = {
    "decode.base64": ({}, "u8 u8", [1 << 20, 786430]),
    "scan.dfa": ({"warmup": 40}, "u8 u16 u32 u32", [1 << 20, 5120, 20, 1 << 20]),
    "scan.prefix": ({}, "f32 f32", [1 << 20, 1 << 20]),
    "math.softmax": ({"columns": 4096}, "bf16 bf16", [1 << 20, 1 << 20]),
    "math.matvec_fixed": ({}, "u32 u32 u32", [1 << 20, 1 << 10, 1 << 10]),
    "math.matmul": ({"depth": 1024, "columns": 1024, "activation": 2}, "f16 f16 f16", [1 << 20] * 3),
    "tt.contract_step": ({}, "u32 u32 u32", [1 << 10, 1 << 20, 1 << 10]),
    "tt.chain": ({"steps": 16, "rank": 64, "first": 0, "last": 0}, "u32 u32 u32", [64, 65536, 64]),
    "tt.embedding": (
        dict.fromkeys(("p0", "q0", "r1", "p1", "q1"), 16),
        "bf16 u32 bf16",
        [8192, 4096, 1 << 20],
    ),
}


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("target", ["cpu", "sm_90"])
def test_kernels_are_far_below_the_ceiling(name: str, target: str) -> None:
    params, types, counts = KERNELS[name]
    buffers = named_kernel(name).buffers([DataType.of(t) for t in types.split()], counts)
    made = expand(ExpansionRequest(name, buffers, params, target, owns_grid=True)).program
    table = HOST if target == "cpu" else GPU
    assert 0 < compile_cost(made, {}, table) < DEFAULT_CEILING * 1000 / 5
