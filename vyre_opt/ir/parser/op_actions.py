"""What the rules for ops build: scopes, simple ops by their form, control flow, the generic form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from ..diagnostics import Diagnostic, Location, Source, suggest
from ..literals import Literal, LiteralError, encode, read_int
from ..loops import BOUND_NAMES
from ..ops import AXES, FASTMATH, OPS, SCOPES, OpDef
from ..program import NO_ATTRS, Block, Op, Value
from ..types import DataType

MAX_NESTING = 200
ARITY = {"unary": 1, "binary": 2, "ternary": 3, "compare": 2, "select": 3, "convert": 1, "splat": 1,
         "shuffle": 2, "reduce": 1, "scan": 1, "ballot": 1, "id": 0, "size": 0}  # fmt: skip


class Tail(NamedTuple):
    """The parts of a simple op after its name."""

    words: tuple[str, ...] | list[str] = ()
    operands: list[Value] | tuple[Value, ...] = ()
    access: tuple[Any, ...] | None = None  # (kind, ...) as built by the access_ methods
    fastmath: list[str] | None = None
    dtype: DataType | None = None
    target: DataType | None = None


Built = tuple[tuple[Value, ...], tuple[DataType | None, ...], dict[str, Any]]
_EMPTY_TAIL = Tail()
_U32, _BOOL = DataType.U32, DataType.BOOL


class Malformed(Exception):
    """A simple op whose parts do not fit its form; the text says how it is written."""


class OpActions:
    """Scopes and ops.  `scope` maps a visible `%name` to its value."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.diagnostics: list[Diagnostic] = []
        self.scope: dict[str, Value] = {}
        self.scopes: list[list[str]] = []
        self.pending: tuple[Value, ...] | None = None  # arguments for the next block

    # --- errors and scopes ----------------------------------------------------------

    @property
    def error_count(self) -> int:
        return len(self.diagnostics)

    def error(self, message: str, place: int, end: int, help: str | None = None) -> Diagnostic:
        found = Diagnostic("error", message, Location(self.source, place, end), help=help)
        self.diagnostics.append(found)
        return found

    def open_scope(self) -> None:
        self.scopes.append([])

    def close_scope(self) -> None:
        for name in self.scopes.pop():
            self.scope.pop(name, None)

    def abandon(self, value: Any) -> None:
        """Forget a part that an error cut off: close its scope, poison what it would define."""
        self.pending = None
        if isinstance(value, Block) and self.scopes:
            self.close_scope()
        elif isinstance(value, str) and value[:1] == "%" and value[-1:] == "=" and self.scopes:
            for name in _names(value):
                self.scope.setdefault(name, Value(name[1:], None))  # type: ignore[arg-type]
                self.scopes[-1].append(name)

    def define(self, name: str, value: Value, place: int) -> None:
        """Make `%name` visible to the end of the current scope."""
        if name in self.scope:
            found = self.error(f"{name} is defined twice", place, place + len(name))
            owner = self.scope[name].owner
            if isinstance(owner, Op):
                found.note("first defined here", owner.loc)
            found.help = "an SSA value is assigned once; give this one another name"
        self.scope[name] = value
        self.scopes[-1].append(name)

    def use(self, name: str, place: int) -> Value:
        found = self.scope.get(name)
        if found is None:
            self.error(f"{name} is not defined", place, place + len(name), suggest(name, self.scope))
            found = Value(name[1:], None)  # type: ignore[arg-type]
        return found

    def operands_first(self, place: int, end: int, token: str) -> list[Value]:
        return [self.scope.get(token) or self.use(token, place)]

    def operands_next(self, place: int, end: int, values: list[Value], token: str) -> list[Value]:
        values.append(self.scope.get(token) or self.use(token, end - len(token)))
        return values

    # --- the parts of a simple op -----------------------------------------------------

    def tail_empty(self, place: int, end: int) -> Tail:
        return _EMPTY_TAIL

    def tail_operands(self, place: int, end: int, operands: list[Value]) -> Tail:
        return Tail((), operands)

    def tail_values(self, place: int, end: int, operands: list[Value], dtype: DataType) -> Tail:
        return Tail((), operands, None, None, dtype)

    def tail_convert(self, place: int, end: int, operands: list[Value], a: DataType, b: DataType) -> Tail:
        return Tail((), operands, None, None, a, b)

    def tail_fast(
        self, place: int, end: int, operands: list[Value], words: list[str], dtype: DataType | None
    ) -> Tail:
        return Tail((), operands, None, words, dtype)

    def tail_modified(
        self, place: int, end: int, words: list[str], operands: list[Value] | None, dtype: DataType | None
    ) -> Tail:
        return Tail(words, operands or (), None, None, dtype)

    def tail_access(
        self, place: int, end: int, words: list[str] | None, access: tuple[Any, ...], dtype: DataType | None
    ) -> Tail:
        return Tail(words or (), access[1], access, None, dtype)

    def modifiers(self, place: int, end: int, words: list[str]) -> list[str]:
        return words

    def modifier(self, place: int, end: int, word: str) -> list[str]:
        return [word]

    def words(self, place: int, end: int, first: str, rest: list[str] | None = None) -> list[str]:
        return [first, *(rest or ())]

    def access_literal(self, place: int, end: int, literal: Literal) -> tuple[Any, ...]:
        return "literal", (), literal

    def access_literals(
        self, place: int, end: int, first: Literal, rest: list[Literal] | None = None
    ) -> tuple[Any, ...]:
        return "literals", (), [first, *(rest or ())]

    def access_symbol(self, place: int, end: int, symbol: tuple[str, Location]) -> tuple[Any, ...]:
        return "symbol", (), symbol[0]

    def access_load(self, place: int, end: int, symbol: tuple[str, Location], index: str) -> tuple[Any, ...]:
        return "load", [self.use(index, symbol[1].end + 1)], symbol[0]

    def access_atomic(
        self, place: int, end: int, symbol: tuple[str, Location], index: str, values: list[Value]
    ) -> tuple[Any, ...]:
        return "atomic", [self.use(index, symbol[1].end + 1), *values], symbol[0]

    def access_store(
        self, place: int, end: int, values: list[Value], symbol: tuple[str, Location], index: str
    ) -> tuple[Any, ...]:
        return "store", [*values, self.use(index, symbol[1].end + 1)], symbol[0]

    def access_lane(self, place: int, end: int, values: list[Value], index: str) -> tuple[Any, ...]:
        try:
            return "lane", values, read_int(index)
        except LiteralError as wrong:
            self.error(str(wrong), place, end)
            return "lane", values, 0

    def literal_int(self, place: int, end: int, text: str) -> Literal:
        return "int", text

    def literal_float(self, place: int, end: int, text: str) -> Literal:
        return "float", text

    def literal_true(self, place: int, end: int) -> Literal:
        return "bool", "true"

    def literal_false(self, place: int, end: int) -> Literal:
        return "bool", "false"

    # --- simple ops -------------------------------------------------------------------

    def op_results(self, place: int, end: int, results: str, name: str, tail: Tail) -> Op | None:
        row = OPS.get(name)
        loc = Location(self.source, place, end)
        if row is None:
            self._unknown_op(name, loc)
        else:
            try:
                operands, types, attrs = _BUILD[row.form](row, tail)
            except (Malformed, LiteralError) as wrong:
                self.error(f"{name}: {wrong}", place, end)
            else:
                if "," not in results and len(types) == 1:
                    token = results[:-1].rstrip()
                    value = Value(token[1:], types[0])  # type: ignore[arg-type]
                    if token in self.scope:
                        self.define(token, value, place)
                    else:
                        self.scope[token] = value
                        self.scopes[-1].append(token)
                    return Op(row, operands, (value,), attrs, (), loc)
                return self.finish(row, operands, types, attrs, (), results, loc)
        self.abandon(results)
        return None

    def op_bare(self, place: int, end: int, name: str, tail: Tail) -> Op | None:
        row = OPS.get(name)
        loc = Location(self.source, place, end)
        if row is None:
            self._unknown_op(name, loc)
            return None
        try:
            operands, types, attrs = _BUILD[row.form](row, tail)
        except (Malformed, LiteralError) as wrong:
            self.error(f"{name}: {wrong}", place, end)
            return None
        return self.finish(row, operands, types, attrs, (), None, loc)

    def op_spec(
        self, place: int, end: int, results: str, symbol: tuple[str, Location], dtype: DataType | None
    ) -> Op:
        loc = Location(self.source, place, end)
        return self.finish(OPS["spec"], (), (dtype,), {"spec": symbol[0]}, (), results, loc)

    def _unknown_op(self, name: str, loc: Location) -> None:
        self.error(f"unknown op {name}", *_span(loc.find(name)), help=suggest(name, OPS))

    def finish(
        self,
        row: OpDef,
        operands: tuple[Value, ...],
        types: tuple[DataType | None, ...] | list[DataType],
        attrs: dict[str, Any],
        regions: tuple[Block, ...],
        results: str | None,
        loc: Location,
    ) -> Op:
        """Build the op and define its results; more or fewer names than results is an error."""
        names = _names(results) if results else []
        if len(names) != len(types):
            if names or row.form not in ("atomic", "call", "if", "for", "while", "region"):
                count = f"{len(types)} result{'s' * (len(types) != 1)}"
                self.error(f"{row.name} gives {count}, {len(names)} named", loc.start, loc.end)
            types = [*types, *[None] * (len(names) - len(types))]  # type: ignore[list-item]
        # an unnamed result still exists; the printer gives it a name
        names += [f"%_{i}" for i in range(len(names), len(types))]
        values = tuple(
            Value(name[1:], dtype)  # type: ignore[arg-type]
            for name, dtype in zip(names, types, strict=False)
        )
        named = len(_names(results)) if results else 0
        made = Op(row, operands, values, attrs, regions, loc)
        for name, value in zip(names[:named], values, strict=False):
            self.define(name, value, loc.find(name).start)
        return made

    # --- control flow -----------------------------------------------------------------

    def open(self, place: int, end: int) -> Block:
        args, self.pending = self.pending or (), None
        if self.scopes and len(self.scopes) > MAX_NESTING:
            self.error(f"blocks are nested deeper than {MAX_NESTING}", place, place + 1)
            raise TooDeep
        self.open_scope()
        for arg in args:
            self.define(f"%{arg.name}", arg, place)
        return Block(args)

    def block(self, place: int, end: int, block: Block, ops: list[Any] | None = None) -> Block:
        self.close_scope()
        block.ops = self.without_bare_yield([op for op in ops or () if op is not None])
        return block

    def without_bare_yield(self, ops: list[Op]) -> list[Op]:
        """A block that gives no values needs no yield; drop one that is written."""
        if ops and ops[-1].name == "yield" and not ops[-1].operands:
            ops.pop()
        return ops

    def bound_int(self, place: int, end: int, text: str) -> int:
        try:
            return read_int(text)
        except LiteralError as wrong:
            self.error(str(wrong), place, end)
            return 1

    def bound_value(self, place: int, end: int, token: str) -> Value:
        return self.use(token, place)

    def absent(self, place: int, end: int) -> None:
        return None

    def step(self, place: int, end: int, bound: int | Value) -> int | Value:
        return bound

    def iter(
        self, place: int, end: int, first: tuple[Any, ...], rest: list[Any] | None = None
    ) -> list[tuple[str, Value, DataType]]:
        return [first, *(rest or ())]  # type: ignore[list-item]

    def iter_arg(self, place: int, end: int, name: str, init: str, dtype: DataType) -> tuple[Any, ...]:
        at = Location(self.source, place, end).find(init)
        return _names(name)[0], self.use(init, at.start), dtype

    def for_head(
        self,
        place: int,
        end: int,
        results: str | None,
        variable: str,
        lower: int | Value,
        upper: int | Value,
        step: int | Value | None,
        args: list[tuple[str, Value, DataType]] | None,
        dtype: DataType | None,
    ) -> tuple[Any, ...]:
        names = _names(variable)
        if len(names) != 1:
            self.error("a for has one loop variable", place, end)
        counter = Value(names[0][1:], dtype or _U32)
        self.pending = (counter, *(Value(name[1:], t) for name, _, t in args or ()))
        given = dict(zip(BOUND_NAMES, (lower, upper, 1 if step is None else step), strict=True))
        operands = (*(b for b in given.values() if isinstance(b, Value)), *(v for _, v, _ in args or ()))
        attrs = {k: b if isinstance(b, int) else None for k, b in given.items()}
        loc = Location(self.source, place, end)
        return OPS["for"], operands, [t for _, _, t in args or ()], attrs, results, loc

    def structured(self, place: int, end: int, head: tuple[Any, ...], *blocks: Block) -> Op:
        row, operands, types, attrs, results, loc = head
        return self.finish(row, operands, types, attrs, blocks, results, loc)

    def while_head(
        self, place: int, end: int, results: str | None, args: list[tuple[str, Value, DataType]] | None
    ) -> tuple[Any, ...]:
        self.pending = tuple(Value(name[1:], t) for name, _, t in args or ())
        operands = tuple(value for _, value, _ in args or ())
        loc = Location(self.source, place, end)
        return OPS["while"], operands, [t for _, _, t in args or ()], NO_ATTRS, results, loc

    def while_condition(self, place: int, end: int, head: tuple[Any, ...], block: Block) -> tuple[Any, ...]:
        """The body sees the iteration arguments by the same names, as values of its own."""
        self.pending = tuple(Value(arg.name, arg.type) for arg in block.args)
        return *head, block

    def while_op(self, place: int, end: int, head: tuple[Any, ...], body: Block) -> Op:
        return self.structured(place, end, head[:-1], head[-1], body)

    def if_head(
        self, place: int, end: int, results: str | None, condition: str, types: list[DataType] | None
    ) -> tuple[Any, ...]:
        loc = Location(self.source, place, end)
        value = self.use(condition, loc.find(condition).start)
        return OPS["if"], (value,), types or (), NO_ATTRS, results, loc

    def region_head(
        self,
        place: int,
        end: int,
        results: str | None,
        symbol: tuple[str, Location],
        types: list[DataType] | None,
    ) -> tuple[Any, ...]:
        loc = Location(self.source, place, end)
        return OPS["region"], (), types or (), {"label": symbol[0]}, results, loc

    def call(
        self,
        place: int,
        end: int,
        results: str | None,
        symbol: tuple[str, Location],
        operands: list[Value] | None,
        params: list[DataType] | None,
        types: list[DataType] | None,
    ) -> Op:
        loc = Location(self.source, place, end)
        attrs = {"callee": symbol[0]}
        if types is None and results:
            self.error("a call that gives results needs their types", place, end)
            types = [None] * len(_names(results))  # type: ignore[list-item]
        return self.finish(OPS["call"], tuple(operands or ()), types or [], attrs, (), results, loc)

    def trap(self, place: int, end: int, message: str) -> Op:
        attrs = {"message": unquote(message)}
        return self.finish(OPS["trap"], (), (), attrs, (), None, Location(self.source, place, end))

    # --- named kernels ----------------------------------------------------------------

    def kernel(
        self, place: int, end: int, name: str, names: list[str] | None, attrs: dict[str, Any] | None = None
    ) -> Op | None:
        if OPS.get(name) is None or OPS[name].kernel is None:
            self.kernel_params(name, attrs, place, end)
            return None
        built = {"buffers": tuple(names or ()), "params": self.kernel_params(name, attrs, place, end)}
        return self.finish(OPS[name], (), (), built, (), None, Location(self.source, place, end))

    def kernel_params(self, name: str, attrs: dict[str, Any] | None, place: int, end: int) -> dict[str, Any]:
        """The integer parameters of a named kernel."""
        row = OPS.get(name)
        if row is None or row.kernel is None:
            kernels = [r.name for r in OPS.values() if r.kernel]
            self.error(f"unknown kernel {name}", place, place + len(name), suggest(name, kernels))
            return {}
        params: dict[str, Any] = {}
        for key, value in (attrs or {}).items():
            if isinstance(value, tuple) and value[0] == "int":
                params[key] = self.bound_int(place, end, value[1])
            else:
                self.error(f"{name}: parameter {key} is an integer", place, end)
        return params

    # --- the generic form ---------------------------------------------------------------

    def generic_head(
        self, place: int, end: int, results: str | None, name: str, operands: list[Value] | None
    ) -> tuple[Any, ...]:
        return results, unquote(name), operands or [], Location(self.source, place, end)

    def generic_regions(
        self, place: int, end: int, first: Block | None = None, rest: list[Block] | None = None
    ) -> tuple[Block, ...]:
        return () if first is None else (first, *(rest or ()))

    def generic_open(
        self, place: int, end: int, params: list[tuple[str, int, DataType]] | None
    ) -> Block:
        self.pending = tuple(Value(name[1:], t) for name, _, t in params or ())
        return self.open(place, end)

    def generic_block(self, place: int, end: int, block: Block, ops: list[Any] | None = None) -> Block:
        return self.block(place, end, block, ops)

    def generic(
        self,
        place: int,
        end: int,
        head: tuple[Any, ...],
        regions: tuple[Block, ...] | None,
        attrs: dict[str, Any] | None,
        params: list[DataType] | None,
        types: list[DataType] | None,
    ) -> Op | None:
        results, name, operands, loc = head
        row = OPS.get(name)
        if row is None:
            self._unknown_op(name, loc)
            if results:
                self.abandon(results)
            return None
        built = self._generic_attrs(row, attrs or {}, (types or [None])[0], loc)
        return self.finish(row, tuple(operands), types or [], built, regions or (), results, loc)

    def _generic_attrs(
        self, row: OpDef, attrs: dict[str, Any], dtype: DataType | None, loc: Location
    ) -> dict[str, Any]:
        if row.kernel is not None:
            buffers = attrs.pop("buffers", [])
            names = tuple(n for k, n in (buffers if isinstance(buffers, list) else [buffers]) if k == "symbol")
            return {"buffers": names, "params": self.kernel_params(row.name, attrs, loc.start, loc.end)}
        built: dict[str, Any] = {}
        expected = {attr.name: attr for attr in row.attrs}
        for key, value in attrs.items():
            try:
                if key == "fastmath":
                    built[key] = _fastmath([text for _, text in value])
                elif key not in expected:
                    raise Malformed(f"has no attribute {key}")
                else:
                    built[key] = _generic_attr(expected[key].kind, value, dtype)
            except (Malformed, LiteralError, TypeError, ValueError) as wrong:
                self.error(f"{row.name}: attribute {key}: {wrong}", loc.start, loc.end)
        missing = [key for key in expected if key not in built and key not in attrs]
        if missing:
            self.error(f"{row.name}: attribute {missing[0]} is missing", loc.start, loc.end)
        return built or NO_ATTRS

    def attrs(
        self, place: int, end: int, first: tuple[str, Any] | None, rest: list[Any] | None = None
    ) -> dict[str, Any]:
        return dict([first, *(rest or ())]) if first else {}

    def attr(self, place: int, end: int, key: str, value: Any) -> tuple[str, Any]:
        return key, ("word", value) if isinstance(value, str) else value

    def attr_symbol(self, place: int, end: int, symbol: tuple[str, Location]) -> tuple[str, str]:
        return "symbol", symbol[0]

    def attr_string(self, place: int, end: int, text: str) -> tuple[str, str]:
        return "string", unquote(text)

    def attr_list(self, place: int, end: int, first: Any, rest: list[Any] | None = None) -> list[Any]:
        return [("word", item) if isinstance(item, str) else item for item in [first, *(rest or ())]]


