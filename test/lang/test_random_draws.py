"""Random numbers that come more than once are told, and the remedy is right; those that are meant to be in common are not."""

from __future__ import annotations

from pathlib import Path

from support.each import each
from support.warned import kernel_warnings

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.func
def normal(seed, i):
    u, v = vyre.rand(seed, 2 * i), vyre.rand(seed, 2 * i + 1)
    return vyre.sqrt(-2.0 * vyre.log(1.0 - u)) * vyre.cos(6.2831853 * v)

@vyre.program(workgroup=64)
def kernel(seed: u32, step: u32, x: Read[f32], rows: Read[f32[:, :]], y: Write[f32], state: ReadWrite[u32], w: Write[f32[:, :]]):
    i = vyre.global_id(0)
"""
SLICES = HEAD.replace("(workgroup=64)", "").replace("global_id", "workgroup_id")
PI = "n = u32(0)\nfor k in range(100):\n    u, v = vyre.rand(seed, 2 * k), vyre.rand(seed, 2 * k + 1)\n    if u * u + v * v < 1.0:\n        n += 1\n"
EACH_ROW = "w[i, :] = vyre.rand(seed, vyre.arange(w.shape[1]))"
TOLD = [
    # head, lines, words of the warning, and an edit that makes them right
    (HEAD, "y[i] = vyre.rand(seed, i) + vyre.rand(seed, i)", "such as 2 * i and 2 * i + 1", ("vyre.rand(seed, i) + vyre.rand(seed, i)", "vyre.rand(seed, 2 * i) + vyre.rand(seed, 2 * i + 1)")),
    (HEAD, "a = vyre.randint(seed, i) % 100\nif i < len(y):\n    y[i] = vyre.rand(seed, i) * f32(a)", "the earlier one is here", ("rand(seed, i) * f32", "rand(seed + 1, i) * f32")),
    (HEAD, "y[i] = normal(seed, i) * normal(seed, i)", "* normal(seed, i)\n               ", ("normal(seed, i) * normal(seed, i)", "normal(seed, 2 * i) * normal(seed, 2 * i + 1)")),
    (HEAD, "y[i] = vyre.rand(seed, 0)", "let the counter go by vyre.global_id(0), too", ("(seed, 0)", "(seed, i)")),
    (HEAD, f"{PI}vyre.atomic_add(state, 0, n)", "this is one number for all invocations", ("rand(seed, ", "rand(seed + i, ")),
    (HEAD, f"{PI}t = vyre.workgroup_reduce(n, 'add')\nif vyre.local_id(0) == 0:\n    state[vyre.workgroup_id(0)] = t", "it is added up here", ("rand(seed, ", "rand(seed + i, ")),
    (HEAD, "s = 0.0\nfor k in range(8):\n    s += vyre.rand(seed, i)\ny[i] = s", "let the counter go by k, too", ("(seed, i)", "(seed, i * 8 + k)")),
    (HEAD, "y[i] = vyre.rand(seed, vyre.local_id(0))", "this is one number for all workgroups", ("vyre.local_id(0)", "i")),
    (HEAD, "a = 0.0\nfor k in range(9):\n    a += vyre.rand(seed, vyre.local_id(0) * 9 + k)\ny[i] = a", "let the counter go by vyre.workgroup_id(0), too", ("vyre.local_id(0)", "i")),
    (SLICES, EACH_ROW, "let the counter go by vyre.workgroup_id(0), too", ("vyre.arange", "i * w.shape[1] + vyre.arange")),
]  # fmt: skip
SILENT = [
    (HEAD, "for k in range(i, len(y), vyre.global_size(0)):\n    y[k] = vyre.rand(seed, k)"),
    (HEAD, "y[i] = x[i] + vyre.rand(seed, vyre.local_id(0))"),
    (HEAD, "y[i] = vyre.rand(seed + vyre.workgroup_id(0), vyre.local_id(0))"),
    (HEAD, "y[vyre.local_id(0)] = vyre.rand(seed, vyre.local_id(0))"),
    (
        HEAD,
        "n, m = u32(0), u32(0)\nfor k in range(9):\n    m += 1\n    if vyre.rand(seed + i, k) < 0.5:\n        n += 1\nstate[i] = n\nstate[i + 64] = m",
    ),
    (HEAD, "y[i] = x[i] if vyre.rand(seed, step) < 0.5 else 0.0"),
    (HEAD, "y[i] = x[(i + vyre.randint(seed, 0) % len(x)) % len(x)]"),
    (HEAD, "for c in range(w.shape[1]):\n    w[i, c] = rows[i, c] if vyre.rand(seed, i) < 0.9 else 0.0"),
    (
        HEAD,
        "a = vyre.randint(seed, state[i])\nstate[i] += 1\nstate[i + 64] = a ^ vyre.randint(seed, state[i])",
    ),
    (HEAD, "if x[i] > 0.0:\n    y[i] = vyre.rand(seed, i)\nelse:\n    y[i] = -vyre.rand(seed, i)"),
    (HEAD, "if i == 0:\n    y[0] = vyre.rand(seed, 0)"),
    (HEAD, "for k in range(4):\n    y[i * 4 + k] = vyre.rand(seed, i * 4 + k)"),
    (
        SLICES,
        "keep = vyre.rand(seed, i * w.shape[1] + vyre.arange(w.shape[1])) < 0.9\nw[i, :] = vyre.where(keep, rows[i, :], 0.0)",
    ),
    (SLICES, "w[i, :] = vyre.where(vyre.rand(seed, vyre.arange(w.shape[1])) < 0.9, rows[i, :], 0.0)"),
]
"""A number in common, as that of a step or a row, may be meant; so may one of two branches."""


def _warned(tmp_path: Path, head: str, lines: str, name: str) -> list[str]:
    return [
        each for each in kernel_warnings(tmp_path, head, lines, name) if "number" in each.partition("\n")[0]
    ]


def test_numbers_that_come_again_are_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    def check(case: tuple[int, tuple[str, str, str, tuple[str, str]]]) -> None:
        number, (head, lines, words, (old, new)) = case
        (warning,) = _warned(tmp_path, head, lines, f"told_{number}")
        assert words in warning
        assert old in lines
        assert _warned(tmp_path, head, lines.replace(old, new), f"right_{number}") == []

    each(enumerate(TOLD), check)


def test_numbers_in_common_are_not_told(tmp_path: Path) -> None:
    def check(case: tuple[int, tuple[str, str]]) -> None:
        assert _warned(tmp_path, *case[1], f"silent_{case[0]}") == []

    each(enumerate(SILENT), check)
