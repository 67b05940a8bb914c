"""Kernels as programs write them: sums of thousands of terms, long chains of conditions, blocks that nest too deep."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from support.modules import written_module
from support.warned import UNUSED

from vyre_opt import DiagnosticError, ProgramWarning, parse
from vyre_opt.ir import fingerprint

pytestmark = pytest.mark.filterwarnings(f"ignore:{UNUSED}")

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import Read, Write, f32, u32


@vyre.program(workgroup=8)
def kernel(x: Read[f32], y: Write[f32]):
    i = vyre.local_id(0)
    y[i] = 0.0
"""


def chain(count: int) -> str:
    """if ... elif ... elif ..."""
    rest = "".join(f"    elif i == {k}:\n        y[i] = {k}.0\n" for k in range(1, count))
    return f"    if i == 0:\n        y[i] = 9.0\n{rest}"


def conditional(count: int) -> str:
    """... if ... else ... if ... else ..."""
    return "    y[i] = " + "".join(f"1.0 * {k} if i == {k} else " for k in range(count)) + "0.0"


def test_an_index_of_many_steps_is_looked_at_once(tmp_path: Path) -> None:
    """Each step by itself: in shared memory, and where an element is counted, in steps that double it."""
    steps = "    i = i + 1\n    s[i] = x[i]\n" * 1200
    shared = (
        "    i = vyre.local_id(0)\n    s = vyre.shared(f32, 2048)\n"
        + steps
        + "    vyre.barrier()\n    y[i] = s[i]\n"
    )
    assert written_module(tmp_path, HEAD + shared, "shared").kernel.text().count("@s") > 1200
    counted = "    k = u32(x[i])\n" + "    k = k + k\n" * 64 + "    y[k] += 1.0\n"
    head = HEAD.replace("Write[f32]", "vyre.ReadWrite[f32]")
    with pytest.warns(ProgramWarning, match="several invocations may add"):
        written_module(tmp_path, head + counted, "counted").kernel.text()


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("    y[i] = " + " + ".join(["x[i]"] * 2000), lambda i: 2000 * i),
        ("    y[i] = " + "(" * 150 + "x[i]" + " + 1.0)" * 150, lambda i: i + 150),
        (
            "    if " + " and ".join(f"i != {k + 3}" for k in range(150)) + ":\n        y[i] = 1.0",
            lambda i: i < 3,
        ),
        (
            "    if " + " or ".join(f"x[i] < {-k}" for k in range(150)) + ":\n        y[i] = 1.0",
            lambda i: 0 * i,
        ),
        ("    if " + " < ".join(["i", *map(str, range(1, 150))]) + ":\n        y[i] = 1.0", lambda i: i < 1),
        (conditional(50), lambda i: i),
        pytest.param(conditional(150), lambda i: i, marks=pytest.mark.campaign),  # passes take seconds
        (chain(150), lambda i: np.where(i == 0, 9, i)),
        (
            "".join(f"    if i == {k}:\n        return\n" for k in range(4, 150)) + "    y[i] = 1.0",
            lambda i: i < 4,
        ),
    ],
    ids=[
        "sum",
        "parentheses",
        "and",
        "or",
        "compared",
        "conditional",
        "longer conditional",
        "elif",
        "returns",
    ],
)
def test_a_long_kernel_runs(tmp_path: Path, body: str, expected: object) -> None:
    kernel = written_module(tmp_path, f"{HEAD}{body}\n", "long").kernel
    x, y = np.arange(8, dtype=np.float32), np.zeros(8, np.float32)
    kernel[1](x, y)
    assert np.array_equal(y, np.asarray(expected(np.arange(8)), np.float32))  # type: ignore[operator]
    assert fingerprint(parse(kernel.text())) == fingerprint(kernel.module)


@pytest.mark.parametrize(
    "body",
    [
        "    y[i] = " + "- " * 900 + "x[i]",
        "    if " + " and ".join(f"x[i] != {k}" for k in range(300)) + ":\n        y[i] = 1.0",
        "    y[i] = " + "".join(f"x[{k}] if i == {k} else " for k in range(300)) + "0.0",
        chain(300),
    ],
    ids=["signs", "and", "conditional", "elif"],
)
def test_what_nests_too_deep_is_refused_at_its_place(tmp_path: Path, body: str) -> None:
    kernel = written_module(tmp_path, f"{HEAD}{body}\n", "deep").kernel
    with pytest.raises(DiagnosticError) as caught:
        kernel.text()
    (error,) = caught.value.diagnostics
    assert error.message == "this nests too deep; blocks nest 200 levels at most"
    assert error.loc is not None
    assert error.loc.line >= 9


def test_values_have_the_letters_of_the_text(tmp_path: Path) -> None:
    """Python's names have any letters; those of programs and arguments are called by, and are refused."""
    body = "    größe, δ = vyre.shared(f32, 8), x[i]\n    größe[i] = δ\n    vyre.barrier()\n    for ñ in range(2):\n        δ += größe[ñ]\n    y[i] = δ\n"
    module = written_module(tmp_path, HEAD + body, "letters")
    text = module.kernel.text()
    assert text.isascii()
    assert fingerprint(parse(text)) == fingerprint(module.kernel.module)
    for name in ("kernel", "x"):
        head = HEAD.replace(f"{name}:", f"é{name}:").replace("def ", f"def {'é' * (name == 'kernel')}")
        with pytest.raises(
            DiagnosticError, match="has letters that the names of programs and arguments do not"
        ):
            written_module(tmp_path, head + body, name)