class TooDeep(Exception):
    """Parsing stops: the text is nested too deeply."""


def _names(results: str) -> list[str]:
    return [name.strip() for name in results[:-1].split(",")]


def _span(loc: Location) -> tuple[int, int]:
    return loc.start, loc.end


_ESCAPES = {"n": "\n", "t": "\t", '"': '"', "\\": "\\"}


def unquote(text: str) -> str:
    """The contents of a string token."""
    parts = text[1:-1].split("\\")
    out = [parts[0]]
    at = 1
    while at < len(parts):
        part = parts[at]
        if part == "" and at + 1 < len(parts):  # an escaped backslash
            out += ["\\", parts[at + 1]]
            at += 2
            continue
        out.append(_ESCAPES.get(part[:1], part[:1]) + part[1:])
        at += 1
    return "".join(out)


def _fastmath(words: list[str]) -> tuple[str, ...]:
    for word in words:
        if word not in FASTMATH:
            raise Malformed(f"fastmath takes {', '.join(FASTMATH)}, not {word}")
    return tuple(word for word in FASTMATH if word in words)


def _generic_attr(kind: str, value: Any, dtype: DataType | None) -> Any:
    if kind == "literal":
        if dtype is None:
            raise Malformed("needs a result type")
        if isinstance(value, list):
            return tuple(encode(lane, dtype.element) for lane in value)
        return encode(value, dtype.element)
    found, text = value
    if kind == "int" and found == "word" and text == "dynamic":
        return None
    if found != kind:
        raise Malformed(f"takes a{'n' * (kind == 'int')} {kind}, not a {found}")
    return read_int(text) if kind == "int" else text


