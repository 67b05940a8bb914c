"""The located errors of a program that is at fault, in the same words whichever target ran it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from ..ir.access_extents import moved_type
from ..ir.author_words import VYRE
from ..ir.diagnostics import Diagnostic, source_text, spelling_at, written_name
from ..ir.joined_locations import declared_buffer, member_at, written_program
from ..ir.program import Dim3, Op, Program, Value
from ..ir.shapes import show_shape
from ..ir.types import DataType
from .dispatcher import Invocation, ProgramError

__all__ = [
    "as_launched",
    "asserted",
    "bad_step",
    "describe",
    "fault",
    "invocation_at",
    "out_of_bounds",
    "out_of_checked_bounds",
    "outside_of_shape",
    "place_in",
    "position_in",
    "signed",
    "trapped",
]


def invocation_at(invocation: int, workgroup: Dim3, grid: Dim3) -> Invocation:
    """The invocation of a linear id."""
    row, local = divmod(invocation, workgroup[0] * workgroup[1] * workgroup[2])
    return Invocation(position_in(row, grid), position_in(local, workgroup))


def position_in(linear: int, extents: Dim3) -> Dim3:
    """The ids along x, y and z of a linear one."""
    x, rest = linear % extents[0], linear // extents[0]
    return x, rest % extents[1], rest // extents[1]


def fault(
    kind: str,
    program: Program,
    op: Op,
    message: str,
    other: Op | None = None,
    help: str | None = None,
    by: Invocation | None = None,
) -> ProgramError:
    """An error of `program` at `op`; `other` is the op that it collides with; `by`: the invocation, if one is at fault."""
    written_in = written_program(program, op)
    diagnostic = Diagnostic("error", f"program @{written_in}: {message}", op.loc, help=help)
    if other is not None and other is not op:
        owner = written_program(program, other)
        of = f" of program @{owner}" if owner != written_in else ""
        diagnostic.note(f"the other access, {describe(program, other)}{of}, is here", other.loc)
    buffer = declared_buffer(program, op)
    if buffer is not None:
        written = written_name(buffer.name, buffer.loc)
        is_renamed = written != buffer.name
        note = f"@{buffer.name} is {written} here" if is_renamed else f"@{buffer.name} is declared here"
        diagnostic.note(note, buffer.loc)
    return ProgramError(kind, diagnostic, by, op.attrs.get("of") or op.attrs.get("buffer"))


def describe(program: Program, op: Op) -> str:
    """An op in words, such as `store @y`."""
    buffer = declared_buffer(program, op)
    return op.name if buffer is None else f"{op.name} @{buffer.name}"


def as_launched(op: Op, by: Invocation) -> Invocation:
    """The invocation that met a fault at `op`, of the launch as it was written."""
    member = member_at(op)
    ids = "both" if member is None else member.ids
    return by if ids == "both" else Invocation(None, by.local if ids == "local" else None)


def place_in(indices: Sequence[int], shape: Sequence[int | None], covered: int = 1) -> str:
    """`covered` elements of a row from an element on, in words: `index (3, 70), shape (8, 64)`; `?` for what is not known."""
    if len(shape) == 1:
        index = indices[0]
        extent = f"elements {index} to {index + covered - 1}" if covered > 1 else f"index {index}"
        return f"{extent}, length {shape[0]}"
    at = f"index ({', '.join(map(str, indices))})"
    if covered > 1:
        at = f"elements ({', '.join(map(str, indices))}) to ({', '.join(map(str, (*indices[:-1], indices[-1] + covered - 1)))})"
    return f"{at}, shape ({show_shape(shape)})"


def out_of_bounds(
    program: Program,
    op: Op,
    indices: Sequence[int],
    covered: int,
    shape: Sequence[int | None],
    invocation: Invocation,
) -> ProgramError:
    """The error of an access to `covered` elements from the one of these `indices` on, in a buffer of this shape."""
    return _out_of_bounds(program, op, op.name, op.indices, indices, covered, shape, invocation)


def out_of_checked_bounds(
    program: Program, op: Op, index: int, length: int | None, invocation: Invocation
) -> ProgramError:
    """The error of a check_bounds, in the words of the access that it is of; it names the last element of a vector."""
    access, values = op.attrs["access"], op.operands[:1]
    return _out_of_bounds(program, op, access, values, (signed(index),), 1, (length,), invocation)


def _out_of_bounds(
    program: Program,
    op: Op,
    access: str,
    values: Sequence[Value],
    indices: Sequence[int],
    covered: int,
    shape: Sequence[int | None],
    invocation: Invocation,
) -> ProgramError:
    """`access`: the name of its op; `values`: those of the indices."""
    owner, invocation = declared_buffer(program, op), as_launched(op, invocation)
    name = op.attrs["of"] if owner is None else owner.name  # a check may be of a buffer that is no more
    place = place_in(indices, shape, covered)
    dimensions: list[int | None] = [None]
    if len(shape) > 1:
        outside = _dimensions_outside(indices, covered, shape)
        place += f", outside along dimension {' and '.join(map(str, outside))}" if outside else ""
        dimensions = [*(outside or range(len(shape)))]
    written = name if owner is None else written_name(name, owner.loc)
    lengths = ", ".join(spelling_at(op.loc).extent(written, dimension) for dimension in dimensions)
    message = f"{access} out of bounds of @{name}: {place}, by {invocation}"
    help = f"guard the access with a comparison against {lengths}"
    if len(dimensions) == 1:
        dimension = dimensions[0] or 0
        dtype, below, length = values[dimension].type, "", lengths
        if dtype.element.kind != "uint":
            below, length = "0 <= ", f"{dtype.element}({lengths})"
        elif dtype.bits == 64:
            length = f"u64({lengths})"
        help += spelling_at(op.loc).guard(
            source_text(op.loc), written, values[dimension].name, below, length, dimension
        )
    whole = [spelling_at(op.loc).extent(written, k if len(shape) > 1 else None) for k in range(len(shape))]
    better, spelling = "", spelling_at(op.loc)
    if op.loc is not None and len(dimensions) == 1:
        source = op.loc.source.text
        better = spelling.bound(source, op.loc.start, op.loc.end, written, whole, dimensions[0] or 0)
    is_wrapped = any(_is_wrapped(index) for index in indices)
    owners = [index.owner for index in values if isinstance(index.owner, Op)]
    of_launch = next((each for each in owners if each.name == "global_id"), None)
    if owner is not None and owner.is_on_chip and of_launch is not None and not better:
        local = spelling.id("local_id", "xyz".index(of_launch.attrs["axis"]))
        better = f"{spelling.buffer(written)} is memory of one workgroup: index it with {local}"
    elif owner is not None and owner.is_on_chip and len(indices) == 1 and not is_wrapped:
        help = f"{spelling.longer(written, str(owner.dtype), indices[0] + covered)}, or {help}"
    if better:
        help = better
    elif is_wrapped:
        help = f"an unsigned index below 0 wraps: compare it before it is computed, or compute with i32; or {help}"
    elif len(shape) > 1 and dimensions[-1] != len(shape) - 1:  # rows beyond the last
        help += ", or launch as many workgroups as there are"
    elif _reads_a_slice(op):
        help = f"{spelling_at(op.loc).filled(written)}, or {help}"
    return fault("bounds", program, op, message, help=help, by=invocation)


def _is_wrapped(index: int) -> bool:
    """Whether an index is just below the end of its type: what an unsigned subtraction below 0 gives."""
    return any((1 << bits) - (1 << bits - 8) <= index < 1 << bits for bits in (32, 64))


def _reads_a_slice(op: Op) -> bool:
    """Whether a load is of a slice, or of an element of one, which has its place in the source: `x[i : i + 64]`."""
    if op.loc is None or op.definition.name not in ("load", "slice_load"):
        return False
    text = op.loc.text
    return "slice_load" in text if spelling_at(op.loc) is VYRE else ":" in text


def outside_of_matrix(
    program: Program,
    op: Op,
    dtype: DataType,
    indices: Sequence[int],
    shape: Sequence[int | None],
    invocation: Invocation,
) -> ProgramError:
    """The error of a matrix whose first element is at `indices`, some of which is out of bounds."""
    owner, invocation = declared_buffer(program, op), as_launched(op, invocation)
    assert owner is not None
    name, (rows, columns) = owner.name, dtype.shape
    place = f"{rows} x {columns} elements from {place_in(indices, shape)}"
    message = f"{op.name} out of bounds of @{name}: {place}, by {invocation}"
    help = f"have @{name} hold whole matrices, or guard the access"
    return fault("bounds", program, op, message, help=help, by=invocation)


def _dimensions_outside(indices: Sequence[int], covered: int, shape: Sequence[int | None]) -> list[int]:
    """The dimensions along which an access is out of bounds, of those whose extent is known."""
    ends = [*indices[:-1], indices[-1] + covered - 1]
    return [
        number
        for number, (first, last, extent) in enumerate(zip(indices, ends, shape, strict=True))
        if first < 0 or (extent is not None and last >= extent)
    ]


def outside_of_shape(
    program: Program, trap: Op, words: Sequence[int], extents: Mapping[str, int], invocation: Invocation
) -> ProgramError:
    """The error of a trap before an access to a buffer of several dimensions (see lowering/common/row_major.py).

    `words`: the 64 bits of each index; `extents`: the values of the program's params.
    """
    access: Op = trap.attrs["access"]
    moved, declared = moved_type(access), trap.attrs["shape"]
    shape = [extents.get(extent) if isinstance(extent, str) else extent for extent in declared]
    pairs = zip(words, access.indices, strict=False)
    indices = [signed(word) if index.type.is_signed else word for word, index in pairs]
    if moved.is_matrix:
        return outside_of_matrix(program, access, moved, indices, shape, invocation)
    lanes = program.buffers[access.attrs["buffer"]].dtype.lanes
    return out_of_bounds(program, access, indices, moved.lanes // lanes, shape, invocation)


def bad_step(program: Program, op: Op, step: int, invocation: Invocation) -> ProgramError:
    """The error of a `for` whose step is not positive."""
    invocation = as_launched(op, invocation)
    message = f"the step of this for is {step}, by {invocation}"
    return fault("step", program, op, message, help="a for counts up: its step is at least 1", by=invocation)


def trapped(program: Program, op: Op, invocation: Invocation) -> ProgramError:
    """The error of a `trap` that was reached."""
    invocation = as_launched(op, invocation)
    return fault("trap", program, op, f"trap: {op.attrs['message']}; reached by {invocation}", by=invocation)


def asserted(program: Program, op: Op, invocation: Invocation) -> ProgramError:
    """The error of an `assert` whose condition is false."""
    invocation = as_launched(op, invocation)
    return fault(
        "assert", program, op, f"assert: {op.attrs['message']}; false in {invocation}", by=invocation
    )


def signed(word: int) -> int:
    """The 64 bits of a fault record's word as a signed integer."""
    return word - (1 << 64) if word >> 63 else word
