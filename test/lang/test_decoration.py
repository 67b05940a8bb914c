"""What is told where a function is decorated: all that is wrong with it whatever its names will stand for."""

from __future__ import annotations

import math
import select
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.modules import written_module

import vyre_opt
from vyre_opt import BadInputs, DiagnosticError
from vyre_opt.lang import f16, f32

HEAD = "import numpy as np\nimport vyre_opt as vyre\nfrom vyre_opt.lang import Read, ReadWrite, Write, f32, u32\n\n"


@pytest.mark.parametrize(
    ("text", "message", "help"),
    [
        ("@vyre.program\ndef k(x):\n    pass\n", "the argument x has no type", "write x: f32 for a number"),
        ("@vyre.program\ndef k(x: f32[4]):\n    pass\n", "the type of x is f32[4]", "write Read[f32[4]]"),
        ("@vyre.program\ndef k(x: np.float32):\n    pass\n", "the type of x is np.float32", "write f32"),
        ("@vyre.program\ndef k(x: np.ndarray):\n    pass\n", "the type of x is np.ndarray", "write x: Read[f32]"),
        ("@vyre.program\ndef k(x: int):\n    pass\n", "the type of x is int", "write x: i32"),
        ("@vyre.program\ndef k(*x: f32):\n    pass\n", "no * and ** arguments", "name each argument"),
        ("@vyre.program\ndef k(y: Write[f32]):\n    with open('a'):\n        y[0] = 1.0\n", "a kernel has no with", None),
        ("@vyre.program\ndef k(y: Write[f32]):\n    for i in range(4):\n        try:\n            y[i] = 1.0\n        finally:\n            pass\n",
         "a kernel catches no errors", "write the condition before"),
        ("@vyre.func\ndef k(a):\n    import math\n    return a\n", "a kernel imports nothing", "at the top of the file"),
        ("@vyre.pipeline\ndef k(x):\n    pass\n", "the argument x has no type", "write x: Read[f32]"),
        ("@vyre.pipeline\ndef k(x: Read[f32]):\n    class A:\n        pass\n", "a kernel defines no classes", None),
        ("@vyre.program\nasync def k(x: Read[f32]):\n    pass\n", "a kernel is no coroutine", "write def"),
    ],
)  # fmt: skip
def test_it_is_told_when_the_file_is_imported(
    text: str, message: str, help: str | None, tmp_path: Path
) -> None:
    with pytest.raises(DiagnosticError) as caught:
        written_module(tmp_path, HEAD + text, "decorated_wrong")
    error = caught.value.diagnostics[0]
    assert message in error.message
    assert error.loc is not None
    assert help is None or (error.help is not None and help in error.help)


def test_several_mistakes_are_told_at_once(tmp_path: Path) -> None:
    text = "@vyre.program\ndef k(x, y: np.float32):\n    global z\n    z = 1\n"
    with pytest.raises(DiagnosticError) as caught:
        written_module(tmp_path, HEAD + text, "several_mistakes")
    assert len(caught.value.diagnostics) == 3


def test_names_may_be_defined_after_the_kernel(tmp_path: Path) -> None:
    """Types in quotes, functions and constants are looked up when it is translated; branches that are left out stay so."""
    text = (
        "@vyre.program\ndef k(x: 'Later', y: Write[f32]):\n    y[0] = after(x) * SCALE\n"
        "    if PRINTS:\n        import sys\n\n"
        "Later, SCALE, PRINTS = f32, 2.0, False\n\n@vyre.func\ndef after(a):\n    return a + 1.0\n"
    )
    assert "param @x : f32" in written_module(tmp_path, HEAD + text, "defined_later").k.text()


@pytest.mark.parametrize("workgroup", [2048, (64, 64), (1, 1, 128)])
def test_workgroups_that_are_too_large(workgroup: Any) -> None:
    with pytest.raises(ValueError, match="a workgroup has at most 1024 invocations, and 64 along z"):
        vyre_opt.program(workgroup=workgroup)


def test_a_star_import_hides_no_name_of_python() -> None:
    names: dict[str, Any] = {"math": math, "select": select}
    exec("from vyre_opt.lang import *", names)
    assert names["math"] is math
    assert names["select"] is select
    own = ("abs", "all", "any", "max", "min", "pow", "range", "round", "sum", "print")
    assert not any(name in names for name in own)
    assert vyre_opt.math.softmax is not None
    assert vyre_opt.select is not None


@pytest.mark.parametrize(
    ("dtype", "value", "shown"),
    [
        (f32, 1e40, "1e+40"),
        (f32, 10**50, "a number of 167 bits"),
        (f32, np.float64(-1e39), "-1e+39"),
        (f16, 70000, "70000"),
    ],
)
def test_a_number_that_a_float_does_not_hold_is_told_as_in_a_kernel(
    dtype: Any, value: Any, shown: str, tmp_path: Path
) -> None:
    text = "@vyre.program(grid=1)\ndef k(a: TYPE, y: Write[f32]):\n    y[0] = f32(a)\n"
    name = "f16" if dtype is f16 else "f32"
    kernel = written_module(
        tmp_path, HEAD.replace("u32", "u32, f16") + text.replace("TYPE", name), "large_numbers"
    ).k
    with pytest.raises(BadInputs) as caught:
        kernel(value, np.zeros(1, np.float32))
    assert str(caught.value) == f"k: a is {name}: {shown} does not fit in {name}, and would be inf"
    kernel(math.inf, np.zeros(1, np.float32))  # which is one of its values
