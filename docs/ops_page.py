"""docs/reference/ops.md, made from the op table:  python docs/ops_page.py > docs/reference/ops.md

A row's example is text of the language; test/docs parses every one of them.
"""

from __future__ import annotations

from collections.abc import Iterator

from vyre_opt.ir.ops import OPS, Attr, OpDef
from vyre_opt.syntax.op_syntax import SYNTAX

__all__ = ["SECTIONS", "example", "operand_type", "page"]

# The first op of each section, in the order of the table.
SECTIONS = {
    "const": "Constants, ids and sizes",
    "add": "Arithmetic",
    "and": "Bits",
    "fma": "Floats",
    "eq": "Compare, select, convert",
    "splat": "Vectors",
    "load": "Memory",
    "subgroup_shuffle": "Subgroups",
    "for": "Control flow",
    "decode.base64": "Named kernels",
}

_INTRO = """\
# Ops

<!-- Made by `python docs/ops_page.py > docs/reference/ops.md`; edit vyre_opt/ir/ops.py instead. -->

Every op of the language, from the one table that declares it.  The semantics that
all ops share (wrapping, division, NaN, bounds) are in [language.md](language.md).

**Takes** says what the type after the colon may be:

| Word | Types |
|---|---|
| int | i8 to i64, u8 to u64 |
| float | f16, bf16, f32, f64 |
| num | int or float |
| bits | int or bool |
| any | every type that fits the op's format |

An elementwise op also takes a vector of what it takes.  **Notes** name what a pass
may use: `commutative`; `folds` (constants are computed at compile time); `not pure`
with the effects.  A mathematical function names its error bound in units in the last place
(ulp) of the result, and that of its [short form](language.md#flags-on-floats) in f32.

Any op but a named kernel also has a generic form, which `--print-generic` prints:
`%r = "add"(%a, %b) : (u32, u32) -> (u32)`.
"""

_COMPARE_EXCHANGE = "%r = atomic_compare_exchange<relaxed> @b[%i], %a, %b : u32"


def operand_type(row: OpDef) -> str:
    """The type that an op's example uses for %a, %b, %c and the elements of @b."""
    return "f32" if row.types == "float" else "u32"


def example(row: OpDef) -> str:
    """One op as text.  %a, %b, %c and @b are of `operand_type`, %v a vector of 4 of it,
    %i is a u32, %p a bool, %m a vector of 32 of them, %table and %index vectors of 16 of u8."""
    if row.kernel is not None:
        buffers = ", ".join(f"@{role.name}" for role in row.kernel.roles)
        needed = ", ".join(f"{key} = 64" for key, value in row.kernel.params.items() if value is None)
        return f"{row.name}({buffers})" + (f" {{{needed}}}" if needed else "")
    if row.name == "atomic_compare_exchange":  # the one of its format with an operand more
        return _COMPARE_EXCHANGE
    return SYNTAX[row.format].example.format(name=row.name, type=operand_type(row))


def page() -> str:
    """The whole of docs/reference/ops.md."""
    return "\n".join([_INTRO, *_sections()])


def _sections() -> Iterator[str]:
    for row in OPS.values():
        if row.name in SECTIONS:
            yield f"\n## {SECTIONS[row.name]}\n"
            if row.kernel is not None:
                yield (
                    "A named kernel stands alone in its program, or is a stage of a pipeline.  How it is done "
                    "may be given as parameters too, each field of its schedule with the prefix `schedule_`: "
                    "`math.softmax(@x, @y) {columns = 1024, schedule_lanes = 128}`.\n"
                )
                yield (
                    "A buffer of several dimensions is its elements row by row.  A parameter that a buffer's last extent "
                    "has to be may be left out where one says it ([language.md](language.md#named-kernels)).\n"
                )
                yield (
                    "| Kernel | Written | Buffers | Parameters | Schedule | What it does |\n|---|---|---|---|---|---|"
                )
            else:
                yield "| Op | Written | Takes | Notes | What it does |\n|---|---|---|---|---|"
        yield _kernel_line(row) if row.kernel is not None else _op_line(row)


def _op_line(row: OpDef) -> str:
    takes = row.types if SYNTAX[row.format].has_type else ""
    doc = " ".join([row.doc, *(_words(attr) for attr in row.attrs if attr.choices)])
    return _line(f"`{row.name}`", f"`{example(row)}`", takes, ", ".join(_notes(row)), doc)


def _notes(row: OpDef) -> Iterator[str]:
    if row.commutative:
        yield "commutative"
    if row.fold_int is not None or row.fold_float is not None:
        yield "folds"
    if row.ulp:
        yield f"{row.ulp:g} ulp"
    if row.approximate_ulp:
        yield f"{row.approximate_ulp:g} ulp with `afn`"
    if not row.is_pure:
        yield f"not pure: {' '.join(sorted(row.effects))}"


def _words(attr: Attr) -> str:
    return f"{attr.name.capitalize()}: {', '.join(attr.choices or ())}."


def _kernel_line(row: OpDef) -> str:
    assert row.kernel is not None
    buffers = "; ".join(
        f"{role.name}: {role.access} {' or '.join(t.name for t in role.types)}"
        + (f", rows of {role.row}" if role.row else "")
        for role in row.kernel.roles
    )
    params = ", ".join(
        key if default is None else f"{key} (default {default})" for key, default in row.kernel.params.items()
    )
    schedule = " ".join(row.kernel.schedule)
    return _line(f"`{row.name}`", f"`{example(row)}`", buffers, params or "none", schedule, row.doc)


def _line(*cells: str) -> str:
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


if __name__ == "__main__":
    print(page())
