"""Constants in the place of operands: how they are read, printed, refused, and located."""

from __future__ import annotations

import pytest
from support.each import each
from support.op_samples import op_samples
from support.quick import quick

from vyre_opt import Builder, DataType, DiagnosticError, PassManager, fingerprint, parse, print_program
from vyre_opt.ir import OPS, Diagnostic, Module, Op, OpDef

HEAD = """func @f(%t : f32, %n : u32) -> f32 {
  yield %t
}
program @p workgroup(64) {
  spec   @k : f32 = 2.0
  param  @m : u32 = 3
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  buffer @s : u32[64, 4] workgroup
  buffer @e : f8e4m3[64] read_write binding(2) live_in live_out
  buffer @t : u8[?] read binding(3)
  %i = global_id x
  %l = local_id x
  %v = load @x[%i] : f32
  %w = splat %v : vec<4 x f32>
  %p = lt %i, %l : u32
  %h = load @t[%i] : vec<16 x u8>
"""
TAIL = """  store %v, @y[%i] : f32
}
func @later(%t : u32) -> u32 {
  yield %t
}
func @last(%t : u32) {
}
"""


def text_of(line: str, version: int = 2) -> str:
    return f"vyre {version}\n{HEAD}  {line}\n{TAIL}"


def errors(text: str) -> list[Diagnostic]:
    try:
        parse(text)
    except DiagnosticError as wrong:
        return wrong.diagnostics
    return []


def blamed(error: Diagnostic) -> str:
    assert error.loc is not None
    return error.loc.source.text[error.loc.start : error.loc.end]


def constants(module: Module) -> list[Op]:
    return [op for item in module.order for op in item.walk() if op.name == "const"]  # type: ignore[union-attr]


# (a line with one constant in place, that constant, and the `const` that it is)
PLACES = [
    ("%r = add %v, 1.0 : f32", "1.0", "1.0 : f32"),
    ("%r = add 1, %v", "1", "1.0 : f32"),
    ("%r = sub %i, 0x10 : u32", "0x10", "16 : u32"),
    ("%r = lt %i, 4", "4", "4 : u32"),
    ("%r = neg -1.5 : f64", "-1.5", "-1.5 : f64"),
    ("%r = mul %v, inf fastmath<contract> : f32", "inf", "inf : f32"),
    ("%r = max %v, nan", "nan", "nan : f32"),
    ("%r = min %v, 0x7fc00001 : f32", "0x7fc00001", "0x7fc00001 : f32"),
    ("%r = fma %v, 0.5, %v", "0.5", "0.5 : f32"),
    ("%r = mul %w, 2 : vec<4 x f32>", "2", "2.0 : vec<4 x f32>"),
    ("%r = mul %w, [1, 2, 3, 4] : vec<4 x f32>", "[1, 2, 3, 4]", "[1.0, 2.0, 3.0, 4.0] : vec<4 x f32>"),
    ("%r = select true, %v, %v", "true", "true : bool"),
    ("%r = select %p, %v, 0 : f32", "0", "0.0 : f32"),
    ("%r = cast -3 : i8 -> f32", "-3", "-3 : i8"),
    ("%r = splat 1 : vec<4 x u8>", "1", "1 : u8"),
    ("%r = vector %v, 0.0 : vec<2 x f32>", "0.0", "0.0 : f32"),
    ("%r = insert 7, %w[1]", "7", "7.0 : f32"),
    ("%r = extract [5, 6][1] : vec<2 x u32>", "[5, 6]", "[5, 6] : vec<2 x u32>"),
    ("%r = load @x[9] : f32", "9", "9 : u32"),
    ("%r = load @s[%l, 3]", "3", "3 : u32"),
    ("store 0, @y[%i]", "0", "0.0 : f32"),
    ("store 1, @s[%l, %l] : u32", "1", "1 : u32"),
    ("atomic_max @s[%l, %l], 6", "6", "6 : u32"),
    ("%r = subgroup_shuffle<xor> %v, 16 : f32", "16", "16 : u32"),
    ("%r = subgroup_reduce<add> 1 : u32", "1", "1 : u32"),
    ("%r = subgroup_ballot true", "true", "true : bool"),
    ('assert false, "never"', "false", "false : bool"),
    ("if true {\n}", "true", "true : bool"),
    ("%r = if %p -> f32 { yield 8 } else { yield %v }", "8", "8.0 : f32"),
    ("%r = for %k = 0 to 4 iter(%s = 0 : u32) { yield %s }", "0", "0 : u32"),
    ("%r = for %k = 0 to 4 iter(%s = %v : f32) { yield 0.25 }", "0.25", "0.25 : f32"),
    ("%r = while iter(%s = %v : f32) { condition false } do { yield %s }", "false", "false : bool"),
    ("%r = region @g -> i16 { yield -2 }", "-2", "-2 : i16"),
    ("%r = call @f(1.0, %i) : (f32, u32) -> f32", "1.0", "1.0 : f32"),
    ("%r = call @f(%v, 3)", "3", "3 : u32"),
    ('%r = "add"(%i, 5) : (u32, u32) -> (u32)', "5", "5 : u32"),
]


