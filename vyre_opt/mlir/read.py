"""A module of MLIR as a module of ours: a program for each kernel of its gpu.modules, and the functions that they call.

What our own `--emit=mlir` wrote reads as the program that it was.  A kernel of other people is read by what MLIR says:
its memrefs become buffers, bound in the order of the arguments, which the program may load or store as it does; its
scalars become runtime scalars.  Constants of a gpu.launch_func tell the size of a workgroup where the kernel does not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from ..ir.diagnostics import Diagnostic, DiagnosticError, Location, Source
from ..ir.ops import OPS
from ..ir.program import AccessMode, Block, Buffer, Dim3, Func, Module, Op, Param, Program, Value
from ..ir.types import DataType
from ..records import dataclass
from ..syntax.fingerprint import fingerprint
from ..syntax.parser import parse_source
from .code import HelperSet
from .helper_key import HelperKey, op_of
from .helpers.table import define, word_count
from .read_control import READ_CONTROL
from .read_memory import READ_MEMORY
from .read_ops import READ_OPS, named_type
from .reader import Callee, Reader, attribute, dictionary, text_attribute
from .same_body import is_same_function
from .spelling import WORKGROUP, memref_type
from .syntax import HINTS, WRONG, ParsedModule, parse_mlir
from .typed_values import Index, Memory, Missing, NotReadable, Plain

__all__ = ["read_mlir"]

MAX_DIMENSIONS = 3
_TERMINATORS = ("scf.yield", "scf.condition", "gpu.return", "func.return")


def read_mlir(source: Source) -> Module:
    """The module of an MLIR text, not yet verified.

    Raises DiagnosticError for unsupported input, with its location, and if the parser's package is missing.
    """
    parsed = parse_mlir(source)
    reading = _Reading(parsed, Module(source=source))
    reading.all_modules()
    if not reading.module.programs and not reading.errors:
        loc = Location(source, 0, 1)
        message = "there is no kernel here: no gpu.func with the word kernel in a gpu.module"
        reading.errors.append(Diagnostic("error", message, loc, help=_OUTLINE))
    if reading.errors:
        raise DiagnosticError(sorted(reading.errors, key=lambda d: d.loc.start if d.loc else 0))
    return reading.module


def _malformed(op: Any) -> str:
    return f"this {op.name} has other operands, results, attributes or regions than the op of that name"


_OUTLINE = "of a gpu.launch, mlir-opt --gpu-kernel-outlining makes one"


@dataclass(slots=True)
class _Reading:
    """`launches`: the constant block sizes of each kernel's launches, by the names of its module and its function."""

    parsed: ParsedModule
    module: Module
    errors: list[Diagnostic]
    launches: dict[tuple[str, str], list[Dim3 | None]]

    def __init__(self, parsed: ParsedModule, module: Module) -> None:
        self.parsed, self.module, self.errors, self.launches = parsed, module, [], {}

    def all_modules(self) -> None:
        modules = [op for op in self.parsed.op.walk() if op.name == "gpu.module"]
        for op in self.parsed.op.walk():
            if op.name == "gpu.launch_func":
                self.guarded(op, self.launch)
        for op in modules:
            _GpuModule(self, op).read()

    def guarded(self, op: Any, read: Callable[[Any], None]) -> None:
        """Read an op; an error where it has not the parts that its name says."""
        try:
            read(op)
        except WRONG:
            self.error(op, _malformed(op))

    def launch(self, op: Any) -> None:
        reference = attribute(op, "kernel")
        path = (reference.root_reference.data, *(part.data for part in reference.nested_references.data))
        # in the generic form the sizes of the grid come first, then those of a block
        sizes = [_constant(operand) for operand in list(op.operands)[:6]][3:]
        block = (sizes[0], sizes[1], sizes[2]) if len(sizes) == 3 else None
        workgroup = None if block is None or None in block else block
        self.launches.setdefault((path[0], path[-1]), []).append(workgroup)  # type: ignore[arg-type]

    def error(self, op: Any, message: str, help: str | None = None) -> None:
        self.errors.append(Diagnostic("error", message, self.parsed.location(op), help=help))


