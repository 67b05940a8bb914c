"""Kernels and pipelines whose types the arrays of each call decide, compared with NumPy in each type."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, TypeVar

import numpy as np
import pytest
from support.each import each
from support.modules import written_module

import vyre_opt
import vyre_opt as vyre
from vyre_opt import BadInputs
from vyre_opt.lang import Float, Int, Kernel, Read, ReadWrite, Scalar, Write, f16, f32, f64, i32
from vyre_opt.lang.generics import type_variables
from vyre_opt.lang.python_source import FunctionSource

T = TypeVar("T", bound=Scalar)
Wide = TypeVar("Wide", f32, f64)


@vyre.func
def weighted(a: Float, weight: Float) -> Float:
    return a * weight + Float(0.5)


@vyre.program(workgroup=32)
def axpy(x: Read[Float], y: ReadWrite[Float], alpha: Float = 2.0) -> None:
    tile = vyre.shared(Float, 32)
    i, k = vyre.global_id(0), vyre.local_id(0)
    if i < len(y):
        tile[k] = weighted(x[i], alpha)
        y[i] = tile[k] + y[i]


@vyre.program(workgroup=32)
def convert(x: Read[T], y: Write[Wide]) -> None:
    i = vyre.global_id(0)
    if i < len(y):
        y[i] = Wide(x[i])


@vyre.program
def centred(x: Read[Annotated[Wide, :, :]], y: Write[Annotated[Wide, :, :]]) -> None:
    row = x[vyre.workgroup_id(0), :]
    y[vyre.workgroup_id(0), :] = row - vyre.max(row)


@vyre.program(workgroup=32)
def parity(x: ReadWrite[Int[:]]) -> None:
    i = vyre.global_id(0)
    if i < len(x):
        x[i] = x[i] & vyre_opt.lang.Int(1)


@vyre.pipeline
def twice(x: Read[Float], y: ReadWrite[Float], alpha: Float = 3) -> None:
    t = vyre.zeros(len(x), Float)
    axpy[1](x, t, alpha)
    axpy[1](t, y)


@vyre.pipeline
def of_two_types(x: Read[f32], y: ReadWrite[f32], z: ReadWrite[f64]) -> None:
    t = vyre.buffer(f64, len(x))
    twice(x, y)
    convert[1](x, t)
    axpy[1](t, z, alpha=1)


FLOATS = (np.float16, np.float32, np.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_each_type_of_arrays_has_its_own_program(dtype: Any) -> None:
    x, y, z = np.arange(5, dtype=dtype), np.ones(5, dtype), np.ones(5, dtype)
    axpy[1](x, y)
    assert y.tolist() == [1.5, 3.5, 5.5, 7.5, 9.5]
    axpy[np.int64(1)](x, y, alpha=-2)
    assert y.tolist() == [2] * 5
    twice(x, z)
    assert z.tolist() == [1 + 2 * (3 * k + 0.5) + 0.5 for k in range(5)]
    assert (
        axpy.text(x=x, y=y)
        == axpy.at(vyre_opt.lang.Float.__subclasses__()[(0, 2, 3)[FLOATS.index(dtype)]]).text()
    )


def test_variables_are_of_their_own() -> None:
    x, y = np.arange(4, dtype=np.uint8), np.zeros(4)
    convert[1](x, y)
    assert y.tolist() == [0, 1, 2, 3]
    rows, out = np.arange(6.0).reshape(2, 3), np.zeros((2, 3))
    centred[2](rows, out)
    assert out.tolist() == [[-2, -1, 0]] * 2
    for dtype in (np.int64, np.uint8):
        numbers = np.arange(4, dtype=dtype)
        parity[1](numbers)
        assert numbers.tolist() == [0, 1, 0, 1]


def test_a_pipeline_passes_its_buffers_types_on() -> None:
    x, y, z = np.arange(3, dtype=np.float32), np.zeros(3, np.float32), np.ones(3)
    of_two_types(x, y, z)
    assert y.tolist() == [1.5, 7.5, 13.5]
    assert z.tolist() == [1.5, 2.5, 3.5]
    names = [*of_two_types.module.programs]
    assert names == ["axpy", "convert", "axpy_2"]


@vyre.tunable(lanes=(32, 64))
def tuned(lanes: int) -> Kernel:
    @vyre.program(workgroup=lanes)
    def scale(x: Read[Float], y: Write[Float], by: Float = 2) -> None:
        i = vyre.global_id(0)
        if i < len(y):
            y[i] = by * x[i]

    return scale


def test_choices_are_measured_for_the_types_of_arrays() -> None:
    for dtype in (np.float32, np.float64):
        x, y = np.arange(64, dtype=dtype), np.zeros(64, dtype)
        assert tuned.autotune(x, y, grid=2, store=None).of == 2
        assert not y.any()
        tuned[2](x, y)
        assert y.tolist() == (2 * x).tolist()


def test_a_program_is_made_once_for_a_type() -> None:
    assert axpy.at(f32) is axpy.at(f32)
    assert axpy.at(f32) is not axpy.at(f64)
    assert [v.name for v in convert.variables] == ["T", "Wide"]
    assert axpy.at(f32).variables == []


def test_what_is_made_for_types_is_pickled_and_has_options() -> None:
    for made in (
        axpy,
        axpy.at(f64),
        axpy.at(f64).options(target="ref"),
        axpy.options(target="ref").at(f16),
        twice.at(f32),
    ):
        assert pickle.loads(pickle.dumps(made)) is made
    y = np.ones(2)
    axpy.options(target="ref", passes=None)[1](np.ones(2), y)
    assert y.tolist() == [3.5, 3.5]


def test_what_is_made_for_types_keeps_the_options_that_it_was_made_under() -> None:
    lines = [
        kernel.llvm().count("!DILocation(")
        for kernel in (
            axpy.at(f32),
            axpy.options(debug_info=True).at(f32),
            axpy.at(f32).options(debug_info=True),
        )
    ]
    assert lines[0] == 0
    assert lines[1] == lines[2] > 0


def test_notebooks_show_the_name_of_what_has_no_program() -> None:
    assert axpy._repr_html_() is None
    assert twice._repr_html_() is None
    assert "@axpy" in str(axpy.at(f32)._repr_html_())


def test_reports_and_code_are_of_a_type() -> None:
    x, y = np.ones(32), np.zeros(32)
    assert "256 B of @x" in str(axpy[1].report(x, y))
    assert "256 B of @x" in str(twice.report(x, y, alpha=2))
    assert ".f64" in axpy.at(f64).ptx("sm_90")
    assert ".f64" not in axpy.at(f32).ptx("sm_90")


def test_variables_of_the_new_syntax_are_seen() -> None:
    """`def kernel[T: Float](x: Read[T])`, which Python has from 3.12 on, keeps its variables there."""

    def kernel(x: Read[Own]) -> None:  # type: ignore[name-defined]  # noqa: F821
        pass

    own: Any = TypeVar("Own", bound=Float)  # type: ignore[misc]
    kernel.__dict__["__type_params__"] = (own,)
    assert [v.key for v in type_variables(FunctionSource(kernel))] == [own]


x32, x64, ints = np.ones(2, np.float32), np.ones(2), np.ones(2, np.int32)

REFUSED: dict[str, tuple[Any, str]] = {
    "two types": (
        lambda: axpy[1](x32, x64),
        "axpy: x is of f32 and y of f64, and both are of the type Float: convert one, or give each a TypeVar of its own",
    ),
    "of a pipeline": (
        lambda: twice(x32, x64),
        "twice: x is of f32 and y of f64, and both are of the type Float",
    ),
    "no float": (lambda: axpy[1](ints, ints), "axpy: x is of i32, and Float is one of f16, bf16, f32, f64"),
    "none of the constraints": (
        lambda: convert[1](x32, ints),
        "convert: y is of i32, and Wide is one of f32, f64",
    ),
    "no numbers": (
        lambda: axpy[1](x64.astype(complex), x64),
        "axpy: x is an array of complex128, and a kernel has no complex numbers; pass x.real.copy()",
    ),
    "no types": (
        lambda: axpy.ptx(),
        "axpy has a program for each type that Float may be: name one, as axpy.at(f64)",
    ),
    "not all arrays": (lambda: axpy.text(x=x32), "name one, as axpy.at(f64)"),
    "of a pipeline's text": (lambda: twice.text(), "name one, as twice.at(f64)"),
    "too many": (lambda: axpy.at(f32, f32), "axpy.at takes a type for each type variable, Float, not 2"),
    "too few": (lambda: convert.at(f32), "convert.at takes a type for each type variable, T, Wide, not 1"),
    "another one": (lambda: axpy.at(i32), "axpy.at: Float is one of f16, bf16, f32, f64"),
    "of Python": (lambda: axpy.at(float), "axpy.at: Float is one of f16, bf16, f32, f64"),
    "made already": (
        lambda: axpy.at(f32).at(f32),
        "axpy.at takes a type for each type variable, and there is none, not 1",
    ),
}


def test_types_that_do_not_fit_are_refused() -> None:
    def check(name: str) -> None:
        call, message = REFUSED[name]
        with pytest.raises(BadInputs) as caught:
            call()
        assert message in str(caught.value)

    each(REFUSED, check)


WRONG = {
    "a: Float, y: Write[f32]": "take an array of this type, too, which says what it is",
    "x: Read[U], y: Write[U]": 'say which types U may be: TypeVar("U", bound=Float)',
}


IMPORTS = "from typing import *\nimport vyre_opt as vyre\nfrom vyre_opt.lang import *\nU = TypeVar('U')\nV = TypeVar('V', bound=Int)\n"


def test_variables_that_nothing_decides_are_told(tmp_path: Path) -> None:
    """At the decorator."""

    def check(head: str) -> None:
        for decorator, body in (("program", "y[0] = 1.0"), ("pipeline", "vyre.fill(y, 0)")):
            text = f"{IMPORTS}@vyre.{decorator}\ndef wrong({head}):\n    {body}\n"
            with pytest.raises(vyre_opt.DiagnosticError) as caught:
                written_module(tmp_path, text, f"wrong_{decorator}_{[*WRONG].index(head)}")
            assert WRONG[head] in str(caught.value.diagnostics[0].help)

    each(WRONG, check)


def test_a_type_that_no_array_has_is_told_in_the_body(tmp_path: Path) -> None:
    text = f"{IMPORTS}@vyre.program\ndef k(x: Read[Float], y: Write[Float]):\n    y[0] = x[0] + Int(3)\n"
    with pytest.raises(vyre_opt.DiagnosticError, match="Int cannot be called in a kernel") as caught:
        written_module(tmp_path, text, "body").k.at(f32).text()
    assert caught.value.diagnostics[0].help == "write i32"


def test_heads_that_python_has_evaluated(tmp_path: Path) -> None:
    """This module's annotations are text, as `from __future__ import annotations` makes them."""
    text = (
        f"{IMPORTS}@vyre.program(workgroup=1)\ndef add(x: Read[Annotated[V, :, 2]], y: ReadWrite[V], z: Write[Float[:]], n: V = -1):\n"
        "    y[0] += x[0, 1] + n\n    z[0] = Float(y[0])\n"
        "@vyre.pipeline\ndef twice(x: Read[Annotated[V, :, 2]], y: ReadWrite[V], z: Write[Float[:]]):\n"
        "    add[1](x, y, z)\n    add[1](x, y, z, 0)\n"
    )
    module = written_module(tmp_path, text, "evaluated")
    for dtype in (np.int16, np.int64):
        y, z = np.ones(1, dtype), np.zeros(1)
        module.twice.options(target="ref")(np.array([[3, 4]], dtype), y, z)
        assert (y.tolist(), z.tolist()) == ([8], [8.0])
    with pytest.raises(
        vyre_opt.DiagnosticError, match=r"the default of n, which is u8: -1 does not fit in u8"
    ):
        module.add.at(vyre_opt.lang.u8, f32).text()


