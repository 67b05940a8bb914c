"""One walk over a body: the shape of its ops, dominance, terminators, buffer access; the rest is by format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import permutations

from .access_extents import is_matrix_access
from .carried_values import with_iter
from .diagnostics import Diagnostic, Location
from .fixes import conversion, with_access
from .formats import FORMATS, lacks_else
from .lowered_ops import LOWERED_FORMATS, lowered_attrs
from .ops import FASTMATH, OpDef
from .parse_holes import NO_HOLES, ParseHoles
from .program import NO_ATTRS, AccessMode, Block, Buffer, Func, Module, Op, Program, Value
from .rewrite import constant_value
from .suggestions import suggest_later
from .types import UNKNOWN, DataType
from .undeclared import declaration_help

_BY_TYPES = ("binary", "compare")
"""Formats of two operands whose rule looks at types only."""


_OF_ONE_TYPE = ("unary", "binary", "ternary", "compare", "select", "store")
"""Formats of ops whose operands are of one type."""

_IN_FUNCTION = "a function cannot touch buffers"

Problem = str | tuple[Value, str] | None
"""An error in an op: a message, or the operand to blame and a message."""


class BodyChecker:
    """Checks one body.  `rules`: by the format of an op.  `written` and `read` name the buffers that its ops write and read.

    `unknown` has the errors about names that do not exist, by message: one error for each name.
    """

    def __init__(
        self,
        module: Module,
        owner: Program | Func,
        diagnostics: list[Diagnostic],
        rules: Mapping[str, OpRule],
        holes: ParseHoles = NO_HOLES,
    ) -> None:
        self.module = module
        self.owner = owner
        self.diagnostics = diagnostics
        self.rules = rules
        self.holes = holes
        self.unknown: dict[str, Diagnostic] = {}
        self.undeclared = 0  # distinct buffer names in the ops that no declaration has
        self.buffers: dict[str, Buffer] = owner.buffers if isinstance(owner, Program) else {}
        self.is_lowered = isinstance(owner, Program) and owner.lowered_for is not None
        self.written: dict[str, Location | None] = {}
        self.read: set[str] = set()
        self.has_sync = False
        self.is_well_formed = True  # every op has the parts of its format, so an analysis can walk the body
        self.visible: set[Value] = set()
        self.right_types: set[tuple[object, ...]] = set()
        """Rows of ops that were checked by types alone, with the types of two operands and of the result that were right."""

    def error(self, op: Op, message: str, loc: Location | None = None, help: str | None = None) -> Diagnostic:
        diagnostic = Diagnostic("error", message, loc or op.loc, help=help)
        self.diagnostics.append(diagnostic)
        return diagnostic

    def unknown_name(
        self, op: Op, message: str, name: str, known: Iterable[str], owner: Program | Func | None
    ) -> None:
        """Report `@name`, unless text that was not read may define it in `owner` (None: in the module).

        A second use of the name becomes a note of the first error.
        """
        where = op.loc.find(f"@{name}") if op.loc else None
        if message in self.unknown:
            self.unknown[message].add_place(where)
        elif not self.holes.may_define(owner, name):
            error = self.unknown[message] = self.error(op, message, where)
            error.help = (
                _declare(f"@{name}", list(known))
                if owner is not None
                else f"write func @{name} before or after it"
            )
            error.suggestion = suggest_later(name, known, "@")

    def run(self, body: Block) -> None:
        results: tuple[DataType, ...] = ()
        if isinstance(self.owner, Func):
            results = tuple(self.owner.results)
            types = [*(param.type for param in self.owner.params), *results]
            shared = [dtype for dtype in types if dtype.is_matrix or dtype.is_slice]
            if shared:
                what = "slices" if shared[0].is_slice else "matrices"
                message = (
                    f"function @{self.owner.name} takes or gives {shared[0]}; {what} are in programs only"
                )
                self.diagnostics.append(Diagnostic("error", message, self.owner.loc))
        self.block(body, results, None)

    # --- blocks -----------------------------------------------------------------------

    def block(self, block: Block, types: tuple[DataType, ...] | None, owner: Op | None) -> None:
        """Check a block that yields `types`; a yield of none may be left out.  None: its end is not checked."""
        visible = self.visible
        visible.update(block.args)
        last = len(block.ops) - 1
        is_whole, is_broken = self.holes is NO_HOLES, self.holes.is_invalid(block)
        right_types = self.right_types
        for index, op in enumerate(block.ops):
            operands, results = op.operands, op.results
            if (
                len(operands) == 2
                and len(results) == 1
                and not op.regions
                and op.attrs is NO_ATTRS
                and is_whole
            ):
                a, b = operands
                result = results[0]
                signature = id(op.definition), a.type, b.type, result.type
                if signature in right_types and a in visible and b in visible and result not in visible:
                    visible.add(result)
                    continue
            for operand in operands:
                # the parser has reported the undefined names of a text with errors already
                if operand not in visible and is_whole:
                    self.undefined(op, operand)
            if op.definition.is_terminator and index != last and not (is_broken or lacks_else(owner)):
                self.error(op, f"{op.name} ends a block, but ops follow it")
            self.op(op)
            for result in results:
                if result in visible:
                    self.error(op, f"%{result.name} is defined twice")
                visible.add(result)
        if is_broken:  # its end may be missing, and an analysis needs a while's condition
            self.is_well_formed &= owner is None or owner.name != "while"
        elif types is not None:
            self.check_terminator(block, types, owner)
        if owner is not None:  # after the outermost block nothing looks at `visible` again
            visible.difference_update(block.args)
            for op in block.ops:
                visible.difference_update(op.results)

    def op(self, op: Op) -> None:
        """Check the parts of an op, but for whether its operands and results may be visible."""
        row, results = op.definition, op.results
        problem: Problem = _misshapen(op, self.is_lowered)
        if problem is None and (self.holes is NO_HOLES or not self.holes.is_invalid(op)):
            problem = self.rules[row.format](self, op)
        else:
            self.is_well_formed &= problem is None
            self.check_rest(op)
        if results and results[0].type.is_matrix:
            self.has_sync = True  # a subgroup has to be together for it, see `check_sync`
            if problem is None and isinstance(self.owner, Func):
                problem = "makes a matrix; matrices are in programs only"
        elif problem is None and row.format in _BY_TYPES:
            self.right_types.add((id(row), *[v.type for v in op.operands], results[0].type))
        if problem is not None and not self.is_consequence(op):
            self.report(op, problem)
        if op.attrs and "fastmath" in op.attrs and not set(op.attrs["fastmath"]) <= set(FASTMATH):
            self.error(op, f"{op.name}: unknown fastmath flag")

    def check_rest(self, op: Op) -> None:
        """Check the blocks and the buffer of an op whose own parts are wrong."""
        for region in op.regions:
            self.block(region, None, op)
        if isinstance(op.attrs.get("buffer"), str):
            self.access(op, reads=False, writes=False)

    def is_consequence(self, op: Op) -> bool:
        """Whether a problem of `op` only follows from an error of the text that has been reported."""
        if self.holes is NO_HOLES:
            return False
        values = (*op.operands, *op.results, *(arg for region in op.regions for arg in region.args))
        return self.holes.is_invalid(op) or any(value.type is UNKNOWN for value in values)

    def report(self, op: Op, problem: str | tuple[Value, str]) -> None:
        """Report a problem, at the operand to blame if it names one."""
        if isinstance(problem, str):
            help = _passed(op, self.owner) if problem is _IN_FUNCTION else None
            self.error(op, f"{op.name}: {problem}", help=help)
            return
        value, message = problem
        place = value.owner.loc if isinstance(value.owner, Op) else None
        is_in_place = (
            value.is_unnamed_constant and place is not None and op.loc is not None and place in op.loc
        )
        where = place if is_in_place else op.loc.find(f"%{value.name}") if op.loc else None
        help = self.reordered(op)
        error = self.error(
            op, f"{op.name}: {message}", None if help else where, help or _conversion(op, value)
        )
        if isinstance(value.owner, Op) and value.owner is not op and not is_in_place:
            error.note(f"{value} is defined here", place)

    def reordered(self, op: Op) -> str | None:
        """Correction that gives an op its operands in another order, in which they fit."""
        if (
            op.regions
            or op.definition.effects
            or op.attrs
            or len(op.results) != 1
            or not 2 <= len(op.operands) <= 3
        ):
            return None
        written, reported = op.operands, len(self.diagnostics)
        try:
            for op.operands in permutations(written):
                if self.rules[op.definition.format](self, op) is None and len(self.diagnostics) == reported:
                    return f"write {op.name} {', '.join(map(str, op.operands))}"
                del self.diagnostics[reported:]
        finally:
            op.operands = written
        return None

    def undefined(self, op: Op, operand: Value) -> None:
        where = op.loc.find(f"%{operand.name}") if op.loc else None
        error = self.error(op, f"%{operand.name} does not dominate this use", where)
        if isinstance(operand.owner, Op):
            error.note("it is defined here", operand.owner.loc)
        error.help = "give the value out of its block with yield"

    def check_terminator(self, block: Block, types: tuple[DataType, ...], owner: Op | None) -> None:
        end = block.terminator
        terminator, needs = "yield", f"a yield of {len(types)} values"
        if owner is not None and owner.name == "while" and block is owner.regions[0]:
            terminator, needs = "condition", "a condition %c : bool"
        if end is None:
            if types:
                what, loc = (f"this {owner.name}", owner.loc) if owner else ("the function", self.owner.loc)
                message = f"{what} has a block that does not end in {needs}"
                help = f"end it with {terminator} {', '.join(['%next'] * len(types)) or '%c'}"
                self.diagnostics.append(Diagnostic("error", message, loc, help=help))
        elif owner is None and isinstance(self.owner, Program):
            self.error(end, f"{end.name} outside of a block that gives values")
        elif end.name != terminator:
            self.error(end, f"this block ends in {terminator}, not {end.name}")
        elif len(end.operands) != len(types):
            error = self.error(
                end, f"{end.name} gives {len(end.operands)} values where {len(types)} are wanted"
            )
            if not types and owner is not None and owner.name in ("for", "while"):
                error.help = (
                    with_iter(owner.loc, end.operands)
                    or f"leave {end.name} out: this {owner.name} carries no values"
                )
        else:
            for value, dtype in zip(end.operands, types, strict=True):
                if value.type is not dtype and not self.poisoned(value.type, dtype):
                    error = self.error(end, f"{value} is {value.type} where {dtype} is wanted")
                    if (value.type.is_int and dtype.is_float) or (value.type.is_float and dtype.is_int):
                        error.help = f"give %c = cast {value} : {value.type} -> {dtype}"

    def poisoned(self, *types: DataType) -> bool:
        """Whether one of `types` is unknown because of an error that has been reported."""
        return self.holes is not NO_HOLES and UNKNOWN in types

    # --- buffers ------------------------------------------------------------------------

    def access(self, op: Op, reads: bool, writes: bool) -> str | None:
        """Check that the buffer of `op` is declared and allows this access, and note it in `read` and `written`."""
        name = op.attrs["buffer"]
        buffer = self.buffers.get(name)
        if buffer is None:
            if isinstance(self.owner, Func):
                return _IN_FUNCTION
            message = f"program @{self.owner.name} has no buffer @{name}"
            self.undeclared += message not in self.unknown
            is_said = message in self.unknown
            self.unknown_name(op, message, name, self.buffers, self.owner)
            error = self.unknown.get(message)
            if error is not None and not is_said:
                values = op.operands[:1] if op.name == "store" else op.results
                dtype = values[0].type if values else None
                error.help = declaration_help(op.definition, name, self.buffers, dtype, len(op.indices))
            return None
        if buffer.is_cluster and op.name not in ("load", "store"):
            return f"works on storage and workgroup memory; cluster memory, such as @{name}, is loaded and stored"
        if reads:
            self.read.add(name)
            if buffer.access is AccessMode.WRITE and not self.holes.is_invalid(buffer):
                self.wrong_access(op, buffer, "read", "write-only")
        if writes:
            self.written.setdefault(name, op.loc)
            if buffer.access is AccessMode.READ and not self.holes.is_invalid(buffer):
                self.wrong_access(op, buffer, "written", "read-only")
        return None

    def dimension(self, op: Op) -> str | None:
        """Check that a `len` names a dimension of its buffer, where that has several."""
        buffer, number = self.buffers.get(op.attrs["buffer"]), op.attrs.get("dimension")
        if buffer is None or self.holes.is_invalid(buffer):
            return None
        if number is None and buffer.dimensions > 1:
            return f"@{buffer.name} has {buffer.dimensions} dimensions: write len @{buffer.name}, 0 for the first extent"
        if number is not None and not 0 <= number < buffer.dimensions:
            return f"@{buffer.name} has {_several(buffer.dimensions, 'dimension')}, and no dimension {number}"
        return None

    def wrong_access(self, op: Op, buffer: Buffer, verb: str, mode: str) -> None:
        where = op.loc.find(f"@{buffer.name}") if op.loc else None
        message = f"@{buffer.name} is {verb} here, but it is {mode}"
        flags = " ".join(
            ["read_write", *(["live_in"] * (not buffer.live_in)), *(["live_out"] * (not buffer.live_out))]
        )
        error = self.error(op, message, where, f"declare it {flags}").add_fix(with_access(buffer, flags))
        error.note(f"@{buffer.name} is declared here", buffer.loc)

    def element(self, op: Op, dtype: DataType) -> str | tuple[Value, str] | None:
        """Check that an access moves an element of its buffer, a vector or a matrix of them, at integer indices."""
        buffer = self.buffers.get(op.attrs["buffer"])
        is_matrix = is_matrix_access(op)
        if is_matrix and not dtype.is_matrix:
            return f"moves a matrix, not {dtype}"
        problem = self.indices(op, buffer)
        if problem is not None or buffer is None or self.holes.is_invalid(buffer):
            return problem
        if buffer.dtype.size_bytes is None:
            return f"elements of {buffer.dtype} cannot be moved one by one"
        if is_matrix:
            if buffer.dtype is not dtype.stored:
                return f"@{buffer.name} holds {buffer.dtype}, and {dtype} is of {dtype.stored} in memory"
            return None
        if dtype is not buffer.dtype and not (dtype.is_vec and dtype.element is buffer.dtype):
            return f"@{buffer.name} holds {buffer.dtype}, not {dtype}"
        return None

    def indices(self, op: Op, buffer: Buffer | None) -> str | tuple[Value, str] | None:
        """Check that there is an integer for each dimension."""
        for index in op.indices:
            if not index.type.is_int:
                return index, f"the index {index} is {index.type}, not an integer"
        return self.number_of_indices(op, buffer)

    def number_of_indices(self, op: Op, buffer: Buffer | None) -> str | None:
        if buffer is None or self.holes.is_invalid(buffer) or len(op.indices) == buffer.dimensions:
            return None
        dimensions = _several(buffer.dimensions, "dimension")
        given = [
            f"%{index.name}" if not index.is_unnamed_constant else str(constant_value(index))
            for index in op.indices
        ]
        whole = [*given[: buffer.dimensions], *["0"] * (buffer.dimensions - len(given))]
        return f"@{buffer.name} has {dimensions}, {_indices(len(op.indices))} given: write @{buffer.name}[{', '.join(whole)}]"


OpRule = Callable[[BodyChecker, Op], Problem]
"""Gives the first problem of an op of the right shape, and checks its blocks."""


# --- the shape of an op: how many parts it has, and which attributes
#
# The short form of the text gives these by its syntax.  The generic form and programs
# built in Python may have any, so they are checked before the types are looked at.


def _misshapen(op: Op, is_lowered: bool) -> str | None:
    """The error in the number of an op's operands, results or regions, or in its attributes; None if there is none."""
    row = op.definition
    format = (LOWERED_FORMATS if is_lowered else FORMATS)[row.format]
    operands = format.operands
    if operands is not None and len(op.operands) != operands:
        return f"takes {_several(operands, 'operand')}, {len(op.operands)} given"
    if format.results is not None and len(op.results) != format.results:
        return f"gives {_several(format.results, 'result')}, not {len(op.results)}"
    if format.blocks is not None and len(op.regions) != format.blocks:
        return f"has {_several(format.blocks, 'block')}, not {len(op.regions)}"
    if format.shape is not None and (problem := format.shape(op)) is not None:
        return problem
    return _misattributed(row, op, is_lowered) if op.attrs or row.attrs or row.kernel else None


