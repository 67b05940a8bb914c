"""Binds what a caller passes by name: the program or pipeline to run, its constants, its buffers, its grid.

Messages say how to pass what is missing in the syntax of the caller, Python or a shell: `CallSyntax`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import prod
from numbers import Integral
from typing import Any

from ..execution.dispatcher import BadInputs, BadLaunch, BadSpecs, LocatedBadInputs, OutputAlloc
from ..execution.params import NO_PARAMS
from ..execution.shapes import argument_shape, shape_in_elements, shape_of
from ..ir.diagnostics import Diagnostic
from ..ir.grids import (
    Extent,
    GridError,
    evaluate,
    length_key,
    lengths_by_dimension,
    lengths_of,
    show_extent,
    show_values,
)
from ..ir.literals import LiteralError, encode, read_literal
from ..ir.pipeline import HostRead, Pipeline
from ..ir.program import MAX_EXTENT, AccessMode, Buffer, Dim3, Module, Param, Program
from ..ir.shapes import shapes_agree, show_shape
from ..ir.suggestions import suggest
from ..records import dataclass

__all__ = [
    "PYTHON",
    "Signature",
    "CallSyntax",
    "bind",
    "check_names",
    "default_grid",
    "find_entry",
    "set_specs",
    "wrong_source",
]

MAX_COUNT = 1 << 48


@dataclass(frozen=True, slots=True)
class CallSyntax:
    """Form of arguments in messages; `{name}` and `{value}` are replaced.

    `give_*` tells how to pass an argument, the others refer to one that was passed.  `shape`: what stands between the
    extents of a length.
    """

    entry: str
    input: str
    give_input: str
    length: str
    give_length: str
    length_alone: str
    grid: str
    any_grid: str
    give_spec: str
    give_param: str
    shape: str = ", "

    def scalar(self, form: str, name: str, value: Any) -> str:
        """A spec or a param of this value, in the form `give_spec` or `give_param`: `--param k=3`, `params={'k': 3}`."""
        return form.format(name=name).replace("VALUE", str(value)).replace(": value", f": {value!r}")

    def extents(self, shape: Sequence[int | None]) -> str:
        """A length with several extents, 16 for each that is open."""
        written = self.shape.join(str(extent or 16) for extent in shape)
        return written if self.shape == "," else f"({written})"


PYTHON = CallSyntax(
    entry="entry=",
    input="inputs[{name!r}]",
    give_input="inputs={{{name!r}: array}}",
    length="lengths[{name!r}]={value}",
    give_length="lengths={{{name!r}: n}}, or an array for it",
    length_alone="lengths={{{name!r}: n}}",
    grid="grid={value}",
    any_grid="(x, y, z)",
    give_spec="specs={{{name!r}: value}}",
    give_param="params={{{name!r}: value}}",
)


@dataclass(frozen=True, slots=True)
class Signature:
    """Inputs and results of a program or a pipeline, in order.

    `owner`: "program" or "pipeline"; `name`: its name.  `buffers`: all that have a length.
    `parameters`: those that take an array; the others are inside the pipeline.  `read`: the parameters that
    may be read before they are written.  `outputs`: those that are returned.  `params`: the runtime scalars.
    """

    owner: str
    name: str
    buffers: tuple[Buffer, ...]
    parameters: tuple[Buffer, ...]
    read: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]
    params: Mapping[str, Param]

    @property
    def title(self) -> str:
        return f"{self.owner} @{self.name}"

    @property
    def noun(self) -> str:
        """Name of a buffer in messages, by the array that it takes."""
        return "bound buffer" if self.owner == "program" else "input or output"

    @staticmethod
    def of(item: Program | Pipeline) -> Signature:
        if isinstance(item, Program):
            bound = tuple(item.bound_buffers)
            outputs = tuple(b for b in bound if b.is_output)
            read = tuple(filter(_is_read, bound))
            return Signature("program", item.name, bound, bound, read, outputs, item.params)
        host_read = {stage.buffer for stage in item.walk() if isinstance(stage, HostRead)}
        buffers = tuple(item.buffers.values())
        written = {b.name for b in buffers if b.live_out or b.access is AccessMode.WRITE}
        parameters = tuple(b for b in buffers if _is_read(b) or b.name in written)
        outputs = tuple(b for b in buffers if b.name in written | host_read)
        read = tuple(filter(_is_read, parameters))
        return Signature("pipeline", item.name, buffers, parameters, read, outputs, item.params)


def wrong_source(source: object) -> BadInputs:
    """The error of what is no source; a kernel or a pipeline of Python has a text and is called."""
    message = f"a source is a text, a Path, a Module or a Program, not {type(source).__name__}"
    name = getattr(getattr(source, "function", source), "__name__", "kernel")
    name = name if name.isidentifier() else "kernel"
    if hasattr(source, "text"):
        call = f"{name}[grid](x, y)" if hasattr(source, "__getitem__") else f"{name}(x, y)"
        message += f": write {call}, which compiles it, or pass {name}.text()"
    elif callable(source):
        message += f": write @vyre.program above def {name}, and {name}[grid](x, y), which compiles it"
    return BadInputs(message)


def find_entry(module: Module, name: str | None, syntax: CallSyntax = PYTHON) -> Program | Pipeline:
    """The program or the pipeline to run.  Raises BadInputs that says how to choose one.

    Without a name it is the pipeline @main, or the only pipeline, or the only program where there
    is no pipeline.
    """
    if name is not None and not isinstance(name, str):
        raise BadInputs(f"entry is the name of a program or a pipeline, not {type(name).__name__}")
    programs, pipelines = module.programs, module.pipelines
    entries: dict[str, Program | Pipeline] = {**pipelines, **programs}
    name = name.removeprefix("@") if name else None
    kind = "program or pipeline" if pipelines else "program"
    listed = ", ".join("@" + n for n in (*programs, *pipelines)) or "there is none"
    if name is not None:
        if name in entries:
            return entries[name]
        choices = f"choose a {kind} with {syntax.entry}: {listed}"
        raise BadInputs(f"there is no {kind} @{name}; " + (suggest(name, entries, "@") or choices))
    if "main" in pipelines:
        return pipelines["main"]
    candidates: list[Program | Pipeline] = [*pipelines.values()] or [*programs.values()]
    if len(candidates) == 1:
        return candidates[0]
    if not candidates:
        raise BadInputs("there is no program here")
    kinds = ((len(programs), "program"), (len(pipelines), "pipeline"))
    counted = " and ".join(f"{number} {noun}{'s' * (number > 1)}" for number, noun in kinds if number)
    raise BadInputs(f"there are {counted} here; choose a {kind} with {syntax.entry}: {listed}")


def set_specs(
    programs: Sequence[Program], values: Mapping[str, Any], signature: Signature, syntax: CallSyntax = PYTHON
) -> None:
    """Set the defaults of specialization constants to `values`, by name.  `signature`: of what is called.

    Raises BadSpecs, located at them, with all that are unknown, unfit or left without a value.  Values are of Python types, or text as the language writes it: "7", "0x1f", "1.5", "true".
    """
    from ..execution.arrays import encode_spec

    errors = []
    for name, value in values.items():
        plain = name.removeprefix("@")
        specs = [program.specs[plain] for program in programs if plain in program.specs]
        if not specs:
            known = list(dict.fromkeys(s for program in programs for s in program.specs))
            listed = ", ".join(f"@{s}" for s in known) or "none"
            hint = _hint(plain, known) if known else ": leave it out"
            if plain in signature.params:
                hint = f": @{plain} is a param, pass {syntax.scalar(syntax.give_param, plain, value)}"
            message = f"{signature.title} has no spec @{plain}; it has {listed}{hint}"
            errors.append(Diagnostic("error", message, programs[0].loc if programs else None))
        for spec in specs:
            try:
                if isinstance(value, str):
                    spec.default = encode(read_literal(value), spec.dtype)
                else:
                    spec.default = encode_spec(value, spec.dtype)
            except (LiteralError, ValueError) as error:
                errors.append(Diagnostic("error", f"spec @{plain} is {spec.dtype}: {error}", spec.loc))
    errors += _unset_specs(programs, {name.removeprefix("@") for name in values}, syntax)
    if errors:
        raise BadSpecs(errors)


def _unset_specs(
    programs: Sequence[Program], passed: Iterable[str], syntax: CallSyntax
) -> Iterable[Diagnostic]:
    """An error for each name of a constant without a value that is not `passed`; its other programs are notes."""
    errors: dict[str, Diagnostic] = {}
    for program in programs:
        for name, spec in program.specs.items():
            if spec.default is not None or name in passed:
                continue
            advice = syntax.give_spec.format(name=name)
            message = f"program @{program.name}: spec @{name} has no default; pass {advice}"
            first = errors.setdefault(name, Diagnostic("error", message, spec.loc))
            if first.loc is not spec.loc:
                first.add_place(spec.loc)
    return errors.values()


def check_names(
    signature: Signature, values: Mapping[str, Any], buffers: Sequence[Buffer], option: str, noun: str
) -> dict[str, Any]:
    """`values` by names without `@`.  Raises BadInputs for a name that is none of `buffers`.

    `option`: how messages name the argument, as in `CallSyntax`; `noun`: what one of `buffers` is called.
    """
    known = [b.name for b in buffers]
    if not isinstance(values, Mapping) or not all(isinstance(name, str) for name in values):
        raise BadInputs(f"{signature.title}: values are passed by name, as a mapping of text to them")
    plain = {name.removeprefix("@"): value for name, value in values.items()}
    if len(plain) < len(values):
        twice = next(name for name in plain if name in values and f"@{name}" in values)
        raise BadInputs(f"{signature.title}: @{twice} is passed twice, with and without @")
    for name in plain:
        if name in known:
            continue
        wanted = [
            b.name for b in buffers if b.name not in plain and getattr(b, "access", None) is AccessMode.READ
        ]
        hint = _hint(name, known) if known else "; leave it out"
        if not hint and len(wanted) == 1:
            hint = f"; pass it as {wanted[0]}"
        if signature.owner == "pipeline" and name in {b.name for b in signature.buffers}:
            hint = f"; @{name} is its own, unless it is declared read, live_in or live_out"
        raise BadInputs(
            f"{option.format(name=name, value='')}: {signature.title} has no {noun} @{name}; "
            f"it has {', '.join(f'@{n}' for n in known) or 'none'}{hint}"
        )
    return plain


def bind(
    signature: Signature,
    inputs: Mapping[str, Any] | Sequence[Any],
    lengths: Mapping[str, Any],
    syntax: CallSyntax = PYTHON,
    params: Mapping[str, int] = NO_PARAMS,
) -> list[Any]:
    """An argument for each buffer, in order: the array that was passed, or `OutputAlloc`.

    `inputs`: arrays by name, or a sequence of an array for each buffer of `signature.read`, or for each of
    `signature.parameters`.  `params`: what sizes of buffers may use, "@n" with its value.  Raises BadInputs for a name that is no buffer, and for one that is missing.
    """
    if isinstance(inputs, Mapping):
        arrays = check_names(signature, inputs, signature.parameters, syntax.input, signature.noun)
    else:
        arrays = _in_order(signature, inputs)
    counts: dict[str, Any] = {}
    if lengths:
        noun = signature.noun if signature.owner == "program" else "buffer"
        option = syntax.length.replace("={value}", "")
        counts = check_names(signature, lengths, signature.buffers, option, noun)
    missing = [b for b in signature.read if b.name not in arrays]
    errors = []
    if missing:
        names = ", ".join(f"@{b.name} : {b.dtype}[{show_shape(b.shape)}]" for b in missing)
        advice = ", ".join(syntax.give_input.format(name=b.name) for b in missing)
        message = f"{signature.title} reads {names}, which nothing gives; pass {advice}"
        errors.append(Diagnostic("error", message, missing[0].loc))
    known = dict[str, int | None](params)
    arguments = []
    for buffer in signature.buffers:
        array, length = arrays.get(buffer.name), counts.get(buffer.name)
        if buffer.dimensions > 1:
            argument = _shaped_argument(signature, buffer, array, length, known, syntax)
            if argument is None and buffer not in missing and not _follows_missing(buffer, known):
                errors.append(_open_size(signature, buffer, syntax, known))
            shape = None if argument is None else shape_in_elements(buffer, argument)
            known.update(lengths_by_dimension(buffer.name, shape or (None,) * buffer.dimensions))
            known[buffer.name] = None if shape is None else prod(shape)
            arguments.append(argument)
            continue
        size = None if buffer.size is None else _size(signature, buffer, buffer.size, known)
        if array is None and length is None:
            length = size
        argument = _argument(signature, buffer, array, length, syntax)
        if argument is None and buffer not in missing and not _follows_missing(buffer, known):
            errors.append(_open_size(signature, buffer, syntax, known))
        count = argument.count if isinstance(argument, OutputAlloc) else _elements(array, buffer)
        if size is not None and count not in (None, size):
            raise BadInputs(
                f"{signature.title}: @{buffer.name} has {count} elements, and its size is "
                f"{show_extent(buffer.size or 0)}, which is {size} here"
            )
        known[buffer.name] = known[length_key(buffer.name, 0)] = count
        arguments.append(argument)
    if errors:
        raise LocatedBadInputs(errors)
    return arguments


def _follows_missing(buffer: Buffer, known: Mapping[str, int | None]) -> bool:
    """Whether its size is that of buffers whose lengths are not known either."""
    sizes = [size for size in buffer.sizes if size is not None]
    return any(known.get(name) is None for size in sizes for name in lengths_of(size))


def _open_size(
    signature: Signature, buffer: Buffer, syntax: CallSyntax, known: Mapping[str, int | None]
) -> Diagnostic:
    """The error for a buffer whose length nothing says; the other buffers' length stands in its remedy, if they have one."""
    option = syntax.give_length if buffer in signature.parameters else syntax.length_alone
    counts = {known.get(b.name) for b in signature.read if b.dimensions == 1} - {None}
    if buffer.dimensions == 1 and len(counts) == 1:
        advice = option.replace(": n}", ": {value}}").format(name=buffer.name, value=counts.pop())
        return Diagnostic("error", f"buffer @{buffer.name} has an open size: pass {advice}", buffer.loc)
    advice = option.format(name=buffer.name, value=syntax.shape.join(["N"] * buffer.dimensions))
    if buffer.dimensions > 1:
        advice = advice.replace(": n}", f": ({', '.join(['n'] * buffer.dimensions)})}}")
    return Diagnostic("error", f"buffer @{buffer.name} has an open size: pass {advice}", buffer.loc)


