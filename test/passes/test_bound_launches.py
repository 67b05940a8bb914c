"""A proof about a launch holds for what the launch binds: params by value, lengths as the pipeline declares them.

Expected values are NumPy's, of the launches one after the other.
"""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from support.shifted import get, put

import vyre_opt as vyre
from vyre_opt import compile, parse
from vyre_opt.fusion.access_slice import access_slice
from vyre_opt.fusion.bound_program import BoundProgram, BoundPrograms
from vyre_opt.fusion.group_legality import PairProofs, launch_node
from vyre_opt.fusion.pair_legality import LaunchPair, prove_pair
from vyre_opt.ir import Launch, Module, Program
from vyre_opt.lang import Read, ReadWrite, Write, f32, i32, u32
from vyre_opt.passes import PassManager

TARGETS = pytest.mark.parametrize("target", ["ref", "cpu", pytest.param("cuda", marks=pytest.mark.gpu)])

SHIFTED = f"""vyre 2

{put(" = 0")}{get(default=" = 0")}{get("get_4", default=" = 4")}pipeline @main {{
  buffer @x : u32[8] read
  buffer @m : u32[16] live_in live_out
  buffer @n : u32[16] live_in live_out
  buffer @y : u32[8] write
  buffer @z : u32[8] write
  PARAM
  launch @put grid(2) (@x, @m)
  launch @get grid(2) (@m, @y)
  host_read @y
  launch @put grid(2) (@x, @n)
  OTHER
}}
"""


def launches(module: Module) -> list[Launch]:
    return [stage for stage in module.pipelines["main"].walk() if isinstance(stage, Launch)]


@pytest.mark.parametrize(
    ("param", "other", "count"),
    [
        ("", "launch @get grid(2) (@n, @z) params(@k = 4)", 3),
        ("", "launch @get_4 grid(2) (@n, @z)", 3),
        ("param @p : u32", "launch @get grid(2) (@n, @z) params(@k = @p)", 3),
        ("", "launch @get grid(2) (@n, @z) params(@k = 0)", 2),
        ("", "launch @get_4 grid(2) (@n, @z) params(@k = 0)", 2),
    ],
    ids=["literal", "default", "scalar", "the same literal", "a literal for the default"],
)
@TARGETS
def test_what_holds_for_one_param_is_taken_for_no_other(
    param: str, other: str, count: int, target: str
) -> None:
    text = SHIFTED.replace("PARAM", param).replace("OTHER", other)
    module = parse(text)
    PassManager("launch_fusion").run(module)
    assert len(launches(module)) == count
    x, n = np.arange(1, 9, dtype=np.uint32), np.full(16, 90, np.uint32)
    shift = 0 if "= 0" in other else 4
    inputs, params = {"x": x, "m": n.copy(), "n": n.copy()}, {"p": shift} if param else {}
    outputs = compile(text, target=target, passes="default")(inputs, params=params)
    expected = np.concatenate([x, n[8:]])
    assert (outputs["y"] == x).all()
    assert (outputs["z"] == expected[shift : shift + 8]).all()


@vyre.program(workgroup=64)
def butterfly(h: u32, x: Read[i32[256]], y: Write[i32[256]]):
    i = vyre.global_id(0)
    j = i ^ h
    a, b = x[i], x[j]
    y[i] = a + b if i & h == 0 else b - a


@vyre.pipeline
def walsh_hadamard(x: ReadWrite[i32[256]]):
    t = vyre.buffer(i32, 256)
    butterfly[4](1, x, t)
    butterfly[4](2, t, x)
    butterfly[4](4, x, t)
    butterfly[4](8, t, x)
    butterfly[4](16, x, t)
    butterfly[4](32, t, x)
    butterfly[4](64, x, t)
    butterfly[4](128, t, x)


@TARGETS
def test_steps_of_a_transform_that_leave_the_workgroup_stay_apart(target: str) -> None:
    """The first six steps of each workgroup stay in it; the last two go to others."""
    start = np.random.default_rng(1).integers(-9, 9, 256).astype(np.int32)
    signs = np.array([[(-1) ** (i & j).bit_count() for j in range(256)] for i in range(256)])
    x = start.copy()
    walsh_hadamard.options(target=target, passes="default")(x)
    assert (x == signs @ start).all()
    assert "8 -> 3 launches" in str(walsh_hadamard.report())


@vyre.program(workgroup=64)
def difference(x: Read[f32], d: Write[f32]):
    i = vyre.global_id(0)
    if i < len(d):
        d[i] = x[i + 1] - x[i]


@vyre.program(workgroup=64)
def with_the_last(d: Read[f32], s: Write[f32]):
    i = vyre.global_id(0)
    if i < len(d):
        s[i] = d[i] + d[max(i, 1) - 1]


@vyre.program(workgroup=64)
def halved(s: Read[f32], y: Write[f32]):
    i = vyre.global_id(0)
    if i < len(s):
        y[i] = s[i] * 0.5


@vyre.pipeline
def differences_smoothed(x: Read[f32[513]], y: Write[f32[512]]):
    d = vyre.buffer(f32, 512)
    s = vyre.buffer(f32, 512)
    difference[8](x, d)
    with_the_last[8](d, s)
    halved[8](s, y)


@TARGETS
def test_a_length_is_the_pipelines_where_the_buffer_becomes_a_tile(target: str) -> None:
    x = np.random.default_rng(0).integers(0, 99, 513).astype(np.float32)
    d = x[1:] - x[:-1]
    y = np.zeros(512, np.float32)
    differences_smoothed.options(target=target, passes="default")(x, y)
    assert (y == (d + np.concatenate([d[:1], d[:-1]])) * np.float32(0.5)).all()
    assert "3 -> 1 launches" in str(differences_smoothed.report())


