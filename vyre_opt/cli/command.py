"""Additions of the tools to click: options in groups, options whose value may be left out, checks."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, TypeVar

import click

from .. import __version__
from . import errors, output_channel
from .text_files import MAX_INPUT
from .time_limit import set_time_limit

__all__ = [
    "PAIRS",
    "Choice",
    "CommandGroup",
    "GroupedCommand",
    "GroupedOption",
    "checked",
    "color_option",
    "common_options",
    "default_passes",
    "lacks",
    "flag",
    "limits_option",
    "max_input_option",
    "optimize_options",
    "option",
    "run_under_limits",
]

ARGUMENTS = "vyre_opt.arguments"
"""The key in a context of what was parsed, with the values of bare options."""
_LEVEL = re.compile("-O([0-9sgz]|fast)")
"""Options by which compilers of C are asked for their passes."""
SHELLS = ("bash", "zsh", "fish")

if TYPE_CHECKING:
    _Words = click.Choice[str]
else:
    _Words = click.Choice  # before click 8.2 it took no type

FC = TypeVar("FC", bound=Callable[..., Any] | click.Command)
"""Object that click decorates: a function, or the command that was made of one."""


class Choice(_Words):
    """One of some words.  `context`: where `syntax/synonyms.py` lists what other tools call them."""

    def __init__(self, choices: Sequence[str], context: str) -> None:
        super().__init__(choices)
        self.context = context

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter as error:
            from ..syntax.synonyms import lookup

            synonym = lookup(str(value), (self.context,))
            if synonym is None:
                raise
            raise click.BadParameter(f"{error.message} {synonym.help}.", ctx, param) from None


class GroupedOption(click.Option):
    """An option listed under `group` in the help."""

    def __init__(self, *args: Any, group: str = "Other", **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.group = group


def _printing(text: Callable[[click.Context, Any], str]) -> Callable[..., None]:
    """An eager option's callback that prints the text for its value, and ends the tool.

    Not by click's own means, which take a full disk for any error of the system.
    """

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> None:
        if value and not ctx.resilient_parsing:
            errors.write_stdout(text(ctx, value))
            ctx.exit()

    return callback


class PlainCommand(click.Command):
    """A command whose --help says where it could not be written."""

    def get_help_option(self, ctx: click.Context) -> click.Option | None:
        help_option = super().get_help_option(ctx)
        if help_option is not None:
            help_option.callback = _printing(lambda ctx, _: f"{ctx.get_help()}\n")
        return help_option


class CommandGroup(PlainCommand, click.Group):
    """A command that has commands."""

    command_class = PlainCommand

    def require_command(self, ctx: click.Context) -> None:
        """Raise UsageError where none of the commands is given."""
        if ctx.invoked_subcommand is None:
            *names, last = self.commands
            raise click.UsageError(f"give a command: {', '.join(names)} or {last}", ctx)


class GroupedCommand(PlainCommand):
    """A command whose help lists options by group.

    `bare` maps an option to the value that it has when it is given without one.  (click's own optional
    values would take a file name after the option for its value.)
    """

    def __init__(self, *args: Any, bare: Mapping[str, str] | None = None, **attrs: Any) -> None:
        super().__init__(*args, **attrs)
        self.bare = bare or {}

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        end = args.index("--") if "--" in args else len(args)  # what follows it is no option
        full = [f"{a}={self.bare[a]}" if a in self.bare and i < end else a for i, a in enumerate(args)]
        if level := next((a for a in full[:end] if _LEVEL.fullmatch(a)), None):
            raise click.UsageError(
                f"no such option {level}: -O has no levels, and runs the default passes", ctx
            )
        ctx.meta[ARGUMENTS] = tuple(full)
        try:
            return super().parse_args(ctx, full)
        except click.NoSuchOption as error:
            name = error.option_name.lstrip("-").replace("-", "_")
            if any("--pass" in param.opts for param in self.params) and name in _passes():
                message = f"no such option {error.option_name}: a pass is run by --pass={name}"
                raise click.UsageError(message, ctx) from None
            meant = _FOREIGN_OPTIONS.get(name, "")
            if name in _OF_WORKGROUPS:
                message = f"no such option {error.option_name}: the invocations of a workgroup are in the head of a program, program @p workgroup(64)"
                raise click.UsageError(message, ctx) from None
            if meant and any(meant.partition("=")[0] in param.opts for param in self.params):
                value = next(
                    (
                        a.partition("=")[2]
                        for a in ctx.meta[ARGUMENTS]
                        if a.startswith(f"{error.option_name}=")
                    ),
                    "",
                )
                written = f"{meant}={value}" if value and "=" not in meant else meant
                raise click.UsageError(f"no such option {error.option_name}: write {written}", ctx) from None
            raise
        except click.UsageError as error:
            for option, value in pairwise(args[:end]):
                if option in self.bare and "extra argument" in error.message and not value.startswith("-"):
                    help = f"a file of {option} is written {option}={value}"
                    raise click.UsageError(f"{error.message}; {help}", ctx) from None
            if "extra argument" in error.message:
                raise click.UsageError(
                    f"{error.message}; one FILE is read, run it again for another", ctx
                ) from None
            raise

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            record = param.get_help_record(ctx) if isinstance(param, click.Option) else None
            if record is not None:
                groups.setdefault(getattr(param, "group", "Other"), []).append(record)
        for name, records in groups.items():
            with formatter.section(name):
                formatter.write_dl(records)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        formatter.write(f"\n{self.epilog}" if self.epilog else "")


_FOREIGN_OPTIONS = {
    "passes": "--pass", "pipeline": "--pass-pipeline", "run_pass": "--pass", "optimize": "-O", "opt": "-O", "gpu": "--target", "arch": "--target",
    "gpu_arch": "--target", "march": "--target", "device": "--target", "input": "--in", "inputs": "--in", "output": "-o", "length": "--len",
    "size": "--len", "shape": "--len", "blocks": "--grid", "workgroups": "--grid", "program": "--entry", "kernel": "--entry", "define": "--spec",
}  # fmt: skip
"""Options of other tools, and what they are here."""
_OF_WORKGROUPS = (
    "block",
    "block_size",
    "threads",
    "workgroup",
    "workgroup_size",
    "local_size",
    "num_threads",
)
"""Options of other tools for what a program's text says here."""