def _constant(value: Any) -> int | None:
    """The number of a constant of MLIR, behind casts."""
    owner = value.owner
    name = getattr(owner, "name", "")
    if name in ("arith.index_cast", "arith.index_castui"):
        return _constant(owner.operands[0])
    attr = attribute(owner, "value") if name == "arith.constant" else None
    number = getattr(getattr(attr, "value", None), "data", None)
    return number if isinstance(number, int) else None


# --- one gpu.module


class _GpuModule:
    """Its kernels, and its other functions, which are read when one of them is called."""

    def __init__(self, reading: _Reading, op: Any) -> None:
        self.reading, self.op = reading, op
        self.parsed = reading.parsed
        self.name = text_attribute(op, "sym_name") or ""
        self.callees: dict[str, Callee] = {}
        self.active: list[str] = []
        self.undeclared: set[str] = set()

    def functions(self) -> Iterator[Any]:
        for block in self.op.regions[0].blocks:
            yield from (op for op in block.ops if op.name in ("gpu.func", "func.func"))

    def read(self) -> None:
        for op in self.functions():
            if op.name == "gpu.func" and _is_kernel(op):
                self.callees = {}  # helpers may speak of the size of a workgroup
                self.undeclared = set()
                self.reading.guarded(op, self.kernel)
        for block in self.op.regions[0].blocks:
            for op in block.ops:
                if op.name in ("memref.global", "llvm.mlir.global", "llvm.func"):
                    self.reading.error(op, f"{op.name} is not read", "pass it as an argument of the kernel")

    def lookup(self, program: Program) -> dict[str, Callable[[], Callee]]:
        return {
            text_attribute(op, "sym_name") or "": lambda op=op: self.callee(op, program)  # type: ignore[misc]
            for op in self.functions()
        }

    # --- functions that are called

    def callee(self, op: Any, program: Program) -> Callee:
        symbol = text_attribute(op, "sym_name") or ""
        if symbol not in self.callees:
            if symbol in self.active:
                raise NotReadable(f"@{symbol} calls itself, and functions here do not")
            self.active.append(symbol)
            key = self.helper(op, symbol, program)
            self.callees[symbol] = Callee(key) if key is not None else self.function(op, symbol, program)
            self.active.pop()
        return self.callees[symbol]

    def helper(self, op: Any, symbol: str, program: Program) -> HelperKey | None:
        """The key of a helper function that has the body that its name says; None of any other."""
        name = op_of(symbol)
        if name is None:
            return None
        has_memory = name in OPS and OPS[name].format == "atomic"
        count = 1 if name == "barrier" else word_count(name)
        afn = (count + 1,) if ".afn." in symbol else ()
        for words in (count, *afn):
            key = HelperKey.of(symbol, words, has_memory)
            if key is None:
                continue
            helpers = HelperSet(program, define)
            try:
                helpers.symbol(key)
            except (AssertionError, KeyError, IndexError, ValueError, TypeError):
                return None  # no helper of ours has that name
            return key if self.is_as_written(helpers.texts) else None
        return None

    def is_as_written(self, written: dict[str, str]) -> bool:
        """Whether the helpers here have the bodies of `written`, by symbol."""
        functions = {text_attribute(op, "sym_name"): op for op in self.functions()}
        text = self.parsed.source.text
        for symbol, expected in written.items():
            op = functions.get(symbol)
            if op is None:
                return False
            start, end = self.parsed.places[op]
            if not is_same_function(op, text[start:end], expected):
                return False
        return True

    def function(self, op: Any, symbol: str, program: Program) -> Callee:
        """A function of ours, which it is added to the module as; the name of an equal one that is there."""
        r = Reader(self.parsed, program, self.lookup(program))
        r.loc = self.parsed.location(op)
        kind = attribute(op, "function_type")
        blocks = list(op.regions[0].blocks)
        if len(blocks) != 1:
            raise NotReadable(
                f"@{symbol} has no body of one block", "make it structured: mlir-opt --lift-cf-to-scf"
            )
        (theirs,) = blocks
        args = [
            Value(a.name_hint or "a", _declared(r, a.type, attribute(op, "arg_attrs"), number))
            for number, a in enumerate(theirs.args)
        ]
        r.block = Block(tuple(args))
        for theirs_arg, arg in zip(theirs.args, args, strict=True):
            r.values[theirs_arg] = Index(arg) if str(theirs_arg.type) == "index" else Plain(arg)
        _run(r, theirs, r.block)
        end = theirs.last_op
        returned = list(end.operands) if end is not None else []
        r.loc = self.parsed.location(end) if end is not None else r.loc
        values: list[Value] = []
        try:
            for number, (operand, theirs_type) in enumerate(zip(returned, kind.outputs.data, strict=True)):
                dtype = _hinted(r, theirs_type, attribute(op, "res_attrs"), number)
                values.append(r.value(operand, dtype))
        except NotReadable as refusal:
            r.refuse(refusal)
        self.reading.errors += r.errors
        if r.errors:
            raise NotReadable
        if values:
            r.add("yield", values)
        _drop_unused(r)
        results = tuple(value.type for value in values)
        name = text_attribute(op, "vyre.name") or symbol
        func = Func(name, results, r.block, self.parsed.location(op))
        return Callee(None, self.added(func), tuple(a.type for a in args), results)

    def added(self, func: Func) -> str:
        """The name by which the module has the function; an equal one of its name is not added again."""
        wanted, number = func.name, 1
        while func.name in self.reading.module.funcs:
            if fingerprint(self.reading.module.funcs[func.name]) == fingerprint(func):
                return func.name
            number += 1
            func.name = f"{wanted}_{number}"
        self.reading.module.add(func)
        return func.name

    # --- kernels

    def kernel(self, op: Any) -> None:
        symbol = text_attribute(op, "sym_name") or ""
        workgroup = self.workgroup(op, symbol)
        if workgroup is None:
            return
        name, number = text_attribute(op, "vyre.program") or symbol, 1
        spelled = name
        while name in self.reading.module.programs:
            number += 1
            name = f"{spelled}_{number}"
        preference = attribute(op, "vyre.prefer_shared")
        program = Program(name, workgroup, _dims(op, "known_grid_size"), loc=self.parsed.location(op))
        program.prefer_shared = int(preference.value.data) if preference is not None else None
        r = Reader(self.parsed, program, self.lookup(program), program.body)
        r.loc = program.loc
        try:
            self.declarations(r, op)
            blocks = list(op.regions[0].blocks)
            if len(blocks) != 1:
                help = "make it structured: mlir-opt --lift-cf-to-scf"
                raise NotReadable("a kernel of several blocks is not structured", help)
            _run(r, blocks[0], program.body)
        except NotReadable as refusal:
            r.loc = program.loc
            r.refuse(refusal)
        self.reading.errors += r.errors
        _drop_unused(r)
        _set_accesses(program, self.undeclared)
        self.reading.module.add(program)

    def workgroup(self, op: Any, symbol: str) -> Dim3 | None:
        size = _dims(op, "known_block_size")
        launched = self.reading.launches.get((self.name, symbol), [])
        if size is None and launched and None not in launched and len(set(launched)) == 1:
            size = launched[0]
        if size is None:
            self.reading.error(
                op,
                f"the size of a workgroup of @{symbol} is not known",
                "add `known_block_size = array<i32: 256, 1, 1>` to its attributes, or launch it with constants",
            )
        return size

    def declarations(self, r: Reader, op: Any) -> None:
        """Buffers, runtime scalars and specialization constants, from the arguments and attributes of the kernel."""
        program = r.program
        for spec in _texts(op, "vyre.specs"):
            program.specs |= self.declared(op, "spec", spec).specs
        (entry, *_) = list(op.regions[0].blocks)
        count = len(attribute(op, "function_type").inputs.data)
        attrs = attribute(op, "arg_attrs")
        binding = 0
        for number, argument in enumerate(list(entry.args)[:count]):
            arg_attrs = attrs.data[number] if attrs is not None else None
            if str(argument.type).startswith("memref<"):
                text = dictionary(arg_attrs, "vyre.buffer")
                buffer = self.buffer(r, op, argument, text, number, binding)
                binding += buffer.binding is not None
                self.add_buffer(r, argument, buffer)
                if text is None:
                    self.undeclared.add(buffer.name)
            else:
                self.scalar(r, op, argument, dictionary(arg_attrs, "vyre.param"), number)
        tiles = _texts(op, "vyre.workgroup_buffers")
        attributions = list(entry.args)[count:]
        shared = attribute(op, "workgroup_attributions")
        shared_count = int(shared.value.data) if shared is not None else 0
        if len(attributions) > shared_count:
            raise NotReadable(
                "memory that is private to an invocation is not read", "keep it in values: mlir-opt --mem2reg"
            )
        for number, argument in enumerate(attributions):
            declared = tiles[number] if number < len(tiles) else None
            buffer = self.buffer(r, op, argument, declared, number, None)
            self.add_buffer(r, argument, replace(buffer, access=AccessMode.WORKGROUP))

    def declared(self, op: Any, word: str, text: str) -> Program:
        """Parse a declaration of ours.  Raises NotReadable for another text."""
        whole = f"vyre 2\nprogram @p workgroup(1) {{\n{word} {text}\n}}\n"
        try:
            (program,) = parse_source(Source(whole, "<declaration>")).programs.values()
        except (DiagnosticError, ValueError):
            raise NotReadable(f"{text!r} does not declare a {word}") from None
        return program

    def buffer(
        self, r: Reader, op: Any, argument: Any, text: str | None, number: int, binding: int | None
    ) -> Buffer:
        kind = argument.type
        if text is None:
            return _buffer_of(r, kind, argument.name_hint or f"arg{number}", binding)
        (buffer,) = self.declared(op, "buffer", text).buffers.values()
        if _flat(memref_type(buffer)) != _flat(str(kind)):
            raise NotReadable(f"`{text}` declares a {memref_type(buffer)}, and the memref is {kind}")
        return replace(buffer, loc=r.loc)

    def add_buffer(self, r: Reader, argument: Any, buffer: Buffer) -> None:
        wanted, number = buffer.name, 1
        while buffer.name in r.program.buffers:
            number += 1
            buffer.name = f"{wanted}_{number}"
        r.program.buffers[buffer.name] = buffer
        r.values[argument] = Memory(buffer)

    def scalar(self, r: Reader, op: Any, argument: Any, text: str | None, number: int) -> None:
        """A runtime scalar."""
        if text is not None:
            (param,) = self.declared(op, "param", text).params.values()
        else:
            param = Param(argument.name_hint or f"arg{number}", r.type_of(argument))
            if param.dtype.is_vec:
                raise NotReadable(f"an argument of {argument.type} is not read")
        if param.name in r.program.params:
            param = replace(param, name=f"{param.name}_{number}")
        r.program.params[param.name] = replace(param, loc=r.loc)
        value = r.emit("param", (), param.dtype, {"param": param.name}, speculative=True)
        value.name = param.name
        r.params[value] = param.name
        r.values[argument] = Index(value) if str(argument.type) == "index" else Plain(value)


