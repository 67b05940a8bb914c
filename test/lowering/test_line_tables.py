"""Line tables: code names the lines that it was written as, is otherwise the same code, and debuggers find it by them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import vyre_opt
from vyre_opt.execution.cache.keys import line_table_key
from vyre_opt.ir import Program, parse
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.observers import PROFILERS
from vyre_opt.targets.cpu.compiler import LegalForm
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code
from vyre_opt.targets.cpu.jit import assembly
from vyre_opt.targets.cuda import CudaDispatcher

EXAMPLES = sorted((Path(__file__).parents[2] / "examples").glob("*.vyre"))
SM_90 = gpu("sm_90")
DIRECTIVE = re.compile(r"^\s*(\.(loc|file|section|cfi_\w+)\b|\$L__(tmp|func)|\.L(tmp|func))")
"""Lines of assembly that line tables add."""
END_OF_CODE = re.compile(r"^\s*\.section\s+\"?\.debug_", re.MULTILINE)

LINES = """vyre 2

program @lines workgroup(64) {
  buffer @x : f32[?] read  binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %v = load @x[%i] : f32
  %positive = gt %v, 1.0 : f32
  if %positive {
    %r = sqrt %v : f32
    store %r, @y[%i] : f32
  } else {
    %d = div 3.0, %v : f32
    store %d, @y[%i] : f32
  }
}
"""
DO_SOMETHING = {7, 10, 11, 13, 14}
"""The lines of `LINES` whose code no compiler leaves out, nor moves to that of another line, where it would have none."""

CALLS = """vyre 2

func @shade(%v : f32) -> f32 {
  %r = sqrt %v : f32
  yield %r
}

program @painted workgroup(64) {
  buffer @x : f32[64] read  binding(0)
  buffer @y : f32[64] write binding(1)
  %i = local_id x
  %v = load @x[%i] : f32
  %r = call @shade(%v) : (f32) -> f32
  store %r, @y[%i] : f32
}
"""


def ptx_of(text: str, name: str = "lines.vyre", debug_info: bool = True, bounds: str = "none") -> str:
    module = parse(text, name)
    units = [Unit(program, module, program.spec_defaults) for program in module.programs.values()]
    return emit_ptx(lower(units, SM_90, bounds, debug_info), SM_90)


def asm_of(text: str, name: str = "lines.vyre", debug_info: bool = True) -> str:
    """Without the sections of line tables behind the code."""
    module, host = parse(text, name), Host.this(debug_info=debug_info)

    def code(program: Program) -> str:
        legal = LegalForm(program, module).program
        return END_OF_CODE.split(assembly(host_code(legal, program.spec_defaults, host).text, host))[0]

    return "\n".join(map(code, module.programs.values()))


def lines_of(code: str, file: str = "lines.vyre") -> set[int]:
    """The lines of a file to which directives of assembly give code."""
    file = file.encode().decode("latin-1")
    declared = re.findall(r'\.file\s+(\d+)\s+(?:"[^"\n]*"\s+)?"(?:[^"\n]*/)?([^"/\n]*)"', code)
    numbers = {number for number, name in declared if _unescaped(name) == file}
    places = re.findall(r"\.loc\s+(\d+)\s+(\d+)\s+\d+", code)
    return {int(line) for number, line in places if number in numbers and line != "0"}


def _unescaped(name: str) -> str:
    return re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), name)


def without_directives(code: str) -> list[str]:
    """The instructions of PTX or assembly."""
    code = END_OF_CODE.split(code)[0]
    lines = (line.partition("#")[0].partition("//")[0].rstrip() for line in code.splitlines())
    return [line for line in lines if line and not DIRECTIVE.match(line)]


@pytest.mark.parametrize("code_of", [ptx_of, asm_of])
def test_each_line_that_does_something_has_code(code_of: Callable[..., str]) -> None:
    lines = lines_of(code_of(LINES))
    assert lines >= DO_SOMETHING
    assert lines <= set(range(3, 16))


@pytest.mark.parametrize("code_of", [ptx_of, asm_of])
def test_a_called_function_has_its_own_lines(code_of: Callable[..., str]) -> None:
    assert {4, 14} <= lines_of(code_of(CALLS)) <= set(range(3, 16))


def test_ptx_is_otherwise_the_same(assemble: Callable[[str, str], None]) -> None:
    for path in EXAMPLES:
        plain, marked = (ptx_of(path.read_text(), path.name, flag, "trap") for flag in (False, True))
        assert ".loc" not in plain
        assert lines_of(marked, path.name)
        assert without_directives(marked) == without_directives(plain), path
        assemble(marked, "sm_90")


@pytest.mark.parametrize("name", ["hex_scan.vyre", "heat.vyre", "tour.vyre"])
def test_code_of_the_cpu_is_otherwise_the_same(name: str) -> None:
    """They have barriers, rows and calls of functions of the run time."""
    text = next(path for path in EXAMPLES if path.name == name).read_text()
    plain, marked = (asm_of(text, name, flag) for flag in (False, True))
    assert ".loc" not in plain
    assert lines_of(marked, name)
    assert _renumbered(without_directives(marked)) == _renumbered(without_directives(plain))


def _renumbered(lines: list[str]) -> list[str]:
    """Names of constants are numbered through a module, those of line tables too."""
    names: dict[str, str] = {}
    return [re.sub(r"\.L\w+", lambda m: names.setdefault(m[0], f".L{len(names)}"), line) for line in lines]


def test_a_long_body_that_is_cut_into_functions_keeps_its_lines() -> None:
    body = "".join(f"  %v{k + 1} = rsqrt %v{k} : f32\n" for k in range(1, 600))
    loads = "  %i = local_id x\n  %v1 = load @x[%i] : f32\n"
    text = (
        "vyre 2\nprogram @long workgroup(64) {\n  buffer @x : f32[?] read_write binding(0) live_in live_out\n"
        f"{loads}{body}  store %v600, @x[%i] : f32\n}}\n"
    )
    checked = text.replace("rsqrt", "div 1.0,")
    code = asm_of(checked)
    assert "vyre.part" in code
    assert lines_of(code) >= set(range(6, 605))


@pytest.mark.parametrize("name", ['a "quoted" \\ name.vyre', "größe.vyre", "<stdin>"])
def test_any_name_of_a_file(name: str) -> None:
    ptx_of(LINES, name)  # LLVM reads it
    if '"' not in name:
        assert lines_of(ptx_of(LINES, name), name) >= DO_SOMETHING


def test_joined_launches_have_the_lines_of_each_stage() -> None:
    path = EXAMPLES[0].parent / "pipelines" / "elementwise_chain.vyre"
    compiled = vyre_opt.compile(path, target="cuda", passes="default", debug_info=True)
    (program,) = compiled.module.programs.values()
    module = compiled.module
    ptx = emit_ptx(lower([Unit(program, module, {})], SM_90, "none", debug_info=True), SM_90)
    assert ".entry gain_then_bias_then_clamp(" in ptx
    stages = [range(10, 18), range(19, 27), range(28, 37)]
    assert all(lines_of(ptx, path.name) & set(stage) for stage in stages)


def test_kernels_in_python_have_the_lines_of_the_file() -> None:
    from support.line_table_kernel import kernel

    text = Path(kernel.function.__code__.co_filename).read_text().splitlines()
    wanted = {number for number, line in enumerate(text, 1) if "#" in line}
    ptx = kernel.options(debug_info=True).ptx("sm_90")
    assert lines_of(ptx, "line_table_kernel.py") >= wanted
    assert ".loc" not in kernel.ptx("sm_90")
    assert ".loc" not in kernel.options().ptx("sm_90")


def test_code_is_cached_by_its_lines_where_it_has_any(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Fingerprints leave out where a program stands; code without line tables is the same anywhere."""
    modules = [parse(LINES), parse(f"\n{LINES}"), parse(LINES, "other.vyre")]

    def keys(debug_info: bool) -> set[tuple[str, ...]]:
        return {line_table_key(module.programs["lines"], module, debug_info) for module in modules}

    assert keys(False) == {()}
    here = keys(True)
    assert len(here) == len(modules)
    monkeypatch.chdir(tmp_path)  # names of files are relative to the folder
    assert not here & keys(True)


