"""A Python function as a program of a module.

def saxpy(a: f32, x: Read[f32], y: ReadWrite[f32])        program @saxpy workgroup(256) {
                                                            buffer @x : f32[?] read binding(0)
                                                            buffer @y : f32[?] read_write binding(1) live_in live_out
                                                            param @a : f32
"""

from __future__ import annotations

import ast
import re
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ..ir.diagnostics import Diagnostic, DiagnosticError
from ..ir.ops import AXES
from ..ir.program import (
    DEFAULT_WORKGROUP,
    MAX_NESTING,
    AccessMode,
    Block,
    Buffer,
    Dim3,
    Module,
    Op,
    Param,
    Program,
)
from ..ir.scopes import Scope
from ..ir.shapes import has_slices
from ..ir.verifier import verify
from ..ir.warnings.program_warnings import ignored_breakpoints
from .array_types import array_type, declared_array, refuse_arguments
from .bindings import Binding, BufferView
from .dead_code import remove_dead_code
from .defaults import encoded_default
from .emitter import Emitter
from .fastmath import give_flags
from .foreign_words import foreign_help
from .generics import specialized, unbound_help, widest_types
from .held_asserts import remove_held_asserts
from .program_warnings import give_warnings
from .python_source import FunctionSource, Unsupported, untyped
from .random_draws import repeated_draws
from .remedies import as_loop, corrected, statement_of
from .scalars import scalar_type
from .scopes import settle_scopes
from .statements import Statements
from .types import Array
from .unsupported import TOO_DEEP, surely_unsupported, unsupported
from .unused_names import unused_names, unused_parameters

__all__ = ["annotated_arguments", "check_source", "translate_program"]


def translate_program(
    function: Callable[..., Any],
    workgroup: Dim3 | None,
    grid: Dim3 | None,
    prefer_shared: int | None = None,
    cluster: int | None = None,
    fastmath: tuple[str, ...] = (),
    types: Mapping[Any, Any] | None = None,
    for_debugger: bool = False,
) -> Module:
    """The module with the program of a function, and the functions that it calls.

    `workgroup`: None for DEFAULT_WORKGROUP, or with slices for one invocation, which says what all do.  `fastmath`: flags for its arithmetic on floats, but for calls that have their own.
    `types`: what its type variables are.

    `for_debugger`: ops have the scopes of their statements, values that nothing uses stay, and nothing warns.

    Raises DiagnosticError, located in the file of the function.
    """
    source = FunctionSource(function, types)
    loc = source.location(source.tree)
    program = Program(
        source.name,
        workgroup or DEFAULT_WORKGROUP,
        grid,
        prefer_shared=prefer_shared,
        cluster=cluster,
        loc=loc,
    )
    module = Module(source=source.source)
    diagnostics: list[Diagnostic] = []
    emitter = Emitter(program.body)
    t = Statements(source, emitter, program, module, diagnostics)
    for argument, annotation in annotated_arguments(t):
        try:
            t.env[argument.arg] = _declare(t, program, argument, annotation)
        except Unsupported as error:
            t.report(error)
    if for_debugger:
        emitter.scope = Scope((program.name,), {})
    if not diagnostics:
        t.body(source.tree.body)
    if not diagnostics and (op := _too_deep(program.body)) is not None:
        message, help = TOO_DEEP
        diagnostics.append(Diagnostic("error", message, op.loc, help=help))
    if not diagnostics:
        try:
            emitter.finish()
        except Unsupported as error:
            t.report(error)
    if diagnostics:
        raise DiagnosticError(diagnostics)
    if has_slices(program):
        if wrong := list(_lanes_beside_slices(source, program, workgroup)):
            raise DiagnosticError(wrong)
        program.workgroup = (1, 1, 1)
    remove_held_asserts(program.body, emitter.index_checks)
    if for_debugger:
        settle_scopes(program.body)
    else:
        remove_dead_code(program.body)
    give_flags(program.body, fastmath)
    module.add(program)
    warnings = [*verify(module), *ignored_breakpoints(program)]
    for each in warnings:
        _tell_of_return(each, source)
    warnings = [each for each in warnings if each.severity == "error" or not _is_told(each, emitter.warnings)]
    warnings += (*emitter.warnings, *repeated_draws(program, emitter.draws))
    if not warnings:  # a mistake that is told may be why
        warnings += (*unused_names(source), *unused_parameters(source))
    give_warnings([each for each in warnings if each.severity == "error" or not for_debugger])
    return module