# --- types and attributes


def _dims(op: Any, name: str) -> Dim3 | None:
    attr = attribute(op, name) or attribute(op, f"gpu.{name}")
    if attr is None or not hasattr(attr, "get_values"):
        return None
    sizes = [int(size) for size in attr.get_values()]
    return (sizes[0], sizes[1], sizes[2]) if len(sizes) == 3 else None


def _is_kernel(op: Any) -> bool:
    """The word `kernel` is the attribute `gpu.kernel` in the generic form."""
    return attribute(op, "kernel") is not None or attribute(op, "gpu.kernel") is not None


def _texts(op: Any, name: str) -> list[str]:
    attr = attribute(op, name)
    return [item.data for item in attr.data] if attr is not None else []


def _flat(memref: str) -> str:
    """A memref type with the spelling of a memory space that says nothing left out."""
    text = "".join(memref.split())
    return (
        text.replace(f",{WORKGROUP}", ",workgroup")
        .replace(",3:i32>", ",workgroup>")
        .replace(",3>", ",workgroup>")
    )


def _buffer_of(r: Reader, kind: Any, name: str, binding: int | None) -> Buffer:
    """The buffer that a memref is; what the program may do with it is not known yet."""
    if not hasattr(kind, "shape"):
        raise NotReadable(f"{kind} is not read; a buffer has 1 to {MAX_DIMENSIONS} dimensions")
    extents = [None if extent.data < 0 else extent.data for extent in kind.shape]
    if not 1 <= len(extents) <= MAX_DIMENSIONS:
        raise NotReadable(f"{kind} is not read; a buffer has 1 to {MAX_DIMENSIONS} dimensions")
    if "strided" in str(kind) or "affine_map" in str(kind):
        raise NotReadable(f"{kind} is not read; buffers are row-major, without a layout")
    is_workgroup = _flat(str(kind)).endswith(",workgroup>")
    if is_workgroup and None in extents:
        raise NotReadable("workgroup memory has constant extents")
    element = str(kind.element_type)
    if element == "index":
        raise NotReadable("memory for values of the type index is not read", "use i64")
    if element in ("f8E4M3FN", "f8E5M2"):
        raise NotReadable(f"no arithmetic exists on {element}", "load it as an i8")
    access = AccessMode.WORKGROUP if is_workgroup else AccessMode.READ_WRITE
    return Buffer(
        name, r.dtype(kind.element_type), extents, access, None if is_workgroup else binding, loc=r.loc
    )


