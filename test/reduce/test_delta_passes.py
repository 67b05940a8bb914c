"""What each delta pass drops, and that what it leaves is printed as it parses."""

from __future__ import annotations

import pytest
from support import Settings, random_program
from support.pipeline_runs import pipeline_text
from support.quick import quick

from vyre_opt import parse, print_program
from vyre_opt.ir.rewrite import bodies
from vyre_opt.reduce import DELTA_PASSES, FunctionTest, Oracle, module_of, reduce_text
from vyre_opt.reduce.variants import ModuleVariant

SMALL = Settings(statements=5)

PROGRAM = """vyre 1

program @p workgroup({workgroup}) {{
  {buffers}
{body}
}}
"""


def program(body: str, buffers: str = "buffer @x : u32[64] read_write binding(0) live_in live_out") -> str:
    return PROGRAM.format(workgroup="64, 1, 1", buffers=buffers, body=body)


def dropped(name: str, text: str, *numbers: int) -> str:
    """The text without one feature after another of a pass; without all at once if there are no numbers."""
    module = parse(text)
    for number in numbers:
        smaller = ModuleVariant.of(module, DELTA_PASSES[name]).without(number, number + 1)
        assert smaller is not None
        module = smaller.module
    if not numbers:
        variant = ModuleVariant.of(module, DELTA_PASSES[name])
        smaller = variant.without(0, variant.count())
        assert smaller is not None
        module = smaller.module
    return print_program(module)


def names(text: str) -> list[str]:
    """The ops, in order."""
    return [op.name for body in bodies(parse(text)) for op in body.walk()]


LOAD = "%i = const 3 : u32  %v = load @x[%i] : u32"


def test_ops_leave_zeros_where_they_are_used() -> None:
    text = dropped("ops", program(f"{LOAD}\n%s = add %v, %v : u32\nstore %s, @x[%i] : u32"), 2)
    assert names(text) == ["const", "const", "load", "store"]
    assert "store %zero" in text


def test_one_zero_stands_for_all_results_of_a_type() -> None:
    text = dropped("ops", program(f"{LOAD}\n%s = add %v, %v : u32\nstore %s, @x[%v] : u32"), 2, 1)
    assert names(text).count("const") == 2


def test_of_two_equal_zeros_one_goes() -> None:
    text = dropped("ops", program("%a = const 0 : u32  %b = const 0 : u32  store %a, @x[%b] : u32"), 0)
    assert names(text) == ["const", "store"]


def test_dead_ops_go_with_what_only_they_use() -> None:
    text = dropped("dead-ops", program(f"{LOAD}\n%s = add %v, %v : u32\nstore %i, @x[%i] : u32"))
    assert names(text) == ["const", "store"]


def test_operands_stand_for_results() -> None:
    text = dropped("operands", program(f"{LOAD}\n%s = add %v, %v : u32\nstore %s, @x[%i] : u32"), 1)
    assert names(text) == ["const", "load", "store"]
    assert "store %v" in text


IF = """%c = const true : bool  %a = const 1 : u32  %b = const 2 : u32
%r = if %c -> u32 {
  yield %a
} else {
  yield %b
}
store %r, @x[%a] : u32"""


@pytest.mark.parametrize(("arm", "stored"), [(0, "%a"), (1, "%b")])
def test_an_if_becomes_either_of_its_arms(arm: int, stored: str) -> None:
    text = dropped("bodies", program(IF), arm)
    assert "if" not in names(text)
    assert f"store {stored}, @x" in text


FOR = """%a = const 1 : u32
%r = for %k = 5 to 9 step 2 iter(%acc = %a : u32) {
  %n = add %acc, %k : u32
  yield %n
}
store %r, @x[%a] : u32"""


def test_a_loop_becomes_its_first_round() -> None:
    text = dropped("bodies", program(FOR), 0)
    assert names(text) == ["const", "const", "add", "store"]
    assert "const 5" in text
    assert "for %k = 5 to 6 step 2" in dropped("loops", program(FOR), 0)


def test_a_carried_value_becomes_what_the_loop_began_with() -> None:
    text = dropped("carried-values", program(FOR), 0)
    assert "store %a, @x" in text
    assert "iter" not in text


WHILE = """%a = const 1 : u32
%r = while iter(%i = %a : u32) {
  %go = lt %i, %a : u32
  condition %go
} do {
  %n = add %i, %i : u32
  yield %n
}
store %r, @x[%a] : u32"""


def test_a_while_becomes_its_condition_and_its_body_once() -> None:
    text = dropped("bodies", program(WHILE), 0)
    assert names(text) == ["const", "lt", "add", "store"]


CALL = """vyre 1
func @double(%v : u32) -> u32 {
  %s = add %v, %v : u32
  yield %s
}
program @p workgroup(1) {
  buffer @x : u32[1] write binding(0)
  %i = const 0 : u32
  %d = call @double(%i) : (u32) -> u32
  store %d, @x[%i] : u32
}
"""


def test_a_call_becomes_the_body_of_its_function() -> None:
    text = dropped("calls", CALL)
    assert names(text) == ["add", "yield", "const", "add", "store"]
    assert "func" not in dropped("unused", text)


