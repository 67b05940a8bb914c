"""What the host lowering finds out about a program, how it cuts it, and what it writes."""

from __future__ import annotations

import re

import pytest
from support.each import each

from vyre_opt.ir import Program, parse
from vyre_opt.lowering.host.abi import HostCode
from vyre_opt.lowering.host.barrier_split import Phase, PlanItem, Segment, split_at_barriers
from vyre_opt.lowering.host.flatten import flatten
from vyre_opt.lowering.host.function_builder import SimdFeatures
from vyre_opt.lowering.host.lane_facts import LaneFacts
from vyre_opt.lowering.host.program import UnloweredKernel, lower

WIDE = SimdFeatures(frozenset({8, 16, 32, 64}), frozenset({32, 64}), frozenset({32, 64}))


def flat(body: str, workgroup: str = "256", more: str = "") -> Program:
    text = f"vyre 1\n{more}\nprogram @p workgroup({workgroup}) {{ {body} }}"
    module = parse(text)
    return flatten(module.programs["p"], module.funcs)


def code(body: str, workgroup: str = "256", features: SimdFeatures = WIDE) -> HostCode:
    return lower(
        flat(body, workgroup), {}, "x86_64-unknown-linux-gnu", "e-m:e-i64:64-n8:16:32:64-S128", features
    )


def groups(code: HostCode) -> str:
    """The text of the function with the program in it."""
    return code.text[code.text.index("@vyre.groups(") : code.text.index("define void @vyre_run")]


# --- facts


STRIDES = [
    ("256", "%r = local_id x", 1),
    ("256", "%r = global_id x", 1),
    ("48", "%r = local_id x", 1),
    ("64, 2", "%r = local_id x", 1),
    ("64, 2", "%r = local_id y", 0),
    ("16, 4", "%r = local_id x", None),
    ("16, 4", "%r = local_id y", None),
    ("1, 64", "%r = local_id y", 1),
    ("1", "%r = local_id x", 0),
    ("256", "%r = lane_id", 1),
    ("256", "%r = subgroup_id", 0),
    ("256", "%l = local_id x %c = const 4 : u32 %r = mul %l, %c : u32", 4),
    ("256", "%l = local_id x %c = const 3 : u32 %r = shl %l, %c : u32", 8),
    ("256", "%l = local_id x %w = workgroup_id x %r = sub %w, %l : u32", -1),
    ("256", "%l = local_id x %r = mul %l, %l : u32", None),
    ("256", "%l = local_id x %c = const 64 : u32 %r = div %l, %c : u32", 0),
    ("256", "%l = local_id x %c = const 64 : u32 %r = rem %l, %c : u32", 1),
    ("256", "%l = local_id x %c = const 63 : u32 %r = and %l, %c : u32", 1),
    ("256", "%l = local_id x %c = const 16 : u32 %r = div %l, %c : u32", None),
    ("256", "%l = local_id x %c = const 1 : u32 %r = and %l, %c : u32", None),
    ("100", "%g = global_id x %c = const 64 : u32 %r = div %g, %c : u32", None),
    ("256", "%l = local_id x %r = cast %l : u32 -> u64", 1),
    ("256", "%l = local_id x %c = const 4294967290 : u32 %m = add %l, %c : u32 %r = cast %m : u32 -> u64", None),
    ("256", "%l = local_id x %r = cast %l : u32 -> u8", 1),
    ("256", "%l = local_id x %z = const 0 : u32 %r = subgroup_shuffle<idx> %l, %z : u32", 0),
    ("40", "%l = local_id x %z = const 9 : u32 %r = subgroup_shuffle<idx> %l, %z : u32", None),
]  # fmt: skip


def test_strides() -> None:
    """A progression is recognised where the subgroup's lanes really form one."""

    def check(case: tuple[str, str, int | None]) -> None:
        workgroup, body, stride = case
        program = flat(body, workgroup)
        assert LaneFacts(program).stride(program.body.ops[-1].result) == stride

    each(STRIDES, check)


