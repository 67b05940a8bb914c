"""vyre-run: runs a program or a pipeline of a .vyre file on arrays from files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..ir.diagnostics import Diagnostic, DiagnosticError, Location, Source, printable
from ..ir.program import Buffer, Module
from . import errors
from .command import (
    PAIRS,
    Choice,
    GroupedCommand,
    checked,
    color_option,
    common_options,
    default_passes,
    flag,
    lacks,
    limits_option,
    max_input_option,
    optimize_options,
    option,
    run_under_limits,
)
from .completers import complete_assigned_files, complete_files, complete_vyre_files
from .errors import ToolError
from .reports import Stopwatch
from .run_options import RunOptions
from .text_files import read_original, read_text, write_text

if TYPE_CHECKING:
    import numpy as np

    from ..driver.binding import Signature
    from ..driver.profile import Profile
    from ..execution.dispatcher import Dispatcher
    from ..execution.plans.watch import Times
    from .run_buffers import AnyExecutable
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


def parse_grid(text: str) -> tuple[int, ...]:
    """`X[,Y[,Z]]` as counts of workgroups.  Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        numbers = re.findall(r"\d+", text.split(".")[0])[:3] or ["1"]
        raise ValueError(f"{text!r} is not X[,Y[,Z]], counts of workgroups; write {','.join(numbers)}")
    return tuple(map(int, parts))


def parse_ids(text: str) -> tuple[int, ...]:
    """A linear id, or `X,Y,Z`.  Raises ValueError."""
    parts = [part.strip() for part in text.split(",")]
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) < 20 for part in parts):
        raise ValueError(f"{text!r} is not a linear id, or X,Y,Z")
    return tuple(map(int, parts))


def _target(ctx: click.Context, param: click.Parameter, value: str | None) -> str:
    """The target, of the environment where none is named."""
    if value is not None:
        return value
    from ..execution.dispatcher import BadInputs
    from ..execution.environment import default_target

    try:
        return default_target()
    except BadInputs as error:
        raise click.UsageError(str(error), ctx) from None


BUFFERS, RUN, DEBUG = "Buffers", "Run", "Debugger"
_ALONE = ("check", "check_against", "autotune", "timing", "limits")
"""The options that run a program more than once, or measure it."""

TABLE = "-"
"""The value of --profile without a file."""


