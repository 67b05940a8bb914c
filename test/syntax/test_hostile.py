"""Texts that nobody means: the answer is a module or a DiagnosticError that renders, never another exception."""

from __future__ import annotations

import difflib
import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from support import Settings, random_program
from support.quick import quick

from vyre_opt import DiagnosticError, parse, parse_file, print_program
from vyre_opt.ir.diagnostics import MOST_SHOWN
from vyre_opt.ir.suggestions import MAX_CANDIDATES
from vyre_opt.syntax.parser.parse_loop import MAX_ERRORS

HEAD = """vyre 1
program @p workgroup(4) {
  buffer @b : u32[4] read_write binding(0) live_out
  %a = const 1 : u32
  %c = const true : bool
"""


def nested(depth: int) -> str:
    return HEAD + "if %c {\n" * depth + "}\n" * depth + "}\n"


def outcome(text: str) -> str:
    """The first message, or "" for a text that parses; the messages must render in a readable length."""
    try:
        parse(text)
    except DiagnosticError as wrong:
        error = wrong
    else:
        return ""
    assert len(str(error)) < 50_000
    return error.diagnostics[0].message


DIGITS = "9" * 5000
ABSURD = "this integer has 5000 digits; no type holds it"

TEXTS = {
    "empty": ("", "the text is empty"),
    "space only": (" \n\t\n", "the text is empty"),
    "comments only": ("// a\n// b", "a .vyre text begins with its format version"),
    "NUL": ("vyre 1\n\0", "a NUL byte; this is not a text"),
    "string without end": (HEAD + 'trap "abc\n}', "this string has no end"),
    "string at the end": (HEAD + 'trap "abc', "this string has no end"),
    "100k quotes": (HEAD + "trap " + '"' * 100_000, None),
    "100k backslashes": (HEAD + 'trap "' + "\\" * 100_001, "this string has no end"),
    "long constant": (HEAD + f"%x = const {DIGITS} : u32\n}}", f"const: {ABSURD}"),
    "long hex": (HEAD + f"%x = const 0x{'f' * 4998} : u64\n}}", f"const: {ABSURD}"),
    "long float": (HEAD + f"%x = const {DIGITS}.0 : f32\n}}", f"const: {DIGITS[:37]}... does not fit in f32, and would be inf"),
    "long exponent": (HEAD + f"%x = const 1e{DIGITS} : f64\n}}", f"const: 1e{DIGITS[:35]}... does not fit in f64, and would be inf"),
    "long count": (f"vyre 1 program @p workgroup(1) {{ buffer @b : u32[{DIGITS}] read }}", ABSURD),
    "long workgroup": (f"vyre 1 program @p workgroup({DIGITS}) {{ }}", ABSURD),
    "long grid": (f"vyre 1 program @p workgroup(1) grid({DIGITS}) {{ }}", ABSURD),
    "long binding": (f"vyre 1 program @p workgroup(1) {{ buffer @b : u32[4] read binding({DIGITS}) }}", ABSURD),
    "long bound": (HEAD + f"for %i = 0 to {DIGITS} {{ }}\n}}", ABSURD),
    "long index": (HEAD + f"%x = extract %a[{DIGITS}] : u32\n}}", ABSURD),
    "long lanes": (HEAD + f"%x = splat %a : vec<{DIGITS} x u32>\n}}", None),
    "long rows": (HEAD + f"%x = splat %a : matrix<{DIGITS}x16xf32, acc>\n}}", ABSURD),
    "long columns": (HEAD + f"%x = splat %a : matrix<16x{DIGITS}xf32, acc>\n}}", ABSURD),
    "long parameter": (f"vyre 1 program @p workgroup(1) {{ math.softmax() {{columns = {DIGITS}}} }}", ABSURD),
    "long launch": (f"vyre 1 program @x workgroup(1) {{ }} pipeline @p {{ launch @x grid({DIGITS}) () }}", ABSURD),
    "long version": (f"vyre {DIGITS}", "this text is in format version 99999999999999999999"),
    "huge type": ("vyre 1 program @p workgroup(1) { buffer @b : tensor_shaped<u32, 18446744073709551615, "
                  "18446744073709551615>[4] read binding(0) }", ""),
    "100k braces": ("{" * 100_000, "a .vyre text begins with its format version"),
    "100k braces inside": (HEAD + "{" * 100_000, "unexpected '{'"),
    "a brace in a string": ('vyre 1\nprogram @p foo "{"', "expected workgroup(...), cluster(...), grid(...), prefer(...) or {"),
    "100k parentheses": (HEAD + "%x = call @f(" + "(" * 100_000, None),
    "20k types": (HEAD + "%x = splat %a : " + "vec<2 x " * 20_000, None),
    "100k types": (HEAD + "%x = splat %a : " + "vec<2 x " * 100_000, None),
    "100k ifs": (HEAD + "if %c {\n" * 100_000, "blocks are nested deeper than 200"),
    "5k generic blocks": (HEAD + '"region"() ({ ^() ' * 5000, "blocks are nested deeper than 200"),
    "deep": (nested(190), ""),
    "too deep": (nested(250), "blocks are nested deeper than 200"),
    "200k operands": (HEAD + f"%x = vector {', '.join(['%a'] * 200_000)} : vec<4 x u32>\n}}",
                      "vector: vec<4 x u32> takes 4 operands, 200000 given"),
    "one line of 1 MB": (HEAD + "%x = add %a, %a : u32 " * 46_000 + "\n}", "%x is defined twice"),
    "a word of 1 MB": (HEAD + "x" * 1_000_000, None),
    "a name of 1 MB": (HEAD + f"%{'x' * 1_000_000} = const 1 : u32\n}}", ""),
    "1 MB of slashes": ("/" * 1_000_000, "a .vyre text begins with its format version"),
    "100k signs": (HEAD + "%" * 100_000, "unexpected character '%'"),
    "5k wrong ops": (HEAD + "%x = foo %a\n" * 5000 + "}", "unknown op foo"),
    "2k values of one name in a loop": (
        HEAD + "for %k = 0 to 4 {\n" + "".join(f"%a = const {n} : u32\n" for n in range(2000)) + "}\n}", "%a is defined twice"),
    "3k functions of one name": ("vyre 1\n" + "func @f() { }\n" * 3000, "func @f is defined twice"),
    "BOM": ("\ufeff" + nested(1), "unexpected character '\\ufeff'"),
    "CRLF": (nested(2).replace("\n", "\r\n"), ""),
    "CR": (nested(2).replace("\n", "\r"), ""),
    "tabs": (nested(2).replace(" ", "\t"), ""),
    "superscript": ("vyre 1 program @p workgroup(1\u00b2) { }", "unexpected character '²'"),
    "4 dimensions": ("vyre 1 program @p workgroup(1, 1, 1, 1) { }", "workgroup has 1 to 3 dimensions, not 4"),
    "negative count": ("vyre 1 program @p workgroup(1) { buffer @b : u32[-1] read }",
                       "a buffer has 0 to 2^63-1 elements"),
}  # fmt: skip


