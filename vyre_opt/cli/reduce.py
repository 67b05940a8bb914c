"""vyre-reduce: makes a file small that a test finds interesting."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from . import errors
from .command import GroupedCommand, common_options, flag, max_input_option, option
from .completers import complete_files, complete_vyre_files
from .errors import ToolError
from .text_files import STDIN_NAME, is_replaced, read_text, write_text

if TYPE_CHECKING:
    from ..reduce import Oracle

__all__ = ["command", "main"]

EPILOG = """\
Examples:
  vyre-reduce bug.vyre --test ./is_interesting.sh -o small.vyre
  vyre-reduce bug.vyre --test grep --test-arg=-q --test-arg=subgroup -j 4
  vyre-reduce bug.vyre --test "sh -c 'vyre-opt -O {} 2>&1 | grep -q IndexError'" --in-place

The test is run with the path of a candidate: in place of {}, else as the last argument.
Exit code 0 of the test means interesting: what is sought is still there.
Exit code: 0 done, 1 an error, or FILE is not interesting, 2 a wrong command line.
Completion: eval "$(vyre-reduce --completion bash)"
"""
TEST, OUTPUT, LIMITS, PASSES = "Test", "Output", "Limits", "Delta passes"
MOST_JOBS = 256
STDIN_FILE = "stdin.vyre"
"""Name of candidates whose original came from stdin."""


@click.command("vyre-reduce", cls=GroupedCommand, epilog=EPILOG, context_settings={"show_default": True})
@click.argument("file", type=click.Path(allow_dash=True), required=False, shell_complete=complete_vyre_files)
@option(
    "--test",
    "The program that tells whether a candidate is interesting, or a command of several words; no shell runs it.",
    TEST,
    metavar="CMD",
    shell_complete=complete_files,
)
@option("--test-arg", "One more argument of the test. May be repeated.", TEST, metavar="ARG", multiple=True)
@option(
    "--test-timeout",
    "A candidate whose test takes longer is not interesting.",
    TEST,
    metavar="SECONDS",
    type=click.FloatRange(min=0, min_open=True),
    default=60.0,
)
@option(
    "-j --jobs", "Tests that run at a time.", TEST, metavar="N", type=click.IntRange(1, MOST_JOBS), default=1
)
@option(
    "-o --output", "Write here, after each step.", OUTPUT, metavar="FILE", type=click.Path(allow_dash=True)
)
@flag("--in-place", "Replace FILE, after each step.", OUTPUT)
@flag("-v --verbose", "Print a line for each step.", OUTPUT)
@option(
    "--max-tests", "Stop after so many tests.", LIMITS, metavar="N", type=click.IntRange(min=1), default=None
)
@option("--delta-passes", "Run these only, in this order.", PASSES, metavar="NAME,...")
@option("--skip-delta-passes", "Run all but these.", PASSES, metavar="NAME,...")
@flag("--print-delta-passes", "List the delta passes, and exit.", PASSES)
@max_input_option()
@common_options("vyre-reduce")
@click.pass_context
def command(
    ctx: click.Context,
    /,
    file: str | None,
    test: str | None,
    test_arg: tuple[str, ...],
    test_timeout: float,
    jobs: int,
    output: str | None,
    in_place: bool,
    verbose: bool,
    max_tests: int | None,
    delta_passes: str | None,
    skip_delta_passes: str | None,
    print_delta_passes: bool,
) -> int:
    """Make a .vyre module small for which a test is interesting: every step leaves a module that verifies."""
    gc.enable()  # which run_tool has disabled: a copy of a module is a circle of ops and values
    passes = _chosen_passes(delta_passes, skip_delta_passes)
    if print_delta_passes:
        errors.write_stdout(_pass_list())
        return errors.DONE
    if file is None or test is None:
        raise click.UsageError(
            f"give {'a FILE' if file is None else 'a --test, such as --test ./test.sh, which exits with 0 for a text that is interesting'}",
            ctx,
        )
    if in_place and (output is not None or file == "-"):
        raise click.UsageError("--in-place is for a FILE, without --output", ctx)
    from ..reduce import Oracle
    from .interestingness import CommandTest, argv_of

    try:
        argv = argv_of(test, test_arg)
    except ValueError as error:
        raise click.UsageError(f"--test: {error}", ctx) from None
    text, name = read_text(file)
    target = file if in_place else output
    command_test = CommandTest(
        argv, STDIN_FILE if name == STDIN_NAME else os.path.basename(file), jobs, test_timeout
    )
    try:
        reason = command_test.refusal(text)
        if reason:
            raise ToolError(f"{name} is not interesting as it is: {reason}")
        steps = _Steps(
            target if target is not None and target != "-" and is_replaced(target) else None, verbose
        )
        oracle = Oracle(command_test, max_tests, steps.add)
        return _reduce(text, oracle, passes, target, in_place)
    finally:
        command_test.close()


def _reduce(text: str, oracle: Oracle, passes: list[str], target: str | None, in_place: bool) -> int:
    """Reduce, and write the smallest text that was reached, also where an interrupt ends it."""
    from ..reduce import reduce_text

    started = time.monotonic()
    try:
        reduce_text(text, oracle, passes)
    finally:  # the alarms go on: a pipe that nobody reads would take the text never
        end = "" if oracle.max_tests is None or oracle.tests < oracle.max_tests else ", the most that may be"
        if not (in_place and oracle.best is None):
            write_text(oracle.best or text, target)
        errors.write_stderr(
            f"{size(text)} to {size(oracle.best or text)}: {oracle.tests} tests{end}, "
            f"{time.monotonic() - started:.1f} s\n"
        )
    return errors.DONE


class _Steps:
    """Writes to a file and reports each text on the way that is interesting."""

    def __init__(self, path: str | None, verbose: bool) -> None:
        self.path, self.verbose = path, verbose

    def add(self, text: str) -> None:
        if self.path is not None:
            write_text(text, self.path)
        if self.verbose:
            errors.write_stderr(f"{size(text)}\n")


def size(text: str) -> str:
    """Number of ops of a text, or of lines if it is no module, and of bytes."""
    from ..ir.rewrite import bodies
    from ..reduce import module_of

    module = module_of(text)
    if module is None:
        parts = f"{text.count(chr(10))} lines"
    else:
        parts = f"{sum(1 for body in bodies(module) for _ in body.walk())} ops"
    return f"{parts} ({len(text.encode('utf-8', 'surrogateescape'))} bytes)"


def _chosen_passes(only: str | None, skipped: str | None) -> list[str]:
    """The delta passes of two options.  Raises UsageError."""
    from ..reduce import DELTA_PASSES

    def names(option: str, text: str) -> list[str]:
        chosen = [word.strip() for word in text.split(",")]
        for word in chosen:
            if word not in DELTA_PASSES:
                from ..ir.suggestions import suggest

                hint = suggest(word, [*DELTA_PASSES]) or f"there are {', '.join(DELTA_PASSES)}"
                raise click.UsageError(f"{option}: there is no delta pass {word!r}; {hint}")
        return chosen

    chosen = [*DELTA_PASSES] if only is None else names("--delta-passes", only)
    left_out = [] if skipped is None else names("--skip-delta-passes", skipped)
    return [name for name in chosen if name not in left_out]


def _pass_list() -> str:
    from ..reduce import DELTA_PASSES

    lines = []
    for name, delta_pass in DELTA_PASSES.items():
        first = (delta_pass.__doc__ or "").strip().partition("\n")[0]
        lines.append(f"{name:16}{first}\n")
    return "".join(lines)


def main(args: Sequence[str] | None = None) -> int:
    """The entry point of the vyre-reduce script."""
    return errors.run_tool(command, args)
