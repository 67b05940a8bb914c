"""What a wrong kernel or pipeline is told to write can be written: each row is a mistake, the place of its message, words of it, and
the same lines with the remedy, which are taken without a word."""

from __future__ import annotations

import ast
import re
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.modules import written_module
from support.warned import UNUSED

import vyre_opt
from vyre_opt import BadInputs, Diagnostic, DiagnosticError, ProgramWarning
from vyre_opt.ir.python_lines import guard

pytestmark = pytest.mark.filterwarnings(f"ignore:{UNUSED}")

HEAD = """import math
import numpy as np
import vyre_opt as vyre
from vyre_opt.lang import *

WEIGHTS = [0.25, 0.5, 0.25]

@vyre.func
def nothing(v):
    w = v + 1.0

@vyre.program(workgroup=64)
def double(x: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i] * 2.0

@vyre.program(workgroup=64)
def scale(x: Read[f32], s: f32, y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = x[i] * s

"""
LANES = """@vyre.program(workgroup=64)
def kernel(n: i32, x: Read[f32], m: Read[f32[:, :]], b: Read[u8], y: ReadWrite[f32], c: ReadWrite[u32[:, :]], w: Write[u32]):
    i = vyre.global_id(0)
"""
ROWS = """@vyre.program
def kernel(m: Read[f32[:, :]], x: Read[f32], z: ReadWrite[f32[:, :]]):
    r = vyre.workgroup_id(0)
    row = m[r, :]
"""
PIPELINE = """@vyre.pipeline
def kernel(x: Read[f32], m: Read[f32[:, :]], s: f32, y: Write[f32], z: Write[f32[:, :]]):
    double[1](x, y)
    vyre.math.softmax(m, z)
"""

