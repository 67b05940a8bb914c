"""parse(print(p)) is p, byte by byte, for every op in both forms; and what the text may leave out."""

from __future__ import annotations

import pytest
from support.each import each
from support.op_samples import op_samples

from vyre_opt import DataType, fingerprint, parse, print_program
from vyre_opt.ir import OPS, OpDef, Program
from vyre_opt.ir.literals import encode, show


def test_every_op_round_trips() -> None:
    """Short and generic text of each row, for each of its words; both stand for the same program."""

    def check(row: OpDef) -> None:
        for module in op_samples(row):
            assert any(op.name == row.name for item in module.order for op in item.walk())  # type: ignore[union-attr]
            for generic in (False, True):
                text = print_program(module, generic=generic)
                again = parse(text)
                assert print_program(again, generic=generic) == text
                assert fingerprint(again) == fingerprint(module)

    each(OPS.values(), check, lambda row: row.name)


@pytest.mark.parametrize(
    ("name", "bits"),
    [("f32", 0x7FC00001), ("f32", 0x80000000), ("f32", 1), ("f64", 0xFFF0000000000000), ("f16", 0x7BFF),
     ("bf16", 0x0001), ("f64", 0x3FB999999999999A), ("f32", 0xFF800001), ("f64", 1)],
)  # fmt: skip
def test_floats_keep_their_bits(name: str, bits: int) -> None:
    """A NaN's payload, the sign of zero, subnormals: text must not round them away."""
    dtype = DataType.of(name)
    text = show(bits, dtype)
    kind = "int" if text.startswith("0x") else "float"
    assert encode((kind, text), dtype) == bits


PIPELINE = """vyre 1

program @twice workgroup(4, 2, 2) grid(3, 2) {
  buffer @x : u32[?] read binding(0)
  buffer @y : vec<2 x f32>[96] read_write binding(1) live_in live_out
  buffer @tile : bool[16] workgroup
  spec @k : i8 = -3
  spec @unset : bf16

  %g = global_id z
}

pipeline @main {
  buffer @a : u32[7] read live_in
  buffer @m : vec<2 x f32>[96]
  buffer @t : f32[8]
  buffer @s : f32[8] write live_out

  launch @twice grid(3, 2) (@a, @m)
  repeat 3 {
    launch @twice grid(ceil_div(len(@a), 3), max(1, 2)) (@a, @m) {rank = 7, why = "once"}
  }
  math.softmax(@t, @s) {columns = 4}
  host_read @s
}
"""


def test_declarations_and_stages_print_as_they_are_written() -> None:
    """The printer's layout is the one a person would write; a diff of tools stays small."""
    assert print_program(parse(PIPELINE)) == PIPELINE


@pytest.mark.parametrize("percent", [0, 50, 100])
def test_a_preference_is_of_the_second_version(percent: int) -> None:
    """It round-trips in both forms, and is another program to the caches."""
    text = f"vyre 2\n\nprogram @p workgroup(4) grid(2) prefer(shared = {percent}) {{\n  %x = lane_id\n}}\n"
    module = parse(text)
    assert module.programs["p"].prefer_shared == percent
    assert print_program(module) == text
    generic = print_program(module, generic=True)
    assert print_program(parse(generic)) == text
    plain = parse(text.replace(f" prefer(shared = {percent})", "").replace("vyre 2", "vyre 1"))
    assert print_program(plain).startswith("vyre 1\n")
    assert fingerprint(plain) != fingerprint(module)


def test_the_text_may_leave_out_what_follows() -> None:
    """Types that operands tell, a step of 1, an empty yield, relaxed, unnamed results, any spacing."""
    short = """vyre 1 program @p workgroup(4) { buffer @b : u32[4] read_write binding(0) live_in live_out
      %a = const 1:u32 %b = add %a,%a for %i = 0 to 4 { yield } atomic_add @b[%a], %b %c = eq %a, %b
      store %b, @b[%a] }"""
    long = """vyre 1

program @p workgroup(4) {
  buffer @b : u32[4] read_write binding(0) live_in live_out

  %a = const 1 : u32
  %b = add %a, %a : u32
  for %i = 0 to 4 step 1 {
  }
  %_0 = atomic_add<relaxed> @b[%a], %b : u32
  %c = eq %a, %b : u32
  store %b, @b[%a] : u32
}
"""
    assert print_program(parse(short)) == long


def test_names_do_not_change_the_fingerprint() -> None:
    """The compile cache must hit for a program that was only renamed, commented or reformatted."""
    one = parse("vyre 1 program @p workgroup(4) { %a = lane_id %b = add %a, %a : u32 }")
    two = parse("vyre 1\n// note\nprogram @p workgroup(4) {\n  %x.y = lane_id\n  %q = add %x.y, %x.y\n}")
    other = parse("vyre 1 program @p workgroup(4) { %a = lane_id %b = sub %a, %a : u32 }")
    assert fingerprint(one) == fingerprint(two) != fingerprint(other)


def test_clashing_names_are_told_apart() -> None:
    """A pass may leave two visible values of one name; the text that is printed must still parse."""
    module = parse("vyre 1 program @p workgroup(4) { %x = lane_id %y = add %x, %x %x_1 = add %x, %y }")
    program = module.programs["p"]
    for op in program.body.ops:
        op.result.name = "x"
    text = print_program(module)
    assert "%x_2 = add %x, %x_1 : u32" in text
    assert fingerprint(parse(text)) == fingerprint(module)


def test_names_are_free_again_after_their_block() -> None:
    """Siblings may use one name, in the text as in the printer."""
    text = """vyre 1

program @p workgroup(4) {
  %c = const true : bool
  if %c {
    %x = lane_id
  } else {
    %x = lane_id
  }
  %x = lane_id
}
"""
    assert print_program(parse(text)) == text


def test_one_item_prints_as_a_module_of_its_own() -> None:
    """print_program(program) is text that parses by itself."""
    module = parse("vyre 1 func @f() { } program @p workgroup(4) { %x = lane_id }")
    alone = parse(print_program(module.programs["p"]))
    assert [type(item) for item in alone.order] == [Program]
