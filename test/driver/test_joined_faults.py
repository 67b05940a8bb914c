"""A fault of a launch that passes joined with others is told in the words of the launch as it was written: its kernel, its buffers,
its arguments, its place.  So the message is the same, to the last letter, with the passes and without."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from fake_gpu import Fake, cupy
from support.each import each
from support.packed_kernels import LEVEL

import vyre_opt as vyre
from vyre_opt import Read, Write, f32, u32
from vyre_opt.execution import ProgramError
from vyre_opt.ir import Launch
from vyre_opt.lang.pipelines import PipelineFunction
from vyre_opt.packs import load


def program(
    name: str, body: str, source: str = "from", target: str = "to", head: str = "workgroup(64)"
) -> str:
    return f"""program @{name} {head} {{
  buffer @{source} : u32[?] read binding(0)
  buffer @{target} : u32[?] write binding(1) live_out
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
{body}
}}
"""


def pipeline(*stages: str, mid: str = "u32[256]", others: str = "") -> str:
    lines = "\n".join(f"  {stage}" for stage in stages)
    return f"""pipeline @main {{
  buffer @input : u32[256] read
  buffer @mid : {mid}
{others}  buffer @out : u32[256] write live_out
{lines}
}}
"""


COPY = "  %v = load @from[%g] : u32\n  store %v, @to[%g] : u32"
DOUBLE = program("double", COPY)
ONE_ON = "  %v = load @from[%g] : u32\n  %i = add %g, 1 : u32\n  store %v, @to[%i] : u32"
SMALL = (
    '  %v = load @from[%g] : u32\n  %ok = lt %v, 100 : u32\n  assert %ok, "small"\n  store %v, @to[%g] : u32'
)
TRAP = '  %v = load @from[%g] : u32\n  %big = gt %v, 99 : u32\n  if %big {\n    trap "big"\n  }\n  store %v, @to[%g] : u32'
BOTH = pipeline("launch @double grid(4) (@input, @mid)", "launch @second grid(4) (@mid, @out)")
MIRRORED = (
    "  %a = load @from[%g] : u32\n  %n = sub 63, %l : u32\n  %base = mul %w, 64 : u32\n  %i = add %base, %n : u32\n"
    "  %v = load @from[%i] : u32\n  %s = add %a, %v : u32\n  store %s, @to[%g] : u32"
)


class Case(NamedTuple):
    """A pipeline of which passes leave `launches`, and the words that its fault is told in.  `ids`: how an invocation is told after the
    passes, where these made it do the work of others; which one meets a fault first may then change."""

    name: str
    text: str
    says: tuple[str, ...]
    launches: int = 1
    ids: str = ""


CASES = [
    Case(
        "bounds of the second",
        DOUBLE + program("second", ONE_ON) + BOTH,
        ("program @second: store out of bounds of @to: index 256", "with @out for @to"),
    ),
    Case(
        "bounds of the first, which others compute again",
        program("first", ONE_ON, "a", "b").replace("@from", "@a").replace("@to", "@b")
        + program("second", MIRRORED)
        + pipeline("launch @first grid(4) (@input, @mid)", "launch @second grid(4) (@mid, @out)"),
        ("program @first: store out of bounds of @b: index 256", "with @mid for @b"),
        ids="by an invocation",
    ),
    Case(
        "an assert",
        DOUBLE + program("second", SMALL) + BOTH,
        ("program @second: assert: small", "launch @second grid(4) (@mid, @out)"),
    ),
    Case("a trap", DOUBLE + program("second", TRAP) + BOTH, ("program @second: trap: big", "launch @second")),
    Case(
        "the third of three",
        DOUBLE
        + program("second", SMALL.replace("100", "1000"))
        + program("third", ONE_ON, "p", "q").replace("@from", "@p").replace("@to", "@q")
        + pipeline(
            "launch @double grid(4) (@input, @mid)",
            "launch @second grid(4) (@mid, @more)",
            "launch @third grid(4) (@more, @out)",
            others="  buffer @more : u32[256]\n",
        ),
        ("program @third: store out of bounds of @q", "with @out for @q", "launch @third"),
    ),
    Case(
        "the second of two equal groups",
        DOUBLE
        + program(
            "second", SMALL.replace("100", "%limit").replace("%ok", "%limit = param @limit : u32\n  %ok", 1)
        ).replace("  %g =", "  param @limit : u32\n\n  %g =", 1)
        + pipeline(
            "launch @double grid(4) (@input, @mid)",
            "launch @second grid(4) (@mid, @out) params(@limit = 1000)",
            "host_read @out",
            "launch @double grid(4) (@input, @more)",
            "launch @second grid(4) (@more, @last) params(@limit = 100)",
            others="  buffer @more : u32[256]\n  buffer @last : u32[256] write live_out\n",
        ),
        ("program @second: assert: small", "launch @second grid(4) (@more, @last)"),
        2,
    ),
    Case(
        "rounds of a repeat",
        DOUBLE
        + program("second", SMALL)
        + pipeline(
            "repeat 3 {", "launch @double grid(4) (@input, @mid)", "launch @second grid(4) (@mid, @out)", "}"
        ),
        ("program @second: assert: small", "launched here by pipeline @main, round 1 of 3"),
    ),
    Case(
        "workgroups that take turns",
        program(
            "first",
            "  %b = mul %w, 128 : u32\n  %i = add %b, %l : u32\n  %j = add %i, 64 : u32\n"
            "  %v = load @from[%i] : u32\n  %u = load @from[%j] : u32\n"
            "  store %v, @to[%i] : u32\n  store %u, @to[%j] : u32",
        )
        + program("second", SMALL)
        + pipeline("launch @first grid(2) (@input, @mid)", "launch @second grid(4) (@mid, @out)"),
        ("program @second: assert: small", "launch @second grid(4) (@mid, @out)"),
        ids="in a workgroup local id",
    ),
    Case(
        "a tile",
        program("first", COPY, "a", "b").replace("@from", "@a").replace("@to", "@b")
        + program("second", MIRRORED)
        + pipeline(
            "launch @first grid(4) (@input, @mid)", "launch @second grid(4) (@mid, @out)", mid="u32[192]"
        ),
        ("program @first: store out of bounds of @b: index 192, length 192", "with @mid for @b"),
    ),
]


INPUT = np.arange(256, dtype=np.uint32)


def said(run: Callable[[], object]) -> str:
    with pytest.raises(ProgramError) as caught:
        run()
    return str(caught.value)


WHO = re.compile(r"(a )?workgroup (\(.*\) )?local id \(.*\)$|an invocation$", re.MULTILINE)


def check(case: Case, target: str, told: str) -> None:
    """Compare what is told of a call after passes with what is told of the launches as they are written."""
    written = said(lambda: vyre.compile("vyre 2\n" + case.text, target=target)([INPUT]))
    for words in case.says:
        assert words in written, words
    if case.ids:
        assert case.ids in told
        told, written = WHO.sub("", told), WHO.sub("", written)
    assert told == written


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_the_message_is_that_of_the_launch_as_written(target: str) -> None:
    def same(case: Case) -> None:
        joined = vyre.compile("vyre 2\n" + case.text, target=target, passes="default")
        stages = joined.module.pipelines["main"].walk()
        assert sum(isinstance(stage, Launch) for stage in stages) == case.launches
        check(case, target, said(lambda: joined([INPUT])))

    each(CASES if target == "ref" else CASES[::4], same)  # passes are the same, and compiling takes longer


def test_packs_tell_the_same(tmp_path: Path) -> None:
    case = CASES[0]
    vyre.pack(tmp_path / "pack", ["vyre 2\n" + case.text], LEVEL, opt=0)
    check(case, "cpu", said(lambda: load(tmp_path / "pack")["main"]([INPUT])))


def test_a_gpu_tells_the_same(gpu: Fake) -> None:
    """The stand-in records no numbers, so what is told of those is left out."""
    case, numbers = CASES[0], re.compile(r": index .*")
    joined = vyre.compile("vyre 2\n" + case.text, target=gpu, passes="default")
    joined([cupy(INPUT)])
    told, written = said(gpu.synchronize), said(lambda: vyre.compile("vyre 2\n" + case.text)([INPUT]))
    assert numbers.sub("", told) == numbers.sub("", written)


@vyre.program
def centred(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    y[r, :] = x[r, :] - vyre.max(x[r, :])


@vyre.program
def raised(rows: Read[f32[:, :]], higher: Write[f32[:, :]]) -> None:
    r = vyre.workgroup_id(0)
    row = rows[r, :] + 1
    assert r < 3, "three rows"
    higher[r, :] = row


@vyre.pipeline
def of_rows(x: Read[f32[:, :]], y: Write[f32[:, :]]) -> None:
    mid = vyre.buffer(f32, x.shape)
    centred[len(x)](x, mid)
    raised[len(x)](mid, y)


@vyre.program(workgroup=64)
def doubled(x: Read[u32], y: Write[u32]) -> None:
    i = vyre.global_id(0)
    y[i] = x[i] * 2


@vyre.program(workgroup=64)
def one_on(source: Read[u32], target: Write[u32]) -> None:
    i = vyre.global_id(0)
    target[i + 1] = source[i]


@vyre.pipeline
def moved(x: Read[u32], y: Write[u32]) -> None:
    mid = vyre.buffer(u32, len(x))
    doubled[len(x) // 64](x, mid)
    one_on[len(x) // 64](mid, y)


@vyre.pipeline
def short(x: Read[u32], y: Write[u32]) -> None:
    mid = vyre.buffer(u32, 192)
    doubled[len(x) // 64](x, mid)
    doubled[len(x) // 64](mid, y)


ROWS = np.ones((4, 40), np.float32)
CALLS = [
    (of_rows, ROWS, "program @raised: assert: three rows; false in workgroup (3,0,0)"),
    (moved, INPUT, "program @one_on: store out of bounds of @target: index 256"),
    (short, INPUT, "write mid = vyre.buffer(u32, len(x)), which is as long as the launch"),
]


@pytest.mark.parametrize("target", ["cpu", "ref"])
def test_a_pipeline_in_python(target: str) -> None:
    def same(case: tuple[PipelineFunction, np.ndarray, str]) -> None:
        function, x, words = case
        written = said(lambda: function.options(target=target, passes=None)(x, x.copy()))
        assert words in written
        assert said(lambda: function.options(target=target)(x, x.copy())) == written

    each(CALLS, same)
