"""Semantic actions for ops without regions."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

from ...ir.carried_values import with_iter
from ...ir.diagnostics import Location
from ...ir.formats import FORMATS
from ...ir.literals import Literal, LiteralError
from ...ir.ops import OPS, OpDef
from ...ir.plugin_ops import find_op, known_names
from ...ir.plugins import PluginError
from ...ir.program import Block, Func, Op, Program, Value
from ...ir.types import UNKNOWN, DataType
from ...worker import import_module
from ..op_syntax import SYNTAX, MalformedOp, Tail, parse_op
from .constant_actions import ConstantActions
from .scopes import Symbol, result_names

_EMPTY_TAIL = Tail()
_PARTS_BEHIND = re.compile(r"[ \t]*(?:<[^>\n]*>|\w+)", re.ASCII)
_OPERANDS = re.compile(r"[ \t]+%[\w.$]++(?:, %[\w.$]++){0,9}(?=[ \t]*:)", re.ASCII)
_WORD = re.compile(r"\w+", re.ASCII)

BUFFER_FLAGS = ("read", "write", "read_write", "workgroup", "live_in", "live_out", "binding")


class OpActions(ConstantActions):
    """The parts of such an op, then the op."""

    # --- the parts of a simple op -----------------------------------------------------

    def tail_empty(self, start: int, end: int) -> Tail:
        return _EMPTY_TAIL

    def tail_operands(self, start: int, end: int, operands: list[Value]) -> Tail:
        return Tail((), operands)

    def tail_values(self, start: int, end: int, operands: list[Value], dtype: DataType) -> Tail:
        return Tail((), operands, None, None, dtype)

    def tail_convert(self, start: int, end: int, operands: list[Value], a: DataType, b: DataType) -> Tail:
        return Tail((), operands, None, None, a, b)

    def tail_fast(
        self, start: int, end: int, operands: list[Value], fastmath: list[str], dtype: DataType | None
    ) -> Tail:
        return Tail((), operands, None, fastmath, dtype)

    def tail_modified(
        self, start: int, end: int, modifiers: list[str], operands: list[Value] | None, dtype: DataType | None
    ) -> Tail:
        return Tail(modifiers, operands or (), None, None, dtype)

    def tail_access(
        self,
        start: int,
        end: int,
        modifiers: list[str] | None,
        access: tuple[Any, ...],
        fastmath: list[str] | None,
        dtype: DataType | None,
    ) -> Tail:
        return Tail(modifiers or (), access[1], access, fastmath, dtype)

    def modifiers(self, start: int, end: int, flags: list[str]) -> list[str]:
        return flags

    def access_symbol(self, start: int, end: int, symbol: Symbol) -> tuple[Any, ...]:
        return "symbol", (), symbol[0]

    def access_dimension(self, start: int, end: int, symbol: Symbol, number: str) -> tuple[Any, ...]:
        return "dimension", (), symbol[0], self.integer(start, end, number)

    def access_load(self, start: int, end: int, symbol: Symbol, indices: list[Value]) -> tuple[Any, ...]:
        return "load", indices, symbol[0]

    def access_atomic(
        self, start: int, end: int, symbol: Symbol, indices: list[Value], values: list[Value]
    ) -> tuple[Any, ...]:
        return "atomic", [*indices, *values], symbol[0], len(indices)

    def access_store(
        self, start: int, end: int, values: list[Value], symbol: Symbol, indices: list[Value]
    ) -> tuple[Any, ...]:
        return "store", [*values, *indices], symbol[0], len(indices)

    def access_lane(self, start: int, end: int, values: list[Value], index: str) -> tuple[Any, ...]:
        return "lane", values, self.integer(start, end, index)

    def literal_int(self, start: int, end: int, text: str) -> Literal:
        return "int", text

    def literal_float(self, start: int, end: int, text: str) -> Literal:
        return "float", text

    def literal_true(self, start: int, end: int) -> Literal:
        return "bool", "true"

    def literal_false(self, start: int, end: int) -> Literal:
        return "bool", "false"

    # --- simple ops -------------------------------------------------------------------

    def op_results(self, start: int, end: int, results: str, name: str, tail: Tail) -> Op | None:
        row = OPS.get(name) or self.plugin_op(name, self.source.text.find(name, start + len(results)))
        loc = Location(self.source, start, end)
        if row is not None:
            if self.has_pending or (tail.dtype is None and name == "load"):
                tail = self.typed_tail(row, tail, start, end)
            try:
                operands, types, attrs = parse_op(row, tail)
            except (MalformedOp, LiteralError) as error:
                at = self.source.text.find(name, start + len(results))
                self.malformed(row, tail, error, start, at, end)
            else:
                if "," not in results and len(types) == 1:  # the common case, in line for speed
                    token = results[:-1].rstrip()
                    value = Value(token[1:], types[0])
                    if token in self.scope:
                        self.define(token, value, start)
                    else:
                        self.scope[token] = value
                        self.scopes[-1].append(token)
                    return Op(row, operands, (value,), attrs, (), loc)
                return self.finish(row, operands, types, attrs, (), results, loc)
        self.poison(results)
        return None

    def op_bare(self, start: int, end: int, name: str, tail: Tail) -> Op | None:
        row = OPS.get(name)
        loc = Location(self.source, start, end)
        if row is None:
            self.unknown_word(name, start, is_bare=True)
            if tail.access is not None and tail.access[0] == "symbol":  # perhaps a misspelt declaration
                self.holes.add_lost_names(self.owners[0], (tail.access[2],))
                self.holes.mark_invalid(self.owners[0])
            return None
        if self.has_pending:
            tail = self.typed_tail(row, tail, start, end)
        try:
            operands, types, attrs = parse_op(row, tail)
        except (MalformedOp, LiteralError) as error:
            if self._follows_buffer(start):  # a flag of another language that is an op here
                self.unknown_word(name, start, is_bare=True)
            else:
                self.malformed(row, tail, error, start, start, end)
            return None
        return self.finish(row, operands, types, attrs, (), None, loc)

    def plugin_op(self, name: str, start: int) -> OpDef | None:
        """The row of an op or kernel that another package declares; None, after an error, if none does."""
        try:
            row = find_op(name)
        except PluginError as error:
            self.error(str(error), start, start + len(name))
            return None
        if row is None:
            self.unknown_word(name, start)
        return row

    def malformed(
        self, row: OpDef, tail: Tail, wrong: MalformedOp | LiteralError, start: int, name_start: int, end: int
    ) -> None:
        """Report that the parts of an op do not fit its format: at the number or word that is to blame, if one is.

        `start`: of the statement; `name_start`: of the op's name.
        """
        import_module("vyre_opt.syntax.synonyms")
        from ..synonyms import lookup

        message = str(wrong)
        own = wrong.help if isinstance(wrong, MalformedOp) else None
        function = self.owners[0]
        if tail.access is not None and tail.access[0] in ("load", "store") and isinstance(function, Func):
            message = "a function cannot touch buffers"  # whatever else is wrong
            own = f"{tail.access[0]} in the program that calls @{function.name}, and pass the value"
        text, behind = self.source.text, name_start + len(row.name)
        if (
            tail is _EMPTY_TAIL
        ):  # what follows the name is none of its parts, and would only be wrong once more
            line_end = text.find("\n", name_start)
            self.reported_until = len(text) if line_end < 0 else line_end
        following = _PARTS_BEHIND.match(text, behind)
        parts = list(_WORD.finditer(text, *following.span())) if following is not None else []
        kinds = [attr.name for attr in row.attrs if attr.kind == "word"]
        for part in parts:
            if synonym := lookup(part.group(), kinds):
                self.error(f"{row.name}: {message}", *part.span(), synonym.help)
                return
        word = parts[0].group() if parts else ""
        is_type = word in DataType.all_names() and SYNTAX[row.format].has_type
        help = f"the type stands behind the operands: {row.name} ... : {word}" if is_type else None
        if help is None and ("operand" in message or message.startswith("needs its")):
            example = SYNTAX[row.format].example.format(name=row.name, type="f32")
            help = f"write {example.replace('%r =', text[start:name_start].strip() or '%r =', 1)}"
        message, colon, written = message.partition(": write ")
        help = (
            help or own or (f"write {written}" if colon else _with_type(tail, message, text[name_start:end]))
        )
        self.error(f"{row.name}: {message}", name_start, end, help)

    def op_spec(self, start: int, end: int, results: str, symbol: Symbol, dtype: DataType | None) -> Op:
        loc = Location(self.source, start, end)
        dtype = dtype or self._declared_type("spec constant", symbol[0], loc)
        if dtype is None:
            self.error("spec: needs its type: spec @name : u32", start, end)
        return self.finish(OPS["spec"], (), (dtype or UNKNOWN,), {"spec": symbol[0]}, (), results, loc)

    def op_param(self, start: int, end: int, results: str, symbol: Symbol, dtype: DataType | None) -> Op:
        loc = Location(self.source, start, end)
        dtype = dtype or self._declared_type("param", symbol[0], loc)
        if dtype is None:
            self.error("param: needs its type: param @name : u32", start, end)
        return self.finish(OPS["param"], (), (dtype or UNKNOWN,), {"param": symbol[0]}, (), results, loc)

    def _declared_type(self, kind: str, name: str, loc: Location) -> DataType | None:
        """Type of a spec constant or param, which version 2 may leave out where it is read; UNKNOWN after an error."""
        program = self.owners[0]
        if self.module.version < 2 or not isinstance(program, Program):
            return None
        if name not in self.scalars:
            self.undeclared(kind, name, self.scalars, program, loc)
        return self.scalars.get(name, UNKNOWN)

    def unknown_word(self, name: str, start: int, is_bare: bool = False) -> None:
        """Report a word in the place of an op's name, and suppress syntax errors in the rest of its line.

        Without a result (`is_bare`) the word may belong to an error earlier on its line, which is enough.
        """
        text, last = self.source.text, self.last_buffer
        if is_bare and (start < self.reported_until or self.has_error(text.rfind("\n", 0, start) + 1, start)):
            return
        line_end = text.find("\n", start)
        self.reported_until = len(text) if line_end < 0 else line_end
        if last is not None and self._follows_buffer(start):
            if not self.holes.is_invalid(last):
                help = f"the flags are {', '.join(BUFFER_FLAGS)}"
                error = self.error("not a buffer flag", start, start + len(name), help=help)
                error.suggestion = partial(self.advice, name, "flag", BUFFER_FLAGS)
                self.holes.mark_invalid(last)
        else:
            known = known_names() if "." in name else [*OPS]
            known += ["buffer", "spec", "param"] if len(self.owners) <= 1 else []
            error = self.name_error(f"unknown op {name[:40]}", start, start + len(name), None)
            error.suggestion = partial(self._op_meant, name, known, start + len(name))

    def _op_meant(self, name: str, known: list[str], end: int) -> str | None:
        """Advice about a misspelt op: of those spelled alike one that has as many operands as stand behind it, if there is one."""
        operands = _OPERANDS.match(self.source.text, end)
        count = operands[0].count(",") + 1 if operands else None
        alike = (op for op in known if op in OPS and FORMATS[OPS[op].format].operands == count)
        return self.advice(name, "op", [*alike], known)

    def _follows_buffer(self, start: int) -> bool:
        """Whether `start` lies behind the declaration of a buffer, on its line."""
        loc = self.last_buffer.loc if self.last_buffer is not None else None
        return loc is not None and "\n" not in self.source.text[loc.end : start]

    def finish(
        self,
        row: OpDef,
        operands: tuple[Value, ...],
        types: tuple[DataType, ...] | list[DataType],
        attrs: dict[str, Any],
        regions: tuple[Block, ...],
        results: str | None,
        loc: Location,
    ) -> Op:
        """Build the op and define its results; the number of names must be that of the results."""
        names = result_names(results) if results else []
        named = len(names)
        errors = self.error_count
        if named != len(types):
            if names or SYNTAX[row.format].needs_names:
                count = f"{len(types)} result{'s' * (len(types) != 1)}"
                help = None
                if row.format == "if" and not types:
                    help = f"say their types: write {', '.join(names)} = if %c -> {', '.join(['f32'] * named)} {{"
                elif row.name in ("for", "while") and named > len(types):
                    end = regions[-1].terminator if regions else None
                    help = with_iter(loc, end.operands if end is not None else (), names)
                    help = help or f"write {row.name} ... iter(%a = %start : f32) {{, a value for each name"
                self.error(f"{row.name} gives {count}, {named} named", loc.start, loc.end, help=help)
            types = [*types, *[UNKNOWN] * (named - len(types))]
        # a result may be left unnamed in the text, but each value needs a name to be printed
        names += [f"%_{i}" for i in range(named, len(types))]
        values = tuple(Value(name[1:], dtype) for name, dtype in zip(names, types, strict=False))
        op = Op(row, operands, values, attrs, regions, loc)
        if self.error_count > errors:
            self.holes.mark_invalid(op)
        for name, value in zip(names[:named], values, strict=False):
            self.define(name, value, loc.find(name).start)
        return op


def _with_type(tail: Tail, message: str, text: str) -> str | None:
    """An op with the type of its operands, where another is written, or one more; None for another mistake."""
    types = {value.type for value in tail.operands}
    before, colon, _ = text.rpartition(" : ")
    if message == "takes one type" and " -> " in text:
        return f"write {text.partition(' -> ')[0].rstrip()}"
    if (
        colon
        and "\n" not in text
        and len(types) == 1
        and tail.access is None
        and re.fullmatch(r"%\S+ is \S+, not \S+", message)
    ):
        return f"write {before} : {types.pop()}"
    return None
