"""One invariant of the verifier a row: a program that has it, one that lacks it, and what is said of that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from support.each import each

from vyre_opt import Builder, DataType, DiagnosticError, parse, verify
from vyre_opt.ir import OPS, Block, KernelStage, Op, Source, Value, parse_source

DECLARATIONS = """
  buffer @r : u32[8] read binding(0)
  buffer @w : u32[8] write binding(1) live_out
  buffer @m : u32[8] read_write binding(2) live_in live_out
  buffer @t : f32[64] workgroup
  spec @k : u32 = 3
  %l = local_id x
  %w = workgroup_id x
  %c = const true : bool
  %d = lt %l, %w : u32
  %u = gt %w, %w : u32
  %f = const 1.0 : f32
"""


def body(text: str) -> str:
    return f"vyre 1\nprogram @p workgroup(64) {{{DECLARATIONS}\n{text}\n}}\n"


def program(buffers: str, head: str = "workgroup(64)") -> str:
    return f"vyre 1\nprogram @p {head} {{ {buffers} }}\n"


@dataclass(frozen=True)
class Case:
    """`good` verifies, `bad` does not, and the error says `message`."""

    invariant: str
    good: str
    bad: str
    message: str


def ops(invariant: str, good: str, bad: str, message: str) -> Case:
    return Case(invariant, body(good), body(bad), message)


def sum_text(op: str, dtype: str) -> str:
    """`op` on a buffer @y of a type, with %v."""
    buffers = f"buffer @x : {dtype}[64] read binding(0) buffer @y : {dtype}[64] read_write binding(1) live_in live_out"
    return program(f"{buffers}\n%l = local_id x\n%v = load @x[%l] : {dtype}\n%o = {op} : {dtype}")


def sums(invariant: str, op: str, bad: str, message: str) -> Case:
    """The op is for f32, and not for the type `bad`."""
    return Case(invariant, sum_text(op, "f32"), sum_text(op, bad), message)


STAGE = "vyre 1\nprogram @p workgroup(64) { buffer @x : u32[8] read binding(0) buffer @y : u32[8] read_write binding(1) live_out }\n"


def pipeline(invariant: str, good: str, bad: str, message: str, buffers: str = "") -> Case:
    buffers = (
        buffers
        or "buffer @a : u32[8] read live_in buffer @b : u32[8] live_out buffer @f : f32[8] buffer @s : u32[4] buffer @q : f32[8] read"
    )
    texts = [f"{STAGE}pipeline @main {{ {buffers}\n {text} }}\n" for text in (good, bad)]
    return Case(invariant, texts[0], texts[1], message)


def chain_of_calls(count: int) -> str:
    """Functions that call one another, in an order that has callees last."""
    rest = [
        f"func @f{n}(%a : u32) -> u32 {{ %r = call @f{n - 1}(%a) : (u32) -> u32 yield %r }}"
        for n in range(count - 1, 0, -1)
    ]
    return "\n".join(["vyre 1", *rest, "func @f0(%a : u32) -> u32 { yield %a }"])


SOFTMAX_BUFFERS = "buffer @q : f32[8] read binding(0) buffer @f : f32[8] write binding(1)"

CASES = [
    # Values
    ops("values: results have the types of the table", "%x = add %l, %l : u32", "%x = add %l, %f : u32", "add: %f is f32, not u32"),
    # Ops
    ops("ops: operand types fit the row", "%x = sqrt %f : f32", "%x = sqrt %l : u32", "sqrt: does not take u32"),
    ops("ops: compare gives a bool of the shape", "%v = splat %l : vec<2 x u32> %x = eq %v, %v %y = extract %x[0] : vec<2 x bool>",
        "%v = splat %l : vec<2 x u32> %x = eq %v, %v %y = extract %x[2] : vec<2 x bool>", "extract: lane 2 of vec<2 x bool> does not exist; the last one is 1"),
    ops("ops: permute takes bytes", "%t = const 1 : vec<4 x u8> %i = const [3, 4] : vec<2 x u8> %x = permute %t, %i : vec<2 x u8>",
        "%t = const 1 : vec<4 x u16> %i = const [3, 4] : vec<2 x u8> %x = permute %t, %i : vec<2 x u8>",
        "permute: %t is vec<4 x u16>, not a vector of u8"),
    ops("ops: movemask takes as many bools as an integer has bits", "%p = const true : vec<8 x bool> %x = movemask %p %y = not %x : u8",
        "%p = const 1 : vec<8 x u8> %x = movemask %p", "movemask: takes a vector of 8, 16, 32, 64 bools, not vec<8 x u8>"),
    ops("ops: select takes a bool", "%x = select %d, %l, %w : u32", "%x = select %l, %l, %w : u32", "select: %l is u32, not bool"),
    ops("ops: bitcast keeps the size", "%x = bitcast %f : f32 -> u32", "%x = bitcast %f : f32 -> u64", "bitcast: f32 and u64 have different sizes"),
    ops("ops: cast keeps the shape", "%x = cast %f : f32 -> i8", "%x = cast %f : f32 -> vec<2 x i8>", "cast: f32 and vec<2 x i8> have different shapes"),
    ops("ops: fastmath is for floats", "%x = add %f, %f fastmath<nnan> : f32", "%x = add %l, %l fastmath<nnan> : u32",
        "add: takes no fastmath flags; they are for ops on floats"),
    ops("ops: a terminator ends its block", "%x = if %c -> u32 { yield %l } else { yield %w }",
        "%x = if %c -> u32 { yield %l %y = lane_id } else { yield %w }", "yield ends a block, but ops follow it"),
    ops("ops: yields match", "%x = region @r -> u32 { yield %l }", "%x = region @r -> u32 { yield %f }", "%f is f32 where u32 is wanted"),
    ops("ops: as many yields as results", "%x = region @r -> u32 { yield %l }", "%x = region @r -> u32 { yield %l, %l }",
        "yield gives 2 values where 1 are wanted"),
    ops("ops: a block that gives values ends in yield", "%x = region @r -> u32 { yield %l }", "%x = region @r -> u32 { }",
        "this region has a block that does not end in a yield of 1 values"),
    ops("ops: a while ends in condition", "while { condition %c } do { }", "while { yield %c } do { }", "this block ends in condition, not yield"),
    ops("ops: no terminator in a program's body", "region @r { }", "yield %l", "yield outside of a block that gives values"),
    ops("ops: an if that gives values has an else", "%x = if %c -> u32 { yield %l } else { yield %l }", "%x = if %c -> u32 { yield %l }",
        "if: gives values, so it needs an else"),
    ops("ops: an if takes a bool", "if %d { }", "if %l { }", "if: %l is u32, not bool"),
    ops("ops: spec is declared, with its type", "%x = spec @k : u32", "%x = spec @k : f32", "spec: @k is u32, not f32"),
    ops("ops: len gives u32 or u64", "%x = len @r : u64", "%x = len @r : f32", "len: gives u32 or u64"),
    # Loops
    ops("loops: bounds have the counter's type", "for %i = 0 to %l step 1 { }", "for %i = 0 to %l step 1 : u8 { }",
        "for: the upper bound %l is u32, the counter u8"),
    ops("loops: int bounds fit the counter", "for %i = 0 to 255 step 1 : u8 { }", "for %i = 0 to 256 step 1 : u8 { }",
        "for: the upper bound 256 does not fit in u8"),
    ops("loops: the counter is an integer", "for %i = 0 to 4 step 1 : i64 { }", "for %i = 0 to 4 step 1 : f32 { }",
        "for: the counter %i is f32, not an integer"),
    ops("loops: an int step is positive", "for %i = 0 to 4 step 2 { }", "for %i = 0 to 4 step 0 { }", "for: the step is at least 1, not 0"),
    ops("loops: carried values keep their type", "%x = for %i = 0 to 4 iter(%a = %f : f32) { yield %a }",
        "%x = for %i = 0 to 4 iter(%a = %l : f32) { yield %a }", "for: %a starts as u32, but is f32"),
    # Buffers
    ops("buffers: loads need read access", "%x = load @m[%l] : u32", "%x = load @w[%l] : u32", "@w is read here, but it is write-only"),
    ops("buffers: stores need write access", "store %l, @w[%l]", "store %l, @r[%l]", "@r is written here, but it is read-only"),
    ops("buffers: atomics need both", "atomic_add @m[%l], %l", "atomic_add @w[%l], %l", "@w is read here, but it is write-only"),
    ops("buffers: atomics take their types", "atomic_and @m[%l], %l", "%b = cast %l : u32 -> f16 %x = atomic_and @m[%l], %b",
        "atomic_and: does not take f16"),
    sums("buffers: a minimum of numbers", "atomic_min @y[%l], %v", "bool", "atomic_min: does not take bool"),
    sums("buffers: flags are for floats", "atomic_add @y[%l], %v fastmath<reassoc>", "i16",
        "atomic_add: takes no fastmath flags; they are for ops on floats"),
    Case("buffers: sums may be regrouped", sum_text("atomic_add @y[%l], %v fastmath<reassoc>", "f32"),
        sum_text("atomic_add @y[%l], %v fastmath<afn>", "f32"), "atomic_add: fastmath is reassoc, not afn"),
    Case("buffers: other atomics have no flags", sum_text("atomic_max @y[%l], %v", "bf16"),
        sum_text("atomic_max @y[%l], %v fastmath<reassoc>", "bf16"), "atomic_max: takes no fastmath flags"),
    ops("buffers: element types agree", "%x = load @t[%l] : vec<4 x f32>", "%x = load @t[%l] : u32", "load: @t holds f32, not u32"),
    ops("buffers: an index is an integer", "%x = load @r[%l] : u32", "%x = load @r[%f] : u32", "load: the index %f is f32, not an integer"),
    ops("buffers: a buffer is declared", "%x = load @r[%l] : u32", "%x = load @q[%l] : u32", "program @p has no buffer @q"),
    Case("buffers: a read buffer is not live_out", program("buffer @b : u32[4] read_write binding(0) live_out"),
         program("buffer @b : u32[4] read binding(0) live_out"), "buffer @b is read-only, so it cannot be live_out"),
    Case("buffers: a write buffer is not live_in", program("buffer @b : u32[4] read_write binding(0) live_in"),
         program("buffer @b : u32[4] write binding(0) live_in"), "buffer @b is write-only, so it cannot be live_in"),
    Case("buffers: bindings are unique", program("buffer @b : u32[4] read binding(0) buffer @c : u32[4] read binding(1)"),
         program("buffer @b : u32[4] read binding(0) buffer @c : u32[4] read binding(0)"), "binding 0 is taken by @b"),
    Case("buffers: a workgroup buffer has no binding", program("buffer @b : u32[4] workgroup"),
         program("buffer @b : u32[4] workgroup binding(0)"), "buffer @b: a workgroup buffer has no binding"),
    Case("buffers: a workgroup buffer has a static size", program("buffer @b : u32[4] workgroup"),
         program("buffer @b : u32[?] workgroup"), "buffer @b: a workgroup buffer has a static count"),
    Case("buffers: a workgroup buffer dies with its workgroup", program("buffer @b : u32[4] workgroup"),
         program("buffer @b : u32[4] workgroup live_out"), "buffer @b: a workgroup buffer is neither live_in nor live_out"),
    Case("buffers: access is given", program("buffer @b : u32[4] read binding(0)"), program("buffer @b : u32[4] binding(0)"),
         "buffer @b has no access"),
    Case("buffers: an open size is bound", program("buffer @b : u32[?] read binding(0)"), program("buffer @b : u32[?] read_write"),
         "buffer @b has an open size and no binding to give it one"),
    # Uniformity
    ops("uniformity: a barrier is reached by its workgroup", "if %u { barrier workgroup }", "if %d { barrier workgroup }",
        "a workgroup barrier in control flow that may differ within a workgroup"),
    ops("uniformity: in a loop of uniform trips", "for %i = 0 to %w { barrier workgroup }", "for %i = 0 to %l { barrier workgroup }",
        "a workgroup barrier in control flow that may differ within a workgroup"),
    ops("uniformity: what a loop carries", "%x = for %i = 0 to 4 iter(%a = %u : bool) { if %a { barrier workgroup } yield %a }",
        "%x = for %i = 0 to 4 iter(%a = %u : bool) { if %a { barrier workgroup } yield %d }",
        "a workgroup barrier in control flow that may differ within a workgroup"),
    ops("uniformity: a while's own condition", "while { condition %u } do { barrier workgroup }",
        "while { condition %d } do { barrier workgroup }", "a workgroup barrier in control flow that may differ within a workgroup"),
    ops("uniformity: a subgroup op is reached by its subgroup", "%s = subgroup_id if %c { %x = subgroup_reduce<add> %l : u32 }",
        "if %d { %x = subgroup_reduce<add> %l : u32 }", "subgroup_reduce in control flow that may differ within a subgroup"),
    ops("uniformity: a grid barrier is reached by the grid", "barrier grid", "if %u { } if %u { barrier grid }",
        "a grid barrier in control flow that may differ within a grid"),
    # Limits
    Case("limits: 1024 invocations", program("", "workgroup(32, 32)"), program("", "workgroup(32, 33)"),
         "a workgroup has at most 1024 invocations, this one 1056"),
    Case("limits: 64 along z", program("", "workgroup(1, 1, 64)"), program("", "workgroup(1, 1, 65)"),
         "a workgroup has 1 to 64 invocations along z, not 65"),
    Case("limits: at least one", program("", "workgroup(1)"), program("", "workgroup(0)"), "a workgroup has 1 to 1024 invocations along x, not 0"),
    Case("limits: the grid's extents", program("", "workgroup(1) grid(2147483647, 65535, 65535)"),
         program("", "workgroup(1) grid(1, 65536)"), "a grid has 1 to 65535 workgroups along y, not 65536"),
    Case("limits: ids within 32 bits", program("", "workgroup(1024) grid(4194304)"), program("", "workgroup(1024) grid(4194305)"),
         "4194305 workgroups of 1024 pass 2^32 invocations along x"),
    Case("limits: a preference", program("", "workgroup(1) prefer(shared = 100)"), program("", "workgroup(1) prefer(shared = 101)"),
         "prefer(shared = ...) is a percentage, 0 to 100, not 101"),
    Case("limits: a preference's sign", program("", "prefer(shared = 0) workgroup(1)"), program("", "workgroup(1) prefer(shared = -1)"),
         "prefer(shared = ...) is a percentage, 0 to 100, not -1"),
    # Functions
    Case("functions: pure", "vyre 1\nfunc @f(%x : u32) -> u32 { yield %x }", "vyre 1\nfunc @f(%x : u32) -> u32 { %y = load @b[%x] : u32 yield %y }",
         "load: a function cannot touch buffers"),
    Case("functions: know no invocation", "vyre 1\nfunc @f() { }", "vyre 1\nfunc @f() { %x = lane_id }",
         "lane_id: a function does not know its invocation; pass the id"),
    Case("functions: no barriers", "vyre 1\nfunc @f() { }", "vyre 1\nfunc @f() { barrier workgroup }", "barrier: not in a function"),
    Case("functions: not recursive", "vyre 1\nfunc @f() { call @g() } func @g() { }", "vyre 1\nfunc @f() { call @g() } func @g() { call @f() }",
         "functions call themselves: @f -> @g -> @f"),
    Case("functions: called with their types", "vyre 1\nfunc @f(%x : u32) -> u32 { yield %x } func @g(%y : u32) { %z = call @f(%y) : (u32) -> u32 }",
         "vyre 1\nfunc @f(%x : u32) -> u32 { yield %x } func @g(%y : f32) { %z = call @f(%y) : (f32) -> u32 }", "call: @f takes (u32), not (f32)"),
    Case("functions: give their types", "vyre 1\nfunc @f() -> u32 { %x = const 1 : u32 yield %x }", "vyre 1\nfunc @f() -> u32 { %x = const 1 : u8 yield %x }",
         "%x is u8 where u32 is wanted"),
    # Kernels
    pipeline("kernels: known parameters", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@q, @f) {columns = 4, rows = 2}",
             "math.softmax has no parameter rows"),
    pipeline("kernels: needed parameters", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@q, @f)", "math.softmax needs its parameter columns"),
    pipeline("kernels: their buffers", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@f) {columns = 4}",
             "math.softmax takes 2 buffers, 1 given"),
    pipeline("kernels: element types", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@f, @b) {columns = 4}",
             "math.softmax: y holds f32 or f16 or bf16, @b holds u32"),
    pipeline("kernels: access", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@f, @q) {columns = 4}",
             "math.softmax writes its y, @q is read-only"),
    Case("functions: calls are 64 deep at most", *(chain_of_calls(n) for n in (64, 65)), "calls in @f64 nest 65 functions deep; at most 64"),
    pipeline("kernels: sizes", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@q, @f) {columns = 3}",
             "math.softmax: x has rows x columns elements, rows x 3; @q has 8"),
    pipeline("kernels: parameters that fit together", "math.softmax(@q, @f) {columns = 4}",
             "tt.embedding(@q, @b, @f) {p0 = 1, q0 = 1, r1 = 1, p1 = 1, q1 = 0}",
             "tt.embedding: every p, q and rank is at least 1: p [1, 1], q [1, 0], ranks [1]"),
    pipeline("kernels: what fits into workgroup memory", "math.softmax(@q, @f) {columns = 4}",
             "tt.embedding(@q, @b, @f) {p0 = 1, q0 = 7, r1 = 4096, p1 = 1, q1 = 1}",
             "tt.embedding: a lookup needs 114688 bytes of workgroup memory, more than 40960; lower the ranks"),
    Case("kernels: alone in their program", program(f"{SOFTMAX_BUFFERS} math.softmax(@q, @f) {{columns = 4}}"),
         program(f"{SOFTMAX_BUFFERS} math.softmax(@q, @f) {{columns = 4}} %x = lane_id"),
         "math.softmax: stands alone in its program"),
    Case("kernels: access in a program", program(f"{SOFTMAX_BUFFERS} math.softmax(@q, @f) {{columns = 4}}"),
         program(f"{SOFTMAX_BUFFERS} math.softmax(@f, @q) {{columns = 4}}"),
         "math.softmax reads its x, @f is write-only"),
    Case("kernels: storage", program(f"{SOFTMAX_BUFFERS} math.softmax(@q, @f) {{columns = 4}}"),
         program(f"{SOFTMAX_BUFFERS} buffer @t : f32[8] workgroup math.softmax(@t, @f) {{columns = 4}}"),
         "math.softmax takes buffers in storage, @t is workgroup memory"),
    Case("kernels: no buffer twice", program(f"{SOFTMAX_BUFFERS} math.softmax(@q, @f) {{columns = 4}}"),
         program("buffer @f : f32[8] read_write binding(0) live_out math.softmax(@f, @f) {columns = 4}"),
         "math.softmax would read @f while it writes it, as its x and its y"),
    # Pipelines
    pipeline("pipelines: launches name programs", "launch @p grid(1) (@a, @b)", "launch @q grid(1) (@a, @b)", "there is no program @q"),
    pipeline("pipelines: buffers are declared", "host_read @a", "host_read @z", "pipeline @main has no buffer @z"),
    pipeline("pipelines: as many buffers as bound", "launch @p grid(1) (@a, @b)", "launch @p grid(1) (@a)", "program @p binds 2 buffers, 1 given"),
    pipeline("pipelines: the same element type", "launch @p grid(1) (@a, @b)", "launch @p grid(1) (@f, @b)", "@f holds f32, @x is u32"),
    pipeline("pipelines: the same count", "launch @p grid(1) (@a, @b)", "launch @p grid(1) (@a, @s)", "@s has 4 elements, @y has 8"),
    pipeline("pipelines: access that fits", "launch @p grid(1) (@a, @b)", "launch @p grid(1) (@b, @a)", "@a is read-only, @y is read_write"),
    pipeline("pipelines: a launch writes no buffer that it has twice", "launch @p grid(1) (@a, @b)", "launch @p grid(1) (@b, @b)",
             "@p would read @b while it writes it, as its @x and its @y"),
    pipeline("pipelines: nor does a kernel", "math.softmax(@q, @f) {columns = 4}", "math.softmax(@f, @f) {columns = 4}",
             "math.softmax would read @f while it writes it, as its x and its y"),
    pipeline("pipelines: a grid within the limits", "launch @p grid(65535) (@a, @b)", "launch @p grid(1, 65536) (@a, @b)",
             "a grid has 1 to 65535 workgroups along y, not 65536"),
    pipeline("pipelines: buffers are in storage", "host_read @a", "host_read @a", "buffer @a: a pipeline's buffers are in storage, not workgroup memory",
             "buffer @a : u32[4] workgroup"),
]  # fmt: skip


def messages(text: str) -> list[str]:
    try:
        module = parse_source(Source(text))
    except DiagnosticError as wrong:
        return [d.message for d in wrong.diagnostics]
    return [d.message for d in verify(module) if d.severity == "error"]


def test_an_invariant_holds_or_is_reported() -> None:
    """Each row's program without the mistake verifies, so the mistake alone is what is reported."""

    def check(case: Case) -> None:
        if case.good != case.bad:
            assert messages(case.good) == []
        assert case.message in messages(case.bad)

    each(CASES, check, lambda case: case.invariant)


