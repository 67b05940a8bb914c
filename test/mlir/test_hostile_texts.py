"""Whatever the text, reading it ends in a module or in located errors."""

from __future__ import annotations

import random
import re
from functools import cache

import pytest
from support.op_programs import op_programs
from support.quick import quick

from vyre_opt.ir import DiagnosticError, Source, verify
from vyre_opt.mlir.emit import emit_mlir
from vyre_opt.mlir.read import read_mlir

pytest.importorskip("xdsl")

WORDS = (
    "0",
    "-1",
    str(1 << 70),
    "99999999999",
    "x",
    "%c0",
    '"a"',
    "f32",
    "i1",
    "i20",
    "index",
    "vector<4xf32>",
    '"',
)
MUTANTS = 12


@cache
def texts() -> list[str]:
    """Of every fortieth op program."""
    found = []
    for case in op_programs()[::40]:
        try:
            found.append(emit_mlir(case.module))
        except DiagnosticError:
            continue
    return found


def mutated(text: str, rng: random.Random) -> str:
    parts = re.split(r"(\s+|[(),:\[\]{}<>=])", text)
    for _ in range(rng.choice((1, 1, 2, 3))):
        at, other = rng.randrange(len(parts)), rng.randrange(len(parts))
        kind = rng.randrange(4)
        if kind == 0:
            parts[at], parts[other] = parts[other], parts[at]
        elif kind == 1:
            parts[at] = ""
        elif kind == 2:
            parts[at] = rng.choice(WORDS)
        else:
            parts[at] += parts[other]
    return "".join(parts)


@pytest.mark.parametrize("first", quick([0, 12, 24, 36, 48], keep=1))
def test_mutants(first: int) -> None:
    """Of every third text."""
    assert len(texts()) <= 60, "there are more texts: add where they begin"
    for number in range(first, min(first + 12, len(texts())), 3):
        check_mutants(number)


def check_mutants(number: int) -> None:
    rng = random.Random(number)
    for _ in range(MUTANTS):
        try:
            module = read_mlir(Source(mutated(texts()[number], rng), "kernel.mlir"))
            said = verify(module)
        except DiagnosticError as error:
            said = error.diagnostics
            assert said
        assert all(d.loc is not None for d in said if d.severity == "error")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('gpu.module @m { "' + "\\\\" * 60 + "\n}", "a string that does not end on its line"),
        ('"gpu.module"() ({ "gpu.func"() ({ }) {kernel} : () -> () }) {sym_name = "m"} : () -> ()', "gpu.func"),
        ("(" * 5000, "error"),
        ("gpu.module @m { gpu.func @k() kernel attributes {known_block_size = array<i32: 1, 1, 1>} "
         "{ %c = arith.constant dense<1> : vector<99999999999xi32> gpu.return } }", "error"),
        ("gpu.module @m { gpu.func @k() kernel attributes {known_block_size = array<i32: 1, 1, 1>} "
         '{ %c = "arith.addi"() : () -> i32 gpu.return } }', "has other operands"),
        ("module { loc(", "error"),
    ],
)  # fmt: skip
def test_what_parsers_stumble_over(text: str, message: str) -> None:
    with pytest.raises(DiagnosticError, match=re.escape(message)):
        read_mlir(Source(text, "kernel.mlir"))
