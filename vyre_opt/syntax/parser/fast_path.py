"""Ops in their usual short form, read by one regular expression instead of token by token.

    a list of ops --pattern--> the parts of an op --its format's parse--> Op, and on to the next
                        |                                |
                        +------- anything else ----------+--> the parse loop reads it by the tables

Only what is surely well-formed is taken: an op has the parts of its format, its operands are visible, its result
is new, and behind it stands what may follow an op.  All else is read by the tables, so every diagnostic is
theirs; after the first one they read the rest of the text, too.
"""

from __future__ import annotations

import re
from functools import cache
from itertools import pairwise
from typing import Any

from ...ir.diagnostics import Location
from ...ir.formats import FORMATS
from ...ir.literals import Literal, LiteralError, read_int
from ...ir.ops import OPS, OpDef
from ...ir.program import NO_ATTRS, Op, Value
from ...ir.types import MIN_VECTOR_LANES, DataType
from ..inline_constants import constant_roles
from ..op_syntax import SYNTAX, MalformedOp, Tail, fastmath_flags
from .op_actions import OpActions
from .parse_loop import ParserStack
from .short_forms import NAME, RESULT, UNNAMED, ShortForm, is_simple, short_forms
from .tables import Tables

__all__ = ["FastPath"]

_BOOL = DataType.BOOL
_ROWS = {name: row for name, row in OPS.items() if is_simple(row)}
_ELEMENTWISE = {
    name: (row, FORMATS[row.format].operands or 0, row.format == "compare")
    for name, row in _ROWS.items()
    if SYNTAX[row.format].parse is SYNTAX["binary"].parse
}
"""Most ops of most texts: the row, the number of operands, and whether it compares them."""


class _Unsupported(Exception):
    """An op that the tables read."""


@cache
def _op_lists(tables: Tables) -> dict[int, int]:
    """The states in which an op may begin, each with the state behind the list that the op is the first or next of."""
    op = next(rule.lhs for rule in tables.rules if rule.action == "op_results")
    lists: dict[int, int] = {}
    for state, gotos in enumerate(tables.gotos):
        if op in gotos:
            (reduction,) = set(tables.actions[gotos[op]].values())  # to a list of one, or to a longer list
            rule = tables.rules[-reduction - 1]
            lists[state] = state if rule.action == "+" else gotos[rule.lhs]
    return lists


@cache
def _before_ops(tables: Tables) -> frozenset[int]:
    """The symbols behind which an op may begin."""
    lists = _op_lists(tables)
    return frozenset(symbol for gotos in tables.gotos for symbol, state in gotos.items() if state in lists)


