"""Words of other languages: each row of the table answers where its word would be typed, with what exists here."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from support.quick import quick

from vyre_opt import DiagnosticError, parse
from vyre_opt.ir import OPS, DataType, Diagnostic
from vyre_opt.ir.grids import FUNCTIONS
from vyre_opt.syntax.parser import tables
from vyre_opt.syntax.synonyms import ROWS, Synonym, lookup

HEAD = """vyre 1
func @f(%t : f32) -> f32 {
  yield %t
}
program @name workgroup(64) {
  buffer @x : f32[64] read_write binding(0) live_in live_out
}
program @p workgroup(64) {
  buffer @x : f32[?] read_write binding(0) live_in live_out
  buffer @n : u32[64] read_write binding(1) live_in live_out
"""
VALUES = """  %i = global_id x
  %j = local_id x
  %a = cast %i : u32 -> f32
  %b = add %a, %a : f32
  %c = mul %a, %b : f32
  %s = cast %a : f32 -> i32
  %v = splat %a : vec<4 x f32>
  %p = lt %i, %j : u32
  %table = const 3 : vec<16 x u8>
  %index = const 5 : vec<16 x u8>
  %words = const 7 : vec<16 x i16>
  %flags = const true : vec<32 x bool>
"""
PIPELINE = "pipeline @m {\n  buffer @x : f32[64] live_in live_out\n"

# how a word is typed in its place; WORD stands for it
TYPED = {
    "op": (
        HEAD + VALUES + "  %r = WORD %a, %b : f32\n}\n",
        HEAD + VALUES + "  WORD(%a, %b);\n}\n",
        HEAD + VALUES + '  %r = "WORD"(%a, %b) : (f32, f32) -> (f32)\n}\n',
    ),
    "type": (
        HEAD + "  buffer @t : WORD[4] read binding(4)\n}\n",
        HEAD + VALUES + "  %r = cast %a : f32 -> WORD\n}\n",
        HEAD + VALUES + "  %r = add %a, %b : WORD\n}\n",
    ),
    "flag": (
        HEAD + "  buffer @t : u32[4] WORD\n}\n",
        HEAD + "  buffer @t : u32[4] WORD binding(4)\n}\n",
        HEAD + "  buffer @t : u32[4] binding(4) WORD live_out\n}\n",
    ),
    "item": (HEAD + "}\nWORD f(x) {\n}\n", HEAD + "}\nWORD @f {\n}\n", "vyre 1\nWORD f(x) {\n}\n"),
    "stage": (HEAD + "}\n" + PIPELINE + "  WORD (@x)\n}\n", HEAD + "}\n" + PIPELINE + "  WORD @x\n}\n"),
    "axis": (HEAD + "  %g = global_id WORD\n}\n",),
    "scope": (HEAD + "  barrier WORD\n}\n",),
    "mode": (
        HEAD + VALUES + "  %r = subgroup_shuffle<WORD> %a, %i : f32\n}\n",
        HEAD + VALUES + "  %r = subgroup_scan<WORD, add> %a : f32\n}\n",
    ),
    "combine": (HEAD + VALUES + "  %r = subgroup_reduce<WORD> %a : f32\n}\n",),
    "order": (HEAD + VALUES + "  %r = atomic_add<WORD> @n[%i], %i : u32\n}\n",),
    "extent": (HEAD + "}\n" + PIPELINE + "  launch @p grid(WORD(len(@x), 64)) (@x, @x)\n}\n",),
}


def errors(text: str) -> list[Diagnostic]:
    try:
        parse(text)
    except DiagnosticError as wrong:
        return wrong.diagnostics
    return []


def unanswered(row: Synonym, form: str) -> Iterable[str]:
    """What is wrong with the messages about the word where it is typed."""
    at, text = form.index("WORD"), form.replace("WORD", row.word)
    found = [d for d in errors(text) if d.loc is not None and text[d.loc.start : d.loc.end] == row.word]
    if not any(d.loc.start == at and d.help == row.help for d in found if d.loc):
        shown = [(str(d.loc), d.message, d.help) for d in errors(text)]
        yield f"{row.word}: {text[at - 20 : at + 30]!r}: {shown}"


@pytest.mark.parametrize("step", quick([5, 1]))
def test_each_word_is_answered_where_it_is_typed(step: int) -> None:
    """At the word, by its row, in each form in which it may come; another word of the line is not blamed.

    A `step` of 5, which is prime to the numbers of forms, leaves each form some words.
    """
    cases = [(row, form) for row in ROWS if row.context in TYPED for form in TYPED[row.context]]
    wrong = [message for row, form in cases[::step] for message in unanswered(row, form)]
    assert not wrong, "\n".join(wrong)


# where the text for a word may stand; {} is replaced
SHAPES = {
    "op": (
        HEAD + VALUES + "  {}\n}",
        HEAD + VALUES + "  %r = {}\n}",
        HEAD + VALUES + "  {} }\n}",
        HEAD + "  {}\n" + VALUES + "}",
        HEAD + VALUES + "  if %p { } {}\n}",
        "vyre 1\nfunc @f(%a : f32) -> f32 {\n  {}\n}",
    ),
    "type": (HEAD + "  buffer @t : {}[4] read binding(4)\n}",),
    "flag": (HEAD + "  buffer @t : u32[4] read_write live_out {}\n}", HEAD + "  buffer @t : u32[4] {} live_out\n}",
             HEAD + "  buffer @t : u32[4] {} binding(4)\n}", HEAD + "  buffer @t : u32[4] {}\n}"),
    "item": ("vyre 1\n{} }", "vyre 1\n{} yield %t }", HEAD + "{} }", "{}", "vyre 1\nprogram @q workgroup(1) {\n  {}\n}",
             HEAD + "}\n" + PIPELINE + "  {}\n}"),
    "stage": (HEAD + "}\n" + PIPELINE + "  {}\n}", HEAD + "}\n" + PIPELINE + "  {} }\n}", HEAD + "}\npipeline @m {\n  {}\n}"),
    "axis": (HEAD + "  %g = global_id {}\n}",),
    "scope": (HEAD + "  barrier {}\n}",),
    "mode": (HEAD + VALUES + "  %r = subgroup_shuffle<{}> %a, %i : f32\n}", HEAD + VALUES + "  %r = subgroup_scan<{}, add> %a : f32\n}"),
    "combine": (HEAD + VALUES + "  %r = subgroup_reduce<{}> %i : u32\n}",),
    "order": (HEAD + VALUES + "  %r = atomic_add<{}> @n[%i], %i : u32\n}",),
    "extent": (HEAD + "}\npipeline @m {\n  buffer @x : f32[64] live_in live_out\n  buffer @n : u32[64] live_in live_out\n"
               "  launch @p grid({}) (@x, @n)\n}",),
}  # fmt: skip
WORDS = {*OPS, *tables.load().keywords}
TEXT_ROWS = sorted({(row.context, row.here) for row in ROWS if row.context in TYPED})


@pytest.mark.parametrize("context", TYPED)
def test_each_answer_is_right_text(context: str) -> None:
    """What a row says to write can be typed in its place; a word alone may be one that needs more."""
    for _, here in (row for row in TEXT_ROWS if row[0] == context):
        texts = [shape.replace("{}", here) for shape in SHAPES[context]]
        is_word = here in WORDS
        assert is_word or any(not errors(text) for text in texts), f"{here}: {errors(texts[0])[0].message}"


def test_words_are_no_words_of_ours() -> None:
    """A row for what exists here would never be asked; its word has become an op or a type, and the row can go."""
    ours = {"op": set(OPS), "type": set(DataType.all_names()), "extent": {"len", *FUNCTIONS}}
    assert [row.word for row in ROWS if row.word in ours.get(row.context, ())] == []
    keys = [(row.context, row.word.lower()) for row in ROWS]
    assert sorted(key for key in set(keys) if keys.count(key) > 1) == []


def test_a_row_wins_over_a_name_that_is_spelled_alike() -> None:
    """`mod` is nearer to `mul_hi` than to `rem`; a word of no row still gets the nearest name."""
    (error,) = errors(HEAD + VALUES + "  %r = mod %i, %j : u32\n}\n")
    assert error.help == "`mod` is `rem %i, %j : u32` here"
    (error,) = errors(HEAD + VALUES + "  %r = popcout %i : u32\n}\n")
    assert error.help == "did you mean popcount?"


@pytest.mark.parametrize(
    ("word", "help"),
    [
        ("threadIdx.y", "`threadIdx.y` of CUDA is `local_id y` here"),
        ("BLOCKIDX.Z", "`BLOCKIDX.Z` of CUDA is `workgroup_id z` here"),
        ("global_id.y", "`global_id.y` is `global_id y` here"),
        ("llvm.sqrt", "`llvm.sqrt` is `sqrt` here; ops have no dialects or modules"),
        ("mul.lo.u32", "`mul.lo.u32` of PTX is `mul` here; its type stands behind the operands: %a, %b : f32"),
        ("ld.global.f32", "`ld.global.f32` of PTX is `load @x[%i] : f32` here"),
    ],
)  # fmt: skip
def test_words_with_dots_need_no_row_each(word: str, help: str) -> None:
    """Axes, dialects, and the types that PTX appends to an instruction."""
    row = lookup(word, ("op",))
    assert row is not None
    assert row.help == help