def test_every_error_is_reported_at_once() -> None:
    """The verifier goes on after an error, and sorts what it found by place."""
    text = body("%x = sqrt %l : u32\nstore %l, @r[%l]\nif %d { barrier workgroup }")
    diagnostics = verify(parse_source(Source(text)))
    assert [d.message.partition(" ")[0] for d in diagnostics if d.severity == "error"] == ["sqrt:", "@r", "a"]
    assert [d.loc.line for d in diagnostics if d.loc] == sorted(d.loc.line for d in diagnostics if d.loc)


@pytest.mark.parametrize(
    ("buffers", "warning"),
    [
        ("buffer @b : u32[4] read_write", "buffer @b is written, but nobody can observe it"),
        ("buffer @b : u32[4] read_write binding(0) live_out", None),
        ("buffer @b : u32[4] write", "buffer @b is written, but nobody can observe it"),
        ("buffer @b : u32[4] write binding(0)", None),
    ],
)
def test_lost_work_is_a_warning(buffers: str, warning: str | None) -> None:
    """A store that nobody can observe is most often a missing live_out; it is no error."""
    module = parse(program(f"{buffers} %l = lane_id store %l, @b[%l]"))
    assert [d.message for d in verify(module)] == ([warning] if warning else [])


# --- what a text cannot say, but a program built in Python can


