"""What LLVM takes for programs of one op after the other, beside the estimate that the compiler's ceiling is asked by.

    python bench/compile_cost.py             each row on the cpu and for sm_90
    python bench/compile_cost.py div fma     the rows of these ops

The costs in vyre_opt/lowering/common/compile_cost.py come from this table.  Rows take from 0.1 to some 10 seconds.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator

from vyre_opt import parse
from vyre_opt.ir.program import Module
from vyre_opt.lowering.common.compile_cost import GPU, HOST, compile_cost
from vyre_opt.lowering.common.cost_ceiling import set_ceiling
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import GPUS
from vyre_opt.targets.cpu.compiler import LegalForm
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code
from vyre_opt.targets.cpu.jit import compile_object

INTEGERS = ("add", "mul", "mul_hi", "mul_sat", "add_sat", "abs_diff", "div", "rem", "rotl", "xor")
FLOATS = ("add", "mul", "div", "rem", "fma", "exp", "exp2", "sin", "pow", "atan2", "tanh")
UNARY = ("exp", "exp2", "sin", "tanh")
GPU_TARGET = GPUS["sm_90"]


def rows() -> Iterator[tuple[str, str, int]]:
    """An op, a type, and how many of it."""
    for op in INTEGERS:
        yield from ((op, dtype, 200) for dtype in ("u8", "i32", "u64"))
        yield from ((op, f"vec<{lanes} x u64>", 20) for lanes in (16, 64))
    for op in FLOATS:
        yield from ((op, dtype, 200) for dtype in ("f32", "f64", "f16", "bf16"))
        yield from ((op, f"vec<{lanes} x f64>", 20) for lanes in (16, 64))


def program(op: str, dtype: str, count: int) -> Module:
    element = dtype.removesuffix(">").split()[-1]
    rest = "" if op in UNARY else ", %w, %w" if op == "fma" else ", %w"
    ops = "\n".join(f"%v{n + 1} = {op} %v{n}{rest} : {dtype}" for n in range(count))
    return parse(f"""vyre 2
program @p workgroup(64) {{
  buffer @x : {element}[?] read binding(0)
  buffer @y : {element}[?] write binding(1)
  %g = global_id x
  %o = workgroup_id x
  %v0 = load @x[%g] : {dtype}
  %w = load @x[%o] : {dtype}
  {ops}
  store %v{count}, @y[%g] : {dtype}
}}""")


def for_cpu(module: Module) -> None:
    host = Host.this()
    compile_object(host_code(LegalForm(module.programs["p"], module).program, {}, host).text, host)


def for_gpu(module: Module) -> None:
    emit_ptx(lower([Unit(module.programs["p"], module)], GPU_TARGET), GPU_TARGET)


def seconds(compile: Callable[[Module], None], module: Module) -> float:
    started = time.perf_counter()
    compile(module)
    return time.perf_counter() - started


def main() -> None:
    set_ceiling(None)
    for compile in (for_cpu, for_gpu):  # what is loaded at the first
        compile(program("add", "u32", 1))
    print(
        f"{'op':10} {'type':14} {'count':>5}   {'cpu':>7} {'estimate':>8}   {'sm_90':>7} {'estimate':>8}   seconds"
    )
    for op, dtype, count in rows():
        if sys.argv[1:] and op not in sys.argv[1:]:
            continue
        module = program(op, dtype, count)
        costs = [compile_cost(module.programs["p"], {}, table) / 1e6 for table in (HOST, GPU)]
        times = [seconds(compile, module) for compile in (for_cpu, for_gpu)]
        shown = "   ".join(f"{t:7.2f} {cost:8.2f}" for t, cost in zip(times, costs, strict=True))
        print(f"{op:10} {dtype:14} {count:5}   {shown}", flush=True)


if __name__ == "__main__":
    main()