WRONG: list[tuple[str, str, str, str, str]] = [
    # the head, the lines, what the message is at, words of its help, the lines with the remedy
    (LANES, "s = 0\nfor j in range(len(b)):\n    s += b[j]\nw[0] = s", "s", "begin with s = u32(0), and write s += u32(b[j])",
     "s = u32(0)\nfor j in range(len(b)):\n    s += u32(b[j])\nw[0] = s"),
    (LANES, "a = vyre.local((4,), np.float32)", "(4,)", "write vyre.local(f32, (4,))", "a = vyre.local(f32, (4,))"),
    (LANES, "a = vyre.local(np.float32, 4)", "np.float32", "write vyre.local(f32, 4)", "a = vyre.local(f32, 4)"),
    (LANES, "if i > 0 & i < 9:\n    y[i] = 1.0", "0 & i", "write i > 0 and i < 9", "if i > 0 and i < 9:\n    y[i] = 1.0"),
    (LANES, "y[i] == x[i]", "y[i] == x[i]", "write y[i] = x[i]", "y[i] = x[i]"),
    (LANES, "vyre.barrier", "vyre.barrier", "write vyre.barrier()", "vyre.barrier()"),
    (LANES, "k = vyre.global_id\ny[k + 1] = 0.0", "k + 1", "call it: vyre.global_id(0)", "k = vyre.global_id(0)\ny[k + 1] = 0.0"),
    (LANES, "y[vyre.workgroup_dim(0)] = 0.0", "vyre.workgroup_dim", "write vyre.workgroup_size(0)", "y[vyre.workgroup_size(0)] = 0.0"),
    (LANES, "y[vyre.grid(1)] = 0.0", "vyre.grid", "write vyre.global_id(0)", "y[vyre.global_id(0)] = 0.0"),
    (LANES, "y.fill(0)", "y.fill", "write x[i] = 0.0", "y[i] = 0.0"),
    (ROWS, "z[r, :] = m[r]", "r", "a row is m[r, :]", "z[r, :] = m[r, :]"),
    (LANES, "vyre.atomic_add(c, i, 1)", "i", "in an atomic (i, j)", "vyre.atomic_add(c, (i, 0), 1)"),
    (LANES, "for k, v in enumerate(x):\n    y[k] = v", "enumerate(x)", "write for k in range(len(x)): v = x[k]",
     "for k in range(len(x)):\n    v = x[k]\n    y[k] = v"),
    (LANES, "for k in range(3):\n    y[i] += WEIGHTS[k]", "k", "vyre.static(range(len(WEIGHTS)))",
     "for k in vyre.static(range(len(WEIGHTS))):\n    y[i] += WEIGHTS[k]"),
    (LANES, "WEIGHTS[0] = x[i]", "WEIGHTS[0]", "vyre.local(f32, 8)", "own = vyre.local(f32, 8)\nown[0] = x[i]\ny[i] = own[0]"),
    (LANES, "for j in range(3):\n    y[j] = 0.0\ny[j] = 1.0", "j", "last = 0 before the loop, and last = j in it",
     "last = 0\nfor j in range(3):\n    y[j] = 0.0\n    last = j\ny[last] = 1.0"),
    (LANES, "WEIGHTS += 1.0", "WEIGHTS", "begin with a number, or store in an array argument", "weight = 1.0\ny[i] = weight"),
    (PIPELINE, "WEIGHTS = WEIGHTS * 2", "WEIGHTS", "begin with a number", "weights = 2"),
    (LANES, "best = None", "None", "-math.inf", "best = -math.inf\ny[i] = best"),
    (LANES, "y[i] = x.vec(4)[i].x", "x.vec(4)[i].x", "write x.vec(4)[i][0]", "y[i] = x.vec(4)[i][0]"),
    (LANES, "h, k = x.shape", "h, k", "x has 1 dimension, and len(x) elements", "h = len(x)\ny[h - 1] = 0.0"),
    (LANES, "y[m.shape[2]] = 0.0", "m.shape[2]", "it has 2 parts, 0 to 1", "y[m.shape[1]] = 0.0"),
    (LANES, "for t in range(0, 1, 0.1):\n    y[i] += t", "0.1", "for k in range(10): t = f32(k) * 0.1",
     "for k in range(10):\n    t = f32(k) * 0.1\n    y[i] += t"),
    (LANES, "for k in range(x):\n    y[k] = 0.0", "x", "write range(len(x))", "for k in range(len(x)):\n    y[k] = 0.0"),
    (LANES, "y[i] = x[i] ^ 2", "x[i] ^ 2", "write x[i] ** 2", "y[i] = x[i] ** 2"),
    (LANES, "y[i] = x[i] ^ n", "x[i] ^ n", "^ takes integers and bools", "y[i] = f32(u32(x[i]) ^ u32(n))"),
    (LANES, "if (x[i] > 0.0) & n:\n    y[i] = 1.0", "(x[i] > 0.0) & n", "write (n != 0)", "if (x[i] > 0.0) & (n != 0):\n    y[i] = 1.0"),
    (LANES, "tile = vyre.shared(f32, 8, 8)", "8", "write vyre.shared(f32, (8, 8))",
     "tile = vyre.shared(f32, (8, 8))\ntile[0, 0] = 0.0\nvyre.barrier()\ny[i] = tile[0, 0]"),
    (ROWS, "if row > 0:\n    z[r, :] = row\nelse:\n    z[r, :] = row * 0.1", "row > 0", "write z[r, :] = vyre.where(row > 0, row, row * 0.1)", "z[r, :] = vyre.where(row > 0, row, row * 0.1)"),
    (ROWS, "if row < 0.0:\n    z[r, :] = 0.0\nelif row > 6.0:\n    z[r, :] = 6.0\nelse:\n    z[r, :] = row", "row < 0.0",
     "write z[r, :] = vyre.where(row < 0.0, 0.0, vyre.where(row > 6.0, 6.0, row))", "z[r, :] = vyre.where(row < 0.0, 0.0, vyre.where(row > 6.0, 6.0, row))"),
    (ROWS, "if row > 1.0:\n    row *= 0.5\nz[r, :] = row", "row > 1.0", "write row *= vyre.where(row > 1.0, 0.5, 1)", "row *= vyre.where(row > 1.0, 0.5, 1)\nz[r, :] = row"),
    (ROWS, "if row > 1.0:\n    row = row * 0.5\nz[r, :] = row", "row > 1.0", "write row = vyre.where(row > 1.0, row * 0.5, row)",
     "row = vyre.where(row > 1.0, row * 0.5, row)\nz[r, :] = row"),
    (ROWS, "if row > 1.0:\n    z[r, 0] = 1.0\n    z[r, 1] = 1.0", "row > 1.0", "instead of the if; vyre.any(row > 1.0) is whether it holds for one",
     "if vyre.any(row > 1.0):\n    z[r, 0] = 1.0\n    z[r, 1] = 1.0"),
    (LANES, "v = x.vec(4)[i]\nif v > 0.0:\n    v = v * 2.0\ny.vec(4)[i] = v", "v > 0.0", "write v = vyre.select(v > 0.0, v * 2.0, v)", "v = x.vec(4)[i]\nv = vyre.select(v > 0.0, v * 2.0, v)\ny.vec(4)[i] = v"),
    (ROWS, "row[row < 0] = 0.0", "row[row < 0]", "write row = vyre.where(row < 0, 0.0, row)",
     "row = vyre.where(row < 0, 0.0, row)\nz[r, :] = row"),
    (ROWS, "at = r * 4 + vyre.arange(4)\nz[r, at] = 0.0", "0.0", "write a block, y[first : first + 64]", "z[r, r * 4 : r * 4 + 4] = 0.0"),
    (ROWS, "z[r, 0] = vyre.sum(x)", "x", "write x[:]", "z[r, 0] = vyre.sum(x[:])"),
    (LANES, "if i in (1, 2):\n    y[i] = 0.0", "i in (1, 2)", "write i == 1 or i == 2", "if i == 1 or i == 2:\n    y[i] = 0.0"),
    (LANES, "if x is not None:\n    y[i] = 0.0", "x is not None", "leave it out", "y[i] = 0.0"),
    (LANES, "v = i\nif i < 4:\n    v = x[i]\ny[i] = v", "v", "v = f32(...)", "v = f32(i)\nif i < 4:\n    v = x[i]\ny[i] = v"),
    (LANES, "y[vyre.global_id(3)] = 0.0", "3", "write vyre.global_id(0)", "y[vyre.global_id(0)] = 0.0"),
    (LANES, "y[i] = m[i][0]", "i", "an element is m[i, j]", "y[i] = m[i, 0]"),
    (LANES, "y[i] = x[i][0]", "x[i][0]", "write x[i, 0]", "y[i] = m[i, 0]"),
    (LANES, "t = (x[i], 1.0)\ny[i] = max(*t)", "*t", "write max(t[0], t[1])", "t = (x[i], 1.0)\ny[i] = max(t[0], t[1])"),
    (LANES, "assert x[i] > 0, f'bad {i}'", "f'bad {i}'", 'assert p, "what went wrong"', 'print(f"i={i}")\nassert x[i] > 0, "bad"'),
    (LANES, "y[x['a']] = 0.0", "'a'", "write x[i]", "y[u32(x[i])] = 0.0"),
    (LANES, "y[i] = (x[i] > 1.0) * x[i]", "(x[i] > 1.0) * x[i]", "write f32(x[i] > 1.0)", "y[i] = f32(x[i] > 1.0) * x[i]"),
    (LANES, "y[i] = f32((x[i] > 1.0) + (x[i] > 2.0))", "(x[i] > 1.0) + (x[i] > 2.0)", "u32(...) is 1", "y[i] = f32(u32(x[i] > 1.0) + u32(x[i] > 2.0))"),
    (LANES, "v: int = 3\ny[i] = f32(v)", "int", "write v: i32", "v: i32 = 3\ny[i] = f32(v)"),
    (LANES, "y[i] = y_old[i]", "y_old", "take it as an argument", "y[i] = x[i]"),
    (ROWS, "z[r, 0] = row[0]", "row[0]", "read it from the array: m[r, 0]", "z[r, 0] = m[r, 0]"),
    (ROWS, "z[r, :] = row / vyre.sum(row, axis=1)", "1", "leave axis= out", "z[r, :] = row / vyre.sum(row)"),
    (ROWS, "z[r, :] = m[r, : len(x) // 2]", "len(x) // 2", "write m[r, vyre.arange(len(x) // 2)]", "z[r, :] = m[r, vyre.arange(len(x) // 2)]"),
    (ROWS, "z[r, 0] = vyre.sum(x[r : len(x) - r])", "len(x) - r", "write x[r + vyre.arange(len(x) - r - r)]",
     "z[r, 0] = vyre.sum(x[r + vyre.arange(len(x) - r - r)])"),
    (ROWS, "z[r, 0] = vyre.sum(x[r : r + len(m)])", "len(m)", "write x[r + vyre.arange(len(m))]", "z[r, 0] = vyre.sum(x[r + vyre.arange(len(m))])"),
    (ROWS, "z[r, :] = m[r, ::2]", "2", "write m[r, 2 * vyre.arange(vyre.ceil_div(m.shape[1], 2))]",
     "z[r, :] = m[r, 2 * vyre.arange(vyre.ceil_div(m.shape[1], 2))]"),
    (ROWS, "z[r, :] = m[r, ::-1]", "-1", "write m[r, m.shape[1] - 1 - vyre.arange(m.shape[1])]", "z[r, :] = m[r, m.shape[1] - 1 - vyre.arange(m.shape[1])]"),
    (ROWS, "z[r, 0:8] = m[r, 3:19:2]", "2", "write m[r, 3 + 2 * vyre.arange(8)]", "z[r, 0:8] = m[r, 3 + 2 * vyre.arange(8)]"),
    (ROWS, "z[r, 0] = vyre.sum(row[row > 0.0])", "row[row > 0.0]", "write vyre.where(row > 0.0, row, 0)", "z[r, 0] = vyre.sum(vyre.where(row > 0.0, row, 0))"),
    (ROWS, "z[r, 0] = vyre.sum(m[r, row > 0.0])", "row > 0.0", "write vyre.where(row > 0.0, m[r, :], 0)",
     "z[r, 0] = vyre.sum(vyre.where(row > 0.0, m[r, :], 0))"),
    (ROWS, "z[r, row > 0.0] = 1.0", "row > 0.0", "write z[r, :] = vyre.where(row > 0.0, 1.0, z[r, :])", "z[r, :] = vyre.where(row > 0.0, 1.0, z[r, :])"),
    (ROWS, "z[r, :] = vyre.zeros(32, f32)", "vyre.zeros", "write z[r, 0:32] = vyre.zeros(32, f32)", "z[r, 0:32] = vyre.zeros(32, f32)"),
    (ROWS, "z[0:16, 0:16] = m[0:16, 0:8] @ m[0:16, 0:8]", "m[0:16, 0:8] @", "write m[0:16, 0:8] @ m[0:16, 0:8].T", "z[0:16, 0:16] = m[0:16, 0:8] @ m[0:16, 0:8].T"),
    (LANES, "best = vyre.zeros(2, f32)\nfor k in range(3):\n    if x[k] > best[0]:\n        best[1] = x[k]\ny[i] = best[1]", "best[0]", "best = vyre.local(f32, 2)",
     "best = vyre.local(f32, 2)\nfor k in range(3):\n    if x[k] > best[0]:\n        best[1] = x[k]\ny[i] = best[1]"),
    (LANES, "y[i] = n[i]", "n[i]", "declare it n: Read[i32]", "y[i] = f32(n)"),
    (ROWS, "z[r, :] = vyre.where(row > 1.0 and row < 6.0, row, 0.0)", "row > 1.0", "write (row > 1.0) & (row < 6.0)",
     "z[r, :] = vyre.where((row > 1.0) & (row < 6.0), row, 0.0)"),
    (ROWS, "z[r, :] = vyre.where(row < 1.0 or not row < 6.0, row, 0.0)", "row < 1.0", "write (row < 1.0) | (row >= 6.0)",
     "z[r, :] = vyre.where((row < 1.0) | (row >= 6.0), row, 0.0)"),
    (ROWS, "z[r, :] = vyre.where(not row < 6.0, row, 0.0)", "row < 6.0", "write row >= 6.0", "z[r, :] = vyre.where(row >= 6.0, row, 0.0)"),
    (ROWS, "z[r, :] = vyre.where(not (row > 1.0 and row < 6.0), row, 0.0)", "row > 1.0", "write ~((row > 1.0) & (row < 6.0))",
     "z[r, :] = vyre.where(~((row > 1.0) & (row < 6.0)), row, 0.0)"),
    (ROWS, "z[r, :] = vyre.where(1.0 < row < 6.0, row, 0.0)", "1.0 < row < 6.0", "write (1.0 < row) & (row < 6.0)",
     "z[r, :] = vyre.where((1.0 < row) & (row < 6.0), row, 0.0)"),
    (ROWS, "z[r, :] = vyre.where(row > 1.0 & row < 6.0, row, 0.0)", "1.0 & row", "write (row > 1.0) & (row < 6.0)",
     "z[r, :] = vyre.where((row > 1.0) & (row < 6.0), row, 0.0)"),
    (ROWS, "t = 0.0\nfor v in m[r, :]:\n    t += v", "m[r, :]", "write vyre.sum(m[r, :]), or for i in range(m.shape[1]): v = m[r, i]",
     "t = 0.0\nfor i in range(m.shape[1]):\n    v = m[r, i]\n    t += v\nz[r, 0] = t"),
    (ROWS, "t = 0.0\nfor v in row:\n    t += v", "row", "write vyre.sum(row), or for i in range(m.shape[1]): v = m[r, i]", "z[r, 0] = vyre.sum(row)"),
    (ROWS, "for j, v in enumerate(m[r, :]):\n    z[r, j] = v", "enumerate(m[r, :])", "write for j in range(m.shape[1]): v = m[r, j]",
     "for j in range(m.shape[1]):\n    v = m[r, j]\n    z[r, j] = v"),
    (LANES, "i, k = vyre.global_id()\ny[i] = m[i, k]", "i, k", "write i, k = vyre.global_id(1), vyre.global_id(0)",
     "i, k = vyre.global_id(1), vyre.global_id(0)\ny[i] = m[i, k]"),
    (LANES, "w[i] = 1 << 40", "1 << 40", "write a number from 0 to 4294967295, or declare w: Write[i64]", "w[i] = 1 << 31"),
    (LANES, "tile = vyre.shared(f32, 64)\nk = vyre.local_id(0)\nif k >= len(x):\n    return\ntile[k] = x[k]\nvyre.barrier()\ny[i] = tile[k]",
     "vyre.barrier", "do not return before vyre.barrier: write if k < len(x):",
     "tile = vyre.shared(f32, 64)\nk = vyre.local_id(0)\nif k < len(x):\n    tile[k] = x[k]\nvyre.barrier()\nif k < len(x):\n    y[i] = tile[k]"),
    (PIPELINE, "t = vyre.buffer(len(x))", "vyre.buffer(len(x))", "write vyre.buffer(f32, len(x))", "t = vyre.buffer(f32, len(x))\ndouble[1](x, t)\ndouble[1](t, y)"),
    (LANES, "best = i\nfor j in range(8):\n    if x[j] > 3.0:\n        best = x[j]\ny[i] = f32(best)", "best = x[j]", "begin with best = f32(i)",
     "best = f32(i)\nfor j in range(8):\n    if x[j] > 3.0:\n        best = x[j]\ny[i] = best"),
    (LANES, "best = x[0]\nfor j in range(8):\n    best = i\ny[i] = best", "best = i", "convert what is assigned, best = f32(i)",
     "best = x[0]\nfor j in range(8):\n    best = f32(i)\ny[i] = best"),
    (LANES, "n[i] = 1", "n[i]", "declare it n: Write[i32]", "y[i] = f32(n)"),
    (LANES, "y[vyre.global_id.x] = 1.0", "vyre.global_id.x", "write vyre.global_id(0)", "y[vyre.global_id(0)] = 1.0"),
    (LANES, "max = x[0]\ny[i] = max(max, x[1])", "max", "give a value another name, such as max_of_x", "max_of_x = x[0]\ny[i] = max(max_of_x, x[1])"),
    (LANES, "vyre.atomic_add(y[0], x[i])", "y[0]", "write vyre.atomic_add(y, 0, x[i])", "vyre.atomic_add(y, 0, x[i])"),
    (LANES, "vyre.atomic_add(c[i, 0], 1)", "c[i, 0]", "write vyre.atomic_add(c, (i, 0), 1)", "vyre.atomic_add(c, (i, 0), 1)"),
    (LANES, 'y[i] = vyre.subgroup_reduce(x[i], "sum")', '"sum"', 'write "add"', 'y[i] = vyre.subgroup_reduce(x[i], "add")'),
    (LANES, "k = blockIdx.x * blockDim.x + threadIdx.x\ny[k] = 1.0", "blockIdx", "write vyre.global_id(0)", "k = vyre.global_id(0)\ny[k] = 1.0"),
    (LANES, "y[i] = np.sqrt(x[i] + 1.0)", "np.sqrt", "write vyre.sqrt(x[i] + 1.0)", "y[i] = vyre.sqrt(x[i] + 1.0)"),
    (LANES, "y[i] = np.clip(x[i], 0.0, 6.0)", "np.clip", "write min(max(x[i], 0.0), 6.0)", "y[i] = min(max(x[i], 0.0), 6.0)"),
    (LANES, "y[i] = x[i * 0.5]", "i * 0.5", "write i // 2", "y[i] = x[i // 2]"),
    (LANES, "c[0, i] += x[i]", "c[0, i] += x[i]", "write u32(x[i])", "c[0, i] += u32(x[i])"),
    (LANES, "y[i] = m.T[n, i]", "m.T", "write m[i, n]", "y[i] = m[i, n]"),
    (LANES, "len = 4\ny[i] = f32(len(x))", "len", "give a value another name", "length = 4\ny[i] = f32(length)"),
    (LANES, "y[vyre.workgroup_id[0]] = 1.0", "vyre.workgroup_id[0]", "write vyre.workgroup_id(0)", "y[vyre.workgroup_id(0)] = 1.0"),
    (LANES, "y[i] = torch.relu(x[i])", "torch.relu", "write max(x[i], 0.0)", "y[i] = max(x[i], 0.0)"),
    (LANES, "old = y[0]\nwhile old < x[i]:\n    seen = vyre.atomic_compare_exchange(y, 0, old, x[i])\n    if seen == old:\n        break\n    old = seen",
     "vyre.atomic_compare_exchange(y, 0, old, x[i])", "write vyre.atomic_max(y, 0, x[i]) in the place of the loop", "vyre.atomic_max(y, 0, x[i])"),
    (LANES, "old = y[0]\nfor k in range(9):\n    old = vyre.atomic_compare_exchange(y, 0, old, old + x[i])",
     "vyre.atomic_compare_exchange(y, 0, old, old + x[i])", "write vyre.atomic_add(y, 0, x[i]) in the place of the loop", "vyre.atomic_add(y, 0, x[i])"),
    (LANES, "y = y.at[i].set(x[i] * 2.0)", "y.at", "write y[i] = x[i] * 2.0", "y[i] = x[i] * 2.0"),
    (LANES, "y = y.at[i].add(x[i])", "y.at", "write y[i] += x[i]", "y[i] += x[i]"),
    (LANES, "y[i] = nothing(x[i])", "nothing(x[i])", "nothing has no return: end it with return and what it computes", "y[i] = x[i]"),
    (LANES, "k, t = 1, vyre.local(f32, 4)\nt[k] = x[i]\ny[i] = t[k]", "1, vyre.local(f32, 4)", "write t = vyre.local(f32, 4) in a line of its own", "k = 1\nt = vyre.local(f32, 4)\nt[k] = x[i]\ny[i] = t[k]"),
    (LANES, "y[i] = float(x[i])", "float", "write f32(x[i])", "y[i] = f32(x[i])"),
    (PIPELINE, "t = np.zeros(len(x), np.float32)", "np.zeros(len(x), np.float32)", "write t = vyre.zeros(len(x), f32)",
     "t = vyre.zeros(len(x), f32)\ndouble[1](t, y)"),
    (PIPELINE, "double[math.ceil(len(x) / 64)](x, y)", "math.ceil(len(x) / 64)", "write vyre.ceil_div(len(x), 64)",
     "double[vyre.ceil_div(len(x), 64)](x, y)"),
    (PIPELINE, "double[len(x) / 64](x, y)", "len(x) / 64", "write len(x) // 64", "double[len(x) // 64](x, y)"),
    (PIPELINE, "double[1](x[0:64], y)", "x[0:64]", "pass x", "double[1](x, y)"),
    (PIPELINE, "scale[1](x, y, s)", "s", "scale takes an array for y; it is scale(x, s, y)", "scale[1](x, s, y)"),
    (PIPELINE, "scale[1](x, s * 2, y)", "s * 2", "compute it in scale", "scale[1](x, s, y)"),
    (PIPELINE, "double[1](y, x)", "double[1](y, x)", "x and y are exchanged, y is what double writes: write double[1](x, y)", "double[1](x, y)"),
    (PIPELINE, "scale[1](y, s, x)", "scale[1](y, s, x)", "write scale[1](x, s, y)", "scale[1](x, s, y)"),
    (PIPELINE, "print(y)", "print(y)", "after the call of the pipeline", "pass"),
    (PIPELINE, "return y", "return y", "leave it out", "pass"),
    (PIPELINE, "vyre.softmax(m, z)", "vyre.softmax", "write vyre.math.softmax(...)", "vyre.math.softmax(m, z)"),
    (PIPELINE, "q = double[1](x, y)", "double[1](x, y)", "on a line of its own, double[1](x, y)", "double[1](x, y)"),
    (PIPELINE, "g = (1, 1)\ndouble[g](x, y)", "g", "write double[g[0], g[1]]", "g = (1, 1)\ndouble[g[0], g[1]](x, y)"),
    (PIPELINE, "t = vyre.shared(f32, 64)", "vyre.shared(f32, 64)", "write t = vyre.buffer(f32, 256)",
     "t = vyre.buffer(f32, 256)\ndouble[4](x, t)\ndouble[4](t, y)"),
    (PIPELINE, "t = vyre.buffer(np.float32, 64)", "np.float32", "write f32", "t = vyre.buffer(f32, 64)\ndouble[1](x, t)\ndouble[1](t, y)"),
    (PIPELINE, "while len(x):\n    double[1](x, y)", "while len(x):", "write for _ in range(3)", "for _ in range(1):\n    double[1](x, y)"),
    (PIPELINE, "t = double[1](x)\ndouble[1](t, y)", "double[1](x)", "write t = vyre.buffer(f32, len(x)), and below it double[1](x, t)", "t = vyre.buffer(f32, len(x))\ndouble[1](x, t)\ndouble[1](t, y)"),
    (PIPELINE, "z = vyre.kernels.softmax(m)", "vyre.kernels.softmax(m)", "write vyre.math.softmax(m, z)", "vyre.math.softmax(m, z)"),
    (LANES, "j = m.shape[1] - 1\nwhile j > -1 and m[i, j] <= 0.0:\n    j -= 1\ny[i] = f32(j)", "-1", "write j = i32(m.shape[1]) - 1, which",
     "j = i32(m.shape[1]) - 1\nwhile j > -1 and m[i, j] <= 0.0:\n    j -= 1\ny[i] = f32(j)"),
    (LANES, "y[i] = vyre.sqrt(b[i])", "vyre.sqrt(b[i])", "write vyre.sqrt(f32(b[i]))", "y[i] = vyre.sqrt(f32(b[i]))"),
    (LANES, "y[i] = x[i] + f64(0.5)", "x[i] + f64(0.5)", "write f32(0.5)", "y[i] = x[i] + f32(0.5)"),
    (PIPELINE, "double[1](x, out=y)", "double[1](x, out=y)", "it is double(x, y)", "double[1](x, y=y)"),
]  # fmt: skip


