"""The contract of decode_scan_fuse, case by case: what is promoted of programs without bodies."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from vyre_opt import PassManager, candidate_handoffs, count_opportunities, parse, print_program
from vyre_opt.ir import Module, Program
from vyre_opt.passes import decode_scan_fuse

CASES = json.loads((Path(__file__).parent / "decode_scan_fuse.json").read_text())


def program_text(buffers: list[dict[str, Any]], open_zero: bool) -> str:
    """The case as text; a count of 0 stands for an open size, or is taken as it is."""
    lines = []
    for number, buffer in enumerate(buffers):
        count = "?" if buffer["count"] == 0 and open_zero else buffer["count"]
        live = " live_out" if buffer["live_out"] else ""
        lines.append(
            f"  buffer @{buffer['name']} : {buffer['dtype']}[{count}] {buffer['access']} binding({number}){live}"
        )
    return "vyre 1\nprogram @p workgroup(64) {\n" + "\n".join(lines) + "\n}\n"


def fuse(text: str) -> Module:
    module = parse(text)
    PassManager("decode_scan_fuse").run(module)
    return module


@pytest.mark.parametrize("case", CASES, ids=lambda c: "+".join(b["name"] for b in c["buffers"]))
@pytest.mark.parametrize("open_zero", [True, False], ids=["open", "zero"])
def test_contract(case: dict[str, Any], open_zero: bool) -> None:
    text = program_text(case["buffers"], open_zero)
    before = parse(text).programs["p"]
    after = fuse(text).programs["p"]
    promoted = [name for name, buffer in after.buffers.items() if buffer.access == "workgroup"]
    assert promoted == case["promoted"]
    assert list(after.buffers) == [b["name"] for b in case["buffers"]], "order is kept"
    for name in promoted:
        assert after.buffers[name].binding is None
        assert after.buffers[name].count == before.buffers[name].count
        assert after.buffers[name].dtype is before.buffers[name].dtype
    assert count_opportunities(before) == case.get("opportunities", len(promoted))
    if promoted:
        assert decode_scan_fuse.analyze(before) == "run"
    fused = decode_scan_fuse.run(before)
    assert print_program(fused) == print_program(after)
    assert (fused is before) == (not promoted)
    assert print_program(before) == print_program(parse(text).programs["p"]), "is left as it was"
    handoffs = candidate_handoffs(before)
    assert list(handoffs) == promoted
    if "candidates" in case:
        assert handoffs == case["candidates"]


@pytest.mark.parametrize("case", CASES, ids=lambda c: "+".join(b["name"] for b in c["buffers"]))
def test_idempotent(case: dict[str, Any]) -> None:
    """A second run changes nothing and says so."""
    module = fuse(program_text(case["buffers"], open_zero=True))
    text = print_program(module)
    again = PassManager("decode_scan_fuse").run(module)
    assert not again
    assert print_program(module) == text
    assert count_opportunities(module.programs["p"]) == 0
    assert decode_scan_fuse.run(module.programs["p"]) is module.programs["p"]


def test_analyze_looks_at_no_op(monkeypatch: pytest.MonkeyPatch) -> None:
    declared = {"name": "h", "dtype": "u32", "count": 64, "access": "read_write", "live_out": False}
    may_be = parse(program_text([declared], True)).programs["p"]
    seen = parse(program_text([{**declared, "live_out": True}], True)).programs["p"]
    monkeypatch.setattr(Program, "walk", lambda self: pytest.fail("an op was looked at"))
    assert [decode_scan_fuse.analyze(each) for each in (may_be, seen)] == ["run", "skip"]


@pytest.mark.parametrize(
    ("dtype", "count", "promoted"),
    [
        ("u8", 16384, True),
        ("u8", 16385, False),
        ("u64", 2048, True),
        ("u64", 2049, False),
        ("vec<4 x f32>", 1024, True),
        ("vec<4 x f32>", 1025, False),
        ("array<16>", 1024, True),
        ("bytes", 16384, True),
        ("bytes", 16385, False),
        ("tensor", 16, False),
        ("i4", 16384, True),
        ("i4", 16385, False),
        ("fp4", 16, True),
        ("nf4", 16, True),
        ("tensor_shaped<u32, 4>", 16, False),
        ("sparse_csr<f32>", 16, False),
    ],
)
def test_size_is_of_the_element_type(dtype: str, count: int, promoted: bool) -> None:
    """The limit is in bytes; a type without a static size is never promoted."""
    text = program_text(
        [{"name": "h", "access": "read_write", "dtype": dtype, "count": count, "live_out": False}], True
    )
    assert (count_opportunities(parse(text).programs["p"]) == 1) is promoted