def _is_told(warning: Diagnostic, others: Sequence[Diagnostic]) -> bool:
    """Whether a warning of ops is about an expression that another one is about."""
    places = [place for place in (warning.loc, *(loc for _, loc in warning.notes)) if place is not None]
    told = [each.loc for each in others if each.loc is not None]
    return any(
        place in other or (place.start, place.end) == (other.start, other.end)
        for place in places
        for other in told
    )


def _tell_of_return(error: Diagnostic, source: FunctionSource) -> None:
    """Point an error about a barrier, which stands behind an `if`, to the return in it."""
    if error.severity != "error" or error.loc is None or not error.notes:
        return
    cause = error.notes[0][1]
    for node in ast.walk(source.tree):
        if not isinstance(node, ast.If) or cause is None or source.location(node).start != cause.start:
            continue
        if source.location(node).start <= error.loc.start < source.location(node).end and not node.orelse:
            what, test = (
                source.source.text[error.loc.start : error.loc.end].partition("(")[0],
                source.text(node.test),
            )
            chosen = _chosen_before(source, error, test)
            error.help = (
                f"before the if write {chosen}"
                if chosen
                else f"end the if before {what}, and write if {test}: again behind it, for what follows"
            )
            return
        returns = [each for part in node.body for each in ast.walk(part) if isinstance(each, ast.Return)]
        if returns and error.loc.start >= source.location(node).end:
            held = source.opposite(node.test) or f"not ({source.text(node.test)})"
            error.notes[0] = ("invocations that return here never get to it", source.location(returns[0]))
            what = source.source.text[error.loc.start : error.loc.end].partition("(")[0]
            chosen = _chosen_before(source, error, held)
            error.help = (
                f"leave the if with the return out, write {chosen}"
                if chosen
                else f"do not return before {what}: write if {held}: around what stands before and after it"
            )


_NEUTRAL = {"add": "0", "or": "0", "xor": "0", "mul": "1", "max": "-math.inf", "min": "math.inf"}
"""The value that combines with any other to that other."""


def _chosen_before(source: FunctionSource, error: Diagnostic, test: str) -> str | None:
    """Remedy for a reduction behind a condition, whose value is to be chosen before it; None for another op."""
    assert error.loc is not None
    calls = [
        n
        for n in ast.walk(source.tree)
        if isinstance(n, ast.Call) and source.location(n).start == error.loc.start
    ]
    call = next((n for n in calls if source.location(n).end == error.loc.end), None)
    name = source.text(call.func).rpartition(".")[2] if call is not None else ""
    if call is None or not name.endswith(("_reduce", "_scan", "_shuffle")) or not call.args or call.keywords:
        return None
    value, *rest = map(source.text, call.args)
    combine = rest[-1].strip("\"'") if rest else "add"
    free = next(name for name in ("v", "value", "chosen", "v_here") if name not in source.identifiers)
    statement = source.statements.get(call) or statement_of(source, call)
    written = f"{source.text(call.func)}({', '.join([free, *rest])})"
    if isinstance(statement, ast.Assign):
        written = corrected(source, {call.args[0]: free})
    chosen = f"{free} = {value} if {test} else {_NEUTRAL.get(combine, '0')}"
    return f"{chosen}, and below that {written}"


_LANE_IDS = ("local_id", "global_id", "lane_id", "subgroup_id")