def _hinted(r: Reader, kind: Any, attrs: Any, number: int) -> DataType | None:
    """Our type of an argument or a result of a function, as its attribute says it."""
    arg_attrs = attrs.data[number] if attrs is not None and number < len(attrs.data) else None
    text = dictionary(arg_attrs, "vyre.type")
    fitting = r.dtype(kind)
    dtype = named_type(text) if text is not None else None
    return dtype if dtype is not None and dtype.bits == fitting.bits else None


def _declared(r: Reader, kind: Any, attrs: Any, number: int) -> DataType:
    return _hinted(r, kind, attrs, number) or r.dtype(kind)


# --- ops


def _run(r: Reader, theirs: Any, block: Block) -> None:
    """Read the ops of a block of MLIR without its terminator; an op that is refused leaves an error and no results."""
    outer, r.block = r.block, block
    for op in theirs.ops:
        if op.name in _TERMINATORS:
            break
        r.loc = r.parsed.location(op)
        try:
            _op(r, op)
        except NotReadable as refusal:
            r.loc = r.parsed.location(op)
            r.refuse(refusal)
            _miss(r, op)
        except WRONG:
            r.loc = r.parsed.location(op)
            r.refuse(NotReadable(_malformed(op)))
            _miss(r, op)
    r.block = outer


