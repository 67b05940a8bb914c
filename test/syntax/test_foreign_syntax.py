"""Operators, loops, calls and declarations of other languages: one error a line, at the sign, with what to write."""

from __future__ import annotations

import pytest
from support.each import each

from vyre_opt import DiagnosticError, parse
from vyre_opt.ir import Diagnostic

HEAD = """vyre 1
func @f(%t : f32) -> f32 {
  yield %t
}
program @p workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  %i = global_id x
  %j = local_id x
  %n = len @x
  %v = load @x[%i] : f32
  %w = mul %v, %v : f32
  %p = lt %i, %j : u32
"""
TAIL = "  store %w, @y[%i] : f32\n}\n"


def errors(text: str) -> list[Diagnostic]:
    try:
        parse(text)
    except DiagnosticError as wrong:
        return wrong.diagnostics
    return []


def only_error(text: str) -> Diagnostic:
    found = errors(text)
    assert len(found) == 1, [(str(d.loc), d.message) for d in found]
    return found[0]


# (the line, the text that is blamed, what to write in its place: lines of a right text)
MENDED = [
    ("%r = %v + %w", "+", "%r = add %v, %w : f32"),
    ("%r = %v - %w", "-", "%r = sub %v, %w : f32"),
    ("%r = %v * 2", "*", "%c = const 2.0 : f32\n%r = mul %v, %c : f32"),
    ("%r = %v / %w", "/", "%r = div %v, %w : f32"),
    ("%r = %i % %j", "%", "%r = rem %i, %j : u32"),
    ("%r = %i << %j", "<<", "%r = shl %i, %j : u32"),
    ("%r = %i >> 3", ">>", "%c = const 3 : u32\n%r = shr %i, %c : u32"),
    ("%r = %i & %j", "&", "%r = and %i, %j : u32"),
    ("%r = %i ^ %j", "^", "%r = xor %i, %j : u32"),
    ("%r = %p && %p", "&&", "%r = and %p, %p : bool"),
    ("%r = %p || %p", "||", "%r = or %p, %p : bool"),
    ("%r = %p and %p", "and", "%r = and %p, %p : bool"),
    ("%r = %i == %j", "==", "%r = eq %i, %j : u32"),
    ("%r = %i != %j", "!=", "%r = ne %i, %j : u32"),
    ("%r = %i <= %j", "<=", "%r = le %i, %j : u32"),
    ("%r = %i < %j", "<", "%r = lt %i, %j : u32"),
    ("%r = -%v", "-", "%r = neg %v : f32"),
    ("%r = !%p", "!", "%r = not %p : bool"),
    ("%r = ~%i", "~", "%r = not %i : u32"),
    ("%r = add(%v, %w)", "(", "%r = add %v, %w : f32"),
    ("%r = add %v + %w", "+", "%r = add %v, %w : f32"),
    ("%r = f32(%i)", "f32", "%r = cast %i : u32 -> f32"),
    ("%r = (float)%i", "(float)", "%r = cast %i : u32 -> f32"),
    ("%r = @f(%v)", "@f", "%r = call @f(%v) : (f32) -> f32"),
    ("%r = @x[%i]", "@x", "%r = load @x[%i] : f32"),
    ("%r = x[i]", "x", "%r = load @x[%i] : f32"),
    ("@y[%i] = %v", "@y", "store %v, @y[%i] : f32"),
    ("y[i] = %v;", "y", "store %v, @y[%i] : f32"),
    ("%r = 3", "3", "%r = const 3 : u32"),
    ("%r = 1.5", "1.5", "%r = const 1.5 : f32"),
    ("%r = true", "true", "%r = const true : bool"),
    ("if %i < 4 {\n}", "<", "%c = const 4 : u32\n%p_1 = lt %i, %c : u32\nif %p_1 {\n}"),
    ("if (i < n) {\n}", "<", "%p_1 = lt %i, %n : u32\nif %p_1 {\n}"),
    ("if !%p {\n}", "!", "%p_1 = not %p : bool\nif %p_1 {\n}"),
    ("for (int k = 0; k < n; k++) {\n}", "(", "for %k = 0 to %n step 1 {\n}"),
    ("for k in range(8) {\n}", "in", "for %k = 0 to 8 step 1 {\n}"),
]  # fmt: skip


def test_a_line_is_told_how_it_is_written() -> None:
    """The help has each line of the right text, which parses."""

    def check(case: tuple[str, str, str]) -> None:
        line, blamed, right = case
        text = f"{HEAD}  {line}\n{TAIL}"
        error = only_error(text)
        assert error.loc is not None
        assert text[error.loc.start : error.loc.end] == blamed
        assert error.help is not None
        for part in right.partition("{\n")[0].split("\n"):
            assert part.strip() in error.help
        assert errors(f"{HEAD}  {right}\n{TAIL}") == []

    each(MENDED, check, lambda case: case[0])


