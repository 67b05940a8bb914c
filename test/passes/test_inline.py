"""What calls may grow to: one budget, asked before anything is inlined, by each pass and target that inlines."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from vyre_opt import PassManager, dispatcher, parse, print_program
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Diagnostic, DiagnosticError, Module
from vyre_opt.ir.diagnostics import render
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.targets import GPUS


def calls(levels: int, each: int) -> Module:
    """A program that calls the last of functions, each of which calls the one before it `each` times."""
    funcs = ["func @f0(%a : u32) -> u32 { %r = add %a, %a : u32 yield %r }"]
    for n in range(1, levels):
        body = "\n".join(f"%x{k} = call @f{n - 1}(%a) : (u32) -> u32" for k in range(each))
        funcs.append(f"func @f{n}(%a : u32) -> u32 {{ {body}\nyield %x0 }}")
    program = f"""program @p workgroup(1) {{
  buffer @y : u32[1] write binding(0)
  %g = global_id x
  %r = call @f{levels - 1}(%g) : (u32) -> u32
  store %r, @y[%g] : u32
}}"""
    return parse("\n".join(["vyre 1", *funcs, program]))


def _run_on_cpu(module: Module) -> None:
    dispatcher("cpu").dispatch(module.programs["p"], [np.zeros(1, np.uint32)], 1, module=module)


def _lower_for_gpu(module: Module) -> None:
    lower([Unit(module.programs["p"], module)], GPUS["sm_90"])


def _error(act: Callable[[Module], object], module: Module) -> Diagnostic:
    try:
        act(module)
    except DiagnosticError as error:
        return error.diagnostics[0]
    except ProgramError as error:
        return error.diagnostic
    raise AssertionError("nothing is wrong")


WAYS = {
    "inline": lambda module: PassManager("inline").run(module),
    "default": lambda module: PassManager("default").run(module),
    "flatten": lambda module: PassManager("flatten").run(module),
    "cpu": _run_on_cpu,
    "sm_90": _lower_for_gpu,
}


@pytest.mark.parametrize("way", WAYS)
def test_what_would_get_too_large_is_one_error_at_the_call(way: str) -> None:
    """Guards against hours and gigabytes for a short text: 60 functions that stand for 2^60 ops."""
    error = _error(WAYS[way], calls(60, 2))
    assert error.loc is not None
    assert error.loc.line == 183
    shown = render(error)
    assert "program @p has 576460752303423490 ops with the functions that it calls; 50000 at most" in shown
    assert "@f16 is the first that passes this, with 65536 ops" in shown
    assert "help: call functions in a loop" in shown


@pytest.mark.parametrize("way", WAYS)
def test_many_calls_of_few_ops_are_inlined(way: str) -> None:
    WAYS[way](calls(60, 1))


def test_functions_that_nobody_calls_count_where_they_are_inlined() -> None:
    module = calls(60, 2)
    module.remove(module.programs["p"])
    assert "function @f15 has 32768 ops with the functions that it calls, beside 32766" in (
        _error(WAYS["inline"], module).message
    )


def test_many_functions_share_the_budget() -> None:
    """Guards against a hundred items that each stay below it."""
    funcs = "\n".join(
        f"func @g{n}(%a : u32) -> u32 {{ %r = call @f11(%a) : (u32) -> u32 yield %r }}" for n in range(60)
    )
    text = print_program(calls(12, 2)).replace("program @p", f"{funcs}\nprogram @p")
    assert "beside 49150 that are inlined before it" in _error(WAYS["inline"], parse(text)).message