def module_of(folder: Path, head: str, lines: str, name: str) -> Any:
    body = "".join(f"    {line}\n" for line in lines.split("\n"))
    return written_module(folder, f"{HEAD}{head}{body}", name)


def test_a_remedy_can_be_written(tmp_path: Path) -> None:
    def check(case: tuple[int, tuple[str, str, str, str, str]]) -> None:
        number, (head, lines, place, help, right) = case
        with pytest.raises(DiagnosticError) as caught:
            module_of(tmp_path, head, lines, f"wrong_{number}").kernel.text()
        error = caught.value.diagnostics[0]
        assert error.loc is not None
        assert help in (error.help or "") or help in error.message
        shown = error.loc.source.text[error.loc.start : error.loc.end]
        assert shown.startswith(place) or place.startswith(shown)
        assert error.loc.line > HEAD.count("\n") + head.count("\n"), "it is in the lines"
        assert module_of(tmp_path, head, right, f"right_{number}").kernel.text()

    each(enumerate(WRONG), check, lambda case: case[1][1])


GROUPS = """@vyre.program
def kernel(n: i32, b: u32, x: Read[f32], m: Read[f32[:, :]], v: Write[f32], y: ReadWrite[f32[:, :]]):
    r = vyre.workgroup_id(0)
    row = m[r, :]
    block = m.filled(0)[r * 2 : r * 2 + 2, 0:4]
"""
LITERAL: list[tuple[str, str, str]] = [
    # the head, the lines, and the lines with what the help says, as it stands, in the place of the mistake or of its statement
    (LANES, "vyre.exp(x[i], out=y[i])", "y[i] = vyre.exp(x[i])"),
    (LANES, "np.exp(x[i], out=y[i])", "y[i] = vyre.exp(x[i])"),
    (LANES, "vyre.exp(x[i], y[i])", "y[i] = vyre.exp(x[i])"),
    (LANES, "y = x[i] * 2.0", "y[i] = x[i] * 2.0"),
    (LANES, "y += x[i]", "y[i] += x[i]"),
    (LANES, "y = x * 2.0", "y[i] = x[i] * 2.0"),
    (LANES, "y[i] = x + x[i]", "y[i] = x[i] + x[i]"),
    (LANES, "w[i] = tl.cdiv(i, 4)", "w[i] = vyre.ceil_div(i, 4)"),
    (LANES, "y[i] = np.dot(x[i], x[0])", "y[i] = x[i] * x[0]"),
    (LANES, "w[i] = b[0] + b[1]", "w[i] = u32(b[0]) + u32(b[1])"),
    (LANES, "y[2 * i / 2] = x[i]", "y[(2 * i) // 2] = x[i]"),
    (LANES, "y[i] = x[(i + 2) / 2]", "y[i] = x[(i + 2) // 2]"),
    (LANES, "y[i] = math.sqrt(x[i])", "y[i] = vyre.sqrt(x[i])"),
    (LANES, "y[i] = np.sqrt(i)", "y[i] = vyre.sqrt(f32(i))"),
    (LANES, "y[i] = vyre.exp(i)", "y[i] = vyre.exp(f32(i))"),
    (LANES, "atomicAdd(c[i, 0], 1)", "vyre.atomic_add(c, (i, 0), 1)"),
    (LANES, "cuda.atomic.add(y, i, 1)", "vyre.atomic_add(y, i, 1)"),
    (LANES, "acc = [0.0] * 4\nacc[0] = x[i]", "acc = vyre.local(f32, 4)\nacc[0] = x[i]"),
    (LANES, "i, j = cuda.grid(2)\ny[i] = m[i, j]", "i, j = vyre.global_id(0), vyre.global_id(1)\ny[i] = m[i, j]"),
    (LANES, "t = cuda.shared.array(64, dtype=float32)\nt[0] = 1.0", "t = vyre.shared(f32, 64)\nt[0] = 1.0"),
    (LANES, "y[i] = x[i] + np.random.rand()", "y[i] = x[i] + vyre.rand(42, i)"),
    (LANES, "raise ValueError('bad')", "vyre.trap('bad')"),
    (GROUPS, "y[r, :] = torch.softmax(row, dim=-1)", "y[r, :] = vyre.exp(row - vyre.max(row)) / vyre.sum(vyre.exp(row - vyre.max(row)))"),
    (GROUPS, "y[r, :] = np.where(row > 0, row, 0.1 * row)", "y[r, :] = vyre.where(row > 0, row, 0.1 * row)"),
    (GROUPS, "y[r, :] = m[r]", "y[r, :] = m[r, :]"),
    (GROUPS, "v[r] = row @ row", "v[r] = vyre.sum(row * row)"),
    (GROUPS, "v[r] = np.linalg.norm(row)", "v[r] = vyre.sqrt(vyre.sum(row * row))"),
    (GROUPS, "y[r, :] = row.astype(np.float32)", "y[r, :] = f32(row)"),
    (LANES, "q = x.vec(4)[i]\ny[i] = sum(q)", "q = x.vec(4)[i]\ny[i] = q[0] + q[1] + q[2] + q[3]"),
    (LANES, "q = x.vec(4)[i]\ny[i] = max(q)", "q = x.vec(4)[i]\ny[i] = max(q[0], q[1], q[2], q[3])"),
    (GROUPS, "y[r, :] = m[r, :].copy()", "y[r, :] = m[r, :]"),
    (GROUPS, "v[r] = max(row)", "v[r] = vyre.max(row)"),
    (GROUPS, "v[r] = sum(m[r, :])", "v[r] = vyre.sum(m[r, :])"),
    (GROUPS, "y[r, :] = row if row > 0 else 0.0", "y[r, :] = vyre.where(row > 0, row, 0.0)"),
    (GROUPS, "v[r] = vyre.sum(m[:, r])", "v[r] = vyre.sum(m[vyre.arange(m.shape[0]), r])"),
    (GROUPS, "return vyre.sum(row), vyre.exp(row)", "v[r] = vyre.sum(row); y[r, :] = vyre.exp(row)"),
    (GROUPS, "vyre.exp(row, out=y[r, :])", "y[r, :] = vyre.exp(row)"),
    (GROUPS, "vyre.sum(m[r, :], out=v)", "v[r] = vyre.sum(m[r, :])"),
    (GROUPS, "y = vyre.exp(row)", "y[r, :] = vyre.exp(row)"),
    (GROUPS, "y[r, ...] = m[r, ...]", "y[r, :] = m[r, :]"),
    (GROUPS, "y[r, 1:] = row[1:] - row[:-1]", "y[r, 1:] = m[r, 1:] - m[r, vyre.arange(m.shape[1] - 1)]"),
    (GROUPS, "v[1:] = x[1:] - x[:-1]", "v[1:] = x[1:] - x[vyre.arange(len(x) - 1)]"),
    (GROUPS, "v[r] = vyre.sum(x[r * b : (r + 1) * b])", "v[r] = vyre.sum(x[r * b + vyre.arange(b)])"),
    (GROUPS, "v[r] = vyre.sum(x[-4:])", "v[r] = vyre.sum(x[len(x) - 4:])"),
    (GROUPS, "y[r, :n] = m[r, :n]", "for k in range(u32(n)): y[r, k] = m[r, k]"),
    (GROUPS, "v[r * b : r * b + b] = x[r * b : r * b + b] * 2.0", "for k in range(b): v[r * b + k] = x[r * b + k] * 2.0"),
    (GROUPS, "v[:-1] = x[1:]", "for k in range(len(v) - 1): v[k] = x[1 + k]"),
    (GROUPS, "n2 = triton.next_power_of_2(m.shape[1])\ny[r, :] = row * f32(n2)", "n2 = m.shape[1]\ny[r, :] = row * f32(n2)"),
    (GROUPS, "v[r] = np.dot(row, x[:])", "v[r] = vyre.sum(row * x[:])"),
    (GROUPS, "y[r * 2 : r * 2 + 2, 0:2] = tl.dot(block, block.T)", "y[r * 2 : r * 2 + 2, 0:2] = block @ block.T"),
    (GROUPS, "y[r * 2 : r * 2 + 2, 0:2] = vyre.dot(block, block.T)", "y[r * 2 : r * 2 + 2, 0:2] = block @ block.T"),
    (GROUPS, "v[r] = np.mean(row)", "v[r] = vyre.sum(row) / f32(len(row))"),
    (GROUPS, "v[r] = tl.sum(row, axis=0)", "v[r] = vyre.sum(row)"),
    (GROUPS, "y[r * 2 : r * 2 + 2, 0:4] = block - vyre.sum(block, axis=1)", "y[r * 2 : r * 2 + 2, 0:4] = block - vyre.sum(block, axis=1, keepdims=True)"),
    (GROUPS, "v[r * 64 : r * 64 + 64] = tl.load(x + r * 64 + vyre.arange(64), mask=r < 9, other=-1.0)", "v[r * 64 : r * 64 + 64] = x.filled(-1.0)[r * 64 : r * 64 + 64]"),
    (GROUPS, "v[r] = vyre.load(x + r)", "v[r] = x[r]"),
    (GROUPS, "tl.store(v + r * 64 + vyre.arange(64), 1.0, mask=r < 9)", "v[r * 64 : r * 64 + 64] = 1.0"),
    (GROUPS, "v[0:64] = tl.load(x + (vyre.arange(64) ^ 1), mask=vyre.arange(64) < 9)",
     "v[0:64] = vyre.where(vyre.arange(64) < 9, x[vyre.where(vyre.arange(64) < 9, vyre.arange(64) ^ 1, 0)], 0)"),
    (GROUPS, "v[r * 2 : r * 2 + 2] = np.max(block, 1)", "v[r * 2 : r * 2 + 2] = vyre.max(block, axis=1)"),
    (GROUPS, "v[r * 2 : r * 2 + 2] = block.max(1)", "v[r * 2 : r * 2 + 2] = vyre.max(block, axis=1)"),
    (GROUPS, "v[r * 2 : r * 2 + 2] = block.sum(axis=1)", "v[r * 2 : r * 2 + 2] = vyre.sum(block, axis=1)"),
    (GROUPS, "v[r * 2 : r * 2 + 2] = torch.mean(block, dim=-1)", "v[r * 2 : r * 2 + 2] = vyre.sum(block, axis=-1) / f32(block.shape[1])"),
    (GROUPS, "v[r] = np.mean(block)", "v[r] = vyre.sum(block) / f32(block.shape[0] * block.shape[1])"),
    (GROUPS, "v[r * 2 : r * 2 + 2] = np.linalg.norm(block - 1.0, axis=1)", "v[r * 2 : r * 2 + 2] = vyre.sqrt(vyre.sum((block - 1.0) * (block - 1.0), axis=1))"),
    (GROUPS, "y[r * 2 : r * 2 + 2, 0:4] = torch.softmax(block, dim=1)",
     "y[r * 2 : r * 2 + 2, 0:4] = vyre.exp(block - vyre.max(block, axis=1, keepdims=True)) / vyre.sum(vyre.exp(block - vyre.max(block, axis=1, keepdims=True)), axis=1, keepdims=True)"),
    (GROUPS, "y[r * 2 : r * 2 + 2, 0:4] = np.cumsum(block, axis=1)", "y[r * 2 : r * 2 + 2, 0:4] = vyre.cumsum(block, axis=1)"),
    (GROUPS, "v[r] = row.max()", "v[r] = vyre.max(row)"),
    (GROUPS, "v[r] = vyre.max(row, 0)", "v[r] = vyre.max(row, axis=0)"),
    (GROUPS, "y[r, :] = row - vyre.max(row, 0, keepdims=True)", "y[r, :] = row - vyre.max(row, axis=0, keepdims=True)"),
    (GROUPS, "v[r] = vyre.sum(row, dim=0)", "v[r] = vyre.sum(row, axis=0)"),
    (GROUPS, "y[r * 2 : r * 2 + 2, 0:1] = vyre.sum(block, dim=1, keepdim=True)", "y[r * 2 : r * 2 + 2, 0:1] = vyre.sum(block, axis=1, keepdims=True)"),
    (GROUPS, "y[r, :] = vyre.cumsum(row, keepdims=True)", "y[r, :] = vyre.cumsum(row)"),
    (GROUPS, "v[r] = f32(vyre.sum(row, dtype=np.float64))", "v[r] = f32(vyre.sum(f64(row)))"),
]  # fmt: skip
"""Remedies that are done literally."""