# --- simple ops by form: the parts of the text -> operands, result types, attributes


def _inferred(row: OpDef, tail: Tail) -> DataType | None:
    """The type written after the colon, or that of the first operand."""
    if tail.dtype is not None:
        return tail.dtype
    return tail.operands[0].type if tail.operands else None


def _check_operands(row: OpDef, tail: Tail, count: int) -> None:
    if len(tail.operands) != count:
        given = len(tail.operands)
        raise Malformed(f"takes {count} operand{'s' * (count != 1)}, {given} given")
    if tail.access is not None and tail.access[0] != "lane":
        raise Malformed("takes values only")
    if tail.target is not None and row.form != "convert":
        raise Malformed("takes one type")


def _words(row: OpDef, tail: Tail) -> dict[str, Any]:
    """The word attributes, in the order of the table."""
    wanted = [attr for attr in row.attrs if attr.kind == "word"]
    given = list(tail.words)
    if row.form == "atomic" and not given:
        given = ["relaxed"]
    if len(given) != len(wanted):
        names = ", ".join(attr.name for attr in wanted)
        raise Malformed(f"needs its {names}" if wanted else f"takes no {given[0]}")
    for attr, word in zip(wanted, given, strict=True):
        if attr.choices and word not in attr.choices:
            raise Malformed(f"{attr.name} is {', '.join(attr.choices)}, not {word}")
    return {attr.name: word for attr, word in zip(wanted, given, strict=True)} or NO_ATTRS


