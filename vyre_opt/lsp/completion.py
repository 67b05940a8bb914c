"""Completions at a place: ops, values of fitting types, symbols, types, keywords, words of attributes.

The line up to the cursor says what kind of word is wanted.  Values and their types are those of the last analysis, which
may be older than the text.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import NamedTuple

from ..ir.formats import FORMATS
from ..ir.grids import FUNCTIONS
from ..ir.ops import FASTMATH, NAMED_KERNELS, OPS, SCHEDULE
from ..ir.program import AccessMode
from ..ir.types import DataType
from ..syntax.op_syntax import SYNTAX
from .analysis import DocumentAnalysis
from .op_docs import op_documentation
from .symbol_names import MODULE, head_of, occurrences
from .text_parts import Span, items_of
from .value_names import visible_names
from .visible_types import types_of_values

__all__ = ["Completion", "completions"]

_WORD = re.compile(r"[%@]?[\w.$]*$", re.ASCII)
_STATEMENT = re.compile(r"\s*(?:%[\w.$]+(?:\s*,\s*%[\w.$]+)*\s*=\s*)?(?P<op>[A-Za-z_][\w.]*)?", re.ASCII)
_ITEM_KEYWORDS = ("program", "func", "pipeline")
_BUFFER_FLAGS = (*AccessMode, "live_in", "live_out", "binding")
_HEAD_FLAGS = ("workgroup", "cluster", "grid", "prefer")
_STAGES = ("buffer", "spec", "param", "launch", "fill", "host_read", "repeat")
_INDEX = "an integer"


class Completion(NamedTuple):
    """`kind`: op, kernel, value, symbol, type, keyword or word.  `rank`: those of a smaller one come first."""

    label: str
    kind: str
    detail: str = ""
    documentation: str = ""
    rank: int = 1


class _CursorContext(NamedTuple):
    """`before`: the line up to the word that is being typed; `rest`: the line behind the cursor."""

    word: Span
    before: str
    rest: str
    item: Span | None
    kind: str
    name: str


def completions(text: str, analysis: DocumentAnalysis | None, offset: int) -> tuple[Span, list[Completion]]:
    """Candidates for the word before the cursor, and the place of that word."""
    start = text.rfind("\n", 0, offset) + 1
    match = _WORD.search(text, start, offset)
    word = Span(match.start() if match else offset, offset)
    end = text.find("\n", offset)
    before, rest = text[start : word.start], text[offset : len(text) if end < 0 else end]
    if "//" in before or before.count('"') % 2:
        return word, []
    item = next((span for span in items_of(text)[1] if span.start <= offset <= span.end), None)
    kind, name = head_of(text[item.start : item.end]) if item else ("", "")
    if item is not None and text.count("{", item.start, offset) and _is_closed(text[item.start : offset]):
        item, kind, name = None, "", ""
    place = _CursorContext(word, before, rest, item, kind, name)
    typed = text[word.start : offset]
    return word, list(_choices(text, analysis, place, typed[:1]))


def _is_closed(text: str) -> bool:
    return text.count("{") <= text.count("}")


def _choices(
    text: str, analysis: DocumentAnalysis | None, place: _CursorContext, sign: str
) -> Iterator[Completion]:
    before = place.before
    if place.item is None or (not before.strip() and "{" not in text[place.item.start : place.word.start]):
        if not sign and not before.strip():
            yield from (Completion(word, "keyword") for word in _ITEM_KEYWORDS)
        return
    if sign == "%":
        yield from _values(text, analysis, place)
    elif sign == "@":
        yield from _symbols(text, place)
    elif re.search(r"(?::|->|\bx|<|,)\s*$", before) and _wants_type(before):
        yield from _types(text, analysis, place)
    elif re.match(r"\s*(?:program|func|pipeline)\b", before):
        yield from (Completion(word, "keyword") for word in _HEAD_FLAGS if place.kind == "program")
    elif re.match(r"\s*buffer\b", before):
        if "]" in before:
            yield from (Completion(word, "keyword") for word in _BUFFER_FLAGS if f" {word}" not in before)
        elif place.kind == "pipeline":
            yield from (Completion(word, "word") for word in ("len", *FUNCTIONS))
    elif place.kind == "pipeline":
        yield from _stage_words(before)
    elif re.fullmatch(r"\s*(?:%[^=]*=\s*)?", before):
        yield from _ops(text, place, has_result="=" in before)
    else:
        yield from _attribute_words(before)


def _wants_type(before: str) -> bool:
    """Whether a type stands behind the sign at the end of a line: not so behind the = of an argument or in a modifier."""
    opened = before.rfind("<")
    inside = opened > before.rfind(">")
    if inside:
        return re.search(r"\b(?:vec|matrix)\s*$", before[:opened]) is not None
    return (
        re.search(r"(?::|->)\s*$", before) is not None
        or re.search(r"(?::|->)\s*\([^)]*,\s*$", before) is not None
    )


# --- words --------------------------------------------------------------------------------


def _ops(text: str, place: _CursorContext, has_result: bool) -> Iterator[Completion]:
    for row in OPS.values():
        if row.kernel is not None:
            if not has_result:
                yield Completion(row.name, "kernel", documentation=op_documentation(row), rank=2)
            continue
        results = FORMATS[row.format].results
        if (row.name == "condition" and has_result) or (results == 0 and has_result):
            continue
        fits = results is None or (results != 0) == has_result
        yield Completion(row.name, "op", row.doc, op_documentation(row), rank=0 if fits else 2)
    if not has_result and place.kind == "program":
        yield from (Completion(word, "keyword") for word in ("buffer", "spec", "param"))


def _stage_words(before: str) -> Iterator[Completion]:
    if not before.strip():
        yield from (Completion(word, "keyword") for word in _STAGES)
        for row in NAMED_KERNELS:
            yield Completion(row, "kernel", OPS[row].doc, op_documentation(OPS[row]))
    elif re.search(r"\bgrid\s*\([^)]*$", before):
        yield from (Completion(word, "word") for word in ("len", *FUNCTIONS))
    elif re.match(r"\s*launch\b", before):
        keywords = ["grid"] * ("grid" not in before) + ["params"] * (before.count(")") > 1)
        yield from (Completion(word, "keyword") for word in keywords)
    else:
        yield from _attribute_words(before)


def _attribute_words(before: str) -> Iterator[Completion]:
    """The words of an op's attributes, its fast-math flags, and the parameters of a kernel."""
    statement = _STATEMENT.match(before)
    row = OPS.get(statement["op"] or "") if statement else None
    if re.search(r"\bfastmath\s*<[^>]*$", before):
        yield from (Completion(word, "word") for word in FASTMATH)
    elif row is not None and row.kernel is not None and before.count("{") > before.count("}"):
        params = [*row.kernel.params, *(SCHEDULE + name for name in row.kernel.schedule)]
        yield from (Completion(word, "word") for word in params if word not in before)
    elif row is not None and not re.search(r"[%@]", before.partition(row.name)[2]):
        yield from (Completion(word, "word", attr.name) for attr in row.attrs for word in attr.choices or ())
    elif row is not None and row.name in ("for", "while") and "{" not in before:
        keywords = ["to", "step"] if row.name == "for" else []
        yield from (Completion(word, "keyword") for word in (*keywords, "iter") if f" {word}" not in before)
    elif row is not None and row.types in ("float", "num") and ":" not in before:
        yield Completion("fastmath", "keyword")


