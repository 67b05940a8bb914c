"""Pipelines built in Python are those of their text, and locate their stages."""

from __future__ import annotations

import numpy as np
import pytest

import vyre_opt
from vyre_opt import Builder, DiagnosticError, PipelineBuilder
from vyre_opt.ir import Program


def scale() -> Program:
    b = Builder("scale", workgroup=64)
    x = b.buffer("x", "f32", None, "read", 0)
    b.buffer("y", "f32", None, "write", 1)
    i = b.global_id()
    with b.if_(i < b.len(x)):
        b.store(b.load(x, i) * b.param("alpha", "f32"), "y", i)
    return b.finish()


def test_a_pipeline_is_that_of_its_text() -> None:
    p = PipelineBuilder("main")
    x = p.buffer("x", "f32", None, "read")
    t = p.buffer("t", "f32", p.len(x))
    y = p.buffer("y", "f32", p.max(p.len(t), 1), "write")
    n, a = p.param("n", "u32"), p.param("a", "f32")
    program = scale()
    p.launch(program, p.ceil_div(p.len(x), 64), [x, t], {"alpha": a})
    with p.repeat(2):
        p.launch(program, (p.max(n, 1), 1), [t, y], {"alpha": 0.5})
        p.host_read(y)
    p.kernel("scan.prefix", x, y)
    module = p.finish()
    text = vyre_opt.print_program(module)
    assert text.endswith(
        """pipeline @main {
  buffer @x : f32[?] read
  buffer @t : f32[len(@x)]
  buffer @y : f32[max(len(@t), 1)] write
  param @n : u32
  param @a : f32

  launch @scale grid(ceil_div(len(@x), 64)) (@x, @t) params(@alpha = @a)
  repeat 2 {
    launch @scale grid(max(@n, 1)) (@t, @y) params(@alpha = 0.5)
    host_read @y
  }
  scan.prefix(@x, @y)
}
"""
    )
    assert vyre_opt.print_program(vyre_opt.parse(text)) == text
    reads: list[list[float]] = []
    main = vyre_opt.compile(module)
    values = {"n": 1, "a": 4.0}
    array = np.arange(3, dtype=np.float32)
    main({"x": array}, params=values, on_host_read=lambda name, y: reads.append(y.tolist()))  # type: ignore[call-arg]
    assert reads == [[0.0, 2.0, 4.0]] * 2


def test_stages_are_located_at_the_lines_that_build_them() -> None:
    p = PipelineBuilder("main")
    x = p.buffer("x", "f32", 8, "read")
    p.launch(scale(), 1, [x, x], {"alpha": 1})
    with pytest.raises(DiagnosticError) as caught:
        p.finish()
    (error,) = caught.value.diagnostics[:1]
    assert error.loc is not None
    assert error.loc.source.name == __file__
    assert error.loc.source.line_text(error.loc.line).strip() == 'p.launch(scale(), 1, [x, x], {"alpha": 1})'


def test_wrong_arguments_are_refused_at_once() -> None:
    p = PipelineBuilder("main")
    x = p.buffer("x", "f32", None, "read")
    with pytest.raises(ValueError, match="has a buffer @x already"):
        p.buffer("x", "f32", None)
    with pytest.raises(ValueError, match="unknown type f23; did you mean f32"):
        p.buffer("y", "f23", None)
    with pytest.raises(ValueError, match="no buffer @y"):
        p.len("y")
    with pytest.raises(TypeError, match="a size is a whole number"):
        p.max(p.len(x), 1.5)
    with pytest.raises(ValueError, match=r"no kernel scan\.prefx"):
        p.kernel("scan.prefx", x, x)
    with pytest.raises(AttributeError, match="has no lanch"):
        p.lanch()
    with pytest.raises(TypeError, match="a runtime scalar is"):
        p.launch(scale(), 1, [x, x], {"alpha": "1"})  # type: ignore[dict-item]