def _elementwise(row: OpDef, tail: Tail) -> Built:
    words, operands, access, fastmath, dtype, target = tail
    if len(operands) != ARITY[row.form] or access is not None or words or target is not None:
        _check_operands(row, tail, ARITY[row.form])
        _words(row, tail)
    if dtype is None:
        dtype = operands[-1].type
    attrs = NO_ATTRS if fastmath is None else {"fastmath": _fastmath(fastmath)}
    if row.form == "compare":
        return tuple(operands), (_BOOL if dtype is None else dtype.with_element(_BOOL),), attrs
    return tuple(operands), (dtype,), attrs


def _const(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] not in ("literal", "literals"):
        raise Malformed("is written const 2 : u32")
    if tail.dtype is None:
        raise Malformed("needs a type: const 2 : u32")
    element = tail.dtype.element
    if element.kind not in ("bool", "uint", "int", "float"):
        raise Malformed(f"no constant of {tail.dtype} exists")
    if tail.access[0] == "literal":
        return (), (tail.dtype,), {"value": encode(tail.access[2], element)}
    lanes = tuple(encode(lane, element) for lane in tail.access[2])
    if len(lanes) != tail.dtype.lanes:
        raise Malformed(f"{tail.dtype} has {tail.dtype.lanes} lanes, {len(lanes)} given")
    return (), (tail.dtype,), {"value": lanes[0] if len(set(lanes)) == 1 else lanes}


