"""Prints a program of the IR as a module of Python, whose kernel translates to the same program.

    %4 = load @in0[%3] : f32            v4 = in0[v3]
    %5 = mul %4, %c : f32               v5 = v4 * 0.5
    %9 = for %k = 0 to %n step 1        c9 = v5
        iter(%a = %5 : f32) {           for k8 in range(n):
      %7 = add %a, %4 : f32                 v7 = c9 + v4
      yield %7 : f32                        c9 = v7
    }

An op is a statement, or an expression in the statement of the next op if that alone uses it.  Results of a loop and what
it carries have one name.  Where Python has several forms, an operator and a function, a number and a number of a type,
`random.Random(seed)` chooses.  Functions of the module are functions with @vyre.func; so is the condition of a `while`
that takes more than an expression.  A program has nothing but what `python_subset` leaves.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from vyre_opt.ir import Block, Buffer, DataType, Module, Op, Program, Value, arith
from vyre_opt.ir.loops import bounds, inits
from vyre_opt.ir.ops import AXES
from vyre_opt.ir.program import Func
from vyre_opt.ir.rewrite import splittable

__all__ = ["print_as_python"]

HEAD = """import math
from typing import Annotated

import vyre_opt as vyre
from vyre_opt.lang import Read, ReadWrite, Write, bf16, f16, f32, f64, i8, i16, i32, i64, u8, u16, u32, u64
"""

ARRAYS = {"read": "Read", "write": "Write", "read_write": "ReadWrite"}

OPERATORS = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "and": "&",
    "or": "|",
    "xor": "^",
    "shl": "<<",
    "shr": ">>",
    "eq": "==",
    "ne": "!=",
    "lt": "<",
    "le": "<=",
    "gt": ">",
    "ge": ">=",
}
"""Those that have the IR's meaning for all types that the op takes."""

UNARY_OPERATORS = {"neg": "-", "not": "~"}


def print_as_python(module: Module, program: Program, seed: int) -> str:
    """The text of a module with the functions of `module` and the kernel `program`."""
    printer = _Printer(random.Random(seed))
    for func in module.funcs.values():
        printer.func(func)
    printer.program(program)
    return "\n\n".join([HEAD, *printer.definitions])


