"""Buffers without races between workgroups, of programs that no pipeline launches: compared with the elements of each workgroup."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import product

import pytest

from vyre_opt import parse
from vyre_opt.certificates import CertificateWriter
from vyre_opt.checker import Report, check

X, Y = 4, 2
"""The workgroup."""

CASES: dict[str, tuple[list[str], str, Callable[..., int]]] = {
    "an element an invocation": (["%i = global_id x"], "x", lambda x, y, i, j: X * x + i),
    "all store one element": (["%i = const 0 : u32"], "", lambda x, y, i, j: 0),
    "one workgroup alone": (["%i = local_id x"], "", lambda x, y, i, j: i),
    "workgroups store over each other": (
        ["%l = local_id x", "%w = workgroup_id x", "%i = add %l, %w : u32"],
        "x",
        lambda x, y, i, j: x + i,
    ),
    "every second element": (
        [
            "%w = workgroup_id x",
            "%l = local_id x",
            "%k = shl %l, 1 : u32",
            "%b = mul %w, 8 : u32",
            "%i = or %b, %k : u32",
        ],
        "x",
        lambda x, y, i, j: 8 * x | 2 * i,
    ),
    "an axis is asked for and not in the index": (
        ["%i = global_id x", "%v = global_id y"],
        "xy",
        lambda x, y, i, j: X * x + i,
    ),
    "the size of an axis is asked for": (
        ["%i = global_id x", "%v = num_workgroups y"],
        "xy",
        lambda x, y, i, j: X * x + i,
    ),
    "columns alone": (["%i = global_id y"], "y", lambda x, y, i, j: Y * y + j),
}


def text_of(lines: Sequence[str], grid: str = "") -> str:
    body = "".join(f"  {line}\n" for line in lines)
    value = "%v" if any(line.startswith("%v") for line in lines) else "%i"
    return (
        f"vyre 2\nprogram @p workgroup({X}, {Y}){grid} {{\n  buffer @y : u32[?] write binding(0) live_out\n{body}"
        f"  store {value}, @y[%i] : u32\n}}\n"
    )


def report_of(text: str) -> Report:
    writer = CertificateWriter()
    module = parse(text)
    certificate = writer.certificate(module)
    return check(writer.written, writer.optimised, certificate)


def is_free(axes: str, element: Callable[..., int]) -> bool:
    """Whether no two workgroups of 3 along each axis that is asked for store one element."""
    owner: dict[int, tuple[int, int]] = {}
    for x, y, i, j in product(
        range(3 if "x" in axes else 1), range(3 if "y" in axes else 1), range(X), range(Y)
    ):
        if owner.setdefault(element(x, y, i, j), (x, y)) != (x, y):
            return False
    return True


@pytest.mark.parametrize("name", CASES)
def test_races_of_a_program_without_a_grid(name: str) -> None:
    lines, axes, element = CASES[name]
    report = report_of(text_of(lines))
    assert not report.is_refused
    assert report.shared == 1
    if name == "every second element":  # `or` is no sum: free, and not shown to be
        assert is_free(axes, element)
        assert not report.race_free
    else:
        assert report.race_free == is_free(axes, element)
    along = f"along {' and '.join(axes)} alone" if axes else "of one workgroup"
    assert report.supposed == [f"@p, which no pipeline launches, runs over grids {along}"]


def test_a_grid_of_the_text_is_not_supposed() -> None:
    lines, _, _ = CASES["an element an invocation"]
    for grid, free in ((" grid(4)", 1), (" grid(4, 2)", 0)):
        report = report_of(text_of(lines, grid))
        assert (report.race_free, report.supposed) == (free, [])