def _id(row: OpDef, tail: Tail) -> Built:
    if tail.operands or tail.access:
        raise Malformed(f"is written {row.name} {'|'.join(AXES)}" if row.attrs else "takes no operands")
    return (), (_U32,), _words(row, tail)


def _len(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] != "symbol":
        raise Malformed("is written len @buffer")
    return (), (tail.dtype or _U32,), {"buffer": tail.access[2]}


def _convert(row: OpDef, tail: Tail) -> Built:
    _check_operands(row, tail, 1)
    if tail.target is None:
        raise Malformed(f"is written {row.name} %x : u8 -> u32")
    return tuple(tail.operands), (tail.target,), NO_ATTRS


def _vector(row: OpDef, tail: Tail) -> Built:
    if tail.dtype is None or not tail.operands or tail.access or tail.words or tail.target:
        raise Malformed(f"is written {row.name} %a, %b : vec<2 x u32>")
    return tuple(tail.operands), (tail.dtype,), NO_ATTRS


def _lane(row: OpDef, tail: Tail) -> Built:
    count = 1 if row.form == "extract" else 2
    text = "extract %v[0]" if count == 1 else "insert %x, %v[0]"
    if tail.access is None or tail.access[0] != "lane" or len(tail.operands) != count:
        raise Malformed(f"is written {text} : vec<4 x u32>")
    dtype = tail.dtype or tail.operands[-1].type
    result = dtype.element if dtype is not None and count == 1 else dtype
    return tuple(tail.operands), (result,), {"index": tail.access[2]}