def _size(signature: Signature, buffer: Buffer, size: Extent, known: Mapping[str, int | None]) -> int | None:
    """The elements that the size of a buffer comes to; None where a length is not known, as that of lists.

    Raises BadLaunch, located at the buffer, for one without a value or below 0.
    """
    if any(known.get(name) is None for name in lengths_of(size)):
        return None
    most, shown = (MAX_COUNT, "2^48") if buffer.dimensions == 1 else (MAX_EXTENT, "2^31-1")
    try:
        count = evaluate(size, known)
    except GridError as error:
        problem = f"has no value: {error}"
    else:
        if 0 <= count <= most:
            return count
        problem = f"is {count}; a size is 0 to {shown}"
    message = f"{signature.title}: the size of @{buffer.name}, {show_extent(size)}, {problem}"
    raise BadLaunch([Diagnostic("error", message + show_values([size], known), buffer.loc)])


def _in_order(signature: Signature, inputs: Sequence[Any]) -> dict[str, Any]:
    parameters, read = signature.parameters, signature.read
    if not isinstance(inputs, (list, tuple)):
        raise BadInputs(
            f"inputs is a mapping of names to arrays or a list of arrays, not {type(inputs).__name__}"
        )
    for buffers in (read, parameters):
        if len(inputs) == len(buffers):
            return {b.name: array for b, array in zip(buffers, inputs, strict=True)}
    listed, all_listed = (", ".join(f"@{b.name}" for b in some) or "none" for some in (read, parameters))
    verb = "binds" if signature.owner == "program" else "takes"
    raise BadInputs(f"{len(inputs)} inputs given; {signature.title} reads {listed}, and {verb} {all_listed}")


