"""vyre-run: runs a program or a pipeline of a .vyre file on arrays from files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from ..ir.diagnostics import DiagnosticError, Source
from ..ir.program import Buffer, Module
from . import errors
from .command import (
    SHELLS,
    GroupedCommand,
    checked,
    completion_script,
    default_passes,
    flag,
    fusion_limits,
    option,
)
from .errors import ToolError
from .reports import Clock
from .specs import read_assignment
from .text_files import read_text

if TYPE_CHECKING:
    import numpy as np

    from ..driver.binding import Signature
    from ..driver.compile import ProgramExecutable
    from ..driver.pipeline import PipelineExecutable
    from ..runtime.dispatcher import Dispatcher
    from .run_report import HostReads

__all__ = ["command", "main"]

EXAMPLES = """\
Examples:
  vyre-run scale.vyre --in x=x.npy --len y=1024 --grid=4 --out y=y.npy
  vyre-run hex_count.vyre --in text=blob.bin --grid=4096 --spec needle=10
  vyre-run pipeline.vyre --in text=blob.bin --out hits=hits.npy --time
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
    passes: str
    check: bool
    check_against: str | None
    tolerance: float
    no_cache: bool
    autotune: bool
    plot: str | None
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
    "--len", "lengths", metavar="NAME=N", **_pairs, help="Elements of a buffer of open size.", group=BUFFERS
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
@option("--entry", metavar="NAME", help="What to run: by default @main, or the only choice.", group=RUN)
@option("--spec", metavar="NAME=VALUE", **_pairs, help="Set a specialization constant.", group=RUN)
@option(
    "-O",
    "--optimize",
    is_flag=True,
    help="Run the default passes first, as vyre-opt -O does. Without it, all runs as it is written.",
    group=RUN,
)
@fusion_limits(RUN)
@option(
    "--check-against",
    type=click.Choice(("ref",)),
    help="Run again there, without -O, and compare the outputs.",
    group=RUN,
)
@flag(
    "--check",
    "Run again, launch by launch without -O, with some workgroups of each on ref beside: report races, "
    "reads of what nobody wrote, accesses out of bounds, and outputs that differ.",
    RUN,
)
@option(
    "--tolerance",
    type=click.FloatRange(min=0),
    default=0.0,
    help="Relative error that --check and --check-against allow for floats. Without it, every bit counts, "
    "but for --check where an op is approximate.",
    group=RUN,
)
@flag("--no-cache", "Compile anew, and keep nothing on disk.", RUN, "no_cache")
@flag("--autotune", "Measure the schedules of named kernels first, and run at the best.", RUN)
@option(
    "--plot",
    metavar="FILE.svg",
    help="With --autotune: a picture of what each configuration cost, and of the policy's path.",
    group=RUN,
)
@flag("--time", "Show the time that each step took.", RUN, "--timing", "timing")
@option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    callback=lambda ctx, param, value: errors.use_color(value),
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
    """Run a program or a pipeline of FILE (- for stdin) and print or write what it computes."""
    if completion:
        errors.write_stdout(completion_script(command, completion))
        return 0
    if file is None:
        raise click.UsageError("give a FILE, or - for stdin", ctx)
    if given["plot"] and not given["autotune"]:
        raise click.UsageError("--plot is of --autotune", ctx)
    default = default_passes(given)
    # constants have their values when a program runs, so passes may know them
    request = Request(**given, passes=f"specialize,{default}" if default else "")
    clock = Clock()
    module = _load(file, request)
    if request.target == "cuda":
        from ..driver import gpu_warm_up

        gpu_warm_up.begin()
    clock.lap("read")
    try:
        return _run(module, request, clock)
    finally:
        if request.timing:
            errors.write_stderr(clock.table() + clock.details)


def _load(file: str, request: Request) -> Module:
    """The verified module; its warnings go to stderr.  Raises DiagnosticError."""
    from ..ir.parser import parse_source
    from ..ir.verifier import verify

    module = parse_source(Source(*read_text(file)))
    found = verify(module)
    if any(d.severity == "error" for d in found):
        raise DiagnosticError(found)
    errors.show(found, request.color)
    return module


