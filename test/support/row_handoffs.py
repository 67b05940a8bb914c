"""A hand-off within the row of each workgroup, as one program or as two launches, at indices that a test gives."""

from __future__ import annotations

from string import Template

import numpy as np

from vyre_opt import PassManager, parse, run

from .certifying import decisions_of

__all__ = ["OWN", "is_same", "pipeline", "program", "promoted", "proofs", "reason"]

GROUPS = 3
OWN = "%i = add %base, %l : u32"
"""A write of the lane's own element."""

PRELUDE = """
  %g = global_id x
  %l = local_id x
  %w = workgroup_id x
  %c0 = const 0 : u32
  %c1 = const 1 : u32
  %c2 = const 2 : u32
  %c3 = const 3 : u32
  %lanes = const $lanes : u32
  %last = const $last : u32
  %mirror = sub %last, %l : u32
  %base = mul %w, %lanes : u32
"""

PROGRAM = """vyre 1
program @p workgroup($lanes) grid($groups) {
  buffer @in : u32[$n] read binding(0)
  buffer @out : u32[$n] write binding(1) live_out
  buffer @h : u32[4096] read_write
  $prelude
  %v = load @in[%g] : u32
  $write
  $barrier
  $read
  %x = load @h[%j] : u32
  store %x, @out[%g] : u32
}"""

PIPELINE = """vyre 1
program @writer workgroup($lanes) {
  buffer @in : u32[$n] read binding(0)
  buffer @h : u32[4096] write binding(1) live_out
  $prelude
  %v = load @in[%g] : u32
  $write
}
program @reader workgroup($lanes) {
  buffer @h : u32[4096] read binding(0)
  buffer @out : u32[$n] write binding(1) live_out
  $prelude
  $read
  %x = load @h[%j] : u32
  store %x, @out[%g] : u32
}
pipeline @main {
  buffer @in : u32[$n] read
  buffer @h : u32[4096]
  buffer @out : u32[$n] write live_out
  launch @writer grid($groups) (@in, @h)
  launch @reader grid($groups) (@h, @out)
}"""


def _text(form: str, write: str, read: str, lanes: int, barrier: str) -> str:
    if "store" not in write:
        write += " store %v, @h[%i] : u32"
    sizes = {"lanes": lanes, "last": lanes - 1, "n": lanes * GROUPS, "groups": GROUPS}
    prelude = Template(PRELUDE).substitute(sizes)
    return Template(form).substitute(sizes, prelude=prelude, write=write, read=read, barrier=barrier)


def program(write: str, read: str, lanes: int = 64, barrier: str = "barrier workgroup") -> str:
    """One program: `write` stores %v, or computes the index %i of such a store, and `read` computes that of a load, %j."""
    return _text(PROGRAM, write, read, lanes, barrier)


def pipeline(write: str, read: str, lanes: int = 64) -> str:
    """The same as two launches."""
    return _text(PIPELINE, write, read, lanes, "")


def promoted(text: str) -> bool:
    """Whether the hand-off becomes a tile, after launches are joined."""
    result = PassManager("launch_fusion,decode_scan_fuse").run(parse(text))
    return bool(result.statistics.get(("decode_scan_fuse", "buffers promoted"), 0))


def reason(text: str) -> str:
    """Why a program's hand-off stays where it is; `applied` if it becomes a tile."""
    result = PassManager("decode_scan_fuse").run(parse(text))
    (remark,) = [r for r in result.remarks if r.certificate["buffer"] == "h"]
    return str(remark.certificate.get("reason", remark.kind))


def is_same(text: str) -> None:
    """The interpreter gives the same after the two passes and after all, with another number in each element."""
    module = parse(text)
    buffers = (module.pipelines.get("main") or module.programs["p"]).buffers
    arrays = {"in": np.random.default_rng(1).permutation(buffers["in"].count or 0).astype(np.uint32)}
    expected = run(text, arrays, target="ref")["out"]
    for passes in ("launch_fusion,decode_scan_fuse", "default"):
        np.testing.assert_array_equal(run(text, arrays, target="ref", passes=passes)["out"], expected)


def proofs(text: str) -> set[str]:
    """What the second prover says of the decisions of the two passes."""
    return {d.status for d in decisions_of(text) if d.by in ("launch_fusion", "decode_scan_fuse")}