class FastPath:
    """Reads ops of one text.  `follows`: the symbols of the grammar behind which there may be some to read."""

    def __init__(self, tables: Tables, actions: OpActions) -> None:
        self.tables = tables
        self.actions = actions
        self.follows = _before_ops(tables)
        self._lists = _op_lists(tables)
        self._types: dict[str, DataType] = {}
        self._forms = short_forms()

    def read(self, stack: ParserStack, start: int) -> int:
        """Add the ops from `start` on to the list on top of the stack, or begin one.  Returns the offset behind them."""
        state = stack.states[-1]
        behind = self._lists.get(state)
        if behind is None or self.actions.error_count:
            return start
        ops: list[Op] = []
        end = self._read_ops(start, ops, self.tables.actions[behind])
        if behind == state:
            stack.values[-1] += ops
        elif ops:
            stack.states.append(behind)
            stack.values.append(ops)
            stack.offsets.append(start)
        return end

    def _read_ops(self, start: int, ops: list[Op], following: dict[int, int]) -> int:
        """Append the ops from `start` on to `ops`.  `following`: the terminals that may stand behind an op."""
        source, scope, names = self.actions.source, self.actions.scope, self.actions.scopes[-1]
        types, forms, elementwise = self._types, self._forms.by_last_group, self._forms.elementwise
        new, last_elementwise = object.__new__, elementwise.type
        has_constants = self.actions.module.version > 1
        groups = RESULT, NAME, elementwise.operands, elementwise.fastmath, elementwise.type
        offset = start
        for match, after in pairwise(self._forms.pattern.finditer(source.text, start)):
            last = match.lastindex
            if last is None or (after.lastindex is None and self._terminal(after.start()) not in following):
                break
            try:
                result, name, text, flags, type_text = match.group(*groups)
                entry = _ELEMENTWISE.get(name) if last == last_elementwise else None
                if entry is None:
                    ops.append(self._op(match, forms[last]))
                    offset = match.end()
                    continue
                # What `parse` of these formats does with a Tail, and then `op_results`, written out for speed
                row, count, compares = entry
                dtype = types.get(type_text) or self._type(type_text)
                operands: tuple[Value, ...]
                if has_constants and text.count("%") < count:
                    operands = self._with_constants(row, text, match.start(elementwise.operands), dtype)
                elif count == 2:
                    left, _, right = text.partition(", ")
                    operands = scope[left], scope[right]
                else:
                    operands = tuple(map(scope.__getitem__, text.split(", ")))
                if len(operands) != count or result in scope:
                    break
                if compares:
                    if dtype is not operands[0].type or dtype.is_matrix:
                        break
                    dtype = dtype.with_element(_BOOL)
                attrs = NO_ATTRS if flags is None else {"fastmath": fastmath_flags(_words(flags))}
            except (KeyError, _Unsupported, MalformedOp, LiteralError):
                self._forget_errors()
                break
            # the constructors would take a third of the time of all this
            value, op, loc = new(Value), new(Op), new(Location)
            loc.source, loc.start, loc.end = source, offset, match.end(last)
            value.name, value.type, value.owner = result[1:], dtype, op
            op.definition, op.operands, op.results, op.attrs = row, operands, (value,), attrs
            op.regions, op.loc = (), loc
            scope[result] = value
            names.append(result)
            ops.append(op)
            offset = match.end()
        return offset

    def _terminal(self, start: int) -> int:
        """The terminal of the token at an offset, which the parse loop reads next."""
        match = self.tables.pattern.match(self.actions.source.text, start)
        assert match is not None and match.lastindex is not None, "the pattern has a group for any character"
        return self.tables.keywords.get(match[match.lastindex], match.lastindex)

    def _op(self, match: re.Match[str], form: ShortForm) -> Op:
        """The op of a match, by the `parse` of its format.  Raises _Unsupported, KeyError, MalformedOp or LiteralError."""
        actions = self.actions
        result, name, unnamed = match.group(RESULT, NAME, UNNAMED)
        row = _ROWS[name or unnamed]
        loc = Location(actions.source, match.start(), match.end(match.lastindex or 0))
        tail = self._tail(match, form)
        if actions.has_pending or (tail.dtype is None and row.name == "load"):
            if form.symbol and match[form.symbol] not in actions.declared:
                raise _Unsupported
            tail = actions.typed_tail(row, tail, loc.start, loc.end)
            if actions.error_count:
                raise _Unsupported
        operands, types, attrs = SYNTAX[row.format].parse(row, tail)
        if result is None:
            return actions.finish(row, operands, types, attrs, (), None, loc)
        if len(types) != 1 or result in actions.scope:
            raise _Unsupported
        value = Value(result[1:], types[0])
        actions.define(result, value, match.start())
        return Op(row, operands, (value,), attrs, (), loc)

    def _tail(self, match: re.Match[str], form: ShortForm) -> Tail:
        """The parts of an op as the actions of the grammar give them."""
        modifiers = _words(match[form.words]) if form.words else []
        if form.word:
            modifiers = [match[form.word]]
            if modifiers[0] not in self.tables.keywords:  # the only words that may stand there
                raise _Unsupported
        if form.fastmath and match[form.fastmath] is not None:
            raise _Unsupported
        operands = self._operands(match, form.operands)
        indices = self._operands(match, form.indices)
        access: tuple[Any, ...] | None = None
        if form.literal:
            access = "literal", (), self._literal(match[form.literal])
        elif form.lane:
            access = "lane", operands, read_int(match[form.lane][1:-1])
        elif form.symbol and not form.indices:
            access = "symbol", (), match[form.symbol]
        elif form.symbol and form.operands:
            access = "store", [*operands, *indices], match[form.symbol], len(indices)
        elif form.symbol and form.values:
            access = (
                "atomic",
                [*indices, *self._operands(match, form.values)],
                match[form.symbol],
                len(indices),
            )
        elif form.symbol:
            access = "load", indices, match[form.symbol]
        dtype = self._type(match[form.type]) if form.type else None
        target = self._type(match[form.target]) if form.target else None
        return Tail(modifiers, access[1] if access else operands, access, None, dtype, target)

    def _type(self, text: str) -> DataType:
        """A type that has been made before.  Raises KeyError."""
        dtype = DataType._interned[text]
        if dtype.is_vec and dtype.lanes < MIN_VECTOR_LANES:
            raise _Unsupported  # Python can make it, but no text has it
        self._types[text] = dtype
        return dtype

    def _operands(self, match: re.Match[str], group: int) -> list[Value]:
        """The visible values, and the constants in place, in a group of the pattern.  Raises KeyError or _Unsupported."""
        if not group:
            return []
        scope, text = self.actions.scope, match[group].strip("[]")
        names = text.split(", ")
        if "%" in text and text.count("%") == len(names):
            return [scope[name] for name in names]
        if self.actions.module.version < 2:
            raise _Unsupported
        offset = self.actions.source.text.index(text, match.start(group))
        operands = []
        for name in names:
            is_value = name.startswith("%")
            operands.append(scope[name] if is_value else self._constant(name, offset))
            offset += len(name) + len(", ")
        return operands

    def _with_constants(self, row: OpDef, text: str, offset: int, dtype: DataType) -> tuple[Value, ...]:
        """The operands of an op whose T is `dtype`.  Raises KeyError or _Unsupported."""
        actions, operands = self.actions, list[Value]()
        names = text.split(", ")
        roles = constant_roles(row, len(names))
        if len(roles) != len(names):
            raise _Unsupported
        for name, role in zip(names, roles, strict=True):
            is_value = name.startswith("%")
            operands.append(
                actions.scope[name]
                if is_value
                else actions.typed_as(role, self._constant(name, offset), dtype)
            )
            offset += len(name) + len(", ")
        actions.has_pending = False
        if actions.error_count:
            raise _Unsupported
        return tuple(operands)

    def _constant(self, text: str, offset: int) -> Value:
        return self.actions.constant(offset, offset + len(text), self._literal(text))

    def _forget_errors(self) -> None:
        """Drop the errors of an op that the tables read again, with their messages.  There were no errors before it."""
        actions = self.actions
        actions.has_pending = False
        actions.diagnostics.clear()
        actions.first_errors.clear()
        actions.repeated.clear()

    def _literal(self, text: str) -> Literal:
        """A number or a bool, if the lexer takes the whole text for one."""
        match = self.tables.pattern.match(text)
        if match is None or match.lastindex is None or match.end() < len(text):
            raise _Unsupported
        kind = self.tables.terminals[match.lastindex]
        if kind in ("INT", "FLOAT"):
            return kind.lower(), text
        if text not in ("true", "false"):
            raise _Unsupported
        return "bool", text


def _words(text: str) -> list[str]:
    return [word.strip(" ") for word in text.split(",")]