def _types(text: str, analysis: DocumentAnalysis | None, place: _CursorContext) -> Iterator[Completion]:
    """All types, those of the operands on the line first."""
    names = re.findall(r"%[\w.$]+", place.before.partition("=")[2] or place.before)
    likely = {str(dtype) for dtype in types_of_values(analysis, text, place.word.start, names).values()}
    yield from (Completion(name, "type", rank=0) for name in sorted(likely))
    yield from (Completion(name, "type") for name in DataType.all_names() if name not in likely)
    if place.item is not None:
        item = text[place.item.start : place.item.end]
        declared = [o.symbol.name for o in occurrences(item) if o.symbol.kind == "spec" and o.is_definition]
        yield from (
            Completion(f"@{n}", "type") for n in declared if re.search(rf"@{re.escape(n)}\s*:\s*dtype", item)
        )


# --- names --------------------------------------------------------------------------------


def _values(text: str, analysis: DocumentAnalysis | None, place: _CursorContext) -> Iterator[Completion]:
    """The visible values: of fitting types, if some are; all where nothing says which would fit."""
    assert place.item is not None
    names = visible_names(text[place.item.start : place.word.start])
    types = types_of_values(analysis, text, place.word.start, names)
    wanted = _wanted_types(place, types)
    fitting = [name for name in names if name in types and wanted is not None and wanted(types[name])]
    for age, name in enumerate(reversed(fitting or names)):
        yield Completion(name, "value", str(types.get(name, "")), rank=min(age, 999))


