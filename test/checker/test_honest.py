"""No certificate that the writer writes is refused, whatever passes did: a claim that the checker cannot follow becomes a trusted one."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest
from support.certificate_table import example_texts, lit_texts, module_of
from support.certifying import KINDS
from support.guarded_pipelines import guarded_pipeline
from support.properties import random_pipeline
from support.quick import quick

from vyre_opt import parse
from vyre_opt.certificates import CertificateWriter
from vyre_opt.checker import Report, check
from vyre_opt.ir import DiagnosticError, Module
from vyre_opt.passes import PassManager

ALL_KINDS = {**KINDS, "guarded pipelines": guarded_pipeline}
CASES = [(kind, seed) for seed in range(200) for kind in ALL_KINDS]
TEXTS = [*example_texts().values(), *lit_texts()]

OTHER_INDEX = """vyre 2

program @twice workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @t : f32[?] read_write binding(1)
  buffer @y : f32[?] write binding(2) live_out
  %g = global_id x
  %v = load @x[%g] : f32
  store %v, @t[%g] : f32
  %i = cast %g : u32 -> i64
  %r = load @t[%i] : f32
  store %r, @y[%g] : f32
}

pipeline @main {
  buffer @x : f32[?] read
  buffer @t : f32[len(@x)]
  buffer @y : f32[len(@x)] write live_out
  launch @twice grid(ceil_div(len(@x), 64)) (@x, @t, @y)
}
"""


def honest(module: Module, passes: str) -> tuple[CertificateWriter, Report]:
    writer = CertificateWriter()
    with suppress(
        DiagnosticError
    ):  # of a pass that was left a text which it refuses; what was done before is certified
        PassManager(passes, verify_each=False, observers=[writer]).run(module)
    return writer, check(*_texts(writer, module))


def _texts(writer: CertificateWriter, module: Module) -> tuple[str, str, str]:
    certificate = writer.certificate(module)  # the texts are there when it is
    return writer.written, writer.optimised, certificate


def passes_of(case: str) -> str:
    rng = random.Random(case)
    return rng.choice(("default", "launch_fusion,decode_scan_fuse", random_pipeline(rng)))


@pytest.mark.parametrize(("kind", "seed"), quick(CASES, group=lambda case: case[0], keep=1))
def test_of_random_texts(kind: str, seed: int) -> None:
    source, passes = ALL_KINDS[kind](seed), passes_of(f"{kind} {seed}")
    _, report = honest(parse(source) if isinstance(source, str) else source, passes)
    assert not report.is_refused, f"{passes}\n{report.summary()}"


@pytest.mark.parametrize("number", quick(range(len(TEXTS)), group=lambda number: number % 8))
def test_of_texts(number: int) -> None:
    module, passes = module_of(TEXTS[number]), passes_of(str(number))
    if module is None:  # it is there for its errors
        return
    _, report = honest(module, passes)
    assert not report.is_refused, f"{passes}\n{report.summary()}"


@pytest.mark.parametrize("seed", quick(range(200), keep=6))
def test_launches_of_guarded_kernels_are_proven(seed: int) -> None:
    """Each lane on its own element under a bound: hand-offs, merged branches, forwarded values and lost lengths among them."""
    _, report = honest(parse(guarded_pipeline(seed)), "default")
    assert report.is_equal_proven, report.summary()


def test_what_rests_on_a_refused_claim_is_trusted_too() -> None:
    """A tile that the checker does not follow, and the pipeline that passes its buffer no more; both are told apart from kinds
    that are trusted only, so that a mistake of a pass stays in sight."""
    writer, report = honest(parse(OTHER_INDEX), "decode_scan_fuse")
    assert not report.is_refused
    assert [(f.step, f.kind) for f in report.of("trusted")] == [
        ("decode_scan_fuse", "program"),
        ("decode_scan_fuse", "pipeline"),
    ]
    assert [(f.step, f.kind) for f in writer.refused] == [
        ("decode_scan_fuse", "tile"),
        ("decode_scan_fuse", "pipeline"),
    ]
