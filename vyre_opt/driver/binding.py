"""What a person gives by name, as a run takes it: the program or pipeline, its constants, its buffers.

A message tells how to pass what is missing in the words of who asked: `Wording`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ..ir.diagnostics import Diagnostic, suggest
from ..ir.literals import LiteralError, encode, read_literal
from ..ir.pipeline import HostRead, Pipeline
from ..ir.program import AccessMode, Buffer, Dim3, Module, Program
from ..runtime.dispatcher import BadInputs, BadSpecs, OutputAlloc

__all__ = ["PYTHON", "Signature", "Wording", "bind", "by_name", "choose", "default_grid", "set_specs"]

MAX_COUNT = 1 << 48


@dataclass(frozen=True, slots=True)
class Wording:
    """How something is passed; `{name}` and `{value}` stand for the thing and what it is.

    `give_*` is advice, the others name what was passed.
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


PYTHON = Wording(
    entry="entry=",
    input="inputs[{name!r}]",
    give_input="inputs={{{name!r}: array}}",
    length="lengths[{name!r}]={value}",
    give_length="lengths={{{name!r}: n}}, or an array for it",
    length_alone="lengths={{{name!r}: n}}",
    grid="grid={value}",
    any_grid="(x, y, z)",
    give_spec="specs={{{name!r}: value}}",
)


@dataclass(frozen=True, slots=True)
class Signature:
    """What a caller passes to a program or a pipeline, in order.

    `buffers`: all that have a length.  `given`: those that take an array; what is not among them
    is the pipeline's own.  `read`: those of them that may be read before they are written.
    `outputs`: those given back.
    """

    owner: str
    name: str
    buffers: tuple[Buffer, ...]
    given: tuple[Buffer, ...]
    read: tuple[Buffer, ...]
    outputs: tuple[Buffer, ...]

    @property
    def title(self) -> str:
        return f"{self.owner} @{self.name}"

    @property
    def noun(self) -> str:
        """What a buffer that takes an array is called."""
        return "bound buffer" if self.owner == "program" else "input or output"

    @staticmethod
    def of(item: Program | Pipeline) -> Signature:
        if isinstance(item, Program):
            bound = tuple(item.bound_buffers)
            given_back = tuple(b for b in bound if b.is_output)
            return Signature("program", item.name, bound, bound, tuple(filter(_is_read, bound)), given_back)
        read = {stage.buffer for stage in item.walk() if isinstance(stage, HostRead)}
        buffers = tuple(item.buffers.values())
        back = {b.name for b in buffers if b.live_out or b.access is AccessMode.WRITE}
        given = tuple(b for b in buffers if _is_read(b) or b.name in back)
        outputs = tuple(b for b in buffers if b.name in back | read)
        return Signature("pipeline", item.name, buffers, given, tuple(filter(_is_read, given)), outputs)


def choose(module: Module, name: str | None, words: Wording = PYTHON) -> Program | Pipeline:
    """The program or the pipeline that is to run.  Raises BadInputs that says how to choose.

    Without a name it is the pipeline @main, or the only pipeline, or the only program where there
    is no pipeline.
    """
    programs, pipelines = module.programs, module.pipelines
    entries: dict[str, Program | Pipeline] = {**pipelines, **programs}
    name = name.removeprefix("@") if name else None
    kind = "program or pipeline" if pipelines else "program"
    listed = ", ".join("@" + n for n in (*programs, *pipelines)) or "there is none"
    if name is not None:
        if name in entries:
            return entries[name]
        choices = f"choose a {kind} with {words.entry}: {listed}"
        raise BadInputs(f"there is no {kind} @{name}; " + (suggest(name, entries, "@") or choices))
    if "main" in pipelines:
        return pipelines["main"]
    alone: list[Program | Pipeline] = [*pipelines.values()] or [*programs.values()]
    if len(alone) == 1:
        return alone[0]
    if not alone:
        raise BadInputs("there is no program here")
    kinds = ((len(programs), "program"), (len(pipelines), "pipeline"))
    counted = " and ".join(f"{number} {noun}{'s' * (number > 1)}" for number, noun in kinds if number)
    raise BadInputs(f"there are {counted} here; choose a {kind} with {words.entry}: {listed}")


def set_specs(
    programs: Sequence[Program], given: Mapping[str, Any], title: str, words: Wording = PYTHON
) -> None:
    """Make each value the default of the constants of its name.  Raises BadSpecs, located at them.

    Values are Python's, or text as the language writes it: "7", "0x1f", "1.5", "true".
    """
    from ..runtime.arrays import encode_spec

    for name, value in given.items():
        plain = name.removeprefix("@")
        specs = [program.specs[plain] for program in programs if plain in program.specs]
        if not specs:
            known = list(dict.fromkeys(s for program in programs for s in program.specs))
            listed = ", ".join(f"@{s}" for s in known) or "none"
            message = f"{title} has no spec @{plain}; it has {listed}{_hint(plain, known)}"
            raise BadSpecs([Diagnostic("error", message, programs[0].loc if programs else None)])
        for spec in specs:
            try:
                is_text = isinstance(value, str)
                spec.default = (
                    encode(read_literal(value), spec.dtype) if is_text else encode_spec(value, spec.dtype)
                )
            except (LiteralError, ValueError) as wrong:
                message = f"spec @{plain} is {spec.dtype}: {wrong}"
                raise BadSpecs([Diagnostic("error", message, spec.loc)]) from None
    for program in programs:
        for name, spec in program.specs.items():
            if spec.default is None:
                advice = words.give_spec.format(name=name)
                message = f"program @{program.name}: spec @{name} has no default; pass {advice}"
                raise BadSpecs([Diagnostic("error", message, spec.loc)])


