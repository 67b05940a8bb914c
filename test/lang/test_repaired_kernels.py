"""Kernels that go wrong at their call: with the lines that the error says they run, and compute what is meant."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import numpy as np
import pytest
from support.each import each

from vyre_opt import DiagnosticError, ProgramError, ProgramWarning

HEAD = """import numpy as np
import vyre_opt as vyre
from vyre_opt.lang import *
"""
X = np.arange(256, dtype=np.float32)

RUN: list[tuple[str, str, list[tuple[str, str]], Any]] = [
    # kernels and their call on x and y, which goes wrong, words of the error, the changes that it says, and the result
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    t = vyre.shared(f32, 64)
    i = vyre.global_id(0)
    t[i] = x[i]
    vyre.barrier()
    y[i] = t[63 - vyre.local_id(0)]
kernel[4](x, y)""", "write t[vyre.local_id(0)]", [("t[i]", "t[vyre.local_id(0)]")], X.reshape(4, 64)[:, ::-1].ravel()),
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    y[i] = x[min(i + 1, len(x))] - x[i]
kernel[4](x, y)""", "write x[min(i + 1, len(x) - 1)]", [("min(i + 1, len(x))", "min(i + 1, len(x) - 1)")], np.diff(X, append=X[-1])),
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    last = len(x) - i
    y[i] = x[last]
kernel[4](x, y)""", "write last = len(x) - 1 - i", [("len(x) - i", "len(x) - 1 - i")], X[::-1]),
    ("""@vyre.program(workgroup=(8, 8))
def kernel(x: Read[f32[:, :]], y: Write[f32[:, :]]):
    t = vyre.shared(f32, (8, 8))
    r, c = vyre.global_id(1), vyre.global_id(0)
    t[r, c] = x[r, c]
    vyre.barrier()
    y[r, c] = t[vyre.local_id(0), vyre.local_id(1)]
kernel[2, 2](x.reshape(16, 16), y.reshape(16, 16))""", "write t[vyre.local_id(1), vyre.local_id(0)]", [("t[r, c]", "t[vyre.local_id(1), vyre.local_id(0)]")],
     X.reshape(2, 8, 2, 8).transpose(0, 3, 2, 1).ravel()),
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    t = vyre.shared(f32, 64)
    l, i = vyre.local_id(0), vyre.global_id(0)
    t[l] = x[i]
    vyre.barrier()
    if i > 0 and i + 1 < len(x):
        y[i] = (t[l - 1] + t[l] + t[l + 1]) / 3
kernel[4](x, y)""", "write t = vyre.shared(f32, 66), then t[l + 1] = x[i], then if l < 1 and i >= 1: t[l] = x[i - 1], "
     "then if l >= 63 and i + 1 < len(x): t[l + 2] = x[i + 1], and read t[l] for t[l - 1], t[l + 1] for t[l], t[l + 2] for t[l + 1]",
     [("f32, 64", "f32, 66"), ("(t[l - 1] + t[l] + t[l + 1])", "(t[l] + t[l + 1] + t[l + 2])"),
      ("    t[l] = x[i]\n", "    t[l + 1] = x[i]\n    if l < 1 and i >= 1: t[l] = x[i - 1]\n    if l >= 63 and i + 1 < len(x): t[l + 2] = x[i + 1]\n")],
     np.pad((X[:-2] + X[1:-1] + X[2:]) / 3, 1)),
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    t = vyre.shared(f32, 64)
    t[vyre.local_id(0)] = x[vyre.global_id(0)]
    vyre.barrier()
    y[vyre.global_id(0)] = t[vyre.local_id(0) + 2] if vyre.global_id(0) + 2 < len(x) else 0.0
kernel[4](x, y)""", "write t = vyre.shared(f32, 66), then t[vyre.local_id(0)] = x[vyre.global_id(0)], then if vyre.local_id(0) >= 62 "
     "and vyre.global_id(0) + 2 < len(x): t[vyre.local_id(0) + 2] = x[vyre.global_id(0) + 2]",
     [("f32, 64", "f32, 66"), ("    vyre.barrier", "    if vyre.local_id(0) >= 62 and vyre.global_id(0) + 2 < len(x): t[vyre.local_id(0) + 2] = x[vyre.global_id(0) + 2]\n    vyre.barrier")],
     np.pad(X[2:], (0, 2))),
    ("""@vyre.program(workgroup=64)
def partials(x: Read[f32], part: Write[f32]):
    w = vyre.workgroup_id(0)
    s = vyre.workgroup_reduce(x[vyre.global_id(0)] if vyre.global_id(0) < len(x) else 0.0, "add")
    if vyre.local_id(0) == 0:
        part[w] = s
@vyre.program(workgroup=64)
def spread(part: Read[f32], y: Write[f32]):
    l = vyre.local_id(0)
    y[l] = part[l] if l < len(part) else 0.0
@vyre.pipeline
def kernel(x: Read[f32], y: Write[f32]):
    part = vyre.buffer(f32, len(x) // 64)
    partials[vyre.ceil_div(len(x), 64)](x, part)
    spread[1](part, y)
kernel(x[:200], y)""", "write part = vyre.buffer(f32, vyre.ceil_div(len(x), 64)), which is as long as the launch",
     [("len(x) // 64", "vyre.ceil_div(len(x), 64)")], np.pad(np.add.reduceat(X[:200], [0, 64, 128, 192]), (0, 252))),
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i >= len(x):
        return
    s = vyre.workgroup_reduce(x[i], "add")
    y[i] = s