def test_it_is_the_constant_that_its_place_asks_for() -> None:
    """Its type follows from the op, the caret of messages stands under it, and the program is that with a name for it."""

    def check(case: tuple[str, str, str]) -> None:
        line, literal, constant = case
        module = parse(text_of(line))
        (op,) = constants(module)
        assert op.loc is not None
        assert op.loc.source.text[op.loc.start : op.loc.end] == literal
        text, start = op.loc.source.text, op.loc.source.text.index(line)
        named = f"{text[:start]}%c = const {constant} {text[start : op.loc.start]}%c{text[op.loc.end :]}"
        assert fingerprint(parse(named)) == fingerprint(module)
        for generic in (False, True):
            printed = print_program(module, generic=generic)
            assert "const" not in printed
            assert print_program(parse(printed), generic=generic) == printed

    each(PLACES, check, lambda case: case[0])


@pytest.mark.parametrize(("line", "literal", "constant"), PLACES[::3], ids=[row[0] for row in PLACES[::3]])
def test_version_1_has_names_for_them(line: str, literal: str, constant: str) -> None:
    """One error at the constant, which says how to go on in either version."""
    for error in errors(text_of(line, version=1)):
        assert error.message == "an operand is a value in `vyre 1`"
        assert blamed(error) == literal
        assert error.help == f"write vyre 2 as the first line, or name the constant: %c = const {constant}"


