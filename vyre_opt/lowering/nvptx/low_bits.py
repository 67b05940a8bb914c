"""Stores of the low bits of a float, in words that ptxas understands.

A store of PTX may be narrower than the register: st.b32 of a 64-bit register stores its low half (PTX ISA, Operand Size
Exceeding Instruction-Type Size).  LLVM writes that also for a register that an instruction for floats has made.  There ptxas of
CUDA 12.9 and 13.0 (13.5 only for arguments of calls) converts the number to an integer instead.  So an instruction for integers
takes the bits first.
"""

from __future__ import annotations

import re

__all__ = ["with_low_bits_taken"]

_REGISTER = re.compile(r"%(rs|rd|r)\d+")
_BITS = {"rs": 16, "r": 32, "rd": 64}
_STORE = re.compile(r"^\tst\.[\w.:]*\.b(8|16|32)\s*\[[^\]]*\],\s*(\{[^}]*\}|%\w+);", re.MULTILINE)
_MODIFIER = r"\.(?!(?:pred|[bsu]\d+)\b)\w+(?:::\w+)*"  # but no type of integers
_FLOAT = r"\.(?:b?f16(?:x2)?|tf32|f32|f64)\b"
# what an instruction gives whose first type is one of floats
_FLOAT_RESULT = re.compile(
    rf"^\s*[a-z]\w*(?:{_MODIFIER})*?{_FLOAT}[\w.:]*\s*(\{{[^}}]*\}}|%\w+)", re.MULTILINE
)


def with_low_bits_taken(ptx: str) -> str:
    """The same program, without stores that are narrower than a register that holds a float."""
    floats: set[str] | None = None

    def rewritten(match: re.Match[str]) -> str:
        nonlocal floats
        bits = int(match[1])
        wide = {r[0]: _BITS[r[1]] for r in _REGISTER.finditer(match[2]) if _BITS[r[1]] > bits}
        if not wide:
            return match[0]
        if floats is None:
            floats = {r[0] for found in _FLOAT_RESULT.finditer(ptx) for r in _REGISTER.finditer(found[1])}
        renamed = {register: f"%low{k}" for k, register in enumerate(sorted(wide.keys() & floats))}
        if not renamed:
            return match[0]
        size = max(bits, 16)  # of the smallest register for so many bits
        store = match[0][: match.start(2) - match.start()] + _REGISTER.sub(
            lambda r: renamed.get(r[0], r[0]), match[2]
        )
        lines = [f".reg .b{size} \t%low<{len(renamed)}>;"]
        for register, low in renamed.items():
            if wide[register] > size:
                lines.append(f"cvt.u{size}.u{wide[register]} \t{low}, {register};")
            else:
                lines.append(f"and.b{size} \t{low}, {register}, {(1 << bits) - 1};")
        return "\n".join(("\t{", *(f"\t{line}" for line in lines), f"{store};", "\t}"))

    return _STORE.sub(rewritten, ptx)
