"""vyre-opt: reads a module, verifies it, runs passes, prints it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from ..lowering.nvptx.targets import GPUS, parse_version
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
from .completers import complete_passes, complete_vyre_files
from .emit import EMIT_FORMATS, check_emit_format, join
from .errors import ToolError
from .output_channel import is_limited_child
from .pack_shapes import check_shapes
from .text_files import read_text, split, write_text

if TYPE_CHECKING:
    from ..passes.manager import PassManager
    from .compile_options import CompileOptions
    from .session import InternalError, Session

__all__ = ["command", "main"]

EXAMPLES = """\
Examples:
  vyre-opt softmax.vyre                          verify and print
  vyre-opt --pass=cse --pass=dce softmax.vyre    run two passes
  vyre-opt --pass='unroll{factor=4},cse' softmax.vyre
  vyre-opt -O pipeline.vyre --remarks            run the default passes, and say what they decided
  vyre-opt -O pipeline.vyre --emit=html -o report.html
  vyre-opt a.vyre --pass=cse | vyre-opt --pass=dce -o b.vyre
  vyre-opt --pass=decode_scan_fuse --remarks hex_count.vyre > /dev/null
  vyre-opt --pass=cse --print-locations a.vyre | vyre-opt --pass=licm --debug-only=licm -
  vyre-opt -O a.vyre --opt-bisect-limit=12 -o b.vyre
  vyre-opt --emit=ptx --target=sm_90 softmax.vyre -o softmax.ptx
  vyre-opt --emit=mlir softmax.vyre | mlir-opt --verify-each
  vyre-opt --upgrade softmax.vyre -o softmax.vyre