STRIDES_IN_ROWS = [
    ("16, 4", "%r = local_id x", 16, 1),
    ("16, 4", "%r = local_id y", 16, 0),
    ("16, 4", "%r = global_id y", 16, 0),
    ("16, 4", "%y = local_id y %x = local_id x %n = len @b : u32 %s = mul %y, %n : u32 %r = add %s, %x : u32", 16, 1),
    ("16, 4", "%y = local_id y %x = local_id x %s = mul %y, %x : u32 %r = add %s, %x : u32", 16, None),
    ("16, 4", "%y = local_id y %c = const 3 : u32 %r = rem %y, %c : u32", 16, 0),
    ("16, 4", "%x = local_id x %c = const 8 : u32 %r = rem %x, %c : u32", 16, None),
    ("16, 4", "%y = local_id y %r = load @b[%y] : u32", 16, None),
    ("16, 4", "%y = local_id y %r = cast %y : u32 -> f32", 16, None),
    ("8, 4, 4", "%x = local_id x %z = local_id z %r = sub %z, %x : u32", 8, -1),
    ("24, 4", "%r = local_id x", 8, 1),
    ("24, 4", "%r = local_id y", 8, 0),
    ("1, 8, 5", "%r = local_id y", 8, 1),
    ("1, 8, 5", "%r = local_id z", 8, 0),
    ("7, 5", "%r = local_id x", 32, None),
    ("2, 64", "%r = local_id x", 32, None),
    ("64, 2", "%r = local_id x", 32, 1),
]  # fmt: skip


def test_strides_in_rows() -> None:
    """Rows are those lanes of a subgroup that differ in one id alone; integers that are computed have a stride there."""

    def check(case: tuple[str, str, int, int | None]) -> None:
        workgroup, body, row, stride = case
        program = flat(f"buffer @b : u32[?] read binding(0) {body}", workgroup)
        facts = LaneFacts(program)
        assert (facts.row, facts.row_stride(program.body.ops[-1].result)) == (row, stride)

    each(STRIDES_IN_ROWS, check)


def test_counters_and_carried_values_keep_their_stride() -> None:
    program = flat("""
      %l = local_id x
      %n = const 1000 : u32
      %c = const 256 : u32
      %p, %q = for %k = %l to %n step %c iter(%a = %l : u32, %b = %l : u32) {
        %a2 = add %a, %c : u32
        %b2 = mul %b, %b : u32
        yield %a2, %b2
      }""")
    facts, loop = LaneFacts(program), program.body.ops[-1]
    counter, a, b = loop.regions[0].args
    assert [facts.stride(v) for v in (counter, a, b)] == [1, 1, None]
    assert facts.diverges(loop)
    assert [facts.stride(v) for v in loop.results] == [None, None]  # lanes leave one by one


# --- segments


def shape(items: list[PlanItem]) -> str:
    """S for a segment, P[...] for a phase, an op's name and its blocks for a split."""
    parts = []
    for item in items:
        if isinstance(item, Segment):
            parts.append("S")
        elif isinstance(item, Phase):
            parts.append(f"P[{shape(item.items)}]")
        else:
            parts.append(f"{item.op.name}{''.join(f'[{shape(block)}]' for block in item.blocks)}")
    return " ".join(parts)


UNIFORM = "%w = workgroup_id x %z = const 0 : u32 %p = eq %w, %z : u32 "


@pytest.mark.parametrize(
    ("body", "cut"),
    [
        ("%l = local_id x", "S"),
        ("%l = local_id x barrier subgroup", "S"),
        ("%l = local_id x barrier workgroup %g = global_id x", "S S"),
        ("barrier workgroup barrier workgroup", ""),
        (UNIFORM + "if %p { %l = local_id x barrier workgroup } else { %m = local_id x }", "S if[S][S]"),
        (UNIFORM + "if %p { %l = local_id x }", "S"),
        ("for %k = 0 to 4 { %l = local_id x barrier workgroup %m = local_id x }", "for[S S]"),
        ("%l = local_id x barrier grid %m = local_id x barrier workgroup %n = local_id x", "P[S] P[S S]"),
        ("for %k = 0 to 4 { barrier workgroup for %j = 0 to 4 { barrier grid } }", "for[P[] for[]]"),
    ],
)
def test_a_body_is_cut_at_its_barriers(body: str, cut: str) -> None:
    assert shape(split_at_barriers(flat(body)).items).replace("P[] ", "") == cut.replace("P[] ", "")


