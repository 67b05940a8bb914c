"""--opt-bisect-limit: executions are numbered one by one, what is left out changes nothing, and a search finds the culprit."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.each import each

from vyre_opt import PassManager, fingerprint, parse, parse_file
from vyre_opt.driver.compile import compile_module
from vyre_opt.ir import OPS, Module
from vyre_opt.ir.verifier import check
from vyre_opt.passes import Pass, PassContext, register, registry
from vyre_opt.passes.bisect import BisectLimit
from vyre_opt.passes.registry import BUILTIN, find_pass

ROOT = Path(__file__).resolve().parents[2]
HEAT = ROOT / "examples" / "heat.vyre"

# each of the passes has something to do here
BUSY = """vyre 2

func @twice(%x : u32) -> u32 {
  %a = add %x, %x : u32
  %b = add %x, %x : u32
  %c = mul %a, %b : u32
  yield %a
}

program @one workgroup(64) {
  buffer @x : u32[256] read binding(0)
  buffer @y : u32[256] write binding(1) live_out

  %l = local_id x
  %three = const 3 : u32
  %four = const 4 : u32
  %seven = add %three, %four : u32
  %i = mul %l, %four : u32
  %a = load @x[%i] : u32
  %b = load @x[%i] : u32
  %s = add %a, %b : u32
  %n = for %k = 0 to 4 step 1 iter(%acc = %s : u32) {
    %inner = mul %seven, %three : u32
    %next = add %acc, %inner : u32
    yield %next
  }
  store %n, @y[%i] : u32
  barrier workgroup
}
"""


def run(module: Module, passes: str, limit: int) -> list[str]:
    """The lines that --opt-bisect-limit prints."""
    lines: list[str] = []
    PassManager(passes, target="sm_90", bisect=BisectLimit(limit, lines.append)).run(module)
    return lines


PER_ITEM = [name for name in BUILTIN if find_pass(name).per_item and not find_pass(name).is_required]


def test_passes_that_work_per_item_ask_before_each() -> None:
    """One that forgot to ask would rewrite in spite of the limit, or count fewer executions than it makes."""

    def check(name: str) -> None:
        module = parse(BUSY)
        before = fingerprint(module)
        items = {f"program @{p}" for p in module.programs} | {f"func @{f}" for f in module.funcs}
        lines = run(module, name, 0)
        assert fingerprint(module) == before
        assert {line.split(" on ")[1].strip() for line in lines} in (items, {"program @one"})
        assert all(line.startswith("BISECT: NOT running pass (") for line in lines)
        everything = run(module, name, -1)
        assert [line.replace("NOT ", "") for line in lines] == everything

    each(PER_ITEM, check)


def test_a_pass_of_the_module_is_one_execution() -> None:
    module = parse(BUSY)
    assert run(module, "inline,launch_fusion", 1) == [
        "BISECT: running pass (1) inline on module\n",
        "BISECT: NOT running pass (2) launch_fusion on module\n",
    ]
    assert not any(op.name == "call" for op in module.programs["one"].walk())


def test_what_later_steps_cannot_do_without_is_never_left_out() -> None:
    """A program is open in its constants without specialize, and nothing lowers a named kernel."""
    module = parse("""vyre 1
program @p workgroup(64) {
  buffer @x : f32[4096] read binding(0)
  buffer @y : f32[4096] write binding(1) live_out
  math.softmax(@x, @y) {columns = 64}
}
program @q workgroup(64) {
  buffer @y : u32[64] write binding(0) live_out
  spec @k : u32 = 3
  %l = local_id x
  %k = spec @k : u32
  store %k, @y[%l] : u32
}
""")
    assert run(module, "specialize,expand_kernels,verify", 0) == []
    assert not module.programs["q"].specs
    assert not any(op.name == "math.softmax" for op in module.programs["p"].walk())


def test_the_number_goes_on_from_run_to_run() -> None:
    lines: list[str] = []
    manager = PassManager("inline", bisect=BisectLimit(1, lines.append))
    manager.run(parse(BUSY))
    manager.run(parse(BUSY))
    assert lines == [
        "BISECT: running pass (1) inline on module\n",
        "BISECT: NOT running pass (2) inline on module\n",
    ]


def test_every_limit_leaves_a_program_that_computes_the_same() -> None:
    """The point where a pipeline is cut is nowhere a half of something."""
    module = parse_file(HEAT)
    lines: list[str] = []
    expected = compile_module(module, None, "cpu", {}, "specialize,default")().popitem()[1]
    compile_module(module, None, "cpu", {}, "specialize,default", bisect=BisectLimit(-1, lines.append))
    assert len(lines) > 20
    for limit in range(0, len(lines), 3):
        said: list[str] = []
        executable = compile_module(
            module, None, "cpu", {}, "specialize,default", bisect=BisectLimit(limit, said.append)
        )
        check(executable.module)
        assert said[:limit] == lines[:limit]
        assert np.array_equal(executable().popitem()[1], expected)


@pytest.fixture
def own_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes registered by a test are forgotten after it."""
    for name in registry.BUILTIN:
        registry.find_pass(name)
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


def test_bisecting_finds_the_execution_that_miscompiles(own_passes: None) -> None:
    """A pass that is wrong for one program of two: the least limit with a wrong output names both."""

    @register
    class Wrong(Pass):
        name = "wrong"
        summary = "Adds where @step subtracts."
        per_item = True

        def run(self, module: Module, ctx: PassContext) -> bool:
            changed = False
            for program in ctx.programs(module):
                for op in program.walk():
                    if program.name == "step" and op.name == "sub" and op.result.type.is_float:
                        op.definition = OPS["add"]
                        changed = True
            return changed

    pipeline = "specialize,canonicalize,cse,wrong,dce,canonicalize"
    module = parse_file(HEAT)
    expected = compile_module(module, None, "cpu", {})().popitem()[1]

    def is_wrong(limit: int, lines: list[str]) -> bool:
        bisect = BisectLimit(limit, lines.append)
        output = compile_module(module, None, "cpu", {}, pipeline, bisect=bisect)().popitem()[1]
        return not np.array_equal(output, expected)

    lines: list[str] = []
    assert is_wrong(-1, lines)
    low, high = 0, len(lines)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if is_wrong(middle, []) else (middle, high)
    assert lines[high - 1] == f"BISECT: running pass ({high}) wrong on program @step\n"
