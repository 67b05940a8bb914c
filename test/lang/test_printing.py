"""What kernels print and assert: as Python's own functions would, and with errors at the line to change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import vyre_opt as vyre
from vyre_opt.lang import Kernel, Read, Write, f32, i32, u8, u32

WIDTH, NAME = 6, "100% of"


def printed(kernel: Kernel, target: str, *arguments: Any) -> list[str]:
    lines: list[str] = []
    with vyre.on_debug_print(lines.append):
        kernel.options(target=target)[1](*arguments)
    return lines


@vyre.program(workgroup=4)
def prints(x: Read[f32], k: u32):
    i = vyre.global_id(0)
    if i % 2 == 0:
        print("i", i, x[i], k, NAME)
        print()
        print(f"{i=} {NAME} {x[i]:{WIDTH}.2f}|{i:<4d}|{k:08x}|{x[i] * 2:e}|{3.14159:.2f}|{i}")
        print("a", i, sep=",")
        vyre.debug_print("%u: %g %b", i, x[i], x[i] > 1.0)
        for n in range(2):
            print("round", n)
        print(vyre.vector(i, k), True, "\n")


@pytest.mark.parametrize("target", ["ref", "cpu"])
def test_print_is_as_in_python(target: str) -> None:
    x = np.array([0.1, 1, 2.5, 3], np.float32)
    expected = []
    for i in (0, 2):
        v = [0.1, 1, 2.5, 3][i]
        expected += [
            f"i {i} {v} 7 100% of",
            "",
            f"i={i} 100% of {v:6.2f}|{i:<4d}|{7:08x}|{float(np.float32(v) * 2):e}|3.14|{i}",
            f"a,{i}",
            f"{i}: {v:g} {'true' if v > 1 else 'false'}",
            "round 0",
            "round 1",
            f"[{i}, 7] True \n",
        ]
    for _ in range(2):
        assert printed(prints, target, x, 7) == expected


@vyre.program(workgroup=4)
def asserts(x: Read[i32], y: Write[i32]):
    i = vyre.global_id(0)
    v = x[i]
    assert v >= 0, "a negative number"
    assert v != 3
    y[i] = v


@pytest.mark.parametrize("target", ["ref", "cpu"])
@pytest.mark.parametrize(("bad", "message"), [(-1, "a negative number"), (3, "v != 3")])
def test_an_assert_is_an_error_at_its_line(target: str, bad: int, message: str) -> None:
    x, y = np.array([1, 2, bad, 0], np.int32), np.zeros(4, np.int32)
    with pytest.raises(
        vyre.ProgramError, match=rf"assert: {message}; false in workgroup \(0,0,0\) local id \(2,0,0\)"
    ) as caught:
        asserts.options(target=target)[1](x, y)
    assert caught.value.kind == "assert"
    loc = caught.value.diagnostic.loc
    assert loc is not None
    assert loc.source.name == __file__
    assert loc.source.text[loc.start :].startswith("assert v ")
    asserts.options(target=target)[1](np.arange(3, -1, -1, dtype=np.int32) * 2, y)
    assert list(y) == [6, 4, 2, 0]


def wrong_directive(x: Read[f32]):
    vyre.debug_print("v=%d", x[0])


def wrong_in_an_f_string(x: Read[f32]):
    print(f"v={x[0]:d}")


def open_number():
    n = 0
    for _ in range(3):
        n += 1
    vyre.debug_print("n=%u", n)


def too_few(x: Read[u8]):
    vyre.debug_print("%u %u", x[0])


def no_format(x: Read[u8]):
    vyre.debug_print(x[0])


def c_length(x: Read[u8]):
    vyre.debug_print("%lu", x[0])


def centred(x: Read[u8]):
    print(f"{x[0]:^8d}")


def no_letter(x: Read[f32]):
    print(f"{x[0]:.3}")


def an_end(x: Read[f32]):
    print(x[0], end="")


def an_array(x: Read[f32]):
    print(x)


@pytest.mark.parametrize(
    ("function", "message", "help"),
    [
        (wrong_directive, "%d prints an integer, and x[0] is f32", "write %f, or %v for any type"),
        (wrong_in_an_f_string, "%d prints an integer, and x[0] is f32", "write %f, or %v for any type"),
        (open_number, "%u prints an unsigned integer, and n is i32", "write %d, or %v for any type"),
        (too_few, "the format has 2 directives for 1 operand", 'write debug_print("i=%u v=%f", i, v)'),
        (no_format, "the format of a debug_print is known when the kernel is translated; this is computed while it runs", None),
        (c_length, "%lu: sizes of operands are those of their types", "write %u"),
        (centred, "a kernel has no format ^8d", "write a width, a precision and d, x, f, e or g: {x[0]:8.3f}"),
        (no_letter, "the format .3 has no letter", "write {x[0]:.3f} for a float, {x[0]:4d} for an integer"),
        (an_end, "print takes no end in a kernel", "leave it out: each print is a line"),
        (an_array, "x is an array, not a value", "read an element: x[i]"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)  # fmt: skip
def test_a_wrong_print_is_an_error_at_its_line(
    function: Callable[..., None], message: str, help: str | None
) -> None:
    with pytest.raises(vyre.DiagnosticError) as caught:
        vyre.program(workgroup=1)(function).text()
    (error,) = caught.value.diagnostics
    assert error.message == message
    assert help is None or error.help == help
    assert error.loc is not None
    line, _ = error.loc.source.line_column(error.loc.start)
    text = error.loc.source.text.splitlines()[line - 1]
    assert "print(" in text, text


def test_the_text_has_the_ops() -> None:
    text = asserts.text()
    assert "assert %" in text
    assert ', "a negative number"' in text
    assert "trap" not in text
    assert 'debug_print "i %v %v %v 100%% of" %i, ' in prints.text()