@click.command("vyre-run", cls=GroupedCommand, bare={"--profile": TABLE}, epilog=EXAMPLES)
@click.argument("file", type=click.Path(allow_dash=True), required=False, shell_complete=complete_vyre_files)
@option(
    "--in inputs",
    "The contents of a buffer.",
    BUFFERS,
    metavar="NAME=FILE",
    shell_complete=complete_assigned_files,
    **PAIRS,
)
@option(
    "--out outputs",
    "Where to write an output; - is stdout, raw. A .npy file has the shape of the .npy inputs that are declared "
    "with as many elements, if they have one shape.",
    BUFFERS,
    metavar="NAME=FILE",
    shell_complete=complete_assigned_files,
    **PAIRS,
)
@option(
    "--len lengths",
    "Elements of a buffer of open size; of several dimensions N,M.",
    BUFFERS,
    metavar="NAME=N",
    **PAIRS,
)
@option(
    "--target",
    "What runs it: this machine's vector unit, ref, the checking interpreter, or a GPU.  [default: cpu, or VYRE_TARGET]",
    RUN,
    type=Choice(("ref", "cpu", "cuda"), "run_target"),
    default=None,
    callback=_target,
)
@option("--grid", "Workgroups along each axis.", RUN, metavar="X[,Y,Z]", callback=checked(parse_grid))
@option("--entry", "What to run: by default @main, or the only choice.", RUN, metavar="NAME")
@option("--spec", "Set a specialization constant.", RUN, metavar="NAME=VALUE", **PAIRS)
@option("--param", "The value of a runtime scalar.", RUN, metavar="NAME=VALUE", **PAIRS)
@optimize_options(
    "Run the default passes first, as vyre-opt -O does. Without it, all runs as it is written.", RUN
)
@option(
    "--opt-bisect-limit",
    "With -O: run only the first N executions of passes on programs, and number all; -1 runs all.",
    RUN,
    metavar="N",
    type=click.IntRange(min=-1),
)
@flag("--no-crash-reproducer", "If a pass of -O crashes, write no vyre-opt-crash-*.vyre.", RUN)
@option(
    "--check-against",
    "Run again there, without -O, and compare the outputs.",
    RUN,
    type=click.Choice(("ref",)),
)
@flag(
    "--check",
    "Run again, launch by launch without -O, with some workgroups of each on ref beside: report races, "
    "reads of what nobody wrote, accesses out of bounds, and outputs that differ.",
    RUN,
)
@option(
    "--tolerance",
    "Relative error that --check and --check-against allow for floats. Without it, every bit counts, "
    "but for --check where an op is approximate.",
    RUN,
    type=click.FloatRange(min=0),
    default=0.0,
)
@flag("--no-cache no_cache", "Compile anew, and keep nothing on disk.", RUN)
@flag(
    "--autotune",
    "Measure first the schedules of named kernels, how launches are joined, and levels of LLVM's optimiser; run at the best.",
    RUN,
)
@option(
    "--plot",
    "With --autotune: a picture of what each configuration cost, and of what was expected; .svg, .png or .pdf.",
    RUN,
    metavar="FILE",
    shell_complete=complete_files,
)
@option(
    "--record",
    "Keep a call that faults in a folder, for --replay; as VYRE_RECORD=DIR does for every call.",
    DEBUG,
    metavar="DIR",
    shell_complete=complete_files,
)
@option(
    "--replay",
    "Run a recorded call under the debugger up to its fault; the latest, of a folder of several.",
    DEBUG,
    metavar="DIR",
    shell_complete=complete_files,
)
@flag(
    "--debug",
    "Run it on ref under the debugger, which reads commands from stdin: help lists them.",
    DEBUG,
)
@option(
    "--break breakpoints",
    "Stop before a line, as --break 12, --break file.vyre:12, or --break '12 if %i == 3'.",
    DEBUG,
    metavar="LINE",
    multiple=True,
)
@option(
    "--workgroup",
    "Look at this workgroup, by its linear id or its ids.",
    DEBUG,
    metavar="X[,Y,Z]",
    callback=checked(parse_ids),
)
@option(
    "--local",
    "Look at this invocation of a workgroup.",
    DEBUG,
    metavar="X[,Y,Z]",
    callback=checked(parse_ids),
)
@flag(
    "--time --timing timing",
    "Show the time that each step took, and how fast launches are beside a copy of as many bytes.",
    RUN,
)
@option(
    "--profile",
    "Show launches, passes and compilation: how often, how long, the bytes that move, and how near launches come to the "
    "limit of the machine. With =FILE also write a trace for chrome://tracing or ui.perfetto.dev.",
    RUN,
    metavar="[=FILE]",
)
@flag(
    "--debug-info", "Put line tables into the code, by which debuggers and profilers show lines of FILE.", RUN
)
@color_option("Other")
@limits_option()
@max_input_option()
@common_options("vyre-run")
@click.pass_context
def command(ctx: click.Context, /, file: str | None, **values: Any) -> int:
    """Run a program or a pipeline of FILE (- for stdin) and print or write what it computes."""
    if values["replay"] is not None:
        if file is not None:
            raise click.UsageError("--replay has the file that was recorded: leave FILE out", ctx)
        from . import run_debug

        file = run_debug.set_options(values)
    if file is None:
        raise click.UsageError("give a FILE, or - for stdin", ctx)
    if values["profile"] and values["timing"]:
        raise click.UsageError("--profile measures what --time does; give one of them", ctx)
    if values["profile"] == "":
        raise click.UsageError("--profile= names no file; leave the = out for the table alone", ctx)
    if values["plot"] and not values["autotune"]:
        raise lacks("--plot", "--autotune")
    if values["plot"]:
        from .run_tune import check_plot

        check_plot(values["plot"])
    if values["limits"] and values["target"] == "cuda":
        raise click.UsageError("--limits are for ref and cpu: they bound no GPU, and no memory of one", ctx)
    for name in ("breakpoints", "workgroup", "local"):
        if values[name] and not values["debug"]:
            raise lacks(f"--{'break' if name == 'breakpoints' else name}", "--debug")
    if ctx.get_parameter_source("tolerance") is ParameterSource.COMMANDLINE and not (
        values["check"] or values["check_against"]
    ):
        raise lacks("--tolerance", "--check")
    for name in _ALONE:
        if values["debug"] and values[name]:
            option_name = {"timing": "time", "check_against": "check-against"}.get(name, name)
            raise click.UsageError(f"--debug is not together with --{option_name}", ctx)
    files = [path for _, path in values["outputs"]] + [values["plot"], _trace_file(values["profile"])]
    code = run_under_limits(ctx, "run", values, files)
    if code is not None:
        return code
    default = default_passes(values)
    if values["opt_bisect_limit"] is not None and not default:
        raise lacks("--opt-bisect-limit", "-O")
    # here specialization constants have their values, so -O begins with `specialize`
    options = RunOptions(**values, passes=f"specialize,{default}" if default else "")
    clock = Stopwatch()
    module, told = _load(file, options)
    if options.target == "cuda":
        from ..driver import gpu_warm_up

        gpu_warm_up.begin()
    clock.lap("read")
    try:
        return _run(module, told, options, clock)
    finally:
        if options.timing:
            errors.write_stderr(clock.table() + clock.details)


