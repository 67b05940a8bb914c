"""The passes that every target runs before it writes code."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from support.each import each

import vyre_opt
from vyre_opt.execution import BadInputs
from vyre_opt.ir import DiagnosticError, Module, Op, Program, Value, errors_of, parse, print_program
from vyre_opt.ir.lowered_ops import LOWERED_ATTRS, lowered_attrs
from vyre_opt.ir.structure import check_structure
from vyre_opt.lowering.common import legalization
from vyre_opt.lowering.common.row_major import row_major
from vyre_opt.lowering.host.legalization import legal_program
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.legalization import legal_unit
from vyre_opt.lowering.nvptx.targets import gpu
from vyre_opt.passes import PassManager
from vyre_opt.passes.legalize import TARGETS
from vyre_opt.passes.manager import PassFailure
from vyre_opt.targets.cpu.compiler import LegalForm
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code

ROOT = Path(__file__).parents[2]
FILES = [*sorted((ROOT / "examples").rglob("*.vyre")), ROOT / "test/lit/matrices/ptx.vyre"]
TEXT = "vyre 2\nprogram @p workgroup(1) { buffer @x : u32[2, 2] write binding(0) live_out store 1, @x[0, 1] : u32 }"


def code(module: Module, target: str) -> list[str]:
    """What a call of each program would compile."""
    if target == "cuda":
        units = [Unit(program, module, program.spec_defaults) for program in module.programs.values()]
        return [lower(units, gpu("sm_90a"), "trap").text]
    return [
        host_code(LegalForm(program, module).program, program.spec_defaults, Host.this()).text
        for program in module.programs.values()
    ]


@pytest.mark.parametrize("target", ["cpu", "cuda"])
def test_passes_leave_what_a_call_compiles(target: str) -> None:
    """And they have nothing to do on what they left."""
    manager = PassManager(f"legalize{{target={target}}}", target="sm_90a", normalizes=False)

    def check(path: Path) -> None:
        module, legal = parse(path.read_text()), parse(path.read_text())
        manager.run(legal)
        assert not manager.run(legal).changed
        assert code(legal, target) == code(module, target)

    each(FILES, check)


def test_the_documentation_has_their_order() -> None:
    from vyre_opt.passes import legalize

    for target, rewrites in TARGETS.items():
        line = f"    {target:<8}{', '.join(rewrite.name for rewrite in rewrites)}\n"
        assert line in (legalize.__doc__ or "")


def test_a_call_refuses_them() -> None:
    """What they leave is no program of the language any more: it has other parameters."""
    with pytest.raises(BadInputs, match="row_major is for vyre-opt; a target runs it by itself"):
        vyre_opt.compile(parse(TEXT), target="cpu", passes="cse,row_major")


# --- what lowered programs have

GROUPS = (ROOT / "test/lit/passes/lowered_text.vyre").read_text()


def lowered(passes: str) -> Module:
    """The programs @rows and @product of a text, lowered by passes, on a GPU that has warpgroups."""
    module = parse(GROUPS[GROUPS.index("vyre 2") :])
    PassManager(passes, target="sm_90a").run(module)
    return module


CPU = "row_major,matrix_fragments"
CUDA = "warpgroups{target=cuda},row_major{target=cuda},matrix_fragments{target=cuda}"
WORDS = "row_major{target=cuda},matrix_fragments{target=cuda}"


def first(module: Module, name: str, attr: str = "") -> Op:
    """The first op of a name that has an attribute."""
    ops = (op for program in module.programs.values() for op in program.walk())
    return next(op for op in ops if op.name == name and (not attr or attr in op.attrs))


def with_attrs(passes: str, name: str, attr: str, **attrs: Any) -> Module:
    """A lowered module in which the first op of a name that has an attribute has others as well."""
    module = lowered(passes)
    op = first(module, name, attr)
    op.attrs = {**op.attrs, **attrs}
    return module


def with_operands(passes: str, name: str, attr: str, change: Callable[[Op], tuple[Value, ...]]) -> Module:
    module = lowered(passes)
    op = first(module, name, attr)
    op.operands = change(op)
    return module


def unmarked() -> Module:
    module = lowered(CPU)
    for program in module.programs.values():
        program.lowered_for = None
    return module


WRONG: dict[str, tuple[Callable[[], Module], str]] = {
    "no mark of a lowered program": (unmarked, "a name is letters, digits, _, . and $, not '~y.0'"),
    "a mark on no access": (
        lambda: with_attrs(CPU, "local_id", "axis", in_bounds=True),
        "local_id: has no attribute in_bounds",
    ),
    "a mark that is none": (
        lambda: with_attrs(CPU, "load", "in_bounds", in_bounds=False),
        "load: in_bounds is a mark of accesses, and of casts between integers",
    ),
    "a mark of another type": (
        lambda: with_attrs(CPU, "load", "in_bounds", in_bounds=1),
        "program @rows, load: attribute in_bounds is True or False, not 1",
    ),
    "a trap with an index too few": (
        lambda: with_operands(CPU, "trap", "access", lambda op: op.operands[1:]),
        "trap: has the access that is out of bounds, and an index and an extent for each dimension",
    ),
    "a trap without its access": (
        lambda: with_attrs(CPU, "trap", "access", access=None),
        "program @rows, trap: attribute access is an Op, not None",
    ),
    "a trap with an extent of nobody": (
        lambda: with_attrs(CPU, "trap", "access", shape=("~z.0", 8)),
        "trap: has the extent @~z.0, which is no param of the program",
    ),
    "a trap with another index": (
        lambda: with_operands(
            CPU, "trap", "access", lambda op: (first(lowered(CPU), "local_id").result,) * 2
        ),
        "%l does not dominate this use",
    ),
    "a load of a part of another matrix": (
        lambda: with_attrs(CPU, "matrix_load", "shape", shape=(16, 32)),
        "matrix_load: has the shape of the matrix of which a lane has vec<8 x f16>",
    ),
    "a store without the elements of a row": (
        lambda: with_operands(CPU, "matrix_store", "shape", lambda op: op.operands[:2]),
        "matrix_store: takes an index, and the elements of a row",
    ),
    "a product of another shape": (
        lambda: with_attrs(CPU, "matrix_mul_add", "shape", shape=(16, 16, 32)),
        "matrix_mul_add: vec<32 x f16> is no part of 16 x 32 elements of f16",
    ),
    "a product without its elements": (
        lambda: without_attr(CPU, "matrix_mul_add", "element"),
        "matrix_mul_add: has the shape and the elements of the product",
    ),
    "words from storage": (
        lambda: with_attrs(WORDS, "matrix_load", "covers", buffer="a"),
        "matrix_load: loads words of 32 bits by rows of workgroup memory",
    ),
    "a factor in storage": (
        lambda: with_attrs(CUDA, "warpgroup_mul_add", "tile", tile="a"),
        "warpgroup_mul_add: its right factor is in workgroup memory, and @a is not",
    ),
    "a wait for another value": (
        lambda: with_operands(CUDA, "warpgroup_wait", "", lambda op: ()),
        "warpgroup_wait: gives the values that it takes",
    ),
}


def without_attr(passes: str, name: str, attr: str) -> Module:
    module = lowered(passes)
    op = first(module, name, attr)
    op.attrs = {key: value for key, value in op.attrs.items() if key != attr}
    return module


def test_what_a_lowered_program_may_not_have() -> None:
    def check(what: str) -> None:
        wrong, message = WRONG[what]
        module = wrong()
        errors = check_structure(module) or errors_of(module)
        assert message in next(error.message for error in errors)

    for passes in (CPU, CUDA, WORDS):
        assert not errors_of(lowered(passes))
    each(WRONG, check)


def test_a_rewrite_that_breaks_a_program_is_a_failed_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def careless(program: Program, bounds: str) -> Program:
        legal = row_major(program, bounds)
        for op in legal.walk():
            if op.name == "trap":
                op.operands = op.operands[1:]
        return legal

    monkeypatch.setattr(legalization, "row_major", careless)
    with pytest.raises(PassFailure, match="row_major left a module that does not verify"):
        lowered("row_major")


def test_every_attribute_is_printed() -> None:
    """In both forms; a launch's fingerprint and the cache of PTX rely on it."""
    seen = set()
    for passes in (CPU, CUDA, WORDS):
        module = lowered(passes)
        short, generic = print_program(module), print_program(module, generic=True)
        for op in (op for program in module.programs.values() for op in program.walk()):
            for attr in lowered_attrs(op.definition):
                if attr.name in op.attrs:
                    seen.add((op.name, attr.name))
                    kept, op.attrs = op.attrs, {k: v for k, v in op.attrs.items() if k != attr.name}
                    if attr.optional:
                        assert print_program(module) != short
                        assert print_program(module, generic=True) != generic
                    op.attrs = kept
    assert {name for name, _ in seen} >= {"cast", "load", "store", "trap", "matrix_load", "matrix_mul_add"}
    assert {attr for _, attr in seen} >= {attr.name for attrs in LOWERED_ATTRS.values() for attr in attrs}


def test_a_program_says_for_which_target_it_is_lowered() -> None:
    module = parse(GROUPS[GROUPS.index("vyre 2") :])
    for program in module.programs.values():
        assert legal_program(program, module).lowered_for == "cpu"
        unit = legal_unit(Unit(program, module, {}), gpu("sm_90a"), "trap")
        assert unit.program.lowered_for == "cuda"
        assert program.lowered_for is None
    PassManager("flatten,print_records").run(module)
    assert {program.lowered_for for program in module.programs.values()} == {None}


def test_orders_of_passes_are_right_or_an_error_of_the_program() -> None:
    """Of up to three, in any order, on a program that has all that they rewrite; what they leave verifies."""
    names = ("row_major", "matrix_fragments", "warpgroups")
    passes = [f"{name}{{target={target}}}" for name in names for target in ("cpu", "cuda")]
    passes += ["flatten", "print_records", "zero_tiles"]
    for count in (1, 2, 3):
        for order in permutations(passes, count):
            try:
                lowered(",".join(order))
            except DiagnosticError as error:
                (diagnostic,) = error.diagnostics
                assert diagnostic.severity == "error"
                assert diagnostic.loc is not None
                assert re.search(r"; run (\w+|it) before |; run passes of one target", diagnostic.message)