def _lanes_beside_slices(
    source: FunctionSource, program: Program, workgroup: Dim3 | None
) -> Iterator[Diagnostic]:
    """Errors of a kernel that computes with slices, and says how many invocations a workgroup has, or asks which one it is: it says
    what all of a workgroup do."""
    slices = [op for op in program.walk() if any(v.type.is_slice for v in (*op.results, *op.operands))]
    first = slices[0]
    has_lanes = any(op.name in _LANE_IDS for op in program.walk())
    alone = next(
        (n for n in ast.walk(source.tree) if isinstance(n, ast.If) and _is_first_lane(source, n.test)), None
    )
    if has_lanes and alone is not None:
        body = "; ".join(source.text(each) for each in alone.body)
        message = (
            f"{program.name} computes with slices, which a whole workgroup has, and stores one value once"
        )
        help = f"leave if {source.text(alone.test)}: out, and write {body}"
        yield Diagnostic("error", message, source.location(alone.test), help=help).note(
            "a slice is here", first.loc
        )
        return
    if has_lanes and all(op.name in ("slice_load", "slice_reduce") for op in slices):
        calls = [n for n in ast.walk(source.tree) if isinstance(n, ast.Call)]
        loops = [
            (n, as_loop(source, n, op.operands[0].type.element.is_float))
            for op in slices
            for n in calls
            if op.name == "slice_reduce" and op.loc is not None and source.location(n).start == op.loc.start
        ]
        if loops and all(loop is not None for _, loop in loops):
            for node, loop in loops:
                message = f"{source.text(node.func)} is of a slice, which a whole workgroup has, and {program.name} says what each invocation does"
                yield Diagnostic("error", message, source.location(node), help=loop)
            return
    of_rows = next(
        (
            op.attrs["buffer"]
            for op in program.walk()
            if op.name in ("slice_load", "slice_store") and len(op.indices) > 1
        ),
        None,
    )
    launched = f"{program.name}[{'rows' if of_rows is None else f'len({of_rows})'}](...)"
    has_slices = f"{program.name} computes with slices, which a whole workgroup has"
    if workgroup not in (None, (1, 1, 1)):
        keywords = [k for d in source.tree.decorator_list if isinstance(d, ast.Call) for k in d.keywords]
        at = next((k for k in keywords if k.arg == "workgroup"), source.tree)
        help = (
            f"leave workgroup= out; a grid then counts rows or blocks, one a workgroup, as in {launched}; "
            "or keep the invocations, and loop over the elements of a row"
        )
        message = f"{has_slices}: how many invocations that is, is chosen"
        yield Diagnostic("error", message, source.location(at), help=help).note("a slice is here", first.loc)
    op = next((op for op in program.walk() if op.name in _LANE_IDS), None)
    if op is not None:
        help = (
            f"write vyre.workgroup_id({AXES.index(op.attrs['axis']) if 'axis' in op.attrs else 0}) for which workgroup it is, and all elements of one as "
            f"slices: y[r, :] = x[r, :] * 2.0; the grid counts workgroups, as in {launched}"
        )
        yield Diagnostic("error", f"{has_slices}, so there is no {op.name}", op.loc, help=help).note(
            "a slice is here", first.loc
        )


def _is_first_lane(source: FunctionSource, test: ast.expr) -> bool:
    """Whether a condition is `vyre.local_id(0) == 0`."""
    return (
        isinstance(test, ast.Compare)
        and isinstance(test.ops[0], ast.Eq)
        and isinstance(test.left, ast.Call)
        and source.text(test.left.func).rpartition(".")[2] in _LANE_IDS
        and isinstance(test.comparators[0], ast.Constant)
        and test.comparators[0].value == 0
    )


def check_source(source: FunctionSource, has_types: bool) -> None:
    """Raise DiagnosticError for what is wrong with a function when it is decorated, see `decoration.check_decorated`."""
    source.types = widest_types(source)
    diagnostics: list[Diagnostic] = []
    program = Program(source.name, DEFAULT_WORKGROUP)
    t = Statements(source, Emitter(program.body), program, Module(source=source.source), diagnostics)
    if has_types:
        for argument, annotation in annotated_arguments(t, has_quoted=False):
            try:
                _declare(t, program, argument, annotation)
            except Unsupported as error:
                t.report(error)
    for statement in surely_unsupported(source.tree.body):
        t.report(unsupported(source, statement))
    if diagnostics:
        raise DiagnosticError(diagnostics)