EXPRESSIONS = [
    # the line of an expression, and the lines with its ops
    ("%r = %v * %w + 1.0", "%t = mul %v, %w : f32\n%r = add %t, 1.0 : f32"),
    ("%r = (v + w) / 2;", "%t = add %v, %w : f32\n%r = div %t, 2.0 : f32"),
    ("%r = 2 * (%i + 1)", "%t = add %i, 1 : u32\n%r = mul 2, %t : u32"),
    ("%r = -%v * %w : f32", "%t = neg %v : f32\n%r = mul %t, %w : f32"),
    ("%r = sqrt(x[i] * 0.5f)", "%t = load @x[%i] : f32\n%t_1 = mul %t, 0.5 : f32\n%r = sqrt %t_1 : f32"),
    ("%r = f32(%i + 1) * %v", "%t = add %i, 1 : u32\n%t_1 = cast %t : u32 -> f32\n%r = mul %t_1, %v : f32"),
    ("%r = max(%v, 0) ** 2.0", "%t = max %v, 0.0 : f32\n%r = pow %t, 2.0 : f32"),
    ("%r = %i >> 2 & 3", "%t = shr %i, 2 : u32\n%r = and %t, 3 : u32"),
    ("%r = 1 < %i <= %n", "%t = lt 1, %i : u32\n%t_1 = le %i, %n : u32\n%r = and %t, %t_1 : bool"),
    ("%r = !(%i == 4) || %p", "%t = eq %i, 4 : u32\n%t_1 = not %t : bool\n%r = or %t_1, %p : bool"),
    (
        "if (i % 2 == 0 && p) {\n}",
        "%t = rem %i, 2 : u32\n%t_1 = eq %t, 0 : u32\n%p_1 = and %t_1, %p : bool\nif %p_1 {\n}",
    ),
    (
        "while %i + 1 > %n {\n}",
        "while { %t = add %i, 1 : u32  %p_1 = gt %t, %n : u32  condition %p_1 } do {\n}",
    ),
    ("store %v * 2.0 + %w, @y[%i]", "%t_1 = mul %v, 2.0 : f32\n%t = add %t_1, %w : f32\nstore %t, @y[%i]"),
    ("store %v, @y[%i * 4 + 1]", "%t_1 = mul %i, 4 : u32\n%t = add %t_1, 1 : u32\nstore %v, @y[%t]"),
    ("%r = mul %v + 1.0, %w : f32", "%t = add %v, 1.0 : f32\n%r = mul %t, %w : f32"),
    ("y[i] = v * w + 1", "%t = mul %v, %w : f32\n%r = add %t, 1.0 : f32\nstore %r, @y[%i] : f32"),
]


def test_an_expression_is_written_in_as_many_lines_as_it_takes() -> None:
    def check(case: tuple[str, str]) -> None:
        line, right = case
        head = HEAD.replace("vyre 1", "vyre 2")
        error = only_error(f"{head}  {line}\n{TAIL}")
        shown = (error.help or "").removeprefix("write ").replace(", then ", "\n")
        assert shown == right.partition("{\n}")[0] + "{" * ("{\n}" in right)
        assert errors(f"{head}  {right}\n{TAIL}") == []

    each(EXPRESSIONS, check, lambda case: case[0])


