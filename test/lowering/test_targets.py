"""GPU architectures and PTX versions: pairs that go together write what they say, others are refused."""

from __future__ import annotations

import re

import pytest
from support.each import each

from vyre_opt import parse
from vyre_opt.ir import DiagnosticError
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx, optimised
from vyre_opt.lowering.nvptx.targets import (
    GPUS,
    VERSIONS,
    TargetError,
    driver_version,
    gpu,
    gpu_of_device,
    parse_version,
    ptx_version,
)

EMPTY = parse("vyre 1\nprogram @p workgroup(32) {\n}\n")


def lowered(text: str, target: str = "sm_90", bounds: str = "none", name: str | None = None):
    module = parse(f"vyre 1\n{text}")
    programs = [module.programs[name]] if name else list(module.programs.values())
    return lower([Unit(program, module) for program in programs], gpu(target), bounds)


def heading(ptx: str) -> tuple[str, str]:
    match = re.search(r"\.version (\S+)\n\.target (\S+)\n", ptx)
    assert match is not None
    return match[1], match[2]


def test_each_architecture_writes_its_lowest_version():
    def check(name: str) -> None:
        unit = lower([Unit(EMPTY.programs["p"])], gpu(name))
        major, minor = gpu(name).first_ptx
        assert heading(emit_ptx(unit, gpu(name))) == (f"{major}.{minor}", name)

    each(GPUS, check)


def test_each_version_is_written_as_asked():
    """LLVM ignores a version that it does not know, and would write another."""
    unit = lower([Unit(EMPTY.programs["p"])], gpu("sm_70"))
    written = [heading(emit_ptx(unit, gpu("sm_70"), version))[0] for version in VERSIONS]
    assert written == [f"{major}.{minor}" for major, minor in VERSIONS]


def test_pairs_that_do_not_go_together():
    """LLVM would end the process here."""
    with pytest.raises(TargetError, match=r"sm_120 does not exist in PTX 8.0; it takes 8.7, 8.8, 9.0"):
        ptx_version(gpu("sm_120"), (8, 0))
    with pytest.raises(TargetError, match="did you mean sm_90"):
        gpu("sm_9O")
    for text in ("9.1", "8.9", "x", "", "8.", "8.6.1", "\u0668.\u0666"):
        with pytest.raises(TargetError, match="unknown PTX version"):
            parse_version(text)
    assert parse_version("8.6") == parse_version("86") == (8, 6)


def test_devices_and_drivers():
    assert gpu_of_device(9, 0).name == "sm_90a", "with instructions that later ones do not have"
    assert gpu_of_device(8, 8).name == "sm_87", "the newest that it still runs"
    assert gpu_of_device(13, 0).name == "sm_121"
    with pytest.raises(TargetError, match="too old"):
        gpu_of_device(6, 1)
    assert [driver_version(v) for v in ((13, 0), (12, 8), (12, 4), (11, 8), (10, 2))] == [
        (9, 0),
        (8, 7),
        (8, 4),
        (7, 8),
        (6, 5),
    ]


# --- what no GPU can run is an error at its place


def refused(text: str, **more) -> str:
    with pytest.raises(DiagnosticError) as caught:
        lowered(text, **more)
    return str(caught.value)


def test_a_named_kernel_says_what_to_run():
    message = refused("""program @p workgroup(32) {
  buffer @x : f32[64] read binding(0)
  buffer @y : f32[64] write binding(1)
  math.softmax(@x, @y) {columns = 64}
}
""")
    assert "<string>:5:3: error: program @p: the named kernel math.softmax is not lowered" in message
    assert "expand_kernels" in message


def test_too_much_workgroup_memory_is_an_error_at_the_largest():
    text = """program @p workgroup(32) {
  buffer @a : u8[100] workgroup
  buffer @b : f64[20000] workgroup
  buffer @y : f64[1] write binding(0)
  %z = const 0 : u32
  %v = load @b[%z] : f64
  store %v, @y[%z] : f64
}
"""
    message = refused(text, target="sm_86")
    assert "<string>:4:" in message
    assert "take 160112 bytes; sm_86 has 101376" in message
    assert lowered(text, target="sm_90").kernels[0].dynamic_shared == 160112


def test_a_constant_without_a_value():
    message = refused("""program @p workgroup(32) {
  buffer @y : u32[32] write binding(0)
  spec @k : u32
  %l = local_id x
  %k = spec @k : u32
  store %k, @y[%l] : u32
}
""")
    assert "spec @k has no value" in message
    assert "--spec k=VALUE" in message


def test_names_that_ptx_or_llvm_might_read_as_something_else(assemble):
    """Names are the user's; what reaches LLVM is not."""
    names = ["add", "mov", "tid", "exit", "reg", "a.b", "a_b", "x$", "_1", "WARP_SZ", "main", "entry", "ret"]
    body = "workgroup(32) {\n  buffer @y : u32[32] write binding(0)\n  %l = local_id x\n  store %l, @y[%l] : u32\n}\n"
    result = lowered("".join(f"program @{name} {body}" for name in names))
    symbols = [kernel.symbol for kernel in result.kernels]
    assert len(set(symbols)) == len(names)
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", symbol) for symbol in symbols)
    ptx = emit_ptx(result, gpu("sm_90"))
    assert all(f".entry {symbol}(" in ptx for symbol in symbols)
    assemble(ptx, "sm_90")


def test_optimised_ir_is_ir():
    text = optimised(lower([Unit(EMPTY.programs["p"])], gpu("sm_90")), gpu("sm_90"))
    assert "define ptx_kernel void @p()" in text