def _trace_file(profile: str | None) -> str | None:
    """The file of --profile=FILE."""
    return None if profile == TABLE else profile


def _write_profile(taken: Profile, options: RunOptions) -> None:
    """The table on stderr, and the trace of --profile=FILE."""
    errors.write_stderr(f"{taken}\n")
    path = _trace_file(options.profile)
    if path is not None:
        write_text(taken.trace_text(), path)


def _load(file: str, options: RunOptions) -> tuple[Module, list[Location | None]]:
    """The verified module, and the places of its warnings, which go to stderr.  Raises DiagnosticError."""
    from ..execution.cache.ir_results import ir_result
    from ..execution.cache.store import default_store
    from ..execution.limits import compiling

    source = Source(*read_text(file))
    reads_others = "loc(" in source.text  # a location may name a file
    store = None if options.no_cache or reads_others else default_store()
    key = source.name, source.text
    with compiling():
        module, diagnostics, breakpoints = ir_result(store, "read", key, (), lambda: _read(source))
    if options.replay is not None:
        from . import run_debug

        run_debug.place_module(module, options)
    if options.replay is None:
        errors.print_diagnostics(diagnostics + breakpoints * (not options.debug), options.color)
    return module, [diagnostic.loc for diagnostic in diagnostics]


def _read(source: Source) -> tuple[Module, list[Diagnostic], list[Diagnostic]]:
    """The verified module, its warnings, and those of breakpoints.  Raises DiagnosticError."""
    from ..ir.verifier import verify
    from ..ir.warnings.program_warnings import ignored_breakpoints
    from ..mlir.file_kind import parse_either

    module = parse_either(source, read_original)
    diagnostics = verify(module)
    if any(d.severity == "error" for d in diagnostics):
        raise DiagnosticError(diagnostics)
    return module, diagnostics, [each for p in module.programs.values() for each in ignored_breakpoints(p)]


