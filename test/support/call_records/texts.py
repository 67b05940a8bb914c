"""Programs and pipelines of text, whose calls are recorded, by name."""

from __future__ import annotations

__all__ = ["TEXTS"]

_HALVE = """
program @halve workgroup(32) {
  buffer @now  : f32[?] read  binding(0)
  buffer @next : f32[?] write binding(1)
  %i = global_id x
  %n = len @now
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @now[%i] : f32
    %half = const 0.5 : f32
    %w = mul %v, %half : f32
    store %w, @next[%i] : f32
  }
}
"""

TEXTS = {
    "scale": """vyre 1
program @scale workgroup(32) {
  buffer @x : f32[?] read  binding(0)
  buffer @y : f32[?] write binding(1)
  spec @factor : f32 = 2.0
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : f32
    %f = spec @factor : f32
    %scaled = mul %v, %f : f32
    store %scaled, @y[%i] : f32
  }
}
""",
    "saxpy": """vyre 2
program @saxpy workgroup(32) {
  buffer @x : f32[?] read       binding(0)
  buffer @y : f32[?] read_write binding(1) live_in live_out
  param @alpha : f32
  param @n     : u32 = 3
  %i = global_id x
  %n = param @n : u32
  %inside = lt %i, %n : u32
  if %inside {
    %a = param @alpha : f32
    %x = load @x[%i] : f32
    %y = load @y[%i] : f32
    %s = fma %a, %x, %y : f32
    store %s, @y[%i] : f32
  }
}
""",
    "fixed": """vyre 1
program @fixed workgroup(8) grid(2) {
  buffer @x : u32[16] read  binding(0)
  buffer @y : u32[16] write binding(1)
  buffer @z : u16[16] write binding(2)
  %i = global_id x
  %v = load @x[%i] : u32
  %w = add %v, %v : u32
  store %w, @y[%i] : u32
  %h = cast %w : u32 -> u16
  store %h, @z[%i] : u16
  debug_print "%u" %v
}
""",
    "quads": """vyre 1
program @quads workgroup(8) {
  buffer @x : vec<4 x f32>[?] read  binding(0)
  buffer @y : vec<4 x f32>[?] write binding(1)
  %i = global_id x
  %n = len @x
  %inside = lt %i, %n : u32
  if %inside {
    %v = load @x[%i] : vec<4 x f32>
    %w = add %v, %v : vec<4 x f32>
    store %w, @y[%i] : vec<4 x f32>
  }
}
""",
    "decay": "vyre 1\n"
    + _HALVE
    + """
pipeline @main {
  buffer @x : f32[?] live_in live_out
  buffer @t : f32[?]
  buffer @sums : f32[?] write
  repeat 2 {
    launch @halve grid(ceil_div(len(@x), 32)) (@x, @t)
    launch @halve grid(ceil_div(len(@t), 32)) (@t, @x)
    host_read @x
  }
  scan.prefix(@x, @sums)
}
""",
    "sized": "vyre 2\n"
    + _HALVE
    + """
pipeline @main {
  buffer @x : f32[?] read
  buffer @y : f32[?] write
  param @count : u32
  launch @halve grid(ceil_div(@count, 32)) (@x, @y)
}
""",
}
