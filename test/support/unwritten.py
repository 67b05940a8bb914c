"""Programs that show what memory held before: one writes a third of its output, one counts in an unbound buffer."""

from __future__ import annotations

__all__ = ["COUNT", "EVERY_THIRD"]

EVERY_THIRD = """
program @third workgroup(32) {
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(1)
  %g = global_id x
  %c3 = const 3 : u32
  %i = mul %g, %c3 : u32
  %n = len @y
  %in = lt %i, %n : u32
  if %in {
    %v = load @x[%i] : u32
    store %v, @y[%i] : u32
  }
}
"""

COUNT = """
program @count workgroup(32) {
  buffer @x : u32[?] read_write binding(0) live_in live_out
  buffer @seen : u32[1] read_write
  %g = global_id x
  %one = const 1 : u32
  %zero = const 0 : u32
  %before = atomic_add @seen[%zero], %one : u32
  %v = load @x[%g] : u32
  %w = add %v, %before : u32
  store %w, @x[%g] : u32
}
"""