def test_a_use_before_the_definition_is_found() -> None:
    """A pass that moves an op too far up breaks dominance."""
    module = parse("vyre 1 program @p workgroup(4) { %a = lane_id %b = add %a, %a : u32 }")
    assert verify(module) == []
    module.programs["p"].body.ops.reverse()
    assert [d.message for d in verify(module)] == ["%a does not dominate this use"] * 2


def test_a_value_does_not_leave_its_block() -> None:
    """A pass that moves an op out of the block of its operand breaks dominance, too."""
    module = parse(
        "vyre 1 program @p workgroup(4) { %c = const true : bool if %c { %a = lane_id %b = add %a, %a : u32 } }"
    )
    block = module.programs["p"].body
    block.ops.append(block.ops[1].regions[0].ops.pop())
    assert {d.message for d in verify(module)} == {"%a does not dominate this use"}
    assert verify(module)[0].notes[0][0] == "it is defined here"


def test_a_value_is_defined_once() -> None:
    """A pass that copies an op must give the copy values of its own."""
    module = parse("vyre 1 program @p workgroup(4) { %a = lane_id }")
    block = module.programs["p"].body
    block.ops.append(block.ops[0])
    assert [d.message for d in verify(module)] == ["%a is defined twice"]


def test_constants_fit_their_type() -> None:
    """Folding gives encoded constants; one that is not wrapped is caught here."""
    for value, dtype in (
        (256, DataType.U8),
        (-1, DataType.U32),
        (1 << 32, DataType.F32),
        (2, DataType.BOOL),
        ((1, 2), DataType.vec(DataType.U8, 3)),
    ):
        b = Builder("p", 4)
        b.emit(OPS["const"], (), (dtype,), {"value": value})
        with pytest.raises(DiagnosticError, match=r"const: (the value does not fit|vec<3 x u8> has 3 lanes)"):
            b.finish()