@pytest.mark.parametrize(
    ("line", "at", "message", "help"),
    [
        ("%r = add 1, 2", "1", "nothing says of which type this", "`: u32` behind the operands"),
        ("%r = add 1.5, %i : u32", "1.5", "1.5 is a float, not a u32", "cast the other operands from u32 to f32"),
        ("%r = add %i, 4294967296", "4294967296", "4294967296 does not fit in u32 (0 to 4294967295)", ""),
        ("%r = add %v, 1e39 : f32", "1e39", "1e39 does not fit in f32, and would be inf", ""),
        ("%r = add %i, -1 : u32", "-1", "-1 does not fit in u32 (0 to 4294967295)", ""),
        ("%r = add %v, 1.5f", "1.5f", "the type of a constant is none of its letters: f", "write 1.5"),
        ("%r = mul %w, [1, 2] : vec<4 x f32>", "[1, 2]", "vec<4 x f32> has 4 lanes, 2 given", ""),
        ("%r = load @x[0.5]", "0.5", "0.5 is a float, not a u32", ""),
        ("if 1 {\n}", "1", "a bool is true or false, not 1", ""),
        ("%r = if %p -> f32 { yield true } else { yield %v }", "true", "true is a bool, not an f32", ""),
        ("%r = if %p -> f32 { yield 1, 2 } else { yield %v }", "yield 1, 2",
         "yield gives 2 values where 1 are wanted", ""),
        ("store 1, @e[%i]", "1", "no constant of f8e4m3 exists", ""),
        ("store 1, @z[%i]", "@z", "program @p has no buffer @z", ""),
        ("%r = load @z[0]", "@z", "program @p has no buffer @z", ""),
        ("%r = load %i[0]", "load %i[0]", "load: is written load @buffer[%i] : u32", ""),
        ("%r = spec @z", "@z", "program @p has no spec constant @z", ""),
        ("%r = param @z", "@z", "program @p has no param @z", ""),
        ("call @last(1)", "1", "nothing says of which type this", "write `: (u32) -> ()`"),
        ("%r = call @later(1)", "%r = call @later(1)", "a call that gives results needs their types", "(u32) -> u32"),
        ('debug_print "%u" 1', "1", "nothing says of which type this", "write it into the format"),
        ("%r = permute 1, %h : vec<16 x u8>", "1", "nothing says of which type this", "name the constant"),
        ("%r = permute %h, 1 : u32", "1", "permute: 1 is u32, not a vector of u8", ""),
        ("%r = matrix_mul_add 0, 0, 0 : matrix<16x16xf32, acc>", "0", "nothing says of which type this",
         "name the constant"),
        ("%r = add %i, 1, 2 : u32", "add %i, 1, 2 : u32", "add: takes 2 operands, 3 given", ""),
        ("%r = const 1, 2 : u32", "const 1, 2 : u32", "const: is written const 2 : u32", ""),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_at_the_constant(line: str, at: str, message: str, help: str) -> None:
    """One error a line, in words that tell what to write."""
    (error,) = errors(text_of(line))
    assert message in error.message
    assert blamed(error) == at
    assert help in (error.help or "")


OPEN = [
    ("%r = load @x[%i]", "%r = load @x[%i] : f32"),
    ("%r = spec @k", "%r = spec @k : f32"),
    ("%r = param @m", "%r = param @m : u32"),
    ("%r = call @f(%v, %i)", "%r = call @f(%v, %i) : (f32, u32) -> f32"),
]


@pytest.mark.parametrize(("short", "long"), OPEN)
def test_types_that_follow_may_be_left_out(short: str, long: str) -> None:
    """From the buffer, the declaration or the function; what is printed says them, and version 1 asks for them."""
    assert errors(text_of(short)) == []
    assert f"  {long}\n" in print_program(parse(text_of(short)))
    assert len(errors(text_of(short, version=1))) == 1


NAMED = """vyre 2

program @p workgroup(64) {
  buffer @y : u32[?] write binding(0)

  %i = global_id x
  %start = const 16 : u32
  %a = add %i, %start : u32
  %b = mul %a, 3 : u32
  %unused = const 5 : u32
  store %b, @y[%i] : u32
}
"""


def test_a_name_that_the_author_chose_stays() -> None:
    """What has a name says something by it; only what has none is printed in place."""
    assert print_program(parse(NAMED)) == NAMED


def test_fingerprints_do_not_tell_how_constants_are_written() -> None:
    """In place or named, once or twice, here or there; but which constant, and of which type, they do."""
    head = "program @p workgroup(64) { buffer @y : u32[?] write binding(0) %i = global_id x "
    tail = " store %c, @y[%i] : u32 }"
    texts = [
        "vyre 2 " + head + "%b = add %i, 3 : u32 %c = mul %b, 3 : u32" + tail,
        "vyre 1 " + head + "%t = const 3 : u32 %b = add %i, %t : u32 %c = mul %b, %t : u32" + tail,
        "vyre 2 "
        + head
        + "%t = const 3 : u32 %b = add %i, %t : u32 %u = const 3 : u32 %c = mul %b, %u : u32"
        + tail,
    ]
    assert len({fingerprint(parse(text)) for text in texts}) == 1
    others = [texts[0].replace("add %i, 3", "add %i, 4"), texts[0].replace("add %i, 3", "add 3, %i")]
    assert len({fingerprint(parse(text)) for text in (texts[0], *others)}) == 3


def test_what_passes_make_has_no_name() -> None:
    """The sum was named, not the constant that it folds to; in version 1 the constant has the name."""
    body = """
program @p workgroup(64) {{
  buffer @y : u32[?] write binding(0)

  %i = global_id x
  %a = const 2 : u32
  %sum = add %a, %a : u32
  store %sum, @y[%i] : u32
}}
"""
    module = parse("vyre 2\n" + body.format())
    PassManager("fold,dce").run(module)
    assert "store 4, @y[%i] : u32" in print_program(module)
    assert "%c4 = const 4 : u32\n  %i = global_id x\n  store %c4, @y[%i] : u32" in print_program(
        module, version=1
    )
    older = parse("vyre 1\n" + body.format())
    PassManager("fold,dce").run(older)
    assert "%sum = const 4 : u32\n  store %sum, @y[%i] : u32" in print_program(older)


def test_bounds_of_loops_keep_theirs() -> None:
    """A number there is an attribute of the loop, and would be another program."""
    b = Builder("p", 64)
    y = b.buffer("y", "u32", None, "write", 0)
    with b.for_(0, b.const(8)) as loop:
        b.store(1, y, loop.index)
    text = print_program(b.finish(), version=2)
    assert "%0 = const 8 : u32" in text
    assert "store 1, @y[" in text
    assert fingerprint(parse(text)) == fingerprint(b.module)
    assert print_program(parse(text)) == text


def test_a_list_of_lanes_is_not_repeated() -> None:
    """Where several ops use it, it has a name, however it came about."""
    b = Builder("p", 64)
    y = b.buffer("y", "u32", None, "write", 0)
    lanes = b.const([1, 2, 3, 4], DataType.vec(DataType.U32, 4))
    once = b.const([5, 6, 7, 8], DataType.vec(DataType.U32, 4))
    b.store(b.add(b.add(lanes, lanes), once), y, 0)
    text = print_program(b.finish(), version=2)
    assert text.count("[1, 2, 3, 4]") == 1
    assert "const [5" not in text
    assert print_program(parse(text)) == text


@pytest.mark.parametrize("row", quick(OPS.values()), ids=lambda row: row.name)
def test_every_op_round_trips_in_version_2(row: OpDef) -> None:
    """With its constants in place where they can be: the same program, and the same bytes when it is printed again."""
    for module in op_samples(row):
        for generic in (False, True):
            text = print_program(module, generic=generic, version=2)
            again = parse(text)
            assert print_program(again, generic=generic) == text
            assert fingerprint(again) == fingerprint(module)
