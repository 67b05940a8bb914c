"""Numbers of 8 and 16 bits that wrap before they are made wider are told, and how to compute them."""

from __future__ import annotations

from pathlib import Path

from support.warned import kernel_warnings

from vyre_opt import parse, verify

HEAD = """import vyre_opt as vyre
from vyre_opt.lang import *

@vyre.program(workgroup=64)
def kernel(a: Read[u8], b: Read[u8], c: Read[u16], s: Read[i8], h: Read[f16], t: Read[u32[256]], y: Write[u32], f: Write[f32], z: Write[u8], g: Write[u16]):
    i = vyre.global_id(0)
"""
TOLD = [
    # lines, words of the warning, and an edit that makes them right
    ("p = a[i] * 77 + b[i] * 29\ny[i] = u32(p) >> 8", "write u32(a[i]) * 77 + u32(b[i]) * 29 for a[i] * 77 + b[i] * 29", ("a[i] * 77 + b[i] * 29", "u32(a[i]) * 77 + u32(b[i]) * 29")),
    ("y[i] = u32(a[i] + b[i])", "a[i] + b[i] wraps at 2^8 in u8, before it is made a u32", ("u32(a[i] + b[i])", "u32(a[i]) + u32(b[i])")),
    ("d = a[i] - b[i]\ny[i] = u32(d * d)", "a[i] - b[i] wraps below 0 at 2^8", ("a[i] - b[i]", "u32(a[i]) - u32(b[i])")),
    ("y[i] = u32(c[i] << 8) | i", "write u32(c[i]) << 8", ("u32(c[i] << 8)", "u32(c[i]) << 8")),
    ("f[i] = f32(a[i] * 77 + b[i]) / 255.0", "write f32(u32(a[i]) * 77 + u32(b[i]))", ("f32(a[i] * 77 + b[i])", "f32(u32(a[i]) * 77 + u32(b[i]))")),
    ("f[i] = f32(a[i] * b[i])", "write f32(f32(a[i]) * f32(b[i]))", ("f32(a[i] * b[i])", "f32(a[i]) * f32(b[i])")),
    ("f[i] = f32(s[i] - s[0])", "write f32(f32(s[i]) - f32(s[0]))", ("f32(s[i] - s[0])", "f32(s[i]) - f32(s[0])")),
    ("z[i] = (a[i] + b[i]) >> 1", "before it is shifted to the right", ("(a[i] + b[i]) >> 1", "u8(u32(a[i]) + u32(b[i]) >> 1)")),
    ("z[i] = (a[i] + b[i]) // 2", "u8((u32(a[i]) + u32(b[i])) // 2)", ("(a[i] + b[i]) // 2", "u8((u32(a[i]) + u32(b[i])) // 2)")),
    ("n = f16(0)\nfor j in range(len(h)):\n    n += abs(h[j])\nf[i] = f32(n)", "begin with n = f32(0), and add f32(abs(h[j]))", ("n = f16(0)\nfor j in range(len(h)):\n    n += abs(h[j])", "n = f32(0)\nfor j in range(len(h)):\n    n += f32(abs(h[j]))")),
]  # fmt: skip
SILENT = [
    "y[i] = u32(a[i] - 48)", "y[i] = u32(a[i] + 1)", "y[i] = u32(c[i] - c[0])",  # digits, and differences of what is sorted
    "y[i] = u32((a[i] & 15) * 17)", "y[i] = u32((a[i] >> 4) + (b[i] >> 4))", "y[i] = u32(a[i] * b[i]) & 255",
    "z[i] = a[i] * 31 + b[i]", "z[i] = (a[i] | b[i]) - ((a[i] ^ b[i]) >> 1)", "z[i] = (a[i] << 4) >> 4",
    "k = a[i] * 29\nz[i] = k ^ (k >> 3)", "y[i] = u32((c[i] * 40503) >> 8)", "y[i] = t[u32(a[i] + b[i])]",
    "y[i] = u32(a[i] * 16 + b[i])", "y[i] = u32((a[i] << 4) + b[i])",
    "n = u16(0)\nfor j in range(8):\n    n += u16(a[j])\ny[i] = u32(n)",
    "n = f16(0)\nfor j in range(8):\n    n += h[j]\nf[i] = f32(n)",
]  # fmt: skip


def _warned(tmp_path: Path, lines: str, name: str) -> list[str]:
    return kernel_warnings(tmp_path, HEAD, lines, name)


def test_what_wraps_before_it_is_wider_is_told_and_the_remedy_is_right(tmp_path: Path) -> None:
    for number, (lines, words, (old, new)) in enumerate(TOLD):
        (warning,) = _warned(tmp_path, lines, f"told_{number}")
        assert words in warning, warning
        assert old in lines
        assert _warned(tmp_path, lines.replace(old, new), f"right_{number}") == [], lines


def test_what_wraps_on_purpose_or_not_at_all_is_not_told(tmp_path: Path) -> None:
    for number, lines in enumerate(SILENT):
        assert _warned(tmp_path, lines, f"silent_{number}") == [], lines


TEXT = """vyre 2
program @mix workgroup(1) {{
  buffer @a : u8[1] read binding(0)
  buffer @y : u32[1] write binding(1)
  %v = load @a[0] : u8
  {}
  store %w, @y[0] : u32
}}
"""


def test_a_text_is_told_where_to_widen() -> None:
    (warning,) = verify(parse(TEXT.format("%p = mul %v, 3 : u8 %w = cast %p : u8 -> u32")))
    assert warning.message == "this number wraps at 2^8 in u8, before it is made a u32"
    assert warning.help == "compute in u32: begin with %v_u32 = cast %v : u8 -> u32"
    assert verify(parse(TEXT.format("%v_u32 = cast %v : u8 -> u32 %w = mul %v_u32, 3 : u32"))) == []


def test_a_shift_by_a_negative_amount() -> None:
    """An amount is taken modulo the bits: here it is 7."""
    text = TEXT.replace("u8", "i8").replace("u32", "i32")
    ops = "%q = shr %v, -1 : i8 %p = mul %q, 3 : i8 %w = cast %p : i8 -> i32"
    assert verify(parse(text.format(ops))) == []