def _run(module: Module, told: Sequence[Location | None], options: RunOptions, clock: Stopwatch) -> int:
    from ..execution.dispatcher import DispatchError, LocatedBadInputs, ProgramError
    from ..execution.plans.watch import Times
    from . import run_buffers, run_report

    profiled = ExitStack()
    taken = None
    if options.profile:
        from ..driver.profile import profile

        taken = profiled.enter_context(profile())
    try:
        if options.no_cache:
            run_buffers.disable_cache()
        if options.record is not None:
            run_buffers.record_faults(options.record)
        target, prompt = options.target, None
        if options.debug:
            from . import run_debug

            prompt = run_debug.new_prompt(module, options)
        executable = _compile(module, options, target if prompt is None else prompt.session.dispatcher)
        if _has_useless_grid(executable, options):
            return errors.WRONG_COMMAND_LINE
        words = executable.param_words(dict(options.param))
        files = run_buffers.read_inputs(executable, options.inputs)
        arguments = run_buffers.arguments(executable, files, options.outputs, options.lengths, words)
        _warn_of_launches(module, executable, options, arguments, words, told)
        clock.lap("prepare")
        if options.autotune:
            from .run_tune import autotune

            executable = autotune(module, executable, arguments, options)
            clock.lap("tune", less=run_report.book_compilations(executable.dispatcher, clock))
        if prompt is not None:
            debugged = run_debug.debugged_outputs(prompt, executable, arguments, options)
            if debugged is not None:
                _write_outputs(executable.signature, executable.outputs(debugged), files, options)
            return errors.DONE
        times = Times() if options.timing else None
        outputs, reads = _call(executable, arguments, options, clock, times)
        profiled.close()  # what checks run is no part of it
        # the first dispatch compiles, and each program has a row of its own for that
        clock.lap("dispatch", less=run_report.book_compilations(executable.dispatcher, clock))
        buffers, arrays = [*executable.signature.outputs, *reads.seen], [*outputs, *reads.arrays]
        if options.check_against:
            expected = _run_unoptimized(module, executable, arguments, options.check_against, options)
            lines = run_report.compare(buffers, arrays, expected, options.tolerance)
            agree = f"check: {target} and {options.check_against} agree{reads.omission()}"
            errors.write_stderr("\n  ".join([agree, *lines]) + "\n")
            clock.lap("check against ref")
        if options.check:
            _check(module, executable, arguments, buffers, arrays, reads.omission(), options)
            clock.lap("check")
    except ProgramError as fault:
        errors.print_diagnostics([fault.diagnostic], options.color)
        return errors.FAILED
    except LocatedBadInputs as error:
        errors.print_diagnostics(error.diagnostics, options.color)
        return errors.FAILED
    except DispatchError as error:
        raise ToolError(str(error)) from None
    finally:
        profiled.close()
    _write_outputs(executable.signature, executable.outputs(outputs), files, options)
    clock.lap("write")
    if times is not None:
        clock.details = run_report.launch_table(
            times, run_report.speeds(executable, arguments, times, options)
        )
        clock.lap("measure")
    if taken is not None:
        _write_profile(taken, options)
    return errors.DONE


def _compile(module: Module, options: RunOptions, target: str | Dispatcher) -> AnyExecutable:
    """Item that --entry names, after the passes of -O; a reproducer is written where a pass crashes."""
    from ..execution.environment import chosen_target
    from . import run_buffers

    bisect = None
    if options.opt_bisect_limit is not None:
        from ..passes.bisect import BisectLimit

        bisect = BisectLimit(options.opt_bisect_limit, errors.write_stderr)
    try:
        return run_buffers.compile_entry(
            module,
            options.entry,
            chosen_target(target),
            options.spec,
            options.passes,
            bisect,
            options.debug_info,
        )
    except (DiagnosticError, ValueError, MemoryError):  # of the input, BadInputs among them
        raise
    except Exception as bug:
        if options.passes and module.source is not None and not errors.system_refusal(bug):
            from .reproducer import note_failure

            note_failure(module.source, options)
        raise


def _has_useless_grid(executable: AnyExecutable, options: RunOptions) -> bool:
    """Whether --grid is given for a pipeline, which takes none; prints the error."""
    from ..driver.program import ProgramExecutable
    from ..execution.dispatcher import BadLaunch

    if isinstance(executable, ProgramExecutable):
        return False
    try:
        executable.refuse_grid(options.grid)
    except BadLaunch as error:
        errors.print_diagnostics(error.diagnostics, options.color)
        return True
    return False


def _warn_of_launches(
    module: Module,
    executable: AnyExecutable,
    options: RunOptions,
    arguments: Sequence[Any],
    params: Mapping[str, int],
    told: Sequence[Location | None],
) -> None:
    """Print the warnings of launches on these arguments, but for those that are `told`."""
    from ..driver.program import ProgramExecutable
    from ..ir.warnings.launch_warnings import launch_warnings, pipeline_warnings
    from ..ir.warnings.unreached_elements import LaunchedAt

    names = [buffer.name for buffer in executable.signature.buffers]
    arrays, numbers = dict(zip(names, arguments, strict=False)), executable.extent_params(params)
    if not isinstance(executable, ProgramExecutable):
        found = pipeline_warnings(module, module.pipelines[executable.name], arrays, numbers, told)
    elif options.grid is not None:
        program, grid = executable.program, (*options.grid, 1, 1)[:3]
        at = LaunchedAt(program.loc, option="--grid", is_whole=True)
        found = launch_warnings(program, grid, arrays, numbers, at, told)
    else:
        return
    errors.print_diagnostics([*found], options.color)