def _load(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] != "load" or tail.dtype is None:
        raise Malformed("is written load @buffer[%i] : u32")
    return tuple(tail.operands), (tail.dtype,), {"buffer": tail.access[2]}


def _store(row: OpDef, tail: Tail) -> Built:
    if tail.access is None or tail.access[0] != "store" or len(tail.operands) != 2:
        raise Malformed("is written store %value, @buffer[%i] : u32")
    if tail.dtype is not None and tail.operands[0].type not in (None, tail.dtype):
        value = tail.operands[0]
        raise Malformed(f"%{value.name} is {value.type}, not {tail.dtype}")
    return tuple(tail.operands), (), {"buffer": tail.access[2]}


def _atomic(row: OpDef, tail: Tail) -> Built:
    values = 2 if row.name.endswith("compare_exchange") else 1
    if tail.access is None or tail.access[0] != "atomic" or len(tail.operands) != values + 1:
        extra = ", %new" if values == 2 else ""
        raise Malformed(f"is written {row.name}<relaxed> @buffer[%i], %value{extra} : u32")
    dtype = tail.dtype or tail.operands[1].type
    return tuple(tail.operands), (dtype,), {**_words(row, tail), "buffer": tail.access[2]}


def _barrier(row: OpDef, tail: Tail) -> Built:
    if tail.operands or tail.access or len(tail.words) != 1 or tail.words[0] not in SCOPES:
        raise Malformed(f"is written barrier {'|'.join(SCOPES)}")
    return (), (), {"scope": tail.words[0]}