def written_remedies(error: Diagnostic, lines: str) -> Iterator[str]:
    """The lines with the text of a remedy in the place of each expression around the mistake, and in the place of its line."""
    assert error.loc is not None
    text = re.sub(r"^(leave it out: )?write ", "", error.help or "")
    remedies = {
        text,
        *(text.partition(mark)[0] for mark in (", or ", "; ", ": a row", ", the ", ", which ", " for the ")),
    }
    head = error.loc.source.text.index("# ---\n") + len("# ---\n")
    number = error.loc.source.text[head : error.loc.start].count("\n")
    before = lines.split("\n")
    line = before[number]
    first = error.loc.start - head - sum(len(each) + 5 for each in before[:number]) - 4
    last = first + error.loc.end - error.loc.start
    places = {(0, len(line))}
    for node in ast.walk(ast.parse(line)):
        start, end = getattr(node, "col_offset", last), getattr(node, "end_col_offset", 0)
        if start <= first and last <= end:
            places.add((start, end))
    for start, end in places:
        for remedy in remedies:
            yield "\n".join([*before[:number], line[:start] + remedy + line[end:], *before[number + 1 :]])


def test_a_remedy_is_done_literally(tmp_path: Path) -> None:
    """No word of it is a placeholder: what it says, in the place of the mistake or of its line, is what is right."""

    def check(case: tuple[int, tuple[str, str, str]]) -> None:
        number, (head, lines, right) = case
        with pytest.raises(DiagnosticError) as caught:
            module_of(tmp_path, f"{head}    # ---\n", lines, f"literal_{number}").kernel.text()
        assert right in [*written_remedies(caught.value.diagnostics[0], lines)]
        assert module_of(tmp_path, f"{head}    # ---\n", right, f"literal_right_{number}").kernel.text()

    each(enumerate(LITERAL), check, lambda case: case[1][1])


