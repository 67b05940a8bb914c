"""Programs that move elements by a runtime scalar: @put stores there what @get loads there."""

from __future__ import annotations

__all__ = ["get", "put"]


def put(default: str = "") -> str:
    """`default`: what follows the type of the param @k, ` = 0`."""
    return f"""program @put workgroup(4) {{
  buffer @x : u32[8] read binding(0)
  buffer @m : u32[16] write binding(1)
  param @k : u32{default}
  %g = global_id x
  %k = param @k
  %i = add %g, %k
  %v = load @x[%g]
  store %v, @m[%i]
}}
"""


def get(name: str = "get", param: str = "k", default: str = "") -> str:
    return f"""program @{name} workgroup(4) {{
  buffer @m : u32[16] read binding(0)
  buffer @y : u32[8] write binding(1)
  param @{param} : u32{default}
  %g = global_id x
  %k = param @{param}
  %i = add %g, %k
  %v = load @m[%i]
  store %v, @y[%g]
}}
"""
