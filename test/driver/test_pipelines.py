"""Pipelines, run: every kind of stage on ref and cpu, what comes back, and what is said of mistakes."""

from __future__ import annotations

import base64
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.calls import count_calls
from support.dense_automaton import build_automaton
from support.quick import quick

import vyre_opt
from vyre_opt import BackendError, BadInputs, DiagnosticError, ProgramError, parse, print_program
from vyre_opt.driver.pipeline_plan import make_plan
from vyre_opt.execution import BadLaunch
from vyre_opt.ir import Buffer, DataType, Launch, Module
from vyre_opt.passes import Pass, PassContext
from vyre_opt.targets.cpu.dispatcher import CpuDispatcher

TARGETS = ("ref", "cpu")
RNG = np.random.default_rng(5)

PROGRAMS = """vyre 1

program @double workgroup(64) {
  buffer @x : u32[?] read  binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : u32
    %s = add %v, %v : u32
    store %s, @y[%i] : u32
  }
}

program @add_to workgroup(64) {
  buffer @x   : u32[?] read       binding(0)
  buffer @sum : u32[?] read_write binding(1) live_in live_out
  spec @times : u32 = 1
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %k = spec @times : u32
    %v = load @x[%i] : u32
    %w = mul %v, %k : u32
    %s = load @sum[%i] : u32
    %t = add %s, %w : u32
    store %t, @sum[%i] : u32
  }
}

program @fill workgroup(32) {
  buffer @y : u32[?] write binding(0)
  %i = global_id x
  store %i, @y[%i] : u32
}
"""
GRID = "grid(ceil_div(len(@x), 64))"
X = np.arange(100, dtype=np.uint32) + 7


def run(text: str, inputs: Any, target: str, **more: Any) -> dict[str, Any]:
    return vyre_opt.run(text if text.startswith("vyre") else PROGRAMS + text, inputs, target=target, **more)


# --- what runs

