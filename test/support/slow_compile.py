"""A program that is small, and that LLVM compiles for seconds."""

from __future__ import annotations

__all__ = ["slow_to_compile"]


def slow_to_compile() -> str:
    """Many wide values that live at once, which LLVM's register allocation takes long for."""
    lines = ["vyre 1", "program @p workgroup(32) {"]
    lines.append("  buffer @x : vec<64 x f64>[?] read binding(0)")
    lines.append("  buffer @y : vec<64 x f64>[?] write binding(1) live_out")
    lines += ["  %i = global_id x", "  %v0 = load @x[%i] : vec<64 x f64>"]
    for k in range(1, 24):
        lines.append(f"  %c{k} = const {k} : u32")
        lines.append(f"  %j{k} = add %i, %c{k} : u32")
        lines.append(f"  %v{k} = load @x[%j{k}] : vec<64 x f64>")
    lines.append("  %s0 = add %v0, %v0 : vec<64 x f64>")
    lines += [f"  %s{k} = mul %s{k - 1}, %v{24 - k} : vec<64 x f64>" for k in range(1, 24)]
    return "\n".join([*lines, "  store %s23, @y[%i] : vec<64 x f64>", "}", ""])