WARNED: list[tuple[str, str, str, str]] = [
    # the lines of a kernel, its call, words of the warning, the call or the lines with the remedy
    ("y[vyre.global_id(0)] = 1.0", "[2, 4]", "all 4 workgroups along axis 1 do the same", "[2]"),
    ("y[vyre.global_id(1)] = 1.0", "[2]", "write vyre.global_id(0): vyre.global_id(1) is always 0", "y[vyre.global_id(0)] = 1.0"),
    ("y[vyre.local_id(0)] = 1.0", "[2]", "all 2 workgroups along axis 0 do the same", "[1]"),
    ("i = vyre.local_id(0)\nif i < len(b):\n    y[i] = f32(b[i])", "[2]", "write vyre.global_id(0), which counts in the whole launch, for vyre.local_id(0)",
     "i = vyre.global_id(0)\nif i < len(b):\n    y[i] = f32(b[i])"),
    ("i = vyre.global_id(0)\nif i < len(b):\n    y[0] += f32(b[i])", "[2]", "all 4 invocations of a workgroup store to y[0]",
     "i = vyre.global_id(0)\nif i < len(b):\n    vyre.atomic_add(y, 0, f32(b[i]))"),
    ("i = vyre.global_id(0)\ny[0] = y[0] + f32(b[i])", "[1]", "help: write vyre.atomic_add(y, 0, f32(b[i]))", "i = vyre.global_id(0)\nvyre.atomic_add(y, 0, f32(b[i]))"),
    ("i = vyre.global_id(0)\nif i >= len(b):\n    return\ny[3] = max(y[3], f32(b[i]))", "[2]", "help: write vyre.atomic_max(y, 3, f32(b[i]))",
     "i = vyre.global_id(0)\nif i >= len(b):\n    return\nvyre.atomic_max(y, 3, f32(b[i]))"),
    ("i = vyre.global_id(0)\ny[0] = f32(b[i])", "[1]", "help: write y[i] = f32(b[i])", "i = vyre.global_id(0)\ny[i] = f32(b[i])"),
    ("s = vyre.workgroup_reduce(f32(b[vyre.global_id(0)]))\nif vyre.local_id(0) == 0:\n    y[0] += s", "[2]", "help: write vyre.atomic_add(y, 0, s)",
     "s = vyre.workgroup_reduce(f32(b[vyre.global_id(0)]))\nif vyre.local_id(0) == 0:\n    vyre.atomic_add(y, 0, s)"),
    ("y[vyre.workgroup_id(0)] = 1.0", "[2]", "all 4 invocations of a workgroup do the same", "y[vyre.global_id(0)] = 1.0"),
    ("t = vyre.shared(f32, 60000)\ni = vyre.local_id(0)\nt[i] = 1.0\nvyre.barrier()\ny[i] = t[3 - i]", "[1]", "give t 58112 elements at most",
     "t = vyre.shared(f32, 58112)\ni = vyre.local_id(0)\nt[i] = 1.0\nvyre.barrier()\ny[i] = t[3 - i]"),
    ("i = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nt[i] = 1.0\ny[i] = t[3 - i]", "[1]", "this reads elements of t that other invocations store",
     "i = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nt[i] = 1.0\nvyre.barrier()\ny[i] = t[3 - i]"),
    ("i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0", "[2]", "help: write kernel[vyre.ceil_div(len(y), 4)](...)", "[16]"),
    ("i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0", "[64]", "help: write kernel[vyre.ceil_div(len(y), 4)](...)", "[16]"),
    ("i = vyre.global_id(0)\ny[b[i] // 2] += 1.0", "[1]", "write vyre.atomic_add(y, b[i] // 2, 1.0)", "i = vyre.global_id(0)\nvyre.atomic_add(y, b[i] // 2, 1.0)"),
    ("y[0] = 1.0", "[2, 2]", "all 2 workgroups along axis 0 do the same", "[1]"),
    ("i = vyre.global_id(0)\ny[i] = f32(abs(i - 2))", "[1]", "write vyre.abs_diff(i, 2)", "i = vyre.global_id(0)\ny[i] = f32(vyre.abs_diff(i, 2))"),
    ("s = 0\nfor j in range(8):\n    s += b[j]\ny[0] = f32(s)", "[1]", "begin with s = f32(0), and write s += f32(b[j])",
     "s = f32(0)\nfor j in range(8):\n    s += f32(b[j])\ny[0] = s"),
    ("s, j = 0, 0\nwhile j < 8:\n    if b[j] != 3:\n        s += b[j]\n    j += 1\ny[0] = f32(i32(s))", "[1]", "s adds up in u8, the type of its terms",
     "s, j = i32(0), 0\nwhile j < 8:\n    if b[j] != 3:\n        s += i32(b[j])\n    j += 1\ny[0] = f32(s)"),
    ("i = vyre.global_id(0)\ny[i] = f32((b[i] + b[i + 1]) // 2)", "[1]", "write u8((u32(b[i]) + u32(b[i + 1])) // 2)",
     "i = vyre.global_id(0)\ny[i] = f32(u8((u32(b[i]) + u32(b[i + 1])) // 2))"),
    ("i = vyre.global_id(0)\ny[i] = f32(b[i] * b[i + 1])", "[1]", "write f32(f32(b[i]) * f32(b[i + 1]))", "i = vyre.global_id(0)\ny[i] = f32(f32(b[i]) * f32(b[i + 1]))"),
    ("s = vyre.workgroup_reduce(b[vyre.local_id(0)])\ny[vyre.local_id(0)] = f32(s)", "[1]", "write s = vyre.workgroup_reduce(f32(b[vyre.local_id(0)]))",
     "s = vyre.workgroup_reduce(f32(b[vyre.local_id(0)]))\ny[vyre.local_id(0)] = f32(s)"),
    ("i, s = vyre.global_id(0), 0\nfor j in range(3):\n    s += b[i + j]\ny[i] = f32(s // 3)", "[1]", "begin with s = u32(0), and write s += u32(b[i + j]), and here u8(s // 3)",
     "i, s = vyre.global_id(0), u32(0)\nfor j in range(3):\n    s += u32(b[i + j])\ny[i] = f32(u8(s // 3))"),
    ("v = y[0]\nif v == float('nan'):\n    y[0] = 1.0", "[1]", "help: write v != v", "v = y[0]\nif v != v:\n    y[0] = 1.0"),
    ("i = vyre.global_id(0)\nif i < len(y):\n    y[i // 2] += f32(b[i])", "[16]", "help: write vyre.atomic_add(y, i // 2, f32(b[i]))",
     "i = vyre.global_id(0)\nif i < len(y):\n    vyre.atomic_add(y, i // 2, f32(b[i]))"),
    ("s = vyre.workgroup_reduce(y[vyre.global_id(0)])\nvyre.atomic_add(y, 9, s)", "[1]", "write if vyre.local_id(0) == 0: vyre.atomic_add(y, 9, s)",
     "s = vyre.workgroup_reduce(y[vyre.global_id(0)])\nif vyre.local_id(0) == 0: vyre.atomic_add(y, 9, s)"),
    ("s = 0.0\nfor k in range(vyre.local_id(0), 8, 4):\n    s += f32(b[k])\ny[0] = s", "[1]", "write y[0] = vyre.workgroup_reduce(s), since each invocation has a part of it",
     "s = 0.0\nfor k in range(vyre.local_id(0), 8, 4):\n    s += f32(b[k])\ny[0] = vyre.workgroup_reduce(s)"),
    ("for k in range(vyre.global_id(0), len(y), vyre.num_workgroups(0)):\n    y[k] = z[0, k % 8]", "[2]", "write for k in range(vyre.global_id(0), len(y), vyre.global_size(0)):",
     "for k in range(vyre.global_id(0), len(y), vyre.global_size(0)):\n    y[k] = z[0, k % 8]"),
    ("i, r = vyre.global_id(0), c[0]\nfor k in range(i - r, i + r + 1):\n    if k < len(y):\n        vyre.atomic_add(y, k, 1.0)", "[1]", "begin at vyre.max(i, r) - r, which is at least 0",
     "i, r = vyre.global_id(0), c[0]\nfor k in range(vyre.max(i, r) - r, i + r + 1):\n    if k < len(y):\n        vyre.atomic_add(y, k, 1.0)"),
    ("i = vyre.global_id(0)\ny[i] = f32(b[i] - 128) / 128.0", "[1]", "write f32(f32(b[i]) - 128)", "i = vyre.global_id(0)\ny[i] = f32(f32(b[i]) - 128) / 128.0"),
    ("i = vyre.global_id(0)\nfor k in range(8):\n    y[i] = z[i, k] * f32(b[k])", "[1]", "write total = 0.0 before the loop, total += z[i, k] * f32(b[k]) in it, and y[i] = total behind it",
     "i = vyre.global_id(0)\ntotal = 0.0\nfor k in range(8):\n    total += z[i, k] * f32(b[k])\ny[i] = total"),
    ("l, t = vyre.local_id(0), vyre.shared(u32, 8)\nt[l] = 0\nvyre.barrier()\nvyre.atomic_add(t, b[l] % 8, 1)\nvyre.barrier()\nvyre.atomic_add(c, l, t[l])", "[1]",
     "this sets the first 4 of the 8 elements of t",
     "l, t = vyre.local_id(0), vyre.shared(u32, 8)\nfor k in range(vyre.local_id(0), 8, 4):\n    t[k] = 0\nvyre.barrier()\nvyre.atomic_add(t, b[l] % 8, 1)\nvyre.barrier()\n"
     "for k in range(vyre.local_id(0), 8, 4):\n    vyre.atomic_add(c, k, t[k])"),
    ("i, t = vyre.global_id(0), vyre.shared(f32, 4)\nfor k in range(4):\n    t[k] = z[i, k]\nvyre.barrier()\ny[i] = t[0] + t[3]", "[1]", "write t = vyre.local(f32, 4), an array of each invocation's own",
     "i = vyre.global_id(0)\nt = vyre.local(f32, 4)\nfor k in range(4):\n    t[k] = z[i, k]\nvyre.barrier()\ny[i] = t[0] + t[3]"),
    ("while vyre.atomic_compare_exchange(c, 0, 0, 1) != 0:\n    pass\ny[0] = y[0] + f32(b[vyre.global_id(0)])\nvyre.atomic_exchange(c, 0, 0)", "[1]",
     "leave the lock out, and write vyre.atomic_add(y, 0, f32(b[vyre.global_id(0)]))", "vyre.atomic_add(y, 0, f32(b[vyre.global_id(0)]))"),
    ("while vyre.atomic_exchange(c, 0, 1) == 1:\n    pass\ny[0] = 1.0\nc[0] = 0", "[1]", "let one invocation of a workgroup take it, behind vyre.local_id(0) == 0",
     "if vyre.local_id(0) == 0:\n    while vyre.atomic_exchange(c, 0, 1) == 1:\n        pass\n    y[0] = 1.0\n    c[0] = 0"),
    ("i = vyre.global_id(0)\nif i + 1 < len(y) and y[i] > 0.0:\n    y[i] = y[i + 1]", "[1]", "this may store to elements of y that other invocations read",
     "i = vyre.global_id(0)\nif i + 1 < len(y) and y[i] > 0.0:\n    vyre.atomic_add(c, i, u32(y[i + 1]))"),
    ("i = vyre.global_id(0)\nif y[i] > 0.0:\n    c[0] += 1", "[1]", "help: write vyre.atomic_add(c, 0, 1)", "i = vyre.global_id(0)\nif y[i] > 0.0:\n    vyre.atomic_add(c, 0, 1)"),
    ("i = vyre.global_id(0)\nif b[i] == 5:\n    v = c[0]\n    c[0] = v + 1", "[1]", "several invocations may store to c[0] at once",
     "i = vyre.global_id(0)\nif b[i] == 5:\n    vyre.atomic_add(c, 0, 1)"),
    ("i = vyre.global_id(0)\nif z[0, i] > y[0]:\n    y[0] = z[0, i]", "[1]", "help: write vyre.atomic_max(y, 0, z[0, i])", "i = vyre.global_id(0)\nif z[0, i] > y[0]:\n    vyre.atomic_max(y, 0, z[0, i])"),
    ("i = vyre.global_id(0)\nv = z[0, i]\nif not y[0] <= v:\n    y[0] = v\n    c[0] = i", "[1]", "help: write vyre.atomic_min(y, 0, v), and store what belongs to that in a second launch",
     "i = vyre.global_id(0)\nif z[0, i] == y[0]:\n    c[0] = i"),
    ("i = vyre.global_id(0)\nif y[i] > y[i + 1]:\n    v = y[i]\n    y[i] = y[i + 1]\n    y[i + 1] = v", "[1]", "help: write i = 2 * vyre.global_id(0), a pair of each",
     "i = 2 * vyre.global_id(0)\nif y[i] > y[i + 1]:\n    v = y[i]\n    y[i] = y[i + 1]\n    y[i + 1] = v"),
    ("i = vyre.global_id(0)\nfor t in range(8):\n    y[i] = y[i] + y[i + 1]", "[1]", "write out[i] = y[i] + y[i + 1] without the loop, and launch the kernel for each round, on (y, out) and then on (out, y)",
     "i = vyre.global_id(0)\nvyre.atomic_add(c, i, u32(y[i] + y[i + 1]))"),
    ("l, t = vyre.local_id(0), vyre.shared(f32, 4)\nt[l] = 0.0\nvyre.barrier()\nif z[0, l] > 0.5:\n    t[l] = 1.0\ny[l] = t[3 - l]", "[1]", "this may read elements of t that other",
     "l, t = vyre.local_id(0), vyre.shared(f32, 4)\nt[l] = 0.0\nvyre.barrier()\nif z[0, l] > 0.5:\n    t[l] = 1.0\nvyre.barrier()\ny[l] = t[3 - l]"),
    ("i = vyre.global_id(0)\nif y[i] < 0.0:\n    y[i] = y[i + 4]", "[2]", "may store to elements of y that workgroup 0 reads", "i = vyre.global_id(0)\nif y[i] < 0.0:\n    y[i] = z[0, i + 4]"),
    ("i = vyre.global_id(0)\nif i < len(y):\n    y[i] = y[len(y) - 1 - i]", "[16]", "help: declare out: Write[f32] in the head, write out[i] = y[len(y) - 1 - i], and pass out = y.copy() for it, which has the result then", "i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0"),
    ("l = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nt[l] = y[l]\nvyre.barrier()\ns = u32(2)\nwhile s > 0:\n    if l < s:\n        t[l] += t[l + s]\n    s = s // 2\nif l == 0:\n    y[0] = t[0]",
     "[1]", "help: put vyre.barrier() before line",
     "l = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nt[l] = y[l]\nvyre.barrier()\ns = u32(2)\nwhile s > 0:\n    vyre.barrier()\n    if l < s:\n        t[l] += t[l + s]\n    s = s // 2\nif l == 0:\n    y[0] = t[0]"),
    ("l = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nvyre.copy_async(t, l, y, l)\nvyre.barrier()\ny[l + 8] = t[3 - l]", "[1]", "help: put vyre.copy_wait() before line",
     "l = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nvyre.copy_async(t, l, y, l)\nvyre.copy_wait()\nvyre.barrier()\ny[l + 8] = t[3 - l]"),
    ("l = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nvyre.copy_async(t, l, y, l)\nvyre.copy_wait()\ny[l + 8] = t[3 - l]", "[1]", "this reads elements of t that other invocations store",
     "l = vyre.local_id(0)\nt = vyre.shared(f32, 4)\nvyre.copy_async(t, l, y, l)\nvyre.copy_wait()\nvyre.barrier()\ny[l + 8] = t[3 - l]"),
    ("i = vyre.global_id(0)\ny[i] = f32(b[(i - 1) % len(b)])", "[1]", "help: write (i + len(b) - 1) % len(b)", "i = vyre.global_id(0)\ny[i] = f32(b[(i + len(b) - 1) % len(b)])"),
    ("l = vyre.local_id(0)\nt = vyre.shared(u32, 4)\nvyre.atomic_add(t, b[l] % 4, 1)\nvyre.barrier()\ny[l] = f32(t[l])", "[1]",
     "help: below its line write t[vyre.local_id(0)] = 0, then vyre.barrier()",
     "l = vyre.local_id(0)\nt = vyre.shared(u32, 4)\nt[vyre.local_id(0)] = 0\nvyre.barrier()\nvyre.atomic_add(t, b[l] % 4, 1)\nvyre.barrier()\ny[l] = f32(t[l])"),
    ("l = vyre.local_id(0)\nt = vyre.shared(u32, 9)\nvyre.atomic_add(t, b[l] % 9, 1)\nvyre.barrier()\ny[l] = f32(t[l + 1])", "[1]",
     "help: below its line write for k in range(vyre.local_id(0), 9, 4): t[k] = 0, then vyre.barrier()",
     "l = vyre.local_id(0)\nt = vyre.shared(u32, 9)\nfor k in range(vyre.local_id(0), 9, 4):\n    t[k] = 0\nvyre.barrier()\nvyre.atomic_add(t, b[l] % 9, 1)\nvyre.barrier()\ny[l] = f32(t[l + 1])"),
    ("for i in range(len(b)):\n    y[i] = f32(b[i])", "[2]", "help: write i = vyre.global_id(0), and if i < len(b): instead of the loop",
     "i = vyre.global_id(0)\nif i < len(b):\n    y[i] = f32(b[i])"),
    ("s = 0.0\nfor i in range(len(b)):\n    s += f32(b[i])\n    y[i] = s", "[2]", "write @vyre.program(workgroup=1), and kernel[1](...): a round of the loop needs", "[1]"),
    ("if y[0] != np.nan:\n    y[0] = 1.0", "[1]", "always true: a NaN is equal to nothing", "if y[0] == y[0]:\n    y[0] = 1.0"),
    ("for k in range(3):\n    y[k] = f32(k)", "[2]", "help: write @vyre.program(workgroup=1) and kernel[1](...)", "[1]"),
    ("l, t = vyre.local_id(0), vyre.shared(f32, 4)\nfor k in range(0, len(b), 4):\n    t[l] = 1.0\n    vyre.barrier()\n    y[k + l] = t[3 - l]", "[1]", "put vyre.barrier() before line",
     "l, t = vyre.local_id(0), vyre.shared(f32, 4)\nfor k in range(0, len(b), 4):\n    vyre.barrier()\n    t[l] = 1.0\n    vyre.barrier()\n    y[k + l] = t[3 - l]"),
    ("if vyre.local_id(0) == 0:\n    y[vyre.workgroup_id(0)] = 1.0\nvyre.barrier()\ny[vyre.global_id(0) + 8] = y[0] + y[1]", "[2]", 'write vyre.barrier("grid") in its place',
     'if vyre.local_id(0) == 0:\n    y[vyre.workgroup_id(0)] = 1.0\nvyre.barrier("grid")\ny[vyre.global_id(0) + 8] = y[0] + y[1]'),
    ("for k in range(vyre.global_id(0), len(y), 4):\n    y[k] = y[k] * 2.0", "[2]", "write for k in range(vyre.global_id(0), len(y), vyre.global_size(0)):",
     "for k in range(vyre.global_id(0), len(y), vyre.global_size(0)):\n    y[k] = y[k] * 2.0"),
    ("i, n = vyre.global_id(0), vyre.shared(u32, 1)\nif i == 0:\n    n[0] = 0\nvyre.barrier()\nvyre.atomic_add(n, 0, 1)\nvyre.barrier()\ny[i] = f32(n[0])", "[2]", "help: write vyre.local_id(0) == 0",
     "i, n = vyre.global_id(0), vyre.shared(u32, 1)\nif vyre.local_id(0) == 0:\n    n[0] = 0\nvyre.barrier()\nvyre.atomic_add(n, 0, 1)\nvyre.barrier()\ny[i] = f32(n[0])"),
    ("i = vyre.global_id(0)\ny[b[i] // 50] = max(y[b[i] // 50], f32(i))", "[2]", "help: write vyre.atomic_max(y, b[i] // 50, f32(i))", "vyre.atomic_max(y, b[vyre.global_id(0)] // 50, 2.0)"),
    ("i = vyre.global_id(0)\ny[b[i] // 50] += f32(i)", "[1]", "help: write vyre.atomic_add(y, b[i] // 50, f32(i))", "vyre.atomic_add(y, b[vyre.global_id(0)] // 50, 2.0)"),
    ("at = c[0]\nvyre.atomic_add(c, 0, 1)\ny[at] = 1.0", "[2]", "help: write at = vyre.atomic_add(c, 0, 1), which gives the number before", "at = vyre.atomic_add(c, 0, 1)\ny[at] = 1.0"),
    ("i = vyre.global_id(0)\nv = y[i]\nfor k in vyre.static((2, 1)):\n    v += vyre.subgroup_shuffle(v, k)\ny[i] = v", "[1]", 'help: write vyre.subgroup_shuffle(v, k, "down")',
     'i = vyre.global_id(0)\nv = y[i]\nfor k in vyre.static((2, 1)):\n    v += vyre.subgroup_shuffle(v, k, "down")\ny[i] = v'),
    ("i = vyre.global_id(0)\nv, k = y[i], u32(2)\nwhile k > 0:\n    v += vyre.subgroup_shuffle(v, k)\n    k = k // 2\ny[i] = v", "[1]", 'help: write vyre.subgroup_shuffle(v, k, "down")',
     'i = vyre.global_id(0)\nv, k = y[i], u32(2)\nwhile k > 0:\n    v += vyre.subgroup_shuffle(v, k, "down")\n    k = k // 2\ny[i] = v'),
    ("i = vyre.global_id(0)\ny[i] = f32((b[i] * 3 + b[i + 1]) >> 8)", "[1]", "write u8(u32(b[i]) * 3 + u32(b[i + 1]) >> 8)",
     "i = vyre.global_id(0)\ny[i] = f32(u8(u32(b[i]) * 3 + u32(b[i + 1]) >> 8))"),
    ("i = vyre.global_id(0)\nc[i] = u32(u16(b[i] << 8) | 3)", "[1]", "write u32(b[i]) << 8", "i = vyre.global_id(0)\nc[i] = u32(b[i]) << 8"),
    ("i = vyre.global_id(0)\nr, k = i // len(z), i % len(z)\nif r < z.shape[0] and k < z.shape[1]:\n    y[i] = z[r, k]", "[16]", "write // z.shape[1] and % z.shape[1]",
     "i = vyre.global_id(0)\nr, k = i // z.shape[1], i % z.shape[1]\nif r < z.shape[0] and k < z.shape[1]:\n    y[i] = z[r, k]"),
    ("l = vyre.local_id(0)\nt = vyre.local(f32, 4)\nt[l] = f32(l)\ny[l] = t[(l + 1) % 4]", "[1]", "write t = vyre.shared(f32, 4), and vyre.barrier() behind the store",
     "l, t = vyre.local_id(0), vyre.shared(f32, 4)\nt[l] = f32(l)\nvyre.barrier()\ny[l] = t[(l + 1) % 4]"),
    ("i, total = vyre.global_id(0), 0.0\nfor k in range(4):\n    added(total, f32(b[i + k]))\ny[i] = total", "[1]", "end added with return total, and write total = added(total, f32(b[i + k]))",
     "i, total = vyre.global_id(0), 0.0\nfor k in range(4):\n    total = summed(total, f32(b[i + k]))\ny[i] = total"),
    ("i = vyre.global_id(0)\ny[i] = f32(b[i] - b[i + 1])", "[1]", "write f32(f32(b[i]) - f32(b[i + 1]))", "i = vyre.global_id(0)\ny[i] = f32(b[i]) - f32(b[i + 1])"),
    ("y[vyre.global_id(0) * vyre.workgroup_size(0) + vyre.local_id(0)] = 1.0", "[1]", "help: write vyre.global_id(0)", "y[vyre.global_id(0)] = 1.0"),
    ("i = vyre.global_id(0)\ny[i] = f32(min(b[i] + 50, 255))", "[1]", "help: write vyre.add_sat(b[i], 50)", "i = vyre.global_id(0)\ny[i] = f32(vyre.add_sat(b[i], 50))"),
    ("i, s = vyre.global_id(0), 0.0\nfor k in range(i - 2, i + 3):\n    s += f32(b[k])\ny[i] = s", "[1]", "help: begin at vyre.max(i, 2) - 2",
     "i, s = vyre.global_id(0), 0.0\nfor k in range(vyre.max(i, 2) - 2, i + 3):\n    s += f32(b[k])\ny[i] = s"),
    ("i = vyre.global_id(0)\nc[i] = u32(i32(b[i] - b[i + 1]))", "[1]", "write i32(b[i]) - i32(b[i + 1])", "i = vyre.global_id(0)\nc[i] = u32(i32(b[i]) - i32(b[i + 1]))"),
]  # fmt: skip
SILENT = [
    ("vyre.atomic_add(y, 0, 1.0)", "[2, 3]"),
    ("y[0] = f32(vyre.num_workgroups(0)) + f32(vyre.num_workgroups(1))", "[2, 3]"),
    ("y[vyre.global_id(0) * 2 + vyre.workgroup_id(1)] = 1.0", "[2, 2]"),
    ("i = vyre.local_id(0)\nif i == 0:\n    y[vyre.workgroup_id(0)] += 1.0", "[2]"),
    ("i = vyre.global_id(0)\nif i == 3:\n    y[0] += 1.0", "[2]"),
    (
        "s = vyre.workgroup_reduce(f32(b[vyre.global_id(0)]))\nif vyre.local_id(0) == 0:\n    vyre.atomic_add(y, 0, s)",
        "[2]",
    ),
    ("i = vyre.global_id(0)\ny[i] = f32(u32(b[i] * 16 + b[i + 1]) + u32(b[i] - 48))", "[1]"),
    ("s = u8(0)\nfor j in range(8):\n    s += b[j]\ny[0] = f32(s)", "[1]"),
    ("s = 0\nfor j in range(8):\n    s = max(s, b[j])\ny[0] = f32(s)", "[1]"),
    ("y[0] = 1.0", "[1]"),
    ("y[0] = 1.0", "[1, 0]"),
    ("y[vyre.global_id(0) * 4 + vyre.local_id(0)] = f32(min(b[0], 255))", "[1]"),
    (
        "i = vyre.global_id(0)\nif i >= 2:\n    for k in range(i - 2, i + 3):\n        vyre.atomic_add(y, k, 1.0)",
        "[1]",
    ),
    (
        "i = vyre.global_id(0)\nif i < 2:\n    return\nfor k in range(i - 2, i + 3):\n    vyre.atomic_add(y, k, 1.0)",
        "[1]",
    ),
    (
        "i = vyre.global_id(0)\nif i < len(y) // 2:\n    t = y[i]\n    y[i] = y[len(y) - 1 - i]\n    y[len(y) - 1 - i] = t",
        "[8]",
    ),
    ("i = vyre.global_id(0)\nif b[i] == 3:\n    y[0] = f32(i)", "[1]"),
    ("i = vyre.global_id(0)\nif i % 2 == 0:\n    y[i // 2] = f32(b[i])", "[1]"),
    ("i = vyre.global_id(0)\nc[i] = u32(b[i] - b[i + 1]) + (u32(b[i]) >> 8)", "[1]"),
    (
        "l = vyre.local_id(0)\ny[l] = f32(l)\ny[vyre.global_id(0) + 8] = 1.0",
        "[2]",
    ),  # one value, whichever workgroup stores it
    ("for k in range(vyre.local_id(0), len(y), 4):\n    y[k] = y[k] * 2.0", "[1]"),
    ("y[vyre.global_id(0)] = f32(c[0])\nvyre.atomic_add(c, 0, 1)", "[2]"),
    (
        "old = c[0]\nvyre.barrier()\nvyre.atomic_add(c, 0, 1)\ny[old + vyre.global_id(0)] = 1.0",
        "[1]",
    ),
    (
        "i = vyre.global_id(0)\nv = y[i]\ny[i] = v - vyre.subgroup_shuffle(v, 0) + vyre.subgroup_shuffle(v, 1)",
        "[1]",
    ),
    (
        "i = vyre.global_id(0)\nat = u32(b[i])\nwhile True:\n    old = vyre.atomic_compare_exchange(c, at, 0, i)\n    if old == 0:\n        break\n    at += 1\nc[i + 8] = at",
        "[1]",
    ),  # each goes on to another place
    ("i, s = vyre.global_id(0), 0.0\nfor k in range(8):\n    s += z[i, k]\n    y[i] = s", "[1]"),
    ("i = vyre.global_id(0)\nfor k in range(8):\n    if z[i, k] > 0.5:\n        y[i] = f32(k)", "[1]"),
    ("i = vyre.global_id(0)\nfor k in range(8):\n    y[i + k * 4] = z[i, k]", "[1]"),
    # conditions on elements, each of which lets one of those invocations pass that have elements in common
    ("i = vyre.global_id(0)\nif c[i] == 1:\n    y[i] = y[i + 1]", "[1]"),
    ("i = vyre.global_id(0)\nif vyre.atomic_exchange(c, i // 2, 1) == 0:\n    y[i // 2] += z[0, i]", "[1]"),
    ("i = vyre.global_id(0)\nif z[0, i] > z[0, i + 1] and z[1, i] > 0.5:\n    y[i] = y[i + 1]", "[1]"),
    ("i = vyre.global_id(0)\nif z[0, i] > z[0, i ^ 1]:\n    y[i // 2] = z[0, i]", "[1]"),
    ("i = vyre.global_id(0)\nif i == c[0]:\n    y[0] += 1.0", "[1]"),
    (
        "i = vyre.global_id(0)\nif y[0] > 1.0:\n    y[i + 1] = 1.0\nelse:\n    c[i] = u32(y[i + 2])",
        "[1]",
    ),
    ("i = vyre.global_id(0)\nif c[0] == 0 and z[0, i] > 0.5:\n    c[0] = 1", "[1]"),
    ("i = vyre.global_id(0)\nif z[0, i] > 0.5:\n    y[vyre.atomic_add(c, 0, 1)] = z[0, i]", "[1]"),
    (
        "i = vyre.global_id(0)\nif f32(i) < z[0, 0]:\n    y[i] = z[0, i]\nif z[0, i] > 0.5:\n    y[i] += y[i + 8]",
        "[1]",
    ),
    (
        "if vyre.local_id(0) == 0:\n    y[vyre.workgroup_id(0)] = 1.0\n    vyre.atomic_add(c, 0, 1)\n    while vyre.atomic_add(c, 0, 0) < 2:\n        pass\n    y[8 + vyre.workgroup_id(0)] = y[0] + y[1]",
        "[2]",
    ),
]
"""Lines and calls that are right: nothing is said."""


