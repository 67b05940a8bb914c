"""Texts that are drawn, and not mutated: named kernels with any operands, functions that call each other, and many of one op.

Each asks a promise of docs/explanation/reliability.md: what the verifier accepts of a kernel is expanded, and what functions or ops
would take too long is refused by an error at a place, before it takes long.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from functools import partial

from vyre_opt.execution import BackendError, ProgramError
from vyre_opt.ir import OPS, DataType, Diagnostic, DiagnosticError, Module, parse
from vyre_opt.ir.grids import MAX_LENGTH
from vyre_opt.ir.ops import NAMED_KERNELS, Role
from vyre_opt.lowering.common.cost_ceiling import DEFAULT_CEILING, set_ceiling
from vyre_opt.lowering.nvptx.abi import Unit
from vyre_opt.lowering.nvptx.kernel import lower
from vyre_opt.lowering.nvptx.ptx import emit_ptx
from vyre_opt.lowering.nvptx.targets import GPUS
from vyre_opt.passes import PassManager
from vyre_opt.targets.cpu.compiler import LegalForm
from vyre_opt.targets.cpu.host import Host
from vyre_opt.targets.cpu.host_code import host_code
from vyre_opt.targets.cpu.jit import compile_object

from ..op_samples import kernel_counts
from .header import bytes_of, split_header, text_of, with_header
from .target import REFUSED, Target, Wrong, shape_of

__all__ = ["CALLS", "COSTS", "KERNELS"]

SM_90 = GPUS["sm_90"]
SEEDS = 12
CEILING = 1000
"""Of the costs, in milliseconds: what comes below it is compiled in the time of a case."""


# --- named kernels


def _kernel_text(rng: random.Random) -> str:
    """A kernel in a program or a pipeline, whose operands fit each other, but for some that do not."""
    name = rng.choice([*NAMED_KERNELS])
    kernel = NAMED_KERNELS[name]
    small = rng.choice((1, 2, 3, 7, 16, 64))
    params = {
        key: small if default is None or rng.random() < 0.1 else default
        for key, default in kernel.params.items()
    }
    if rng.random() < 0.15 and params:
        params[rng.choice([*params])] = rng.choice((0, -1, 5, 4096, 1 << 20, 1 << 31, 1 << 40))
    if rng.random() < 0.15:
        params[f"schedule_{rng.choice(kernel.schedule)}"] = rng.choice((0, 1, 2, 3, 32, 64, 100, 1024))
    try:
        sized = kernel_counts(kernel, params)
    except ValueError:
        sized = [(role, 64) for role in kernel.roles]
    used = sized[: rng.choice((len(sized), len(sized), len(sized) - sum(r.optional for r in kernel.roles)))]
    in_pipeline, element = rng.random() < 0.6, rng.choice(used[0][0].types)
    lines = [
        _buffer(number, role, count, element, in_pipeline, rng) for number, (role, count) in enumerate(used)
    ]
    names = [f"@b{number}" for number in range(len(used))]
    if rng.random() < 0.05:
        names[rng.randrange(len(names))] = rng.choice(names)
    shown = ", ".join(f"{key} = {value}" for key, value in params.items())
    head = "pipeline @main" if in_pipeline else "program @main workgroup(64)"
    use = f"{name}({', '.join(names)})" + (f" {{{shown}}}" if shown else "")
    return "\n".join(["vyre 2", f"{head} {{", *lines, f"  {use}", "}"])


def _buffer(
    number: int, role: Role, count: int, element: DataType, in_pipeline: bool, rng: random.Random
) -> str:
    dtype = element if element in role.types else rng.choice(role.types)
    access = str(role.access)
    draw = rng.random()
    if draw < 0.03:
        dtype = rng.choice((DataType.U8, DataType.BOOL, DataType.F64, DataType.vec(DataType.F32, 4)))
    elif draw < 0.06:
        access = rng.choice(("read", "write", "read_write", "workgroup"))
    elif draw < 0.2:
        count = rng.choice(
            (0, 1, count - 1, count + 1, 2 * count, MAX_LENGTH, MAX_LENGTH + 1, 1 << 31, 1 << 40)
        )
    shape = str(max(0, count))
    if rng.random() < 0.1:
        rows = rng.choice((1, 2, 4, 8))
        shape = f"{count // rows}, {rows}" if rng.random() < 0.5 else f"{rows}, {count // rows}"
    elif rng.random() < 0.05:
        shape = "?"
    binding = "" if in_pipeline else f" binding({number})"
    return f"  buffer @b{number} : {dtype}[{shape}] {access}{binding}"


def _run_kernel(case: bytes) -> str:
    """What verifies with all of its sizes and no schedule is expanded for each target, and lowered for one."""
    try:
        module = parse(text_of(case))
    except DiagnosticError as error:
        return _refused(error.diagnostics)
    is_fixed = "schedule_" in text_of(case)
    is_open = "?" in text_of(case)
    answers: list[str] = []
    for target in ("cpu", "sm_90", ""):
        copy = parse(text_of(case))
        result = PassManager("expand_kernels", target=target).run(copy)
        refusals = [remark.message for remark in result.remarks if remark.kind == "refused"]
        if refusals and not is_fixed and not is_open and "has rows" not in refusals[0]:
            raise Wrong(f"verifies, and has no program: {shape_of(refusals[0])}")
        answers += map(shape_of, refusals[:1])
    shaped = any(b.dimensions > 1 for p in module.pipelines.values() for b in p.buffers.values())
    return f"{REFUSED}{answers[0]}" if answers else f"expanded{' by rows' * shaped}"


# --- calls


def _calls_text(rng: random.Random) -> str:
    """Functions that call those before them, a few times each, and now and then one that they should not."""
    levels, each = rng.randint(1, 90), rng.choice((1, 1, 2, 2, 3, 8))
    lines = ["vyre 2"]
    for n in range(levels):
        body = []
        value = "%a"
        for k in range(rng.choice((1, each)) if n else 0):
            callee = n - 1 if rng.random() < 0.8 else rng.randrange(n)
            if rng.random() < 0.002:
                callee = rng.randrange(levels + 1)
            body.append(f"  %c{k} = call @f{callee}({value}) : (u32) -> u32")
            value = f"%c{k}"
        for k in range(rng.randint(0, 3)):
            body.append(f"  %o{k} = {rng.choice(('add', 'mul', 'xor', 'div'))} {value}, %a : u32")
            value = f"%o{k}"
        lines += [f"func @f{n}(%a : u32) -> u32 {{", *body, f"  yield {value}", "}"]
    calls = [
        f"  %r{k + 1} = call @f{levels - 1}(%r{k}) : (u32) -> u32" for k in range(rng.choice((1, 1, 40)))
    ]
    lines += [
        "program @p workgroup(32) {",
        "  buffer @y : u32[32] write binding(0)",
        "  %r0 = global_id x",
        *calls,
        f"  store %r{len(calls)}, @y[%r0] : u32",
        "}",
    ]
    return with_header("\n".join(lines), rng.choice(("", "inline", "default")))


def _run_calls(case: bytes) -> str:
    """Inlined by the passes and lowered for both targets, or refused by each of these that inlines."""
    passes, _, text = split_header(text_of(case))
    try:
        module = parse(text)
        PassManager(passes).run(module)
    except DiagnosticError as error:
        return _refused(error.diagnostics)
    return _lowered(module, compiles=False)


# --- costs


def _costs_text(rng: random.Random) -> str:
    """Some hundred times an op of arithmetic, of scalars or vectors, one after the other or side by side."""
    rows = [row for row in OPS.values() if row.format in ("unary", "binary", "ternary") and not row.expansion]
    row = rng.choice(rows)
    names = ("u8", "i16", "u32", "i64", "u64", "f16", "bf16", "f32", "f64", "bool")
    scalars = [dtype for dtype in map(DataType.of, names) if row.accepts(dtype)]
    scalar = rng.choice(scalars)
    lanes = rng.choice((1, 1, 1, 2, 4, 8, 16, 32, 64))
    dtype = DataType.vec(scalar, lanes) if lanes > 1 else scalar
    count = int(10 ** rng.uniform(0, 3.5)) // (1 if lanes < 8 else 4) + 1
    operands = {"unary": 1, "binary": 2, "ternary": 3}[row.format]
    back = rng.choice((1, 1, 2, 8))
    lines = [
        "vyre 2",
        "program @p workgroup(32) {",
        f"  buffer @x : {scalar}[?] read binding(0)",
        f"  buffer @y : {scalar}[?] write binding(1)",
        "  %g = global_id x",
        "  %o = workgroup_id x",
        f"  %v0 = load @x[%g] : {dtype}",
        f"  %w = load @x[%o] : {dtype}",
    ]
    for n in range(count):
        before = [f"%v{max(0, n - rng.randrange(back))}", *rng.choices(("%w", f"%v{n}"), k=operands - 1)]
        lines.append(f"  %v{n + 1} = {row.name} {', '.join(before)} : {dtype}")
    return "\n".join([*lines, f"  store %v{count}, @y[%g] : {dtype}", "}"])


def _run_costs(case: bytes) -> str:
    """What is below a ceiling is compiled for both targets, in the time that a case has."""
    set_ceiling(CEILING)
    try:
        return _lowered(parse(text_of(case)), compiles=True)
    except DiagnosticError as error:
        return _refused(error.diagnostics)
    finally:
        set_ceiling(DEFAULT_CEILING)


# --- all of them


def _lowered(module: Module, compiles: bool) -> str:
    """What becomes of @p on the cpu and for a GPU; `compiles`: whether LLVM does its part."""
    program, host, answers = module.programs["p"], Host.this(), []
    try:
        code = host_code(LegalForm(program, module).program, {}, host)
        if compiles:
            compile_object(code.text, host)
        answers.append("cpu")
    except ProgramError as error:
        answers.append(f"cpu {_refused([error.diagnostic])}")
    except BackendError as error:
        raise Wrong(f"an error without a place: {shape_of(str(error))}") from None
    try:
        lowered = lower([Unit(program, module)], SM_90)
        if compiles:
            emit_ptx(lowered, SM_90)
        answers.append("sm_90")
    except DiagnosticError as error:
        answers.append(f"sm_90 {_refused(error.diagnostics)}")
    return ", ".join(answers)


def _refused(diagnostics: list[Diagnostic]) -> str:
    first = diagnostics[0]
    if first.loc is None:
        raise Wrong(f"a message without a place in the text: {shape_of(first.message)}")
    return f"{REFUSED}{shape_of(first.message)}"


Draw = Callable[[random.Random], str]


def _seeds(draw: Draw) -> list[bytes]:
    return [bytes_of(draw(random.Random(seed))) for seed in range(SEEDS)]


def _draw(draw: Draw, case: bytes, other: bytes, rng: random.Random) -> bytes:
    """A case, whatever was before."""
    return bytes_of(draw(rng))


def _target(name: str, summary: str, draw: Draw, run: Callable[[bytes], str], batch: int) -> Target:
    return Target(name, ".vyre", summary, partial(_seeds, draw), partial(_draw, draw), run, batch)


KERNELS = _target("kernels", "named kernels, whose operands mostly fit", _kernel_text, _run_kernel, 2000)
CALLS = _target("calls", "functions that call each other", _calls_text, _run_calls, 300)
COSTS = _target("costs", "many of one op through LLVM, for the cpu and a GPU", _costs_text, _run_costs, 200)
