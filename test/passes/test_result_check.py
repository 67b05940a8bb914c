"""Results of passes that make a mistake, planted here, are not kept: values stay, and a remark and a counter tell."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
from support.each import each
from support.pipeline_runs import any_inputs, difference, observe
from support.shifted import get, put

from vyre_opt import PassManager, parse, print_program
from vyre_opt.fusion import grid_agreement, group_legality
from vyre_opt.fusion.bound_program import BoundProgram
from vyre_opt.fusion.halo_recompute import HaloTile
from vyre_opt.fusion.join import JoinPlan
from vyre_opt.fusion.result_check import UnsoundResult
from vyre_opt.ir import Block, Program
from vyre_opt.passes import decode_scan_fuse, store_forward

HANDOFF = """vyre 2
program @p workgroup(64) grid(4) {
  buffer @x : u32[256] read binding(0)
  buffer @h : u32[256] read_write
  buffer @y : u32[256] write binding(1)
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %v = load @x[%g]
  store %v, @h[%g]
  barrier workgroup
  %m = sub 63, %l : u32
  %base = mul %w, 64 : u32
  %i = add %base, %m : u32
  %r = load @h[%i]
  store %r, @y[%g]
}
pipeline @main {
  buffer @x : u32[256] read
  buffer @y : u32[256] write
  launch @p grid(4) (@x, @y)
}
"""
OVERWRITTEN = """vyre 2
program @p workgroup(64) grid(4) {
  buffer @x : u32[256] read binding(0)
  buffer @y : u32[512] write binding(1)
  %g = global_id x
  %v = load @x[%g]
  %w = mul %v, 3
  store %v, @y[%g]
  store %w, @y[%g]
  %j = add %g, 256
  store %v, @y[%j]
}
pipeline @main {
  buffer @x : u32[256] read
  buffer @y : u32[512] write
  launch @p grid(4) (@x, @y)
}
"""
SHIFTED = f"""vyre 2
{put()}{get()}pipeline @main {{
  buffer @x : u32[8] read
  buffer @m : u32[16] live_in live_out
  buffer @n : u32[16] live_in live_out
  buffer @y : u32[8] write
  buffer @z : u32[8] write
  launch @put grid(2) (@x, @m) params(@k = 4)
  launch @get grid(2) (@m, @y) params(@k = 4)
  host_read @y
  launch @put grid(2) (@x, @n) params(@k = 4)
  launch @get grid(2) (@n, @z) params(@k = 0)
}}
"""
REGRID = """vyre 2
program @one workgroup(64) {
  buffer @x : u32[512] read binding(0)
  buffer @m : u32[512] write binding(1)
  %g = global_id x
  %v = load @x[%g]
  %w = add %v, 1
  store %w, @m[%g]
}
program @four workgroup(64) {
  buffer @m : u32[512] read binding(0)
  buffer @y : u32[512] write binding(1)
  %g = global_id x
  for %k = 0 to 4 step 1 {
    %a = mul %g, 4 : u32
    %i = add %a, %k
    %v = load @m[%i]
    store %v, @y[%i]
  }
}
pipeline @main {
  buffer @x : u32[512] read
  buffer @m : u32[512]
  buffer @y : u32[512] write
  launch @one grid(8) (@x, @m)
  launch @four grid(2) (@m, @y)
}
"""


def _shorter_tiles(program: Program, tiles: Any, footprints: Any) -> None:
    PROMOTE(program, [(buffer, local, dtype, count - 1) for buffer, local, dtype, count in tiles], footprints)


def _no_stores(self: Any, block: Block) -> None:
    WALK(self, block)
    self.stores += 1
    last = next(op for op in reversed(block.ops) if op.name == "store")
    block.ops.remove(last)


def _half_of_the_groups(extent: Any, by: int) -> Any:
    return CEIL(extent, 2 * by)


PROMOTE = decode_scan_fuse.promote_to_tile
WALK, CEIL = store_forward._Forwarder.walk_block, grid_agreement.ceil_divided
PROOF = group_legality.prove_pair


def _first_verdict() -> Callable[..., Any]:
    """A cache of verdicts by the names of programs, as if nothing else mattered."""
    verdicts: dict[Any, Any] = {}

    def prove(module: Any, pair: Any) -> Any:
        names = tuple(member.program.name for member in pair.members)
        return verdicts.setdefault(names, PROOF(module, pair))

    return prove


MISTAKES: dict[str, tuple[str, str, Any, str, Any]] = {
    "tiles an element too short": (HANDOFF, "decode_scan_fuse", decode_scan_fuse, "promote_to_tile", _shorter_tiles),
    "the last store dropped": (OVERWRITTEN, "store_forward", store_forward._Forwarder, "walk_block", _no_stores),
    "half of the workgroups": (REGRID, "launch_fusion", grid_agreement, "ceil_divided", _half_of_the_groups),
    "verdicts of other launches": (SHIFTED, "launch_fusion", group_legality, "prove_pair", _first_verdict),
}  # fmt: skip
"""A text, the pass, and what of it is replaced by what."""


def _planted(name: str, monkeypatch: pytest.MonkeyPatch) -> tuple[str, str]:
    text, passes, owner, attribute, wrong = MISTAKES[name]
    monkeypatch.setattr(owner, attribute, wrong() if wrong is _first_verdict else wrong)
    return text, passes


@pytest.mark.parametrize("name", MISTAKES)
def test_a_wrong_result_is_not_kept(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    text, passes = _planted(name, monkeypatch)
    monkeypatch.delenv("VYRE_REFUSED_RESULT")
    module = parse(text)
    result = PassManager(passes).run(module)
    told = [r for r in result.remarks if r.certificate.get("reason") == "result"]
    assert [r.kind for r in told] == ["refused"]
    assert result.statistics[passes, "results refused"] == 1
    inputs = any_inputs(text, 0)
    after = observe(parse(print_program(module)), "ref", inputs)
    assert not difference(observe(text, "ref", inputs), after)


def test_it_is_an_error_here(monkeypatch: pytest.MonkeyPatch) -> None:
    text, passes = _planted("tiles an element too short", monkeypatch)
    with pytest.raises(UnsoundResult):
        PassManager(passes).run(parse(text))


# --- what is right is kept


SPLIT = """vyre 2
program @digits workgroup(64) {
  %g = global_id x
  %d = xor %g, 32 : u32
}
program @put workgroup(64) {
  buffer @x : i32[1] write binding(0)
  %g = global_id x
  %is_first = lt %g, 1 : u32
  if %is_first {
    store 7, @x[0]
  }
}
program @get workgroup(64) {
  buffer @x : i32[1] read binding(0)
  buffer @y : i32[1] write binding(1)
  %g = global_id x
  %is_first = lt %g, 1 : u32
  if %is_first {
    %v = load @x[%g]
    store %v, @y[0]
  }
}
pipeline @main {
  buffer @x : i32[1]
  buffer @y : i32[1] write
  launch @digits grid(1) ()
  launch @put grid(1) (@x)
  launch @get grid(1) (@x, @y)
}
"""
STRIDED = """vyre 2
program @strided workgroup(64) {
  buffer @x : f32[128] read binding(0)
  buffer @m : f32[128] write binding(1)
  %g = global_id x
  %n = len @m
  %s = global_size x
  for %k = %g to %n step %s {
    %v = load @x[%k]
    store %v, @m[%k]
  }
}
program @before workgroup(64) {
  buffer @m : f32[128] read binding(0)
  buffer @y : f32[128] write binding(1)
  %g = global_id x
  %i = sub_sat %g, 3 : u32
  %v = load @m[%i]
  store %v, @y[%g]
}
pipeline @main {
  buffer @x : f32[128] read
  buffer @m : f32[128]
  buffer @y : f32[128] write
  launch @strided grid(2) (@x, @m)
  launch @before grid(2) (@m, @y)
}
"""


COMPUTED = """vyre 2
program @ones workgroup(64) {
  buffer @y : f32[127] write binding(0)
  %g = global_id x
  %n = len @y
  %p = lt %g, %n : u32
  if %p {
    store 1.0, @y[%g]
  }
}
program @next workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %g = global_id x
  %n = len @y
  %p = lt %g, %n : u32
  if %p {
    %last = sub %n, 1
    %j = add %g, 1
    %i = min %j, %last : u32
    %v = load @x[%i]
    store %v, @y[%g]
  }
}
program @count workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : u32[127] write binding(1)
  %g = global_id x
  %n = len @x
  %p = lt %g, %n : u32
  if %p {
    store %n, @y[%g]
  }
}
pipeline @main {
  buffer @m : f32[127]
  buffer @n : f32[len(@m)]
  buffer @y : u32[127] write
  launch @ones grid(2) (@m)
  launch @next grid(max(1, ceil_div(len(@n), 64))) (@m, @n)
  launch @count grid(max(1, ceil_div(len(@n), 64))) (@n, @y)
}
"""


NEVER = """vyre 2
program @first workgroup(128) {
  buffer @m : i32[1] write binding(0)
  %g = global_id x
  %p = lt %g, 1 : u32
  if %p {
    store 0, @m[%g]
  }
}
program @never workgroup(128) {
  buffer @m : i32[1] read binding(0)
  buffer @y : i32[33] write binding(1)
  %g = global_id x
  %p = lt %g, 33 : u32
  if %p {
    %i = add %g, 4294967169
    %q = lt %i, 1 : u32
    %v = if %q -> i32 {
      %u = load @m[%i]
      yield %u
    } else {
      yield 5
    }
    store %v, @y[%g]
  }
}
program @digits workgroup(128) {
  %g = global_id x
  %d = xor %g, 1 : u32
}
pipeline @main {
  buffer @m : i32[1]
  buffer @y : i32[33] write
  launch @first grid(1) (@m)
  launch @never grid(1) (@m, @y)
  launch @digits grid(1) ()
}
"""


FIXED = """vyre 2
program @mirror workgroup(8) {
  buffer @x : i32[?] read binding(0)
  buffer @y : i32[24] write binding(1)
  %g = global_id x
  %n = len @y
  %last = sub %n, 1
  %i = sub %last, %g
  %p = lt %i, %n : u32
  if %p {
    %v = load @x[%i]
    store %v, @y[%i]
  }
}
pipeline @main {
  buffer @x : i32[?] read
  buffer @y : i32[len(@x)] live_out
  launch @mirror grid(3) (@x, @y)
  launch @mirror grid(3) (@x, @y)
}
"""


TWO_RESULTS = """vyre 2
func @both(%a : i32) -> (i32, i32) {
  %b = add %a, 1 : i32
  yield %a, %b
}
program @first workgroup(32) {
  buffer @m : i32[32] write binding(0)
  %l = local_id x
  %i = cast %l : u32 -> i32
  %a, %b = call @both(%i)
  %s = add %a, %b : i32
  store %s, @m[%l]
}
program @second workgroup(32) {
  buffer @m : i32[32] read binding(0)
  buffer @y : i32[32] write binding(1)
  %l = local_id x
  %v = load @m[%l]
  store %v, @y[%l]
}
pipeline @main {
  buffer @m : i32[32]
  buffer @y : i32[32] write
  launch @first grid(1) (@m)
  launch @second grid(1) (@m, @y)
}
"""


@pytest.mark.parametrize(
    "text",
    [SPLIT, STRIDED, COMPUTED, NEVER, TWO_RESULTS],
    ids=[
        "all digits of an id are fixed",
        "a halo of a loop",
        "a length that is computed of a tile's",
        "a load that never is, beside a program that splits ids",
        "a function of two results",
    ],
)
def test_what_is_right_is_kept(text: str) -> None:
    module = parse(text)
    PassManager("launch_fusion").run(module)
    assert len(module.pipelines["main"].stages) == 1
    inputs = any_inputs(text, 0)
    after = observe(parse(print_program(module)), "ref", inputs)
    assert not difference(observe(text, "ref", inputs), after)


MULTIPLIED = """vyre 2
program @double workgroup(64) {
  buffer @x : i32[?] read binding(0)
  buffer @y : i32[?] write binding(1)
  %g = global_id x
  %n = len @y
  %p = lt %g, %n : u32
  if %p {
    %q = div %g, 4 : u32
    %v = load @x[%q]
    %w = add %v, %v : i32
    store %w, @y[%g]
  }
}
program @next workgroup(64) {
  buffer @x : i32[?] read binding(0)
  buffer @y : i32[?] write binding(1)
  %g = global_id x
  %n = len @y
  %p = lt %g, %n : u32
  if %p {
    %i = cast %g : u32 -> i32
    %v = load @x[%i]
    store %v, @y[%g]
  }
}
pipeline @main {
  buffer @x : i32[?] read
  buffer @m : i32[mul(len(@x), 4)]
  buffer @y : i32[len(@m)] write
  launch @double grid(max(1, ceil_div(len(@m), 64))) (@x, @m)
  launch @next grid(max(1, ceil_div(len(@y), 64))) (@m, @y)
}
"""


@pytest.mark.parametrize(
    "text",
    [FIXED, MULTIPLIED],
    ids=["a length that only the program says", "a grid beyond all ids, on paper"],
)
def test_what_is_right_of_an_open_length_is_kept(text: str) -> None:
    module = parse(text)
    PassManager("launch_fusion").run(module)
    assert len(module.pipelines["main"].stages) == 1
    inputs = {"x": np.arange(24, dtype=np.int32)}
    after = observe(parse(print_program(module)), "ref", inputs)
    assert not difference(observe(text, "ref", inputs), after)


def test_a_store_of_what_went_through_another_buffer_changes_nothing() -> None:
    text = OVERWRITTEN.replace(
        "buffer @y : u32[512] write binding(1)",
        "buffer @y : u32[512] read_write binding(1) live_in live_out\n  buffer @t : u32[256] read_write",
    ).replace(
        "  store %v, @y[%g]\n  store %w, @y[%g]\n",
        "  %old = load @y[%g]\n  store %old, @t[%g]\n  %same = load @t[%g]\n  store %same, @y[%g]\n",
    )
    result = PassManager("store_forward").run(parse(text))
    assert result.statistics["store_forward", "stores removed"] == 1


# --- keys


def test_a_join_plan_is_the_whole_key() -> None:
    """A plan that differs in any field is another key."""
    program = parse(OVERWRITTEN).programs["p"]
    member = BoundProgram(program, ("x", "y"))
    tile = HaloTile("y", 0, 0, 64, 256, 64, 0, 64, 512)
    plan = JoinPlan((member,), (("x", 256), ("y", 512)), (4, 1, 1), frozenset())
    other = {
        "members": (replace(member, buffers=("y", "x")),),
        "lengths": (("x", 256), ("y", 513)),
        "grid": (5, 1, 1),
        "barriers": frozenset({0}),
        "internal": ("y",),
        "initialized": ("y",),
        "private": ("y",),
        "tiles": (tile,),
        "rewritten": frozenset({"x"}),
        "equal": (("x", "y"),),
    }
    assert {field.name for field in fields(plan)} == other.keys()
    each(other, lambda name: _is_another(plan, replace(plan, **{name: other[name]})))
    each(
        [field.name for field in fields(tile)],
        lambda name: _is_another(tile, replace(tile, **{name: "z" if name == "buffer" else 7})),
    )


def _is_another(key: Any, changed: Any) -> None:
    assert changed != key
    assert len({key, changed}) == 2


def test_one_element_named_by_indices_of_two_types_is_one() -> None:
    """The second store goes, since the first one has its value there; the check sees that it is the same element."""
    module = parse(
        """vyre 2
program @p workgroup(4) {
  buffer @y : u32[8, 2] write binding(0) live_out
  %g = global_id x
  %zero = const 0 : u32
  %none = const 0 : i32
  store 7, @y[%g, %zero] : u32
  store 7, @y[%g, %none] : u32
}
"""
    )
    PassManager("store_forward").run(module)
    assert str(module).count("store 7") == 1
