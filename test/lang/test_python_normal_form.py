"""What the normal form makes equal that programs and printed kernels are compared in, and what it does not."""

from __future__ import annotations

import pytest
from support.python_normal_form import bring_to_normal_form

from vyre_opt import fingerprint, parse
from vyre_opt.ir import errors_of

TEXT = """vyre 2
func @double(%v : u32) -> u32 {{
  %two = const 2 : u32
  %r = mul %v, %two : u32
  yield %r : u32
}}
program @main workgroup(32) {{
  buffer @x : u32[?] read_write binding(0) live_in live_out
  param @n : u32
  %i = local_id x
  %one = const 1 : u32
  %a = load @x[%i] : u32
  %is_small = lt %a, %i : u32
  {}
}}
"""

STORE_A = "store %a, @x[%i] : u32"
STORE_R = "store %r, @x[%i] : u32"

SAME = [
    (
        f"%r = call @double(%a) : (u32) -> u32; {STORE_R}",
        f"%two = const 2 : u32; %r = mul %a, %two : u32; {STORE_R}",
    ),
    (f"region @part {{; {STORE_A}; }}", STORE_A),
    (f"%d = add %a, %i : u32; %e = mul %d, %d : u32; {STORE_A}", STORE_A),
    (
        f"%b = const 1 : u32; %r = add %b, %one : u32; {STORE_R}",
        f"%r = add %one, %one : u32; {STORE_R}",
    ),
    (
        f"%n = param @n : u32; %m = param @n : u32; %r = add %n, %m : u32; {STORE_R}",
        f"%n = param @n : u32; %r = add %n, %n : u32; {STORE_R}",
    ),
    (
        f"%r = for %k = %one to 4 step 1 iter(%s = %i : u32) {{; yield %k : u32; }}; {STORE_R}",
        f"%r = for %k = 1 to 4 step 1 iter(%s = %i : u32) {{; yield %k : u32; }}; {STORE_R}",
    ),
    (
        f"if %is_small {{; }} else {{; {STORE_A}; }}",
        f"%n = not %is_small : bool; if %n {{; {STORE_A}; }}",
    ),
    (
        f"%r = if %is_small -> u32 {{; yield %one : u32; }} else {{; %b = const 1 : u32; yield %b : u32; }}; {STORE_R}",
        f"%r = const 1 : u32; {STORE_R}",
    ),
    ("if %is_small {; %d = add %a, %i : u32; }", ""),
    (
        f"%r = if %is_small -> u32 {{; yield %a : u32; }} else {{; yield %a : u32; }}; {STORE_R}",
        STORE_A,
    ),
]

DIFFERENT = [
    (
        f"%r = if %is_small -> u32 {{; yield %one : u32; }} else {{; %b = const 2 : u32; yield %b : u32; }}; {STORE_R}",
        f"%r = const 1 : u32; {STORE_R}",
    ),
    (f"%r = sub %a, %i : u32; {STORE_R}", f"%r = sub %i, %a : u32; {STORE_R}"),
    (f"%r = add %a, %one : u32; {STORE_R}", f"%r = add %one, %a : u32; {STORE_R}"),
    (f"{STORE_A}; store %i, @x[%a] : u32", f"store %i, @x[%a] : u32; {STORE_A}"),
    ("%d = load @x[%one] : u32", ""),
    (f"if %is_small {{; {STORE_A}; }}", STORE_A),
    (f"if %is_small {{; {STORE_A}; }}", f"%n = not %is_small : bool; if %n {{; {STORE_A}; }}"),
    (
        f"%r = if %is_small -> u32 {{; yield %a : u32; }} else {{; yield %i : u32; }}; {STORE_R}",
        f"%r = if %is_small -> u32 {{; yield %i : u32; }} else {{; yield %a : u32; }}; {STORE_R}",
    ),
    (
        f"%r = for %k = 0 to 4 step 1 iter(%s = %i : u32) {{; yield %k : u32; }}; {STORE_R}",
        f"%r = for %k = 0 to 4 step 1 iter(%s = %i : u32) {{; yield %s : u32; }}; {STORE_R}",
    ),
    (
        f"%r = for %k = 0 to 4 step 1 iter(%s = %i : u32) {{; yield %k : u32; }}; {STORE_R}",
        f"%r = for %k = 0 to 4 step 1 iter(%s = %a : u32) {{; yield %k : u32; }}; {STORE_R}",
    ),
]


def normal(body: str) -> bytes:
    module = parse(TEXT.format(body.replace("; ", "\n  ")))
    program = module.programs["main"]
    bring_to_normal_form(module, program)
    assert not errors_of(module)
    return fingerprint(program)


@pytest.mark.parametrize(("one", "other"), SAME)
def test_it_makes_equal(one: str, other: str) -> None:
    assert normal(one) == normal(other)


@pytest.mark.parametrize(("one", "other"), DIFFERENT)
def test_it_tells_apart(one: str, other: str) -> None:
    assert normal(one) != normal(other)