CHAIN = f"""pipeline @main {{
  buffer @x : u32[?] read
  buffer @mid : u32[?]
  buffer @y : u32[?] write
  launch @double {GRID} (@x, @mid)
  launch @double grid(max(1, div(len(@mid), 64)), 1) (@mid, @y)
}}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_launches_in_order_over_grids_of_lengths(target: str) -> None:
    """Grids follow the lengths, outputs come back by name, and no input is written."""
    chain = vyre_opt.compile(PROGRAMS + CHAIN, target=target)
    assert repr(chain) == f"<pipeline @main for {target}>"
    for size in (64, 128, 6400):
        x = np.arange(size, dtype=np.uint32)
        outputs = chain({"x": x}, lengths={"mid": size, "y": size})
        assert list(outputs) == ["y"]
        assert np.array_equal(outputs["y"], 4 * x)
        assert np.array_equal(x, np.arange(size))
    template = np.full((9, 8), 5, np.uint32)
    y = chain([X[:64], template], lengths={"@mid": 64})["y"]
    assert y.shape == (9, 8)
    assert y.reshape(-1).tolist() == [*(4 * X[:64]).tolist(), *[5] * 8]
    assert (template == 5).all()
    assert np.array_equal(chain({"x": X.tobytes()}, lengths={"mid": 100, "y": 100})["y"][:64], 4 * X[:64])


@pytest.mark.parametrize("target", TARGETS)
def test_repeats_nest_and_ping_pong(target: str) -> None:
    """The same launches over and over, each on what the one before left."""
    text = f"""pipeline @p {{
      buffer @x : u32[?] read
      buffer @a : u32[100]
      buffer @b : u32[100]
      buffer @sum : u32[100] live_in live_out
      launch @double {GRID} (@x, @a)
      repeat 2 {{
        repeat 3 {{
          launch @double {GRID} (@a, @b)
          launch @double {GRID} (@b, @a)
        }}
        launch @add_to {GRID} (@a, @sum)
      }}
    }}"""
    start = np.arange(100, dtype=np.uint32)
    outputs = run(text, {"x": X, "sum": start}, target, specs={"times": 3})
    assert np.array_equal(outputs["sum"], start + 3 * (X << 7) + 3 * (X << 13))
    assert np.array_equal(start, np.arange(100)), "a live_in buffer is copied"


@pytest.mark.parametrize("target", TARGETS)
def test_host_reads(target: str) -> None:
    """Each is seen in order with what the buffer holds then; the last stays, where none comes later."""
    text = f"""pipeline @main {{
      buffer @x : u32[100] read
      buffer @mid : u32[100]
      buffer @late : u32[100]
      buffer @sum : u32[100] live_in live_out
      host_read @x
      launch @double {GRID} (@x, @mid)
      host_read @mid
      repeat 3 {{
        launch @add_to {GRID} (@mid, @sum)
        host_read @sum
      }}
      launch @double {GRID} (@sum, @mid)
      repeat 2 {{
        launch @double {GRID} (@mid, @late)
        host_read @late
        launch @double {GRID} (@late, @mid)
      }}
      host_read @late
      host_read @late
    }}"""
    compiled = vyre_opt.compile(PROGRAMS + text, target=target)
    seen: list[tuple[str, np.ndarray]] = []
    zeros = np.zeros(100, np.uint32)
    results = compiled([X, zeros], on_host_read=lambda name, array: seen.append((name, array)))
    assert [name for name, _ in seen] == ["x", "mid", "sum", "sum", "sum", "late", "late", "late", "late"]
    for (_, array), factor in zip(seen, (1, 2, 2, 4, 6, 24, 96, 96, 96), strict=True):
        assert np.array_equal(array, factor * X)
    for outputs in (results, compiled([X, zeros])):
        assert list(outputs) == ["x", "mid", "late", "sum"]
        assert np.array_equal(outputs["late"], 96 * X), "the last of several"
        assert np.array_equal(outputs["mid"], 2 * X), "as the host read it, not as it was overwritten"
        assert np.array_equal(outputs["sum"], 6 * X)
        outputs["x"][:] = 0
    assert X[0] == 7, "what the host reads of an input is a copy"


AUTOMATON = build_automaton([b"abc", b"ca"])
TEXT = bytes(RNG.choice(list(b"abc"), 3000).astype(np.uint8))
CODED = np.frombuffer(base64.b64encode(TEXT), np.uint8)
SCAN = """vyre 1
pipeline @scan {
  buffer @text : u8[?] read
  buffer @table : u16[?] read
  buffer @accept : u32[?] read
  buffer @bytes : u8[?]
  buffer @hits : u32[?] write
  decode.base64(@text, @bytes)
  scan.dfa(@bytes, @table, @accept, @hits) {warmup = 2}
}
"""


@pytest.mark.parametrize("target", TARGETS)
def test_decode_then_scan(target: str) -> None:
    """Kernels of open sizes are expanded when the lengths are known."""
    compiled = vyre_opt.compile(SCAN, target=target)
    for size in (3000, 300):
        part = np.frombuffer(base64.b64encode(TEXT[:size]), np.uint8)
        tables = {"table": AUTOMATON.table, "accept": AUTOMATON.accept}
        outputs = compiled({"text": part, **tables}, lengths={"bytes": size, "hits": size})
        ends = [i for i in range(size) if TEXT[: i + 1].endswith((b"abc", b"ca"))]
        assert np.flatnonzero(outputs["hits"]).tolist() == ends


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_with_scratch_within_a_repeat(target: str) -> None:
    """The scratch of a prefix sum is zeroed before each of its runs."""
    text = """vyre 1
    pipeline @main {
      buffer @x : u32[?] read
      buffer @a : u32[?] write
      buffer @b : u32[?]
      scan.prefix(@x, @a)
      repeat 2 {
        scan.prefix(@a, @b)
        scan.prefix(@b, @a)
      }
    }"""
    x = RNG.integers(0, 2**32, 20000, dtype=np.uint32)
    expected = x
    for _ in range(5):
        expected = np.cumsum(expected, dtype=np.uint32)
    assert np.array_equal(run(text, [x], target, lengths={"a": len(x), "b": len(x)})["a"], expected)


@pytest.mark.parametrize("target", TARGETS)
def test_softmax_and_a_tensor_train_chain(target: str) -> None:
    text = """vyre 1
    pipeline @main {
      buffer @x : f32[?] read
      buffer @shares : f32[8]
      buffer @cores : f32[?] read
      buffer @out : f32[5] write
      math.softmax(@x, @shares) {columns = 8}
      tt.chain(@shares, @cores, @out) {steps = 3, rank = 8, last = 5}
      host_read @shares
    }"""
    x = RNG.standard_normal(8).astype(np.float32)
    cores = RNG.standard_normal(168).astype(np.float32)
    outputs = run(text, {"x": x, "cores": cores}, target)
    shares = np.exp(x.astype(np.float64)) / np.exp(x.astype(np.float64)).sum()
    a, b, c = cores[:64].reshape(8, 8), cores[64:128].reshape(8, 8), cores[128:].reshape(8, 5)
    np.testing.assert_allclose(outputs["shares"], shares, rtol=1e-5)
    np.testing.assert_allclose(outputs["out"], shares @ a @ b @ c, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("target", TARGETS)
def test_kernels_that_are_programs_and_passes_before(target: str) -> None:
    """A launched program may be a kernel; passes see the pipeline before lengths are known."""
    text = """vyre 1
    program @soft workgroup(64) {
      buffer @x : f32[?] read binding(0)
      buffer @y : f32[?] write binding(1)
      math.softmax(@x, @y) {columns = 10}
    }
    pipeline @main {
      buffer @x : f32[?] read
      buffer @y : f32[?] write
      launch @soft grid(3) (@x, @y)
    }"""
    x = RNG.standard_normal(70).astype(np.float32)
    for passes in (None, "canonicalize,cse,dce"):
        y = run(text, [x], target, lengths={"y": 70}, passes=passes)["y"].reshape(7, 10)
        np.testing.assert_allclose(y.sum(axis=1), 1, rtol=1e-5)
    module = parse(SCAN)
    before = print_program(module)
    vyre_opt.compile(module, target=target, passes="canonicalize,expand_kernels")
    assert print_program(module) == before


class OneLaunch(Pass):
    """Makes the first launch of a chain write what the last one does, and drops what lay between."""

    name = "one_launch"

    def run(self, module: Module, ctx: PassContext) -> bool:
        pipeline = module.pipelines["main"]
        first, last = pipeline.stages
        assert isinstance(first, Launch)
        assert isinstance(last, Launch)
        first.buffers = (first.buffers[0], last.buffers[1])
        pipeline.stages = [first]
        del pipeline.buffers["mid"]
        pipeline.buffers["made"] = Buffer("made", DataType.U8, 7, None)
        return True


@pytest.mark.parametrize("target", TARGETS)
def test_passes_may_drop_and_make_buffers(target: str) -> None:
    """Callers pass what the text declares, whatever passes make of the pipeline's own buffers."""
    compiled = vyre_opt.compile(PROGRAMS + CHAIN, target=target, passes=[OneLaunch()])
    for _ in range(2):
        assert np.array_equal(compiled([X], lengths={"mid": 100, "y": 100})["y"], 2 * X)


