"""Texts one slip or a few away from others: by characters, tokens, lines and whole items.

A mutation takes the tokens of a text, those of another text, and a random generator, and returns tokens; joined
they are the new text.  Some keep most texts right (a number, a type or an op becomes another), some break nearly
all of them.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence

from vyre_opt.ir import OPS
from vyre_opt.syntax.synonyms import ROWS

__all__ = ["SMALL_EDITS", "WELL_TYPED", "MAX_CHARACTERS", "TOKEN", "ALL_EDITS", "OTHER_LANGUAGES", "mutate"]

TOKEN = re.compile(r'\s+|//[^\n]*|"[^"\n]*"|[%@]?[\w.$]+|.', re.DOTALL)

MAX_CHARACTERS = 20_000
"""A longer text is cut: what grows with the length of a text has tests of its own."""

NUMBER = re.compile(r"-?\d[\w.]*")
TYPE = re.compile(r"bool|[uif]\d+|bf16")
NAME = re.compile(r"[%@]\w+")
WORD = re.compile(r"[A-Za-z_][\w.]*")

VALUE = re.compile(r"%\w+")
OPERATION = re.compile("|".join(name for name in OPS if "." not in name))
FLAG = re.compile(r"read|write|read_write|workgroup|live_in|live_out|binding")
ITEM = re.compile(r"program|func|pipeline|launch|buffer|spec")
COMMA, BRACE = re.compile(","), re.compile(r"[{}]")

FOREIGN_LINES = """
int i = blockIdx.x * blockDim.x + threadIdx.x;
if (i < n) { y[i] = a * x[i] + y[i]; }
for (int k = 0; k < 16; ++k) {
__syncthreads();
__global__ void f(float* x, int n) {
%0 = arith.addf %a, %b : f32
memref.store %v, %m[%i] : memref<?xf32>
scf.for %k = %c0 to %n step %c1 iter_args(%s = %z) -> (f32) {
func.func @f(%a : f32, %m : memref<?xf32>) -> f32 {
^bb0(%a : i32):
#map = affine_map<(d0) -> (d0)>
let i = global_id.x;
var<workgroup> tile : array<f32, 64>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id : vec3<u32>) {
pid = tl.program_id(axis=0)
x = tl.load(x_ptr + offsets, mask=offsets < n, other=0.0)
@triton.jit
def f(x_ptr, n, BLOCK: tl.constexpr):
ld.global.f32 %f1, [%rd4+8];
@%p1 bra $L__BB0_2;
%5 = load float, ptr %4, align 4
return x;
} else if (x > 0) {
#pragma unroll 4
/* a comment
""".strip().split("\n")

TYPES = "bool u8 i8 u16 i16 u32 i32 u64 i64 f16 bf16 f32 f64".split()
EXTREMES = (
    "0 1 2 3 4 7 8 31 32 33 63 64 65 127 128 255 256 257 1000 1023 1024 1025 32767 32768 65535 65536 2147483647"
    " 2147483648 4294967295 4294967296 9223372036854775807 9223372036854775808 18446744073709551615"
    " 18446744073709551616 340282366920938463463374607431768211456 -1 -2 -128 -129 -2147483648 -2147483649"
    " -9223372036854775808 -9223372036854775809 0x0 0xff 0xffffffff 0x80000000 0x7f800001 0xffffffffffffffff"
    " 0.0 -0.0 0.5 1e-45 1e38 1e39 1e308 1e309 1e-400 1e400 1e99999 nan inf -inf 1e 0x 1_0 00 1. .5"
).split()
ODD = [
    *"\0\t\n\r\v\f\x1b\x7f\\\"'`{}[]()<>=,:;%@#$&*!?^|~/",
    "\r\n",
    "\ufeff",
    "\u200b",
    "\u2028",
    "\u202e",
    "\u0663",  # a digit, though not an ASCII one
    "\u00e9",
    "\U0001f600",
    "\udc80",  # written as the byte 0x80, so that the text is not UTF-8
    "//",
    "// -----\n",
    "/*",
    "%%",
    "@@",
]
NESTS = (
    ("(", ")"),
    ("[", "]"),
    ("{\n", "}\n"),
    ("if %c {\n", "}\n"),
    ("vec<2 x ", ">"),
    ("for %i = 0 to 2 step 1 {\n", "}\n"),
    ("repeat 2 {\n", "}\n"),
    ("ceil_div(", ", 2)"),
    ('"region"() ({ ^()\n', "}) : () -> ()\n"),
    ("//", "\n"),
)
DEPTHS = (1, 1, 1, 1, 1, 2, 2, 3, 3, 10, 10, 30, 199, 201, 1000)

ALIKE = {
    name: [other.name for other in OPS.values() if other.format == op.format]
    for name, op in OPS.items()
    if op.format in ("binary", "unary", "compare", "id", "size", "atomic", "convert")
}
"""For an op, those that are written as it is."""

Tokens = list[str]
Mutation = Callable[[Tokens, Tokens, random.Random], Tokens]


def mutate(
    text: str, other: str, rng: random.Random, mutations: Sequence[Mutation], words: Sequence[str] = ()
) -> str:
    """`text` after one to eight of the mutations; most often after one or two.  `other`: what may be spliced in.

    `words`: what a word may become, beside those of the two texts.
    """
    tokens = TOKEN.findall(text)
    others = [*TOKEN.findall(other), *words]
    for _ in range(rng.choice((1, 1, 1, 1, 2, 2, 3, 8))):
        tokens = rng.choice(mutations)(tokens or ["\n"], others or ["\n"], rng)
    return "".join(tokens)[:MAX_CHARACTERS]


def _place(tokens: Tokens, rng: random.Random, kind: re.Pattern[str]) -> int | None:
    """The index of any token of a kind; None if there is none."""
    places = [at for at, token in enumerate(tokens) if kind.fullmatch(token)]
    return rng.choice(places) if places else None


def _replaced(tokens: Tokens, at: int | None, token: str) -> Tokens:
    return tokens if at is None else [*tokens[:at], token, *tokens[at + 1 :]]


# --- small edits: many texts stay right


def another_op(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    places = [at for at, token in enumerate(tokens) if token in ALIKE]
    if not places:
        return tokens
    at = rng.choice(places)
    return _replaced(tokens, at, rng.choice(ALIKE[tokens[at]]))


def another_value(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """A use of a value becomes one of a value that an earlier line defines at the same type."""
    lines = _lines(tokens)
    types: dict[str, str] = {}
    uses: list[tuple[int, int]] = []
    for row, line in enumerate(lines):
        names = [at for at, token in enumerate(line) if token.startswith("%")]
        if "=" in line and names:
            uses += [(row, at) for at in names if at > line.index("=")]
            types[line[names[0]]] = "".join(line).rpartition(" : ")[2] if ":" in line else "u32\n"
        else:
            uses += [(row, at) for at in names]
    if not uses:
        return tokens
    row, at = rng.choice(uses)
    wanted = types.get(lines[row][at])
    alike = [name for name, type_ in types.items() if type_ == wanted]
    lines[row][at] = rng.choice(alike) if alike else lines[row][at]
    return _joined(lines)


def extreme_number(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    return _replaced(tokens, _place(tokens, rng, NUMBER), rng.choice(EXTREMES))


def near_number(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at = _place(tokens, rng, NUMBER)
    if at is None or not tokens[at].isascii() or not tokens[at].isdigit() or len(tokens[at]) > 20:
        return tokens
    value = int(tokens[at])
    nearby = rng.choice((value + 1, value - 1, value * 2, value // 2, -value, rng.randrange(70)))
    return _replaced(tokens, at, str(nearby))


def another_type(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    return _replaced(tokens, _place(tokens, rng, TYPE), rng.choice(TYPES))


def another_type_everywhere(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at = _place(tokens, rng, TYPE)
    if at is None:
        return tokens
    old, new = tokens[at], rng.choice(TYPES)
    return [new if token == old else token for token in tokens]


def another_name(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """A use or a definition of a name becomes another name of the text."""
    at, other = _place(tokens, rng, NAME), _place(tokens, rng, NAME)
    return tokens if other is None else _replaced(tokens, at, tokens[other])


def another_word(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """An op, a keyword, an attribute becomes another one."""
    other = _place(others, rng, WORD)
    return tokens if other is None else _replaced(tokens, _place(tokens, rng, WORD), others[other])


def double_line(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    lines = _lines(tokens)
    at = rng.randrange(len(lines))
    lines.insert(rng.choice((at, rng.randrange(len(lines) + 1))), lines[at])
    return _joined(lines)


def drop_line(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    lines = _lines(tokens)
    del lines[rng.randrange(len(lines))]
    return _joined(lines)


def swap_lines(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    lines = _lines(tokens)
    at = rng.randrange(len(lines))
    other = min(len(lines) - 1, at + rng.choice((1, 1, 1, 2, 5)))
    lines[at], lines[other] = lines[other], lines[at]
    return _joined(lines)


# --- other edits: nearly no text stays right


def swap_tokens(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    swapped = list(tokens)
    swapped[at], swapped[other] = swapped[other], swapped[at]
    return swapped


def drop_tokens(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at = rng.randrange(len(tokens))
    return tokens[:at] + tokens[at + rng.choice((1, 1, 2, 3, 30)) :]


def double_tokens(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at, other = rng.randrange(len(tokens)), rng.randrange(len(tokens))
    run = tokens[at : at + rng.choice((1, 1, 2, 5, 40))]
    return tokens[:other] + run * rng.choice((1, 1, 1, 2, 2, 50)) + tokens[other:]


def insert_token(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at = rng.randrange(len(tokens) + 1)
    return [*tokens[:at], rng.choice(others), *tokens[at:]]


def odd_characters(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    text = "".join(tokens)
    at = rng.randrange(len(text) + 1)
    odd = rng.choice(ODD) * rng.choice((1, 1, 1, 2, 500))
    return TOKEN.findall(text[:at] + odd + text[at + rng.randrange(2) :])


def cut(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    at = rng.randrange(len(tokens))
    return rng.choice((tokens[:at], tokens[at:]))


def nest(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """A run of tokens between brackets of one kind, many deep."""
    opening, closing = rng.choice(NESTS)
    depth, missing = rng.choice(DEPTHS), rng.choice((0, 0, 0, 1))
    start = rng.randrange(len(tokens))
    end = start + rng.choice((0, 1, 1, 10))
    return [
        *tokens[:start],
        *TOKEN.findall(opening) * depth,
        *tokens[start:end],
        *TOKEN.findall(closing) * (depth - missing),
        *tokens[end:],
    ]


def long_literal(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    length = rng.choice((20, 20, 300, 4300, 5000))
    literal = rng.choice(("9" * length, "0x" + "f" * length, "1." + "0" * length, "x" * length))
    quoted = f'"{literal}"'
    return _replaced(tokens, rng.randrange(len(tokens)), rng.choice((literal, "%" + literal, quoted)))


def splice(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """Some lines of the other text among those of this one, or its head with this one's tail."""
    lines, other_lines = _lines(tokens), _lines(others)
    at, start = rng.randrange(len(lines)), rng.randrange(len(other_lines))
    if rng.random() < 0.3:
        return _joined(lines[:at] + other_lines[start:])
    return _joined(lines[:at] + other_lines[start : start + rng.randrange(1, 12)] + lines[at:])


def whole_items(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """A program, function or pipeline doubled, dropped, moved, or one of the other text put in."""
    items = _items(tokens)
    at, kind = rng.randrange(len(items)), rng.randrange(4)
    if kind == 0:
        items.insert(rng.randrange(len(items) + 1), items[at])
    elif kind == 1:
        del items[at]
    elif kind == 2:
        items.insert(rng.randrange(len(items)), items.pop(at))
    else:
        items.insert(at + 1, rng.choice(_items(others)))
    return _joined(items)


# --- what people write who come from other languages


def foreign_word(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """An op, a type, a flag or the head of an item becomes a word of another language."""
    word, kinds = rng.choice(ROWS).word, (TYPE, FLAG, ITEM, OPERATION)
    return _replaced(tokens, _place(tokens, rng, rng.choice(kinds)), word)


def foreign_operator(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """The comma between two operands, or an op, becomes an operator."""
    signs = "+ - * / % << >> & | ^ && || ! ~ == != < <= > >= = += ++ ? : ; -> => :: .".split()
    return _replaced(tokens, _place(tokens, rng, rng.choice((COMMA, OPERATION))), rng.choice(signs))


def foreign_line(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    """A line of another language among the others."""
    lines = _lines(tokens)
    lines.insert(rng.randrange(len(lines) + 1), TOKEN.findall(f"  {rng.choice(FOREIGN_LINES)}\n"))
    return _joined(lines)


def number_operand(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    return _replaced(
        tokens, _place(tokens, rng, VALUE), rng.choice(("0", "1", "-1", "2.0", "1e-5f", "0xff", "true"))
    )


def drop_brace(tokens: Tokens, others: Tokens, rng: random.Random) -> Tokens:
    return _replaced(tokens, _place(tokens, rng, BRACE), "")


OTHER_LANGUAGES: tuple[Mutation, ...] = (
    foreign_word,
    foreign_word,
    foreign_operator,
    foreign_line,
    number_operand,
    drop_brace,
)

WELL_TYPED: tuple[Mutation, ...] = (
    another_op,
    another_op,
    another_value,
    another_value,
    near_number,
    swap_lines,
)
SMALL_EDITS: tuple[Mutation, ...] = (
    *WELL_TYPED,
    extreme_number,
    near_number,
    near_number,
    another_type,
    another_type_everywhere,
    another_name,
    another_name,
    another_word,
    double_line,
    drop_line,
    swap_lines,
)
ALL_EDITS: tuple[Mutation, ...] = (
    *SMALL_EDITS,
    swap_tokens,
    drop_tokens,
    double_tokens,
    insert_token,
    odd_characters,
    cut,
    nest,
    long_literal,
    splice,
    whole_items,
)


def _joined(parts: Sequence[Tokens]) -> Tokens:
    return [token for part in parts for token in part]


def _lines(tokens: Tokens) -> list[Tokens]:
    """The tokens of each line with its end; one empty line at least."""
    return _parts(tokens, lambda token: "\n" in token)


def _items(tokens: Tokens) -> list[Tokens]:
    """The tokens up to and with each brace that stands at the start of a line, which ends an item."""
    previous = ""
    ends = set()
    for at, token in enumerate(tokens):
        if token == "}" and previous.endswith("\n"):
            ends.add(at)
        previous = token
    numbers = iter(range(len(tokens)))
    return _parts(tokens, lambda token: next(numbers) in ends)


def _parts(tokens: Tokens, ends: Callable[[str], bool]) -> list[Tokens]:
    parts: list[Tokens] = [[]]
    for token in tokens:
        parts[-1].append(token)
        if ends(token):
            parts.append([])
    return [part for part in parts if part] or [[]]
