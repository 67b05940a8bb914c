"""CONTRIBUTING's checklists work: each of their files exists, and their steps have the promised effect."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from vyre_opt import PassManager, dispatcher, parse, print_program
from vyre_opt.ir.diagnostics import DiagnosticError
from vyre_opt.ir.ops import NAMED_KERNELS, OPS, KernelDef, OpDef, Role
from vyre_opt.ir.program import AccessMode, Module
from vyre_opt.ir.types import DataType
from vyre_opt.passes import registry
from vyre_opt.passes.manager import Context
from vyre_opt.passes.registry import Pass, PassError, register
from vyre_opt.runtime.ref import kernels, table


def checklist(root: Path, title: str) -> str:
    """The text of a section of CONTRIBUTING.md."""
    text = (root / "CONTRIBUTING.md").read_text(encoding="utf-8")
    sections = dict(re.findall(r"^## (.*?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    return sections[title]


@pytest.mark.parametrize("title", ["Add an op", "Add a pass", "Add a kernel"])
def test_files_and_commands_exist(root: Path, title: str) -> None:
    text = checklist(root, title)
    assert text.count("- [ ]") >= 4
    spans = re.findall(r"`([^`]+)`", text)
    paths = [span for span in spans if "/" in span and " " not in span and "NAME" not in span]
    commands = [span for span in spans if span.startswith("python -m ")]
    assert paths
    assert commands
    for path in paths:
        assert (root / path).exists(), path
    for command in commands:
        module, _, page = command.removeprefix("python -m ").partition(" > ")
        assert (root / f"{module.replace('.', '/')}.py").exists(), command
        assert (root / page).exists(), command


# --- add an op ---------------------------------------------------------------------------

AVERAGES = """vyre 1

program @p workgroup(32) {
  buffer @x : u32[32] read binding(0)
  buffer @y : u32[32] write binding(1)

  %i = local_id x
  %a = load @x[%i] : u32
  %h = average %a, %i : u32
  store %h, @y[%i] : u32
}
"""


@pytest.fixture
def average(monkeypatch: pytest.MonkeyPatch) -> Iterator[OpDef]:
    """A new row of an existing format: the mean of two integers, rounded down."""
    row = OpDef("average", "binary", "The mean, rounded down.", "int", fold_int=lambda a, b, t: (a + b) // 2,
                commutative=True, is_pure=True)  # fmt: skip
    monkeypatch.setitem(OPS, row.name, row)
    monkeypatch.setitem(NAMED_KERNELS, row.name, row.kernel)
    return row


def test_a_row_is_an_op_for_parser_printer_and_verifier(average: OpDef) -> None:
    module = parse(AVERAGES)
    assert print_program(module) == AVERAGES
    generic = print_program(module, generic=True)
    assert '%h = "average"(%a, %i) : (u32, u32) -> (u32)' in generic
    assert print_program(parse(generic)) == AVERAGES


def test_the_verifier_holds_a_new_op_to_its_row(average: OpDef) -> None:
    wrong = AVERAGES.replace("u32[32]", "f32[32]").replace(": u32", ": f32")
    with pytest.raises(DiagnosticError, match="average"):
        parse(wrong)


def test_passes_know_a_new_op(average: OpDef) -> None:
    """cse merges two equal uses, operands swapped, since the row says commutative."""
    twice = AVERAGES.replace(
        "  store %h,", "  %g = average %i, %a : u32\n  %s = add %h, %g : u32\n  store %s,"
    )
    module = parse(twice)
    assert PassManager("cse").run(module)
    assert print_program(module).count("average") == 1


def test_an_op_runs_once_the_interpreter_knows_it(average: OpDef, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(machine: Any, frame: Any, op: Any) -> None:
        a, b = (frame.spread(frame.get(v)) for v in op.operands)
        frame.values[op.results[0]] = ((a.astype(np.uint64) + b) // 2).astype(np.uint32)

    monkeypatch.setitem(table.TABLE, "average", run)
    x = np.arange(32, dtype=np.uint32) * 3
    program = parse(AVERAGES).programs["p"]
    (y,) = dispatcher("ref").dispatch(program, [x, np.zeros(32, np.uint32)], (1, 1, 1))
    assert y.tolist() == [2 * i for i in range(32)]


# --- add a pass --------------------------------------------------------------------------


@pytest.fixture
def fresh_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes registered by a test are forgotten after it."""
    monkeypatch.setattr(registry, "_registered", dict(registry._registered))


@pytest.mark.usefixtures("fresh_registry")
def test_a_registered_class_is_a_pass() -> None:
    @register
    class Rename(Pass):
        name = "rename_first"
        summary = "Give the first value another name."

        @dataclass(frozen=True)
        class Options:
            to: str = "first"

        def run(self, module: Module, ctx: Context) -> bool:
            for program in module.programs.values():
                program.body.ops[0].results[0].name = self.options.to
                ctx.remark("applied", f"renamed in @{program.name}")
            return False  # a name is no part of what a program means

    module = parse(AVERAGES.replace("average", "add"))
    result = PassManager("rename-first{to=lane}").run(module)
    assert "%lane = local_id x" in print_program(module)
    assert [remark.message for remark in result.remarks] == ["renamed in @p"]
    assert "rename_first" in registry.pass_names()


@pytest.mark.usefixtures("fresh_registry")
def test_a_pass_that_is_not_in_the_list_is_not_found() -> None:
    """The step `add the name to BUILTIN` is needed: nothing else makes a pass known."""
    with pytest.raises(PassError, match="unknown pass rename_first"):
        PassManager("rename_first")


def test_every_builtin_pass_has_its_file(root: Path) -> None:
    for name in registry.BUILTIN:
        module = registry.ELSEWHERE.get(name, f"vyre_opt.passes.{name}")
        assert (root / f"{module.replace('.', '/')}.py").exists(), name
        assert registry.find_pass(name).name == name


# --- add a kernel ------------------------------------------------------------------------

ADDS_FIVE = """vyre 1

program @p workgroup(32) {
  buffer @x : u32[64] read binding(0)
  buffer @y : u32[64] write binding(1)

  math.plus(@x, @y) {amount = 5}
}
"""


def test_a_kernel_row_and_its_function_make_a_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    words = (DataType.U32,)
    roles = (Role("x", AccessMode.READ, words), Role("y", AccessMode.WRITE, words))
    row = OpDef("math.plus", "kernel", "x + amount.", effects=frozenset({"read", "write"}),
                kernel=KernelDef(roles, {"amount": None}))  # fmt: skip
    monkeypatch.setitem(OPS, row.name, row)
    monkeypatch.setitem(NAMED_KERNELS, row.name, row.kernel)
    module = parse(ADDS_FIVE)
    assert print_program(module) == ADDS_FIVE
    with pytest.raises(DiagnosticError, match="needs its parameter amount"):
        parse(ADDS_FIVE.replace(" {amount = 5}", ""))

    monkeypatch.setitem(kernels.KERNELS, row.name, lambda x, amount: x + np.uint32(amount))
    monkeypatch.setitem(table.TABLE, row.name, table.TABLE["math.softmax"])
    x = np.arange(64, dtype=np.uint32)
    (y,) = dispatcher("ref").dispatch(module.programs["p"], [x, x], (1, 1, 1))
    assert np.array_equal(y, x + 5)