@pytest.mark.parametrize("target", TARGETS)
def test_vectors_bools_and_storage_of_a_program(target: str) -> None:
    """Elements of every layout stay where they are between launches."""
    text = """vyre 1
    program @split workgroup(4) {
      buffer @v : vec<2 x i16>[?] read binding(0)
      buffer @less : bool[?] write binding(1)
      buffer @own : i16[64] read_write
      %i = global_id x
      %v = load @v[%i] : vec<2 x i16>
      %a = extract %v[0] : vec<2 x i16>
      store %a, @own[%i] : i16
      %b = extract %v[1] : vec<2 x i16>
      %c = load @own[%i] : i16
      %l = lt %c, %b : i16
      store %l, @less[%i] : bool
    }
    program @pick workgroup(4) {
      buffer @less : bool[?] read binding(0)
      buffer @v : vec<2 x i16>[?] read_write binding(1) live_in live_out
      %i = global_id x
      %l = load @less[%i] : bool
      %zero = const 0 : vec<2 x i16>
      if %l {
        store %zero, @v[%i] : vec<2 x i16>
      }
    }
    pipeline @main {
      buffer @v : vec<2 x i16>[?] live_in live_out
      buffer @less : bool[8] live_out
      launch @split grid(div(len(@v), 4)) (@v, @less)
      launch @pick grid(2) (@less, @v)
    }"""
    pairs = RNG.integers(-9, 9, (8, 2)).astype(np.int16)
    outputs = run(text, [pairs], target)
    less = pairs[:, 0] < pairs[:, 1]
    assert outputs["less"].tolist() == less.tolist()
    assert np.array_equal(outputs["v"], np.where(less[:, None], 0, pairs))


