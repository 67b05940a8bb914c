"""Lengths are taken for equal only where they are, for lengths of the caller's arrays drawn at random."""

from __future__ import annotations

import random

import pytest
from support.quick import quick

from vyre_opt import parse
from vyre_opt.analysis.equal_lengths import equal_lengths, length_numbers
from vyre_opt.ir import Pipeline

BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "div": lambda a, b: a // b,
    "ceil_div": lambda a, b: -(-a // b),
    "min": min,
    "max": max,
}
"""Written down from docs/reference/language.md."""


def drawn(seed: int) -> tuple[Pipeline, list[tuple[str, object]]]:
    """A pipeline whose buffers have sizes of a few operands, so that many are equal; and the sizes, to be computed."""
    draw = random.Random(seed)
    buffers: list[tuple[str, object]] = [("x", None), ("y", None), ("z", (None, 4))]
    lines = ["buffer @x : u32[?] read", "buffer @y : u32[?] read", "buffer @z : u32[?, 4] read"]
    for number in range(12):
        a, b = (
            draw.choice(["x", "y", "z,0", "z,1", "5", "2", *(n for n, _ in buffers[3:])]) for _ in range(2)
        )
        op = draw.choice([*BINARY, "len", "len"])
        if op in ("div", "ceil_div"):
            b = draw.choice(["2", "5"])
        size: object = (op, a) if op == "len" else (op, a, b)

        def shown(operand: str) -> str:
            name, comma, place = operand.partition(",")
            return operand if operand.isdigit() else f"len(@{name}{', ' * bool(comma)}{place})"

        text = shown(a) if op == "len" else f"{op}({shown(a)}, {shown(b)})"
        if text.isdigit():
            text = f"add({text}, 0)"
        lines.append(f"buffer @b{number} : u32[{text}]")
        buffers.append((f"b{number}", size))
    text = "vyre 2\npipeline @main {\n  " + "\n  ".join(lines) + "\n}\n"
    return parse(text).pipelines["main"], buffers


def computed(buffers: list[tuple[str, object]], given: dict[str, int]) -> dict[str, int]:
    lengths = {"x": given["x"], "y": given["y"], "z": given["z"], "z,0": given["z"], "z,1": 4}

    def value(operand: str) -> int:
        return int(operand) if operand.isdigit() else lengths[operand]

    for name, size in buffers[3:]:
        op, *operands = size  # type: ignore[misc]
        values = [value(operand) for operand in operands]
        lengths[name] = values[0] if op == "len" else BINARY[op](*values)
    return lengths


@pytest.mark.parametrize("seeds", quick([range(50), range(50, 1000)]))
def test_lengths_with_one_number_are_equal(seeds: range) -> None:
    found, draw = 0, random.Random(1)
    for seed in seeds:
        pipeline, buffers = drawn(seed)
        numbers = length_numbers(pipeline)
        own = {name: name for name in pipeline.buffers}
        equal = equal_lengths(numbers, own)
        found += len(equal)
        for _ in range(8):
            lengths = computed(buffers, {name: draw.choice([0, 1, 2, 3, 4, 5, 6, 17]) for name in "xyz"})
            for one, other in equal.items():
                assert lengths[one] == lengths[other], (seed, one, other)
    assert found > len(seeds)


def test_what_is_equal_by_its_expression_has_one_number() -> None:
    text = """vyre 2
pipeline @main {
  buffer @x : u32[?] read
  buffer @y : u32[?, 4] read
  buffer @a : u32[len(@x)]
  buffer @b : u32[div(len(@a), 2), len(@y, 1)]
  buffer @c : u32[add(len(@y, 0), div(len(@x), 2))]
  buffer @d : u32[add(div(len(@a), 2), len(@y, 0))]
  buffer @e : u32[sub(len(@x), len(@y, 0))]
  buffer @f : u32[sub(len(@y, 0), len(@x))]
}
"""
    numbers = length_numbers(parse(text).pipelines["main"])
    assert numbers["x"] == numbers["a"]
    assert numbers["c"] == numbers["d"]
    assert numbers["b"][1] == numbers["y"][1]
    assert (
        len({numbers["x"][0], *numbers["y"], numbers["b"][0], numbers["c"][0], *numbers["e"], *numbers["f"]})
        == 7
    )