class _Printer:
    """`definitions`: the functions that are finished; `lines`: those of the block that is being printed."""

    def __init__(self, rng: random.Random) -> None:
        self.rng = rng
        self.definitions: list[str] = []
        self.lines: list[str] = []
        self.names: dict[Value, str] = {}
        self.used_names: list[str] = []
        self.count = 0
        self.users: dict[Value, list[Op]] = {}
        self.untyped: set[Value] = set()
        """What loops carry that begins as a number without a type."""
        self.scaled: set[Value] = set()
        """The indices of vector accesses: products, which `x.vec(4)[i]` writes."""
        self.held: tuple[Value, str] | None = None
        """The last op's result and its expression, if the next op uses it, and no other does."""

    # --- definitions

    def program(self, program: Program) -> None:
        arrays = [f"{b.name}: {ARRAYS[b.access or '']}[{self.elements(b)}]" for b in program.bound_buffers]
        scalars = [f"{param.name}: {param.dtype}" for param in program.params.values()]
        dims = f"workgroup={program.workgroup}" + (f", grid={program.grid}" if program.grid else "")
        if program.prefer_shared is not None:
            dims += f", prefer_shared={program.prefer_shared}"
        self._uses_of(program.body)
        with self._indented() as lines:
            for buffer in program.buffers.values():
                if buffer.is_workgroup:
                    size = buffer.count if buffer.dimensions == 1 else buffer.shape
                    self.line(f"{buffer.name} = vyre.shared({buffer.dtype}, {size})")
            self.block(program.body)
        self._define(f"@vyre.program({dims})", program.name, [*arrays, *scalars], lines)

    def elements(self, buffer: Buffer) -> str:
        """The type of an array's elements, with its extents where it has several."""
        if buffer.dimensions == 1 and self.chance(0.8):
            return str(buffer.dtype)
        extents = ", ".join(":" if extent is None else str(extent) for extent in buffer.shape)
        is_annotated = buffer.dtype.is_bool or self.chance(0.2)
        return f"Annotated[{buffer.dtype}, {extents}]" if is_annotated else f"{buffer.dtype}[{extents}]"

    def func(self, func: Func) -> None:
        params = [f"{self.define(param)}: {param.type}" for param in func.params]
        self._uses_of(func.body)
        values = _ends(func.body)
        with self._indented() as lines:
            self.block(func.body)
            self.line(f"return {', '.join(self.typed(v) for v in values)}")
        result = f" -> {func.results[0]}" if len(values) == 1 and self.chance(0.5) else ""
        self._define("@vyre.func", func.name, params, lines, result)

    def _define(
        self, decorator: str, name: str, params: Sequence[str], lines: list[str], result: str = ""
    ) -> None:
        head = f"{decorator}\ndef {name}({', '.join(params)}){result}:"
        self.definitions.append("\n".join([head, *(lines or ["    pass"])]) + "\n")

    def _uses_of(self, body: Block) -> None:
        self.users = {}
        for op in body.walk():
            for value in op.operands:
                self.users.setdefault(value, []).append(op)
        self.scaled = {op.indices[-1] for op in body.walk() if _is_vector_access(op)}

    # --- lines and names

    def chance(self, probability: float) -> bool:
        return self.rng.random() < probability

    def line(self, text: str) -> None:
        self.lines.append(f"    {text}")

    @contextmanager
    def _indented(self) -> Iterator[list[str]]:
        """The lines that are printed inside; they are one level in."""
        outer, self.lines = self.lines, []
        lines = self.lines
        yield lines
        self.lines = outer

    def nest(self, head: str, lines: list[str]) -> None:
        self.line(f"{head}:")
        self.lines += [f"    {line}" for line in lines or ["    pass"]]

    def fresh(self, letter: str = "v") -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def define(self, value: Value, letter: str = "v") -> str:
        name = self.names[value] = self.fresh(letter)
        return name

    def name(self, name: str) -> str:
        """A name that stands for a value or an array from outside of an expression."""
        self.used_names.append(name)
        return name

    # --- operands

    def operand(self, value: Value) -> str:
        """A value, or a number without a type if it is a constant."""
        owner = value.owner
        if isinstance(owner, Op) and owner.name == "const":
            return self.number(owner)
        if self.held is not None and self.held[0] is value:
            text, self.held = self.held[1], None
            return text
        if isinstance(owner, Op) and owner.name == "param":
            return self.name(owner.attrs["param"])
        return self.name(self.names[value])

    def typed(self, value: Value) -> str:
        """A value; a constant has its type."""
        owner = value.owner
        if not is_constant(value) or not isinstance(owner, Op):
            return self.operand(value)
        dtype, number = value.type, self.number(owner)
        if dtype.is_vec:
            lane = number if dtype.element.is_bool else f"{dtype.element}({number})"
            return f"vyre.splat({lane}, {dtype.lanes})"
        if not dtype.is_bool and self.chance(0.5):
            return f"{dtype}({number})"
        name = self.fresh("n")
        self.line(f"{name}: {dtype} = {number}")
        return self.name(name)

    def either(self, value: Value) -> str:
        """A value where its type is known otherwise: a constant has it or not."""
        return self.operand(value) if self.chance(0.7) else self.typed(value)

    def number(self, op: Op) -> str:
        dtype, value = op.result.type.element, op.attrs["value"]
        if dtype.is_bool:
            return str(bool(value))
        if dtype.is_int:
            return str(value)
        number = arith.decode_float(value, dtype)
        if number != number:
            return "math.nan"
        if math.isinf(number):
            return "math.inf" if number > 0 else "-math.inf"
        is_small = abs(number) < 1000 and number == int(number) and math.copysign(1, number) > 0
        return str(int(number)) if is_small and self.chance(0.3) else repr(number)

    def alike(self, values: Sequence[Value]) -> list[str]:
        """Operands of one type, of which one at least says which."""
        leader = next((n for n, v in enumerate(values) if not is_constant(v)), 0)
        return [self.typed(v) if n == leader else self.either(v) for n, v in enumerate(values)]

    # --- ops

    def block(self, block: Block, hold: float = 0.5) -> None:
        """Statements for the ops of a block; its end is the caller's, and an expression may be held for it.

        `hold`: how often an expression is, where it can be.
        """
        for number, op in enumerate(block.ops):
            if op.definition.is_terminator:
                return
            if op.name in ("const", "param") or (op.results and op.results[0] in self.scaled):
                continue
            statement = _STATEMENTS.get(op.definition.format)
            if statement is not None:
                statement(self, op)
                assert self.held is None, f"{op} does not use what was held for it"
                continue
            text = _EXPRESSIONS[op.definition.format](self, op)
            assert self.held is None, f"{op} does not use what was held for it"
            if self._goes_to_next(op.result, block.ops[number + 1 :]) and self.chance(hold):
                self.held = op.result, f"({text})" if op.definition.format in _LOOSE else text
            elif op.definition.format == "atomic" and op.result not in self.users:
                self.line(text)
            else:
                self.line(f"{self.define(op.result)} = {text}")

    def _goes_to_next(self, value: Value, after: Sequence[Op]) -> bool:
        """Whether the next op that computes something is the only one that uses a value, and uses it once.

        Of an op with blocks, that is an operand of its own: in its blocks, the value would be computed there.
        """
        following = next((op for op in after if op.name not in ("const", "param")), None)
        return following is not None and self.users.get(value) == [following]

    # --- blocks

    def if_(self, op: Op) -> None:
        condition = self.typed(op.operands[0])
        names = [self.fresh("r") for _ in op.results]
        branches = []
        for block in op.regions:
            with self._indented() as lines:
                self.block(block)
                for place, (name, value) in enumerate(zip(names, _ends(block), strict=True)):
                    others = [_ends(other)[place] for other in op.regions if other is not block]
                    self.bind(name, value, has_type=not all(map(self._is_typed, others)))
            branches.append(lines)
        self.nest(f"if {condition}", branches[0])
        for lines in branches[1:]:
            self.nest("else", lines)
        self.names.update(zip(op.results, names, strict=True))

    def bind(self, name: str, value: Value, has_type: bool = True) -> None:
        """Let a name stand for a value; a constant is one of the kernel, or a number of Python if it needs no type."""
        owner = value.owner
        if not has_type and is_constant(value) and not value.type.is_vec and self.chance(0.6):
            self.line(f"{name} = {self.operand(value)}")
        elif is_constant(value) and isinstance(owner, Op) and not value.type.is_vec:
            self.line(f"{name}: {value.type} = {self.number(owner)}")
        else:
            self.line(f"{name} = {self.typed(value)}")

    def region(self, op: Op) -> None:
        self.block(op.regions[0])
        for result, value in zip(op.results, _ends(op.regions[0]), strict=True):
            name = self.fresh("r")
            self.bind(name, value)
            self.names[result] = name

    def for_(self, op: Op) -> None:
        names = self._begin_loop(op)
        block = op.regions[0]
        span = self._range(op)
        counter = self.define(block.args[0], "k")
        self.names.update(zip(block.args[1:], names, strict=True))
        with self._indented() as lines:
            self.block(block)
            self._end_round(names, block)
        self.nest(f"for {counter} in {span}", lines)
        self.names.update(zip(op.results, names, strict=True))

    def _range(self, op: Op) -> str:
        dtype = op.regions[0].args[0].type
        limits = bounds(op)
        leader = next((n for n, v in enumerate(limits) if isinstance(v, Value) and not is_constant(v)), 0)
        texts = []
        for number, limit in enumerate(limits):
            if isinstance(limit, Value):
                texts.append(self.typed(limit) if number == leader else self.either(limit))
            else:
                texts.append(f"{dtype}({limit})" if number == leader or self.chance(0.2) else str(limit))
        if limits[2] == 1 and texts[2] == "1":
            texts.pop()
            if limits[0] == 0 and texts[0] == "0":
                texts.pop(0)
        return f"range({', '.join(texts)})"

    def _begin_loop(self, op: Op) -> list[str]:
        names = []
        for place, value in enumerate(inits(op)):
            names.append(self.fresh("c"))
            carried = [block.args[place - len(op.results)] for block in op.regions]
            finds_type = self._finds_type(op, carried, _ends(op.regions[-1])[place])
            self.bind(names[-1], value, has_type=not finds_type)
            if finds_type:
                self.untyped.update(carried)
        return names

    def _finds_type(self, op: Op, carried: Sequence[Value], at_end: Value) -> bool:
        """Whether what a loop carries meets a value with a type at the end of a round, and wherever it is used."""

        def is_typed(value: Value) -> bool:
            return self._is_typed(value) and value.owner not in op.regions

        return is_typed(at_end) and all(
            use.definition.format in ("binary", "compare") and any(map(is_typed, use.operands))
            for value in carried
            for use in self.users.get(value, ())
        )

    def _is_typed(self, value: Value) -> bool:
        return not is_constant(value) and value not in self.untyped

    def _end_round(self, names: list[str], block: Block) -> None:
        if names:
            self.line(f"{', '.join(names)} = {', '.join([self.either(v) for v in _ends(block)])}")

    def while_(self, op: Op) -> None:
        names = self._begin_loop(op)
        asked, body = op.regions
        self.names.update(zip(asked.args, names, strict=True))
        condition = self._condition(asked)
        self.names.update(zip(body.args, names, strict=True))
        with self._indented() as lines:
            self.block(body)
            self._end_round(names, body)
        self.nest(f"while {condition}", lines)
        self.names.update(zip(op.results, names, strict=True))

    def _condition(self, block: Block) -> str:
        """The condition of a while: an expression, or a call of a function that computes it."""
        end = block.terminator
        assert end is not None
        before, self.used_names = self.used_names, []
        first = self.count
        with self._indented() as lines:
            self.block(block, hold=0.8)
            value = self.typed(end.operands[0])
        outer, self.used_names = self.used_names, before
        if not lines:
            self.used_names += outer
            return value
        names = [n for n in dict.fromkeys(outer) if not (n[1:].isdigit() and int(n[1:]) > first)]
        self.used_names += names
        function = self.fresh("holds")
        self._define("@vyre.func", function, names, [*lines, f"    return {value}"])
        return f"{function}({', '.join(names)})"

    # --- statements

    def store(self, op: Op) -> None:
        value = op.operands[0]
        # the value first, since Python evaluates it first
        text = self.either(value)
        self.line(f"{self.element(op, value.type)} = {text}")

    def element(self, op: Op, dtype: DataType) -> str:
        """What a load or store accesses; `dtype`: of what it moves."""
        array = self.name(op.attrs["buffer"])
        if not dtype.is_vec:
            return f"{array}[{', '.join(map(self.index, op.indices))}]"
        *rows, last = op.indices
        # the last index is a product, whose first factor is the index of a vector
        owner = last.owner
        assert isinstance(owner, Op)
        indices = [*map(self.index, rows), self.typed(owner.operands[0])]
        return f"{array}.vec({dtype.lanes})[{', '.join(indices)}]"

    def index(self, index: Value) -> str:
        return self.either(index) if index.type is DataType.U32 else self.typed(index)

    def barrier(self, op: Op) -> None:
        self.line(_worded(self, op, []))

    def trap(self, op: Op) -> None:
        self.line(f"vyre.trap({op.attrs['message']!r})")

    def assert_(self, op: Op) -> None:
        self.line(f"assert {self.typed(op.operands[0])}, {op.attrs['message']!r}")

    def debug_print(self, op: Op) -> None:
        values = "".join(f", {self.typed(value)}" for value in op.operands)
        self.line(f"vyre.debug_print({op.attrs['format']!r}{values})")

    def call(self, op: Op) -> None:
        arguments = ", ".join([self.either(v) for v in op.operands])
        names = ", ".join([self.define(result) for result in op.results])
        self.line(f"{names} = {op.attrs['callee']}({arguments})")

    def insert(self, op: Op) -> None:
        value, vector = op.operands
        texts = self.typed(vector), self.either(value)
        name = self.define(op.result)
        self.line(f"{name} = {texts[0]}")
        self.line(f"{name}[{op.attrs['index']}] = {texts[1]}")