kernel[4](x, y)""", "leave the if with the return out, write v = x[i] if i < len(x) else 0, and below that s = vyre.workgroup_reduce(v, \"add\")",
     [("    if i >= len(x):\n        return\n", "    v = x[i] if i < len(x) else 0\n"), ("reduce(x[i]", "reduce(v")], np.repeat(X.reshape(4, 64).sum(1), 64)),
    ("""@vyre.program(workgroup=(8, 8))
def kernel(x: Read[f32[:, :]], y: Write[f32[:, :]]):
    c, r = vyre.global_id(0), vyre.global_id(1)
    if r < x.shape[0] and c < x.shape[1]:
        y[c, r] = x[r, c]
kernel[1, 4](x.reshape(32, 8), y.reshape(32, 8))""", "y is to have the shape (x.shape[1], x.shape[0]) here: pass such an array, or write y[r, c]",
     [("y.reshape(32, 8)", "y.reshape(8, 32)")], X.reshape(32, 8).T.ravel()),
    ("""@vyre.program(workgroup=64)
def kernel(x: Read[Float], y: Write[Float]):
    i = vyre.global_id(0)
    y[i] = x[i] + f32(0.1)
kernel[4](x.astype(np.float64), y)""", "write Float(0.1)", [("f32(0.1)", "Float(0.1)")], X + 0.1),
    ("""@vyre.program(workgroup=64)
def kernel(n: int, x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < n:
        y[i] = x[i]
kernel[4](64, x, y)""", "write n: u32", [("n: int", "n: u32")], np.where(X < 64, X, 0)),
    ("""@vyre.program(workgroup=64)
def kernel(n: int, x: Read[f32], y: Write[f32]):
    y[vyre.global_id(0)] = f32(n)
kernel[4](-1, x, y)""", "write n: i32", [("n: int", "n: i32")], X * 0 - 1),
]  # fmt: skip


def test_a_kernel_runs_with_what_its_error_says() -> None:
    def check(case: tuple[str, str, list[tuple[str, str]], Any]) -> None:
        lines, words, changes, want = case
        y = np.zeros(256, np.float64 if "float64" in lines else np.float32)

        def run(text: str, number: int) -> None:
            name = f"<kernel {RUN.index(case)}.{number}>"
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ProgramWarning)
                exec(compile(text, name, "exec"), {"x": X, "y": y, "__name__": "kernels"})

        text = HEAD + lines
        with pytest.raises((DiagnosticError, ProgramError)) as caught:
            run(text, 0)
        assert words in str(caught.value)
        for old, new in changes:
            assert old in text
            text = text.replace(old, new)
        run(text, 1)
        np.testing.assert_allclose(y, want, rtol=1e-6)

    each(RUN, check, lambda case: case[0])