def _passes() -> Collection[str]:
    from ..passes.registry import BUILTIN

    return BUILTIN


def option(names: str, help: str, group: str = "Other", **attrs: Any) -> Callable[[FC], FC]:
    """`click.option` of `names`, which spaces separate, listed under `group` in the help."""
    return click.option(*names.split(), cls=GroupedOption, help=help, group=group, **attrs)


def flag(names: str, help: str, group: str) -> Callable[[FC], FC]:
    return option(names, help, group, is_flag=True)


def checked(check: Callable[[Any], Any]) -> Callable[..., Any]:
    """An option's callback that applies `check` to its value, or to each; a ValueError becomes a usage error."""

    def callback(ctx: click.Context, param: click.Parameter, value: Any) -> Any:
        try:
            if param.multiple:
                return tuple([check(item) for item in value])
            return None if value is None else check(value)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def parse_assignment(text: str) -> tuple[str, str]:
    """The two sides of `NAME=VALUE`; the name without a leading @.  Raises ValueError."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip("@ ") or not value.strip():
        stem = os.path.splitext(os.path.basename(text.strip("=")))[0]
        is_file = "." in text and stem.isidentifier()
        example = f"{stem if is_file else 'NAME'}={text.strip('=') or 'VALUE'}"
        raise ValueError(
            f"{text!r} is not NAME=VALUE; write {example}, with the name that the program has for it"
        )
    return name.strip().removeprefix("@"), value.strip()


def _threshold(text: str) -> float:
    """A number of elements above zero, which may be `inf`.  Raises ValueError."""
    try:
        threshold = float(text)
    except ValueError:
        threshold = 0.0
    if not threshold > 0:
        raise ValueError(f"{text!r} is not a number above zero")
    return threshold


PAIRS: dict[str, Any] = {"multiple": True, "callback": checked(parse_assignment)}
"""Attributes of an option that takes NAME=VALUE any number of times."""


def optimize_options(help: str, group: str) -> Callable[[FC], FC]:
    """Adds -O, and the options that limit what it fuses."""
    max_group_bytes = "With -O: join no launches whose buffers hold more bytes in all; 0 for any number."
    threshold = "With -O: join no launches whose fusion pressure is above T elements a link."

    # the last that is added comes first in the help, as in a column of decorators
    def add(command: FC) -> FC:
        command = option(
            "--max-group-bytes", max_group_bytes, group, metavar="N", type=click.IntRange(min=0)
        )(command)
        check = checked(_threshold)
        command = option("--fusion-threshold", threshold, group, metavar="T", callback=check)(command)
        return flag("-O --optimize", help, group)(command)

    return add


def color_option(group: str) -> Callable[[FC], FC]:
    """Adds --color, whose value is whether to colour."""
    choices = click.Choice(("auto", "always", "never"))
    return option(
        "--color",
        "Colour messages; auto minds NO_COLOR.",
        group,
        type=choices,
        default="auto",
        callback=lambda ctx, param, value: errors.use_color(value),
    )


def common_options(tool: str) -> Callable[[FC], FC]:
    """Adds --completion, --timeout and --version."""
    help = "Print the completion script of a shell, and exit."

    def completion(ctx: click.Context, shell: str) -> str:
        from .completion import completion_script

        return completion_script(ctx.command, shell)

    def add(command: FC) -> FC:
        command = option(
            "--timeout",
            "Give up after so many seconds, whatever is being done.",
            type=float,
            metavar="SECONDS",
            callback=checked(set_time_limit),
            expose_value=False,
            is_eager=True,
        )(command)
        command = option(
            "--version",
            "Show the version and exit.",
            is_flag=True,
            callback=_printing(lambda ctx, _: f"{tool} {__version__}\n"),
            expose_value=False,
            is_eager=True,
        )(command)
        return option(
            "--completion",
            help,
            type=click.Choice(SHELLS),
            callback=_printing(completion),
            expose_value=False,
            is_eager=True,
        )(command)

    return add


def max_input_option(default: str = "1G") -> Callable[[FC], FC]:
    """Adds --max-input, the ceiling of what is read whole; `default` is the size if it is not given."""

    def keep(text: str) -> None:
        from ..ir.bounded_read import read_size

        click.get_current_context().meta[MAX_INPUT] = read_size(text), text

    return option(
        "--max-input",
        "Read no file and no stream of more bytes. What is searched part by part has no such limit.",
        metavar="SIZE",
        default=default,
        show_default=True,
        callback=checked(keep),
        expose_value=False,
    )


def limits_option() -> Callable[[FC], FC]:
    """Adds --limits, whose value is a `Limits`, or None."""

    def parse(text: str) -> Any:
        from ..execution.limits import Limits

        return Limits.parse(text)

    return option(
        "--limits",
        "Work in a process of its own that may take no more: of time (seconds), memory, input, output (bytes), grid "
        "(workgroups), compile (seconds); plugins=true and cache=true allow those.",
        metavar="NAME=VALUE,...",
        callback=checked(parse),
    )


def run_under_limits(
    ctx: click.Context,
    tool: str,
    values: dict[str, Any],
    files: Sequence[str | None],
    folder: str | None = None,
) -> int | None:
    """The exit code of the tool in a process of its own; None without --limits, and in that process.

    Removes the limits from `values`.  `tool`, `files`, `folder`: see `run_limited`.
    """
    limits = values.pop("limits")
    if limits is None or output_channel.is_limited_child():
        return None
    from .limited import run_limited

    arguments = [*ctx.meta[ARGUMENTS]]
    color = f"--color={'always' if values['color'] else 'never'}"  # its stderr is a pipe
    arguments.insert(arguments.index("--") if "--" in arguments else len(arguments), color)
    return run_limited(tool, ctx.info_name or tool, arguments, limits, files, folder)


def lacks(option: str, other: str) -> click.UsageError:
    """The error of an option that has a meaning beside another one only, which is not given."""
    return click.UsageError(f"{option} is of {other}: write {other}, too")


def default_passes(options: dict[str, Any]) -> str:
    """The passes of -O, with its limits; empty without -O.  All three are removed from `options`."""
    limits = {name: options.pop(name) for name in ("fusion_threshold", "max_group_bytes")}
    if not options.pop("optimize"):
        for name, limit in limits.items():
            if limit is not None:
                raise lacks(f"--{name.replace('_', '-')}", "-O")
        return ""
    from ..passes.pipeline_text import default_pipeline
    from ..passes.registry import PassError

    try:
        return default_pipeline(**limits)
    except PassError as error:
        raise click.UsageError(str(error)) from None