WORDS = ["".join(letters) for letters in product("abcdefgh", repeat=4)]
UNKNOWN_NAMES = {
    "values": HEAD + "".join(f"%v{n} = add %{w}, %a : u32\n" for n, w in enumerate(WORDS[:1500])) + "}",
    "defined values": HEAD + "".join(f"%{w}x = add %{w}, %a : u32\n" for w in WORDS[:1500]) + "}",
    "buffers": HEAD + "".join(f"store %a, @{w}[%a] : u32\n" for w in WORDS[:1000]) + "}",
    "functions": "vyre 1\n"
    + "".join(f"func @{w}() {{ }}\n" for w in WORDS[:500])
    + "program @p workgroup(1) {\n"
    + "".join(f"call @{w}() : () -> ()\n" for w in WORDS[1000:2000])
    + "}",
    "programs": "vyre 1\n"
    + "".join(f"program @{w} workgroup(1) {{ }}\n" for w in WORDS[:500])
    + "pipeline @p {\n"
    + "".join(f"launch @{w} grid(1) ()\n" for w in WORDS[1000:2000])
    + "}",
    "long names": HEAD + f"%{'x' * 50_000} = add %a, %a : u32\n%y = add %{'x' * 49_999}y, %a : u32\n}}",
}


@pytest.mark.parametrize("kind", UNKNOWN_NAMES)
def test_suggestions_are_made_for_what_is_shown(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Guards against comparing each of many unknown names with all that are known, which took half a minute."""
    compared: list[int] = []
    matches = difflib.get_close_matches

    def counted(name: str, known: list[str], **how: Any) -> list[str]:
        compared.append(len(known))
        return matches(name, known, **how)

    monkeypatch.setattr(difflib, "get_close_matches", counted)
    with pytest.raises(DiagnosticError):
        parse(UNKNOWN_NAMES[kind])
    assert 1 <= len(compared) <= MOST_SHOWN + MAX_ERRORS
    assert max(compared) <= MAX_CANDIDATES


LARGE = ("one line of 1 MB", "200k operands", "5k wrong ops", "100k types")
"""Texts that take seconds each, since they are so long."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.campaign if name in LARGE else ()) for name in TEXTS]
)
def test_a_hostile_text_is_answered_in_words(name: str) -> None:
    """The message where one is fixed; None where any will do."""
    text, expected = TEXTS[name]
    message = outcome(text)
    assert expected is None or message == expected