def _argument(signature: Signature, buffer: Buffer, array: Any, length: Any, syntax: CallSyntax) -> Any:
    """The array, or OutputAlloc; None for a buffer of open size without a length."""
    if length is not None:
        _check_length(signature, buffer, array, length, syntax)
    if array is not None:
        return array
    count = buffer.count if length is None else int(length)
    return None if count is None else OutputAlloc(count)


def _shaped_argument(
    signature: Signature,
    buffer: Buffer,
    array: Any,
    length: Any,
    known: Mapping[str, int | None],
    syntax: CallSyntax,
) -> Any:
    """`_argument` for a buffer of several dimensions; `length`: its extents."""
    shape: list[int | None] = list(buffer.shape)
    for number, size in enumerate(buffer.sizes):
        if size is not None:
            shape[number] = _size(signature, buffer, size, known)
    expected = replace(buffer, shape=tuple(shape), sizes=())
    if array is not None:
        where = f"{signature.title}: {syntax.input.format(name=buffer.name)}"
        given = argument_shape(expected, array, where)
        if length is not None and tuple(length) != given:
            option = syntax.length.format(name=buffer.name, value=length)
            held = syntax.input.format(name=buffer.name)
            raise BadInputs(f"{option}, but {held} has shape {given}")
        return array
    if length is not None:
        option = syntax.length.format(name=buffer.name, value=length)
        declared = f"@{buffer.name} is {buffer.dtype}[{show_shape(expected.shape)}]"
        is_shape = isinstance(length, (tuple, list)) and len(length) == buffer.dimensions
        if not is_shape or not all(_is_whole(extent) and 0 <= int(extent) <= MAX_EXTENT for extent in length):
            raise BadInputs(
                f"{option}: {declared}; its length is {buffer.dimensions} numbers, one a dimension: "
                f"{syntax.length.format(name=buffer.name, value=syntax.extents(expected.shape))}"
            )
        if not shapes_agree(tuple(length), expected.shape):
            raise BadInputs(f"{option}: {declared}")
        shape = [int(extent) for extent in length]
    extents = tuple(extent for extent in shape if extent is not None)
    if len(extents) < buffer.dimensions:
        return None
    if prod(extents) > MAX_COUNT:
        raise BadInputs(
            f"{signature.title}: @{buffer.name} of {prod(extents)} elements; at most 2^48 are possible"
        )
    return OutputAlloc(prod(extents), extents)


