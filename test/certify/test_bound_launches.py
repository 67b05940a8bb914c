"""The second prover takes params by what launches bind, and lengths by the pipeline; mistakes in either are not proved."""

from __future__ import annotations

import pytest
from support.shifted import get, put

from vyre_opt import parse
from vyre_opt.certify.certifier import Certifier, Decision
from vyre_opt.fusion import group_legality
from vyre_opt.fusion.bound_program import BoundProgram, BoundPrograms
from vyre_opt.fusion.pair_legality import Verdict
from vyre_opt.ir import Launch
from vyre_opt.passes import PassManager, launch_fusion

SHIFTED = f"""vyre 2

{put()}{get(param="j", default=" = 4")}pipeline @main {{
  buffer @x : u32[8] read
  buffer @m : u32[16] live_in live_out
  buffer @y : u32[8] write
  param @p : u32
  param @q : u32
  launch @put grid(2) (@x, @m) params(@k = PUT)
  launch @get grid(2) (@m, @y) GET
}}
"""


def decision(text: str) -> Decision:
    """The certified decision that two launches become one."""
    certifier = Certifier()
    PassManager("launch_fusion", observers=[certifier]).run(parse(text))
    (only,) = (decision for decision in certifier.decisions)
    only.certify(5)
    return only


def shifted(put: str, get: str) -> str:
    return SHIFTED.replace("PUT", put).replace("GET", get)


@pytest.mark.parametrize(
    ("put", "get"),
    [("@p", "params(@j = @p)"), ("4", "params(@j = 4)"), ("4", ""), ("0", "params(@j = 0)")],
    ids=["one scalar under two names", "one literal", "a default", "none"],
)
def test_equal_params_are_equal(put: str, get: str) -> None:
    assert decision(shifted(put, get)).status == "proved"


@pytest.mark.usefixtures("unchecked_results")
@pytest.mark.parametrize(
    ("put", "get"),
    [("0", "params(@j = 4)"), ("0", ""), ("@p", "params(@j = @q)"), ("@p", "params(@j = 4)")],
    ids=["literals", "a default", "two scalars", "a scalar and a literal"],
)
def test_params_that_may_differ_are_refuted(put: str, get: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a wrong proof says that the launches may be one."""
    monkeypatch.setattr(group_legality, "prove_pair", lambda module, pair: Verdict(None, needs_barrier=True))
    assert decision(shifted(put, get)).status == "refuted"


HALO = """vyre 2

program @a workgroup(64) {
  buffer @x : u32[?] read binding(0)
  buffer @m : u32[?] write binding(1)
  %g = global_id x
  %v = load @x[%g]
  %w = add %v, 1
  store %w, @m[%g]
}
program @b workgroup(64) {
  buffer @m : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %i = sub_sat %g, 1 : u32
  %v = load @m[%i]
  store %v, @y[%g]
}
program @c workgroup(64) {
  buffer @y : u32[?] read binding(0)
  buffer @z : u32[?] write binding(1)
  %g = global_id x
  %n = len @y
  %p = lt %g, %n : u32
  if %p {
    %v = load @y[%g]
    store %v, @z[%g]
  }
}
pipeline @main {
  buffer @x : u32[513] read
  buffer @m : u32[512]
  buffer @y : u32[512]
  buffer @z : u32[512] write
  launch @a grid(8) (@x, @m)
  launch @b grid(8) (@m, @y)
  launch @c grid(8) (@y, @z)
}
"""
"""@b reads a halo of @m, which becomes a tile; the length of @y, on which @c depends, is equal to that of @m."""


@pytest.mark.usefixtures("unchecked_results")
def test_a_length_of_a_tile_is_none_of_the_pipeline(monkeypatch: pytest.MonkeyPatch) -> None:
    """The lengths are left in the bodies, and that of the tile is taken for those that are equal."""
    assert decision(HALO).status == "proved"
    bind, equal = BoundPrograms.of, launch_fusion.equal_lengths

    def without_lengths(
        self: BoundPrograms, program: object, launch: Launch, lengths: object
    ) -> BoundProgram:
        return bind(self, program, launch, {})  # type: ignore[arg-type]

    monkeypatch.setattr(BoundPrograms, "of", without_lengths)
    monkeypatch.setattr(
        launch_fusion, "equal_lengths", lambda numbers, names: equal(numbers, dict(sorted(names.items())))
    )
    assert decision(HALO).status != "proved"
