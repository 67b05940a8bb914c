"""Words of other languages and libraries in kernels of Python: each is told what to write, and that can be written there."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest
from support.modules import written_module

import vyre_opt
from vyre_opt import DiagnosticError
from vyre_opt.lang.foreign_words import foreign_help, in_python
from vyre_opt.lang.intrinsics import INTRINSICS
from vyre_opt.syntax.synonyms import ROWS

HEAD = """
import math
import numpy as np
import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64

A, B, SIZE = (1, 2), (3, 4), 64

@vyre.func
def f(a):
    return a

"""
LANES = """@vyre.program(workgroup=64)
def kernel(x: ReadWrite[f32], y: ReadWrite[f32], n: ReadWrite[u32], t: ReadWrite[u8]):
    i, j = vyre.global_id(0), vyre.local_id(0)
    a, b = x[i], y[j]
    c, p, k = a * b, a < b, 0
    v = x.vec(4)[i]
    table, index = t.vec(16)[0], t.vec(16)[1]
    flags = t.vec(32)[0] == 0
"""
SLICES = """@vyre.program
def kernel(x: ReadWrite[f32], y: ReadWrite[f32]):
    i = vyre.workgroup_id(0)
    row, block = x[0:64], vyre.zeros((64, 64), f32)
    mean = vyre.sum(row) / 64.0
    e = vyre.exp(row - vyre.max(row))
"""
TYPES = ("f16", "bf16", "f32", "f64", "i8", "i16", "i32", "i64", "u8", "u16", "u32", "u64", "bool")
OUTSIDE = ("@vyre.", "kernel[grid]", "SIZE = ", "return ", "elif ")
"""What stands around a kernel, or in a function of kernels."""


def wrong(head: str, statement: str, folder: Path, name: str) -> str:
    """The message about a statement in a kernel, "" if there is none."""
    try:
        written_module(folder, f"{HEAD}{head}    {statement}\n", name).kernel.text()
    except DiagnosticError as error:
        return str(error)
    return ""


def answers() -> list[str]:
    own = {row.here for row in ROWS if row.context == "python"}
    converted = {in_python(row.here) for row in ROWS if row.context in ("op", "type", "item")}
    return sorted(own | {here for here in converted if here is not None})


@pytest.mark.filterwarnings("ignore::vyre_opt.ProgramWarning")
def test_each_answer_is_right_python(tmp_path: Path) -> None:
    """It translates where it stands, or is a declaration around the kernel."""

    def is_right(answer: str, number: int) -> bool:
        if answer.startswith(OUTSIDE) or answer in ("x: Read[f32]", "t: Read[f32]"):
            return True
        if answer.endswith(":"):
            forms = [f"{answer}\n        y[i] = 1.0"]
        elif isinstance(ast.parse(answer).body[0], ast.Expr):
            used = f"{answer}(i)" if answer in TYPES else answer
            forms = [f"r = {used}", used, f"for r in {used}:\n        y[i] = 1.0"]
        else:
            forms = [answer]
        return any(
            not wrong(head, form, tmp_path, f"answer_{number}_{at}_{len(head)}")
            for head in (LANES, SLICES)
            for at, form in enumerate(forms)
        )

    for number, answer in enumerate(answers()):
        assert is_right(answer, number), answer


def test_each_word_has_its_answer() -> None:
    """A word is told its row's text; one of an op of the table by that op, under whatever name its library is imported."""
    for row in ROWS:
        if row.context == "python":
            assert foreign_help(f"lib.{row.word}") == f"write {row.here}" + f"; {row.note}" * bool(
                row.note
            ), row
        elif row.context == "op" and in_python(row.here) is not None:
            assert foreign_help(row.word) is not None, row