def _run(module: Module, request: Request, clock: Clock) -> int:
    from ..runtime.dispatcher import DispatchError, LocatedBadInputs, ProgramError
    from . import run_buffers, run_report

    try:
        target = run_buffers.target(request.target, request.no_cache)
        passes = request.passes
        compiled = run_buffers.compiled(module, request.entry, target, request.spec, passes)
        if _gives_grid_to_pipeline(compiled, request):
            return 2
        arguments = run_buffers.arguments(compiled, request.inputs, request.outputs, request.lengths)
        clock.lap("prepare")
        if request.autotune:
            from .run_tune import autotune_kernels

            if autotune_kernels(module, compiled, arguments, target, request.plot):
                compiled = run_buffers.compiled(module, request.entry, target, request.spec, passes)
            clock.lap("tune", less=run_report.book_compilations(compiled.dispatcher, clock))
        outputs, reads = _call(compiled, arguments, request, clock)
        clock.lap("dispatch", less=run_report.book_compilations(compiled.dispatcher, clock))
        buffers, arrays = [*compiled.signature.outputs, *reads.seen], [*outputs, *reads.arrays]
        if request.check_against:
            expected = _as_written(module, compiled, arguments, request.check_against, request)
            run_report.compare(buffers, arrays, expected, request.tolerance)
            clock.lap("check against ref")
        if request.check:
            _check(module, compiled, arguments, buffers, arrays, request)
            clock.lap("check")
    except ProgramError as fault:
        errors.show([fault.diagnostic], request.color)
        return 1
    except LocatedBadInputs as wrong:
        errors.show(wrong.diagnostics, request.color)
        return 1
    except DispatchError as failed:
        raise ToolError(str(failed)) from None
    _deliver(compiled.signature, compiled.outputs(outputs), reads, request)
    clock.lap("write")
    return 0


def _gives_grid_to_pipeline(compiled: ProgramExecutable | PipelineExecutable, request: Request) -> bool:
    """Whether the command line has a grid that nothing takes; that is said on stderr."""
    from ..driver.compile import ProgramExecutable
    from ..runtime.dispatcher import BadLaunch

    if isinstance(compiled, ProgramExecutable):
        return False
    try:
        compiled.refuse_grid(request.grid)
    except BadLaunch as wrong:
        errors.show(wrong.diagnostics, request.color)
        return True
    return False


def _call(
    compiled: ProgramExecutable | PipelineExecutable,
    arguments: list[Any],
    request: Request,
    clock: Clock | None = None,
) -> tuple[list[np.ndarray], HostReads]:
    """The outputs, and what the host read before the end.  Launches are timed where there is a clock."""
    from ..driver.compile import ProgramExecutable
    from ..runtime.pipelines.watch import Times, Watch
    from .progress import Progress
    from .run_report import HostReads, launch_table

    signature = compiled.signature
    files = frozenset(name for name, _ in request.outputs)
    keeps = bool(request.check_against or request.check)
    reads = HostReads({b.name: b for b in signature.buffers}, files, keeps)
    with Progress(f"@{compiled.name} on {compiled.target}"):
        if isinstance(compiled, ProgramExecutable):
            return compiled.run(arguments, request.grid), reads
        times = Times() if request.timing and clock is not None else None
        made = compiled.run(arguments, watch=Watch(reads.see, times))
    if times is not None and clock is not None:
        clock.details = launch_table(times)
    return made, reads


def _as_written(
    module: Module,
    compiled: ProgramExecutable | PipelineExecutable,
    arguments: list[Any],
    target: str | Dispatcher,
    request: Request,
) -> list[np.ndarray]:
    """What a target gives without -O: the outputs, and what the host read before the end."""
    from . import run_buffers

    again = run_buffers.compiled(module, request.entry, target, request.spec)
    outputs, reads = _call(again, run_buffers.arguments_again(again, compiled, arguments), request)
    return [*outputs, *reads.arrays]


def _check(
    module: Module,
    compiled: ProgramExecutable | PipelineExecutable,
    arguments: list[Any],
    buffers: list[Buffer],
    arrays: list[np.ndarray],
    request: Request,
) -> None:
    """--check, of what the `buffers` were found to hold; says on stderr what was run.

    Raises ProgramError and ToolError.
    """
    from . import run_report
    from .spot_check import APPROXIMATE, SpotCheck

    beside = SpotCheck(compiled.dispatcher, request.tolerance)
    expected = _as_written(module, compiled, arguments, beside, request)
    if beside.is_ordered:
        tolerance = request.tolerance or (APPROXIMATE["f32"] if beside.is_approximate else 0.0)
        sides = ("as run", "launch by launch as written, with other bytes where nobody wrote")
        run_report.compare(buffers, arrays, expected, tolerance, sides)
    done = ", ".join(beside.checked.values())
    agree = ", and the outputs agree" if beside.is_ordered else ""
    errors.write_stderr(f"check: {done}: no fault{agree}\n")


def _deliver(
    signature: Signature, made: Mapping[str, np.ndarray], reads: HostReads, request: Request
) -> None:
    """Write each output to its file; those without one, as a summary, to stdout."""
    from . import run_buffers, run_report

    files = dict(request.outputs)
    for name, path in files.items():
        run_buffers.write(made[name], path)
    kinds = {b.name: b for b in signature.outputs}
    lines = [run_report.summary(kinds[name], array) for name, array in made.items() if name not in files]
    if reads.lines or lines:
        errors.write_stdout("\n".join([*reads.lines, *lines]) + "\n")


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-run script."""
    return errors.run(command, args)