def test_a_function_goes_with_its_calls() -> None:
    assert names(dropped("items", CALL, 0)) == ["const", "store"]


PIPELINE = """vyre 1
program @p workgroup(64) {
  spec @step : u32 = 2
  param @shift : u32 = 1
  buffer @x : u32[?] read binding(0)
  buffer @y : u32[?] write binding(3)
  %i = global_id x
  %s = spec @step : u32
  %p = param @shift : u32
  %v = load @x[%i] : u32
  store %v, @y[%i] : u32
}
pipeline @main {
  buffer @a : u32[256] read
  buffer @b : u32[256]
  buffer @c : u32[256] write
  launch @p grid(4) (@a, @b)
  repeat 9 {
    launch @p grid(4) (@b, @c)
  }
}
"""


@pytest.mark.parametrize(
    ("name", "numbers", "expected", "gone"),
    [
        ("items", (1,), "program @p", "pipeline"),
        ("items", (0,), "pipeline @main", "launch"),
        ("stages", (0,), "repeat 9", "(@a, @b)"),
        ("stages", (1,), "(@a, @b)", "repeat"),
        ("repeats", (0,), "(@b, @c)", "repeat"),
        ("launches", (0,), "grid(1) (@a, @b)", "grid(4) (@a, @b)"),
        ("launches", (1,), "repeat 2", "repeat 9"),
        ("buffers", (0,), "launch @p grid(4) (@b)", "load"),
        ("buffers", (2,), "(@b, @c)", "@a"),
        ("parameters", (0, 0), "const 2", "spec"),
        ("bindings", (0,), "binding(1)", "binding(3)"),
        ("extents", (0,), "workgroup(1)", "workgroup(64)"),
        ("half-extents", (0,), "workgroup(32)", "workgroup(64)"),
        ("extents", (1,), "u32[1]", "@a : u32[256]"),
        ("liveness", (), "", "live_out"),
    ],
)
def test_of_pipelines_and_declarations(name: str, numbers: tuple[int, ...], expected: str, gone: str) -> None:
    text = dropped(name, PIPELINE, *numbers)
    assert expected in text
    assert gone not in text


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("zeros", "const 77 : u32", "const 0 : u32"),
        ("zeros", "const [1, 2] : vec<2 x u32>", "const 0 : vec<2 x u32>"),
        ("ones", "const 77 : u32", "const 1 : u32"),
        ("ones", "const -2.5 : f32", "const 1.0 : f32"),
        ("halves", "const 77 : u32", "const 38 : u32"),
        ("halves", "const -77 : i8", "const -38 : i8"),
        ("halves", "const -2.5 : f32", "const -2.0 : f32"),
        ("halves", "const inf : f32", "const inf : f32"),
        ("types", "const 300 : u64", "const 300 : u32"),
        ("types", "const [7, 8, 9, 10] : vec<4 x u32>", "const 7 : u32"),
        ("types", "const 0.5 : f64", "const 0.5 : f32"),
        ("attributes", "%w = add %v, %v fastmath<nnan> : f32", "%w = add %v, %v : f32"),
    ],
)
def test_of_constants_types_and_attributes(name: str, before: str, after: str) -> None:
    line = before if before.startswith("%") else f"%k = {before}"
    text = dropped(name, program(f"%v = const 0.0 : f32\n{line}"))
    assert after in text


def test_every_pass_is_tested_here() -> None:
    source = __file__
    with open(source, encoding="utf-8") as file:
        text = file.read()
    assert [name for name in DELTA_PASSES if f'"{name}"' not in text] == []


@pytest.mark.parametrize("seed", quick([4, 0, 2]))  # others take longer to generate
def test_every_feature_of_random_texts_can_be_dropped_alone(seed: int) -> None:
    """What a pass leaves verifies or is no candidate, and is printed as it reads back."""
    texts = [print_program(random_program(seed, SMALL).module), pipeline_text(seed)]
    for module in map(parse, texts):
        for delta_pass in DELTA_PASSES.values():
            variant = ModuleVariant.of(module, delta_pass)
            for number in range(0, variant.count(), 1 + variant.count() // 5):
                smaller = variant.without(number, number + 1)
                if smaller is not None:
                    assert print_program(parse(smaller.text)) == smaller.text


def test_no_feature_is_left_that_could_be_dropped() -> None:
    """The end is a fixed point of all passes together."""

    def is_interesting(text: str) -> bool:
        return "exp" in names(text) and "rem" in names(text)

    text = next(
        text
        for seed in range(40)
        if is_interesting(text := print_program(random_program(seed, SMALL).module))
    )
    module = module_of(reduce_text(text, Oracle(FunctionTest(is_interesting))))
    assert module is not None
    for delta_pass in DELTA_PASSES.values():
        variant = ModuleVariant.of(module, delta_pass)
        for number in range(variant.count()):
            smaller = variant.without(number, number + 1)
            # as many words in another order are no less: constants may have changed places
            if smaller is not None and len(smaller.text.split()) < len(variant.text.split()):
                assert not is_interesting(smaller.text)