@pytest.mark.parametrize(
    ("statement", "place", "remedy"),
    [
        ("y[i] = sum(x)", "sum(x)", "vyre.sum"),
        ("r = arange(64)", "arange", "vyre.arange"),
        ("y[i] = relu(a)", "relu", "max(a, 0.0)"),
        ("syncthreads()", "syncthreads", "vyre.barrier()"),
        ("__syncthreads()", "__syncthreads", "vyre.barrier()"),
        ("r = threadIdx.x", "threadIdx.x", "vyre.local_id(0)"),
        ("r = blockIdx.y * blockDim.y", "blockIdx.y", "vyre.workgroup_id(1)"),
        ("r = cuda.grid(1)", "cuda.grid", "vyre.global_id(0)"),
        ("r = get_global_id(0)", "get_global_id", "vyre.global_id(0)"),
        ("r = tl.program_id(0)", "tl.program_id", "vyre.workgroup_id(0)"),
        ("r = tl.load(x)", "tl.load", "x.filled(0)[i : i + 64]"),
        ("tl.store(y, a)", "tl.store", "y[i : i + 64] = row"),
        ("y[i] = np.maximum(a, b)", "np.maximum(a, b)", "max(a, b)"),
        ("y[i] = np.sqrt(a)", "np.sqrt(a)", "vyre.sqrt"),
        ("y[i] = torch.sigmoid(a)", "torch.sigmoid", "1.0 / (1.0 + vyre.exp(-a))"),
        ("y[i] = F.softmax(a)", "F.softmax", "vyre.exp(row - vyre.max(row)) / vyre.sum(vyre.exp(row - vyre.max(row)))"),
        ('printf("%d", i)', "printf", 'print(f"i={i}")'),
        ("atomicAdd(n, 1)", "atomicAdd", "vyre.atomic_add(n, i, j)"),
        ("cuda.atomic.add(n, 0, 1)", "cuda.atomic.add", "vyre.atomic_add(n, 0, 1)"),
        ("y[i] = __shfl_down_sync(0xffffffff, a, 1)", "__shfl_down_sync", 'vyre.subgroup_shuffle(a, 1, "down")'),
        ("r = wp.tid()", "wp.tid", "vyre.global_id(0)"),
        ("y[i] = x.mean()", "x.mean", "vyre.sum(row) / f32(len(row))"),
        ("y[i] = a.to(f32)", "a.to", "f32(a)"),
        ("y[i] = x[1].astype(u32)", "x[1].astype", "u32(x[1])"),
        ("mine = cuda.local.array(4, f32)", "cuda.local.array", "vyre.local(f32, 4)"),
        ("vyre.atomic.add(n, 0, 1)", "vyre.atomic", "vyre.atomic_add(n, 0, 1)"),
        ("y[i] = vyre.tid()", "vyre.tid", "vyre.global_id(0)"),
        ("y[i] = math.exp(a)", "math.exp(a)", "vyre.exp"),
        ("tile = cuda.shared.array(64, f32)", "cuda.shared.array", "vyre.shared(f32, 64)"),
        ("y[i] = float32(i)", "float32", "write f32"),
    ],
)  # fmt: skip
def test_words_of_other_libraries_are_told_at_their_place(
    statement: str, place: str, remedy: str, tmp_path: Path
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        written_module(tmp_path, f"{HEAD}{LANES}    {statement}\n", "foreign_words_here").kernel.text()
    error = caught.value.diagnostics[0]
    assert error.loc is not None
    assert error.loc.source.text[error.loc.start : error.loc.end] == place
    assert error.help is not None
    assert remedy in error.help


def test_a_name_that_is_spelled_wrong_is_no_foreign_word(tmp_path: Path) -> None:
    message = wrong(LANES, "y[i] = tabel[0]", tmp_path, "misspelt_name")
    assert "tabel is not defined" in message
    assert "did you mean table?" in message


def test_vyre_that_is_not_imported_is_no_name_of_another_library(tmp_path: Path) -> None:
    text = f"{HEAD}{LANES}    y[i] = 1.0\n".replace("vyre_opt as vyre", "vyre_opt").replace(
        "@vyre.", "@vyre_opt."
    )
    with pytest.raises(DiagnosticError, match=r"vyre\.global_id is not defined") as caught:
        written_module(tmp_path, text, "unimported").kernel.text()
    assert caught.value.diagnostics[0].help == "import vyre_opt as vyre, at the top of the file"


def test_decorators_of_other_libraries_are_told_outside_of_kernels() -> None:
    with pytest.raises(AttributeError, match="has no attribute 'jit'") as caught:
        _ = vyre_opt.jit  # type: ignore[attr-defined]
    assert caught.value.__notes__ == ["help: write @vyre.program"]


def test_words_are_no_words_of_kernels() -> None:
    """A row for a name that kernels have would be in the way of it; those of slices and pipelines say what else it needs."""
    on_slices = {
        "sum",
        "max",
        "min",
        "any",
        "all",
        "argmax",
        "argmin",
        "cumsum",
        "arange",
        "zeros",
        "where",
        "fill",
    }
    assert {row.word for row in ROWS if row.context == "python"} & set(INTRINSICS) <= on_slices
