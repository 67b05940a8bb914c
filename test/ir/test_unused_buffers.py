"""Arrays and numbers of the caller that no op of a text uses are told, unless their names say so or something else is wrong."""

from __future__ import annotations

from vyre_opt import parse, verify

TEXT = """vyre 2
program @p workgroup(64) {{
  buffer @x : f32[?] read binding(0)
  buffer @{} : f32[?] read binding(1)
  buffer @y : f32[?] write binding(2) live_out
  param @{} : u32 = 3
  %i = global_id x
  %v = load @x[%i] : f32
  {}
  store %v, @y[%i] : f32
}}
"""
CASES = [
    # names of a buffer and a parameter, ops, and the names that are told
    ("bias", "n", "", ["bias", "n"]),
    ("_bias", "_n", "", []),
    ("bias", "n", "%n = param @n %b = load @bias[%n] : f32", []),
    ("bias", "_n", "%n = len @bias", []),
    ("bias", "n", "%k = sub %i, %i : u32 %q = ge %k, 0 : u32", []),  # another mistake may be why
]


def test_what_no_op_uses() -> None:
    for buffer, param, ops, names in CASES:
        found = [
            each
            for each in verify(parse(TEXT.format(buffer, param, ops)))
            if "changes nothing" in each.message
        ]
        assert [each.help.rpartition("@_")[2] for each in found if each.help] == names
