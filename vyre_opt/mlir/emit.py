"""A module of ours as MLIR: a gpu.module for each program, whose kernel is a gpu.func over memrefs.

    gpu.func @scale(%x: memref<?xf32> {vyre.buffer = "@x : f32[?] read binding(0)"}, ...)
        workgroup(%t : memref<64xf32, #gpu.address_space<workgroup>>) kernel
        attributes {known_block_size = array<i32: 64, 1, 1>, ...}

Arguments are the bound buffers in binding order, then transient ones, then the runtime scalars by name.  With
`bare_pointers` they are those of our own kernels: pointers, then the open extents as u64, then the scalars.

What a declaration says beyond the MLIR type is kept as its text, which our own parser reads again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..analysis.value_forms import ValueForms
from ..ir.diagnostics import DiagnosticError
from ..ir.literals import show
from ..ir.program import Block, Buffer, Func, Module, Program, Spec
from ..ir.shapes import declared_shape
from ..lowering.common.spec_values import check_specs
from ..lowering.common.workgroup_reductions import with_subgroup_reductions
from ..rewriting.core_form import core_module
from .code import Code, HelperSet
from .emit_control import CONTROL_OPS
from .emit_memory import MEMORY_OPS
from .emit_ops import VALUE_OPS
from .function_code import FunctionCode, MemoryRef
from .helpers.table import define
from .refusals import refusals
from .spelling import attributes, memref_type, mlir_type, quoted, symbol_of

__all__ = ["emit_mlir"]

GLOBAL = "1"
"""The memory space of storage behind a bare pointer."""

TILE_ALIGNMENT = 16
"""Alignment of workgroup memory in bytes.

