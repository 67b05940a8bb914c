"""permute on GPUs, by prmt: what the lowering writes, run on this machine with prmt as the PTX manual defines it."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from support.quick import quick

from vyre_opt.lowering.common.llvm_text import ModuleText, Writer
from vyre_opt.lowering.nvptx.byte_permutes import permute_bytes

# digit k of the selector gives byte k: bits 0 to 2 which of the eight bytes b, a; bit 3 its sign in all eight bits
PRMT = (
    """define internal i32 @prmt(i32 %a, i32 %b, i32 %digits) {
  %low = zext i32 %a to i64
  %wide = zext i32 %b to i64
  %high = shl i64 %wide, 32
  %eight = or i64 %low, %high
"""
    + "".join(
        f"""  %digit{k} = lshr i32 %digits, {4 * k}
  %which{k} = and i32 %digit{k}, 7
  %places{k} = shl i32 %which{k}, 3
  %by{k} = zext i32 %places{k} to i64
  %moved{k} = lshr i64 %eight, %by{k}
  %byte{k} = trunc i64 %moved{k} to i8
  %sign{k} = ashr i8 %byte{k}, 7
  %mode{k} = and i32 %digit{k}, 8
  %fills{k} = icmp ne i32 %mode{k}, 0
  %chosen{k} = select i1 %fills{k}, i8 %sign{k}, i8 %byte{k}
  %wide{k} = zext i8 %chosen{k} to i32
  %at{k} = shl i32 %wide{k}, {8 * k}
  %word{k} = or i32 {f"%word{k - 1}" if k else "0"}, %at{k}
"""
        for k in range(4)
    )
    + "  ret i32 %word3\n}"
)


def permuted(table: np.ndarray, index: np.ndarray, is_inside: bool) -> np.ndarray:
    """What the lowering computes."""
    import llvmlite.binding as llvm

    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    module = ModuleText(llvm.get_default_triple(), "")
    w = Writer(module)

    def element(array: str, place: int) -> str:
        return w.emit(f"load i8, ptr {w.emit(f'getelementptr i8, ptr {array}, i64 {place}')}")

    entries = [element("%table", place) for place in range(len(table))]
    places = [element("%index", place) for place in range(len(index))]
    found = permute_bytes(w, entries, places, is_inside)
    assert len(found) == len(index)
    for place, name in enumerate(found):
        w.line(f"store i8 {name}, ptr {w.emit(f'getelementptr i8, ptr %out, i64 {place}')}")
    module.define(
        "f",
        "define void @f(ptr %table, ptr %index, ptr %out) {\n" + "\n".join([*w.lines, "  ret void\n}"]),
    )
    text = "\n".join(line for line in module.text().splitlines() if not line.startswith("declare"))
    parsed = llvm.parse_assembly(text.replace("@llvm.nvvm.prmt", "@prmt") + PRMT)
    parsed.verify()
    engine = llvm.create_mcjit_compiler(
        parsed, llvm.Target.from_default_triple().create_target_machine(opt=0)
    )
    engine.finalize_object()
    out = np.zeros(len(index), np.uint8)
    function = ctypes.CFUNCTYPE(None, *[ctypes.c_void_p] * 3)(engine.get_function_address("f"))
    function(table.ctypes.data, index.ctypes.data, out.ctypes.data)
    return out


@pytest.mark.parametrize("entries", quick([9, 2, 33, 7, 8, 16, 64], keep=3))
def test_every_byte_of_index(entries: int) -> None:
    """All 256, in each of the four places of a word: those beyond the table and its last, incomplete word give 0."""
    table = np.arange(255, 255 - entries, -1, dtype=np.uint8)
    places = np.arange(256)
    expected = np.where(places < entries, table[np.minimum(places, entries - 1)], 0)
    for start in range(0, 256, 63):
        index = np.arange(start, start + 63, dtype=np.int64) % 256
        got = permuted(table, index.astype(np.uint8), False)
        assert got.tolist() == expected[index].tolist()


def test_an_index_that_is_inside_is_not_compared() -> None:
    table = np.array([9, 200, 7, 128, 5], np.uint8)
    index = np.array([4, 3, 3, 0, 1, 2], np.uint8)
    assert permuted(table, index, True).tolist() == [5, 128, 128, 9, 200, 7]
