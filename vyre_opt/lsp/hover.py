"""Facts about the name under the cursor, as Markdown."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from ..ir.ops import OPS
from ..ir.program import Buffer, Func, Op, Program, Value
from ..ir.types import DataType
from .analysis import DocumentAnalysis, Item
from .fusion_facts import buffer_decisions, launch_decisions
from .navigation import Name, name_at
from .op_docs import op_documentation
from .symbol_names import MODULE, head_of
from .text_parts import Span
from .value_facts import access_facts, buffer_facts, value_facts

__all__ = ["hover", "values_named"]

_WORD = re.compile(r'[A-Za-z_][\w.]*|//.*|"(?:[^"\\\n]|\\.)*"|[%@][\w.$]+', re.ASCII)
_MOST_ACCESSES = 8


def hover(analysis: DocumentAnalysis, offset: int) -> tuple[str, Span] | None:
    """The text about what is at an offset, and the place of that; None where there is nothing to say."""
    name = name_at(analysis.text, offset)
    if name is None:
        return _word(analysis, offset)
    parts = _value(analysis, name) if name.symbol is None else _symbol(analysis, name)
    text = "\n\n".join(filter(None, parts))
    return (text, name.span) if text else None


def _word(analysis: DocumentAnalysis, offset: int) -> tuple[str, Span] | None:
    """The documentation of an op or a type; of a launch also why it is fused or is not."""
    text = analysis.text
    start = text.rfind("\n", 0, offset) + 1
    line = Span(start, text.find("\n", start) if "\n" in text[start:] else len(text))
    for match in _WORD.finditer(text, line.start, line.end):
        if match.start() <= offset <= match.end():
            word, span = match[0], Span(*match.span())
            if word in OPS:
                return op_documentation(OPS[word]), span
            if word in DataType.all_names():
                return _type(DataType._interned.get(word), word), span
            if word == "launch":
                text = "\n\n".join(_launch(analysis, line))
                return (text, span) if text else None
    return None


def _type(dtype: DataType | None, word: str) -> str:
    size = dtype.element_bytes if dtype is not None else None
    return f"```vyre\n{word}\n```" + (f"\n\n{size} byte{'s' * (size != 1)} an element" if size else "")


# --- values -------------------------------------------------------------------------------


def values_named(analysis: DocumentAnalysis, item: Item, name: str) -> Iterator[tuple[Value, Op | None, int]]:
    """The values of a program or a func called `name`, each with its op and the offset of that, in the order of the text."""
    if not isinstance(item, Program | Func):
        return
    for argument in item.body.args:
        if argument.name == name:
            yield argument, None, 0
    for op in item.walk():
        owned = [*op.results, *(argument for block in op.regions for argument in block.args)]
        for value in owned:
            if value.name == name:
                yield value, op, analysis.span(op.loc).start if op.loc is not None else 0


def _value(analysis: DocumentAnalysis, name: Name) -> Iterator[str]:
    item = _item(analysis, name.item)
    if item is None or not name.definitions:
        return
    defined = name.definitions[0].start
    candidates = list(values_named(analysis, item, name.text[1:]))
    before = [c for c in candidates if c[2] <= defined] or candidates
    if not before:
        return
    value, op, _ = before[-1]
    yield f"```vyre\n{name.text} : {value.type}\n```"
    if op is not None and value in op.results:
        yield f"`{op.name}`: {op.definition.doc}"
    if isinstance(item, Program) and _verifies(analysis, name.item):
        facts = list(value_facts(item, value))
        access = _access_around(analysis, item, name.span)
        if access is not None and value in access.indices:
            facts += access_facts(item, access)
        yield _list(facts)


def _access_around(analysis: DocumentAnalysis, program: Program, span: Span) -> Op | None:
    """The load, store or atomic in whose text a place is."""
    for op in program.walk():
        if op.loc is not None and isinstance(op.attrs.get("buffer"), str) and op.operands:
            around = analysis.span(op.loc)
            if around.start <= span.start and span.end <= around.end:
                return op
    return None


# --- symbols ------------------------------------------------------------------------------


def _symbol(analysis: DocumentAnalysis, name: Name) -> Iterator[str]:
    assert name.symbol is not None
    text, symbol = analysis.text, name.symbol
    if name.definitions:
        yield f"```vyre\n{_declaration(text, name.definitions[0])}\n```"
        yield from _comment_above(text, name.definitions[0].start)
    if symbol.kind == "buffer":
        yield from _buffer(analysis, symbol.owner, symbol.name)
    elif symbol.kind == "program" and symbol.owner == MODULE:
        start = text.rfind("\n", 0, name.span.start) + 1
        end = text.find("\n", start)
        yield from _launch(analysis, Span(start, len(text) if end < 0 else end))


def _buffer(analysis: DocumentAnalysis, owner: tuple[str, str], name: str) -> Iterator[str]:
    kind, item_name = owner
    items = analysis.module.programs if kind == "program" else analysis.module.pipelines
    item = items.get(item_name)
    buffer: Buffer | None = item.buffers.get(name) if item is not None else None
    if buffer is None:
        return
    if buffer.size_bytes is not None:
        yield f"{buffer.size_bytes} bytes"
    if analysis.has_errors:
        return
    if isinstance(item, Program):
        facts = list(buffer_facts(item, name))
        more = len(facts) - _MOST_ACCESSES
        yield _list(facts[:_MOST_ACCESSES] + [f"and {more} more"] * (more > 0))
    yield _list(buffer_decisions(analysis.text, owner, name))


def _launch(analysis: DocumentAnalysis, line: Span) -> Iterator[str]:
    span, _ = analysis.item_at(line.start)
    kind, name = head_of(analysis.text[span.start : span.end])
    if kind == "pipeline" and not analysis.has_errors:
        yield _list(launch_decisions(analysis.text, name, line))


def _list(facts: Iterable[str]) -> str:
    return "\n".join(f"- {fact}" for fact in facts)


def _declaration(text: str, span: Span) -> str:
    start = text.rfind("\n", 0, span.start) + 1
    end = text.find("\n", span.end)
    return text[start : len(text) if end < 0 else end].partition("//")[0].strip().removesuffix("{").rstrip()


def _comment_above(text: str, place: int) -> Iterator[str]:
    """The comment that ends in the line before a definition."""
    lines = text[: text.rfind("\n", 0, place) + 1].splitlines()
    comment: list[str] = []
    while lines and lines[-1].lstrip().startswith("//"):
        comment.insert(0, lines.pop().lstrip().removeprefix("//").strip())
    if comment:
        yield "\n".join(comment)


def _item(analysis: DocumentAnalysis, span: Span) -> Item | None:
    _, items = analysis.item_at(span.start)
    return items[0] if items else None


def _verifies(analysis: DocumentAnalysis, span: Span) -> bool:
    """Whether nothing is wrong in an item, so that analyses may walk it."""
    return not any(
        d.severity == "error" and d.loc is not None and span.start <= analysis.span(d.loc).start < span.end
        for d in analysis.diagnostics
    )