def _wanted_types(place: _CursorContext, types: dict[str, DataType]) -> Callable[[DataType], bool] | None:
    """Tells for a type whether a value of it fits; None where nothing is known."""
    before = place.before
    statement = _STATEMENT.match(before)
    row = OPS.get(statement["op"] or "") if statement else None
    if row is None:
        return None
    if re.search(r"\[[^\]]*$", before) or (row.name == "for" and "iter" not in before):
        return lambda dtype: dtype.is_int
    operands = re.findall(r"%[\w.$]+", before[statement.end() :]) if statement else []
    if row.name in ("if", "condition", "assert", "subgroup_ballot") or (
        row.name == "select" and not operands
    ):
        return lambda dtype: dtype.is_bool
    written = re.match(r"[^:/]*:\s*([\w@]+(?:<[^>]*>)?)", place.rest)
    if written:
        return lambda dtype: str(dtype) == written[1]
    others = [types[name] for name in operands[row.name == "select" :] if name in types]
    if others and SYNTAX[row.format].has_type:
        return lambda dtype: dtype is others[0]
    if SYNTAX[row.format].has_type and row.types != "any":
        return row.accepts
    return None


def _symbols(text: str, place: _CursorContext) -> Iterator[Completion]:
    """The symbols that may stand behind what is on the line."""
    kinds, owner = _wanted_symbols(place)
    for span in items_of(text)[1]:
        item = text[span.start : span.end]
        head = head_of(item)
        if owner == MODULE:
            if head[0] in kinds and head[1]:
                yield Completion(f"@{head[1]}", "symbol", head[0])
        elif head == owner:
            for occurrence in occurrences(item):
                symbol = occurrence.symbol
                if occurrence.is_definition and symbol.kind in kinds:
                    end = item.find("\n", occurrence.span.end)
                    detail = item[occurrence.span.end : end if end >= 0 else None].partition("//")[0].strip()
                    yield Completion(f"@{symbol.name}", "symbol", detail)


def _wanted_symbols(place: _CursorContext) -> tuple[tuple[str, ...], tuple[str, str]]:
    before, owner = place.before, (place.kind, place.name)
    if re.search(r"\blaunch\s*$", before):
        return ("program",), MODULE
    if re.search(r"\bcall\s*$", before):
        return ("func",), MODULE
    if match := re.search(r"\b(spec|param)\s*$", before):
        return (match[1],), owner
    if re.search(r"(?::|->|<|\bx)\s*$", before):
        return ("spec",), owner
    if place.kind != "pipeline":
        return ("buffer",), owner
    if re.search(r"\bparams\s*\((?:[^)]*,)?\s*$", before):
        program = re.search(r"\blaunch\s+@([\w.$]+)", before)
        return ("param",), ("program", program[1] if program else "")
    if re.search(r"\bparams\s*\([^)]*=\s*$", before):
        return ("param",), owner
    is_extent = re.search(r"\b(?:grid\s*\(|buffer\b[^\[\]]*\[)(?:[^()\]]|\([^()]*\))*$", before)
    if is_extent and not re.search(r"\blen\s*\(\s*$", before):
        return ("param",), owner
    return ("buffer",), owner