def _indices(count: int) -> str:
    return "1 index" if count == 1 else f"{count} indices"


def _several(count: int, what: str) -> str:
    return f"{count} {what}{'s' * (count != 1)}"


def _misattributed(row: OpDef, op: Op, is_lowered: bool) -> str | None:
    attrs = op.attrs
    if row.kernel is not None:
        return None if {"buffers", "params"} <= attrs.keys() else "needs its buffers and params"
    for attr in row.attrs:
        if attr.name not in attrs:
            if attr.optional:
                continue
            return f"attribute {attr.name} is missing"
        value = attrs[attr.name]
        if attr.choices is not None and value not in attr.choices:
            return f"{attr.name} is {', '.join(attr.choices)}, not {value}"
        if attr.kind == "int" and not isinstance(value, int) and not (value is None and row.format == "for"):
            return f"{attr.name} is an integer, not {'dynamic' if value is None else value}"
    if len(attrs) == sum(attr.name in attrs for attr in row.attrs):
        return None
    known = {attr.name for attr in (*row.attrs, *(lowered_attrs(row) if is_lowered else ()))}
    extra = next((name for name in attrs if name not in known and name != "fastmath"), None)
    if extra is not None:
        return f"has no attribute {extra}"
    if "fastmath" not in attrs:
        return None
    if not op.operands[-1].type.element.is_float:
        return "takes no fastmath flags; they are for ops on floats"
    if not row.fastmath:
        return "takes no fastmath flags"
    wrong = next((flag for flag in attrs["fastmath"] if flag in FASTMATH and flag not in row.fastmath), None)
    return f"fastmath is {', '.join(row.fastmath)}, not {wrong}" if wrong else None