def _miss(r: Reader, op: Any) -> None:
    """Give the results of an op that was refused no value."""
    for result in op.results:
        r.values[result] = Missing()


def _op(r: Reader, op: Any) -> None:
    name = op.name
    unregistered = op.attributes.get("op_name__")
    if unregistered is not None:
        name = unregistered.data
    if name in READ_CONTROL:
        READ_CONTROL[name](r, op, _run)
        return
    read = READ_OPS.get(name) or READ_MEMORY.get(name)
    if read is None:
        raise NotReadable(f"{name} is not an op that this reads", _hint(name))
    read(r, op)


def _hint(name: str) -> str | None:
    return HINTS.get(name) or HINTS.get(name.partition(".")[0])


# --- when all is read


def _drop_unused(r: Reader) -> None:
    """Remove speculative ops whose results nobody uses."""
    _drop_unused_of(r.block, r.speculative, set())


def _drop_unused_of(block: Block, speculative: set[Op], used: set[Value]) -> None:
    remaining: list[Op] = []
    for op in reversed(block.ops):
        if op in speculative and not any(result in used for result in op.results):
            continue
        used.update(op.operands)
        for inner in op.regions:
            _drop_unused_of(inner, speculative, used)
        remaining.append(op)
    block.ops = remaining[::-1]


def _set_accesses(program: Program, undeclared: set[str]) -> None:
    """Set the access of buffers that no declaration describes, by the kernel's own loads and stores.

    What it loads and stores, its caller may have written and may read: `live_in live_out`.
    """
    effects: dict[str, set[str]] = {}
    for op in program.walk():
        if "buffer" in op.attrs:
            effects.setdefault(op.attrs["buffer"], set()).update(op.definition.effects)
    for name in undeclared:
        buffer, does = program.buffers[name], effects.get(name, set())
        if "write" not in does:
            buffer.access = AccessMode.READ
        elif "read" not in does:
            buffer.access = AccessMode.WRITE
        else:
            buffer.live_in = buffer.live_out = True
