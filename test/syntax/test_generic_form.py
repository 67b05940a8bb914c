"""The generic form lets anything be written; what no row of the op table allows is refused in words."""

from __future__ import annotations

import pytest
from support.each import each

from vyre_opt import DiagnosticError, parse

HEAD = """vyre 1
program @p workgroup(4) {
  buffer @b : u32[4] read_write live_out binding(0)
  %a = const 1 : u32
  %c = const true : bool
  %f = const 1.0 : f32
"""

REFUSED = """%x = "add"(%a) : (u32) -> (u32) | add: takes 2 operands, 1 given
%x = "add"(%a, %a, %a) : (u32, u32, u32) -> (u32) | add: takes 2 operands, 3 given
%x = "add"(%a, %a) : (f32, u32) -> (u32) | add: %a is u32, not f32
%x = "add"(%a, %a) : (u32) -> (u32) | add: 1 types for 2 operands
"add"(%a, %a) : (u32, u32) -> () | add: gives 1 result, not 0
%x, %y = "add"(%a, %a) : (u32, u32) -> (u32, u32) | add: gives 1 result, not 2
%x = "add"(%a, %a) : (u32, u32) -> () | add gives 0 results, 1 named
%x = "add"(%a, %a) ({ ^() }) : (u32, u32) -> (u32) | add: has 0 blocks, not 1
%x = "add"(%a, %a) {foo = 3} : (u32, u32) -> (u32) | add: attribute foo: has no attribute foo
%x = "add"(%a, %a) {fastmath = [nnan]} : (u32, u32) -> (u32) | add: takes no fastmath flags; they are for ops on floats
%x = "add"(%f, %f) {fastmath = nnan} : (f32, f32) -> (f32) | add: attribute fastmath: takes a list of words in brackets
%x = "add"(%f, %f) {fastmath = [x]} : (f32, f32) -> (f32) | add: attribute fastmath: fastmath takes contract, reassoc, nnan, ninf, nsz, arcp, afn, not x
%x = "eq"(%a) : (u32) -> (bool) | eq: takes 2 operands, 1 given
%x = "eq"(%a, %a) : (u32, u32) -> (u32) | eq: gives bool, not u32
%x = "select"(%a) : (u32) -> (u32) | select: takes 3 operands, 1 given
%x = "cast"() : () -> (u32) | cast: takes 1 operand, 0 given
%x = "bitcast"(%a, %a) : (u32, u32) -> (f32) | bitcast: takes 1 operand, 2 given
%x = "const"() : () -> (u32) | const: attribute value is missing
"const"() {value = 1} : () -> () | const: attribute value: needs a result type
%x = "const"() {value = [1, 2]} : () -> (u32) | const: u32 has 1 lanes, 2 given
%x = "const"() {value = 1, value = 2} : () -> (u32) | attribute value is given twice
%x = "const"() {value = 1} : () -> (tensor) | const: attribute value: no constant of tensor exists
%x = "load"() {buffer = @b} : () -> (u32) | load: takes an index for each dimension of its buffer
%x = "load"(%a) : (u32) -> (u32) | load: attribute buffer is missing
%x = "load"(%a) {buffer = b} : (u32) -> (u32) | load: attribute buffer: takes a symbol, not a word
%x = "load"(%a) {buffer = [@b]} : (u32) -> (u32) | load: attribute buffer: takes a symbol, not a list
"store"(%a) {buffer = @b} : (u32) -> () | store: takes a value, and an index for each dimension of its buffer
%x = "store"(%a, %a) {buffer = @b} : (u32, u32) -> (u32) | store: gives 0 results, not 1
%x = "atomic_add"(%a) {order = relaxed, buffer = @b} : (u32) -> (u32) | atomic_add: takes an index for each dimension of its buffer, and 1 value
%x = "atomic_add"(%a, %a) {order = never, buffer = @b} : (u32, u32) -> (u32) | atomic_add: order is relaxed, acquire, release, acq_rel, seq_cst, not never
%x = "atomic_compare_exchange"(%a, %a) {order = relaxed, buffer = @b} : (u32, u32) -> (u32) | atomic_compare_exchange: takes an index for each dimension of its buffer, and 2 values
%x = "subgroup_shuffle"(%a) {mode = idx} : (u32) -> (u32) | subgroup_shuffle: takes 2 operands, 1 given
%x = "subgroup_reduce"(%a) {combine = nand} : (u32) -> (u32) | subgroup_reduce: combine is add, mul, min, max, and, or, xor, not nand
%x = "subgroup_scan"(%a) {mode = half, combine = add} : (u32) -> (u32) | subgroup_scan: mode is inclusive, exclusive, not half
%x = "subgroup_ballot"() : () -> (u32) | subgroup_ballot: takes 1 operand, 0 given
%x = "subgroup_ballot"(%c) : (bool) -> (f32) | subgroup_ballot: gives u32, not f32
%x = "global_id"() {axis = w} : () -> (u32) | global_id: axis is x, y, z, not w
%x = "lane_id"(%a) : (u32) -> (u32) | lane_id: takes 0 operands, 1 given
%x = "extract"(%a) {index = 0} : (u32) -> (u32) | extract: %a is u32, not a vector
%x = "extract"(%a) {index = dynamic} : (u32) -> (u32) | extract: index is an integer, not dynamic
%x = "permute"(%a) : (u32) -> (u32) | permute: takes 2 operands, 1 given
%x = "permute"(%a, %a) : (u32, u32) -> (u32) | permute: %a is u32, not a vector of u8
%x = "movemask"(%c) : (bool) -> (u8) | movemask: takes a vector of 8, 16, 32, 64 bools, not bool
%x = "splat"() : () -> (vec<2 x u32>) | splat: takes 1 operand, 0 given
%x = "vector"() : () -> (vec<2 x u32>) | vector: vec<2 x u32> takes 2 operands, 0 given
"barrier"() {scope = world} : () -> () | barrier: scope is subgroup, workgroup, cluster, grid, not world
"barrier"() {scope = "workgroup"} : () -> () | barrier: attribute scope: takes a word, not a string
"trap"() {message = x} : () -> () | trap: attribute message: takes a string, not a word
"for"() {lower = 0, upper = 4, step = 1} : () -> () | for: has 1 block, not 0
"for"() ({ ^() }) {lower = 0, upper = 4, step = 1} : () -> () | for: has a block whose first argument is the counter
"for"() ({ ^(%i : u32) }) {lower = dynamic, upper = 4, step = 1} : () -> () | for: has 1 dynamic bound, but 0 operands
"for"(%a) ({ ^(%i : u32) }) {lower = 0, upper = 4, step = 1} : (u32) -> () | for: 1 initial values, 0 arguments and 0 results
"while"() ({ ^() }) : () -> () | while: has 2 blocks, not 1
"while"() ({ ^() }, { ^() }) : () -> () | this while has a block that does not end in a condition %c : bool
"if"() ({ ^() }) : () -> () | if: takes 1 operand, 0 given
"if"(%c) : (bool) -> () | if: has 1 or 2 blocks, not 0
"if"(%c) ({ ^() }, { ^() }, { ^() }) : (bool) -> () | if: has 1 or 2 blocks, not 3
"if"(%c) ({ ^(%q : u32) }) : (bool) -> () | if: has blocks without arguments
"region"() ({ ^() }) : () -> () | region: attribute label is missing
"region"(%a) ({ ^() }) {label = @x} : (u32) -> () | region: takes 0 operands, 1 given
"call"(%a) : (u32) -> () | call: attribute callee is missing
%x = "yield"(%a) : (u32) -> (u32) | yield: gives 0 results, not 1
"math.softmax"(%a) {buffers = [@b, @b], columns = 4} : (u32) -> () | math.softmax: takes 0 operands, 1 given
"math.softmax"() {buffers = 3, columns = q} : () -> () | math.softmax: parameter columns is an integer
%x = "foo"(%a) : (u32) -> (u32) | unknown op foo"""


def test_what_no_row_allows_is_refused() -> None:
    """The number of operands, results and blocks, and every attribute, are checked before types are."""

    def check(case: str) -> None:
        line, _, message = case.partition(" | ")
        with pytest.raises(DiagnosticError) as caught:
            parse(f"{HEAD}  {line}\n}}\n")
        assert message in [d.message for d in caught.value.diagnostics]

    each(REFUSED.split("\n"), check)


def test_what_a_row_allows_is_read() -> None:
    """Attributes in any order, a block's arguments, dynamic bounds, flags."""
    module = parse(
        HEAD
        + """  %x = "fma"(%f, %f, %f) {fastmath = [nsz, contract]} : (f32, f32, f32) -> (f32)
  %n = "for"(%a, %f) ({ ^(%i : u32, %s : f32)
    "yield"(%s) : (f32) -> ()
  }) {step = 2, upper = dynamic, lower = 0} : (u32, f32) -> (f32)
  "store"(%a, %a) {buffer = @b} : (u32, u32) -> ()
}
"""
    )
    fma, loop, _ = module.programs["p"].body.ops[-3:]
    assert fma.attrs["fastmath"] == ("contract", "nsz")
    assert loop.attrs == {"step": 2, "upper": None, "lower": 0}