Quote a pipeline with options: shells give braces a meaning.
Exit code: 0 done, 1 an error in the input, 2 a wrong command line.
Completion: eval "$(vyre-opt --completion bash)"
"""


PASSES, OUTPUT, CHECKS, DEBUG = "Passes", "Output", "Checks", "Looking inside"
PATH = click.Path(allow_dash=True)
NAMES: dict[str, Any] = {"multiple": True, "shell_complete": complete_passes}
"""Attributes of an option that takes names of passes."""

TARGETS = ("ref", "cpu", *GPUS)


def check_target(name: str) -> str:
    """`name`, if a target has it.  Raises ValueError that lists the targets."""
    if name not in TARGETS and not _are_of_packs(name):
        from ..syntax.synonyms import advice

        hint = advice(name, "target", TARGETS)
        raise ValueError(
            f"unknown target {name!r}; targets are {', '.join(TARGETS)}" + (f"; {hint}" if hint else "")
        )
    return name


def _are_of_packs(names: str) -> bool:
    """Whether names of targets are those that a pack may be for."""
    from ..execution.dispatcher import BadInputs
    from ..packing.packer import targets_of

    try:
        targets_of(names)
    except BadInputs:
        return False
    return True


@click.command(
    "vyre-opt",
    cls=GroupedCommand,
    bare={"--remarks": "*", "--debug-only": "*", "--print-op-stats": "table"},
    epilog=EXAMPLES,
    context_settings={"show_default": True},
)
@click.argument("file", required=False, type=PATH, shell_complete=complete_vyre_files)
@option(
    "--pass --pass-pipeline passes",
    "Run a pass, or several. May be repeated; passes run in the order given.",
    PASSES,
    metavar="PASS{OPT=V},...",
    **NAMES,
)
@optimize_options(
    "Run the default passes, after those of --pass: join launches, keep hand-offs on chip, clean up.", PASSES
)
@flag("--list-passes", "List the passes and their options, and exit.", PASSES)
@option(
    "--load-pass-plugin",
    "Import a Python module or file that registers passes.",
    PASSES,
    multiple=True,
    metavar="MODULE",
)
@flag("--dump-pass-pipeline", "Show the pipeline with all it requires, as text that --pass reads.", PASSES)
@option("--spec", "Set a specialization constant.", PASSES, metavar="NAME=VALUE", **PAIRS)
@option(
    "--target",
    "What to compile for: ref, cpu, or a GPU such as sm_90; of --emit=pack several: cpu,sm_80,sm_90.",
    PASSES,
    metavar="NAME",
    callback=checked(check_target),
    shell_complete=lambda ctx, param, incomplete: [name for name in TARGETS if name.startswith(incomplete)],
)
@option(
    "--shapes",
    "With --emit=pack: have code of its own for a call of a function on arrays of these shapes. May be repeated.",
    OUTPUT,
    metavar="FUNCTION:NAME=NxM,...",
    multiple=True,
    callback=checked(check_shapes),
)
@option(
    "--ptx-version",
    "The PTX version to write, such as 8.6; the lowest that the GPU takes if not given.",
    OUTPUT,
    metavar="V",
    callback=checked(parse_version),
)
@option(
    "--bounds",
    "On a GPU, what an access does that is not proven in bounds: anything, the nearest element, a fault.",
    OUTPUT,
    type=click.Choice(("none", "clamp", "trap")),
    default="none",
)
@flag(
    "--debug-info",
    "With --emit=ptx, asm or llvm: put line tables in, by which debuggers and profilers show lines of the source.",
    OUTPUT,
)
@option("-o --output", "Write here; a failed run leaves the old file.", OUTPUT, metavar="FILE", type=PATH)
@option("--emit", "The form of the output.", OUTPUT, type=Choice(EMIT_FORMATS, "emit"), default="vyre")
@flag(
    "--measure",
    "With --emit=html: run each pipeline on this CPU before and after the passes, and show times.",
    OUTPUT,
)
@flag(
    "--bare-pointers",
    "With --emit=mlir: kernels take pointers and extents instead of memrefs.",
    OUTPUT,
)
@flag("--print-generic", "Print every op in the generic form.", OUTPUT)
@flag(
    "--print-locations",
    'Print where each op was written, as loc("file":line:column), which survives a pipe.',
    OUTPUT,
)
@flag(
    "--upgrade",
    "Write a text of `vyre 1` as `vyre 2`: constants in place, all else as it is written, comments too.",
    OUTPUT,
)
@color_option(OUTPUT)
@option("--verify-each/--no-verify-each", "Verify after each pass.", CHECKS, default=True)
@flag(
    "--certify",
    "Prove each decision of the passes and the lowering by z3, which trusts none of them.",
    CHECKS,
)
@option(
    "--parser",
    "What reads the text: the tables that Lark makes of the grammar, or Lark itself, more slowly.",
    CHECKS,
    type=Choice(("tables", "lark"), "parser"),
    default="tables",
)
@flag("--verify-diagnostics", "Check messages against `// expected-error @+1 {{...}}` comments.", CHECKS)
@flag("--verify-roundtrip", "Check that the printed text reads back as the same bytes.", CHECKS)
@flag("--split-input-file", "Treat the parts between lines `// -----` as files of their own.", CHECKS)
@option("--print-ir-before", "Print the IR before a pass.", DEBUG, metavar="PASS", **NAMES)
@flag("--print-ir-before-all", "Print the IR before every pass.", DEBUG)
@option("--print-ir-after", "Print the IR after a pass.", DEBUG, metavar="PASS", **NAMES)
@flag("--print-ir-after-all", "Print the IR after every pass.", DEBUG)
@flag("--print-ir-after-change", "Print what each pass changed, as a diff.", DEBUG)
@flag("--print-ir-after-failure", "Print the IR after a pass that failed.", DEBUG)
@option(
    "--print-ir-tree-dir",
    "Write what --print-ir-* print to files in this folder, numbered by pass; after every pass if none is given.",
    DEBUG,
    metavar="DIR",
    type=click.Path(),
)
@option(
    "--print-op-stats",
    "Show how many ops of each name every program holds after the passes.",
    DEBUG,
    type=click.Choice(("table", "json")),
    metavar="[=table|json]",
)
@option(
    "--debug-only",
    "Show what passes try, match and refuse, of some passes or of all.",
    DEBUG,
    metavar="[=PASS,...]",
    **NAMES,
)
@option(
    "--opt-bisect-limit",
    "Run only the first N executions of passes on programs, and number all; -1 runs all.",
    DEBUG,
    metavar="N",
    type=click.IntRange(min=-1),
)
@option("--remarks", "Show what passes did and why not, of all or of one.", DEBUG, metavar="[=PASS]", **NAMES)
@option(
    "--remarks-file",
    "Write all remarks to this file, as YAML that LLVM's opt-viewer and llvm-remarkutil read.",
    DEBUG,
    metavar="FILE",
    type=click.Path(),
)
@flag("--timing", "Show the time that each step took.", DEBUG)
@flag("--stats", "Show what passes counted.", DEBUG)
@option(
    "--crash-reproducer",
    "If a pass crashes, write what brings it back here, not to vyre-opt-crash-*.vyre in this folder.",
    DEBUG,
    metavar="FILE",
    type=click.Path(),
)
@flag("--no-crash-reproducer", "If a pass crashes, write nothing.", DEBUG)
@flag("--run-reproducer", "Run with the options in the first line of the input.", DEBUG)
@limits_option()
@max_input_option()
@common_options("vyre-opt")
@click.pass_context
def command(ctx: click.Context, /, file: str | None, **options: Any) -> int:
    """Read a .vyre module, or kernels in MLIR, from FILE or stdin, verify, run passes, print."""
    plugins, limits = options["load_pass_plugin"], options["limits"]
    if limits and plugins and not limits.plugins:
        raise ToolError(str(limits.error("plugins", f"--load-pass-plugin={plugins[0]}")))
    files = [options[name] for name in ("output", "crash_reproducer", "remarks_file")]
    _check_places(ctx, file, options)
    code = run_under_limits(ctx, "opt", options, files, options["print_ir_tree_dir"])
    if code is not None:
        return code
    del options["load_pass_plugin"]
    for name in plugins:
        from .pass_catalog import load_plugin

        load_plugin(name)
    if options.pop("list_passes"):
        from .pass_catalog import pass_list

        errors.write_stdout(pass_list())
        return errors.DONE
    if file is None and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe a module into stdin", ctx)
    output, is_reproducer = options.pop("output"), options.pop("run_reproducer")
    default = default_passes(options)
    options["named_passes"] = options["passes"]
    options["passes"] += (default,) if default else ()
    _check_output(ctx, options)
    if options["emit"] == "pack" and output in (None, "-"):
        raise click.UsageError("--emit=pack writes a file: say which with -o FILE", ctx)
    is_upgrade = options.pop("upgrade")
    if is_upgrade:
        _check_upgrade(ctx, {**options, "run_reproducer": is_reproducer})
    text, name = read_text("-" if file is None else file, keeps_line_ends=is_upgrade)
    if is_upgrade:
        write_text(_upgraded(text, name, options["split_input_file"]), output)
        return errors.DONE
    if is_reproducer:
        _read_reproducer_options(text, options)
        _check_output(ctx, options)
    shapes = options.pop("shapes")
    if options["emit"] == "pack":
        from .emit_pack import write_pack

        return write_pack(text, name, output, options["target"], options["passes"], options["spec"], shapes)
    return _compile(options, text, name, output, plugins)


def _check_output(ctx: click.Context, options: dict[str, Any]) -> None:
    """Raises UsageError for options of the output that do not fit each other."""
    try:
        names = ("emit", "target", "ptx_version", "split_input_file", "bounds", "bare_pointers", "debug_info")
        check_emit_format(*(options[name] for name in names))
    except ValueError as error:
        raise click.UsageError(str(error), ctx) from None
    if options["emit"] != "pack" and options["target"] not in (None, *TARGETS):
        raise click.UsageError(
            f"--target={options['target']} is for --emit=pack; here it is one of {', '.join(TARGETS)}", ctx
        )
    if options["shapes"] and options["emit"] != "pack":
        raise lacks("--shapes", "--emit=pack")
    if options["measure"] and options["emit"] != "html":
        raise lacks("--measure", "--emit=html")


def _check_places(ctx: click.Context, file: str | None, options: dict[str, Any]) -> None:
    """Raises UsageError where an option names no file, or one that another option or the input has."""
    uses = {} if file is None else {file: "the input"}
    for key in ("output", "crash_reproducer", "remarks_file", "print_ir_tree_dir"):
        path, name = options[key], f"--{key.replace('_', '-')}"
        if path is None or path == "-" or path.startswith("/dev/"):
            continue
        if not path:
            raise click.UsageError(f"{name} names no file", ctx)
        if path in uses and key != "output":  # which may take the place of the input
            raise click.UsageError(f"{name}: {path} is {uses[path]}, too", ctx)
        uses[path] = name


_BESIDE_UPGRADE = ("color", "split_input_file", "verify_each")


def _check_upgrade(ctx: click.Context, options: dict[str, Any]) -> None:
    """Raises UsageError for what has no meaning beside --upgrade, which changes a text and no module."""
    defaults = {param.name: param.get_default(ctx) for param in command.params}
    for name, value in options.items():
        if value and value != defaults.get(name) and name not in _BESIDE_UPGRADE:
            option = "-O or --pass" if name == "passes" else f"--{name.replace('_', '-')}"
            raise click.UsageError(f"--upgrade changes the text alone; leave out {option}", ctx)


def _upgraded(text: str, name: str, is_split: bool) -> str:
    """The text in version 2.  Raises DiagnosticError."""
    from ..syntax.upgrade import upgrade

    parts, at = [], 0
    for source in split(text, name, is_split):
        start = text.index(source.text, at)
        parts += [text[at:start], upgrade(source)]
        at = start + len(source.text)
    return "".join([*parts, text[at:]])


def _read_reproducer_options(text: str, options: dict[str, Any]) -> None:
    """Replace the options that a reproducer may set, which are those that name no file."""
    from . import reproducer

    args = reproducer.read(text)
    try:
        _, _, order = command.make_parser(click.Context(command)).parse_args(list(args))
        for param in order:
            if param.is_eager:  # such as --help, which would be done at once
                raise click.UsageError(f"{param.opts[0]} is no option of a reproducer")
        with command.make_context("vyre-opt", args) as ctx:
            for name in ("passes", "spec", "verify_each", "target"):
                options[name] = ctx.params[name]
            for name in ("emit", "opt_bisect_limit"):
                if ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE:
                    options[name] = ctx.params[name]
    except click.UsageError as error:  # of the text, and not of the command line
        raise ToolError(f"--run-reproducer: the options of the file: {error.format_message()}") from None
    # the reproducer of a reproducer is the same
    options["no_crash_reproducer"] = True


def _compile(values: dict[str, Any], text: str, name: str, output: str | None, plugins: Sequence[str]) -> int:
    from .compile_options import CompileOptions
    from .session import InternalError, Session

    options = CompileOptions(**values)
    manager = _manager(options)
    session = Session(options, manager)
    sources = split(text, name, options.split_input_file)
    try:
        with _compiling():
            texts = [session.compile(source) for source in sources]
    except InternalError as error:
        return _report_internal_error(error, options, manager, plugins)
    joined = join([part for part in texts if part is not None], options.emit, options.split_input_file)
    if not session.failed or output is None:
        write_text(joined, output)
    if not session.failed and options.remarks_file is not None:
        from .remarks_file import yaml_text

        write_text(yaml_text(session.remarks), options.remarks_file)
    session.clock.lap("write")
    _print_reports(session)
    return errors.FAILED if session.failed else errors.DONE


def _compiling() -> AbstractContextManager[None]:
    """Counts the time of the body to the limit `compile`, if there are limits."""
    if not is_limited_child():
        return nullcontext()
    from ..execution.limits import compiling

    return compiling()


def _manager(options: CompileOptions) -> PassManager | None:
    """The pipeline of passes; None if no option needs one, so that the pass manager is not imported."""
    named = (*options.print_ir_before, *options.print_ir_after, *options.remarks, *options.debug_only)
    if not (options.passes or named or options.dump_pass_pipeline):
        return None
    from .pass_manager import make_manager

    return make_manager(options)


def _report_internal_error(
    error: InternalError, options: CompileOptions, manager: PassManager | None, plugins: Sequence[str]
) -> int:
    """Write a reproducer, and print the error.  Raises a bug that is not a PassFailure."""
    from ..passes.manager import PassFailure
    from . import reproducer

    try:
        path = reproducer.write(options, manager, error)
    except Exception as failed:  # the error itself matters more
        errors.write_stderr(f"note: no reproducer: {failed}\n")
    else:
        if path is not None:
            errors.write_stderr(f"note: see this again with {reproducer.run_again(path, plugins)}\n")
    if not isinstance(error.bug, PassFailure):
        raise error.bug
    errors.print_error(f"{error.bug}; this is a bug of the pass")
    errors.print_diagnostics(error.bug.diagnostics, options.color)
    return errors.FAILED


def _print_reports(session: Session) -> None:
    if session.options.stats:
        from .reports import statistics_table

        errors.write_stderr(statistics_table(session.statistics))
    if session.options.timing:
        errors.write_stderr(session.clock.table())


def main(args: Sequence[str] | None = None, name: str = "vyre-opt") -> int:
    """The entry point of the vyre-opt script.  `name`: what the help calls the command."""
    return errors.run_tool(command, args, name)