def _ends(block: Block) -> tuple[Value, ...]:
    """The values that a block yields."""
    return splittable(block)[1]


def _is_vector_access(op: Op) -> bool:
    if op.definition.format == "load":
        return op.result.type.is_vec
    return op.definition.format == "store" and op.operands[0].type.is_vec


def is_constant(value: Value) -> bool:
    return isinstance(value.owner, Op) and value.owner.name == "const"


# --- expressions, by format


def _called(op: Op, arguments: Sequence[str]) -> str:
    keyword = "_" if op.name in ("and", "or", "not") else ""
    texts = list(arguments)
    if op.attrs.get("fastmath"):
        texts.append(f'fastmath="{", ".join(op.attrs["fastmath"])}"')
    return f"vyre.{op.name}{keyword}({', '.join(texts)})"


DEFAULTS = {
    "order": ("relaxed",),
    "mode": ("idx", "inclusive"),  # of a shuffle, of a scan
    "combine": ("add",),
    "scope": ("workgroup",),
}
"""The words that calls may leave out."""


def _worded(p: _Printer, op: Op, arguments: Sequence[str]) -> str:
    """A call with the words of an op behind its arguments: a default may be left out, and then others are named."""
    texts, is_named = list(arguments), p.chance(0.3)
    for attr in op.definition.attrs:
        word = op.attrs[attr.name]
        if attr.kind != "word":
            continue
        if word in DEFAULTS[attr.name] and p.chance(0.5):
            is_named = True
            continue
        texts.append(f'{attr.name}="{word}"' if is_named else f'"{word}"')
    return _called(op, texts)