def test_only_what_is_read_later_is_stored() -> None:
    """Not what can be written again for nothing, such as a constant or an id."""
    program = flat("""
      buffer @x : f32[256] read binding(0)
      buffer @y : f32[256] write binding(1)
      %l = local_id x
      %a = load @x[%l] : f32
      %b = add %a, %a : f32
      barrier workgroup
      store %b, @y[%l] : f32""")
    code = lower(program, {}, "x86_64-unknown-linux-gnu", "e", WIDE)
    assert code.scratch_bytes == 256 * 4  # %b and nothing else


# --- code


def access(index: str, workgroup: str = "256", kind: str = "f32", features: SimdFeatures = WIDE) -> str:
    return groups(
        code(
            f"""buffer @x : {kind}[?] read binding(0)
            buffer @y : f32[?] read binding(1)
            %l = global_id x
            %w = workgroup_id x
            %two = const 2 : u32
            {index}
            %v = load @x[%i] : {kind}""",
            workgroup,
            features,
        )
    )


def test_consecutive_lanes_load_at_once() -> None:
    text = access("%i = add %l, %w : u32")
    assert re.search(r"load <32 x float>, ptr %t\d+, align 4", text)
    assert "llvm.masked.gather" not in text


def test_rows_load_at_once() -> None:
    text = access("%y = local_id y %s = mul %y, %w : u32 %i = add %l, %s : u32", workgroup="16, 4")
    assert len(re.findall(r"load <16 x float>, ptr %t\d+, align 4", text)) == 2
    assert "llvm.masked.gather" not in text


def test_an_index_that_rows_agree_on_loads_once_for_each() -> None:
    text = access("%y = local_id y %i = mul %y, %w : u32", workgroup="8, 8")
    assert len(re.findall(r"= load float, ptr", text)) == 4
    assert "llvm.masked.gather" not in text


def test_an_agreed_index_loads_once() -> None:
    text = access("%i = mul %w, %two : u32")
    assert re.search(r"= load float, ptr", text)
    assert "<32 x float>" not in text


def test_every_second_element_is_shuffled_out() -> None:
    text = access("%i = mul %l, %two : u32")
    assert re.search(r"load <64 x float>, ptr %t\d+, align 4", text)


@pytest.mark.parametrize(("kind", "is_gathered"), [("f32", True), ("u8", False)])
def test_any_index_gathers(kind: str, is_gathered: bool) -> None:
    """By the instruction where there is one, else by a function of the module's own."""
    text = access("%i = mul %l, %l : u32", kind=kind)
    assert ("@llvm.masked.gather" in text) == is_gathered
    assert ("@vyre.gather.i8" in text) != is_gathered


def test_accesses_proven_in_bounds_are_not_checked() -> None:
    body = """buffer @t : u32[256] workgroup
      %l = local_id x
      store %l, @t[%l] : u32
      %c = const 255 : u32
      %i = xor %l, %c : u32
      %j = sub %c, %l : u32
      %v = load @t[%j] : u32"""
    text = groups(code(body))
    assert "vyre.fault" not in text
    assert "outside" not in text


def test_a_whole_subgroup_has_no_mask() -> None:
    """Nor has a branch that is uniform over the subgroup."""
    text = access("%z = const 0 : u32 %p = eq %w, %z : u32 %i = if %p -> u32 { yield %l } else { yield %w }")
    assert "select <32 x i1>" not in text.split("load")[0]


def test_a_named_kernel_is_not_lowered() -> None:
    program = flat(
        """buffer @x : f32[64] read binding(0)
        buffer @y : f32[64] write binding(1)
        math.softmax(@x, @y) {columns = 64}"""
    )
    with pytest.raises(UnloweredKernel):
        lower(program, {}, "x86_64-unknown-linux-gnu", "e", WIDE)


def test_flattening_copies() -> None:
    """Calls and regions go, locations stay, and the program is as it was."""
    module = parse("""vyre 1
    func @f(%a : u32) -> u32 { %b = add %a, %a : u32 yield %b }
    program @p workgroup(1) {
      %g = global_id x
      %r = region @r -> u32 { %x = call @f(%g) : (u32) -> u32 yield %x }
      %y = call @f(%r) : (u32) -> u32
    }""")
    program = module.programs["p"]
    flat = flatten(program, module.funcs)
    assert [op.name for op in flat.walk()] == ["global_id", "add", "add"]
    assert [op.name for op in program.walk()] == ["global_id", "region", "call", "yield", "call"]
    first, second = flat.body.ops[1:]
    assert second.operands == (first.result, first.result)
    assert first.loc is not None
    assert first.loc.line == 2
