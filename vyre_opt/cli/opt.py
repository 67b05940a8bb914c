"""vyre-opt: reads a module, verifies it, runs passes, prints it."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from .. import __version__
from . import errors
from .command import (
    SHELLS,
    GroupedCommand,
    checked,
    complete_passes,
    completion_script,
    default_passes,
    flag,
    fusion_limits,
    option,
)
from .emit import FORMS, check_form, join
from .settings import Settings
from .specs import read_assignment
from .targets import check_ptx_version, check_target
from .text_files import read_text, write_text

if TYPE_CHECKING:
    from ..passes.manager import PassManager
    from .session import Crash, Session

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
  vyre-opt --emit=ptx --target=sm_90 softmax.vyre -o softmax.ptx

Quote a pipeline with options: shells give braces a meaning.
Exit code: 0 done, 1 an error in the input, 2 a wrong command line.
Completion: eval "$(vyre-opt --completion bash)"
"""


PASSES, OUTPUT, CHECKS, DEBUG, OTHER = "Passes", "Output", "Checks", "Looking inside", "Other"


@click.command("vyre-opt", cls=GroupedCommand, bare={"--remarks": "*"}, epilog=EXAMPLES)
@click.argument("file", required=False, type=click.Path(allow_dash=True))
@option(
    "--pass",
    "--pass-pipeline",
    "passes",
    multiple=True,
    metavar="PASS{OPT=V},...",
    shell_complete=complete_passes,
    help="Run a pass, or several. May be repeated; passes run in the order given.",
    group=PASSES,
)
@option(
    "-O",
    "--optimize",
    is_flag=True,
    help="Run the default passes, after those of --pass: join launches, keep hand-offs on chip, clean up.",
    group=PASSES,
)
@fusion_limits(PASSES)
@flag("--list-passes", "List the passes and their options, and exit.", PASSES)
@option(
    "--load-pass-plugin",
    multiple=True,
    metavar="MODULE",
    help="Import a Python module or file that registers passes.",
    group=PASSES,
)
@flag("--dump-pass-pipeline", "Show the pipeline with all it requires, as text that --pass reads.", PASSES)
@option(
    "--spec",
    multiple=True,
    metavar="NAME=VALUE",
    callback=checked(read_assignment),
    help="Set a specialization constant.",
    group=PASSES,
)
@option(
    "--target",
    metavar="NAME",
    callback=checked(check_target),
    help="What to compile for: ref, cpu, or a GPU such as sm_90.",
    group=PASSES,
)
@option(
    "--ptx-version",
    metavar="V",
    callback=checked(check_ptx_version),
    help="The PTX version to write, such as 8.6; the lowest that the GPU takes if not given.",
    group=OUTPUT,
)
@option(
    "--bounds",
    type=click.Choice(("none", "clamp", "trap")),
    default="none",
    show_default=True,
    help="On a GPU, what an access does that is not proven in bounds: anything, the nearest element, a fault.",
    group=OUTPUT,
)
@option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(allow_dash=True),
    help="Write here; a failed run leaves the old file.",
    group=OUTPUT,
)
@option(
    "--emit",
    type=click.Choice(FORMS),
    default="vyre",
    show_default=True,
    help="The form of the output.",
    group=OUTPUT,
)
@flag("--print-generic", "Print every op in the generic form.", OUTPUT)
@option(
    "--color",
    type=click.Choice(("auto", "always", "never")),
    default="auto",
    show_default=True,
    callback=lambda ctx, param, value: errors.use_color(value),
    help="Colour messages; auto minds NO_COLOR.",
    group=OUTPUT,
)
@option(
    "--verify-each/--no-verify-each",
    default=True,
    show_default=True,
    help="Verify after each pass.",
    group=CHECKS,
)
@flag("--verify-diagnostics", "Check messages against `// expected-error @+1 {{...}}` comments.", CHECKS)
@flag("--verify-roundtrip", "Check that the printed text reads back as the same bytes.", CHECKS)
@flag("--split-input-file", "Treat the parts between lines `// -----` as files of their own.", CHECKS)
@option(
    "--print-ir-before",
    multiple=True,
    metavar="PASS",
    shell_complete=complete_passes,
    help="Print the IR before a pass.",
    group=DEBUG,
)
@option(
    "--print-ir-after",
    multiple=True,
    metavar="PASS",
    shell_complete=complete_passes,
    help="Print the IR after a pass.",
    group=DEBUG,
)
@flag("--print-ir-after-all", "Print the IR after every pass.", DEBUG)
@flag("--print-ir-after-change", "Print what each pass changed, as a diff.", DEBUG)
@option(
    "--remarks",
    multiple=True,
    metavar="[=PASS]",
    shell_complete=complete_passes,
    help="Show what passes did and why not, of all or of one.",
    group=DEBUG,
)
@flag("--timing", "Show the time that each step took.", DEBUG)
@flag("--stats", "Show what passes counted.", DEBUG)
@option(
    "--crash-reproducer",
    metavar="FILE",
    type=click.Path(),
    help="If a pass crashes, write the input and the pipeline here.",
    group=DEBUG,
)
@flag("--run-reproducer", "Run with the options in the first line of the input.", DEBUG)
@option(
    "--completion",
    type=click.Choice(SHELLS),
    help="Print the completion script of a shell, and exit.",
    group=OTHER,
)
@click.version_option(__version__, prog_name="vyre-opt", message="%(prog)s %(version)s")
@click.pass_context
def command(ctx: click.Context, file: str | None, **given: Any) -> int:
    """Read a .vyre module from FILE or stdin, verify it, run passes, print it."""
    for name in given.pop("load_pass_plugin"):
        from .plugins import load_plugin

        load_plugin(name)
    shell, lists = given.pop("completion"), given.pop("list_passes")
    if shell:
        errors.write_stdout(completion_script(command, shell))
        return 0
    if lists:
        from .pass_list import pass_list

        errors.write_stdout(pass_list())
        return 0
    if file is None and sys.stdin is not None and sys.stdin.isatty():
        raise click.UsageError("give a FILE, or pipe a module into stdin", ctx)
    output, reproduces = given.pop("output"), given.pop("run_reproducer")
    default = default_passes(given)
    given["passes"] += (default,) if default else ()
    try:
        check_form(given["emit"], given["target"], given["ptx_version"], given["split_input_file"])
    except ValueError as wrong:
        raise click.UsageError(str(wrong), ctx) from None
    text, name = read_text(file or "-")
    if reproduces:
        _take_options_of(text, given)
    return _compile(Settings(**given), text, name, output)