def _unary(p: _Printer, op: Op) -> str:
    value = p.typed(op.operands[0])
    if not op.attrs.get("fastmath") and p.chance(0.7):
        if op.result.type.is_bool and p.chance(0.5):
            return f"not {value}"
        if op.name in UNARY_OPERATORS:
            return f"{UNARY_OPERATORS[op.name]}{value}"
        if op.name == "abs":
            return f"abs({value})"
    return _called(op, [value])


def _binary(p: _Printer, op: Op) -> str:
    a, b = p.alike(op.operands)
    operator = None if op.attrs.get("fastmath") or p.chance(0.2) else _operator(p, op)
    if operator is not None:
        base = f"({a})" if a.startswith("-") else a  # ** binds more tightly than a sign
        return f"{base} {operator} {b}"
    if op.name in ("min", "max") and not op.attrs.get("fastmath") and p.chance(0.5):
        return f"{op.name}({a}, {b})"
    return _called(op, [a, b])


def _operator(p: _Printer, op: Op) -> str | None:
    """One of the same meaning for the types of an op."""
    name, dtype = op.name, op.operands[0].type
    if name == "div" and dtype.element.is_float:
        return "/"
    if name in ("div", "rem") and dtype.element.kind == "uint":
        return "//" if name == "div" else "%"
    if name == "pow" and not is_constant(op.operands[1]):  # small whole exponents are products
        return "**"
    if name in ("and", "or") and dtype.is_bool and not any(map(is_constant, op.operands)) and p.chance(0.3):
        return name if _is_computed_before(p, op) else OPERATORS[name]
    return OPERATORS.get(name)


