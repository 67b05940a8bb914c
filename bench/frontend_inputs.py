"""The inputs of bench/frontend.py: equal bodies in .vyre and in MLIR (func, arith, scf).

    python bench/frontend_inputs.py FOLDER

writes `CASE.vyre` and `CASE.mlir` for each case.

A body is random but fixed by its seed.  An op takes the value before it and one of the
last 64; one in sixteen repeats an earlier op exactly, so that cse has something to find.
No value is unused: a peer whose cse also removes dead ops has none to remove.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from pathlib import Path

WINDOW = 64
REPEAT = 16
BODY_OPS = 8  # simple ops in a block of the nested input

Line = tuple[str, str, str]
"""(op, left operand, right operand) by the names of the .vyre language."""

_MLIR = {"add": "arith.addi", "mul": "arith.muli", "and": "arith.andi", "xor": "arith.xori"}
_NAMES = tuple(_MLIR)


def _lines(count: int, seed: int) -> list[Line]:
    """`count` ops; op i defines %v{i} and may use %a and %b."""
    choose = random.Random(seed)
    lines: list[Line] = []
    before, owed = "%a", "%b"  # the last value, and one that still needs a use
    for number in range(count):
        repeats = 1 < number < count - 1 and not owed and choose.randrange(REPEAT) == 0
        if repeats:
            lines.append(lines[choose.randrange(max(0, number - WINDOW), number - 1)])
            owed = before
        else:
            other = owed or choose.choice(
                ["%a", "%b", *(f"%v{i}" for i in range(max(0, number - WINDOW), number))]
            )
            lines.append((choose.choice(_NAMES), before, other))
            owed = ""
        before = f"%v{number}"
    return lines


def straight_vyre(count: int) -> str:
    """A program whose body is `count` ops in a row; with its ids and its store, 3 more."""
    body = "\n".join(f"  %v{i} = {op} {a}, {b} : u32" for i, (op, a, b) in enumerate(_lines(count, count)))
    return (
        "vyre 1\n\nprogram @f workgroup(64) {\n  buffer @out : u32[?] write binding(0)\n\n"
        "  %a = global_id x\n  %b = local_id x\n"
        f"{body}\n  store %v{count - 1}, @out[%a] : u32\n}}\n"
    )


def straight_mlir(count: int) -> str:
    """The same body as a function."""
    lines = enumerate(_lines(count, count))
    body = "\n".join(f"  %v{i} = {_MLIR[op]} {a}, {b} : i32" for i, (op, a, b) in lines)
    return f"func.func @f(%a: i32, %b: i32) -> i32 {{\n{body}\n  func.return %v{count - 1} : i32\n}}\n"


def nested_ops(loops: int) -> int:
    """Ops of the nested inputs: a loop, its comparison, its if, and 3 blocks of simple ops, with yields."""
    return loops * (3 + 3 * BODY_OPS + 3)


def nested_vyre(loops: int) -> str:
    """`loops` loops in a row, each with an if whose two blocks and own ops are `BODY_OPS` long."""
    parts = [
        "vyre 1\n\nprogram @f workgroup(64) {\n  buffer @out : u32[?] write binding(0)\n\n"
        "  %a = global_id x\n  %b = local_id x\n"
    ]
    last = "%a"
    for n in range(loops):
        own, then, other = (list(_block(n, part, "%s", "%b")) for part in "ote")
        parts.append(f"  %r{n} = for %k = 0 to 16 step 1 iter(%s = {last} : u32) {{\n")
        parts += [f"    {name} = {op} {a}, {b} : u32\n" for name, (op, a, b) in own]
        parts.append(f"    %c{n} = lt %s, {own[-1][0]} : u32\n    %y{n} = if %c{n} -> u32 {{\n")
        parts += [f"      {name} = {op} {a}, {b} : u32\n" for name, (op, a, b) in then]
        parts.append(f"      yield {then[-1][0]}\n    }} else {{\n")
        parts += [f"      {name} = {op} {a}, {b} : u32\n" for name, (op, a, b) in other]
        parts.append(f"      yield {other[-1][0]}\n    }}\n    yield %y{n}\n  }}\n")
        last = f"%r{n}"
    parts.append(f"  store {last}, @out[%a] : u32\n}}\n")
    return "".join(parts)


def nested_mlir(loops: int) -> str:
    """The same loops with scf.for and scf.if."""
    parts = [
        "func.func @f(%a: i32, %b: i32) -> i32 {\n  %lo = arith.constant 0 : index\n"
        "  %hi = arith.constant 16 : index\n  %st = arith.constant 1 : index\n"
    ]
    last = "%a"
    for n in range(loops):
        own, then, other = (list(_block(n, part, "%s", "%b")) for part in "ote")
        parts.append(f"  %r{n} = scf.for %k = %lo to %hi step %st iter_args(%s = {last}) -> (i32) {{\n")
        parts += [f"    {name} = {_MLIR[op]} {a}, {b} : i32\n" for name, (op, a, b) in own]
        parts.append(
            f"    %c{n} = arith.cmpi ult, %s, {own[-1][0]} : i32\n    %y{n} = scf.if %c{n} -> (i32) {{\n"
        )
        parts += [f"      {name} = {_MLIR[op]} {a}, {b} : i32\n" for name, (op, a, b) in then]
        parts.append(f"      scf.yield {then[-1][0]} : i32\n    }} else {{\n")
        parts += [f"      {name} = {_MLIR[op]} {a}, {b} : i32\n" for name, (op, a, b) in other]
        parts.append(f"      scf.yield {other[-1][0]} : i32\n    }}\n    scf.yield %y{n} : i32\n  }}\n")
        last = f"%r{n}"
    parts.append(f"  func.return {last} : i32\n}}\n")
    return "".join(parts)


def _block(loop: int, part: str, a: str, b: str) -> Iterator[tuple[str, Line]]:
    """The named ops of one block; %a and %b of `_lines` become the loop's value and %b."""
    prefix = f"%{part}{loop}_"
    names = {"%a": a, "%b": b}
    for number, (op, left, right) in enumerate(_lines(BODY_OPS, loop * 3 + "ote".index(part))):
        left, right = (names.get(v) or v.replace("%v", prefix) for v in (left, right))
        yield f"{prefix}{number}", (op, left, right)


SMALL_VYRE = """vyre 1
program @f workgroup(64) {
  %a = global_id x
  %b = add %a, %a : u32
}
"""

SMALL_MLIR = """func.func @f(%a: i32, %b: i32) -> i32 {
  %v0 = arith.muli %a, %b : i32
  %v1 = arith.addi %v0, %b : i32
  func.return %v1 : i32
}
"""

LOOPS = 334  # 30 ops each, 10,020 in all

# case -> its number of ops, but for the few around the body
CASES = {
    "five lines": 2,
    "straight 1k": 1_000,
    "straight 10k": 10_000,
    "straight 50k": 50_000,
    "nested 10k": nested_ops(LOOPS),
}


def write(folder: Path) -> None:
    """Write every case in both languages."""
    for case, ops in CASES.items():
        if case == "five lines":
            vyre, mlir = SMALL_VYRE, SMALL_MLIR
        elif case.startswith("nested"):
            vyre, mlir = nested_vyre(LOOPS), nested_mlir(LOOPS)
        else:
            vyre, mlir = straight_vyre(ops), straight_mlir(ops)
        (folder / f"{case}.vyre").write_text(vyre, encoding="utf-8")
        (folder / f"{case}.mlir").write_text(mlir, encoding="utf-8")


if __name__ == "__main__":
    write(Path(sys.argv[1]))