@pytest.mark.parametrize(("count", "message"), [(128, ""), (129, "%r0 is not defined")])
def test_an_op_has_up_to_128_results(count: int, message: str) -> None:
    """The limit is part of the lexer; one more is an error, not a crash or a cut-off list."""
    names = ", ".join(f"%r{i}" for i in range(count))
    types = ", ".join(["u32"] * count)
    operands = ", ".join(["%x"] * count)
    text = f"""vyre 1
func @f(%x : u32) -> ({types}) {{
  yield {operands}
}}
program @p workgroup(4) {{
  %a = lane_id
  {names} = call @f(%a) : (u32) -> ({types})
}}
"""
    assert outcome(text) == message


@pytest.mark.parametrize(
    "raw", [b"vyre 1\n// \xe9\n", b"\xff\xfe\x00v", b"vyre 1\n\xc3"], ids=["latin", "utf-16", "cut"]
)
def test_a_file_that_is_not_utf8_is_located(raw: bytes, tmp_path: Path) -> None:
    """parse_file answers with a diagnostic, as for any other wrong text."""
    path = tmp_path / "wrong.vyre"
    path.write_bytes(raw)
    with pytest.raises(DiagnosticError, match="is not UTF-8"):
        parse_file(path)


def test_a_file_may_start_with_a_byte_order_mark(tmp_path: Path) -> None:
    """Editors on Windows write one; it carries no meaning."""
    path = tmp_path / "marked.vyre"
    path.write_bytes(b"\xef\xbb\xbf" + nested(1).encode())
    assert parse_file(path).programs["p"]


SAMPLE = """vyre 1
func @f(%x : u32, %y : f32) -> (u32, bool) {
  %c = lt %y, %y fastmath<nnan> : f32
  yield %x, %c
}
program @p workgroup(4, 2) grid(2) { // a comment
  buffer @b : vec<2 x u32>[?] read_write binding(0) live_in live_out
  spec @k : i8 = -3
  %a = "const"() {value = 0x1f} : () -> (u32)
  %r, %s = call @f(%a, %a) : (u32, f32) -> (u32, bool)
  %n = for %i = 0 to %a step 2 iter(%z = %a : u32) {
    %v = load @b[%i] : vec<2 x u32>
    %e = extract %v[1] : vec<2 x u32>
    atomic_add<seq_cst> @b[%i], %e
    yield %e
  }
  while iter(%q = %a : u32) { condition %s } do { yield %q }
  if %s { trap "x\\n" } else { barrier workgroup }
}
pipeline @m {
  buffer @t : u8[8] read
  launch @p grid(2) (@t)
  math.softmax(@t, @t) {columns = 4}
  host_read @t
}
"""


STEP = 8


@pytest.mark.parametrize("first", quick(range(STEP)))
def test_a_text_may_end_anywhere(first: int) -> None:
    """Every prefix, as of a file that is still being written, and every suffix."""
    for at in range(first, len(SAMPLE), STEP):
        outcome(SAMPLE[:at])
        outcome(SAMPLE[at:])


TOKEN = re.compile(r'\s+|"[^"]*"|[%@]?[\w.$]+|.', re.DOTALL)


def mutated(tokens: list[str], words: list[str], rng: random.Random) -> str:
    """Some tokens lost, doubled, swapped or replaced."""
    tokens = list(tokens)
    for _ in range(rng.choice((1, 1, 2, 4))):
        at, kind = rng.randrange(len(tokens)), rng.randrange(6)
        if kind == 0:
            del tokens[at : at + rng.randrange(1, 4)]
        elif kind == 1:
            tokens[at] = rng.choice(words)
        elif kind == 2:
            tokens.insert(at, rng.choice(words))
        elif kind == 3:
            other = rng.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        elif kind == 4:
            tokens[at:at] = tokens[at : at + rng.randrange(20)]
        else:
            del tokens[at : at + rng.randrange(30)]
        tokens = tokens or ["vyre"]
    return "".join(tokens)


@pytest.mark.parametrize("generic", quick([False, True], ids=["short", "generic"]))
@pytest.mark.parametrize(("seed", "count"), quick([(20, 60), *((seed, 300) for seed in range(20, 24))]))
def test_mutated_programs_parse_or_are_diagnosed(seed: int, count: int, generic: bool) -> None:
    """A few thousand texts one slip away from a right one; those that still parse print and parse again."""
    rng = random.Random(seed)
    small = Settings(statements=2, depth=2, expression_depth=1, fastmath=True)
    programs = [random_program(number, small).module for number in range(min(40, count // 6))]
    short = sorted((print_program(m, generic=generic) for m in programs), key=len)[:8]
    texts = [TOKEN.findall(text) for text in [SAMPLE, *short]]
    words = [token for tokens in texts for token in tokens]
    for _ in range(count):
        text = mutated(rng.choice(texts), words, rng)
        if outcome(text) == "":
            again = print_program(parse(text), generic=generic)
            assert print_program(parse(again), generic=generic) == again
