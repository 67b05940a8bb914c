"""A program that LLVM compiles for seconds."""

from __future__ import annotations

__all__ = ["slow_to_compile"]

ROUNDS, LIVE = 60, 100


def slow_to_compile() -> str:
    """Thousands of operations, with many values that live at once."""
    lines = ["vyre 1", "program @p workgroup(32) {"]
    lines.append("  buffer @x : f64[?] read binding(0)")
    lines.append("  buffer @y : f64[?] write binding(1) live_out")
    lines += ["  %i = global_id x", "  %x = load @x[%i] : f64", "  %r0_0 = add %x, %x : f64"]
    lines += [f"  %r0_{k} = add %r0_{k - 1}, %x : f64" for k in range(1, LIVE)]
    for n in range(ROUNDS):
        lines += [f"  %r{n + 1}_{k} = mul %r{n}_{k}, %r{n}_{(7 * k + 1) % LIVE} : f64" for k in range(LIVE)]
    return "\n".join([*lines, f"  store %r{ROUNDS}_0, @y[%i] : f64", "}", ""])