def test_what_is_surely_not_meant_is_told_and_what_may_be_is_not(tmp_path: Path) -> None:
    head = (
        "@vyre.func\ndef added(total, v):\n    total += v\n\n@vyre.func\ndef summed(total, v):\n    total += v\n    return total\n\n"
        "@vyre.program(workgroup=4)\ndef kernel(b: Read[u8], y: ReadWrite[f32], c: ReadWrite[u32], z: Read[f32[:, :]]):\n"
    )
    count = 0

    def said(lines: str, grid: str) -> str:
        nonlocal count
        count += 1
        kernel = module_of(tmp_path, head, lines, f"warned_{count}").kernel
        arrays = (
            np.full(8, 100, np.uint8),
            np.zeros(64, np.float32),
            np.zeros(64, np.uint32),
            np.ones((8, 8), np.float32),
        )
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel.text()
            kernel._warn(
                eval(grid.strip("[]")), arrays, {}
            )  # as a call does before it runs, which takes a compilation
        assert all(issubclass(warning.category, ProgramWarning) for warning in given)
        return "\n".join(str(warning.message) for warning in given)

    def check(case: tuple[str, str, str, str]) -> None:
        lines, grid, words, right = case
        assert words in said(lines, grid)
        assert said(*((lines, right) if right.startswith("[") else (right, grid))) == ""

    each(WARNED, check)
    each(SILENT, lambda case: pytest.fail(text) if (text := said(*case)) else None)