def test_attributes_are_present_and_known() -> None:
    """An op that a pass made by hand, without what its row asks for."""
    for attrs, message in (
        ({}, "attribute axis is missing"),
        ({"axis": "w"}, "axis is x, y, z, not w"),
        ({"axis": "x", "size": 4}, "has no attribute size"),
    ):
        b = Builder("p", 4)
        b.emit(OPS["global_id"], (), (DataType.U32,), attrs)
        with pytest.raises(DiagnosticError, match=message):
            b.finish()


def test_operands_are_counted_before_they_are_looked_at() -> None:
    """An op with too few operands is an error message, not an exception of a type rule."""
    value = Value("v", DataType.U32)
    for row in OPS.values():
        b = Builder("p", 4)
        b.buffer("b", DataType.U32, 4, "read_write", 0, live_out=True)
        b.program.body.ops.append(Op(row, (value,) * 5, (), {}))
        with pytest.raises(DiagnosticError):
            b.finish()


def test_a_kernel_that_is_none_is_a_stage_that_is_wrong() -> None:
    """The parser makes no such stage, but Python may."""
    (pipeline,) = (
        module := parse("""vyre 1
pipeline @p {
  buffer @a : f32[8] live_in
  buffer @b : f32[8] live_out
  math.softmax(@a, @b) {columns = 4}
}""")
    ).pipelines.values()
    (stage,) = pipeline.stages
    assert isinstance(stage, KernelStage)
    assert verify(module) == []
    pipeline.stages = [replace(stage, kernel="math.softmaxx")]
    (error,) = verify(module)
    assert (error.message, error.help) == ("unknown kernel math.softmaxx", "did you mean math.softmax?")


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [
        (
            "operands",
            lambda first: (first.operands[0], Value("lost", DataType.U32)),
            "%lost does not dominate",
        ),
        ("operands", lambda first: (first.operands[0], Value("real", DataType.F32)), "%real is f32, not u32"),
        ("operands", lambda first: first.operands[:1], "takes 2 operands, 1 given"),
        ("results", lambda first: first.results, "%x is defined twice"),
        ("results", lambda first: (Value("y", DataType.F32),), "%l is u32, not f32"),
        ("regions", lambda first: (Block(),), "has 0 blocks, not 1"),
        ("attrs", lambda first: {"fastmath": ("nnan",)}, "takes no fastmath flags"),
        ("attrs", lambda first: {"lanes": 4}, "has no attribute lanes"),
        ("definition", lambda first: OPS["fma"], "takes 3 operands, 2 given"),
    ],
)
def test_an_op_like_a_right_one_is_checked_all_the_same(
    part: str, value: Callable[[Op], object], message: str
) -> None:
    """The verifier remembers which types were right for an op, so that it need not look twice, and nothing else."""
    module = parse(body("%x = add %l, %w : u32 %y = add %l, %w : u32"))
    first, second = module.programs["p"].body.ops[-2:]
    setattr(second, part, value(first))
    assert message in " ".join(d.message for d in verify(module))