def _subgroup(row: OpDef, tail: Tail) -> Built:
    _check_operands(row, tail, ARITY[row.form])
    if row.form == "ballot":
        return tuple(tail.operands), (_U32,), NO_ATTRS
    return tuple(tail.operands), (_inferred(row, tail),), _words(row, tail)


def _terminator(row: OpDef, tail: Tail) -> Built:
    if tail.access or tail.words or tail.target or tail.fastmath:
        raise Malformed(f"is written {row.name} %a")
    return tuple(tail.operands), (), NO_ATTRS


def _structured(row: OpDef, tail: Tail) -> Built:
    raise Malformed("is not written like this; see the grammar")


_BUILD: dict[str, Callable[[OpDef, Tail], Built]] = {
    **dict.fromkeys(("unary", "binary", "ternary", "compare", "select", "splat"), _elementwise),
    **dict.fromkeys(("id", "size"), _id),
    **dict.fromkeys(("extract", "insert"), _lane),
    **dict.fromkeys(("shuffle", "reduce", "scan", "ballot"), _subgroup),
    **dict.fromkeys(("yield", "condition"), _terminator),
    **dict.fromkeys(("for", "while", "if", "region", "call", "trap", "kernel", "spec"), _structured),
    "const": _const,
    "len": _len,
    "convert": _convert,
    "vector": _vector,
    "load": _load,
    "store": _store,
    "atomic": _atomic,
    "barrier": _barrier,
}