def test_results_of_rows_that_go_along_columns_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], y: Write[f32[:, :]]):\n    r = vyre.workgroup_id(0) * 8\n    block = x[r : r + 8, 0:8]\n"
    for number, (value, help) in enumerate(
        [
            ("block - vyre.max(block, axis=1)", "write vyre.max(block, axis=1, keepdims=True)"),
            ("vyre.exp(block) / vyre.sum(vyre.exp(block), axis=1)", "keepdims=True"),
            ("block - vyre.max(block, axis=1, keepdims=True)", ""),
            ("block - vyre.max(block, axis=0)", ""),
        ]
    ):
        kernel = module_of(tmp_path, head, f"y[r : r + 8, 0:8] = {value}", f"columns_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel.text()
        assert [help in str(each.message) for each in given] == [True] * bool(help)


AXES = [
    # what is stored to a row, and words of the warning
    ("row - vyre.max(row, -1)", "write vyre.max(row, axis=-1)"),
    ("vyre.exp(row - max(row, 0))", "write vyre.max(row, axis=0)"),
    ("vyre.min(row, -1)", "write vyre.min(row, axis=-1)"),
    ("vyre.max(row, axis=-1) - row", ""),
    ("vyre.max(vyre.min(row, 1), -1) + min(max(row, -1), 1)", ""),
    ("vyre.max(row, 0) - vyre.max(row, -1.0)", ""),
]


def test_numbers_beside_slices_that_were_meant_for_axes_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], y: Write[f32[:, :]]):\n    r = vyre.workgroup_id(0)\n    row, block = x[r, :], x[0:8, 0:8]\n"
    cases = [(f"y[r, :] = {value}", words) for value, words in AXES]
    cases.append(("y[0:8, 0:8] = block - vyre.max(block, 1)", "write vyre.max(block, axis=1, keepdims=True)"))
    cases.append(("y[0:8, 0:8] = block - vyre.max(block, axis=1, keepdims=True)", ""))
    for number, (lines, words) in enumerate(cases):
        kernel = module_of(tmp_path, head, lines, f"axes_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel.text()
        assert [words in str(each.message) for each in given] == [True] * bool(words), lines


def test_exchanged_axes_are_told(tmp_path: Path) -> None:
    head = "@vyre.program(workgroup=(4, 4))\ndef kernel(x: Read[f32[:, :]], y: Write[f32[:, :]]):\n"
    lines = "i, j = vyre.global_id(0), vyre.global_id(1)\nif i < y.shape[0] and j < y.shape[1]:\n    y[i, j] = x[i, j]"
    kernel = module_of(tmp_path, head, lines, "exchanged").kernel
    x = np.ones((40, 8), np.float32)
    with pytest.warns(ProgramWarning, match=r"exchange the extents of the grid: write kernel\[10, 2\]"):
        kernel[2, 10](x, np.zeros_like(x))
    kernel[10, 2](x, np.zeros_like(x))


LEFT_OUT = [
    # invocations of a workgroup, lines, grid, extents of y, words of the warning
    ("4", "i = vyre.global_id(0)\ny[i] = 1.0", 2, (10,), "write kernel[vyre.ceil_div(len(y), 4)](...), and write if i < len(y): before what it loads"),
    ("4", "i = vyre.global_id(0)\nif i < len(x):\n    y[i] = x[i]", 2, (12,), "8 invocations for the 12 elements of y"),
    ("4", "i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0", 3, (12, 5), "write kernel[vyre.ceil_div(y.shape[0] * y.shape[1], 4)](...)"),
    ("4", "i = vyre.workgroup_id(0) * 4 + vyre.local_id(0)\nif i < len(y):\n    y[i] = 1.0", 2, (12,), "where the first alone are meant, pass y[:8]"),
    ("4", "i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0", 0, (12,), "this launch has 0 invocations for the 12 elements of y"),
    ("SIZE", "i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0", 2, (12,), "write kernel[vyre.ceil_div(len(y), SIZE)](...)"),
    ("(4, 2)", "r, c = vyre.global_id(1), vyre.global_id(0)\nif r < z.shape[0] and c < z.shape[1]:\n    z[r, c] = 1.0", (2, 2), (7, 8),
     "4 invocations along y, and z has 7 elements along dimension 0"),
    ("4", "r, c = vyre.global_id(0), vyre.global_id(1)\nif r < z.shape[0] and c < z.shape[1]:\n    z[r, c] = 1.0", 2, (8, 3),
     "write kernel[vyre.ceil_div(z.shape[0], 4), z.shape[1]](...)"),
    ("4", "r = vyre.global_id(0)\nif r < z.shape[0]:\n    for c in range(z.shape[1]):\n        z[r, c] = 1.0", 1, (8, 3), "write kernel[vyre.ceil_div(z.shape[0], 4)](...)"),
    ("1", "r = vyre.workgroup_id(0) * 4\ny[r : r + 4] = x[0:4] * 2.0", 2, (10,), "write kernel[vyre.ceil_div(len(y), 4)](...)"),
]  # fmt: skip
A_PART = [
    ("i = vyre.global_id(0)\ny[i] = 1.0", 2, (64,)),
    ("i = vyre.global_id(0)\nif i < n:\n    y[i] = 1.0", 2, (64,)),
    ("i = vyre.global_id(0)\ny[i] = 1.0", 0, (64,)),
    ("i = vyre.global_id(0)\nif i < len(y):\n    y[i] = 1.0", 0, (0,)),
    ("i = vyre.global_id(0)\nif i < len(x):\n    y[i] = x[i]", 16, (128,)),
    ("for k in range(vyre.global_id(0), len(y), vyre.global_size(0)):\n    y[k] = 1.0", 2, (64,)),
    ("i = vyre.global_id(0)\nwhile i < len(y):\n    y[i] = 1.0\n    i += vyre.global_size(0)", 2, (64,)),
    (
        "i = vyre.global_id(0)\nfor k in range(8):\n    if i + k * 8 < len(y):\n        y[i + k * 8] = 1.0",
        2,
        (64,),
    ),
    ("i = vyre.global_id(0)\ny[i] = 1.0\ny[i + 8] = 2.0", 2, (18,)),
    ("i = vyre.global_id(0)\nif i < len(y) and x[i] > 0.0:\n    y[i] = 1.0", 2, (64,)),
]
"""Launches that may be meant for a part of y, or reach all of it in loops."""


def test_launches_that_leave_elements_out_are_told(tmp_path: Path) -> None:
    def said(number: int, lanes: str, lines: str, grid: object, shape: tuple[int, ...]) -> str:
        array = "z: Write[f32[:, :]]" if "z[" in lines else "y: Write[f32]"
        n = ", n: u32" if "< n:" in lines else ""
        workgroup = "" if lanes == "1" else f"(workgroup={lanes})"
        head = f"SIZE = 4\n@vyre.program{workgroup}\ndef kernel(x: Read[f32], {array}{n}):\n"
        kernel = module_of(tmp_path, head, lines, f"left_out_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel._warn(grid, (np.ones(64, np.float32), np.zeros(shape, np.float32)), {"@n": 8})
        return "\n".join(str(warning.message) for warning in given)

    each(
        enumerate(LEFT_OUT),
        lambda case: None if case[1][-1] in (text := said(case[0], *case[1][:-1])) else pytest.fail(text),
    )
    each(
        enumerate(A_PART),
        lambda case: pytest.fail(text) if (text := said(100 + case[0], "4", *case[1])) else None,
    )


TAILS = [
    # lines, elements, and words of the warning
    ("if i < len(x) // 4:\n    y.vec(4)[i] = x.vec(4)[i] * 2.0", 62, "its vectors of 4 end at 60: the last 2 stay as they are"),
    ("if i * 4 + 3 < len(x):\n    v = x.vec(4)[i]\n    y.vec(4)[i] = v * 2.0", 61, "pass arrays of a multiple of 4 elements, or go over the others one by one, for k in range(len(y) // 4 * 4"),
    ("s = 0.0\nfor k in range(i, len(x) // 4, vyre.global_size(0)):\n    v = x.vec(4)[k]\n    s += v[0] + v[1] + v[2] + v[3]\nvyre.atomic_add(y, 0, s)", 63, "the last 3 are not read"),
    ("if i < len(x) // 4:\n    y.vec(4)[i] = x.vec(4)[i] * 2.0", 64, ""),
    ("y.vec(4)[i] = x.vec(4)[i] * 2.0", 131, ""),
    ("if i < 3:\n    y.vec(4)[i] = x.vec(4)[i] * 2.0", 62, ""),
    ("for k in range(len(y) // 4 * 4 + vyre.global_id(0), len(y), vyre.global_size(0)): y[k] = x[k] * 2.0\nif i < len(x) // 4:\n    y.vec(4)[i] = x.vec(4)[i] * 2.0", 62, ""),
]  # fmt: skip


def test_elements_behind_the_last_whole_vector_are_told(tmp_path: Path) -> None:
    head = "@vyre.program(workgroup=16)\ndef kernel(x: Read[f32], y: ReadWrite[f32]):\n    i = vyre.global_id(0)\n"
    for number, (lines, count, words) in enumerate(TAILS):
        module = module_of(tmp_path, head, lines, f"tails_{number}")
        x = np.arange(count, dtype=np.float32)
        y = np.zeros_like(x)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            module.kernel[1](x, y)
        assert [words in str(each.message) for each in given] == [True] * bool(words), lines
        if number == 0:  # as the help of this one says
            help = str(given[0].message).partition("help: begin the kernel with ")[2].partition("\n")[0]
            assert lines in TAILS[-1][0]
            assert help in TAILS[-1][0]
    assert (y == 2 * x).all()


def test_blocks_that_begin_at_the_number_of_their_workgroup_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32], y: Write[f32]):\n    i = vyre.workgroup_id(0)\n"
    for number, (lines, words) in enumerate(
        [
            ("y[i : i + 64] = x[i : i + 64] * 2.0", "write vyre.workgroup_id(0) * 64 for its first element"),
            ("i = vyre.workgroup_id(0) * 64\ny[i : i + 64] = x[i : i + 64] * 2.0", ""),
            ("y[i] = vyre.sum(x[i : i + 64])", ""),
        ]
    ):
        kernel = module_of(tmp_path, head, lines, f"blocks_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel.text()
            kernel._warn(4, (np.ones(256, np.float32), np.ones(256 if number < 2 else 4, np.float32)), {})
        assert [words in str(each.message) for each in given] == [True] * bool(words), lines


PADDED = [
    # what is stored for a row of 50 elements, words of the warning, and the same with the remedy
    ("vyre.max(x.filled(0)[r, 0:64])", "write x.filled(-math.inf)[r, 0:64]", "vyre.max(x.filled(-math.inf)[r, 0:64])"),
    ("vyre.min(x.filled(0)[r, 0:64] * 2.0)", "write x.filled(math.inf)[r, 0:64]", "vyre.min(x.filled(math.inf)[r, 0:64] * 2.0)"),
    ("vyre.sum(vyre.exp(x.filled(0)[r, 0:64]))", "the zeros behind them count in this sum of exponentials", "vyre.sum(vyre.exp(x.filled(-math.inf)[r, 0:64]))"),
    ("vyre.sum(x.filled(0)[r, 0:64]) / 64.0", "divide by f32(x.shape[1])", "vyre.sum(x.filled(0)[r, 0:64]) / f32(x.shape[1])"),
    ("vyre.max(vyre.abs(x.filled(0)[r, 0:64]))", "", ""),
    ("vyre.max(x.filled(0)[r, 0:50]) + vyre.sum(x.filled(0)[r, 0:64])", "", ""),
    ("vyre.max(vyre.where(vyre.arange(64) < x.shape[1], x.filled(0)[r, 0:64], -1.0))", "", ""),
    ("vyre.max(x.filled(0)[r, r : r + 3])", "", ""),
]  # fmt: skip


def test_zeros_beyond_an_edge_that_count_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], y: Write[f32]):\n    r = vyre.workgroup_id(0)\n"
    x = -np.ones((2, 50), np.float32)
    for number, (value, words, right) in enumerate(PADDED):
        for text, expected in ((value, words), (right or value, "")):
            kernel = module_of(tmp_path, head, f"y[r] = {text}", f"padded_{number}_{text == value}").kernel
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                warnings.filterwarnings("ignore", UNUSED)
                kernel._warn(2, (x, np.zeros(2, np.float32)), {})
            assert [expected in str(each.message) for each in given] == [True] * bool(expected), text


SHORT = [
    # the number of invocations, what each of them has of a row of 50 elements, and words of the warning
    (32, "v = x[r, l] if l < x.shape[1] else 0.0", "write @vyre.program(workgroup=64), or let each go over several, for k in range(vyre.local_id(0), x.shape[1], 32)"),
    (64, "v = x[r, l] if l < x.shape[1] else 0.0", ""),
    (32, "v = 0.0\nfor k in range(vyre.local_id(0), x.shape[1], 32):\n    v += x[r, k]", ""),
    (32, "v = x[r, l] if l < 32 else 0.0", ""),
    (32, "v = x[r, l] if l < x.shape[1] else 0.0\nif l + 32 < x.shape[1]:\n    v += x[r, l + 32]", ""),
]  # fmt: skip


def test_workgroups_with_fewer_invocations_than_a_row_has_elements_are_told(tmp_path: Path) -> None:
    for number, (lanes, lines, words) in enumerate(SHORT):
        head = f"@vyre.program(workgroup={lanes})\ndef kernel(x: Read[f32[:, :]], y: Write[f32]):\n    r, l = vyre.workgroup_id(0), vyre.local_id(0)\n"
        whole = f"{lines}\ns = vyre.workgroup_reduce(v)\nif l == 0:\n    y[r] = s"
        kernel = module_of(tmp_path, head, whole, f"short_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel._warn(2, (np.ones((2, 50), np.float32), np.zeros(2, np.float32)), {})
        assert [words in str(each.message) for each in given] == [True] * bool(words), lines


def test_rows_and_blocks_that_all_workgroups_store_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], y: ReadWrite[f32[:, :]]):\n    r = vyre.workgroup_id(0)\n"
    cases = [
        ("y[0, :] = x[r, :] * 2.0", "store to y[0, :], each its own values"),
        ("y[0, :] += x[r, :]", "at vyre.workgroup_id(0), and add these up in a second launch"),
        ("y[r, :] += x[r, :]", ""),
        ("y[0, :] = x[0, :] * 2.0\ny[r, 0] = 1.0", ""),
    ]
    for number, (lines, words) in enumerate(cases):
        kernel = module_of(tmp_path, head, lines, f"same_rows_{number}").kernel
        x = np.ones((4, 8), np.float32)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel._warn(4, (x, np.zeros_like(x)), {})
        assert [words in str(each.message) for each in given] == [True] * bool(words), lines


OFFSETS = [
    ("b = x[r, j : j + 8]\n    m = vyre.max(b)\n    if m > best:\n        best, at = m, {}", "vyre.argmax(b)", "write j + vyre.argmax(b)"),
    ("b = x[r, j : j + 8]\n    m = vyre.max(b)\n    if m > best:\n        best, at = m, {}", "j + vyre.argmax(b)", ""),
    ("k = vyre.argmax(x[r, j : j + 8])\n    {}", "at = u32(j) + 0", "write j + vyre.argmax(x[r, j : j + 8])"),
    ("k = vyre.argmax(x[r, j : j + 8])\n    {}", "at = j + k", ""),
]  # fmt: skip


