"""The generic form of the language, read without the compiler: programs, functions, pipelines.

Nothing is verified beyond what the reader needs: the compiler that made a text has verified it, and a text of which it has not is
still read as what it says.  Regions and calls are opened: their ops stand where they stood.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

__all__ = [
    "Block",
    "Buffer",
    "Malformed",
    "Module",
    "Op",
    "Pipeline",
    "Program",
    "Stage",
    "Value",
    "read_module",
    "walk_ops",
]

MAX_OPS = 1_000_000
"""Ops of a text with its calls opened; calls of calls could make more than fit in memory."""


class Malformed(ValueError):
    """A text or a certificate that is not what it should be; the message says where."""


@dataclass(eq=False, slots=True)
class Value:
    """`literal`: the text of a constant in place; None for what an op or a block defines."""

    name: str
    type: str
    literal: str | None = None


@dataclass(eq=False, slots=True)
class Op:
    """`line`: where it stands in the text, the first line being 1; `attrs`: as the text has them."""

    name: str
    operands: tuple[Value, ...]
    results: tuple[Value, ...]
    attrs: dict[str, str]
    blocks: list[Block]
    line: int

    @property
    def buffer(self) -> str:
        return self.attrs.get("buffer", "").removeprefix("@")


@dataclass(eq=False, slots=True)
class Block:
    args: list[Value]
    ops: list[Op] = field(default_factory=list)


@dataclass(frozen=True)
class Buffer:
    """`shape`: a number, an expression of lengths, or None where it is open, for each dimension.  `access`: "" in a pipeline that
    says none."""

    name: str
    type: str
    shape: tuple[int | str | None, ...]
    access: str
    flags: frozenset[str]

    @property
    def is_transient(self) -> bool:
        """Whether nobody gives its contents, or sees them: by its declaration."""
        return not self.flags & {"live_in", "live_out"} and self.access in ("", "read_write")

    @property
    def is_bound(self) -> bool:
        return any(flag.startswith("binding") for flag in self.flags)


@dataclass
class Program:
    """`scalars`: specialization constants and params, as declared.  `head`: all that the first line says besides the name."""

    name: str
    head: str
    workgroup: tuple[int, int, int]
    grid: tuple[int, int, int] | None
    buffers: dict[str, Buffer]
    scalars: tuple[str, ...]
    body: Block
    text: str

    @property
    def bound(self) -> list[Buffer]:
        """Buffers in the order of the arguments of a launch."""
        return [buffer for buffer in self.buffers.values() if buffer.is_bound]


@dataclass(frozen=True)
class Stage:
    """A launch of `program`, or what else its text says.  `depth`: of the `repeat`s around it."""

    text: str
    depth: int
    program: str = ""
    grid: tuple[str, ...] = ()
    buffers: tuple[str, ...] = ()
    params: tuple[tuple[str, str], ...] = ()


@dataclass
class Pipeline:
    name: str
    buffers: dict[str, Buffer]
    scalars: tuple[str, ...]
    stages: list[Stage]
    text: str


@dataclass
class Module:
    programs: dict[str, Program] = field(default_factory=dict)
    pipelines: dict[str, Pipeline] = field(default_factory=dict)
    functions: dict[str, str] = field(default_factory=dict)


_ITEM = re.compile(r"(program|func|pipeline) @([\w.]+)(.*) \{")
_OP = re.compile(r'(?:(%.*?) = )?"([\w.]+)"\(([^()]*)\)(.*)')
_TAIL = re.compile(r"( \{.*\})? : \(([^()]*)\) -> \(([^()]*)\)")
_ATTR = re.compile(r'(\w+) = ("(?:[^"\\]|\\.)*"|\[[^\]]*\]|[^,{}]+)')
_BUFFER = re.compile(r"buffer @([\w.]+) : (.+?)\[([^\]]*)\](.*)")
_LAUNCH = re.compile(r"launch @([\w.]+) grid\((.*)\) \(([^()]*)\)(?: params\((.*?)\))?(?: \{.*\})?")
_DIMS = re.compile(r"(\w+)\((\d+)(?:, (\d+))?(?:, (\d+))?\)")


def read_module(text: str) -> Module:
    """The module of a text in the generic form.  Raises Malformed."""
    lines = text.split("\n")
    if not lines or not re.fullmatch(r"vyre [12]", lines[0]):
        raise Malformed("the text does not begin with its version, `vyre 1` or `vyre 2`")
    module, functions = Module(), _Functions(lines)
    starts = [number for number, line in enumerate(lines) if line and line[0] not in " }" and number]
    for start in starts:
        match = _ITEM.fullmatch(lines[start])
        end = next((n for n in range(start, len(lines)) if lines[n] == "}"), None)
        if match is None or end is None:
            raise Malformed(f"line {start + 1} begins no program, function or pipeline: {lines[start]!r}")
        kind, name, head = match.groups()
        if name in module.programs or name in module.pipelines or name in module.functions:
            raise Malformed(f"there are two of @{name}")
        whole = "\n".join(lines[start : end + 1])
        reader = _Reader(functions, start + 1, end)
        if kind == "pipeline":
            module.pipelines[name] = reader.pipeline(name, whole)
        elif kind == "program":
            module.programs[name] = reader.program(name, head.strip(), whole)
        else:
            module.functions[name] = whole
    return module


def walk_ops(block: Block) -> Iterator[Op]:
    """All ops of a block, and those of the blocks in them."""
    for op in block.ops:
        yield op
        for inner in op.blocks:
            yield from walk_ops(inner)


def split(text: str) -> list[str]:
    """The parts between commas that no bracket encloses."""
    parts, depth, start = list[str](), 0, 0
    for at, letter in enumerate(text):
        depth += (letter in "<[(") - (letter in ">])")
        if letter == "," and not depth:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()] if text.strip() else []


class _Functions:
    """The functions of a text, read when they are called."""

    def __init__(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.bodies: dict[str, Block | None] = {}

    def body(self, name: str) -> Block | None:
        """None where no function has the name, or it calls itself."""
        if name not in self.bodies:
            self.bodies[name] = None
            start = next((n for n, line in enumerate(self.lines) if line.startswith(f"func @{name}(")), None)
            if start is not None:
                end = self.lines.index("}", start)
                head = self.lines[start].removeprefix(f"func @{name}")
                self.bodies[name] = _Reader(self, start + 1, end).function(head)
        return self.bodies[name]


class _Reader:
    """Reads the lines `at` to `end` of one item."""

    def __init__(self, functions: _Functions, at: int, end: int) -> None:
        self.functions, self.lines, self.at, self.end = functions, functions.lines, at, end
        self.names: dict[str, Value] = {}
        self.opened = 0

    def line(self) -> str:
        return self.lines[self.at].strip()

    def wrong(self) -> Malformed:
        return Malformed(f"line {self.at + 1} is not of the generic form: {self.line()!r}")

    # --- items

    def program(self, name: str, head: str, text: str) -> Program:
        dims = {key: (int(x), int(y or 1), int(z or 1)) for key, x, y, z in _DIMS.findall(head)}
        if "workgroup" not in dims or "lowered" in head:
            raise Malformed(f"@{name} says no workgroup, or is lowered")
        buffers, scalars = self.declarations()
        body = self.block([], self.end)
        return Program(name, head, dims["workgroup"], dims.get("grid"), buffers, scalars, body, text)

    def function(self, head: str) -> Block:
        params = re.match(r"\(([^()]*)\)", head)
        return self.block(self.defined(params[1] if params else ""), self.end)

    def pipeline(self, name: str, text: str) -> Pipeline:
        buffers, scalars = self.declarations()
        stages, depth = list[Stage](), 0
        while self.at < self.end:
            line = self.line()
            self.at += 1
            match = _LAUNCH.fullmatch(line)
            depth -= line == "}"
            if match is not None:
                program, grid, names, params = match.groups()
                pairs = [part.partition(" = ") for part in split(params or "")]
                stages.append(
                    Stage(
                        line,
                        depth,
                        program,
                        tuple(split(grid)),
                        tuple(each.removeprefix("@") for each in split(names)),
                        tuple((key.removeprefix("@"), value) for key, _, value in pairs),
                    )
                )
            elif line:
                stages.append(Stage(line, depth))
            depth += line.startswith("repeat ")
        return Pipeline(name, buffers, scalars, stages, text)

    def declarations(self) -> tuple[dict[str, Buffer], tuple[str, ...]]:
        buffers, scalars = dict[str, Buffer](), list[str]()
        while self.at < self.end:
            line = self.line()
            match = _BUFFER.fullmatch(line)
            if match is not None:
                name, dtype, shape, rest = match.groups()
                words = rest.split()
                access = next(
                    (w for w in words if w in ("read", "write", "read_write", "workgroup", "cluster")), ""
                )
                extents = [int(e) if e.isdigit() else None if e == "?" else e for e in split(shape)]
                buffers[name] = Buffer(name, dtype, tuple(extents), access, frozenset(words) - {access})
            elif line.startswith(("spec @", "param @")):
                scalars.append(line)
            elif line:
                break
            self.at += 1
        return buffers, tuple(scalars)

    # --- ops

    def defined(self, text: str) -> list[Value]:
        """Values that a list of names and types defines."""
        values = []
        for part in split(text):
            name, _, dtype = part.partition(" : ")
            values.append(self.define(name, dtype))
        return values

    def define(self, name: str, dtype: str) -> Value:
        self.names[name] = value = Value(name, dtype)
        return value

    def block(self, args: list[Value], end: int | None = None) -> Block:
        """The ops up to the line `end`, or up to one that begins with a brace."""
        block = Block(args)
        while self.at != end and not self.line().startswith("}"):
            if self.line():
                block.ops += self.op()
            self.at += 1
            if self.at > self.end:
                raise Malformed(f"line {self.end + 1}: a block does not end")
        return block

    def op(self) -> Iterator[Op]:
        match = _OP.fullmatch(self.line())
        if match is None:
            raise self.wrong()
        results, name, operands, tail = match.groups()
        line = self.at + 1
        blocks = []
        while (opening := re.fullmatch(r"(?: \(|}, )\{ \^\((.*)\)", tail)) is not None:
            outer = dict(self.names)
            args = self.defined(opening[1])
            self.at += 1
            blocks.append(self.block(args))
            self.names = outer
            tail = self.line()
        match = _TAIL.fullmatch(tail.removeprefix("})"))
        if match is None:
            raise self.wrong()
        attrs, takes, gives = match.groups()
        types = split(takes)
        texts = split(operands)
        names = split(results or "")
        if len(types) != len(texts) or len(names) != len(split(gives)):
            raise self.wrong()
        values = tuple(self.use(*pair) for pair in zip(texts, types, strict=True))
        attributes = dict(_ATTR.findall((attrs or "").strip()[1:-1]))
        if name == "region":
            ops = blocks[0].ops
            if ops and ops[-1].name == "yield":
                self.names.update(zip(names, ops[-1].operands, strict=True))
                ops = ops[:-1]
            yield from ops
            return
        if name == "call":
            yield from self.called(attributes.get("callee", "").removeprefix("@"), values, names)
            return
        given = tuple(self.define(*pair) for pair in zip(names, split(gives), strict=True))
        yield Op(name, values, given, attributes, blocks, line)

    def use(self, text: str, dtype: str) -> Value:
        if not text.startswith("%"):
            return Value("", dtype, text)
        value = self.names.get(text)
        if value is None or value.type != dtype:
            raise self.wrong()
        return value

    def called(self, name: str, values: tuple[Value, ...], results: list[str]) -> Iterator[Op]:
        """The ops of a function, with the arguments of a call."""
        body = self.functions.body(name)
        if body is None:
            raise self.wrong()
        mapping = dict(zip(body.args, values, strict=True))
        for op in body.ops:
            if op.name == "yield":
                self.names.update(zip(results, (mapping.get(v, v) for v in op.operands), strict=True))
            else:
                yield self.copied(op, mapping)

    def copied(self, op: Op, mapping: dict[Value, Value]) -> Op:
        self.opened += 1
        if self.opened > MAX_OPS:
            raise Malformed(f"the calls of line {self.at + 1} open to more than {MAX_OPS} ops")
        operands = tuple(mapping.get(value, value) for value in op.operands)
        blocks = []
        for block in op.blocks:
            args = [Value(arg.name, arg.type) for arg in block.args]
            mapping.update(zip(block.args, args, strict=True))
            blocks.append(Block(args, [self.copied(each, mapping) for each in block.ops]))
        results = tuple(Value(value.name, value.type) for value in op.results)
        mapping.update(zip(op.results, results, strict=True))
        return Op(op.name, operands, results, op.attrs, blocks, op.line)
