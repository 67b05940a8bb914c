"""The page of proved rules, made from docs/results/rules.json:  python docs/rules_page.py

`make rules` writes the JSON, in half an hour: the object of `support.rules.report.Results`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

__all__ = ["page", "results"]

RESULTS = Path(__file__).parent / "results/rules.json"

_INTEGERS = "u8 i8 u16 i16 u32 i32 u64 i64".split()
_FLOATS = "f16 bf16 f32 f64".split()
_GROUPS = {
    "all types": ["bool", *_INTEGERS, *_FLOATS],
    "all integers, bool": ["bool", *_INTEGERS],
    "all integers": _INTEGERS,
    "signed integers": _INTEGERS[1::2],
    "unsigned integers": _INTEGERS[::2],
    "all floats": _FLOATS,
}

_INTRO = """\
# Rules that are proved

What a rewrite rule, a fold or a lowering makes of an op is the same as the op, for every input.  The
meaning of each op is written down once more for this, as a term over bit-vectors of the real widths
(`vyre_opt/certify/op_terms.py`), from [language.md](../reference/language.md) and nothing else; tests compare it with the
interpreter.  The SMT solver z3 is then asked for an input where the two sides differ, and answers that there is none.

| Column | Says |
|---|---|
| Proved | for these types, with every value of every operand |
| Otherwise | for these types z3 did not answer in its time, or the code is not read: what was tested instead |
| Time | of one core, for all questions of the row |

A question has 10 seconds, one on f16 has 30.  Floats are proved as f16, where z3 can; the same code serves the
other float types.  NaNs are equal to each other, zeros of different sign are not.  `fastmath` flags are left out of
account: each allows the result that is proved.

{solver}, {machine}, {date}.  `make rules` does it again; the tests do the part on bytes.
"""

_SECTIONS = {
    "identity": (
        "Identities",
        """The rules of `vyre_opt/rewriting/identities`, each on every pattern of `test/support/rules/identity_patterns.py` that it
rewrites: with all constants of 8 bits, in wider types edge values and powers of two.  A rule that moves
constants, or makes new ones of any, is proved for all of them at once.""",
    ),
    "fold": (
        "Constant folding",
        "`vyre_opt/ir/folding.py` computes in Python, which z3 does not read: its results are compared with the terms'.",
    ),
    "lowering": (
        "Lowered ops",
        """What the lowerings write for an op, as LLVM IR: no division that LLVM leaves undefined, no poison, and the
result of the term.  A row holds for both lowerings: scalars of a GPU, with and without an instruction that rounds to
bf16, and a lane of the CPU's vectors, or its scalars.  Functions with loops (`rem` of floats) are not read.  Of `bitcast`
from f16 it is proved that a NaN, whose bits the language keeps, stays one: LLVM promises no more for the f32 that
carries it.  Its optimiser does keep the bits, as a test sees for all of them on the CPU.  The
mathematical functions have an error bound, no exact result; `test/math_functions` tests it.""",
    ),
    "guard": (
        "Guards that are left out",
        """A division or shift has no guard where the ranges of its operands show that it needs none.  The rules of ranges
(`vyre_opt/analysis/ranges.py`) are tried on all bytes within every pair of ranges between edge values; divisions and
shifts by operands in ranges are proved as they are lowered.""",
    ),
}


def results(path: Path = RESULTS) -> dict[str, Any]:
    """What `make rules` found."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


def page(of: dict[str, Any]) -> str:
    """The whole page."""
    lines = [_INTRO.format(**of)]
    for section, (title, about) in _SECTIONS.items():
        rows = [line for line in of["lines"] if line["section"] == section]
        lines += [f"## {title}\n", f"{about}\n", *_table(section, rows), ""]
    return "\n".join(lines)


def _table(section: str, rows: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield "| Rule | What it says | Proved | Otherwise | Time |\n|---|---|---|---|---|"
    for row in _by_op(rows) if section == "lowering" else rows:
        proved, tested = _types(row["proved"]), "; ".join([*row["tested"], *row["wrong"]])
        seconds = f"{row['seconds']:.1f} s"
        cells = [f"`{row['rule'].lstrip('_')}`", row["about"], proved, tested, seconds]
        yield f"| {' | '.join(' '.join(cell.split()).replace('|', chr(92) + '|') for cell in cells)} |"


def _by_op(rows: Sequence[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """The rows of all lowerings of an op as one: what is proved of each, and what is tested of any."""
    names = dict.fromkeys(row["rule"].partition(",")[0] for row in rows)
    for name in names:
        group = [row for row in rows if row["rule"].partition(",")[0] == name]
        yield {
            "rule": name,
            "about": "",
            "proved": [t for t in group[0]["proved"] if all(t in row["proved"] for row in group)],
            "tested": [*dict.fromkeys(text for row in group for text in row["tested"])],
            "wrong": [text for row in group for text in row["wrong"]],
            "seconds": sum(row["seconds"] for row in group),
        }


def _types(proved: Sequence[str]) -> str:
    """Types in words; casts from one to another are counted."""
    casts = [t for t in proved if "->" in t]
    scalars = [t for t in proved if "->" not in t]
    words: list[str] = []
    for name, members in _GROUPS.items():
        if set(members) <= set(scalars):
            words.append(name)
            scalars = [t for t in scalars if t not in members]
    words += scalars
    return ", ".join([*words, *([f"{len(casts)} pairs of types"] if casts else [])])


if __name__ == "__main__":
    print(page(results()), end="")
