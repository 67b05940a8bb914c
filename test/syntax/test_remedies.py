"""What a wrong text is told to write can be written: each row is a mistake, the place of its message, words of its help, and the
same lines with the remedy, which verify."""

from __future__ import annotations

from support.each import each

from vyre_opt.ir import DiagnosticError, verify
from vyre_opt.syntax.parser import parse

DECLARED = """  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  buffer @n : u32[?] read_write binding(2) live_in live_out
"""
BODY = f"""vyre 2
program @p workgroup(64) {{
  param @a : f32
{DECLARED}  %i = global_id x
  %c = lt %i, 4
  %v = load @x[%i]
  %zero = const 0.0 : f32
"""
ROWS = """vyre 2
program @rows workgroup(1) {
  buffer @x : f32[?, ?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %r = workgroup_id x
  %row = slice_load @x[%r, 0] : slice<?xf32>
"""
STAGES = f"""vyre 2
program @double workgroup(64) {{
{DECLARED}  %i = global_id x
  %v = load @x[%i]
  store %v, @y[%i]
  store %i, @n[%i]
}}
pipeline @main {{
  buffer @a : f32[64] read
  buffer @b : f32[64] write
  buffer @m : u32[64] live_in live_out
"""

WRONG: list[tuple[str, str, str, str, str]] = [
    # what stands before, the lines, what the message is at, words of its help, the lines with the remedy
    (BODY, "%w = mul %v, @a\nstore %w, @y[%i]", "@a", "read it before: %a = param @a : f32", "%a = param @a : f32\n%w = mul %v, %a\nstore %w, @y[%i]"),
    (BODY, "%w = div fastmath<arcp> %v, %v : f32\nstore %w, @y[%i]", "fastmath<arcp>", "write %w = div %v, %v fastmath<arcp> : f32",
     "%w = div %v, %v fastmath<arcp> : f32\nstore %w, @y[%i]"),
    (BODY, "%w = mul %v, @x\nstore %w, @y[%i]", "@x", "read an element before: %x_i = load @x[%i] : f32",
     "%x_i = load @x[%i] : f32\n%w = mul %v, %x_i\nstore %w, @y[%i]"),
    (BODY, "store %v, %y[%i]", "%y", "write store %v, @y[%i]", "store %v, @y[%i]"),
    (BODY, "%l = len(@n)\nstore %l, @n[0]", "(", "write %l = len @n", "%l = len @n\nstore %l, @n[0]"),
    (BODY, "if %c {\n%u = load @x[0]\n}\nstore %u, @y[%i]", "%u", "move line 14, store %u, @y[%i], behind line 12, into the block; or give it out of the block: %u = if %c -> f32 { ... yield %a } else { yield %b }",
     "%u = if %c -> f32 {\n%t = load @x[0]\nyield %t\n} else {\nyield 0.0\n}\nstore %u, @y[%i]"),
    (BODY, "if %c {\n%u = load @x[0]\n} else {\n%u = neg %v\n}\nstore %u, @y[%i]", "%u", "; write %u = if %c -> f32 {, and yield %u at the end of both blocks",
     "%u = if %c -> f32 {\n%u = load @x[0]\nyield %u\n} else {\n%u = neg %v\nyield %u\n}\nstore %u, @y[%i]"),
    (BODY, "for %k = 0 to 4 {\n%zero = add %zero, %v\n}\nstore %zero, @y[%i]", "%zero", "%zero_end = for %k = 0 to 4 iter(%zero_1 = %zero : f32) {, in it %next = add %zero_1, %v and yield %next, and %zero_end for %zero behind it",
     "%zero_end = for %k = 0 to 4 iter(%zero_1 = %zero : f32) {\n%next = add %zero_1, %v\nyield %next\n}\nstore %zero_end, @y[%i]"),
    (BODY, "%w = mul %i, %v : f32\nstore %w, @y[%i]", "%i", "%i_f32 = cast %i : u32 -> f32",
     "%i_f32 = cast %i : u32 -> f32\n%w = mul %i_f32, %v\nstore %w, @y[%i]"),
    (BODY, "%d = lt %v, %i\nif %d { }", "%v", "%v_u32 = cast %v : f32 -> u32", "%v_u32 = cast %v : f32 -> u32\n%d = lt %v_u32, %i\nif %d { }"),
    (BODY, "if %i {\nstore %v, @y[%i]\n}", "%i", "%i_set = ne %i, 0 : u32", "%i_set = ne %i, 0 : u32\nif %i_set {\nstore %v, @y[%i]\n}"),
    (BODY, "%w = select %v, 0.0, %c\nstore %w, @y[%i]", "%w = select", "write select %c, %v, 0.0", "%w = select %c, %v, 0.0\nstore %w, @y[%i]"),
    (BODY, "%w = select %v, %v, %v\nstore %w, @y[%i]", "%v", "%v_set = ne %v, 0.0 : f32", "%v_set = ne %v, 0.0 : f32\n%w = select %v_set, %v, %v\nstore %w, @y[%i]"),
    (BODY, "%w = load @x[%v]\nstore %w, @y[%i]", "%v", "%v_u32 = cast %v : f32 -> u32",
     "%v_u32 = cast %v : f32 -> u32\n%w = load @x[%v_u32]\nstore %w, @y[%i]"),
    (BODY, "%r = if %c {\nyield %v\n} else {\nyield %zero\n}\nstore %r, @y[%i]", "%r = if %c", "write %r = if %c -> f32 {",
     "%r = if %c -> f32 {\nyield %v\n} else {\nyield %zero\n}\nstore %r, @y[%i]"),
    (BODY, "for (%k = 0; %k <= 6; %k += 2) {\nstore %v, @y[%k]\n}", "(", "write for %k = 0 to 7 step 2 {", "for %k = 0 to 7 step 2 {\nstore %v, @y[%k]\n}"),
    (BODY, "for %k in 0..4 {\nstore %v, @y[%k]\n}", "in", "write for %k = 0 to 4 step 1 {", "for %k = 0 to 4 step 1 {\nstore %v, @y[%k]\n}"),
    (BODY, "for %k in 2..=4 {\nstore %v, @y[%k]\n}", "in", "write for %k = 2 to 5 step 1 {", "for %k = 2 to 5 step 1 {\nstore %v, @y[%k]\n}"),
    (BODY, "%w = load @x, %i : f32\nstore %w, @y[%i]", "%i", "the index of load stands in brackets; write load @x[%i]",
     "%w = load @x[%i] : f32\nstore %w, @y[%i]"),
    (BODY, "store %v, @y, %i", "%i", "write store %v, @y[%i]", "store %v, @y[%i]"),
    (BODY, "%h = workgroup_id\nstore %v, @y[%h]", "workgroup_id", "write %h = workgroup_id x", "%h = workgroup_id x\nstore %v, @y[%h]"),
    (BODY, "%w = cast %i, f32\nstore %w, @y[%i]", ",", "write %w = cast %i : u32 -> f32", "%w = cast %i : u32 -> f32\nstore %w, @y[%i]"),
    (BODY, "%w = mul %v %v\nstore %w, @y[%i]", "%v", "write %w = mul %v, %v", "%w = mul %v, %v\nstore %w, @y[%i]"),
    (BODY, "%w = fma %v, %v\nstore %w, @y[%i]", "fma %v, %v", "write %w = fma %a, %b, %c : f32", "%w = fma %v, %v, %v : f32\nstore %w, @y[%i]"),
    (BODY, "%s = for %k = 0 to 4 iter(%t = 0.0 : f32) {\n%u = add %t, %v\n}\nstore %s, @y[%i]", "%s = for", "end it with yield %next",
     "%s = for %k = 0 to 4 iter(%t = 0.0 : f32) {\n%u = add %t, %v\nyield %u\n}\nstore %s, @y[%i]"),
    (BODY, "%w = load @q[%i]\nstore %w, @y[%i]", "@q", "write @x or @n, or declare it: buffer @q : f32[?] read binding(3)", "%w = load @x[%i]\nstore %w, @y[%i]"),
    (BODY, "store %v, @q[%i]", "@q", "write @y or @n, or declare it: buffer @q : f32[?] write binding(3)", "store %v, @y[%i]"),
    (BODY, "store 1.0, @q[%i]", "@q", "write @y or @n, or declare it: buffer @q : f32[?] write binding(3)", "store 1.0, @y[%i]"),
    (BODY, "%o = atomic_add @q[%i], 1", "@q", "write @n, or declare it: buffer @q : f32[?] read_write binding(3) live_in live_out", "%o = atomic_add @n[%i], 1"),
    (BODY, "%d = lt %i, %i : bool\nif %d { }", "lt", "write lt %i, %i : u32", "%d = lt %i, %i : u32\nif %d { }"),
    (BODY, "%d = lt %i, %i : u32 -> bool\nif %d { }", "lt", "write lt %i, %i : u32", "%d = lt %i, %i : u32\nif %d { }"),
    (BODY, "%s = for %k = 0 to 4 step 1 {\n%u = add %zero, %v\nyield %u\n}\nstore %s, @y[%i]", "%s = for",
     "write %s = for %k = 0 to 4 step 1 iter(%acc = %zero : f32) {, in it %acc for %zero",
     "%s = for %k = 0 to 4 step 1 iter(%acc = %zero : f32) {\n%u = add %acc, %v\nyield %u\n}\nstore %s, @y[%i]"),
    (BODY, "for %k = 0 to 4 step 1 {\n%u = add %zero, %v\nyield %u\n}\nstore %zero, @y[%i]", "yield",
     "write %total = for %k = 0 to 4 step 1 iter(%acc = %zero : f32) {, in it %acc for %zero, and behind it %total for %zero",
     "%total = for %k = 0 to 4 step 1 iter(%acc = %zero : f32) {\n%u = add %acc, %v\nyield %u\n}\nstore %total, @y[%i]"),
    (BODY, "if lt %i, 3 {\nstore %v, @y[%i]\n}", "lt", "write %p = lt %i, 3 before it, and if %p {", "%p = lt %i, 3\nif %p {\nstore %v, @y[%i]\n}"),
    (BODY, "atomic_add(@n, %i, 1)", "(", "atomic_add<relaxed> @n[%i]", "%o = atomic_add<relaxed> @n[%i], 1"),
    (BODY, "store @y[%i], %v", "store", "write store %v, @y[%i] : f32", "store %v, @y[%i] : f32"),
    (BODY, "store %v, @y[i]", "i", "write store %v, @y[%i]", "store %v, @y[%i]"),
    (BODY, "%v = add %v, %v\nstore %v, @y[%i]", "%v", "write %v_1 = add %v, %v, and %v_1 for %v behind it", "%v_1 = add %v, %v\nstore %v_1, @y[%i]"),
    (STAGES, "launch @double(@a, @b, @m)", "(", "write launch @double grid(1) (@a, @b, @m)", "launch @double grid(1) (@a, @b, @m)"),
    (STAGES, "launch @double grid(1) (@a, @b)", "launch", "write (@a, @b, @m), for @x, @y, @n", "launch @double grid(1) (@a, @b, @m)"),
    (STAGES, "softmax(@a, @b)", "softmax", "write math.softmax(...)", "math.softmax(@a, @b) {columns = 8}"),
    (STAGES, "launch @double grid(1) (%a, @b, @m)", "%a", "write @a", "launch @double grid(1) (@a, @b, @m)"),
    (STAGES, "repeat {\nlaunch @double grid(1) (@a, @b, @m)\n}", "{", "write repeat 4 {", "repeat 4 {\nlaunch @double grid(1) (@a, @b, @m)\n}"),
    (STAGES, "launch @double grid(1) (@a, @b, @q)", "@q", "declare buffer @q", "buffer @q : u32[64] live_in live_out\nlaunch @double grid(1) (@a, @b, @q)"),
]  # fmt: skip
WHOLE: list[tuple[str, str, str, str]] = [
    *((f"{ROWS}{wrong}\n  store %s, @y[%r]\n}}", place, help, f"{ROWS}{right}\n  store %s, @y[%r]\n}}") for wrong, place, help, right in (
        ("%s = slice_reduce<add> %row[1] : f32", "%s = slice_reduce", "write %row[0]", "%s = slice_reduce<add> %row[0] : f32"),
        ("%t = sqrt %row : slice<?xf32>\n%s = slice_reduce<max> %t[2] : f32", "%s = slice_reduce", "write %t[0]", "%s = slice_reduce<max> %row[0] : f32"),
    )),
    (f"vyre 2\nfunc @f(%i : u32) -> f32 {{\n  %v = load @x[%i] : f32\n  %w = neg %v\n  yield %w\n}}\n{BODY[7:]}  %w = call @f(%i)\n  store %w, @y[%i]\n}}",
     "%v = load", "write %v = load @x[%i] : f32 in the program before the call of @f, and pass it: %v : f32 among its arguments",
     f"vyre 2\nfunc @f(%v : f32) -> f32 {{\n  %w = neg %v\n  yield %w\n}}\n{BODY[7:]}  %w = call @f(%v)\n  store %w, @y[%i]\n}}"),
    # a text, what the message is at, words of its help, the text with the remedy
    (BODY.removeprefix("vyre 2\n") + "store %v, @y[%i]\n}", "program", "write vyre 2 as the first line", BODY + "store %v, @y[%i]\n}"),
    ("vyre 1\nprogram @p workgroup(1) {\n  param %a : f32\n}", "%a", "write param @a : f32", "vyre 1\nprogram @p workgroup(1) {\n  param @a : f32\n}"),
    ("vyre 2\nprogram @p workgroup[4, 4] {\n  barrier workgroup\n}", "[", "write program @p workgroup(4, 4) {",
     "vyre 2\nprogram @p workgroup(4, 4) {\n  barrier workgroup\n}"),
    ("vyre 2\nprogram @p workgroup(4) {\n  buffer @x : f32[?] read binding(0)\n  buffer @y : f32[?] write binding(0)\n}", "buffer @y",
     "write binding(1)", "vyre 2\nprogram @p workgroup(4) {\n  buffer @x : f32[?] read binding(0)\n  buffer @y : f32[?] write binding(1)\n}"),
    ("vyre 1\nprogram @p workgroup(1) {\n  buffer @t : f32[?] workgroup\n}", "buffer @t : f32[?] workgroup", "write its size: f32[256]",
     "vyre 1\nprogram @p workgroup(1) {\n  buffer @t : f32[256] workgroup\n}"),
    ("vyre 1\nprogram @p workgroup(1) {\n  buffer @t : f32\n  barrier workgroup\n}", "f32", "write u32[64], or u32[?]",
     "vyre 1\nprogram @p workgroup(1) {\n  buffer @t : f32[64] workgroup\n  barrier workgroup\n}"),
]  # fmt: skip