@pytest.mark.parametrize(
    ("line", "blamed", "help"),
    [
        ("%r = %v", "%v", "use %v in the place of %r"),
        ("total = add %v, %w", "total", "write %total ="),
        ("mask = offs < n", "mask", "%mask = lt %offs, %n : u32"),
        ("i += 1", "i", "%c = const 1 : u32, then %i_2 = add %i, %c : u32; a loop carries it by iter(%i = %start"),
        ("i++;", "i++", "for %i = 0 to 256 step 1 {"),
        ("%r : f32 = add %v, %w", ": f32", "behind the op"),
        ("%r = %p ? %v : %w", "?", "select %p, %a, %b : f32"),
        ("%r = add %v, %w;", ";", "leave the ; out"),
        ("if %p {\n  } else if %p {\n  }", "if", "else { if %q { } }"),
        ("^bb0:", "^bb0", "if %p { } else { }"),
        ("%r:2 = foo", "%r:2", "%a, %b ="),
        ("# a comment", "#", "// to the end of its line"),
        ("/* a comment */", "/*", "// to the end of its line"),
        ("#pragma unroll", "#pragma unroll", "--pass=unroll"),
        ("%r = load %x[%i] : f32", "%x", "write %r = load @x[%i] : f32"),
        ("%r = load x[%i] : f32", "x", "load @x[%i] : f32"),
        ("%r = call f(%v)", "f", "call @f(%a) : (f32) -> f32"),
        ("%r = cast %v : f32 to f16", "to", "cast %a : f32 -> f16"),
        ("%r = cast %v : f32 -> vector<4xf32>", "vector<4xf32>", "vec<4 x f32>"),
        ("%r = cast %v : f32 -> !llvm.ptr", "!llvm.ptr", "u32"),
        ("%r = add f32 %v, %w", "add", "add ... : f32"),
        ("%r = global_id 1", "1", "`1` is `y` here"),
        ("@%p bra L1;", "@%p", "if %p { }"),
        ("p<<<4, 256>>>(x, y);", "p<<<4, 256>>>", "launch @name grid(64) (@x, @y)"),
        ("int i = blockIdx.x * blockDim.x + threadIdx.x;", "int", "behind the op"),
        ("float4 v = reinterpret_cast<float4*>(x)[i];", "float4", "vec<2 x f32>"),
        ("const auto v = __ldg(&x[i]);", "const", "const 2 : u32"),
        ("%0 = arith.addf %v, %w fastmath<fast> : f32", "arith.addf", "add %a, %b : f32"),
        ("memref.store %v, %y[%i] : memref<?xf32>", "memref.store", "store %a, @x[%i] : f32"),
        ("%c4 = arith.constant dense<1.0> : vector<4xf32>", "arith.constant", "const 1.0 : f32"),
        ("let id = global_invocation_id.x;", "let", "add %a, %b : f32"),
        ("x = tl.load(x_ptr + offs, mask=offs < n, other=0.0)", "x", "load @x[%i] : f32"),
        ("tl.store(y_ptr + offs, acc, mask=mask)", "tl.store", "store %a, @x[%i] : f32"),
        ("ld.global.f32 %f1, [%rd1+4];", "ld.global.f32", "load @x[%i] : f32"),
        ("@!%p1 bra $L__BB0_2;", "@!%p1", "if %p { }"),
    ],
)  # fmt: skip
def test_a_line_of_another_language_is_one_error(line: str, blamed: str, help: str) -> None:
    """At the word or sign, and nothing that only follows from it."""
    text = f"{HEAD}  {line}\n{TAIL}"
    error = only_error(text)
    assert error.loc is not None
    assert text[error.loc.start : error.loc.end] == blamed
    assert help in (error.help or error.message), error


def test_a_lane_is_no_member() -> None:
    text = HEAD + "  %q = splat %v : vec<4 x f32>\n  %r = neg %q.y : f32\n" + TAIL
    assert only_error(text).help == "a lane is extracted: extract %q[1] : vec<4 x f32>"


DECLARATIONS = [
    ("buffer @t : float[4] read", "float", "f32"),
    ("buffer @t : f32* read", "*", "f32[?]"),
    ("buffer @t : memref<?xf32>", "memref<?xf32>", "f32[?]"),
    ("buffer @t : f32[4][4] read", "[4]", "rows * columns"),
    ("buffer @t : f32[4] readonly", "readonly", "`read`"),
    ("buffer @t : f32[4] const binding(4)", "const", "`read`"),
    ("buffer @t : f32[4] read binding=3", "binding=3", "binding(0)"),
    ("__shared__ float tile[256];", "__shared__", "buffer @tile : f32[256] workgroup"),
    ("var<workgroup> tile : array<f32, 64>;", "var", "what changes lies in a buffer"),
]


@pytest.mark.parametrize(("line", "blamed", "help"), DECLARATIONS, ids=[row[0] for row in DECLARATIONS])
def test_declarations(line: str, blamed: str, help: str) -> None:
    text = f"vyre 1\nprogram @p workgroup(64) {{\n  {line}\n}}\n"
    error = only_error(text)
    assert error.loc is not None
    assert text[error.loc.start : error.loc.end] == blamed
    assert help in (error.help or "")


TEXTS = {
    "CUDA C++": "#include <cuda_runtime.h>\n__global__ void f(float* x) {\n  x[threadIdx.x] = 1;\n}\n",
    "MLIR": "module {\n  func.func @f(%a: f32) {\n    return\n  }\n}\n",
    "WGSL": "@group(0) @binding(0) var<storage> x : array<f32>;\n@compute @workgroup_size(64)\nfn main() {\n}\n",
    "Triton": "import triton\n@triton.jit\ndef f(x_ptr):\n    pid = tl.program_id(0)\n",
    "PTX": ".version 8.0\n.target sm_90\n.visible .entry f()\n{\n  ret;\n}\n",
    "LLVM IR": "define void @f(ptr %x) {\n  ret void\n}\n",
    "OpenCL C": "__kernel void f(__global float* x) {\n  x[get_global_id(0)] = 1;\n}\n",
    "GLSL": "#version 450\nlayout(local_size_x = 64) in;\nvoid main() {\n}\n",
    "HLSL": "RWStructuredBuffer<float> x;\n[numthreads(64, 1, 1)]\nvoid main(uint3 id : SV_DispatchThreadID) {\n}\n",
    "Metal": "#include <metal_stdlib>\nusing namespace metal;\nkernel void f() {\n}\n",
    "Python": "import numpy as np\ndef f(x):\n    return x\n",
    "C": "#include <stdio.h>\nint main() {\n  return 0;\n}\n",
}