def _take_options_of(text: str, given: dict[str, Any]) -> None:
    """Put the options of a reproducer in place of those given; only such as touch no file."""
    from . import reproducer

    with command.make_context("vyre-opt", reproducer.read(text)) as ctx:
        for name in ("passes", "spec", "verify_each", "target"):
            given[name] = ctx.params[name]


def _compile(settings: Settings, text: str, name: str, output: str | None) -> int:
    from .session import Crash, Session
    from .split import split

    manager = _manager(settings)
    session = Session(settings, manager)
    sources = split(text, name, settings.split_input_file)
    try:
        emitted = [session.compile(source) for source in sources]
    except Crash as crash:
        return _crashed(crash, settings, manager)
    joined = join([part for part in emitted if part is not None], settings.emit, settings.split_input_file)
    if not session.failed or output is None:
        write_text(joined, output)
    session.clock.lap("write")
    _reports(session)
    return int(session.failed)


def _manager(settings: Settings) -> PassManager | None:
    """The pipeline of the settings; None if it is empty, which spares an import."""
    named = (*settings.print_ir_before, *settings.print_ir_after, *settings.remarks)
    if not (settings.passes or named or settings.dump_pass_pipeline):
        return None
    from ..passes.manager import PassManager
    from ..passes.pipeline_text import format_pipeline
    from ..passes.registry import PassError, find_pass
    from .session import ALL_REMARKS

    try:
        manager = PassManager(settings.passes, verify_each=settings.verify_each, target=settings.target or "")
        for option in ("print_ir_before", "print_ir_after", "remarks"):
            names = getattr(settings, option)
            setattr(settings, option, tuple(n if n == ALL_REMARKS else find_pass(n).name for n in names))
    except PassError as wrong:
        raise click.UsageError(str(wrong)) from None
    _warn_of_idle(settings, manager)
    if settings.dump_pass_pipeline:
        errors.write_stderr(format_pipeline(manager.passes) + "\n")
    return manager


def _warn_of_idle(settings: Settings, manager: PassManager) -> None:
    """Say which passes are to be watched but do not run."""
    running = {p.name for p in manager.passes}
    for name in sorted({*settings.print_ir_before, *settings.print_ir_after} - running):
        errors.write_stderr(f"warning: pass {name} does not run here, so its IR is not printed\n")


def _crashed(crash: Crash, settings: Settings, manager: PassManager | None) -> int:
    """Keep a reproducer if one is wanted, and report.  Raises what is not the failure of a pass."""
    from ..passes.manager import PassFailure

    kept = settings.crash_reproducer
    if kept:
        from ..passes.pipeline_text import format_pipeline
        from . import reproducer

        pipeline = format_pipeline(manager.passes) if manager is not None else ""
        write_text(reproducer.text(settings, pipeline, crash.source.text), kept)
        errors.write_stderr(f"note: see this again with vyre-opt --run-reproducer {kept}\n")
    if not isinstance(crash.bug, PassFailure):
        raise crash.bug
    errors.complain(f"{crash.bug}; this is a bug of the pass")
    errors.show(crash.bug.diagnostics, settings.color)
    return 1


def _reports(session: Session) -> None:
    if session.settings.stats:
        from .reports import statistics_table

        errors.write_stderr(statistics_table(session.statistics))
    if session.settings.timing:
        errors.write_stderr(session.clock.table())


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-opt script."""
    return errors.run(command, args)