def test_buffers_of_a_pipeline_that_disagree_are_told_at_the_launch(tmp_path: Path) -> None:
    text = (
        "import vyre_opt as vyre\nfrom vyre_opt.lang import *\nfrom test_generics_axpy import axpy\n"
        "@vyre.pipeline\ndef mixed(x: Read[f32], y: ReadWrite[f64]):\n    axpy[1](x, y)\n"
    )
    import sys

    sys.modules["test_generics_axpy"] = SimpleNamespace(axpy=axpy)  # type: ignore[assignment]
    with pytest.raises(
        vyre_opt.DiagnosticError, match=r"mixed\.py:6:5: error: axpy: x is of f32 and y of f64"
    ):
        written_module(tmp_path, text, "mixed").mixed.text()


def test_tensors_say_their_types() -> None:
    torch = pytest.importorskip("torch")
    y = torch.ones(3, dtype=torch.bfloat16)
    axpy[1](torch.arange(3).to(torch.bfloat16), y)
    assert y.tolist() == [1.5, 3.5, 5.5]


def test_bits_of_a_type_that_numpy_lacks_need_its_name() -> None:
    """An array of uint16 is of u16; `at` says that its elements are of bf16."""
    bits = np.array([0x3F80], np.uint16)  # 1.0
    axpy.at(vyre_opt.lang.bf16)[1](bits, bits)
    assert bits.tolist() == [0x4060]  # 3.5
