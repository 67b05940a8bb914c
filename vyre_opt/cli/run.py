"""vyre-run: runs a program of a .vyre file on arrays from files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..ir.diagnostics import DiagnosticError, Source, suggest
from ..ir.program import Module, Program
from . import conduct
from .command import SHELLS, GroupedCommand, checked, completion_script, flag, option
from .conduct import ToolError
from .reports import Clock
from .specs import read_assignment, set_specs
from .text_files import read_text

if TYPE_CHECKING:
    import numpy as np

__all__ = ["command", "main"]

EXAMPLES = """\
Examples:
  vyre-run scale.vyre --in x=x.npy --len y=1024 --grid=4 --out y=y.npy
  vyre-run hex_count.vyre --in text=blob.bin --grid=4096 --spec needle=10
  vyre-opt hex_count.vyre --pass=decode_scan_fuse | vyre-run - --in text=blob.bin

A file that ends in .npy is read and written as NumPy does, any other as raw
little-endian elements. bf16 elements are their bits in uint16.
Exit code: 0 done, 1 an error of the program or its inputs, 2 a wrong command line.
Completion: eval "$(vyre-run --completion bash)"
"""

Pairs = tuple[tuple[str, str], ...]


@dataclass(slots=True)
class Request:
    """What the command line asked for."""

    target: str
    inputs: Pairs
    outputs: Pairs
    lengths: Pairs
    grid: tuple[int, ...] | None
    entry: str | None
    spec: Pairs
    check_against: str | None
    tolerance: float
    timing: bool
    color: bool


def read_grid(text: str) -> tuple[int, ...]:
    """`X[,Y[,Z]]` as counts of workgroups.  Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise ValueError(f"{text!r} is not X[,Y[,Z]], counts of workgroups")
    return tuple(map(int, parts))


BUFFERS, RUN, OTHER = "Buffers", "Run", "Other"
_pairs: dict[str, Any] = {"multiple": True, "callback": checked(read_assignment)}


@click.command("vyre-run", cls=GroupedCommand, epilog=EXAMPLES)
@click.argument("file", type=click.Path(allow_dash=True), required=False)
@option("--in", "inputs", metavar="NAME=FILE", **_pairs, help="The contents of a buffer.", group=BUFFERS)
@option(
    "--out",
    "outputs",
    metavar="NAME=FILE",
    **_pairs,
    help="Where to write an output; - is stdout, raw.",
    group=BUFFERS,
)
@option(
    "--len", "lengths", metavar="NAME=N", **_pairs, help="Elements of an output of open size.", group=BUFFERS
)
@option(
    "--target",
    type=click.Choice(("ref", "cpu", "cuda")),
    default="cpu",
    show_default=True,
    help="What runs it: this machine's vector unit, ref, the checking interpreter, or a GPU.",
    group=RUN,
)
@option(
    "--grid", metavar="X[,Y,Z]", callback=checked(read_grid), help="Workgroups along each axis.", group=RUN
)
@option("--entry", metavar="NAME", help="The program to run, where the file has several.", group=RUN)
@option("--spec", metavar="NAME=VALUE", **_pairs, help="Set a specialization constant.", group=RUN)
@option(
    "--check-against",
    type=click.Choice(("ref",)),
    help="Run again there, and compare the outputs.",
    group=RUN,
)
@option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Relative error that --check-against allows for floats. Without it, every bit counts.",
    group=RUN,
)
@flag("--time", "Show the time that each step took.", RUN, "timing")
@option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    callback=lambda ctx, param, value: conduct.use_color(value),
    help="Colour messages; auto minds NO_COLOR.",
    group=OTHER,
)
@option(
    "--completion",
    type=click.Choice(SHELLS),
    help="Print the completion script of a shell, and exit.",
    group=OTHER,
)
@click.version_option(__version__, prog_name="vyre-run", message="%(prog)s %(version)s")
@click.pass_context
def command(ctx: click.Context, file: str | None, completion: str | None, **given: Any) -> int:
    """Run a program of FILE (or of stdin, for -) and print or write what it computes."""
    if completion:
        conduct.write_stdout(completion_script(command, completion))
        return 0
    if file is None:
        raise click.UsageError("give a FILE, or - for stdin", ctx)
    request = Request(**given)
    clock = Clock()
    module = _load(file, request)
    clock.lap("read")
    program = _entry(module, request.entry)
    set_specs([program], request.spec)
    try:
        return _run(module, program, request, clock)
    finally:
        if request.timing:
            conduct.write_stderr(clock.table())


def _load(file: str, request: Request) -> Module:
    """The verified module; its warnings go to stderr.  Raises DiagnosticError."""
    from ..ir.parser import parse_source
    from ..ir.verifier import verify

    module = parse_source(Source(*read_text(file)))
    found = verify(module)
    if any(d.severity == "error" for d in found):
        raise DiagnosticError(found)
    conduct.show(found, request.color)
    return module


def _entry(module: Module, name: str | None) -> Program:
    """The program to run.  Raises ToolError that says how to choose."""
    programs, pipelines = module.programs, module.pipelines
    name = name.removeprefix("@") if name else None
    choices = f"choose a program with --entry: {', '.join('@' + n for n in programs) or 'there is none'}"
    if name in programs:
        return programs[name or ""]
    if name in pipelines or (name is None and pipelines):
        shown = name or next(iter(pipelines))
        raise ToolError(f"@{shown} is a pipeline, and this version does not run pipelines yet; {choices}")
    if name is not None:
        hint = suggest(name, programs, "@")
        raise ToolError(f"there is no program @{name}; " + (hint or choices))
    if len(programs) != 1:
        raise ToolError(
            f"there are {len(programs)} programs here; {choices}" if programs else "there is no program here"
        )
    return next(iter(programs.values()))


def _run(module: Module, program: Program, request: Request, clock: Clock) -> int:
    from ..runtime.dispatcher import DispatchError, ProgramError, dispatcher
    from . import run_buffers, run_report
    from .progress import Progress

    try:
        backend = dispatcher(request.target)
        run_buffers.check_outputs(program, request.outputs)
        arrays = run_buffers.arrays(program, request.inputs, request.lengths)
        grid = request.grid or run_buffers.default_grid(program, arrays)
        clock.lap("prepare")
        with Progress(f"@{program.name} on {request.target}"):
            outputs = backend.dispatch(program, arrays, grid, module=module)
        clock.lap("dispatch")
        if request.check_against:
            with Progress(f"@{program.name} on {request.check_against}"):
                again = dispatcher(request.check_against).dispatch(program, arrays, grid, module=module)
            run_report.compare(program, outputs, again, request.tolerance)
            clock.lap("check")
    except ProgramError as fault:
        conduct.show([fault.diagnostic], request.color)
        return 1
    except DispatchError as failed:
        raise ToolError(str(failed)) from None
    _deliver(program, outputs, request)
    clock.lap("write")
    return 0


def _deliver(program: Program, outputs: Sequence[np.ndarray], request: Request) -> None:
    """Write each output to its file; those without one, as a summary, to stdout."""
    from . import run_buffers, run_report

    files = dict(request.outputs)
    made = dict(zip((b.name for b in program.bound_buffers if b.is_output), outputs, strict=True))
    for name, path in files.items():
        run_buffers.write(made[name], path)
    lines = [run_report.summary(program.buffers[n], array) for n, array in made.items() if n not in files]
    if lines:
        conduct.write_stdout("\n".join(lines) + "\n")


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-run script."""
    return conduct.run(command, args)