def test_code_for_debuggers_computes_the_same() -> None:
    x = np.linspace(0, 4, 256, dtype=np.float32)
    arguments = {"x": x, "y": np.zeros_like(x)}
    cpu = CpuDispatcher(workers=1, cache=False)
    plain, marked = (
        vyre_opt.compile(parse(LINES), target=cpu, debug_info=flag)(arguments, 4)["y"]
        for flag in (False, True)
    )
    assert plain.tobytes() == marked.tobytes()
    assert cpu.with_debug_info() is cpu.with_debug_info().at_level(cpu.level)
    assert cpu.with_debug_info().has_debug_info
    assert not cpu.has_debug_info


@pytest.mark.parametrize(
    ("variables", "on_gpu", "on_cpu"),
    [
        ({}, False, False),
        ({"VYRE_DEBUG_INFO": "1"}, True, True),
        ({"VYRE_DEBUG_INFO": "0"}, False, False),
        ({"NSYS_PROFILING_SESSION_ID": "7"}, True, False),
        ({"NSYS_PROFILING_SESSION_ID": "7", "VYRE_DEBUG_INFO": "0"}, False, False),
        ({"VYRE_PERF": "1"}, False, True),
        ({"VYRE_PERF": "1", "VYRE_DEBUG_INFO": "0"}, False, False),
    ],
)
def test_code_has_line_tables_for_a_profiler_and_where_the_environment_says(
    variables: dict[str, str], on_gpu: bool, on_cpu: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("VYRE_DEBUG_INFO", "VYRE_PERF", *PROFILERS):
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert CudaDispatcher().has_debug_info is on_gpu
    assert CpuDispatcher().has_debug_info is on_cpu
    assert CudaDispatcher(debug_info=True).has_debug_info
    assert not CpuDispatcher(debug_info=False).has_debug_info