def _too_deep(body: Block) -> Op | None:
    """An op in so many blocks that its own would nest deeper than those of a program may."""
    level = [body]
    for _ in range(MAX_NESTING):
        level = [block for outer in level for op in outer.ops for block in op.regions]
    return next((op for block in level for op in block.ops if op.regions), None)


def annotated_arguments(t: Statements, has_quoted: bool = True) -> list[tuple[ast.arg, Any]]:
    """The arguments of a function with what their annotations are; errors are reported.

    `has_quoted`: with those whose names are looked up only now.
    """
    arguments = t.source.tree.args
    extra = [arguments.vararg, arguments.kwarg]
    for argument in (a for a in extra if a is not None):
        t.report(Unsupported(argument, "a kernel has no * and ** arguments", "name each argument"))
    pairs: list[tuple[ast.arg, Any]] = []
    for argument in t.source.arguments:
        if not has_quoted and isinstance(t.source.function.__annotations__.get(argument.arg), str):
            continue
        try:
            pairs.append((argument, _annotation(t, argument)))
        except Unsupported as error:
            t.report(error)
    return pairs


def _type_for(t: Statements, argument: ast.arg) -> str:
    """Remedy for an argument without a type, by how the function uses it."""
    name, dimensions, is_read, is_written, is_array = argument.arg, 1, False, False, False
    augmented = {id(n.target) for n in ast.walk(t.source.tree) if isinstance(n, ast.AugAssign)}
    for node in ast.walk(t.source.tree):
        if isinstance(node, ast.Subscript) and isinstance(node.value, ast.Name) and node.value.id == name:
            is_array = True
            dimensions = len(node.slice.elts) if isinstance(node.slice, ast.Tuple) else dimensions
            is_written = is_written or isinstance(node.ctx, ast.Store)
            is_read = is_read or isinstance(node.ctx, ast.Load) or id(node) in augmented
        elif (
            isinstance(node, ast.Call)
            and node.args
            and isinstance(node.args[0], ast.Name)
            and node.args[0].id == name
        ):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            is_array = is_array or called == "len" or called.startswith("atomic")
            is_written = is_read = is_written or called.startswith("atomic")
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == name:
            is_array = is_array or node.attr in ("shape", "size", "filled", "vec")
    element = "f32" if dimensions == 1 else f"f32[{', '.join(':' * dimensions)}]"
    if is_written:
        kind = "ReadWrite" if is_read else "Write"
        return f"write {name}: {kind}[{element}], an array that is {'read and written' if is_read else 'written'}, or another type than f32"
    if is_array:
        return f"write {name}: Read[{element}], an array that is read, or another type than f32"
    return f"write {name}: f32 for a number, {name}: Read[f32] for an array that is read"


_UNSIGNED = re.compile(r"\b(len|\w+_id|num_workgroups|workgroup_size)\(|\.shape\b")


def _meets_lengths(t: Statements, name: str) -> bool:
    """Whether a function compares or combines an argument with a length or an id, which are u32."""
    source = t.source
    lengths = {
        name
        for name, values in source.assignments.items()
        for each in values
        if _UNSIGNED.search(source.text(each.value))
    }
    for node in ast.walk(source.tree):
        operands = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
        operands = [node.left, node.right] if isinstance(node, ast.BinOp) else operands
        if any(isinstance(each, ast.Name) and each.id == name for each in operands):
            others = [inner for each in operands for inner in ast.walk(each)]
            if any(isinstance(each, ast.Name) and each.id in lengths for each in others) or _UNSIGNED.search(
                source.text(node)
            ):
                return True
    return False