def _call(
    executable: AnyExecutable,
    arguments: list[Any],
    options: RunOptions,
    clock: Stopwatch | None = None,
    times: Times | None = None,
) -> tuple[list[np.ndarray], HostReads]:
    """The outputs, and what the host read before the end.

    With a clock it is the run that the user sees: host reads and what programs print are shown as they come.  `times`: gets
    those of launches.
    """
    from ..driver.program import ProgramExecutable
    from ..driver.progress import ProgressBar
    from ..execution.debug_prints import on_debug_print
    from ..execution.plans.watch import Watch
    from .run_report import HostReads

    signature = executable.signature
    files = frozenset(name for name, _ in options.outputs)
    compares = bool(options.check_against or options.check)
    reads = HostReads({b.name: b for b in signature.buffers}, files, compares=compares)

    def print_line(line: str) -> None:
        if clock is not None:
            bar.end()
            errors.write_stderr(f"{printable(line)}\n")

    bar = ProgressBar(f"@{executable.name} on {executable.target}")
    with bar, on_debug_print(print_line):
        watch = None if times is None else Watch(None, times)
        if not isinstance(executable, ProgramExecutable):
            watch = Watch(reads.see, times)
        if clock is not None:

            def show(line: str) -> None:
                bar.end()  # the lines show that time passes, and would be drawn over
                _write_line(line, options)

            reads.show = show
        outputs = executable.run(arguments, options.grid, watch=watch, params=dict(options.param))
    return outputs, reads


def _run_unoptimized(
    module: Module,
    executable: AnyExecutable,
    arguments: list[Any],
    target: str | Dispatcher,
    options: RunOptions,
) -> list[np.ndarray]:
    """Results of a target without -O: the outputs, and the reads of the host before the end."""
    from . import run_buffers

    plain = run_buffers.compile_entry(module, options.entry, target, options.spec)
    words = plain.param_words(dict(options.param))
    outputs, reads = _call(plain, run_buffers.rebind(plain, executable, arguments, words), options)
    return [*outputs, *reads.arrays]


def _check(
    module: Module,
    executable: AnyExecutable,
    arguments: list[Any],
    buffers: list[Buffer],
    arrays: list[np.ndarray],
    omission: str,
    options: RunOptions,
) -> None:
    """--check: compares `arrays`, the contents of `buffers` after the run; prints what was checked on stderr.

    `omission`: what is not among them, as text.

    Raises ProgramError for a fault that the interpreter finds, ToolError for outputs that differ.
    """
    from . import run_report
    from .spot_check import APPROXIMATE, SpotCheck

    checker = SpotCheck(executable.dispatcher, options.tolerance)
    expected = _run_unoptimized(module, executable, arguments, checker, options)
    if checker.is_ordered:
        tolerance = options.tolerance or (APPROXIMATE["f32"] if checker.is_approximate else 0.0)
        sides = ("as run", "launch by launch as written, with other bytes where nobody wrote")
        run_report.compare(buffers, arrays, expected, tolerance, sides)
    checked_launches = ", ".join(checker.checked.values())
    agree = f", and the outputs agree{omission}" if checker.is_ordered else ""
    errors.write_stderr(f"check: {checked_launches}: no fault{agree}\n")


def _write_outputs(
    signature: Signature,
    outputs: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    options: RunOptions,
) -> None:
    """Write each output to its file, or print a summary of it if it has none.

    `inputs`: the arrays of the files that were read, whose shapes outputs may follow.
    """
    from . import run_buffers, run_report
    from .output_shapes import output_shape

    files = dict(options.outputs)
    for name, path in files.items():
        run_buffers.write(outputs[name].reshape(output_shape(signature, name, outputs[name], inputs)), path)
    buffers = {b.name: b for b in signature.outputs}
    for name, array in outputs.items():
        if name not in files:
            _write_line(run_report.summary(buffers[name], array), options)


def _write_line(line: str, options: RunOptions) -> None:
    """Print a summary on stdout; on stderr if an output goes to stdout as it is."""
    is_raw = any(path == "-" for _, path in options.outputs)
    (errors.write_stderr if is_raw else errors.write_stdout)(f"{line}\n")


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-run script."""
    return errors.run_tool(command, args)
