"""A value or a parameter that nothing uses is told, unless its name says so."""

from __future__ import annotations

import warnings
from pathlib import Path

import pytest
from support.modules import written_module
from support.warned import warned

HEAD = """from __future__ import annotations
import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, f32, u32

@vyre.program(workgroup=64)
def kernel({}) -> None:
    i = vyre.global_id(0)
    {}
"""
BOTH, DOUBLED = "x: Read[f32], y: Write[f32]", "y[i] = x[i] * 2.0"
UNUSED = [
    (BOTH, f"v = x[i] - 1.0; {DOUBLED}", "v is computed, and nothing uses it", "v"),
    (BOTH, f"low = vyre.workgroup_reduce(x[i], 'min'); {DOUBLED}", "low is computed, and nothing uses it", "low"),
]  # fmt: skip
USED = [
    (BOTH, f"_v = x[i] - 1.0; {DOUBLED}"),
    (BOTH, "v = 0.0; v += x[i]; y[i] = v"),
    ("n: ReadWrite[u32]", "old = vyre.atomic_add(n, i, 1)"),
    (BOTH, "a, b = x[i], x[i + 1]; y[i] = a"),
    (BOTH, "if i < len(x):\n        for k in range(3):\n            y[i] = x[i]"),
]


def told(tmp_path: Path, arguments: str, lines: str, number: int) -> list[warnings.WarningMessage]:
    module = written_module(tmp_path, HEAD.format(arguments, lines), f"unused_{number}")
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        module.kernel.text()
    return caught


@pytest.mark.parametrize("number", range(len(UNUSED)))
def test_what_nothing_uses(tmp_path: Path, number: int) -> None:
    arguments, lines, said, place = UNUSED[number]
    (warning,) = told(tmp_path, arguments, lines, number)
    first, line, carets, *_ = str(warning.message).split("\n")
    assert first == said
    name = said.partition(" ")[0]
    assert line[carets.index("^") :].startswith(place)
    assert str(warning.message).partition("help: ")[2].splitlines()[0].endswith(f"name it _{name}")


@pytest.mark.parametrize("number", range(len(USED)))
def test_what_is_used_or_meant_to_be_unused(tmp_path: Path, number: int) -> None:
    assert [str(each.message) for each in told(tmp_path, *USED[number], len(UNUSED) + number)] == []


PARAMETERS = [
    # parameters of a kernel, a line, and the parameters that are told
    ("x: Read[f32], bias: Read[f32], y: Write[f32]", "y[i] = x[i]", ["bias"]),
    ("x: Read[f32], by: f32, y: Write[f32]", "y[i] = x[i]", ["by"]),
    ("x: Read[f32], by: f32, z: ReadWrite[u32], y: Write[f32]", '"z by"; y[i] = x[i]', ["by", "z"]),
    ("x: Read[f32], _by: f32, y: Write[f32]", "y[i] = x[i]", []),
    ("x: Read[f32], by: f32, y: Write[f32]", "_ = by; y[i] = x[i]", []),
    ("x: Read[f32], n: u32, y: Write[f32]", "y[i] = x[i] if i < n else 0.0", []),
    ("x: Read[f32], bias: Read[f32], y: Write[f32]", "v = x[i] - 1.0; y[i] = bias[i]", ["v is computed"]),
]


def test_parameters_that_nothing_uses(tmp_path: Path) -> None:
    for number, (arguments, lines, names) in enumerate(PARAMETERS):
        doc = lines.partition(";")[0] if lines.startswith('"') else '""'
        head = HEAD.replace("    i =", f"    {doc}\n    i =")
        body = lines.removeprefix(f"{doc}; ")
        module = written_module(tmp_path, head.format(arguments, body), f"parameters_{number}")
        said = [each.splitlines()[0] for each in warned(module.kernel.text)]
        expected = [name if " " in name else f"kernel does not use {name}" for name in names]
        assert [each.startswith(words) for each, words in zip(said, sorted(expected), strict=True)] == [
            True
        ] * len(said), lines


def test_parameters_of_a_pipeline_that_no_stage_takes(tmp_path: Path) -> None:
    text = HEAD.format(BOTH, DOUBLED) + "\n@vyre.pipeline\ndef both({}) -> None:\n    kernel[1](x, y)\n"
    for number, (arguments, expected) in enumerate(
        [(BOTH, []), (f"{BOTH}, b: Read[f32]", ["both does not use b"]), (f"{BOTH}, _b: Read[f32]", [])]
    ):
        module = written_module(tmp_path, text.format(arguments), f"pipeline_{number}")
        said = [each.partition(":")[0] for each in warned(module.both.text)]
        assert said == expected