def test_torch_in_main_memory() -> None:
    torch = pytest.importorskip("torch")
    y = run(CHAIN, [torch.arange(64).to(torch.uint32)], "cpu", lengths={"mid": 64, "y": 64})["y"]
    assert isinstance(y, torch.Tensor)
    assert y.tolist() == [4 * i for i in range(64)]


def test_what_is_kept_between_calls(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is compiled once, whatever launches it; calls with known lengths plan nothing."""
    from vyre_opt.driver import pipeline_plan as entry
    from vyre_opt.targets.cpu import host_code as compiler

    lowered: list[Any] = []
    lower = compiler.lower
    monkeypatch.setattr(compiler, "lower", lambda p, *rest: lowered.append(p) or lower(p, *rest))
    plans: list[Any] = []
    make = entry.make_plan
    monkeypatch.setattr(entry, "make_plan", lambda *rest: plans.append(rest) or make(*rest))
    unique = (PROGRAMS + CHAIN).replace("@double", "@doubled_once")
    chain = vyre_opt.compile(unique)
    scratch = vyre_opt.Scratch()
    for size in (64, 64, 128, 64):
        x = np.arange(size, dtype=np.uint32)
        outputs = chain([x], lengths={"mid": size, "y": size}, scratch=scratch)
        assert np.array_equal(outputs["y"], 4 * x)
    assert len(lowered) == 1
    assert len(plans) == 2
    assert set(scratch.storage) == {"mid"}


def calls(stages: int) -> int:
    """Function calls of a run of so many launches, all that comes before included."""
    lines = [f"  launch @double grid(1) ({pair})" for pair in ("@a, @b", "@b, @a")] * (stages // 2)
    head = "pipeline @main {\n  buffer @a : u32[8] live_in live_out\n  buffer @b : u32[8]\n"
    text = head + "\n".join(lines) + "\n}\n"
    outputs: dict[str, np.ndarray] = {}
    work = count_calls(lambda: outputs.update(run(text, [np.ones(8, np.uint32)], "cpu")))
    assert outputs["a"][0] == (1 << stages if stages < 32 else 0)
    return work


@pytest.mark.parametrize("stages", quick([400, 4000]))
def test_work_is_linear_in_the_stages(stages: int) -> None:
    """Ten times the launches take ten times the calls, text and all."""
    calls(10)  # what is imported and compiled at the first run
    assert calls(stages) < 11 * calls(stages // 10)


# --- what goes wrong


@pytest.mark.parametrize("target", TARGETS)
def test_a_fault_is_found_at_its_launch(target: str) -> None:
    """The error names the op, the launch and the round of each repeat."""
    text = """pipeline @main {
      buffer @y : u32[64] write
      buffer @small : u32[48]
      repeat 3 {
        launch @fill grid(2) (@y)
        repeat 2 { launch @fill grid(2) (@small) }
      }
    }"""
    with pytest.raises(ProgramError) as caught:
        run(text, [], target)
    assert caught.value.kind == "bounds"
    said = str(caught.value)
    assert "store out of bounds of @y: index 48, length 48" in said
    assert ": note: launched here by pipeline @main, round 1 of 3, round 1 of 2" in said
    assert "launch @fill grid(2) (@small)" in said


def test_ref_knows_what_was_written_in_earlier_launches() -> None:
    """What a launch leaves unwritten stays so for those after it; what it wrote is written."""
    text = """pipeline @main {
      buffer @part : u32[96]
      buffer @y : u32[96] write
      launch @fill grid(FILLED) (@part)
      launch @double grid(2) (@part, @y)
    }"""
    assert run(text.replace("FILLED", "3"), [], "ref")["y"][95] == 190
    with pytest.raises(ProgramError, match="index 64, length 96, which nothing has written") as caught:
        run(text.replace("FILLED", "2"), [], "ref")
    assert caught.value.kind == "uninitialised"
    twice = text.replace("FILLED", "2").replace(
        "launch @double", "launch @fill grid(3) (@part) launch @double"
    )
    assert run(twice, [], "ref")["y"][95] == 190


def test_ref_takes_a_transient_formal_for_undefined() -> None:
    """A `read_write` buffer of a program that is not live_in holds nothing on entry, whoever wrote it."""
    text = (
        PROGRAMS.replace("binding(1) live_in live_out", "binding(1)")
        + f"""pipeline @main {{
      buffer @x : u32[100] read
      buffer @s : u32[100]
      launch @double {GRID} (@x, @s)
      launch @add_to {GRID} (@x, @s)
      host_read @s
    }}"""
    )
    with pytest.raises(ProgramError, match="declare @sum live_in"):
        run(text, [X], "ref")


def pipeline(stages: str, buffers: str = "") -> str:
    declared = "buffer @x : u32[?] read buffer @m : u32[?] buffer @y : u32[?] live_out buffer @z : u32[8]"
    return f"{PROGRAMS}pipeline @main {{\n  {declared} {buffers}\n  {stages}\n}}\n"


EIGHT = np.arange(8, dtype=np.uint32)
LENGTHS = {"m": 8, "y": 8}
LINE = PROGRAMS.count("\n") + 3  # of the stages

# stages, x, lengths: where, what and the fix
LAUNCHES: dict[str, tuple[str, int, dict[str, int], str, str]] = {
    "a negative grid": (
        "launch @double grid(sub(len(@x), 9)) (@x, @y)", 8, LENGTHS,
        "the grid of @double is -1 along x; a grid has 0 or more workgroups (len(@x) is 8)", "max(0, ...)",
    ),
    "beyond y": (
        "launch @double grid(1, mul(len(@x), 10000)) (@x, @y)", 8, LENGTHS,
        "is 80000 along y; it has at most 65535 (len(@x) is 8)", "another axis",
    ),
    "beyond x": (
        "launch @double grid(mul(len(@x), 1000000000)) (@x, @y)", 8, LENGTHS, "it has at most 2147483647", "axis",
    ),
    "beyond ids": (
        "launch @double grid(mul(len(@x), 200000000)) (@x, @y)", 8, LENGTHS,
        "1600000000 workgroups of 64 pass 2^32 invocations along x", "do more",
    ),
    "no value": (
        "launch @double grid(div(8, sub(len(@x), 8))) (@x, @y)", 8, LENGTHS,
        "the grid of @double has no value: it divides by zero (len(@x) is 8)", "max(1, ...)",
    ),
    "another count": (
        "launch @four grid(1) (@x, @y)", 8, LENGTHS,
        "@x has 8 elements, @x of @four has 4", "make it 4 elements, or declare @x with the count ?",
    ),
    "a fixed grid": (
        "launch @four grid(div(len(@x), 4)) (@x, @y)", 8, LENGTHS,
        "program @four fixes its grid to (1, 1, 1), the launch has (2, 1, 1)", "write grid(1, 1, 1)",
    ),
    "rows that do not fit": (
        "math.softmax(@f, @g) {columns = 3}", 8, {**LENGTHS, "f": 8, "g": 8},
        "math.softmax: x has rows x columns elements, rows x 3; @f has 8", "give @f a multiple of 3 elements",
    ),
    "a schedule that the kernel does not have": (
        "math.softmax(@f, @g) {columns = 4, schedule_lanes = 0}", 8, {**LENGTHS, "f": 8, "g": 8},
        "lanes", "leave out schedule_lanes",
    ),
}  # fmt: skip
FOUR = """program @four workgroup(4) grid(1) {
  buffer @x : u32[4] read  binding(0)
  buffer @y : u32[?] write binding(1)
}
"""


@pytest.mark.parametrize("case", LAUNCHES)
def test_stages_that_do_not_fit_the_lengths(case: str) -> None:
    """Each is located at its stage and says what to do, before anything runs."""
    stages, size, lengths, said, fix = LAUNCHES[case]
    buffers = "buffer @f : f32[?] buffer @g : f32[?]" if "f" in lengths else ""
    text = pipeline(stages, buffers).replace("pipeline", FOUR + "pipeline", 1)
    seen: list[Any] = []
    with pytest.raises(BadLaunch) as caught:
        vyre_opt.compile(text)([EIGHT[:size]], lengths=lengths, on_host_read=seen.append)
    (diagnostic,) = [d for d in caught.value.diagnostics if said in d.message]
    assert diagnostic.loc is not None
    assert diagnostic.loc.line == LINE + FOUR.count("\n")
    assert fix in (diagnostic.help or "")
    assert isinstance(caught.value, BadInputs)


def test_all_stages_that_do_not_fit_are_reported() -> None:
    stages = "\n".join(["launch @double grid(sub(len(@x), 9)) (@x, @y)"] * 3)
    with pytest.raises(BadLaunch) as caught:
        run(pipeline(stages), [EIGHT], "cpu", lengths=LENGTHS)
    assert [d.loc.line for d in caught.value.diagnostics if d.loc] == [LINE, LINE + 1, LINE + 2]


def call(stages: str = "", inputs: Any = None, lengths: Any = None, **more: Any) -> Callable[[], Any]:
    arrays = [EIGHT] if inputs is None else inputs
    sizes = LENGTHS if lengths is None else lengths
    return lambda: run(
        pipeline(stages or f"launch @double {GRID} (@x, @y)"), arrays, "cpu", lengths=sizes, **more
    )


MISTAKES: dict[str, tuple[Callable[[], Any], str]] = {
    "an array for its own buffer": (
        call(inputs={"x": EIGHT, "m": EIGHT}),
        "inputs['m']: pipeline @main has no input or output @m; it has @x, @y; @m is its own, "
        "unless it is declared read, live_in or live_out",
    ),
    "an unknown input": (call(inputs={"xx": EIGHT}), "has no input or output @xx; it has @x, @y; did you mean @x?"),
    "an unknown length": (call(lengths={"mm": 8}), "lengths['mm']: pipeline @main has no buffer @mm"),
    "a missing input": (call(inputs={}), "pipeline @main reads @x : u32[?], which nothing gives; pass inputs={'x'"),
    "too many inputs": (call(inputs=[EIGHT] * 3), "3 inputs given; pipeline @main reads @x, and takes @x, @y"),
    "no length of its own": (call(lengths={"y": 8}), "buffer @m has an open size: pass lengths={'m': 8}"),
    "no length of an output": (call(lengths={"m": 8}), "pass lengths={'y': 8}, or an array for it"),
    "two lengths": (call(lengths={**LENGTHS, "x": 9}), "lengths['x']=9, but inputs['x'] holds 8 elements"),
    "a declared length": (call(lengths={**LENGTHS, "z": 9}), "lengths['z']=9: the pipeline declares 8 elements"),
    "a wrong type": (call(inputs=[EIGHT.astype(np.int64)]), "pipeline @main: input for @x: u32 elements are uint32"),
    "a wrong count": (
        lambda: run(PROGRAMS + "pipeline @main { buffer @x : u32[9] read }", [EIGHT], "cpu"),
        "input for @x: 8 elements given, the pipeline declares 9",
    ),
    "an unknown spec": (call(specs={"time": 2}), "pipeline @main has no spec @time"),
    "a grid": (call(grid=3), "grid=3 is for programs: pipeline @main gives each launch its own grid"),
    "two pipelines": (
        lambda: vyre_opt.compile(PROGRAMS + "pipeline @a { } pipeline @b { }"),
        "there are 3 programs and 2 pipelines here; choose a program or pipeline with entry=: @double, @add_to,",
    ),
    "a near entry": (
        lambda: vyre_opt.compile(PROGRAMS + "pipeline @all { }", entry="al"),
        "there is no program or pipeline @al; did you mean @all?",
    ),
    "a dispatcher without pipelines": (
        lambda: vyre_opt.compile(PROGRAMS + "pipeline @main { }", target=PlainDispatcher())(),
        "target plain runs programs, but no pipelines",
    ),
}  # fmt: skip


class PlainDispatcher:
    """A dispatcher that has no more than the protocol asks for."""

    name = "plain"

    def dispatch(self, *rest: Any, **more: Any) -> list[Any]:
        return []


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    """Each says what is wrong and how to pass it."""
    make, said = MISTAKES[case]
    with pytest.raises((BadInputs, BackendError)) as caught:
        make()
    assert said in str(caught.value)


TEXTS: dict[str, tuple[str, str, str]] = {
    "an unknown program": (
        "launch @doubel grid(1) (@x, @y)",
        "there is no program @doubel",
        "did you mean @double?",
    ),
    "too few buffers": (
        "launch @double grid(1) (@x)",
        "program @double binds 2 buffers, 1 given",
        "pass (@x, @y)",
    ),
    "another type": ("launch @double grid(1) (@x, @f)", "@f holds f32, @y is u32", ""),
    "a read buffer written": (
        "launch @double grid(1) (@y, @x)",
        "@x is read-only, @y is write",
        "write (@x, @y)",
    ),
    "read while written": (
        "launch @double grid(1) (@y, @y)",
        "@double would read @y while it writes it, as its @x and its @y",
        "pass a second buffer in the place of @y",
    ),
    "a kernel on itself": (
        "scan.prefix(@y, @y)",
        "scan.prefix would read @y while it writes it",
        "a second buffer",
    ),
    "a length of nothing": ("launch @double grid(len(@q)) (@x, @y)", "pipeline @main has no buffer @q", ""),
}


@pytest.mark.parametrize("case", TEXTS)
def test_texts_that_are_wrong(case: str) -> None:
    """What needs no lengths is an error of the text, at its stage, with its fix."""
    stage, said, fix = TEXTS[case]
    with pytest.raises(DiagnosticError) as caught:
        vyre_opt.compile(pipeline(stage, "buffer @f : f32[8]"))
    (diagnostic,) = caught.value.diagnostics
    assert said in diagnostic.message
    assert fix in (diagnostic.help or "")
    assert diagnostic.loc is not None
    assert diagnostic.loc.line == LINE


def test_a_buffer_may_be_read_twice_by_one_launch() -> None:
    text = """vyre 1
    program @sum workgroup(8) grid(1) {
      buffer @a : u32[8] read  binding(0)
      buffer @b : u32[8] read  binding(1)
      buffer @c : u32[8] write binding(2)
      %i = global_id x
      %a = load @a[%i] : u32
      %b = load @b[%i] : u32
      %c = add %a, %b : u32
      store %c, @c[%i] : u32
    }
    pipeline @main {
      buffer @x : u32[8] read
      buffer @y : u32[8] write
      launch @sum grid(1) (@x, @x, @y)
    }"""
    for target in TARGETS:
        assert np.array_equal(run(text, [EIGHT], target)["y"], 2 * EIGHT)


def test_not_enough_memory_is_said() -> None:
    huge = f"pipeline @main {{ buffer @x : u32[?] read buffer @y : u32[{1 << 45}] write }}"
    with pytest.raises(BackendError, match="pipeline @main: not enough memory"):
        vyre_opt.compile(PROGRAMS + huge, target=CpuDispatcher(workers=1))([EIGHT])


def test_a_length_beyond_its_type_is_an_error() -> None:
    """A program that takes the length of 2^32 elements as a u32 would take it for 0; a tile less is the limit."""
    module = vyre_opt.parse(
        """vyre 1
program @fill workgroup(256) {
  buffer @y : u8[?] write binding(0) live_out
  %g = global_id x
  %n = len @y
  %inside = lt %g, %n : u32
  if %inside {
    %v = cast %g : u32 -> u8
    store %v, @y[%g] : u8
  }
}
pipeline @main {
  buffer @y : u8[?] write live_out
  launch @fill grid(4) (@y)
}
"""
    )
    pipeline = module.pipelines["main"]
    make_plan(module, pipeline, {"y": 2**32 - 2**16}, "", True)
    for length in (2**32 - 2**16 + 1, 2**32):
        with pytest.raises(BadLaunch, match=f"@y has {length} elements, which @fill takes as a u32"):
            make_plan(module, pipeline, {"y": length}, "", True)
