"""Functions that take long to look at before the cpu target refuses them."""

from __future__ import annotations

import pytest

from vyre_opt.execution.dispatcher import BackendError
from vyre_opt.syntax.parser import parse
from vyre_opt.targets.cpu import CpuDispatcher


def test_functions_that_explode_are_refused() -> None:
    """Each function calls the one before it four times."""
    funcs = ["func @f0(%a : u32) -> u32 { %r = add %a, %a : u32 yield %r }"]
    for n in range(1, 12):
        calls = "\n".join(f"%x{k} = call @f{n - 1}(%a) : (u32) -> u32" for k in range(4))
        funcs.append(f"func @f{n}(%a : u32) -> u32 {{ {calls} yield %x3 }}")
    module = parse(
        "vyre 1\n"
        + "\n".join(funcs)
        + "\nprogram @p workgroup(1) { %g = global_id x\n %r = call @f11(%g) : (u32) -> u32 }"
    )
    with pytest.raises(BackendError, match="more than 200000 ops"):
        CpuDispatcher().dispatch(module.programs["p"], [], 1, module=module)
