"""Formats of debug_print: what each directive prints, and what is said of those that do not fit."""

from __future__ import annotations

from typing import Any

import pytest

from vyre_opt.ir import DataType, DiagnosticError, parse
from vyre_opt.ir.arith import encode_float
from vyre_opt.ir.print_format import MAX_OPERANDS, format_line

U8, U32, I8, I64 = DataType.U8, DataType.U32, DataType.I8, DataType.I64
F16, BF16, F32, F64, BOOL = DataType.F16, DataType.BF16, DataType.F32, DataType.F64, DataType.BOOL


@pytest.mark.parametrize(
    ("format", "dtype", "value", "line"),
    [
        ("%u", U32, 2**32 - 1, "4294967295"),
        ("%6u|", U32, 42, "    42|"),
        ("%-6u|", U32, 42, "42    |"),
        ("%06u", U32, 42, "000042"),
        ("%d", I8, -128, "-128"),
        ("%+i", I64, 7, "+7"),
        ("%d", U32, 2**31, "2147483648"),
        ("%x", I8, -1, "ff"),
        ("%#X", U8, 171, "0XAB"),
        ("%08x", I64, -1, "ffffffffffffffff"),
        ("%f", F32, 0.1, "0.100000"),
        ("%.9f", F32, 0.10000000149011612, "0.100000001"),
        ("%e", F64, 12345.678, "1.234568e+04"),
        ("%g", F32, 1e-10, "1e-10"),
        ("%8.3f", F16, 1.5, "   1.500"),
        ("%f", F32, float("-inf"), "-inf"),
        ("%f", F32, float("nan"), "nan"),
        ("%b", BOOL, True, "true"),
        ("%-6b|", BOOL, False, "false |"),
        ("%v", U32, 7, "7"),
        ("%v", BOOL, True, "true"),
        ("%v", F32, 0.10000000149011612, "0.1"),
        ("%v", F16, 65504.0, "65500.0"),
        ("%v", BF16, 3.140625, "3.14"),
        ("%v", F64, float("-nan"), "nan"),
        ("%v", F32, -0.0, "-0.0"),
        ("%4v|", I8, -7, "  -7|"),
        ("100%% of %u", U32, 3, "100% of 3"),
        ("%u\n", U32, 3, "3"),
        ("a\tb %u", U32, 3, "a\tb 3"),
    ],
)  # fmt: skip
def test_a_value_is_printed_as_c_does(format: str, dtype: DataType, value: Any, line: str) -> None:
    assert format_line(format, [dtype], [value]) == line


def test_a_vector_prints_its_lanes() -> None:
    types = [DataType.vec(F32, 2), DataType.vec(BOOL, 3)]
    assert (
        format_line("v=%.1f p=%b", types, [(1.0, 2.25), (True, False, True)])
        == "v=[1.0, 2.2] p=[true, false, true]"
    )


HEAD = "vyre 2\nprogram @p workgroup(1) {\n  %u = const 1 : u32\n  %i = const 1 : i32\n  %f = const 1.0 : f32\n  %b = const true : bool\n  "


@pytest.mark.parametrize(
    ("text", "column", "message", "help"),
    [
        ('"i=%d" %f', 22, "%d prints an integer, and %f is f32", "write %f, or %v for any type"),
        ('"i=%u" %i', 22, "%u prints an unsigned integer, and %i is i32", "write %d, or %v for any type"),
        ('"i=%f" %u', 22, "%f prints a float, and %u is u32", "write %u, or %v for any type"),
        ('"i=%b" %u', 22, "%b prints a bool, and %u is u32", "write %u, or %v for any type"),
        ('"i=%x" %b', 22, "%x prints an integer, and %b is bool", "write %b, or %v for any type"),
        ('"i=%u"', 3, "the format has 1 directive for 0 operands", None),
        ('"i=%u" %u, %i', 3, "the format has 1 directive for 2 operands", None),
        ('"i=%lu" %u', 18, "%lu: sizes of operands are those of their types", "write %u"),
        ('"%s" %u', 16, "there is no directive %s", "write one of %u, %d, %x, %f, %e, %g, %b, %v, or %% for a percent sign"),
        ('"100%"', 19, "a directive has no letter", "write one of %u, %d, %x, %f, %e, %g, %b, %v, or %% for a percent sign"),
        ('"%100u" %u', 16, "%100u: a width or a precision has at most 2 digits", "write %u"),
        ('"%.3v" %f', 16, "%.3v: %v has a width and the flag - only", "write %v, or the directive of the type"),
    ],
)  # fmt: skip
def test_a_wrong_format_is_an_error_with_what_to_write(
    text: str, column: int, message: str, help: str | None
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        parse(f"{HEAD}debug_print {text}\n}}\n")
    (error,) = caught.value.diagnostics
    assert (error.message, error.help) == (f"debug_print: {message}", help)
    assert error.loc is not None
    assert error.loc.source.line_column(error.loc.start) == (7, column)


def test_a_print_has_so_many_operands_at_most() -> None:
    def text(count: int) -> str:
        return f'{HEAD}debug_print "{"%v" * count}" {", ".join(["%u"] * count)}\n}}\n'

    parse(text(MAX_OPERANDS))
    with pytest.raises(DiagnosticError, match="takes up to 32 operands, 33 given"):
        parse(text(MAX_OPERANDS + 1))


def test_a_function_prints_nothing() -> None:
    with pytest.raises(DiagnosticError, match="debug_print: not in a function"):
        parse('vyre 2\nfunc @f(%a : u32) -> u32 { debug_print "%u" %a yield %a }\n')


def test_shortest_floats_read_back() -> None:
    """%v prints what a constant of the type is written as."""
    for value in (1 / 3, 1e30, 2**-140):
        for dtype in (F32, F64):
            bits = encode_float(value, dtype)
            shown = format_line("%v", [dtype], [value])
            assert encode_float(float(shown), dtype) == bits