def _passed(op: Op, function: Program | Func) -> str:
    """Remedy for an access in a function, whose place is in the program that calls it."""
    if not op.results or op.loc is None:
        return f"give the value by yield, and store it behind the call of @{function.name}"
    value, text = op.results[0], op.loc.text
    return f"write {text} in the program before the call of @{function.name}, and pass it: {value} : {value.type} among its arguments"


def _conversion(op: Op, value: Value) -> str | None:
    """Correction that gives an operand of another type the type that is wanted."""
    name, is_number = f"%{value.name}", value.type.has_arithmetic and not value.type.is_bool
    if value.is_unnamed_constant:
        return None
    if op.operands[:1] == (value,) and op.name in ("if", "select", "assert", "condition") and is_number:
        zero = "0.0" if value.type.element.is_float else "0"
        return f"compare it before, and use that: {name}_set = ne {name}, {zero} : {value.type}"
    if value in op.indices and value.type.is_float:
        return f"convert it before: {name}_u32 = cast {name} : {value.type} -> u32"
    if op.definition.format not in _OF_ONE_TYPE:
        return None
    others = [*op.results, *op.operands] if op.definition.format != "compare" else op.operands[::-1]
    wanted = next((other.type for other in others if other.type is not value.type), None)
    return None if wanted is None or wanted.is_bool else conversion(value, wanted)


def _declare(name: str, known: Sequence[str]) -> str:
    """Advice about a buffer that is not declared, and like no declared one."""
    others = f"write {' or '.join(f'@{other}' for other in known[:3])}, or " if known else ""
    return f"{others}declare buffer {name}"
