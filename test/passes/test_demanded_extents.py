"""The extents that launches demand are demanded after passes, too, whatever becomes of the buffers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from support.certifying import decisions_of

from vyre_opt import PassManager, compile, parse, print_program
from vyre_opt.analysis import pipeline_uses
from vyre_opt.execution import BadInputs
from vyre_opt.passes import decode_scan_fuse

TEXT = """vyre 2
program @add workgroup(8) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %i = global_id x
  %n = len @y
  %p = lt %i, %n : u32
  if %p {
    %v = load @x[%i]
    %w = add %v, 1 : u32
    store %w, @y[%i]
  }
}
program @copy workgroup(8) {
  buffer @x : u32[37] read binding(0)
  buffer @own : u32[37] read_write binding(1)
  buffer @y : u32[?] write binding(2)
  %i = global_id x
  %n = len @y
  %p = lt %i, %n : u32
  if %p {
    %next = add %i, 1
    %j = min %next, 36 : u32
    %v = load @x[INDEX]
    store %v, @y[%i]
  }
}
pipeline @main {
  buffer @a : u32[?] read
  buffer @m : u32[SIZE]
  buffer @own : u32[OWN]
  buffer @o : u32[len(@a)] write
  launch @add grid(ceil_div(len(@a), 8)) (@a, @m)
  launch @copy grid(ceil_div(len(@a), 8)) (@m, @own, @o)
}
"""
LEN, COMPUTED = "len(@a)", "sub(add(len(@a), 1), 1)"
ORDERS = ("default", "launch_fusion,default", "dce,launch_fusion,dce,default", "dce", "decode_scan_fuse,dce")


def text(size: str = LEN, own: str = "37", index: str = "%i") -> str:
    return TEXT.replace("SIZE", size).replace("OWN", own).replace("INDEX", index)


def outcome(module: Any, length: int) -> Any:
    try:
        result = compile(module, target="ref")([np.arange(length, dtype=np.uint32)])
        return result["o"][:36].tolist()
    except BadInputs:
        return "refused"


@pytest.mark.parametrize("passes", ORDERS)
@pytest.mark.parametrize(("size", "own"), [(LEN, "37"), (COMPUTED, "37"), (LEN, LEN), (COMPUTED, COMPUTED)])
@pytest.mark.parametrize("index", ["%i", "%j"], ids=["same element", "halo"])
def test_a_wrong_length_is_refused_after_passes(passes: str, size: str, own: str, index: str) -> None:
    source = text(size, own, index)
    module = parse(source)
    PassManager(passes).run(module)
    for length in (36, 37, 38):
        after = outcome(parse(print_program(module)), length)
        assert after == outcome(source, length)
        assert (after == "refused") == (length != 37)


def test_what_is_declared_is_fused_as_before() -> None:
    """A length that can be declared costs nothing; one that is computed costs the tile."""
    for size, stays in ((LEN, False), (COMPUTED, True)):
        module = parse(text(size))
        PassManager("default").run(module)
        pipeline = module.pipelines["main"]
        assert len(pipeline.stages) == 1
        assert ("m" in pipeline.buffers) is stays


def test_demands_that_contradict_stay() -> None:
    source = text().replace("@m, @own, @o)\n", "@m, @own, @o)\n  launch @other grid(1) (@m)\n")
    other = "program @other workgroup(1) { buffer @x : u32[38] read binding(0) }\npipeline"
    module = parse(source.replace("pipeline", other))
    PassManager("default").run(module)
    assert {outcome(module, length) for length in (37, 38)} == {"refused"}


def test_the_certifier_misses_a_demand(monkeypatch: pytest.MonkeyPatch) -> None:
    source = text(own=LEN).replace("@x : u32[37]", "@x : u32[?]")
    assert all(decision.status == "proved" for decision in decisions_of(source, "decode_scan_fuse"))
    monkeypatch.setattr(decode_scan_fuse, "declare_demands", lambda module: False)
    monkeypatch.setattr(pipeline_uses, "undeclared_demands", lambda pipeline, module: set())
    wrong = [d for d in decisions_of(source, "decode_scan_fuse") if d.status != "proved"]
    reasons = [answer.reason for decision in wrong for answer in decision.answers]
    assert "nothing demands 37 elements of @own any more" in reasons
