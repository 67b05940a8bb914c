"""The parser's fast path gives what the tables give: the same IR, names, places and attributes, or the same errors."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from unittest.mock import patch

import pytest
from support.each import each
from support.fuzz.seed_texts import any_texts
from support.fuzz.text_mutations import ALL_EDITS, SMALL_EDITS, WELL_TYPED, mutate
from support.op_samples import op_samples
from support.parser_paths import difference, difference_from_lark, respaced
from support.quick import quick
from support.tools_inside import call_opt

from vyre_opt import parse, print_program
from vyre_opt.ir import OPS, Op, Source
from vyre_opt.syntax import parser
from vyre_opt.syntax.op_syntax import Tail
from vyre_opt.syntax.parser.recovery import RecoveringActions

ROOT = Path(__file__).parents[2]
SLOW_TEXTS, SHARES = 100_000, 50
HEAD = "vyre {}\nprogram @p workgroup(4) {{\n  buffer @b : u32[4] read_write binding(0) live_out\n"
OPENING = "  %a = lane_id\n  %x = const 1.5 : f32\n  %p = const true : bool\n"


def repository_texts() -> list[str]:
    """Every text of ours in a file or in a block of a document, and its parts."""
    paths = [path for folder in ("examples", "test", "docs") for path in (ROOT / folder).rglob("*.vyre")]
    texts = [path.read_text("utf-8") for path in sorted(paths)]
    for page in [*sorted((ROOT / "docs").rglob("*.md")), *ROOT.glob("*.md")]:
        texts += re.findall(r"^```vyre[^\n]*\n(.*?)^```", page.read_text("utf-8"), re.DOTALL | re.MULTILINE)
    texts += [part for text in texts for part in text.split("// -----\n")]
    return list(dict.fromkeys(texts))


def random_text(seed: int, texts: Sequence[str]) -> str:
    """One of `texts` with some slips, or with none but odd spaces."""
    rng = random.Random(seed)
    text, other = rng.choice(texts), rng.choice(texts)
    if rng.random() < 0.5:
        text = with_constants(text, rng)
    if rng.random() < 0.7:
        text = mutate(text, other, rng, rng.choice((ALL_EDITS, SMALL_EDITS, WELL_TYPED, WELL_TYPED)))
    return respaced(text, rng) if rng.random() < 0.5 else text


def with_constants(text: str, rng: random.Random) -> str:
    """A text in version 2, with literals in the place of some operands, and some types left out."""
    often = rng.choice((0.0, 0.05, 0.3))
    literals = (
        "0",
        "1",
        "3",
        "0x10",
        "1.5",
        "-1",
        "-0.0",
        "inf",
        "nan",
        "true",
        "false",
        "300",
        "1e3",
        "[1, 2]",
    )
    text = re.sub(
        r"(?<=[ \[])%[\w.$]+(?=[,\]]| :|\n)",
        lambda m: rng.choice(literals) if rng.random() < often else m[0],
        text,
    )
    text = re.sub(r" : \w+$", lambda m: "" if rng.random() < often else m[0], text, flags=re.MULTILINE)
    return text.replace("vyre 1\n", "vyre 2\n", 1)


def check(texts: list[str]) -> None:
    for text in texts:
        different = difference(text)
        assert different is None, f"{different}\n{text}"


@pytest.mark.parametrize("start", quick(range(3)))
def test_texts_of_the_repository(start: int) -> None:
    texts = repository_texts()
    assert len(texts) > 200
    check(texts[start::3])


def test_every_op() -> None:
    """Each sample of each row of the op table, in both forms."""
    check(
        [
            print_program(m, generic=generic)
            for r in OPS.values()
            for m in op_samples(r)
            for generic in (False, True)
        ]
    )


@pytest.mark.parametrize("count", quick([40, 120]))
def test_random_texts(count: int) -> None:
    texts = [text for text in repository_texts() if len(text) < 2000]
    check([random_text(seed, texts) for seed in range(count)])


@pytest.mark.campaign
@pytest.mark.parametrize("share", range(SHARES))
def test_random_texts_at_length(share: int) -> None:
    check([random_text(seed, any_texts()) for seed in range(share, SLOW_TEXTS, SHARES)])


# --- Lark alone


ODD = '\u00e9\u0663\u2167\u00a0\u2028\x85\\\n"\v\x1c\ufeff\u00b2'
"""Letters, digits and spaces of Unicode, and what ends lines and strings."""


def check_beside_lark(texts: Iterable[str]) -> None:
    for text in texts:
        different = difference_from_lark(text)
        assert different is None, f"{different}\n{text}"


def with_odd_character(text: str, seed: int) -> str:
    rng = random.Random(seed)
    place = rng.randrange(len(text) + 1)
    return text[:place] + rng.choice(ODD) + text[place:] if rng.random() < 0.5 else text


def test_lark_alone_reads_the_same() -> None:
    texts = [text for text in repository_texts() if len(text) < 1000]
    check_beside_lark(with_odd_character(random_text(seed, texts), seed) for seed in range(80))


@pytest.mark.campaign
@pytest.mark.parametrize("share", range(SHARES))
def test_lark_alone_reads_the_same_at_length(share: int) -> None:
    texts = [text for text in any_texts() if len(text) < 4000]
    seeds = range(share, SLOW_TEXTS, SHARES)
    check_beside_lark(with_odd_character(random_text(seed, texts), seed) for seed in seeds)


def test_lark_alone_ends_where_the_parse_loop_does() -> None:
    """In blocks that are nested too deeply, and in a text of another language."""
    deep = f"vyre 1 program @p workgroup(1) {{ %c = const true : bool {'if %c { ' * 300}{'}' * 300} }}"
    check_beside_lark([deep, "module { }"])


def test_an_error_of_lark_is_located() -> None:
    ran = call_opt("-", "--parser=lark", text="vyre 1\nprogram @p workgroup(4) {\n  barrier workgroup )\n}\n")
    assert ran.returncode == 1
    assert "<stdin>:3:21: error: unexpected )" in ran.stderr
    with pytest.raises(ValueError, match="parser is tables or lark"):
        parse("vyre 1", parser="antlr")


# Each line stands alone in a body, before an op of the usual form.
LINES = """
%r = add %a, %a : u32 // what follows is no part of it
%r=add %a, %a:u32
%r = add %a,%a : u32
%r = add %a, %a
%r = add %a, %a : u32 -> u32
%r = add %a, %a : u32 : u32
%r = add %a, %a : u32 %a
%r = add %a, %a : u32 x
%r = add %a, %a : u32 foo
%r = add %a, %a : u32, %a
%r = add %a, %a : u32<4>
%r = add %a, %a : vec<1 x u32>
%r = add %a, %a : vec<2 x u32>
%r = add %a, %a : u32.x
%r = add %a, %a : @T
%r = add %a, %a : u33
%r = add %a, %a : dtype
%r = add %a, %a = : u32
%r = add %a, %b : u32
%r = add %a : u32
%r = add %a, %a, %a : u32
%r = add<x> %a, %a : u32
%r = add[0] %a, %a : u32
%r = add @b, %a : u32
%r = add 1, %a : u32
%r = add.x %a, %a : u32
%a = add %a, %a : u32
%r, %s = add %a, %a : u32
%r = add %x, %x fastmath<nnan> : f32
%r = add %x, %x fastmath<nnan, nsz,ninf> : f32
%r = add %x, %x fastmath<nan> : f32
%r = add %x, %x fastmath<> : f32
%r = cast %x fastmath<nnan> : f32 -> u32
%r = splat %x fastmath<nnan> : vec<2 x f32>
%r = vector %x, %x fastmath<nnan> : vec<2 x f32>
%r = load @w[%a] fastmath<nnan> : u32
%r = atomic_add @w[%a], %a fastmath<reassoc> : u32
%r = cast %x : u32 -> u32
%r = cast %x : f32 -> u32 -> u32
%r = lt %x, %x : u32
%r = lt %a, %a : u32
%r = select %p, %a, %a : u32
%r = const 0x1F : u32
%r = const 1.5 : u32
%r = const -1 : u32
%r = const inf : f32
%r = const infinity : f32
%r = const 1e5 : f32
%r = const 1e : f32
%r = const 1_0 : u32
%r = const 2x3xf32 : u32
%r = const true : bool
%r = const x : u32
%r = const 7 : vec<2 x u32>
%r = const [7, 8] : vec<2 x u32>
%r = const-1:i32
%r = global_id x
%r = global_id x : u32
%r = global_id w
%r = global_id add
%r = global_id
%r = lane_id x
%r = lane_id %a
%r = lane_id = lane_id
%r = len @b
%r = len @b, 0
%r = len @b : u64
%r = load @b[%a] : u32
%r = load @b[%a, %a] : u32
%r = load @b[%a] : u32[4]
%r = load @c[%a] : u32
%r = load %a, @b[%a] : u32
store %a, @b[%a] : u32
store %a, @b[%a] : f32
store %a, %a, @b[%a] : u32
store %a, @b[%a]
store%a, @b[%a] : u32
store.x %a, @b[%a] : u32
stores %a, @b[%a] : u32
%r = store %a, @b[%a] : u32
atomic_add<relaxed> @b[%a], %a : u32
%r = atomic_add<relaxed> @b[%a], %a : u32
%r = atomic_add< relaxed > @b[%a], %a : u32
%r = atomic_add<eventual> @b[%a], %a : u32
%r = atomic_add<> @b[%a], %a : u32
%r = subgroup_reduce<add> %a : u32
%r = subgroup_reduce<add, add> %a : u32
%r = subgroup_scan<inclusive,add> %a : u32
%r = subgroup_ballot %p
barrier workgroup
barrier.workgroup
barrier
barrier workgroup x
yield
yield %a
yield %a, %a
yield %a = add %a, %a : u32
condition %p
%r = for %i = 0 to 4 step 1 iter(%s = %a : u32) { yield %s }
%r = if %p -> u32 { yield %a } else { %q = add %a, %a : u32 yield %q }
if %p { store %a, @b[%a] : u32 %q = add %a, %a : u32 }
%r = add %a, 1 : u32
%r = add 1, %a : u32
%r = add %a,1 : u32
%r = add %a, 1
%r = add 1, 1
%r = add 1, 1 : u32
%r = add %a, %a, 1 : u32
%r = add 1 : u32
%r = fma %x, %x, 1 : f32
%r = fma %x, 1, 1, %x : f32
%r = splat 1, 2 : vec<2 x u32>
%r = select %p, %a : u32
%r = select true, %a : u32
%r = add %a, -1 : u32
%r = add %a, +1 : u32
%r = add %a, 1.5 : u32
%r = add %a, 1f : u32
%r = add %a, 1.x : u32
%r = add %a, 0x : u32
%r = add %a, 5000000000 : u32
%r = add %a, info : u32
%r = add %x, inf : f32
%r = add %x, 1 fastmath<nnan> : f32
%r = add %a, 2x3xf32 : u32
%r = add %a, true : u32
%r = add %a, [1, 2] : u32
%r = neg 1 : u32
%r = lt %a, 4
%r = lt %a, 4 : u32
%r = select true, 1, %a : u32
%r = select %p, 1, 2 : u32
%r = cast 1 : u32 -> f32
%r = splat 1 : vec<2 x u32>
%r = load @b[0] : u32
%r = load @b[0]
%r = load @b[%a]
%r = load @b[1.5] : u32
%r = load @c[0]
%r = load @b[%a
%r = load %a[0]
store 1, %a[0]
%r = load @b[0, %a] : u32
store 1, @b[%a] : u32
store 1, @b[0]
store %a, @b[0] : u32
store 1.5, @b[0] : u32
atomic_add<relaxed> @b[0], 1 : u32
%r = atomic_add<relaxed> @b[0], 1
%r = atomic_compare_exchange<relaxed> @b[0], 1, %a : u32
copy_wait 1
copy_wait 1e5
copy_wait 1.x
copy_wait
yield 1
yield true
condition true
%r = if %p -> u32 { yield 1 } else { yield %a }
%r = if true -> u32 { yield 1.5 } else { yield [1] }
%r = subgroup_ballot true
%r = subgroup_reduce<add> 1 : u32
%r = add %a, %a : u32 loc("x":1:1)
%r = add %a, %a : u32 loc(unknown)
%r = add %a, %a : u32 loc
%r = spec @s : u32
%r = region @r -> u32 { yield %a }
%r = "add"(%a, %a) : (u32, u32) -> (u32)
trap "add %a, %a : u32"
buffer @c : u32[4] read binding(1)
x
loc
fastmath<nnan>
}
%
= add %a, %a : u32
""".strip().split("\n")


def texts_with(line: str) -> list[str]:
    """The line before and behind ops of the usual form, at the end of a block, and in pieces on several lines."""
    behind = "  %z = add %a, %a : u32\n"
    texts = []
    for body in (
        f"{line}\n{behind}",
        f"{behind}{line}",
        f"if %p {{\n{line}\n}}\n{behind}",
        line.replace(" ", "\n"),
    ):
        for head in map(HEAD.format, (1, 2)):
            texts += [
                f"{head}{OPENING}{body}\n}}\n",
                f"{head}{OPENING}{behind}{body}",
                f"{head}{body}\n}}\n",
            ]
    return texts


@pytest.mark.parametrize("step", quick([7, 1]))
def test_lines_that_are_nearly_of_the_usual_form(step: int) -> None:
    """Each line in some of its texts, from one on that differs from line to line, or in all of them."""

    def check_line(case: tuple[int, str]) -> None:
        number, line = case
        check(texts_with(line)[number % step :: step])

    each(enumerate(LINES), check_line, lambda case: case[1])


LEFT = {
    "%r = const [1, 2, 4294967295] : vec<3 x u32>": "a list of lanes",
    "%r = const [3, 200, 0] : vec<3 x u8>": "a list of lanes",
    "%r = len @in : u64": "a type where there is mostly none",
    "%r = matrix_load<column_major> @m[%r, %r] : matrix<8x8xtf32, b>": "a layout",
    "matrix_store<column_major> %r, @m[%r, %r] : matrix<16x8xf32, acc>": "a layout",
    "slice_store<clipped> %r, @s[%r, %r] : slice<?xf32>": "a word",
    "%r = add %r, %r : u32": "the first op of a function",
}
"""What only the tables read of what is printed in short form, but for ops whose format has a rule of its own."""


def test_the_fast_path_reads_nearly_all_that_is_printed() -> None:
    """It would be right and useless if it left every op to the tables."""
    left: set[str] = set()

    class Recorder(RecoveringActions):
        def op_results(self, place: int, end: int, results: str, name: str, tail: Tail) -> Op | None:
            left.add(re.sub(r"%\w+", "%r", self.source.text[place:end]))
            return super().op_results(place, end, results, name, tail)

        def op_bare(self, place: int, end: int, name: str, tail: Tail) -> Op | None:
            left.add(re.sub(r"%\w+", "%r", self.source.text[place:end]))
            return super().op_bare(place, end, name, tail)

    with patch.object(parser, "LONG_TEXT", 0), patch.object(parser, "RecoveringActions", Recorder):
        for row in OPS.values():
            for module in op_samples(row):
                parser.parse_source(Source(print_program(module)))
    assert left == LEFT.keys()