def _is_computed_before(p: _Printer, op: Op) -> bool:
    """Whether all operands have names, so that Python does not decide whether to compute them."""
    return all(
        not isinstance(v.owner, Op) or v in p.names or v.owner.name in ("const", "param") for v in op.operands
    )


def _ternary(p: _Printer, op: Op) -> str:
    return _called(op, p.alike(op.operands))


def _select(p: _Printer, op: Op) -> str:
    flag, a, b = op.operands
    condition = p.typed(flag)
    values = p.alike([a, b])
    if flag.type.is_bool and _is_computed_before(p, op) and p.chance(0.5):
        return f"{values[0]} if {condition} else {values[1]}"
    return _called(op, [condition, *values])


def _convert(p: _Printer, op: Op) -> str:
    value, element = p.typed(op.operands[0]), op.result.type.element
    return f"{element}({value})" if op.name == "cast" else f"vyre.bitcast({value}, {element})"


def _id(p: _Printer, op: Op) -> str:
    axis = AXES.index(op.attrs["axis"])
    return f"vyre.{op.name}({axis if axis or p.chance(0.7) else ''})"


def _load(p: _Printer, op: Op) -> str:
    return p.element(op, op.result.type)


def _len(p: _Printer, op: Op) -> str:
    array, dimension = p.name(op.attrs["buffer"]), op.attrs.get("dimension", 0)
    length = f"len({array})" if dimension == 0 and p.chance(0.6) else f"{array}.shape[{dimension}]"
    return length if op.result.type is DataType.U32 else f"{op.result.type}({length})"


