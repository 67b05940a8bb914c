"""No store takes the low bits of a register that holds a float: ptxas converts it to an integer instead."""

from __future__ import annotations

import pytest
from support.op_programs import op_programs
from support.pairs import pairs

from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.low_bits import with_low_bits_taken
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import gpu

FLOATS = ("f16", "f16x2", "bf16", "bf16x2", "tf32", "f32", "f64")
INTEGERS = ("pred", *(f"{kind}{bits}" for kind in "bsu" for bits in (8, 16, 32, 64, 128)))
BITS = {"%rs": 16, "%r": 32, "%rd": 64}


def wrong_stores(ptx: str) -> list[str]:
    """Those of a register whose last instruction gives a float wider than what is stored."""
    is_float = dict[str, bool]()
    wrong = []
    for line in ptx.splitlines():
        opcode, _, operands = line.strip().rstrip(";").partition(" ")
        name, *modifiers = opcode.split(".")
        kinds = [m for m in modifiers if m in FLOATS or m in INTEGERS]
        names = [word.strip("{}[] \t") for word in operands.split(",")]
        if name == "st" and kinds:
            stored = operands.partition("]")[2].strip(", {}").split(",")
            for register in (word.strip() for word in stored):
                bits = BITS.get(register.rstrip("0123456789"), 0)
                if bits > int(kinds[-1][1:]) and is_float.get(register):
                    wrong.append(line)
        elif kinds and names and names[0].startswith("%"):
            is_float[names[0]] = kinds[0] in FLOATS
    return wrong


@pytest.mark.parametrize(("bounds", "level"), pairs(["trap", "clamp", "none"], [0, 2, 3]))
def test_bits_of_floats(bounds: str, level: int) -> None:
    """Some of the programs that make words or vectors of the bits of floats would store them so."""
    cases = [case for case in op_programs() if case.name.startswith("bitcast")]
    ptx = emit_ptx(
        lower([Unit(case.program, case.module) for case in cases], gpu("sm_90"), bounds),
        gpu("sm_90"),
        level=level,
    )
    assert wrong_stores(ptx) == []
    assert level == 0 or "%low0, " in ptx


def test_registers_of_all_sizes() -> None:
    def program(*lines: str) -> str:
        return "\n".join(f"\t{line}" for line in lines)

    ptx = program(
        "add.rn.f16 \t%rs1, %rs2, %rs2;",
        "fma.rn.relu.bf16 \t%rs3, %rs2, %rs2, %rs2;",
        "cvt.rn.f32.s32 \t%r1, %r2;",
        "cvt.rzi.s32.f32 \t%r3, %r2;",
        "setp.nan.f64 \t%p1, %rd2, %rd2;",
        "selp.f64 \t%rd1, %rd2, %rd3, %p1;",
        "st.shared.b8 \t[%r9], %rs1;",
        "st.global.v2.b8 \t[%rd9+2], {%rs3, %rs2};",
        "st.global.b16 \t[%rd9+4], %r1;",
        "st.global.b16 \t[%rd9+4], %r3;",
        "st.volatile.global.v2.b32 \t[%rd9+8], {%rd1, %rd1};",
        "st.global.b64 \t[%rd9+8], %rd1;",
    )
    assert len(wrong_stores(ptx)) == 5
    result = with_low_bits_taken(ptx)
    assert wrong_stores(result) == []
    for line in (
        "and.b16 \t%low0, %rs1, 255;",
        "st.shared.b8 \t[%r9], %low0;",
        "st.global.v2.b8 \t[%rd9+2], {%low0, %rs2};",
        "cvt.u16.u32 \t%low0, %r1;",
        "st.global.b16 \t[%rd9+4], %r3;",
        "cvt.u32.u64 \t%low0, %rd1;",
        "st.volatile.global.v2.b32 \t[%rd9+8], {%low0, %low0};",
        "st.global.b64 \t[%rd9+8], %rd1;",
    ):
        assert f"\t{line}\n" in result + "\n", line
    assert with_low_bits_taken(result) == result


def test_integers_are_stored_as_they_are() -> None:
    ptx = "\tadd.s32 \t%r1, %r2, %r2;\n\tadd.rn.f32 \t%r3, %r1, %r1;\n\tst.global.b8 \t[%rd1], %r1;\n"
    assert with_low_bits_taken(ptx) == ptx