def _annotation(t: Statements, argument: ast.arg) -> Any:
    if argument.annotation is None:
        help = _type_for(t, argument)
        raise untyped(argument, t.source.function, help)
    node = argument.annotation
    if isinstance(node, ast.Constant) and isinstance(node.value, str):  # written in quotes
        try:
            node = ast.copy_location(ast.parse(node.value, mode="eval").body, node)
        except (SyntaxError, ValueError):
            raise Unsupported(
                argument,
                f"the type of {argument.arg} is {t.source.text(argument.annotation)}, which is no Python",
            ) from None
        for inner in ast.walk(node):
            ast.copy_location(inner, argument.annotation)
    refuse_arguments(node, t.source.arguments, t.source.names)
    known = t.source.function.__annotations__.get(argument.arg)
    if known is not None and not isinstance(known, str):
        # Python has made it; a name of the scope around may be known to nothing but annotations
        return specialized(known, t.source.types)
    return specialized(t.static(node, "the type of an argument"), t.source.types)


def _declare(t: Statements, program: Program, argument: ast.arg, annotation: Any) -> Binding:
    name, loc = argument.arg, t.source.location(argument)
    scalar = scalar_type(annotation)
    if scalar is not None:
        program.params[name] = Param(name, scalar, encoded_default(t.source, argument, scalar), loc)
        t.emitter.loc = loc
        value = t.emitter.value("param", (), scalar, {"param": name})
        value.name = name
        return value
    array = declared_array(argument, annotation)
    if array is None:
        shown = t.source.text(argument.annotation or argument)
        help = foreign_help(shown) or (
            "write f32 for a number, Read[f32] for an array of one dimension, Read[f32[:, :]] for one of two"
        )
        if "Read[f32]" in help and annotation not in (int, float):  # an array of another library
            used = _type_for(t, argument)
            help = (
                used
                if used.startswith((f"write {name}: R", f"write {name}: W"))
                else f"write {name}: Read[f32]"
            )
        if isinstance(annotation, type) and issubclass(annotation, Array):
            help = (
                f"write {shown}[f32], with the type of its elements, or {shown}[f32[:, :]] for two dimensions"
            )
        elif annotation in (str, bytes):
            help = f"pass a number or a flag, {name}: u32 or {name}: bool; or leave it out, and choose by a constant outside of the kernel"
        elif annotation in (list, tuple, dict, set):
            help = f"write {name}: Read[f32] for an array, and pass np.array(...)"
        elif annotation is complex:
            help = f"a kernel has no complex numbers: take two, {name}_re: f32 and {name}_im: f32"
        elif any(annotation is each for each in (int, float)):
            whole = "u32" if _meets_lengths(t, name) else "i32"
            help = f"write {name}: {whole if annotation is int else 'f32'}; a kernel's numbers have sizes"
        elif scalar_type(getattr(annotation, "__origin__", None)) is not None:
            kind = re.search(r"\b(ReadWrite|Read|Write)\[", _type_for(t, argument))
            help = f"write {kind[1] if kind else 'Read'}[{shown}]"
        elif array_of := next((a for a in typing.get_args(annotation) if array_type(a) is not None), None):
            name_of = getattr(array_of, "__origin__", Array).__name__
            help = f"every argument is passed: write {name_of}[f32] alone, and another kernel for calls without it"
        elif typing.get_origin(annotation) in (list, tuple, dict, set):
            help = f"{_type_for(t, argument)}; pass np.array(...)"
        elif elements := typing.get_args(annotation):
            named = getattr(elements[0], "__forward_arg__", getattr(elements[0], "__name__", ""))
            help = {"int": "write i32", "float": "write f32"}.get(named) or foreign_help(named) or help
            help += "" if help.startswith("write f32 for") else " in the brackets"
        help = unbound_help(annotation) or help
        raise Unsupported(argument, f"the type of {name} is {shown}, which is none of a kernel", help)
    encoded_default(t.source, argument, None)
    live_in, live_out = array.access is AccessMode.READ_WRITE, array.access is not AccessMode.READ
    binding = len(program.buffers)
    buffer = Buffer(name, array.element, array.shape, array.access, binding, live_in, live_out, loc)
    program.buffers[name] = buffer
    return BufferView(buffer)