def by_name(
    signature: Signature, given: Mapping[str, Any], buffers: Sequence[Buffer], word: str, noun: str
) -> dict[str, Any]:
    """`given` without `@`.  Raises BadInputs, `word` naming what was passed, for what is none of `buffers`.

    `noun`: what one of `buffers` is called.
    """
    known = [b.name for b in buffers]
    found = {name.removeprefix("@"): value for name, value in given.items()}
    for name in found:
        if name in known:
            continue
        hidden = signature.owner == "pipeline" and name in {b.name for b in signature.buffers}
        hint = (
            f"; @{name} is its own, unless it is declared read, live_in or live_out"
            if hidden
            else _hint(name, known)
        )
        raise BadInputs(
            f"{word.format(name=name, value='')}: {signature.title} has no {noun} @{name}; "
            f"it has {', '.join(f'@{n}' for n in known) or 'none'}{hint}"
        )
    return found


def bind(
    signature: Signature,
    inputs: Mapping[str, Any] | Sequence[Any],
    lengths: Mapping[str, int],
    words: Wording = PYTHON,
) -> list[Any]:
    """An argument for each buffer, in order: what was given, or `OutputAlloc`.

    A sequence has an array for each buffer that may be read before it is written, or for each that
    takes one.  Raises BadInputs for a name that is no buffer, and for what is missing.
    """
    if isinstance(inputs, Mapping):
        arrays = by_name(signature, inputs, signature.given, words.input, signature.noun)
    else:
        arrays = _in_order(signature, inputs)
    counts: dict[str, Any] = {}
    if lengths:
        noun = signature.noun if signature.owner == "program" else "buffer"
        counts = by_name(signature, lengths, signature.buffers, words.length.replace("={value}", ""), noun)
    missing = [b for b in signature.read if b.name not in arrays]
    if missing:
        names = ", ".join(f"@{b.name} : {b.dtype}[{'?' if b.count is None else b.count}]" for b in missing)
        advice = ", ".join(words.give_input.format(name=b.name) for b in missing)
        raise BadInputs(f"{signature.title} reads {names}, which nothing gives; pass {advice}")
    return [_argument(signature, b, arrays.get(b.name), counts.get(b.name), words) for b in signature.buffers]


def _in_order(signature: Signature, inputs: Sequence[Any]) -> dict[str, Any]:
    given, read = signature.given, signature.read
    if not isinstance(inputs, (list, tuple)):
        raise BadInputs(f"inputs is a mapping of names to arrays or a list of arrays, not {_type(inputs)}")
    for buffers in (read, given):
        if len(inputs) == len(buffers):
            return {b.name: array for b, array in zip(buffers, inputs, strict=True)}
    listed, all_listed = (", ".join(f"@{b.name}" for b in some) or "none" for some in (read, given))
    verb = "binds" if signature.owner == "program" else "takes"
    raise BadInputs(f"{len(inputs)} inputs given; {signature.title} reads {listed}, and {verb} {all_listed}")


def _argument(signature: Signature, buffer: Buffer, given: Any, length: Any, words: Wording) -> Any:
    if length is not None:
        _check_length(signature, buffer, given, length, words)
    if given is not None:
        return given
    count = buffer.count if length is None else int(length)
    if count is None:
        takes_array = buffer in signature.given
        advice = (words.give_length if takes_array else words.length_alone).format(
            name=buffer.name, value="N"
        )
        raise BadInputs(f"buffer @{buffer.name} has an open size: pass {advice}")
    return OutputAlloc(count)


def _check_length(signature: Signature, buffer: Buffer, given: Any, length: Any, words: Wording) -> None:
    wrong = ""
    held = None if given is None else _elements(given, buffer)
    if isinstance(length, bool) or not hasattr(length, "__index__") or not 0 <= int(length) <= MAX_COUNT:
        wrong = f": {length!r} is not a count of elements"
    elif held not in (None, length):
        wrong = f", but {words.input.format(name=buffer.name)} holds {held} elements"
    elif buffer.count not in (None, length):
        wrong = f": the {signature.owner} declares {buffer.count} elements"
    if wrong:
        raise BadInputs(words.length.format(name=buffer.name, value=length) + wrong)


def _elements(given: Any, buffer: Buffer) -> int | None:
    """How many elements an array holds, if it is one."""
    from math import prod

    shape = getattr(given, "shape", None)
    return None if shape is None else prod(shape) // buffer.dtype.lanes


def default_grid(program: Program, arguments: Sequence[Any], words: Wording = PYTHON) -> Dim3:
    """The grid that the program fixes.  Raises BadInputs that says how to find one."""
    if program.grid is not None:
        return program.grid
    x, y, z = program.workgroup
    advice = ""
    outputs = [
        (a, b)
        for b, a in zip(program.bound_buffers, arguments, strict=True)
        if b.is_output and program.lanes == x
    ]
    counts = [a.count if isinstance(a, OutputAlloc) else _elements(a, b) for a, b in outputs]
    most = max((count for count in counts if count is not None), default=None)
    if most is not None:
        grid = words.grid.format(value=max(1, -(-most // x)))
        advice = f"; {grid} is an invocation for each of {most} output elements"
    raise BadInputs(
        f"program @{program.name} does not fix its grid: pass {words.grid.format(value=words.any_grid)}, "
        f"counts of workgroups of {x}x{y}x{z} invocations{advice}"
    )


def _is_read(buffer: Buffer) -> bool:
    """Whether what the caller puts into a buffer may be read."""
    return buffer.access is AccessMode.READ or buffer.live_in


def _hint(name: str, known: Any) -> str:
    hint = suggest(name, known, "@")
    return f"; {hint}" if hint else ""


def _type(given: Any) -> str:
    return type(given).__name__