def errors(text: str) -> list[tuple[str, str]]:
    """Of each error, what it is at, and its help."""
    try:
        found = verify(parse(text))
    except DiagnosticError as error:
        found = error.diagnostics
    return [
        (text[d.loc.start : d.loc.end] if d.loc else "", f"{d.message}; {d.help}")
        for d in found
        if d.severity == "error"
    ]


def test_a_line_that_stands_in_two_blocks_has_a_remedy_in_each() -> None:
    line = "    %v = add %v, 1.0\n"
    text = f"{BODY}  for %k = 0 to 4 step 1 {{\n{line}  }}\n  if %c {{\n{line}  }}\n}}\n"
    in_loop, in_branch = (said for _, said in errors(text))
    assert "a loop carries it: %v_end = for %k = 0 to 4 step 1 iter(%v_1 = %v : f32)" in in_loop
    assert "an if gives it: %v_1 = if %c -> f32" in in_branch


def test_a_remedy_can_be_written() -> None:
    def check(case: tuple[str, str, str, str]) -> None:
        wrong, place, help, right = case
        at, said = errors(wrong)[0]
        assert at.startswith(place)
        assert help in said
        assert errors(right) == []

    cases = [
        (f"{head}{lines}\n}}\n", place, help, f"{head}{right}\n}}\n")
        for head, lines, place, help, right in WRONG
    ]
    each([*cases, *WHOLE], check, lambda case: case[0][-120:])
