"""Ops that give equal values have equal keys, and others have others."""

from __future__ import annotations

import vyre_opt as vyre
from vyre_opt.certify.known_values import KnownValues

TEXT = """vyre 1

program @p workgroup(1) {
  buffer @y : f32[1] write
  %x = const 2.0 : f32
  %a = exp %x : f32
  %b = exp %x fastmath<afn> : f32
  %c = exp %x fastmath<afn> : f32
  %d = exp %x fastmath<afn, nnan> : f32
}
"""


def test_ops_with_other_flags_are_other_functions() -> None:
    program = vyre.parse(TEXT).programs["p"]
    known = KnownValues()
    for op in program.body.ops:
        known.learn(program, op)
    exact, flagged, again, more = (op.result for op in program.body.ops[1:])
    first = known.first([exact, flagged, again, more])
    assert first == (exact, flagged, flagged, more)
