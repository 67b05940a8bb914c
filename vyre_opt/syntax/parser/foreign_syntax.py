"""Syntax of other languages, recognised where a text goes wrong, and what to write instead.

`foreign_word` finds a word of another language in the statement with the error (see syntax/synonyms.py),
`foreign_construct` an operator, a loop, a call, an assignment.  They look at characters, not at tokens: what is wrong
may lie before or after the token that the parser stopped at.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import field, replace
from typing import NamedTuple

from ...ir.ops import NAMED_KERNELS, OPS
from ...ir.program import Buffer, Value
from ...ir.types import UNKNOWN, DataType
from ...records import dataclass
from ..op_syntax import SYNTAX
from ..synonyms import NEIGHBOURS, Synonym, lookup
from .foreign_expressions import MOST_READ, SIGN, written_out
from .foreign_grids import with_functions
from .rewritten_lines import fresh

__all__ = ["Advice", "Statement", "foreign_construct", "foreign_word"]


class Advice(NamedTuple):
    """An error between two offsets of the text, and what to write."""

    start: int
    end: int
    message: str
    help: str


@dataclass(frozen=True, slots=True)
class Statement:
    """The line with an error, from the statement it belongs to on: `line` begins at `offset` of the text.

    `error`, `error_end`: where the token is that does not fit, in the line.  `context`: item, op, stage, flag of a
    buffer that is declared before it on the line, or the first line of the text.
    `scope`, `buffers`: what is declared before it.  `before`: the end of the text before it.  `version`: of the text's format.
    """

    line: str
    offset: int
    error: int
    error_end: int
    context: str
    scope: Mapping[str, Value] = field(default_factory=dict)
    buffers: Mapping[str, Buffer] = field(default_factory=dict)
    version: int = 1
    before: str = ""

    def at(self, start: int, end: int, message: str, help: str) -> Advice:
        return Advice(self.offset + start, self.offset + end, message, help)

    def type_of(self, *names: str) -> str:
        """The type of the first of some `%names` that is known; u32 if none is."""
        types = [self.scope[name].type for name in names if name in self.scope]
        return next((str(dtype) for dtype in types if dtype is not UNKNOWN), "u32")


# --- words ------------------------------------------------------------------------------------

_RESULTS = r"(?:%[\w.$]+\s*(?:,\s*%[\w.$]+\s*)*(?::\d+\s*)?=(?!=)\s*)"
_FIRST_WORD = re.compile(rf"{_RESULTS}?\"?(?P<word>[@%]?[A-Za-z_][\w.]*)", re.ASCII)
_ITEM_WORD = re.compile(r"#?\s*(?P<word>@?[A-Za-z_][\w.]*)", re.ASCII)
_TYPE_WORD = re.compile(r"(?:(?<=:)|(?<=->)|(?<= x))\s*!?(?P<word>[A-Za-z_][\w.]*)", re.ASCII)
_FLAG_WORD = re.compile(r"buffer\s+@[\w.$]+\s*:[^\]]*\]\s*(?P<flags>.*)", re.ASCII)


def foreign_word(statement: Statement) -> tuple[str, int, Synonym] | None:
    """The word of another language that a statement begins with, or has as a type or a flag, and its place in the line."""
    pattern = _ITEM_WORD if statement.context in ("item", "first line") else _FIRST_WORD
    if statement.context == "flag":
        return _flag(statement.line, 0)
    first = pattern.match(statement.line)
    if first is not None and not _is_ours(first, statement):
        row = lookup(first["word"], NEIGHBOURS.get(statement.context, ("item",)))
        if row is not None:
            return first["word"], first.start("word"), row
    for match in _words_behind(statement):
        row = lookup(match["word"], ("type",))
        if row is not None:
            return match["word"], match.start("word"), row
    flags = _FLAG_WORD.match(statement.line)
    return _flag(statement.line, flags.start("flags")) if flags is not None else None


def _flag(line: str, start: int) -> tuple[str, int, Synonym] | None:
    """The first word of another language among the flags of a buffer."""
    for match in re.compile(r"[A-Za-z_]\w*", re.ASCII).finditer(line, start):
        row = lookup(match.group(), ("flag",)) if match.group() not in ("read", "write") else None
        if row is not None:
            return match.group(), match.start(), row
    return None


def _words_behind(statement: Statement) -> Iterator[re.Match[str]]:
    """Places of types, no farther than the token that does not fit."""
    for match in _TYPE_WORD.finditer(statement.line, 0, statement.error_end):
        if match.end() >= statement.error and match["word"] not in DataType.all_names():
            yield match


def _is_ours(first: re.Match[str], statement: Statement) -> bool:
    """Whether the first word of a statement is a word of ours, a name that is assigned to, or a type that is called."""
    word, behind = first["word"], statement.line[first.end("word") :].lstrip()
    if statement.context == "op":
        is_type = word in DataType.all_names() or lookup(word, ("type",)) is not None
        is_cast = is_type and re.match(r"\(\s*%?\w[^,]*\)", behind) is not None
        is_assigned = not first[0].startswith("%") and re.match(r"=(?!=)", behind) is not None
        return word in OPS or word in ("buffer", "else", "do") or is_cast or is_assigned
    return statement.context == "stage" and word in ("launch", "fill", "host_read", "repeat", "buffer")


# --- constructs -------------------------------------------------------------------------------

_NAMED = r"[%@]?[A-Za-z_][\w.]*(?:\[[^\[\]]*\])?|%[\w.$]+|\d[\w.]*"
_OPERATION = re.compile(
    rf"(?P<a>{_NAMED}|[\])])\s*(?P<at>>>>|<<|>>|&&|\|\||===|[=!<>]=|[-+*/&|^<>](?![=])|%(?=\s)|\b(?:and|or)\b)\s*"
    rf"(?P<b>[-+]?(?:{_NAMED})|\()",
    re.ASCII,
)
_RESULT = re.compile(r"\s*(?P<name>%[\w.$]+)\s*=(?!=)\s*", re.ASCII)


_GRID_PARENTHESES = re.compile(r"(?<![\w$])\((?P<inner>[^()]*(?:\([^()]*\)[^()]*)*)\)", re.ASCII)
_EXTENT = r"\w+\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)|@[\w.$]+|\d+"
_GRID_OPERATION = re.compile(rf"(?P<a>{_EXTENT})\s*(?P<at>//|[-+*/])\s*(?P<b>{_EXTENT})", re.ASCII)
_GRID_FUNCTIONS = {"+": "add", "-": "sub", "*": "mul", "/": "div", "//": "div"}


def _grid_operation(statement: Statement) -> Advice | None:
    """An operator in a grid or a size, `grid(len(@x) / 64)`, where functions stand: the whole expression is written with these."""
    begin = re.search(r"\b(?P<grid>grid)\s*\(|\[", statement.line, re.ASCII)
    if begin is None or statement.context not in ("stage", "flag"):
        return None
    end = _closing(statement.line, begin.end() - 1)
    inside = statement.line[begin.end() : end]
    operator = re.search(r"//|[-+*/%]|<<|>>", inside)
    match = _GRID_OPERATION.search(statement.line, begin.end(), end)
    if operator is None and _GRID_PARENTHESES.match(inside.strip()) is None:
        return None
    written = with_functions(inside, statement.buffers)
    if written is None and match is None:
        return None
    at = match.span("at") if match is not None else (begin.end(), end)
    if match is None and operator is not None:
        at = (begin.end() + operator.start(), begin.end() + operator.end())
    sign = statement.line[slice(*at)]
    message = (
        f"{sign} is no operator here; grids have functions"
        if operator
        else "an extent stands without parentheses of its own"
    )
    if written is not None:
        whole = f"grid({written})" if begin["grid"] else f"[{written}]"
        up = re.sub(r"^(grid\(|\[)div\(", r"\1ceil_div(", whole)
        return statement.at(*at, message, f"write {whole}{f', or {up}, which rounds up' * (up != whole)}")
    assert match is not None
    a, b = (f"len({each})" if each[1:] in statement.buffers else each for each in match.group("a", "b"))
    return statement.at(*at, message, f"write {_GRID_FUNCTIONS[match['at']]}({a}, {b})")


def _closing(line: str, opening: int) -> int:
    """The offset of the bracket that closes another one; the end of the line where none does."""
    depth = 0
    for offset in range(opening, len(line)):
        depth += (line[offset] in "([") - (line[offset] in ")]")
        if not depth:
            return offset
    return len(line)


_WHOLE = re.compile(
    r"\s*(?:(?P<result>%[\w.$]+)|[%@]?(?P<stored>[A-Za-z_]\w*)\s*\[(?P<i>[^\]]*)\])\s*=(?!=)\s*(?P<text>.*?)\s*(?::\s*[\w<> ]+)?;?\s*$",
    re.ASCII,
)
_CONDITION = re.compile(r"\s*(?P<word>if|while)\b\s*(?P<text>[^{]*?)\s*\{", re.ASCII)
_OP_WORD = re.compile(r"(?P<name>[a-z_]\w*)(?:<[^>]*>)?\s+(?=[-+%@\d])", re.ASCII)


def _expression(statement: Statement) -> Advice | None:
    """An expression with operators that is assigned, stored or a condition: `%r = %a * %v + 1.0`, `y[i] = -v`, `if i < n {`."""
    if len(statement.line) > 2 * MOST_READ:
        return None
    match = _WHOLE.match(statement.line) or _CONDITION.match(statement.line)
    if match is None or ((op := _OP_WORD.match(match["text"])) and op["name"] in OPS):
        return None
    parts = match.groupdict()
    lines = _lines_of(statement, match["text"], parts.get("result") or "")
    sign = SIGN.search(statement.line, *match.span("text"))
    if lines is None or sign is None or (parts.get("stored") and parts["stored"] not in statement.buffers):
        return None
    target = lines[-1].partition(" = ")[0]
    if parts.get("stored"):
        index = match["i"] if re.fullmatch(r"%[\w.$]+", match["i"]) else f"%{match['i']}"
        lines.append(
            f"store {target}, @{match['stored']}[{index}] : {statement.buffers[match['stored']].dtype}"
        )
    elif parts.get("word") == "if":
        lines.append(f"if {target} {{")
    elif parts.get("word") == "while":
        lines = [f"while {{ {'  '.join(lines)}  condition {target} }} do {{"]
    return statement.at(
        *sign.span(), f"{sign[0]} is no operator here; ops have names", f"write {', then '.join(lines)}"
    )


def _operation(statement: Statement) -> Advice | None:
    """An operator between two operands, at or behind the token that does not fit, in an operand or an index of an op."""
    if in_grid := _grid_operation(statement):
        return in_grid
    for match in _OPERATION.finditer(statement.line):
        if match.end() <= statement.error or match["a"] in OPS or match["a"] in DataType.all_names():
            continue
        if match.start() > statement.error_end or (match["at"] in "<>" and match["a"].startswith("@")):
            return None
        message = f"{match['at']} is no operator here; ops have names"
        return statement.at(*match.span("at"), message, f"write {_as_op(statement, match)}")
    return None


def _as_op(statement: Statement, operation: re.Match[str]) -> str:
    """The lines of an operation that is an operand, and the line with their result for it."""
    line = statement.line
    start, end = _operand_around(line, *operation.span("at"))
    result, op = _RESULT.match(line), _OP_WORD.search(line)
    is_alone = op is not None and start == op.end() and not line[end:].lstrip().startswith(",")
    row = OPS.get(op["name"]) if op is not None else None
    if is_alone and row is not None and row.format in ("binary", "compare"):  # `add %v + %w`
        return ", then ".join(
            _lines_of(statement, line[start:end], result["name"] if result else "") or ["..."]
        )
    target = fresh("%t", statement.scope)
    lines = _lines_of(statement, line[start:end], target)
    if lines is None:
        lines = _lines_of(statement, operation[0], result["name"] if result else "")
        return ", then ".join(lines or [f"%r = {operation[0]}"])
    return ", then ".join([*lines, f"{line[:start]}{target}{line[end:]}".strip()])


def _operand_around(line: str, start: int, end: int) -> tuple[int, int]:
    """The operand or index that an operator is in: up to the commas, brackets, names of ops and types around it."""
    depth = 0
    while start and not (depth == 0 and line[start - 1] in "([,={"):
        start -= 1
        depth += (line[start] in ")]") - (line[start] in "([")
    if word := _OP_WORD.match(line, start + len(line[start:]) - len(line[start:].lstrip())):
        start = word.end() if word["name"] in OPS else start
    depth = 0
    while end < len(line) and not (depth == 0 and line[end] in ")],:;{"):
        depth += (line[end] in "([") - (line[end] in ")]")
        end += 1
    text = line[start:end]
    return start + len(text) - len(text.lstrip()), end - len(text) + len(text.rstrip())


def _lines_of(statement: Statement, text: str, target: str) -> list[str] | None:
    return written_out(text, target, statement.scope, statement.buffers, statement.version)


def _as_value(operand: str) -> str:
    """An operand as a value or a number: `i` of another language would be `%i`."""
    if re.match(r"[-+]?\d", operand):
        return operand.rstrip("fFuUlL") if operand[:2] != "0x" else operand
    name = operand.lstrip("%@-+([{ ])")
    return f"%{re.split(r'[^A-Za-z0-9_]', name)[0]}" if name else "%a"


_C_LOOP = re.compile(
    r"\s*for\s*(?P<at>\()(?:[\w:]+\s+)*%?(?P<i>\w+)\s*=\s*%?(?P<low>[\w.]+)\s*[;,]?\s*%?\w+\s*(?P<sign><=?|!=)\s*%?(?P<high>[\w.]+)"
    r"(?:\s*[;,]?\s*(?:%?\w+\s*(?:\+=|=\s*%?\w+\s*\+)\s*%?(?P<step>[\w.]+))?)?",
    re.ASCII,
)
_PYTHON_LOOP = re.compile(
    r"\s*for\s+%?(?P<i>\w+)\s+(?P<at>in)\b"
    r"(?:\s*(?:(?:tl\.)?range\s*\(|(?=%?\w+\s*\.\.))(?:%?(?P<low>\w+)\s*(?:,|\.\.(?P<sign>=?))\s*)?%?(?P<high>\w+)\)?)?",
    re.ASCII,
)


_INDEX = re.compile(
    rf"\s*{_RESULTS}?(?P<op>(?P<name>load|store)\s+(?:[^@,]+,\s*)?(?P<buffer>@[\w.$]+))\s*,\s*(?P<at>(?:%[\w.$]+|\d+)(?:\s*,\s*(?:%[\w.$]+|\d+))*)",
    re.ASCII,
)


def _index(statement: Statement) -> Advice | None:
    """`load @x, %i`, whose index follows a comma."""
    match = _INDEX.match(statement.line)
    if match is None:
        return None
    message = f"the index of {match['name']} stands in brackets"
    return statement.at(*match.span("at"), message, f"write {match['op']}[{match['at']}]")


def _for(statement: Statement) -> Advice | None:
    """A loop of C, of Python or of Rust."""
    match = _C_LOOP.match(statement.line) or _PYTHON_LOOP.match(statement.line)
    if match is None:
        return None
    low, high = match["low"] or "0", match["high"] or "256"
    bounds = [b if b.isdigit() else f"%{b.replace('.', '_')}" for b in (low, high)]
    step = match.groupdict().get("step") or "1"
    step = step if step.isdigit() else f"%{step}"
    if match.groupdict().get("sign") in ("<=", "="):
        bounds[1] = str(int(high) + 1) if high.isdigit() else f"{bounds[1]}_end"
    help = f"write for %{match['i']} = {bounds[0]} to {bounds[1]} step {step} {{"
    if bounds[1].endswith("_end"):
        help += f", behind {bounds[1]} = add %{high}, 1 : u32"
    return statement.at(*match.span("at"), "a for counts `= LOWER to UPPER step STEP`", help)


_STORED = re.compile(
    r"\s*(?P<at>[%@]?[A-Za-z_]\w*)\s*\[(?P<i>[^\]]*)\]\s*[-+*/]?=(?!=)\s*(?P<v>%?\w*)", re.ASCII
)
_ASSIGNED = r"\s*(?P<result>%[\w.$]+)\s*=(?!=)\s*"
_LOADED = re.compile(rf"{_ASSIGNED}(?P<at>[%@]?[A-Za-z_]\w*)\s*\[(?P<i>[^\]]*)\]", re.ASCII)
_COPY = re.compile(rf"{_ASSIGNED}(?P<at>%[\w.$]+)\s*[;,]?\s*$", re.ASCII)
_NUMBER = re.compile(rf"{_ASSIGNED}(?P<at>-?(?:\d[\w.]*|true|false)\b)", re.ASCII)
_COMPOUND = re.compile(r"\s*(?P<at>%?[A-Za-z_]\w*)\s*(?P<sign>[-+*/%&|^]|<<|>>)=\s*(?P<b>%?[\w.]*)", re.ASCII)
_COUNTED = re.compile(r"\s*(?:(?P<at>[A-Za-z_]\w*)\s*(?:\+\+|--)|(?:\+\+|--)(?P<name>\w+))", re.ASCII)
_UNSIGNED = re.compile(r"\s*(?P<at>[A-Za-z_]\w*)\s*(?::\s*\w+\s*)?=(?!=)\s*", re.ASCII)
_TYPED = re.compile(r"\s*(?P<name>%[\w.$]+)\s*(?P<at>:\s*[A-Za-z_][\w<> ]*?)\s*=(?!=)", re.ASCII)
_CAST_CALL = re.compile(
    rf"(?:{_ASSIGNED})?\s*(?P<at>(?P<type>[A-Za-z_]\w*))\s*\(\s*(?P<a>%?\w+)\s*\)", re.ASCII
)
_C_CAST = re.compile(rf"{_ASSIGNED}(?P<at>\(\s*(?P<type>\w+)\s*\))\s*(?P<a>%?\w+)", re.ASCII)
_CALL = re.compile(rf"(?:{_ASSIGNED})?\s*(?P<name>@?[A-Za-z_]\w*)\s*(?P<at>\()(?P<args>[^()]*)\)?", re.ASCII)


def _element_access(statement: Statement) -> Advice | None:
    """`@y[%i] = %a`, `y[i] = a`, `%r = @x[%i]`, `%r = x[i]`."""
    stored = _STORED.match(statement.line)
    loaded = _LOADED.match(statement.line)
    match = stored or loaded
    if match is None:
        return None
    name = match["at"].lstrip("%@")
    if name in OPS:
        return None
    dtype = str(statement.buffers[name].dtype) if name in statement.buffers else "f32"
    index = match["i"] if re.fullmatch(r"%[\w.$]+", match["i"]) else "%i"
    if stored is not None:
        value = stored["v"] if stored["v"].startswith("%") else "%v"
        help = f"write store {value}, @{name}[{index}] : {dtype}"
        return statement.at(*match.span("at"), "nothing is assigned here; a store writes an element", help)
    help = f"write {match['result']} = load @{name}[{index}] : {dtype}"
    return statement.at(*match.span("at"), "an op is missing; a load reads an element", help)


def _copy(statement: Statement) -> Advice | None:
    """`%r = %a`, `%r = 3`."""
    if match := _COPY.match(statement.line):
        help = f"use {match['at']} in the place of {match['result']}: a value never changes"
        return statement.at(*match.span("at"), "expected an op; a value has one name", help)
    if match := _NUMBER.match(statement.line):
        number = match["at"]
        dtype = "bool" if number in ("true", "false") else "f32" if "." in number else "u32"
        help = f"write {match['result']} = const {number if dtype == 'bool' else _as_value(number)} : {dtype}"
        return statement.at(*match.span("at"), "expected an op", help)
    return None


def _change(statement: Statement) -> Advice | None:
    """`r += 1`, `i++`."""
    if match := _COMPOUND.match(statement.line):
        name = match["at"].lstrip("%")
        text = f"%{name} {match['sign']} {match['b'] or 'b'}"
        written = ", then ".join(_lines_of(statement, text, f"%{name}_2") or [f"%{name}_2 = {text}"])
        help = f"write {written}; a loop carries it by iter(%{name} = %start : u32)"
        return statement.at(*match.span("at"), "a value never changes", help)
    if match := _COUNTED.match(statement.line):
        help = f"a loop counts by itself: for %{match['at'] or match['name']} = 0 to 256 step 1 {{"
        return statement.at(match.start(), match.end(), "a value never changes", help)
    return None


def _definition(statement: Statement) -> Advice | None:
    """`r = ...` without the %, `%r : f32 = ...`."""
    if match := _UNSIGNED.match(statement.line):
        help = f"write %{match['at']} = with the op behind it{_right_side(statement, match)}"
        return statement.at(*match.span("at"), "a value's name begins with %", help)
    if match := _TYPED.match(statement.line):
        help = f"the type stands behind the op: {match['name']} = const 1 {match['at']}"
        return statement.at(*match.span("at"), "a type before the `=`", help)
    return None


def _right_side(statement: Statement, assigned: re.Match[str]) -> str:
    """Counterpart of the right side of `name = ...` here, for the end of a help line; "" if that is not known."""
    line = f"%{assigned['at']} = {statement.line[assigned.end() :]}"
    word = _FIRST_WORD.match(line)
    row = lookup(word["word"], ("op",)) if word is not None else None
    if row is not None:
        return f"; {row.help}"
    operation = _expression(replace(statement, line=line))
    return f": {operation.help.removeprefix('write ')}" if operation is not None else ""


def _cast(statement: Statement) -> Advice | None:
    """`f32(%i)`, `(float)%i`."""
    match = _CAST_CALL.match(statement.line) or _C_CAST.match(statement.line)
    row = lookup(match["type"], ("type",)) if match is not None else None
    if match is None or (row is None and match["type"] not in DataType.all_names()):
        return None
    operand, result = _as_value(match["a"]), match["result"] or "%r"
    target = row.here if row else match["type"]
    help = f"write {result} = cast {operand} : {statement.type_of(operand)} -> {target}"
    return statement.at(*match.span("at"), "a cast is an op", help)


_CAST_COMMA = re.compile(
    rf"{_ASSIGNED}cast\s+(?P<a>%[\w.$]+)\s*(?P<at>,|to\b|as\b)\s*(?P<type>\w+)", re.ASCII
)


def _cast_to(statement: Statement) -> Advice | None:
    """`cast %i, f32`."""
    match = _CAST_COMMA.match(statement.line)
    if match is None:
        return None
    help = f"write {match['result']} = cast {match['a']} : {statement.type_of(match['a'])} -> {match['type']}"
    return statement.at(*match.span("at"), "a conversion is written with ->", help)


_OPERAND_NAME = re.compile(rf"{_ASSIGNED}(?P<op>[a-z]\w*)\s[^@]*(?P<at>@[\w.$]+)(?!\s*[\[\w.$])", re.ASCII)


def _operand_name(statement: Statement) -> Advice | None:
    """`mul %v, @a`: a param or a buffer where a value is wanted."""
    match = _OPERAND_NAME.match(statement.line)
    row = OPS.get(match["op"]) if match is not None else None
    if match is None or row is None or row.attrs or row.effects:
        return None
    name = match["at"]
    if name[1:] in statement.buffers:
        element = f"{name}[%i] : {statement.buffers[name[1:]].dtype}"
        help = f"read an element before: %{name[1:]}_i = load {element}"
    else:
        operands = re.findall(r"%[\w.$]+", statement.line[match.end("op") :])
        dtype = statement.type_of(*operands)
        kind = "spec" if re.search(rf"\bspec\s+{re.escape(name)}\b", statement.before) else "param"
        help = f"read it before: %{name[1:]} = {kind} {name} : {dtype}, and write %{name[1:]} here"
    return statement.at(*match.span("at"), "an operand is a value", help)


_KERNEL_CALL = re.compile(r"\s*(?P<at>[a-z_]\w*)\s*\(", re.ASCII)


def _kernel_stage(statement: Statement) -> Advice | None:
    """`softmax(@x, @y)`, without the package of the kernel."""
    match = _KERNEL_CALL.match(statement.line) if statement.context == "stage" else None
    name = match and next((name for name in NAMED_KERNELS if name.rpartition(".")[2] == match["at"]), None)
    if match is None or name is None:
        return None
    return statement.at(*match.span("at"), "the name of a kernel has two parts", f"write {name}(...)")


def _call(statement: Statement) -> Advice | None:
    """Operands in parentheses: `add(%a, %b)`; a function without `call`: `@f(%a)`."""
    match = _CALL.match(statement.line)
    if match is None:
        return None
    name, args = match["name"], match["args"].strip()
    operands = [_as_value(arg.strip()) for arg in args.split(",")] if args else []
    dtype, result = statement.type_of(*operands), f"{match['result']} = " if match["result"] else ""
    if name.startswith("@"):
        types = ", ".join(statement.type_of(operand) for operand in operands)
        help = f"write {result}call {name}({', '.join(operands)}) : ({types}) -> {dtype}"
        return statement.at(*match.span("name"), "a function is called by `call`", help)
    row = OPS.get(name)
    if row is None or row.kernel is not None or row.effects & {"control", "trap", "print"} or name == "call":
        return None
    written = f"{name} {', '.join(operands)} : {dtype}" if operands else name
    if any(attr.name == "buffer" for attr in row.attrs):
        written = SYNTAX[row.format].example.format(name=name, type="f32").removeprefix("%r = ")
        if args.startswith("@"):
            written = re.sub(r"@[\w.$]+", args.partition(",")[0].strip(), written)
    help = f"write {result}{written}"
    return statement.at(*match.span("at"), "operands stand without parentheses", help)


_MLIR_BASE = r"[?\dx]*x(?P<element>[a-z]\w*)"


def _type(statement: Statement) -> Advice | None:
    """Types of MLIR and of C: `vector<4xf32>`, `memref<?xf32>`, `!llvm.ptr`, `f32*`."""
    line = statement.line
    if match := re.search(r"(?P<at>vector<(?P<lanes>\d+)x(?P<element>\w+)>)", line):
        help = f"write vec<{match['lanes']} x {_element(match['element'])}>"
        return statement.at(*match.span("at"), "MLIR's vector is vec here", help)
    if match := re.search(rf"(?P<at>(?:memref|tensor)<(?P<shape>{_MLIR_BASE})[^>]*>)", line):
        sizes = re.findall(r"\?|\d+", match["shape"][: -len(match["element"])])
        element = _element(match["element"])
        name = "memref" if match["at"].startswith("memref") else "tensor"
        if statement.context == "flag" or re.match(r"\s*buffer\b", line):
            help = f"write {element}[{', '.join(sizes) or '1'}]"
            declared = re.search(r"buffer\s+(@[\w.$]+)", line)
            whose = f"buffer {declared[1]}: " if declared is not None else ""
            return statement.at(*match.span("at"), f"{whose}{match['at']} is a type of MLIR", help)
        help = f"write {element} behind an op; the buffer is declared once, buffer @x : {element}[{', '.join(sizes) or '1'}] read binding(0)"
        return statement.at(*match.span("at"), f"a {name} is no type of a value here", help)
    if match := re.search(r"(?P<at>![A-Za-z_][\w.]*)", line):
        row = lookup(match["at"].rpartition(".")[2].lstrip("!"), ("type",))
        help = f"write {row.here if row else 'u32, f32, bool, vec<4 x f32> or the like'}"
        return statement.at(*match.span("at"), "types have no dialect", help)
    if match := re.search(r":\s*(?P<type>[A-Za-z_]\w*)\s*(?P<at>[*&])", line):
        row = lookup(match["type"], ("type",))
        help = f"write {row.here if row else match['type']}[?]: a buffer's type is that of an element"
        return statement.at(*match.span("at"), "there are no pointers", help)
    if match := re.match(r"\s*buffer\s+@[\w.$]+\s*:\s*[\w<> ]+\[\d+\](?P<at>\[[\d?]+\])", line):
        help = (
            "a buffer has one dimension: declare rows * columns elements, and compute row * columns + column"
        )
        return statement.at(*match.span("at"), "a second dimension", help)
    return None


def _element(name: str) -> str:
    row = lookup(name, ("type",))
    return row.here if row else name


Mark = tuple[str, str, str]
"""Pattern of a construct, with its place as the group `at`; the message; the help, in which {fixed} is the line with an @ there, and {moved}
with the construct behind the operands."""

_MARKS: list[Mark] = [
    (r"\s*(?P<at>\^\w*)", "there are no labels", "control flow has blocks: if %p { } else { }, for, while"),
    (r"(?P<at>/\*)", "no comment begins so", "a comment runs from // to the end of its line"),
    (r"\s*(?P<at>#\s*pragma\b.*)", "there are no directives", "unrolling is the pass unroll: --pass=unroll"),
    (r"\s*(?P<at>#\s*(?:include|define|if|ifdef|ifndef|endif)\b.*)", "there is no preprocessor",
     "a constant that is set from outside is spec @k : u32 = 4"),
    (r"\s*(?P<at>#\w+)\s*=", "attributes have no names", "write them where they are used"),
    (r"(?P<at>#)", "no comment begins so", "a comment runs from // to the end of its line"),
    (r"(?P<at>\"\"\"|''')", "no comment begins so", "a comment runs from // to the end of its line"),
    (r"\s*(?P<at>%[\w.$]+:\d+)\s*=", "results are named one by one", "write %a, %b = with the op behind it"),
    (r"(?P<at>%\w+#\d+)", "a value is one result", "name the results %a, %b = and use one of them"),
    (r"(?P<at>[\w@.$]+\s*<<<[^>]*>*)", "a launch is a stage of a pipeline", "write launch @name grid(64) (@x, @y)"),
    (r"\s*(?P<at>@!?%\w+)\s+\w", "an op has no predicate", "write if %p { } around it"),
    (r".*\bcall\s+(?P<at>[A-Za-z_]\w*)\s*\(", "a function's name begins with @", "write call @f(%a) : (f32) -> f32"),
    (r".*\b(?:load|store\s+%[\w.$]+\s*,)\s*(?P<at>[A-Za-z_]\w*)\s*\[", "a buffer's name begins with @",
     "write {fixed}"),
    (r".*\b(?:bit)?cast\b.*:\s*[\w<> ]+?\s*(?P<at>\b(?:to|as|into)\b|,|=>)", "a conversion is written with ->",
     "write cast %a : f32 -> f16"),
    (r"(?P<at>\bbinding\s*[=:]?\s*\d+)", "binding is written binding(N)", "write buffer @x : f32[?] read binding(0)"),
    (r".*\}?\s*else\s+(?P<at>if)\b", "an else has a block", "write else { if %q { } }, with both braces"),
    (r"\s*(?P<at>do)\s*\{", "a while has a condition block, then `do` and its body",
     "write while iter(...) { condition %c } do { yield %next }"),
    (r"\s*%[\w.$]+\s*=\s*load\s+(?P<at>%[\w.$]+)\s*\[", "a buffer's name begins with @",
     "write {fixed}"),
    (r"\s*store\s+%[\w.$]+\s*,\s*(?P<at>%[\w.$]+)\s*\[", "a buffer's name begins with @",
     "write {fixed}"),
    (r"\s*(?:param|spec|buffer)\s+(?P<at>%[\w.$]+)\s*:", "the name of a param, a spec constant or a buffer begins with @",
     "write param @a : f32, and where its value is used %a = param @a : f32"),
    (r"\s*%[\w.$]+\s*=\s*\w+\s+(?P<at>fastmath\s*<[^>]*>)\s*[%\w]", "flags stand behind the operands", "write {moved}"),
    (r".*(?P<at>\?)\s*[^:\]\s]+\s*:", "? is no operator here; ops have names", "write %r = select %p, %a, %b : f32"),
]  # fmt: skip
_LAST_MARKS: list[Mark] = [
    (r".*(?P<at>->)\s*\w+\s*\{", "only an if, a region, a call or a func has `->`", "write if %p -> f32 {"),
    (r".*?(?P<at>;)", "nothing stands between ops", "leave the ; out"),
    (r".*?(?P<at>(?<![\w\]])[&*]\s*[A-Za-z_]\w*)", "there are no pointers", "a buffer and an index: load @x[%i] : f32"),
]  # fmt: skip


def _marked(marks: list[Mark]) -> Callable[[Statement], Advice | None]:
    """Finds the first of `marks`, at the start of a statement, or anywhere if its pattern begins with its place."""
    patterns = [(re.compile(pattern, re.ASCII), message, help) for pattern, message, help in marks]

    def find(statement: Statement) -> Advice | None:
        for pattern, message, help in patterns:
            is_anywhere = pattern.pattern.startswith("(?P<at>")
            match = (pattern.search if is_anywhere else pattern.match)(statement.line)
            if match is not None:
                begin, end = match.span("at")
                fixed = (
                    f"{statement.line[:begin]}@{match['at'].removeprefix('%')}{statement.line[end:]}".strip()
                )
                rest, colon, dtype = (
                    (statement.line[:begin] + statement.line[end:].lstrip()).strip().partition(" : ")
                )
                moved = f"{rest} {match['at']}{colon}{dtype}"
                written = help.replace("{fixed}", fixed).replace("{moved}", moved)
                return statement.at(begin, end, message, written)
        return None

    return find


_CONSTRUCTS = (
    _marked(_MARKS),
    _for,
    _index,
    _type,
    _expression,
    _element_access,
    _copy,
    _change,
    _definition,
    _operation,
    _cast,
    _cast_to,
    _operand_name,
    _kernel_stage,
    _call,
    _marked(_LAST_MARKS),
)
"""The more particular first."""


def foreign_construct(statement: Statement) -> Advice | None:
    """Construct of another language in the statement around the token that does not fit."""
    return next((advice for construct in _CONSTRUCTS if (advice := construct(statement))), None)