def test_a_buffer_that_goes_leaves_its_size_along_a_dimension() -> None:
    text = """vyre 2
    program @p workgroup(4) {
      buffer @x : u32[?, 2] read binding(0)
      buffer @m : u32[?, 2] write binding(1)
      %g = global_id x
      %n = len @m, 0
      %p = lt %g, %n : u32
      if %p {
        %v = load @x[%g, 1]
        store %v, @m[%g, 1]
      }
    }
    program @q workgroup(4) {
      buffer @m : u32[?, 2] read binding(0)
      buffer @y : u32[?] write binding(1)
      %g = global_id x
      %n = len @y
      %p = lt %g, %n : u32
      if %p {
        %v = load @m[%g, 1]
        store %v, @y[%g]
      }
    }
    pipeline @main {
      buffer @x : u32[?, 2] read
      buffer @m : u32[len(@x, 0), 2]
      buffer @y : u32[len(@m, 0)] write
      launch @p grid(4) (@x, @m)
      launch @q grid(4) (@m, @y)
    }
    """
    x = np.arange(26, dtype=np.uint32).reshape(13, 2)
    run = compile(text, passes="default")
    assert (run({"x": x})["y"] == x[:, 1]).all()
    assert [*run.module.pipelines["main"].buffers] == ["x", "y"]


# --- the question that a proof answers


def questions() -> tuple[Module, LaunchPair]:
    """A module, and what its first two launches ask."""
    module = parse(SHIFTED.replace("PARAM", "").replace("OTHER", "launch @get_4 grid(2) (@n, @z)"))
    pipeline = module.pipelines["main"]
    proofs = PairProofs(module)
    lengths = pipeline.static_lengths
    nodes = [launch_node(module, launch, lengths, lengths, proofs.programs) for launch in launches(module)]
    (pair,) = (
        key for key in [proofs.pair(nodes[0], nodes[1], lengths, ())[2]] if isinstance(key, LaunchPair)
    )
    return module, pair


OTHERS: dict[str, Any] = {
    "lengths": (("0", 99),),
    "grids": ((3, 1, 1), (2, 1, 1)),
    "rewritten": frozenset({"0"}),
    "max_groups": 7,
}


@pytest.mark.parametrize("name", [field.name for field in fields(LaunchPair)])
def test_another_question_has_another_key(name: str) -> None:
    """Whatever field is another, so is the question; equal ones are answered alike."""
    module, pair = questions()
    first, second = pair.members
    other = OTHERS.get(name) or (first, replace(second, buffers=second.buffers[::-1]))
    assert replace(pair, **{name: other}) != pair
    assert hash(replace(pair)) == hash(pair)
    assert prove_pair(module, replace(pair)).refusal is prove_pair(module, pair).refusal is None


PERTURBED = {
    "name": ("program @get workgroup", "program @got workgroup", True),
    "workgroup": ("@get workgroup(4)", "@get workgroup(8)", False),
    "grid": ("@get workgroup(4)", "@get workgroup(4) grid(2)", False),
    "prefer_shared": ("@get workgroup(4)", "@get workgroup(4) prefer(shared = 50)", True),
    "cluster": ("@get workgroup(4)", "@get workgroup(4) cluster(2)", False),
    "buffers": ("buffer @m : u32[16] read binding(0)\n  buffer @y", "buffer @m : u32[?] read binding(0)\n  buffer @y", False),
    "specs": ("@get workgroup(4) {", "@get workgroup(4) {\n  spec @s : u32 = 1", False),
    "params": ("launch @get grid(2) (@m, @y)", "launch @get grid(2) (@m, @y) params(@k = 1)", False),
    "body": ("store %v, @y[%g]", "store %v, @y[%i]", False),
    "loc": ("program @get", "\n\nprogram @get", True),
}  # fmt: skip
"""For each field of a program an edit of `@get` or its launch, and whether a proof may be taken for both."""

WRITTEN = [field.name for field in fields(Program) if field.name != "lowered_for"]  # which no text says


@pytest.mark.parametrize("name", WRITTEN)
def test_programs_that_differ_have_other_slices(name: str) -> None:
    old, new, alike = PERTURBED[name]

    def slice_of(text: str) -> object:
        module = parse(text.replace("PARAM", "").replace("OTHER", ""))
        launch = launches(module)[1]
        lengths = module.pipelines["main"].static_lengths
        program = module.programs[launch.program]
        if name == "buffers":  # as declared, before the pipeline's length is put in
            return access_slice(program)
        return access_slice(BoundPrograms().of(program, launch, lengths).program)

    text = SHIFTED.replace("launch @get grid", "launch @got grid") if name == "name" else SHIFTED
    assert SHIFTED.count(old) >= 1
    edited = text.replace(old, new, 1)
    assert (slice_of(SHIFTED) == slice_of(edited)) is alike


def test_launches_that_bind_alike_share_a_program() -> None:
    """So that a long line of them takes few proofs."""
    module = parse(
        SHIFTED.replace("PARAM", "").replace("OTHER", "launch @get grid(2) (@n, @z) params(@k = 4)")
    )
    programs = BoundPrograms()
    lengths = module.pipelines["main"].static_lengths
    put, get, again, other = (
        programs.of(module.programs[launch.program], launch, lengths) for launch in launches(module)
    )
    assert put.program is again.program
    assert get.program is not other.program
    assert isinstance(get, BoundProgram)
    assert not get.program.params
