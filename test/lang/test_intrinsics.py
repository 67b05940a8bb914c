"""What editors say of a function that kernels call is what the translation takes."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest
from support.each import each
from support.modules import written_module

import vyre_opt
from vyre_opt.ir import OPS, Builder
from vyre_opt.lang.intrinsics import INTRINSICS, namespaces

CALLED = [
    name
    for name in INTRINSICS
    if name not in ("shared", "buffer", "zeros", "fill", "host_read", "vector", "debug_print")
]


def test_arguments_are_those_of_the_translation(tmp_path: Path) -> None:
    """An argument too many is an error that names them all."""
    text = "import vyre_opt as vyre\nfrom vyre_opt.lang import *\n" + "".join(
        f"\n\n@vyre.program\ndef kernel_{name}(z: ReadWrite[u32]):\n    vyre.{name}({', '.join(['z'] * 9)})\n"
        for name in CALLED
    )
    module = written_module(tmp_path, text, "calls")

    def check(name: str) -> None:
        with pytest.raises(vyre_opt.DiagnosticError) as caught:
            getattr(module, f"kernel_{name}").text()
        said = re.search(r"it is vyre\.\w+\((.*)\)", caught.value.diagnostics[0].help or "")
        assert said is not None
        of_slices = ("axis", "keepdims") if name in ("min", "max") else ()  # of one argument
        parameters = [
            p
            for p in inspect.signature(getattr(vyre_opt, name)).parameters
            if p not in ("fastmath", *of_slices)
        ]
        assert said[1].replace("=...", "") == ", ".join(parameters)

    each(CALLED, check)


def test_stubs_have_every_name() -> None:
    stub = (Path(vyre_opt.__file__).parent / "lang/ops.pyi").read_text(encoding="utf-8")
    assert set(re.findall(r"^def (\w+)\(", stub, re.MULTILINE)) == set(INTRINSICS)
    assert set(re.findall(r"^class _(\w+):", stub, re.MULTILINE)) == set(namespaces())
    methods = (Path(vyre_opt.__file__).parent / "ir/op_methods.pyi").read_text(encoding="utf-8")
    named = re.findall(r"^    def (\w+)\(", methods, re.MULTILINE)
    for name in named:
        assert callable(getattr(Builder, name, None) or getattr(Builder("p"), name))
    own = {name for name in vars(Builder) if not name.startswith("__")}
    kernels_and_blocks = {n for n, row in OPS.items() if row.kernel or row.is_terminator or row.format == n}
    missing = {n for n in OPS if n not in named and f"{n}_" not in named} - own - {o.rstrip("_") for o in own}
    assert missing <= kernels_and_blocks


def test_help_shows_arguments() -> None:
    assert (
        str(inspect.signature(vyre_opt.atomic_add)) == "(array, index, value, order='relaxed', fastmath=())"
    )
    assert str(inspect.signature(vyre_opt.fma)) == "(a, b, c, fastmath=())"
    assert "one rounding" in str(vyre_opt.fma.__doc__)