@pytest.mark.parametrize("language", TEXTS)
def test_a_text_of_another_language_is_one_error(language: str) -> None:
    """Which language it is, and what a kernel is here."""
    error = only_error(TEXTS[language])
    assert error.message == f"this is {language}, not a .vyre text"
    assert "vyre 2" in (error.help or "")


@pytest.mark.parametrize("language", ["CUDA C++", "MLIR", "WGSL", "Triton", "OpenCL C", "LLVM IR"])
def test_a_function_of_another_language_in_a_text_of_ours(language: str) -> None:
    """One error, and the program behind it is read."""
    text = f"vyre 1\n{TEXTS[language]}\nprogram @q workgroup(1) {{\n  %r = neg %zz : f32\n}}\n"
    found = errors(text)
    assert [d.message for d in found] == ["expected a program, a func or a pipeline", "%zz is not defined"]
    assert "here" in (found[0].help or "") or found[0].help


def test_a_wrong_word_that_comes_again_is_one_error() -> None:
    """Types, ops, operators and kernels: the first three places more are shown, the others counted."""
    lines = "".join(f"  %a{k} = cast %i : u32 -> float\n  %b{k} = mod %i, %j : u32\n" for k in range(9))
    lines += "".join(f"  %c{k} = %v + %w\n  tl.debug_barrier()\n" for k in range(5))
    found = errors(HEAD + lines + TAIL)
    assert [(d.message, d.places) for d in found] == [
        ("unknown type float", 8),
        ("unknown op mod", 8),
        ("+ is no operator here; ops have names", 4),
        ("unknown kernel tl.debug_barrier", 4),
    ]
    shown = str(DiagnosticError(found[:1]))
    assert shown.count("note: and here") == 3
    assert "note: and in 5 more places" in shown


def test_many_of_one_mistake_hide_no_other() -> None:
    """Twenty errors end the reading; one mistake fifty times is one of them."""
    lines = "".join(f"  %a{k} = %v + %w;\n" for k in range(50))
    assert [d.message for d in errors(HEAD + lines + "  %z = mod %i, %j : u32\n" + TAIL)] == [
        "+ is no operator here; ops have names",
        "unknown op mod",
    ]


BLOCKS = """vyre 1
program @p workgroup(1) {
  %p = const true : bool
  if %p {
    for %k = 0 to 4 step 1 {
      if %p {
        barrier subgroup
      }
    }
  } else {
    region @r {
      barrier subgroup
    }
  }
}
"""


@pytest.mark.parametrize("closing", [7, 8, 9, 12, 13, 14])
def test_a_missing_brace_names_its_opener(closing: int) -> None:
    """The line of the block that is not closed, whichever of the braces is left out; a second program may follow."""
    lines = BLOCKS.splitlines(keepends=True)
    left_out = lines[closing]
    opener = {7: 6, 8: 5, 9: 4, 12: 11, 13: 10, 14: 2}[closing]
    lines[closing] = left_out.replace("}", "", 1)
    for rest in ("", "program @q workgroup(1) {\n}\n"):
        missing = [d for d in errors("".join(lines) + rest) if d.message == "the closing brace is missing"]
        assert [(note, loc.line) for d in missing for note, loc in d.notes if loc] == [
            ("opened here", opener)
        ]


def test_braces_without_indentation() -> None:
    """The innermost that is open at the end; braces in strings and comments do not count."""
    text = 'vyre 1 program @p workgroup(1) { %p = const true : bool // {\n if %p { trap "}" } if %p { barrier subgroup }'
    (error,) = errors(text)
    (note,) = error.notes
    assert note[1] is not None
    assert note[1].start == text.index("{")


def test_attributes_are_no_block() -> None:
    """After an error between the braces of a kernel's parameters, reading goes on behind them."""
    text = """vyre 1
program @p workgroup(64) {
  buffer @x : f32[?] read binding(0)
  buffer @y : f32[?] write binding(1)
  math.softmax(@x, @y) {columns = 64; schedule_in_shared = 0}
}
program @q workgroup(1) {
  %r = neg %zz : f32
}
"""
    assert [(d.loc.line, d.message) for d in errors(text) if d.loc] == [
        (5, "nothing stands between ops"),
        (8, "%zz is not defined"),
    ]