LLVM's passes take a variable of more than 16 bytes that has no alignment of its own to have this one, and join accesses
that follow each other by it; its PTX declares such a variable with the alignment of one element.
"""

_EMITTERS = {**VALUE_OPS, **MEMORY_OPS}


def emit_mlir(module: Module, bare_pointers: bool = False) -> str:
    """The MLIR text of all programs of a module; its pipelines are not part of it.

    Raises DiagnosticError, with all ops that MLIR has no counterpart for.
    """
    module = core_module(module)
    check_specs(module.programs.values(), {})
    programs = [with_subgroup_reductions(program) for program in module.programs.values()]
    problems = [d for program in programs for d in refusals(program, module)]
    if problems:
        raise DiagnosticError(problems)
    used_names: set[str] = set()
    parts = [_gpu_module(program, module, used_names, bare_pointers) for program in programs]
    return "module attributes {gpu.container_module} {\n" + "".join(parts) + "}\n"


def _gpu_module(program: Program, module: Module, used_names: set[str], bare_pointers: bool) -> str:
    space = GLOBAL if bare_pointers else ""
    helpers = HelperSet(program, define, space)
    name = symbol_of(program.name, used_names)
    forms = ValueForms(program, program.spec_defaults)
    inner = {name}
    called = _called(program.body, module)
    symbols = {func: symbol_of(func, inner) for func in module.funcs if func in called}
    functions = [
        _function(module.funcs[func], symbol, helpers, forms, symbols) for func, symbol in symbols.items()
    ]
    kernel = _kernel(program, name, helpers, forms, symbols, bare_pointers)
    texts = [*helpers.texts.values(), *functions, kernel]
    return f"  gpu.module @{name} {{\n" + "".join(f"{text}\n" for text in texts) + "  }\n"


def _called(body: Block, module: Module) -> set[str]:
    """The functions that a body calls, directly or through others."""
    names: set[str] = set()
    pending = [body]
    while pending:
        for op in pending.pop().walk():
            if op.name == "call" and op.attrs["callee"] not in names:
                names.add(op.attrs["callee"])
                pending.append(module.funcs[op.attrs["callee"]].body)
    return names


def _run(f: FunctionCode, block: Block) -> None:
    for op in block.ops:
        f.code.at(op.loc)
        if op.definition.is_terminator:
            return
        if op.name in CONTROL_OPS:
            CONTROL_OPS[op.name](f, op, _run)
        else:
            (_EMITTERS.get(op.name) or _EMITTERS[op.definition.format])(f, op)


# --- functions


def _function(
    func: Func, symbol: str, helpers: HelperSet, forms: ValueForms, symbols: Mapping[str, str]
) -> str:
    f = FunctionCode(Code(helpers, "      "), forms, symbols)
    f.code.at(func.loc)
    params = [
        f"{f.bind(param)}: {mlir_type(param.type)} {{vyre.type = {quoted(param.type.name)}}}"
        for param in func.params
    ]
    _run(f, func.body)
    names, kinds = f.all(f.yielded(func.body))
    f.code.line(f"func.return {names} : {kinds}" if names else "func.return")
    results = ", ".join(f"{mlir_type(t)} {{vyre.type = {quoted(t.name)}}}" for t in func.results)
    head = f"func.func private @{symbol}({', '.join(params)})" + (f" -> ({results})" if results else "")
    traits = [
        ("llvm.linkage", "#llvm.linkage<internal>"),
        ("passthrough", '["alwaysinline"]'),
        ("vyre.name", quoted(func.name)),
    ]
    return "\n".join([f"    {head} attributes{attributes(traits)} {{", *f.code.lines, "    }"])


# --- kernels


def _kernel(
    program: Program,
    name: str,
    helpers: HelperSet,
    forms: ValueForms,
    symbols: Mapping[str, str],
    bare_pointers: bool,
) -> str:
    f = FunctionCode(Code(helpers, "      "), forms, symbols, program.spec_defaults)
    f.code.at(program.loc)
    storage = [*program.bound_buffers]
    storage += [b for b in program.buffers.values() if b.binding is None and not b.is_workgroup]
    params = _pointer_params(f, storage) if bare_pointers else _memref_params(f, storage)
    for param in sorted(program.params.values(), key=lambda p: p.name):
        kind = mlir_type(param.dtype)
        argument = f.code.name(param.name)
        f.params[param.name] = argument
        params.append(f"{argument}: {kind} {{vyre.param = {quoted(_scalar_text(param))}}}")
    tiles = []
    for buffer in program.buffers.values():
        if buffer.is_workgroup:
            memory = MemoryRef(f.code.name(buffer.name), memref_type(buffer), buffer)
            f.buffers[buffer.name] = memory
            tiles.append(f"{memory.name} : {memory.type}")
    _run(f, program.body)
    f.code.at(program.loc)
    f.code.line("gpu.return")
    workgroup = f" workgroup({', '.join(tiles)})" if tiles else ""
    head = f"gpu.func @{name}({', '.join(params)}){workgroup} kernel attributes{_kernel_attributes(program)}"
    return "\n".join([f"    {head} {{", *f.code.lines, "    }"])


def _memref_params(f: FunctionCode, storage: list[Buffer]) -> list[str]:
    params = []
    for buffer in storage:
        memory = MemoryRef(f.code.name(buffer.name), memref_type(buffer), buffer)
        f.buffers[buffer.name] = memory
        params.append(f"{memory.name}: {memory.type} {{vyre.buffer = {quoted(_buffer_text(buffer))}}}")
    return params


def _pointer_params(f: FunctionCode, storage: list[Buffer]) -> list[str]:
    """Pointers and extents; the body begins by making memrefs of them."""
    pointers = [f.code.name(buffer.name) for buffer in storage]
    extents = {
        (buffer.name, number): f.code.name(f"{buffer.name}.{number}")
        for buffer in storage
        for number, extent in enumerate(buffer.shape)
        if extent is None
    }
    params = [f"{pointer}: !llvm.ptr<{GLOBAL}>" for pointer in pointers]
    params += [f"{extent}: i64" for extent in extents.values()]
    for buffer, pointer in zip(storage, pointers, strict=True):
        kind = memref_type(buffer, GLOBAL)
        sizes = [
            extents[buffer.name, number] if extent is None else f.code.integer(extent, "i64")
            for number, extent in enumerate(buffer.shape)
        ]
        if buffer.dtype.is_vec:
            sizes.append(f.code.integer(buffer.dtype.lanes, "i64"))
        f.buffers[buffer.name] = MemoryRef(_descriptor(f.code, pointer, sizes, kind), kind, buffer)
    return params


def _descriptor(code: Code, pointer: str, sizes: list[str], kind: str) -> str:
    """A memref over a pointer, row-major from its first element on."""
    rank, ptr = len(sizes), f"ptr<{GLOBAL}>"
    struct = f"!llvm.struct<({ptr}, {ptr}, i64, array<{rank} x i64>, array<{rank} x i64>)>"
    strides = [code.integer(1, "i64")]
    for size in reversed(sizes[1:]):
        strides.insert(0, code.op("arith.muli", "i64", strides[0], size))
    fields: list[tuple[tuple[int, ...], str]] = [
        ((0,), pointer),
        ((1,), pointer),
        ((2,), code.integer(0, "i64")),
    ]
    fields += [((3, number), size) for number, size in enumerate(sizes)]
    fields += [((4, number), stride) for number, stride in enumerate(strides)]
    descriptor = code.emit(f'"llvm.mlir.undef"() : () -> {struct}')
    for position, value in fields:
        part = f"!llvm.{ptr}" if position[0] < 2 else "i64"
        indices = ", ".join(map(str, position))
        descriptor = code.emit(
            f'"llvm.insertvalue"({descriptor}, {value}) {{position = array<i64: {indices}>}} : ({struct}, {part}) -> {struct}'
        )
    return code.emit(f"builtin.unrealized_conversion_cast {descriptor} : {struct} to {kind}")


# --- declarations


def _buffer_text(buffer: Buffer) -> str:
    """A declaration without the word `buffer`, as the language writes it."""
    clauses = [f"@{buffer.name} : {buffer.dtype}[{declared_shape(buffer)}] {buffer.access}"]
    if buffer.binding is not None:
        clauses.append(f"binding({buffer.binding})")
    clauses += ["live_in"] * buffer.live_in + ["live_out"] * buffer.live_out
    return " ".join(clauses)


def _scalar_text(declaration: Any) -> str:
    """A spec or a param without its first word."""
    default = "" if declaration.default is None else f" = {show(declaration.default, declaration.dtype)}"
    return f"@{declaration.name} : {declaration.dtype}{default}"


def _kernel_attributes(program: Program) -> str:
    def dims(sizes: tuple[int, int, int]) -> str:
        return f"array<i32: {', '.join(map(str, sizes))}>"

    def texts(items: list[str]) -> str:
        return f"[{', '.join(map(quoted, items))}]"

    # mlir-opt 16 and 19 know the size of a block by one name each
    entries = [(name, dims(program.workgroup)) for name in ("known_block_size", "gpu.known_block_size")]
    if program.grid is not None:
        entries += [(name, dims(program.grid)) for name in ("known_grid_size", "gpu.known_grid_size")]
        entries.append(("vyre.grid", dims(program.grid)))
    if program.prefer_shared is not None:
        entries.append(("vyre.prefer_shared", f"{program.prefer_shared} : i64"))
    tiles = [_buffer_text(b) for b in program.buffers.values() if b.is_workgroup]
    specs: list[Spec] = list(program.specs.values())
    if tiles:
        # as a word behind each attribution, which is how mlir-opt 19 prints it, mlir-opt 16 does not take it
        alignments = ", ".join([f"{{llvm.align = {TILE_ALIGNMENT} : i64}}"] * len(tiles))
        entries.append(("workgroup_attrib_attrs", f"[{alignments}]"))
        entries.append(("vyre.workgroup_buffers", texts(tiles)))
    if specs:
        entries.append(("vyre.specs", texts([_scalar_text(spec) for spec in specs])))
    entries.append(("vyre.program", quoted(program.name)))
    return attributes(entries)
