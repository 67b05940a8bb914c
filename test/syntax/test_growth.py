"""The front end is linear: ten times the ops take ten times the calls.  Calls are counted, not timed."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.calls import count_calls
from support.quick import quick

from vyre_opt import parse, print_program
from vyre_opt.ir import DiagnosticError, Source, fingerprint, parse_source

HEAD = "vyre 1\nprogram @p workgroup(4) {\n  buffer @b : u32[4] read_write binding(0) live_out\n  %v0 = lane_id\n  %c = const true : bool\n"


def straight(n: int) -> str:
    return HEAD + "".join(f"  %v{i + 1} = add %v{i}, %v0 : u32\n" for i in range(n)) + "}\n"


def same_names(n: int) -> str:
    """Sibling blocks that define the same names."""
    return (
        HEAD + "  if %c {\n    %x = add %v0, %v0 : u32\n    store %x, @b[%v0] : u32\n  }\n" * (n // 3) + "}\n"
    )


def nested(n: int) -> str:
    """Blocks 150 deep, side by side."""
    block = "if %c {\n" * 150 + "%x = lane_id\n" + "}\n" * 150
    return HEAD + block * (n // 150) + "}\n"


def loops(n: int) -> str:
    """Loops in loops with carried values, as deep as the uniformity analysis has to iterate."""
    text = "%a = for %i = 0 to 4 iter(%s = %v0 : u32) {\n  %b = for %k = 0 to 4 iter(%t = %s : u32) {\n"
    text += "    barrier workgroup\n    yield %t\n  }\n  yield %b\n}\n"
    return HEAD + "".join(text.replace("%a", f"%a{i}") for i in range(n // 6)) + "}\n"


def wide(n: int) -> str:
    """One op with many operands."""
    return HEAD + f"  %x = vector {', '.join(['%v0'] * n)} : vec<64 x u32>\n}}\n"


def items(n: int) -> str:
    """Functions that call the one before."""
    head = "vyre 1\nfunc @f0(%x : u32) -> u32 {\n  yield %x\n}\n"
    one = "func @f{}(%x : u32) -> u32 {{\n  %y = call @f{}(%x) : (u32) -> u32\n  yield %y\n}}\n"
    return head + "".join(one.format(i + 1, i) for i in range(n // 3))


def declarations(n: int) -> str:
    buffers = "".join(f"  buffer @b{i} : u32[4] read binding({i})\n" for i in range(n))
    return f"vyre 1\nprogram @p workgroup(4) {{\n{buffers}}}\n"


def wrong(n: int) -> str:
    """Errors everywhere, each with a suggestion to look for."""
    return HEAD + "".join(f"  %w{i} = addd %v0 : u32\n" for i in range(n)) + "}\n"


SHAPES = [nested, wrong, straight, same_names, loops, wide, items, declarations]


def name(part: object) -> str:
    return getattr(part, "__name__", str(part))


def read(text: str) -> None:
    try:
        parse(text)
    except DiagnosticError as error:
        str(error)


FEW, MANY = 300, 1000


@pytest.mark.parametrize(
    ("shape", "count"), quick([(nested, FEW), *((shape, MANY) for shape in SHAPES)]), ids=name
)
def test_reading_is_linear(shape: Callable[[int], str], count: int) -> None:
    """Parsing and verifying: so many ops against six times as many."""
    small, large = shape(count), shape(6 * count)
    read(small)  # tables and error sentences are made once
    assert count_calls(lambda: read(large)) < 7 * count_calls(lambda: read(small))


PRINTED = (nested, straight, same_names, loops, items, declarations)


@pytest.mark.parametrize(
    ("shape", "count"),
    quick([(nested, FEW), (straight, FEW), *((shape, MANY) for shape in PRINTED)], keep=2),
    ids=name,
)
def test_printing_is_linear(shape: Callable[[int], str], count: int) -> None:
    """Both forms and the fingerprint, with all values of one name as the worst case for fresh names."""

    def work(n: int) -> int:
        module = parse(shape(n))
        for item in module.order:
            for op in item.walk():  # type: ignore[union-attr]
                for value in op.results:
                    value.name = "x"

        def write() -> None:
            print_program(module)
            print_program(module, generic=True)
            fingerprint(module)

        return count_calls(write)

    assert work(6 * count) < 7 * work(count)


def test_an_op_costs_a_bounded_number_of_calls() -> None:
    """A guard against one more walk or lookup an op, which linear growth would not show."""
    text = straight(1000)
    parse_source(Source(text))
    assert count_calls(lambda: parse(text)) < 120 * 1000