def _is_whole(number: Any) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


def _check_length(signature: Signature, buffer: Buffer, array: Any, length: Any, syntax: CallSyntax) -> None:
    problem = ""
    count = None if array is None else _elements(array, buffer)
    if not _is_whole(length) or not 0 <= int(length) <= MAX_COUNT:
        problem = f": {length!r} is not a count of elements"
    elif count not in (None, length):
        problem = f", but {syntax.input.format(name=buffer.name)} holds {count} elements"
    elif buffer.count not in (None, length):
        problem = f": the {signature.owner} declares {buffer.count} elements"
    if problem:
        raise BadInputs(syntax.length.format(name=buffer.name, value=length) + problem)


def _elements(array: Any, buffer: Buffer) -> int | None:
    """The number of elements of an array; None for what has no shape."""
    if isinstance(array, (bytes, bytearray)):
        return len(array) // (buffer.dtype.element_bytes or 1)
    shape = _shape_of_list(array) if isinstance(array, (list, tuple)) else shape_of(array)
    return None if shape is None else prod(shape) // buffer.dtype.lanes


def _shape_of_list(array: Sequence[Any]) -> tuple[int, ...] | None:
    import numpy as np

    try:
        return np.shape(array)
    except ValueError:  # its rows differ in length
        return None


def default_grid(program: Program, arguments: Sequence[Any], syntax: CallSyntax = PYTHON) -> Dim3:
    """The grid that the program fixes.  Raises BadInputs that suggests one if it fixes none."""
    if program.grid is not None:
        return program.grid
    x, y, z = program.workgroup
    advice = ""
    pairs = zip(program.bound_buffers, arguments, strict=True)
    outputs = [(a, b) for b, a in pairs if b.is_output and program.lanes == x]
    counts = [a.count if isinstance(a, OutputAlloc) else _elements(a, b) for a, b in outputs]
    longest = max((count for count in counts if count is not None), default=None)
    if longest is not None:
        grid = syntax.grid.format(value=max(1, -(-longest // x)))
        advice = f"; {grid} is an invocation for each of {longest} output elements"
    raise BadInputs(
        f"program @{program.name} does not fix its grid: pass {syntax.grid.format(value=syntax.any_grid)}, "
        f"counts of workgroups of {x}x{y}x{z} invocations{advice}"
    )


def _is_read(buffer: Buffer) -> bool:
    """Whether the contents that a caller passes for the buffer may be read."""
    return buffer.access is AccessMode.READ or buffer.live_in


def _hint(name: str, known: Sequence[str]) -> str:
    other_case = [each for each in known if each.lower() == name.lower()]
    hint = f"did you mean @{other_case[0]}?" if other_case else suggest(name, known, "@")
    return f"; {hint}" if hint else ""
