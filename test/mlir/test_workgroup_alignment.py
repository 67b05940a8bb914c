"""In mlir-opt's PTX, workgroup memory is declared as aligned as the widest access to it needs.

LLVM joins accesses that follow each other where it takes their place to be aligned.  What it takes for granted is the
alignment of the variable; the rest it proves from the index.  So the variable is what is looked at here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

import pytest
from support.generator import random_program
from support.mlir_texts import kernel_modules

from vyre_opt.ir import DiagnosticError, Module, parse
from vyre_opt.lowering.nvptx.targets import STATIC_SHARED_BYTES
from vyre_opt.mlir.emit import emit_mlir

VARIABLE = re.compile(r"\.shared (?:\.align (\d+) )?\.\w+ ([\w$]+)(?:\[\d+\])?;")
ACCESS = re.compile(r"\t(?:ld|st|atom|red)\.([\w.]+)\s[^\[;]*\[([\w%$]+)(?:\+(\d+))?\]")
DEFINITION = re.compile(r"\t([\w.]+)\s+(%\w+), ([^;]+);")
OPERAND = re.compile(r"[\w%$]+")

FOUR_STORES = """vyre 2
program @p workgroup(64) {
  buffer @x     : f32[?] read binding(0)
  buffer @y     : f32[?] write binding(1)
  buffer @first : u32[1] workgroup
  buffer @t     : f32[256] workgroup
  %i = local_id x
  %four = const 4 : u32
  %v = load @x[%i] : f32
  %p0 = mul %i, %four : u32
  %one = const 1 : u32
  %p1 = add %p0, %one : u32
  %p2 = add %p1, %one : u32
  %p3 = add %p2, %one : u32
  store %v, @t[%p0] : f32
  store %v, @t[%p1] : f32
  store %v, @t[%p2] : f32
  store %v, @t[%p3] : f32
  barrier workgroup
  %far = const 63 : u32
  %j = sub %far, %i : u32
  %back = load @t[%j] : f32
  store %back, @y[%i] : f32
}
"""


def wide_accesses(ptx: str) -> Iterator[tuple[str, str, int, int]]:
    """(instruction, variable, bytes, .align) of accesses to workgroup variables that are of several elements' bytes."""
    variables = {name: int(align or 1) for align, name in VARIABLE.findall(ptx)}
    for body in re.split(r"^}", ptx, flags=re.MULTILINE):
        sources: dict[str, set[str]] = {}
        for opcode, result, operands in DEFINITION.findall(body):
            if not opcode.startswith(("ld", "atom")):  # what is loaded is no address here
                sources.setdefault(result, set()).update(OPERAND.findall(operands))
        for match in ACCESS.finditer(body):
            width, offset = _bytes(match[1]), int(match[3] or 0)
            for name in _reached(match[2], sources) & variables.keys():
                exact = offset if match[2] == name else 0
                yield match[0].strip(), name, width, min(variables[name], exact & -exact or variables[name])


def _bytes(modifiers: str) -> int:
    """Of one access: `shared.v4.f32` is 16."""
    words = modifiers.split(".")
    lanes = next((int(word[1:]) for word in words if re.fullmatch(r"v\d", word)), 1)
    return lanes * int(re.sub(r"\D", "", words[-1])) // 8


def _reached(start: str, sources: dict[str, set[str]]) -> set[str]:
    """The names from which an address is computed."""
    names, pending = set[str](), [start]
    while pending:
        name = pending.pop()
        if name not in names:
            names.add(name)
            pending += sources.get(name, ())
    return names


def check(kernels: Sequence[str]) -> int:
    """The number of accesses of more than 8 bytes; each of any width must fit the alignment of its variable."""
    accesses = [access for ptx in kernels for access in wide_accesses(ptx)]
    assert [access for access in accesses if access[3] < access[2]] == []
    return sum(width > 8 for _, _, width, _ in accesses)


def emitted(modules: Sequence[Module]) -> list[str]:
    """MLIR of those that have workgroup memory, and as little of it as mlir-opt can declare."""
    texts = []
    for module in modules:
        (program,) = module.programs.values()
        size = sum(b.size_bytes or 0 for b in program.buffers.values() if b.is_workgroup)
        if 0 < size <= STATIC_SHARED_BYTES:
            try:
                texts.append(emit_mlir(module))
            except DiagnosticError:  # an op that MLIR does not have
                continue
    return texts


@pytest.mark.parametrize("bare_pointers", [False, True])
def test_stores_that_llvm_joins(to_ptx: Callable[[list[str]], list[str]], bare_pointers: bool) -> None:
    assert check(to_ptx([emit_mlir(parse(FOUR_STORES), bare_pointers=bare_pointers)])) == 1


@pytest.mark.campaign
def test_shipped_kernels(to_ptx: Callable[[list[str]], list[str]]) -> None:
    assert check(to_ptx(emitted(kernel_modules(1)))) > 10


@pytest.mark.campaign
def test_random_programs(to_ptx: Callable[[list[str]], list[str]]) -> None:
    check(to_ptx(emitted([random_program(seed).module for seed in range(300)])))