def test_places_in_a_block_that_are_taken_for_places_in_an_array_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], y: Write[u32]):\n    r = vyre.workgroup_id(0)\n    best, at = -math.inf, u32(0)\n"
    for number, (lines, value, words) in enumerate(OFFSETS):
        body = f"for j in range(0, x.shape[1], 8):\n    {lines.format(value)}\ny[r] = at"
        kernel = module_of(tmp_path, head, body, f"offsets_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel.text()
        assert [words in str(each.message) for each in given] == [True] * bool(words), body


EXCHANGED = [
    # lines, shapes of x, w and y, and words of the warning
    ("r, c = vyre.global_id(1), vyre.global_id(0)\nif r < x.shape[0] and c < x.shape[1]:\n    y[c, r] = x[r, c]", ((8, 4), (1, 1), (8, 4)),
     "for a transposed result, give y 4 rows of 8 elements; otherwise write y[r, c]"),
    ("r, c = vyre.global_id(1), vyre.global_id(0)\nif r < y.shape[0] and c < y.shape[1]:\n    s = 0.0\n    for k in range(x.shape[1]):\n        s += x[r, k] * w[k, c]\n    y[r, c] = s",
     ((4, 6), (8, 6), (4, 8)), "write w[c, k]"),
    ("r, c = vyre.global_id(1), vyre.global_id(0)\nif r < x.shape[0] and c < x.shape[1]:\n    y[c, r] = x[r, c]", ((8, 4), (1, 1), (4, 8)), ""),
    ("r, c = vyre.global_id(1), vyre.global_id(0)\nif r < y.shape[0] and c < y.shape[1]:\n    y[r, c] = x[r, c] + w[c, r]", ((8, 8), (8, 8), (8, 8)), ""),
    ("r, c = vyre.global_id(1), vyre.global_id(0)\nif r < 2 and c < 2:\n    y[r, c] = w[c, r] + x[0, c]", ((8, 4), (8, 4), (8, 4)), ""),
]  # fmt: skip


def test_indices_that_are_exchanged_are_told_at_a_launch(tmp_path: Path) -> None:
    head = "@vyre.program(workgroup=(8, 8))\ndef kernel(x: Read[f32[:, :]], w: Read[f32[:, :]], y: Write[f32[:, :]]):\n"
    for number, (lines, shapes, words) in enumerate(EXCHANGED):
        kernel = module_of(tmp_path, head, lines, f"exchanged_indices_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel._warn(1, [np.ones(shape, np.float32) for shape in shapes], {})
        said = [str(each.message) for each in given if "exchanged" in str(each.message)]
        assert [words in each for each in said] == [True] * bool(words), lines


COLUMNS = [
    # what is stored in a row, the shapes of x and b, and words of the warning
    (
        "x[r, :] * b[r]",
        (4, 6),
        6,
        "b has 6 elements, as many as a row of y, and its index here goes along the 4 rows",
    ),
    ("x[r, :] * b[:]", (4, 6), 6, ""),
    ("x[r, :] * b[r]", (4, 6), 4, ""),
    ("x[r, :] * b[r]", (6, 6), 6, ""),
    ("x[r, :] * b[r]", (4, 6), 8, ""),
    ("x[r, :] * b[:] + b[r]", (4, 6), 6, ""),
]


def test_elements_by_rows_of_an_array_of_columns_are_told_at_a_launch(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], b: Read[f32], y: Write[f32[:, :]]):\n    r = vyre.workgroup_id(0)\n"
    for number, (value, shape, length, words) in enumerate(COLUMNS):
        kernel = module_of(tmp_path, head, f"y[r, :] = {value}", f"by_rows_{number}").kernel
        x, b = np.ones(shape, np.float32), np.ones(length, np.float32)
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel._warn(len(x), (x, b, np.zeros_like(x)), {})
        assert [words in str(each.message) for each in given] == [True] * bool(words), value
        assert all("write b[:]" in str(each.message) for each in given)


def test_columns_of_both_factors_of_a_product_are_told(tmp_path: Path) -> None:
    head = "@vyre.program\ndef kernel(x: Read[f32[:, :]], w: Read[f32[:, :]], y: Write[f32[:, :]]):\n    i, j = vyre.workgroup_id(0) * 8, vyre.workgroup_id(1) * 8\n"
    loop = "total = vyre.zeros((8, 8), f32)\nfor k in range(0, x.shape[1], 8):\n    total += {}\ny[i : i + 8, j : j + 8] = total"
    for number, (product, words) in enumerate(
        [
            ("x[i : i + 8, k : k + 8] @ w[j : j + 8, k : k + 8]", "write x[i : i + 8, k : k + 8] @ w[j : j + 8, k : k + 8].T"),
            ("x[i : i + 8, k : k + 8] @ w[j : j + 8, k : k + 8].T", ""),
            ("x[i : i + 8, k : k + 8] @ w[k : k + 8, j : j + 8]", ""),
            ("x[i : i + 8, 0:8] @ w[j : j + 8, 0:8]", ""),
            ("x[i : i + 8, k : k + 8] @ w[k : k + 8, k : k + 8]", ""),
        ]
    ):  # fmt: skip
        lines = loop.format(product) if "k" in product else loop.format(product).replace("for k", "for _")
        kernel = module_of(tmp_path, head, lines, f"factors_{number}").kernel
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            kernel.text()
        assert [words in str(each.message) for each in given] == [True] * bool(words), product


PRODUCTS = [
    # the value that is stored, of n = 100000, and words of the warning
    ("u64(n * n)", "n * n is 10000000000 in this launch, and wraps at 2^32 in u32, before it is made a u64", "u64(n) * u64(n)"),
    ("u64(i * n * 4096 + 3)", "write u64(i) * u64(n) * 4096 + 3", "u64(i) * u64(n) * 4096 + 3"),
    ("u64(f32(i) * f32(n)) + u64(a[i] * a[i])", "a[i] * a[i] wraps at 2^32 in u32", "u64(a[i]) * u64(a[i])"),
    ("u64(f32(i - n))", "i - n is -100000 in this launch, and wraps below 0 at 2^32 in u32, before it is made an f32\n", "u64(f32(i32(i) - i32(n)))"),
    ("u64(f32(i - 3) if i > 2 else 0.0) + u64(f32(i * 747796405))", "", ""),
    ("u64(i * n) + u64(a[i] * 16777619) + u64(n) * u64(n)", "", ""),
    ("u64(n * n if n < 65536 else 0)", "", ""),
]  # fmt: skip


def test_products_that_wrap_before_they_are_made_wider_are_told(tmp_path: Path) -> None:
    head = "@vyre.program(workgroup=16)\ndef kernel(n: u32, a: Read[u32], y: Write[u64]):\n    i = vyre.global_id(0)\n"
    a, y = np.arange(16, dtype=np.uint32), np.zeros(16, np.uint64)
    for number, (value, words, right) in enumerate(PRODUCTS):
        for text, expected in ((value, words), (right or value, "")):
            kernel = module_of(tmp_path, head, f"y[i] = {text}", f"products_{number}_{text == value}").kernel
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                warnings.filterwarnings("ignore", UNUSED)
                kernel.text()
                kernel._warn(1, (a, y), {"@n": 100000})
            assert [expected in str(each.message) for each in given] == [True] * bool(expected), text


def test_launches_of_pipelines_that_leave_elements_out_are_told(tmp_path: Path) -> None:
    head = "@vyre.program(workgroup=4)\ndef kernel(x: Read[f32], y: Write[f32]):\n"
    run = "\n@vyre.pipeline\ndef run(x: Read[f32], y: Write[f32]):\n    t = vyre.buffer(f32, len(x))\n    {}\n    kernel[vyre.ceil_div(len(y), 4)](t, y)\n"
    lines = "i = vyre.global_id(0)\nif i < len(y):\n    y[i] = x[i]"
    x = np.ones(30, np.float32)
    for number, (launch, words) in enumerate(
        [
            ("kernel[vyre.ceil_div(len(x), 8)](x, t)", r"write kernel\[vyre.ceil_div\(len\(t\), 4\)\]"),
            ("kernel[8](x, t)", ""),
        ]
    ):
        text = lines.replace("\n", "\n    ") + run.format(launch)
        module = written_module(tmp_path, f"{HEAD}{head}    {text}", f"whole_{number}")
        with warnings.catch_warnings(record=True) as given:
            warnings.simplefilter("always")
            warnings.filterwarnings("ignore", UNUSED)
            module.run._warn(None, (x, x.copy()), {})
        assert [re.search(words, str(each.message)) is not None for each in given] == [True] * bool(words)


def test_a_number_of_the_module_that_changes_is_told_once(tmp_path: Path) -> None:
    head = (
        "LIMIT, shape = 0.5, 3\n@vyre.program(workgroup=4)\ndef kernel(x: Read[f32[:, :]], y: Write[f32]):\n"
    )
    module = module_of(
        tmp_path, head, "y[vyre.global_id(0)] = x[0, 0] * LIMIT / f32(x.shape[0])", "constants"
    )
    assert "0.5" in module.kernel.text()
    module.LIMIT, module.shape = float("0.5"), 4
    x, y = np.ones((2, 2), np.float32), np.zeros(4, np.float32)
    module.kernel[1](x, y)
    module.LIMIT = 0.9
    with pytest.warns(ProgramWarning, match=r"LIMIT was 0.5 .* here it is 0.9"):
        module.kernel[1](x, y)
    module.kernel[1](x, y)


LOST: list[tuple[str, str, str]] = [
    # launches of a pipeline on x and y, words of the warning, the same with the remedy
    ("double[1](x, y)\nt = vyre.buffer(f32, 64)\ndouble[1](y, t)", "nothing reads t behind this stage", "double[1](x, y)"),
    ("t = vyre.buffer(f32, 64)\nfor _ in range(2):\n    double[1](x, t)\ndouble[1](x, y)", "nothing reads t behind this stage",
     "t = vyre.buffer(f32, 64)\ndouble[1](x, t)\ndouble[1](t, y)"),
    ("for _ in range(3):\n    double[1](x, y)", r"all 3 rounds do the same: .*\n[^h]*help: launch double \(x, y\) and then \(y, x\)", "double[1](x, y)"),
    ("t = vyre.buffer(f32, 64)\ndouble[1](x, t)\nvyre.host_read(t)", "no stage writes y, which the pipeline gives back", "double[1](x, y)"),
]  # fmt: skip


def test_results_that_nobody_sees_are_told(tmp_path: Path) -> None:
    head = "@vyre.pipeline\ndef kernel(x: Read[f32], y: Write[f32]):\n"

    def check(case: tuple[int, tuple[str, str, str]]) -> None:
        number, (wrong, words, right) = case
        with pytest.warns(ProgramWarning, match=words):
            module_of(tmp_path, head, wrong, f"lost_{number}").kernel.text()
        assert module_of(tmp_path, head, right, f"seen_{number}").kernel.text()

    each(enumerate(LOST), check)


def test_arguments_of_calls_are_told_what_to_pass(tmp_path: Path) -> None:
    """The remedy is in the message, and works."""
    module = module_of(
        tmp_path,
        "@vyre.program(workgroup=8)\ndef kernel(n: i32, x: Read[u8], y: ReadWrite[f32]):\n",
        "y[n] = f32(x[0])",
        "called",
    )
    x, y = np.ones(4, np.uint8), np.zeros(8, np.float32)
    frozen = y.copy()
    frozen.flags.writeable = False
    kernel = module.kernel[1]
    cases: list[tuple[tuple[Any, ...], str, tuple[Any, ...]]] = [
        (
            (2.5, x, y),
            "pass a whole number, such as n=2, which // gives where / gave this, or declare n: f32",
            (2, x, y),
        ),
        (("2", x, y), "pass int(n)", (int("2"), x, y)),
        (
            (x, 2, y),
            "an array (4) is not a number; pass one number, such as n=2, in the order of the head or by its name; "
            "for one of each element declare n: Read[i32] and write n[i]",
            (2, x, y),
        ),
        ((2, b"abc", y), "pass np.frombuffer(x, np.uint8)", (2, np.frombuffer(b"abc", np.uint8), y)),
        ((2, 1.0, y), "is one number (float), where an array is wanted", (2, x, y)),
        (
            (-1 << 31, x, y.astype(np.float64)),
            "pass one of your own, y32 = y.astype(np.float32), and read the result there",
            (2, x, y),
        ),
        ((1 << 40, x, y), "declare n: i64, or pass a number up to 2147483647", (2, x, y)),
        (
            (2, x, [0.0] * 8),
            "pass an array, y32 = np.array(y, np.float32), and read the result there",
            (2, x, np.array([0.0] * 8, np.float32)),
        ),
        ((2, np.ma.array(x, mask=[0, 1, 0, 0]), y), "pass x.filled(0) for a sum", (2, np.ma.array(x), y)),
        ((2, x.astype(np.complex64), y), "pass x.real.copy() and x.imag.copy() as two arrays", (2, x, y)),
        ((2, None, y), "pass one, such as np.zeros(n, np.float32)", (2, x, y)),
        (
            (2, x, frozen),
            "write y = np.array(y), pass that, and read the result there",
            (2, x, np.array(frozen)),
        ),
    ]

    def check(case: tuple[tuple[Any, ...], str, tuple[Any, ...]]) -> None:
        wrong, words, right = case
        with pytest.raises(BadInputs) as caught:
            kernel(*wrong)
        assert words in str(caught.value)
        kernel(*right)

    each(cases, check)
    rows = module_of(
        tmp_path, "@vyre.program\ndef kernel(z: Write[f32[:, 64]]):\n", "z[0, 0] = 1.0", "rows_called"
    ).kernel
    with pytest.raises(BadInputs, match=r"pass an array of 64 columns, or write f32\[:, :\] in the head"):
        rows[3](np.zeros((3, 32), np.float32))
    of_rows = module_of(
        tmp_path,
        "@vyre.program\ndef kernel(x: Read[f32], y: Write[f32]):\n",
        "i = vyre.workgroup_id(0) * 64\ny[i : i + 64] = x[i : i + 64]",
        "blocks_called",
    ).kernel
    with pytest.raises(TypeError, match=r"such as kernel\[vyre\.ceil_div\(len\(y\), 64\)\]"):
        of_rows(y, y)
    with pytest.raises(AttributeError, match="has no attribute launch") as missing:
        module.kernel.launch(2, x, y)
    assert missing.value.__notes__ == ["help: write kernel[vyre.ceil_div(len(y), 8)](n, x, y)"]
    with pytest.raises(BadInputs) as grid:
        module.kernel[(1,), (64,)]
    assert grid.value.__notes__[0].startswith("help: write kernel[1](...): a grid counts workgroups")
    with pytest.raises(TypeError, match=r"such as kernel\[vyre\.ceil_div\(len\(y\), 8\)\]\(\.\.\.\)"):
        module.kernel(2, x, y)
    with pytest.raises(BadInputs, match=r"convert it, x\.astype\('float32'\)"):
        vyre_opt.kernels.softmax(np.arange(4))


def test_an_atomic_that_is_an_index_is_kept_before_it_is_compared() -> None:
    help = guard("y[vyre.atomic_add(n, 0, 1)]", "y", "", "len(y)", 0)
    assert help == (
        ": write k = vyre.atomic_add(n, 0, 1), then if k < len(y): and y[k], since an atomic counts each time"
    )
    assert guard("y[i + 1]", "y", "", "len(y)", 0) == ": write if i + 1 < len(y): before it"


COPIES = [
    # the array that is passed for y, and words of the warning
    ("y.astype(np.float32)", "behind the call write y[...] = t"),
    ("z[z > 0.5]", "behind the call write z[z > 0.5] = t"),
    ("z[[1, 2]]", "stores to z[[1, 2]], which is a copy and no part of z"),
    ("w.T.reshape(-1)", "which is a copy and no part of w"),
    ("z[1:]", ""), ("z.reshape(-1)", ""), ("z.copy()", ""), ("np.zeros_like(z)", ""), ("z", ""), ("several['z']", ""),
]  # fmt: skip


def test_copies_that_a_call_stores_to_are_told(tmp_path: Path) -> None:
    lines = "x, y, z, w = np.ones(4, np.float32), np.zeros(4), np.zeros(4, np.float32), np.zeros((2, 2), np.float32)\nseveral = {'z': z}\n"
    for number, (text, words) in enumerate(COPIES):
        for run, call in enumerate((f"double[1](x, {text})", f"double[1](x, y={text})")):
            kernel = module_of(tmp_path, "def kernel():\n", lines + call, f"copies_{number}_{run}").kernel
            with warnings.catch_warnings(record=True) as given:
                warnings.simplefilter("always")
                warnings.filterwarnings("ignore", UNUSED)
                kernel()
            lost = [str(each.message) for each in given if "lost" in str(each.message)]
            assert [words in each for each in lost] == [True] * bool(words), text