def _atomic(p: _Printer, op: Op) -> str:
    array = p.name(op.attrs["buffer"])
    indices = ", ".join(map(p.index, op.indices))
    index = f"({indices})" if len(op.indices) > 1 else indices
    values = op.operands[len(op.indices) :]
    return _worded(p, op, [array, index, *(p.either(v) for v in values)])


_EXPRESSIONS: dict[str, Callable[[_Printer, Op], str]] = {
    "unary": _unary,
    "binary": _binary,
    "compare": _binary,
    "ternary": _ternary,
    "select": _select,
    "convert": _convert,
    "id": _id,
    "size": lambda p, op: _called(op, []),
    "len": _len,
    "splat": lambda p, op: f"vyre.splat({p.typed(op.operands[0])}, {op.result.type.lanes})",
    "vector": lambda p, op: _called(op, p.alike(op.operands)),
    "permute": lambda p, op: _called(op, [p.typed(value) for value in op.operands]),
    "movemask": lambda p, op: _called(op, [p.typed(op.operands[0])]),
    "extract": lambda p, op: f"{p.typed(op.operands[0])}[{op.attrs['index']}]",
    "load": _load,
    "atomic": _atomic,
    "shuffle": lambda p, op: _worded(p, op, [p.typed(op.operands[0]), p.either(op.operands[1])]),
    "reduce": lambda p, op: _worded(p, op, [p.typed(op.operands[0])]),
    "scan": lambda p, op: _worded(p, op, [p.typed(op.operands[0])]),
    "ballot": lambda p, op: _called(op, [p.typed(op.operands[0])]),
}

_LOOSE = ("unary", "binary", "compare", "select")
"""The formats whose expressions need parentheses among operators."""

_STATEMENTS: dict[str, Callable[[_Printer, Op], None]] = {
    "if": _Printer.if_,
    "for": _Printer.for_,
    "while": _Printer.while_,
    "region": _Printer.region,
    "call": _Printer.call,
    "store": _Printer.store,
    "insert": _Printer.insert,
    "barrier": _Printer.barrier,
    "trap": _Printer.trap,
    "assert": _Printer.assert_,
    "debug_print": _Printer.debug_print,
    "breakpoint": lambda printer, op: printer.line("breakpoint()"),
}
